//! Rust names for Python's.

use std::collections::HashSet;

const KEYWORDS: &[&str] = &[
    "as", "async", "await", "box", "break", "const", "continue", "crate", "dyn", "else", "enum",
    "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "pub", "ref", "return", "self", "Self", "static", "struct",
    "super", "trait", "true", "try", "type", "union", "unsafe", "use", "where", "while", "yield",
    "abstract", "become", "do", "override", "priv", "typeof", "unsized", "virtual",
];

/// Names of the prelude that a variable must not hide, because generated code calls them.
const CALLED: &[&str] = &[
    "abs",
    "add",
    "axes",
    "catch",
    "clamp",
    "clip",
    "concatenate",
    "cond",
    "conj",
    "conv",
    "div",
    "dot",
    "einsum",
    "eq",
    "exp",
    "eye",
    "fft",
    "full",
    "gather",
    "ge",
    "grad",
    "gt",
    "iota",
    "jit",
    "le",
    "linalg",
    "log",
    "lt",
    "map",
    "maximum",
    "minimum",
    "mul",
    "ne",
    "nn",
    "ones",
    "pow",
    "random",
    "rem",
    "reshape",
    "scalar",
    "scan",
    "scatter",
    "select",
    "slice",
    "sort",
    "split_sizes",
    "sqrt",
    "stack",
    "sub",
    "switch",
    "tree",
    "tril",
    "triu",
    "vmap",
    "where_",
    "while_loop",
    "zeros",
    "full_like",
    "top_k",
    "lu",
    "svd",
    "qr",
    "eigh",
    "round",
    "sign",
    "cumsum",
    "standardize",
    "take_along_axis",
    "logaddexp",
    "logsumexp",
    "stop_gradient",
    "square",
    "transpose",
    "squeeze",
    "rev",
    "fori_loop",
    "jvp",
    "vjp",
    "debug",
    "data",
    "optim",
    "train",
    "checkpoint",
    "integer_pow",
    "select_n",
];

/// `maxLen` and `MaxLen` as `max_len`, with keywords escaped.
pub(crate) fn snake(name: &str) -> String {
    let mut out = String::new();
    let mut before = '_';
    for c in name.chars() {
        if c.is_ascii_alphanumeric() {
            if c.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
                out.push('_');
            }
            out.push(c.to_ascii_lowercase());
        } else if !out.ends_with('_') {
            out.push('_');
        }
        before = c;
    }
    let trimmed = out.trim_matches('_');
    let mut out = if trimmed.is_empty() { "value".to_string() } else { trimmed.to_string() };
    if out.starts_with(|c: char| c.is_ascii_digit()) {
        out.insert_str(0, "x_");
    }
    if KEYWORDS.contains(&out.as_str()) {
        out.push('_');
    }
    out
}

/// A name for a variable: like [`snake`], without hiding a function that generated code calls.
pub(crate) fn variable(name: &str) -> String {
    let name = snake(name);
    if CALLED.contains(&name.as_str()) { format!("{name}_") } else { name }
}

/// `ln_1` as `Ln`, `layers` as `Layer`, `adam_state` as `AdamState`.
pub(crate) fn type_name(name: &str) -> String {
    let camel: String = snake(name)
        .split('_')
        .filter(|part| !part.is_empty() && part.chars().any(|c| c.is_ascii_alphabetic()))
        .map(|part| {
            let (first, rest) = part.split_at(1);
            first.to_ascii_uppercase() + rest
        })
        .collect();
    if camel.is_empty() { "Value".into() } else { camel }
}

/// Returns the first of `base`, `base_2`, `base_3`, … that passes.
pub(crate) fn first_free(base: &str, mut is_free: impl FnMut(&str) -> bool) -> String {
    if is_free(base) {
        return base.to_string();
    }
    let separator = if base.ends_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
    let mut number = 2usize;
    loop {
        let name = format!("{base}{separator}{number}");
        if is_free(&name) {
            return name;
        }
        number += 1;
    }
}

/// Adds a name that is not in the set.
pub(crate) fn unique(base: &str, names: &mut HashSet<String>) -> String {
    let name = first_free(base, |name| !names.contains(name));
    names.insert(name.clone());
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_names_become_rust_names() {
        assert_eq!(snake("maxLen"), "max_len");
        assert_eq!(snake("type"), "type_");
        assert_eq!(snake("0"), "x_0");
        assert_eq!(snake("<lambda>"), "lambda");
        assert_eq!(variable("grad"), "grad_");
        assert_eq!(type_name("ln_1"), "Ln");
        assert_eq!(type_name("NormState"), "NormState");
    }
}
