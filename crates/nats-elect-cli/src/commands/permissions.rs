//! `permissions`: what to grant a NATS user.

use std::fmt::Write as _;

use clap::Args;
use nats_elect::permissions::{Part, Right, Scope};
use nats_elect::{GroupName, RoleName};
use serde_json::json;

use crate::exit::{Failure, Outcome};
use crate::options::Shared;
use crate::output::Output;
use crate::text::wrapped;

/// The width of comments.
const WIDTH: usize = 100;

const MORE: &str = "\
Examples:
  nats-elect permissions --role scheduler --role metrics
  nats-elect permissions --role scheduler --group partitions --nsc candidate
  nats-elect permissions --observer
  nats-elect permissions --operator --role scheduler

`nats-elect doctor` tries them, as the user that gets them. docs/security.md says what each of
them is for.";

/// Print the permissions of a NATS user, for the configuration of nats-server or for nsc
///
/// The user is a candidate for the roles and groups that are named, unless an option says
/// otherwise. The command connects to nothing.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct Permissions {
    /// A role, or several; of an operator or a retirer without any: all
    #[arg(short, long = "role", value_name = "ROLE")]
    roles: Vec<RoleName>,

    /// A group, or several; of an operator without any and without a role: all
    #[arg(short, long = "group", value_name = "GROUP")]
    groups: Vec<GroupName>,

    #[command(flatten)]
    who: Who,

    /// Print a command of nsc that grants them to this user, instead of a block for nats-server
    #[arg(long, value_name = "USER")]
    nsc: Option<String>,
}

/// Another part than that of a candidate.
#[derive(Debug, Args)]
#[group(multiple = false)]
#[expect(clippy::struct_excessive_bools, reason = "one of them at most")]
struct Who {
    /// For a user who reads the bucket, and asks instances how they are
    #[arg(long)]
    observer: bool,

    /// For a user who operates instances
    #[arg(long)]
    operator: bool,

    /// For a user who makes and edits the bucket
    #[arg(long)]
    admin: bool,

    /// For `role retire`
    #[arg(long)]
    retire: bool,
}

impl Who {
    fn part(&self) -> Part {
        let parts = [
            (self.observer, Part::Observer),
            (self.operator, Part::Operator),
            (self.admin, Part::Admin),
            (self.retire, Part::Retire),
        ];
        let named = parts.into_iter().find(|(is_named, _)| *is_named);
        named.map_or(Part::Candidate, |(_, part)| part)
    }
}

impl Permissions {
    pub fn run(self, shared: &Shared, output: Output) -> Outcome {
        let part = self.who.part();
        let mut scope = Scope::default();
        let of_roles = matches!(part, Part::Candidate | Part::Operator | Part::Retire);
        let of_groups = !matches!(part, Part::Admin | Part::Retire);
        for (names, counts, option) in [
            (self.roles.len(), of_roles, "--role"),
            (self.groups.len(), of_groups, "--group"),
        ] {
            if !counts && names > 0 {
                let what = format!("{option} changes nothing in the permissions of this user");
                return Err(Failure::usage(what).advice(format!("leave {option} out")));
            }
        }
        if part == Part::Candidate && self.roles.is_empty() && self.groups.is_empty() {
            return Err(Failure::usage("no role and no group is named")
                .advice("name those of the candidate with --role and --group"));
        }
        let config = shared.config()?;
        let inbox = config.inbox_prefix.unwrap_or_else(|| "_INBOX".into());
        scope.bucket = config.bucket.parse()?;
        (scope.roles, scope.groups) = (self.roles, self.groups);
        (scope.admin_prefix, scope.inbox_prefix) = (config.admin.subject_prefix, inbox);
        scope.events_prefix = config.events.subject_prefix;
        let rights: Vec<_> = scope.rights(part).collect();
        let all = |of: Granted| rights.iter().flat_map(of).collect::<Vec<_>>();
        let (publish, subscribe) = (all(|it| &it.publish), all(|it| &it.subscribe));
        let text = match &self.nsc {
            Some(user) => for_nsc(user, &rights),
            None => for_server(&rights),
        };
        let told = json!({ "publish": publish, "subscribe": subscribe });
        output.tell(&told, [text.trim_end()])?;
        Ok(0)
    }
}

/// What a right grants, of one kind.
type Granted = fn(&Right) -> &Vec<String>;

fn for_server(rights: &[Right]) -> String {
    let mut text = String::from("permissions: {\n");
    let lists: [(&str, Granted); 2] = [
        ("publish", |it| &it.publish),
        ("subscribe", |it| &it.subscribe),
    ];
    for (name, list) in lists {
        let _ = writeln!(text, "  {name}: [");
        for right in rights.iter().filter(|it| !list(it).is_empty()) {
            for line in wrapped(right.why, WIDTH) {
                let _ = writeln!(text, "    # {line}");
            }
            for subject in list(right) {
                let _ = writeln!(text, "    {subject:?}");
            }
        }
        text.push_str("  ]\n");
    }
    text + "}\n"
}

fn for_nsc(user: &str, rights: &[Right]) -> String {
    let mut text = format!("nsc edit user --name {}", quoted(user));
    for right in rights {
        for subject in &right.publish {
            let _ = write!(text, " \\\n  --allow-pub {}", quoted(subject));
        }
        for subject in &right.subscribe {
            let _ = write!(text, " \\\n  --allow-sub {}", quoted(subject));
        }
    }
    text
}

/// As a shell reads it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
