//! A place for each unit that must move, also where caps fit exactly.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::board::Board;
use super::plan::Cause;

impl Board<'_> {
    /// Puts a unit that is nowhere where it fits best. Where all members that may take it are full,
    /// others make room. Returns whether it has a place.
    pub fn place(&mut self, piece: usize) -> bool {
        if let Some(seat) = self.best_seat(piece) {
            self.put(piece, seat);
            return true;
        }
        // To make room with units that must move anyway costs no move.
        let kind = self.kind(piece);
        if self.hopeless.contains(&kind) {
            return false;
        }
        let made = self.make_room(piece, true) || self.make_room(piece, false);
        if !made {
            // If no path leads from here to room, none ever will: what is placed later takes room.
            self.hopeless.push(kind);
        }
        made
    }

    /// The member with room that meets most of the unit's wishes, and among those the one with the
    /// least load. A preference counts as long as the load remains within the band.
    pub fn best_seat(&self, piece: usize) -> Option<usize> {
        let weight = self.pieces[piece].weight;
        let able = || {
            let seats = 0..self.seats.len();
            seats.filter(|seat| self.has_room(*seat) && self.may_take(piece, *seat))
        };
        // The one with the least load is never too much for a preference.
        let least = if self.pieces[piece].unit.prefers.is_empty() {
            u64::MAX
        } else {
            able().map(|seat| self.seats[seat].load).min()?
        };
        able().min_by_key(|seat| {
            let load = self.seats[*seat].load;
            (
                self.unmet(piece, *seat),
                load > least && self.is_too_much(*seat, weight),
                self.missed(piece, *seat),
                load,
                // The youngest: in a rolling restart it is not the next one to leave.
                Reverse(self.seats[*seat].member.since),
                *seat,
            )
        })
    }

    /// Puts the unit on a full member, from which another unit goes to the next, and so on, until
    /// one has room: an augmenting path, the shortest. If there is none, no assignment of these
    /// units has room for this one.
    fn make_room(&mut self, piece: usize, loose_only: bool) -> bool {
        // By member: the unit that comes to it, and from where.
        let mut comes: Vec<Option<(usize, Option<usize>)>> = vec![None; self.seats.len()];
        let mut queue = VecDeque::new();
        let mut kinds = Vec::new();
        self.reach(piece, None, &mut comes, &mut queue);
        while let Some(from) = queue.pop_front() {
            if self.has_room(from) {
                self.follow(&comes, from);
                return true;
            }
            // The lightest first, as they weigh least on the balance elsewhere.
            for (.., moved) in self.seats[from].units.iter().rev() {
                let it = &self.pieces[*moved];
                let kind = self.kind(*moved);
                if it.fixed || (loose_only && !it.loose) || kinds.contains(&kind) {
                    continue;
                }
                kinds.push(kind);
                self.reach(*moved, Some(from), &mut comes, &mut queue);
            }
        }
        false
    }

    /// Notes the members that may take this unit and that no path has led to.
    fn reach(
        &self,
        piece: usize,
        from: Option<usize>,
        comes: &mut [Option<(usize, Option<usize>)>],
        queue: &mut VecDeque<usize>,
    ) {
        for (seat, comes) in comes.iter_mut().enumerate() {
            if comes.is_none() && self.seats[seat].cap > 0 && self.may_take(piece, seat) {
                *comes = Some((piece, from));
                queue.push_back(seat);
            }
        }
    }

    /// Carries out a path, from its end.
    fn follow(&mut self, comes: &[Option<(usize, Option<usize>)>], end: usize) {
        let mut to = end;
        while let Some((piece, from)) = comes[to] {
            // From now on it must move, too: nothing that follows may rest on its staying.
            self.lift(piece);
            self.pieces[piece].loose = true;
            self.pieces[piece].cause.get_or_insert(Cause::Room);
            self.put(piece, to);
            match from {
                Some(from) => to = from,
                None => return,
            }
        }
    }
}
