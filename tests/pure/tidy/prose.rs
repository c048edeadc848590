//! Rules for the wording of documentation, line length and the names of public types.

use super::sources::{Source, files_below, line_of, root, rust_below, words};
use std::collections::BTreeMap;

/// Columns at which a line ends.
const COLUMNS: usize = 100;

/// Words that do not begin a doc comment. A doc comment begins with a noun phrase or a verb.
const OPENERS: &[&str] =
    &["What ", "The same ", "Whether ", "Who ", "How ", "That of ", "Those ", "Whatever "];

/// Phrases that documentation does not use, each with a replacement.
const PHRASES: &[(&str, &str)] = &[
    ("lie", "`is stored`, `is placed`"),
    ("lies", "`is stored`, `is placed`"),
    ("lying", "`stored`, `placed`"),
    ("anew", "`again`"),
    ("kin", "`related`"),
    ("for good", "`permanently`"),
    ("reckon", "`compute`"),
    ("reckoned", "`computed`"),
    ("forbear", "`avoid`"),
    ("tell of", "`report`, `describe`"),
    ("tells of", "`reports`, `describes`"),
    ("is told", "`receives`, or name who passes it"),
    ("are told", "`receive`, or name who passes it"),
    ("at hand", "`available`"),
    ("of its own", "`its own` before the noun"),
    ("of their own", "`their own` before the noun"),
    ("of the user's", "`user-defined`, or `the user's` before the noun"),
    ("of JAX's", "`JAX's` before the noun"),
    ("what one", "name the thing"),
    ("one does", "name who does it"),
];

/// Documents that the repository does not contain.
const FOREIGN: &[&str] = &["STYLE", "DESIGN", "LANGUAGE.md"];

fn rust_sources() -> Vec<Source> {
    let folders = ["src", "crates", "xtask", "tests", "examples", "benches", "docs"];
    let sources = folders.iter().flat_map(|folder| rust_below(folder));
    sources.filter(|s| !s.path.starts_with("crates/pjrt-sys/")).collect()
}

/// Returns the text of a doc comment line, or `None` for other lines.
fn doc_text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim)
}

/// Returns the lines of doc comments without code blocks and quoted code, with their numbers, and
/// true for the first line of each comment.
fn documentation(source: &Source) -> Vec<(usize, String, bool)> {
    let mut lines = Vec::new();
    let (mut is_first, mut is_code) = (true, false);
    for (number, line) in source.text.lines().enumerate() {
        let Some(text) = doc_text(line) else {
            (is_first, is_code) = (true, false);
            continue;
        };
        is_code ^= text.starts_with("```");
        if !is_code && !text.starts_with("```") {
            // Every second piece between backticks is code.
            let prose: Vec<&str> = text.split('`').step_by(2).collect();
            lines.push((number + 1, prose.join("`"), is_first));
        }
        is_first = false;
    }
    lines
}

fn is_script(path: &str) -> bool {
    path.ends_with(".sh") || path.ends_with(".py") || path == ".ci/run"
}

/// Returns the shell and Python scripts, reduced to their comments and docstrings.
fn script_sources() -> impl Iterator<Item = Source> {
    let paths = files_below("").into_iter().filter(|path| is_script(path));
    paths.map(|path| {
        let text = std::fs::read_to_string(root().join(&path)).unwrap();
        Source { text: script_documentation(&text), code: String::new(), path }
    })
}

/// Converts the comments and docstrings of a script to Rust doc comments. Other lines become empty.
fn script_documentation(text: &str) -> String {
    let mut is_docstring = false;
    let lines = text.lines().map(|line| {
        let quotes = line.matches("\"\"\"").count();
        let is_prose = is_docstring || quotes > 0;
        is_docstring ^= quotes == 1;
        match line.trim_start().strip_prefix('#') {
            Some(comment) if !comment.starts_with('!') => format!("///{comment}"),
            _ if is_prose => format!("///{}", line.replace("\"\"\"", " ")),
            _ => String::new(),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn documentation_of_scripts_is_found() {
    let script = "#!/bin/sh\n# a\nb\n\"\"\"c\n\nd\"\"\"\ne";
    assert_eq!(script_documentation(script), "\n/// a\n\n/// c\n///\n///d \n");
}

#[test]
fn doc_comments_use_plain_phrases() {
    let mut wrong = Vec::new();
    for source in rust_sources().into_iter().chain(script_sources()) {
        if source.path == "tests/pure/tidy/prose.rs" {
            continue;
        }
        for (number, text, is_first) in documentation(&source) {
            let place = format!("{}:{number}", source.path);
            if let Some(opener) =
                OPENERS.iter().find(|opener| is_first && text.starts_with(**opener))
            {
                wrong.push(format!("{place}: begins with `{}`: name the thing", opener.trim()));
            }
            for (phrase, instead) in PHRASES {
                if words(&text, phrase).next().is_some() {
                    wrong.push(format!("{place}: `{phrase}`: write {instead}"));
                }
            }
            // `There is no …` is fine.
            for at in words(&text, "is no").chain(words(&text, "are no")) {
                if !text[..at].to_lowercase().ends_with("there ") {
                    wrong.push(format!("{place}: `is no`: write `is not a`"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} lines:\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns the length of a line of code without the contents of its string literals, which are
/// blank in `code`: text for users and compilers may be longer.
fn columns_of_code(code: &str) -> usize {
    let words: Vec<usize> = code.split_whitespace().map(|word| word.chars().count()).collect();
    let indentation = code.chars().take_while(|c| *c == ' ').count();
    let without_blanks = words.iter().sum::<usize>() + words.len();
    code.trim_end().chars().count().min(indentation.min(COLUMNS / 2) + without_blanks)
}

#[test]
fn lines_end_at_100_columns() {
    let mut wrong = Vec::new();
    for source in rust_sources() {
        for (number, (line, code)) in source.text.lines().zip(source.code.lines()).enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            let columns = if is_comment { line.chars().count() } else { columns_of_code(code) };
            let text = doc_text(line).unwrap_or(line.trim_start());
            // rustfmt does not wrap snapshots.
            let is_snapshot = line.contains("expect![") || line.contains("\"#]]");
            let is_exempt = text.starts_with('|') || text.contains("://") || is_snapshot;
            if columns > COLUMNS && !is_exempt {
                wrong.push(format!("{}:{}: {columns}", source.path, number + 1));
            }
        }
    }
    for path in files_below("").iter().filter(|path| path.ends_with(".md") || is_script(path)) {
        let mut is_output = false;
        for (number, line) in
            std::fs::read_to_string(root().join(path)).unwrap().lines().enumerate()
        {
            is_output ^= line.trim_start().starts_with("```");
            let is_exempt = is_output || line.starts_with('|') || line.contains("://");
            if line.chars().count() > COLUMNS && !is_exempt {
                wrong.push(format!("{path}:{}: {}", number + 1, line.chars().count()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} lines:\n{}", wrong.len(), wrong.join("\n"));
}

/// Names that more than one public type may have, each with the reason.
const SHARED_NAMES: &[(&str, &str)] = &[
    ("Error", "each crate has one error type of this name"),
    ("Result", "each crate has one alias of this name"),
];

#[test]
fn public_types_have_distinct_names() {
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let sources = ["src", "crates"].iter().flat_map(|folder| rust_below(folder));
    for source in sources.filter(|s| !s.path.starts_with("crates/pjrt-sys/")) {
        if source.path.contains("/tests/") {
            continue;
        }
        for kind in ["struct", "enum", "trait", "type", "union"] {
            for at in words(&source.code, &format!("pub {kind}")) {
                let rest = source.code[at..].trim_start_matches("pub ").trim_start_matches(kind);
                let rest = rest.trim_start();
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(0);
                let place = format!("{}:{}", source.path, line_of(&source.code, at));
                types.entry(rest[..end].to_owned()).or_default().push(place);
            }
        }
    }
    let wrong: Vec<String> = types
        .iter()
        .filter(|(name, places)| {
            // A macro writes `pub struct $name`.
            let is_shared = SHARED_NAMES.iter().any(|(shared, _)| shared == name);
            places.len() > 1 && !is_shared && !name.is_empty()
        })
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect();
    assert!(wrong.is_empty(), "{} names:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn only_documents_of_this_repository_are_cited() {
    let mut wrong = Vec::new();
    let files = files_below("");
    let is_text = |path: &&String| path.ends_with(".rs") || path.ends_with(".md");
    for path in files.iter().filter(is_text) {
        if path == "tests/pure/tidy/prose.rs" {
            continue;
        }
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        for name in FOREIGN {
            let lines = words(&text, name).map(|at| line_of(&text, at));
            wrong.extend(lines.map(|line| format!("{path}:{line}: {name}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
