//! Every way to prove to NATS who one is: accepted if it is right, refused in words if it is not,
//! and told by its field if it can't be used at all.

use std::path::Path;

use async_nats::ConnectOptions;
use nats_elect::{
    AuthConfig, Error, ManagerConfig, RoleManager, RoleManagerBuilder, Storage, TlsConfig,
};
use nats_elect_testing::eventually;
use nkeys::KeyPair;

use crate::support::clock::Stamp;
use crate::support::credentials::{Files, Operator};
use crate::support::instance::{Recorded, instance};
use crate::support::journal::Journal;
use crate::support::{BUCKET, ROLE, SOON, configured, leased_for, logs, ms};

/// What no error may show.
const SECRET: &str = "s3cret";

fn builder(url: &str) -> RoleManagerBuilder {
    let handler = Recorded::obedient("a", &Journal::default());
    RoleManager::builder()
        .servers(url)
        .bucket(BUCKET)
        .role(ROLE, leased_for(ms(5000)), handler)
}

/// With this access a role is led.
pub async fn accepted(url: &str, access: impl FnOnce(RoleManagerBuilder) -> RoleManagerBuilder) {
    let journal = Journal::default();
    let joining = instance("a", url, &journal).with(access);
    let a = joining.standing(leased_for(ms(5000))).start().await;
    journal.started(ROLE, 0).await;
    a.stop().await;
}

/// With this access the start fails, long before `start_timeout`. Its words give no secret away.
pub async fn refused(
    url: &str,
    access: impl FnOnce(RoleManagerBuilder) -> RoleManagerBuilder,
) -> Error {
    let begin = Stamp::now();
    let started = access(builder(url)).start().await;
    let took = Stamp::now().since(begin);
    assert!(took < ms(10_000), "it took {took:?}");
    let error = started.expect_err("a refusal");
    for shown in [error.to_string(), format!("{error:?}")] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
    error
}

async fn unauthenticated(url: &str, access: impl FnOnce(RoleManagerBuilder) -> RoleManagerBuilder) {
    let error = refused(url, access).await;
    assert!(matches!(error, Error::Authentication(_)), "{error:?}");
    assert!(error.to_string().contains("credentials"), "{error}");
}

/// Nothing is asked of any server: nobody listens there, and nobody would know so soon.
pub async fn misconfigured(
    field: &str,
    rule: &str,
    access: impl FnOnce(RoleManagerBuilder) -> RoleManagerBuilder,
) {
    let error = refused("nats://127.0.0.1:1", access).await;
    let Error::Config(error) = error else {
        panic!("{field}: {error:?}");
    };
    assert_eq!(error.field, field);
    assert!(error.rule.contains(rule), "{error}");
}

#[tokio::test]
async fn a_user_and_a_password() {
    let server = configured("authorization { user: ada, password: s3cret }");
    let url = server.url();
    accepted(&url, |it| {
        it.auth(AuthConfig::default().user_and_password("ada", SECRET))
    })
    .await;
    unauthenticated(&url, |it| {
        it.auth(AuthConfig::default().user_and_password("ada", "s3cret2"))
    })
    .await;
    unauthenticated(&url, |it| it).await;
    let mut config = ManagerConfig::default();
    config.auth.user = Some("ada".into());
    config.auth.password = Some(SECRET.into());
    accepted(&url, |it| {
        it.config(config).servers(&url).bucket_auto_create()
    })
    .await;
}

#[tokio::test]
async fn a_token() {
    let server = configured("authorization { token: s3cret }");
    let url = server.url();
    accepted(&url, |it| it.auth(AuthConfig::default().token(SECRET))).await;
    unauthenticated(&url, |it| it.auth(AuthConfig::default().token("s3cret2"))).await;
}

#[tokio::test]
async fn credentials_in_an_address() {
    let server_of_user = configured("authorization { user: ada, password: \"s3cret@home\" }");
    let with = |who: &str, url: &str| url.replace("nats://", &format!("nats://{who}@"));
    let url = server_of_user.url();
    let right = with("ada:s3cret%40home", &url);
    accepted(&url, |it| it.servers(&right)).await;
    let wrong = with("ada:s3cret2", &url);
    unauthenticated(&url, |it| it.servers(&wrong)).await;

    let server_of_token = configured("authorization { token: s3cret }");
    let url = server_of_token.url();
    let right = with(SECRET, &url);
    accepted(&url, |it| it.servers(&right)).await;
    let wrong = with("s3cret2", &url);
    unauthenticated(&url, |it| it.servers(&wrong)).await;
    // Several servers: what one address says holds for all.
    let several = format!("nats://127.0.0.1:1,{right}");
    accepted(&url, |it| it.servers(&several)).await;
}

#[tokio::test]
async fn an_nkey_by_its_seed_or_a_file() {
    let user = KeyPair::new_user();
    let config = format!(
        "authorization {{ users [ {{ nkey: {} }} ] }}",
        user.public_key()
    );
    let server = configured(&config);
    let url = server.url();
    let seed = user.seed().expect("its seed");
    accepted(&url, |it| it.auth(AuthConfig::default().nkey(&*seed))).await;
    let files = Files::new();
    let file = files.write("user.nk", &format!("# the metrics service\n{seed}\n"));
    accepted(&url, |it| it.auth(AuthConfig::default().nkey_file(&file))).await;
    let further = || ConnectOptions::new().subscription_capacity(1000);
    accepted(&url, |it| {
        it.connect_options(further())
            .auth(AuthConfig::default().nkey_file(&file))
    })
    .await;
    let other = KeyPair::new_user().seed().expect("its seed");
    unauthenticated(&url, |it| it.auth(AuthConfig::default().nkey(&*other))).await;
}

#[tokio::test]
async fn credentials_of_an_operators_user() {
    let operator = Operator::new();
    let server = configured(&operator.server_config());
    let url = server.url();
    let creds = operator.creds();
    accepted(&url, |it| it.auth(AuthConfig::default().creds(&*creds))).await;
    // As secret stores hand it over.
    accepted(&url, |it| {
        it.auth(AuthConfig::default().creds(creds.trim_end()))
    })
    .await;
    let files = Files::new();
    let file = files.write("user.creds", &creds);
    accepted(&url, |it| it.auth(AuthConfig::default().creds_file(&file))).await;
    let further = || ConnectOptions::new().subscription_capacity(1000);
    accepted(&url, |it| {
        it.connect_options(further())
            .auth(AuthConfig::default().creds_file(&file))
    })
    .await;
    let forged = Operator::forged_creds();
    unauthenticated(&url, |it| it.auth(AuthConfig::default().creds(forged))).await;
}

#[tokio::test]
async fn what_can_not_be_used_is_told_by_its_field_before_anything_connects() {
    let files = Files::new();
    let missing = Path::new("/nowhere/at-all");
    let empty = files.write("empty", "");
    let seed = KeyPair::new_user().seed().expect("its seed");
    let damaged = format!("{}A{SECRET}", &seed[..40]);
    let accounts = KeyPair::new_account().seed().expect("its seed");
    let auth = AuthConfig::default;
    let (no_creds, no_seed) = ("a user's JWT and seed", "begin with SU");
    for (field, rule, auth) in [
        (
            "auth.creds_file",
            "can't be read",
            auth().creds_file(missing),
        ),
        ("auth.nkey_file", "can't be read", auth().nkey_file(missing)),
        ("auth.creds_file", no_creds, auth().creds_file(&empty)),
        ("auth.nkey_file", no_seed, auth().nkey_file(&empty)),
        ("auth.creds", no_creds, auth().creds(SECRET)),
        ("auth.nkey", no_seed, auth().nkey(SECRET)),
        ("auth.nkey", no_seed, auth().nkey(damaged)),
        ("auth.nkey", no_seed, auth().nkey(accounts)),
    ] {
        misconfigured(field, rule, |it| it.auth(auth)).await;
    }
    misconfigured("inbox_prefix", "without wildcards", |it| {
        it.inbox_prefix("a.>")
    })
    .await;
}

#[tokio::test]
async fn what_the_program_says_goes_before_what_its_file_says() {
    let server = configured("authorization { user: ada, password: s3cret }");
    let url = server.url();
    let mut file = ManagerConfig::default();
    file.servers = vec![url.clone()];
    file.bucket_auto_create = true;
    file.auth.token = Some("of the file".into());
    accepted(&url, |it| {
        it.config(file)
            .auth(AuthConfig::default().user_and_password("ada", SECRET))
    })
    .await;
}

#[tokio::test]
async fn a_client_of_the_callers_own_has_its_own_credentials() {
    let server = configured("");
    let client = async_nats::connect(server.url()).await.expect("connect");
    for (field, access) in [
        (
            "auth.token",
            builder(&server.url()).auth(AuthConfig::default().token(SECRET)),
        ),
        (
            "tls",
            builder(&server.url()).tls(TlsConfig::default().require()),
        ),
        ("inbox_prefix", builder(&server.url()).inbox_prefix("x")),
    ] {
        let client = client.clone();
        misconfigured(field, "client", |_| access.client(client)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_replaced_in_its_file_is_used_from_the_next_connection_on() {
    let files = Files::new();
    let (old, new) = (KeyPair::new_user(), KeyPair::new_user());
    let admit = |user: &KeyPair| {
        let user = user.public_key();
        let users = format!("authorization {{ users = [ {{ nkey: {user} }} ] }}\n");
        files.write("users.conf", &users);
    };
    let keep = |user: &KeyPair| files.write("user.nk", &user.seed().expect("its seed"));
    admit(&old);
    let file = keep(&old);
    let path = file.clone();
    let logs = logs::install();
    let mut server = configured(&files.included("users.conf"));
    let journal = Journal::default();
    let a = instance("a", server.url(), &journal)
        .with(|it| {
            it.auth(AuthConfig::default().nkey_file(file))
                .storage(Storage::File)
        })
        .standing(leased_for(ms(20_000)))
        .start()
        .await;
    journal.started(ROLE, 0).await;
    admit(&new);
    std::fs::remove_file(&path).expect("removed");
    server.restart().expect("restart");
    let told = format!("`auth.nkey_file` is \"{}\"", path.display());
    let refused = format!(
        "NATS refuses the credentials of the file \"{}\"",
        path.display()
    );
    eventually(SOON, "the reason", async || {
        let log = logs.text();
        let reason = log.lines().find(|it| it.contains(&told))?;
        assert!(
            reason.contains(" ERROR ") && reason.contains("No such file"),
            "{reason}"
        );
        log.contains(&refused).then_some(())
    })
    .await;
    keep(&new);
    eventually(SOON, "a proof", async || a.role(ROLE).validate().await.ok()).await;
    assert_eq!(journal.terms(ROLE).len(), 1, "the term goes on");
    a.stop().await;
}
