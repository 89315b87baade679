//! Programs out of Debian's packages, without installing anything.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Any error, for people to read.
pub type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Packages that are fetched once, into a folder of their own below `target/`.
pub struct Packages {
    /// The folder's name.
    pub name: &'static str,
    /// Which they are, by Debian's lists of the day.
    pub wanted: fn(&Apt) -> Result<Vec<String>, Problem>,
}

impl Packages {
    /// Unpacks them into a folder.
    pub fn unpack_into(&self, root: &Path) -> Result<(), Problem> {
        for package in self.fetched()? {
            run(Command::new("dpkg-deb")
                .arg("-x")
                .arg(package?.path())
                .arg(root))?;
        }
        Ok(())
    }

    /// The folder below `target/` in which they are, unpacked once for all tests.
    pub fn unpacked(&self) -> Result<PathBuf, Problem> {
        let store = target_folder()?.join(format!("{}-unpacked", self.name));
        let root = store.join("root");
        fs::create_dir_all(&store)?;
        let lock = File::create(store.join("lock"))?;
        lock.lock()?; // One process unpacks, the others wait here and then find it.
        if !root.is_dir() {
            let folder = tempfile::Builder::new()
                .prefix("unpack-")
                .tempdir_in(&store)?;
            self.unpack_into(folder.path())?;
            fs::rename(folder.keep(), &root)?;
        }
        Ok(root)
    }

    /// The packages' files.
    fn fetched(&self) -> Result<fs::ReadDir, Problem> {
        let store = target_folder()?.join(self.name);
        let packages = store.join("packages");
        fs::create_dir_all(&store)?;
        let lock = File::create(store.join("lock"))?;
        lock.lock()?; // One process fetches, the others wait here and then find them.
        if !packages.is_dir() {
            let folder = tempfile::Builder::new()
                .prefix("fetch-")
                .tempdir_in(&store)?;
            // The machine's package lists may be missing, or name what is no longer there.
            let fetched = self.fetch_into(folder.path(), &Apt::of_the_machine());
            if fetched.is_err() {
                let apt = Apt::with_fresh_lists(&store.join("lists"))?;
                self.fetch_into(folder.path(), &apt)?;
            }
            fs::rename(folder.keep(), &packages)?;
        }
        Ok(fs::read_dir(packages)?)
    }

    fn fetch_into(&self, folder: &Path, apt: &Apt) -> Result<(), Problem> {
        let wanted = (self.wanted)(apt)?;
        eprintln!("fetching from Debian (once): {}", wanted.join(" "));
        let mut command = apt.command("apt-get");
        run(command.arg("download").args(wanted).current_dir(folder))?;
        Ok(())
    }
}

/// The target directory of the build that made this program.
pub fn target_folder() -> Result<PathBuf, Problem> {
    if let Some(folder) = std::env::var_os("CARGO_TARGET_DIR") {
        return Ok(std::path::absolute(folder)?);
    }
    let program = std::env::current_exe()?;
    let is_target =
        |folder: &&Path| folder.ends_with("target") || folder.join("CACHEDIR.TAG").is_file();
    let target = program.ancestors().find(is_target);
    Ok(target
        .ok_or("this program is in no target directory")?
        .to_owned())
}

/// Debian's package manager, which here only looks and downloads.
pub struct Apt {
    options: Vec<String>,
}

impl Apt {
    fn of_the_machine() -> Self {
        Self {
            options: vec!["APT::Sandbox::User=root".to_owned()],
        }
    }

    /// With lists of our own, which takes no privileges.
    fn with_fresh_lists(folder: &Path) -> Result<Self, Problem> {
        fs::create_dir_all(folder.join("partial"))?;
        let mut apt = Self::of_the_machine();
        for place in ["Dir::State::lists", "Dir::Cache"] {
            apt.options.push(format!("{place}={}", folder.display()));
        }
        run(apt.command("apt-get").arg("update"))?;
        Ok(apt)
    }

    /// What is not installed of the libraries that these packages need, with those that these need.
    /// A just-in-time compiler they do without.
    pub fn missing_libraries(&self, packages: &[&str]) -> Result<Vec<String>, Problem> {
        let mut direct = self.depends(packages)?;
        direct.retain(|name| is_library(name));
        let mut recursive: Vec<&str> = direct.iter().map(String::as_str).collect();
        recursive.push("--recurse");
        let mut missing = self.depends(&recursive)?;
        missing.extend(direct);
        missing.retain(|name| is_library(name) && !is_installed(name));
        missing.sort();
        missing.dedup();
        Ok(missing)
    }

    /// What those packages depend on.
    pub fn depends(&self, packages: &[&str]) -> Result<Vec<String>, Problem> {
        let mut command = self.command("apt-cache");
        let answer = run(command.args(["depends", "--important"]).args(packages))?;
        let names = answer
            .lines()
            .filter_map(|line| line.split_once("Depends: "));
        Ok(names.map(|(_, name)| name.to_owned()).collect())
    }

    /// A command of the package manager, with what it needs to run as we do.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for option in &self.options {
            command.args(["-o", option]);
        }
        command
    }
}

/// The folders of unpacked libraries.
pub fn library_folders(root: &Path) -> Result<Vec<PathBuf>, Problem> {
    let mut folders = Vec::new();
    for place in ["usr/lib", "lib"] {
        for entry in fs::read_dir(root.join(place)).into_iter().flatten() {
            let path = entry?.path();
            if path.to_string_lossy().contains("-linux-gnu") {
                folders.push(path);
            }
        }
    }
    Ok(folders)
}

fn is_library(package: &str) -> bool {
    let needless = ["libc6", "libllvm", "libpam-"];
    package.starts_with("lib")
        && !package.ends_with("-perl")
        && !needless.iter().any(|start| package.starts_with(start))
}

fn is_installed(package: &str) -> bool {
    let asked = run(Command::new("dpkg-query").args(["-W", "-f=${db:Status-Status}", package]));
    asked.is_ok_and(|status| status.starts_with("installed"))
}

/// Runs a program to its end and returns what it printed.
pub fn run(command: &mut Command) -> Result<String, Problem> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("`{name}`: {error}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{name}`: {}: {}", output.status, complaint.trim()).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
