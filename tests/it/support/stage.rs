//! A bucket in which candidates of the Go library and ours meet.

use std::time::Duration;

use async_nats::jetstream::kv;
use nats_elect_testing::NatsServer;

use super::bucket::{Piece, Stranger, Tape, release_of};
use super::clock::Stamp;
use super::foreign::{Candidacy, Foreign, JITTER, POLL};
use super::instance::{Joining, guest};
use super::journal::Journal;
use super::{ROLE, ms};

/// The bucket's max age: the lease of foreign candidates.
pub const LEASE: Duration = ms(3000);
pub const FOREIGN_HEARTBEAT: Duration = ms(600);
/// What a foreign candidate may be late in looking at the key, and in claiming what it finds free.
pub const FOREIGN_LOOK: Duration = POLL.saturating_add(JITTER);
/// With what the server may be late in expiring a key.
pub const FOREIGN_DELAY: Duration = FOREIGN_LOOK.saturating_add(ms(300));
/// What a loaded machine may add.
pub const SLACK: Duration = ms(1000);

/// A server with a bucket as the Go library makes it.
pub struct Stage {
    pub journal: Journal,
    pub stranger: Stranger,
    pub tape: Tape,
    pub server: NatsServer,
}

impl Stage {
    pub async fn set() -> Self {
        let server = NatsServer::start().expect("start");
        let stranger = Stranger::connect(&server.url()).await;
        let config = kv::Config {
            max_age: LEASE,
            ..Default::default()
        };
        stranger.make_bucket(config).await;
        Self {
            journal: Journal::default(),
            tape: stranger.tape(ROLE).await,
            stranger,
            server,
        }
    }

    pub fn ours(&self, id: &str) -> Joining {
        guest(id, self.server.url(), &self.journal)
    }

    pub async fn foreign(&self, candidacy: Candidacy) -> Foreign {
        candidacy.start(&self.stranger).await
    }

    pub fn overlap(&self, foreign: &Foreign) -> Duration {
        foreign.overlap(&self.journal.terms(ROLE))
    }

    /// From the last foreign record to this claim of ours.
    pub fn assert_a_lease_was_watched(&self, claim: Stamp) {
        let pieces = self.tape.all();
        let mut foreign = pieces
            .iter()
            .filter(|piece| !is_ours(piece) && piece.value.is_object());
        let since = claim.since(foreign.next_back().expect("a foreign record").at);
        // The tape may be read a little later than by the claimant.
        assert!(since + ms(100) >= LEASE, "too early: {since:?}");
    }

    /// Every write of ours names the message over which it was written, or that there is none any
    /// more.
    pub fn assert_no_blind_write_of_ours(&self) {
        let pieces = self.tape.all();
        let mut before = 0;
        let mut ours = 0;
        for piece in &pieces {
            if is_ours(piece) {
                let expected = piece.headers.get("Nats-Expected-Last-Subject-Sequence");
                let expected: u64 = expected
                    .expect("a condition")
                    .as_str()
                    .parse()
                    .expect("a number");
                // What was soon replaced may be missing on the tape.
                let named = (before..piece.sequence).contains(&expected);
                assert!(named || expected == 0, "{piece:?} after {before}");
                ours += 1;
            }
            before = piece.sequence;
        }
        assert!(ours > 0, "nothing of ours: {pieces:?}");
    }
}

pub fn is_ours(piece: &Piece) -> bool {
    piece.value.get("incarnation").is_some() || release_of(&piece.headers).is_some()
}

pub fn candidate(id: &str) -> Candidacy {
    Candidacy::new(id, FOREIGN_HEARTBEAT)
}

pub fn tell(what: &str, figures: &[(&str, Duration)]) {
    let lease = LEASE.as_millis();
    let figures = figures
        .iter()
        .map(|(name, time)| format!(" {name}={}", time.as_millis()));
    eprintln!("MIXED {what} lease={lease}{}", figures.collect::<String>());
}
