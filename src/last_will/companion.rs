//! The companion process. It listens to its parent, keeps a connection ready, and waits.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use futures::future::join_all;
use ractor::Actor;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use super::carrying_out::Executor;
use super::death::Parent;
use super::ear::{Ear, Heard};
use super::evidence::Evidence;
use super::handed;
use super::told::{FromCompanion, SetUp, ToCompanion, line_of};
use crate::access::Access;
use crate::actors::{Link, MonitorActor, MonitorSetup};
use crate::clock;
use crate::model::bequests::{Lease, Will};
use nats_elect_core::name::BucketName;

/// The present terms, as the parent has told of them.
type Terms = BTreeMap<Lease, Will>;

/// Runs the companion to its end.
pub(super) fn run() {
    let Some((setup, ear, ends)) = set_up() else {
        // The error may quote a secret.
        let version = env!("CARGO_PKG_VERSION");
        return say(&FromCompanion::Failed(format!(
            "it does not understand its parent: it is of version {version} of nats-elect, is that the parent's?"
        )));
    };
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
            runtime.block_on(serve(setup, listen(ear, parent), ends));
            // Something that blocks, such as the read of a file on a dead mount, is not waited for.
            runtime.shutdown_background();
        }
        Err(error) => say(&FromCompanion::Failed(error.to_string())),
    }
}

fn set_up() -> Option<(SetUp, Ear, Option<OwnedFd>)> {
    let stdin = io::stdin();
    let (life, ends) = handed::receive(&stdin).ok()?;
    let pipe = stdin.as_fd().try_clone_to_owned().ok()?;
    let mut ear = Ear::at(pipe, life);
    match ear.hear()? {
        ToCompanion::Setup(setup) => Some((*setup, ear, ends)),
        _ => None,
    }
}

async fn serve(setup: SetUp, mut heard: mpsc::UnboundedReceiver<Heard>, ends: Option<OwnedFd>) {
    ignore_signals();
    let (tell, link) = watch::channel(Link::Down {
        since: clock::now(),
    });
    let mut connection = tokio::spawn(attend(setup, tell, link.clone()));
    let mut terms = Terms::new();
    tokio::select! {
        biased;
        is_signed = hear_all(&mut heard, &mut terms, |it| matches!(it, Heard::Sign)) => {
            if !is_signed {
                return;
            }
        }
        _ = &mut connection => return,
    }
    let since = clock::now();
    let leases = terms.values().map(Will::lease);
    let longest = leases.max().unwrap_or_default();
    let death = hear_all(&mut heard, &mut terms, |it| matches!(it, Heard::Death));
    if tokio::time::timeout(longest, death).await != Ok(true) {
        return;
    }
    let evidence = Evidence::listen(ends);
    let executor = Executor::new(link, since);
    let carried_out = terms
        .into_iter()
        .enumerate()
        .map(|(number, (lease, will))| {
            let (evidence, executor) = (evidence.clone(), &executor);
            async move {
                if evidence.of(&lease, &will).await {
                    executor.carry_out(number, &lease, will).await;
                }
            }
        });
    join_all(carried_out).await;
}

/// Notes all that is told, until this is heard. Returns whether it was: it may be that the death
/// can't be known.
async fn hear_all(
    heard: &mut mpsc::UnboundedReceiver<Heard>,
    terms: &mut Terms,
    until: impl Fn(&Heard) -> bool,
) -> bool {
    while let Some(heard) = heard.recv().await {
        match heard {
            Heard::Told(message) => note(terms, message),
            heard if until(&heard) => return true,
            Heard::Sign | Heard::Death => {}
        }
    }
    false
}

fn note(terms: &mut Terms, message: ToCompanion) {
    match message {
        ToCompanion::Will(lease, will) => drop(terms.insert(lease, will)),
        ToCompanion::Forget(lease) => drop(terms.remove(&lease)),
        ToCompanion::Setup(_) => {}
    }
}

/// Listens to the parent, and for its death, on a thread of its own.
fn listen(ear: Ear, parent: Parent) -> mpsc::UnboundedReceiver<Heard> {
    let (tell, heard) = mpsc::unbounded_channel();
    thread::spawn(move || {
        // Where the death can't be known, the end of this thread says so.
        let _ = ear.listen(&parent, |it| drop(tell.send(it)));
    });
    heard
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

/// Connects as the parent does, stays connected, and reports how that goes. Returns if it can't be.
async fn attend(setup: SetUp, tell: watch::Sender<Link>, mut link: watch::Receiver<Link>) {
    if connect(setup, tell).await.is_none() {
        return;
    }
    while link.changed().await.is_ok() {
        report(&link.borrow_and_update());
    }
}

async fn connect(setup: SetUp, tell: watch::Sender<Link>) -> Option<()> {
    let config = setup.config;
    let bucket = BucketName::new(&config.bucket).ok()?;
    let start_timeout = config.start_timeout;
    let access = Access {
        config,
        ..Access::default()
    };
    let name = format!("{} (last will)", setup.instance_id);
    let connection = match access.connection(&name).await {
        Ok(connection) => connection,
        Err(error) => {
            say(&FromCompanion::Failed(error.to_string()));
            return None;
        }
    };
    let setup = MonitorSetup::without_elections(connection, bucket, start_timeout, move |link| {
        tell.send_replace(link);
    });
    // It lives as long as this process.
    Actor::spawn(None, MonitorActor, (setup, None)).await.ok()?;
    Some(())
}

fn report(link: &Link) {
    say(&match link {
        Link::Up { .. } => FromCompanion::Connected,
        Link::Down { .. } => FromCompanion::Disconnected("no connection".into()),
        Link::Unusable(failure) => FromCompanion::Disconnected(failure.detail.clone()),
    });
}

/// The parent may have gone.
fn say(what: &FromCompanion) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(line_of(what).as_bytes());
    let _ = out.flush();
}
