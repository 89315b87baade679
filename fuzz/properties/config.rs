//! What a configuration file says: any text as TOML and as JSON, and any document of the right
//! fields.

use std::time::Duration;

use crate::model::config::{ConfigError, ManagerConfig, RoleConfig, RoleSettings};
use arbitrary::{Arbitrary, Result, Unstructured};

use super::names;

/// Stands where a password does.
const SECRET: &str = "hunter2";

/// The bytes as a file, and as what one is made of.
pub fn holds(data: &[u8]) {
    if let Ok(text) = str::from_utf8(data) {
        read(text);
    }
    let mut u = Unstructured::new(data);
    if let Ok(fields) = fields(&mut u, ROLE) {
        read(&toml_of(&fields, "\n"));
        read(&json_of(&fields));
    }
    if let Ok(fields) = fields(&mut u, MANAGER) {
        read(&toml_of(&fields, "\n"));
        read(&json_of(&fields));
    }
}

fn read(text: &str) {
    if let Ok(config) = toml::from_str::<RoleConfig>(text) {
        holds_for_role(&config);
    }
    if let Ok(config) = serde_json::from_str::<RoleConfig>(text) {
        holds_for_role(&config);
    }
    if let Ok(config) = toml::from_str::<ManagerConfig>(text) {
        holds_for_manager(&config);
    }
    if let Ok(config) = serde_json::from_str::<ManagerConfig>(text) {
        holds_for_manager(&config);
    }
}

/// It is refused with a reason, or it obeys every rule and can be written to a file and read again.
pub fn holds_for_role(config: &RoleConfig) {
    let settings = match config.settings() {
        Ok(settings) => settings,
        Err(error) => return is_told(&error),
    };
    assert!(obeys_the_rules(&settings), "{settings:?}");
    let _ = settings.warnings(3);
    assert!(settings.worst_case_failover() <= settings.ttl * 2);
    let text = toml::to_string(config).expect("TOML");
    let again: RoleConfig = toml::from_str(&text).expect("the same");
    assert_eq!(again, *config, "{text}");
    assert_eq!(again.settings(), Ok(settings));
    let text = serde_json::to_string(config).expect("JSON");
    let again: RoleConfig = serde_json::from_str(&text).expect("the same");
    assert_eq!(again, *config, "{text}");
}

/// The same for a whole process.
pub fn holds_for_manager(config: &ManagerConfig) {
    let id = config.instance_id.as_deref().unwrap_or_default();
    let shown_anyway = config.bucket.contains(SECRET)
        || id.contains(SECRET)
        || format!("{:?}", config.meta).contains(SECRET)
        || config
            .servers
            .iter()
            .any(|server| server.contains(SECRET) && !hides_a_secret(server));
    let shown = format!("{config:?}");
    assert!(shown_anyway || !shown.contains(SECRET), "{shown}");
    if let Err(error) = config.validate() {
        assert!(
            shown_anyway || !error.to_string().contains(SECRET),
            "{error}"
        );
        return is_told(&error);
    }
    assert!(!config.servers.is_empty() && (1..=5).contains(&config.replicas));
    assert!((Duration::from_millis(1)..=DAY).contains(&config.start_timeout));
    names::hold_for(&config.bucket);
    if let Some(id) = &config.instance_id {
        names::hold_for(id);
        names::shows_what_it_is(id);
    }
    let text = toml::to_string(config).expect("TOML");
    let again: ManagerConfig = toml::from_str(&text).expect("the same");
    assert_eq!(again, *config, "{text}");
    let text = serde_json::to_string(config).expect("JSON");
    let again: ManagerConfig = serde_json::from_str(&text).expect("the same");
    assert_eq!(again, *config, "{text}");
}

/// Whether the secret is in no part of the address but the one that may be a password.
fn hides_a_secret(server: &str) -> bool {
    let Some((before, host)) = server.rsplit_once('@') else {
        return false;
    };
    let (scheme, user) = match before.split_once("://") {
        Some((scheme, user))
            if !scheme.contains(|c: char| !c.is_ascii_alphanumeric() && c != '+') =>
        {
            (scheme, user)
        }
        _ => ("", before),
    };
    user.contains(SECRET) && !host.contains(SECRET) && !scheme.contains(SECRET)
}

fn is_told(error: &ConfigError) {
    assert!(!error.field.is_empty() && !error.value.is_empty() && !error.rule.is_empty());
    let text = error.to_string();
    assert!(text.len() < 2000, "a long story: {} bytes", text.len());
    assert!(!text.contains(char::is_control), "{text:?}");
}

const DAY: Duration = Duration::from_secs(86_400);

/// The rules once more, in plain (and here overflow-free) arithmetic.
pub fn obeys_the_rules(s: &RoleSettings) -> bool {
    let ms = Duration::from_millis;
    let secs = Duration::from_secs;
    let ns = |duration: Duration| duration.as_nanos();
    ms(100) <= s.ttl
        && s.ttl <= secs(3600)
        && ns(s.ttl) % 1_000_000 == 0
        && s.heartbeat >= ms(10)
        && 3 * ns(s.heartbeat) <= ns(s.ttl)
        && s.request_timeout >= ms(1)
        && s.request_timeout < s.heartbeat
        && s.grace
            .is_none_or(|grace| ns(grace) >= 2 * ns(s.heartbeat) && grace <= DAY)
        && s.stop_budget >= ms(10)
        && ns(s.stop_budget) + ns(s.drift_margin()) + 2 * ns(s.heartbeat) <= ns(s.ttl)
        && s.abort_allowance() >= ms(5)
        && 2 * ns(s.abort_allowance()) <= ns(s.stop_budget)
        && s.cooldown >= ms(1)
        && s.cooldown <= s.max_cooldown
        && s.max_cooldown <= DAY
        && s.claim_delay <= s.ttl
        && s.heartbeat <= s.validation_interval
        && s.validation_interval <= DAY
        && s.health.interval >= ms(10)
        && s.health.interval <= DAY
        && s.health.timeout >= ms(1)
        && s.health.timeout <= s.health.interval
        && s.health.max_consecutive_failures >= 1
        && s.retry.initial_backoff >= ms(1)
        && s.retry.initial_backoff <= s.retry.max_backoff
        && s.retry.max_backoff <= secs(3600)
        && (0.0..=1.0).contains(&s.retry.jitter)
        && serde_json::to_vec(&s.meta).is_ok_and(|json| json.len() <= 4096)
}

enum Value {
    /// As both formats write it.
    Plain(String),
    Text(String),
    Table(Vec<(String, Value)>),
    List(Vec<Value>),
}

#[derive(Clone, Copy)]
enum Kind {
    Duration,
    Count,
    Flag,
    Word(&'static [&'static str]),
    Server,
    Table(&'static [(&'static str, Kind)]),
    Texts,
}

const ROLE: &[(&str, Kind)] = &[
    ("ttl", Kind::Duration),
    ("heartbeat_interval", Kind::Duration),
    ("disconnect_grace_period", Kind::Duration),
    ("stop_budget", Kind::Duration),
    ("cooldown", Kind::Duration),
    ("priority", Kind::Count),
    ("validate_on_critical_ops", Kind::Flag),
    ("max_backoff", Kind::Duration),
    ("overrun", Kind::Word(&["abort", "exit", "panic"])),
    ("delete_on_stop", Kind::Flag),
    ("meta", Kind::Texts),
];

const MANAGER: &[(&str, Kind)] = &[
    ("servers", Kind::Server),
    ("bucket", Kind::Word(&["leaders", "_b-1", "a.b", ""])),
    (
        "instance_id",
        Kind::Word(&["node-1", "no de", "zürich", "a\u{202e}b"]),
    ),
    ("start_timeout", Kind::Duration),
    ("bucket_auto_create", Kind::Flag),
    ("replicas", Kind::Count),
    ("storage", Kind::Word(&["file", "memory", "tape"])),
    (
        "events",
        Kind::Table(&[("publish", Kind::Flag), ("keep", Kind::Duration)]),
    ),
    (
        "member",
        Kind::Table(&[
            ("ttl", Kind::Duration),
            ("stop_budget", Kind::Duration),
            ("validate_on_critical_ops", Kind::Flag),
            ("max_units", Kind::Count),
        ]),
    ),
    ("meta", Kind::Texts),
];

fn fields(u: &mut Unstructured<'_>, known: &[(&str, Kind)]) -> Result<Vec<(String, Value)>> {
    let mut fields = Vec::new();
    for _ in 0..u.int_in_range(0..=6)? {
        let (name, kind) = u.choose(known)?;
        // Twice the same is a choice too, but one that ends at once.
        if !fields.iter().any(|(known, _)| known == name) || u.ratio(1, 20)? {
            fields.push(((*name).to_owned(), value(u, *kind)?));
        }
    }
    Ok(fields)
}

fn value(u: &mut Unstructured<'_>, kind: Kind) -> Result<Value> {
    if u.ratio(1, 30)? {
        return Ok(Value::Plain(
            (*u.choose(&["null", "[]", "{}", "0x7f", "1_0"])?).to_owned(),
        ));
    }
    Ok(match kind {
        Kind::Duration => Value::Text(match u.int_in_range(0..=5)? {
            0..=2 => format!("{}ms", u.int_in_range(0..=20_000)?),
            3 => format!("{}s", u.int_in_range(0..=90_000)?),
            4 => format!(
                "{}{}",
                u64::arbitrary(u)?,
                u.choose(&["ns", "us", "s", "h", "days", "years"])?
            ),
            _ => <&str>::arbitrary(u)?.to_owned(),
        }),
        Kind::Count => Value::Plain(match u.int_in_range(0..=2)? {
            0 | 1 => u.int_in_range(0..=6)?.to_string(),
            _ => i64::arbitrary(u)?.to_string(),
        }),
        Kind::Flag => Value::Plain(bool::arbitrary(u)?.to_string()),
        Kind::Word(words) if u.ratio(5, 6)? => Value::Text((*u.choose(words)?).to_owned()),
        Kind::Word(_) => Value::Text(String::arbitrary(u)?),
        Kind::Server if u.ratio(1, 3)? => Value::List(vec![server(u)?, server(u)?]),
        Kind::Server => server(u)?,
        Kind::Table(known) => Value::Table(fields(u, known)?),
        Kind::Texts => {
            let mut texts = Vec::new();
            for _ in 0..u.int_in_range(0..=4)? {
                let long = "x".repeat(u.int_in_range(0..=3000)?);
                texts.push((
                    String::arbitrary(u)?,
                    Value::Text(String::arbitrary(u)? + &long),
                ));
            }
            Value::Table(texts)
        }
    })
}

fn server(u: &mut Unstructured<'_>) -> Result<Value> {
    let scheme = *u.choose(&["nats://", "tls://", "", "ws://", "http://", "://"])?;
    let host = *u.choose(&[
        "host",
        "[::1]",
        "host:4222",
        "host:99999",
        "a,b",
        "ho st",
        "",
    ])?;
    Ok(Value::Text(match u.int_in_range(0..=4)? {
        0 => format!("{scheme}{host}"),
        1 => format!("{scheme}me:{SECRET}@{host}"),
        2 => format!("{scheme}{SECRET}@{host}"),
        3 => format!(
            "{scheme}{}{SECRET}{}@{host}",
            <&str>::arbitrary(u)?,
            <&str>::arbitrary(u)?
        ),
        _ => String::arbitrary(u)?,
    }))
}

fn toml_of(fields: &[(String, Value)], between: &str) -> String {
    let fields = fields
        .iter()
        .map(|(name, value)| format!("{} = {}", quoted(name), toml_value(value)));
    fields.collect::<Vec<_>>().join(between)
}

fn toml_value(value: &Value) -> String {
    match value {
        Value::Plain(text) => text.clone(),
        Value::Text(text) => quoted(text),
        Value::Table(fields) => format!("{{ {} }}", toml_of(fields, ", ")),
        Value::List(values) => {
            format!(
                "[{}]",
                values.iter().map(toml_value).collect::<Vec<_>>().join(", ")
            )
        }
    }
}

fn json_of(fields: &[(String, Value)]) -> String {
    let fields = fields
        .iter()
        .map(|(name, value)| format!("{}:{}", quoted(name), json_value(value)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn json_value(value: &Value) -> String {
    match value {
        Value::Plain(text) => text.clone(),
        Value::Text(text) => quoted(text),
        Value::Table(fields) => json_of(fields),
        Value::List(values) => {
            format!(
                "[{}]",
                values.iter().map(json_value).collect::<Vec<_>>().join(",")
            )
        }
    }
}

/// A string, in both formats.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
