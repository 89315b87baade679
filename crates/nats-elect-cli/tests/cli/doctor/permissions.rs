//! The permissions of users, as `doctor` tries them.

use nats_elect::{AuthConfig, StopOptions};
use nats_elect_testing::NatsServer;

use super::{Checkup, doctor, examined};
use crate::pair::{builder, started};
use crate::{ended, nats_elect};

/// The users of files like those in `deploy/nats`, in one configuration.
pub fn users_of(files: &[&str]) -> String {
    let users = files.iter().map(|file| {
        let (_, users) = file.split_once("users = [").expect("a list of users");
        users.rsplit_once(']').expect("its end").0
    });
    let users: String = users.collect();
    format!("authorization {{ users = [ {users} ] }}\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_permissions_that_are_recommended_are_found_to_be_enough() {
    let users = users_of(&[
        include_str!("../../../../../deploy/nats/candidate.conf"),
        include_str!("../../../../../deploy/nats/observer.conf"),
        include_str!("../../../../../deploy/nats/operator.conf"),
        include_str!("../../../../../deploy/nats/admin.conf"),
    ]);
    let server = NatsServer::builder()
        .config(&users)
        .start()
        .expect("a server");
    let login = ["--user", "admin", "--password", "change-me"];
    ended(nats_elect(&["create-bucket", "--server", &server.url()]).args(login)).assert_code(0);
    let as_user = |user: &str, part: &str, more: &[&str]| {
        let mut command = doctor(
            &server.url(),
            &["--as", part, "--user", user, "--password", "change-me"],
        );
        Checkup::of(command.args(more))
    };
    let roles = ["--role", "scheduler", "--role", "metrics"];
    for part in ["candidate", "observer", "operator"] {
        let checkup = as_user(part, part, &roles);
        assert_eq!(checkup.code, Some(0), "{part}: {:#}", checkup.report);
        let mut warned = checkup.warned();
        // The machine may pause while they are measured.
        warned.retain(|it| *it != "round trips");
        assert!(
            warned.iter().all(|it| *it == "replicas"),
            "{part}: {warned:?}"
        );
    }
    let member = as_user("candidate", "candidate", &["--group", "partitions"]);
    assert_eq!(member.code, Some(0), "{:#}", member.report);
    member.says("may own units", "ok", "\"partitions\"");
    member.says("groups", "skipped", "not in the bucket");
    member.says("may keep data", "ok", "\"partitions\"");
    assert_eq!(member.on("may lead"), [], "no role was named");
    let operator = as_user("operator", "operator", &["--group", "partitions"]);
    assert_eq!(operator.code, Some(0), "{:#}", operator.report);
    let looks = as_user("observer", "operator", &["--group", "partitions"]);
    looks.says("may operate", "fail", "take-unit");
    let looks = as_user("observer", "operator", &["--role", "scheduler"]);
    looks.says("may operate", "fail", "cordon");
    let other = as_user("candidate", "candidate", &["--group", "others"]);
    assert_eq!(other.code, Some(1), "{:#}", other.report);
    for (check, verdict, key) in [
        ("may own units", "fail", "_groups.others.>"),
        ("may keep data", "warn", "_gfence.others.>"),
        ("may keep data", "warn", "_gdata.others.>"),
        ("may keep data", "warn", "_guard.others.>"),
    ] {
        other.says(check, verdict, &format!("\"$KV.leaders.{key}\""));
    }
    let other = as_user("candidate", "candidate", &["--role", "other"]);
    other.says("may lead", "fail", "\"$KV.leaders.other\"");
    let nameless = as_user("candidate", "candidate", &[]);
    assert_eq!(nameless.code, Some(0), "{:#}", nameless.report);
    nameless.says("may lead", "warn", "made-up role");
    let none = as_user("observer", "candidate", &["--role", "scheduler"]);
    none.says("may lead", "fail", "\"$KV.leaders.");
    assert_eq!(none.code, Some(1));
    let passer = as_user("observer", "operator", &[]);
    assert!(
        passer.verdicts("fail").contains(&"may operate"),
        "{:#}",
        passer.report
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_permission_that_is_missing_is_told_by_its_subject() {
    let publish = [
        ("$JS.API.STREAM.INFO.KV_leaders", "bucket", "fail"),
        ("$JS.API.STREAM.MSG.GET.KV_leaders", "may read", "fail"),
        ("$JS.API.CONSUMER.CREATE.KV_leaders.>", "may watch", "fail"),
        ("$JS.FC.KV_leaders.>", "may pace watches", "fail"),
        ("$KV.leaders.scheduler", "may lead", "fail"),
        ("$KV.leaders._fence.scheduler", "may lead", "fail"),
        ("$KV.leaders._data.scheduler.>", "may keep data", "warn"),
        ("$KV.leaders._guard.scheduler", "may keep data", "warn"),
        ("nats-elect.leaders.scheduler", "may hand over", "warn"),
        ("nats-elect.leaders.scheduler.*", "may hand over", "warn"),
        ("nats-elect.leaders._answer.>", "may hand over", "warn"),
        (
            "nats-elect-admin.leaders._answer.>",
            "may be operated",
            "warn",
        ),
        ("$JS.API.INFO", "account limits", "skipped"),
        ("nats-elect-admin.leaders.instances", "instances", "skipped"),
    ];
    let subscribe = [
        ("_INBOX.>", "user", "fail"),
        ("nats-elect.leaders.*", "may hand over", "warn"),
        ("nats-elect.leaders.*.*", "may hand over", "warn"),
        (
            "nats-elect-admin.leaders.cordon.*",
            "may be operated",
            "warn",
        ),
        (
            "nats-elect-admin.leaders.cordon.*.*",
            "may be operated",
            "warn",
        ),
        ("$SRV.PING", "may be operated", "warn"),
    ];
    let kinds = [("publish", &publish[..]), ("subscribe", &subscribe[..])];
    let mut users = String::from("{ user: all, password: p }\n");
    let mut cases = Vec::new();
    for (kind, denied) in kinds {
        for case in denied {
            let user = format!("u{}", cases.len());
            let entry = format!(
                "{{ user: {user}, password: p, permissions: {{ {kind}: {{ allow: \">\", deny: {:?} }} }} }}\n",
                [case.0]
            );
            users.push_str(&entry);
            cases.push((user, kind, case));
        }
    }
    let config = format!("authorization {{ users = [ {users} ] }}\n");
    let server = NatsServer::builder()
        .config(&config)
        .start()
        .expect("a server");
    let maker = started(
        builder(server.url(), "maker").auth(AuthConfig::default().user_and_password("all", "p")),
    )
    .await;
    maker.stop(StopOptions::default()).await.expect("stop");
    for (user, kind, (subject, check, verdict)) in cases {
        let options = ["--user", &user, "--password", "p", "--role", "scheduler"];
        let checkup = examined(&server.url(), &options);
        let fixed = subject.split(['*', '>']).next().expect("a part");
        let words = format!("may not {kind} to \"{fixed}");
        checkup.says(check, verdict, &words);
        assert_eq!(
            checkup.code,
            Some(i32::from(verdict == &"fail")),
            "{subject}: {:#}",
            checkup.report
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_for_one_purpose_is_one_finding_that_names_each_subject() {
    let denied = r#"["$SRV.>", "nats-elect-admin.leaders.>"]"#;
    let config = format!(
        "authorization {{ users = [ {{ user: u, password: p, permissions: {{ \
         publish: \">\", subscribe: {{ allow: \">\", deny: {denied} }} }} }} ] }}\n"
    );
    let server = NatsServer::builder().config(&config).start();
    let server = server.expect("a server");
    let maker = started(
        builder(server.url(), "maker").auth(AuthConfig::default().user_and_password("u", "p")),
    )
    .await;
    maker.stop(StopOptions::default()).await.expect("stop");
    let options = ["--user", "u", "--password", "p", "--role", "scheduler"];
    let checkup = examined(&server.url(), &options);
    assert_eq!(
        checkup.on("may be operated").len(),
        1,
        "{:#}",
        checkup.report
    );
    for subject in [
        "\"$SRV.PING\"",
        "\"nats-elect-admin.leaders.instances\"",
        "\"nats-elect-admin.leaders.cordon.*.scheduler\"",
    ] {
        checkup.says("may be operated", "warn", subject);
    }
}
