//! The Kustomize base, as `kubectl` renders it; where there is none, its files as they are.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use async_nats::jetstream::stream::StorageType;
use async_nats::jetstream::{self, kv};
use nats_elect_testing::NatsServer;
use serde_json::Value;

use crate::deploy::validator::{VERSIONS, documents, validate};
use crate::deploy::{file, text_of, top};
use crate::doctor::users_of;
use crate::fleet::{at, client_of, comes_true};
use crate::markdown::blocks;
use crate::serve::Serving;

/// What `kubectl` makes of a folder, if there is one that knows components and labels.
fn rendered(folder: &Path) -> Option<Vec<Value>> {
    let version = ["version", "--client", "--output", "json"];
    let version = Command::new("kubectl").args(version).output().ok()?;
    let version: Value = serde_json::from_slice(&version.stdout).ok()?;
    if !version["kustomizeVersion"].as_str()?.starts_with("v5.") {
        return None;
    }
    let made = Command::new("kubectl")
        .arg("kustomize")
        .arg(folder)
        .output();
    let made = made.expect("it runs");
    assert!(made.status.success(), "{}", text_of(&made));
    assert!(made.stderr.is_empty(), "{}", text_of(&made));
    Some(documents(&String::from_utf8(made.stdout).expect("text")))
}

fn base() -> Vec<Value> {
    rendered(&top().join("deploy/kubernetes/base")).unwrap_or_else(|| {
        eprintln!("no kubectl with Kustomize 5: the files of the base are checked as they are");
        let files = ["bucket.yaml", "serve.yaml"].map(|it| format!("deploy/kubernetes/base/{it}"));
        files.iter().flat_map(|it| documents(&file(it))).collect()
    })
}

/// The overlay that the README shows, for a checkout beside it.
fn overlay() -> Option<Vec<Value>> {
    let blocks = blocks(&file("deploy/kubernetes/README.md"));
    let shown = blocks
        .iter()
        .find(|it| it.text.contains("kind: Kustomization"));
    let folder = tempfile::tempdir().expect("a folder");
    symlink(top(), folder.path().join("nats-elect")).expect("a link");
    let overlay = folder.path().join("elections");
    fs::create_dir(&overlay).expect("a folder");
    let shown = &shown.expect("an overlay").text;
    fs::write(overlay.join("kustomization.yaml"), shown).expect("a file");
    rendered(&overlay)
}

#[track_caller]
fn one<'a>(documents: &'a [Value], kind: &str) -> &'a Value {
    let mut of_kind = documents.iter().filter(|it| it["kind"] == kind);
    let one = of_kind.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(of_kind.next().is_none(), "one {kind}");
    one
}

fn pods(documents: &[Value]) -> impl Iterator<Item = &Value> {
    let specs = documents.iter().map(|it| &it["spec"]["template"]["spec"]);
    specs.filter(|spec| spec.is_object())
}

fn fits(documents: &[Value]) {
    let known = documents.iter();
    // It is a kind of the Prometheus Operator.
    let known = known.filter(|it| it["kind"] != "ServiceMonitor");
    let known: Vec<_> = known.map(Value::to_string).collect();
    let manifest = tempfile::Builder::new().suffix(".yaml").tempfile();
    let manifest = manifest.expect("a file");
    fs::write(manifest.path(), known.join("\n---\n")).expect("written");
    for version in VERSIONS {
        let checked = validate(manifest.path(), version);
        let told = text_of(&checked);
        assert!(checked.status.success(), "Kubernetes {version}: {told}");
    }
}

#[test]
fn the_base_fits_the_schema_of_kubernetes_and_all_that_it_names_is_there() {
    let base = base();
    fits(&base);
    let selector = &one(&base, "Service")["spec"]["selector"];
    let deployment = one(&base, "Deployment");
    assert_eq!(
        &deployment["spec"]["template"]["metadata"]["labels"],
        selector
    );
    let budget = one(&base, "PodDisruptionBudget");
    assert_eq!(&budget["spec"]["selector"]["matchLabels"], selector);
    let account = &one(&base, "ServiceAccount")["metadata"]["name"];
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(&pod["serviceAccountName"], account);
    let monitor = documents(&file(
        "deploy/kubernetes/components/service-monitor/service-monitor.yaml",
    ));
    let monitor = &monitor[0]["spec"];
    assert_eq!(&monitor["selector"]["matchLabels"], selector);
    let port = &one(&base, "Service")["spec"]["ports"][0]["name"];
    assert_eq!(&monitor["endpoints"][0]["port"], port);
    for pod in pods(&base) {
        let container = &pod["containers"][0];
        let mount = &container["volumeMounts"][0];
        let volume = &pod["volumes"][0];
        assert_eq!(mount["name"], volume["name"]);
        assert!(volume["secret"]["secretName"].is_string());
        let creds = container["env"].as_array().expect("a list");
        let creds = creds.iter().find(|it| it["name"] == "NATS_CREDS");
        let creds = creds.expect("credentials")["value"].as_str();
        let folder = mount["mountPath"].as_str().expect("a path");
        assert_eq!(creds, Some(&*format!("{folder}/elect.creds")));
    }
}

/// The profile `restricted` of the Pod Security Standards, and more.
#[test]
fn each_pod_is_restricted_and_runs_as_the_user_of_the_image() {
    let image = file("deploy/Dockerfile");
    let user = image.lines().find_map(|line| line.strip_prefix("USER "));
    let (user, group) = user.and_then(|it| it.split_once(':')).expect("a user");
    let base = base();
    assert_eq!(pods(&base).count(), 2);
    for pod in pods(&base) {
        let all = &pod["securityContext"];
        assert_eq!(all["runAsNonRoot"], true);
        assert_eq!(all["runAsUser"].to_string(), user);
        assert_eq!(all["runAsGroup"].to_string(), group);
        assert_eq!(all["seccompProfile"]["type"], "RuntimeDefault");
        assert_eq!(pod["automountServiceAccountToken"], false);
        for container in pod["containers"].as_array().expect("containers") {
            let own = &container["securityContext"];
            assert_eq!(own["allowPrivilegeEscalation"], false);
            assert_eq!(own["readOnlyRootFilesystem"], true);
            assert_eq!(own["capabilities"]["drop"], serde_json::json!(["ALL"]));
            assert!(container["resources"]["limits"]["memory"].is_string());
        }
    }
}

#[test]
fn the_image_is_built_with_a_rust_that_suffices() {
    let of = |text: &str, before: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(before));
        let line = line.expect("a version").trim_start_matches('"');
        let mut parts = line.split(|c: char| !c.is_ascii_digit());
        let mut part = || {
            parts
                .next()
                .expect("a part")
                .parse::<u32>()
                .expect("a number")
        };
        (part(), part())
    };
    let image = of(&file("deploy/Dockerfile"), "FROM docker.io/library/rust:");
    assert!(image >= of(&file("Cargo.toml"), "rust-version = "));
}

#[test]
fn the_overlay_of_the_readme_changes_what_it_says() {
    let Some(overlay) = overlay() else {
        eprintln!("no kubectl with Kustomize 5: the overlay is not rendered");
        return;
    };
    fits(&overlay);
    one(&overlay, "ServiceMonitor");
    let config = one(&overlay, "ConfigMap");
    assert_eq!(config["data"]["NATS_ELECT_BUCKET"], "leaders", "kept");
    let url = config["data"]["NATS_URL"].as_str().expect("an address");
    assert!(url.contains("nats-1"), "{url}");
    for pod in pods(&overlay) {
        let container = &pod["containers"][0];
        let image = container["image"].as_str().expect("an image");
        assert!(image.starts_with("registry.example.com/"), "{image}");
        let from = &container["envFrom"][0]["configMapRef"]["name"];
        assert_eq!(from, &config["metadata"]["name"]);
    }
    let job = one(&overlay, "Job");
    let args = &job["spec"]["template"]["spec"]["containers"][0]["args"];
    assert_eq!(args[2], "1", "{args}");
}

/// A container's command on this machine, as a user of this server.
fn command(container: &Value, server: &NatsServer, user: &str) -> Command {
    assert_eq!(container["command"], serde_json::json!(["nats-elect"]));
    let args = container["args"].as_array().expect("arguments");
    let args = args.iter().map(|arg| arg.as_str().expect("text"));
    let args = args.filter(|arg| !["--listen", "0.0.0.0:8642"].contains(arg));
    // One server can't hold three replicas.
    let args = args.map(|arg| if arg == "3" { "1" } else { arg });
    let mut command = at(server, &[]);
    command
        .args(args)
        .env("NATS_USER", user)
        .env("NATS_PASSWORD", "change-me")
        .env("NATS_ELECT_BUCKET", "leaders");
    command
}

fn server() -> NatsServer {
    let users = [
        file("deploy/nats/admin.conf"),
        file("deploy/nats/observer.conf"),
        "users = [ { user: all, password: change-me } ]".to_owned(),
    ];
    let config = users_of(&users.each_ref().map(String::as_str));
    let builder = NatsServer::builder().config(&config);
    builder.start().expect("a server")
}

fn job(server: &NatsServer) -> Output {
    let base = base();
    let job = &one(&base, "Job")["spec"]["template"]["spec"]["containers"][0];
    let ran = command(job, server, "admin").output();
    ran.expect("it runs")
}

async fn bucket(server: &NatsServer, config: kv::Config) {
    let client = client_of(server, "all").await;
    let made = jetstream::new(client).create_key_value(config).await;
    made.expect("a bucket");
}

#[tokio::test]
async fn the_job_fails_only_if_no_election_can_be_held_in_the_bucket_that_is_there() {
    let server = server();
    for _ in 0..2 {
        let made = job(&server);
        assert!(made.status.success(), "{}", text_of(&made));
    }

    let of = |storage, max_bytes| kv::Config {
        bucket: "leaders".into(),
        storage,
        max_bytes,
        ..kv::Config::default()
    };
    let in_memory = self::server();
    bucket(&in_memory, of(StorageType::Memory, -1)).await;
    let kept = job(&in_memory);
    assert!(kept.status.success(), "{}", text_of(&kept));

    let tiny = self::server();
    bucket(&tiny, of(StorageType::File, 100)).await;
    let refused = job(&tiny);
    assert_eq!(refused.status.code(), Some(1), "{}", text_of(&refused));
    let why = text_of(&refused);
    assert!(why.contains("no room for one role"), "{why}");
}

#[tokio::test]
async fn a_pod_of_serve_is_ready_when_the_job_has_made_the_bucket() {
    let server = server();
    let base = base();
    let serve = &one(&base, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    let running = Serving::start(command(serve, &server, "observer"));
    let status = |path: &str| running.get(path).status;
    let probe = |name: &str| serve[name]["httpGet"]["path"].as_str().expect("a path");
    assert_eq!(status(probe("livenessProbe")), 200);
    assert_eq!(status(probe("readinessProbe")), 503);
    let made = job(&server);
    assert!(made.status.success(), "{}", text_of(&made));
    comes_true("the bucket", async || {
        status(probe("readinessProbe")) == 200
    })
    .await;
    assert_eq!(status("/metrics"), 200);
}
