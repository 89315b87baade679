//! `role retire`: removes what a role that nobody uses any more has left in the bucket.

use std::cell::Cell;
use std::time::Duration;

use async_nats::jetstream::kv::{Store, UpdateErrorKind};
use async_nats::jetstream::stream::PurgeErrorKind;
use clap::Args;
use futures::StreamExt;
use nats_elect::RoleName;
use nats_elect::admin::AdminClient;
use serde_json::json;

use crate::confirm::{can_be_confirmed, confirm};
use crate::exit::{Code, Failure, Outcome};
use crate::instances::{Whose, members, operating};
use crate::options::Shared;
use crate::output::Output;
use crate::progress::progress;
use crate::record::Written;
use crate::text::{clean, lasted};

/// The lease of a leader that does not tell it, where keys do not expire: the default of candidates.
const UNTOLD: Duration = Duration::from_secs(15);
/// The longest lease that a candidate of this library can have.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// How long the marker stands. A server never sends a watch what is purged before its turn comes, and
/// nothing tells whether all watches have had it.
const SHOWN: Duration = Duration::from_secs(1);

const MORE: &str = "\
The command asks all instances, and refuses if one takes part in the role's election or does not
say. Then it waits for the lease of the role's last leader, 15s by default: so an instance without
an admin service shows itself, because everything that it does writes to the role's key. If
anything was written, the command refuses. At last it removes the role's record and its fence
record.

An instance that the command can't see may come back. It then claims the role as a new one. That
is safe: its fencing token is greater than all before. Observers that run, `watch` and `top` show
the role as deleted until they start anew.

Exit codes: those of `nats-elect --help`. 3 also if nothing of the role is in the bucket. 4 also
if an instance takes part in the election, somebody wrote to the role's keys, or the operator did
not confirm. The message says whether the removal has begun

Examples:
  nats-elect role retire scheduler          shows what there is, and asks for a confirmation
  nats-elect role retire scheduler --yes    for scripts
  nats-elect role retire scheduler --data   also removes what its leaders kept by `Term::store()`";

/// Remove what a role that is no longer used has left in the bucket
///
/// A role that is not in the configuration of any instance any more stays in the bucket, and so in
/// `ls`. This command removes it. It is refused while an instance takes part in the role's election,
/// and while a lease may last.
///
/// The user needs the permissions of deploy/nats/retire.conf.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct Retire {
    /// The role
    role: RoleName,

    /// Do not ask for a confirmation, for scripts
    #[arg(short, long)]
    yes: bool,

    /// Also remove the data that the role's leaders kept
    #[arg(long)]
    data: bool,
}

/// What a role has in the bucket.
struct Found {
    record: Option<Written>,
    fence: Option<Written>,
    has_guard: bool,
    data_keys: usize,
    /// The bucket's last sequence before all of this was read.
    last_sequence: u64,
    max_age: Option<Duration>,
}

impl Retire {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        can_be_confirmed(
            self.yes,
            "--yes retires the role without a confirmation: use it only if no program uses the role any more",
        )?;
        progress(output, "asking the instances whether they use the role");
        self.refuse_if_used(shared).await?;
        let look = async |bucket| Found::read(&bucket, self.role.as_str()).await;
        let found = shared.in_bucket(look).await?;
        self.refuse_if_nothing(&found)?;
        for line in found.words(self.role.as_str()) {
            output.note(&line);
        }
        if !self.yes {
            let data = if self.data { " and its data" } else { "" };
            let role = &self.role;
            let question = format!("Is {role} used by no program any more? Remove it{data}?");
            confirm(&question).await?;
        }
        let lease = found.lease();
        let what = "the lease of the last leader; until then nothing is removed";
        progress(output, &format!("waiting {}, {what}", lasted(lease)));
        tokio::time::sleep(lease).await;
        self.refuse_if_used(shared).await?;
        let stage = Cell::new("nothing was removed");
        let remove = async |bucket: Store| self.remove(&bucket, &found, &stage).await;
        let data_removed = shared.in_bucket(remove).await.map_err(|mut failure| {
            failure.what = format!("{}; {}", failure.what, stage.get());
            failure
        })?;
        let revision = |of: &Option<Written>| of.as_ref().map(|it| it.revision);
        let told = json!({
            "role": self.role,
            "revision": revision(&found.record),
            "fence_revision": revision(&found.fence),
            "data_keys": found.data_keys,
            "data_keys_removed": data_removed,
        });
        let removed = format!("{}: {data_removed} data keys removed", self.role);
        let removed = self.data.then_some(removed);
        let retired = format!("{}: retired", self.role);
        output.tell(&told, [retired].into_iter().chain(removed))?;
        if !self.data && found.data_keys > 0 {
            output.note(&format!(
                "{} data keys of its leaders remain: the same command with --data removes them",
                found.data_keys
            ));
        }
        Ok(0)
    }

    /// Asks all instances. Those that do not report may use it.
    async fn refuse_if_used(&self, shared: &Shared) -> Result<(), Failure> {
        let asking = async |admin: AdminClient| {
            Ok(members(&admin, self.role.as_str(), shared.patience()).await?)
        };
        let members = operating(&shared.config()?, Whose::Read, asking).await?;
        let Some(member) = members.first() else {
            return Ok(());
        };
        let who = &member.instance;
        let role = &self.role;
        Err(match &member.report {
            Ok(_) => Failure::refused(format!("{who} takes part in the election of {role:?}"))
            .advice(
                "nothing was done. Take the role out of the configuration of all instances first",
            ),
            Err(error) => Failure::refused(format!(
                "{who} runs, but does not report whether it uses {role:?}: {error}"
            ))
            .advice("nothing was done. `nats-elect candidates` shows the instances"),
        })
    }

    fn refuse_if_nothing(&self, found: &Found) -> Result<(), Failure> {
        let has_keys = found.record.is_some() || found.fence.is_some() || found.has_guard;
        if has_keys || (self.data && found.data_keys > 0) {
            return Ok(());
        }
        Err(Failure::not_found(format!(
            "the role {:?} is not in the bucket: nothing was done",
            self.role
        ))
        .advice(format!(
            "`nats-elect ls` lists the roles. {} data keys of its leaders are there: --data removes them",
            found.data_keys
        )))
    }

    /// Somebody has written to the role's keys.
    fn in_use(&self, record: Option<&Written>) -> Failure {
        let role = &self.role;
        let by = match record.and_then(Written::id) {
            Some(id) => format!(", and the record is of {id:?}"),
            None => String::new(),
        };
        Failure::refused(format!("somebody wrote to the keys of {role:?}{by}: the role is in use"),
        )
        .advice("an instance whose admin service is off, or of another --admin-prefix, uses it: stop it first")
    }

    /// Removes it in an order in which candidates can handle what is left at any moment. Nothing
    /// that was written after the look is removed. Returns the number of data keys removed.
    async fn remove(
        &self,
        bucket: &Store,
        found: &Found,
        stage: &Cell<&str>,
    ) -> Result<u64, Failure> {
        let role = self.role.as_str();
        let (record, fence) = Written::of_role(bucket, role).await?;
        let message = |it: &Option<Written>| it.as_ref().map(|it| (it.revision, it.time));
        let stood = (message(&found.record), message(&found.fence));
        if (message(&record), message(&fence)) != stood {
            return Err(self.in_use(record.as_ref()));
        }
        // It guards nothing any more. So this shows whether the user may purge at all.
        purge(bucket, &format!("_guard.{role}"), found.last_sequence).await?;
        // Only this proves that nobody has written: a read may be stale. Watches show it, too.
        let over = found.record.as_ref().map_or(0, |it| it.revision);
        self.mark(bucket, over).await?;
        stage.set("the removal has begun: run the command again if nobody uses the role");
        tokio::time::sleep(SHOWN).await;
        let record = Written::read(bucket, role).await?;
        let Some(marker) = record.as_ref().filter(|it| it.is_marker()) else {
            return Err(self.in_use(record.as_ref()));
        };
        purge(bucket, role, marker.revision).await?;
        let (record, _) = Written::of_role(bucket, role).await?;
        if record.is_some() {
            return Err(self.in_use(record.as_ref()));
        }
        if let Some(fence) = &found.fence {
            purge(bucket, &format!("_fence.{role}"), fence.revision).await?;
        }
        let (record, fence) = Written::of_role(bucket, role).await?;
        if record.is_some() || fence.is_some() {
            return Err(self.in_use(record.as_ref()));
        }
        if !self.data {
            return Ok(0);
        }
        // The server refuses the writes of all earlier terms from here on.
        let data = format!("_data.{role}.>");
        purge(bucket, &data, found.last_sequence).await
    }

    /// Writes a delete marker over the revision that was watched.
    async fn mark(&self, bucket: &Store, over: u64) -> Result<(), Failure> {
        let marked = bucket
            .delete_expect_revision(self.role.as_str(), Some(over))
            .await;
        marked.map_err(|error| {
            if error.kind() == UpdateErrorKind::WrongLastRevision {
                return self.in_use(None);
            }
            Failure::unreachable(format!(
                "the role's key could not be marked as deleted: {error}"
            ))
            .advice("run the command again")
        })
    }
}

impl Found {
    async fn read(bucket: &Store, role: &str) -> Result<Self, Failure> {
        // As of the moment when the bucket was opened.
        let info = bucket.stream.cached_info();
        let (record, fence) = Written::of_role(bucket, role).await?;
        let guard = Written::read(bucket, &format!("_guard.{role}")).await?;
        let max_age = info.config.max_age;
        Ok(Self {
            record,
            fence,
            has_guard: guard.is_some(),
            data_keys: data_keys(bucket, role).await?,
            last_sequence: info.state.last_sequence,
            max_age: (!max_age.is_zero()).then_some(max_age),
        })
    }

    /// The longest lease that may last, whoever has it.
    fn lease(&self) -> Duration {
        let untold = self.max_age.unwrap_or(UNTOLD);
        let lease = |written: &Option<Written>| {
            let written = written.as_ref().filter(|it| !it.is_marker())?;
            Some(written.ttl().unwrap_or(untold))
        };
        let longest = lease(&self.record).max(lease(&self.fence));
        longest.unwrap_or(untold).min(LONGEST)
    }

    fn words(&self, role: &str) -> Vec<String> {
        let title = |written: &Option<Written>| match written {
            Some(written) => match written.id() {
                Some(id) => format!("{}, of {id:?}", written.title()),
                None => written.title(),
            },
            None => "none".into(),
        };
        vec![
            role.to_owned(),
            format!("  record        {}", title(&self.record)),
            format!("  fence record  {}", title(&self.fence)),
            format!("  data          {} keys", self.data_keys),
        ]
    }
}

async fn data_keys(bucket: &Store, role: &str) -> Result<usize, Failure> {
    let unread = |error: &dyn std::fmt::Display| {
        let what = format!("the role's data could not be counted: {error}");
        Failure::unreachable(what)
    };
    let filter = format!("{}_data.{role}.>", bucket.prefix);
    let subjects = bucket.stream.info_with_subjects(filter).await;
    let mut subjects = subjects.map_err(|error| unread(&error))?;
    let mut count = 0;
    while let Some(subject) = subjects.next().await {
        subject.map_err(|error| unread(&error))?;
        count += 1;
    }
    Ok(count)
}

/// Removes the messages under these keys up to that sequence, and none after it. Returns how many.
async fn purge(bucket: &Store, keys: &str, through: u64) -> Result<u64, Failure> {
    let filter = format!("{}{keys}", bucket.prefix);
    let request = bucket.stream.purge().filter(filter);
    // A bound of 1 would be none to the server. No message has the sequence 0.
    let purged = request.sequence(through.max(1) + 1).await;
    let purged = purged.map_err(|error| {
        let code = match error.kind() {
            PurgeErrorKind::JetStream(_) => Code::Refused,
            PurgeErrorKind::Request | PurgeErrorKind::TimedOut => Code::Unreachable,
        };
        let what = format!("the key {:?} could not be removed: {error}", clean(keys));
        Failure::new(code, what)
    })?;
    Ok(purged.purged)
}
