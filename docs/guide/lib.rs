//! Compiles and runs the snippets of the guide as doc tests: `cargo test -p guide --doc`.
//!
//! The chapters are the Markdown files in `src`, which `mdbook build docs/guide` turns into a book.
//! A program that states its output uses [`println!`](crate::println!) of this crate in a hidden
//! line and ends with [`check_printed`]. Snippets marked `no_run` need libtpu or a GPU, and those
//! marked `ignore` show other frameworks. Snippets for eight devices call
//! `oxidax::parallel::set_cpu_devices(8)` and run.
#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The lines printed by this process.
static PRINTED: Mutex<String> = Mutex::new(String::new());

/// Prints a line like `std::println!` and records it for [`check_printed`].
#[macro_export]
macro_rules! println {
    ($($argument:tt)*) => { $crate::print_line(&::std::format!($($argument)*)) };
}

/// Prints a line and records it.
#[allow(clippy::print_stdout, reason = "the programs of the guide print their results")]
pub fn print_line(line: &str) {
    ::std::println!("{line}");
    let mut printed = PRINTED.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(printed, "{line}").expect("writing to a string does not fail");
}

/// A destination for `oxidax::debug::set_output` that records what compiled programs print.
#[derive(Debug)]
pub struct Printed;

impl std::io::Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut printed = PRINTED.lock().unwrap_or_else(PoisonError::into_inner);
        printed.push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Checks that a chapter states the output of this process: one of its `text` blocks equals all
/// lines printed so far. Blanks at the ends of lines, and the locations of errors, are ignored.
///
/// # Panics
///
/// If no block equals the output, or the chapter cannot be read.
///
/// # Examples
///
/// ```no_run
/// use guide::println;
/// println!("[1 2 3]");
/// guide::check_printed("arrays");
/// ```
#[track_caller]
pub fn check_printed(chapter: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(format!("{chapter}.md"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let printed = PRINTED.lock().unwrap_or_else(PoisonError::into_inner);
    let printed = normalized(&printed);
    let is_stated = output_blocks(&text).contains(&printed);
    assert!(is_stated, "{chapter}.md has no `text` block with this output:\n{printed}");
}

/// Returns the contents of the fenced blocks marked `text`.
fn output_blocks(chapter: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in chapter.lines() {
        match (&mut open, line) {
            (None, "```text") => open = Some(String::new()),
            (Some(block), "```") => {
                blocks.push(normalized(block));
                open = None;
            }
            (Some(block), line) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, _) => {}
        }
    }
    blocks
}

/// Removes blanks at the ends of lines, and locations: `--> src/main.rs:3:5`.
fn normalized(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once("--> ") {
        Some((indentation, _)) => format!("{indentation}-->"),
        None => line.trim_end().to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_marked_text_are_output() {
        let chapter = "a\n```rust\nb\n```\n```text\nc \n\n --> d:1\n```\n```text\n```\n";
        assert_eq!(output_blocks(chapter), ["c\n\n -->", ""]);
    }
}

/// The chapters. The module's name marks tests that need the CPU plugin.
#[cfg(doctest)]
mod on_cpu {
    #[doc = include_str!("src/introduction.md")]
    mod introduction {}
    #[doc = include_str!("src/first-gradient.md")]
    mod first_gradient {}
    #[doc = include_str!("src/arrays.md")]
    mod arrays {}
    #[doc = include_str!("src/transforms.md")]
    mod transforms {}
    #[doc = include_str!("src/trees-and-models.md")]
    mod trees_and_models {}
    #[doc = include_str!("src/randomness.md")]
    mod randomness {}
    #[doc = include_str!("src/control-flow.md")]
    mod control_flow {}
    #[doc = include_str!("src/training-loop.md")]
    mod training_loop {}
    #[doc = include_str!("src/data.md")]
    mod data {}
    #[doc = include_str!("src/saving-and-resuming.md")]
    mod saving_and_resuming {}
    #[doc = include_str!("src/debugging.md")]
    mod debugging {}
    #[doc = include_str!("src/importing-from-jax.md")]
    mod importing_from_jax {}
    #[doc = include_str!("src/exporting-to-jax.md")]
    mod exporting_to_jax {}
    #[doc = include_str!("src/performance.md")]
    mod performance {}
    #[doc = include_str!("src/devices-and-sharding.md")]
    mod devices_and_sharding {}
    #[doc = include_str!("src/tpu.md")]
    mod tpu {}
    #[doc = include_str!("src/custom-kernels.md")]
    mod custom_kernels {}
    #[doc = include_str!("src/from-jax.md")]
    mod from_jax {}
    #[doc = include_str!("src/porting-from-jax.md")]
    mod porting_from_jax {}
    #[doc = include_str!("src/from-pytorch.md")]
    mod from_pytorch {}
    #[doc = include_str!("src/from-pytorch-xla.md")]
    mod from_pytorch_xla {}
    #[doc = include_str!("src/from-candle-and-burn.md")]
    mod from_candle_and_burn {}
    #[doc = include_str!("src/gallery.md")]
    mod gallery {}
}
