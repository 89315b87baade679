//! The companion process. It listens to its parent, keeps a connection ready, and waits.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::thread;
use std::time::Duration;

use futures::future::join_all;
use ractor::Actor;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};

use super::carrying_out::Executor;
use super::death::Parent;
use super::told::{FromCompanion, SetUp, ToCompanion, line_of};
use crate::access::Access;
use crate::actors::{Link, MonitorActor, MonitorSetup, Routes};
use crate::clock;
use crate::store::IfMissing;
use nats_elect_core::name::{BucketName, RoleName};
use nats_elect_core::{Bequest, LastWill};

/// How long what the parent told last may take to be read, at least.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The present terms, as the parent has told of them.
type Terms = BTreeMap<RoleName, Bequest>;

/// Runs the companion to its end.
pub(super) fn run() {
    let mut first = String::new();
    let _ = io::stdin().lock().read_line(&mut first);
    let Ok(ToCompanion::Setup(setup)) = serde_json::from_str(&first) else {
        // The error may quote a secret.
        let version = env!("CARGO_PKG_VERSION");
        return say(&FromCompanion::Failed(format!(
            "it does not understand its parent: it is of version {version} of nats-elect, is that the parent's?"
        )));
    };
    drop(first);
    #[cfg(target_os = "linux")]
    if setup.is_private {
        let private = rustix::process::DumpableBehavior::NotDumpable;
        if let Err(error) = rustix::process::set_dumpable_behavior(private) {
            return say(&FromCompanion::Failed(format!("no privacy: {error}")));
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let watched = runtime.and_then(|runtime| {
        let parent = Parent::of_id(setup.parent)?;
        Ok((runtime, parent))
    });
    match watched {
        Ok((runtime, parent)) => {
            say(&FromCompanion::Watching);
            runtime.block_on(serve(*setup, parent));
        }
        Err(error) => say(&FromCompanion::Failed(error.to_string())),
    }
}

async fn serve(setup: SetUp, parent: Parent) {
    ignore_signals();
    let (mut told, mut dead) = listen(parent);
    let Some(mut link) = connect(setup).await else {
        return;
    };
    let mut terms = Terms::new();
    let (mut is_silent, mut is_dead) = (false, false);
    while !is_silent && !is_dead {
        tokio::select! {
            biased;
            message = told.recv() => match message {
                Some(ToCompanion::End) => return,
                Some(message) => note(&mut terms, message),
                None => is_silent = true,
            },
            died = &mut dead => {
                if died.is_err() {
                    return;
                }
                is_dead = true;
            }
            changed = link.changed() => {
                if changed.is_err() {
                    return;
                }
                report(&link.borrow_and_update());
            }
        }
    }
    let since = clock::now();
    // Both are needed. A process that lives may have closed the pipe, as where it became another
    // program. And a fork of a dead one holds the pipe, and may go on with its handlers.
    let leases = terms.values().map(|term| term.lease);
    let longest = leases.max().unwrap_or_default().max(LAST_WORDS);
    let ended = async {
        while let Some(message) = told.recv().await {
            if matches!(message, ToCompanion::End) {
                return false;
            }
            note(&mut terms, message);
        }
        is_dead || (&mut dead).await.is_ok()
    };
    if tokio::time::timeout(longest, ended).await != Ok(true) {
        return;
    }
    let executor = Executor::new(link, since);
    let wills = terms.into_iter().enumerate();
    let carried_out = wills
        .map(|(number, (role, bequest))| executor.carry_out(number, role, LastWill::new(bequest)));
    join_all(carried_out).await;
}

fn note(terms: &mut Terms, message: ToCompanion) {
    match message {
        ToCompanion::Will(will) => {
            if let (Ok(role), Some(bequest)) = (RoleName::new(&will.role), will.bequest()) {
                terms.insert(role, bequest);
            }
        }
        ToCompanion::Forget(role) => terms.retain(|of, _| of.as_str() != role),
        ToCompanion::Setup(_) | ToCompanion::End => {}
    }
}

/// Listens to the parent, and for its death. The second answer fails if the death can't be known.
fn listen(parent: Parent) -> (mpsc::UnboundedReceiver<ToCompanion>, oneshot::Receiver<()>) {
    let (tell, told) = mpsc::unbounded_channel();
    let (die, dead) = oneshot::channel();
    let (closed, silent) = std::sync::mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if let Ok(message) = serde_json::from_str(&line) {
                let _ = tell.send(message);
            }
        }
        let _ = closed.send(());
    });
    thread::spawn(move || {
        let silent = || {
            let _ = silent.recv();
        };
        if parent.await_death(silent).is_ok() {
            let _ = die.send(());
        }
    });
    (told, dead)
}

/// A service manager and a terminal send signals to all processes of a service or a session. The
/// companion stays until its parent has ended.
fn ignore_signals() {
    for kind in [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ] {
        if let Ok(mut signals) = signal(kind) {
            tokio::spawn(async move { while signals.recv().await.is_some() {} });
        }
    }
}

/// Connects as the parent does, and stays connected.
async fn connect(setup: SetUp) -> Option<watch::Receiver<Link>> {
    let SetUp {
        instance_id,
        config,
        ..
    } = setup;
    let bucket = BucketName::new(&config.bucket).ok()?;
    let start_timeout = config.start_timeout;
    let access = Access {
        config,
        ..Access::default()
    };
    let name = format!("{instance_id} (last will)");
    let connection = match access.connection(&name).await {
        Ok(connection) => connection,
        Err(error) => {
            say(&FromCompanion::Failed(error.to_string()));
            return None;
        }
    };
    let (tell, link) = watch::channel(Link::Down);
    let setup = MonitorSetup {
        span: tracing::Span::none(),
        tell: Box::new(move |link| {
            tell.send_replace(link);
        }),
        connection,
        bucket,
        if_missing: IfMissing::Await,
        routes: Routes::default(),
        admin: None,
        start_timeout,
        ready: None,
    };
    // It lives as long as this process.
    Actor::spawn(None, MonitorActor, setup).await.ok()?;
    Some(link)
}

fn report(link: &Link) {
    say(&match link {
        Link::Up { .. } => FromCompanion::Connected,
        Link::Down => FromCompanion::Disconnected("no connection".into()),
        Link::Unusable(failure) => FromCompanion::Disconnected(failure.detail.clone()),
    });
}

/// The parent may have gone.
fn say(what: &FromCompanion) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(line_of(what).as_bytes());
    let _ = out.flush();
}
