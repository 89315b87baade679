//! What `doctor` looks at: one file for each part of what an election stands on.
//!
//! Nothing here can change a bucket: the only messages to its keys carry two conditions that no
//! stream can fulfil.

pub mod bucket;
pub mod crash;
pub mod examined;
pub mod findings;
pub mod fleet;
pub mod groups;
pub mod pace;
pub mod permissions;
pub mod records;
pub mod server;
mod unreadable;

use self::examined::{Examined, Part};
use self::findings::Findings;
use self::records::Left;

impl Examined<'_> {
    pub async fn examine(&self, findings: &mut Findings) {
        server::check(self.line, self.config, findings);
        let mut left = Vec::new();
        if self.part == Part::Operator {
            findings.skipped("bucket", "an operator needs none");
        } else {
            server::user(self.line, findings).await;
            left = self.place(findings).await;
        }
        self.messages(findings).await;
        self.instances(&left, findings).await;
    }

    /// Looks at the bucket. Returns the roles that nobody claims.
    async fn place(&self, findings: &mut Findings) -> Vec<Left> {
        let line = self.line;
        let found = bucket::check(line, self.bucket(), self.roles.named(), findings).await;
        server::limits(line, findings).await;
        let Some(found) = found else {
            return Vec::new();
        };
        let readable = self.reading(findings).await;
        let mut seen = None;
        if readable {
            seen = groups::read(self.config, findings).await;
            if seen.is_none() {
                self.unreadable(findings).await;
            }
        }
        let candidate = self.part == Part::Candidate;
        let mut written = None;
        if candidate {
            if self.groups.is_empty() || !self.roles.made_up {
                written = self.writing(findings).await;
            }
            self.owning(seen.as_ref(), findings).await;
            let standing = seen.iter().flat_map(|seen| seen.groups.keys());
            let first = self.groups.iter().chain(standing).next();
            bucket::max_age_of_groups(first, &found, findings);
        }
        if readable || written.is_some() {
            pace::round_trips(self, written, findings).await;
        }
        if candidate {
            for times in self.times {
                bucket::max_age_against(&times.role, times.settings.ttl, &found, findings);
                pace::tolerance(times, &found, findings);
            }
        }
        let mut left = Vec::new();
        if readable {
            left = records::check(self, &found, findings).await;
        }
        if let Some(seen) = &seen {
            groups::check(seen, self.groups, findings);
        }
        left
    }
}
