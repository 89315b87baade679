//! Which instance leads while this one waits, on stderr.

use nats_elect::LeaderInfo;

use crate::text::clean;

/// The filter that shows the log of this module. `--quiet` leaves it out.
pub const LOGS: &str = "nats_elect::exec::waiting=info";

/// Reports who leads. It goes the way of logs, which waits for no reader.
pub fn tell(role: &str, leader: &LeaderInfo) {
    let leader = clean(&crate::seen::name(leader));
    tracing::info!("waiting for {role}: {leader} leads");
}
