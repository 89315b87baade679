//! A private PostgreSQL for the time of a story.

use std::fs;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use super::Problem;
use super::debian::run;
use super::packages;

/// Runs the server until the input ends, which it also does when whoever holds the other end is
/// killed.
const GUARD: &str = r#"
trap '' HUP INT TERM
"$1/postgres" -D "$2/data" -k "$2" -h '' -F >"$2/log" 2>&1 &
while read -r _; do :; done
kill -INT $! 2>/dev/null
wait $!
rm -rf -- "$2"
"#;
const POLL: Duration = Duration::from_millis(20);
const POLLS: usize = 1500;

/// A server that listens on a socket in a temporary folder alone. When this is dropped it is
/// stopped, and its data removed.
pub struct Server {
    folder: PathBuf,
    guard: Child,
}

/// Where its programs are.
pub struct Programs {
    pub folder: PathBuf,
    /// Folders of libraries that are not installed.
    pub libraries: Vec<PathBuf>,
}

impl Server {
    /// Starts the PostgreSQL of this machine, or Debian's.
    ///
    /// PostgreSQL refuses to run as root. If we are root, it runs as `nobody`.
    pub fn start() -> Result<Self, Problem> {
        let folder = tempfile::Builder::new().prefix("postgres-").tempdir()?;
        let programs = match Programs::of_this_machine() {
            Some(programs) => programs,
            None => packages::unpack_into(folder.path())?,
        };
        let user = Unprivileged::needed()?;
        if let Some(user) = &user {
            let owner = format!("{}:{}", user.id, user.group);
            run(Command::new("chown")
                .args(["-R", &owner])
                .arg(folder.path()))?;
        }
        let command = |program: &Path| {
            let mut command = Command::new(program);
            command.current_dir(folder.path()).env("TZ", "UTC");
            if !programs.libraries.is_empty() {
                let libraries = std::env::join_paths(&programs.libraries);
                command.env("LD_LIBRARY_PATH", libraries.unwrap_or_default());
            }
            if let Some(user) = &user {
                command.uid(user.id).gid(user.group);
            }
            command
        };
        run(command(&programs.folder.join("initdb"))
            .args([
                "--username=postgres",
                "--auth=trust",
                "--locale=C",
                "--encoding=UTF8",
                "--no-sync",
            ])
            .arg("--pgdata")
            .arg(folder.path().join("data")))?;
        let guard = command(Path::new("/bin/sh"))
            .args(["-c", GUARD, "postgres-guard"])
            .args([&programs.folder, folder.path()])
            .stdin(Stdio::piped())
            // Ctrl-C ends the story first.
            .process_group(0)
            .spawn()?;
        let server = Self {
            folder: folder.keep(),
            guard,
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// How to connect to it.
    pub fn config(&self) -> String {
        format!(
            "host={} user=postgres dbname=postgres",
            self.folder.display()
        )
    }

    fn wait_until_ready(&self) -> Result<(), Problem> {
        let log = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        for _ in 0..POLLS {
            if log().contains("ready to accept connections") {
                UnixStream::connect(self.folder.join(".s.PGSQL.5432"))?;
                return Ok(());
            }
            if log().contains("FATAL") {
                break;
            }
            thread::sleep(POLL);
        }
        Err(format!("PostgreSQL does not start:\n{}", log()).into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

impl Programs {
    fn of_this_machine() -> Option<Self> {
        let on_path = std::env::var_os("PATH").unwrap_or_default();
        let on_path: Vec<_> = std::env::split_paths(&on_path).collect();
        let folder = on_path.into_iter().find(|folder| are_in(folder));
        Some(Self {
            folder: folder.or_else(|| newest_below(Path::new("/")))?,
            libraries: Vec::new(),
        })
    }
}

/// The programs' folder, as Debian lays it out below `root`.
pub fn newest_below(root: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(root.join("usr/lib/postgresql")).ok()?;
    versions
        .filter_map(|version| Some(version.ok()?.path()))
        .filter(|version| are_in(&version.join("bin")))
        .max_by_key(|version| version.file_name()?.to_str()?.parse::<u32>().ok())
        .map(|version| version.join("bin"))
}

fn are_in(folder: &Path) -> bool {
    ["initdb", "postgres"]
        .iter()
        .all(|program| folder.join(program).is_file())
}

struct Unprivileged {
    id: u32,
    group: u32,
}

impl Unprivileged {
    /// Who runs the server if we may not.
    fn needed() -> Result<Option<Self>, Problem> {
        if number(&["-u"])? != 0 {
            return Ok(None);
        }
        Ok(Some(Self {
            id: number(&["-u", "nobody"])?,
            group: number(&["-g", "nobody"])?,
        }))
    }
}

fn number(arguments: &[&str]) -> Result<u32, Problem> {
    Ok(run(Command::new("id").args(arguments))?.trim().parse()?)
}
