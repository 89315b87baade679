//! A process goes on in another form: as a copy, or as another program.

use nats_elect_testing::eventually;
use rustix::process::{Pid, test_kill_process};

use crate::companions::another_companion;
use crate::ends::Test;
use crate::stage::{SOON, Stage};
use crate::took::{SHORT, with_the_lease};
use crate::victim::Victim;

pub const TESTS: &[(&str, Test)] = &[
    #[cfg(target_os = "linux")]
    ("a_process_whose_copy_lives_keeps_its_lease", || {
        Box::pin(copied())
    }),
    #[cfg(target_os = "linux")]
    ("a_copy_that_is_older_than_the_companion_counts_too", || {
        Box::pin(copied_before())
    }),
    ("another_program_in_its_place_is_no_death", || {
        Box::pin(replaced())
    }),
];

/// A fork goes on with the memory of the process, and perhaps with its handlers. It holds the pipe
/// to the companion as well.
#[cfg(target_os = "linux")]
async fn copied() {
    let stage = Stage::set().await;
    let mut victim = Victim::start(&stage.config, "copied", SHORT, stage.folder.path()).await;
    let companion = victim.companion(None).await;
    let mut next = stage.next("copied", SHORT).await;
    let held = held_by_a_fork(&victim);
    let at = victim.kill();
    let started = next.started().await;
    with_the_lease(at, started);
    has_ended(companion).await;
    drop(held);
}

/// The fork knows nothing of the companion that its original got later.
#[cfg(target_os = "linux")]
async fn copied_before() {
    let stage = Stage::set().await;
    let role = "copied-before";
    let mut victim = Victim::start(&stage.config, role, SHORT, stage.folder.path()).await;
    let mut next = stage.next(role, SHORT).await;
    let held = held_by_a_fork(&victim);
    let second = another_companion(&victim, &stage).await;
    assert!(!next.has_started(), "the leader lives");
    let at = victim.kill();
    let started = next.started().await;
    with_the_lease(at, started);
    has_ended(second).await;
    drop(held);
}

async fn replaced() {
    let stage = Stage::set().await;
    let mut victim = Victim::start(&stage.config, "replaced", SHORT, stage.folder.path()).await;
    let companion = victim.companion(None).await;
    let mut next = stage.next("replaced", SHORT).await;
    let at = victim.order("exec");
    let started = next.started().await;
    with_the_lease(at, started);
    victim.acts_were_before(started);
    // The other program does not know of it, and never asks for its end.
    has_ended(companion).await;
}

/// The pipes and local sockets of a process, as a fork of it would hold them.
#[cfg(target_os = "linux")]
fn held_by_a_fork(of: &Victim) -> Vec<std::fs::File> {
    use rustix::net::{AddressFamily, sockopt::socket_domain};
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    use std::os::unix::fs::FileTypeExt;

    let id = i32::try_from(of.id()).ok().and_then(Pid::from_raw);
    let process = pidfd_open(id.expect("an id"), PidfdFlags::empty()).expect("it lives");
    let files = std::fs::read_dir(format!("/proc/{}/fd", of.id())).expect("its own process");
    let numbers = files.filter_map(|file| file.ok()?.file_name().to_str()?.parse().ok());
    let held: Vec<_> = numbers
        .filter_map(|number| pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok())
        .map(std::fs::File::from)
        .filter(|file| {
            let is_pipe = file.metadata().is_ok_and(|it| it.file_type().is_fifo());
            is_pipe || socket_domain(file) == Ok(AddressFamily::UNIX)
        })
        .collect();
    assert!(!held.is_empty(), "no pipe to its companion");
    held
}

/// Waits until a process has ended. Its parent may not have asked how.
async fn has_ended(process: Pid) {
    let is_zombie = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
        let (_, state) = stat.as_ref().ok()?.rsplit_once(')')?;
        Some(state.trim_start().starts_with('Z'))
    };
    eventually(SOON, "the companion's end", async || {
        let is_gone = test_kill_process(process).is_err();
        (is_gone || is_zombie() == Some(true)).then_some(())
    })
    .await;
}
