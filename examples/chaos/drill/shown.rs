//! What `serve` showed of one role, beside what NATS told and the instances wrote down.

use std::collections::BTreeMap;
use std::time::Duration;

use nats_elect::FencingToken;

use super::checker::Evidence;
use super::onlooker::{Disturbance, Event, Leader, Sight};
use super::plan::Role;
use super::view::DELAY;
use ::drill::Moment;

/// A time in which NATS told of one leader.
#[derive(Debug)]
pub struct Span<'a> {
    pub leader: &'a Leader,
    pub from: Moment,
    /// When anything else was told; none if nothing was.
    pub until: Option<Moment>,
    pub beats: Vec<Moment>,
}

/// An answer 200.
pub struct Answer<'a> {
    pub asked: Moment,
    pub answered: Moment,
    pub instance: &'a str,
    pub token: Option<FencingToken>,
}

/// All that is known of one role.
pub struct OfRole<'a> {
    pub evidence: &'a Evidence,
    pub role: &'a Role,
    pub spans: Vec<Span<'a>>,
    /// The changes that `serve` told: when, to whom, and why.
    pub changes: Vec<(Moment, Option<&'a Leader>, &'a str)>,
    pub answers: Vec<Answer<'a>>,
    /// When the view was not current, or something was told to be missing.
    pub gaps: &'a [(Moment, Moment)],
    /// When the drill's watch was blind.
    pub blind: &'a [(Moment, Moment)],
    /// The first event.
    pub begun: Moment,
}

impl<'a> OfRole<'a> {
    pub fn new(
        evidence: &'a Evidence,
        role: &'a Role,
        gaps: &'a [(Moment, Moment)],
        blind: &'a [(Moment, Moment)],
        begun: Moment,
    ) -> Self {
        let (mut told, mut changes, mut answers) = (BTreeMap::new(), Vec::new(), Vec::new());
        for sight in &evidence.onlooker {
            match &sight.what {
                Sight::Told {
                    role: of,
                    revision,
                    leader,
                } if *of == role.name => {
                    told.insert(*revision, (sight.at, leader.as_ref()));
                }
                Sight::Event {
                    event:
                        Event::Change {
                            role: of,
                            to,
                            cause,
                        },
                    ..
                } if *of == role.name => changes.push((sight.at, to.as_ref(), cause.as_str())),
                Sight::Leads {
                    asked,
                    role: of,
                    instance,
                    token,
                } if *of == role.name => answers.push(Answer {
                    asked: *asked,
                    answered: sight.at,
                    instance,
                    token: *token,
                }),
                _ => {}
            }
        }
        answers.sort_by_key(|answer| (answer.asked, answer.answered));
        Self {
            evidence,
            role,
            spans: spans(&told),
            changes,
            answers,
            gaps,
            blind,
            begun,
        }
    }
}

impl Span<'_> {
    /// Whether NATS told of this leader about then.
    pub fn is_near(&self, at: Moment) -> bool {
        let after = self.until.map_or(Duration::ZERO, |until| at.since(until));
        self.from.since(at) <= DELAY && after <= DELAY
    }
}

/// What NATS told, by revision, leader by leader.
fn spans<'a>(told: &BTreeMap<u64, (Moment, Option<&'a Leader>)>) -> Vec<Span<'a>> {
    let mut spans: Vec<Span<'a>> = Vec::new();
    let mut latest: Option<Moment> = None;
    // One revision was there before the next one was told.
    let mut ordered: Vec<_> = told
        .values()
        .rev()
        .map(|(at, leader)| {
            let at = latest.map_or(*at, |latest| latest.min(*at));
            latest = Some(at);
            (at, *leader)
        })
        .collect();
    ordered.reverse();
    for (at, leader) in ordered {
        let last = spans.last_mut().filter(|last| last.until.is_none());
        if let Some(last) = last {
            if Some(last.leader) == leader {
                last.beats.push(at);
                continue;
            }
            last.until = Some(at);
        }
        if let Some(leader) = leader {
            spans.push(Span {
                leader,
                from: at,
                until: None,
                beats: vec![at],
            });
        }
    }
    spans
}

/// When the view was not current, by the events, until the end of the drill. At single moments
/// events were told to be missing.
pub fn gaps(evidence: &Evidence) -> Vec<(Moment, Moment)> {
    let mut gaps = Vec::new();
    let mut since = None;
    for sight in &evidence.onlooker {
        let Sight::Event { event, .. } = &sight.what else {
            continue;
        };
        match event {
            Event::View { current: true } => {
                gaps.push((since.take().unwrap_or(sight.at), sight.at));
            }
            Event::View { current: false } => since = since.or(Some(sight.at)),
            Event::Reload => gaps.push((sight.at, sight.at)),
            _ => {}
        }
    }
    gaps.extend(since.map(|since| (since, evidence.notes.ended.max(since))));
    gaps
}

/// When that was done to `serve`.
pub fn disturbed(evidence: &Evidence, by: Disturbance) -> Vec<(Moment, Moment)> {
    let sights = evidence.onlooker.iter();
    sights
        .filter_map(|sight| match sight.what {
            Sight::Disturbed { how, since } if how == by => Some((since, sight.at)),
            _ => None,
        })
        .collect()
}

/// When NATS told the drill nothing.
pub fn blind(evidence: &Evidence) -> Vec<(Moment, Moment)> {
    let sights = evidence.onlooker.iter();
    sights
        .filter_map(|sight| match sight.what {
            Sight::Blind { since } => Some((since, sight.at)),
            _ => None,
        })
        .collect()
}

/// Whether one of them lies in that time, or no farther than `near` from it.
pub fn overlaps(times: &[(Moment, Moment)], from: Moment, until: Moment, near: Duration) -> bool {
    let mut times = times.iter();
    times.any(|(begin, end)| begin.since(until) <= near && from.since(*end) <= near)
}
