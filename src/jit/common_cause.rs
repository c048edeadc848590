//! The cause of a collective that several movements explain equally well.

use crate::passes::Movement;

/// Returns the cause of a collective that one of several movements explains: their text, with `*`
/// where only the paths of arguments differ, or else without the values.
pub(super) fn common_cause(movements: &[&Movement]) -> Option<String> {
    let exact = unique(movements.iter().map(ToString::to_string));
    let of_moved = || common_text(&unique(movements.iter().map(|it| it.of_moved_value())));
    common_text(&exact).or_else(of_moved).or_else(|| {
        let coarse = unique(movements.iter().map(|movement| movement.coarse()));
        match coarse.as_slice() {
            [only] => Some(only.clone()),
            [one, other] => Some(format!("{one}, or {other}")),
            _ => None,
        }
    })
}

/// Returns the text that all share, with `*` where the paths of arguments differ.
fn common_text(texts: &[String]) -> Option<String> {
    let (first, others) = texts.split_first()?;
    others.iter().try_fold(first.clone(), |common, other| with_stars(&common, other))
}

/// Returns a text with `*` for the words that differ from another one's, if they are in paths of
/// arguments: between backticks, after a `$`. `None` if something else differs.
fn with_stars(a: &str, b: &str) -> Option<String> {
    let (a, b): (Vec<&str>, Vec<&str>) = (a.split('`').collect(), b.split('`').collect());
    if a.len() != b.len() {
        return None;
    }
    let mut common = Vec::with_capacity(a.len());
    for (at, (a, b)) in a.into_iter().zip(b).enumerate() {
        let is_path = at % 2 == 1 && a.starts_with('$') && b.starts_with('$');
        common.push(match a == b {
            true => a.to_string(),
            false if is_path => path_with_stars(a, b)?,
            false => return None,
        });
    }
    Some(common.join("`"))
}

fn path_with_stars(a: &str, b: &str) -> Option<String> {
    let (a, b) = (words(a), words(b));
    if a.len() != b.len() {
        return None;
    }
    let mut common = String::new();
    for (a, b) in a.into_iter().zip(b) {
        let is_word = |text: &str| text.starts_with(|c: char| c == '*' || is_of_word(c));
        match a == b {
            true => common.push_str(a),
            false if is_word(a) && is_word(b) => common.push('*'),
            false => return None,
        }
    }
    Some(common)
}

fn is_of_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Splits a path into words, and what is between them.
fn words(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut last = None;
    for (at, c) in path.char_indices() {
        let class = (is_of_word(c), c == '*');
        if last.is_some_and(|last| last != class) {
            parts.push(&path[start..at]);
            start = at;
        }
        last = Some(class);
    }
    parts.push(&path[start..]);
    parts
}

/// Returns the items without repetitions.
pub(super) fn unique<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut unique = Vec::new();
    for item in items {
        if !unique.contains(&item) {
            unique.push(item);
        }
    }
    unique
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_differ_have_a_star() {
        let common = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(ToString::to_string).collect();
            common_text(&texts)
        };
        let [query, key, far] = ["blocks[0].query", "blocks[0].key", "blocks[11].key"]
            .map(|path| format!("`add` has operands that differ: `$[0].{path}` is p![]"));
        let text = common(&[&query, &key, &far, &query]).unwrap();
        assert_eq!(text, "`add` has operands that differ: `$[0].blocks[*].*` is p![]");
        assert_eq!(common(&["a `$.x`"]).as_deref(), Some("a `$.x`"));
        assert_eq!(common(&["a `$.x`", "b `$.x`"]), None);
        assert_eq!(common(&["a `$.x`", "a `add`"]), None);
        assert_eq!(common(&["a `$.x`", "a `$.x[1]`"]), None);
        assert_eq!(common(&["a `$.ä1`", "a `$.ü22`"]).as_deref(), Some("a `$.*`"));
        assert_eq!(common(&[]), None);
    }
}
