//! The programs of Prometheus.

use std::path::{Path, PathBuf};

use super::debian::{Packages, Problem};

const PROMETHEUS: Packages = Packages {
    name: "prometheus",
    // It is linked statically; what else the package asks for is the old user interface.
    wanted: |_| Ok(vec!["prometheus".to_owned()]),
};

/// The folder with `prometheus` and `promtool`.
pub fn programs() -> PathBuf {
    let named = std::env::var_os("PROMETHEUS_BIN").map(PathBuf::from);
    if let Some(program) = named {
        let folder = program.parent().map(Path::to_owned).unwrap_or_default();
        assert!(
            are_in(&folder),
            "PROMETHEUS_BIN: no prometheus and promtool in {}",
            folder.display()
        );
        return folder;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(folder) = std::env::split_paths(&path).find(|folder| are_in(folder)) {
        return folder;
    }
    unpacked().unwrap_or_else(|problem| {
        panic!(
            "no Prometheus to run: none named by PROMETHEUS_BIN, none on PATH, and none to be had from Debian ({problem}). \
             Install one (`apt-get install prometheus`, or https://prometheus.io/download), with promtool beside it"
        )
    })
}

fn unpacked() -> Result<PathBuf, Problem> {
    let root = PROMETHEUS.unpacked()?;
    let folder = root.join("usr/bin");
    if are_in(&folder) {
        Ok(folder)
    } else {
        Err("Debian's package has no Prometheus in it".into())
    }
}

fn are_in(folder: &Path) -> bool {
    ["prometheus", "promtool"]
        .iter()
        .all(|program| folder.join(program).is_file())
}
