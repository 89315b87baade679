//! Programs that were replaced, processes with little, and processes with much.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

use crate::companions::another_companion;
use crate::ends::Test;
use crate::stage::Stage;
use crate::took::{LONG, at_once, dies, released, tell};
use crate::victim::{Orders, Victim};

pub const TESTS: &[(&str, Test)] = &[
    ("a_replaced_program_has_companions", || Box::pin(replaced())),
    (
        "a_process_with_little_has_companions",
        || Box::pin(little()),
    ),
    ("a_private_process_has_a_private_companion", || {
        Box::pin(private())
    }),
    ("many_roles_are_released_at_once", || Box::pin(many_roles())),
];

fn program() -> std::path::PathBuf {
    std::env::current_exe().expect("this program")
}

/// The process gets another companion before.
async fn released_by_another(what: &str, stage: &Stage, victim: Victim) {
    another_companion(&victim, stage).await;
    released(what, stage, victim).await;
}

/// A copy of this program. Another process makes it: what is open for writing here would stay so for a
/// moment in what another test starts, and no such file can be run.
fn copied_to(path: &Path) {
    let copied = Command::new("cp").arg(program()).arg(path).status();
    assert!(copied.expect("cp").success());
}

/// An upgrade in place: the file of the running program is another one, or gone.
async fn replaced() {
    let stage = Stage::set().await;
    let folder = stage.folder.path().join("a place with spaces");
    fs::create_dir(&folder).expect("a folder");
    let path = folder.join("the program");
    let orders = Orders::new(&stage.config, "r", LONG, stage.folder.path());
    let replace = |path: &Path| {
        let other = path.with_extension("new");
        fs::write(&other, "#!/bin/false\n").expect("another program");
        fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).expect("a program");
        fs::rename(other, path).expect("another program");
    };
    let remove = |path: &Path| fs::remove_file(path).expect("no program");
    for change in [&replace as &dyn Fn(&Path), &remove] {
        copied_to(&path);
        let victim = Victim::run(&mut Command::new(&path), &orders).await;
        change(&path);
        released_by_another("replaced", &stage, victim).await;
    }
}

async fn little() {
    let stage = Stage::set().await;
    let orders = Orders::new(&stage.config, "r", LONG, stage.folder.path());
    let gone = stage.folder.path().join("gone");
    fs::create_dir(&gone).expect("a folder");
    let mut nowhere = Command::new(program());
    nowhere.current_dir(&gone);
    let victim = Victim::run(&mut nowhere, &orders).await;
    fs::remove_dir(&gone).expect("no folder");
    released_by_another("no working directory", &stage, victim).await;

    let mut bare = Command::new(program());
    let victim = Victim::run(bare.env_clear(), &orders).await;
    released_by_another("no environment", &stage, victim).await;

    let by_shell = |script: &str| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script]).arg(program());
        shell
    };
    let deaf = Orders {
        is_deaf: true,
        ..Orders::new(&stage.config, "r", LONG, stage.folder.path())
    };
    let closed = r#"exec "$0" <&- >&- 2>&-"#;
    let victim = Victim::run(&mut by_shell(closed), &deaf).await;
    released_by_another("no input and output", &stage, victim).await;

    let few = r#"ulimit -n 32; exec "$0""#;
    let victim = Victim::run(&mut by_shell(few), &orders).await;
    released_by_another("few files", &stage, victim).await;
}

/// A process that forbids others to look into it, and that can get no privileges.
async fn private() {
    let stage = Stage::set().await;
    let folder = stage.folder.path();
    let path = folder.join("program");
    copied_to(&path);
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).expect("a folder for all");
    let mut orders = Orders::new(&stage.config, "r", LONG, folder);
    for is_private in [false, true] {
        orders.is_private = is_private;
        let mut command = Command::new(&path);
        if geteuid().is_root() {
            // The kernel gives what nobody may look into to root.
            command.uid(65_534).gid(65_534);
        }
        let mut victim = Victim::run(&mut command, &orders).await;
        let companion = victim.companion(None).await.as_raw_nonzero();
        let memory = fs::metadata(format!("/proc/{companion}/mem")).expect("its own process");
        assert_eq!(memory.uid() == 0, is_private);
        let mut next = stage.next("r", LONG).await;
        dies(&mut victim, &mut next).await;
        stage.leave("r").await;
        fs::remove_file(folder.join("r")).expect("its notes");
        fs::remove_file(folder.join("r.leads")).expect("its notes");
    }
}

async fn many_roles() {
    const ROLES: usize = 64;
    let stage = Stage::set().await;
    let orders = Orders {
        roles: (0..ROLES).map(|role| format!("r{role}")).collect(),
        ..Orders::new(&stage.config, "r", LONG, stage.folder.path())
    };
    let mut victim = Victim::of(&orders).await;
    let mut candidates = Vec::new();
    for role in &orders.roles {
        candidates.push(stage.next(role, LONG).await);
    }
    let at = victim.kill();
    let mut took = Vec::new();
    for next in &mut candidates {
        let started = next.started().await;
        took.push(at_once(&victim, at, started));
    }
    tell("64 roles, SIGKILL", took);
}
