//! The protocol of nats-elect as deterministic state machines: elections of roles, and members of groups.
//!
//! An [`Election`] is one instance's side of one role's election. It promises to be deterministic:
//! it does no I/O, reads no clock, draws no random number and awaits nothing. Time, ids and random
//! values come in with each [`Input`]. Everything to be done comes out as [`Effect`]s. So the same
//! code runs under the actors of the `nats-elect` crate, in a simulator and in a model checker, and
//! a test runs a whole failover in microseconds.
//!
//! All decisions about who leads and who owns are made in this crate. Its users carry them out. The rules are
//! in `docs/protocol.md`, and the reasons why they hold in `docs/correctness.md`.
//!
//! # Driving an election
//!
//! A driver owns an [`Election`], a connection to NATS, a clock and a source of randomness.
//!
//! - It calls [`Election::step`] with each input as it comes. The first one is the [`Link`] to the
//!   bucket.
//! - It carries out the effects of each step *in their order*.
//! - It then arms one timer for [`Election::next_wakeup`], and steps with [`Input::Tick`] when that
//!   fires.
//! - It answers every [`Effect::Write`] and [`Effect::Read`], by the operation's [`OpId`]. Without
//!   an answer within the effect's time, the operation ends with a
//!   [`Timeout`](event::FailureKind::Timeout). If the answer comes later, but within the ttl, the
//!   driver passes it on as well.
//!
//! [`Input`], [`Effect`] and what they carry are complete on purpose: a new effect is a breaking
//! change of this crate, so that no driver overlooks it. Events, causes and settings may grow.
//!
//! ```
//! use std::collections::VecDeque;
//!
//! use nats_elect_core::config::RoleConfig;
//! use nats_elect_core::record::{Content, Entry, FenceEntry, FenceRecord, Release, Snapshot};
//! use nats_elect_core::release::ReleaseSecret;
//! use nats_elect_core::status::RoleState;
//! use nats_elect_core::token::LeaseToken;
//! use nats_elect_core::{
//!     Bucket, Candidate, Effect, Election, Fresh, Input, Link, Moment, Write, WriteKind,
//!     WriteOutcome,
//! };
//! use uuid::Uuid;
//!
//! /// A bucket in memory: the last message under each of a role's two keys.
//! #[derive(Default)]
//! struct Memory {
//!     sequence: u64,
//!     role: Option<Entry>,
//!     fence: Option<FenceEntry>,
//! }
//!
//! impl Memory {
//!     fn write(&mut self, write: &Write) -> WriteOutcome {
//!         let role = self.role.as_ref().map_or(0, |entry| entry.revision);
//!         let fence = self.fence.map_or(0, |fence| fence.revision);
//!         let (expected, current) = match &write.kind {
//!             WriteKind::Fence { over, .. } => (*over, fence),
//!             WriteKind::Claim { over, .. }
//!             | WriteKind::Renew { over, .. }
//!             | WriteKind::Release { over, .. } => (*over, role),
//!         };
//!         if expected != current {
//!             return WriteOutcome::Conflict { current: Some(current) };
//!         }
//!         self.sequence += 1;
//!         let revision = self.sequence;
//!         let content = match &write.kind {
//!             WriteKind::Fence { fence, .. } => {
//!                 let record = FenceRecord::parse(&fence.to_json());
//!                 self.fence = Some(FenceEntry { revision, record });
//!                 return WriteOutcome::Acked { revision };
//!             }
//!             WriteKind::Claim { record, .. } | WriteKind::Renew { record, .. } => {
//!                 Content::parse(&record.to_json())
//!             }
//!             WriteKind::Release { release, .. } => Content::Release(*release),
//!         };
//!         self.role = Some(Entry { revision, content });
//!         WriteOutcome::Acked { revision }
//!     }
//! }
//!
//! let mut now = Moment::from_nanos(0);
//! let candidate = Candidate {
//!     instance_id: "node-1".to_owned(),
//!     incarnation: Uuid::from_u128(1), // random in a real driver
//!     first_beat: 0,
//!     paused: false,
//!     settings: RoleConfig::default().settings()?,
//! };
//! let mut election = Election::new(candidate, now);
//! let mut memory = Memory::default();
//! let bucket = Bucket { epoch: 1, max_age: None, unique_sequences: true };
//! let mut inputs = VecDeque::from([Input::Link(Link::Up(bucket))]);
//! let mut started = None;
//!
//! for drawn in 1..=20 {
//!     let input = inputs.pop_front().unwrap_or_else(|| {
//!         // No input: sleep until the timer fires.
//!         now = election.next_wakeup().expect("it goes on").max(now);
//!         Input::Tick
//!     });
//!     let fresh = Fresh {
//!         lease_token: LeaseToken::new(Uuid::from_u128(drawn)), // random in a real driver
//!         release_secret: ReleaseSecret::new(drawn),
//!         chance: 0.5,
//!     };
//!     for effect in election.step(now, fresh, input) {
//!         match effect {
//!             Effect::Write(write) => {
//!                 let outcome = memory.write(&write);
//!                 inputs.push_back(Input::WriteEnded { op: write.op, outcome });
//!             }
//!             Effect::Read { op, .. } => {
//!                 let outcome = Ok(Snapshot {
//!                     role: memory.role.clone(),
//!                     fence: memory.fence,
//!                     epoch: Some(bucket.epoch),
//!                     last_sequence: Some(memory.sequence),
//!                 });
//!                 inputs.push_back(Input::ReadEnded { op, outcome });
//!             }
//!             Effect::StartTerm(term) => started = Some(term), // start the handler
//!             _ => {}
//!         }
//!     }
//! }
//!
//! // The claim was stored at sequence 1, the fence record at 2. Heartbeats followed.
//! let term = started.expect("the role was free");
//! assert_eq!(term.fencing_token.sequence, 2);
//! assert_eq!(election.status().state, RoleState::Leader);
//! assert!(election.status().revision > Some(2));
//! # Ok::<(), nats_elect_core::config::ConfigError>(())
//! ```
//!
//! # Map of the modules
//!
//! The state machine is in `src/election`, and all its public items are at the root of this crate:
//!
//! | file | contents |
//! | --- | --- |
//! | `machine.rs` | [`Election`], and the way through one step |
//! | `scene.rs` | everything of an election but its phase, and the [`Candidate`] it is made from |
//! | `input.rs`, `effect.rs` | [`Input`] with [`Intent`], and [`Effect`] |
//! | `phase.rs` | the phases, each with a file for all that can happen in it |
//! | `waiting.rs` | waiting for a free role, and the claim |
//! | `acquiring.rs` | from a confirmed claim to promotion: the fence record |
//! | `leading.rs` | a term: proofs, health checks, the conditions under which it ends |
//! | `winding_down.rs` | the end of a term: its handler winds down within the lease |
//! | `releasing.rs` | the lease is revoked, and a release frees the role |
//! | `timers.rs` | the one table of everything that is due |
//! | `keeping.rs` | heartbeats of a term, and what follows from their answers |
//! | `link.rs` | the link to the bucket is lost, unusable, new, or leads to another bucket |
//! | `succession.rs`, `asked.rs` | handing over to a successor, and what the others answer |
//! | `line.rs` | the heirs that a leader keeps ready, in their line
//! | `takeover.rs` | taking over from a leader of lower priority |
//! | `intent.rs` | what an [`Intent`] does: pause, resume, cordon, step down, stop, abandon |
//! | `failing.rs` | instances whose terms keep failing claim last |
//! | `observed_role.rs`, `observed_record.rs` | the rule for when a role is free |
//! | `sending.rs` | what is sent to the bucket |
//! | `answers.rs` | answers to writes and reads, and messages of the watch |
//! | `labels.rs` | the state, leader and connection that are told |
//! | `breakages.rs` | what broken rules do that takes more than a changed condition |
//!
//! What it stands on is in `src/lease`, which knows nothing of roles and fence records. Its public
//! items are at the root of this crate, too:
//!
//! | file | contents |
//! | --- | --- |
//! | `input.rs`, `link.rs` | [`WriteOutcome`], [`Fresh`], [`Link`] and what else a driver tells |
//! | `wire.rs` | what sends requests and sorts their answers |
//! | `operations.rs` | the reads and writes under way, and those that may be answered late |
//! | `attempts.rs` | which writes in the bucket are this instance's own |
//! | `retry.rs` | backoff, circuit breaker and adaptive timeout |
//! | `held.rs` | a held lease: heartbeats, doubts about them, and what a read tells |
//! | `last_will.rs` | what a companion does when the process of a leader has died |
//!
//! Groups stand on the same lease. [`member`] is the state machine of a member of one group: it holds a
//! lease that nobody contends for, follows the group's map, says what handlers begin and end, and writes
//! the next map. [`plan`] says who should own what.
//!
//! The other modules hold the values that go in and out:
//!
//! - [`record`], [`release`] and [`token`]: the contents of the bucket, and the secrets and numbers
//!   of a term.
//! - [`peer`] and [`handoff`]: messages between instances, and the outcome of a handoff.
//! - [`event`] and [`status`]: what an instance tells about a role.
//! - [`assignment`] and [`shard`]: the values of groups, a map and its members' records, and the shard of
//!   a key.
//! - [`config`] and [`name`]: settings and names, each with its rule.
//! - [`text`], [`duration`] and [`whole`]: how text, durations and whole numbers are written.
//!
//! `src/mutation` lists the rules that tests break.
//!
//! # Testing
//!
//! The simulation, the exhaustive exploration and the fuzz tests of the state machine are in this
//! crate's `tests/`. [`Election::hash_state`] and the `Hash` of [`member::Member`] are for model checkers,
//! which must tell new situations from known ones. With
//! the feature `__mutations` the crate also exports its mutations: rules that a test breaks one at
//! a time, to show that the checkers notice.
#![forbid(unsafe_code)]

pub mod application;
pub mod assignment;
mod condition;
pub mod config;
pub mod duration;
mod election;
pub mod event;
pub mod handoff;
pub mod heirs;
mod label;
mod lease;
pub mod member;
mod moment;
mod mutation;
pub mod name;
pub mod peer;
pub mod plan;
pub mod record;
pub mod release;
mod setters;
pub mod shard;
pub mod status;
pub mod text;
pub mod token;
mod unhashed;
pub mod whole;

pub use crate::election::*;
pub use crate::lease::*;
pub use crate::moment::Moment;
#[cfg(feature = "__mutations")]
pub use crate::mutation::{MEMBER_MUTATIONS, MUTATIONS, Mutation, mend};

/// Whether rules can be broken at run time, as tests do.
#[doc(hidden)]
pub const HAS_MUTATIONS: bool = cfg!(feature = "__mutations");
