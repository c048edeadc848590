//! Renaming rules: patterns with stars, and their replacements.

use crate::tree::captures;

/// One renaming rule.
#[derive(Clone, Debug)]
pub(super) struct Rename {
    pattern: String,
    replacement: String,
}

impl Rename {
    /// Returns the rule, or an explanation why it is invalid.
    pub(super) fn new(pattern: &str, replacement: &str) -> Result<Rename, String> {
        let stars = |text: &str| text.matches('*').count();
        if stars(replacement) > stars(pattern) {
            return Err(format!(
                "rename `{pattern}` to `{replacement}`: {} stars in the new name, {} in the \
                pattern",
                stars(replacement),
                stars(pattern)
            ));
        }
        Ok(Rename { pattern: pattern.into(), replacement: replacement.into() })
    }

    /// Returns the new name: each star of the replacement becomes the text of the pattern's star of
    /// the same number.
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
    fn captures_fill_the_replacement_in_order() {
        let rule = Rename::new("transformer.h.*.mlp.*", "blocks[*].mlp.*").unwrap();
        assert_eq!(rule.apply("transformer.h.3.mlp.up.bias").unwrap(), "blocks[3].mlp.up.bias");
        assert_eq!(rule.apply("wte.weight"), None);
        let dropped = Rename::new("*.gamma*", "*.scale").unwrap();
        assert_eq!(dropped.apply("norm.gamma0").unwrap(), "norm.scale");
        let error = Rename::new("a.*", "b[*].*").unwrap_err();
        assert_eq!(error, "rename `a.*` to `b[*].*`: 2 stars in the new name, 1 in the pattern");
    }
}
