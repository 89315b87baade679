//! One instance: its process with the real election, the request under way, the term and its
//! handler.

use std::collections::VecDeque;
use std::time::Duration;

use nats_elect_core::config::RoleSettings;
use nats_elect_core::record::{Entry, Snapshot};
use nats_elect_core::{Candidate, Election, Moment, TermId, Write, WriteOutcome};
use uuid::Uuid;

use crate::configuration::{Configuration, TICK};
use crate::peers::PeerMessage;
use crate::scribe::{BEAT_SHIFT, CLOCK_BASE, NAME_MARK};

/// A process, dead or alive.
#[derive(Clone, Debug)]
pub struct Instance {
    /// How often it was started before.
    pub life: u8,
    pub process: Option<Process>,
}

/// A process that is not dead.
#[derive(Clone, Debug)]
pub struct Process {
    pub election: Election,
    /// What its clock shows.
    pub clock: Moment,
    pub due: Option<Moment>,
    pub request: Option<Request>,
    pub reply_to: Option<PeerMessage>,
    /// What the watch has yet to show, and for how many ticks it is under way.
    pub watch: VecDeque<(Entry, u8)>,
    pub term: Option<Term>,
    pub paused: bool,
    pub linked: bool,
    /// When it lost its connection, while it has none.
    pub lost_at: Option<Moment>,
    /// An outage that lasted for the grace period. Its monitor may tell so at any later time, and as
    /// often as it likes.
    pub grace_over: Option<Moment>,
    pub stopping: bool,
    /// Revisions of the role's key that it was shown.
    pub seen: Vec<u64>,
    pub last_beat: Option<u64>,
    /// The write that was given up last, for the witnesses.
    pub doubted: Option<Doubted>,
}

/// The request under way.
#[derive(Clone, Debug)]
pub struct Request {
    pub op: nats_elect_core::OpId,
    pub asks: Asks,
    pub progress: Progress,
    pub age: u8,
    /// Its sender was paused or cut off meanwhile: it may be given up without another fault.
    pub excused: bool,
    /// Its sender need not wait for it any more.
    pub spared: bool,
}

#[derive(Clone, Debug, PartialEq, Hash)]
#[expect(
    clippy::large_enum_variant,
    reason = "boxes would cost more than the copies"
)]
pub enum Asks {
    Read,
    Write(Write),
}

/// How far a request has come.
#[derive(Clone, Debug, PartialEq, Hash)]
#[expect(
    clippy::large_enum_variant,
    reason = "boxes would cost more than the copies"
)]
pub enum Progress {
    Sent,
    Answered(Answer),
    /// Its answer will not come.
    Gone,
}

#[derive(Clone, Debug, PartialEq, Hash)]
#[expect(
    clippy::large_enum_variant,
    reason = "boxes would cost more than the copies"
)]
pub enum Answer {
    Read(Snapshot),
    Write(WriteOutcome),
}

/// What a write that was given up was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubted {
    Claim,
    Fence,
    Renewal,
    Release,
}

/// A term as the driver and the application share it.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts of their own")]
pub struct Term {
    pub id: TermId,
    pub lease: Moment,
    pub acting: Option<Moment>,
    pub over: bool,
    pub running: bool,
    pub cancelled: bool,
    pub aborted: bool,
    pub overrun: bool,
    pub deaf: bool,
    pub blocked: bool,
    /// Ticks since it was cancelled, and since it was revoked.
    pub cancelled_for: u8,
    pub revoked_for: Option<u8>,
}

impl Term {
    pub fn is_valid(&self, now: Moment) -> bool {
        !self.over && now < self.lease
    }

    pub fn leads(&self, now: Moment) -> bool {
        self.is_valid(now) && self.acting.is_some_and(|acting| now < acting)
    }
}

impl Request {
    pub const fn is_read(&self) -> bool {
        matches!(self.asks, Asks::Read)
    }
}

impl Instance {
    pub fn incarnation(index: usize, life: u8) -> Uuid {
        let index = u64::try_from(index).expect("a few");
        Uuid::from_u64_pair(NAME_MARK, index << 8 | u64::from(life))
    }

    /// The next incarnation of this instance, at its start.
    pub fn candidate(&self, index: usize, configuration: &Configuration) -> Candidate {
        let class = u64::try_from(index).expect("a few") + 8 * u64::from(self.life);
        Candidate {
            // One id for all: only incarnations tell instances apart.
            instance_id: "n".to_owned(),
            incarnation: Self::incarnation(index, self.life),
            first_beat: (class + 1) << BEAT_SHIFT,
            paused: false,
            settings: configuration.settings_of(index),
        }
    }

    /// Its term, if its application may take the lease for valid.
    pub fn valid_term(&self) -> Option<&Term> {
        let process = self.process.as_ref()?;
        let term = process.term.as_ref()?;
        term.is_valid(process.clock).then_some(term)
    }

    pub fn leads(&self) -> bool {
        let process = self.process.as_ref();
        process.is_some_and(|process| {
            let term = process.term.as_ref();
            term.is_some_and(|term| term.leads(process.clock))
        })
    }
}

impl Process {
    pub fn new(candidate: Candidate) -> Self {
        let clock = Moment::from_nanos(CLOCK_BASE);
        Self {
            election: Election::new(candidate, clock),
            clock,
            due: None,
            request: None,
            reply_to: None,
            watch: VecDeque::new(),
            term: None,
            paused: false,
            linked: false,
            lost_at: None,
            grace_over: None,
            stopping: false,
            seen: vec![0],
            last_beat: None,
            doubted: None,
        }
    }

    pub fn is_timer_due(&self) -> bool {
        self.due.is_some_and(|due| due <= self.clock)
    }

    /// Whether something must happen to it before time goes on.
    pub fn is_urgent(&self, configuration: &Configuration) -> bool {
        if self.paused {
            return false;
        }
        let request_ends = self
            .request
            .as_ref()
            .is_some_and(|request| request.age >= configuration.timeout);
        let watch_shows = self.watch.front().is_some_and(|(_, age)| *age >= 1);
        let handler_ends = self.term.as_ref().is_some_and(|term| {
            let listens = term.cancelled && !term.deaf && term.cancelled_for >= 1;
            term.running && (listens || term.aborted) && !term.blocked
        });
        let message_ends = self
            .reply_to
            .as_ref()
            .is_some_and(|reply_to| reply_to.age >= 1);
        self.is_timer_due() || message_ends || request_ends || watch_shows || handler_ends
    }

    /// A tick passes; on its own clock, too, unless that stands still.
    pub fn age(&mut self, configuration: &Configuration, clock_stands: bool) {
        if !clock_stands {
            self.clock = self.clock + TICK;
        }
        if self.has_outlasted_grace(configuration) {
            self.grace_over = self.lost_at;
        }
        if let Some(request) = &mut self.request {
            request.age = (request.age + 1).min(configuration.timeout);
        }
        if let Some(reply_to) = &mut self.reply_to {
            reply_to.age = 1;
        }
        for (_, age) in &mut self.watch {
            *age = 1;
        }
        if let Some(term) = &mut self.term {
            if term.cancelled {
                term.cancelled_for = 1;
            }
            if let Some(ticks) = &mut term.revoked_for {
                *ticks = (*ticks + 1).min(configuration.allowance + 1);
            }
        }
    }

    /// Whether its connection has been down for the grace period.
    pub fn has_outlasted_grace(&self, configuration: &Configuration) -> bool {
        let until = self.lost_at.zip(configuration.settings.grace);
        until.is_some_and(|(since, grace)| since + grace <= self.clock)
    }

    /// Something that its users must put right first keeps it from leading.
    pub fn is_troubled(&self) -> bool {
        let stuck = self
            .term
            .as_ref()
            .is_some_and(|term| term.running && (term.deaf || term.blocked));
        self.paused || !self.linked || stuck
    }

    pub fn is_candidate(&self) -> bool {
        !self.stopping && !self.election.is_stopped() && !self.is_aside()
    }

    /// Whether it is paused: it begins no new term.
    pub fn is_aside(&self) -> bool {
        self.election.status().paused
    }
}

/// How long a handler whose lease was revoked under it may run on: twice the time that an abort may
/// take.
pub fn allowance(settings: &RoleSettings) -> Duration {
    settings.abort_allowance() * 2
}
