//! PostgreSQL out of Debian's packages, without installing anything.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Problem;
use super::server::{Programs, newest_below, run};

/// Unpacks the packages into a folder, where any user may run what is in them. They are fetched once, into `target/`.
pub fn unpack_into(folder: &Path) -> Result<Programs, Problem> {
    let packages = fetched().map_err(|problem| {
        format!(
            "no PostgreSQL to run: none on PATH or in /usr/lib/postgresql, and none to be had from Debian ({problem}). \
             Install one (`apt-get install postgresql`), or name a database in DATABASE_URL"
        )
    })?;
    let root = folder.join("debian");
    for package in packages {
        run(Command::new("dpkg-deb")
            .arg("-x")
            .arg(package?.path())
            .arg(&root))?;
    }
    let programs = newest_below(&root).ok_or("Debian's package has no PostgreSQL server in it")?;
    let mut libraries = Vec::new();
    for place in ["usr/lib", "lib"] {
        for entry in fs::read_dir(root.join(place)).into_iter().flatten() {
            let path = entry?.path();
            if path.to_string_lossy().contains("-linux-gnu") {
                libraries.push(path);
            }
        }
    }
    Ok(Programs {
        folder: programs,
        libraries,
    })
}

/// The packages' files.
fn fetched() -> Result<fs::ReadDir, Problem> {
    let store = target_folder()?.join("postgresql");
    let packages = store.join("packages");
    fs::create_dir_all(&store)?;
    let lock = File::create(store.join("lock"))?;
    lock.lock()?; // One process fetches, the others wait here and then find them.
    if !packages.is_dir() {
        let folder = tempfile::Builder::new()
            .prefix("fetch-")
            .tempdir_in(&store)?;
        // The machine's package lists may be missing, or name what is no longer there.
        let fetched = Apt::of_the_machine().fetch_into(folder.path());
        if fetched.is_err() {
            Apt::with_fresh_lists(&store.join("lists"))?.fetch_into(folder.path())?;
        }
        fs::rename(folder.keep(), &packages)?;
    }
    Ok(fs::read_dir(packages)?)
}

/// The target directory of the build that made this program.
fn target_folder() -> Result<PathBuf, Problem> {
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

struct Apt {
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

    fn fetch_into(&self, folder: &Path) -> Result<(), Problem> {
        let wanted = self.wanted()?;
        eprintln!("fetching from Debian (once): {}", wanted.join(" "));
        let mut command = self.command("apt-get");
        run(command.arg("download").args(wanted).current_dir(folder))?;
        Ok(())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for option in &self.options {
            command.args(["-o", option]);
        }
        command
    }

    /// The server's package, and what is not installed of the libraries that it needs. A just-in-time compiler it
    /// does without.
    fn wanted(&self) -> Result<Vec<String>, Problem> {
        let is_server = |name: &&String| {
            let version = name.strip_prefix("postgresql-");
            version.is_some_and(|version| version.parse::<u32>().is_ok())
        };
        let newest = self.depends(&["postgresql"])?;
        let server = newest
            .iter()
            .find(is_server)
            .ok_or("no server in its lists")?;
        let mut direct = self.depends(&[server])?;
        direct.retain(|name| is_library(name));
        let mut recursive: Vec<&str> = direct.iter().map(String::as_str).collect();
        recursive.push("--recurse");
        let mut wanted = self.depends(&recursive)?;
        wanted.extend(direct.clone());
        wanted.retain(|name| is_library(name) && !is_installed(name));
        wanted.sort();
        wanted.dedup();
        wanted.insert(0, server.clone());
        Ok(wanted)
    }

    /// What those packages depend on.
    fn depends(&self, packages: &[&str]) -> Result<Vec<String>, Problem> {
        let mut command = self.command("apt-cache");
        let answer = run(command.args(["depends", "--important"]).args(packages))?;
        let names = answer
            .lines()
            .filter_map(|line| line.split_once("Depends: "));
        Ok(names.map(|(_, name)| name.to_owned()).collect())
    }
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
