//! `verify`: proofs from the argument, from files, and from the role's record.

use nats_elect::{RoleConfig, RoleManager, Term, handler_fn};
use nats_elect_signing::{SigningBuilder, SigningKey};
use nats_elect_testing::{NatsServer, eventually};
use std::time::Duration;

use crate::fleet::{json, manager};
use crate::{ended, nats_elect, with_stdin};

const OTHER: &str = "UCFIRY65OQE7DFP5KLNS2PF2LVZMUZYJX4OZIEQ36N2IQANUB5XVZ45L";

/// A leader that signs, on a server of its own, with its proof.
struct Leader {
    _server: NatsServer,
    _manager: RoleManager,
    key: String,
    proof: String,
}

async fn leader() -> Leader {
    let server = NatsServer::start().expect("a server");
    let seed = nkeys::KeyPair::new_user().seed().expect("a seed");
    let key = SigningKey::from_seed(&seed).expect("a key");
    let public = key.public_key().to_string();
    let (output, mut terms) = tokio::sync::mpsc::unbounded_channel();
    let lead = move |term: Term| {
        let _ = output.send(term.clone());
        async move {
            term.cancelled().await;
            Ok(())
        }
    };
    let manager = manager(server.url(), "node-1")
        .signing_key(key)
        .role("scheduler", RoleConfig::default(), handler_fn(lead))
        .start()
        .await
        .expect("start");
    let term = terms.recv().await.expect("a term");
    let soon = Duration::from_secs(30);
    let proof = eventually(soon, "a proof", async || term.proof()).await;
    Leader {
        _server: server,
        _manager: manager,
        key: public,
        proof,
    }
}

#[tokio::test]
async fn a_proof_is_verified_wherever_it_comes_from() {
    let leader = leader().await;
    let folder = tempfile::tempdir().expect("a folder");
    let keys = folder.path().join("keys");
    std::fs::write(&keys, format!("# ours\n\n{} # node-1\n", leader.key)).expect("write");
    let keys = keys.to_str().expect("text");

    let trusted = ["verify", "--keys-file", keys];
    for more in [&[leader.proof.as_str()][..], &[]] {
        let output = with_stdin(nats_elect(&trusted).args(more), &leader.proof).with_code(0);
        output.says_all(["leader         node-1", "role           scheduler"]);
    }
    let output = with_stdin(nats_elect(&trusted).arg("--json"), &leader.proof);
    let value = json(&output.stdout);
    assert_eq!(value["leader"], "node-1");
    assert_eq!(value["bucket"], "leaders");
    assert_eq!(value["fencing_token"].as_str().map(str::len), Some(32));
}

/// The proof that the documentation shows.
const PUBLISHED: &str = include_str!("../../../../docs/leader-proof.txt");

#[tokio::test]
async fn what_is_not_valid_is_refused_and_told_why() {
    let leader = leader().await;
    for (arguments, code, expected) in [
        (&["--key", OTHER, &leader.proof][..], 4, "not trusted here"),
        (
            &["--key", &leader.key, "leader-proof-1.x.y"],
            4,
            "no leader proof",
        ),
        (&["--key", "no key", &leader.proof], 2, ""),
        (&[&leader.proof], 2, "--key"),
        (
            &["--json", "--key", OTHER, PUBLISHED.trim()],
            4,
            "{\"advice\":null,\"error\":\"refused\"",
        ),
        (&["--key", &leader.key, ""], 3, "no proof to verify"),
    ] {
        let output = ended(nats_elect(&["verify"]).args(arguments)).with_code(code);
        output.complains(expected);
        assert_eq!(output.stdout, "");
    }
}

#[test]
fn an_empty_input_is_no_proof_and_rubbish_is_one_that_is_not_valid() {
    for (content, code) in [(" \n", 3), ("\u{fffe}", 4), ("rubbish", 4), ("", 3)] {
        with_stdin(&mut nats_elect(&["verify", "--key", OTHER]), content).assert_code(code);
    }
}
