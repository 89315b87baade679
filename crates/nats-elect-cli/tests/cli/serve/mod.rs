//! `serve`: elections over HTTP.

mod api;
mod browser;
#[cfg(target_os = "linux")]
mod cost;
mod events;
mod groups;
mod injection;
mod limits;
mod metrics;
mod openapi;
mod page;
#[path = "../../../../../tests/support/pypi.rs"]
mod pypi;
mod restarted;
mod server;
mod sessions;

pub use self::server::{Answer, SHORTLY, Serving, is_ok};

use nats_elect_testing::{NatsServer, TcpProxy};

use crate::debian;
use crate::fleet::at;

/// The command beside the bucket `leaders`, asking the instances often.
pub fn serving_behind_proxy(server: &NatsServer) -> (TcpProxy, Serving) {
    let proxy = TcpProxy::start(server.url()).expect("a proxy");
    let mut command = at(server, &["serve", "--interval", "1s"]);
    command.env("NATS_URL", proxy.url());
    (proxy, Serving::start(command))
}

pub fn serving(server: &NatsServer, arguments: &[&str]) -> Serving {
    let command = [&["serve", "--interval", "1s"], arguments].concat();
    Serving::start(at(server, &command))
}
