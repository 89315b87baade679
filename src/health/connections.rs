//! Connections to an HTTP server, with limits. Of this project's command too.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioTimer;
use tokio::sync::Semaphore;

/// The longest request line, and the longest headers.
pub const MOST_BYTES: usize = 16 * 1024;
const MOST_HEADERS: usize = 64;
/// The pause before the next accept after a failed one, for instance for want of file descriptors.
const RETRY: Duration = Duration::from_millis(100);

/// Accepts connections until it is dropped, so many at a time. More of them wait. Each has a task of
/// its own, which then goes on.
pub async fn serve<C, A, T>(most: usize, accept: impl Fn() -> A, converse: impl Fn(C) -> T)
where
    A: Future<Output = io::Result<C>>,
    T: Future<Output = ()> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(most));
    while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
        match accept().await {
            Ok(connection) => {
                let conversation = converse(connection);
                tokio::spawn(async move {
                    conversation.await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "no HTTP connection could be accepted");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// HTTP with limits. `patience` is the time that a client has to send the head of a request, and to
/// send the next one.
pub fn http(patience: Duration) -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(MOST_BYTES)
        .max_headers(MOST_HEADERS);
    http
}
