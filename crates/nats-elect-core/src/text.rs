//! Text from outside, made fit to be shown.

/// Names longer than this are cut, in characters.
const MAX_NAME_CHARS: usize = 255;

/// Text from the bucket ends up in logs and on dashboards: no line breaks, nothing that hides or turns the text around, no
/// endless names.
pub fn printable(text: &str) -> String {
    text.chars()
        .filter(|&c| !c.is_control() && !is_invisible(c) && !matches!(c, '\u{2028}' | '\u{2029}'))
        .take(MAX_NAME_CHARS)
        .collect()
}

/// Enough of a refused string to recognise it by; it may be anything, and megabytes of it.
pub fn beginning(name: &str) -> String {
    const SHOWN: usize = 64;
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// Characters that show as nothing or turn the text around: with them one id could pass for another on a dashboard.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}
