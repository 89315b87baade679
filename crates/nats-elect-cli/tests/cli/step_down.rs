//! `step-down`: who leads afterwards, and what keeps it from being done.

use nats_elect::AdminConfig;
use nats_elect_testing::{NatsServer, eventually};
use serde_json::Value;

use crate::doctor::users_of;
use crate::fleet::{SOON, json, lines, login, output, output_as, stranger};
use crate::pair::{Fleet, answer, builder, follows, leads, started};
use crate::{Ended, ended, nats_elect};

fn step_down(server: &NatsServer, more: &[&str]) -> Ended {
    ended(nats_elect(&["step-down", "--server", &server.url()]).args(more))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_named_successor_leads_when_it_ends() {
    let fleet = Fleet::new().await;
    let output = step_down(&fleet.server, &["scheduler", "--to", "node-2"]).with_code(0);
    let expected = "scheduler: node-1 (";
    assert!(output.stdout.starts_with(expected), "{}", output.stdout);
    assert!(
        output.stdout.contains("handed it over, node-2 ("),
        "{}",
        output.stdout
    );
    let holds = "node-2 keeps it against higher priorities for 1h, or until";
    output.says(holds);
    assert!(fleet.second.role("scheduler").expect("a role").is_leader());
    let asked = ["candidates", "scheduler", "--server", &fleet.server.url()];
    let candidates = ended(&mut nats_elect(&asked));
    let told = candidates.stdout + &candidates.stderr;
    for expected in [
        "leader, by order",
        "node-2 keeps scheduler against higher priorities for ",
        "nats-elect resume node-2 --role scheduler",
    ] {
        assert!(told.contains(expected), "{expected} in {told}");
    }

    let again = step_down(&fleet.server, &["scheduler", "--to", "node-2"]).with_code(0);
    again.says("leads already");

    // It leads, but not in the term that is meant.
    let old = "0".repeat(31) + "1";
    let stale = ["scheduler", "--to", "node-2", "--expect", &old];
    let refused = step_down(&fleet.server, &stale).with_code(4);
    assert_eq!(refused.stdout, "");
    refused.complains(&old);
    let token = fleet.second.role("scheduler").expect("a role").status();
    let token = token.fencing_token.expect("a term").to_string();
    let present = ["scheduler", "--to", "node-2", "--expect", &token];
    step_down(&fleet.server, &present).assert_code(0);

    let back = ["scheduler", "--to", "node-1", "--hold-off", "1m", "--json"];
    let back = eventually(SOON, "the end of a cool-down", async || {
        let output = step_down(&fleet.server, &back);
        (output.code == Some(0)).then_some(output)
    })
    .await;
    let holds = json(&back.stdout)["holds_seconds"].as_f64();
    assert_eq!(holds, Some(60.0), "{}", back.stdout);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_successor_whoever_claims_it_is_told_to_programs_as_well() {
    let fleet = Fleet::new().await;
    let output =
        step_down(&fleet.server, &["scheduler", "--hold-off", "1m", "--json"]).with_code(0);
    let value = json(&output.stdout);
    assert_eq!(value["from"]["instance_id"], "node-1");
    assert_eq!(value["released"], true);
    assert_eq!(value["holds_seconds"], Value::Null);
    assert_eq!(value["leader"]["instance_id"], "node-2");
    let token = |who: &str| {
        value[who]["fencing_token"]
            .as_str()
            .expect("a token")
            .to_owned()
    };
    assert!(token("leader") > token("from"));
    leads(&fleet.second, "scheduler").await;
    assert!(
        fleet.first.role("metrics").expect("a role").is_leader(),
        "another role is left alone"
    );
    // Whoever stays out is no successor.
    let output = step_down(&fleet.server, &["scheduler", "--to", "node-1"]).with_code(4);
    output.complains_all(["cool-down", "hold-off ends by itself"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_that_any_command_shows_names_the_term() {
    let fleet = Fleet::new().await;
    let shown = |arguments: &[&str], at: &str| {
        let output = output(&fleet.server, arguments);
        let value = lines(&output).swap_remove(0);
        let token = value.pointer(at).and_then(Value::as_str);
        token.expect("a token").to_owned()
    };
    let token = shown(&["ls", "--role", "scheduler", "--json"], "/fencing_token");
    let inspected = shown(&["inspect", "scheduler", "--json"], "/fencing_token");
    let reported = shown(
        &["candidates", "scheduler", "--json"],
        "/status/roles/scheduler/fencing_token",
    );
    assert_eq!((&inspected, &reported), (&token, &token));
    let output =
        step_down(&fleet.server, &["scheduler", "--expect", &token, "--json"]).with_code(0);
    let value = json(&output.stdout);
    assert_eq!(value["from"]["fencing_token"], *token);
    // It is over.
    step_down(&fleet.server, &["scheduler", "--expect", &token]).assert_code(4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_refused_is_told_with_its_reason_and_changes_nothing() {
    let fleet = Fleet::new().await;
    fleet.second.pause().await.expect("pause");
    let old = "0".repeat(31) + "1";
    for (arguments, code, expected) in [
        (
            &["scheduler", "--to", "node-3"][..],
            4,
            "candidates scheduler",
        ),
        (&["scheduler", "--to", "node-2"], 4, "nats-elect resume"),
        (&["scheduler", "--hold-off", "25h"], 2, "at most a day"),
        (
            &["scheduler", "--force", "--expect", &old],
            4,
            "that term is over",
        ),
        (&["scheduler", "--expect", "x"], 2, "nats-elect ls -o wide"),
        (&["nothing"], 3, "leads \"nothing\" in bucket \"leaders\""),
        (&["_fence"], 2, "_fence"),
    ] {
        let output = step_down(&fleet.server, arguments).with_code(code);
        output.complains(expected);
        assert_eq!(output.stdout, "");
    }
    assert!(fleet.first.role("scheduler").expect("a role").is_leader());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_can_not_be_asked_is_told_with_the_way_to_force_it() {
    let fleet = Fleet::with(AdminConfig::off()).await;
    let output = step_down(&fleet.server, &["scheduler"]).with_code(3);
    output.complains_all([
        "nats-elect ls",
        "switched off",
        "nats kv del leaders scheduler",
    ]);
    assert!(fleet.first.role("scheduler").expect("a role").is_leader());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_nobody_else_stands_for_is_freed() {
    let server = NatsServer::start().expect("a server");
    let only = started(builder(server.url(), "node-1")).await;
    leads(&only, "scheduler").await;
    answer(&server, 1).await;
    // It would lead again at once.
    let again = ["scheduler", "--force", "--timeout", "30s"];
    step_down(&server, &again).with_code(4).says("leads again");
    let force = ["scheduler", "--force", "--hold-off", "1h"];
    let output = step_down(&server, &[&force[..], &["--timeout", "1s"]].concat()).with_code(0);
    output.says("no instance that answers has claimed it yet");
    let other = started(builder(server.url(), "node-2")).await;
    leads(&other, "scheduler").await;
    answer(&server, 2).await;
    step_down(&server, &["scheduler", "--force", "--no-wait"]).assert_code(0);
    drop(only);
    follows(&other, "metrics", "node-1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_not_ask_for_it_is_told_at_once() {
    let users = users_of(&[
        include_str!("../../../../deploy/nats/admin.conf"),
        include_str!("../../../../deploy/nats/candidate.conf"),
        include_str!("../../../../deploy/nats/observer.conf"),
        include_str!("../../../../deploy/nats/operator.conf"),
    ]);
    let server = NatsServer::builder()
        .config(&users)
        .start()
        .expect("a server");
    let as_user = |user: &str| builder(server.url(), user).auth(login(user));
    drop(started(as_user("admin")).await);
    let candidate = started(as_user("candidate").bucket("leaders")).await;
    leads(&candidate, "scheduler").await;
    let ask = |user: &str, arguments: &[&str]| output_as(&server, user, arguments);
    for (arguments, verb) in [
        (&["step-down", "scheduler", "--force"][..], "step-down"),
        (&["cordon", "candidate"], "cordon"),
    ] {
        let output = ask("observer", arguments).with_code(4);
        let subject = format!("may not publish to \"nats-elect-admin.leaders.{verb}.");
        output.complains(&subject);
        output.complains("operator.conf");
    }
    assert!(candidate.role("scheduler").expect("a role").is_leader());
    ask("operator", &["cordon", "candidate"]).assert_code(0);
    assert!(!candidate.role("scheduler").expect("a role").is_leader());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nobody_else_is_seen_who_could_lead_the_term_goes_on() {
    let fleet = Fleet::new().await;
    let term = || fleet.first.role("scheduler").expect("a role").status();
    let token = term().fencing_token;
    fleet.second.pause().await.expect("a pause");
    let output = step_down(&fleet.server, &["scheduler"]);
    assert_eq!((output.code, &*output.stdout), (Some(4), ""));
    for expected in ["node-2 (", "is paused", "--force", "can't be seen"] {
        output.complains(expected);
    }
    let json = step_down(&fleet.server, &["scheduler", "--json"]).with_code(4);
    let error: Value = serde_json::from_str(&json.stderr).expect("one line of JSON");
    assert_eq!(error["error"], "refused");
    let advice = error["advice"].as_str().expect("text");
    assert!(advice.contains("--force"), "{advice}");
    drop(fleet.second);
    answer(&fleet.server, 1).await;
    let alone = step_down(&fleet.server, &["scheduler"]).with_code(4);
    let expected = "no other instance that answers takes part";
    alone.complains(expected);
    let still = term();
    assert!(still.is_leader && still.fencing_token == token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_not_understood_is_no_reason_to_delete_anything() {
    let server = NatsServer::start().expect("a server");
    crate::fleet::bucket(&server).await;
    let rubbish = stranger(&server, Some("rubbish")).await;
    let output = step_down(&server, &["scheduler"]);
    rubbish.abort();
    output.assert_code(3);
    output.complains("mute");
    output.complains("can't be read");
    output.does_not_complain("kv del");
}
