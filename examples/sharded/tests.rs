//! Made-up runs, each false in one way that the verdict must notice.

use std::time::Duration;

use drill::journal::{Event, Record, What};
use drill::ownership::{Finals, Ownership, shards};
use drill::verdict::Evidence;
use drill::{Fault, Kind, Moment, Terms};
use nats_elect::FencingToken;

use crate::verdict::{Told, judge};

/// A run of one shard. `i1` counts to 2 and is killed after 10 s. `i2` owns the shard from the 13th
/// second on, and counts to 3.
struct Run {
    zero: Moment,
    evidence: Evidence,
    told: Told,
}

impl Run {
    fn new() -> Self {
        let zero = Moment::now();
        let at = |seconds| zero + Duration::from_secs(seconds);
        let killed = Fault {
            kind: Kind::Kill,
            instance: 0,
            process: 1,
            from: at(10),
            until: Some(at(10)),
        };
        let evidence = Evidence {
            ownership: Ownership {
                units: shards(1),
                names: vec!["i1".into(), "i2".into()],
                terms: Terms::default(),
                finals: Finals::from([(0, 3)]),
                kills: vec![(0, at(10))],
                last_wills: false,
            },
            ttl: Duration::from_secs(3),
            faults: vec![killed],
            bad_ends: Vec::new(),
            began: zero,
            opening: zero,
            closing: at(20),
            ended: at(22),
        };
        let told = Told {
            balanced: 1,
            ..Told::default()
        };
        Self {
            zero,
            evidence,
            told,
        }
    }

    /// An event at this second, in a term whose lease lasts to that second.
    fn note(&mut self, instance: usize, token: u64, (at, until): (u64, u64), what: What) {
        let second = |seconds| self.zero + Duration::from_secs(seconds);
        let event = Event::Term {
            unit: 0,
            token: FencingToken {
                epoch: 1,
                sequence: token,
            },
            until: (until > at).then(|| second(until)),
            what,
        };
        let line = Record {
            at: second(at),
            what: event,
        };
        self.evidence.ownership.terms.take(instance, 1, &line);
    }

    fn first_term(&mut self) {
        self.note(0, 5, (1, 4), What::Began);
        for count in 1..=2 {
            self.note(0, 5, (7 + count, 10 + count), What::Sending(count));
            self.note(0, 5, (7 + count, 10 + count), What::Counted(count));
        }
    }

    fn second_term(&mut self, token: u64, began: u64) {
        self.note(1, token, (began, began + 3), What::Began);
        self.note(1, token, (18, 21), What::Sending(3));
        self.note(1, token, (18, 21), What::Counted(3));
        self.note(1, token, (21, 22), What::Ended);
    }

    /// The findings that do not hold.
    fn wrong(self) -> Vec<String> {
        let verdict = judge(&self.evidence, &self.told);
        let wrong = verdict.findings.into_iter().filter(|(holds, _)| !holds);
        wrong.map(|(_, text)| text).collect()
    }
}

/// The one thing that is wrong begins with these words.
fn assert_wrong(run: Run, words: &str) {
    let wrong = run.wrong();
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].starts_with(words), "{wrong:?}");
}

#[test]
fn a_run_as_it_should_be_passes() {
    let mut run = Run::new();
    run.first_term();
    run.second_term(6, 13);
    assert_eq!(run.wrong(), Vec::<String>::new());
}

#[test]
fn an_owner_that_begins_within_the_lease_of_one_that_was_killed_is_noticed() {
    let mut run = Run::new();
    run.first_term();
    run.second_term(6, 11);
    assert_wrong(
        run,
        "one owner at a time: shard 0: i2 began while i1 could act",
    );
}

#[test]
fn an_owner_may_begin_within_the_lease_of_one_that_was_killed_and_had_a_last_will() {
    let mut run = Run::new();
    run.evidence.ownership.last_wills = true;
    run.first_term();
    run.second_term(6, 11);
    assert_eq!(run.wrong(), Vec::<String>::new());
}

#[test]
fn an_owner_that_begins_before_one_with_a_last_will_is_killed_is_noticed() {
    let mut run = Run::new();
    run.evidence.ownership.last_wills = true;
    run.first_term();
    run.second_term(6, 9);
    assert_wrong(run, "one owner at a time");
}

#[test]
fn a_handler_that_stood_still_counts_to_the_end_of_its_lease() {
    let mut run = Run::new();
    run.first_term();
    run.evidence.faults[0].kind = Kind::Pause;
    run.evidence.faults[0].until = None;
    run.note(0, 5, (17, 0), What::Ended);
    run.second_term(6, 13);
    assert_eq!(run.wrong(), Vec::<String>::new());
}

#[test]
fn a_handler_that_works_on_under_its_lease_is_noticed() {
    let mut run = Run::new();
    run.first_term();
    run.evidence.faults[0].kind = Kind::Cut;
    run.evidence.faults[0].until = None;
    run.note(0, 5, (14, 15), What::Ended);
    run.second_term(6, 13);
    assert_wrong(run, "one owner at a time");
}

#[test]
fn a_token_that_falls_is_noticed() {
    let mut run = Run::new();
    run.first_term();
    run.second_term(4, 13);
    assert_wrong(run, "tokens grew");
}

#[test]
fn a_count_that_two_owners_had_confirmed_is_noticed() {
    let mut run = Run::new();
    run.first_term();
    run.second_term(6, 13);
    run.note(1, 6, (19, 22), What::Counted(2));
    assert_wrong(run, "counts: shard 0: 2 was confirmed twice");
}

#[test]
fn a_confirmed_count_that_the_bucket_lost_is_noticed() {
    let mut run = Run::new();
    run.first_term();
    run.second_term(6, 13);
    run.evidence.ownership.finals.insert(0, 2);
    assert_wrong(
        run,
        "counts: shard 0: 3 was confirmed, and the counter is 2",
    );
}

#[test]
fn a_count_that_nobody_sent_is_noticed() {
    let mut run = Run::new();
    run.first_term();
    run.second_term(6, 13);
    run.evidence.ownership.finals.insert(0, 4);
    assert_wrong(run, "counts: shard 0: the counter is 4, but nobody wrote 4");
}

#[test]
fn a_count_without_an_answer_may_have_been_stored_also_if_a_later_try_was_refused() {
    let mut run = Run::new();
    run.first_term();
    run.second_term(6, 13);
    run.note(1, 6, (19, 22), What::Sending(4));
    run.note(1, 6, (19, 22), What::Unclear(4));
    run.note(1, 6, (19, 22), What::Sending(4));
    run.note(1, 6, (19, 22), What::Refused(4));
    run.evidence.ownership.finals.insert(0, 4);
    assert_eq!(run.wrong(), Vec::<String>::new());
}

#[test]
fn an_owner_that_comes_too_late_is_noticed() {
    let mut run = Run::new();
    run.first_term();
    run.second_term(6, 15);
    assert_wrong(
        run,
        "owned again in time: shard 0 had no owner from 10.00 s to 15.00 s",
    );
}

#[test]
fn a_drained_shard_is_not_given_a_leases_time() {
    let mut run = Run::new();
    run.first_term();
    run.evidence.faults[0].kind = Kind::Drain;
    run.note(0, 5, (10, 12), What::Ended);
    run.second_term(6, 13);
    assert_wrong(
        run,
        "owned again in time: shard 0 had no owner from 10.00 s to 13.00 s",
    );
}

#[test]
fn a_shard_that_has_no_owner_any_more_is_noticed() {
    let mut run = Run::new();
    run.first_term();
    run.evidence.ownership.finals.insert(0, 2);
    let wrong = run.wrong();
    // Nothing was compared, either.
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong[1].starts_with("owned again in time: shard 0 had no owner from 10.00 s on"));
}

#[test]
fn a_shard_given_away_just_before_the_final_stop_needs_no_next_owner() {
    let mut run = Run::new();
    run.first_term();
    run.second_term(6, 13);
    run.evidence.closing = run.zero + Duration::from_millis(21_900);
    assert_eq!(run.wrong(), Vec::<String>::new());
    let mut run = Run::new();
    run.first_term();
    run.second_term(6, 13);
    run.evidence.closing = run.zero + Duration::from_millis(22_100);
    assert_wrong(
        run,
        "owned again in time: shard 0 had no owner from 21.00 s on",
    );
}

#[test]
fn a_process_that_does_not_end_as_it_should_is_noticed() {
    let mut run = Run::new();
    run.first_term();
    run.second_term(6, 13);
    run.evidence
        .bad_ends
        .push("i2 did not end when asked".into());
    assert_wrong(run, "graceful ends: i2 did not end when asked");
}

#[test]
fn shards_that_stay_uneven_are_noticed() {
    let mut run = Run::new();
    run.first_term();
    run.second_term(6, 13);
    run.told.uneven.push("[3, 1] after 12s".into());
    assert_wrong(run, "balance: [3, 1] after 12s");
}
