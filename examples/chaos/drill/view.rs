//! What must be true of what `serve` showed: compared with the histories, and with what NATS told.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use nats_elect::FencingToken;

use super::checker::Evidence;
use super::clock::Moment;
use super::fault::{Kind, Subject};
use super::onlooker::{Disturbance, Event, Leader, Sight};
use super::shown::{Answer, OfRole, Span, blind, disturbed, gaps, overlaps};

/// The longest delay from NATS to what `serve` shows, while it says that its view is current. A
/// watch without a message for 2.5 s is given up; as much again is for a server that lags behind
/// the others, and for a busy machine.
pub const DELAY: Duration = Duration::from_secs(5);
/// How much later than `serve` the drill's own watch may be.
const LAG: Duration = Duration::from_secs(1);
/// A leader that the bucket had for less may be gone before a watch shows it.
const BRIEF: Duration = Duration::from_secs(1);
/// What `serve` may have, in KiB: half of what its pod may (deploy/kubernetes).
const MOST_MEMORY: u64 = 64 * 1024;
/// Samples from which on growth is judged: half an hour.
const MANY_SAMPLES: usize = 360;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct ViewVerdict {
    /// A text for each violation.
    pub wrong: Vec<String>,
    /// From the drill's watch to the event of `serve`, for leaders that it told while current.
    pub told: Delays,
    /// From when NATS told that a leader was gone to the last 200 for it, while `serve` was
    /// current: zero if there was none.
    pub outlived: Delays,
    /// The same while it was not.
    pub outlived_blindly: Delays,
    /// From the end of a term, by the histories, to the last 200 with its fencing token.
    pub after_term: Delays,
    /// Leaders that NATS told the drill, and those among them that `serve` told of.
    pub leaders: (usize, usize),
    /// Answers 200 that can't be judged: the drill's own watch saw nothing then.
    pub unseen: usize,
    pub rounds: usize,
    pub answers: usize,
    pub events: usize,
    /// How often the stream began, was resumed, or had to begin anew.
    pub streams: usize,
    pub reloads: usize,
    /// For how long its view was not current.
    pub away: Duration,
    /// KiB, in the order of time.
    pub memory: Vec<u64>,
    /// How often `serve` was paused, cut off from NATS, and reset.
    pub disturbed: [usize; 3],
}

/// Durations, in any order.
#[derive(Clone, Debug, Default)]
pub struct Delays(pub Vec<Duration>);

impl ViewVerdict {
    /// Judges.
    pub fn on(evidence: &Evidence) -> Self {
        let mut verdict = Self::default();
        verdict.count(evidence);
        verdict.judge_numbers(evidence);
        verdict.judge_reports(evidence);
        verdict.judge_memory();
        let mut gaps = gaps(evidence);
        let length = |(from, until): &(Moment, Moment)| until.since(*from);
        verdict.away = gaps.iter().map(length).sum();
        verdict.judge_disturbances(evidence, &gaps);
        gaps.extend(disturbed(evidence, Disturbance::Paused));
        let blind = blind(evidence);
        let events = |sight: &Sight| matches!(sight, Sight::Event { .. });
        let mut sights = evidence.onlooker.iter();
        let Some(first) = sights.find(|it| events(&it.what)) else {
            verdict.wrong.push("serve told nothing".into());
            return verdict;
        };
        for role in &evidence.notes.roles {
            let of_role = OfRole::new(evidence, role, &gaps, &blind, first.at);
            verdict.judge_events(&of_role);
            verdict.judge_pairs(&of_role);
            verdict.judge_tokens(&of_role);
            verdict.judge_answers(&of_role);
        }
        verdict
    }

    fn count(&mut self, evidence: &Evidence) {
        for sight in &evidence.onlooker {
            match &sight.what {
                Sight::Event { event, .. } => {
                    self.events += 1;
                    self.streams += usize::from(matches!(event, Event::Hello | Event::Reload));
                    self.reloads += usize::from(*event == Event::Reload);
                }
                Sight::Round { asked, unanswered } => {
                    self.rounds += 1;
                    self.answers += asked - unanswered;
                    if *unanswered > 0 {
                        let at = evidence.time(sight.at);
                        let wrong = format!("{unanswered} of {asked} questions at {at} unanswered");
                        self.wrong.push(wrong);
                    }
                }
                Sight::Memory { kib } => self.memory.push(*kib),
                _ => {}
            }
        }
    }

    /// It stays small, and does not grow.
    fn judge_memory(&mut self) {
        if let Some(most) = self.memory.iter().max().filter(|kib| **kib > MOST_MEMORY) {
            self.wrong.push(format!("serve had {most} KiB"));
        }
        let quarter = self.memory.len() / 4;
        if self.memory.len() >= MANY_SAMPLES {
            let second = median(&self.memory[quarter..quarter * 2]);
            let last = median(&self.memory[quarter * 3..]);
            if last > second + second / 4 {
                let wrong = format!("the memory of serve grows: {second} KiB, later {last} KiB");
                self.wrong.push(wrong);
            }
        }
    }

    /// `serve` notices that it is cut off from NATS.
    fn judge_disturbances(&mut self, evidence: &Evidence, gaps: &[(Moment, Moment)]) {
        use Disturbance::{CutOff, Paused, Reset};
        self.disturbed = [Paused, CutOff, Reset].map(|how| disturbed(evidence, how).len());
        for (from, until) in disturbed(evidence, CutOff) {
            if !overlaps(gaps, from, until, Duration::ZERO) {
                let wrong = format!(
                    "serve was cut off from {} to {}, and said that its view is current",
                    evidence.time(from),
                    evidence.time(until)
                );
                self.wrong.push(wrong);
            }
        }
    }

    /// No event is missing, unless a `reload` says so.
    fn judge_numbers(&mut self, evidence: &Evidence) {
        let mut last: Option<(&str, u64)> = None;
        for sight in &evidence.onlooker {
            let Sight::Event { id, event } = &sight.what else {
                continue;
            };
            let Some((start, number)) = id.rsplit_once('-') else {
                self.wrong.push(format!("an event has the id {id:?}"));
                continue;
            };
            let number = number.parse().unwrap_or_default();
            let (before, expected) = match (last, event) {
                (_, Event::Reload) | (None, _) => (start, number),
                // It has the number of the last event that was read, or of the newest.
                (Some((before, last)), Event::Hello) => (before, last),
                (Some((before, last)), _) => (before, last + 1),
            };
            if (start, number) != (before, expected) {
                let at = evidence.time(sight.at);
                let wrong = format!("event {id} at {at} follows {last:?}");
                self.wrong.push(wrong);
            }
            last = Some((start, number));
        }
    }

    /// What an instance reports of its own terms comes in order.
    fn judge_reports(&mut self, evidence: &Evidence) {
        let mut greatest = BTreeMap::new();
        for sight in &evidence.onlooker {
            let Sight::Event {
                event:
                    Event::Started {
                        role,
                        instance,
                        incarnation,
                        token,
                    },
                ..
            } = &sight.what
            else {
                continue;
            };
            let before = greatest.insert((role, incarnation), *token);
            if let Some(before) = before.filter(|before| token <= before) {
                let at = evidence.time(sight.at);
                self.wrong.push(format!(
                    "{role}: the start of {instance} with {token} was told at {at} after {before}"
                ));
            }
        }
    }

    /// Each leader that NATS told is told, in time and in order, and no other.
    fn judge_events(&mut self, of: &OfRole<'_>) {
        let name = &of.role.name;
        let ended = of.evidence.notes.ended;
        let mut next = 0;
        for span in &of.spans {
            // Who led when the stream began is told before it.
            if span.from.since(of.begun) <= DELAY || span.from > ended {
                continue;
            }
            self.leaders.0 += 1;
            let until = span.until.unwrap_or(ended).min(ended);
            let is_told = |(at, to, _): &(Moment, Option<&Leader>, &str)| {
                *to == Some(span.leader)
                    && span.from.since(*at) <= DELAY
                    && at.since(until) <= DELAY
            };
            let place = of.changes[next..].iter().position(is_told);
            let is_excused = |until| overlaps(of.gaps, span.from, until, DELAY);
            if let Some(place) = place {
                next += place + 1;
                self.leaders.1 += 1;
                let at = of.changes[next - 1].0;
                if !overlaps(of.gaps, span.from, at, Duration::ZERO) {
                    let delay = at.since(span.from);
                    self.told.0.push(delay);
                    if delay > DELAY {
                        self.wrong.push(format!(
                            "{name}: {} was told {delay:.1?} after NATS told it at {}",
                            span.leader.id,
                            of.evidence.time(span.from)
                        ));
                    }
                }
            } else if until.since(span.from) > BRIEF && !is_excused(until) {
                self.wrong.push(format!(
                    "{name}: {} led from {} to {} by the bucket, and was never told",
                    span.leader.id,
                    of.evidence.time(span.from),
                    of.evidence.time(until)
                ));
            }
        }
        for (at, to, _) in &of.changes {
            let Some(leader) = to else { continue };
            let is_near = |span: &&Span<'_>| span.leader == *leader && span.is_near(*at);
            let is_right = of.spans.iter().any(|span| is_near(&span));
            if !is_right && !overlaps(of.blind, *at, *at, DELAY) {
                self.wrong.push(format!(
                    "{name}: {} was told to lead at {}, and did not by the bucket",
                    leader.id,
                    of.evidence.time(*at)
                ));
            }
        }
    }

    /// Two instances never lead with one fencing token. With two, the greater one leads, and the
    /// next rule tells which answer has to be later.
    fn judge_pairs(&mut self, of: &OfRole<'_>) {
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
    fn judge_tokens(&mut self, of: &OfRole<'_>) {
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
    fn judge_answers(&mut self, of: &OfRole<'_>) {
        let ttl = of.role.ttl;
        let ends = ends_of_terms(of);
        // By span: how long after its end it was said to lead, and whether `serve` was current.
        let mut outlived = BTreeMap::new();
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
            let spans = of.spans.iter().enumerate();
            let Some((index, span)) = spans.rev().find(|(_, span)| is_of(span)) else {
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
                let longest = outlived.entry(index).or_insert((late, is_current));
                *longest = (late.max(longest.0), is_current && longest.1);
            }
        }
        for (index, span) in of.spans.iter().enumerate() {
            if span.until.is_none_or(|until| until < of.begun) {
                continue;
            }
            match outlived.get(&index) {
                Some((late, false)) => self.outlived_blindly.0.push(*late),
                Some((late, true)) => self.outlived.0.push(*late),
                None => self.outlived.0.push(Duration::ZERO),
            }
        }
        self.measure_after_terms(of);
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
                Subject::Role => false,
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

    fn measure_after_terms(&mut self, of: &OfRole<'_>) {
        for term in of.terms() {
            let Some((_, last)) = term.valid else {
                continue;
            };
            let answers = of.answers.iter();
            let answers = answers.filter(|it| it.token == Some(term.token));
            let late = answers.map(|it| it.asked.since(last)).max();
            if last >= of.begun && last < of.evidence.notes.ended {
                self.after_term.0.push(late.unwrap_or_default());
            }
        }
    }
}

/// By fencing token.
type Ends = BTreeMap<FencingToken, Moment>;

/// When terms were last seen to be valid. Those that never were, when `serve` first told of them.
fn ends_of_terms(of: &OfRole<'_>) -> Ends {
    let terms = of.terms();
    let mut ends: Ends = terms
        .filter_map(|term| Some((term.token, term.valid?.1)))
        .collect();
    for answer in &of.answers {
        if let Some(token) = answer.token {
            ends.entry(token).or_insert(answer.asked);
        }
    }
    ends
}

/// Of a few at least.
fn median(values: &[u64]) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

impl fmt::Display for Delays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = |percent: usize| {
            let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
            sorted.get(place).copied().unwrap_or_default()
        };
        let (median, p99, most) = (at(50), at(99), at(100));
        let count = sorted.len();
        write!(
            f,
            "median {median:.1?}, p99 {p99:.1?}, most {most:.1?} ({count})"
        )
    }
}

impl fmt::Display for ViewVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (leaders, told) = self.leaders;
        writeln!(
            f,
            "serve beside it: {} rounds, {} answers, {} events in {} streams ({} reloads); not current for {:.1} s.",
            self.rounds,
            self.answers,
            self.events,
            self.streams,
            self.reloads,
            self.away.as_secs_f64()
        )?;
        writeln!(
            f,
            "  {leaders} leaders by the bucket, {told} of them in its events; {} answers 200 while the drill's own watch saw nothing.",
            self.unseen
        )?;
        writeln!(f, "  from NATS to its event, while current: {}", self.told)?;
        writeln!(
            f,
            "  a leader's last 200 after NATS told its end, while current: {}",
            self.outlived
        )?;
        writeln!(f, "  the same while not current: {}", self.outlived_blindly)?;
        writeln!(
            f,
            "  a leader's last 200 after its term, by the histories: {}",
            self.after_term
        )?;
        let [paused, cut_off, reset] = self.disturbed;
        writeln!(
            f,
            "  serve itself: {paused} times paused, {cut_off} cut off from NATS, {reset} reset"
        )?;
        let most = self.memory.iter().max();
        if let (Some(first), Some(most)) = (self.memory.first(), most) {
            let quarter = self.memory.len().div_ceil(4);
            let quarters = self.memory.chunks(quarter).map(median);
            let quarters: Vec<_> = quarters.map(|kib| format!("{kib}")).collect();
            write!(
                f,
                "  memory in KiB: first {first}, most {most}, medians of its quarters {}",
                quarters.join(", ")
            )?;
        }
        Ok(())
    }
}
