//! Links between pages, files and folders.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::markdown::{anchors, links};
use super::{file, pages, top};

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => assert!(plain.pop(), "{} leads out", path.display()),
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading() {
    let mut broken = Vec::new();
    let mut followed = 0;
    for page in pages() {
        for target in links(&file(&page)) {
            if target.contains("://") {
                continue;
            }
            followed += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let folder = page.parent().expect("a folder");
            let path = match path {
                "" => page.clone(),
                path => plain(&folder.join(path)),
            };
            let is_there = top().join(&path).exists();
            let is_heading = || anchor.is_empty() || anchors(&file(&path)).contains(anchor);
            if !is_there || !is_heading() {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(followed > 50, "only {followed} links were found");
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_page_is_in_the_index_and_in_the_documentation_of_the_crate() {
    let index: BTreeSet<_> = links(&file(Path::new("docs/README.md")))
        .into_iter()
        .collect();
    let modules = file(Path::new("src/docs.rs")) + &file(Path::new("src/lib.rs"));
    for page in pages() {
        let Ok(name) = page.strip_prefix("docs") else {
            continue;
        };
        if name.components().count() > 1 {
            continue; // Decision records have an index of their own.
        }
        let name = name.to_str().expect("text");
        let is_listed = index
            .iter()
            .any(|link| link.split('#').next() == Some(name));
        assert!(
            is_listed || name == "README.md",
            "docs/README.md lacks {name}"
        );
        let included = format!("../docs/{name}\"");
        assert!(modules.contains(&included), "src/docs.rs lacks {name}");
    }
}

#[test]
fn the_readme_hides_no_line_of_code() {
    for block in super::markdown::blocks(&file(Path::new("README.md"))) {
        let hidden = |line: &&str| *line == "#" || line.starts_with("# ");
        let hidden = block.text.lines().find(hidden);
        assert!(
            !block.info.starts_with("rust") || hidden.is_none(),
            "{hidden:?}"
        );
    }
}
