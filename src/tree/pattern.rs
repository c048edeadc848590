//! Patterns of leaf paths with wildcards.

/// Matches `text` against a pattern and returns the text matched by each star, `None` if it does
/// not match. A star matches any text, also none. Earlier stars match as little as possible. Used
/// by masks of optimizers, sharding rules, and renaming rules of checkpoints.
pub(crate) fn captures<'a>(pattern: &str, text: &'a str) -> Option<Vec<&'a str>> {
    let mut literals = pattern.split('*');
    let mut rest = text.strip_prefix(literals.next()?)?;
    let Some(last) = literals.next_back() else { return rest.is_empty().then(Vec::new) };
    // Only stars separate literals, so the leftmost match of each literal suffices.
    let mut captures = Vec::new();
    for literal in literals {
        let start = rest.find(literal)?;
        captures.push(&rest[..start]);
        rest = &rest[start + literal.len()..];
    }
    captures.push(rest.strip_suffix(last)?);
    Some(captures)
}

#[cfg(test)]
mod tests {
    use super::captures;

    #[test]
    fn stars_match_any_text() {
        for (pattern, path, expected) in [
            ("bias", "bias", true),
            ("bias", "head.bias", false),
            ("*bias", "head.bias", true),
            ("blocks[*].attn.*", "blocks[12].attn.qkv.weight", true),
            ("blocks[*].attn.*", "blocks[12].mlp.weight", false),
            ("*a*b", "xaxxb", true),
            ("*a*b", "xaxxbc", false),
            ("*", "", true),
            ("**", "é.x", true),
            ("", "x", false),
        ] {
            assert_eq!(captures(pattern, path).is_some(), expected, "{pattern} and {path}");
        }
    }

    #[test]
    fn earlier_stars_match_as_little_as_possible() {
        assert_eq!(captures("h.*.attn.*", "h.10.attn.c.weight"), Some(vec!["10", "c.weight"]));
        assert_eq!(captures("*", ""), Some(vec![""]));
        assert_eq!(captures("a*a", "a"), None);
        assert_eq!(captures("a*b*b", "abb"), Some(vec!["", ""]));
        assert_eq!(captures("*b", "abab"), Some(vec!["aba"]));
        assert_eq!(captures("abc", "abc"), Some(vec![]));
        assert_eq!(captures("abc", "abcd"), None);
        // Takes linear time, where backtracking would take exponential time.
        let (pattern, text) = ("*a".repeat(40) + "b", "a".repeat(4000));
        assert_eq!(captures(&pattern, &text), None);
    }
}
