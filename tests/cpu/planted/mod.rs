//! Planted mistakes: each report must name the line.

mod leaks;
