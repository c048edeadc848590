//! Patterns with stars, and what they make of names.

/// What the stars of a pattern stand for in `text`, if it fits: any text or none, the first ones as little as
/// possible; everything else stands for itself. As [`Mask::paths`](crate::optim::Mask::paths) has it.
fn captures<'a>(pattern: &str, text: &'a str) -> Option<Vec<&'a str>> {
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

/// One renaming rule.
#[derive(Clone, Debug)]
pub(super) struct Rename {
    pattern: String,
    replacement: String,
}

impl Rename {
    /// The rule, or why it is none.
    pub(super) fn new(pattern: &str, replacement: &str) -> Result<Rename, String> {
        let stars = |text: &str| text.matches('*').count();
        if stars(replacement) > stars(pattern) {
            return Err(format!(
                "rename `{pattern}` to `{replacement}`: {} stars in the new name, {} in the pattern",
                stars(replacement),
                stars(pattern)
            ));
        }
        Ok(Rename { pattern: pattern.into(), replacement: replacement.into() })
    }

    /// The new name: each star of the replacement is what the pattern's star of that number stood for.
    pub(super) fn apply(&self, name: &str) -> Option<String> {
        let captured = captures(&self.pattern, name)?;
        let mut pieces = self.replacement.split('*');
        let mut renamed = pieces.next()?.to_owned();
        for (piece, captured) in pieces.zip(captured) {
            renamed.push_str(captured);
            renamed.push_str(piece);
        }
        Some(renamed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
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

    #[test]
    fn captures_fill_the_new_name_in_order() {
        let rule = Rename::new("transformer.h.*.mlp.*", "blocks[*].mlp.*").unwrap();
        assert_eq!(rule.apply("transformer.h.3.mlp.up.bias").unwrap(), "blocks[3].mlp.up.bias");
        assert_eq!(rule.apply("wte.weight"), None);
        let dropped = Rename::new("*.gamma*", "*.scale").unwrap();
        assert_eq!(dropped.apply("norm.gamma0").unwrap(), "norm.scale");
        let error = Rename::new("a.*", "b[*].*").unwrap_err();
        assert_eq!(error, "rename `a.*` to `b[*].*`: 2 stars in the new name, 1 in the pattern");
    }
}
