//! Random histories of two roles: the changes form a chain, and nobody is free while led.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// An event that may happen next to one of two roles.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Written(u128),
    Freed(u8),
    Fenced(u128),
    Waited(u64),
    Looked(bool),
    Lost,
    Back { same_bucket: bool },
}

fn happening() -> impl Strategy<Value = (bool, Happening)> {
    let what = prop_oneof![
        4 => (1..4_u128).prop_map(Happening::Written),
        2 => (0..4_u8).prop_map(Happening::Freed),
        1 => (1..4_u128).prop_map(Happening::Fenced),
        4 => (0..LEASE * 3 / 2).prop_map(Happening::Waited),
        3 => any::<bool>().prop_map(Happening::Looked),
        1 => Just(Happening::Lost),
        2 => any::<bool>().prop_map(|same_bucket| Happening::Back { same_bucket }),
    ];
    (any::<bool>(), what)
}

/// The bucket itself, and an observer of it.
struct World {
    stage: Stage,
    bucket: BTreeMap<&'static str, Entry>,
    sequence: u64,
    epoch: u64,
    asked: BTreeSet<RoleName>,
    watched: bool,
    told: BTreeMap<String, (Option<String>, Standing)>,
}

impl World {
    fn happens(&mut self, name: &'static str, what: Happening) {
        let now = self.stage.now();
        match what {
            Happening::Written(id) => {
                self.sequence += 1;
                self.write(name, record(id, self.sequence));
            }
            Happening::Freed(kind) => {
                self.sequence += 1;
                let heir = Uuid::from_u128(1);
                let content = match kind {
                    0 => Content::Release(Release::default()),
                    1 => Content::Release(Release {
                        heir: Some(heir),
                        ..Release::default()
                    }),
                    2 => Content::ForeignMarker,
                    _ => Content::Opaque,
                };
                self.write(name, marker(self.sequence, content));
            }
            Happening::Fenced(id) => {
                self.sequence += 1;
                if self.watched {
                    let fence = fence(id, self.sequence);
                    self.stage
                        .tracked_roles
                        .fence(&role(name), fence, None, now);
                }
            }
            Happening::Waited(ms) => {
                let due = self.stage.wait(ms);
                assert!(self.watched || due.is_empty(), "a look without a watch");
                self.asked.extend(due);
            }
            Happening::Looked(answered) => {
                for role in std::mem::take(&mut self.asked) {
                    let stands = self.bucket.get(role.as_str()).cloned();
                    let found = answered.then(|| found(stands));
                    let found = found.map(|found| (found, Written::default()));
                    self.stage.tracked_roles.looked(&role, found, now);
                }
            }
            Happening::Lost => {
                self.watched = false;
                self.asked.clear();
                self.stage.tracked_roles.watch_ended("lost".into());
            }
            Happening::Back { same_bucket } => {
                if !same_bucket {
                    self.epoch += 1;
                    self.sequence = 0;
                    self.bucket.clear();
                }
                self.stage.tracked_roles.watch_ended("anew".into());
                self.asked.clear();
                self.watched = true;
                let stands: Vec<_> = self.bucket.clone().into_iter().collect();
                self.stage.watch(self.epoch, &stands);
            }
        }
    }

    fn write(&mut self, name: &'static str, entry: Entry) {
        self.bucket.insert(name, entry.clone());
        if self.watched {
            self.stage
                .tracked_roles
                .role(&role(name), entry, None, self.stage.now());
        }
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        for change in self.stage.changes() {
            let name = |leader: Option<crate::LeaderInfo>| leader.map(|one| one.instance_id);
            let (from, to) = (name(change.from), (name(change.to), change.standing));
            let before = self.told.insert(change.role, to.clone());
            let led = before.as_ref().and_then(|(leader, _)| leader.clone());
            prop_assert_eq!(&from, &led, "the changes are a chain");
            prop_assert_ne!(before, Some(to.clone()), "nothing is told twice");
            prop_assert_eq!(to.0.is_some(), to.1 == Standing::Led);
        }
        for (name, observed) in self.stage.tracked_roles.all(self.stage.now().clock) {
            let leader = observed.leader.clone().map(|leader| leader.instance_id);
            let told = self.told.get(&name).cloned();
            let told = told.unwrap_or((None, Standing::Unclaimed));
            let is = (leader, observed.standing);
            // No report was ever made about this role.
            let unseen = is == (None, Standing::Unknown) && told == (None, Standing::Unclaimed);
            prop_assert!(is == told || unseen, "{is:?} is told as {told:?}");
            prop_assert!(observed.leader.is_some() || !observed.confirmed);
            if let (Some(ttl), Some(age), Some(left)) =
                (observed.ttl, observed.age, observed.remaining)
            {
                prop_assert_eq!(left, ttl.saturating_sub(age));
            }
            if observed.standing.is_free() && self.watched {
                let stands = self.bucket.get(name.as_str());
                let dead = observed.standing == Standing::Expired && observed.age >= observed.ttl;
                prop_assert!(
                    dead || !matches!(
                        stands,
                        Some(Entry {
                            content: Content::Record(_),
                            ..
                        })
                    ),
                    "free while somebody's lease lasts"
                );
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn the_changes_always_form_a_chain_to_the_current_state(
        happenings in proptest::collection::vec(happening(), 1..80),
    ) {
        let mut world = World {
            stage: Stage::new(None),
            bucket: BTreeMap::new(),
            sequence: 0,
            epoch: EPOCH,
            asked: BTreeSet::new(),
            watched: false,
            told: BTreeMap::new(),
        };
        for (first, what) in happenings {
            world.happens(if first { "r" } else { "s" }, what);
            world.check()?;
        }
    }
}
