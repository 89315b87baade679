//! The environment, in a process of its own: it says how to connect where it is asked.

use std::process::{Command, Output};

use nats_elect::{AuthConfig, ElectionsConfig, RoleConfig, RoleManager, handler_fn};

use crate::support::bucket::Stranger;
use crate::support::{BUCKET, configured};

const ASKED: &str = "NATS_ELECT_TEST_ENVIRONMENT";

/// Runs [`as_the_environment_says`] in another process, with these variables.
fn run(asked: &str, variables: &[(&str, &str)]) -> Output {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args([
        "--exact",
        "security_environment::as_the_environment_says",
        "--nocapture",
    ]);
    for (name, _) in
        std::env::vars().filter(|(name, _)| name.starts_with("NATS_") && name != "NATS_SERVER_BIN")
    {
        child.env_remove(name);
    }
    child.env(ASKED, asked);
    child.envs(variables.iter().copied());
    child.output().expect("run")
}

#[track_caller]
fn said(output: &Output, what: &str) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains(what),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!text.contains("s3cret"), "{text}");
}

/// What the other process does; nothing where nobody asked.
#[tokio::test]
async fn as_the_environment_says() {
    let Ok(asked) = std::env::var(ASKED) else {
        return;
    };
    let mut file = ElectionsConfig::default();
    file.manager.servers = vec!["nats://127.0.0.1:1".into()];
    file.manager.auth.token = Some("of the file".into());
    if asked == "with roles" {
        file.roles.insert("b".into(), RoleConfig::default());
    }
    let builder = RoleManager::builder().config(file).bucket(BUCKET);
    let builder = match &*asked {
        "with" => builder.with_env(),
        "with roles" => {
            let handler = || handler_fn(|_| async { Ok(()) });
            builder
                .role("a", RoleConfig::default(), handler())
                .configured_role("b", handler())
                .with_env()
        }
        "and the program" => builder
            .with_env()
            .auth(AuthConfig::default().user_and_password("ada", "s3cret")),
        _ => builder.start_timeout(std::time::Duration::from_millis(200)),
    };
    println!("{builder:?}");
    match builder.start().await {
        Ok(_) => println!("started"),
        Err(error) => println!("failed: {error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_environment_says_how_to_connect_where_it_is_asked() {
    let server = configured("authorization { user: ada, password: s3cret }");
    let login = async_nats::ConnectOptions::with_user_and_password("ada".into(), "s3cret".into());
    let maker = Stranger::connect_as(&server.url(), login).await;
    maker
        .make_bucket(async_nats::jetstream::kv::Config::default())
        .await;

    let url = server.url();
    let right = [
        ("NATS_URL", &*url),
        ("NATS_USER", "ada"),
        ("NATS_PASSWORD", "s3cret"),
    ];
    said(&run("with", &right), "started");
    said(&run("without", &right), "failed: NATS could not be used");
    let wrong = [
        ("NATS_URL", &*url),
        ("NATS_USER", "ada"),
        ("NATS_PASSWORD", "s3cret2"),
    ];
    let refused = format!(
        "failed: NATS refused the credentials of user \"ada\" at 127.0.0.1:{} (authorization violation): check",
        server.port()
    );
    said(&run("with", &wrong), &refused);
    said(&run("and the program", &wrong), "started");
    let address = url.replace("nats://", "nats://ada:s3cret@");
    said(&run("with", &[("NATS_URL", &*address)]), "started");
    said(
        &run("with", &[("NATS_TLS_FIRST", "perhaps")]),
        "failed: `NATS_TLS_FIRST` is \"perhaps\"",
    );
    for role in ["A", "B"] {
        let ttl = format!("NATS_ELECT_ROLES__{role}__TTL");
        let failed = format!("failed: `{ttl}` is 1ms, but must be from 100ms to 1h");
        said(&run("with roles", &[(&*ttl, "1ms")]), &failed);
    }
    let other = [("NATS_ELECT_BUCKET", "b b")];
    said(&run("with", &other), "failed: `NATS_ELECT_BUCKET` is");
    said(
        &run("with", &[("NATS_CREDS", "/nowhere")]),
        "failed: `auth.creds_file` is \"/nowhere\"",
    );
}
