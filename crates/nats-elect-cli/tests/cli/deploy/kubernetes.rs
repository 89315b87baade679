//! The manifests of `deploy/kubernetes`: valid by the schema of Kubernetes, and by what they
//! promise.
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nats_elect::{ManagerConfig, RoleConfig};
use nats_elect_testing::NatsServer;

use crate::deploy::validator::{VERSIONS, validate};
use crate::deploy::{text_of, top};

fn manifests() -> Vec<PathBuf> {
    let folder = top().join("deploy/kubernetes");
    let files = std::fs::read_dir(folder).expect("the folder");
    let files = files.map(|file| file.expect("readable").path());
    let mut files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
        .collect();
    files.sort();
    files
}

fn manifest(name: &str) -> String {
    let wanted = |path: &&PathBuf| path.file_name().is_some_and(|known| known == name);
    let all = manifests();
    let path = all.iter().find(wanted).expect("the manifest");
    std::fs::read_to_string(path).expect("readable")
}

/// How long a pod may take from SIGTERM on.
fn grace_period(manifest: &str) -> Duration {
    let seconds = manifest
        .lines()
        .find_map(|line| line.trim().strip_prefix("terminationGracePeriodSeconds: "))
        .expect("a grace period");
    Duration::from_secs(seconds.parse().expect("seconds"))
}

/// How long a role may take to be wound down and handed over.
fn leave(role: &RoleConfig) -> Duration {
    let role = role.settings().expect("valid");
    role.stop_budget + role.request_timeout * 4
}

/// The same command knows a manifest that is wrong, and every manifest is right.
#[test]
fn the_manifests_are_valid_by_the_schema_of_kubernetes() {
    let wrong = tempfile::Builder::new()
        .suffix(".yaml")
        .tempfile()
        .expect("a file");
    let text = manifest("control-plane.yaml");
    let mistaken = text.replace("readinessProbe:", "readynessProbe:");
    assert_ne!(mistaken, text);
    std::fs::write(wrong.path(), mistaken).expect("writable");
    let refused = validate(wrong.path(), VERSIONS[0]);
    assert!(!refused.status.success(), "{}", text_of(&refused));
    assert!(
        text_of(&refused).contains("readynessProbe"),
        "{}",
        text_of(&refused)
    );

    for manifest in manifests() {
        let text = std::fs::read_to_string(&manifest).expect("readable");
        // Kubernetes has native sidecars since 1.28.
        let has_sidecar = text.contains("restartPolicy: Always");
        for version in VERSIONS.into_iter().skip(usize::from(has_sidecar)) {
            let checked = validate(&manifest, version);
            assert!(
                checked.status.success(),
                "{} by Kubernetes {version}:\n{}",
                manifest.display(),
                text_of(&checked)
            );
        }
    }
}

/// The settings in the example are settings, and the pod gets the time that they ask for.
#[test]
fn a_pod_has_time_to_wind_down_and_to_hand_over() {
    let text = manifest("control-plane.yaml");
    let begin = text.find("  elect.toml: |\n").expect("settings");
    let settings: Vec<_> = text[begin..]
        .lines()
        .skip(1)
        .take_while(|line| line.is_empty() || line.starts_with("    "))
        .collect();
    // An indented line is one of TOML too.
    let settings: toml::Table = toml::from_str(&settings.join("\n")).expect("TOML");
    let manager: ManagerConfig = settings["manager"].clone().try_into().expect("settings");
    manager.validate().expect("valid");
    let roles = settings["roles"].as_table().expect("roles");
    let budgets = roles.values().map(|role| {
        let role: RoleConfig = role.clone().try_into().expect("a role's settings");
        leave(&role)
    });
    let longest = budgets.max().expect("a role");
    let grace = grace_period(&text);
    assert!(grace >= longest * 2, "{grace:?} for {longest:?}");
}

/// The arguments of `exec.yaml`, with the names that Kubernetes fills in and another command.
#[test]
fn a_pod_of_a_command_runs_it_while_it_leads() {
    let text = manifest("exec.yaml");
    let grace = grace_period(&text);
    assert!(grace >= leave(&RoleConfig::default()) * 2, "{grace:?}");

    let line = text.lines().map(str::trim);
    let mut args = line.filter_map(|line| line.strip_prefix("args: "));
    let args: Vec<String> = serde_json::from_str(args.next().expect("arguments")).expect("a list");
    let end = args.iter().position(|arg| arg == "--").expect("a command");
    assert!(
        !args
            .iter()
            .any(|arg| arg == "--ttl" || arg == "--stop-budget"),
        "the grace period above is for the defaults"
    );
    let server = NatsServer::start().expect("start");
    let ran = Command::new(env!("CARGO_BIN_EXE_nats-elect"))
        .args(
            args[..end]
                .iter()
                .map(|arg| arg.replace("$(POD_NAME)", "pod-7"))
                .map(|arg| arg.replace("0.0.0.0:8080", "127.0.0.1:0")),
        )
        .args(["--create-bucket", "--", "sh", "-c"])
        .arg("echo $NATS_ELECT_ROLE $NATS_ELECT_INSTANCE")
        .env("NATS_URL", server.url())
        .output()
        .expect("it runs");
    assert!(ran.status.success(), "{}", text_of(&ran));
    assert_eq!(text_of(&ran).lines().next(), Some("scheduler pod-7"));
}

/// The arguments of the agent in `agent.yaml`, with names and paths of this machine.
#[test]
fn a_pod_with_an_agent_serves_its_application_and_its_probes() {
    let text = manifest("agent.yaml");
    let grace = grace_period(&text);
    assert!(grace >= leave(&RoleConfig::default()) * 2, "{grace:?}");
    let line = text.lines().map(str::trim);
    let lists: Vec<Vec<String>> = line
        .filter_map(|line| line.strip_prefix("args: "))
        .map(|args| serde_json::from_str(args).expect("a list"))
        .collect();
    let [agent, application] = &*lists else {
        panic!("an agent and an application: {lists:?}");
    };
    assert!(agent.contains(&format!("unix:{}", application[0])));
    let server = NatsServer::start().expect("start");
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("agent.sock");
    let here = format!("unix:{}", socket.display());
    let arguments = agent.iter().map(|arg| match arg.as_str() {
        "$(POD_NAME)" => "pod-7".to_owned(),
        "0.0.0.0:8080" => "127.0.0.1:0".to_owned(),
        _ if arg.starts_with("unix:") => here.clone(),
        _ => arg.clone(),
    });
    let mut running = Command::new(env!("CARGO_BIN_EXE_nats-elect"))
        .args(arguments)
        .arg("--create-bucket")
        .env("NATS_URL", server.url())
        .spawn()
        .expect("it runs");
    let script = top().join("examples/agent/worker.py");
    let mut worker = Command::new("python3")
        .arg("-c")
        .arg(format!(
            "import os, time\nwhile not os.path.exists({socket:?}): time.sleep(0.01)\nos.execvp('python3', ['python3', {script:?}, {socket:?}, {:?}])",
            application[1]
        ))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python3");
    let mut said = String::new();
    let mut output = std::io::BufReader::new(worker.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut output, &mut said).expect("a line");
    for child in [&mut worker, &mut running] {
        let _ = child.kill();
        child.wait().expect("reap");
    }
    assert!(said.contains("token"), "the application leads: {said:?}");
}

/// A follower that is not ready would be taken out of service, and a rollout would wait for it
/// forever.
#[test]
fn nothing_probes_for_leadership() {
    for manifest in manifests() {
        let text = std::fs::read_to_string(manifest).expect("readable");
        let probed: Vec<_> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("path: "))
            .filter(|path| path.starts_with('/') && !path.starts_with("/etc"))
            .collect();
        assert!(probed.contains(&"/readyz") && probed.contains(&"/livez"));
        assert!(!probed.iter().any(|path| path.starts_with("/leaderz")));
    }
}
