//! The `OpenAPI` document promises what is answered.

use std::collections::BTreeSet;

use nats_elect_testing::NatsServer;

use crate::agent::running::Agent;
use crate::openapi::Document;

/// An operation, the role and the term that it is asked for, and a body. `now` is the term that goes
/// on, `never` one that never was.
const ASKED: [(&str, &str, &str, &str); 22] = [
    ("get /v1", "", "", ""),
    ("get /v1/ready", "", "", ""),
    ("get /v1/openapi.json", "", "", ""),
    ("get /v1/roles", "", "", ""),
    ("get /v1/roles/{role}", "worker", "", ""),
    ("get /v1/roles/{role}", "other", "", ""),
    ("post /v1/roles/{role}", "worker", "", ""),
    ("post /v1/roles/{role}", "other", "", ""),
    ("post /v1/roles/{role}", "worker", "", "{"),
    ("post /v1/roles/{role}/step-down", "worker", "", NOBODY),
    ("post /v1/roles/{role}/step-down", "other", "", ""),
    ("post {term}/renew", "worker", "now", ""),
    ("post {term}/renew", "worker", "never", ""),
    ("post {term}/renew", "worker", "?", ""),
    ("post {term}/validate", "worker", "now", ""),
    ("post {term}/authorize", "worker", "now", ""),
    ("put {term}/keys/{key}", "worker", "now", "1"),
    ("get {term}/keys/{key}", "worker", "now", ""),
    ("get {term}/keys", "worker", "now", ""),
    ("delete {term}/keys/{key}", "worker", "now", ""),
    ("get {term}/keys/{key}", "worker", "now", ""),
    ("post {term}/done", "worker", "now", ""),
];
const NOBODY: &str = r#"{"to": "nobody"}"#;

#[tokio::test]
async fn each_operation_answers_as_the_document_promises() {
    let server = NatsServer::start().expect("a server");
    let agent = Agent::start(&server, "a", "10m").await;
    let mut stream = agent.client().stand("worker");
    let term = stream.promoted("worker");
    let document = agent.client().get("/v1/openapi.json");
    let document = Document::new(document.json());
    let mut asked = BTreeSet::new();
    for (operation, role, token, body) in ASKED {
        let operation = operation.replace("{term}", "/v1/roles/{role}/terms/{token}");
        let (method, path) = operation.split_once(' ').expect("a method and a path");
        let token = match token {
            "now" => term.rsplit('/').next().expect("a token").to_owned(),
            "never" => "0".repeat(32),
            other => other.to_owned(),
        };
        let path = path.replace("{role}", role).replace("{token}", &token);
        let path = path.replace("{key}", "a/b");
        let method = method.to_uppercase();
        let answer = agent.client().ask(&method, &path, &[], body.as_bytes());
        let kind = answer.header("content-type");
        let body = String::from_utf8_lossy(&answer.body);
        document.describes(&operation, answer.status, kind, &body);
        asked.insert(operation);
    }
    assert_eq!(asked, document.operations(), "each operation is tried");
}
