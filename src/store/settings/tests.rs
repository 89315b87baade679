use serde_json::json;

use super::*;

/// The settings that nats-server 2.11.10, 2.12.8 and 2.15.1 know: the JSON names of `StreamConfig`
/// in their `server/stream.go`.
pub const KNOWN: &str = "
name description subjects retention max_consumers max_msgs max_bytes max_age
max_msgs_per_subject max_msg_size discard storage num_replicas no_ack template_owner
duplicate_window placement mirror sources compression first_seq subject_transform republish
allow_direct mirror_direct discard_new_per_subject sealed deny_delete deny_purge
allow_rollup_hdrs consumer_limits allow_msg_ttl subject_delete_marker_ttl allow_msg_counter
allow_atomic allow_msg_schedules persist_mode allow_batched metadata
";

/// A bucket that nothing can be said against.
fn faultless() -> Value {
    json!({
        "subjects": ["$KV.b.>"], "max_msgs_per_subject": 1, "num_replicas": 3, "discard": "new",
        "first_seq": 1_793_874_030_000_000_u64,
    })
}

fn bucket() -> BucketName {
    BucketName::new("b").unwrap()
}

fn changed(changes: &Value) -> StreamConfig {
    let mut config = faultless();
    for (name, value) in changes.as_object().unwrap() {
        config[name] = value.clone();
    }
    serde_json::from_value(config).unwrap()
}

/// What each setting is if it differs from a faultless bucket's, and what mends it.
const SORTED: &str = r#"
unfit | mirror | {"mirror": { "name": "KV_x" }} | --no-mirror
unfit | sealed | {"sealed": true} | create-bucket
unfit | subjects | {"subjects": []} | --subjects '$KV.b.>'
unfit | subjects | {"subjects": ["$KV.other.>", "$KV.b.x"]} | --subjects
fit | subjects | {"subjects": ["x", "$KV.b.>"]}
fit | subjects | {"subjects": ["$KV.>"]}
fit | subjects | {"subjects": ["$KV.*.>"]}
fit | subjects | {"subjects": [">"]}
unfit | subject_transform | {"subject_transform": { "src": "a", "dest": "b" }} | --no-transform
unfit | retention | {"retention": "workqueue"} | --retention limits
unfit | retention | {"retention": "interest"} | --retention limits
unfit | no_ack | {"no_ack": true} | --ack
unfit | allow_msg_counter | {"allow_msg_counter": true} | create-bucket
unfit | persist_mode | {"persist_mode": "async"} | create-bucket
fit | persist_mode | {"persist_mode": "default"}
unfit | discard_new_per_subject | {"discard_new_per_subject": true} | --no-discard-per-subject
unfit | max_msgs | {"max_msgs": 20, "discard": "old"} | KV_b --max-msgs=-1 --max-bytes=-1
unfit | max_msgs | {"max_msgs": 2} | KV_b --max-msgs=-1
risky | max_msgs | {"max_msgs": 20} | KV_b --max-msgs=-1
unfit | max_bytes | {"max_bytes": 65536, "discard": "old"} | --max-bytes=-1
unfit | max_bytes | {"max_bytes": 1023} | --max-bytes=-1
risky | max_bytes | {"max_bytes": 65536} | --max-bytes=-1
fit | discard | {"discard": "old"}
risky | first_seq | {"first_seq": 1} | bucket_auto_create
risky | max_age | {"max_age": 2000000000} | --max-age 0s
risky | max_msgs_per_subject | {"max_msgs_per_subject": 5} | --max-msgs-per-subject 1
risky | max_msgs_per_subject | {"max_msgs_per_subject": -1} | --max-msgs-per-subject 1
unfit | max_msg_size | {"max_msg_size": 16383} | --max-msg-size=-1
fit | max_msg_size | {"max_msg_size": 16384}
risky | num_replicas | {"num_replicas": 1} | --replicas 3
risky | storage | {"storage": "memory"} | file storage
risky | allow_rollup_hdrs | {"allow_rollup_hdrs": true} | --no-allow-rollup
risky | allow_msg_schedules | {"allow_msg_schedules": true} | create-bucket
risky | sources | {"sources": [{ "name": "s" }]} | --interactive
fit | sources | {"sources": []}
risky | republish | {"republish": { "src": ">", "dest": "x.>" }} | --no-republish
risky | allow_direct | {"allow_direct": true} | --no-allow-direct
risky | max_consumers | {"max_consumers": 3} | --interactive
risky | consumer_limits | {"consumer_limits": { "inactive_threshold": 1000000000 }} | --limit-consumer-inactive
fit | consumer_limits | {"consumer_limits": { "inactive_threshold": 604800000000000, "max_ack_pending": 1 }}
risky | subject_delete_marker_ttl | {"subject_delete_marker_ttl": 604800000000000} | --subject-del-markers-ttl 0s
fit | name | {"name": "KV_b"}
fit | description | {"description": "x"}
fit | metadata | {"metadata": { "a": "b" }}
fit | template_owner | {"template_owner": "x"}
fit | placement | {"placement": { "cluster": "c", "tags": ["t"] }}
fit | compression | {"compression": "s2"}
fit | duplicate_window | {"duplicate_window": 604800000000000}
fit | mirror_direct | {"mirror_direct": true}
fit | deny_delete | {"deny_delete": true}
fit | deny_purge | {"deny_purge": true}
fit | allow_msg_ttl | {"allow_msg_ttl": true}
fit | allow_atomic | {"allow_atomic": true}
fit | allow_batched | {"allow_batched": true}
"#;

/// The columns of a row: the verdict, the setting, the changes, and what mends them.
fn columns(row: &str) -> [&str; 4] {
    let mut columns = row.split(" | ");
    [(); 4].map(|()| columns.next().unwrap_or_default())
}

#[test]
fn each_setting_is_one_that_servers_know() {
    let known: Vec<_> = KNOWN.split_whitespace().collect();
    let config = changed(&json!({}));
    let rows = [config.unfit(&bucket()), config.risks(), config.ways_past()];
    for row in rows.iter().flatten() {
        assert!(known.contains(&row.setting), "{}", row.setting);
    }
}

#[test]
fn each_setting_is_fit_or_warned_of_or_unfit_with_what_mends_it() {
    for row in SORTED.trim().lines() {
        let [verdict, setting, changes, remedy] = columns(row);
        let changes: Value = serde_json::from_str(changes).expect(row);
        let config = changed(&changes);
        let (unfit, notes) = (config.problem(&bucket()), config.notes(&bucket()));
        let settings: Vec<_> = notes.iter().map(|note| note.setting).collect();
        let told = match verdict {
            "unfit" => unfit.clone().unwrap_or_default(),
            "risky" => notes.iter().map(ToString::to_string).collect(),
            _ => String::new(),
        };
        assert_eq!(unfit.is_some(), verdict == "unfit", "{changes}: {unfit:?}");
        let expected: &[&str] = if verdict == "risky" { &[setting] } else { &[] };
        if verdict != "unfit" {
            assert_eq!(settings, expected, "{changes}");
        }
        assert!(told.contains(remedy), "{changes}: {told}");
        assert!(!told.contains("EDIT") && !told.contains("BUCKET"), "{told}");
    }
    for known in KNOWN.split_whitespace() {
        let tried = SORTED.lines().any(|row| columns(row)[1] == known);
        assert!(tried, "{known}");
    }
}
