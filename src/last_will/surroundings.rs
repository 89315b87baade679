//! What around this process takes the companion along when the process dies.

use std::path::{Path, PathBuf};

/// Returns in words why a companion dies with this process, as far as that can be known.
pub(super) fn trouble() -> Vec<String> {
    let mut trouble = Vec::new();
    if std::process::id() == 1 {
        trouble.push(
            "this is the first process of its container, and the kernel ends the companion with it: a crash takes as long as without it"
                .to_owned(),
        );
    }
    let group = std::fs::read_to_string("/proc/self/cgroup");
    let group = group.ok().and_then(|text| folder(&text));
    if group.is_some_and(|group| dies_as_one(&group)) {
        trouble.push(
            "the out-of-memory killer ends its whole control group at once (`memory.oom.group`): the companion would not survive that"
                .to_owned(),
        );
    }
    trouble
}

/// The folder of this process's group, in the hierarchy that has all controllers.
fn folder(groups: &str) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new("/sys/fs/cgroup").join(path))
}

/// Whether this group, or one around it, is killed as a whole.
fn dies_as_one(group: &Path) -> bool {
    let root = Path::new("/sys/fs/cgroup");
    let around = group.ancestors().take_while(|it| it.starts_with(root));
    around.into_iter().any(|group| {
        std::fs::read_to_string(group.join("memory.oom.group"))
            .is_ok_and(|value| value.trim() == "1")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_that_of_the_hierarchy_with_all_controllers() {
        let found = folder("4:memory:/a\n0::/system.slice/b.service\n");
        let expected = Path::new("/sys/fs/cgroup/system.slice/b.service");
        assert_eq!(found.as_deref(), Some(expected));
        assert_eq!(folder("4:memory:/a\n"), None);
        assert!(!dies_as_one(Path::new("/sys/fs/cgroup/no/such/group")));
    }
}
