//! Roles that are chosen by a pattern, and the form of what is shown.

use nats_elect_testing::NatsServer;
use serde_json::json;

use crate::fleet::{lines, output};
use crate::pair::{answer, builder, leads, started};
use crate::{ended, nats_elect};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pattern_chooses_roles_and_must_match_one() {
    let server = NatsServer::start().expect("start");
    let a = started(builder(server.url(), "node-1")).await;
    leads(&a, "scheduler").await;
    leads(&a, "metrics").await;
    answer(&server, 1).await;

    let some = lines(&output(&server, &["ls", "--json", "--role", "sched*"]));
    let roles: Vec<_> = some.iter().map(|it| &it["role"]).collect();
    assert_eq!(roles, [&json!("scheduler")]);
    let none = output(&server, &["ls", "--role", "backup-?"]).with_code(3);
    none.complains("backup-?");

    let some = lines(&output(&server, &["candidates", "--json", "*etri*"]));
    let roles = some[0]["status"]["roles"].as_object().expect("roles");
    assert_eq!(roles.keys().collect::<Vec<_>>(), ["metrics"]);
    assert_eq!(output(&server, &["candidates", "x*"]).code, Some(3));

    output(&server, &["watch", "sched*", "--until-leader"]).assert_code(2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wide_table_has_all_columns_and_json_has_one_form() {
    let server = NatsServer::start().expect("start");
    let a = started(builder(server.url(), "node-1")).await;
    leads(&a, "scheduler").await;
    let table = output(&server, &["ls", "--role", "scheduler"]).stdout;
    assert!(!table.contains("PRIORITY"), "{table}");

    let token = a.role("scheduler").expect("it").status().fencing_token;
    let token = token.expect("a term").to_string();
    let wide = output(&server, &["ls", "-o", "wide"]);
    wide.says_all(["PRIORITY", "SINCE", &token]);
    let same = ["-ojson", "--output=json", "--json"].map(|form| {
        let found = lines(&output(&server, &["ls", "--role", "scheduler", form]));
        found[0]["fencing_token"].clone()
    });
    assert_eq!(same, [json!(token), json!(token), json!(token)]);
}

#[test]
fn a_name_or_number_that_can_not_be_is_refused_before_anything_connects() {
    let long = "n".repeat(256);
    for (arguments, rule) in [
        (&["group", "show", "a.b"][..], "a group name is 1 to 255"),
        (&["group", "explain", "_a"], "a group name is 1 to 255"),
        (
            &["group", "explain", "a b", "0"],
            "a group name is 1 to 255",
        ),
        (&["group", "explain", "a", "0.1"], "a unit name is 1 to 255"),
        (
            &["group", "move", "a.b", "0", "n"],
            "a group name is 1 to 255",
        ),
        (&["group", "move", "a", "", "n"], "a unit name is 1 to 255"),
        (
            &["group", "move", "a", "0", "n 1"],
            "an instance id is 1 to 255",
        ),
        (&["group", "drain", &long], "an instance id is 1 to 255"),
        (
            &["group", "grow", "a.b", "8", "--yes"],
            "a group name is 1 to 255",
        ),
        (&["group", "grow", "a", "0", "--yes"], "is not in 1..=65536"),
        (
            &["group", "grow", "a", "65537", "--yes"],
            "is not in 1..=65536",
        ),
        (&["group", "grow", "a", "-1", "--yes"], "'-1'"),
        (&["doctor", "--group", "a.b"], "a group name is 1 to 255"),
        (&["cordon", "n 1"], "an instance id is 1 to 255"),
        (
            &["step-down", "a", "--to", "n 1"],
            "an instance id is 1 to 255",
        ),
    ] {
        let wrong = ended(nats_elect(&["-s", "127.0.0.1:1"]).args(arguments)).with_code(2);
        wrong.complains(rule);
    }
}
