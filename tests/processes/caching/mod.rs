//! The disk cache across processes. Each process is this test binary, started with an environment
//! that selects a scenario (`parts`) and a temporary cache folder.

#[path = "../../cpu/dispatch/listener.rs"]
mod listener;
mod on_cpu;
mod parts;
mod scene;
