//! Short words for times, and text of a given width.

use ratatui::text::Span;

use crate::text::stamp_of;

/// The time of day if it is of today, or else the day with it, in UTC.
pub fn when(at_ms: u64, now_ms: u64) -> String {
    let at = stamp_of(at_ms);
    let now = stamp_of(now_ms);
    if at.get(..10) == now.get(..10) {
        return at.get(11..19).unwrap_or_default().to_owned();
    }
    at.get(5..16).unwrap_or_default().replace('T', " ")
}

/// How many columns a text takes.
pub fn columns(text: &str) -> usize {
    Span::raw(text).width()
}

/// A text of at most this width; a sign tells that it was longer.
pub fn fit(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut cut = String::new();
    for character in text.chars() {
        let next = format!("{cut}{character}");
        if columns(&next) >= width {
            break;
        }
        cut = next;
    }
    cut + "…"
}

/// As many of these columns as have room, from the left; a blank stands beside each.
pub fn fitting<'a>(columns: &'a [(&'a str, usize)], room: usize) -> &'a [(&'a str, usize)] {
    let mut left = room;
    let fit = columns.iter().take_while(|(_, wide)| {
        let fits = left > *wide;
        left = left.saturating_sub(wide + 1);
        fits
    });
    &columns[..fit.count()]
}

/// A text with blanks up to this width.
pub fn padded(text: &str, width: usize) -> String {
    text.to_owned() + &" ".repeat(width.saturating_sub(columns(text)))
}

/// A text with blanks before it.
pub fn right(text: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(columns(text))) + text
}
