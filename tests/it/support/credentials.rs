//! Certificates, and the keys and tokens of an operator, made for one test.

use std::fs;
use std::path::PathBuf;

use data_encoding::BASE64URL_NOPAD;
use nkeys::KeyPair;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer};
use serde_json::{Value, json};
use tempfile::TempDir;

/// More folders than any path to a server's own folder has.
const DEPTH: usize = 20;

/// A folder for files of a test; it goes with this value.
pub struct Files(TempDir);

impl Files {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("write");
        path
    }

    /// How the configuration of a server of ours includes a file from here, now and when it is told
    /// to read it anew.
    pub fn included(&self, name: &str) -> String {
        // A server takes the path as relative to its own folder, wherever that is.
        let to_root = "../".repeat(DEPTH);
        format!("include \"{to_root}{}\"\n", self.path(name).display())
    }
}

/// A certificate authority of one's own.
pub struct Authority {
    files: Files,
    issuer: Issuer<'static, rcgen::KeyPair>,
}

/// A certificate and its key, as files.
pub struct Certified {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new() -> Self {
        let files = Files::new();
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        files.write("ca.pem", &certificate.pem());
        let issuer = Issuer::new(params, key);
        Self { files, issuer }
    }

    pub fn file(&self) -> PathBuf {
        self.files.path("ca.pem")
    }

    /// A certificate for these hosts.
    pub fn certify(&self, name: &str, hosts: &[&str]) -> Certified {
        let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
        let params = CertificateParams::new(hosts).expect("names");
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Certified {
            cert: self.files.write(&format!("{name}.pem"), &certificate.pem()),
            key: self
                .files
                .write(&format!("{name}.key"), &key.serialize_pem()),
        }
    }

    /// The `tls` block of a server on loopback with a certificate of this authority.
    pub fn server_block(&self, further: &str) -> String {
        let Certified { cert, key } = self.certify("server", &["127.0.0.1"]);
        format!(
            "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", {further} }}\n",
            cert.display(),
            key.display(),
            self.file().display()
        )
    }
}

/// An operator with one account that has `JetStream`.
pub struct Operator {
    root: KeyPair,
    account: KeyPair,
    system: KeyPair,
}

impl Operator {
    pub fn new() -> Self {
        Self {
            root: KeyPair::new_operator(),
            account: KeyPair::new_account(),
            system: KeyPair::new_account(),
        }
    }

    /// The configuration of a server that trusts this operator.
    pub fn server_config(&self) -> String {
        let operator = &self.root;
        let itself = signed(
            operator,
            operator,
            &json!({"type": "operator", "version": 2}),
        );
        let account = |account: &KeyPair, storage: i64| {
            let limits = json!({
                "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "conn": -1, "leaf": -1,
                "wildcards": true, "mem_storage": storage, "disk_storage": storage, "streams": -1, "consumer": -1,
            });
            let claims = json!({"type": "account", "version": 2, "limits": limits});
            signed(operator, account, &claims)
        };
        format!(
            "operator: {itself}\nsystem_account: {system}\nresolver: MEMORY\nresolver_preload: {{ {id}: {jwt}, {system}: {system_jwt} }}\n",
            id = self.account.public_key(),
            jwt = account(&self.account, -1),
            system = self.system.public_key(),
            system_jwt = account(&self.system, 0),
        )
    }

    /// The `.creds` file of a new user of the account, who may do anything.
    pub fn creds(&self) -> String {
        creds_signed_by(&self.account)
    }

    /// Credentials that nobody of this operator has signed.
    pub fn forged_creds() -> String {
        creds_signed_by(&KeyPair::new_account())
    }
}

fn creds_signed_by(account: &KeyPair) -> String {
    let user = KeyPair::new_user();
    let claims = json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1});
    let jwt = signed(account, &user, &claims);
    let seed = user.seed().expect("its seed");
    format!(
        "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
}

/// What this issuer says of that subject.
fn signed(issuer: &KeyPair, subject: &KeyPair, nats: &Value) -> String {
    let header = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let claims = json!({
        "jti": subject.public_key(), "iat": 1_700_000_000, "iss": issuer.public_key(),
        "sub": subject.public_key(), "name": "made for a test", "nats": nats,
    });
    let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let text = format!("{}.{}", part(&header), part(&claims));
    let signature = issuer.sign(text.as_bytes()).expect("sign");
    format!("{text}.{}", BASE64URL_NOPAD.encode(&signature))
}
