//! PostgreSQL out of Debian's packages.

use std::path::Path;

use super::Problem;
use super::debian::{Apt, Packages, library_folders};
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
    let libraries = library_folders(&root)?;
    Ok(Programs {
        folder: programs,
        libraries,
    })
}

/// The server's package, and the libraries that it needs.
fn wanted(apt: &Apt) -> Result<Vec<String>, Problem> {
    let is_server = |name: &&String| {
        let version = name.strip_prefix("postgresql-");
        version.is_some_and(|version| version.parse::<u32>().is_ok())
    };
    let newest = apt.depends(&["postgresql"])?;
    let server = newest
        .iter()
        .find(is_server)
        .ok_or("no server in its lists")?;
    let mut wanted = apt.missing_libraries(&[server])?;
    wanted.insert(0, server.clone());
    Ok(wanted)
}
