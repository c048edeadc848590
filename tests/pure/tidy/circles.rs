//! The import graph of `src/core`: cycles of files stay small.

use crate::tidy::sources::{Source, rust_below, without_tests, words};
use std::collections::{BTreeMap, BTreeSet};

/// The largest cycle of files in `src/core`. Arrays, the backend that evaluates them, primitives,
/// programs, lowering and binding refer to each other. Everything else is below them.
const LARGEST_CIRCLE: usize = 9;

#[test]
fn circles_of_files_in_core_are_small() {
    let graph = Graph::read("src/core");
    let circle = graph.largest_circle();
    println!("largest circle: {}: {circle:?}", circle.len());
    assert!(
        circle.len() <= LARGEST_CIRCLE,
        "{} files of src/core import each other in a circle, at most {LARGEST_CIRCLE} may: {}",
        circle.len(),
        circle.join(", ")
    );
}

/// Files with the files that they import from.
struct Graph {
    imports: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Reads the imports among the files of a folder. `mod.rs` files only re-export: an import
    /// through one leads to the file that defines the item.
    fn read(folder: &str) -> Graph {
        let sources: Vec<Source> =
            rust_below(folder).into_iter().filter(|s| !s.path.ends_with("mod.rs")).collect();
        let files: Vec<String> = sources.iter().map(|source| module_of(&source.path)).collect();
        let mut definitions: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (source, file) in sources.iter().zip(&files) {
            for name in definitions_in(&source.code) {
                definitions.entry(name).or_default().push(file.clone());
            }
        }
        let mut imports = BTreeMap::new();
        for (source, file) in sources.iter().zip(&files) {
            let mut targets = BTreeSet::new();
            for path in imported_paths(&without_tests(&source.code), file) {
                targets.extend(resolve(&path, &files, &definitions));
            }
            targets.remove(file);
            imports.insert(file.clone(), targets);
        }
        Graph { imports }
    }

    fn reachable(&self, start: &str) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        let mut open = vec![start.to_owned()];
        while let Some(file) = open.pop() {
            for target in self.imports.get(&file).into_iter().flatten() {
                if seen.insert(target.clone()) {
                    open.push(target.clone());
                }
            }
        }
        seen
    }

    /// Returns the largest set of files that all reach each other.
    fn largest_circle(&self) -> Vec<String> {
        let reachable: BTreeMap<&String, BTreeSet<String>> =
            self.imports.keys().map(|file| (file, self.reachable(file))).collect();
        let circle_of = |file: &String| -> Vec<String> {
            let members = reachable[file].iter();
            members.filter(|other| reachable[other].contains(file)).cloned().collect()
        };
        self.imports.keys().map(circle_of).max_by_key(Vec::len).unwrap_or_default()
    }
}

/// Returns the module path of a file: `src/core/mesh/device.rs` is `core::mesh::device`.
fn module_of(path: &str) -> String {
    path.trim_start_matches("src/").trim_end_matches(".rs").replace('/', "::")
}

/// Returns the names of the items that a file defines at its top level.
fn definitions_in(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in code.lines().filter(|line| !line.starts_with(char::is_whitespace)) {
        let mut tokens = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let keywords = ["struct", "enum", "trait", "type", "fn", "const", "static", "union"];
        if tokens.by_ref().any(|token| keywords.contains(&token)) {
            names.extend(tokens.find(|token| !token.is_empty()).map(str::to_owned));
        }
    }
    names
}

/// Returns the paths in a file that begin with `crate` or `super`, as absolute paths without
/// `crate`.
fn imported_paths(code: &str, file: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for root in ["crate", "super"] {
        for start in words(code, root) {
            let rest = &code[start + root.len()..];
            if !rest.starts_with("::") || code[..start].ends_with('$') {
                continue;
            }
            let base = match root {
                "crate" => String::new(),
                // The parent of a file is its folder.
                _ => file.rsplit_once("::").map_or(String::new(), |(parent, _)| parent.to_owned()),
            };
            expand(&base, &rest[2..], &mut paths);
        }
    }
    paths
}

/// Expands `a::{b, c::d}` into all paths.
fn expand(base: &str, text: &str, paths: &mut Vec<String>) {
    let text = text.trim_start();
    if let Some(group) = text.strip_prefix('{') {
        let mut depth = 1;
        let mut item = 0;
        for (index, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 || (depth == 1 && c == ',') {
                expand(base, &group[item..index], paths);
                item = index + 1;
            }
            if depth == 0 {
                return;
            }
        }
        return;
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let name = &text[..end];
    if name.is_empty() {
        return;
    }
    let path = if base.is_empty() || name == "self" && text.len() == end {
        if base.is_empty() { name.to_owned() } else { base.to_owned() }
    } else {
        format!("{base}::{name}")
    };
    match text[end..].strip_prefix("::") {
        Some(rest) => expand(&path, rest, paths),
        None => paths.push(path),
    }
}

/// Returns the files that a path leads to: the module itself, or the file that defines the last
/// name.
fn resolve(
    path: &str,
    files: &[String],
    definitions: &BTreeMap<String, Vec<String>>,
) -> Vec<String> {
    let segments: Vec<&str> = path.split("::").collect();
    for end in (1..=segments.len()).rev() {
        let module = segments[..end].join("::");
        if files.contains(&module) {
            return vec![module];
        }
    }
    // Through a `mod.rs`: a file below it of that module name, or one that defines the item.
    let last_two = segments.iter().rev().take(2);
    for name in last_two {
        let suffix = format!("::{name}");
        if let Some(file) = files.iter().find(|file| file.ends_with(&suffix))
            && (segments.last() != Some(name) || !definitions.contains_key(*name))
        {
            return vec![file.clone()];
        }
        if let Some(defined) = definitions.get(*name)
            && path.starts_with("core")
        {
            return defined.clone();
        }
    }
    Vec::new()
}

#[test]
fn groups_of_imports_are_expanded() {
    let code = "use crate::core::{a::b::C, d::{self, E}};\nuse super::f::g;";
    let mut paths = imported_paths(code, "core::x::y");
    paths.sort();
    assert_eq!(paths, ["core::a::b::C", "core::d", "core::d::E", "core::x::f::g"]);
}

#[test]
fn largest_circle_is_found() {
    let edge = |from: &str, to: &[&str]| {
        (from.to_owned(), to.iter().map(ToString::to_string).collect::<BTreeSet<_>>())
    };
    let imports = BTreeMap::from([
        edge("a", &["b"]),
        edge("b", &["c"]),
        edge("c", &["a", "d"]),
        edge("d", &[]),
    ]);
    assert_eq!(Graph { imports }.largest_circle(), ["a", "b", "c"]);
}
