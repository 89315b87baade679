//! Units of groups concern nobody but themselves, and go where the settings of instances let them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use nats_elect::{
    BoxError, Group, GroupHandle, MemberConfig, RoleHandler, RoleManager, Term, handler_fn,
};
use nats_elect_testing::{NatsServer, eventually};

use crate::support::member::{GROUP, LEASE, group, joining, stop, waits};
use crate::support::{SOON, comes_true};

fn config() -> MemberConfig {
    MemberConfig::default().ttl(LEASE)
}

async fn start(server: &NatsServer, id: &str, member: MemberConfig, group: Group) -> RoleManager {
    let joining = joining(&server.url(), id, group).member(member);
    joining.start().await.expect("start")
}

async fn until(group: &GroupHandle, what: &str, fulfilled: impl Fn(&GroupHandle) -> bool) {
    let waited = tokio::time::timeout(SOON, group.wait_until(|it| fulfilled(it))).await;
    assert!(waited.is_ok(), "{what}: {:?}", group.owners());
}

fn owner(group: &GroupHandle, unit: &str) -> Option<String> {
    Some(group.owner(unit)?.instance_id)
}

/// A handler that is unhealthy as long as this says so.
struct Sick(Arc<AtomicBool>);

impl RoleHandler for Sick {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        term.cancelled().await;
        Ok(())
    }

    async fn healthy(&self) -> bool {
        !self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_that_fails_its_health_check_moves_alone() {
    let server = NatsServer::start().expect("start");
    let sick = [Arc::default(), Arc::default()];
    let make = |sick: &Arc<AtomicBool>| {
        let group = Group::spread(GROUP).unit("sick", Sick(Arc::clone(sick)));
        group.unit("well", waits()).unit("other", waits())
    };
    let a = start(&server, "a", config(), make(&sick[0])).await;
    let b = start(&server, "b", config(), make(&sick[1])).await;
    let seen = group(&a);
    let spread = |it: &GroupHandle| {
        let owners = ["sick", "well", "other"].map(|unit| owner(it, unit));
        owners.iter().all(Option::is_some) && owners.contains(&Some("b".into()))
    };
    until(&seen, "both own units", spread).await;
    let first = owner(&seen, "sick").expect("an owner");
    sick[usize::from(first == "b")].store(true, Ordering::SeqCst);
    until(&seen, "it moves", |it| {
        let now = owner(it, "sick");
        now.is_some() && now.as_ref() != Some(&first)
    })
    .await;
    stop(a).await;
    stop(b).await;
}

/// A handler that fails at once on one instance.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_whose_handler_keeps_failing_on_an_instance_moves_to_another() {
    let server = NatsServer::start().expect("start");
    let runs = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&runs);
    let fails = handler_fn(move |_: Term| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Err("no disk".into()) }
    });
    let make = |handler| {
        let group = Group::spread(GROUP).unit("job", handler);
        group.unit("well", waits())
    };
    let a = start(&server, "a", config(), make(fails.boxed())).await;
    comes_true("it fails", async || runs.load(Ordering::SeqCst) > 0).await;
    let b = start(&server, "b", config(), make(waits().boxed())).await;
    until(&group(&b), "it moves", |it| {
        it.mine().contains(&"job".to_owned())
    })
    .await;
    // It fails once a heartbeat at first, and then ever more rarely.
    assert!(runs.load(Ordering::SeqCst) < 40, "{runs:?}");
    stop(a).await;
    stop(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_and_limits_decide_what_an_instance_owns() {
    let server = NatsServer::start().expect("start");
    let make = || {
        let group = Group::sharded(GROUP, 12, waits());
        group.requires(["0", "1"], "disk=ssd")
    };
    let a = start(&server, "a", config().max_units(3), make()).await;
    let ssd = config().label("disk=ssd");
    let b = start(&server, "b", ssd, make()).await;
    until(&group(&b), "what the labels and the limit say", |it| {
        let of = |id: &str| {
            it.owners()
                .values()
                .filter(|it| it.as_ref().is_some_and(|it| it.instance_id == id))
                .count()
        };
        of("a") == 3 && of("b") == 9 && owner(it, "0").as_deref() == Some("b")
    })
    .await;
    stop(b).await;
    // Nobody else has the label, and there is room for three.
    until(&group(&a), "three", |it| {
        let owned = it.owners().into_values().flatten().count();
        it.mine().len() == 3 && owned == 3
    })
    .await;
    let plan = eventually(SOON, "a plan without the one that stopped", async || {
        let plan = group(&a).plan().await?;
        let unplaced = plan.iter().filter(|it| it.verdict == "unplaced");
        (unplaced.count() == 9).then_some(plan)
    })
    .await;
    let why = plan.iter().find(|it| it.unit == "0").expect("0");
    assert!(
        why.why.as_ref().is_some_and(|it| it.contains("labels")),
        "{why:?}"
    );
    stop(a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_are_spread_by_the_load_that_their_handlers_report() {
    let server = NatsServer::start().expect("start");
    let reports = || {
        handler_fn(|term: Term| async move {
            let hot = term.shard() == Some(0);
            term.report_load(if hot { 900 } else { 100 });
            term.cancelled().await;
            Ok(())
        })
    };
    let make = || Group::sharded(GROUP, 10, reports());
    let a = start(&server, "a", config(), make()).await;
    let b = start(&server, "b", config(), make()).await;
    // 1,800 in all: the hot one alone is a half.
    let is_even = |it: &GroupHandle| {
        let hot = owner(it, "0");
        let owners = it.owners();
        let beside = owners
            .values()
            .flatten()
            .filter(|it| Some(&it.instance_id) == hot.as_ref());
        hot.is_some() && beside.count() == 1 && owners.values().all(Option::is_some)
    };
    let group = group(&a);
    let waited = tokio::time::timeout(Duration::from_secs(60), group.wait_until(is_even));
    assert!(waited.await.is_ok(), "{:?}", group.owners());
    stop(a).await;
    stop(b).await;
}
