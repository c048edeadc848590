//! Custom kernels: the language, and the kernels of the library.

mod block_sizes;
mod interpreted;
mod language;
mod planted_mistakes;
