//! Completions: what a shell is told while somebody types.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nats_elect::AdminConfig;
use nats_elect_testing::NatsServer;

use crate::fleet::bucket;
use crate::pair::{Fleet, answer, builder, started};
use crate::{Ended, ended, nats_elect};

/// As the script of bash asks for the last of these words.
fn asking(line: &str) -> Command {
    let words: Vec<_> = line.split(' ').collect();
    let mut command = nats_elect(&["--", "nats-elect"]);
    command
        .args(&words)
        .env("NATS_ELECT_COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    command
}

/// The names that the shell gets.
#[track_caller]
fn names(command: &mut Command) -> Vec<String> {
    let output = ended(command);
    assert_eq!((output.code, &*output.stderr), (Some(0), ""));
    output.stdout.lines().map(ToOwned::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_are_completed_from_the_bucket_as_the_line_says() {
    let server = NatsServer::start().expect("a server");
    let bucket = bucket(&server).await;
    for key in [
        "scheduler",
        "schema",
        "metrics",
        "-scratch",
        "_fence.schema",
        "sch.x",
    ] {
        bucket.put(key, "x".into()).await.expect("a key");
    }
    let before = bucket.status().await.expect("a status").info.state;
    let expected = ["scheduler", "schema"].map(ToOwned::to_owned);
    let url = server.url();
    for line in [
        "inspect sch",
        "step-down sch",
        "watch metrics sch",
        "end-lease sch",
        "history sch",
        "candidates sch",
        "role retire sch",
        "ls --role sch",
        "cordon node-1 --role sch",
        "exec --role sch",
    ] {
        let mut found = names(asking(line).env("NATS_URL", &url));
        found.sort();
        assert_eq!(found, expected, "{line}");
        let typed = format!("--server {url} --bucket leaders {line}");
        // The line wins over the environment.
        let mut found = names(asking(&typed).env("NATS_URL", "nats://127.0.0.1:1"));
        found.sort();
        assert_eq!(found, expected, "{typed}");
    }
    let other = format!("-s {url} --bucket=other inspect sch");
    assert_eq!(names(&mut asking(&other)), [""; 0]);
    let after = bucket.status().await.expect("a status").info.state;
    assert_eq!(after, before, "nothing was written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_are_completed_from_the_bucket() {
    let server = NatsServer::start().expect("a server");
    let bucket = bucket(&server).await;
    for key in ["partitions", "_group.g.partitions", "_group.g.control"] {
        bucket.put(key, "x".into()).await.expect("a key");
    }
    for line in [
        "group show par",
        "group explain par",
        "group move par",
        "doctor --group par",
    ] {
        let found = names(asking(line).env("NATS_URL", server.url()));
        assert_eq!(found, ["partitions"], "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_shells_get_roles_too() {
    let server = NatsServer::start().expect("a server");
    let bucket = bucket(&server).await;
    bucket.put("scheduler", "x".into()).await.expect("a key");
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let mut asking = asking("inspect sch");
        asking.env("NATS_ELECT_COMPLETE", shell);
        let found = names(asking.env("NATS_URL", server.url()));
        assert_eq!(found, ["scheduler"], "{shell}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_are_completed_from_those_that_answer() {
    let fleet = Fleet::with(AdminConfig::default()).await;
    // A shell would act on its id.
    let odd = started(builder(fleet.server.url(), "n$(reboot)")).await;
    answer(&fleet.server, 3).await;
    for line in ["pause n", "step-down scheduler --to n"] {
        let found = names(asking(line).env("NATS_URL", fleet.server.url()));
        assert_eq!(found, ["node-1", "node-2"], "{line}");
    }
    let all = names(asking("resume ").env("NATS_URL", fleet.server.url()));
    assert_eq!(all[..2], ["node-1", "node-2"]);
    drop(odd);
}

#[test]
fn contexts_are_completed_from_their_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let contexts = folder.path().join("nats/context");
    std::fs::create_dir_all(&contexts).expect("a folder");
    for file in [
        "prod.json",
        "prod-eu.json",
        "lab.json",
        "$(x).json",
        "prod.txt",
    ] {
        std::fs::write(contexts.join(file), "{}").expect("a file");
    }
    let found = names(asking("ls --context pr").env("XDG_CONFIG_HOME", folder.path()));
    assert_eq!(found, ["prod", "prod-eu"]);
}

#[test]
fn without_an_answer_of_nats_a_shell_gets_nothing_soon_and_without_a_word() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = format!("nats://{}", silent.local_addr().expect("an address"));
    for url in [
        "nats://127.0.0.1:1",
        &silent,
        "nats://nowhere.invalid",
        "tls://[",
    ] {
        for line in ["inspect sch", "pause no"] {
            let began = now();
            let found = names(asking(line).env("NATS_URL", url));
            assert_eq!(found, [""; 0], "{url}: {line}");
            // The bound is a second; the machine may have much else to do.
            assert!(began.elapsed() < Duration::from_secs(20), "{url}: {line}");
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a shell waits")]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn commands_are_completed_and_those_that_nobody_types_are_not() {
    let mut found = names(&mut asking("ver"));
    assert_eq!(found, ["verify"]);
    found = names(&mut asking("exec"));
    assert_eq!(found, ["exec"]);
    assert_eq!(names(&mut asking("role ret")), ["retire"]);
    assert_eq!(names(&mut asking("ls --inbox")), ["--inbox-prefix"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_bash_completes_a_role() {
    let server = NatsServer::start().expect("a server");
    let bucket = bucket(&server).await;
    bucket.put("scheduler", "x".into()).await.expect("a key");
    let binary = Path::new(env!("CARGO_BIN_EXE_nats-elect"));
    let folder = binary.parent().expect("a folder").display();
    let script = format!(
        r#"PATH="{folder}:$PATH"
        source <(nats-elect completions bash)
        complete -p nats-elect
        COMP_WORDS=(nats-elect inspect sch) COMP_CWORD=2 COMP_TYPE=9
        _clap_complete_nats_elect nats-elect sch inspect
        echo "${{COMPREPLY[@]}}""#
    );
    let output = Command::new("bash")
        .args(["--norc", "-c", &script])
        .env("NATS_URL", server.url())
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .output();
    let Ended { stdout, stderr, .. } = crate::of(output.expect("run bash"));
    assert_eq!(stderr, "");
    let (registered, completed) = stdout.split_once('\n').expect("two lines");
    assert!(registered.ends_with("nats-elect"), "{registered}");
    assert_eq!(completed, "scheduler\n");
}
