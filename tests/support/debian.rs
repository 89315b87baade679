//! Programs out of Debian's packages, without installing anything.

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

    /// A command of the package manager, with what it needs to run as we do.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for option in &self.options {
            command.args(["-o", option]);
        }
        command
    }
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
