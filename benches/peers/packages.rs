//! etcd, ZooKeeper and Java: installed, or out of Debian's packages.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::debian::{Apt, Packages, Problem, library_folders};

const ETCD: Packages = Packages {
    name: "etcd",
    wanted: |_| Ok(vec!["etcd-server".to_owned()]),
};
const ZOOKEEPER: Packages = Packages {
    name: "zookeeper",
    wanted: |_| Ok(JARS.map(|(package, _)| package.to_owned()).to_vec()),
};
const JAVA: Packages = Packages {
    name: "java",
    wanted: java_packages,
};

/// What a lone ZooKeeper server needs of what its package depends on.
const JARS: [(&str, &[&str]); 9] = [
    ("libzookeeper-java", &["zookeeper", "zookeeper-jute"]),
    ("libslf4j-java", &["slf4j-api", "slf4j-nop"]),
    ("libnetty-java", &["netty-all"]),
    ("libdropwizard-metrics-java", &["metrics-core"]),
    ("libcommons-cli-java", &["commons-cli"]),
    ("libcommons-io-java", &["commons-io"]),
    ("libfindbugs-annotations-java", &["findbugs-annotations"]),
    ("libsnappy-java", &["snappy-java"]),
    ("liblog4j1.2-java", &["log4j-1.2"]),
];

/// A program, and the folders of libraries that it needs beside the system's.
pub struct Program {
    pub path: PathBuf,
    pub libraries: Vec<PathBuf>,
}

/// `etcd`.
pub fn etcd() -> Result<Program, Problem> {
    if let Some(path) = on_path("etcd") {
        return Ok(Program::installed(path));
    }
    Ok(Program::installed(ETCD.unpacked()?.join("usr/bin/etcd")))
}

/// `java`.
pub fn java() -> Result<Program, Problem> {
    if let Some(path) = on_path("java") {
        return Ok(Program::installed(path));
    }
    let root = JAVA.unpacked()?;
    let machines = fs::read_dir(root.join("usr/lib/jvm"))?;
    let homes = machines.filter_map(|entry| Some(entry.ok()?.path()));
    let home = homes
        .filter(|home| !home.is_symlink() && home.join("bin/java").is_file())
        .max()
        .ok_or("Debian's package has no Java in it")?;
    lead_into(&root, &home)?;
    Ok(Program {
        path: home.join("bin/java"),
        libraries: library_folders(&root)?,
    })
}

/// The class path of a ZooKeeper server.
pub fn zookeeper() -> Result<std::ffi::OsString, Problem> {
    let installed = Path::new("/usr/share/java");
    let is_there = jars().all(|jar| installed.join(jar).is_file());
    let folder = if is_there {
        installed.to_owned()
    } else {
        ZOOKEEPER.unpacked()?.join("usr/share/java")
    };
    Ok(std::env::join_paths(jars().map(|jar| folder.join(jar)))?)
}

fn jars() -> impl Iterator<Item = String> {
    let names = JARS.iter().flat_map(|(_, names)| names.iter());
    names.map(|name| format!("{name}.jar"))
}

impl Program {
    const fn installed(path: PathBuf) -> Self {
        Self {
            path,
            libraries: Vec::new(),
        }
    }
}

fn on_path(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

fn java_packages(apt: &Apt) -> Result<Vec<String>, Problem> {
    let newest = apt.depends(&["default-jre-headless"])?;
    let java = newest
        .into_iter()
        .find(|name| name.starts_with("openjdk-"))
        .ok_or("no Java in its lists")?;
    let mut wanted = apt.missing_libraries(&[&java])?;
    wanted.push(java);
    Ok(wanted)
}

/// Has links to `/etc` lead to the unpacked one.
fn lead_into(root: &Path, folder: &Path) -> Result<(), Problem> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_symlink() {
            let unpacked = fs::read_link(&path)?;
            if let Ok(below) = unpacked.strip_prefix("/etc") {
                fs::remove_file(&path)?;
                symlink(root.join("etc").join(below), &path)?;
            }
        } else if path.is_dir() {
            lead_into(root, &path)?;
        }
    }
    Ok(())
}
