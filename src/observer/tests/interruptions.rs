//! Watches that end, begin anew or lag behind, and other buckets of the name.

use super::*;

#[test]
fn no_leader_is_reported_as_gone_during_an_interruption_and_the_count_begins_anew() {
    let mut stage = Stage::led();
    stage.tracked_roles.watch_ended("cut".into());
    assert!(stage.wait(LEASE - 1).is_empty());
    assert_eq!(
        stage
            .tracked_roles
            .leader("r")
            .expect("a leader")
            .instance_id,
        "node-1"
    );
    assert_eq!(stage.tracked_roles.confirmed_leader("r"), None, "not now");
    // A failed attempt to read shows nothing.
    stage.begin(EPOCH);
    let WatchStatus::Stale { since, reason } = stage.tracked_roles.status(stage.now().clock) else {
        panic!("not stale");
    };
    assert_eq!((since, &*reason), (Duration::from_millis(LEASE - 1), "cut"));
    assert!(stage.wait(1).is_empty(), "nothing can be read");
    stage.tells("node-1", "-", ChangeCause::LostSight);
    assert_eq!(stage.observed().standing, Standing::Unknown);
    assert!(!Standing::Unknown.is_free());
    stage.wait(LEASE * 5);
    assert!(stage.told().is_empty());

    stage.watch(EPOCH, &[("r", record(1, 10))]);
    stage.tells("-", "node-1", ChangeCause::Found);
    assert!(!stage.observed().confirmed);
    assert!(stage.wait(LEASE - 1).is_empty());
    stage.wait(1);
    stage.looked(None);
    stage.tells("node-1", "-", ChangeCause::LostSight);
    assert_eq!(stage.wait(1000), [role("r")], "it is tried again");
    stage.looked(Some(found(Some(record(1, 10)))));
    stage.tells("-", "-", ChangeCause::Expired);
    // A role that is known to be expired stays expired.
    stage.tracked_roles.watch_ended("cut".into());
    stage.watch(EPOCH, &[("r", record(1, 10))]);
    assert!(stage.told().is_empty());
}

#[test]
fn changes_during_an_interruption_are_reported_when_they_are_seen() {
    let mut stage = Stage::led();
    stage.tracked_roles.watch_ended("cut".into());
    stage.watch(EPOCH, &[("r", record(2, 20))]);
    stage.tells("node-1", "node-2", ChangeCause::Found);
    stage.tracked_roles.watch_ended("cut".into());
    stage.watch(EPOCH, &[]);
    assert!(stage.told().is_empty(), "it may be on its way");
    assert_eq!(stage.wait(1), [role("r")]);
    stage.looked(Some(found(None)));
    stage.tells("node-2", "-", ChangeCause::Deleted);
    assert_eq!(stage.observed().standing, Standing::Unclaimed);
}

#[test]
fn another_bucket_of_the_name_resets_every_role() {
    let mut stage = Stage::new(Some(&["r", "never"]));
    stage.watch(EPOCH, &[("r", record(1, 10)), ("other", record(1, 11))]);
    assert_eq!(
        stage
            .changes()
            .iter()
            .map(|change| &*change.role)
            .collect::<Vec<_>>(),
        ["r", "never"],
        "not what nobody asked for"
    );
    stage.show_fence(1, 12);
    let token = stage.observed().fencing_token.expect("a token");
    assert_eq!((token.epoch, token.sequence), (EPOCH, 12));
    stage.tracked_roles.watch_ended("gone".into());
    stage.begin(EPOCH + 1);
    let nobody = "-".to_owned();
    let reset = ChangeCause::BucketReplaced;
    let never = (nobody.clone(), nobody.clone(), reset);
    assert_eq!(
        stage.told(),
        [never, ("node-1".to_owned(), nobody.clone(), reset)]
    );
    // An instance may lead in the new bucket.
    assert_eq!(stage.observed().standing, Standing::Unknown);
    assert_eq!(stage.observed().fencing_token, None);
    stage.tracked_roles.caught_up(stage.now());
    let free = (nobody.clone(), nobody, ChangeCause::Found);
    assert_eq!(stage.told(), [free.clone(), free]);
    assert_eq!(stage.observed().standing, Standing::Unclaimed);
    // A revision below the old ones is new in this bucket.
    stage.show(record(1, 5));
    stage.tells("-", "node-1", ChangeCause::Claimed);
}

#[test]
fn roles_that_only_the_old_bucket_had_are_reported_as_replaced_and_then_dropped() {
    let mut stage = Stage::led();
    stage.tracked_roles.watch_ended("gone".into());
    stage.begin(EPOCH + 1);
    stage.tells("node-1", "-", ChangeCause::BucketReplaced);
    stage.tracked_roles.caught_up(stage.now());
    stage.tells("-", "-", ChangeCause::Found);
    assert_eq!(stage.tracked_roles.observed("r", stage.now().clock), None);
}

#[test]
fn a_watch_on_a_lagging_server_takes_nothing_back_before_the_stream_leader_confirms_it() {
    for (stands, found_at) in [(2, 21), (2, 20), (1, 13)] {
        let mut stage = Stage::watching();
        stage.show(record(2, 20));
        stage.told();
        stage.tracked_roles.watch_ended("cut".into());
        stage.watch(EPOCH, &[("r", record(1, 11))]);
        stage.show(record(1, 12));
        assert!(stage.told().is_empty(), "it is over");
        assert_eq!(stage.observed().revision, Some(20));
        assert_eq!(
            stage.tracked_roles.confirmed_leader("r"),
            None,
            "not shown again"
        );
        assert_eq!(stage.wait(1), [role("r")]);
        stage.looked(Some(found(Some(record(stands, found_at)))));
        let alive = |stage: &Stage| {
            let leader = stage.tracked_roles.confirmed_leader("r");
            leader.map(|leader| leader.instance_id)
        };
        if stands == 2 {
            assert!(stage.told().is_empty());
            // A late message is no sign of life.
            stage.show(record(2, 20));
            assert_eq!(alive(&stage).is_some(), found_at == 21);
            continue;
        }
        // An old copy of the bucket was put in its place.
        stage.tells("node-2", "node-1", ChangeCause::Found);
        assert_eq!(alive(&stage), None);
        stage.show(record(1, 14));
        assert_eq!(alive(&stage).as_deref(), Some("node-1"));
    }
}

#[test]
fn a_marker_that_is_not_shown_again_is_looked_up_like_a_leader() {
    let mut stage = Stage::watching();
    stage.show(record(1, 10));
    stage.show(marker(12, Content::Release(Release::default())));
    stage.told();
    for stands in [vec![("r", record(1, 11))], vec![]] {
        stage.tracked_roles.watch_ended("cut".into());
        stage.watch(EPOCH, &stands);
        assert!(stage.told().is_empty());
        assert_eq!(stage.wait(1), [role("r")]);
    }
    stage.looked(Some(found(Some(record(3, 15)))));
    stage.tells("-", "node-3", ChangeCause::Claimed);
}

#[test]
fn a_leader_that_is_seen_again_is_not_reported_as_a_new_claim() {
    for (again, cause) in [(1, ChangeCause::Found), (2, ChangeCause::Claimed)] {
        let mut stage = Stage::led();
        assert_eq!(stage.wait(LEASE), [role("r")]);
        stage.looked(None);
        stage.tells("node-1", "-", ChangeCause::LostSight);
        stage.show(record(again, 11));
        stage.tells("-", &format!("node-{again}"), cause);
        assert!(stage.observed().confirmed, "it is alive");
        let began_now = stage.observed().since == Some(Duration::ZERO);
        assert_eq!(began_now, again == 2);
    }
}

#[test]
fn a_lagging_server_takes_no_fence_record_back() {
    let mut stage = Stage::watching();
    stage.show(record(1, 10));
    stage.show_fence(1, 12);
    stage.begin(EPOCH);
    stage.show_fence(1, 9);
    let token = stage.observed().fencing_token.expect("a token");
    assert_eq!(token.sequence, 12);
}
