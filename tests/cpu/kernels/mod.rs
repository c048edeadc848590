//! Custom kernels: the language, and the kernels of the library.

mod interpreted;
mod language;
mod planted_mistakes;
