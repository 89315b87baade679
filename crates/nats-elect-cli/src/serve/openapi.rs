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
    document
        .operation("get /openapi.json document This document")
        .ok::<Map<String, Value>>();
    of_roles(&mut document);
    of_groups(&mut document);
    told(&document.finish())
}

fn of_roles(document: &mut Document) {
    document
        .operation("get /roles roles All roles")
        .query::<Where>()
        .ok::<Roles>();
    document
        .operation("get /roles/{role} role A role, and its candidates")
        .query::<Where>()
        .ok::<RoleInFull<'_>>();
    document
        .operation(
            "get /leader/{role}/{instance} leader Whether an instance is known to lead a role",
        )
        .query::<Where>()
        .ok::<In<Leadership>>()
        .answer::<In<Leadership>>(503, JSON, NO_LEADER);
    document
        .operation("get /instances instances What the instances say of themselves")
        .query::<Where>()
        .ok::<Instances<'_>>();
    document
        .operation(
            "get /history history Past leaders, and why they changed: the last thousand events",
        )
        .query::<When>()
        .ok::<History>();
}

fn of_groups(document: &mut Document) {
    document
        .operation("get /groups groups All groups")
        .query::<Where>()
        .ok::<All>();
    document
        .operation(
            "get /groups/{group} group A group: who has its units, and those without an owner",
        )
        .query::<Where>()
        .ok::<GroupInFull<'_>>();
    document
        .operation("get /groups/{group}/owner owner The owner of a key, or of a unit")
        .query::<Which>()
        .ok::<In<UnitOwner>>()
        .answer::<In<UnitOwner>>(503, JSON, NO_OWNER);
}
