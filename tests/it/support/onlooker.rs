//! An observer whose changes are recorded.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use nats_elect::{Change, ChangeCause, Observed, Observer, ObserverBuilder, RoleChange, Standing};
use nats_elect_testing::eventually;
use tokio::task::JoinHandle;

use super::{BUCKET, ROLE, SOON};

/// An observer, and all that it told. When it goes it checks that the changes of each role were a
/// chain.
pub struct Onlooker {
    pub observer: Observer,
    changes: Arc<Mutex<Vec<Change>>>,
    reader: JoinHandle<()>,
}

/// What most tests begin with.
pub fn looking_at(url: impl AsRef<str>) -> ObserverBuilder {
    Observer::builder().servers(url).bucket(BUCKET)
}

impl Onlooker {
    pub async fn start(builder: ObserverBuilder) -> Self {
        let observer = builder.start().await.expect("an observer");
        let changes = Arc::<Mutex<Vec<Change>>>::default();
        let (mut stream, pages) = (observer.changes(), Arc::clone(&changes));
        let reader = tokio::spawn(async move {
            while let Some(change) = stream.next().await {
                pages.lock().expect("no panic").push(change);
            }
        });
        Self {
            observer,
            changes,
            reader,
        }
    }

    pub fn all(&self) -> Vec<Change> {
        self.changes.lock().expect("no panic").clone()
    }

    /// The changes of a role so far.
    pub fn of(&self, role: &str) -> Vec<RoleChange> {
        let changes = self.all().into_iter();
        let of_role = changes.filter_map(|change| match change {
            Change::Role(change) if change.role == role => Some(*change),
            _ => None,
        });
        of_role.collect()
    }

    /// Waits for a change of the role of most tests, after so many others.
    pub async fn told(&self, after: usize, to: &str, cause: ChangeCause) -> RoleChange {
        let what = format!("{cause} {to}");
        eventually(SOON, &what, async || {
            let changes = self.of(ROLE).into_iter().skip(after);
            changes.into_iter().find(|change| {
                let leader = change.to.as_ref().map_or("", |leader| &leader.instance_id);
                change.cause == cause && leader == to
            })
        })
        .await
    }

    /// Waits until the role of most tests stands like this.
    pub async fn sees(&self, what: &str, is_it: impl Fn(&Observed) -> bool) -> Observed {
        eventually(SOON, what, async || {
            self.observer.role(ROLE).filter(|role| is_it(role))
        })
        .await
    }

    /// Waits until it sees this leader alive.
    pub async fn follows(&self, leader: &str) -> Observed {
        self.sees(&format!("{leader} confirmed"), |role| {
            let is_it = |one: &nats_elect::LeaderInfo| one.instance_id == leader;
            role.confirmed && role.leader.as_ref().is_some_and(is_it)
        })
        .await
    }

    pub async fn is_stale(&self) {
        eventually(SOON, "staleness", async || {
            (!self.observer.connection().is_current()).then_some(())
        })
        .await;
    }

    pub async fn is_current(&self) {
        eventually(SOON, "sight", async || {
            self.observer.connection().is_current().then_some(())
        })
        .await;
    }
}

impl Drop for Onlooker {
    fn drop(&mut self) {
        self.reader.abort();
        if std::thread::panicking() {
            eprintln!("told: {:#?}\nroles: {:#?}", self.all(), self.observer);
            return;
        }
        let changes = self.all();
        let mut last = std::collections::BTreeMap::new();
        for change in &changes {
            let Change::Role(change) = change else {
                continue;
            };
            let leader = |one: &Option<nats_elect::LeaderInfo>| {
                one.as_ref()
                    .map(|one| (one.instance_id.clone(), one.incarnation))
            };
            assert_eq!(change.to.is_some(), change.standing == Standing::Led);
            let to = leader(&change.to);
            if let Some(before) = last.insert(change.role.clone(), to) {
                assert_eq!(before, leader(&change.from), "{change:?}");
            }
        }
    }
}
