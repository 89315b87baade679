//! What happened in a run: proof that its faults were met, and not only meant.

use nats_elect_core::event::{EndCause, Event, FailureKind, Outcome};
use nats_elect_core::handoff::Handoff;
use nats_elect_core::{Effect, Reply};

use crate::network::{Fate, Kind};

macro_rules! tally {
    ($($(#[$doc:meta])* $name:ident: $title:literal,)*) => {
        /// Counts of what happened.
        #[derive(Clone, Debug, Default)]
        pub struct Tally { $($(#[$doc])* pub $name: u64,)* }

        impl std::ops::AddAssign<&Self> for Tally {
            fn add_assign(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }

        impl Tally {
            /// Every count with its name.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$(($title, self.$name),)*]
            }
        }

        impl std::fmt::Display for Tally {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                for (name, count) in self.all() {
                    writeln!(f, "{count:>14} {name}")?;
                }
                Ok(())
            }
        }
    };
}
tally! {
    faults: "faults",
    terms: "terms",
    lost: "requests lost",
    acks_lost: "answers lost",
    ghosts: "ghost writes",
    slow: "requests slow on their way",
    twice: "requests doubled",
    contended: "writes contended",
    doubted: "writes that took effect and were said not to be stored",
    refused: "writes not taken while reads were answered",
    refused_falsely: "writes refused by a leader of before",
    late_answers: "answers that came after the timeout",
    stale_reads: "stale reads",
    unwatched: "watch messages lost",
    wiped: "late writes wiped by an expiry",
    conflicts: "claims and heartbeats refused",
    late_acks: "heartbeats confirmed too late",
    superseded: "terms ended by another's record",
    expired: "terms ended for want of a heartbeat",
    graces_told: "grace periods told to be over",
    disconnected: "terms ended at the end of a grace period",
    preempted: "terms handed to a higher priority",
    cordoned: "terms ended by a cordon",
    failing: "instances whose terms kept failing",
    paused: "instances paused",
    resumed: "instances resumed",
    handoffs: "named successors that took over",
    overruns: "handlers that overran",
    releases: "roles freed at the end of a term",
    regressions: "regressions noticed",
    reopened: "buckets looked at anew",
    lies: "made-up candidates that answered",
    mourned: "deaths that a companion saw",
    willed: "roles freed by a companion",
    retired: "roles retired",
    retirements_refused: "roles not retired, as somebody wrote",
    fenced_tried: "fenced writes tried",
    fenced_written: "fenced writes that took effect",
    fenced_refused: "fenced writes refused",
}

impl Tally {
    pub fn count(&mut self, effect: &Effect) {
        match effect {
            Effect::Reopen => self.reopened += 1,
            Effect::Reply {
                reply:
                    Reply::SteppedDown {
                        handoff: Some(Handoff::Accepted),
                        ..
                    },
                ..
            } => self.handoffs += 1,
            Effect::Event(event) => self.heard(event),
            _ => {}
        }
    }

    fn heard(&mut self, event: &Event) {
        match event {
            Event::TermStarted { .. } => self.terms += 1,
            Event::TermEnding { cause, .. } => match cause {
                EndCause::Superseded => self.superseded += 1,
                EndCause::LeaseExpired => self.expired += 1,
                EndCause::ConnectionLost => self.disconnected += 1,
                EndCause::Preempted => self.preempted += 1,
                EndCause::Cordoned => self.cordoned += 1,
                _ => {}
            },
            Event::Failing { .. } => self.failing += 1,
            Event::Paused => self.paused += 1,
            Event::Resumed => self.resumed += 1,
            Event::TermEnded { released: true, .. } => self.releases += 1,
            Event::ClaimEnded { outcome } | Event::HeartbeatEnded { outcome, .. } => {
                match outcome {
                    Outcome::Conflict => self.conflicts += 1,
                    Outcome::TooLate => self.late_acks += 1,
                    _ => {}
                }
            }
            Event::HandlerOverrun { .. } => self.overruns += 1,
            Event::Failure {
                kind: FailureKind::Regression,
                ..
            } => self.regressions += 1,
            _ => {}
        }
    }

    pub fn met(&mut self, kind: Kind, fate: Fate) {
        match fate {
            Fate::Lost => self.lost += 1,
            Fate::AckLost => self.acks_lost += 1,
            Fate::Ghost(_) if kind != Kind::Read => self.ghosts += 1,
            Fate::Twice(_) => self.twice += 1,
            Fate::Contended => self.contended += 1,
            Fate::Doubted => self.doubted += 1,
            Fate::Slow(_) => self.slow += 1,
            Fate::Delivered | Fate::Denied | Fate::Ghost(_) => {}
        }
    }
}
