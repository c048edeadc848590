//! Examples of the documentation that only compile contain no assertion, because it never runs.

use std::fs;

use super::sources::{files_below, root};

/// Examples that may contain an assertion although they do not run, as `path:line of the fence`,
/// with the reason. There is none: an example that needs a cluster or an accelerator prints its
/// result.
const ALLOWED: &[(&str, &str)] = &[];

const ASSERTIONS: [&str; 5] = ["assert!", "assert_eq!", "assert_ne!", "debug_assert", "panic!"];

/// Returns a line of Markdown, or of a doc comment without its marker.
fn markdown(line: &str) -> &str {
    let line = line.trim();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
    text.unwrap_or(line).trim()
}

/// Returns the lines, counted from 1, of the assertions in examples that do not run, each with the
/// line of its fence.
fn idle_assertions(text: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, bool)> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = markdown(line);
        if let Some(info) = line.strip_prefix("```") {
            open = match open {
                Some(_) => None,
                None => Some((number, info.contains("no_run") || info.contains("ignore"))),
            };
        } else if let Some((fence, true)) = open
            && ASSERTIONS.iter().any(|assertion| line.contains(assertion))
        {
            found.push((number, fence));
        }
    }
    found
}

#[test]
fn examples_that_do_not_run_contain_no_assertion() {
    let files = files_below(".");
    let pages = files.iter().filter(|path| path.ends_with(".rs") || path.ends_with(".md"));
    let (mut examples, mut failures) = (0, Vec::new());
    for path in pages {
        let text = fs::read_to_string(root().join(path)).unwrap();
        examples += text.lines().filter(|line| markdown(line) == "```").count();
        for (line, fence) in idle_assertions(&text) {
            let example = format!("{path}:{fence}");
            // The sample texts below are not examples.
            let is_own_test = path.ends_with("tidy/examples.rs");
            if !is_own_test && !ALLOWED.iter().any(|(allowed, _)| *allowed == example) {
                failures.push(format!("{path}:{line}: this assertion never runs"));
            }
        }
    }
    assert!(examples > 1000, "only {examples} fences were read");
    assert!(
        failures.is_empty(),
        "remove `no_run` and set up with hidden lines, or print the value:\n{}",
        failures.join("\n")
    );
}

#[test]
fn an_assertion_under_no_run_is_found() {
    let page = "/// ```no_run\n/// assert!(x);\n/// ```\n```\nassert!(y);\n```\n```rust,ignore\n\
                let z = 1;\nassert_eq!(z, 1);\n```\nassert!(prose)\n";
    assert_eq!(idle_assertions(page), [(2, 1), (9, 7)]);
}
