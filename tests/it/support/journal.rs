//! Who led when, as the handlers themselves saw it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use nats_elect::{FencingToken, Term};
use nats_elect_testing::eventually;

use super::SOON;
use super::clock::Stamp;

/// One run of a handler.
#[derive(Clone, Debug)]
pub struct RecordedTerm {
    pub role: String,
    pub instance: String,
    pub fencing_token: FencingToken,
    pub start: Stamp,
    /// None while the handler runs.
    pub end: Option<Stamp>,
    /// None if it runs in another process.
    pub term: Option<Term>,
}

impl RecordedTerm {
    pub fn term(&self) -> &Term {
        self.term.as_ref().expect("a term of this process")
    }

    pub fn end(&self) -> Stamp {
        self.end.expect("a handler that has ended")
    }
}

/// The runs of all handlers of a test, in the order of their starts. When it goes it checks what
/// always holds: no two handlers of a role at one time, and fencing tokens that grow from each to
/// the next.
#[derive(Clone, Debug, Default)]
pub struct Journal(Arc<Pages>);

#[derive(Debug, Default)]
struct Pages {
    terms: Mutex<Vec<RecordedTerm>>,
    overlaps_allowed: AtomicBool,
}

/// A handler that runs; its end is noted when this is dropped, however that comes about.
pub struct Running {
    journal: Journal,
    index: usize,
}

impl Journal {
    /// For the tests of what fencing is there for.
    pub fn allow_overlaps(&self) {
        self.0.overlaps_allowed.store(true, Ordering::Relaxed);
    }

    pub fn enter(&self, instance: &str, term: Term) -> Running {
        self.enter_term(RecordedTerm {
            role: term.role().to_owned(),
            instance: instance.to_owned(),
            fencing_token: term.fencing_token(),
            start: Stamp::now(),
            end: None,
            term: Some(term),
        })
    }

    pub fn enter_term(&self, recorded: RecordedTerm) -> Running {
        let mut terms = self.0.terms.lock().expect("no panic");
        terms.push(recorded);
        Running {
            journal: self.clone(),
            index: terms.len() - 1,
        }
    }

    /// All that ever was of a role.
    pub fn terms(&self, role: &str) -> Vec<RecordedTerm> {
        let terms = self.0.terms.lock().expect("no panic");
        let of_role = terms.iter().filter(|recorded| recorded.role == role);
        of_role.cloned().collect()
    }

    /// The role's last term, while its handler runs.
    pub fn running(&self, role: &str) -> Option<RecordedTerm> {
        self.terms(role).pop().filter(|last| last.end.is_none())
    }

    /// Whether the role's term number `index`, from 0, is the last, and its handler runs.
    pub fn is_in_term(&self, role: &str, index: usize) -> bool {
        let terms = self.terms(role);
        terms.len() == index + 1 && terms[index].end.is_none()
    }

    /// Waits for the start of the role's term number `index`, from 0.
    pub async fn started(&self, role: &str, index: usize) -> RecordedTerm {
        let what = format!("term {index} of role {role}");
        eventually(SOON, &what, async || {
            self.terms(role).into_iter().nth(index)
        })
        .await
    }

    /// Waits for the end of the role's term number `index`, from 0.
    pub async fn ended(&self, role: &str, index: usize) -> RecordedTerm {
        let what = format!("the end of term {index} of role {role}");
        eventually(SOON, &what, async || {
            self.terms(role)
                .into_iter()
                .nth(index)
                .filter(|recorded| recorded.end.is_some())
        })
        .await
    }
}

impl Running {
    pub fn end_at(&self, end: Stamp) {
        let mut terms = self.journal.0.terms.lock().expect("no panic");
        terms[self.index].end.get_or_insert(end);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end_at(Stamp::now());
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let mut terms = std::mem::take(self.terms.get_mut().expect("no panic"));
        terms.sort_by(|a, b| (&a.role, a.start).cmp(&(&b.role, b.start)));
        for pair in terms.windows(2).filter(|pair| pair[0].role == pair[1].role) {
            let [earlier, later] = pair else {
                unreachable!("windows of two")
            };
            assert!(
                earlier.fencing_token < later.fencing_token,
                "fencing tokens must grow: {earlier:?}, then {later:?}"
            );
            let apart = earlier.end.is_some_and(|end| end <= later.start);
            assert!(
                apart || *self.overlaps_allowed.get_mut(),
                "two handlers at one time: {earlier:?} and {later:?}"
            );
        }
    }
}
