//! `oxidax jax`: prints the counterparts of a name of JAX, Flax or Optax.

use std::error::Error;
use std::io::{self, Write as _};

use clap::Args;

/// The rows of `docs/jax-names.md`, which `python-compat/names.py` writes: namespace, name, state,
/// counterpart and note, separated by tabs.
const ROWS: &str = include_str!("jax_names.tsv");

/// Common abbreviations of namespaces.
const ABBREVIATIONS: [(&str, &str); 6] = [
    ("jnp", "jax.numpy"),
    ("jsp", "jax.scipy"),
    ("lax", "jax.lax"),
    ("nn", "flax.linen"),
    ("nnx", "flax.nnx"),
    ("ocp", "orbax.checkpoint"),
];

/// The largest number of similar names after a name that does not exist.
const MOST_SIMILAR: usize = 12;

/// The name to look up.
#[derive(Debug, Args)]
pub(crate) struct Name {
    /// A name of JAX, Flax or Optax, with or without its module: `jnp.einsum`, `segment_sum`
    name: String,
}

/// An entry of the page of names.
struct Entry {
    namespace: &'static str,
    name: &'static str,
    state: &'static str,
    path: &'static str,
    note: &'static str,
}

impl Entry {
    /// Returns true if the entry has this name, which may begin with the namespace or its end.
    fn is_called(&self, wanted: &str) -> bool {
        let full = format!("{}.{}", self.namespace, self.name);
        full == wanted || full.ends_with(&format!(".{wanted}"))
    }

    /// Returns the lines to print.
    fn text(&self) -> String {
        let Entry { namespace, name, state, path, note } = self;
        let said = match (*state, *note) {
            ("there", "") => format!("`{path}`"),
            ("there", lacks) => format!("`{path}`\n  lacks: {lacks}"),
            ("instead", means) => means.to_owned(),
            (state, "") => state.to_owned(),
            (state, reason) => format!("{state}: {reason}"),
        };
        format!("{namespace}.{name}\n  {said}\n")
    }
}

/// Prints the entries of a name.
pub(crate) fn run(name: &Name) -> Result<(), Box<dyn Error>> {
    let found = find(&name.name);
    if found.is_empty() {
        return Err(unknown(&name.name).into());
    }
    for entry in found {
        write!(io::stdout(), "{}", entry.text())?;
    }
    Ok(())
}

/// Returns the entries of a name as it is written, or with its abbreviation expanded.
fn find(name: &str) -> Vec<Entry> {
    let called = |name: &str| entries().filter(|entry| entry.is_called(name)).collect();
    let found: Vec<Entry> = called(name);
    if found.is_empty() { called(&without_abbreviation(name)) } else { found }
}

fn entries() -> impl Iterator<Item = Entry> {
    ROWS.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        Some(Entry {
            namespace: fields.next()?,
            name: fields.next()?,
            state: fields.next()?,
            path: fields.next()?,
            note: fields.next()?,
        })
    })
}

/// Returns a name with `jax.numpy` in place of `jnp`, and so on.
fn without_abbreviation(name: &str) -> String {
    let expanded = ABBREVIATIONS.iter().find_map(|(short, long)| {
        let rest = name.strip_prefix(short)?.strip_prefix('.')?;
        Some(format!("{long}.{rest}"))
    });
    expanded.unwrap_or_else(|| name.to_owned())
}

/// Returns the error of a name that is not on the page, with names that contain it.
fn unknown(name: &str) -> String {
    let last = name.rsplit('.').next().unwrap_or(name).to_lowercase();
    let mut similar: Vec<String> = entries()
        .filter(|entry| entry.name.to_lowercase().contains(&last))
        .map(|entry| format!("{}.{}", entry.namespace, entry.name))
        .collect();
    similar.truncate(MOST_SIMILAR);
    let advice = match similar.len() {
        0 => "docs/jax-names.md lists all names".to_owned(),
        _ => format!("these names contain it:\n  {}", similar.join("\n  ")),
    };
    format!("JAX, Flax and Optax have no public name `{name}`; {advice}")
}

#[cfg(test)]
mod tests {
    use super::{entries, find};

    #[test]
    fn every_row_has_a_state() {
        let states = ["there", "instead", "not yet", "refused", "left out"];
        assert!(entries().count() > 2_000);
        for entry in entries() {
            assert!(states.contains(&entry.state), "{}.{}", entry.namespace, entry.name);
            let has_path = !entry.path.is_empty();
            assert_eq!(has_path, entry.state == "there", "{}.{}", entry.namespace, entry.name);
        }
    }

    #[test]
    fn names_match_with_and_without_their_modules() {
        let count = |name: &str| find(name).len();
        assert_eq!(count("jnp.einsum"), 1);
        assert_eq!(count("numpy.einsum"), 1);
        assert_eq!(find("nn.softmax")[0].namespace, "jax.nn");
        assert_eq!(find("nn.Dense")[0].namespace, "flax.linen");
        assert!(count("norm") >= 2, "of jax.numpy.linalg and jax.scipy.stats");
        assert_eq!(count("einsu"), 0);
    }
}
