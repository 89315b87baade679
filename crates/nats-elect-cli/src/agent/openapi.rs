//! The description of all paths. A test compares it with what is answered.

use std::collections::BTreeMap;

use axum::Json;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::api::{Done, Instance, Promise, Proved, Ready, SteppedDown, SteppingDown, Told};
use super::keys::{Keys, Written};
use crate::openapi::{Document, EVENTS, JSON, Words};

const ABOUT: &str = "Elections for applications in any language. docs/agent.md has the protocol: \
                     open the stream, renew the promise, stop in time.";
const WORDS: Words = &[
    "role The name of the role",
    "token The fencing token of the term",
    "key The key. It may contain slashes",
];
const UNREADY: &str =
    "It can't: NATS is out of reach for longer than a lease, or the agent is being stopped";
const TOLD: &str = "Server-sent events: standing, leader, promoted, wind_down, ended (StreamEvent)";
const BYTES: &str = "application/octet-stream";

/// Described elsewhere.
type Object = Map<String, Value>;

/// The role's settings, as in a configuration file, if the agent's file has no roles
#[derive(JsonSchema)]
struct Settings {}

/// `/v1/openapi.json`.
pub async fn document() -> Json<Value> {
    let mut document = Document::new("nats-elect agent", ABOUT, WORDS);
    document.base = "/v1";
    document.ok::<Instance>("get  instance The instance that the agent is");
    document
        .ok::<Ready>("get /ready ready Whether the agent can take part in its elections")
        .answer::<Ready>(503, JSON, UNREADY);
    document.ok::<Object>("get /openapi.json document This document");
    document.ok::<BTreeMap<String, Object>>(
        "get /roles roles The status of all roles that are stood for, as docs/agent.md has it",
    );
    document.ok::<Object>("get /roles/{role} role The status of a role, as docs/agent.md has it");
    document
        .operation("post /roles/{role} stand Stand for a role as long as the connection is open")
        .body::<Settings>(JSON)
        .answer::<String>(200, EVENTS, TOLD);
    document.component::<Told>();
    document
        .ok::<SteppedDown>(
            "post /roles/{role}/step-down stepDown Give the role up, to any instance or to one",
        )
        .body::<SteppingDown>(JSON);

    document.base = "/v1/roles/{role}/terms/{token}";
    document.ok::<Promise>("post /renew renew A new promise");
    document
        .operation("post /done done Say that all work of the term has ended")
        .body::<Done>(JSON)
        .empty();
    document.ok::<Proved>("post /validate validate Prove the lease by a compare-and-set");
    document.ok::<Proved>(
        "post /authorize authorize Prove the lease, unless it was proved a moment ago",
    );
    document.ok::<Keys>("get /keys listKeys The role's keys");
    document
        .operation("get /keys/{key} readKey The value of a key. ETag has its revision")
        .answer::<Value>(200, BYTES, "The value");
    document
        .ok::<Written>(
            "put /keys/{key} writeKey Write a key. NATS refuses it once a newer term exists",
        )
        .header("If-None-Match `*`: write only if the key is missing")
        .header("If-Match Write only if the key is at this revision, as an ETag has it")
        .body::<Value>(BYTES);
    document.ok::<Written>("delete /keys/{key} deleteKey Delete a key");

    let mut described = document.finish();
    described["security"] = json!([{ "secret": [] }, {}]);
    let what = "The secret in the agent's --token-file";
    let secret = json!({ "type": "http", "scheme": "bearer", "description": what });
    described["components"]["securitySchemes"]["secret"] = secret;
    Json(described)
}
