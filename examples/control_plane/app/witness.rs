//! A place for audit logs, counters and the like.

use nats_elect::Term;

use super::Role;

/// Hears of everything that an instance does.
pub trait Witness: Send + Sync {
    /// It leads a role, and begins to work.
    fn began(&self, _role: Role, _term: &Term) {}

    /// It has finished a piece of work, and begins the next.
    fn worked(&self, _role: Role, _term: &Term) {}

    /// Its handler has ended.
    fn ended(&self, _role: Role, _term: &Term) {}

    /// It sees another leader of a role, or none.
    fn sees(&self, _role: Role, _leader: Option<&str>) {}
}

/// Hears nothing.
impl Witness for () {}
