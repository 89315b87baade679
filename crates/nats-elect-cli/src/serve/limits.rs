//! The limits of the server.

use std::time::Duration;

/// How much and how long at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time. More of them wait.
    pub connections: usize,
    /// How long a client may take to send its request.
    pub patience: Duration,
    /// How long a client may read nothing while there is something to read.
    pub unread: Duration,
    /// How long a connection may take. It is for one request.
    pub longest: Duration,
    /// Streams of events at a time.
    pub streams: usize,
    /// How much longer a stream may take.
    pub lasting: Duration,
}

pub const LIMITS: Limits = Limits {
    connections: 256,
    patience: Duration::from_secs(5),
    unread: Duration::from_secs(10),
    longest: Duration::from_secs(30),
    streams: 64,
    lasting: Duration::from_secs(60 * 60),
};

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use nats_elect_testing::eventually;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpSocket, TcpStream};
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::*;
    use crate::serve::events::Events;
    use crate::serve::metrics::Counts;
    use crate::serve::names::Names;
    use crate::serve::{Served, server};

    /// For what happens soon, on a machine with much else to do.
    const SOON: Duration = Duration::from_secs(30);
    /// A limit that a test waits for.
    const SHORT: Duration = Duration::from_millis(300);
    /// The kernel keeps so little of what nobody reads, or a few times that.
    const LITTLE: u32 = 4096;
    /// Larger than that.
    const LARGE: &str = "/api/v1/openapi.json";
    const EVENTS: &str = "/api/v1/events";

    /// Limits that no test comes to.
    const FAR: Limits = Limits {
        connections: 1000,
        patience: Duration::from_secs(3600),
        unread: Duration::from_secs(3600),
        longest: Duration::from_secs(3600),
        streams: 1000,
        lasting: Duration::from_secs(3600),
    };

    /// A server without buckets. It ends with this.
    struct Server {
        address: SocketAddr,
        counts: Arc<Counts>,
        events: Arc<Events>,
        task: JoinHandle<()>,
    }

    impl Server {
        fn start(limits: Limits) -> Self {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_send_buffer_size(LITTLE).unwrap();
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let listener = socket.listen(1024).unwrap();
            let address = listener.local_addr().unwrap();
            let (counts, events) = (Arc::<Counts>::default(), Arc::<Events>::default());
            let served = Served {
                counts: Arc::clone(&counts),
                events: Arc::clone(&events),
                ..Served::default()
            };
            let names = Names([].into());
            let task = tokio::spawn(server::run(listener, names, served, limits));
            Self {
                address,
                counts,
                events,
                task,
            }
        }

        async fn connect(&self) -> TcpStream {
            let socket = TcpSocket::new_v4().unwrap();
            socket.set_recv_buffer_size(LITTLE).unwrap();
            socket.connect(self.address).await.unwrap()
        }

        /// Asks for this, and reads nothing.
        async fn ask(&self, path: &str) -> TcpStream {
            let mut stream = self.connect().await;
            let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
            stream.write_all(request.as_bytes()).await.unwrap();
            stream
        }

        /// Opens a stream of events, and reads the first one.
        async fn listen(&self) -> TcpStream {
            let mut stream = self.ask(EVENTS).await;
            read_until(&mut stream, "event: hello").await;
            stream
        }

        async fn connections(&self, number: u64) {
            eventually(SOON, "the connections", async || {
                let open = self.counts.connections.load(Ordering::Relaxed);
                (open == number).then_some(())
            })
            .await;
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            self.task.abort();
        }
    }

    async fn read_until(stream: &mut TcpStream, text: &str) {
        let mut read = Vec::new();
        let reading = async {
            while !String::from_utf8_lossy(&read).contains(text) {
                let mut some = [0; 1024];
                let count = stream.read(&mut some).await.unwrap();
                assert_ne!(count, 0, "it ended before: {text}");
                read.extend(&some[..count]);
            }
        };
        timeout(SOON, reading).await.unwrap();
    }

    /// All that comes until the end, whether it is a proper one or not.
    async fn read_to_end(mut stream: TcpStream) -> String {
        let mut read = Vec::new();
        let _ = timeout(SOON, stream.read_to_end(&mut read)).await.unwrap();
        String::from_utf8_lossy(&read).into_owned()
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_of_its_answer_is_cut_off() {
        let unread = SHORT;
        let server = Server::start(Limits { unread, ..FAR });
        let whole = read_to_end(server.ask(LARGE).await).await;
        assert!(whole.ends_with("}\n"), "a client that reads gets all of it");
        let idle = server.ask(LARGE).await;
        eventually(SOON, "the request", async || {
            let answered = server.counts.requests[2].load(Ordering::Relaxed);
            (answered == 2).then_some(())
        })
        .await;
        server.connections(0).await;
        let rest = read_to_end(idle).await;
        assert!(
            rest.len() < whole.len(),
            "{} of {}",
            rest.len(),
            whole.len()
        );
    }

    #[tokio::test]
    async fn a_reader_of_events_that_reads_no_more_is_cut_off_and_makes_room() {
        let (unread, streams) = (SHORT, 1);
        let server = Server::start(Limits {
            unread,
            streams,
            ..FAR
        });
        let _slow = server.listen().await;
        assert!(
            read_to_end(server.ask(EVENTS).await)
                .await
                .contains(" 503 ")
        );
        for _ in 0..100 {
            server.events.tell("change", "x".repeat(10_000));
        }
        server.connections(0).await;
        server.listen().await;
    }

    #[tokio::test]
    async fn a_reader_of_events_that_is_too_far_behind_is_let_go_and_can_come_back() {
        let server = Server::start(FAR);
        let slow = server.listen().await;
        for number in 0..3000 {
            server.events.tell("change", number.to_string());
        }
        // It ends for a reader that reads on, too: what it missed is not made up for silently.
        let told = read_to_end(slow).await;
        let mut ids = told.lines().filter_map(|line| line.strip_prefix("id: "));
        let last = ids.next_back().unwrap_or_default().to_owned();
        assert!(!told.contains("data: 2999"), "{last}");
        let mut back = server.connect().await;
        let request = format!(
            "GET {EVENTS} HTTP/1.1\r\nHost: {}\r\nLast-Event-ID: {last}\r\n\r\n",
            server.address
        );
        back.write_all(request.as_bytes()).await.unwrap();
        read_until(&mut back, "event: reload").await;
    }

    #[tokio::test]
    async fn no_connection_takes_longer_than_it_may_unless_it_is_a_stream() {
        let longest = SHORT;
        let server = Server::start(Limits { longest, ..FAR });
        let mut stream = server.listen().await;
        let silent = server.connect().await;
        let idle = server.ask(LARGE).await;
        read_to_end(silent).await;
        server.connections(1).await;
        drop(idle);
        // By now the stream is older than that.
        server.events.tell("change", "still there".into());
        read_until(&mut stream, "still there").await;
    }

    #[tokio::test]
    async fn a_stream_ends_after_its_time() {
        let (longest, lasting) = (SHORT, SHORT);
        let server = Server::start(Limits {
            longest,
            lasting,
            ..FAR
        });
        read_to_end(server.listen().await).await;
        server.connections(0).await;
    }

    #[tokio::test]
    async fn a_client_that_sends_no_request_is_cut_off() {
        let patience = SHORT;
        let server = Server::start(Limits { patience, ..FAR });
        let silent = server.connect().await;
        let mut slow = server.connect().await;
        slow.write_all(b"GET / HTTP/1.1\r\nX: ").await.unwrap();
        for stream in [silent, slow] {
            read_to_end(stream).await;
        }
        server.connections(0).await;
    }

    #[tokio::test]
    async fn more_connections_than_there_is_room_for_wait() {
        let connections = 3;
        let server = Server::start(Limits { connections, ..FAR });
        let first = server.connect().await;
        let _others = [server.connect().await, server.connect().await];
        server.connections(3).await;
        let mut waiting = server.ask("/livez").await;
        let early = timeout(SHORT, waiting.read_u8()).await;
        assert!(early.is_err(), "it was answered at once");
        drop(first);
        read_until(&mut waiting, " 200 ").await;
    }
}
