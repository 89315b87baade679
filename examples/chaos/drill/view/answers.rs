//! What must be true of the answers of `serve`: who leads each role.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use nats_elect::FencingToken;

use super::super::fault::{Kind, Subject};
use super::super::shown::{Answer, OfRole, Span, overlaps};
use super::{DELAY, ViewVerdict};
use ::drill::Moment;

/// How much later than `serve` the drill's own watch may be.
const LAG: Duration = Duration::from_secs(1);

impl ViewVerdict {
    /// Two instances never lead with one fencing token. With two, the greater one leads, and the
    /// next rule tells which answer has to be later.
    pub(super) fn judge_pairs(&mut self, of: &OfRole<'_>) {
        let mut instances = BTreeMap::new();
        for answer in &of.answers {
            // A claim has none until its fence record is seen.
            let Some(token) = answer.token else { continue };
            let other = *instances.entry(token).or_insert(answer.instance);
            if other != answer.instance {
                self.wrong.push(format!(
                    "{}: {other} and {} lead with token {token}, the latter at {}",
                    of.role.name,
                    answer.instance,
                    of.evidence.time(answer.asked)
                ));
            }
        }
    }

    /// The fencing token of who leads never goes back, unless the bucket is another one.
    pub(super) fn judge_tokens(&mut self, of: &OfRole<'_>) {
        let replaced = |from: Moment, until: Moment| {
            let mut changes = of.changes.iter();
            changes.any(|(at, _, why)| {
                *why == "bucket_replaced" && from.since(*at) <= DELAY && at.since(until) <= DELAY
            })
        };
        let mut under_way = VecDeque::new();
        let mut greatest: Option<(FencingToken, Moment)> = None;
        for answer in &of.answers {
            let Some(token) = answer.token else { continue };
            // Of answers that were under way at a time, nobody knows which was first.
            under_way.retain(|(answered, before): &(Moment, FencingToken)| {
                let is_settled = *answered < answer.asked;
                if is_settled && greatest.is_none_or(|(greatest, _)| *before > greatest) {
                    greatest = Some((*before, *answered));
                }
                !is_settled
            });
            if let Some((before, at)) = greatest.filter(|(before, _)| token < *before) {
                if replaced(at, answer.answered) {
                    greatest = None;
                } else {
                    self.wrong.push(format!(
                        "{}: {} leads with token {token} at {}, after {before}",
                        of.role.name,
                        answer.instance,
                        of.evidence.time(answer.asked)
                    ));
                }
            }
            under_way.push_back((answer.answered, token));
        }
    }

    /// Nobody is said to lead who does not: by what NATS told, and by the histories.
    pub(super) fn judge_answers(&mut self, of: &OfRole<'_>) {
        let ttl = of.role.ttl;
        let ends = ends_of_terms(of);
        for answer in &of.answers {
            let wrong = |why: &str| {
                let at = of.evidence.time(answer.asked);
                format!("{}: {} leads at {at}, {why}", of.role.name, answer.instance)
            };
            self.judge_by_histories(of, answer, &ends);
            // A leader on which it rests may have come and gone while the drill saw nothing.
            let unseen = of.blind.iter().any(|(from, until)| {
                *from <= answer.answered && answer.asked.since(*until) <= DELAY
            });
            if unseen {
                self.unseen += 1;
                continue;
            }
            let is_of = |span: &&Span<'_>| {
                span.leader.id == answer.instance && span.from.since(answer.answered) <= LAG
            };
            let Some(span) = of.spans.iter().rev().find(is_of) else {
                self.wrong.push(wrong("and never did by the bucket"));
                continue;
            };
            let beats = span.beats.iter().rev();
            let mut beats = beats.filter(|beat| **beat <= answer.asked);
            let beat = *beats.next().unwrap_or(&span.from);
            if answer.asked.since(beat) > ttl + DELAY {
                let since = answer.asked.since(beat);
                let why = format!("and its last heartbeat was {since:.1?} before");
                self.wrong.push(wrong(&why));
            }
            if let Some(until) = span.until {
                let late = answer.asked.since(until);
                let is_current = !overlaps(of.gaps, until, answer.answered, Duration::ZERO);
                if is_current && late > DELAY {
                    let why = format!("and NATS told otherwise {late:.1?} before");
                    self.wrong.push(wrong(&why));
                }
            }
        }
    }

    /// A 200 ends with the lease. Counted from the end of the term, or from the first sight of its
    /// token if it was never promoted; and from when its process, its network and NATS were well
    /// again, as each may have held back its last heartbeat.
    fn judge_by_histories(&mut self, of: &OfRole<'_>, answer: &Answer<'_>, ends: &Ends) {
        let token = answer.token;
        let Some(base) = token.and_then(|token| ends.get(&token)) else {
            return;
        };
        let notes = &of.evidence.notes;
        let holds = notes.faults.iter().filter(|fault| {
            let can_hold = match fault.kind.subject() {
                Subject::Process => matches!(fault.kind, Kind::PauseShort | Kind::PauseLong),
                Subject::Role | Subject::Group => false,
                Subject::Network | Subject::Stream | Subject::Server => true,
            };
            can_hold && fault.concerns(&of.role.name, Some(answer.instance))
        });
        let holds = holds.map(|fault| (fault.from, fault.until));
        let holds = holds.chain(notes.outages.iter().copied());
        let holds = holds.filter(|(from, until)| *from <= answer.asked && until >= base);
        let held = holds.map(|(_, until)| until.min(answer.asked));
        let base = held.fold(*base, Moment::max);
        let since = answer.asked.since(base);
        if since > of.role.ttl + DELAY {
            self.wrong.push(format!(
                "{}: {} leads at {}, {since:.1?} after the end of its term and of all that held it up",
                of.role.name,
                answer.instance,
                of.evidence.time(answer.asked)
            ));
        }
    }
}

/// By fencing token.
type Ends = BTreeMap<FencingToken, Moment>;

/// When terms were last seen to be valid. Those that never were, when `serve` first told of them.
fn ends_of_terms(of: &OfRole<'_>) -> Ends {
    let terms = of.evidence.terms_of(of.role).into_iter();
    let mut ends: Ends = terms.map(|term| (term.token, term.seen)).collect();
    for answer in &of.answers {
        if let Some(token) = answer.token {
            ends.entry(token).or_insert(answer.asked);
        }
    }
    ends
}
