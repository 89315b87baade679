//! The connection, the server behind it, and what it gives the account.

use std::cmp::Ordering;

use nats_elect::{Error, ManagerConfig};
use serde_json::{Value, json};

use super::findings::Findings;
use crate::line::{Answer, Line};

/// A limit of the account is close from here on, in percent.
const CLOSE: u64 = 80;

pub fn check(line: &Line, config: &ManagerConfig, findings: &mut Findings) {
    let server = line.server();
    let cluster = match &server.cluster {
        Some(cluster) => format!(
            "of cluster {cluster:?}, which has {} addresses for clients",
            server.connect_urls.len()
        ),
        None => "on its own".to_owned(),
    };
    findings.ok(
        "connection",
        format!(
            "nats-server {} {:?}, {cluster}",
            server.version, server.server_name
        ),
    );
    version(line, findings);
    let encrypted = server.tls_required || config.tls.required || config.tls.first;
    let local = server.client_ip.starts_with("127.") || server.client_ip == "::1";
    match (encrypted, local) {
        (true, _) => findings.ok("encryption", "TLS"),
        (false, true) => findings.ok("encryption", "none, within this machine"),
        (false, false) => findings.warn(
            "encryption",
            "not encrypted: anyone on the network path can read passwords and lease tokens",
            "set `tls` in the server's configuration (docs/security.md)",
        ),
    }
}

fn version(line: &Line, findings: &mut Findings) {
    let (check, version) = ("server version", &line.server().version);
    if too_old(line).is_some() {
        findings.fail(
            check,
            format!("{version}: too old for elections (docs/configuration.md says why)"),
            "upgrade to nats-server 2.12, at least to 2.11.2",
        );
    } else if line.client.is_server_compatible(2, 12, 0) {
        findings.ok(
            check,
            format!("{version}: leases, fenced writes and batches are supported"),
        );
    } else {
        findings.warn(
            check,
            format!("{version}: no batches, so no conditional fenced writes"),
            "upgrade to nats-server 2.12, and edit the bucket to allow atomic batches or create it again",
        );
    }
}

/// What a manager says of the connected server, if that is too old for it.
pub fn too_old(line: &Line) -> Option<Error> {
    let version = line.server().version.clone();
    let fit = line.client.is_server_compatible(2, 11, 2);
    (!fit).then_some(Error::ServerTooOld { version })
}

/// Who this is, if it is told.
pub async fn user(line: &Line, findings: &mut Findings) {
    let check = "user";
    match line.ask("$SYS.REQ.USER.INFO", &Value::Null).await {
        Answer::Json(answer) => {
            let data = &answer["data"];
            let (user, account) = (text(&data["user"]), text(&data["account"]));
            if line.server().auth_required {
                findings.ok(check, format!("{user:?} of account {account:?}"));
            } else {
                findings.warn(
                    check,
                    format!("account {account:?}; the server needs no credentials"),
                    "anyone who reaches it can take and delete every role: docs/security.md has users with few permissions",
                );
            }
        }
        Answer::Denied(denied) if !denied.publish => findings.fail(
            check,
            format!("{denied}: no request gets an answer"),
            "grant it to this user, or name a permitted prefix with --inbox-prefix",
        ),
        _ => findings.skipped(check, "the server does not tell this user its name"),
    }
}

/// Whether `JetStream` is on for this account, and how much of it is left.
pub async fn limits(line: &Line, findings: &mut Findings) {
    let check = "account limits";
    match line.ask("$JS.API.INFO", &json!(null)).await {
        Answer::Json(answer) if answer["error"].is_null() => {
            let close = close_limits(&answer);
            if close.is_empty() {
                let used = format!(
                    "none is close: {} streams, {} consumers, {} bytes on disk",
                    answer["streams"], answer["consumers"], answer["storage"]
                );
                return findings.ok(check, used);
            }
            findings.warn(
                check,
                close.join(", "),
                "raise the account's limits, or delete unused data: a full account refuses heartbeats and watches",
            );
        }
        Answer::Denied(denied) => {
            findings.skipped(check, format!("{denied}; no other check needs it"));
        }
        _ => findings.skipped(check, "JetStream does not report them"),
    }
}

/// The account's limits of the kind that every tier of it has.
fn close_limits(answer: &Value) -> Vec<String> {
    let mut close = Vec::new();
    let mut look = |at: &Value, place: &str| {
        for name in ["storage", "memory", "streams", "consumers"] {
            let (used, limit) = (&at[name], &at["limits"][format!("max_{name}")]);
            let (Some(used), Some(limit)) = (used.as_u64(), limit.as_u64()) else {
                continue;
            };
            if limit > 0 && used.saturating_mul(100) / limit >= CLOSE {
                let how = match used.cmp(&limit) {
                    Ordering::Less => "close to the limit:",
                    Ordering::Equal => "used up:",
                    Ordering::Greater => "over the limit:",
                };
                close.push(format!("{how} {name}{place} {used} of {limit}"));
            }
        }
    };
    look(answer, "");
    for (tier, at) in answer["tiers"].as_object().into_iter().flatten() {
        look(at, &format!(" of tier {tier}"));
    }
    close
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_that_is_over_its_limit_is_not_close_to_it() {
        let answer = json!({
            "storage": 716, "memory": 90, "streams": 3, "consumers": 1,
            "limits": { "max_storage": 100, "max_memory": 100, "max_streams": 3, "max_consumers": 10 },
        });
        let told = [
            "over the limit: storage 716 of 100",
            "close to the limit: memory 90 of 100",
            "used up: streams 3 of 3",
        ];
        assert_eq!(close_limits(&answer), told);
    }
}
