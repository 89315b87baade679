//! The bytes on their way in one direction of one connection.

use std::collections::VecDeque;

use super::Direction;
use super::faults::{AckFault, Faults};
use super::protocol::Piece;
use std::time::{Duration, Instant};

const CAPACITY: usize = 8 << 20;

/// A delay line. Bytes that arrive leave later, when the faults that are in force *then* let them.
///
/// Acks have a lane of their own, so that other bytes can overtake them. Without a fault that holds
/// acks back, everything leaves in the order of arrival. A stalled piece holds up all pieces that
/// come after it.
pub(super) struct Line {
    direction: Direction,
    ordinary: VecDeque<Waiting>,
    acks: VecDeque<Waiting>,
    /// The lane whose first piece is partly written. That piece must be finished first.
    begun: Option<Lane>,
    arrivals: u64,
    bytes: usize,
    /// When the sender closed its side.
    end: Option<Instant>,
}

struct Waiting {
    number: u64,
    arrived: Instant,
    /// From 0 to 1. Pieces with a lower value are stalled first.
    luck: f64,
    bytes: Vec<u8>,
    written: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Ordinary,
    Acks,
}

/// The next action of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The first piece of that lane may leave.
    Write(Lane),
    /// All pieces have left, and the end of the stream is due.
    End,
    /// Nothing is due before that moment.
    At(Instant),
    /// Nothing is due until data arrives or the faults change.
    Idle,
}

impl Line {
    pub(super) fn new(direction: Direction) -> Self {
        Self {
            direction,
            ordinary: VecDeque::new(),
            acks: VecDeque::new(),
            begun: None,
            arrivals: 0,
            bytes: 0,
            end: None,
        }
    }

    pub(super) fn takes_more(&self) -> bool {
        self.end.is_none() && self.bytes < CAPACITY
    }

    pub(super) fn push(&mut self, piece: Piece, luck: f64, now: Instant) {
        self.arrivals += 1;
        self.bytes += piece.bytes.len();
        let lane = if piece.is_ack {
            &mut self.acks
        } else {
            &mut self.ordinary
        };
        lane.push_back(Waiting {
            number: self.arrivals,
            arrived: now,
            luck,
            bytes: piece.bytes,
            written: 0,
        });
    }

    pub(super) fn push_end(&mut self, now: Instant) {
        self.end = Some(now);
    }

    pub(super) fn next(&self, faults: &Faults, now: Instant) -> Next {
        if faults.way(self.direction).silent {
            return Next::Idle;
        }
        if let Some(lane) = self.begun {
            return Next::Write(lane);
        }
        let way = faults.way(self.direction);
        let mut ordinary = self
            .ordinary
            .front()
            .map(|it| (later(it.arrived, way.time_of(it.luck)), it.number));
        let mut ack = self
            .acks
            .front()
            .and_then(|it| Some((self.ack_due(it, faults)?, it.number)));
        if let (false, Some((_, one)), Some((_, other))) = (faults.holds_acks(), ordinary, ack) {
            if one < other {
                ack = None;
            } else {
                ordinary = None;
            }
        }
        let is_due = |waiting: &Option<(Instant, u64)>| waiting.is_some_and(|(due, _)| due <= now);
        match (is_due(&ordinary), is_due(&ack)) {
            (true, true) if ack.map(|it| it.1) < ordinary.map(|it| it.1) => Next::Write(Lane::Acks),
            (true, _) => Next::Write(Lane::Ordinary),
            (false, true) => Next::Write(Lane::Acks),
            (false, false) => {
                // The end overtakes acks that are held. They are lost with the connection.
                let may_end =
                    self.ordinary.is_empty() && (faults.holds_acks() || self.acks.is_empty());
                let end = self
                    .end
                    .filter(|_| may_end)
                    .map(|end| later(end, way.delay));
                if end.is_some_and(|due| due <= now) {
                    return Next::End;
                }
                let waiting = [ordinary.map(|it| it.0), ack.map(|it| it.0), end];
                waiting
                    .into_iter()
                    .flatten()
                    .min()
                    .map_or(Next::Idle, Next::At)
            }
        }
    }

    /// Returns the unwritten rest of a lane's first piece.
    pub(super) fn first(&self, lane: Lane) -> &[u8] {
        self.lane(lane)
            .front()
            .map_or(&[], |first| &first.bytes[first.written..])
    }

    pub(super) fn wrote(&mut self, lane: Lane, count: usize) {
        let queue = match lane {
            Lane::Ordinary => &mut self.ordinary,
            Lane::Acks => &mut self.acks,
        };
        let Some(first) = queue.front_mut() else {
            return;
        };
        first.written += count;
        self.begun = (first.written > 0).then_some(lane);
        if first.written == first.bytes.len() {
            self.bytes -= first.bytes.len();
            self.begun = None;
            queue.pop_front();
        }
    }

    /// Returns the number of acks that may not leave yet.
    pub(super) fn acks_held(&self, faults: &Faults, now: Instant) -> usize {
        let silent = faults.way(self.direction).silent;
        let is_held =
            |ack: &&Waiting| silent || self.ack_due(ack, faults).is_none_or(|due| due > now);
        self.acks.iter().filter(is_held).count()
    }

    /// Loses all acks, except for one that is partly written, and returns how many.
    pub(super) fn drop_acks(&mut self) -> usize {
        let kept = usize::from(self.begun == Some(Lane::Acks));
        let dropped = self.acks.len().saturating_sub(kept);
        self.bytes -= self
            .acks
            .drain(kept..)
            .map(|ack| ack.bytes.len())
            .sum::<usize>();
        dropped
    }

    fn ack_due(&self, ack: &Waiting, faults: &Faults) -> Option<Instant> {
        match faults.acks {
            AckFault::Delay(delay) => Some(later(
                ack.arrived,
                delay.max(faults.way(self.direction).time_of(ack.luck)),
            )),
            AckFault::Drop => None,
        }
    }

    fn lane(&self, lane: Lane) -> &VecDeque<Waiting> {
        match lane {
            Lane::Ordinary => &self.ordinary,
            Lane::Acks => &self.acks,
        }
    }
}

/// Adds `by` to `at`. A moment too late for the clock becomes a year away.
fn later(at: Instant, by: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    at.checked_add(by).unwrap_or_else(|| at + YEAR)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::sync::LazyLock;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);

    fn piece(text: &str, is_ack: bool) -> Piece {
        Piece {
            bytes: text.as_bytes().to_vec(),
            is_ack,
        }
    }

    /// Writes all that may leave at `now`.
    fn drain(line: &mut Line, faults: &Faults, now: Instant) -> String {
        let mut written = Vec::new();
        while let Next::Write(lane) = line.next(faults, now) {
            // Write byte by byte, as a socket in trouble would take it.
            written.push(line.first(lane)[0]);
            line.wrote(lane, 1);
        }
        String::from_utf8(written).expect("text")
    }

    fn line() -> Line {
        let mut line = Line::new(Direction::ToClient);
        line.push(piece("a", false), 0.9, *START);
        line.push(piece("ACK", true), 0.1, *START + SECOND);
        line.push(piece("bc", false), 0.9, *START + SECOND);
        line
    }

    #[test]
    fn order_is_kept_without_faults() {
        assert_eq!(
            drain(&mut line(), &Faults::default(), *START + SECOND),
            "aACKbc"
        );
    }

    #[test]
    fn a_delay_counts_from_each_arrival() {
        let mut faults = Faults::default();
        faults.way_mut(Direction::ToClient).delay = 3 * SECOND;
        let mut line = line();
        assert_eq!(line.next(&faults, *START), Next::At(*START + 3 * SECOND));
        assert_eq!(drain(&mut line, &faults, *START + 3 * SECOND), "a");
        assert_eq!(drain(&mut line, &faults, *START + 4 * SECOND), "ACKbc");
    }

    #[test]
    fn a_stalled_piece_holds_up_all_later_pieces() {
        let mut faults = Faults::default();
        let way = faults.way_mut(Direction::ToClient);
        way.delay = SECOND;
        way.stall(0.2, 5 * SECOND);
        let mut line = line();
        line.push_end(*START + 2 * SECOND);
        assert_eq!(drain(&mut line, &faults, *START + 6 * SECOND), "a");
        let stalled = Next::At(*START + 7 * SECOND);
        assert_eq!(line.next(&faults, *START + 6 * SECOND), stalled);
        assert_eq!(drain(&mut line, &faults, *START + 7 * SECOND), "ACKbc");
        assert_eq!(line.next(&faults, *START + 7 * SECOND), Next::End);
    }

    #[test]
    fn other_bytes_overtake_delayed_acks() {
        let mut faults = Faults::default();
        faults.acks = AckFault::Delay(5 * SECOND);
        let mut line = line();
        assert_eq!(drain(&mut line, &faults, *START + SECOND), "abc");
        assert_eq!(line.acks_held(&faults, *START + SECOND), 1);
        assert_eq!(drain(&mut line, &faults, *START + 6 * SECOND), "ACK");
    }

    #[test]
    fn a_begun_ack_is_always_finished() {
        let mut line = line();
        let faults = Faults::default();
        assert_eq!(line.next(&faults, *START), Next::Write(Lane::Ordinary));
        line.wrote(Lane::Ordinary, 1);
        assert_eq!(line.next(&faults, *START + SECOND), Next::Write(Lane::Acks));
        line.wrote(Lane::Acks, 1);
        assert_eq!(line.drop_acks(), 0);
        assert_eq!(drain(&mut line, &faults, *START + SECOND), "CKbc");
    }

    #[test]
    fn silence_holds_everything_and_the_end_comes_last() {
        let mut faults = Faults::default();
        faults.way_mut(Direction::ToClient).silent = true;
        let mut line = line();
        line.push_end(*START + SECOND);
        assert_eq!(line.next(&faults, *START + 9 * SECOND), Next::Idle);
        faults.clear();
        assert_eq!(drain(&mut line, &faults, *START + 9 * SECOND), "aACKbc");
        assert_eq!(line.next(&faults, *START + 9 * SECOND), Next::End);
    }

    #[test]
    fn dropped_acks_are_counted_and_lost() {
        let mut line = line();
        assert_eq!(line.drop_acks(), 1);
        assert_eq!(drain(&mut line, &Faults::default(), *START + SECOND), "abc");
    }
}
