//! `ls`: who leads what.

use std::collections::BTreeMap;

use clap::Args;
use nats_elect::{Observed, Standing};

use crate::columns::Layout;
use crate::exit::{Failure, Outcome};
use crate::fleet::Role;
use crate::options::{Heartbeats, Shared};
use crate::output::Output;
use crate::roles::Roles;
use crate::seen::{coloured, confirmed, led_for, state, who};
use crate::text::{bar, lasted, stamp};
use crate::trust::Trust;

const LAYOUT: Layout = Layout {
    all: "ROLE STATE LEADER FOR LEASE FENCING REVISION PRIORITY SINCE",
    wide: "PRIORITY SINCE",
    flexible: "LEADER",
};

const MORE: &str = "\
Columns:
  ROLE      the role, which is its key in the bucket
  STATE     confirmed    the leader is alive: it sent a heartbeat while this command watched
            unconfirmed  there is a record, but no heartbeat came yet: the leader may be dead
            untrusted    there is a record, but no key of --key and --keys-file signed it
            free         nobody leads: any candidate may claim the role
            expired      the last leader sent no heartbeat for a whole lease: as free
            unknown      NATS can't be asked whether the role is led
  LEADER    the leader's instance id, or why there is none
  FOR       how long it has led, by the clock of the NATS server
  LEASE     the rest of the lease if no heartbeat comes
  FENCING   the end of the term's fencing token, greater in the later term; --json has all of it
  REVISION  the revision of the role's key; each heartbeat makes a new one
  PRIORITY  of the leader, with --output wide
  SINCE     when the term began, by the clock of the NATS server, with --output wide
The table shortens names to 48 characters; --output wide has all of them, and whole tokens.

Exit codes: those of `nats-elect --help`. 3 also if one of the roles of --role has no leader

Examples:
  nats-elect ls
  nats-elect ls --role scheduler && echo it has a leader
  nats-elect ls --role 'worker-*'
  nats-elect ls --keys-file trusted.txt
  nats-elect ls --json | jq -r 'select(.confirmed) | [.role, .leader.instance_id] | @tsv'";

/// List the roles and their leaders
///
/// The command reads the bucket. It writes nothing and needs no running instance. The record of a
/// leader that died a second ago looks like the record of a living one. So the command waits a
/// moment for a heartbeat of each leader, and marks leaders without one as unconfirmed.
///
/// With --key or --keys-file it lists only leaders whose records one of these keys signed.
#[derive(Debug, Args)]
#[command(visible_alias = "list", after_long_help = MORE)]
pub struct Ls {
    /// Show only this role, and exit with 3 if nobody leads it; may be repeated. With * and ? it
    /// is a pattern, and each role that matches it must have a leader
    #[arg(short, long = "role", value_name = "ROLE")]
    roles: Vec<String>,

    #[command(flatten)]
    heartbeats: Heartbeats,

    #[command(flatten)]
    trust: Trust,
}

impl Ls {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let roles = Roles::of(&self.roles);
        let observer = shared.observer(roles.names(), &self.trust, false).await?;
        confirmed(&observer, self.heartbeats.wait).await;
        let mut seen = observer.roles();
        let is_empty = seen.is_empty();
        seen.retain(|role, _| roles.has(role));
        if output.is_data() {
            for (role, seen) in &seen {
                output.data(&Role::of(role, seen))?;
            }
        } else if is_empty {
            let name = shared.config()?.bucket;
            output.note(&format!(
                "no role was ever led in bucket {name:?}; `nats-elect group ls` shows its groups"
            ));
        } else if !seen.is_empty() {
            table(&seen, output)?;
        }
        let is_unled = |it: &Observed| it.standing != Standing::Led;
        let unled = seen.iter().filter(|(_, it)| is_unled(it));
        let mut unled: Vec<_> = unled.map(|(role, _)| role.as_str()).collect();
        let known: Vec<_> = seen.keys().map(String::as_str).collect();
        unled.extend(roles.missing(&known));
        if self.roles.is_empty() || unled.is_empty() {
            return Ok(0);
        }
        let what = format!("without a leader: {}", unled.join(", "));
        Err(Failure::not_found(what))
    }
}

fn table(seen: &BTreeMap<String, Observed>, output: Output) -> std::io::Result<()> {
    let none = || "–".to_owned();
    let rows = seen.iter().map(|(role, observed)| {
        let led_for = led_for(observed).map(lasted);
        let token = observed.fencing_token.map(|it| output.token(it));
        let lease = observed.remaining.zip(observed.ttl);
        let lease = lease.map(|(left, ttl)| format!("{} {}", bar(left, ttl, 5), lasted(left)));
        let revision = observed.revision.map(|revision| revision.to_string());
        let priority = observed.leader.as_ref().map(|it| it.priority.to_string());
        vec![
            output.name(role).into(),
            coloured(state(observed)),
            output.name(&who(observed)).into(),
            led_for.unwrap_or_else(none).into(),
            lease.unwrap_or_else(none).into(),
            token.unwrap_or_else(none).into(),
            revision.unwrap_or_else(none).into(),
            priority.unwrap_or_else(none).into(),
            observed.since_at.map_or_else(none, stamp).into(),
        ]
    });
    LAYOUT.show(rows, output)?;
    let unproven = seen
        .values()
        .filter(|it| it.leader.is_some() && !it.confirmed);
    let unproven = unproven.count();
    if unproven > 0 {
        output.note("");
        output.note(&format!(
            "{unproven} unconfirmed: there is a record, but no heartbeat came yet. Try again after a lease, or with a longer --wait"
        ));
    }
    Ok(())
}
