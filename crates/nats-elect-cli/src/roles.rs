//! Roles as they are named on the command line: by their names, or by patterns.

use wildmatch::WildMatch;

/// The roles that a command is about. Without a word these are all roles.
///
/// A word with `*` (any characters) or `?` (one character) is a pattern. Neither is allowed in the
/// name of a role.
#[derive(Debug)]
pub struct Roles<'a> {
    words: &'a [String],
    patterns: Vec<WildMatch>,
}

impl<'a> Roles<'a> {
    pub fn of(words: &'a [String]) -> Self {
        let patterns = words.iter().map(|word| WildMatch::new(word)).collect();
        Self { words, patterns }
    }

    /// The names, if the roles are named one by one.
    pub fn names(&self) -> Option<&'a [String]> {
        let is_named = !self.words.is_empty() && !self.words.iter().any(|word| is_pattern(word));
        is_named.then_some(self.words)
    }

    /// Whether the command is about this role.
    pub fn has(&self, role: &str) -> bool {
        self.patterns.is_empty() || self.patterns.iter().any(|pattern| pattern.matches(role))
    }

    /// The words that none of these roles matches.
    pub fn missing(&self, known: &[&str]) -> Vec<&'a str> {
        let words = self.words.iter().zip(&self.patterns);
        words
            .filter(|(_, pattern)| !known.iter().any(|role| pattern.matches(role)))
            .map(|(word, _)| &**word)
            .collect()
    }
}

/// Whether a word may mean several roles.
pub fn is_pattern(word: &str) -> bool {
    word.contains(['*', '?'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_name_or_a_pattern_and_no_word_is_all_roles() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let named = words(&["a", "b/c"]);
        assert_eq!(Roles::of(&named).names(), Some(&*named));
        assert!(!Roles::of(&named).has("c"));
        let all = Roles::of(&[]);
        assert!(all.names().is_none() && all.has("a"));
        let patterns = words(&["sched*", "b/?"]);
        let roles = Roles::of(&patterns);
        assert!(roles.names().is_none());
        for (role, expected) in [("scheduler", true), ("b/c", true), ("b/cd", false)] {
            assert_eq!(roles.has(role), expected, "{role}");
        }
        assert_eq!(roles.missing(&["scheduler"]), ["b/?"]);
    }
}
