//! Compiled programs on disk, from one process to the next. Each process is this very test binary, started again with an
//! environment that says which part it plays (`parts`) and where its cache is; none is the user's.

#[path = "../../cpu/dispatch/listener.rs"]
mod listener;
mod on_cpu;
mod parts;
mod scene;
