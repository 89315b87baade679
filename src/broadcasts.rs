//! Streams of what a channel broadcasts.

use futures::{Stream, stream};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

/// Returns a stream of what the channel receives, until the channel closes or `ended` is cancelled
/// and everything was read.
///
/// `lagged` makes the item that stands for the messages that a slow reader missed.
pub fn until_ended<T: Clone + Send + 'static>(
    messages: Receiver<T>,
    ended: CancellationToken,
    lagged: fn(u64) -> T,
) -> impl Stream<Item = T> + Send + Unpin + use<T> {
    let next = move |(mut messages, ended): (Receiver<T>, CancellationToken)| async move {
        let message = tokio::select! {
            biased;
            message = messages.recv() => message,
            () = ended.cancelled() => return None,
        };
        let message = match message {
            Ok(message) => message,
            Err(RecvError::Lagged(missed)) => lagged(missed),
            Err(RecvError::Closed) => return None,
        };
        Some((message, (messages, ended)))
    };
    Box::pin(stream::unfold((messages, ended), next))
}
