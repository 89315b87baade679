//! A control group of a process and its children, with little memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Removed when this is dropped, once its processes have ended.
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// Nothing where this user may not make one.
    pub fn of_bytes(bytes: u64) -> Option<Self> {
        let name = format!("nats-elect-test-{}", std::process::id());
        let roots = [
            ("/sys/fs/cgroup", "memory.max"),
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ];
        roots.into_iter().find_map(|(root, limit)| {
            // In the same file system as the root: an empty folder is no group.
            let folder = Path::new(root).join(&name);
            Path::new(root)
                .join("cgroup.procs")
                .exists()
                .then_some(())?;
            fs::create_dir(&folder).ok()?;
            let group = Self(folder);
            fs::write(group.0.join(limit), bytes.to_string()).ok()?;
            Some(group)
        })
    }

    /// The words before a program that have it run in this group.
    pub fn words(&self) -> Vec<String> {
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$0\"", self.0.display());
        ["sh", "-c", &script].map(ToOwned::to_owned).to_vec()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for _ in 0..1000 {
            if fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
