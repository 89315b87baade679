//! What to grant where the server forbids something.

use nats_elect::Denied;
use uuid::Uuid;

/// Returns the permission to grant. A wildcard stands for a part of the subject that differs each
/// time.
pub fn advice(denied: &Denied) -> String {
    let kind = if denied.publish {
        "publish"
    } else {
        "subscribe"
    };
    let pattern = permission(denied);
    format!("grant {kind} {pattern:?}: `nats-elect permissions`, docs/security.md")
}

/// Returns the permission that is missing.
pub fn permission(denied: &Denied) -> String {
    let inboxes = denied.inboxes();
    inboxes.unwrap_or_else(|| pattern_of(&denied.subject))
}

fn pattern_of(subject: &str) -> String {
    let tokens: Vec<_> = subject.split('.').collect();
    // The rest of these subjects is a consumer, a key, or an answer's number.
    let fixed = match &tokens[..] {
        ["$KV", _, "_data" | "_gdata", ..] | ["$KV", _, "_guard", _, _, ..] => Some(4),
        ["$KV", _, "_group", "m", _] => return format!("{}.*", tokens[..4].join(".")),
        ["$JS", "FC", _, ..] => Some(3),
        ["$JS", "API", "CONSUMER", "CREATE", _, ..] | ["$KV", _, "_group", "u", ..] => Some(5),
        _ => None,
    };
    if let Some(fixed) = fixed.filter(|&fixed| fixed < tokens.len()) {
        return format!("{}.>", tokens[..fixed].join("."));
    }
    let is_id = |token: &str| token.parse::<Uuid>().is_ok();
    let parts = tokens.iter();
    let parts = parts.map(|token| if is_id(token) { "*" } else { *token });
    parts.collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_grant_has_wildcards_where_the_subject_differs_each_time() {
        let id = "e374253a-3acb-6c4c-f3bf-46b5abe52919";
        for (subject, pattern) in [
            ("$KV.leaders.scheduler".to_owned(), "$KV.leaders.scheduler"),
            (
                "$KV.leaders._data.scheduler._doctor".to_owned(),
                "$KV.leaders._data.scheduler.>",
            ),
            (
                "$KV.leaders._guard.scheduler".to_owned(),
                "$KV.leaders._guard.scheduler",
            ),
            (
                "$KV.leaders._group.m.AAAAAAAAAAAAAAAAAAAAAA".to_owned(),
                "$KV.leaders._group.m.*",
            ),
            (
                "$KV.leaders._group.u.shards.1.0".to_owned(),
                "$KV.leaders._group.u.shards.>",
            ),
            (
                "$KV.leaders._gdata.shards.1.0._doctor".to_owned(),
                "$KV.leaders._gdata.shards.>",
            ),
            (
                "$KV.leaders._guard.shards.1.0".to_owned(),
                "$KV.leaders._guard.shards.>",
            ),
            (
                format!("$JS.FC.KV_leaders.doctor.{id}"),
                "$JS.FC.KV_leaders.>",
            ),
            (
                "$JS.API.CONSUMER.CREATE.KV_leaders.x.$KV.leaders.y".to_owned(),
                "$JS.API.CONSUMER.CREATE.KV_leaders.>",
            ),
            (
                format!("nats-elect.leaders.a.{id}"),
                "nats-elect.leaders.a.*",
            ),
            (
                format!("nats-elect-admin.leaders.pause.{id}.*"),
                "nats-elect-admin.leaders.pause.*.*",
            ),
        ] {
            assert_eq!(pattern_of(&subject), pattern);
        }
    }
}
