//! Each setting that breaks a rule is refused, by its field's name.

use std::time::Duration;

use super::*;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn role() -> RoleConfig {
    RoleConfig::default()
}

/// Refused are these settings, for the last one.
#[track_caller]
fn refused(settings: &str, value: &str, rule: &str) {
    let config: RoleConfig = toml::from_str(settings).unwrap();
    let error = config.settings().expect_err(settings);
    let last = settings.lines().last().unwrap_or_default();
    let field = last.split([' ', '.']).next().unwrap_or_default();
    assert_eq!((error.field.as_str(), error.value.as_str()), (field, value));
    assert!(error.rule.contains(rule), "{error}");
    assert_eq!(
        error.to_string(),
        format!("`{field}` is {value}, but {}", error.rule)
    );
}

#[track_caller]
fn accepted(config: &RoleConfig) -> RoleSettings {
    config.settings().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn defaults_match_the_documentation() {
    let settings = accepted(&role());
    let expected = RoleSettings {
        ttl: secs(15),
        heartbeat: secs(1),
        request_timeout: ms(500),
        grace: None,
        stop_budget: secs(3),
        cooldown: secs(2),
        max_cooldown: secs(30),
        claim_delay: Duration::ZERO,
        priority: 0,
        takeover: Takeover::Never,
        takeover_hysteresis: secs(15),
        validation_interval: secs(5),
        validate_on_critical_ops: false,
        health: HealthSettings {
            interval: secs(5),
            timeout: ms(2500),
            max_consecutive_failures: 3,
        },
        retry: RetrySettings {
            initial_backoff: ms(50),
            max_backoff: secs(4),
            jitter: 0.1,
        },
        overrun: Overrun::Abort,
        delete_on_stop: true,
        data_limit: None,
        meta: std::collections::BTreeMap::new(),
    };
    assert_eq!(settings, expected);
    assert_eq!(settings.drift_margin(), ms(300));
    assert_eq!(settings.abort_allowance(), ms(100));
    assert_eq!(settings.worst_case_failover(), secs(15));
}

#[test]
fn the_shortest_ttl_is_valid_without_other_settings() {
    let settings = accepted(&role().ttl(ms(100)));
    assert_eq!(settings.heartbeat, ms(20));
    assert_eq!(settings.stop_budget, ms(20));
    assert_eq!(settings.drift_margin(), ms(5));
    assert_eq!(settings.abort_allowance(), ms(5));
}

#[test]
fn the_abort_allowance_is_a_tenth_of_the_stop_budget_within_bounds() {
    let allowance = |stop| accepted(&role().stop_budget(stop)).abort_allowance();
    assert_eq!(allowance(ms(10)), ms(5));
    assert_eq!(allowance(ms(40)), ms(5));
    assert_eq!(allowance(ms(400)), ms(40));
    assert_eq!(allowance(secs(5)), ms(100));
    let mut unchecked = accepted(&role());
    unchecked.stop_budget = ms(4);
    assert_eq!(unchecked.abort_allowance(), ms(2));
}

#[test]
fn what_breaks_a_rule_is_refused() {
    for (settings, value, rule) in [
        ("ttl = '0s'", "0s", "must be from 100ms to 1h"),
        ("ttl = '99ms'", "99ms", "must be from 100ms to 1h"),
        ("ttl = '1h 1ms'", "1h 1ms", "100ms to 1h"),
        (
            "ttl = '100ms 500us'",
            "100.5ms",
            "whole number of milliseconds",
        ),
        (
            "ttl = '3s'\nheartbeat_interval = '1001ms'",
            "1.001s",
            "`ttl` (3s) must be at least 3 heartbeats",
        ),
        (
            "ttl = '3s'\nheartbeat_interval = '9ms'",
            "9ms",
            "must be at least 10ms",
        ),
        (
            "disconnect_grace_period = '1999ms'",
            "1.999s",
            "must be at least 2s (2 heartbeats)",
        ),
        (
            "stop_budget = '12701ms'",
            "12.701s",
            "stop_budget + drift margin (300ms) + 2 heartbeats (2s) must be at most `ttl` (15s)",
        ),
        ("stop_budget = '9ms'", "9ms", "must be at least 10ms"),
        ("cooldown = '0s'", "0s", "must be from 1ms to 1d"),
        ("cooldown = '1d 1ms'", "1d 1ms", "must be from 1ms to 1d"),
        (
            "data_limit = 1023",
            "1023",
            "must be at least 1024 bytes: less has no room for a single key",
        ),
        ("max_backoff = '49ms'", "49ms", "must be from 50ms to 1h"),
        ("max_backoff = '1h 1s'", "1h 1s", "must be from 50ms to 1h"),
        (
            &format!("meta.k = '{}'", "x".repeat(4089)),
            "4097 bytes as JSON",
            "must be at most 4096 bytes",
        ),
        // The limit is on the JSON, in which a quote takes two bytes.
        (
            &format!("meta.k = '{}'", "\"".repeat(2045)),
            "4098 bytes as JSON",
            "must be at most 4096 bytes",
        ),
    ] {
        refused(settings, value, rule);
    }
}

#[test]
fn what_just_obeys_a_rule_is_accepted() {
    let accepted = |settings: &str| accepted(&toml::from_str(settings).unwrap());
    accepted("ttl = '1h'");
    accepted("ttl = '3s'\nheartbeat_interval = '1s'");
    let it = accepted("disconnect_grace_period = '2s'");
    assert_eq!(it.grace, Some(secs(2)));
    // 15 s, less 2 s of heartbeats, less 300 ms of drift margin.
    accepted("stop_budget = '12700ms'");
    assert_eq!(accepted("cooldown = '1ms'").max_cooldown, secs(30));
    let it = accepted("cooldown = '1m'");
    assert_eq!(
        it.max_cooldown,
        secs(60),
        "the limit follows a long cooldown"
    );
    assert_eq!(accepted("data_limit = 1024").data_limit, Some(1024));
    assert_eq!(accepted("max_backoff = '50ms'").retry.max_backoff, ms(50));
    // {"k":"…"} adds 8 bytes.
    accepted(&format!("meta.k = '{}'", "x".repeat(4088)));
}

/// What follows from the ttl and the heartbeat fits together for every pair of them.
#[test]
fn what_no_setting_sets_follows_from_the_heartbeat_and_the_ttl() {
    for ttl in [ms(100), ms(999), secs(15), secs(3600)] {
        for heartbeat in [None, Some(ms(10)), Some(ttl / 4)] {
            let mut config = role().ttl(ttl).stop_budget(ms(10));
            config.heartbeat_interval = heartbeat;
            let it = accepted(&config);
            assert_eq!(it.request_timeout, it.heartbeat / 2);
            assert_eq!(it.takeover_hysteresis, ttl);
            assert_eq!(it.validation_interval, (ttl / 3).max(it.heartbeat));
            assert_eq!(it.health.interval, it.validation_interval);
            assert_eq!(it.health.timeout, it.health.interval / 2);
        }
    }
}

#[test]
fn absurd_durations_are_errors() {
    for field in [
        "ttl",
        "heartbeat_interval",
        "disconnect_grace_period",
        "stop_budget",
        "cooldown",
        "max_backoff",
    ] {
        let config: RoleConfig =
            toml::from_str(&format!("{field} = '500000000000 years'")).unwrap();
        assert_eq!(config.settings().expect_err(field).field, field);
    }
}

#[test]
fn a_short_ttl_on_a_replicated_bucket_gives_a_warning() {
    let short = accepted(&role().ttl(ms(9999)));
    assert!(short.warnings(1).is_empty());
    let [warning] = &short.warnings(3)[..] else {
        panic!("one warning");
    };
    for what in ["9.999s", "3 replicas", "4 to 6 seconds"] {
        assert!(warning.contains(what));
    }
    assert!(accepted(&role().ttl(secs(10))).warnings(3).is_empty());
}

#[test]
fn a_grace_period_beyond_the_lease_gives_a_warning() {
    let warnings = |grace| accepted(&role().disconnect_grace_period(grace)).warnings(3);
    assert!(warnings(secs(15)).is_empty());
    let warnings = warnings(secs(16));
    assert!(matches!(&warnings[..], [warning] if warning.contains("has no effect")));
}

#[test]
fn an_empty_file_gives_the_defaults() {
    assert_eq!(toml::from_str::<RoleConfig>("").unwrap(), role());
}

#[test]
fn a_file_sets_durations_as_text() {
    let config: RoleConfig = toml::from_str(
        "ttl = '1m 30s'\ncooldown = '500ms'\noverrun = 'exit'\nvalidate_on_critical_ops = true\nmax_backoff = '1s'\nmeta.region = 'eu'",

    )
    .unwrap();
    let expected = role()
        .ttl(secs(90))
        .cooldown(ms(500))
        .overrun(Overrun::Exit)
        .validate_on_critical_ops(true)
        .max_backoff(secs(1))
        .meta("region", "eu");
    assert_eq!(config, expected);
}

#[test]
fn an_unknown_field_is_an_error() {
    for (text, field) in [
        ("tll = '1s'", "tll"),
        ("[retry]\nmax_backoff = '1s'", "retry"),
        ("health.interval = '1s'", "health"),
        ("claim_delay = '0s'", "claim_delay"),
    ] {
        let error = toml::from_str::<RoleConfig>(text).unwrap_err().to_string();
        assert!(
            error.contains(&format!("unknown field `{field}`, expected one of `ttl`")),
            "{error}"
        );
    }
}

#[test]
fn a_value_that_is_no_duration_is_an_error() {
    for text in [
        "ttl = 15",
        "ttl = '15'",
        "ttl = 'soon'",
        "ttl = '-1s'",
        "heartbeat_interval = '1 parsec'",
        "cooldown = '99999999999999999999s'",
        "cooldown = '18446744073709551615years'",
    ] {
        let error = toml::from_str::<RoleConfig>(text).unwrap_err().to_string();
        assert!(error.contains(text), "shows the line: {error}");
    }
}
