use super::*;

fn refused(config: &ManagerConfig, field: &str, value: &str, rule: &str) {
    let error = config.validate().unwrap_err();
    assert_eq!((error.field.as_str(), error.value.as_str()), (field, value));
    assert!(error.rule.contains(rule), "{error}");
}

#[test]
fn an_empty_file_gives_the_defaults_which_are_valid() {
    let config: ManagerConfig = toml::from_str("").unwrap();
    assert_eq!(config, ManagerConfig::default());
    assert_eq!(config.validate(), Ok(()));
}

#[test]
fn the_servers_are_a_string_or_a_list() {
    let one: ManagerConfig = toml::from_str("servers = 'nats://a'").unwrap();
    assert_eq!(one.servers, ["nats://a"]);
    let two: ManagerConfig = toml::from_str("servers = ['nats://a', 'b:4223']").unwrap();
    assert_eq!(two.servers, ["nats://a", "b:4223"]);
    assert_eq!(two.validate(), Ok(()));
    let error = toml::from_str::<ManagerConfig>("servers = 4222").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("expected a server address or a list of them"),
        "{error}"
    );
}

#[test]
fn each_server_must_be_one_address() {
    let rule = "must be an address like nats://host:4222";
    let mut config = ManagerConfig {
        servers: vec![],
        ..ManagerConfig::default()
    };
    refused(&config, "servers", "[]", "must name at least one server");
    for bad in [
        "",
        "nats://",
        "http://host",
        "ws://host:443",
        "wss://host",
        "nats://host:port",
        "nats://a:4222,nats://b:4222",
        "a,b",
        "a b",
    ] {
        config.servers = vec!["nats://good".into(), bad.into()];
        refused(&config, "servers[1]", &format!("{bad:?}"), rule);
    }
}

#[test]
fn passwords_appear_neither_in_errors_nor_in_debug_output() {
    for address in [
        "http://me:secret@host",
        "nats://me:se@secret@host",
        "me:secret@host:port",
        "nats://secret@ho st",
        "me:secret://x@ho st",
    ] {
        let config = ManagerConfig {
            servers: vec![address.into()],
            ..ManagerConfig::default()
        };
        if let Err(error) = config.validate() {
            let error = error.to_string();
            assert!(!error.contains("secret"), "{error}");
            assert!(error.contains("***@ho"), "{error}");
        }
        let debug = format!("{config:?}");
        assert!(!debug.contains("secret"), "{debug}");
    }
}

#[test]
fn a_login_is_set_in_one_place_only() {
    let mut config = ManagerConfig {
        servers: vec!["nats://a".into(), "nats://me:secret@b".into()],
        ..ManagerConfig::default()
    };
    assert_eq!(config.validate(), Ok(()));
    config.auth.token = Some("secret".into());
    refused(&config, "auth.token", "***", "`servers[1]` has a login too");
    let error = config.validate().unwrap_err().to_string();
    assert!(!error.contains("secret"), "{error}");
}

#[test]
fn an_error_cuts_a_long_address() {
    let config = ManagerConfig {
        servers: vec![format!("http://{}", "s".repeat(1 << 20))],
        ..ManagerConfig::default()
    };
    assert!(config.validate().unwrap_err().to_string().len() < 500);
}

#[test]
fn names_obey_their_rules() {
    let mut config = ManagerConfig {
        bucket: "lead.ers".into(),
        ..ManagerConfig::default()
    };
    refused(&config, "bucket", "\"lead.ers\"", "it has '.' at byte 4");
    config.bucket = "b".into();
    config.instance_id = Some("node 1".into());
    refused(&config, "instance_id", "\"node 1\"", "without white space");
}

#[test]
fn request_subjects_are_apart_from_reply_subjects() {
    let mut config = ManagerConfig {
        admin: AdminConfig::under("$KV.leaders"),
        ..ManagerConfig::default()
    };
    let field = "admin.subject_prefix";
    refused(&config, field, "\"$KV.leaders\"", "must be tokens");
    config.admin = AdminConfig::under("ops.admin");
    config.inbox_prefix = Some("ops".into());
    refused(&config, field, "\"ops.admin\"", "apart from `inbox_prefix`");
}

#[test]
fn metadata_has_a_limit() {
    let config = ManagerConfig::default().meta("k", "x".repeat(4088));
    assert_eq!(config.validate(), Ok(()));
    let config = config.meta("k", "x".repeat(4089));
    refused(&config, "meta", "4097 bytes as JSON", "at most 4096 bytes");
}

#[test]
fn setters_say_what_a_file_says_and_what_they_say_is_read_back() {
    let set = ManagerConfig::default()
        .servers("nats://a, nats://b")
        .bucket("jobs")
        .bucket_auto_create()
        .replicas(3)
        .storage(Storage::Memory)
        .instance_id("node-1")
        .meta("zone", "eu-1")
        .start_timeout(Duration::from_secs(5))
        .inbox_prefix("_INBOX_jobs")
        .auth(AuthConfig::default().user_and_password("ada", "secret"))
        .tls(TlsConfig::default().require().ca_file("/ca.pem"))
        .events(EventsConfig::off())
        .admin(AdminConfig::off())
        .last_will(LastWillConfig::by("/bin/nats-elect"))
        .member(MemberConfig::default().ttl(Duration::from_secs(5)));
    let file = "servers = ['nats://a', 'nats://b']\nbucket = 'jobs'\nbucket_auto_create = true\nreplicas = 3\n\
        storage = 'memory'\ninstance_id = 'node-1'\nmeta.zone = 'eu-1'\nstart_timeout = '5s'\n\
        inbox_prefix = '_INBOX_jobs'\nauth = { user = 'ada', password = 'secret' }\n\
        tls = { required = true, ca_file = '/ca.pem' }\nevents.publish = false\nadmin.enabled = false\n\
        last_will = { enabled = true, program = '/bin/nats-elect' }\nmember.ttl = '5s'";
    let written = toml::to_string(&set).unwrap();
    for text in [file, &written] {
        assert_eq!(toml::from_str::<ManagerConfig>(text).unwrap(), set);
    }
    assert_eq!(set.validate(), Ok(()));
}

#[test]
fn numbers_stay_in_their_ranges() {
    let mut config = ManagerConfig::default();
    for replicas in [0, 6, usize::MAX] {
        config.replicas = replicas;
        refused(
            &config,
            "replicas",
            &replicas.to_string(),
            "must be from 1 to 5",
        );
    }
    config.replicas = 5;
    config.start_timeout = Duration::ZERO;
    refused(&config, "start_timeout", "0s", "must be from 1ms to 1d");
    config.start_timeout = Duration::MAX;
    assert_eq!(config.validate().unwrap_err().field, "start_timeout");
}

#[test]
fn an_unknown_field_is_an_error() {
    let error = toml::from_str::<ManagerConfig>("buckets = 'x'").unwrap_err();
    assert!(
        error.to_string().contains("unknown field `buckets`"),
        "{error}"
    );
}
