//! How long NATS takes to answer, against what roles are configured to; and which failures their
//! times survive.

use std::time::Duration;

use nats_elect::duration::{exact, rounded_down, rounded_up};
use serde_json::json;

use super::bucket::Found;
use super::examined::{Examined, Times};
use super::findings::Findings;
use crate::fleet::now;
use crate::line::{Answer, Line};
use crate::text::lasted;

const ROUND_TRIPS: usize = 100;
/// How long a three-node cluster takes at most to go on when it loses the node that leads the
/// stream.
const NODE_LOST: Duration = Duration::from_secs(6);

/// Measures, one after the other, and compares: refused writes to a role's key where that may be
/// written, else reads.
pub async fn round_trips(of: &Examined<'_>, written: Option<&str>, findings: &mut Findings) {
    let check = "round trips";
    let Some(measured) = measure(of.line, of.bucket(), written).await else {
        return findings.skipped(check, "some requests got no answer");
    };
    let what = if written.is_some() {
        "writes that the stream leader refused"
    } else {
        "reads of the stream leader"
    };
    let at = |percent: usize| {
        let rank = (measured.len() * percent).div_ceil(100).max(1);
        measured.get(rank - 1).copied().unwrap_or_default()
    };
    let (median, p99, max) = (at(50), at(99), at(100));
    let text = format!(
        "median {}, 99 % {}, max {} of {ROUND_TRIPS} {what}",
        lasted(median),
        lasted(p99),
        lasted(max)
    );
    let Some(tightest) = of.times.iter().min_by_key(|it| it.settings.request_timeout) else {
        return findings.ok(check, text);
    };
    let limit = tightest.settings.request_timeout;
    let factor = limit.as_secs_f64() / max.as_secs_f64().max(1e-6);
    let text = format!(
        "{text}; {} gives a request {} ({factor:.0} times the max)",
        tightest.role,
        lasted(limit)
    );
    if median * 2 >= limit {
        findings.fail(
            check,
            text,
            "heartbeats will fail: choose a longer ttl (or heartbeat and request timeout), or run closer to NATS",
        );
    } else if max * 2 >= limit {
        findings.warn(
            check,
            text,
            "some heartbeats will fail: choose a longer ttl, or find out what slows NATS down",
        );
    } else {
        findings.ok(check, text);
    }
}

async fn measure(line: &Line, bucket: &str, written: Option<&str>) -> Option<Vec<Duration>> {
    let read = format!("$JS.API.STREAM.MSG.GET.KV_{bucket}");
    let nothing = json!({ "last_by_subj": format!("$KV.{bucket}._doctor") });
    let mut measured = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let sent = now();
        let answer = match written {
            Some(role) => line.ask_for_refusal(&format!("$KV.{bucket}.{role}")).await,
            None => line.ask(&read, &nothing).await,
        };
        let Answer::Json(_) = answer else {
            return None;
        };
        measured.push(sent.elapsed());
    }
    measured.sort_unstable();
    Some(measured)
}

/// What the times of a role survive, in words.
pub fn tolerance(times: &Times, found: &Found, findings: &mut Findings) {
    let Times { role, settings } = times;
    let check = "ttl";
    let winds_down = settings
        .ttl
        .saturating_sub(settings.drift_margin() + settings.stop_budget);
    let winds_down = settings.grace.map_or(winds_down, |it| it.min(winds_down));
    // The last heartbeat may be an interval old when NATS falls silent.
    let slack = winds_down.saturating_sub(settings.heartbeat);
    let text = format!(
        "{role}: ttl {}, a leader goes on for {} without NATS; after a crash another leads within {}",
        exact(settings.ttl),
        rounded_down(slack),
        rounded_up(settings.worst_case_failover()),
    );
    let mut warnings = settings.warnings(found.replicas);
    if warnings.is_empty() && found.replicas > 2 && slack < NODE_LOST {
        warnings.push(format!(
            "a leader goes on for {} without NATS, but the loss of the stream's leader takes 4 to 6 seconds",
            rounded_down(slack)
        ));
    }
    if warnings.is_empty() {
        return findings.ok(check, text);
    }
    for warning in warnings {
        findings.warn(
            check,
            format!("{role}: {warning}"),
            "choose a ttl of 10s or more, or accept that roles change hands",
        );
    }
}
