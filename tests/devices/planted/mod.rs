//! Planted mistakes on several devices, as those of `tests/cpu/planted` on one.

mod recompilation;
