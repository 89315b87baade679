//! The units of `deploy/systemd`, as systemd reads them where it is there.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use nats_elect_testing::NatsServer;

use crate::deploy::{file, text_of, top};
use crate::fleet::at;

const FOLDER: &str = "deploy/systemd";
const SERVE: &str = "nats-elect-serve.service";
const EXEC: &str = "nats-elect-exec@.service";
const UNITS: [&str; 3] = [SERVE, EXEC, "nats-elect-agent.service"];

/// The values of a setting, in their order.
fn settings<'a>(unit: &'a str, name: &str) -> Vec<&'a str> {
    let lines = unit.lines().filter_map(|line| line.split_once('='));
    let of_name = lines.filter(|(key, _)| *key == name);
    of_name.map(|(_, value)| value).collect()
}

/// The arguments in a unit, as systemd gives them to an instance `scheduler` on this machine.
fn arguments(unit: &str) -> Vec<String> {
    let unit = file(&format!("{FOLDER}/{unit}"));
    let [line] = settings(&unit, "ExecStart")[..] else {
        panic!("one command: {unit}");
    };
    let arguments = line.strip_prefix("/usr/bin/nats-elect ");
    let arguments = arguments.expect("our command").split(' ');
    let filled = arguments.map(|it| it.replace("%i", "scheduler").replace("%H", "host-7"));
    filled.collect()
}

#[test]
fn systemd_finds_no_fault_in_a_unit_and_each_is_confined() {
    let version = Command::new("systemd-analyze").arg("--version").output();
    let version = version.map(|it| text_of(&it)).unwrap_or_default();
    let number = version.split(' ').nth(1).and_then(|it| it.parse().ok());
    // `security --offline`, and credentials in a unit's environment.
    if number.is_none_or(|it: u32| it < 250) {
        eprintln!("no systemd 250 or later: the units are not verified");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for unit in fs::read_dir(top().join(FOLDER)).expect("the folder") {
        let unit = unit.expect("readable");
        let text = fs::read_to_string(unit.path()).expect("readable");
        // systemd looks for the programs.
        let here = text.replace("/usr/bin/nats-elect", env!("CARGO_BIN_EXE_nats-elect"));
        fs::write(folder.path().join(unit.file_name()), here).expect("written");
    }
    let analyze = |arguments: &[&str], unit: &Path| {
        let mut command = Command::new("systemd-analyze");
        command.args(arguments).arg(unit);
        command
            .env("SYSTEMD_LOG_LEVEL", "warning")
            .output()
            .expect("it runs")
    };
    for unit in fs::read_dir(folder.path()).expect("the folder") {
        let unit = unit.expect("readable").path();
        let verified = analyze(&["verify", "--man=no"], &unit);
        let told = text_of(&verified);
        assert!(verified.status.success() && told.is_empty(), "{told}");
    }
    // From 0 to 100: 96 for a unit that says nothing.
    let security = ["security", "--offline=true", "--no-pager", "--threshold=20"];
    for unit in UNITS {
        let judged = analyze(&security, &folder.path().join(unit));
        assert!(judged.status.success(), "{unit}:\n{}", text_of(&judged));
    }
}

/// Every user of a machine can read command lines, and a unit's `Environment=`.
#[test]
fn no_unit_has_a_secret_in_its_command_line_or_environment() {
    for unit in UNITS {
        let text = file(&format!("{FOLDER}/{unit}"));
        assert_eq!(
            settings(&text, "Environment"),
            ["NATS_CREDS=%d/elect.creds"]
        );
        let creds = settings(&text, "LoadCredential");
        assert!(
            creds[0].starts_with("elect.creds:/etc/nats-elect/"),
            "{creds:?}"
        );
        let secret = ["--creds", "--password", "--token", "--nkey", "--user"];
        let arguments = arguments(unit);
        assert!(!arguments.iter().any(|it| secret.contains(&&**it)));
    }
}

#[test]
fn the_unit_of_serve_serves() {
    let server = NatsServer::start().expect("a server");
    let mut serve = at(&server, &[])
        .args(arguments(SERVE))
        .args(["--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut line = String::new();
    let mut output = BufReader::new(serve.stdout.take().expect("a pipe"));
    output.read_line(&mut line).expect("a line");
    serve.kill().expect("a child");
    serve.wait().expect("its end");
    assert!(line.starts_with("http://127.0.0.1:"), "{line:?}");
}

#[test]
fn an_instance_of_the_unit_of_exec_runs_its_command_while_it_leads() {
    let server = NatsServer::start().expect("a server");
    let arguments = arguments(EXEC);
    let end = arguments.iter().position(|it| it == "--");
    let (ours, command) = arguments.split_at(end.expect("a command"));
    assert_eq!(command[1..], ["/usr/local/bin/scheduler"]);
    let ran = at(&server, &[])
        .args(ours)
        .args(["--create-bucket", "--", "sh", "-c"])
        .arg("echo $NATS_ELECT_ROLE $NATS_ELECT_INSTANCE")
        .output()
        .expect("it runs");
    assert!(ran.status.success(), "{}", text_of(&ran));
    assert_eq!(text_of(&ran).lines().next(), Some("scheduler host-7"));
    let unit = file(&format!("{FOLDER}/{EXEC}"));
    assert_eq!(settings(&unit, "KillMode"), ["mixed"]);
}
