//! The templates, and the files of a project.

use std::fmt;

use clap::ValueEnum;

use super::dependency::Dependency;
use super::name::PackageName;
use super::project::Nesting;

const GITIGNORE: &str = include_str!("../../templates/gitignore");
const PROFILES: &str = include_str!("../../templates/profiles.toml");
const OWN_WORKSPACE: &str = "\
# A folder above is a workspace. This package is not one of its members, so it has its own profiles.
[workspace]
";
/// Replaced by the name of the package.
const NAME: &str = "{{name}}";

/// The program of a new project.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(super) enum Template {
    /// Train a perceptron on generated points: loop, checkpoints, metrics
    Mlp,
    /// Train or fine-tune GPT-2 on a text and continue it
    Gpt2,
    /// Compute a gradient
    Empty,
}

/// A file of a project.
#[derive(Debug)]
pub(crate) struct ProjectFile {
    /// The path below the project's folder.
    pub(crate) path: &'static str,
    pub(crate) text: String,
}

impl Template {
    /// Returns the command that runs the program.
    pub(super) fn command(self) -> &'static str {
        match self {
            Template::Mlp | Template::Empty => "cargo run",
            Template::Gpt2 => "cargo run --release",
        }
    }

    /// Returns the files of a project.
    pub(super) fn files(
        self,
        name: &PackageName,
        dependency: &Dependency,
        nesting: Nesting,
    ) -> Vec<ProjectFile> {
        let (program, readme) = match self {
            Template::Mlp => (
                include_str!("../../templates/mlp/main.rs"),
                include_str!("../../templates/mlp/README.md"),
            ),
            Template::Gpt2 => (
                include_str!("../../templates/gpt2/main.rs"),
                include_str!("../../templates/gpt2/README.md"),
            ),
            Template::Empty => (
                include_str!("../../templates/empty/main.rs"),
                include_str!("../../templates/empty/README.md"),
            ),
        };
        let file = |path, text: &str| ProjectFile { path, text: text.to_owned() };
        let mut files = vec![
            file(".gitignore", GITIGNORE),
            file("Cargo.toml", &self.manifest(name, dependency, nesting)),
            file("README.md", &readme.replace(NAME, &name.to_string())),
            file("src/main.rs", program),
        ];
        if self == Template::Gpt2 {
            files.push(file("sonnets.txt", include_str!("../../templates/gpt2/sonnets.txt")));
        }
        files
    }

    fn manifest(self, name: &PackageName, dependency: &Dependency, nesting: Nesting) -> String {
        let mut dependencies = vec![dependency.manifest_line("oxidax", "", &[])];
        if self == Template::Gpt2 {
            let features = &["tokenizers"];
            dependencies.push(dependency.manifest_line("oxidax-models", "crates/models", features));
        }
        manifest_text(&name.to_string(), &dependencies, nesting)
    }
}

/// Returns the manifest of a package that depends on oxidax alone.
pub(crate) fn manifest(name: &str, dependency: &Dependency, nesting: Nesting) -> String {
    manifest_text(name, &[dependency.manifest_line("oxidax", "", &[])], nesting)
}

fn manifest_text(name: &str, dependencies: &[String], nesting: Nesting) -> String {
    let workspace = match nesting {
        Nesting::Alone => String::new(),
        Nesting::InWorkspace => format!("{OWN_WORKSPACE}\n"),
    };
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
         [dependencies]\n{}\n\n{workspace}{PROFILES}",
        dependencies.join("\n")
    )
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Template::Mlp => "mlp",
            Template::Gpt2 => "gpt2",
            Template::Empty => "empty",
        })
    }
}
