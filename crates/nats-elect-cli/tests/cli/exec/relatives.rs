//! Processes around the command: what it leaves behind, and what was there before it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nats_elect_testing::{NatsServer, eventually};
use rustix::process::{Pid, Signal, kill_process};

use crate::ended;
use crate::exec::command::Conduct;
use crate::exec::history::stamp;
use crate::exec::instance::{Exec, exec};
use crate::exec::scene;
use crate::fleet::SOON;
use crate::running::{Process, Teller};

#[tokio::test]
async fn orphans_of_a_command_that_runs_on_are_reaped() {
    let server = NatsServer::start().expect("a server");
    let mut exec = exec("only", &server.url());
    let script = "for _ in 1 2 3 4 5; do (sh -c 'echo $$' &); done; sleep 60";
    let mut exec = Teller::of_stdout(exec.args(["--", "sh", "-c", script]));
    let orphans = [(); 5].map(|()| exec.line().parse::<u32>().expect("a number"));
    eventually(SOON, "the burial of all orphans", async || {
        // A zombie is still there.
        let is_gone = |orphan: &u32| !Path::new(&format!("/proc/{orphan}")).exists();
        orphans.iter().all(is_gone).then_some(())
    })
    .await;
    let ended = exec.process.0.try_wait().expect("a child");
    assert!(ended.is_none(), "it runs on");
}

#[test]
fn what_a_shell_started_before_it_became_exec_is_left_alone() {
    let server = NatsServer::start().expect("a server");
    let exec = exec("only", &server.url());
    let mut shell = Command::new("sh");
    for (name, value) in exec.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let ended = shell
        .args(["-c", "sleep 60 >/dev/null & echo $!; exec \"$@\"", "sh"])
        .arg(exec.get_program())
        .args(exec.get_args())
        .args(["--", "true"])
        .stderr(Stdio::inherit())
        .output()
        .expect("its end");
    assert!(ended.status.success());
    let sleeper: i32 = String::from_utf8(ended.stdout)
        .expect("text")
        .trim()
        .parse()
        .expect("a number");
    let sleeper = Pid::from_raw(sleeper).expect("a process");
    kill_process(sleeper, Signal::KILL).expect("it is alive");
}

#[tokio::test]
async fn exec_that_can_not_look_for_its_children_ends_when_none_is_left() {
    let (server, history) = scene();
    let mut only = Exec::start("only", &server.url(), &history, Conduct::Obey, &[]);
    let run = only.runs(&history).await;
    only.opens_no_more_files();
    only.signal(Signal::TERM);
    assert_eq!(only.code().await, 128 + 15);
    let exited = stamp();
    assert!(history.over(&run).await.last < exited);
}

#[test]
fn a_stranger_whose_name_is_no_text_is_in_nobodys_way() {
    let server = NatsServer::start().expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let no_text = folder.path().join(OsStr::from_bytes(b"\xff"));
    symlink("/bin/sleep", &no_text).expect("a link");
    let mut stranger = Command::new(no_text);
    let stranger = stranger.arg0("sleep").arg("60").spawn();
    let _stranger = Process(stranger.expect("a stranger"));
    ended(exec("only", &server.url()).args(["--", "sh", "-c", "exit 7"])).assert_code(7);
}
