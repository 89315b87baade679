//! The `OpenAPI` document promises what is answered.

use std::collections::BTreeSet;

use nats_elect_testing::NatsServer;
use serde_json::{Value, json};

use crate::client::Answer;
use crate::running::Agent;

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
        let promised = &promised[answer.status.to_string()];
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

#[tokio::test]
async fn each_operation_answers_as_the_document_promises() {
    let server = NatsServer::start().expect("a server");
    let agent = Agent::start(&server, "a", "10m").await;
    let mut stream = agent.client().stand("worker");
    let term = stream.promoted("worker");
    let document = agent.client().get("/v1/openapi.json").expect("an answer");
    let document = Document(document.json());
    let of_term = "/v1/roles/{role}/terms/{token}";
    let zeros = format!("/v1/roles/worker/terms/{}", "0".repeat(32));
    let mut seen = BTreeSet::new();
    for (method, path, asked, body) in [
        ("GET", "/v1", "/v1", ""),
        ("GET", "/v1/ready", "/v1/ready", ""),
        ("GET", "/v1/openapi.json", "/v1/openapi.json", ""),
        ("GET", "/v1/roles", "/v1/roles", ""),
        ("GET", "/v1/roles/{role}", "/v1/roles/worker", ""),
        ("GET", "/v1/roles/{role}", "/v1/roles/other", ""),
        ("POST", "/v1/roles/{role}", "/v1/roles/worker", ""),
        ("POST", "/v1/roles/{role}", "/v1/roles/other", ""),
        ("POST", "/v1/roles/{role}", "/v1/roles/worker", "{"),
        (
            "POST",
            &format!("{of_term}/renew"),
            &format!("{term}/renew"),
            "",
        ),
        (
            "POST",
            &format!("{of_term}/renew"),
            &format!("{zeros}/renew"),
            "",
        ),
        (
            "POST",
            &format!("{of_term}/renew"),
            "/v1/roles/worker/terms/x/renew",
            "",
        ),
        (
            "POST",
            &format!("{of_term}/validate"),
            &format!("{term}/validate"),
            "",
        ),
        (
            "POST",
            &format!("{of_term}/authorize"),
            &format!("{term}/authorize"),
            "",
        ),
        (
            "PUT",
            &format!("{of_term}/keys/{{key}}"),
            &format!("{term}/keys/a/b"),
            "1",
        ),
        (
            "GET",
            &format!("{of_term}/keys/{{key}}"),
            &format!("{term}/keys/a/b"),
            "",
        ),
        (
            "GET",
            &format!("{of_term}/keys/{{key}}"),
            &format!("{term}/keys/c"),
            "",
        ),
        (
            "GET",
            &format!("{of_term}/keys"),
            &format!("{term}/keys"),
            "",
        ),
        (
            "DELETE",
            &format!("{of_term}/keys/{{key}}"),
            &format!("{term}/keys/a/b"),
            "",
        ),
        (
            "DELETE",
            &format!("{of_term}/keys/{{key}}"),
            &format!("{zeros}/keys/a/b"),
            "",
        ),
        (
            "POST",
            "/v1/roles/{role}/step-down",
            "/v1/roles/worker/step-down",
            r#"{"to":"nobody"}"#,
        ),
        (
            "POST",
            "/v1/roles/{role}/step-down",
            "/v1/roles/other/step-down",
            "",
        ),
        (
            "POST",
            &format!("{of_term}/done"),
            &format!("{term}/done"),
            "",
        ),
    ] {
        let answer = agent.client().ask(method, asked, &[], body.as_bytes());
        let operation = format!("{method} {path}");
        document.promises(&operation, &answer.expect("an answer"));
        seen.insert(operation);
    }
    assert_eq!(seen, document.operations(), "each operation is tried");
    stream.next("ended");
}
