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

/// Why requests are refused.
const UNAUTHORIZED: &str = "401 The secret is missing or wrong";
const NOT_ATTACHED: &str = "404 No application stands for the role over this agent";
const OF_STAND: Words = &[
    "400 The name or the settings break a rule",
    "403 The agent's file has no such role",
    "409 `taken`: another application stands for it over this agent",
    "503 The agent is being stopped",
];
const OF_TERM: Words = &[
    UNAUTHORIZED,
    NOT_ATTACHED,
    "400 The request can't be read",
    "409 `not_leader`: the term is over. Stop acting as its leader",
];
const OF_STEP_DOWN: Words = &[
    "424 `successor_absent` or `successor_refused`: nothing was done",
    "503 The agent is being stopped",
];
const OF_PROOF: Words = &["503 `unproven`: no proof could be had just now"];
const OF_KEYS: Words = &[
    "404 `no_such_key`, or no application stands for the role",
    "502 NATS refused it",
    "503 NATS could not do it just now. Nothing was written",
];
const OF_WRITE: Words = &[
    "409 `not_leader` or `superseded`: the term is over, or a newer one exists",
    "412 `conflict`: the key is in another state. `revision` has the one it is at",
    "413 The value is too large",
    "501 The server or the bucket can't do it",
    "504 `unconfirmed`: it may have been written. Read before you decide",
    "507 The role would keep more than its data limit",
];

/// The role's settings, as in a configuration file, if the agent's file has no roles
#[derive(JsonSchema)]
struct Settings {}

/// `/v1/openapi.json`.
pub async fn document() -> Json<Value> {
    let mut document = Document::new("nats-elect agent", ABOUT, WORDS);
    (document.base, document.always) = ("/v1", &[UNAUTHORIZED]);
    of_roles(&mut document);
    (document.base, document.always) = ("/v1/roles/{role}/terms/{token}", OF_TERM);
    of_terms(&mut document);
    let mut described = document.finish();
    described["security"] = json!([{ "secret": [] }, {}]);
    let what = "The secret in the agent's --token-file";
    let secret = json!({ "type": "http", "scheme": "bearer", "description": what });
    described["components"]["securitySchemes"]["secret"] = secret;
    Json(described)
}

fn of_roles(document: &mut Document) {
    document
        .operation("get  instance The instance that the agent is")
        .ok::<Instance>();
    document
        .operation("get /ready ready Whether the agent can take part in its elections")
        .ok::<Ready>()
        .answer::<Ready>(503, JSON, UNREADY);
    document
        .operation("get /openapi.json document This document")
        .ok::<Object>();
    document
        .operation(
            "get /roles roles The status of all roles that are stood for, as docs/agent.md has it",
        )
        .ok::<BTreeMap<String, Object>>();
    document
        .operation("get /roles/{role} role The status of a role, as docs/agent.md has it")
        .ok::<Object>()
        .refused(&[NOT_ATTACHED]);
    document
        .operation("post /roles/{role} stand Stand for a role as long as the connection is open")
        .body::<Settings>(JSON)
        .answer::<String>(200, EVENTS, TOLD)
        .refused(OF_STAND);
    document.component::<Told>();
    document
        .operation(
            "post /roles/{role}/step-down stepDown Give the role up, to any instance or to one",
        )
        .body::<SteppingDown>(JSON)
        .ok::<SteppedDown>()
        .refused(OF_TERM)
        .refused(OF_STEP_DOWN);
}

fn of_terms(document: &mut Document) {
    document
        .operation("post /renew renew A new promise")
        .ok::<Promise>();
    document
        .operation("post /done done Say that all work of the term has ended")
        .body::<Done>(JSON)
        .empty();
    document
        .operation("post /validate validate Prove the lease by a compare-and-set")
        .ok::<Proved>()
        .refused(OF_PROOF);
    document
        .operation("post /authorize authorize Prove the lease, unless it was proved a moment ago")
        .ok::<Proved>()
        .refused(OF_PROOF);
    document
        .operation("get /keys listKeys The role's keys")
        .ok::<Keys>()
        .refused(OF_KEYS);
    document
        .operation("get /keys/{key} readKey The value of a key. ETag has its revision")
        .answer::<Value>(200, BYTES, "The value")
        .refused(OF_KEYS);
    document
        .operation("put /keys/{key} writeKey Write a key. NATS refuses it once a newer term exists")
        .header("If-None-Match `*`: write only if the key is missing")
        .header("If-Match Write only if the key is at this revision, as an ETag has it")
        .body::<Value>(BYTES)
        .ok::<Written>()
        .refused(OF_KEYS)
        .refused(OF_WRITE);
    document
        .operation("delete /keys/{key} deleteKey Delete a key")
        .ok::<Written>()
        .refused(OF_KEYS)
        .refused(OF_WRITE);
}
