//! At most one run of the command in this process, whatever number of roles it could be run for.

use std::sync::Arc;

use tokio::sync::watch;

/// Lets the handler of one role in, and no other before it is opened again.
#[derive(Clone, Debug)]
pub struct Gate(Arc<watch::Sender<State>>);

#[derive(Debug, Default)]
struct State {
    /// The role whose handler came first.
    taken_by: Option<String>,
    /// Whether that handler is in.
    is_in: bool,
    /// Whether any handler has ever come in.
    was_entered: bool,
    /// Whether no handler may come in any more.
    closed: bool,
}

/// The right to run the command. It ends when this is dropped.
#[derive(Debug)]
pub struct Pass(Gate);

impl Gate {
    pub fn open() -> Self {
        Self(Arc::default())
    }

    /// Lets a handler of this role in. `None` if another role was first, or if the gate is closed.
    pub fn enter(&self, role: &str) -> Option<Pass> {
        let enters = |state: &mut State| {
            let is_taken = state.taken_by.as_deref().is_some_and(|it| it != role);
            if is_taken || state.is_in || state.closed {
                return false;
            }
            state.taken_by = Some(role.to_owned());
            state.is_in = true;
            state.was_entered = true;
            true
        };
        self.0.send_if_modified(enters).then(|| Pass(self.clone()))
    }

    /// Waits until a handler came in, and returns its role.
    pub async fn taken(&self) -> String {
        let mut state = self.0.subscribe();
        let taken = state.wait_for(|state| state.taken_by.is_some()).await;
        match taken.ok().and_then(|state| state.taken_by.clone()) {
            Some(role) => role,
            // This gate holds the sender.
            None => std::future::pending().await,
        }
    }

    /// Whether a handler came in since the gate was opened.
    pub fn is_taken(&self) -> bool {
        self.0.borrow().taken_by.is_some()
    }

    /// Whether the command is run.
    pub fn is_in(&self) -> bool {
        self.0.borrow().is_in
    }

    /// Whether any handler has ever come in.
    pub fn was_entered(&self) -> bool {
        self.0.borrow().was_entered
    }

    /// Waits until no handler is in.
    pub async fn left(&self) {
        // This gate holds the sender.
        let _ = self.0.subscribe().wait_for(|state| !state.is_in).await;
    }

    /// Lets the handlers of all roles come again, unless one is in. Returns whether that is so.
    pub fn reopen(&self) -> bool {
        self.0.send_if_modified(|state| {
            if state.is_in {
                return false;
            }
            state.taken_by = None;
            true
        })
    }

    /// Lets no handler in any more, unless one has ever come. Returns whether that is so.
    pub fn close(&self) -> bool {
        self.0.send_if_modified(|state| {
            state.closed |= !state.was_entered;
            state.closed
        })
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.is_in = false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_role_alone_comes_in_until_the_gate_is_opened_again() {
        let gate = Gate::open();
        let pass = gate.enter("a");
        assert!(pass.is_some());
        assert!(gate.enter("b").is_none());
        assert!(gate.enter("a").is_none(), "it is in");
        assert!(!gate.reopen(), "it is in");
        drop(pass);
        assert!(gate.enter("b").is_none(), "the gate was not opened again");
        drop(gate.enter("a").expect("its next term"));
        assert!(gate.reopen());
        assert!(gate.enter("b").is_some());
    }

    #[test]
    fn a_gate_is_closed_only_before_a_handler_has_come() {
        let gate = Gate::open();
        assert!(gate.close());
        assert!(gate.enter("a").is_none());
        let gate = Gate::open();
        drop(gate.enter("a"));
        assert!(gate.reopen());
        assert!(!gate.close(), "its command has run");
    }
}
