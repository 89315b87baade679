//! Pages in Markdown, as a reader sees them.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::collections::BTreeSet;

/// A fenced block of code.
pub struct Block {
    /// What follows the opening fence, such as `rust,no_run`.
    pub info: String,
    pub text: String,
}

/// The blocks of code of a page, in order.
pub fn blocks(page: &str) -> Vec<Block> {
    split(page).1
}

/// The targets of links and pictures.
pub fn links(page: &str) -> Vec<String> {
    let prose = split(page).0;
    let without_code: String = prose.split('`').step_by(2).collect();
    let targets = without_code.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// The anchors of a page's headings.
pub fn anchors(page: &str) -> BTreeSet<String> {
    let prose = split(page).0;
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|heading| anchor_of(heading.trim_start_matches('#').trim()))
        .collect()
}

/// The anchor that GitHub and rustdoc give to a heading.
pub fn anchor_of(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let lower = heading.to_lowercase();
    lower
        .chars()
        .filter(kept)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// What is outside of blocks of code, and the blocks.
fn split(page: &str) -> (String, Vec<Block>) {
    let (mut prose, mut blocks) = (String::new(), Vec::new());
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(info)) => {
                let (info, text) = (info.to_owned(), String::new());
                open = Some(Block { info, text });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {
                prose.push_str(line);
                prose.push('\n');
            }
        }
    }
    assert!(open.is_none(), "a block of code has no end");
    (prose, blocks)
}
