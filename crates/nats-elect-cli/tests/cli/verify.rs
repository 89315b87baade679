//! `verify`: proofs from the argument, from files, and from the role's record.

use nats_elect::{RoleConfig, RoleManager, SigningKey, Term, handler_fn};
use nats_elect_testing::{NatsServer, eventually};
use std::time::Duration;

use crate::fleet::json;
use crate::{ended, nats_elect, with_stdin};

const OTHER: &str = "UCFIRY65OQE7DFP5KLNS2PF2LVZMUZYJX4OZIEQ36N2IQANUB5XVZ45L";

/// A leader that signs, on a server of its own, with its proof.
struct Leader {
    server: NatsServer,
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
    let manager = RoleManager::builder()
        .servers(server.url())
        .bucket_auto_create()
        .instance_id("node-1")
        .signing_key(key)
        .role("scheduler", RoleConfig::default(), handler_fn(lead))
        .start()
        .await
        .expect("start");
    let term = terms.recv().await.expect("a term");
    let soon = Duration::from_secs(30);
    let proof = eventually(soon, "a proof", async || term.proof()).await;
    Leader {
        server,
        _manager: manager,
        key: public,
        proof: proof.to_string(),
    }
}

#[tokio::test]
async fn a_proof_is_verified_wherever_it_comes_from() {
    let leader = leader().await;
    let url = leader.server.url();
    let folder = tempfile::tempdir().expect("a folder");
    let (file, keys) = (folder.path().join("proof"), folder.path().join("keys"));
    std::fs::write(&file, format!("{}\n", leader.proof)).expect("write");
    std::fs::write(&keys, format!("# ours\n\n{} # node-1\n", leader.key)).expect("write");
    let (file, keys) = (file.to_str().expect("text"), keys.to_str().expect("text"));

    let trusted = ["verify", "--keys-file", keys];
    for more in [
        &[leader.proof.as_str()][..],
        &["--file", file],
        &["--role", "scheduler", "--server", &url],
    ] {
        let output = ended(nats_elect(&trusted).args(more));
        assert_eq!(output.code, Some(0), "{more:?}: {}", output.stderr);
        for line in ["leader         node-1", "role           scheduler"] {
            assert!(output.stdout.contains(line), "{}", output.stdout);
        }
    }
    let output = with_stdin(nats_elect(&trusted).arg("--json"), &leader.proof);
    let value = json(&output.stdout);
    assert_eq!(value["leader"], "node-1");
    assert_eq!(value["bucket"], "leaders");
    assert_eq!(value["fencing_token"].as_str().map(str::len), Some(32));

    let none = ended(nats_elect(&trusted).args(["--role", "nobody", "-s", &url]));
    assert_eq!(none.code, Some(3), "{}", none.stderr);
}

/// The proof that the documentation shows.
const PUBLISHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/leader-proof.txt");

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
            &["--json", "--key", OTHER, "-f", PUBLISHED],
            4,
            "{\"advice\":null,\"error\":\"refused\"",
        ),
        (&["--key", &leader.key, ""], 3, "no proof to verify"),
    ] {
        let output = ended(nats_elect(&["verify"]).args(arguments));
        assert_eq!(output.code, Some(code), "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(expected), "{}", output.stderr);
        assert_eq!(output.stdout, "");
    }
}

#[test]
fn an_empty_input_is_no_proof_and_rubbish_is_one_that_is_not_valid() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("proof");
    for (content, code) in [(&b" \n"[..], 3), (b"\xff\xfe", 4), (b"rubbish", 4)] {
        std::fs::write(&file, content).expect("write");
        let output = ended(nats_elect(&["verify", "--key", OTHER, "--file"]).arg(&file));
        assert_eq!(output.code, Some(code), "{content:?}: {}", output.stderr);
    }
    let empty = ended(&mut nats_elect(&["verify", "--key", OTHER]));
    assert_eq!(empty.code, Some(3), "{}", empty.stderr);
    std::fs::remove_file(&file).expect("removed");
    let missing = ended(nats_elect(&["verify", "--key", OTHER, "--file"]).arg(&file));
    assert_eq!(missing.code, Some(2), "{}", missing.stderr);
}
