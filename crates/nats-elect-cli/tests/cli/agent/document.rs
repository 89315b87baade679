//! The `OpenAPI` document promises what is answered.

use std::collections::BTreeSet;

use nats_elect_testing::NatsServer;
use serde_json::{Value, json};

use crate::agent::client::Answer;
use crate::agent::running::Agent;

/// The document as it is served.
struct Document(Value);

impl Document {
    /// All operations, as `GET /v1`.
    fn operations(&self) -> BTreeSet<String> {
        let paths = self.0["paths"].as_object().expect("paths");
        let operations = paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().expect("methods");
            methods
                .keys()
                .map(move |method| format!("{} {path}", method.to_uppercase()))
        });
        operations.collect()
    }

    /// The answer is one of those that the document promises for this operation.
    fn promises(&self, operation: &str, answer: &Answer) {
        let (method, path) = operation.split_once(' ').expect("a method and a path");
        let promised = &self.0["paths"][path][method.to_lowercase()]["responses"];
        let promised = promised
            .get(answer.status.to_string())
            .unwrap_or(&promised["default"]);
        assert!(
            promised.is_object(),
            "{operation} answers {}",
            answer.status
        );
        let Some(kind) = answer.header("content-type") else {
            assert!(
                promised["content"].is_null(),
                "{operation} promises content"
            );
            return;
        };
        let schema = &promised["content"][kind]["schema"];
        assert!(!schema.is_null(), "{operation}, {}: {kind}", answer.status);
        if !kind.ends_with("json") {
            return;
        }
        let whole = json!({"components": self.0["components"], "allOf": [schema]});
        let validator = jsonschema::validator_for(&whole).expect("a schema");
        let body = answer.json();
        let problems: Vec<_> = validator
            .iter_errors(&body)
            .map(|it| it.to_string())
            .collect();
        assert!(problems.is_empty(), "{operation}: {problems:?} in {body}");
    }
}

/// An operation, the role and the term that it is asked for, and a body. `now` is the term that goes
/// on, `never` one that never was.
const ASKED: [(&str, &str, &str, &str); 22] = [
    ("GET /v1", "", "", ""),
    ("GET /v1/ready", "", "", ""),
    ("GET /v1/openapi.json", "", "", ""),
    ("GET /v1/roles", "", "", ""),
    ("GET /v1/roles/{role}", "worker", "", ""),
    ("GET /v1/roles/{role}", "other", "", ""),
    ("POST /v1/roles/{role}", "worker", "", ""),
    ("POST /v1/roles/{role}", "other", "", ""),
    ("POST /v1/roles/{role}", "worker", "", "{"),
    ("POST /v1/roles/{role}/step-down", "worker", "", NOBODY),
    ("POST /v1/roles/{role}/step-down", "other", "", ""),
    (
        "POST /v1/roles/{role}/terms/{token}/renew",
        "worker",
        "now",
        "",
    ),
    (
        "POST /v1/roles/{role}/terms/{token}/renew",
        "worker",
        "never",
        "",
    ),
    (
        "POST /v1/roles/{role}/terms/{token}/renew",
        "worker",
        "?",
        "",
    ),
    (
        "POST /v1/roles/{role}/terms/{token}/validate",
        "worker",
        "now",
        "",
    ),
    (
        "POST /v1/roles/{role}/terms/{token}/authorize",
        "worker",
        "now",
        "",
    ),
    (KEY[0], "worker", "now", "1"),
    (KEY[1], "worker", "now", ""),
    (
        "GET /v1/roles/{role}/terms/{token}/keys",
        "worker",
        "now",
        "",
    ),
    (KEY[2], "worker", "now", ""),
    (KEY[1], "worker", "now", ""),
    (
        "POST /v1/roles/{role}/terms/{token}/done",
        "worker",
        "now",
        "",
    ),
];
const KEY: [&str; 3] = [
    "PUT /v1/roles/{role}/terms/{token}/keys/{key}",
    "GET /v1/roles/{role}/terms/{token}/keys/{key}",
    "DELETE /v1/roles/{role}/terms/{token}/keys/{key}",
];
const NOBODY: &str = r#"{"to": "nobody"}"#;

#[tokio::test]
async fn each_operation_answers_as_the_document_promises() {
    let server = NatsServer::start().expect("a server");
    let agent = Agent::start(&server, "a", "10m").await;
    let mut stream = agent.client().stand("worker");
    let term = stream.promoted("worker");
    let document = agent.client().get("/v1/openapi.json").expect("an answer");
    let document = Document(document.json());
    for (operation, role, token, body) in ASKED {
        let (method, path) = operation.split_once(' ').expect("a method and a path");
        let token = match token {
            "now" => term.rsplit('/').next().expect("a token").to_owned(),
            "never" => "0".repeat(32),
            other => other.to_owned(),
        };
        let path = path.replace("{role}", role).replace("{token}", &token);
        let path = path.replace("{key}", "a/b");
        let answer = agent.client().ask(method, &path, &[], body.as_bytes());
        document.promises(operation, &answer.expect("an answer"));
    }
    let asked: BTreeSet<_> = ASKED.iter().map(|it| it.0.to_owned()).collect();
    assert_eq!(asked, document.operations(), "each operation is tried");
}
