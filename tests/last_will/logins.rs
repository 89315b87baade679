//! Every way to show NATS who one is: the companion connects in the same way.

use nats_elect::{AuthConfig, ManagerConfig, TlsConfig};
use nats_elect_testing::NatsServer;
use nkeys::KeyPair;

use crate::credentials::{Authority, Files, Operator};
use crate::ends::Test;
use crate::sockets::connected;
use crate::stage::Stage;
use crate::took::{LONG, dies, released};
use crate::victim::{Birth, Orders, Victim};

pub const TESTS: &[(&str, Test)] = &[
    ("a_companion_logs_in_as_its_parent_does", || {
        Box::pin(each_way())
    }),
    ("a_companion_reads_credentials_anew", || {
        Box::pin(replaced_credentials())
    }),
    ("the_role_of_a_leader_that_signs_is_released", || {
        Box::pin(signed())
    }),
];

/// A lease that is long beside everything that a release takes.
const SECRET: &str = "s3cret";

type Access = Box<dyn Fn(ManagerConfig, &str) -> ManagerConfig>;

/// What a server asks for, and what an instance is told to show it at this address.
fn ways(files: &Files, authority: &Authority) -> Vec<(&'static str, String, Access)> {
    let user = format!("authorization {{ user: ada, password: {SECRET} }}");
    let token = format!("authorization {{ token: {SECRET} }}");
    let pair = KeyPair::new_user();
    let nkey = format!(
        "authorization {{ users [ {{ nkey: {} }} ] }}",
        pair.public_key()
    );
    let seed = pair.seed().expect("its seed");
    let seed_file = files.write("user.nk", &seed);
    let operator = Operator::new();
    let creds = operator.creds();
    let creds_file = files.write("user.creds", &creds);
    let mine = authority.certify("client", &["candidate"]);
    let trusting = TlsConfig::default().ca_file(authority.file());
    let certified = trusting.clone().client_certificate(&mine.cert, &mine.key);
    let mapped = format!(
        "{}authorization {{ users [ {{ user: candidate }} ] }}",
        authority.server_block("verify_and_map: true")
    );
    let auth = |auth: AuthConfig| -> Access { Box::new(move |it, _| it.auth(auth.clone())) };
    let tls = |tls: TlsConfig| -> Access { Box::new(move |it, _| it.tls(tls.clone())) };
    let in_address = |login: &'static str| -> Access {
        Box::new(move |it, url| it.servers(url.replace("nats://", &format!("nats://{login}@"))))
    };
    let empty = AuthConfig::default;
    vec![
        ("none", String::new(), Box::new(|it, _| it)),
        (
            "user",
            user.clone(),
            auth(empty().user_and_password("ada", SECRET)),
        ),
        ("user in the address", user, in_address("ada:s3cret")),
        ("token", token.clone(), auth(empty().token(SECRET))),
        ("token in the address", token, in_address(SECRET)),
        ("nkey", nkey.clone(), auth(empty().nkey(seed))),
        ("nkey file", nkey, auth(empty().nkey_file(seed_file))),
        (
            "creds",
            operator.server_config(),
            auth(empty().creds(creds)),
        ),
        (
            "creds file",
            operator.server_config(),
            auth(empty().creds_file(creds_file)),
        ),
        ("TLS", authority.server_block(""), tls(trusting.clone())),
        ("TLS in the address", authority.server_block(""), {
            let trusting = trusting.clone();
            Box::new(move |it, url| {
                it.servers(url.replace("nats://", "tls://"))
                    .tls(trusting.clone())
            })
        }),
        (
            "TLS first",
            authority.server_block("handshake_first: true"),
            {
                let mut first = trusting;
                first.first = true;
                tls(first)
            },
        ),
        (
            "client certificate",
            authority.server_block("verify: true"),
            tls(certified.clone()),
        ),
        ("user of a certificate", mapped, tls(certified)),
        (
            "inbox prefix",
            String::new(),
            Box::new(|it, _| it.inbox_prefix("_INBOX_mine")),
        ),
    ]
}

async fn each_way() {
    let (files, authority) = (Files::new(), Authority::new());
    for (way, server, access) in ways(&files, &authority) {
        let server = NatsServer::builder().config(&server).start();
        let server = server.expect("a server");
        let config = access(
            ManagerConfig::default().servers(server.url()),
            &server.url(),
        );
        let stage = Stage::with(server, config).await;
        let victim = stage.victim(Birth::default(), "r", LONG).await;
        released(way, &stage, victim).await;
    }
}

/// The server accepts other credentials after a restart, and the files have these.
async fn replaced_credentials() {
    let files = Files::new();
    let pairs = [(); 2].map(|()| KeyPair::new_user());
    let [before, after] = pairs.each_ref().map(|pair| {
        let public = pair.public_key();
        format!("authorization {{ users [ {{ nkey: {public} }}, {{ user: next, password: {SECRET} }} ] }}")
    });
    let [old, new] = pairs.map(|pair| pair.seed().expect("its seed"));
    let (seed, users) = (
        files.write("user.nk", &old),
        files.write("users.conf", &before),
    );
    let server = NatsServer::builder().config(&files.included("users.conf"));
    let server = server.start().expect("a server");
    let config = ManagerConfig::default()
        .servers(server.url())
        .bucket_auto_create();
    let next = config.clone();
    let next = next.auth(AuthConfig::default().user_and_password("next", SECRET));
    let mut stage = Stage::of(server, next).await;
    let config = config.auth(AuthConfig::default().nkey_file(&seed));
    let mut victim = Victim::start(&config, "r", LONG, stage.folder.path()).await;
    let companion = victim.companion(None).await;

    std::fs::write(&seed, new).expect("other credentials");
    std::fs::write(&users, after).expect("other users");
    stage.server.restart().expect("a restart");
    connected(companion, &[stage.server.port()]).await;
    let mut next = stage.next("r", LONG).await;
    dies(&mut victim, &mut next).await;
}

/// The companion has no key, and needs none.
async fn signed() {
    use nats_elect_signing::{SigningKey, TrustingBuilder};

    let stage = Stage::set().await;
    let seed = KeyPair::new_user().seed().expect("a seed");
    let orders = Orders {
        signing_seed: Some(seed.clone()),
        ..Orders::new(&stage.config, "r", LONG, stage.folder.path())
    };
    let mut victim = Victim::of(&orders).await;
    let key = SigningKey::from_seed(&seed).expect("a key");
    let keys = std::iter::once(key.public_key().clone()).collect();
    let watching = nats_elect::RoleManager::builder()
        .config(stage.config.clone().instance_id("watching"))
        .trusted_keys(keys, std::time::Duration::ZERO)
        .start();
    let watching = watching.await.expect("a manager");
    let role = nats_elect::RoleConfig::default().ttl(LONG).priority(-1);
    let handler = nats_elect::handler_fn(|_| async { Ok(()) });
    let role = watching.add_role("r", role, handler).await.expect("a role");
    let leader =
        nats_elect_testing::eventually(crate::stage::SOON, "a signed record", async || {
            role.leader()
        });
    assert_eq!(
        leader.await.signer.as_deref(),
        Some(key.public_key().as_str())
    );
    watching.remove_role("r").await.expect("its end");
    let mut next = stage.next("r", LONG).await;
    dies(&mut victim, &mut next).await;
}
