//! The simulation can fail: each rule of the protocol that is broken on purpose is noticed.
//!
//! `SIM_RULES=SkipFence,ReuseNonce` chooses among them.
//!
//! `cargo test --release -p nats-elect-core --features __mutations --test simulation mutations`

use nats_elect_core::{MUTATIONS, Mutation, mend};

use crate::found;
use crate::plan::Plan;
use crate::run::run;
use crate::schedules::{attacks, buckets, failing, failover, fencing, ordering, refusals, unseen};
use crate::seeds::{say, survey};
use crate::shrink::shrink;

/// What breaks a rule that chance seldom needs, or whose breach costs time and no promise, is
/// noticed by a schedule.
const SCHEDULES: &[(Mutation, fn())] = &[
    (
        Mutation::ForgetWhatIsHeld,
        attacks::a_long_lease_lasts_through_a_long_outage,
    ),
    (
        Mutation::BelieveAnyLease,
        attacks::a_stray_record_costs_one_lease_and_makes_no_later_purge_longer,
    ),
    (
        Mutation::DropLateAnswers,
        attacks::any_constant_round_trip_up_to_a_quarter_of_the_ttl_keeps_its_leader,
    ),
    (
        Mutation::BelieveOldFence,
        attacks::a_shortened_ttl_is_believed,
    ),
    (
        Mutation::AskOnceForALook,
        attacks::a_bucket_that_was_unfit_for_a_while_is_tried_again,
    ),
    (
        Mutation::AwaitWhatIsRefused,
        attacks::a_network_that_stalls_demotes_nobody,
    ),
    (
        Mutation::IgnoreShownLoss,
        unseen::a_loss_that_the_watch_shows_is_not_found_out_only_after_the_wait,
    ),
    (
        Mutation::AskForWhatIsNotFree,
        failover::a_role_is_asked_for_only_by_an_instance_that_would_believe_the_release,
    ),
    (
        Mutation::AskAsOftenInVain,
        failover::an_instance_that_cannot_claim_asks_ever_more_seldom,
    ),
    (
        Mutation::ForgetOwnFailures,
        failing::a_preferred_instance_that_fails_at_once_ends_three_healthy_terms_at_most,
    ),
    (
        Mutation::ForgetShortTerms,
        failing::an_id_whose_processes_die_as_soon_as_they_lead_ends_three_healthy_terms_at_most,
    ),
    (
        Mutation::ForgetOrders,
        ordering::an_order_holds_against_priorities_for_its_time,
    ),
    (
        Mutation::VouchByProcess,
        unseen::a_claim_over_a_second_term_knows_that_terms_fence_record,
    ),
    (
        Mutation::ForgetExpiredFences,
        unseen::where_fence_records_expire_a_new_instance_waits_for_whoever_may_lead_without_one,
    ),
    (
        Mutation::FenceOverWhatStands,
        fencing::a_fence_record_that_was_not_seen_ends_the_claim_over_a_purged_key,
    ),
    (
        Mutation::BucketReadFirst,
        buckets::an_instance_that_reads_while_the_bucket_is_made_anew_waits_for_the_leader_of_the_old_one,
    ),
    (
        Mutation::EndAtAnyRefusal,
        refusals::writes_that_are_not_taken_for_a_while_end_no_term,
    ),
    (
        Mutation::ReadsResetWrites,
        refusals::claims_that_are_not_taken_grow_rare_and_the_role_is_led_soon_after_there_is_room,
    ),
];

/// A rule that no promise rests on: what it does is done a second time elsewhere.
const SAFE: &[Mutation] = &[Mutation::MonitorNeverTells];
/// So many seeds show that.
const SAFE_SEEDS: u64 = 4_000;

/// A breakage that so many seeds do not show goes unnoticed.
const MOST: u64 = 1_000_000;

#[test]
fn each_broken_rule_is_noticed() {
    let mut unnoticed = Vec::new();
    let only = std::env::var("SIM_RULES").unwrap_or_default();
    let chosen = |mutation| only.is_empty() || only.contains(&format!("{mutation:?}"));
    for (mutation, what) in MUTATIONS.iter().filter(|(mutation, _)| chosen(*mutation)) {
        mutation.choose();
        if let Some((_, schedule)) = SCHEDULES.iter().find(|(of, _)| of == mutation)
            && std::panic::catch_unwind(schedule).is_err()
        {
            say(&format!("{mutation:?}:{what}\n    its schedule fails"));
            continue;
        }
        let attempt = |seed| run(&Plan::of_seed(seed, &[]));
        if SAFE.contains(mutation) {
            let survey = survey(0, SAFE_SEEDS, 1, !only.is_empty(), attempt);
            assert!(
                survey.failed.is_empty(),
                "{mutation:?}: {:?}",
                survey.failed
            );
            let told = survey.tally.graces_told;
            assert_eq!(told, 0, "a word of the monitor");
            say(&format!(
                "{mutation:?}:{what}\n    safe: {} seeds break no promise, with {} terms ended at the end of a grace period",
                survey.seeds, survey.tally.disconnected
            ));
            continue;
        }
        let known = found::known(*mutation).filter(|_| only.is_empty());
        let (first, count) = known.map_or((0, MOST), |seed| (seed, 1));
        let survey = survey(first, count, 1, !only.is_empty(), attempt);
        let Some(seed) = survey.failed.first() else {
            say(&format!(
                "{mutation:?}:{what}\n    NOT NOTICED in {} seeds",
                survey.seeds
            ));
            unnoticed.push(*mutation);
            continue;
        };
        let plan = Plan::of_seed(*seed, &[]);
        let violation = run(&plan).violation.expect("it failed just now");
        mend();
        let mended = run(&plan).violation;
        assert!(
            mended.is_none(),
            "seed {seed} fails all the same: {mended:?}"
        );
        mutation.choose();
        let (plan, violation) = shrink(&plan, violation);
        say(&format!(
            "{mutation:?}:{what}\n    {:?} broken by seed {seed}, with {} faults among {} instances",
            violation.promise,
            plan.blows.len(),
            plan.members.len()
        ));
    }
    mend();
    let safe = SAFE.len();
    let noticed = MUTATIONS.len() - unnoticed.len() - safe;
    say(&format!(
        "{} broken rules, {noticed} noticed, {safe} safe",
        MUTATIONS.len()
    ));
    assert!(unnoticed.is_empty(), "not noticed: {unnoticed:?}");
}
