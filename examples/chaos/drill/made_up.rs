//! Made-up histories: one for each thing that must not be, and some that only look like it.

use std::fs;
use std::time::Duration;

use nats_elect::FencingToken;
use serde_json::{from_value, json};

use super::board::journal_of;
use super::checker::{Evidence, Notes, Verdict};
use super::fault::{Fault, Kind, Outcome};
use super::plan::{Folders, Role};
use ::drill::journal::{Event, Record, What};
use ::drill::ownership::{Finals, Ownership};
use ::drill::{Moment, Terms};

pub const ROLE: &str = "scheduler";
const TTL: Duration = Duration::from_secs(2);
pub const END: u64 = 100_000;

/// A drill of 100 s with one role and a ttl of 2 s, of which nothing is told yet.
struct Story(Evidence);

pub fn at(millis: u64) -> Moment {
    from_value(json!(millis * 1_000_000)).expect("a moment")
}

/// The evidence of a drill of 100 s with one role and two instances, before anything happens.
pub fn nothing_yet(healed: Moment) -> Evidence {
    Evidence {
        notes: Notes {
            seed: 1,
            instances: vec!["a".to_owned(), "b".to_owned()],
            roles: vec![Role {
                name: ROLE.to_owned(),
                ttl: TTL,
            }],
            shards: None,
            role_finals: Finals::new(),
            shard_finals: Finals::new(),
            last_wills: false,
            begun: at(0),
            healed,
            ended: at(END),
            faults: Vec::new(),
            outages: Vec::new(),
            bad_ends: Vec::new(),
        },
        roles: Ownership {
            units: vec![ROLE.to_owned()],
            names: vec!["a".to_owned(), "b".to_owned()],
            terms: Terms::default(),
            finals: Finals::new(),
            kills: Vec::new(),
            last_wills: false,
        },
        shards: None,
        onlooker: Vec::new(),
    }
}

impl Story {
    fn new() -> Self {
        Self(nothing_yet(at(END - 40_000)))
    }

    /// An instance led from then to then, with that token, and confirmed these counts right after its
    /// begin.
    fn led(self, instance: &str, sequence: u64, (from, to): (u64, u64), counts: &[u64]) -> Self {
        let mut story = self.wrote(instance, sequence, from, What::Began);
        for count in counts {
            story = story.wrote(instance, sequence, from, What::Sending(*count));
            story = story.wrote(instance, sequence, from, What::Counted(*count));
        }
        story.wrote(instance, sequence, to, What::Ended)
    }

    /// An instance wrote that down, and its lease ended a second later.
    fn wrote(mut self, instance: &str, sequence: u64, millis: u64, what: What) -> Self {
        let event = Event::Term {
            unit: 0,
            token: FencingToken { epoch: 1, sequence },
            until: Some(at(millis + 1_000)),
            what,
        };
        let line = Record {
            at: at(millis),
            what: event,
        };
        let instance = usize::from(instance == "b");
        self.0.roles.terms.take(instance, 1, &line);
        self
    }

    /// The role's counter stands there at the end.
    fn counted(mut self, last: u64) -> Self {
        self.0.roles.finals.insert(0, last);
        self
    }

    fn suffered(mut self, kind: Kind, target: &str, (from, until): (u64, u64)) -> Self {
        self.0.notes.faults.push(Fault {
            kind,
            target: target.to_owned(),
            from: at(from),
            until: at(until),
            outcome: Outcome::Done,
        });
        self
    }

    fn verdict(&self) -> Verdict {
        Verdict::on(&self.0)
    }

    /// The last line of a summary must say that, and nothing else is wrong.
    fn says(&self, wrong: &str) {
        let verdict = self.verdict();
        let told = verdict.to_string();
        let others = told.split(", ").filter(|part| !part.ends_with(": 0"));
        assert_eq!(others.collect::<Vec<_>>(), [wrong], "{verdict:#?}");
        assert!(!verdict.is_clean());
    }

    fn is_clean(&self) -> Verdict {
        let verdict = self.verdict();
        assert!(verdict.is_clean(), "{verdict:#?}");
        verdict
    }
}

#[test]
fn one_leader_after_the_other_is_clean() {
    let story = Story::new()
        .led("a", 1, (0, 40_000), &[1, 2])
        .led("b", 2, (41_000, END), &[3, 4])
        .counted(4);
    let verdict = story.is_clean();
    assert_eq!(
        verdict.to_string(),
        "overlaps: 0, token disorders: 0, lost work: 0, double work: 0, stuck: 0, bad ends: 0"
    );
    let counts = verdict.counts.confirmed;
    assert_eq!((verdict.terms, counts, verdict.gaps.len()), (2, 4, 1));
    assert_eq!(verdict.gaps[0].length(), Duration::from_secs(1));
}

#[test]
fn two_leaders_at_one_time_are_seen() {
    let story = |start| {
        Story::new()
            .led("a", 1, (0, 40_000), &[])
            .led("b", 2, (start, END), &[])
    };
    story(39_999).says("overlaps: 1");
    story(40_000).is_clean();
}

#[test]
fn who_leads_before_the_lease_of_a_dead_leader_ends_is_seen() {
    let story = |start| {
        let mut story = Story::new()
            .wrote("a", 1, 0, What::Began)
            .wrote("a", 1, 40_000, What::Working)
            .led("b", 2, (start, END), &[]);
        story.0.roles.kills.push((0, at(40_100)));
        story
    };
    story(40_999).says("overlaps: 1");
    let verdict = story(41_000).is_clean();
    assert_eq!(verdict.gaps[0].length(), Duration::from_secs(1));
    // Its companion has freed the role.
    let mut freed = story(40_500);
    freed.0.roles.last_wills = true;
    freed.is_clean();
}

#[test]
fn a_term_within_another_is_seen_behind_a_third() {
    Story::new()
        .led("a", 1, (0, END), &[])
        .led("b", 2, (1_000, 2_000), &[])
        .led("b", 3, (50_000, 51_000), &[])
        .says("overlaps: 2");
}

#[test]
fn tokens_that_fall_or_stay_are_seen() {
    Story::new()
        .led("a", 5, (0, 40_000), &[])
        .led("b", 4, (41_000, END), &[])
        .says("token disorders: 1");
    let same = Story::new()
        .led("a", 5, (0, 40_000), &[])
        .led("b", 5, (41_000, END), &[])
        .verdict();
    assert_eq!(same.disorders.len(), 1, "{same:#?}");
}

#[test]
fn a_count_that_was_confirmed_and_is_not_there_is_lost() {
    Story::new()
        .led("a", 1, (0, END), &[1, 2, 3])
        .counted(2)
        .says("lost work: 1");
}

#[test]
fn a_count_that_nobody_sent_is_lost() {
    Story::new()
        .led("a", 1, (0, END), &[1, 3])
        .counted(3)
        .says("lost work: 1");
}

#[test]
fn a_count_that_is_confirmed_twice_is_seen() {
    Story::new()
        .led("a", 1, (0, 40_000), &[1, 2])
        .led("b", 2, (41_000, END), &[2, 3])
        .counted(3)
        .says("double work: 1");
}

#[test]
fn a_role_without_a_leader_for_too_long_is_seen() {
    let patience = 14_000;
    let story = |length: u64| {
        Story::new()
            .led("a", 1, (0, 10_000), &[])
            .led("b", 2, (10_000 + length, END), &[])
    };
    story(patience).is_clean();
    story(patience + 1).says("stuck: 1");
    // NATS, or the key, was touched meanwhile: the time counts from there.
    story(patience + 9_000)
        .suffered(Kind::KillServer, "nats-1", (9_000, 19_000))
        .is_clean();
    story(patience + 9_000)
        .suffered(Kind::DeleteKey, ROLE, (19_000, 19_000))
        .is_clean();
    // An instance is no excuse, nor is another role's key.
    story(patience + 9_000)
        .suffered(Kind::Kill, "a", (9_000, 30_000))
        .suffered(Kind::DeleteKey, "network", (20_000, 20_000))
        .says("stuck: 1");
}

#[test]
fn a_role_without_a_leader_at_the_end_is_seen() {
    Story::new().led("a", 1, (0, 50_000), &[]).says("stuck: 1");
    Story::new().says("stuck: 1");
}

#[test]
fn a_process_that_ended_by_itself_is_seen() {
    let mut story = Story::new().led("a", 1, (0, END), &[]);
    story.0.notes.bad_ends.push("a: ended with 101".to_owned());
    story.says("bad ends: 1");
}

#[test]
fn a_role_may_wait_as_long_as_nats_takes_no_writes() {
    let story = |until| {
        let mut story = Story::new()
            .led("a", 1, (0, 10_000), &[])
            .led("b", 2, (40_000, END), &[]);
        story.0.notes.outages.push((at(9_000), at(until)));
        story
    };
    story(40_100).is_clean();
    story(26_000).is_clean();
    story(25_999).says("stuck: 1");
}

#[test]
fn lines_that_a_kill_has_cut_short_are_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let folders = Folders::below(folder.path());
    fs::create_dir_all(&folders.roles).expect("a folder");
    let mut notes = Story::new().0.notes;
    notes.role_finals.insert(0, 1);
    notes.write(folder.path()).expect("written");
    let token = "00000000000000010000000000000007";
    let line = |at: u64, what: &str| {
        format!(
            r#"{{"at":{at},"what":{{"term":{{"unit":0,"token":"{token}","until":{until},"what":{what}}}}}}}"#,
            until = at + 1
        )
    };
    let lines = [
        line(3, r#""began""#),
        line(4, r#"{"sending":1}"#),
        line(5, r#"{"counted":1}"#),
        line(99_999_000_000, r#""working""#),
        r#"{"at":100000000000,"what":{"te"#.to_owned(),
    ];
    let journal = journal_of(&folders.roles, "a", 1);
    fs::write(journal, lines.join("\n")).expect("written");
    let evidence = Evidence::read(folder.path()).expect("evidence");
    let verdict = Verdict::on(&evidence);
    assert!(verdict.is_clean(), "{verdict:#?}");
    assert_eq!((verdict.terms, verdict.counts.confirmed), (1, 1));
    let role = &evidence.notes.roles[0];
    assert_eq!(evidence.terms_of(role)[0].seen, at(99_999));
}
