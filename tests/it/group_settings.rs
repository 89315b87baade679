//! Instances whose settings differ from the group, or break a rule.

use nats_elect::{ElectionsConfig, Error, Group, MemberConfig, RoleManager, RoleManagerBuilder};
use nats_elect_testing::{NatsServer, eventually};

use crate::support::logs::{self, records};
use crate::support::member::{GROUP, LEASE, all_owned, group, member_with, stop, waits};
use crate::support::{SOON, comes_true, ms};

fn spread(names: &[&str]) -> Group {
    let group = Group::spread(GROUP);
    names
        .iter()
        .fold(group, |group, it| group.unit(*it, waits()))
}

/// The only warning of this instance that has this text, which is logged and not repeated.
async fn warned(id: &str, text: &str) {
    let logs = logs::install();
    eventually(SOON, text, async || {
        let found = records(&logs.text(), id, text);
        (!found.is_empty()).then_some(())
    })
    .await;
    // Several heartbeats of both come meanwhile.
    tokio::time::sleep(LEASE).await;
    let found = records(&logs.text(), id, text);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].contains(" WARN ") && found[0].contains(GROUP),
        "{}",
        found[0]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_number_of_shards_in_the_settings_is_warned_of_once_and_the_groups_own_counts() {
    let logs = logs::install();
    let server = NatsServer::start().expect("start");
    let (first, other) = ("number-as-group", "number-differs");
    let a = member_with(&server.url(), first, Group::sharded(GROUP, 8, waits())).await;
    all_owned(&[&a], 8).await;
    let b = member_with(&server.url(), other, Group::sharded(GROUP, 16, waits())).await;
    warned(other, "nats-elect group grow partitions 16").await;
    comes_true("half of the shards", async || group(&b).mine().len() == 4).await;
    all_owned(&[&a, &b], 8).await;
    assert_eq!((group(&a).shards(), group(&b).shards()), (Some(8), Some(8)));
    let others = records(&logs.text(), first, "group grow");
    assert_eq!(others, [""; 0], "its settings are right");
    stop(a).await;
    stop(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_that_only_others_name_stay_with_them_and_are_warned_of_once() {
    logs::install();
    let server = NatsServer::start().expect("start");
    let (first, other) = ("names-first", "names-other");
    let a = member_with(&server.url(), first, spread(&["network", "scheduler"])).await;
    let b = member_with(&server.url(), other, spread(&["metrics", "network"])).await;
    let owner = |member: &RoleManager, unit: &str| Some(group(member).owner(unit)?.instance_id);
    eventually(SOON, "an owner of each unit", async || {
        let a_has = owner(&a, "scheduler")? == first && owner(&a, "network").is_some();
        (a_has && owner(&b, "metrics")? == other).then_some(())
    })
    .await;
    let metrics = "units of the group that the settings do not name: metrics.";
    let scheduler = "units of the group that the settings do not name: scheduler.";
    tokio::join!(warned(first, metrics), warned(other, scheduler));
    stop(b).await;
    comes_true("the unit that both know", async || {
        group(&a).mine() == ["network", "scheduler"]
    })
    .await;
    tokio::time::sleep(LEASE).await;
    assert_eq!(group(&a).mine(), ["network", "scheduler"]);
    stop(a).await;
}

/// A group that is sharded here and spread there is what its map says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_with_another_kind_of_units_owns_nothing_and_says_why_and_is_not_ready() {
    let server = NatsServer::start().expect("start");
    let (first, other) = ("kind-as-group", "kind-differs");
    let a = member_with(&server.url(), first, Group::sharded(GROUP, 4, waits())).await;
    all_owned(&[&a], 4).await;
    let b = member_with(&server.url(), other, spread(&["network", "3"])).await;
    let text = "this instance owns nothing of the group: the group has shards, and the settings have named units";
    warned(other, text).await;
    // Longer than a member takes to join and to get its share.
    tokio::time::sleep(LEASE * 2).await;
    all_owned(&[&a], 4).await;
    assert!(group(&a).has_joined() && !group(&b).has_joined());
    let ready = b.probe().ready();
    assert!(!ready.ready && !ready.groups[GROUP].ready, "{ready:?}");
    let moved = group(&a).move_unit("0", other).await;
    assert!(moved.is_err(), "{moved:?}");
    assert_eq!(group(&b).owners().len(), 0);
    // It takes nothing either when nobody else is there.
    stop(a).await;
    tokio::time::sleep(LEASE).await;
    assert!(group(&b).mine().is_empty());
    stop(b).await;
}

fn file(text: &str) -> ElectionsConfig {
    toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_gets_the_settings_of_a_file_and_its_own_where_the_file_has_none() {
    let server = NatsServer::start().expect("start");
    let config = file(
        "[manager]\nbucket_auto_create = true\nmember.ttl = '5s'\nmember.labels = ['disk=ssd']\n\
         [groups.partitions]\nshards = 6\nrequires = { 1 = ['disk=ssd'], 2 = ['gpu'] }\n",
    );
    // The file has another number, and other units that require something.
    let own = Group::sharded(GROUP, 0, waits())
        .requires(["0"], "nobody has it")
        .data_limit(2048);
    let builder = RoleManager::builder().config(config).servers(server.url());
    let a = builder.configured_group(own).start().await.expect("start");
    comes_true("all shards that may be owned", async || {
        group(&a).mine() == ["0", "1", "3", "4", "5"]
    })
    .await;
    assert_eq!(group(&a).shards(), Some(6));
    stop(a).await;
}

#[tokio::test]
async fn a_file_that_does_not_fit_a_group_is_refused_before_anything_connects() {
    let start = async |text: &str, group: Group| {
        let builder = RoleManager::builder().config(file(text));
        let builder = builder.servers("nats://127.0.0.1:1");
        let started = builder.configured_group(group).start().await;
        started.expect_err(text).to_string()
    };
    let sharded = || Group::sharded(GROUP, 0, waits());
    let a = || spread(&["a"]);
    for (text, group, expected) in [
        (
            "",
            sharded(),
            "`groups.partitions` is missing, but `configured_group` needs it",
        ),
        (
            "[groups.other]",
            sharded(),
            "`groups.partitions` is missing",
        ),
        (
            "[groups.partitions]",
            sharded(),
            "`shards` is 0, but must be from 1 to 65536",
        ),
        (
            "[groups.partitions]\nshards = 70000",
            sharded(),
            "`shards` is 70000",
        ),
        (
            "[groups.partitions]\nshards = 8",
            a(),
            "`shards` is 8, but a sharded group has it",
        ),
        (
            "[groups.partitions]\nshards = 8",
            sharded().unit("a", waits()),
            "`shards` is 8",
        ),
        (
            "[groups.partitions]\nweights = { b = 2 }",
            a(),
            "`weights` is \"b\", but must be a unit",
        ),
        (
            "[groups.partitions]\napart = [['a', 'b']]",
            a(),
            "`apart` is \"b\", but must be a unit",
        ),
    ] {
        let error = start(text, group).await;
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[tokio::test]
async fn settings_of_groups_that_break_a_rule_are_refused_before_anything_connects() {
    let start = async |groups: Vec<Group>| {
        let builder = RoleManager::builder().servers("nats://127.0.0.1:1");
        let builder = groups.into_iter().fold(builder, RoleManagerBuilder::group);
        let started = builder.start_timeout(ms(60_000)).start().await;
        started.expect_err("a broken rule")
    };
    let twice = start(vec![Group::sharded(GROUP, 4, waits()), spread(&["a"])]).await;
    assert!(
        matches!(&twice, Error::DuplicateGroup(name) if name.as_str() == GROUP),
        "{twice:?}"
    );
    for name in ["", "a.b", "a b", "_a"] {
        let no_group = start(vec![Group::sharded(name, 4, waits())]).await;
        assert!(matches!(no_group, Error::Name(_)), "{name:?}: {no_group:?}");
        let no_unit = start(vec![spread(&[name])]).await;
        assert!(matches!(no_unit, Error::Name(_)), "{name:?}: {no_unit:?}");
    }
    let named = Group::sharded(GROUP, 4, waits()).unit("a", waits());
    let many = (0..257).fold(Group::spread(GROUP), |group, n| {
        group.unit(format!("unit-{n}"), waits())
    });
    let four = || Group::sharded(GROUP, 4, waits());
    for (broken, setting) in [
        (Group::sharded(GROUP, 0, waits()), "shards"),
        (Group::sharded(GROUP, 65_537, waits()), "shards"),
        (named, "shards"),
        (Group::spread(GROUP), "units"),
        (spread(&["a", "b", "a"]), "units"),
        (many, "units"),
        (spread(&["a"]).weight("b", 2000), "weights"),
        (spread(&["a"]).weight("a", 0), "weights.a"),
        (spread(&["a"]).apart(["a", "b"]), "apart"),
        (spread(&["a"]).requires([""], "gpu"), "requires"),
        (four().apart(["1", "1"]), "apart[0]"),
        (four().across_zones(["a"]), "across_zones"),
        (four().prefers(["1"], ""), "prefers"),
        (four().data_limit(1023), "data_limit"),
    ] {
        let refused = start(vec![broken]).await;
        let Error::GroupConfig { group, error } = &refused else {
            panic!("{setting}: {refused:?}");
        };
        assert_eq!((&**group, &*error.field), (GROUP, setting), "{refused}");
    }
    let builder = RoleManager::builder().servers("nats://127.0.0.1:1");
    let member = MemberConfig::default().ttl(ms(60_001));
    let long = builder.member(member).group(spread(&["a"])).start().await;
    assert!(
        matches!(&long, Err(Error::Config(it)) if it.field == "member.ttl"),
        "{long:?}"
    );
}
