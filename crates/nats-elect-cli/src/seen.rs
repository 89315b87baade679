//! A role as an observer sees it: in words, and as JSON.

use std::time::Duration;

use comfy_table::{Cell, Color};
use nats_elect::{ChangeCause, LeaderInfo, Observed, Observer, RoleChange, Standing};

/// How often heartbeats are looked for.
const LOOK: Duration = Duration::from_millis(25);
/// How long fencing tokens are waited for once their leaders are known.
const TOKENS: Duration = Duration::from_millis(500);

/// Who leads, or why nobody does.
pub fn who(seen: &Observed) -> String {
    match &seen.leader {
        Some(leader) => name(leader),
        None => format!("– {}", why_nobody(seen)),
    }
}

/// Waits until each leader was seen alive, but no longer than this: whoever began to watch has to
/// wait for a heartbeat of each.
pub async fn confirmed(observer: &Observer, within: Duration) {
    let unproven = |seen: &Observed| seen.leader.is_some() && !seen.confirmed;
    while_any(observer, unproven, within).await;
    // They come beside the records; leaders of other libraries have none.
    let unnamed = |seen: &Observed| {
        let leader = seen.leader.as_ref().filter(|_| seen.confirmed);
        leader.is_some_and(|it| it.incarnation.is_some()) && seen.fencing_token.is_none()
    };
    while_any(observer, unnamed, TOKENS.min(within)).await;
}

async fn while_any(observer: &Observer, is_so: impl Fn(&Observed) -> bool, within: Duration) {
    let _ = tokio::time::timeout(within, async {
        while observer.roles().values().any(&is_so) {
            tokio::time::sleep(LOOK).await;
        }
    })
    .await;
}

/// Whether a leader or a member lives, as one word.
pub fn coloured(state: &str) -> Cell {
    Cell::new(state).fg(match state {
        "confirmed" => Color::Green,
        "unconfirmed" => Color::Yellow,
        _ => Color::Red,
    })
}

/// How a role stands, as one word: a leader that was seen alive is `confirmed`.
pub const fn state(seen: &Observed) -> &'static str {
    match seen.standing {
        Standing::Led if seen.confirmed => "confirmed",
        Standing::Led => "unconfirmed",
        Standing::Untrusted => "untrusted",
        Standing::Expired => "expired",
        Standing::Unknown => "unknown",
        _ => "free",
    }
}

/// Whether the leader was seen alive, and its lease has not passed since.
pub fn is_known_alive(seen: &Observed) -> bool {
    seen.leader.is_some() && seen.confirmed && seen.remaining.is_some_and(|left| !left.is_zero())
}

/// For how long the leader has led, if the stream tells when its term began.
pub fn led_for(seen: &Observed) -> Option<Duration> {
    seen.since.filter(|_| seen.since_at.is_some())
}

/// Why nobody is told to lead, in a few words.
pub fn why_nobody(seen: &Observed) -> String {
    let why = match seen.standing {
        Standing::Led => "",
        Standing::Untrusted => match seen.distrust {
            Some(distrust) => return format!("not trusted ({})", distrust.as_str()),
            None => "not trusted",
        },
        Standing::Released => "its leader freed it",
        Standing::HandedOver => "freed for an heir",
        Standing::Deleted => "its key was deleted",
        Standing::Expired => "the lease ran out",
        Standing::Unclaimed => "never led",
        Standing::Unknown => "not known",
        _ => "nobody leads",
    };
    why.to_owned()
}

/// What a leader is called.
pub fn name(leader: &LeaderInfo) -> String {
    if leader.instance_id.is_empty() {
        return "(no name)".into();
    }
    leader.instance_id.clone()
}

/// Why a role changed, in a few words.
pub fn why_changed(change: &RoleChange) -> &'static str {
    match change.cause {
        ChangeCause::Released if change.standing == Standing::HandedOver => "freed for an heir",
        ChangeCause::Released => "freed",
        ChangeCause::Found => "found",
        ChangeCause::Claimed => "claimed",
        ChangeCause::HandedOver => "handed over",
        ChangeCause::Deleted => "key deleted",
        ChangeCause::Expired => "lease ran out",
        ChangeCause::LostSight => "out of sight",
        ChangeCause::Untrusted => "not trusted",
        ChangeCause::BucketReplaced => "new bucket",
        other => other.as_str(),
    }
}
