//! The evidence that the work of a term has ended, where it goes on in other processes for a moment
//! after the death of the parent.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::thread;

use tokio::sync::watch;

use crate::model::bequests::{Lease, Will};
use nats_elect_core::name::RoleName;
use nats_elect_core::token::FencingToken;

/// A term, by its role. A line that was written too early, for an earlier term of the role, is no
/// evidence for this one.
type OfTerm = (RoleName, FencingToken);

/// What is needed beside the death of the parent.
#[derive(Clone)]
pub(super) enum Evidence {
    /// Nothing.
    Death,
    /// The line about the term, from the processes that do its work.
    Told(watch::Receiver<BTreeSet<OfTerm>>),
}

/// The line which tells that nothing works for a term of a role any more, without its end. It is
/// the role's name, a space, and the text of the term's fencing token.
///
/// For those who tell a companion: see
/// [`last_will_after`](crate::RoleManagerBuilder::last_will_after).
///
/// ```
/// # use nats_elect::{FencingToken, last_will};
/// let term = FencingToken { epoch: 1_790_000_000_000_000_000, sequence: 100 };
/// let line = last_will::line_of_end("jobs", term);
/// assert_eq!(line, "jobs 18d75b8423f300000000000000000064");
/// ```
pub fn line_of_end(role: &str, term: FencingToken) -> String {
    format!("{role} {term}")
}

fn parse(line: &str) -> Option<OfTerm> {
    let (role, term) = line.split_once(' ')?;
    Some((RoleName::new(role).ok()?, term.parse().ok()?))
}

impl Evidence {
    /// Listens to those who tell. Call it once the parent is dead.
    pub fn listen(ends: Option<OwnedFd>) -> Self {
        let Some(ends) = ends else {
            return Self::Death;
        };
        let (tell, told) = watch::channel(BTreeSet::new());
        thread::spawn(move || {
            let mut ends = BufReader::new(File::from(ends));
            let mut line = String::new();
            // A line without an end is the beginning of something else.
            while let Ok(1..) = ends.read_line(&mut line)
                && let Some(text) = line.strip_suffix('\n')
            {
                if let Some(of_term) = parse(text) {
                    tell.send_if_modified(|terms| terms.insert(of_term));
                }
                line.clear();
            }
        });
        Self::Told(told)
    }

    /// Waits for the evidence, for a lease at most. Returns whether it is there.
    ///
    /// A member's lease is for many units, and no line tells that nothing works for any of them.
    pub async fn of(self, lease: &Lease, will: &Will) -> bool {
        let Self::Told(mut told) = self else {
            return true;
        };
        let (Lease::Role(role), Will::Term(term)) = (lease, will) else {
            return false;
        };
        let of_term = (role.clone(), term.fencing_token);
        // It fails when nobody is left who could tell.
        let told = told.wait_for(|terms| terms.contains(&of_term));
        matches!(tokio::time::timeout(term.lease, told).await, Ok(Ok(_)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use nats_elect_core::Bequest;
    use nats_elect_core::assignment::Epoch;
    use nats_elect_core::heirs::Heirs;
    use nats_elect_core::name::GroupName;
    use nats_elect_core::release::ReleaseSecret;
    use uuid::Uuid;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(1);

    fn token(sequence: u64) -> FencingToken {
        FencingToken { epoch: 1, sequence }
    }

    fn term(sequence: u64, lease: Duration) -> Will {
        Will::Term(Bequest {
            incarnation: Uuid::nil(),
            fencing_token: token(sequence),
            revision: sequence + 1,
            secret: ReleaseSecret::new(17),
            line: Heirs::NONE,
            lease,
        })
    }

    #[tokio::test]
    async fn each_term_waits_for_its_own_line_and_none_for_longer_than_somebody_could_tell() {
        let (ends, mut tell) = std::io::pipe().expect("a pipe");
        let evidence = Evidence::listen(Some(ends.into()));
        let [a, b] = ["a", "b"].map(|role| Lease::Role(RoleName::new(role).expect("a name")));
        let mut say = |line: String| tell.write_all(line.as_bytes()).expect("a reader");
        let of = |role, term| {
            let evidence = evidence.clone();
            async move { evidence.of(role, &term).await }
        };
        assert!(!of(&a, term(3, SHORT)).await);
        say("no name\n\n".into());
        say(format!("{}\n", line_of_end("a", token(3))));
        assert!(of(&a, term(3, LONG)).await);
        // An earlier line frees no later term, and none frees another role.
        assert!(!of(&a, term(5, SHORT)).await);
        assert!(!of(&b, term(3, SHORT)).await);
        // The name alone is no evidence, nor half a line.
        say(format!("b\nb \n b\nb {}x\n", token(7)));
        say(line_of_end("b", token(7)));
        drop(tell);
        assert!(!of(&b, term(7, LONG)).await);
        assert!(Evidence::listen(None).of(&b, &term(7, SHORT)).await);
    }

    #[tokio::test]
    async fn no_line_frees_a_member_whatever_it_says() {
        let epoch = Epoch::new([7; 16]);
        let (ends, mut tell) = std::io::pipe().expect("a pipe");
        for name in [epoch.to_string(), "partitions".to_owned()] {
            let line = line_of_end(&name, token(3));
            writeln!(tell, "{line}").expect("a reader");
        }
        let group = GroupName::new("partitions").expect("a name");
        let member = Lease::Member(group, epoch);
        let will = Will::Epoch {
            bucket: 1,
            ttl: LONG,
        };
        assert!(!Evidence::listen(Some(ends.into())).of(&member, &will).await);
        assert!(Evidence::listen(None).of(&member, &will).await);
    }
}
