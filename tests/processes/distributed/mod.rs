//! Several real processes on this host. Each is this test binary, started again with an environment
//! variable that selects its part (`parts`). The tests start and kill processes, and read their
//! output.

mod deaths;
mod meeting;
mod on_cpu;
mod parts;
mod preemption;
mod profiles;
mod refusals;
mod scene;
mod stalls;
