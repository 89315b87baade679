//! What the `OpenAPI` document of an API promises of its answers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// The document, in which no object may have a field that it does not name, unless it says so.
pub struct Document(Value);

impl Document {
    pub fn new(mut document: Value) -> Self {
        close(&mut document["components"]["schemas"]);
        Self(document)
    }

    /// All operations, such as `get /v1`.
    pub fn operations(&self) -> BTreeSet<String> {
        let paths = self.0["paths"].as_object().expect("paths");
        let operations = paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().expect("methods");
            methods.keys().map(move |method| format!("{method} {path}"))
        });
        operations.collect()
    }

    /// The answer has the form that the document gives for its operation, status and kind.
    #[track_caller]
    pub fn describes(&self, operation: &str, status: u16, kind: Option<&str>, body: &str) {
        let (method, path) = operation.split_once(' ').expect("a method and a path");
        let responses = &self.0["paths"][path][method]["responses"];
        let default = &responses["default"];
        let content = &responses.get(status.to_string()).unwrap_or(default)["content"];
        let Some(kind) = kind else {
            assert!(content.is_null(), "{operation} promises content");
            return;
        };
        // What is not known to be so is 503, too.
        let of_kind = content.get(kind).or(default["content"].get(kind));
        let schema = &of_kind.expect("a kind")["schema"];
        assert!(!schema.is_null(), "{operation} {status}: {kind}");
        if kind.ends_with("json") {
            self.holds(schema, &serde_json::from_str(body).expect("JSON"));
        }
    }

    /// The data of an event has the form of this name.
    #[track_caller]
    pub fn describes_event(&self, name: &str, data: &Value) {
        let schema = json!({ "$ref": format!("#/components/schemas/{name}") });
        self.holds(&schema, data);
    }

    #[track_caller]
    fn holds(&self, schema: &Value, value: &Value) {
        let mut schema = schema.clone();
        schema["components"] = self.0["components"].clone();
        let schema = jsonschema::draft202012::options()
            .should_validate_formats(true)
            .build(&schema)
            .expect("a schema");
        let faults = schema.iter_errors(value);
        let faults = faults.map(|it| format!("{} at {}", it, it.instance_path()));
        let faults: Vec<_> = faults.collect();
        assert!(faults.is_empty(), "{faults:#?}\n{value:#}");
    }
}

fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.contains_key("properties") {
                let more = fields.entry("additionalProperties");
                more.or_insert(json!(false));
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}
