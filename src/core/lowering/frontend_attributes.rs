//! Attributes that programs carry to XLA: `mhlo.frontend_attributes`.

use super::lower_ctx::LowerCtx;
use crate::core::error::RuleResult;
use crate::core::program::program::Program;
use crate::stablehlo::{FrontendAttributes, Value};
use std::fmt::Write as _;

type Pairs = [(String, String)];

/// Returns the pairs as the inside of a dictionary in MLIR.
fn dictionary(pairs: &Pairs) -> String {
    let mut text = String::new();
    for (index, (key, value)) in pairs.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        let is_bare = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && key.chars().all(|c| c.is_ascii_alphanumeric() || "_$.".contains(c));
        let key = if is_bare { key.clone() } else { format!("\"{}\"", escaped(key)) };
        write!(text, "{separator}{key} = \"{}\"", escaped(value)).expect("strings take any text");
    }
    text
}

/// Returns the text of a string literal of MLIR, without quotes.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'"' && byte != b'\\' => out.push(char::from(byte)),
            _ => write!(out, "\\{byte:02X}").expect("strings take any text"),
        }
    }
    out
}

/// Returns the pairs of `outer` and `inner`, of which the latter replace those with equal keys,
/// sorted by key.
fn joined(outer: &Pairs, inner: &Pairs) -> Vec<(String, String)> {
    let is_replaced = |key: &String| inner.iter().any(|(other, _)| other == key);
    let kept = outer.iter().filter(|(key, _)| !is_replaced(key));
    let mut all: Vec<(String, String)> = kept.chain(inner).cloned().collect();
    all.sort();
    all
}

impl LowerCtx<'_> {
    /// Writes the program's equations in place, with attributes on each operation.
    ///
    /// # Errors
    /// Errors of the `lower` rules.
    pub(crate) fn inline_with_metadata(
        &mut self,
        program: &Program,
        inputs: &[Value],
        metadata: &Pairs,
    ) -> RuleResult<Vec<Value>> {
        let all = joined(&self.metadata, metadata);
        let outer = std::mem::replace(&mut self.metadata, all);
        let written = self.inline(program, inputs);
        self.metadata = outer;
        written
    }

    /// Writes a call of the program as a private function, with attributes on the call.
    ///
    /// # Errors
    /// Errors of the `lower` rules.
    pub(crate) fn call_with_metadata(
        &mut self,
        program: &Program,
        name: &str,
        inputs: &[Value],
        metadata: &Pairs,
    ) -> RuleResult<Vec<Value>> {
        let all = joined(&self.metadata, metadata);
        let annotations = format!("mhlo.frontend_attributes = {{{}}}", dictionary(&all));
        // The operations of the function are those of the call.
        let outer = std::mem::take(&mut self.metadata);
        let attributes = self.writer.set_frontend_attributes(None);
        let written = self.call_annotated(program, name, inputs, &annotations);
        self.writer.restore_frontend_attributes(attributes);
        self.metadata = outer;
        written
    }

    /// Sets the attributes of the operations that are written from now on in this region. Returns
    /// those before; `None` if nothing changes.
    pub(super) fn annotate(&mut self) -> Option<FrontendAttributes> {
        let attributes = (!self.metadata.is_empty()).then(|| dictionary(&self.metadata))?;
        Some(self.writer.set_frontend_attributes(Some(attributes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn inner_values_replace_outer_ones_and_text_is_escaped() {
        let all = joined(&pairs(&[("b", "1"), ("a", "2")]), &pairs(&[("b", "\"\n"), ("9 c", "x")]));
        assert_eq!(dictionary(&all), r#""9 c" = "x", a = "2", b = "\22\0A""#);
    }
}
