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
    let done = written && output.status.success() && !formatted.is_empty();
    done.then(|| shorten_comments(&formatted))
}

/// Shortens comments, which `rustfmt` keeps, to 100 columns.
fn shorten_comments(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    for line in source.lines() {
        if line.trim_start().starts_with("// ") && line.chars().count() > 100 {
            out.extend(line.chars().take(99));
            out.truncate(out.trim_end().len());
            out.push('…');
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}
