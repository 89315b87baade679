//! The evidence that the work of a role has ended, where it goes on in other processes for a moment
//! after the death of the parent.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use nats_elect_core::name::RoleName;

/// What is needed beside the death of the parent.
#[derive(Clone)]
pub(super) enum Evidence {
    /// Nothing.
    Death,
    /// The name of the role, on a line from the processes that do its work.
    Told(watch::Receiver<BTreeSet<RoleName>>),
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
                && let Some(name) = line.strip_suffix('\n')
            {
                if let Ok(role) = RoleName::new(name) {
                    tell.send_if_modified(|roles| roles.insert(role));
                }
                line.clear();
            }
        });
        Self::Told(told)
    }

    /// Waits for the evidence, for so long at most. Returns whether it is there.
    pub async fn of(self, role: &RoleName, patience: Duration) -> bool {
        let Self::Told(mut told) = self else {
            return true;
        };
        // It fails when nobody is left who could tell.
        let told = told.wait_for(|roles| roles.contains(role));
        matches!(tokio::time::timeout(patience, told).await, Ok(Ok(_)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn each_role_waits_for_its_own_line_and_none_for_longer_than_somebody_could_tell() {
        let (ends, mut tell) = std::io::pipe().expect("a pipe");
        let evidence = Evidence::listen(Some(ends.into()));
        let [a, b] = ["a", "b"].map(|role| RoleName::new(role).expect("a name"));
        let long = Duration::from_secs(60);
        let short = Duration::from_millis(1);
        assert!(!evidence.clone().of(&a, short).await);
        tell.write_all(b"no name\n\na\n").expect("a reader");
        assert!(evidence.clone().of(&a, long).await);
        assert!(!evidence.clone().of(&b, short).await);
        tell.write_all(b"b").expect("a reader");
        drop(tell);
        assert!(!evidence.of(&b, long).await);
        assert!(Evidence::listen(None).of(&b, short).await);
    }
}
