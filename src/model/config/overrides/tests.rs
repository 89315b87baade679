use std::time::Duration;

use super::*;
use crate::model::config::{ElectionsConfig, Takeover};

const DOCS: &str = include_str!("../../../../docs/configuration.md");

/// Texts of which each setting takes one.
const SAMPLES: [&str; 13] = [
    "1234ms",
    "7",
    "true",
    "false",
    "0.25",
    "memory",
    "exit",
    "cooperative",
    r#"{"region":"eu"}"#,
    r#"["disk=ssd"]"#,
    r#"[["0","1"]]"#,
    r#"{"0":7}"#,
    r#"{"0":["gpu"]}"#,
];

fn at<'a>(json: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(json, |json, name| json.get(name))
}

fn each_can_be_overridden<T>(
    beginning: &str,
    count: usize,
    over: impl Fn(&Environment, T) -> Result<(T, Origins), ConfigError>,
) where
    T: Default + Serialize + DeserializeOwned + PartialEq,
{
    let before = serde_json::to_value(T::default()).expect("JSON");
    let paths = settings::<T>();
    assert!(paths.len() >= count, "{paths:?}");
    for path in paths {
        let variable = format!("{beginning}{}", path.replace('.', "__").to_uppercase());
        let is_changed = |sample: &str| {
            let environment = Environment::from_iter([(&*variable, sample)]);
            let Ok((changed, settings)) = over(&environment, T::default()) else {
                return false;
            };
            let (setting, origin) = settings.first_key_value().expect("one");
            assert_eq!((settings.len(), origin), (1, &variable));
            assert!(setting.ends_with(&path), "{settings:?}");
            let after = serde_json::to_value(changed).expect("JSON");
            at(&after, &path) != at(&before, &path)
        };
        assert!(SAMPLES.into_iter().any(is_changed), "{variable}");
        assert!(
            DOCS.contains(&format!("| `{path}` |")),
            "docs/configuration.md has no row for `{path}`"
        );
    }
}

#[test]
fn each_setting_has_a_variable_and_a_row_in_the_docs() {
    each_can_be_overridden(OURS, 34, |environment, config: ManagerConfig| {
        environment.over_manager(config)
    });
    each_can_be_overridden(
        "NATS_ELECT_ROLES__SCHEDULER__",
        13,
        |environment, config: RoleConfig| environment.over_table("scheduler", config),
    );
    each_can_be_overridden(
        "NATS_ELECT_GROUPS__CACHE__",
        7,
        |environment, config: GroupConfig| environment.over_table("cache", config),
    );
}

fn with(set: &[(&str, &str)], roles: &[&str]) -> Result<ElectionsConfig, ConfigError> {
    let mut config = ElectionsConfig::default();
    let roles = roles
        .iter()
        .map(|role| ((*role).to_owned(), RoleConfig::default()));
    config.roles = roles.collect();
    let group = GroupConfig::default();
    config.groups.insert("hot-cache".into(), group);
    let environment = set.iter().copied().collect();
    config.overridden(&environment).map(|(config, _)| config)
}

#[test]
fn the_longer_name_overrides_that_of_nats_tools() {
    let set = [
        ("NATS_URL", "nats://of-tools"),
        ("NATS_ELECT_SERVERS", "nats://a, b:4223"),
        ("NATS_TOKEN", "of tools"),
        ("NATS_ELECT_AUTH__TOKEN", "t"),
    ];
    let environment = set.into_iter().collect();
    let config = ElectionsConfig::default();
    let (config, shown) = config.overridden(&environment).expect("valid");
    assert_eq!(config.manager.servers, ["nats://a", "b:4223"]);
    assert_eq!(config.manager.auth.token, Some("t".into()));
    assert_eq!(shown.len(), 2);
    assert_eq!(shown["manager.servers"], "NATS_ELECT_SERVERS");
    assert_eq!(shown["manager.auth.token"], "NATS_ELECT_AUTH__TOKEN");
    let list = [("NATS_ELECT_SERVERS", r#"["nats://a"]"#)];
    assert_eq!(
        with(&list, &[]).expect("valid").manager.servers,
        ["nats://a"]
    );
}

#[test]
fn a_variable_replaces_the_whole_login_of_the_file() {
    let mut config = ManagerConfig::default();
    config.auth.user = Some("ada".into());
    config.auth.password = Some("p".into());
    let set = [("NATS_ELECT_AUTH__CREDS_FILE", "/creds")];
    let environment = set.into_iter().collect();
    let (config, _) = config.overridden(&environment).expect("valid");
    assert_eq!(config.auth.ways(), ["auth.creds_file"]);
}

#[test]
fn roles_have_settings_of_their_own() {
    let set = [
        ("NATS_ELECT_ROLES__DATA_PLANE__TTL", "5s"),
        ("NATS_ELECT_ROLES__DATA_PLANE__TAKEOVER", "cooperative"),
        ("NATS_ELECT_ROLES__DATA_PLANE__META__REGION", "eu"),
        ("NATS_ELECT_ROLES__OTHER__TTL", "7s"),
    ];
    let config = with(&set, &["data-plane", "metrics"]).expect("valid");
    let role = &config.roles["data-plane"];
    assert_eq!(role.ttl, Duration::from_secs(5));
    assert_eq!(role.takeover, Takeover::Cooperative);
    assert_eq!(role.meta["region"], "eu");
    assert_eq!(config.roles["metrics"], RoleConfig::default());
    let environment: Environment = set.into_iter().collect();
    let others = environment.of_others::<RoleConfig>(&["data-plane"]);
    assert_eq!(others, Ok(vec!["NATS_ELECT_ROLES__OTHER__TTL".to_owned()]));
}

#[test]
fn groups_have_settings_of_their_own() {
    let set = [
        ("NATS_ELECT_GROUPS__HOT_CACHE__SHARDS", "256"),
        ("NATS_ELECT_GROUPS__HOT_CACHE__WEIGHTS__17", "4000"),
        ("NATS_ELECT_GROUPS__HOT_CACHE__APART", r#"[["0", "1"]]"#),
        ("NATS_ELECT_GROUPS__OTHER__SHARDS", "7"),
        ("NATS_ELECT_ROLES__HOT_CACHE__TTL", "7s"),
    ];
    let group = &with(&set, &[]).expect("valid").groups["hot-cache"];
    let expected = GroupConfig {
        shards: Some(256),
        weights: BTreeMap::from([("17".to_owned(), 4000)]),
        apart: vec![vec!["0".into(), "1".into()]],
        ..GroupConfig::default()
    };
    assert_eq!(*group, expected);
    let environment: Environment = set.into_iter().collect();
    let others = environment.of_others::<GroupConfig>(&["hot-cache"]);
    assert_eq!(others, Ok(vec!["NATS_ELECT_GROUPS__OTHER__SHARDS".into()]));
    let twice = environment.of_others::<GroupConfig>(&["hot-cache", "hot_cache"]);
    let rule = twice.expect_err("two groups").rule;
    assert!(rule.contains("the groups `hot-cache` and"), "{rule}");
}

#[test]
fn a_variable_that_names_two_roles_is_refused() {
    let set = [("NATS_ELECT_ROLES__A_B__TTL", "5s")];
    let error = with(&set, &["a-b", "a_b"]).expect_err("two roles");
    assert_eq!(error.field, "NATS_ELECT_ROLES__A_B__TTL");
    assert!(error.rule.contains("`a-b` and `a_b`"), "{error}");
}

/// A variable, its value, and what the error says.
const ERRORS: &str = r#"
ROLES__R__TTL | soon | is "soon", but must be a duration with a unit, like 500ms or 15s
ROLES__R__TTL | 1ms | is 1ms, but must be from 100ms to 1h
ROLES__R__PRIORITY | high | is "high", but must be a whole number
ROLES__R__MAX_BACKOFF | 2h | is 2h, but must be from 50ms to 1h
ROLES__R__DELETE_ON_STOP | maybe | is "maybe", but must be true or false
ROLES__R__OVERRUN | panic | is "panic", but must be `abort` or `exit`
REPLICAS | -1 | is "-1", but must be a whole number, 0 or more
REPLICAS | 9 | is 9, but must be from 1 to 5
GROUPS__HOT_CACHE__SHARDS | 70000 | is 70000, but must be from 1 to 65536
GROUPS__HOT_CACHE__SHARDS | -1 | is "-1", but must be a whole number, 0 or more
GROUPS__HOT_CACHE__APART | 0,1 | is "0,1", but must be a list, as JSON
GROUPS__HOT_CACHE__REQUIRES | gpu | is "gpu", but must be a table, as JSON
GROUPS__HOT_CACHE__WEIGHTS | {"17":0} | is 0, but must be from 1 to 1000000
GROUPS__HOT_CACHE__UNITS | 1 | but there is no setting `groups.hot-cache.units`
SERVERS | nats://a,http://b | is "http://b", but must be an address
TLS__CA | x | but there is no setting `manager.tls.ca`
ROLES__R__RETRY__MAX_BACKOFF | 1s | but there is no setting `roles.r.retry.max_backoff`
"#;

#[test]
fn errors_name_the_variable_its_value_and_what_is_allowed() {
    for row in ERRORS.trim().lines() {
        let columns: Vec<_> = row.split(" | ").collect();
        let [variable, value, expected] = columns[..] else {
            panic!("{row}");
        };
        let variable = format!("NATS_ELECT_{variable}");
        let error = with(&[(&*variable, value)], &["r"]).expect_err(&variable);
        assert_eq!(error.field, variable);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn secrets_of_the_environment_are_in_no_error() {
    for (variable, value) in [
        ("AUTH__PASSWORD", "s3cret"),
        ("AUTH", r#"{"password":["s3cret"]}"#),
        ("AUTH", "s3cret"),
        ("AUTH__PASWORD", "s3cret"),
        ("SERVERS", "http://me:s3cret@host"),
        ("SERVERS__X", "nats://me:s3cret@host"),
    ] {
        let variable = format!("NATS_ELECT_{variable}");
        let read = with(&[(&*variable, value)], &[]);
        let error = read.and_then(|config| config.manager.validate());
        let error = error.expect_err(&variable).to_string();
        assert!(!error.contains("s3cret"), "{error}");
    }
}
