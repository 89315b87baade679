//! Which NATS, and who connects.

use std::fs;
use std::path::Path;
use std::process::Command;

use nats_elect_testing::NatsServer;

use crate::{ended, nats_elect};

const USERS: &str =
    "authorization { users: [ { user: ada, password: s3cret }, { user: bob, password: b0b } ] }";
/// Fits no proof; what counts is how far the command comes.
const KEY: &str = "UCFIRY65OQE7DFP5KLNS2PF2LVZMUZYJX4OZIEQ36N2IQANUB5XVZ45L";

/// A command that connects, and finds no bucket (3) if it could.
fn asks(folder: &Path, more: &[&str]) -> Command {
    let mut command = nats_elect(&["verify", "--key", KEY, "--role", "a", "--timeout", "3s"]);
    command.env("XDG_CONFIG_HOME", folder).args(more);
    command
}

fn context(folder: &Path, name: &str, text: &str) {
    let contexts = folder.join("nats/context");
    fs::create_dir_all(&contexts).expect("a folder");
    fs::write(contexts.join(format!("{name}.json")), text).expect("write");
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
        let output = ended(asks(folder, options).envs(environment.iter().copied()));
        assert_eq!(
            output.code,
            Some(expected),
            "{options:?} {environment:?}: {}",
            output.stderr
        );
        assert!(!output.stderr.contains("wr0ng"), "{}", output.stderr);
    }
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
        let output = ended(asks(folder.path(), &["--context", name]).env("HOME", "/nonexistent"));
        assert_eq!(output.code, Some(2), "{name}: {}", output.stderr);
        assert!(
            output.stderr.contains(expected),
            "{name}: {}",
            output.stderr
        );
        assert!(!output.stderr.contains("s3cret"), "{}", output.stderr);
    }
    let missing = ended(&mut asks(folder.path(), &["--context", "nowhere"]));
    assert_eq!(missing.code, Some(3));
    assert!(
        missing.stderr.contains("nats context ls"),
        "{}",
        missing.stderr
    );
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
    let (own, connection) = (help(&["verify", "--help"]), help(&["help", "connection"]));
    assert_eq!((own.code, connection.code), (Some(0), Some(0)));
    assert!(connection.stdout.contains("NATS_PASSWORD"));
    for shown in [own.stdout, connection.stdout] {
        assert!(!shown.contains("s3cret"), "{shown}");
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
        let output = ended(&mut asks);
        assert_eq!(output.code, Some(2), "{options:?}: {}", output.stderr);
        assert!(output.stderr.contains("WebSocket"), "{}", output.stderr);
    }
}
