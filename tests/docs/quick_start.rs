//! The README's quick start, followed to the letter: its blocks in a new project, built and run.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nats_elect_testing::NatsServer;
use rustix::process::{Pid, Signal, kill_process};

use super::markdown::blocks;
use super::{file, top};

/// The project's name in the README.
const PROJECT: &str = "my-scheduler";
/// For one line of output.
const PATIENCE: Duration = Duration::from_secs(60);

/// The only block of a page in this language.
pub fn block(page: &str, language: &str) -> String {
    let is_wanted = |info: &str| info.split(',').next() == Some(language);
    let blocks = blocks(&file(Path::new(page)));
    let mut wanted = blocks.into_iter().filter(|block| is_wanted(&block.info));
    let block = wanted
        .next()
        .unwrap_or_else(|| panic!("{page} has no {language}"));
    let more = wanted.next().map(|block| block.text);
    assert!(more.is_none(), "this test knows nothing of {more:?}");
    block.text
}

/// What `cargo run` prints in each of the README's terminals, without what the reader types.
fn shown() -> Vec<Vec<String>> {
    let readme = file(Path::new("README.md"));
    let mut session = blocks(&readme).into_iter().map(|block| block.text);
    let session = session.rfind(|text| text.lines().any(|line| line == "$ cargo run"));
    let session = session.expect("a session");
    let terminals = session.split("$ cargo run\n").skip(1);
    let printed = |line: &&str| !line.is_empty() && *line != "^C";
    let lines = |terminal: &str| {
        terminal
            .lines()
            .filter(printed)
            .map(ToOwned::to_owned)
            .collect()
    };
    terminals.map(lines).collect()
}

/// Where cargo builds this repository.
fn target() -> PathBuf {
    let program = std::env::current_exe().expect("this program");
    let target = program
        .ancestors()
        .find(|folder| folder.join("CACHEDIR.TAG").is_file());
    target.expect("a target folder").to_owned()
}

/// The folder of a new project beside a checkout of this repository.
///
/// It is always the same, so that the library is not built anew each time.
fn project() -> PathBuf {
    let beside = target().join("readme");
    let project = beside.join(PROJECT);
    let _ = fs::remove_dir_all(project.join("src"));
    fs::create_dir_all(project.join("src")).expect("a folder");
    let checkout = beside.join("nats-elect");
    if !checkout.exists() {
        symlink(top(), checkout).expect("a link");
    }
    // As `cargo new` does.
    let package =
        format!("[package]\nname = \"{PROJECT}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n");
    let for_tests = block("docs/testing.md", "toml");
    let for_tests = for_tests
        .strip_prefix("[dev-dependencies]\n")
        .expect("dependencies of tests");
    let dependencies =
        block("README.md", "toml") + "\n" + &block("docs/handlers.md", "toml") + for_tests;
    fs::write(project.join("Cargo.toml"), package + &dependencies).expect("a file");
    fs::write(project.join("src/main.rs"), block("README.md", "rust")).expect("a file");
    // So that nothing new is downloaded.
    fs::copy(top().join("Cargo.lock"), project.join("Cargo.lock")).expect("a file");
    project
}

/// Builds the project and returns its program.
fn build() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    // What cargo tells this test would make it build some dependencies anew.
    for (name, _) in std::env::vars() {
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(name);
        }
    }
    let built = cargo
        .args(["build", "--offline"])
        .current_dir(project())
        // Many dependencies are there already, built like this.
        .env("CARGO_TARGET_DIR", target())
        .env("CARGO_PROFILE_DEV_DEBUG", "none")
        .env("CARGO_PROFILE_DEV_LTO", "off")
        .output()
        .expect("cargo");
    let told = String::from_utf8_lossy(&built.stderr);
    assert!(
        built.status.success() && !told.contains("warning"),
        "{told}"
    );
    target().join("debug").join(PROJECT)
}

/// A terminal with the program. Dropping it kills the program.
struct Terminal {
    child: Child,
    lines: Receiver<String>,
    log: Option<JoinHandle<String>>,
}

impl Terminal {
    fn run(program: &Path, server: &NatsServer) -> Self {
        let mut child = Command::new(program)
            .env("NATS_URL", server.url())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        let mut logs = child.stderr.take().expect("a pipe");
        let log = thread::spawn(move || {
            let mut log = String::new();
            logs.read_to_string(&mut log).expect("text");
            log
        });
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (told, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = told.send(line);
            }
        });
        let log = Some(log);
        Self { child, lines, log }
    }

    fn prints(&self, expected: &str) {
        let line = self.lines.recv_timeout(PATIENCE).expect("a line");
        assert_eq!(words(&line), words(expected), "{line}");
    }

    fn ctrl_c(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).expect("a living process");
    }

    /// Waits for the end. Returns the log.
    fn ends(mut self) -> String {
        let more = self.lines.recv_timeout(PATIENCE);
        assert_eq!(
            more,
            Err(RecvTimeoutError::Disconnected),
            "README does not show it"
        );
        assert!(self.child.wait().expect("its end").success());
        self.log.take().expect("a log").join().expect("its end")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The words of a line. Those with a digit, such as tokens, differ from run to run.
fn words(line: &str) -> Vec<&str> {
    let differs = |word: &str| word.contains(|c: char| c.is_ascii_digit());
    line.split(' ')
        .map(|word| if differs(word) { "…" } else { word })
        .collect()
}

#[test]
#[ignore = "builds a project"]
fn the_quick_start_does_what_the_readme_shows() {
    let program = build();
    let server = NatsServer::start().expect("a server");
    let shown = shown();
    let [first_shows, second_shows] = shown.as_slice() else {
        panic!("two terminals: {shown:?}");
    };
    let first = Terminal::run(&program, &server);
    let (begins, ends) = first_shows.split_first().expect("a line");
    first.prints(begins);
    let second = Terminal::run(&program, &server);
    first.ctrl_c();
    for line in ends {
        first.prints(line);
    }
    let log = first.ends();
    for logged in ["INFO", "connected to NATS: started", "term started"] {
        assert!(log.contains(logged), "{logged}: {log}");
    }
    for line in second_shows {
        second.prints(line);
    }
    second.ctrl_c();
    says_in_words_that_nats_is_away(&program);
}

fn says_in_words_that_nats_is_away(program: &Path) {
    let away = Command::new(program)
        .env("NATS_URL", "nats://127.0.0.1:1")
        .env("NATS_ELECT_START_TIMEOUT", "500ms")
        .output()
        .expect("the program");
    let told = String::from_utf8_lossy(&away.stderr);
    let expected = "\nNATS could not be used within 500ms: ";
    assert!(told.contains(expected), "{told}");
    assert!(
        told.contains("WARN") && !told.contains("async_nats"),
        "{told}"
    );
    assert_eq!(away.status.code(), Some(1), "{told}");
}
