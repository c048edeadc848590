//! Custom kernels: the language, and the kernels of the library.

mod language;
