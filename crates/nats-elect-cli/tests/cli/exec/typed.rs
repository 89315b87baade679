//! What is typed after `exec`, and the file that it names.

use std::io::Write;
use std::process::{Command, Stdio};

use nats_elect_testing::NatsServer;

/// The command with nothing of this user's environment.
fn nats_elect(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nats-elect"));
    for (name, _) in std::env::vars() {
        if name.starts_with("NATS_") && !name.ends_with("_BIN") {
            command.env_remove(name);
        }
    }
    command
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// Code, stdout and stderr.
fn ended(command: &mut Command) -> (Option<i32>, String, String) {
    let ended = command.output().expect("its end");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (ended.status.code(), text(ended.stdout), text(ended.stderr))
}

/// An application's own file, with its elections in the table `app.elect`.
fn application(url: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new()
        .suffix(".toml")
        .tempfile()
        .expect("a file");
    let text = format!(
        "[app]\nlisten = \":80\"\n\
         [app.elect.manager]\nservers = [\"{url}\"]\nbucket = \"apps\"\n\
         [app.elect.roles.worker]\nttl = \"20s\"\n"
    );
    file.write_all(text.as_bytes()).expect("write");
    file
}

#[test]
fn the_settings_may_be_in_a_table_of_an_applications_file() {
    let server = NatsServer::start().expect("a server");
    let file = application(&server.url());
    let path = file.path().to_str().expect("UTF-8");
    let run = ["--", "sh", "-c", "echo $NATS_ELECT_ROLE $NATS_ELECT_BUCKET"];
    let (code, stdout, stderr) = ended(
        nats_elect(&["exec", "--create-bucket", "--config", path])
            .args(["--table", "app.elect"])
            .args(run),
    );
    assert_eq!(
        (code, stdout.as_str()),
        (Some(0), "worker apps\n"),
        "{stderr}"
    );

    for (wrong, why) in [
        (&["--config", path][..], "unknown field"),
        (&["--config", path, "--table", "app.other"], "no table"),
        (&["--role", "a", "--table", "app.elect"], "--config"),
        (
            &["--config", path, "--table", "app.elect", "--context", "x"],
            "[manager] and a context",
        ),
    ] {
        let (code, stdout, stderr) = ended(nats_elect(&["exec"]).args(wrong).args(run));
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{wrong:?}");
        assert!(stderr.contains(why), "{wrong:?}: {stderr}");
    }
}

#[test]
fn the_help_shows_the_separator_before_the_command() {
    let (_, help, _) = ended(&mut nats_elect(&["exec", "--help"]));
    for form in [
        "nats-elect exec [OPTIONS] --role <ROLE>... -- <COMMAND> [ARGUMENT]...",
        "nats-elect exec [OPTIONS] --config <FILE> -- <COMMAND> [ARGUMENT]...",
    ] {
        assert!(help.contains(form), "{help}");
    }
}

#[test]
fn an_agent_refuses_a_last_will_since_the_application_outlives_it_for_a_moment() {
    let file = tempfile::Builder::new().suffix(".toml").tempfile();
    let mut file = file.expect("a file");
    let text = "[manager.last_will]\nenabled = true\n[roles.worker]\n";
    file.write_all(text.as_bytes()).expect("write");
    let path = file.path().to_str().expect("UTF-8");
    let agent = ["agent", "--config", path, "--listen", "unix:/no/such/place"];
    let (code, _, stderr) = ended(&mut nats_elect(&agent));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("`last_will` is on"), "{stderr}");
}
