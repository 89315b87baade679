//! What holds for any configuration, however absurd.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        8 => (0..20_000u64).prop_map(ms),
        2 => (0..400_000_000u64).prop_map(Duration::from_micros),
        2 => (0..200_000u64).prop_map(secs),
        1 => any::<Duration>(),
        1 => Just(Duration::ZERO),
        1 => Just(Duration::MAX),
    ]
}

/// What a file can hold: humantime does not read back years beyond its range.
fn writable_durations() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..20_000u64).prop_map(ms),
        (0..1u64 << 40, 0..1_000_000_000u32).prop_map(|(secs, nanos)| Duration::new(secs, nanos)),
    ]
}

fn ratios() -> impl Strategy<Value = f64> {
    prop_oneof![4 => 0.0..1.1, 5 => 0.9..11.0, 1 => any::<f64>()]
}

prop_compose! {
    /// Any configuration; unset fields are frequent, so that a good part is valid.
    fn configs(durations: BoxedStrategy<Duration>, ratios: BoxedStrategy<f64>)(
        ttl in durations.clone(),
        set in proptest::collection::vec(proptest::option::weighted(0.1, durations.clone()), 11),
        initial_backoff in proptest::option::weighted(0.05, durations),
        retry in proptest::option::weighted(0.2, (0..5u32, ratios.clone(), ratios)),
        priority in any::<i64>(),
        (failures, critical, exit, delete) in (0..20u32, any::<bool>(), any::<bool>(), any::<bool>()),
        meta in proptest::collection::btree_map("\\PC{0,8}", "\\PC{0,20}", 0..4),
    ) -> RoleConfig {
        let (max_attempts, backoff_multiplier, jitter) = retry.unwrap_or((1, 2.0, 0.1));
        RoleConfig {
            ttl,
            heartbeat_interval: set[0],
            request_timeout: set[1],
            disconnect_grace_period: set[2],
            stop_budget: set[3],
            cooldown: set[4],
            max_cooldown: set[5],
            claim_delay: set[6],
            priority,
            fencing: FencingConfig { validation_interval: set[7], validate_on_critical_ops: critical },
            health: HealthConfig { interval: set[8], timeout: set[9], max_consecutive_failures: failures },
            retry: RetryConfig {
                max_attempts,
                initial_backoff: initial_backoff.unwrap_or(ms(50)),
                max_backoff: set[10].unwrap_or(secs(5)),
                backoff_multiplier,
                jitter,
            },
            overrun: if exit { Overrun::Exit } else { Overrun::Abort },
            delete_on_stop: delete,
            meta,
        }
    }
}

/// The rules once more, in plain (and here overflow-free) arithmetic.
fn obeys_the_rules(s: &RoleSettings) -> bool {
    let ns = |d: Duration| d.as_nanos();
    let day = secs(86_400);
    ms(100) <= s.ttl
        && s.ttl <= secs(3600)
        && ns(s.ttl) % 1_000_000 == 0
        && s.heartbeat >= ms(10)
        && 3 * ns(s.heartbeat) <= ns(s.ttl)
        && s.request_timeout >= ms(1)
        && s.request_timeout < s.heartbeat
        && s.grace
            .is_none_or(|grace| ns(grace) >= 2 * ns(s.heartbeat) && grace <= day)
        && s.stop_budget >= ms(10)
        && ns(s.stop_budget) + ns(s.drift_margin()) + 2 * ns(s.heartbeat) <= ns(s.ttl)
        && s.abort_allowance() >= ms(5)
        && 2 * ns(s.abort_allowance()) <= ns(s.stop_budget)
        && s.cooldown >= ms(1)
        && s.cooldown <= s.max_cooldown
        && s.max_cooldown <= day
        && s.claim_delay <= s.ttl
        && s.heartbeat <= s.validation_interval
        && s.validation_interval <= day
        && s.health.interval >= ms(10)
        && s.health.interval <= day
        && s.health.timeout >= ms(1)
        && s.health.timeout <= s.health.interval
        && s.health.max_consecutive_failures >= 1
        && s.retry.max_attempts >= 1
        && s.retry.initial_backoff >= ms(1)
        && s.retry.initial_backoff <= s.retry.max_backoff
        && s.retry.max_backoff <= secs(3600)
        && s.retry.backoff_multiplier >= 1.0
        && s.retry.backoff_multiplier <= 10.0
        && s.retry.jitter >= 0.0
        && s.retry.jitter <= 1.0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_configuration_is_refused_or_obeys_every_rule(config in configs(durations().boxed(), ratios().boxed())) {
        match config.settings() {
            Ok(settings) => {
                prop_assert!(obeys_the_rules(&settings), "{settings:?}");
                let _ = (settings.worst_case_failover(), settings.warnings(3));
            }
            Err(error) => prop_assert!(!error.value.is_empty() && !error.rule.is_empty()),
        }
    }

    #[test]
    fn with_a_valid_ttl_the_defaults_never_break_a_rule(millis in 100..=3_600_000u64, heartbeat in 0.0..=1.0f64) {
        let config = RoleConfig::default().ttl(ms(millis));
        prop_assert!(obeys_the_rules(&config.settings().unwrap()));
        // Nor do those that derive from a heartbeat that was set.
        let heartbeat = (ms(millis) / 3).mul_f64(heartbeat).max(ms(10));
        let settings = config.heartbeat_interval(heartbeat).settings().unwrap();
        prop_assert!(obeys_the_rules(&settings));
    }

    #[test]
    fn every_configuration_survives_a_round_trip_through_toml(
        config in configs(writable_durations().boxed(), (-1e300..1e300).boxed())
    ) {
        let text = toml::to_string(&config).unwrap();
        prop_assert_eq!(toml::from_str::<RoleConfig>(&text).unwrap(), config, "{}", text);
    }
}
