//! The arguments of `oxidax new`, and its messages.

use std::error::Error;
use std::path::{Path, PathBuf};

use clap::Args;

use super::dependency::{Dependency, GitReference};
use super::name::PackageName;
use super::project::{self, GitRepository, Nesting};
use super::template::Template;

/// The project to write.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// The folder to create, and the package's name: `spiral`, or `projects/spiral`
    #[arg(value_name = "NAME")]
    path: PathBuf,
    /// The program to write
    #[arg(long, value_enum, default_value_t = Template::Mlp)]
    template: Template,
    /// The package's name, if it differs from the folder's
    #[arg(long)]
    name: Option<String>,
    /// A clone of oxidax [default: the clone that this command was built from]
    #[arg(long, value_name = "PATH")]
    oxidax_path: Option<PathBuf>,
    /// A git repository of oxidax, instead of a clone
    #[arg(long, value_name = "URL", conflicts_with = "oxidax_path")]
    oxidax_git: Option<String>,
    #[command(flatten)]
    reference: Reference,
    /// Do not create a git repository
    #[arg(long)]
    no_git: bool,
}

/// The commit to use of a git repository. By default its newest.
#[derive(Debug, Args)]
#[group(multiple = false, requires = "oxidax_git")]
struct Reference {
    /// A branch of that repository
    #[arg(long, value_name = "BRANCH")]
    oxidax_branch: Option<String>,
    /// A tag of that repository
    #[arg(long, value_name = "TAG")]
    oxidax_tag: Option<String>,
    /// A commit of that repository
    #[arg(long, value_name = "COMMIT")]
    oxidax_rev: Option<String>,
}

impl New {
    fn package_name(&self) -> Result<PackageName, Box<dyn Error>> {
        if let Some(name) = &self.name {
            return Ok(PackageName::parse(name)?);
        }
        let folder = self.path.file_name().ok_or_else(|| {
            let path = self.path.display();
            format!("`{path}` does not end in the name of a new folder")
        })?;
        let name = folder.to_str().ok_or_else(|| {
            let path = self.path.display();
            format!("the name of `{path}` is not UTF-8\n  help: add --name NAME")
        })?;
        let remedy = |error| format!("{error}\n  help: add --name NAME to keep the folder's name");
        Ok(PackageName::parse(name).map_err(remedy)?)
    }

    fn dependency(&self) -> Result<Dependency, Box<dyn Error>> {
        let Some(url) = &self.oxidax_git else {
            return match &self.oxidax_path {
                Some(path) => Ok(Dependency::clone_at(path)?),
                None => Ok(Dependency::own_clone()?),
            };
        };
        let Reference { oxidax_branch, oxidax_tag, oxidax_rev } = &self.reference;
        let reference = match (oxidax_branch, oxidax_tag, oxidax_rev) {
            (Some(branch), _, _) => GitReference::Branch(branch.clone()),
            (_, Some(tag), _) => GitReference::Tag(tag.clone()),
            (_, _, Some(commit)) => GitReference::Commit(commit.clone()),
            (None, None, None) => GitReference::Newest,
        };
        Ok(Dependency::Git { url: url.clone(), reference })
    }
}

/// Writes the project and prints the next command.
pub(crate) fn run(new: &New) -> Result<(), Box<dyn Error>> {
    let name = new.package_name()?;
    let dependency = new.dependency()?;
    project::check_absent(&new.path)?;
    let files = new.template.files(&name, &dependency, Nesting::of(&new.path));
    let git = if new.no_git || project::is_in_repository(&new.path) {
        GitRepository::None
    } else {
        GitRepository::Create
    };
    let outcome = project::write(&new.path, &files, git)?;
    if let Some(note) = outcome.note {
        eprintln!("note: {note}");
    }
    eprintln!(
        "created package `{name}` from template `{}`, with oxidax from {dependency}\n\
         to run it: cd {} && {}",
        new.template,
        shell_word(&new.path),
        new.template.command(),
    );
    Ok(())
}

/// Quotes a path for a shell if it needs quotes.
pub(crate) fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+~".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_the_shell() {
        assert_eq!(shell_word(Path::new("a/b-c")), "a/b-c");
        assert_eq!(shell_word(Path::new("my $x's")), r"'my $x'\''s'");
    }
}
