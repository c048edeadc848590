//! Patterns of leaf paths, with stars.

/// What the stars of a pattern stand for in `text`, if it fits: any text or none, the first ones as little as
/// possible; everything else stands for itself. Masks of optimizers and rules of shardings ask whether it fits, renaming rules of
/// checkpoints what it holds.
pub(crate) fn captures<'a>(pattern: &str, text: &'a str) -> Option<Vec<&'a str>> {
    let mut literals = pattern.split('*');
    let mut rest = text.strip_prefix(literals.next()?)?;
    let Some(last) = literals.next_back() else { return rest.is_empty().then(Vec::new) };
    // With nothing but stars between them, the leftmost place of each literal is as good as any.
    let mut found = Vec::new();
    for literal in literals {
        let at = rest.find(literal)?;
        found.push(&rest[..at]);
        rest = &rest[at + literal.len()..];
    }
    found.push(rest.strip_suffix(last)?);
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::captures;

    #[test]
    fn stars_stand_for_any_text() {
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
    fn what_stars_stand_for_is_as_short_as_can_be() {
        assert_eq!(captures("h.*.attn.*", "h.10.attn.c.weight"), Some(vec!["10", "c.weight"]));
        assert_eq!(captures("*", ""), Some(vec![""]));
        assert_eq!(captures("a*a", "a"), None);
        assert_eq!(captures("a*b*b", "abb"), Some(vec!["", ""]));
        assert_eq!(captures("*b", "abab"), Some(vec!["aba"]));
        assert_eq!(captures("abc", "abc"), Some(vec![]));
        assert_eq!(captures("abc", "abcd"), None);
        // Linear, where backtracking would not end.
        let (pattern, text) = ("*a".repeat(40) + "b", "a".repeat(4000));
        assert_eq!(captures(&pattern, &text), None);
    }
}
