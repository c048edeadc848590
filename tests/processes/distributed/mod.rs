//! Several real processes on this host. Each is this very test binary, started again with an environment that says
//! which part it plays (`parts`); the tests start them, kill some, and read what the others say.

mod deaths;
mod meeting;
mod on_cpu;
mod parts;
mod refusals;
mod scene;
