//! The check for Nagios that docs/cli.md has.

use std::process::Command;

use nats_elect_testing::NatsServer;

use crate::fleet::{ROLE, bucket, leader};
use crate::{ended, markdown};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_check_in_the_docs_has_the_codes_of_nagios() {
    let server = NatsServer::start().expect("start");
    bucket(&server).await;
    let page = include_str!("../../../../docs/cli.md");
    let blocks = markdown::blocks(page);
    let script = blocks.iter().find(|it| it.text.contains("# check_role"));
    let script = &script.expect("a script").text;
    let commands = std::path::Path::new(env!("CARGO_BIN_EXE_nats-elect")).parent();
    let path = format!("{}:/usr/bin:/bin", commands.expect("a folder").display());
    let check = |role: &str, url: &str| {
        let mut check = Command::new("/bin/sh");
        check.args(["-c", script, "check_role", role]);
        check.env("PATH", &path).env("NATS_URL", url);
        ended(&mut check)
    };
    let never = check("backup", &server.url()).with_code(2);
    assert!(
        never.stdout.starts_with("ROLE CRITICAL - "),
        "{}",
        never.stdout
    );
    let _a = leader(&server, "node-1").await;
    let led = check(ROLE, &server.url());
    assert!(matches!(led.code, Some(0 | 1)), "{}", led.stdout);
    led.says("node-1");
    let unseen = check(ROLE, "nats://127.0.0.1:1").with_code(3);
    assert_eq!(unseen.stdout.lines().count(), 1, "{}", unseen.stdout);
}
