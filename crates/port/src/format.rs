//! Formatting by `rustfmt`, if the host has it.

use std::io::Write;
use std::process::{Command, Stdio};

/// Formats a source with lines of at most 100 columns, or returns `None` if `rustfmt` is not
/// installed or refuses the source.
pub fn rustfmt(source: &str) -> Option<String> {
    let mut child = Command::new("rustfmt")
        .args(["--edition", "2024", "--config", "max_width=100,use_small_heuristics=Max"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take()?;
    let text = source.to_string();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()).is_ok());
    let output = child.wait_with_output().ok()?;
    let written = writer.join().unwrap_or(false);
    let formatted = String::from_utf8(output.stdout).ok()?;
    (written && output.status.success() && !formatted.is_empty()).then_some(formatted)
}
