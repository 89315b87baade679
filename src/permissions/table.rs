//! The table of rights: what each NATS user publishes and subscribes to.

use super::Part::{self, Admin, Candidate, Observer, Operator, Retire};

/// What a right is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Need {
    /// To read the bucket and to watch it.
    Read,
    /// To use other tools beside.
    Tools,
    /// To make and edit the bucket, or the stream of published events.
    Make,
    /// To claim a role and to keep it.
    Lead,
    /// To keep data by `Term::store()`.
    KeepData,
    /// To own units of a group.
    Own,
    /// To keep data as the owner of a unit.
    KeepUnitData,
    /// To hand roles over to other instances, or take them.
    HandOver,
    /// To publish changes of leaders.
    Publish,
    /// To be asked and operated.
    BeOperated,
    /// To have one's groups asked and operated.
    BeOperatedInGroups,
    /// To read the history of published changes.
    History,
    /// To ask instances how they are.
    Ask,
    /// To operate instances.
    Operate,
    /// To operate the groups of instances.
    OperateGroups,
    /// To retire a role.
    Retire,
}

/// A line or some of the same need. In their names `{role}` and `{group}` stand for each of those that
/// were named. A line with `{any group}` is left out if no group was named, and one with `{all}` if any
/// role or group was.
pub(super) struct Row {
    pub parts: &'static [Part],
    pub need: Need,
    pub why: &'static str,
    pub subjects: &'static [&'static str],
}

/// What users publish to.
pub(super) const PUBLISHED: &[Row] = &[
    Row {
        parts: &[Candidate, Observer, Admin, Retire],
        need: Need::Read,
        why: "The bucket's settings, and reads from the stream leader.",
        subjects: &[
            "$JS.API.STREAM.INFO.KV_{bucket}",
            "$JS.API.STREAM.MSG.GET.KV_{bucket}",
        ],
    },
    Row {
        parts: &[Candidate, Observer, Admin],
        need: Need::Read,
        why: "The watch and its flow control. No `$JS.API.DIRECT.GET`, of this stream or any other: the server writes the answer \
              wherever the asker says, with the stored message's headers and value (docs/security.md).",
        subjects: &[
            "$JS.API.CONSUMER.CREATE.KV_{bucket}.>",
            "$JS.FC.KV_{bucket}.>",
        ],
    },
    Row {
        parts: &[Observer, Admin],
        need: Need::Tools,
        why: "How some Key-Value clients begin a watch; the library does not.",
        subjects: &["$JS.API.CONSUMER.CREATE.KV_{bucket}"],
    },
    Row {
        parts: &[Admin],
        need: Need::Make,
        why: "The bucket: make it and edit it.",
        subjects: &[
            "$JS.API.STREAM.CREATE.KV_{bucket}",
            "$JS.API.STREAM.UPDATE.KV_{bucket}",
        ],
    },
    Row {
        parts: &[Admin],
        need: Need::Make,
        why: "The stream that keeps leader changes: make it, edit it, look at its settings.",
        subjects: &[
            "$JS.API.STREAM.CREATE.nats-elect-events-{bucket}",
            "$JS.API.STREAM.UPDATE.nats-elect-events-{bucket}",
            "$JS.API.STREAM.INFO.nats-elect-events-{bucket}",
            "{events}.{bucket}.*",
        ],
    },
    Row {
        parts: &[Admin],
        need: Need::Tools,
        why: "Limits of the account, as tools show them.",
        subjects: &["$JS.API.INFO"],
    },
    Row {
        parts: &[Admin],
        need: Need::Tools,
        why: "Every role's key (`nats kv del`).",
        subjects: &["$KV.{bucket}.*"],
    },
    Row {
        parts: &[Retire],
        need: Need::Retire,
        why: "A delete marker under the role's key, then the removal. The removal can't be limited to a role.",
        subjects: &["$KV.{bucket}.{role}"],
    },
    Row {
        parts: &[Retire],
        need: Need::Retire,
        why: "",
        subjects: &["$JS.API.STREAM.PURGE.KV_{bucket}"],
    },
    Row {
        parts: &[Candidate],
        need: Need::Lead,
        why: "Each role's key and its fence record.",
        subjects: &["$KV.{bucket}.{role}", "$KV.{bucket}._fence.{role}"],
    },
    Row {
        parts: &[Candidate],
        need: Need::KeepData,
        why: "What leaders keep by `term.store()`, and the guard of its conditional writes.",
        subjects: &["$KV.{bucket}._data.{role}.>", "$KV.{bucket}._guard.{role}"],
    },
    Row {
        parts: &[Candidate],
        need: Need::Own,
        why: "Groups: the map of each, and the leases of all of its members, which end each other's. Grant these to members alone: \
              whoever may write there can give units to anybody.",
        subjects: &["$KV.{bucket}._groups.{group}.>"],
    },
    Row {
        parts: &[Candidate],
        need: Need::KeepUnitData,
        why: "What owners of units keep by `term.store()`, its fences, and the guards of its conditional writes.",
        subjects: &[
            "$KV.{bucket}._gfence.{group}.>",
            "$KV.{bucket}._gdata.{group}.>",
            "$KV.{bucket}._guard.{group}.>",
        ],
    },
    Row {
        parts: &[Candidate],
        need: Need::HandOver,
        why: "Handoffs and takeovers: questions to all candidates of a role, and to one of them.",
        subjects: &["nats-elect.{bucket}.{role}", "nats-elect.{bucket}.{role}.*"],
    },
    Row {
        parts: &[Candidate],
        need: Need::HandOver,
        why: "Answers to those of other instances. No `allow_responses`: it permits whatever subject an asker names.",
        subjects: &["nats-elect.{bucket}._answer.>"],
    },
    Row {
        parts: &[Candidate],
        need: Need::BeOperated,
        why: "Answers to those who operate instances. Not `_INBOX.>`: whoever may publish there can pass for the server that \
              confirms other candidates' writes.",
        subjects: &["{admin}.{bucket}._answer.>"],
    },
    Row {
        parts: &[Candidate],
        need: Need::Publish,
        why: "What changes hands; the stream that keeps it is made by `admin.conf`'s user.",
        subjects: &["{events}.{bucket}.{role}"],
    },
    Row {
        parts: &[Observer],
        need: Need::History,
        why: "The history of leader changes, where it is kept.",
        subjects: &[
            "$JS.API.STREAM.INFO.nats-elect-events-{bucket}",
            "$JS.API.CONSUMER.CREATE.nats-elect-events-{bucket}.>",
            "$JS.API.CONSUMER.INFO.nats-elect-events-{bucket}.>",
            "$JS.API.CONSUMER.MSG.NEXT.nats-elect-events-{bucket}.>",
        ],
    },
    Row {
        parts: &[Observer, Operator, Retire],
        need: Need::Ask,
        why: "Who is there, and how they are: of the instances themselves.",
        subjects: &["{admin}.{bucket}.instances", "{admin}.{bucket}.status.*.*"],
    },
    Row {
        parts: &[Observer, Operator],
        need: Need::Ask,
        why: "The same of all roles, and by NATS tools.",
        subjects: &[
            "{admin}.{bucket}.status.*",
            "$SRV.*",
            "$SRV.*.nats-elect",
            "$SRV.*.nats-elect.*",
        ],
    },
    Row {
        parts: &[Operator],
        need: Need::Operate,
        why: "What they are to do with all roles: `<verb>.<incarnation>`.",
        subjects: &[
            "{all}{admin}.{bucket}.pause.*",
            "{all}{admin}.{bucket}.resume.*",
            "{all}{admin}.{bucket}.cordon.*",
        ],
    },
    Row {
        parts: &[Operator],
        need: Need::Operate,
        why: "And with one: `<verb>.<incarnation>.<role>`. Leave out verbs to permit less.",
        subjects: &[
            "{admin}.{bucket}.step-down.*.{role}",
            "{admin}.{bucket}.pause.*.{role}",
            "{admin}.{bucket}.resume.*.{role}",
            "{admin}.{bucket}.cordon.*.{role}",
        ],
    },
    Row {
        parts: &[Operator],
        need: Need::Operate,
        why: "Ending the wait for a lease whose holder is gone. Leave this out for users who must not decide that: if the \
              holder lives, there are two leaders until its next heartbeat.",
        subjects: &["{admin}.{bucket}.end-lease.*.{role}"],
    },
    Row {
        parts: &[Operator, Observer],
        need: Need::OperateGroups,
        why: "Groups: their plan, `<verb>.<incarnation>.<group>`.",
        subjects: &["{admin}.{bucket}.group-plan.*.{group}"],
    },
    Row {
        parts: &[Operator],
        need: Need::OperateGroups,
        why: "That an instance is to have a unit of a group.",
        subjects: &["{admin}.{bucket}.take-unit.*.{group}"],
    },
    Row {
        parts: &[Operator],
        need: Need::OperateGroups,
        why: "That a group is to have another number of shards. All its handlers end then, and begin anew.",
        subjects: &["{admin}.{bucket}.resize-group.*.{group}"],
    },
];

/// What users subscribe to.
pub(super) const SUBSCRIBED: &[Row] = &[
    Row {
        parts: &[Candidate, Observer, Admin],
        need: Need::Read,
        why: "Where answers and the watch's messages come in.",
        subjects: &["{inbox}.>"],
    },
    Row {
        parts: &[Retire],
        need: Need::Read,
        why: "Where answers come in.",
        subjects: &["{inbox}.>"],
    },
    Row {
        parts: &[Observer, Operator, Retire],
        need: Need::Ask,
        why: "Where instances answer: NATS tools need it as their inbox prefix (`nats --inbox-prefix`).",
        subjects: &["{admin}.{bucket}._answer.>"],
    },
    Row {
        parts: &[Candidate],
        need: Need::HandOver,
        why: "Questions of other instances, and their answers.",
        subjects: &["nats-elect.{bucket}.>"],
    },
    Row {
        parts: &[Candidate],
        need: Need::BeOperated,
        why: "Requests of those who operate instances: by NATS tools, who is there, how they are, and what they are to do. Whatever \
              is left out can't be asked of this instance; with `admin.enabled = false` nothing of it is needed.",
        subjects: &[
            "$SRV.*",
            "$SRV.*.nats-elect",
            "$SRV.*.nats-elect.*",
            "{admin}.{bucket}.instances",
            "{admin}.{bucket}.status.*",
            "{admin}.{bucket}.status.*.*",
            "{admin}.{bucket}.step-down.*.*",
            "{admin}.{bucket}.pause.*",
            "{admin}.{bucket}.pause.*.*",
            "{admin}.{bucket}.resume.*",
            "{admin}.{bucket}.resume.*.*",
            "{admin}.{bucket}.cordon.*",
            "{admin}.{bucket}.cordon.*.*",
            "{admin}.{bucket}.end-lease.*.*",
        ],
    },
    Row {
        parts: &[Candidate],
        need: Need::BeOperatedInGroups,
        why: "The same of groups. An instance without groups needs none of these lines.",
        subjects: &[
            "{any group}{admin}.{bucket}.group-plan.*.*",
            "{any group}{admin}.{bucket}.take-unit.*.*",
            "{any group}{admin}.{bucket}.resize-group.*.*",
        ],
    },
];
