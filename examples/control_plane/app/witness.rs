//! A place for audit logs, counters and the like.

use nats_elect::FencingToken;

use super::Role;

/// Hears of everything that an instance does.
pub trait Witness: Send + Sync {
    /// The instance stands for election, and serves its metrics at this address.
    fn started(&self, _metrics: &str) {}

    /// It leads a role, and begins to work.
    fn began(&self, _role: Role, _token: FencingToken) {}

    /// It has finished a piece of work, and begins the next.
    fn worked(&self, _role: Role, _token: FencingToken, _result: String) {}

    /// Its handler has ended.
    fn ended(&self, _role: Role, _token: FencingToken) {}

    /// It sees another leader of a role, or none.
    fn sees(&self, _role: Role, _leader: Option<&str>) {}

    /// It has left every election.
    fn stopped(&self) {}
}

/// Hears nothing.
impl Witness for () {}
