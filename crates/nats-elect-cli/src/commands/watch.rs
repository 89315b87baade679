//! `watch`: what changes, as it happens.

use std::io;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use futures::StreamExt;
use futures::future::try_join_all;
use nats_elect::{Change, LeaderInfo, Observed, Observer, RoleChange, WatchStatus};
use serde_json::json;

use crate::exit::{Failure, Outcome};
use crate::fleet::{Change as Told, Leader};
use crate::options::{Shared, duration};
use crate::output::Output;
use crate::reading::unread;
use crate::roles::Roles;
use crate::seen::{confirmed, name, why_changed, why_nobody};
use crate::text::{clean, lasted, stamp, wall_clock};
use crate::trust::Trust;

/// How long is waited at most for a heartbeat of each leader, before the state is told.
const HEARTBEAT: Duration = Duration::from_millis(2500);

/// What a shell makes of a command that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

const MORE: &str = "\
Each line has the time in UTC, the role, the old and the new leader, and the cause:
  claimed          a new leader claimed the role
  handed over      the heir that the last leader had named claimed it
  freed            the leader freed it; with `for an heir` if it named one
  lease ran out    the leader sent no heartbeat for a whole lease
  key deleted      somebody deleted the key, or the server let it expire
  found            the state of the role when the connection came back
  out of sight     the lease has passed while NATS was out of reach: the role may still be led
  not trusted      no key of --key and --keys-file signed the record
  new bucket       the bucket was deleted and created again

A line of its own says that the connection broke, and that it is back. In between the command
does not report any leader as gone. If a lease passes unseen, the role is `out of sight`, which is
not free.

If no address takes a connection at the start, the command goes on trying for --timeout.

Exit codes: those of `nats-elect --help`. 0 after Ctrl-C, or when the reader of stdout has gone.
With --until-leader: 0 if each role has a leader, 3 if the time of --within is over (5 if NATS was
out of reach then), 130 after Ctrl-C

Examples:
  nats-elect watch
  nats-elect watch scheduler 'worker-*'
  nats-elect watch scheduler --until-leader --within 30s && ./deploy
  nats-elect watch --json | jq -r 'select(.event == \"change\") | [.at, .role, .cause] | @tsv'";

/// Watch leaders change
///
/// The command waits a moment for a heartbeat of each leader, as `ls` does, and prints the state of
/// the roles. Then it prints a line for each change, until Ctrl-C. It has one watch for all roles, and
/// writes nothing. It goes on by itself after the connection was lost.
///
/// With --until-leader it exits as soon as each of the named roles has a leader that was seen alive:
/// the leader claimed the role or sent a heartbeat while this command watched.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct Watch {
    /// The roles to watch, or patterns with * and ? [default: all roles of the bucket]
    roles: Vec<String>,

    /// Exit as soon as each of the roles has a leader that was seen alive
    #[arg(long, requires = "roles")]
    until_leader: bool,

    /// How long to wait for the leaders
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "until_leader")]
    within: Option<Duration>,

    #[command(flatten)]
    trust: Trust,
}

impl Watch {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        // A task: it listens before anything is told.
        let interrupted = tokio::spawn(tokio::signal::ctrl_c());
        tokio::select! {
            ended = self.watch(shared, output) => ended,
            _ = interrupted => Ok(if self.until_leader { INTERRUPTED } else { 0 }),
        }
    }

    async fn watch(&self, shared: &Shared, output: Output) -> Outcome {
        let mut late = pin!(passed(self.within));
        let roles = Roles::of(&self.roles);
        if self.until_leader && roles.names().is_none() {
            return Err(Failure::usage(
                "--until-leader needs the names of the roles: a pattern has no end",
            ));
        }
        let observer = shared.observer(roles.names(), &self.trust, true).await?;
        let mut printer = Printer {
            output,
            roles,
            width: 0,
        };
        if !self.until_leader {
            confirmed(&observer, HEARTBEAT).await;
        }
        let mut changes = observer.changes();
        printer.present(&observer)?;
        let mut led = pin!(self.led(&observer));
        let mut unread = pin!(unread());
        loop {
            tokio::select! {
                biased;
                change = changes.next() => match change {
                    Some(change) => printer.tell(&change, &observer)?,
                    None => return Err(Failure::failed("the observer has ended: start again")),
                },
                ended = &mut led => {
                    printer.present(&observer)?;
                    return ended;
                }
                () = &mut late => return Err(self.too_late(&observer)),
                () = &mut unread => return Ok(0),
            }
        }
    }

    /// Until each of the roles has a leader, if that is what is waited for.
    async fn led(&self, observer: &Observer) -> Outcome {
        if !self.until_leader {
            return std::future::pending().await;
        }
        let each = self.roles.iter().map(|role| observer.wait_for_leader(role));
        try_join_all(each).await?;
        Ok(0)
    }

    fn too_late(&self, observer: &Observer) -> Failure {
        let roles = self.roles.join(", ");
        match observer.connection() {
            WatchStatus::Stale { since, reason } => Failure::unreachable(format!(
                "no leader of {roles} was seen in time; nothing arrived for {}: {reason}",
                lasted(since)
            )),
            _ => Failure::not_found(format!("no leader of {roles} was seen in time")),
        }
    }
}

/// How things are told.
struct Printer<'a> {
    output: Output,
    roles: Roles<'a>,
    /// Of the longest role so far.
    width: usize,
}

impl Printer<'_> {
    fn present(&mut self, observer: &Observer) -> io::Result<()> {
        let mut roles = observer.roles();
        let is_empty = roles.is_empty();
        roles.retain(|role, _| self.roles.has(role));
        if is_empty {
            self.output
                .note("no role was ever led in the bucket; waiting");
        }
        let longest = roles.keys().map(String::len).max();
        self.width = self.width.max(longest.unwrap_or(0));
        roles
            .iter()
            .try_for_each(|(role, seen)| self.stands(role, seen))
    }

    /// How a role stands.
    fn stands(&self, role: &str, seen: &Observed) -> io::Result<()> {
        let now = stamp(wall_clock());
        let told = json!({
            "event": "present",
            "at": now,
            "role": role,
            "from": null,
            "to": seen.leader.as_ref().map(Leader::from),
            "standing": seen.standing,
            "cause": null,
            "confirmed": seen.confirmed,
        });
        let (who, how) = match &seen.leader {
            Some(leader) if seen.confirmed => (name(leader), "leads".to_owned()),
            Some(leader) => (name(leader), "leads, but no heartbeat was seen yet".into()),
            None => ("–".into(), format!("nobody leads: {}", why_nobody(seen))),
        };
        let width = self.width;
        let line = format!("{now}  {role:<width$}  {who}  {how}");
        self.output.tell(&told, [line])
    }

    fn tell(&mut self, change: &Change, observer: &Observer) -> io::Result<()> {
        let now = stamp(wall_clock());
        match change {
            Change::Role(change) if !self.roles.has(&change.role) => Ok(()),
            Change::Role(change) => self.changed(change),
            Change::Stale { reason } => self.output.tell(
                &json!({ "event": "stale", "at": now, "reason": reason }),
                [format!(
                    "{now}  NATS is out of reach: {}; the leaders above may have changed",
                    clean(reason)
                )],
            ),
            Change::Current => self.output.tell(
                &json!({ "event": "current", "at": now }),
                [format!("{now}  NATS is back: reports are current again")],
            ),
            Change::Lagged { missed } => {
                self.output.tell(
                    &json!({ "event": "lagged", "at": now, "missed": missed }),
                    [format!("{now}  too slow: missed {missed} of the changes")],
                )?;
                self.present(observer)
            }
            _ => Ok(()),
        }
    }

    fn changed(&mut self, change: &RoleChange) -> io::Result<()> {
        self.width = self.width.max(change.role.len());
        let of = |leader: &Option<LeaderInfo>| leader.as_ref().map_or_else(|| "–".into(), name);
        let (from, to) = (of(&change.from), of(&change.to));
        let why = why_changed(change);
        let (at, role, width) = (stamp(change.at), &change.role, self.width);
        let line = format!("{at}  {role:<width$}  {from} → {to}  {why}");
        self.output.tell(&Told::from(change), [line])
    }
}

async fn passed(within: Option<Duration>) {
    match within {
        Some(within) => tokio::time::sleep(within).await,
        None => std::future::pending().await,
    }
}
