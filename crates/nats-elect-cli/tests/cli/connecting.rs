//! Which NATS, and who connects.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nats_elect_testing::NatsServer;

use crate::{ended, nats_elect};

const USERS: &str =
    "authorization { users: [ { user: ada, password: s3cret }, { user: bob, password: b0b } ] }";

/// A command that connects, and finds no bucket (3) if it could.
fn asks(folder: &Path, more: &[&str]) -> Command {
    let mut command = nats_elect(&["history", "a", "--timeout", "3s"]);
    command.env("XDG_CONFIG_HOME", folder).args(more);
    command
}

fn context(folder: &Path, name: &str, text: &str) {
    let contexts = folder.join("nats/context");
    fs::create_dir_all(&contexts).expect("a folder");
    fs::write(contexts.join(format!("{name}.json")), text).expect("write");
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_without_files_names_the_limit() {
    let command = env!("CARGO_BIN_EXE_nats-elect");
    let told: Vec<_> = (4..=8)
        .map(|files| {
            let script =
                format!("ulimit -n {files}; exec {command} ls --server nats://127.0.0.1:1");
            let ended = Command::new("sh").args(["-c", &script]).output();
            String::from_utf8_lossy(&ended.expect("a shell").stderr).into_owned()
        })
        .collect();
    let names =
        |it: &String| it.contains("the command could not begin: ") && it.contains("ulimit -n");
    assert!(told.iter().any(names), "{told:#?}");
}

#[test]
fn options_go_before_the_environment_and_that_before_the_context() {
    let server = NatsServer::builder()
        .config(USERS)
        .start()
        .expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let url = server.url();
    let login = |password| {
        format!(
            "{{\"url\":\"{url}\",\"user\":\"ada\",\"password\":\"{password}\",\"description\":\"\"}}"
        )
    };
    context(folder, "good", &login("s3cret"));
    context(folder, "bad", &login("wrong"));
    fs::write(folder.join("nats/context.txt"), "good\n").expect("select");
    let nobody = "nats://127.0.0.1:1";
    let (found, refused, unreachable) = (3, 4, 5);

    for (options, environment, expected) in [
        (&[][..], &[][..], found),
        (&[], &[("NATS_CONTEXT", "bad")], refused),
        (&["--context", "good"], &[("NATS_CONTEXT", "bad")], found),
        (
            &["--context", "bad"],
            &[("NATS_USER", "bob"), ("NATS_PASSWORD", "b0b")],
            found,
        ),
        (
            &["--user", "bob", "--password", "wr0ng"],
            &[("NATS_USER", "bob"), ("NATS_PASSWORD", "b0b")],
            refused,
        ),
        (&[], &[("NATS_URL", nobody)], unreachable),
        (&["-s", &url], &[("NATS_URL", nobody)], found),
    ] {
        let output =
            ended(asks(folder, options).envs(environment.iter().copied())).with_code(expected);
        output.does_not_complain("wr0ng");
    }
}

/// An order of magnitude below the time that it may wait.
const AT_ONCE: Duration = Duration::from_secs(60);

#[test]
#[expect(clippy::disallowed_methods, reason = "no lease rests on it")]
fn where_no_address_takes_a_connection_that_is_told_at_once() {
    let nobody = "nats://127.0.0.1:1";
    let no_name = format!("nats://{}.invalid:4222", "x".repeat(64));
    let both = format!("{nobody},{no_name}");
    let secret = "nats://ada:s3cret@127.0.0.1:1";
    let output = ended(&mut nats_elect(&["ls", "-s", secret]));
    let expected = "(tried 127.0.0.1:1)";
    output.complains(expected);
    output.does_not_complain("s3cret");
    for command in [
        &["ls"][..],
        &["inspect", "a"],
        &["candidates"],
        &["history"],
        &["step-down", "a"],
        &["pause", "--all-instances"],
        &["doctor"],
        &["create-bucket"],
        &["top", "--once"],
    ] {
        for servers in [nobody, &no_name, &both] {
            let began = Instant::now();
            let code = if command == ["doctor"] { 1 } else { 5 };
            let mut command = nats_elect(command);
            let output = ended(command.args(["-s", servers, "--timeout", "10m"]));
            assert!(began.elapsed() < AT_ONCE, "{command:?} {servers}");
            output.assert_code(code);
            let told = output.stdout + &output.stderr;
            for expected in ["no connection to NATS", "check the address", "(tried"] {
                assert!(told.contains(expected), "{command:?}: {told}");
            }
            assert!(!told.contains("within 10m"), "{command:?}: {told}");
        }
    }
}

#[test]
fn an_address_that_takes_a_connection_is_enough() {
    let server = NatsServer::start().expect("a server");
    let servers = format!("nats://127.0.0.1:1,{}", server.url());
    ended(&mut nats_elect(&["ls", "-s", &servers])).assert_code(3);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "no lease rests on it")]
fn commands_that_follow_try_for_the_whole_timeout() {
    let began = Instant::now();
    let watch = ["watch", "-s", "127.0.0.1:1", "--timeout", "700ms"];
    let output = ended(&mut nats_elect(&watch)).with_code(5);
    assert!(began.elapsed() >= Duration::from_millis(700));
    output.complains_all(["within 700ms", "check the address"]);
}

#[test]
fn a_context_that_can_not_be_used_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text, expected) in [
        (
            "socks",
            "{\"socks_proxy\":\"socks5://host\"}",
            "sets `socks_proxy`",
        ),
        ("nsc", "{\"nsc\":\"nsc://o/a/u\"}", "sets `nsc`"),
        (
            "domain",
            "{\"jetstream_domain\":\"hub\"}",
            "sets `jetstream_domain`",
        ),
        ("broken", "{\"password\":[\"s3cret\"]}", "is not valid"),
        (
            "login",
            "{\"password\":\"s3cret\"}",
            "there is no `auth.user`",
        ),
        (
            "home",
            "{\"creds\":\"~/elect.creds\"}",
            "\"/nonexistent/elect.creds\"",
        ),
    ] {
        context(folder.path(), name, text);
        let output = ended(asks(folder.path(), &["--context", name]).env("HOME", "/nonexistent"))
            .with_code(2);
        output.complains(expected);
        output.does_not_complain("s3cret");
    }
    let missing = ended(&mut asks(folder.path(), &["--context", "nowhere"])).with_code(3);
    missing.complains("nats context ls");
}

#[test]
fn help_shows_no_secret_of_the_environment() {
    let secrets = [
        ("NATS_PASSWORD", "s3cret"),
        ("NATS_TOKEN", "s3cret"),
        ("NATS_URL", "nats://ada:s3cret@host"),
        ("NATS_CONTEXT", "s3cret"),
    ];
    let help = |arguments: &[&str]| ended(nats_elect(arguments).envs(secrets));
    for arguments in [["verify", "--help"], ["help", "ls"]] {
        let shown = help(&arguments).with_code(0);
        shown.says("NATS_PASSWORD");
        shown.does_not_say("s3cret");
    }
}

#[test]
fn websocket_is_refused_wherever_the_address_comes_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = "ws://127.0.0.1:14222";
    context(folder.path(), "web", &format!("{{\"url\":\"{url}\"}}"));
    for (options, environment) in [
        (&["-s", url][..], ""),
        (&["-s", "wss://host"], ""),
        (&["--context", "web"], ""),
        (&[], url),
    ] {
        let mut asks = asks(folder.path(), options);
        if !environment.is_empty() {
            asks.env("NATS_URL", environment);
        }
        let output = ended(&mut asks).with_code(2);
        output.complains("WebSocket");
    }
}
