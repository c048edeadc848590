//! The page of JAX's names: what it says is there is there, and its percentages are counted.

use crate::tidy::sources::{Source, root, rust_below, words};

/// What the page says of one module.
#[derive(Default)]
struct Section {
    module: String,
    /// The sentence with the percentage.
    claim: String,
    /// Paths of ours.
    there: Vec<String>,
    /// Names that are refused or not there yet.
    absent: usize,
}

/// The words between backticks.
fn quoted(text: &str) -> impl Iterator<Item = String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned)
}

fn page() -> Vec<Section> {
    let text = std::fs::read_to_string(root().join("docs/jax-names.md")).unwrap();
    let mut sections: Vec<Section> = Vec::new();
    // Paragraphs are wrapped, so they are put together first.
    for paragraph in text.split("\n\n") {
        if let Some(title) = paragraph.strip_prefix("## ") {
            let module = quoted(title).next().unwrap();
            sections.push(Section { module, ..Section::default() });
            continue;
        }
        let Some(section) = sections.last_mut() else { continue };
        if paragraph.contains("names are there:") {
            section.claim = paragraph.trim().to_owned();
        } else if paragraph.starts_with("Under the same name:") {
            section.there.extend(quoted(paragraph));
        } else if paragraph.starts_with("Not yet:") {
            section.absent += quoted(paragraph).count();
        } else if paragraph.starts_with("| JAX |") {
            let rows = paragraph.lines().skip(2);
            section.there.extend(rows.map(|row| quoted(row).nth(1).unwrap()));
        } else if paragraph.starts_with("- Refused:") {
            section.absent += paragraph.lines().count();
        }
    }
    sections
}

/// Whether code defines `name`: a function, type, module or macro, a variant, or an entry of a macro
/// that writes methods.
fn defines(source: &Source, name: &str) -> bool {
    words(&source.code, name).any(|at| {
        let before = source.code[..at].trim_end();
        let line_start = source.code[..at].rfind('\n').map_or(0, |end| end + 1);
        let alone = source.code[line_start..at].trim().is_empty();
        let after = source.code[at + name.len()..].chars().next();
        ["fn", "struct", "enum", "trait", "mod", "type", "macro_rules!"]
            .iter()
            .any(|keyword| before.ends_with(keyword))
            || alone && matches!(after, Some(',' | ';' | ' '))
    })
}

/// Whether a path's last part is defined, in the file that the part before it names if that is a module
/// of ours.
fn is_there(sources: &[Source], path: &str) -> bool {
    let parts: Vec<&str> = path.split("::").collect();
    let (name, owner) = (parts[parts.len() - 1], parts.len().checked_sub(2).map(|at| parts[at]));
    if parts[0] == "std" {
        return true;
    }
    let of_module: Vec<&Source> = match owner {
        Some(owner) if owner.starts_with(char::is_lowercase) => sources
            .iter()
            .filter(|s| {
                let path = s.path.trim_end_matches(".rs");
                path.split('/').any(|part| part == owner)
            })
            .collect(),
        Some("DType" | "DTypeKind") => sources
            .iter()
            .filter(|s| s.path.ends_with("dtype.rs") || s.path.ends_with("dtypes.rs"))
            .collect(),
        _ => sources.iter().collect(),
    };
    of_module.iter().any(|source| defines(source, name))
}

#[test]
fn what_the_page_of_names_claims_is_there() {
    let sources = rust_below("src");
    let mut wrong = Vec::new();
    for section in page() {
        for path in &section.there {
            if !is_there(&sources, path) {
                wrong.push(format!("{}: no `{path}` is defined in src", section.module));
            }
        }
    }
    assert!(wrong.is_empty(), "run python-compat/names.py again:\n{}", wrong.join("\n"));
}

#[test]
fn percentages_of_the_page_of_names_are_counted() {
    let sections = page();
    assert!(sections.len() >= 8, "the page has lost modules");
    for Section { module, claim, there, absent } in &sections {
        let (there, all) = (there.len(), there.len() + absent);
        let share = 100.0 * there as f64 / all as f64;
        assert_eq!(*claim, format!("{there} of {all} names are there: {share:.1} %."), "{module}");
    }
}

#[test]
fn the_array_api_is_nearly_whole() {
    for Section { module, there, absent, .. } in page() {
        if ["jax.numpy", "jax.nn"].contains(&module.as_str()) {
            assert!(there.len() * 100 >= (there.len() + absent) * 95, "{module} is below 95 %");
        }
    }
}

#[test]
fn invented_names_are_not_found() {
    let sources = rust_below("src");
    for path in ["no_such_function", "Array::no_such_method", "linalg::arange", "DType::F128"] {
        assert!(!is_there(&sources, path), "{path}");
    }
}
