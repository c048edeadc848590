//! The repository's files, and Rust text with its comments and literals blanked out.

use std::fs;
use std::path::{Path, PathBuf};

/// One Rust file.
pub(crate) struct Source {
    /// Path from the repository's root, with `/`.
    pub(crate) path: String,
    /// The unchanged text.
    pub(crate) text: String,
    /// `text` with comments, strings and character literals replaced by blanks. Code stays on the
    /// same lines and columns.
    pub(crate) code: String,
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns all Rust files below a folder of the repository, sorted by path.
pub(crate) fn rust_below(folder: &str) -> Vec<Source> {
    let files = files_below(folder);
    let rust = files.into_iter().filter(|path| path.ends_with(".rs"));
    rust.map(|path| {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        Source { code: blank(&text), path, text }
    })
    .collect()
}

/// Returns all files below a folder of the repository, sorted, without build outputs and git's
/// files.
pub(crate) fn files_below(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(folder) = open.pop() {
        for path in children(&folder) {
            match path.is_dir() {
                true => open.push(path),
                false => found.push(relative(&path)),
            }
        }
    }
    found.sort();
    found
}

/// Returns the entries of a folder, or nothing if it does not exist.
pub(crate) fn children(folder: &Path) -> Vec<PathBuf> {
    let listing = fs::read_dir(folder).into_iter().flatten();
    let paths = listing.map(|entry| entry.unwrap().path());
    paths.filter(|path| !is_foreign(path)).collect()
}

/// Returns true for folders to which the rules do not apply.
fn is_foreign(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // Virtual environments, `.venv` and `.venv-stores`, are ignored by git.
    name.starts_with(".venv")
        || ["target", ".git", "__pycache__", "shared"].iter().any(|foreign| name == *foreign)
}

pub(crate) fn relative(path: &Path) -> String {
    let below = path.strip_prefix(root()).unwrap();
    below.components().map(|c| c.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// Returns the line, counted from 1, of a byte offset.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

/// Returns the offsets at which `word` occurs as a whole word, neither after nor before a letter,
/// digit or `_`.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        !code[..at].ends_with(part_of_word) && !code[at + word.len()..].starts_with(part_of_word)
    })
}

/// Returns the offset just after the bracket that closes the one at `open`.
pub(crate) fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code[open..].char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return open + at + 1;
        }
    }
    code.len()
}

/// Blanks out unit tests: each `#[cfg(test)] mod … { … }`.
pub(crate) fn without_tests(code: &str) -> String {
    let mut code = code.to_owned();
    let mut from = 0;
    while let Some(at) = code[from..].find("#[cfg(test)]").map(|at| from + at) {
        let after = at + "#[cfg(test)]".len();
        let is_module = code[after..].trim_start().starts_with("mod ");
        let Some(open) = code[after..].find('{').filter(|_| is_module) else {
            from = after;
            continue;
        };
        let end = closing(&code, after + open);
        let blanks: String = code[at..end].chars().map(blanked).collect();
        code.replace_range(at..end, &blanks);
        from = at;
    }
    code
}

fn blanked(c: char) -> char {
    if c == '\n' { '\n' } else { ' ' }
}

/// Replaces comments and literals by as many blanks as they have bytes.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = at + literal_or_comment(&text[at..], at == 0 || !is_word(bytes[at - 1]));
        if end == at {
            code.push(bytes[at]);
            at += 1;
            continue;
        }
        code.extend(bytes[at..end].iter().map(|&b| if b == b'\n' { b'\n' } else { b' ' }));
        at = end;
    }
    String::from_utf8(code).unwrap()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 128
}

/// Returns the length of the comment or literal at the start of `rest`, or 0 if it begins with
/// code.
fn literal_or_comment(rest: &str, fresh: bool) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment(rest);
    }
    if rest.starts_with('"') {
        return quoted(rest, 0);
    }
    if fresh {
        for prefix in ["br", "cr", "r"] {
            if let Some(tail) = rest.strip_prefix(prefix) {
                let hashes = tail.len() - tail.trim_start_matches('#').len();
                if tail[hashes..].starts_with('"') {
                    let close = format!("\"{}", "#".repeat(hashes));
                    let start = prefix.len() + hashes + 1;
                    return rest[start..]
                        .find(&close)
                        .map_or(rest.len(), |n| start + n + close.len());
                }
            }
        }
    }
    if rest.starts_with('\'') { character(rest) } else { 0 }
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest.as_bytes()[at..rest.len().min(at + 2)] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Returns the length of a string whose opening quote is at `open`.
fn quoted(rest: &str, open: usize) -> usize {
    let bytes = rest.as_bytes();
    let mut at = open + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length of a character literal, or 0 for a lifetime.
fn character(rest: &str) -> usize {
    let mut inside = rest[1..].chars();
    match inside.next() {
        Some('\\') => {
            let escaped = inside.next().map_or(0, char::len_utf8);
            rest[2 + escaped..].find('\'').map_or(0, |n| 2 + escaped + n + 1)
        }
        Some(c) if inside.next() == Some('\'') => 1 + c.len_utf8() + 1,
        _ => 0,
    }
}

#[test]
fn blanking_keeps_only_code() {
    let text = r##"let a = "crate::x"; // crate::y
let b: &'a str = r#"c"d"#; /* e /* f */ g */ h('"', '\'', '\u{41}', b'x');"##;
    let code = blank(text);
    assert_eq!(code.len(), text.len());
    let words: Vec<&str> = code.split_whitespace().collect();
    let expected =
        ["let", "a", "=", ";", "let", "b:", "&'a", "str", "=", ";", "h(", ",", ",", ",", "b", ");"];
    assert_eq!(words, expected);
}

#[test]
fn only_unit_tests_are_blanked() {
    let code = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { } }\nfn c() {}\n";
    let rest = without_tests(code);
    assert!(rest.contains("fn a()") && rest.contains("fn c()") && !rest.contains("fn b()"));
    assert_eq!(rest.lines().count(), 4);
}
