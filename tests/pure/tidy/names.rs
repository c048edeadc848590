//! Checks of the pages for JAX users: the names that they list exist, and percentages are correct.

use crate::tidy::sources::{Source, root, rust_below, words};

/// One module of docs/jax-names.md.
#[derive(Default)]
struct Section {
    module: String,
    /// The sentence with the percentage.
    claim: String,
    /// Paths in oxidax.
    there: Vec<String>,
    /// Number of names without a counterpart.
    absent: usize,
}

/// Returns the text between pairs of backticks.
fn quoted(text: &str) -> impl Iterator<Item = String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned)
}

fn page() -> Vec<Section> {
    let text = std::fs::read_to_string(root().join("docs/jax-names.md")).unwrap();
    let mut sections: Vec<Section> = Vec::new();
    // Paragraphs are wrapped, so the page is split at empty lines.
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

/// Returns true if the code defines `name`: a function, type, module or macro, a variant, or an
/// entry of a macro that generates methods.
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

/// Returns true if the last segment of a path is defined. If the segment before is a module, the
/// definition must be in its file or folder.
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
fn names_page_lists_existing_items() {
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
fn names_page_percentages_are_correct() {
    let sections = page();
    assert!(sections.len() >= 8, "the page lacks modules");
    for Section { module, claim, there, absent } in &sections {
        let (there, all) = (there.len(), there.len() + absent);
        let share = 100.0 * there as f64 / all as f64;
        assert_eq!(*claim, format!("{there} of {all} names are there: {share:.1} %."), "{module}");
    }
}

#[test]
fn array_api_covers_95_percent() {
    for Section { module, there, absent, .. } in page() {
        if ["jax.numpy", "jax.nn"].contains(&module.as_str()) {
            assert!(there.len() * 100 >= (there.len() + absent) * 95, "{module} is below 95 %");
        }
    }
}

#[test]
fn unknown_names_are_not_found() {
    let sources = rust_below("src");
    for path in ["no_such_function", "Array::no_such_method", "linalg::arange", "DType::F128"] {
        assert!(!is_there(&sources, path), "{path}");
    }
}

/// Returns the names in `#[doc(alias = "…")]` attributes, without a leading module path.
fn aliases(sources: &[Source]) -> Vec<&str> {
    let attributes = sources.iter().flat_map(|source| source.text.split("doc(alias").skip(1));
    attributes
        .flat_map(|rest| rest.split(']').next().unwrap_or_default().split('"').skip(1).step_by(2))
        .map(|alias| alias.rsplit('.').next().unwrap_or(alias))
        .collect()
}

/// Returns the function or type at the start of a code span: `split` for `jnp.split(x, 2)`. Returns
/// `None` for expressions, configuration values and private names.
fn leading_name(span: &str) -> Option<&str> {
    let span = span.trim_start_matches('@');
    let end = span.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'));
    let path = match end {
        Some(end) if span[end..].starts_with('(') => &span[..end],
        Some(_) => return None,
        None => span,
    };
    let name = path.rsplit('.').next()?;
    let is_setting = name.to_lowercase().starts_with("jax_") || name.starts_with('_');
    (name.starts_with(char::is_alphabetic) && !is_setting).then_some(name)
}

#[test]
fn guide_for_jax_users_lists_names_that_search_finds() {
    let sources = rust_below("src");
    let aliases = aliases(&sources);
    let page = std::fs::read_to_string(root().join("docs/for-jax-users.md")).unwrap();
    let mut missing = Vec::new();
    let tables = page.split("\n\n").filter(|block| block.starts_with("| JAX |"));
    for row in tables.flat_map(|table| table.lines().skip(2)) {
        let jax = row.split(" | ").next().unwrap_or_default();
        for name in jax.split('`').skip(1).step_by(2).filter_map(leading_name) {
            let found = aliases.contains(&name) || sources.iter().any(|s| defines(s, name));
            if !found {
                missing.push(format!("`{name}` in: {row}"));
            }
        }
    }
    let advice = "add `#[doc(alias = \"…\")]` to the items that replace them";
    assert!(missing.is_empty(), "{advice}:\n{}", missing.join("\n"));
}

#[test]
fn leading_names_of_code_spans() {
    assert_eq!(leading_name("jnp.split(x, [1, 4])"), Some("split"));
    assert_eq!(leading_name("@jax.custom_jvp"), Some("custom_jvp"));
    assert_eq!(leading_name("x[0, 1:3]"), None);
    assert_eq!(leading_name("jax_debug_infs"), None);
}
