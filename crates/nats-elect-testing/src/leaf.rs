//! A hub and its leaf nodes.

use super::{NatsServer, NatsServerBuilder};

/// What the server logs before the address at which it listens for leaf nodes.
const LISTENS: &str = "Listening for leafnode connections on ";

impl NatsServerBuilder {
    /// Gives the server's `JetStream` a domain of its own.
    pub fn domain(self, name: &str) -> Self {
        self.config(&format!("jetstream {{ domain: {name:?} }}"))
    }

    /// Lets leaf nodes connect to the server.
    pub fn hub(self) -> Self {
        self.config("server_name: hub\nleafnodes { listen: \"127.0.0.1:-1\" }")
    }

    /// Connects the server as a leaf node to the hub that listens at this address: that of
    /// [`NatsServer::leaf_address`], or of a proxy before it.
    ///
    /// The two share the subjects of the default account, but for those of Key-Value buckets and of
    /// `JetStream` where both have a domain.
    pub fn leaf_of(self, address: &str) -> Self {
        self.config(&format!(
            "server_name: leaf\nleafnodes {{ reconnect: 1, remotes: [{{ url: \"nats-leaf://{address}\" }}] }}"
        ))
    }
}

impl NatsServer {
    /// Returns the address at which a [`hub`](NatsServerBuilder::hub) listens for leaf nodes, or
    /// `None` if the server is no hub.
    pub fn leaf_address(&self) -> Option<String> {
        let log = self.log();
        let (_, listens) = log.rsplit_once(LISTENS)?;
        listens.split(char::is_whitespace).next().map(Into::into)
    }
}
