//! The bytes on their way in one direction of one connection.

use std::collections::VecDeque;

use super::Direction;
use super::faults::Faults;
use super::protocol::Piece;
use std::time::{Duration, Instant};

const CAPACITY: usize = 8 << 20;

/// A delay line. Bytes that arrive leave later, when the faults that are in force *then* let them.
///
/// Other bytes overtake acks that are held back. Without a fault that holds them back, everything
/// leaves in the order of arrival. A stalled piece holds up all pieces that come after it.
pub(super) struct Line {
    direction: Direction,
    waiting: VecDeque<Waiting>,
    /// The place of the piece that is partly written. It must be finished first.
    begun: Option<usize>,
    bytes: usize,
    /// When the sender closed its side.
    end: Option<Instant>,
}

struct Waiting {
    piece: Piece,
    arrived: Instant,
    /// From 0 to 1. Pieces with a lower value are stalled first.
    luck: f64,
    written: usize,
}

/// The next action of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The piece at this place may leave.
    Write(usize),
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
            waiting: VecDeque::new(),
            begun: None,
            bytes: 0,
            end: None,
        }
    }

    pub(super) fn takes_more(&self) -> bool {
        self.end.is_none() && self.bytes < CAPACITY
    }

    pub(super) fn push(&mut self, piece: Piece, luck: f64, now: Instant) {
        self.bytes += piece.bytes.len();
        self.waiting.push_back(Waiting {
            piece,
            arrived: now,
            luck,
            written: 0,
        });
    }

    pub(super) fn push_end(&mut self, now: Instant) {
        self.end = Some(now);
    }

    pub(super) fn next(&self, faults: &Faults, now: Instant) -> Next {
        let way = faults.way(self.direction);
        if way.silent {
            return Next::Idle;
        }
        if let Some(place) = self.begun {
            return Next::Write(place);
        }
        let may_leave = |it: &Waiting| !(it.piece.is_ack && faults.holds_acks());
        let first = self.waiting.iter().position(may_leave);
        let (next, due) = match (first, self.end) {
            (Some(place), _) => (
                Next::Write(place),
                self.waiting[place].due(faults, self.direction),
            ),
            // The end overtakes acks that are held. They are lost with the connection.
            (None, Some(end)) => (Next::End, later(end, way.delay)),
            (None, None) => return Next::Idle,
        };
        if due <= now { next } else { Next::At(due) }
    }

    /// Returns the unwritten rest of the piece at this place.
    pub(super) fn rest(&self, place: usize) -> &[u8] {
        let waiting = &self.waiting[place];
        &waiting.piece.bytes[waiting.written..]
    }

    pub(super) fn wrote(&mut self, place: usize, count: usize) {
        let waiting = &mut self.waiting[place];
        waiting.written += count;
        self.begun = (waiting.written > 0).then_some(place);
        if self.rest(place).is_empty() {
            self.begun = None;
            let left = self.waiting.remove(place);
            self.bytes -= left.map_or(0, |it| it.piece.bytes.len());
        }
    }

    /// Returns the number of acks that may not leave yet.
    pub(super) fn acks_held(&self, faults: &Faults, now: Instant) -> usize {
        let all = faults.way(self.direction).silent || faults.holds_acks();
        let is_held = |it: &&Waiting| all || it.due(faults, self.direction) > now;
        let acks = self.waiting.iter().filter(|it| it.piece.is_ack);
        acks.filter(is_held).count()
    }

    /// Loses all acks, except for one that is partly written, and returns how many.
    pub(super) fn drop_acks(&mut self) -> usize {
        let before = self.waiting.len();
        self.waiting.retain(|it| !it.piece.is_ack || it.written > 0);
        self.begun = self.waiting.iter().position(|it| it.written > 0);
        self.bytes = self.waiting.iter().map(|it| it.piece.bytes.len()).sum();
        before - self.waiting.len()
    }
}

impl Waiting {
    fn due(&self, faults: &Faults, direction: Direction) -> Instant {
        later(self.arrived, faults.way(direction).time_of(self.luck))
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
    use crate::proxy::faults::AckFault;

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
        while let Next::Write(place) = line.next(faults, now) {
            // Write byte by byte, as a socket in trouble would take it.
            written.push(line.rest(place)[0]);
            line.wrote(place, 1);
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
    fn other_bytes_overtake_acks_that_are_held() {
        let mut faults = Faults::default();
        faults.acks = AckFault::Hold;
        let mut line = line();
        assert_eq!(drain(&mut line, &faults, *START + SECOND), "abc");
        assert_eq!(line.acks_held(&faults, *START + SECOND), 1);
        faults.clear();
        assert_eq!(drain(&mut line, &faults, *START + SECOND), "ACK");
    }

    #[test]
    fn a_begun_ack_is_always_finished() {
        let mut line = line();
        let faults = Faults::default();
        assert_eq!(line.next(&faults, *START), Next::Write(0));
        line.wrote(0, 1);
        assert_eq!(line.next(&faults, *START + SECOND), Next::Write(0));
        line.wrote(0, 1);
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
