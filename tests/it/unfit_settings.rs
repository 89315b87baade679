//! Settings of a bucket that break elections, at the start and while instances run.

use async_nats::jetstream::stream;
use nats_elect::{EndCause, Error, Event, FailureKind};
use nats_elect_testing::{NatsServer, TcpProxy, eventually};

use crate::support::bucket::Stranger;
use crate::support::dashboard::{self, Scrape};
use crate::support::instance::{
    Instance, Joining, Recorded, ending, first_and_second, guest, never,
};
use crate::support::journal::Journal;
use crate::support::member::{LEASE, all_owned, group, member};
use crate::support::{ROLE, SOON, comes_true, leased_for, ms, served};

/// How often the races are tried.
fn rounds() -> usize {
    let rounds = std::env::var("NATS_ELECT_ROUNDS").ok();
    rounds.map_or(2, |rounds| rounds.parse().expect("a number"))
}

/// Edits the bucket's stream. Returns how it was before.
async fn edit(stranger: &Stranger, change: impl FnOnce(&mut stream::Config)) -> stream::Config {
    let before = stranger.stream().await.cached_info().config.clone();
    let mut settings = before.clone();
    change(&mut settings);
    let edited = stranger.jetstream.update_stream(settings).await;
    edited.expect("edited");
    before
}

async fn restore(stranger: &Stranger, settings: stream::Config) {
    let edited = stranger.jetstream.update_stream(settings).await;
    edited.expect("edited");
}

fn few_keys(settings: &mut stream::Config) {
    settings.discard = stream::DiscardPolicy::Old;
    settings.max_messages = 20;
}

fn few_bytes(settings: &mut stream::Config) {
    settings.discard = stream::DiscardPolicy::Old;
    settings.max_bytes = 65_536;
}

/// A leader that is cut off, and whose keys the server has dropped to make room for others. It may
/// act on until its lease ends. Other instances are not cut off.
struct Dropped {
    server: NatsServer,
    stranger: Stranger,
    journal: Journal,
    leader: Instance,
    _proxy: TcpProxy,
}

impl Dropped {
    async fn new(
        limit: fn(&mut stream::Config),
        also: impl AsyncFnOnce(&NatsServer, &Journal),
    ) -> Self {
        let server = NatsServer::start().expect("start");
        let proxy = TcpProxy::start(server.url()).expect("start a proxy");
        let (stranger, _) = Stranger::with_bucket(&server.url()).await;
        let journal = Journal::default();
        let leader = guest("a", proxy.url(), &journal).standing(leased_for(ms(5000)));
        let leader = leader.start().await;
        leader.wait_until_leader().await;
        also(&server, &journal).await;
        edit(&stranger, limit).await;
        proxy.black_hole();
        let store = stranger.store().await;
        for key in 0..25 {
            let value = vec![b'x'; 4000];
            let put = store.put(format!("_data.x.{key}"), value.into()).await;
            put.expect("a put");
        }
        assert!(
            stranger.find(ROLE).await.is_none(),
            "the leader's key is still there"
        );
        assert!(
            stranger.find("_fence.scheduler").await.is_none(),
            "its fence record is still there"
        );
        Self {
            server,
            stranger,
            journal,
            leader,
            _proxy: proxy,
        }
    }

    fn joining(&self, id: &str) -> Joining {
        guest(id, self.server.url(), &self.journal)
    }
}

async fn starts_beside(limit: fn(&mut stream::Config)) {
    for _ in 0..rounds() {
        let dropped = Dropped::new(limit, async |_, _| {}).await;
        let started = dropped.joining("c").standing(leased_for(ms(5000)));
        let refused = started.try_start().await.map(|_| "started");
        let Err(Error::BucketUnfit(why)) = &refused else {
            panic!("{refused:?}");
        };
        let mend = "`nats stream edit KV_leaders --max-msgs=-1 --max-bytes=-1`";
        assert!(why.contains(mend), "{why}");
    }
}

/// Before, it led at once beside the other, for two thirds of a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_starts_does_not_lead_beside_a_leader_whose_keys_were_dropped_for_others() {
    starts_beside(few_keys).await;
    starts_beside(few_bytes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_runs_does_not_take_up_a_role_whose_keys_were_dropped_for_others() {
    for round in 0..rounds() {
        let limit = if round % 2 == 0 { few_keys } else { few_bytes };
        let mut other = None;
        let dropped = Dropped::new(limit, async |server, journal| {
            let joining = guest("c", server.url(), journal).role("metrics", leased_for(ms(5000)));
            let instance = joining.start().await;
            journal.started("metrics", 0).await;
            other = Some(instance);
        })
        .await;
        let other = other.expect("started");
        let handler = Recorded::obedient("c", &dropped.journal);
        let added = other
            .manager()
            .add_role(ROLE, leased_for(ms(5000)), handler);
        added.await.expect("added");
        other.record(&other.role(ROLE));
        let unfit = |event: &Event| matches!(event, Event::Failure { kind: FailureKind::BucketUnfit, detail, .. } if detail.contains("--max-msgs=-1"));
        // The added role may have been told before anybody could listen.
        let log = other.log_of("metrics");
        log.wait_for("a word of the bucket", unfit).await;
        assert!(!other.is_leader());
        // The bucket is mended when the former leader has surely ended.
        comes_true("the end of the former leader", async || {
            !dropped.leader.is_leader()
        })
        .await;
        edit(&dropped.stranger, |settings| {
            (settings.max_messages, settings.max_bytes) = (-1, -1);
        })
        .await;
        other.wait_until_leader().await;
    }
}

/// The server tells nobody that a setting was changed.
async fn ends_terms(change: fn(&mut stream::Config), words: &str) {
    dashboard::install();
    let (server, journal) = served();
    let (stranger, _) = Stranger::with_bucket(&server.url()).await;
    let a = guest("a", server.url(), &journal).standing(leased_for(ms(5000)));
    let a = a.start().await;
    a.wait_until_leader().await;
    let failures = || {
        let metric = "election_failures_total";
        Scrape::now().value(metric, "a", Some(("error_type", "bucket_unfit")))
    };
    let before = failures();

    let settings = edit(&stranger, change).await;
    let ended = ending(EndCause::BucketLost);
    a.log().wait_for("the end of the term", ended).await;
    let told = |event: &Event| matches!(event, Event::Failure { kind: FailureKind::BucketUnfit, detail, .. } if detail.contains(words));
    a.log().wait_for("what is wrong", told).await;
    assert!(failures() > before);
    never("leadership in an unfit bucket", ms(500), || a.is_leader()).await;

    restore(&stranger, settings).await;
    a.wait_until_leader().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_begins_to_drop_keys_ends_the_terms_until_it_is_mended() {
    ends_terms(few_keys, "--max-msgs=-1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_begins_to_rename_keys_ends_the_terms_until_it_is_mended() {
    let rename = |settings: &mut stream::Config| {
        settings.subject_transform = Some(stream::SubjectTransform {
            source: "$KV.leaders._data.>".into(),
            destination: "$KV.leaders.elsewhere.>".into(),
        });
    };
    ends_terms(rename, "--no-transform").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_max_age_below_the_lease_that_is_set_on_a_living_bucket_ends_the_terms() {
    let brief = |settings: &mut stream::Config| {
        settings.max_age = ms(2000);
        settings.duplicate_window = ms(1000);
    };
    ends_terms(brief, "longer max age").await;
}

/// Where keys live longer than leases, elections go on as in any bucket with a max age.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_longer_max_age_that_is_set_on_a_living_bucket_costs_no_term() {
    let (server, journal) = served();
    let (stranger, _) = Stranger::with_bucket(&server.url()).await;
    let join = |id| guest(id, server.url(), &journal).standing(leased_for(ms(3000)));
    let (a, _b) = first_and_second(join("a"), join("b")).await;
    edit(&stranger, |settings| {
        settings.max_age = ms(8000);
        settings.duplicate_window = ms(1000);
    })
    .await;
    eventually(SOON, "the end of the fence record", async || {
        let fence = stranger.find("_fence.scheduler").await;
        fence.is_none().then_some(())
    })
    .await;
    assert!(a.is_leader() && journal.terms(ROLE).len() == 1);
    drop(a);
    let second = journal.started(ROLE, 1).await;
    assert_eq!(second.instance, "b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_max_age_that_is_set_on_a_living_bucket_ends_the_terms_of_units_until_it_is_gone() {
    let (server, journal) = served();
    let a = member(&server.url(), "a", 4, &journal).await;
    all_owned(&[&a], 4).await;
    let stranger = Stranger::connect(&server.url()).await;
    let settings = edit(&stranger, |settings| {
        settings.max_age = LEASE * 100;
    })
    .await;
    comes_true("the end of all terms", async || group(&a).mine().is_empty()).await;
    restore(&stranger, settings).await;
    all_owned(&[&a], 4).await;
}
