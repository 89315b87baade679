//! Faults: whatever becomes of `exec` or of its guard, no command outlives its lease.

use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::process::Stdio;
use std::thread;

use nats_elect_testing::{NatsServer, TcpProxy, eventually};
use rustix::process::Signal;

use crate::exec::command::Conduct;
use crate::exec::history::{History, Run, overlaps, stamp};
use crate::exec::instance::{Exec, exec};
use crate::exec::{AGAIN, TTL};
use crate::fleet::SOON;
use crate::running::{Process, Teller};

#[tokio::test]
async fn a_command_that_the_end_of_its_lease_killed_gives_the_code_of_that() {
    let server = NatsServer::start().expect("a server");
    let proxy = TcpProxy::start(server.url()).expect("a proxy");
    let mut only = Teller::of_stdout(
        exec("only", &proxy.url())
            .args(["--ttl", "4s", "--stop-budget", "2s", "--", "sh", "-c"])
            .arg("trap 'echo told' TERM; echo runs; while :; do sleep 0.05; done"),
    );
    assert_eq!(only.line(), "runs");
    proxy.black_hole();
    // From here on the end of the lease comes before that of the patience with the command.
    assert_eq!(only.line(), "told");
    only.process.signal(Signal::TERM);
    assert_eq!(only.process.code(), Some(128 + 9));
}

/// A pipe that is full, and that nobody reads.
struct Unread {
    _reader: PipeReader,
    full: PipeWriter,
}

impl Unread {
    fn new() -> Self {
        let (reader, full) = pipe().expect("a pipe");
        // What waits for room takes up whatever there may come to be.
        let mut filling = full.try_clone().expect("its end");
        thread::spawn(move || while filling.write_all(&[b'.'; 4096]).is_ok() {});
        Self {
            _reader: reader,
            full,
        }
    }

    fn stderr(&self) -> Stdio {
        self.full.try_clone().expect("its end").into()
    }
}

/// A leader behind a proxy, and one who waits; both commands are deaf.
struct Stage {
    server: NatsServer,
    proxy: TcpProxy,
    history: History,
    first: Exec,
    second: Exec,
    run: Run,
}

async fn stage(conduct: Conduct, more: &[&str]) -> Stage {
    let server = NatsServer::start().expect("a server");
    let proxy = TcpProxy::start(server.url()).expect("a proxy");
    let history = History::new();
    let first = Exec::start("first", &proxy.url(), &history, conduct, more);
    let run = first.runs(&history).await;
    let second = Exec::start("second", &server.url(), &history, conduct, more);
    Stage {
        server,
        proxy,
        history,
        first,
        second,
        run,
    }
}

impl Stage {
    /// Waits for the other one, and judges.
    async fn passes_on(&self) {
        self.second.runs(&self.history).await;
        assert_eq!(overlaps(&self.history.runs()), []);
    }
}

#[tokio::test]
async fn killed_exec_leaves_no_command() {
    for conduct in [Conduct::Deaf, Conduct::Away] {
        let mut stage = stage(conduct, &[]).await;
        stage.first.kill();
        let killed = stamp();
        stage.passes_on().await;
        let ended = stage.history.over(&stage.run).await;
        let lease = u64::try_from(TTL.as_nanos()).expect("seconds");
        assert!(
            ended.last < killed + lease,
            "{conduct:?} outlived its lease"
        );
    }
}

#[tokio::test]
async fn paused_exec_leaves_no_command_past_its_lease() {
    let stage = stage(Conduct::Deaf, &[]).await;
    stage.first.signal(Signal::STOP);
    stage.passes_on().await;
    stage.first.signal(Signal::CONT);
    // It stands again, and leads again when the other one goes.
    stage.second.signal(Signal::TERM);
    stage.first.runs(&stage.history).await;
    assert_eq!(overlaps(&stage.history.runs()), []);
}

#[tokio::test]
async fn a_command_that_left_its_group_does_not_outlive_its_lease() {
    let stage = stage(Conduct::Deserter, &[]).await;
    stage.first.signal(Signal::STOP);
    stage.passes_on().await;
}

#[tokio::test]
async fn exec_that_lost_leadership_in_a_pause_exits_if_it_is_to() {
    let mut stage = stage(Conduct::Obey, &["--on-loss", "exit"]).await;
    stage.first.signal(Signal::STOP);
    stage.passes_on().await;
    stage.first.signal(Signal::CONT);
    assert_eq!(stage.first.code().await, 1);
}

#[tokio::test]
async fn a_guard_that_was_paused_counts_what_it_was_told_meanwhile() {
    // Longer than elsewhere: that its leader loses it by itself would be no fault of the guard.
    let ttl = TTL * 4;
    let stage = stage(Conduct::Obey, &["--ttl", "6s"]).await;
    assert!(stage.first.signal_guard(Signal::STOP));
    tokio::time::sleep(ttl * 2).await;
    assert!(stage.first.signal_guard(Signal::CONT));
    tokio::time::sleep(ttl).await;
    let running = async || stage.history.running();
    let runs = eventually(SOON, "a command", running).await;
    assert_eq!(runs.name, stage.run.name);
}

#[tokio::test]
async fn exec_that_is_cut_off_leaves_no_command_past_its_lease() {
    let stage = stage(Conduct::Deaf, &[]).await;
    stage.proxy.black_hole();
    stage.passes_on().await;
    stage.proxy.restore();
    stage.second.signal(Signal::TERM);
    stage.first.runs(&stage.history).await;
    assert_eq!(overlaps(&stage.history.runs()), []);
}

#[tokio::test]
async fn exec_that_is_cut_off_ends_the_command_also_if_its_guard_is_paused() {
    let stage = stage(Conduct::Deaf, &[]).await;
    assert!(stage.first.signal_guard(Signal::STOP));
    stage.proxy.black_hole();
    stage.passes_on().await;
}

#[tokio::test]
async fn a_paused_guard_wakes_up_when_exec_is_killed() {
    let mut stage = stage(Conduct::Away, &[]).await;
    assert!(stage.first.signal_guard(Signal::STOP));
    stage.first.kill();
    stage.passes_on().await;
}

#[tokio::test]
async fn a_killed_guard_takes_the_command_with_it() {
    for conduct in [Conduct::Deaf, Conduct::Away] {
        let mut stage = stage(conduct, &[]).await;
        assert!(stage.first.signal_guard(Signal::KILL));
        assert_eq!(stage.first.code().await, 128 + 9);
        let exited = stamp();
        let ended = stage.history.over(&stage.run).await;
        assert!(
            ended.last < exited,
            "{conduct:?} is left when exec has ended"
        );
        stage.passes_on().await;
    }
}

#[tokio::test]
async fn a_command_whose_guard_was_killed_is_started_again_under_another() {
    let stage = stage(Conduct::Obey, &AGAIN).await;
    let guard = stage.first.guard();
    assert!(stage.first.signal_guard(Signal::KILL));
    eventually(SOON, "a run under another guard", async || {
        let again = stage.history.running()?;
        let is_another = again.name != stage.run.name && stage.first.guard() != guard;
        (is_another && again.instance == stage.first.id).then_some(())
    })
    .await;
    assert_eq!(overlaps(&stage.history.runs()), []);
}

#[tokio::test]
async fn nats_that_stands_still_ends_the_command_in_time() {
    let ttl = TTL * 4;
    let stage = stage(Conduct::Deaf, &["--ttl", "6s"]).await;
    stage.server.pause().expect("pause");
    // Every heartbeat that it confirmed was sent before.
    let paused = stamp();
    let ended = stage.history.over(&stage.run).await;
    let lease = u64::try_from(ttl.as_nanos()).expect("seconds");
    assert!(ended.last < paused + lease);
    stage.server.resume().expect("resume");
    eventually(SOON, "another run", async || {
        stage.history.running().filter(|run| run.name != ended.name)
    })
    .await;
    assert_eq!(overlaps(&stage.history.runs()), []);
}

#[tokio::test]
async fn exec_whose_stderr_nobody_reads_leads_on_and_can_be_terminated() {
    let server = NatsServer::start().expect("a server");
    let proxy = TcpProxy::start(server.url()).expect("a proxy");
    let history = History::new();
    let unread = Unread::new();
    let url = proxy.url();
    let mut exec = Exec::start_telling(unread.stderr(), "only", &url, &history, Conduct::Obey, &[]);
    let run = exec.runs(&history).await;
    // There is something to warn of.
    proxy.black_hole();
    history.over(&run).await;
    proxy.restore();
    exec.runs(&history).await;
    exec.signal(Signal::TERM);
    assert_eq!(exec.code().await, 128 + 15);
}

#[tokio::test]
async fn exec_whose_stderr_nobody_reads_ends_when_it_fails() {
    let server = NatsServer::start().expect("a server");
    let proxy = TcpProxy::start(server.url()).expect("a proxy");
    let history = History::new();
    let unread = Unread::new();
    let (url, exits) = (proxy.url(), ["--on-loss", "exit"]);
    let mut leads = Exec::start_telling(
        unread.stderr(),
        "leads",
        &url,
        &history,
        Conduct::Obey,
        &exits,
    );
    leads.runs(&history).await;
    proxy.black_hole();
    assert_eq!(leads.code().await, 1);

    // One can't start, and one has no command.
    for (url, command, code) in [
        (url, "true", 5),
        (server.url(), "/nonexistent/command", 127),
    ] {
        let mut fails = exec("other", &url);
        let fails = fails.args(["--timeout", "1s", "--", command]);
        let fails = fails.stderr(unread.stderr()).spawn();
        let ended = Process(fails.expect("start exec")).exited().await;
        assert_eq!(ended.code(), Some(code));
    }
}
