//! Faults at random, from a seed.

use std::time::Duration;

use nats_elect_testing::{NatsServer, TcpProxy, eventually};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::Signal;

use crate::exec::TTL;
use crate::exec::command::Conduct;
use crate::exec::history::{History, overlaps};
use crate::exec::instance::Exec;
use crate::fleet::SOON;

/// Unless `NATS_ELECT_EXEC_FAULTS` says how many.
const FAULTS: u64 = 14;
const SEED: u64 = 20_260;

/// What is done to an instance, or to all.
#[derive(Clone, Copy, Debug)]
enum Fault {
    KillExec,
    PauseExec,
    KillGuard,
    PauseGuard,
    PauseGuardAndKillExec,
    CutOff,
    BlackHole,
    PauseNats,
    RestartNats,
    Terminate,
}

impl Fault {
    const ALL: [Self; 10] = [
        Self::KillExec,
        Self::PauseExec,
        Self::KillGuard,
        Self::PauseGuard,
        Self::PauseGuardAndKillExec,
        Self::CutOff,
        Self::BlackHole,
        Self::PauseNats,
        Self::RestartNats,
        Self::Terminate,
    ];
}

struct Fleet {
    server: NatsServer,
    history: History,
    members: Vec<(TcpProxy, Exec)>,
    started: usize,
}

#[tokio::test]
async fn faults_at_random_never_run_two_commands_at_once() {
    let number = |name: &str| Some(std::env::var(name).ok()?.parse().expect("a number"));
    let seed = number("NATS_ELECT_EXEC_SEED").unwrap_or(SEED);
    let faults = number("NATS_ELECT_EXEC_FAULTS").unwrap_or(FAULTS);
    let mut chance = StdRng::seed_from_u64(seed);
    let mut fleet = Fleet::start();
    let mut done = Vec::new();
    for _ in 0..faults {
        // A fault hits the leader of the first role, more often than not.
        let leader = eventually(SOON, "a command that runs", async || {
            let run = fleet.history.running()?;
            let is_its = |(_, exec): &(_, Exec)| exec.id == run.instance;
            fleet.members.iter().position(is_its)
        })
        .await;
        let victim = if chance.random_bool(0.8) {
            leader
        } else {
            chance.random_range(0..fleet.members.len())
        };
        let fault = Fault::ALL[chance.random_range(0..Fault::ALL.len())];
        let pause = TTL.mul_f64(chance.random_range(0.1..1.6));
        fleet.strike(fault, victim, pause).await;
        done.push(fault);
        tokio::time::sleep(Duration::from_millis(chance.random_range(0..100))).await;
    }
    eventually(SOON, "a command after the last fault", async || {
        let last = fleet.history.running()?;
        (last.last - last.first > 200_000_000).then_some(())
    })
    .await;
    let runs = fleet.history.runs();
    let other = fleet.history.of_role("other").runs();
    let wrong = [overlaps(&runs), overlaps(&other)].concat();
    println!(
        "EXEC {} faults, {} and {} commands, {} overlaps (seed {seed}): {done:?}",
        done.len(),
        runs.len(),
        other.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}\nafter {done:?}");
    assert!(
        runs.len() * 5 >= done.len() && other.len() * 5 >= done.len(),
        "the faults hit nobody: {runs:#?}\n{other:#?}"
    );
}

impl Fleet {
    fn start() -> Self {
        let server = NatsServer::start().expect("a server");
        let mut fleet = Self {
            server,
            history: History::new(),
            members: Vec::new(),
            started: 0,
        };
        for _ in 0..3 {
            let proxy = TcpProxy::start(fleet.server.url()).expect("a proxy");
            let exec = fleet.member(&proxy);
            fleet.members.push((proxy, exec));
        }
        fleet
    }

    fn member(&mut self, proxy: &TcpProxy) -> Exec {
        let conducts = [
            Conduct::Obey,
            Conduct::Deaf,
            Conduct::Away,
            Conduct::Deserter,
        ];
        let conduct = conducts[self.started % conducts.len()];
        self.started += 1;
        let again = [
            "--role",
            "other",
            "--restart",
            "always",
            "--restart-delay",
            "10ms",
        ];
        Exec::start(
            &format!("node-{}", self.started),
            &proxy.url(),
            &self.history,
            conduct,
            &again,
        )
    }

    async fn strike(&mut self, fault: Fault, victim: usize, pause: Duration) {
        let (proxy, exec) = &mut self.members[victim];
        match fault {
            Fault::KillExec => exec.kill(),
            Fault::PauseGuardAndKillExec => {
                exec.signal_guard(Signal::STOP);
                exec.kill();
            }
            Fault::PauseExec => {
                exec.signal(Signal::STOP);
                tokio::time::sleep(pause).await;
                exec.signal(Signal::CONT);
            }
            Fault::KillGuard => exec.kills_guard_and_recovers().await,
            Fault::PauseGuard => {
                exec.signal_guard(Signal::STOP);
                tokio::time::sleep(pause).await;
                exec.signal_guard(Signal::CONT);
            }
            Fault::CutOff => proxy.cut(),
            Fault::BlackHole => {
                proxy.black_hole();
                tokio::time::sleep(pause).await;
            }
            Fault::PauseNats => {
                self.server.pause().expect("pause");
                tokio::time::sleep(pause).await;
                self.server.resume().expect("resume");
            }
            Fault::RestartNats => {
                self.server.kill();
                tokio::time::sleep(pause / 4).await;
                self.server.restart().expect("restart");
            }
            Fault::Terminate => {
                exec.signal(Signal::TERM);
                exec.exited().await;
            }
        }
        if matches!(fault, Fault::CutOff) {
            tokio::time::sleep(pause).await;
        }
        let (proxy, _) = &self.members[victim];
        proxy.restore();
        if matches!(
            fault,
            Fault::KillExec | Fault::PauseGuardAndKillExec | Fault::Terminate
        ) {
            let (proxy, old) = self.members.remove(victim);
            drop(old);
            let exec = self.member(&proxy);
            self.members.insert(victim, (proxy, exec));
        }
    }
}
