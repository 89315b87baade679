//! The state machine of one election, told anything at any time: by a network, a server, other
//! writers and an application that need not make sense.
//!
//! A model of the bucket answers honestly where the input says so, so that every state is reached;
//! the rest is made up.

mod checks;
mod honest;
mod made_up;
mod showing;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Duration;

use arbitrary::{Arbitrary, Result, Unstructured};
use nats_elect_core::config::RoleSettings;
use nats_elect_core::record::Nonce;
use nats_elect_core::release::ReleaseSecret;
use nats_elect_core::status::RoleState;
use nats_elect_core::token::{FencingToken, LeaseToken};
use nats_elect_core::{
    Bucket, Candidate, Effect, Election, Fresh, HandlerEnd, Input, Intent, Link, Moment, OpId,
    PeerRequestId, ReplyId, RequestId, TermId, Write, WriteOutcome,
};
use uuid::Uuid;

use self::honest::Honest;
use self::made_up::{end, pause, settings};
use crate::peer;

const OWN: Uuid = Uuid::from_u128(1);
const STRANGER: Uuid = Uuid::from_u128(99);
/// As many inputs are told to one election at most.
const MOST_INPUTS: usize = 600;
/// So many wake-ups with nothing told in between,
const MANY_WAKEUPS: usize = 64;
/// take at least so long.
const THEY_LAST: Duration = Duration::from_millis(10);
/// Where a clock ends nothing can come later: a lease of centuries is not waited for.
const NEVER: Moment = Moment::from_nanos(1 << 63);
/// Requests without an answer in time that an election remembers.
const MOST_LATE: usize = 8;

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
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
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
    /// What became of it, if it was taken and nobody told.
    untold: Option<WriteOutcome>,
    /// Requests that were not answered in time.
    late: VecDeque<Late>,
    /// A late answer or the watch may have told what the pending read was to tell: it may be
    /// forgotten.
    overtaken: bool,
    /// A late answer is of another bucket.
    elsewhere: bool,
    /// It was meant for another bucket: its answer tells nothing.
    void: bool,
    last_op: u64,
    /// Questions asked so far.
    questions: u64,
    /// The letter that may be answered in this step.
    reply_to: Option<ReplyId>,
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
    /// It was paused.
    paused: bool,
    /// Whether it told so.
    told_paused: bool,
    wakeups: usize,
    waking_since: Moment,
    honest: Honest,
}

#[allow(clippy::large_enum_variant, reason = "there are few at a time")]
#[derive(Debug)]
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

/// A request that may be answered yet.
struct Late {
    request: Request,
    outcome: Option<WriteOutcome>,
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

impl Life {
    fn begin(u: &mut Unstructured<'_>) -> Result<Self> {
        let settings = settings(u)?;
        let now = Moment::from_nanos(u.int_in_range(0..=1 << 60)?);
        let candidate = Candidate {
            instance_id: "own".to_owned(),
            incarnation: OWN,
            first_beat: u.int_in_range(0..=3)?,
            paused: false,
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
            untold: None,
            late: VecDeque::new(),
            overtaken: false,
            elsewhere: false,
            void: false,
            last_op: 0,
            questions: 0,
            reply_to: None,
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
            paused: false,
            told_paused: false,
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
        match u.int_in_range(0..=38)? {
            0..=7 => self.wake(),
            8..=15 => self.answer_honestly(),
            16 | 17 => {
                let answer = self.made_up_answer(u)?;
                self.tell(answer);
            }
            18 | 19 => {
                let of_link = self.any_of_link(u)?;
                self.tell(of_link);
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
                let to = u.ratio(1, 2)?.then(|| peer::name(u)).transpose()?;
                let hold_off = Duration::from_millis(u.int_in_range(0..=5_000)?);
                let intent = Intent::StepDown {
                    to,
                    expected: None,
                    hold_off,
                };
                self.tell(Input::Intend(request, intent));
            }
            29 => {
                let (request, term) = (self.ask(), self.term(u)?);
                let term = bool::arbitrary(u)?.then_some(term);
                self.tell(Input::Validate { request, term });
            }
            32 => {
                let reply_to = ReplyId(u.arbitrary()?);
                let record = self.nonce(u)?;
                let question = peer::question(u, record)?;
                self.reply_to = Some(reply_to);
                self.tell(Input::PeerAsked { reply_to, question });
                self.reply_to = None;
            }
            33 | 34 => {
                let question = PeerRequestId(u.int_in_range(0..=self.questions + 1)?);
                let answer = u.ratio(3, 4)?.then(|| peer::answer(u)).transpose()?;
                self.tell(Input::PeerReplied { question, answer });
            }
            35 => {
                let fence = self.fence(u)?;
                self.tell(Input::ObservedFence(fence));
            }
            36 => {
                // The watch tells what stands, or another's hand.
                if u.ratio(1, 4)? {
                    self.honest.fence = Some(self.fence(u)?);
                }
                if let Some(fence) = self.honest.fence {
                    self.tell(Input::ObservedFence(fence));
                }
            }
            37 | 38 => {
                if let Some(answer) = self.late_answer(u)? {
                    self.tell(answer);
                }
            }
            30 => self.step(Moment::from_nanos(0), Input::Tick),
            _ => self.seldom(u)?,
        }
        Ok(())
    }

    fn leave(&mut self, intent: Intent) {
        self.tell(Input::Intend(RequestId::NOBODY, intent));
    }

    /// What would end most lives too soon, and what is asked for now and then.
    fn seldom(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        if u.ratio(1, 8)? {
            let release = u.arbitrary()?;
            self.leave(Intent::Stop { release });
        } else if u.ratio(1, 16)? {
            self.leave(Intent::Abandon);
        } else if u.ratio(1, 4)? {
            let term = self.term(u)?;
            self.tell(Input::Superseded { term });
        } else {
            let request = self.ask();
            let intent = match u.int_in_range(0..=5)? {
                0 => Intent::Pause,
                1 => Intent::Cordon,
                2 => Intent::Resume,
                3 | 4 => {
                    let revision = self.revision(u)?;
                    self.tell(Input::EndLease { request, revision });
                    return Ok(());
                }
                _ => Intent::StepDown {
                    to: None,
                    expected: self.last_token,
                    hold_off: Duration::ZERO,
                },
            };
            self.tell(Input::Intend(request, intent));
        }
        Ok(())
    }

    /// Whatever happened: it can be left, and nobody waits for an answer for ever.
    fn end(&mut self) {
        self.leave(Intent::Stop { release: true });
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
        let Some(due) = self.election.next_wakeup().filter(|due| *due < NEVER) else {
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
                outcome: Ok(self.honest.snapshot(self.bucket)),
            },
        };
        self.clock = self.clock + Duration::from_micros(300);
        self.tell(answer);
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
            release_secret: ReleaseSecret::new(u128::from(self.steps)),
            chance: f64::from(u8::try_from(self.steps % 100).unwrap_or(0)) / 100.0,
        };
        let stopped = self.election.is_stopped();
        self.overtaken |= matches!(
            input,
            Input::WriteEnded { .. } | Input::ReadEnded { .. } | Input::Observed(_)
        );
        for effect in self.election.step(at, fresh, input) {
            assert!(
                !stopped
                    || matches!(
                        effect,
                        Effect::Reply { .. }
                            | Effect::AnswerPeer { .. }
                            | Effect::Event(_)
                            | Effect::Reopen
                    ),
                "after its end: {effect:?}"
            );
            self.check(effect);
        }
        self.elsewhere = false;
        let due = self.election.next_wakeup();
        assert!(
            due.is_none_or(|due| due > self.now),
            "woken in the past: {:?}",
            self.election
        );
        let status = self.election.status();
        assert_eq!(status.state, self.state);
        assert_eq!(
            (status.paused, self.told_paused),
            (self.paused, self.paused)
        );
        assert_eq!(
            status.state == RoleState::Leader,
            self.terms
                .values()
                .any(|office| office.running && !office.resigned),
            "who leads has a handler"
        );
    }
}

impl Late {
    const fn is_write(&self) -> bool {
        matches!(self.request, Request::Write(_))
    }
}
