//! The examples' languages.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::debian::{Packages, run};

/// A program that takes a socket and a role.
pub struct Language {
    words: Vec<PathBuf>,
    _folder: Option<tempfile::TempDir>,
}

impl Language {
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command
    }

    pub fn python() -> Self {
        Self {
            words: vec!["python3".into(), example("worker.py")],
            _folder: None,
        }
    }

    /// Built by the Go of this machine, or by Debian's. `None` if neither can be had.
    pub fn go() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let built = folder.path().join("worker");
        let (go, root) = if is_there("go", "version") {
            ("go".into(), None)
        } else {
            let unpacked = folder.path().join("go");
            if let Err(problem) = GO.unpack_into(&unpacked) {
                eprintln!(
                    "no Go, neither here nor from Debian ({problem}): its example is not tried"
                );
                return None;
            }
            let root = std::fs::read_dir(unpacked.join("usr/lib")).expect("a folder");
            let mut root = root.map(|it| it.expect("a folder").path());
            let root = root.find(|it| it.join("bin/go").exists()).expect("Go");
            (root.join("bin/go"), Some(root))
        };
        let mut building = Command::new(go);
        building
            .args(["build", "-o"])
            .arg(&built)
            .arg(example("worker.go"))
            .env("GOCACHE", folder.path().join("cache"))
            .env("GO111MODULE", "off");
        if let Some(root) = root {
            building.env("GOROOT", root);
        }
        assert!(building.status().expect("Go").success(), "worker.go builds");
        Some(Self {
            words: vec![built],
            _folder: Some(folder),
        })
    }

    /// Run by Node. A Node that does not read types gets the example without them. `None` if there
    /// is no Node.
    pub fn typescript() -> Option<Self> {
        if !is_there("node", "--version") {
            eprintln!("node is not installed: the example in TypeScript is not tried");
            return None;
        }
        let reads_types = Command::new("node")
            .args([
                "--eval",
                "process.exit(process.features.typescript ? 0 : 1)",
            ])
            .status();
        if reads_types.expect("node").success() {
            return Some(Self {
                words: vec!["node".into(), example("worker.ts")],
                _folder: None,
            });
        }
        let folder = tempfile::tempdir().expect("a folder");
        let plain = folder.path().join("worker.mjs");
        let stripped = Command::new("npx")
            .args([
                "--yes",
                "esbuild@0.25",
                "--log-level=warning",
                "--format=esm",
            ])
            .arg(example("worker.ts"))
            .arg(format!("--outfile={}", plain.display()))
            .current_dir(folder.path())
            .status();
        if !stripped.is_ok_and(|it| it.success()) {
            eprintln!(
                "this node reads no types, and esbuild can't be had: TypeScript is not tried"
            );
            return None;
        }
        Some(Self {
            words: vec!["node".into(), plain],
            _folder: Some(folder),
        })
    }
}

const GO: Packages = Packages {
    name: "go",
    wanted: |apt| {
        let named = ["search", "--names-only", "^golang-1\\.[0-9]+-(go|src)$"];
        let found = run(apt.command("apt-cache").args(named))?;
        let names = found.lines().filter_map(|line| line.split(' ').next());
        let version = |name: &str| {
            name.split('-')
                .nth(1)?
                .strip_prefix("1.")?
                .parse::<u32>()
                .ok()
        };
        let newest = names.clone().filter_map(version).max();
        let newest = newest.ok_or("Debian has no Go")?;
        let of_it = names.filter(|name| version(name) == Some(newest));
        Ok(of_it.map(ToOwned::to_owned).collect())
    },
};

fn example(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/agent")).join(name)
}

fn is_there(program: &str, asked: &str) -> bool {
    let mut command = Command::new(program);
    command
        .arg(asked)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|it| it.success())
}
