//! What is typed after `exec`, and the file that it names.

use std::io::Write;

use nats_elect_testing::NatsServer;

use crate::{ended, nats_elect};

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
    let ran = ended(
        nats_elect(&["exec", "--create-bucket", "--config", path])
            .args(["--table", "app.elect"])
            .args(run),
    )
    .with_code(0);
    assert_eq!(ran.stdout, "worker apps\n", "{}", ran.stderr);

    for (wrong, why) in [
        (&["--config", path][..], "unknown field"),
        (&["--config", path, "--table", "app.other"], "no table"),
        (&["--role", "a", "--table", "app.elect"], "--config"),
        (
            &["--config", path, "--table", "app.elect", "--context", "x"],
            "[manager] and a context",
        ),
    ] {
        let refused = ended(nats_elect(&["exec"]).args(wrong).args(run)).with_code(2);
        assert_eq!(refused.stdout, "", "{wrong:?}");
        refused.complains(why);
    }
}

#[test]
fn the_help_shows_the_separator_before_the_command() {
    ended(&mut nats_elect(&["exec", "--help"])).says_all([
        "nats-elect exec [OPTIONS] --role <ROLE>... -- <COMMAND> [ARGUMENT]...",
        "nats-elect exec [OPTIONS] --config <FILE> -- <COMMAND> [ARGUMENT]...",
    ]);
}

#[test]
fn an_agent_refuses_a_last_will_since_the_application_outlives_it_for_a_moment() {
    let file = tempfile::Builder::new().suffix(".toml").tempfile();
    let mut file = file.expect("a file");
    let text = "[manager.last_will]\nenabled = true\n[roles.worker]\n";
    file.write_all(text.as_bytes()).expect("write");
    let path = file.path().to_str().expect("UTF-8");
    let agent = ["agent", "--config", path, "--listen", "unix:/no/such/place"];
    let refused = ended(&mut nats_elect(&agent)).with_code(2);
    refused.complains("`last_will` is on");
}
