//! What happened in a run: proof that its faults were met, and not only meant.

use crate::network::Fate;
use crate::tally::tally;

tally! {
    faults: "faults",
    processes: "processes started",
    epochs: "epochs claimed",
    leases_lost: "leases lost",
    wound_down: "leases wound down",
    terms: "terms",
    revoked: "terms revoked",
    deposed: "tombstones sent",
    writes: "records of units and groups sent",
    refused: "writes refused",
    lost: "requests lost",
    acks_lost: "answers lost",
    ghosts: "ghost writes",
    twice: "requests doubled",
    late_answers: "answers that came after the timeout",
    stale_reads: "stale reads",
    watches: "watches begun",
    rewatches: "watches that a member asked for",
    purges: "keys purged",
    forged: "records of strangers",
    losses: "stream ends lost",
    grown: "groups grown",
    unusable: "buckets found unusable",
    mourned: "deaths that a companion saw",
    willed: "leases released by a companion",
}

impl Tally {
    pub fn met(&mut self, _kind: super::requests::Kind, fate: Fate) {
        match fate {
            Fate::Lost => self.lost += 1,
            Fate::AckLost => self.acks_lost += 1,
            Fate::Ghost(_) => self.ghosts += 1,
            Fate::Twice(_) => self.twice += 1,
            _ => {}
        }
    }
}
