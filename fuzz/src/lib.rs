//! The property of an election that the target `election` tries to break: the very one that `cargo test` tries on a few
//! thousand inputs. The other properties are in `nats_elect::fuzzing`.

#[path = "../../crates/nats-elect-core/tests/fuzz/election/mod.rs"]
pub mod election;
#[path = "../../crates/nats-elect-core/tests/fuzz/peer.rs"]
mod peer;
#[path = "../../crates/nats-elect-core/tests/fuzz/message.rs"]
mod message;
