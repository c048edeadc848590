//! Checks of the pages for JAX users: the names that they list exist, and shares are correct.

use std::collections::BTreeMap;

use crate::tidy::sources::{Source, root, rust_below, words};

/// The rows of docs/jax-names.md.
const ROWS: &str = "crates/cli/src/jax_names.tsv";

/// Snapshots of the public APIs, which `cargo xtask api` checks.
const APIS: [&str; 5] = [
    "docs/api.txt",
    "docs/api-flax.txt",
    "docs/api-models.txt",
    "docs/api-optim.txt",
    "docs/api-scipy.txt",
];

/// A row: namespace, name, state, counterpart and note.
struct Row {
    namespace: String,
    state: String,
    path: String,
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn rows() -> Vec<Row> {
    let text = read(ROWS);
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [namespace, _, state, path, _] = fields[..] else {
            panic!("{ROWS}: a row has five fields: {line}")
        };
        Row { namespace: namespace.into(), state: state.into(), path: path.into() }
    };
    text.lines().map(row).collect()
}

/// Returns true if a line of an API has an item at this path.
fn is_there(apis: &str, path: &str) -> bool {
    let path = path.trim_end_matches('!');
    path.starts_with("std::")
        || words(apis, path).any(|at| {
            let before = apis[..at].chars().next_back();
            matches!(before, Some(':' | ' '))
        })
}

/// Returns the path at the start of an item, without generic parameters as in `Jit<F>::lower`.
fn without_generics(item: &str) -> String {
    let (mut kept, mut depth) = (String::new(), 0);
    for c in item.replace("->", "").chars() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 => break,
            _ if depth == 0 => kept.push(c),
            _ => {}
        }
    }
    kept + "\n"
}

#[test]
fn names_page_lists_existing_items() {
    let apis: String = APIS.map(read).concat().lines().map(without_generics).collect();
    let missing: Vec<String> = rows()
        .iter()
        .filter(|row| row.state == "there" && !is_there(&apis, &row.path))
        .map(|row| format!("{}: no `{}` is public", row.namespace, row.path))
        .collect();
    let advice = "run `cargo xtask api --update` and python-compat/names.py";
    assert!(missing.is_empty(), "{advice}:\n{}", missing.join("\n"));
    assert!(!is_there(&apis, "no_such_function") && !is_there(&apis, "linalg::arange"));
}

#[test]
fn names_page_agrees_with_its_rows() {
    let page = read("docs/jax-names.md");
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for row in rows().iter().filter(|row| row.state != "left out") {
        let (there, all) = counts.entry(row.namespace.clone()).or_default();
        *there += usize::from(row.state == "there" || row.state == "instead");
        *all += 1;
    }
    assert!(counts.len() > 60, "the page lacks namespaces");
    for (namespace, (there, all)) in counts {
        let share = 100.0 * there as f64 / all as f64;
        let claim =
            format!("\n### `{namespace}`\n\n{there} of {all} names are there: {share:.1} %.");
        assert!(page.contains(&claim), "docs/jax-names.md lacks:{claim}");
    }
}

/// The least percentage of names with a counterpart, by the title of the page's summary.
const LEAST: [(&str, f64); 4] =
    [("JAX core", 96.0), ("jax.scipy", 97.0), ("Optax", 97.0), ("Flax, Orbax and chex", 92.0)];

#[test]
fn shares_of_names_do_not_fall() {
    let page = read("docs/jax-names.md");
    for (title, least) in LEAST {
        let row = page.lines().find(|line| line.starts_with(&format!("| [{title}]("))).unwrap();
        let share = row.split(" | ").nth(3).and_then(|cell| cell.strip_suffix(" %")).unwrap();
        assert!(share.parse::<f64>().unwrap() >= least, "{title} is below {least} %: {row}");
    }
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
