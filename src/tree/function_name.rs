//! Short names of functions and closures, as they appear in error paths.

/// Returns a short name for a function or closure: `loss`, or `main::{closure}`.
pub(crate) fn short_name<F: ?Sized>() -> String {
    shorten(std::any::type_name::<F>())
}

fn shorten(full: &str) -> String {
    if full.starts_with("fn(") {
        return "fn".to_string();
    }
    let plain = without_generics(&full.replace("->", ""));
    let parts: Vec<&str> = plain.split("::").filter(|part| !part.is_empty()).collect();
    match parts.iter().rposition(|part| *part != "{{closure}}") {
        Some(last) if last + 1 == parts.len() => parts[last].to_string(),
        Some(last) => format!("{}::{{closure}}", parts[last]),
        None => "closure".to_string(),
    }
}

/// Removes everything in angle brackets: generic arguments, and the type that a method belongs to.
fn without_generics(name: &str) -> String {
    let mut depth = 0_usize;
    let mut plain = String::new();
    for c in name.chars() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_never_empty() {
        assert_eq!(shorten("app::train::loss"), "loss");
        assert_eq!(shorten("app::main::{{closure}}::{{closure}}"), "main::{closure}");
        assert_eq!(shorten("app::loss<alloc::vec::Vec<f32>>"), "loss");
        assert_eq!(shorten("<app::Model>::step::{{closure}}"), "step::{closure}");
        assert_eq!(shorten("<app::Model<f32> as app::Layer>::apply"), "apply");
        assert_eq!(shorten("app::apply<fn(f32) -> f32>"), "apply");
        assert_eq!(shorten("fn(app::Array) -> app::Array"), "fn");
        assert_eq!(shorten("<app::Model>::{{closure}}"), "closure");
    }
}
