//! Text with gaps.

/// Puts each value where its name stands in double braces.
pub fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut text = template.to_owned();
    for (name, value) in values {
        let gap = format!("{{{{{name}}}}}");
        assert!(text.contains(&gap), "the template has no {gap}");
        text = text.replace(&gap, value.trim_end());
    }
    assert!(!text.contains("{{"), "nothing fills a gap of the template");
    text
}
