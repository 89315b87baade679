//! Made-up views: one for each thing that `serve` must not show, and some that only look like it.

use std::time::Duration;

use nats_elect::FencingToken;

use super::checker::{Evidence, Verdict};
use super::fault::{Fault, Kind, Outcome};
use super::made_up::{END, ROLE, at, nothing_yet};
use super::onlooker::{Disturbance, Event, Leader, Sight};
use super::view::ViewVerdict;
use ::drill::journal::{self, Record, What};

/// A drill of 100 s with one role and a ttl of 2 s.
struct Story {
    evidence: Evidence,
    event: u64,
    revision: u64,
}

fn process(id: &str) -> Leader {
    Leader {
        id: id.to_owned(),
        incarnation: Some(format!("of-{id}")),
    }
}

impl Story {
    /// Nothing but the begin of the stream of events.
    fn new() -> Self {
        let story = Self {
            evidence: nothing_yet(at(END)),
            event: 0,
            revision: 0,
        };
        story.event(0, Event::Hello)
    }

    /// `a` leads to 40 s and frees the role, `b` leads from 41 s on; and so it is shown.
    fn plain() -> Self {
        Self::unseen()
            .change(40_005, None)
            .change(41_005, Some("b"))
    }

    /// The same without the events of it.
    fn unseen() -> Self {
        Self::new()
            .led("a", 100, 40_000)
            .freed(40_000)
            .led("b", 41_000, END)
            .leads(20_000, "a", 1)
            .leads(60_000, "b", 2)
    }

    fn sight(mut self, millis: u64, what: Sight) -> Self {
        let at = at(millis);
        self.evidence.onlooker.push(Record { at, what });
        self.evidence.onlooker.sort_by_key(|it| it.at);
        self
    }

    fn event(mut self, millis: u64, event: Event) -> Self {
        let id = format!("start-{}", self.event);
        self.event += 1;
        self.sight(millis, Sight::Event { id, event })
    }

    /// By the histories and by NATS, with a heartbeat each half second.
    fn led(self, instance: &str, from: u64, to: u64) -> Self {
        let mut story = self.term(instance, from, to);
        for millis in (from..to).step_by(500) {
            story = story.beat(millis, instance);
        }
        story
    }

    /// A term of `a` has the first token, one of `b` the second.
    fn term(mut self, instance: &str, from: u64, to: u64) -> Self {
        let number = usize::from(instance == "b");
        for (millis, what) in [(from, What::Began), (to, What::Ended)] {
            let what = journal::Event::Term {
                unit: 0,
                token: token(if instance == "a" { 1 } else { 2 }),
                until: Some(at(millis)),
                what,
            };
            let line = Record {
                at: at(millis),
                what,
            };
            self.evidence.roles.terms.take(number, 1, &line);
        }
        self
    }

    fn beat(self, millis: u64, instance: &str) -> Self {
        self.told(millis, Some(process(instance)))
    }

    fn freed(self, millis: u64) -> Self {
        self.told(millis, None)
    }

    fn told(mut self, millis: u64, leader: Option<Leader>) -> Self {
        self.revision += 1;
        let told = Sight::Told {
            role: ROLE.to_owned(),
            revision: self.revision,
            leader,
        };
        self.sight(millis, told)
    }

    fn change(self, millis: u64, to: Option<&str>) -> Self {
        self.change_by(millis, to, "claimed")
    }

    fn change_by(self, millis: u64, to: Option<&str>, cause: &str) -> Self {
        let change = Event::Change {
            role: ROLE.to_owned(),
            to: to.map(process),
            cause: cause.to_owned(),
        };
        self.event(millis, change)
    }

    fn current(self, millis: u64, current: bool) -> Self {
        self.event(millis, Event::View { current })
    }

    /// A 200 that took 10 ms.
    fn leads(self, millis: u64, instance: &str, sequence: u64) -> Self {
        let leads = Sight::Leads {
            asked: at(millis),
            role: ROLE.to_owned(),
            instance: instance.to_owned(),
            token: Some(token(sequence)),
        };
        self.sight(millis + 10, leads)
    }

    fn disturbed(self, since: u64, until: u64, how: Disturbance) -> Self {
        let since = at(since);
        self.sight(until, Sight::Disturbed { how, since })
    }

    fn started(self, millis: u64, sequence: u64) -> Self {
        let started = Event::Started {
            role: ROLE.to_owned(),
            instance: "a".to_owned(),
            incarnation: "of-a".to_owned(),
            token: token(sequence),
        };
        self.event(millis, started)
    }

    fn suffered(mut self, kind: Kind, target: &str, (from, until): (u64, u64)) -> Self {
        self.evidence.notes.faults.push(Fault {
            kind,
            target: target.to_owned(),
            from: at(from),
            until: at(until),
            outcome: Outcome::Done,
        });
        self
    }

    fn is_clean(&self) -> ViewVerdict {
        let verdict = ViewVerdict::on(&self.evidence);
        assert!(verdict.wrong.is_empty(), "{verdict:#?}");
        verdict
    }

    /// That alone is wrong.
    fn says(&self, wrong: &str) {
        let verdict = ViewVerdict::on(&self.evidence);
        let [found] = &*verdict.wrong else {
            panic!("{verdict:#?}");
        };
        assert!(found.contains(wrong), "{found}");
        let whole = Verdict::on(&self.evidence);
        assert!(whole.to_string().ends_with("wrong views: 1"), "{whole}");
        assert!(!whole.is_clean());
    }
}

fn token(sequence: u64) -> FencingToken {
    FencingToken { epoch: 1, sequence }
}

#[test]
fn what_is_shown_as_it_is_is_clean() {
    let verdict = Story::plain().leads(40_100, "a", 1).is_clean();
    assert_eq!(verdict.leaders, (1, 1));
    assert_eq!(verdict.told.rounds(), 1);
    assert_eq!(verdict.told.most(), Duration::from_millis(5));
}

#[test]
fn two_that_lead_at_one_time_are_seen() {
    let pair = |token| {
        Story::plain()
            .leads(40_990, "a", 1)
            .leads(40_995, "b", token)
    };
    pair(1).says("a and b lead with token");
    pair(2).is_clean();
}

#[test]
fn who_is_said_to_lead_after_nats_told_otherwise_is_seen() {
    let story = |late: u64| Story::plain().leads(40_000 + late, "a", 1);
    // A term is over by a lease at that time, and by its deletion before.
    let longer = |late| story(late).term("a", 41_000, 45_000);
    longer(5_000).is_clean();
    longer(5_001).says("NATS told otherwise");
    // It knew that it did not know.
    let blind = longer(5_001).current(41_010, false).current(46_000, true);
    blind.is_clean();
}

#[test]
fn who_is_said_to_lead_without_heartbeats_is_seen() {
    let story = |asked| {
        Story::new()
            .led("a", 100, 40_000)
            .term("a", 40_001, 50_000)
            .leads(asked, "a", 1)
    };
    // The last heartbeat was at 39.6 s.
    story(46_600).is_clean();
    story(46_601).says("its last heartbeat was");
    story(20_000).leads(30_000, "c", 3).says("never did");
    // The drill saw nothing for a while: there may have been one.
    let blind = |until: u64| {
        let since = at(until - 1_000);
        story(46_601).sight(until, Sight::Blind { since })
    };
    assert_eq!(blind(41_601).is_clean().unseen, 1);
    blind(41_600).says("its last heartbeat was");
}

#[test]
fn who_is_said_to_lead_after_its_term_is_seen() {
    let story = |asked| {
        let mut story = Story::new().term("a", 100, 40_000);
        for millis in (100..60_000).step_by(500) {
            story = story.beat(millis, "a");
        }
        story.leads(asked, "a", 1)
    };
    story(47_000).is_clean();
    story(47_001).says("after the end of its term");
    // Its heartbeats were held back, or NATS held them back.
    let held = |kind, target| story(47_001).suffered(kind, target, (39_000, 41_000));
    held(Kind::Mute, "a").is_clean();
    held(Kind::PauseServer, "nats-1").is_clean();
    held(Kind::PauseLong, "a").is_clean();
    held(Kind::Kill, "a").says("after the end of its term");
    held(Kind::Mute, "b").says("after the end of its term");
    held(Kind::DeleteKey, ROLE).says("after the end of its term");
    let mut story = story(47_001);
    story.evidence.notes.outages.push((at(39_000), at(40_001)));
    story.is_clean();
}

#[test]
fn tokens_that_go_back_are_seen() {
    let story = |millis| {
        let story = Story::plain().leads(65_000, "b", 3);
        story.leads(millis, "b", 2)
    };
    story(70_000).says("after");
    // Nobody knows which of the two was first.
    story(65_005).is_clean();
    let replaced = story(70_000).change_by(69_000, Some("b"), "bucket_replaced");
    replaced.is_clean();
}

#[test]
fn reports_that_go_back_are_seen() {
    Story::new().started(1_000, 1).started(2_000, 2).is_clean();
    let story = Story::new().started(1_000, 2).started(2_000, 1);
    story.says("the start of a");
}

#[test]
fn a_leader_that_is_never_told_is_seen() {
    Story::unseen().says("was never told");
    let late = Story::unseen().change(46_000, Some("b"));
    assert_eq!(late.is_clean().leaders, (1, 1), "as late as may be");
    // It was told that something is missing.
    Story::unseen().current(43_000, true).is_clean();
    let away = Story::unseen().current(30_000, false);
    away.current(60_000, true).is_clean();
    Story::unseen().event(46_000, Event::Reload).is_clean();
    // Too early or too late to be an excuse.
    let early = Story::unseen().current(20_000, false);
    early.current(35_999, true).says("was never told");
    // It did not lead for long.
    let short = |until| {
        let story = Story::new().led("a", 100, 40_000).freed(40_000);
        story.beat(41_000, "b").freed(until)
    };
    short(42_000).is_clean();
    short(42_001).says("was never told");
    // Nor could it be told.
    let paused = short(42_001).disturbed(38_000, 42_000, Disturbance::Paused);
    paused.is_clean();
}

#[test]
fn a_leader_that_is_told_late_is_seen() {
    Story::unseen()
        .change(46_001, Some("b"))
        .says("after NATS told it");
    // Not for as long as it is away.
    let away = Story::unseen().current(41_000, false).current(50_000, true);
    away.change(50_001, Some("b")).is_clean();
}

#[test]
fn a_leader_that_is_told_and_does_not_lead_is_seen() {
    let wrong = "was told to lead";
    Story::plain().change(41_010, Some("a")).is_clean();
    Story::plain().change(45_001, Some("a")).says(wrong);
    Story::plain().change(70_000, Some("c")).says(wrong);
    // The drill itself saw nothing then.
    let blind = Sight::Blind { since: at(66_000) };
    let story = Story::plain().change(70_000, Some("c"));
    story.sight(67_000, blind).is_clean();
}

#[test]
fn events_that_are_missing_are_seen() {
    let mut story = Story::plain();
    story.event += 1;
    story.current(50_000, true).says("follows");
    let mut story = Story::plain();
    story.event += 1;
    let story = story.event(50_000, Event::Reload);
    let verdict = story.event(51_000, Event::Other).is_clean();
    assert_eq!((verdict.streams, verdict.reloads), (2, 1));
    // It is resumed where it ended.
    let mut story = Story::plain();
    story.event -= 1;
    let story = story.event(50_000, Event::Hello);
    story.event(51_000, Event::Other).is_clean();
}

#[test]
fn questions_without_an_answer_are_seen() {
    let round = |unanswered| Sight::Round {
        asked: 6,
        unanswered,
    };
    Story::plain().sight(50_000, round(0)).is_clean();
    Story::plain().sight(50_000, round(1)).says("unanswered");
    let mut story = Story::new();
    story.evidence.onlooker.clear();
    story.sight(50_000, round(0)).says("told nothing");
}

#[test]
fn an_answer_long_before_the_claim_is_seen() {
    let story = |millis| Story::plain().leads(millis, "b", 2);
    story(39_990).is_clean();
    story(39_989).says("never did");
}

#[test]
fn who_does_not_notice_that_it_is_cut_off_is_seen() {
    let story = || Story::plain().disturbed(50_000, 60_000, Disturbance::CutOff);
    story().says("was cut off");
    let verdict = story().current(53_000, false).current(61_000, true);
    assert_eq!(verdict.is_clean().disturbed, [0, 1, 0]);
}

#[test]
fn memory_beyond_its_bound_is_seen() {
    let story = |kib| Story::plain().sight(10_000, Sight::Memory { kib });
    assert_eq!(story(60_000).is_clean().memory, 60_000);
    story(70_000).says("serve had 70000 KiB");
}
