//! The permissions in `deploy/nats`: a companion needs none that its parent does not have.

use nats_elect::{AuthConfig, ManagerConfig, RoleManager, StopOptions};
use nats_elect_testing::NatsServer;

use crate::ends::Test;
use crate::stage::Stage;
use crate::took::{LONG, dies, tell};
use crate::user::users_of;
use crate::victim::Victim;

pub const TESTS: &[(&str, Test)] = &[("a_companion_needs_no_further_permission", || {
    Box::pin(least_privileges())
})];

const CANDIDATE: &str = include_str!("../../deploy/nats/candidate.conf");
const ADMIN: &str = include_str!("../../deploy/nats/admin.conf");
const ACCOUNT: &str = include_str!("../../deploy/nats/account.conf");
const ROLE: &str = "scheduler";

/// The users of the files, and others that may do even less.
fn servers() -> Vec<(&'static str, String, &'static str)> {
    let without = |text: &str| -> String {
        let lines = CANDIDATE.lines().filter(|line| !line.contains(text));
        lines.collect::<Vec<_>>().join("\n")
    };
    let of_one_role = without("metrics");
    assert!(of_one_role.contains("$KV.leaders.scheduler"));
    let own_inbox = of_one_role.replace("_INBOX.>", "_INBOX_mine.>");
    let no_peers = without("\"nats-elect.leaders");
    let with_responses = without("leaders._answer")
        .replace("permissions: {", "permissions: { allow_responses: true");
    let of = |candidate: &str| users_of(&[candidate, ADMIN]);
    let list = of(CANDIDATE)
        .replace("authorization {", "")
        .replace("] }\n", "]");
    let account = ACCOUNT.replacen("users = []", &list, 1);
    assert_ne!(account, ACCOUNT);
    vec![
        ("candidate.conf", of(CANDIDATE), "_INBOX"),
        ("account.conf", account, "_INBOX"),
        ("one role", of(&of_one_role), "_INBOX"),
        ("an inbox of its own", of(&own_inbox), "_INBOX_mine"),
        ("allow_responses", of(&with_responses), "_INBOX"),
        ("no peer requests", of(&no_peers), "_INBOX"),
    ]
}

async fn least_privileges() {
    for (what, users, inbox) in servers() {
        let server = NatsServer::builder().config(&users).start();
        let server = server.expect("a server");
        let as_user = |user: &str| {
            let auth = AuthConfig::default().user_and_password(user, "change-me");
            ManagerConfig::default().servers(server.url()).auth(auth)
        };
        let admin = RoleManager::builder().config(as_user("admin").bucket_auto_create());
        let admin = admin.start().await.expect("a bucket");
        admin.stop(StopOptions::default()).await.expect("its end");
        let config = as_user("candidate").inbox_prefix(inbox);
        let stage = Stage::of(server, config).await;

        let mut victim = Victim::start(&stage.config, ROLE, LONG, stage.folder.path()).await;
        let mut next = stage.next(ROLE, LONG).await;
        tell(what, vec![dies(&mut victim, &mut next).await]);
        let log = stage.server.log();
        // Servers before 2.12 name the user in the other way.
        let is_ours = |line: &&str| {
            let users = ["user:candidate", "User \"candidate\""];
            line.contains("Violation") && users.iter().any(|user| line.contains(user))
        };
        let refused = log.lines().filter(is_ours);
        let refused: Vec<_> = refused.collect();
        let peers = |line: &&str| line.contains("\"nats-elect.leaders");
        assert_eq!(refused.is_empty(), what != "no peer requests", "{what}");
        assert!(refused.iter().all(peers), "{what}: {refused:?}");
    }
}
