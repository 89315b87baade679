//! What must be true of what `serve` showed: compared with the histories, and with what NATS told.

mod answers;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::checker::Evidence;
use super::onlooker::{Disturbance, Event, Leader, Sight};
use super::shown::{OfRole, Span, blind, disturbed, gaps, overlaps};
use ::drill::{Moment, Sample};

/// The longest delay from NATS to what `serve` shows, while it says that its view is current. A
/// watch without a message for 2.5 s is given up; as much again is for a server that lags behind
/// the others, and for a busy machine.
pub const DELAY: Duration = Duration::from_secs(5);
/// A leader that the bucket had for less may be gone before a watch shows it.
const BRIEF: Duration = Duration::from_secs(1);
/// What `serve` may have, in KiB: half of what its pod may (deploy/kubernetes).
const MOST_MEMORY: u64 = 64 * 1024;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct ViewVerdict {
    /// A text for each violation.
    pub wrong: Vec<String>,
    /// From the drill's watch to the event of `serve`, for leaders that it told while current.
    pub told: Sample,
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
    /// KiB, at most.
    pub memory: u64,
    /// How often `serve` was paused, cut off from NATS, and reset.
    pub disturbed: [usize; 3],
}

impl ViewVerdict {
    /// Judges.
    pub fn on(evidence: &Evidence) -> Self {
        let mut verdict = Self::default();
        verdict.count(evidence);
        verdict.judge_numbers(evidence);
        verdict.judge_reports(evidence);
        if verdict.memory > MOST_MEMORY {
            let wrong = format!("serve had {} KiB", verdict.memory);
            verdict.wrong.push(wrong);
        }
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
                Sight::Memory { kib } => self.memory = self.memory.max(*kib),
                _ => {}
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
                    self.told.add(delay);
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
        writeln!(
            f,
            "  from NATS to its event, while current: median {:.1?}, p99 {:.1?}, most {:.1?} ({})",
            self.told.median(),
            self.told.p99(),
            self.told.most(),
            self.told.rounds()
        )?;
        let [paused, cut_off, reset] = self.disturbed;
        writeln!(
            f,
            "  serve itself: {paused} times paused, {cut_off} cut off from NATS, {reset} reset"
        )?;
        write!(f, "  memory: at most {} KiB", self.memory)
    }
}
