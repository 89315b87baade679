//! PostgreSQL out of Debian's packages.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Problem;
use super::debian::{Apt, Packages, run};
use super::server::{Programs, newest_below};

const POSTGRESQL: Packages = Packages {
    name: "postgresql",
    wanted,
};

/// Unpacks the packages into a folder, where any user may run what is in them.
pub fn unpack_into(folder: &Path) -> Result<Programs, Problem> {
    let root = folder.join("debian");
    POSTGRESQL.unpack_into(&root).map_err(|problem| {
        format!(
            "no PostgreSQL to run: none on PATH or in /usr/lib/postgresql, and none to be had from Debian ({problem}). \
             Install one (`apt-get install postgresql`), or name a database in DATABASE_URL"
        )
    })?;
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

/// The server's package, and what is not installed of the libraries that it needs. A just-in-time
/// compiler it does without.
fn wanted(apt: &Apt) -> Result<Vec<String>, Problem> {
    let is_server = |name: &&String| {
        let version = name.strip_prefix("postgresql-");
        version.is_some_and(|version| version.parse::<u32>().is_ok())
    };
    let newest = depends(apt, &["postgresql"])?;
    let server = newest
        .iter()
        .find(is_server)
        .ok_or("no server in its lists")?;
    let mut direct = depends(apt, &[server])?;
    direct.retain(|name| is_library(name));
    let mut recursive: Vec<&str> = direct.iter().map(String::as_str).collect();
    recursive.push("--recurse");
    let mut wanted = depends(apt, &recursive)?;
    wanted.extend(direct.clone());
    wanted.retain(|name| is_library(name) && !is_installed(name));
    wanted.sort();
    wanted.dedup();
    wanted.insert(0, server.clone());
    Ok(wanted)
}

/// What those packages depend on.
fn depends(apt: &Apt, packages: &[&str]) -> Result<Vec<String>, Problem> {
    let mut command = apt.command("apt-cache");
    let answer = run(command.args(["depends", "--important"]).args(packages))?;
    let names = answer
        .lines()
        .filter_map(|line| line.split_once("Depends: "));
    Ok(names.map(|(_, name)| name.to_owned()).collect())
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
