//! The command that is run: it writes down when it runs.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{getppid, setpgid};
use tokio::signal::unix::{SignalKind, signal};

use crate::exec::history::stamp;

pub const HISTORY: &str = "NATS_ELECT_TEST_HISTORY";
pub const CONDUCT: &str = "NATS_ELECT_TEST_CONDUCT";
const RUN: &str = "NATS_ELECT_TEST_RUN";
/// Between two looks at the clock.
const TICK: Duration = Duration::from_millis(2);

/// What the command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduct {
    /// Runs until it is told to stop.
    Obey,
    /// Does not stop when it is told to.
    Deaf,
    /// Leaves the work to a child in a session of its own, and waits for that.
    Away,
    /// Is as deaf, and leaves its process group for that of its guard.
    Deserter,
    /// Fails after a few moments.
    Fail,
}

impl Conduct {
    const ALL: [Self; 5] = [
        Self::Obey,
        Self::Deaf,
        Self::Away,
        Self::Deserter,
        Self::Fail,
    ];

    pub fn name(self) -> String {
        format!("{self:?}")
    }
}

/// How this program is started as the command.
pub fn arguments() -> Vec<String> {
    let program = std::env::current_exe().expect("this program");
    vec![
        program.to_str().expect("a path in UTF-8").to_owned(),
        "--exact".into(),
        "exec::command::the_command".into(),
        "--ignored".into(),
        "--nocapture".into(),
    ]
}

/// Not a test: the command.
#[test]
#[ignore = "run by other tests in a process of its own"]
fn the_command() {
    let Ok(mut history) = std::env::var(HISTORY) else {
        return;
    };
    // Each slot and each further role has a history of its own.
    let role = std::env::var("NATS_ELECT_ROLE").expect("a role");
    let slot = std::env::var("NATS_ELECT_SLOT").ok();
    if let Some(slot) = &slot {
        assert_eq!(role, format!("worker-{slot}"));
    }
    if role != "worker" {
        history = format!("{history}-{role}");
    }
    let mut history = OpenOptions::new()
        .append(true)
        .create(true)
        .open(history)
        .expect("the history");
    let conduct = std::env::var(CONDUCT).unwrap_or_default();
    let conduct = Conduct::ALL.into_iter().find(|one| one.name() == conduct);
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(run(conduct.expect("a conduct"), &mut history));
}

async fn run(conduct: Conduct, history: &mut File) {
    let token = std::env::var("NATS_ELECT_FENCING_TOKEN").expect("a token");
    let instance = std::env::var("NATS_ELECT_INSTANCE").expect("an instance");
    let run = std::env::var(RUN).unwrap_or_else(|_| format!("{token}/{}", std::process::id()));
    let mut alive = |what: &str| {
        let line = format!("{} {run} {instance} {what}\n", stamp());
        history.write_all(line.as_bytes()).expect("write");
    };
    alive("start");
    let _deaf = matches!(conduct, Conduct::Deaf | Conduct::Deserter)
        .then(|| signal(SignalKind::terminate()).expect("listen"));
    if conduct == Conduct::Deserter {
        setpgid(None, getppid()).expect("another group");
    }
    if conduct == Conduct::Away {
        let [program, arguments @ ..] = &arguments()[..] else {
            unreachable!("a program");
        };
        let mut child = Command::new("setsid")
            .arg(program)
            .args(arguments)
            .env(RUN, &run)
            .env(CONDUCT, Conduct::Obey.name())
            .stdout(Stdio::null())
            .spawn()
            .expect("a child");
        child.wait().expect("its end");
        return;
    }
    for tick in 0_u32.. {
        tokio::time::sleep(TICK).await;
        alive("alive");
        if conduct == Conduct::Fail && tick == 20 {
            std::process::exit(9);
        }
    }
}
