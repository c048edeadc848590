//! The entry of oxidax in a project's manifest.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Component, Path};

/// The source of oxidax, which is not on a registry yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Dependency {
    /// A clone: an absolute path.
    Clone(String),
    /// A git repository.
    Git {
        /// Its address.
        url: String,
        /// The commit to use.
        reference: GitReference,
    },
}

/// A commit of a git repository.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GitReference {
    /// The newest commit of the default branch.
    Newest,
    /// The newest commit of a branch.
    Branch(String),
    /// A tag.
    Tag(String),
    /// A commit by its hash.
    Commit(String),
}

impl Dependency {
    /// Refers to the clone at a path.
    pub(crate) fn clone_at(path: &Path) -> Result<Dependency, String> {
        check_clone(path).map_err(|reason| {
            format!(
                "`{}` is not a clone of oxidax: {reason}\n  \
                 help: set --oxidax-path to the folder that contains its Cargo.toml and crates",
                path.display()
            )
        })
    }

    /// Refers to the clone that contains the source of this command.
    pub(crate) fn own_clone() -> Result<Dependency, String> {
        Dependency::built_in(Path::new(env!("CARGO_MANIFEST_DIR")))
    }

    /// Refers to the clone whose folder `crates/cli` is `source`.
    fn built_in(source: &Path) -> Result<Dependency, String> {
        let clone = source.parent().and_then(Path::parent).unwrap_or(source);
        check_clone(clone).map_err(|reason| {
            format!(
                "the clone of oxidax that this command was built from, {}, cannot be used: \
                 {reason}\n  \
                 help: set --oxidax-path PATH to a clone, or --oxidax-git URL to a repository",
                clone.display()
            )
        })
    }

    /// Returns the line of a manifest that depends on a package of the repository.
    ///
    /// `folder` is the package's folder below the root of the clone, empty for the root itself.
    pub(super) fn manifest_line(&self, package: &str, folder: &str, features: &[&str]) -> String {
        let mut fields = match self {
            Dependency::Clone(path) if folder.is_empty() => vec![("path", quoted(path))],
            Dependency::Clone(path) => vec![("path", quoted(&format!("{path}/{folder}")))],
            Dependency::Git { url, .. } => vec![("git", quoted(url))],
        };
        if let Dependency::Git { reference, .. } = self {
            fields.extend(match reference {
                GitReference::Newest => None,
                GitReference::Branch(name) => Some(("branch", quoted(name))),
                GitReference::Tag(name) => Some(("tag", quoted(name))),
                GitReference::Commit(hash) => Some(("rev", quoted(hash))),
            });
        }
        if !features.is_empty() {
            let names: Vec<String> = features.iter().map(|name| quoted(name)).collect();
            fields.push(("features", format!("[{}]", names.join(", "))));
        }
        let fields: Vec<String> =
            fields.into_iter().map(|(key, value)| format!("{key} = {value}")).collect();
        format!("{package} = {{ {} }}", fields.join(", "))
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dependency::Clone(path) => f.write_str(path),
            Dependency::Git { url, reference } => match reference {
                GitReference::Newest => f.write_str(url),
                GitReference::Branch(name) => write!(f, "{url}, branch {name}"),
                GitReference::Tag(name) => write!(f, "{url}, tag {name}"),
                GitReference::Commit(hash) => write!(f, "{url}, commit {hash}"),
            },
        }
    }
}

/// Returns the dependency on a clone, or the reason why the folder is not one.
fn check_clone(path: &Path) -> Result<Dependency, String> {
    let resolved = path.canonicalize().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "there is no such folder".to_owned(),
        _ => error.to_string(),
    })?;
    let manifest = resolved.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)
        .map_err(|error| format!("{}: {error}", manifest.display()))?;
    let package = text.lines().map(str::trim).skip_while(|&line| line != "[package]").skip(1);
    let mut fields = package.take_while(|line| !line.starts_with('['));
    if !fields.any(|line| line == r#"name = "oxidax""#) {
        return Err("its Cargo.toml is not the one of the package `oxidax`".to_owned());
    }
    // A path through a link stays as written, so that the link can be changed.
    let absolute = std::path::absolute(path).map_err(|error| error.to_string())?;
    let goes_up = absolute.components().any(|part| part == Component::ParentDir);
    match if goes_up { resolved } else { absolute }.to_str() {
        Some(text) => Ok(Dependency::Clone(text.to_owned())),
        None => Err("its path is not UTF-8, as a Cargo.toml requires".to_owned()),
    }
}

/// Writes a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifest_lines_name_path_or_repository() {
        let clone = Dependency::Clone(r#"/a "b"\c"#.to_owned());
        assert_eq!(clone.manifest_line("oxidax", "", &[]), r#"oxidax = { path = "/a \"b\"\\c" }"#);
        assert_eq!(
            clone.manifest_line("oxidax-models", "crates/models", &["gpt2", "tokenizers"]),
            r#"oxidax-models = { path = "/a \"b\"\\c/crates/models", features = ["gpt2", "tokenizers"] }"#
        );
        for (reference, fields) in [
            (GitReference::Newest, ""),
            (GitReference::Branch("next".into()), r#", branch = "next""#),
            (GitReference::Tag("v1".into()), r#", tag = "v1""#),
            (GitReference::Commit("87f62c4".into()), r#", rev = "87f62c4""#),
        ] {
            let git = Dependency::Git { url: "ssh://host/x".into(), reference };
            let expected = format!(r#"oxidax = {{ git = "ssh://host/x"{fields} }}"#);
            assert_eq!(git.manifest_line("oxidax", "", &[]), expected);
        }
        assert_eq!(quoted("a\nb"), r#""a\u000Ab""#);
    }

    #[test]
    fn a_missing_clone_is_reported_with_the_remedy() {
        let error = Dependency::built_in(Path::new("/absent/crates/cli")).unwrap_err();
        assert!(error.contains("built from, /absent, cannot be used: there is no such folder"));
        assert!(error.contains("--oxidax-path PATH") && error.contains("--oxidax-git URL"));
        let error = Dependency::clone_at(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap_err();
        assert!(error.contains("not the one of the package `oxidax`"), "{error}");
        assert!(Dependency::own_clone().is_ok());
    }
}
