//! `OpenAPI` documents: their schemas come from the types of answers.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use crate::problem::Problem;

pub const JSON: &str = "application/json";
pub const EVENTS: &str = "text/event-stream";

/// Words in paths and what they mean, as `role The name of a role`.
pub type Words = &'static [&'static str];

/// A document in the making.
pub struct Document {
    generator: SchemaGenerator,
    /// What paths begin with.
    pub base: &'static str,
    words: Words,
    problem: Value,
    json: Value,
}

/// What can be done with a path.
pub struct Operation<'a> {
    generator: &'a mut SchemaGenerator,
    json: &'a mut Value,
}

impl Document {
    /// A document without operations.
    pub fn new(title: &str, about: &str, words: Words) -> Self {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let settings = settings.with(|it| it.definitions_path = "/components/schemas".into());
        let mut generator = settings.into_generator();
        let license = json!({ "name": "Apache-2.0", "identifier": "Apache-2.0" });
        Self {
            base: "",
            words,
            problem: generator.subschema_for::<Problem>().to_value(),
            generator,
            json: json!({
                "openapi": "3.1.0",
                "info": { "title": title, "version": "1", "license": license, "description": about },
                "servers": [{ "url": "/" }],
            }),
        }
    }

    /// An operation: its method, its path, its name, and what it does.
    pub fn operation(&mut self, what: &str) -> Operation<'_> {
        let mut words = what.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (method, path, id, summary) = (word(), word(), word(), word());
        let path = format!("{}{path}", self.base);
        let json = &mut self.json["paths"][&path][method];
        *json = json!({ "operationId": id, "summary": summary, "parameters": [] });
        let refused = &mut json["responses"]["default"];
        refused["content"]["application/problem+json"]["schema"] = self.problem.clone();
        refused["description"] = json!("It is refused, or can't be done now: `code` says why");
        let mut operation = Operation {
            generator: &mut self.generator,
            json,
        };
        for (name, what) in self.words.iter().filter_map(|it| it.split_once(' ')) {
            if path.contains(&format!("{{{name}}}")) {
                operation = operation.parameter("path", name, what);
            }
        }
        operation
    }

    /// An operation with this answer, if nothing is wrong.
    pub fn ok<A: JsonSchema>(&mut self, what: &str) -> Operation<'_> {
        self.operation(what).ok::<A>()
    }

    /// An operation that reads, with a query. The text has its path, its name, and what it does.
    pub fn get<Q: JsonSchema, A: JsonSchema>(&mut self, what: &str) -> Operation<'_> {
        self.ok::<A>(&format!("get {what}")).query::<Q>()
    }

    /// A type that no answer has: the data of an event.
    pub fn component<T: JsonSchema>(&mut self) {
        self.generator.subschema_for::<T>();
    }

    pub fn finish(mut self) -> Value {
        self.json["components"]["schemas"] = self.generator.take_definitions(true).into();
        self.json
    }
}

impl Operation<'_> {
    fn parameter(self, place: &str, name: &str, what: &str) -> Self {
        if let Some(parameters) = self.json["parameters"].as_array_mut() {
            let schema = json!({ "type": "string" });
            let required = place == "path";
            parameters.push(json!({
                "name": name, "in": place, "required": required, "description": what, "schema": schema,
            }));
        }
        self
    }

    /// A header: its name, and what it says.
    pub fn header(self, what: &str) -> Self {
        let (name, what) = what.split_once(' ').unwrap_or((what, ""));
        self.parameter("header", name, what)
    }

    /// The fields of a type are parameters of its query.
    pub fn query<T: JsonSchema>(mut self) -> Self {
        let schema = T::json_schema(self.generator);
        let fields = schema.get("properties").and_then(Value::as_object);
        for (name, field) in fields.into_iter().flatten() {
            let what = field["description"].as_str().unwrap_or_default();
            self = self.parameter("query", name, what);
        }
        self
    }

    /// It takes a body.
    pub fn body<T: JsonSchema>(self, kind: &str) -> Self {
        let schema = self.generator.subschema_for::<T>();
        self.json["requestBody"]["content"][kind]["schema"] = schema.to_value();
        self
    }

    /// What is answered if nothing is wrong.
    pub fn ok<T: JsonSchema>(self) -> Self {
        let summary = self.json["summary"].as_str().unwrap_or_default().to_owned();
        self.answer::<T>(200, JSON, &summary)
    }

    pub fn answer<T: JsonSchema>(self, status: u16, kind: &str, when: &str) -> Self {
        let schema = self.generator.subschema_for::<T>();
        let answer = &mut self.json["responses"][status.to_string()];
        answer["content"][kind]["schema"] = schema.to_value();
        answer["description"] = json!(when);
        self
    }

    /// An answer without a body.
    pub fn empty(self) -> Self {
        let summary = self.json["summary"].clone();
        self.json["responses"]["204"]["description"] = summary;
        self
    }
}
