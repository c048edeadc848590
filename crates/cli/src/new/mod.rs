//! `oxidax new`: writes a project that depends on oxidax.

mod command;
mod dependency;
mod name;
pub(crate) mod project;
mod template;

pub(crate) use command::{New, run, shell_word};
pub(crate) use dependency::Dependency;
pub(crate) use project::{GitRepository, Nesting};
pub(crate) use template::{ProjectFile, manifest};
