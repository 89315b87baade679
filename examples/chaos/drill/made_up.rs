//! Made-up histories: one for each thing that must not be, and some that only look like it.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use nats_elect::FencingToken;
use serde_json::{from_value, json};

use super::checker::{Evidence, Notes, Verdict};
use super::fault::{Fault, Kind, Outcome};
use super::history::Tenure;
use super::ledger::Entry;
use super::plan::{Folders, Role};
use ::drill::Moment;
use ::drill::ownership::Finals;

const ROLE: &str = "scheduler";
const TTL: Duration = Duration::from_secs(2);
const END: u64 = 100_000;

/// A drill of 100 s with one role and a ttl of 2 s, of which nothing is told yet.
struct Story(Evidence);

fn at(millis: u64) -> Moment {
    from_value(json!(millis * 1_000_000)).expect("a moment")
}

fn token(sequence: u64) -> FencingToken {
    FencingToken { epoch: 1, sequence }
}

fn entry(instance: &str, sequence: u64, millis: u64, number: Option<u64>) -> Entry {
    Entry {
        at: at(millis),
        token: token(sequence),
        number,
        instance: instance.to_owned(),
    }
}

impl Story {
    fn new() -> Self {
        Self(Evidence {
            notes: Notes {
                seed: 1,
                instances: vec!["a".to_owned(), "b".to_owned()],
                roles: vec![Role {
                    name: ROLE.to_owned(),
                    ttl: TTL,
                }],
                shards: None,
                finals: Finals::new(),
                last_wills: false,
                begun: at(0),
                healed: at(END - 40_000),
                ended: at(END),
                faults: Vec::new(),
                outages: Vec::new(),
                bad_ends: Vec::new(),
            },
            tenures: Vec::new(),
            ledgers: BTreeMap::from([(ROLE.to_owned(), Vec::new())]),
            shards: None,
            onlooker: Vec::new(),
        })
    }

    /// An instance led from then to then, with that token, and did `work` right after its begin.
    fn led(mut self, instance: &str, sequence: u64, (from, to): (u64, u64), work: &[u64]) -> Self {
        self.0.tenures.push(Tenure {
            instance: instance.to_owned(),
            process: 1,
            role: ROLE.to_owned(),
            token: token(sequence),
            valid: Some((at(from), at(to))),
            worked: work.to_vec(),
        });
        let numbers = work.iter().map(|number| Some(*number));
        for number in [None].into_iter().chain(numbers) {
            self = self.entered(entry(instance, sequence, from, number));
        }
        self
    }

    fn entered(mut self, entry: Entry) -> Self {
        let ledger = self.0.ledgers.get_mut(ROLE).expect("the role's");
        ledger.push(entry);
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
        .led("b", 2, (41_000, END), &[3, 4]);
    let verdict = story.is_clean();
    assert_eq!(
        verdict.to_string(),
        "overlaps: 0, token disorders: 0, lost work: 0, double work: 0, stuck: 0, bad ends: 0"
    );
    assert_eq!((verdict.terms, verdict.work, verdict.gaps.len()), (2, 4, 1));
    assert_eq!(verdict.gaps[0].length(), Duration::from_secs(1));
}

#[test]
fn two_leaders_at_one_time_are_seen() {
    let story = |start| {
        Story::new()
            .led("a", 1, (0, 40_000), &[])
            .led("b", 2, (start, END), &[])
    };
    story(39_000).says("overlaps: 1");
    // Both were valid at the same reading of the clock.
    story(40_000).says("overlaps: 1");
    story(40_001).is_clean();
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
    Story::new()
        .led("a", 5, (0, 40_000), &[])
        .led("b", 5, (41_000, END), &[])
        .says("token disorders: 1");
}

#[test]
fn a_token_is_compared_with_the_greatest_so_far() {
    Story::new()
        .led("a", 5, (0, 10_000), &[])
        .led("b", 3, (11_000, 20_000), &[])
        .led("a", 4, (21_000, END), &[])
        .says("token disorders: 2");
}

#[test]
fn work_that_was_claimed_and_is_not_there_is_lost() {
    let mut story = Story::new().led("a", 1, (0, END), &[1, 2]);
    story.0.tenures[0].worked.push(3);
    story.says("lost work: 1");
}

#[test]
fn work_that_is_missing_in_between_is_lost_once() {
    let mut story = Story::new().led("a", 1, (0, END), &[1, 3]);
    story.says("lost work: 1");
    // Also if somebody claims to have done it.
    story.0.tenures[0].worked.push(2);
    story.says("lost work: 1");
}

#[test]
fn work_that_is_done_twice_is_seen() {
    Story::new()
        .led("a", 1, (0, 40_000), &[1, 2])
        .led("b", 2, (41_000, END), &[2, 3])
        .says("double work: 1");
}

#[test]
fn work_of_a_leader_that_did_not_look_where_to_go_on_is_seen() {
    Story::new()
        .led("a", 1, (0, END), &[1])
        .entered(entry("a", 2, 50_000, Some(2)))
        .says("double work: 1");
}

#[test]
fn a_process_that_was_paused_before_its_work_is_not_accused() {
    let verdict = Story::new()
        .led("a", 1, (0, 40_000), &[1])
        .led("b", 2, (45_000, END), &[2])
        // It was valid at that time, stood still, and wrote when the other one had begun.
        .entered(entry("a", 1, 40_000, Some(2)))
        .is_clean();
    assert_eq!((verdict.refused, verdict.work), (1, 2));
}

#[test]
fn work_of_a_valid_leader_that_does_not_count_is_lost() {
    Story::new()
        .led("a", 1, (0, 40_000), &[1])
        .led("b", 2, (45_000, END), &[2])
        .entered(entry("a", 1, 45_001, Some(2)))
        .says("lost work: 1");
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
    fs::create_dir_all(&folders.histories).expect("a folder");
    fs::create_dir_all(&folders.ledgers).expect("a folder");
    let story = Story::new();
    story.0.notes.write(folder.path()).expect("written");
    let history = r#"{"at":1,"what":{"started":{"instance":"a","process":1}}}
{"at":2,"what":"standing"}
{"at":3,"what":{"leading":{"term":1,"role":"network","token":"00000000000000010000000000000008"}}}
{"at":3,"what":{"leading":{"term":0,"role":"scheduler","token":"00000000000000010000000000000007"}}}
{"at":4,"what":{"valid":0}}
{"at":4,"what":{"valid":1}}
{"at":5,"what":{"worked":{"term":0,"number":1}}}
{"at":99999000000,"what":{"valid":0}}
{"at":100000000000,"what":{"val"#;
    fs::write(folders.histories.join("a.001.jsonl"), history).expect("written");
    let ledger = r#"
{"at":4,"token":"00000000000000010000000000000007","number":null,"instance":"a"}

{"at":4,"token":"00000000000000010000000000000007","number":1,"instance":"a"}

{"at":4,"token":"00000000
{"at":4,"token":"00000000000000010000000000000007","number":2,"instance":"a"}
"#;
    fs::write(folders.ledgers.join("scheduler.jsonl"), ledger).expect("written");
    let evidence = Evidence::read(folder.path()).expect("evidence");
    let verdict = Verdict::on(&evidence);
    assert!(verdict.is_clean(), "{verdict:#?}");
    assert_eq!((verdict.terms, verdict.work), (1, 2));
    // Terms are told by their number, not by the order in which they began to write.
    let role = &evidence.notes.roles[0];
    assert_eq!(evidence.terms_of(role)[0].1.1, at(99_999));
}
