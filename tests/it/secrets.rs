//! Secrets are for NATS alone: whatever is shown, logged or said in an error does without them.

use std::fmt::Write;

use nats_elect::{AuthConfig, RoleManager, RoleManagerBuilder, StepDown};
use nats_elect_testing::eventually;
use nkeys::KeyPair;

use crate::support::bucket::Stranger;
use crate::support::credentials::{Files, Operator};
use crate::support::dashboard::{self, Scrape};
use crate::support::instance::{Recorded, instance, standing};
use crate::support::journal::Journal;
use crate::support::{BUCKET, ROLE, SOON, configured, leased_for, logs, ms, proxied};

/// One way to authenticate: the server's side, the right secrets and wrong ones.
struct Way {
    id: &'static str,
    server: String,
    right: Access,
    wrong: Access,
    /// What must not be seen.
    secrets: Vec<String>,
}

type Access = Box<dyn Fn(RoleManagerBuilder, &str) -> RoleManagerBuilder>;

fn access(how: impl Fn(RoleManagerBuilder, &str) -> RoleManagerBuilder + 'static) -> Access {
    Box::new(how)
}

fn in_address(who: &'static str) -> Access {
    access(move |it, url| it.servers(url.replace("nats://", &format!("nats://{who}@"))))
}

fn ways(files: &Files) -> Vec<Way> {
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    let login = "authorization { user: ada, password: passw0rd-right }";
    let (user, other) = (KeyPair::new_user(), KeyPair::new_user());
    let (seed, wrong_seed) = (
        user.seed().expect("its seed"),
        other.seed().expect("its seed"),
    );
    let seed_file = files.write("user.nk", &seed);
    let operator = Operator::new();
    let (creds, forged) = (operator.creds(), Operator::forged_creds());
    let creds_file = files.write("user.creds", &creds);
    // The JWTs and the seeds, each on a line of its own.
    let lines = creds.lines().chain(forged.lines());
    let hidden = lines.filter(|line| line.len() > 50 && !line.contains("---"));
    let hidden = hidden.map(ToOwned::to_owned).collect();
    let secrets_of_login = || words(&["passw0rd-right", "passw0rd-wrong"]);
    vec![
        Way {
            id: "login",
            server: login.into(),
            right: access(|it, _| {
                it.auth(AuthConfig::default().user_and_password("ada", "passw0rd-right"))
            }),
            wrong: access(|it, _| {
                it.auth(AuthConfig::default().user_and_password("ada", "passw0rd-wrong"))
            }),
            secrets: secrets_of_login(),
        },
        Way {
            id: "address",
            server: login.into(),
            right: in_address("ada:passw0rd-right"),
            wrong: in_address("ada:passw0rd-wrong"),
            secrets: secrets_of_login(),
        },
        Way {
            id: "token",
            server: "authorization { token: t0ken-right }".into(),
            right: access(|it, _| it.auth(AuthConfig::default().token("t0ken-right"))),
            wrong: in_address("t0ken-wrong"),
            secrets: words(&["t0ken-right", "t0ken-wrong"]),
        },
        Way {
            id: "nkey",
            server: format!(
                "authorization {{ users [ {{ nkey: {} }} ] }}",
                user.public_key()
            ),
            secrets: vec![seed, wrong_seed.clone()],
            right: access(move |it, _| it.auth(AuthConfig::default().nkey_file(&seed_file))),
            wrong: access(move |it, _| it.auth(AuthConfig::default().nkey(&*wrong_seed))),
        },
        Way {
            id: "creds",
            server: operator.server_config(),
            secrets: hidden,
            right: access(move |it, _| it.auth(AuthConfig::default().creds_file(&creds_file))),
            wrong: access(move |it, _| it.auth(AuthConfig::default().creds(&*forged))),
        },
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_password_token_seed_or_jwt_is_ever_shown() {
    dashboard::install();
    let logs = logs::install();
    let (files, mut shown, mut secrets) = (Files::new(), String::new(), Vec::new());
    for way in ways(&files) {
        let mut server = configured(&way.server);
        let url = server.url();
        let plain = || RoleManager::builder().servers(&url).bucket(BUCKET);
        for how in [&way.right, &way.wrong] {
            let _ = write!(shown, "{:?}", how(plain(), &url));
        }
        let handler = Recorded::obedient(way.id, &Journal::default());
        let refused = (way.wrong)(plain(), &url).role(ROLE, leased_for(ms(5000)), handler);
        let error = refused.start().await.expect_err("a refusal");
        let _ = write!(shown, "{error} {error:?}");

        let journal = Journal::default();
        let joining = instance(way.id, &url, &journal)
            .with(|it| (way.right)(it.storage(nats_elect::Storage::File), &url));
        let a = joining.standing(leased_for(ms(20_000))).start().await;
        let recorded = journal.started(ROLE, 0).await;
        // Connecting again is where secrets are needed once more.
        server.restart().expect("restart");
        eventually(SOON, "a proof", async || a.role(ROLE).validate().await.ok()).await;
        assert_eq!(journal.terms(ROLE).len(), 1, "the term goes on");
        let (role, term) = (a.role(ROLE), recorded.term());
        let _ = write!(
            shown,
            "{:?} {role:?} {term:?} {:?} {:?}",
            a.manager(),
            a.log().all(),
            role.status()
        );
        let token = term.lease_token().expose();
        secrets.extend([token.to_string(), token.simple().to_string()]);
        secrets.extend(way.secrets);
        a.stop().await;
    }
    let logged = logs.text();
    assert!(logged.contains("async_nats") && logged.contains("term started"));
    shown.push_str(&logged);
    shown.push_str(&Scrape::now().text);
    let shown = shown.to_lowercase();
    assert!(secrets.len() >= 20, "{} secrets", secrets.len());
    for secret in secrets {
        let at = shown.find(&secret.to_lowercase());
        assert!(
            at.is_none(),
            "…{}…",
            &shown[at.unwrap_or(0).saturating_sub(200)..][..300]
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_tokens_show_up_nowhere_but_in_the_bucket() {
    dashboard::install();
    let logs = logs::install();
    let (server, proxy, journal) = proxied();
    let ttl = ms(5000);
    let id = "discreet";
    let a = standing(id, proxy.url(), &journal, leased_for(ttl)).await;
    let stranger = Stranger::connect(&server.url()).await;
    let mut shown = String::new();
    for n in 0..4 {
        let recorded = journal.started(ROLE, n).await;
        a.wait_until_leader().await;
        let token = recorded.term().lease_token();
        let record = stranger.record().await;
        assert_eq!(record["token"], token.expose().to_string());
        let role = a.role(ROLE);
        let (status, manager) = (role.status(), a.manager());
        let json = serde_json::to_string(&status).expect("JSON");
        let term = recorded.term();
        write!(
            shown,
            "{term:?} {token:?} {token} {role:?} {status:?} {json} {manager:?} {:?} {:?}",
            a.log().all(),
            role.leader(),
        )
        .expect("text");
        // Each term ends in another way; what goes wrong meanwhile is told in errors.
        match n {
            0 => {
                role.step_down(StepDown::any()).await.expect("a leader");
            }
            1 => proxy.cut(),
            2 => {
                let usurper = br#"{"id":"x","token":"t","ttl_ms":200}"#.as_slice();
                let store = stranger.store().await;
                store.put(ROLE, usurper.into()).await.expect("put");
            }
            _ => {
                proxy.black_hole();
                let error = role.validate().await.expect_err("no answer");
                write!(shown, "{error} {error:?}").expect("text");
                proxy.restore();
                continue;
            }
        }
        journal.ended(ROLE, n).await;
        let error = recorded.term().validate().await.expect_err("it is over");
        write!(shown, "{error} {error:?}").expect("text");
        proxy.restore();
    }
    a.stop().await;
    let logged = logs.text();
    assert!(
        logged.contains("term started") && logged.contains(id),
        "{logged}"
    );
    shown.push_str(&logged);
    shown.push_str(&Scrape::now().text);
    for recorded in journal.terms(ROLE) {
        let token = recorded.term().lease_token().expose();
        for secret in [token.to_string(), token.simple().to_string()] {
            let at = shown.to_lowercase().find(&secret);
            assert!(at.is_none(), "…{}…", &shown[at.unwrap_or(0)..][..100]);
        }
    }
}
