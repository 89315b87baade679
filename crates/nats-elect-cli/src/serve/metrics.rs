//! What Prometheus scrapes. It is made anew for each scrape, so that the series of a role end with
//! the role. The names are not those of instances: `docs/metrics.md` has these.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Label, counter, describe_counter, describe_gauge, gauge, with_local_recorder};
use metrics_exporter_prometheus::PrometheusBuilder;
use nats_elect::{ChangeCause, ConnectionStatus, Observed, RoleState, Standing};

use uuid::Uuid;

use super::Served;
use crate::fleet::{Asked, LACKS, Watched, living};
use crate::seen::is_known_alive;
use crate::text::clean;

/// Versions that are told apart. Whoever may answer in the name of instances can make up any number.
const MOST_VERSIONS: usize = 20;
const OTHER_VERSIONS: &str = "other";
/// Groups of a bucket that are told of. Whoever may write to it can make up any number. A member takes
/// part in as many at most.
const MOST_GROUPS: usize = 256;

/// The name of each, and what it says.
const GAUGES: [&str; 18] = [
    "election_observed_leader_known 1 while a leader of the role is known to be alive, else 0",
    "election_observed_leaderless_seconds How long no leader has been known to be alive, 0 while one is; absent while stale",
    "election_observed_leader_info Always 1, while a leader is known to be alive",
    "election_observed_lease_remaining_seconds Time until the leader's lease has passed as seen from here, if no heartbeat comes",
    "election_observed_lease_ttl_seconds How long a lease of the last leader lasts without renewal",
    "election_observed_fencing_token_sequence Sequence of the leader's fencing token",
    "election_observed_candidates Instances that could lead: the leader, and those that say that they stand, reach NATS and are not paused",
    "election_observed_instances Instances that answer, by version",
    "election_observed_instances_silent Instances that were found and did not tell their status",
    "election_observed_group_units Units of the group",
    "election_observed_group_units_unowned Units of the group without an owner that is known to live, by why that is so",
    "election_observed_group_unowned_seconds The longest time for which a unit has had no owner that is known to live, 0 while all have one; absent while stale",
    "election_observed_group_members Members that are known to live and take units of the group",
    "election_observed_member_lease_ttl_seconds How long the longest lease of a member of groups lasts without renewal",
    "election_observed_current 1 while what is known of the bucket is current, else 0",
    "election_observed_stale_seconds How long what is known has not been current; 0 while it is",
    "election_serve_info Always 1: the running version",
    "election_serve_connections Connections that are open",
];
const COUNTERS: [&str; 2] = [
    "election_observed_changes_total Changes of the role that were seen, by cause",
    "election_serve_requests_total Requests that were answered, by the class of the status",
];

/// What the server counts of itself.
#[derive(Default)]
pub struct Counts {
    pub connections: AtomicU64,
    /// By the first digit of the status.
    pub requests: [AtomicU64; 6],
}

/// All of it, as text.
pub fn render(served: &Served) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    with_local_recorder(&recorder, || {
        for (name, help) in GAUGES.iter().filter_map(|it| it.split_once(' ')) {
            describe_gauge!(name, help);
        }
        for (name, help) in COUNTERS.iter().filter_map(|it| it.split_once(' ')) {
            describe_counter!(name, help);
        }
        for view in served.views.iter() {
            of_bucket(view);
        }
        of_server(served);
    });
    handle.render()
}

/// What is measured, as its labels tell.
#[derive(Default)]
struct Of(Vec<Label>);

impl Of {
    fn and(&self, name: &'static str, value: &str) -> Self {
        let label = Label::new(name, value.to_owned());
        Self([&self.0[..], &[label]].concat())
    }

    fn set(&self, name: &'static str, value: f64) {
        gauge!(name, self.0.clone()).set(value);
    }

    fn add(&self, name: &'static str, value: u64) {
        counter!(name, self.0.clone()).absolute(value);
    }
}

fn of_bucket(view: &Watched) {
    let bucket = Of::default().and("bucket", &view.bucket);
    let stale = view.freshness().stale.map(|(since, _)| since);
    let is_stale = stale.is_some();
    bucket.set("election_observed_current", flag(!is_stale));
    let stale = stale.unwrap_or_default().as_secs_f64();
    bucket.set("election_observed_stale_seconds", stale);
    of_groups(view, &bucket);
    let candidates = of_instances(&bucket, &view.asked());
    for (role, seen) in view.roles() {
        let able = candidates.by_role.get(&role).copied();
        // Nothing is left of it, and nobody wants it.
        if seen.standing == Standing::Unclaimed && able.is_none() {
            continue;
        }
        let of = bucket.and("role", &role);
        of_role(&view.counts(&role), &seen, &of);
        if !is_stale {
            let unled = seen.unled.unwrap_or_default().as_secs_f64();
            of.set("election_observed_leaderless_seconds", unled);
        }
        if candidates.are_known {
            let able = able.unwrap_or(0) + usize::from(candidates.lack(&seen));
            of.set("election_observed_candidates", count(able));
        }
    }
}

fn of_groups(view: &Watched, bucket: &Of) {
    let groups = view.groups.groups();
    let mut told: Vec<_> = groups.all.groups.iter().collect();
    told.sort_by_cached_key(|(name, group)| {
        let has_member = groups.all.members_of(name).next().is_some();
        Reverse((has_member, group.unit_count()))
    });
    told.truncate(MOST_GROUPS);
    for (name, group) in told {
        let of = bucket.and("group", name);
        let unowned = groups.unowned(group);
        for why in LACKS {
            let units = count(unowned.get(why).copied().unwrap_or(0));
            let of = of.and("standing", why);
            of.set("election_observed_group_units_unowned", units);
        }
        of.set("election_observed_group_units", count(group.unit_count()));
        if let Some(longest) = view.groups.unowned_for(name) {
            let longest = longest.as_secs_f64();
            of.set("election_observed_group_unowned_seconds", longest);
        }
        let members = living(group).filter(|member| !member.cordoned && !member.leaves);
        of.set("election_observed_group_members", count(members.count()));
    }
    let all = groups.all.groups.values();
    let leases = all.flat_map(|it| it.members.values().filter(|it| !it.over));
    if let Some(ttl) = leases.filter_map(|member| member.ttl).max() {
        let ttl = ttl.as_secs_f64();
        bucket.set("election_observed_member_lease_ttl_seconds", ttl);
    }
}

/// The instances that could lead.
struct Candidates {
    /// Whether the instances could be asked.
    are_known: bool,
    /// How many could lead each role, by their own words.
    by_role: BTreeMap<String, usize>,
    /// All that answer.
    answering: BTreeSet<Uuid>,
}

impl Candidates {
    /// Whether the role has a leader that does not answer.
    fn lack(&self, seen: &Observed) -> bool {
        let leader = seen.leader.as_ref();
        let leader = leader.filter(|_| is_known_alive(seen));
        leader.is_some_and(|leader| {
            let incarnation = leader.incarnation;
            incarnation.is_none_or(|incarnation| !self.answering.contains(&incarnation))
        })
    }
}

fn of_instances(bucket: &Of, asked: &Asked) -> Candidates {
    let mut candidates = BTreeMap::new();
    let mut answering = BTreeSet::new();
    let mut versions = BTreeMap::<String, usize>::new();
    let mut silent = 0;
    for one in &*asked.reports {
        let Ok(report) = &one.report else {
            silent += 1;
            continue;
        };
        answering.insert(one.instance.incarnation);
        for (role, says) in &report.roles {
            let is_ready = says.connection == Some(ConnectionStatus::Connected)
                && !says.paused
                && says.state.is_some_and(|state| state != RoleState::Stopped);
            *candidates.entry(role.clone()).or_default() += usize::from(is_ready);
        }
        let version = clean(&one.instance.version);
        let is_known = versions.contains_key(&version) || versions.len() < MOST_VERSIONS;
        let version = if is_known {
            version
        } else {
            OTHER_VERSIONS.into()
        };
        *versions.entry(version).or_default() += 1;
    }
    for (version, instances) in versions {
        let of = bucket.and("version", &version);
        of.set("election_observed_instances", count(instances));
    }
    bucket.set("election_observed_instances_silent", count(silent));
    Candidates {
        are_known: asked.at.is_some() && asked.problem.is_none(),
        by_role: candidates,
        answering,
    }
}

fn of_role(counts: &BTreeMap<&'static str, u64>, observed: &Observed, of: &Of) {
    let is_known = is_known_alive(observed);
    of.set("election_observed_leader_known", flag(is_known));
    if let Some(ttl) = observed.ttl {
        of.set("election_observed_lease_ttl_seconds", ttl.as_secs_f64());
    }
    for cause in ChangeCause::ALL {
        let changes = counts.get(cause.as_str()).copied().unwrap_or(0);
        let of = of.and("cause", cause.as_str());
        of.add("election_observed_changes_total", changes);
    }
    let Some(leader) = observed.leader.as_ref().filter(|_| is_known) else {
        return;
    };
    let info = of.and("instance_id", &clean(&leader.instance_id));
    info.set("election_observed_leader_info", 1.0);
    let left = observed.remaining.unwrap_or_default().as_secs_f64();
    of.set("election_observed_lease_remaining_seconds", left);
    if let Some(token) = observed.fencing_token {
        let sequence = whole(token.sequence);
        of.set("election_observed_fencing_token_sequence", sequence);
    }
}

fn of_server(served: &Served) {
    let version = Of::default().and("version", env!("CARGO_PKG_VERSION"));
    version.set("election_serve_info", 1.0);
    let connections = served.counts.connections.load(Ordering::Relaxed);
    Of::default().set("election_serve_connections", whole(connections));
    let classes = ["2xx", "3xx", "4xx", "5xx"];
    for (class, requests) in classes.iter().zip(&served.counts.requests[2..]) {
        let of = Of::default().and("status", class);
        let requests = requests.load(Ordering::Relaxed);
        of.add("election_serve_requests_total", requests);
    }
}

fn flag(is_so: bool) -> f64 {
    f64::from(u8::from(is_so))
}

fn count(number: usize) -> f64 {
    whole(u64::try_from(number).unwrap_or(u64::MAX))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "Prometheus has floating point numbers alone"
)]
const fn whole(number: u64) -> f64 {
    number as f64
}
