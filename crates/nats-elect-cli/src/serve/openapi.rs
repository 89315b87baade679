//! The description of all paths. A test compares it with what is answered.

use axum::response::Response;
use serde_json::{Map, Value};

use super::api::{History, Instances, Leadership, RoleInFull, Roles, When, Where, told};
use super::groups::{All, GroupInFull, UnitOwner, Which};
use crate::fleet::{Change, GroupChange, In};
use crate::openapi::{Document, EVENTS, JSON, Words};

const ABOUT: &str = "Who leads what in the buckets of nats-elect. It is a view: only the fencing \
                     token guards a write.";
const WORDS: Words = &[
    "role The name of a role",
    "instance The id of an instance",
    "group The name of a group",
];
const NO_LEADER: &str = "It is not known to lead the role, or no bucket was read yet";
const NO_OWNER: &str =
    "It has no owner that is known to live, or the groups are not current, or not read yet";
const EVENT_KINDS: &str = "Server-sent events: hello, change (Change), group (GroupChange), \
                           history (Event), instances, view (View), reload";

/// `/api/v1/openapi.json`.
pub async fn document() -> Response {
    let mut document = Document::new("nats-elect serve", ABOUT, WORDS);
    document.base = "/api/v1";
    document
        .operation("get /events events What happens, as it happens")
        .header("Last-Event-ID The last event that was read: what came after it is told again")
        .answer::<String>(200, EVENTS, EVENT_KINDS);
    document.component::<In<Change>>();
    document.component::<In<GroupChange>>();
    document.ok::<Map<String, Value>>("get /openapi.json document This document");
    document.get::<Where, Roles>("/roles roles All roles");
    document.get::<Where, RoleInFull<'_>>("/roles/{role} role A role, and its candidates");
    document
        .get::<Where, In<Leadership>>(
            "/leader/{role}/{instance} leader Whether an instance is known to lead a role",
        )
        .answer::<In<Leadership>>(503, JSON, NO_LEADER);
    document
        .get::<Where, Instances<'_>>("/instances instances What the instances say of themselves");
    document.get::<When, History>(
        "/history history Past leaders, and why they changed: the last thousand events",
    );
    document.get::<Where, All>("/groups groups All groups");
    document.get::<Where, GroupInFull<'_>>(
        "/groups/{group} group A group: who has its units, and those without an owner",
    );
    document
        .get::<Which, In<UnitOwner>>("/groups/{group}/owner owner The owner of a key, or of a unit")
        .answer::<In<UnitOwner>>(503, JSON, NO_OWNER);
    told(&document.finish())
}
