//! The house rules that a machine can check by reading the sources; no plugin, no network.
//!
//! STYLE in words is one thing, a red test another: each test here is one rule, and its message
//! says which file breaks it, where, and what the rule is for.

mod circles;
mod directions;
mod features;
mod names;
mod prose;
mod registered;
mod sizes;
mod sources;
mod words;
