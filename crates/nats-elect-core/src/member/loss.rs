//! Confirmed writes that NATS lost, told by the map's key: its sequence went back.
//!
//! Old answers, watches and servers that are behind show less than is known, too. So a heartbeat is
//! sent, and the map is read again where that heartbeat is shown. Until then no heartbeat extends the
//! lease: whoever acts by a lost map does so for the longest lease at most.

use super::effect::Effect;
use super::input::Look;
use super::machine::Member;
use crate::assignment::Value;
use crate::mutation::mutated;

/// The doubt whether the map that was shown is still stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Doubt {
    #[default]
    None,
    /// A heartbeat of this number or a later one has to be confirmed. Before it was sent, a map was
    /// known to be stored at the sequence `known`.
    Heartbeat { beat: u64, known: u64 },
    /// A read has to show that heartbeat, at the sequence `own` or a later one.
    Read { own: u64, known: u64 },
}

impl Member {
    /// Whether the map that was shown may be lost.
    pub(super) fn doubts(&self) -> bool {
        self.doubt != Doubt::None
    }

    /// A value of the map's key is shown. It may be less than is known. An answer to a read that a map has
    /// overtaken proves nothing.
    pub(super) fn doubt_map(&mut self, sequence: u64, value: &Value) {
        let known = self.following.known();
        let at_read = self.following.known_at_read.take_if(|_| sequence <= known);
        let is_less = sequence < known && at_read.is_none_or(|it| sequence < it);
        let is_lost = is_less || self.following.is_another(sequence, value);
        if self.doubt == Doubt::None && is_lost && !mutated!(LostMapFollowed) {
            let beat = self.keeping.next_beat();
            self.doubt = Doubt::Heartbeat { beat, known };
            self.tells = true;
        }
    }

    /// The lease is another one, and so is the own key.
    pub(super) fn doubt_anew(&mut self) {
        if let Doubt::Read { known, .. } = self.doubt {
            let beat = self.keeping.next_beat();
            self.doubt = Doubt::Heartbeat { beat, known };
        }
    }

    /// A heartbeat is stored at this sequence. A read that shows it shows the present map.
    pub(super) fn doubt_confirmed(&mut self, confirmed: u64, own: u64) {
        if let Doubt::Heartbeat { beat, known } = self.doubt
            && confirmed >= beat
        {
            self.doubt = Doubt::Read { own, known };
            self.keeping.look_by(self.now);
        }
    }

    /// The own key and the map were read. Returns whether the read proves that writes were lost.
    pub(super) fn has_lost_writes(&mut self, look: &Look) -> bool {
        let Doubt::Read { own, known } = self.doubt else {
            return false;
        };
        if look.own.as_ref().is_none_or(|(shown, _)| *shown < own) {
            return false;
        }
        self.doubt = Doubt::None;
        let map = look.map.as_ref();
        map.is_some_and(|(sequence, value)| {
            *sequence < known || self.following.is_another(*sequence, value)
        })
    }

    /// Confirmed writes are lost. What is known may not be so.
    pub(super) fn forget_lost_writes(&mut self) {
        self.forget(self.bucket);
        self.emit(Effect::Rewatch);
    }
}
