//! The state machine of one election, told anything at any time: by a network, a server, other writers and an application
//! that need not make sense.
//!
//! A model of the bucket answers honestly where the input says so, so that every state is reached; the rest is made up.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use arbitrary::{Arbitrary, Result, Unstructured};
use nats_elect::internals::{
    Bucket, Candidate, Content, Effect, Election, Entry, Failure, FenceCondition, FenceEntry,
    Fresh, HandlerEnd, Input, LetterId, Link, Moment, Nonce, OpId, QuestionId, RequestId,
    SeenFence, SeenRecord, Snapshot, TermId, TermStart, Write, WriteKind, WriteOutcome,
};
use nats_elect::{
    Event, FailureKind, FencingToken, LeaseToken, RoleConfig, RoleSettings, RoleState, Takeover,
};
use uuid::Uuid;

use super::{letter, message};

const OWN: Uuid = Uuid::from_u128(1);
const STRANGER: Uuid = Uuid::from_u128(99);
/// As many inputs are told to one election at most.
const MOST_INPUTS: usize = 600;
/// So many wake-ups with nothing told in between,
const MANY_WAKEUPS: usize = 64;
/// take at least so long.
const THEY_LAST: Duration = Duration::from_millis(10);

/// The bytes as what is told to one election.
pub fn holds(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let Ok(mut life) = Life::begin(&mut u) else {
        return;
    };
    for _ in 0..MOST_INPUTS {
        if u.is_empty() || life.go_on(&mut u).is_err() {
            break;
        }
    }
    life.end();
}

/// One election, and all that was told to it and heard from it.
struct Life {
    election: Election,
    settings: RoleSettings,
    clock: Moment,
    /// What the election was told last.
    now: Moment,
    steps: u64,
    link: Option<Bucket>,
    /// The bucket told last.
    bucket: Option<Bucket>,
    /// The request that was not answered yet.
    pending: Option<Request>,
    /// It was meant for another bucket: its answer tells nothing.
    void: bool,
    last_op: u64,
    /// Questions asked so far.
    questions: u64,
    /// The letter that may be answered in this step.
    letter: Option<LetterId>,
    /// Revisions that were shown, of the role's key and of the fence key, in this bucket.
    shown: HashSet<u64>,
    shown_fence: HashSet<u64>,
    nonces: HashSet<Nonce>,
    wrote: Vec<Nonce>,
    sent: Option<Moment>,
    terms: BTreeMap<TermId, Office>,
    last_token: Option<FencingToken>,
    asked: HashSet<RequestId>,
    next_request: u64,
    state: RoleState,
    wakeups: usize,
    waking_since: Moment,
    honest: Honest,
}

enum Request {
    Write(Write),
    Read(OpId),
}

impl Request {
    const fn op(&self) -> OpId {
        match self {
            Self::Write(write) => write.op,
            Self::Read(op) => *op,
        }
    }
}

#[derive(Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Office {
    lease: Moment,
    running: bool,
    resigned: bool,
    revoked: bool,
    cancelled: bool,
    aborted: bool,
}

/// A bucket as it should be.
#[derive(Default)]
struct Honest {
    last: u64,
    role: Option<Entry>,
    fence: Option<FenceEntry>,
}

impl Honest {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn put(&mut self, content: Content) -> u64 {
        let revision = self.next();
        self.role = Some(Entry { revision, content });
        revision
    }

    fn take(&mut self, write: &Write) -> WriteOutcome {
        let role = self.role.as_ref().map_or(0, |entry| entry.revision);
        let fence = self.fence.map_or(0, |fence| fence.revision);
        let (expected, current) = match &write.kind {
            WriteKind::Claim { over, .. }
            | WriteKind::Renew { over, .. }
            | WriteKind::Release { over, .. } => (*over, role),
            WriteKind::Fence { condition, .. } => match condition {
                FenceCondition::RoleKeyAt(over) => (*over, role),
                FenceCondition::FenceKeyAt(over) => (*over, fence),
            },
        };
        if expected != current {
            return WriteOutcome::Conflict {
                current: Some(current),
            };
        }
        let revision = match &write.kind {
            WriteKind::Claim { record, .. } | WriteKind::Renew { record, .. } => {
                self.put(record_of(write.nonce, Some(record.ttl)))
            }
            WriteKind::Release { heir, .. } => self.put(match *heir {
                None => Content::Release(Some(write.nonce)),
                Some(heir) => Content::Handoff {
                    nonce: Some(write.nonce),
                    heir,
                },
            }),
            WriteKind::Fence { fence, .. } => {
                let revision = self.next();
                self.fence = Some(FenceEntry {
                    revision,
                    record: Some(SeenFence {
                        nonce: write.nonce,
                        ttl: Some(fence.ttl),
                    }),
                });
                revision
            }
        };
        WriteOutcome::Acked { revision }
    }
}

impl Life {
    fn begin(u: &mut Unstructured<'_>) -> Result<Self> {
        let settings = settings(u)?;
        let now = Moment::from_nanos(u.int_in_range(0..=1 << 60)?);
        let candidate = Candidate {
            instance_id: "own".to_owned(),
            incarnation: OWN,
            first_beat: u.int_in_range(0..=3)?,
            settings: settings.clone(),
        };
        let last = *u.choose(&[0, 100, 1_700_000_000_000_000])?;
        Ok(Self {
            election: Election::new(candidate, now),
            settings,
            clock: now,
            now,
            steps: 0,
            link: None,
            bucket: None,
            pending: None,
            void: false,
            last_op: 0,
            questions: 0,
            letter: None,
            shown: HashSet::new(),
            shown_fence: HashSet::new(),
            nonces: HashSet::new(),
            wrote: Vec::new(),
            sent: None,
            terms: BTreeMap::new(),
            last_token: None,
            asked: HashSet::new(),
            next_request: 0,
            state: RoleState::Init,
            wakeups: 0,
            waking_since: now,
            honest: Honest {
                last,
                ..Honest::default()
            },
        })
    }

    fn go_on(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        if u.ratio(1, 3)? {
            self.clock = self.clock + pause(u)?;
        }
        match u.int_in_range(0..=34)? {
            0..=7 => self.wake(),
            8..=15 => self.answer_honestly(),
            16 | 17 => {
                let answer = self.made_up_answer(u)?;
                self.tell(answer);
            }
            18 | 19 => {
                let link = self.any_link(u)?;
                self.tell(Input::Link(link));
            }
            20 => {
                let bucket = Bucket {
                    epoch: 1,
                    max_age: None,
                    unique_sequences: true,
                };
                self.tell(Input::Link(Link::Up(bucket)));
            }
            21 => {
                let entry = self.entry(u)?;
                self.tell(Input::Observed(entry));
            }
            22 => {
                // Another hand writes; the watch may tell.
                let content = self.content(u)?;
                self.honest.put(content);
                if let (true, Some(entry)) = (u.arbitrary()?, self.honest.role.clone()) {
                    self.tell(Input::Observed(entry));
                }
            }
            23 => {
                let (term, end) = (self.term(u)?, end(u)?);
                self.tell(Input::HandlerEnding { term, end });
            }
            24 | 25 => {
                let (term, end) = (self.term(u)?, end(u)?);
                self.tell(Input::HandlerEnded { term, end });
            }
            26 => {
                let term = self.term(u)?;
                self.tell(Input::LeaseOver { term });
            }
            27 => {
                let (term, healthy) = (self.term(u)?, u.arbitrary()?);
                self.tell(Input::Health { term, healthy });
            }
            28 => {
                let request = self.ask();
                let to = u.ratio(1, 2)?.then(|| letter::name(u)).transpose()?;
                let hold_off = Duration::from_millis(u.int_in_range(0..=5_000)?);
                self.tell(Input::StepDown {
                    request,
                    to,
                    hold_off,
                });
            }
            29 => {
                let (request, term) = (self.ask(), self.term(u)?);
                let term = bool::arbitrary(u)?.then_some(term);
                self.tell(Input::Validate { request, term });
            }
            32 => {
                let letter = LetterId(u.arbitrary()?);
                let record = self.nonce(u)?;
                let question = letter::question(u, record)?;
                self.letter = Some(letter);
                self.tell(Input::Asked { letter, question });
                self.letter = None;
            }
            33 | 34 => {
                let question = QuestionId(u.int_in_range(0..=self.questions + 1)?);
                let answer = u.ratio(3, 4)?.then(|| letter::answer(u)).transpose()?;
                self.tell(Input::Answered { question, answer });
            }
            30 => self.step(Moment::from_nanos(0), Input::Tick),
            _ => {
                if u.ratio(1, 8)? {
                    let release = u.arbitrary()?;
                    self.tell(Input::Stop { release });
                } else if u.ratio(1, 16)? {
                    self.tell(Input::Abandon);
                } else if u.ratio(1, 4)? {
                    let term = self.term(u)?;
                    self.tell(Input::Superseded { term });
                }
            }
        }
        Ok(())
    }

    /// Whatever happened: it can be left, and nobody waits for an answer for ever.
    fn end(&mut self) {
        self.tell(Input::Stop { release: true });
        for _ in 0..MOST_INPUTS {
            if self.election.is_stopped() {
                break;
            }
            let running: Vec<_> = self.running().collect();
            for term in running {
                let end = HandlerEnd::Aborted;
                self.tell(Input::HandlerEnded { term, end });
            }
            if self.pending.is_some() {
                self.answer_honestly();
            } else {
                self.wake();
            }
        }
        assert!(
            self.election.is_stopped(),
            "it does not end: {:?}",
            self.election
        );
        assert!(self.asked.is_empty(), "nobody answered {:?}", self.asked);
        assert_eq!(self.election.next_wakeup(), None);
    }

    fn running(&self) -> impl Iterator<Item = TermId> {
        self.terms
            .iter()
            .filter(|(_, office)| office.running)
            .map(|(term, _)| *term)
    }

    /// The timer fires.
    fn wake(&mut self) {
        let Some(due) = self.election.next_wakeup() else {
            return;
        };
        if self.wakeups == 0 {
            self.waking_since = due.max(self.clock);
        }
        let wakeups = self.wakeups + 1;
        self.clock = self.clock.max(due);
        self.tell(Input::Tick);
        self.wakeups = wakeups;
        if wakeups == MANY_WAKEUPS {
            let lasted = self.now.since(self.waking_since);
            assert!(
                lasted >= THEY_LAST,
                "a busy loop: {lasted:?}, {:?}",
                self.election
            );
            self.wakeups = 0;
        }
    }

    fn answer_honestly(&mut self) {
        let answer = match &self.pending {
            None => return,
            Some(Request::Write(write)) => Input::WriteEnded {
                op: write.op,
                outcome: self.honest.take(write),
            },
            Some(Request::Read(op)) => Input::ReadEnded {
                op: *op,
                outcome: Ok(Snapshot {
                    role: self.honest.role.clone(),
                    fence: self.honest.fence,
                    epoch: self.bucket.map(|bucket| bucket.epoch),
                }),
            },
        };
        self.clock = self.clock + Duration::from_micros(300);
        self.tell(answer);
    }

    fn made_up_answer(&mut self, u: &mut Unstructured<'_>) -> Result<Input> {
        let op = match &self.pending {
            Some(request) if u.ratio(3, 4)? => request.op(),
            // An old one, one to come, none at all.
            _ => OpId(match u.int_in_range(0..=3)? {
                0 => message::number(u)?,
                1 => self.last_op + 1,
                _ => u.int_in_range(0..=self.last_op)?,
            }),
        };
        let reads = matches!(self.pending, Some(Request::Read(_)));
        if reads == u.ratio(7, 8)? {
            let outcome = if u.ratio(1, 4)? {
                Err(failure(u)?)
            } else {
                Ok(Snapshot {
                    role: bool::arbitrary(u)?.then(|| self.entry(u)).transpose()?,
                    fence: bool::arbitrary(u)?.then(|| self.fence(u)).transpose()?,
                    epoch: match u.int_in_range(0..=7)? {
                        0 => Some(message::number(u)?),
                        1 => None,
                        _ => self.bucket.map(|bucket| bucket.epoch),
                    },
                })
            };
            return Ok(Input::ReadEnded { op, outcome });
        }
        let outcome = match u.int_in_range(0..=7)? {
            // It was written, and nobody told.
            0 | 1 => {
                if let Some(Request::Write(write)) = &self.pending {
                    self.honest.take(write);
                }
                WriteOutcome::Failed(failure(u)?)
            }
            2 => WriteOutcome::Failed(failure(u)?),
            3 | 4 => WriteOutcome::Conflict {
                current: bool::arbitrary(u)?.then(|| self.revision(u)).transpose()?,
            },
            5 => WriteOutcome::Unsupported,
            _ => WriteOutcome::Acked {
                revision: self.revision(u)?,
            },
        };
        Ok(Input::WriteEnded { op, outcome })
    }

    fn any_link(&self, u: &mut Unstructured<'_>) -> Result<Link> {
        Ok(match u.int_in_range(0..=5)? {
            0 | 1 => Link::Down,
            2 => Link::Unusable(failure(u)?),
            _ => Link::Up(Bucket {
                epoch: match (self.bucket, u.int_in_range(0..=3)?) {
                    (_, 0) => message::number(u)?,
                    (Some(bucket), 1) => bucket.epoch.saturating_add(1),
                    (bucket, _) => bucket.map_or(1, |bucket| bucket.epoch),
                },
                max_age: match u.int_in_range(0..=4)? {
                    0 => Some(Duration::from_nanos(message::number(u)?)),
                    1 => Some(self.settings.ttl * 2),
                    _ => None,
                },
                unique_sequences: u.ratio(3, 4)?,
            }),
        })
    }

    fn entry(&self, u: &mut Unstructured<'_>) -> Result<Entry> {
        Ok(Entry {
            revision: self.revision(u)?,
            content: self.content(u)?,
        })
    }

    fn fence(&self, u: &mut Unstructured<'_>) -> Result<FenceEntry> {
        Ok(FenceEntry {
            revision: self.revision(u)?,
            record: bool::arbitrary(u)?
                .then(|| {
                    Ok(SeenFence {
                        nonce: self.nonce(u)?,
                        ttl: ttl(u)?,
                    })
                })
                .transpose()?,
        })
    }

    fn revision(&self, u: &mut Unstructured<'_>) -> Result<u64> {
        let last = self.honest.last;
        Ok(match u.int_in_range(0..=5)? {
            0 => message::number(u)?,
            1 => last.saturating_sub(u.int_in_range(0..=3)?),
            2 => self.honest.role.as_ref().map_or(0, |entry| entry.revision),
            _ => last + u.int_in_range(1..=3)?,
        })
    }

    fn content(&self, u: &mut Unstructured<'_>) -> Result<Content> {
        Ok(match u.int_in_range(0..=7)? {
            0 => Content::Opaque,
            1 => Content::ForeignMarker,
            7 => Content::Handoff {
                nonce: bool::arbitrary(u)?.then(|| self.nonce(u)).transpose()?,
                heir: *u.choose(&[OWN, STRANGER])?,
            },
            2 => Content::Release(bool::arbitrary(u)?.then(|| self.nonce(u)).transpose()?),
            3 => Content::parse(&message::value(u)?),
            _ => record_of(self.nonce(u)?, ttl(u)?),
        })
    }

    fn nonce(&self, u: &mut Unstructured<'_>) -> Result<Nonce> {
        Ok(match u.int_in_range(0..=3)? {
            0 => Nonce {
                incarnation: OWN,
                beat: message::number(u)?,
            },
            1 => Nonce {
                incarnation: STRANGER,
                beat: message::number(u)?,
            },
            // One of ours, an old one maybe.
            _ => match self.wrote.len() {
                0 => message::nonce(u)?,
                some => self.wrote[some - 1 - u.int_in_range(0..=some.min(8) - 1)?],
            },
        })
    }

    fn term(&self, u: &mut Unstructured<'_>) -> Result<TermId> {
        let current = self.terms.keys().next_back().copied();
        Ok(match (current, u.int_in_range(0..=3)?) {
            (Some(term), 1..) => term,
            _ => TermId(message::number(u)?),
        })
    }

    fn ask(&mut self) -> RequestId {
        self.next_request += 1;
        let request = RequestId(self.next_request);
        self.asked.insert(request);
        request
    }

    fn tell(&mut self, input: Input) {
        let clock = self.clock;
        self.step(clock, input);
    }

    fn step(&mut self, at: Moment, input: Input) {
        self.now = self.now.max(at);
        self.wakeups = 0;
        self.learn(&input);
        self.steps += 1;
        let fresh = Fresh {
            lease_token: LeaseToken::new(Uuid::from_u128(u128::from(self.steps))),
            chance: f64::from(u8::try_from(self.steps % 100).unwrap_or(0)) / 100.0,
        };
        let stopped = self.election.is_stopped();
        for effect in self.election.step(at, fresh, input) {
            assert!(
                !stopped
                    || matches!(
                        effect,
                        Effect::Reply { .. }
                            | Effect::Answer { .. }
                            | Effect::Event(_)
                            | Effect::Reopen
                    ),
                "after its end: {effect:?}"
            );
            self.check(effect);
        }
        let due = self.election.next_wakeup();
        assert!(
            due.is_none_or(|due| due > self.now),
            "woken in the past: {:?}",
            self.election
        );
        let status = self.election.status();
        assert_eq!(status.state, self.state);
        assert_eq!(
            status.state == RoleState::Leader,
            self.terms
                .values()
                .any(|office| office.running && !office.resigned),
            "who leads has a handler"
        );
    }

    /// What an input shows.
    fn learn(&mut self, input: &Input) {
        match input {
            Input::Link(Link::Up(bucket)) => {
                // A bucket whose keys are dropped too soon is as good as none.
                if bucket
                    .max_age
                    .is_some_and(|max_age| max_age < self.settings.ttl)
                {
                    self.link = None;
                    return;
                }
                if let Some(old) = self.bucket.filter(|old| old.epoch != bucket.epoch) {
                    self.void = true;
                    self.shown.clear();
                    self.shown_fence.clear();
                    if bucket.epoch < old.epoch {
                        // Only the order within growing creation times is promised.
                        self.last_token = None;
                    }
                }
                self.link = Some(*bucket);
                self.bucket = Some(*bucket);
            }
            Input::Link(_) => self.link = None,
            Input::Observed(entry) => {
                self.shown.insert(entry.revision);
            }
            Input::WriteEnded { op, outcome } if self.is_pending(*op) => {
                let told = matches!(self.pending, Some(Request::Write(_))) && !self.void;
                if let (true, WriteOutcome::Acked { revision }) = (told, outcome) {
                    self.shown.insert(*revision);
                    self.shown_fence.insert(*revision);
                }
                self.pending = None;
            }
            Input::ReadEnded { op, outcome } if self.is_pending(*op) => {
                let told = matches!(self.pending, Some(Request::Read(_))) && !self.void;
                if let (true, Ok(snapshot)) = (told, outcome) {
                    let elsewhere =
                        snapshot.epoch.is_some() && snapshot.epoch != self.bucket.map(|b| b.epoch);
                    if elsewhere {
                        self.link = None;
                    } else {
                        self.shown
                            .insert(snapshot.role.as_ref().map_or(0, |entry| entry.revision));
                        self.shown_fence
                            .insert(snapshot.fence.map_or(0, |fence| fence.revision));
                    }
                }
                self.pending = None;
            }
            Input::HandlerEnded { term, .. } => {
                if let Some(office) = self.terms.get_mut(term) {
                    office.running = false;
                }
            }
            _ => {}
        }
    }

    /// The end of a lease by a write that was sent then.
    fn lease_from(&self, sent: Moment) -> Moment {
        sent + self.settings.ttl - self.settings.drift_margin()
    }

    fn is_pending(&self, op: OpId) -> bool {
        self.pending
            .as_ref()
            .is_some_and(|request| request.op() == op)
    }

    fn office(&mut self, term: TermId) -> &mut Office {
        self.terms.get_mut(&term).expect("a term that began")
    }

    fn check(&mut self, effect: Effect) {
        match effect {
            Effect::Write(write) => self.check_write(write),
            Effect::Read { op, .. } => self.requested(Request::Read(op)),
            Effect::StartTerm(start) => self.check_start(&start),
            Effect::Extend {
                term,
                lease,
                acting,
                proved,
            } => {
                let (now, until) = (self.now, self.lease_from(self.now));
                let office = self.office(term);
                assert!(office.running && !office.revoked, "extended after its end");
                assert!(acting.is_none() || !office.resigned, "it resigned");
                assert!(acting.is_none_or(|acting| acting <= lease));
                assert!(office.lease > now, "a lease that was over");
                assert!(lease >= office.lease && lease <= until && proved <= now);
                office.lease = lease;
            }
            Effect::Rotate { term, .. } => {
                assert!(self.settings.rotation_interval.is_some(), "unasked");
                let office = self.office(term);
                assert!(office.running && !office.revoked, "after its end");
            }
            Effect::Suspend { term, acting } => {
                let office = self.office(term);
                assert!(acting <= office.lease && !office.resigned);
            }
            Effect::Resign { term } => {
                let office = self.office(term);
                assert!(!std::mem::replace(&mut office.resigned, true), "twice");
            }
            Effect::Revoke { term } => {
                let office = self.office(term);
                assert!(!std::mem::replace(&mut office.revoked, true), "twice");
            }
            Effect::Cancel { term } => {
                let office = self.office(term);
                assert!(office.resigned && !std::mem::replace(&mut office.cancelled, true));
            }
            Effect::Abort { term } => {
                let office = self.office(term);
                assert!(office.cancelled && !std::mem::replace(&mut office.aborted, true));
            }
            Effect::CheckHealth { term } => assert!(!self.office(term).resigned),
            Effect::Ask { id, .. } => {
                assert_eq!(id.0, self.questions + 1, "each question has its own number");
                assert!(self.link.is_some(), "asked without a link");
                self.questions = id.0;
            }
            Effect::Answer { letter, .. } => {
                assert_eq!(
                    self.letter.take(),
                    Some(letter),
                    "answered unasked, or twice"
                );
            }
            Effect::Reply { request, .. } => {
                assert!(self.asked.remove(&request), "{request:?} is answered twice");
            }
            Effect::Event(Event::StateChanged { from, to }) => {
                assert_eq!(from, self.state);
                assert!(from.may_become(to), "from {from} to {to}");
                self.state = to;
            }
            Effect::Event(_) | Effect::Reopen => {}
        }
    }

    fn check_write(&mut self, write: Write) {
        assert!(self.nonces.insert(write.nonce), "a nonce is used twice");
        self.wrote.push(write.nonce);
        let (over, shown) = match &write.kind {
            WriteKind::Claim { over, .. }
            | WriteKind::Renew { over, .. }
            | WriteKind::Release { over, .. } => (over, &self.shown),
            WriteKind::Fence { condition, .. } => match condition {
                FenceCondition::RoleKeyAt(over) => (over, &self.shown),
                FenceCondition::FenceKeyAt(over) => (over, &self.shown_fence),
            },
        };
        let blind = *over == 0 && matches!(write.kind, WriteKind::Fence { .. });
        assert!(
            blind || shown.contains(over),
            "over what it was never shown: {write:?}"
        );
        if !matches!(write.kind, WriteKind::Renew { .. }) {
            assert_eq!(self.running().count(), 0, "while a handler runs: {write:?}");
            assert!(
                self.terms.values().all(|office| office.revoked),
                "a lease still lasts: {write:?}"
            );
        }
        self.sent = Some(self.now);
        self.requested(Request::Write(write));
    }

    fn requested(&mut self, request: Request) {
        assert!(self.pending.is_none(), "two requests at a time");
        assert!(self.link.is_some(), "without a link");
        self.last_op = request.op().0;
        self.pending = Some(request);
        self.void = false;
    }

    fn check_start(&mut self, start: &TermStart) {
        assert_eq!(self.running().count(), 0, "two handlers");
        assert!(
            self.now < start.lease - self.settings.stop_budget,
            "too late to wind down"
        );
        assert!(
            start.lease <= self.lease_from(start.proved)
                && self.sent.is_some_and(|sent| start.proved <= sent)
        );
        let token = start.fencing_token;
        assert!(
            self.last_token.is_none_or(|last| last < token),
            "{token} after {:?}",
            self.last_token
        );
        self.last_token = Some(token);
        let office = Office {
            lease: start.lease,
            running: true,
            resigned: false,
            revoked: false,
            cancelled: false,
            aborted: false,
        };
        assert!(
            self.terms.insert(start.term, office).is_none(),
            "a term begins once"
        );
    }
}

fn settings(u: &mut Unstructured<'_>) -> Result<RoleSettings> {
    let mut config =
        RoleConfig::default().ttl(Duration::from_millis(u.int_in_range(100..=20_000)?));
    if u.ratio(1, 3)? {
        config =
            config.disconnect_grace_period(Duration::from_millis(u.int_in_range(20..=20_000)?));
    }
    if u.ratio(1, 4)? {
        config = config.claim_delay(Duration::from_millis(u.int_in_range(0..=100)?));
    }
    if u.ratio(1, 3)? {
        config = config.priority(u.int_in_range(-2..=2)?);
        config = config.takeover(match u.int_in_range(0..=1)? {
            0 => Takeover::Cooperative,
            _ => Takeover::Forced {
                after: Duration::from_secs(u.int_in_range(6..=20)?),
            },
        });
        config.takeover_hysteresis = Some(Duration::from_secs(u.int_in_range(1..=4)?));
    }
    if u.ratio(1, 4)? {
        let interval = Duration::from_millis(u.int_in_range(4_000..=20_000)?);
        config.fencing = config.fencing.rotation_interval(interval);
    }
    if u.ratio(1, 4)? {
        config.health.max_consecutive_failures = u.int_in_range(1..=3)?;
        config.retry.max_attempts = u.int_in_range(1..=3)?;
        config.retry.max_backoff = Duration::from_millis(u.int_in_range(1..=10_000)?);
        config.retry.initial_backoff = config.retry.max_backoff.min(Duration::from_millis(50));
        config.retry.jitter = f64::from(u.int_in_range(0..=10)?) / 10.0;
    }
    config
        .settings()
        .map_err(|_| arbitrary::Error::IncorrectFormat)
}

fn pause(u: &mut Unstructured<'_>) -> Result<Duration> {
    Ok(match u.int_in_range(0..=9)? {
        0 => Duration::from_nanos(u.int_in_range(0..=1000)?),
        1..=6 => Duration::from_micros(u.int_in_range(0..=2_000_000)?),
        7 | 8 => Duration::from_millis(u.int_in_range(0..=30_000)?),
        _ => Duration::from_secs(u.int_in_range(0..=200_000)?),
    })
}

fn ttl(u: &mut Unstructured<'_>) -> Result<Option<Duration>> {
    Ok(match u.int_in_range(0..=3)? {
        0 => None,
        1 => Some(Duration::from_secs(3600)),
        _ => Some(Duration::from_millis(u.int_in_range(100..=20_000)?)),
    })
}

fn record_of(nonce: Nonce, ttl: Option<Duration>) -> Content {
    Content::Record(Box::new(SeenRecord {
        id: "somebody".to_owned(),
        priority: -1,
        meta: BTreeMap::new(),
        ttl,
        incarnation: Some(nonce.incarnation),
        beat: Some(nonce.beat),
        proof: None,
    }))
}

fn failure(u: &mut Unstructured<'_>) -> Result<Failure> {
    let kind = *u.choose(&[
        FailureKind::Timeout,
        FailureKind::Timeout,
        FailureKind::Unavailable,
        FailureKind::PermissionDenied,
        FailureKind::BucketMissing,
        FailureKind::BucketUnfit,
        FailureKind::Rejected,
    ])?;
    Ok(Failure {
        kind,
        detail: "made up".to_owned(),
    })
}

fn end(u: &mut Unstructured<'_>) -> Result<HandlerEnd> {
    Ok(*u.choose(&[
        HandlerEnd::Returned,
        HandlerEnd::Failed,
        HandlerEnd::Panicked,
        HandlerEnd::Aborted,
    ])?)
}
