//! The end that a signal asks for.

/// Resolves when this process is told to end.
#[cfg(unix)]
pub async fn stopped() {
    use tokio::signal::unix::{Signal, SignalKind, signal};

    let listen = |kind| signal(kind).ok();
    let mut signals = [
        listen(SignalKind::terminate()),
        listen(SignalKind::interrupt()),
        listen(SignalKind::hangup()),
    ];
    let any = signals.iter_mut().flatten().map(|signal: &mut Signal| {
        Box::pin(async {
            signal.recv().await;
        })
    });
    futures::future::select_all(any).await;
}

#[cfg(not(unix))]
pub async fn stopped() {
    let _ = tokio::signal::ctrl_c().await;
}
