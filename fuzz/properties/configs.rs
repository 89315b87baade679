//! Configurations that a program makes, not a file.

use std::time::Duration;

use nats_elect_core::config::{Overrun, RoleConfig};
use proptest::prelude::*;

use super::config::{holds_for_role, obeys_the_rules};

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

prop_compose! {
    /// Any configuration; unset fields are frequent, so that a good part is valid.
    fn configs(durations: BoxedStrategy<Duration>)(
        ttl in durations.clone(),
        set in proptest::collection::vec(proptest::option::weighted(0.1, durations), 5),
        priority in any::<i64>(),
        (critical, exit, delete) in (any::<bool>(), any::<bool>(), any::<bool>()),
        meta in proptest::collection::btree_map("\\PC{0,8}", "\\PC{0,20}", 0..4),
    ) -> RoleConfig {
        let mut config = RoleConfig::default().ttl(ttl).priority(priority).delete_on_stop(delete);
        config.heartbeat_interval = set[0];
        config.disconnect_grace_period = set[1];
        config.stop_budget = set[2];
        config.cooldown = set[3];
        config.max_backoff = set[4].unwrap_or(secs(5));
        config.validate_on_critical_ops = critical;
        config.overrun = if exit { Overrun::Exit } else { Overrun::Abort };
        config.meta = meta;
        config
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_configuration_is_refused_or_obeys_every_rule(config in configs(durations().boxed())) {
        holds_for_role(&config);
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
        config in configs(writable_durations().boxed())
    ) {
        let text = toml::to_string(&config).unwrap();
        prop_assert_eq!(toml::from_str::<RoleConfig>(&text).unwrap(), config, "{}", text);
    }
}
