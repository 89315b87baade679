//! Headless Chromium: that of this machine, or Debian's.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::super::debian::{Packages, Problem, library_folders};

const CHROMIUM: Packages = Packages {
    name: "chromium",
    wanted: |apt| {
        let shell = "chromium-headless-shell";
        let mut wanted = apt.missing_libraries(&[shell])?;
        // What it shares with the browser that has windows; and letters, for a bare machine has none.
        let others = [shell, "chromium-common", "fonts-inter", "fonts-dejavu-core"];
        wanted.extend(others.map(ToOwned::to_owned));
        Ok(wanted)
    },
};

/// Names under which it may be installed.
const NAMES: [&str; 4] = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
];

/// The letters of the unpacked packages, and nothing of the machine's.
const FONTS: &str = r#"<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir>FONTS</dir>
<cachedir>CACHE</cachedir>
<alias><family>system-ui</family><prefer><family>Inter</family></prefer></alias>
<alias><family>sans-serif</family><prefer><family>Inter</family></prefer></alias>
<alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"#;

/// The command that starts it, and speaks the `DevTools` protocol through its input and output.
/// What it writes goes to this folder.
pub fn command(folder: &Path) -> Command {
    let (program, root) = program();
    // The pipe is expected at the descriptors 3 and 4.
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >&2", "chromium"])
        .arg(program)
        .args(["--headless", "--remote-debugging-pipe", "--no-first-run"])
        .args(["--disable-gpu", "--disable-dev-shm-usage", "--mute-audio"])
        // It shows our own pages alone, and root has no sandbox.
        .arg("--no-sandbox")
        .arg(format!("--user-data-dir={}", folder.display()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(fs::File::create(folder.join("log")).expect("a file"));
    if let Some(root) = root {
        let fonts = FONTS
            .replace("FONTS", &root.join("usr/share/fonts").display().to_string())
            .replace("CACHE", &root.join("font-cache").display().to_string());
        let file = folder.join("fonts.conf");
        fs::write(&file, fonts).expect("a file");
        command
            .env("FONTCONFIG_FILE", file)
            .env("LD_LIBRARY_PATH", libraries(&root).expect("folders"));
    }
    command
}

/// The program, and the folder it was unpacked in if it was.
fn program() -> (PathBuf, Option<PathBuf>) {
    if let Some(program) = env::var_os("CHROMIUM_BIN").map(PathBuf::from) {
        assert!(
            program.is_file(),
            "CHROMIUM_BIN: no file {}",
            program.display()
        );
        return (program, None);
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let installed = NAMES
        .iter()
        .flat_map(|name| env::split_paths(&path).map(move |folder| folder.join(name)));
    if let Some(program) = installed.into_iter().find(|program| program.is_file()) {
        return (program, None);
    }
    let root = CHROMIUM.unpacked().unwrap_or_else(|problem| {
        panic!(
            "no Chromium to run: none named by CHROMIUM_BIN, none on PATH, and none to be had from Debian ({problem}). \
             Install one (`apt-get install chromium-headless-shell`)"
        )
    });
    let program = root.join("usr/lib/chromium/chromium-headless-shell");
    (program, Some(root))
}

/// Where the unpacked libraries are, and what they load themselves.
fn libraries(root: &Path) -> Result<OsString, Problem> {
    let folders = library_folders(root)?.into_iter();
    let folders = folders.flat_map(|folder| {
        let below = ["nss", "pulseaudio"].map(|name| folder.join(name));
        [folder].into_iter().chain(below)
    });
    Ok(env::join_paths(folders)?)
}
