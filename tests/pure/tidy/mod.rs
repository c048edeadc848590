//! Rules of this repository that are checked by reading its files: no plugin, no network.
//!
//! Each test is one rule. Its message names the file and line that break the rule.

mod circles;
mod directions;
mod examples;
mod features;
mod gallery;
mod guide;
mod logging;
mod methods;
mod mission;
mod names;
mod prose;
mod registered;
mod sizes;
mod sources;
mod words;
