//! Groups that people operate: plans, units that are moved by hand, and other numbers of shards.

use nats_elect::admin::{AdminError, ProblemCode};
use nats_elect::{AuthConfig, Group, RoleManager, RoleManagerBuilder, UnitExplanation};
use nats_elect_testing::{NatsServer, eventually};

use crate::privileges::server as deployed;
use crate::support::instance::make_bucket;
use crate::support::member::{GROUP, group, joining, member_with, stop, waits};
use crate::support::operator::{Operator, SEARCH, refusal};
use crate::support::user::User;
use crate::support::{BUCKET, SOON};

fn member(url: &str, id: &str, shards: u32) -> RoleManagerBuilder {
    joining(url, id, Group::sharded(GROUP, shards, waits()))
}

/// Two members, each with half of the shards, and a coordinator that has nothing left to do.
async fn pair(server: &NatsServer, shards: u32) -> (RoleManager, RoleManager) {
    let sharded = || Group::sharded(GROUP, shards, waits());
    let join = async |id| member_with(&server.url(), id, sharded()).await;
    let (a, b) = (join("a").await, join("b").await);
    evenly(&a, &b, shards).await;
    (a, b)
}

/// The last shard of a member.
fn last(member: &RoleManager) -> String {
    let mine = group(member).mine().into_iter();
    let mine = mine.map(|it| it.parse::<u32>().expect("a number"));
    mine.max().expect("a shard").to_string()
}

async fn evenly(a: &RoleManager, b: &RoleManager, shards: u32) {
    eventually(SOON, "half of the shards on each", async || {
        let half = |it: &RoleManager| group(it).mine().len() == shards as usize / 2;
        let plan = group(a).plan().await?;
        // The last move may not have been shown to the one that made it.
        let owner = |it: &RoleManager, shard: u32| {
            let owner = group(it).owner(&shard.to_string());
            owner.map(|it| it.instance_id)
        };
        let same = (0..shards).all(|shard| owner(a, shard) == owner(b, shard));
        (half(a) && half(b) && plan.is_empty() && same).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_goes_where_it_is_moved_by_hand_whoever_asks() {
    let server = NatsServer::start().expect("start");
    let (a, b) = pair(&server, 60).await;
    let unit = last(&a);
    let token = |it: &RoleManager| group(it).owner(&unit)?.fencing_token;
    let before = token(&a).expect("its own token");
    assert_eq!(token(&b), None, "others know no token");
    // Its owner is asked, or the one that is to have it.
    let owner = group(&a).move_unit(&unit, "b").await.expect("moved");
    assert_eq!(owner.instance_id, "b");
    eventually(SOON, "its handler on the new owner", async || {
        token(&b).filter(|it| *it > before)
    })
    .await;
    let plan = group(&a).plan().await.expect("a plan");
    let goes_back = |it: &UnitExplanation| it.unit == unit && it.verdict == "moves";
    assert!(!plan.iter().any(goes_back), "{plan:?}");
    evenly(&a, &b, 60).await;
    let other = last(&b);
    // Here the answer comes when the handler may act.
    let owner = group(&a).move_unit(&other, "a").await.expect("moved");
    assert_eq!(owner.instance_id, "a");

    eventually(SOON, "the new owner, as the old one sees it", async || {
        let owner = group(&b).owner(&other);
        owner.is_some_and(|it| it.instance_id == "a").then_some(())
    })
    .await;
    let there = group(&b).move_unit(&other, "a").await;
    assert_eq!(there.map_err(|it| it.code), Err(ProblemCode::AlreadyThere));
    let unknown = group(&a).move_unit("60", "b").await;
    assert_eq!(unknown.map_err(|it| it.code), Err(ProblemCode::UnknownUnit));
    let nobody = group(&a).move_unit(&other, "c").await.expect_err("nobody");
    assert_eq!(nobody.code, ProblemCode::NotReady);
    assert!(nobody.reason.contains("takes no part"), "{nobody}");
    b.cordon().await.expect("cordon");
    eventually(SOON, "a refusal of the one that is cordoned", async || {
        let refused = group(&a).move_unit(&other, "b").await;
        let code = refused.err()?.code;
        (code == ProblemCode::TakesNone).then_some(())
    })
    .await;
    stop(a).await;
    stop(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_the_plan_would_undo_is_refused() {
    let server = NatsServer::start().expect("start");
    let heavy = async |id| {
        let group = Group::sharded(GROUP, 3, waits()).weight("0", 2_000);
        member_with(&server.url(), id, group).await
    };
    let (a, b) = (heavy("a").await, heavy("b").await);
    let (alone, other, refused) = eventually(SOON, "a refusal", async || {
        let (of_a, of_b) = (group(&a).mine(), group(&b).mine());
        let (alone, other) = match (of_a.len(), of_b.len()) {
            (1, 2) if of_a == ["0"] => ("a", "b"),
            (2, 1) if of_b == ["0"] => ("b", "a"),
            _ => return None,
        };
        // One that has only just come, or whose heartbeats are late, has no part in the balance.
        let refused = group(&b).move_unit("0", other).await.err()?;
        Some((alone, other, refused))
    })
    .await;
    assert_eq!(refused.code, ProblemCode::TakenBack);
    let text = refused.to_string();
    let told = format!("would take unit \"0\" away from {other:?} again (balance)");
    assert!(
        text.contains(&told) && text.contains("give the unit a weight"),
        "{text}"
    );
    let owner = group(&a).owner("0").expect("an owner");
    assert_eq!(owner.instance_id, alone);
    stop(a).await;
    stop(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_says_who_plans_and_what_keeps_units_where_they_are() {
    let server = NatsServer::start().expect("start");
    let (a, b) = pair(&server, 8).await;
    let one = async |it: &RoleManager| group(it).explain("0").await.expect("an explanation");
    let (of_a, of_b) = (one(&a).await, one(&b).await);
    assert_eq!(of_b.coordinator, of_a.coordinator);
    let coordinator = if of_a.is_coordinators { "a" } else { "b" };
    assert_eq!(of_a.coordinator.as_deref(), Some(coordinator));
    assert_ne!(of_b.is_coordinators, of_a.is_coordinators);
    stop(b).await;
    a.cordon().await.expect("cordon");
    // Nobody else is there, so it keeps all.
    eventually(SOON, "a plan that says so", async || {
        let plan = group(&a).plan().await?;
        let kept =
            |it: &UnitExplanation| it.verdict == "unplaced" && it.owner.as_deref() == Some("a");
        (plan.len() == 8 && plan.iter().all(kept)).then_some(())
    })
    .await;
    assert_eq!(group(&a).mine().len(), 8);
    stop(a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_explanation_says_what_becomes_of_a_unit_and_what_speaks_against_each_member() {
    let server = NatsServer::start().expect("start");
    let placed = Group::sharded(GROUP, 2, waits()).requires(["1"], "gpu");
    let a = member_with(&server.url(), "a", placed).await;
    let stays = eventually(SOON, "a unit that stays", async || {
        let explained = group(&a).explain("0").await?;
        (explained.owner.as_deref() == Some("a")).then_some(explained)
    })
    .await;
    assert_eq!((stays.verdict.as_str(), stays.to), ("stays", None));
    assert!(stays.is_coordinators);
    let nobodys = group(&a).explain("1").await.expect("an explanation");
    assert_eq!(
        (nobodys.verdict.as_str(), &nobodys.owner),
        ("unplaced", &None)
    );
    let why = nobodys.why.expect("a reason");
    assert_eq!(why, "no member has the labels that it requires");
    let why_not = nobodys.choices.iter().map(|it| it.why_not.as_deref());
    let why_not: Vec<_> = why_not.collect();
    assert_eq!(why_not, [Some("it lacks a label that the unit requires")]);
    for unknown in ["2", "network", "no name"] {
        assert_eq!(group(&a).explain(unknown).await, None, "{unknown}");
    }
    stop(a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_have_units_moved_and_read_plans_with_their_permissions_alone() {
    let server = deployed();
    make_bucket(&server).await;
    let candidate = async |id: &str| {
        let it = member(&server.url(), id, 60)
            .auth(AuthConfig::default().user_and_password("candidate", "change-me"));
        it.start().await.expect("start")
    };
    let (a, b) = (candidate("a").await, candidate("b").await);
    evenly(&a, &b, 60).await;
    let user = User::connect(&server.url(), "operator", "change-me").await;
    let operator = Operator::with(user.client.clone());
    let (of_a, of_b) = (operator.instance("a").await, operator.instance("b").await);
    let admin = &operator.admin;

    let plan = admin.group_plan(&of_a, GROUP).await.expect("a plan");
    assert_eq!(plan, [], "nothing is to move");
    let report = operator.report(&of_b).await;
    assert_eq!(report.groups[GROUP].units, 30);
    assert!(report.groups[GROUP].takes_units);
    let unit = last(&a);
    let token = admin.take_unit(&of_b, GROUP, &unit).await.expect("taken");
    let owner = group(&b).owner(&unit).expect("an owner");
    assert_eq!(
        (owner.instance_id.as_str(), owner.fencing_token),
        ("b", Some(token))
    );
    for (group, unit, code) in [
        (GROUP, unit.as_str(), ProblemCode::AlreadyThere),
        (GROUP, "60", ProblemCode::UnknownUnit),
        ("others", "0", ProblemCode::UnknownGroup),
    ] {
        let refused = admin.take_unit(&of_b, group, unit).await;
        assert_eq!(refusal(refused), Some(code), "{group} {unit}");
    }
    let refused = admin.group_plan(&of_b, "others").await;
    assert_eq!(refusal(refused), Some(ProblemCode::UnknownGroup));
    let named = admin.resize_group(&of_b, GROUP, 0).await;
    assert_eq!(refusal(named), Some(ProblemCode::BadRequest));
    // Whoever is ordered more often than that within a second says so.
    eventually(SOON, "another number of shards", async || {
        match admin.resize_group(&of_b, GROUP, 40).await {
            Ok(()) => Some(()),
            Err(error) => {
                assert_eq!(error.refusal(), Some(ProblemCode::Busy), "{error}");
                None
            }
        }
    })
    .await;
    evenly(&a, &b, 40).await;
    let unit = group(&b).mine()[0].clone();
    admin.cordon(&of_a, None).await.expect("cordoned");
    eventually(SOON, "no unit on the one that is cordoned", async || {
        let report = admin.status(&of_a).await.ok()?;
        let of_group = &report.groups[GROUP];
        (of_group.units == 0 && !of_group.takes_units).then_some(())
    })
    .await;
    let refused = admin.take_unit(&of_a, GROUP, &unit).await;
    assert_eq!(refusal(refused), Some(ProblemCode::TakesNone));
    assert_eq!(user.denied(), [""; 0], "nothing of all that is forbidden");

    let id = of_a.incarnation;
    let observer = User::connect(&server.url(), "observer", "change-me").await;
    let looks = Operator::with(observer.client.clone());
    looks.admin.group_plan(&of_b, GROUP).await.expect("a plan");
    let explained = looks.admin.explain_unit(&of_b, GROUP, &unit).await;
    let explained = explained.expect("an explanation");
    assert_eq!(explained.owner.as_deref(), Some("b"));
    let why_not = explained.choices.iter();
    let why_not: Vec<_> = why_not
        .map(|it| (it.instance_id.as_str(), it.why_not.as_deref()))
        .collect();
    assert_eq!(why_not, [("a", Some("it is cordoned")), ("b", None)]);
    let unknown = looks.admin.explain_unit(&of_b, GROUP, "60").await;
    assert_eq!(refusal(unknown), Some(ProblemCode::UnknownUnit));
    assert_eq!(observer.denied(), [""; 0]);
    for verb in ["take-unit", "resize-group"] {
        let order = format!("nats-elect-admin.leaders.{verb}.{id}.{GROUP}");
        observer.may_not_publish(&order).await;
    }
    stop(a).await;
    stop(b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_about_groups_are_read_strictly() {
    let server = NatsServer::start().expect("start");
    let a = member(&server.url(), "a", 2).start().await.expect("start");
    let without = RoleManager::builder().servers(server.url()).bucket(BUCKET);
    let without = without.instance_id("b").start().await.expect("start");
    let operator = Operator::of(&server).await;
    let (of_a, of_b) = (operator.instance("a").await, operator.instance("b").await);
    let subject = |verb: &str| format!("nats-elect-admin.{BUCKET}.{verb}.{}", of_a.incarnation);
    let take = format!("{}.{GROUP}", subject("take-unit"));
    let plan = format!("{}.{GROUP}", subject("group-plan"));
    let resize = format!("{}.{GROUP}", subject("resize-group"));
    let cordon = subject("cordon");
    for (subject, body) in [
        (&take, &b"{}"[..]),
        (&take, br#"{"unit":"0","to":"b"}"#),
        (
            &take,
            br#"{"unit":"0","expected_fencing_token":null,"force":true}"#,
        ),
        (&plan, br#"{"unit":"0","to":"b"}"#),
        (&plan, br#"{"unit":"0","why":true}"#),
        (&resize, b"{}"),
        (&resize, br#"{"shards":4,"unit":"0"}"#),
        (&cordon, br#"{"unit":"0"}"#),
    ] {
        let (number, code) = operator.refusal(subject, body).await;
        assert_eq!((&*number, &*code), ("400", "bad_request"), "{subject}");
    }
    // An instance without groups does not even listen.
    let absent = operator.admin.group_plan(&of_b, GROUP).await;
    let no_answer = matches!(absent, Err(AdminError::NoSuchInstance(_)));
    assert!(no_answer, "{absent:?}");
    let known = operator.admin.instances(SEARCH).await.expect("instances");
    assert_eq!(known.len(), 2);
    stop(a).await;
    stop(without).await;
}
