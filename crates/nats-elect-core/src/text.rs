//! Text from outside, made fit to be shown.

/// The longest name that is shown, in characters. A longer one is cut.
const MAX_NAME_CHARS: usize = 255;

/// Makes text from the bucket fit for logs and dashboards.
///
/// It removes line breaks, control characters and characters that are invisible or reverse the
/// text. It cuts the text after 255 characters.
pub fn printable(text: &str) -> String {
    text.chars()
        .filter(|&c| !c.is_control() && !is_invisible(c) && !matches!(c, '\u{2028}' | '\u{2029}'))
        .take(MAX_NAME_CHARS)
        .collect()
}

/// The beginning of a refused string, by which it can be recognised: at most 64 characters. The
/// string may be of any content and size.
pub fn beginning(name: &str) -> String {
    const SHOWN: usize = 64;
    match name.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// Whether a character is invisible or reverses the text. With such characters one id could pass
/// for another on a dashboard.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}
