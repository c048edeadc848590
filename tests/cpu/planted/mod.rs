//! Planted mistakes: each must be reported with the function, the leaf, the axis and the line.
//! One file for each kind of report.

mod leaks;
mod nan;
mod recompilation;
mod stalls;
