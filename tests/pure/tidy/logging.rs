//! docs/logging.md lists every event that the library logs through `tracing`.

use crate::tidy::sources::{Source, closing, line_of, root, rust_below, without_tests};
use std::collections::BTreeSet;

/// The folders whose events the page lists.
const FOLDERS: [&str; 2] = ["src", "crates"];
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

/// An event: a target, a level, and the names of the fields in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LoggedEvent {
    target: String,
    level: String,
    fields: BTreeSet<String>,
}

#[test]
fn logged_events_are_documented_with_their_fields() {
    let page = std::fs::read_to_string(root().join("docs/logging.md")).unwrap();
    let documented = documented(&page);
    let mut logged = BTreeSet::new();
    let mut missing = Vec::new();
    for source in FOLDERS.iter().flat_map(|folder| rust_below(folder)) {
        if source.path.contains("/tests/") {
            continue;
        }
        for (event, line) in logged_events(&source) {
            if !documented.contains(&event) {
                missing.push(format!("{}:{line}: {}", source.path, row(&event)));
            }
            logged.insert(event);
        }
    }
    assert!(logged.len() > 15, "{} events found", logged.len());
    assert!(missing.is_empty(), "docs/logging.md lacks these rows:\n{}", missing.join("\n"));
    let stale: Vec<String> = documented.difference(&logged).map(row).collect();
    assert!(stale.is_empty(), "nothing logs these rows of docs/logging.md:\n{}", stale.join("\n"));
}

fn row(event: &LoggedEvent) -> String {
    let fields: Vec<String> = event.fields.iter().map(|field| format!("`{field}`")).collect();
    format!("| `{}` | {} | {} | … |", event.target, event.level, fields.join(", "))
}

/// Returns the rows of the tables of events: `| target | level | fields | when |`.
fn documented(page: &str) -> BTreeSet<LoggedEvent> {
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.split(" | ").map(str::trim).collect();
        let [target, level, fields, _] = cells[..] else { return None };
        let target = target.strip_prefix('`')?.strip_suffix('`')?.to_owned();
        LEVELS.contains(&level).then(|| LoggedEvent {
            target,
            level: level.to_owned(),
            fields: fields
                .split(", ")
                .filter_map(|field| Some(field.strip_prefix('`')?.strip_suffix('`')?.to_owned()))
                .collect(),
        })
    });
    rows.collect()
}

/// Returns the events that a file logs, with their lines.
fn logged_events(source: &Source) -> Vec<(LoggedEvent, usize)> {
    let code = without_tests(&source.code);
    let mut events = Vec::new();
    for (at, start) in code.match_indices("tracing::") {
        let rest = &code[at + start.len()..];
        let Some((level, rest)) = LEVELS
            .iter()
            .find_map(|level| Some((*level, rest.strip_prefix(level)?.strip_prefix("!(")?)))
        else {
            continue;
        };
        let open = code.len() - rest.len() - 1;
        let mut event = LoggedEvent {
            target: module_of(&source.path),
            level: level.to_owned(),
            fields: BTreeSet::new(),
        };
        for argument in arguments(source, &code, open) {
            match argument.strip_prefix("target:").map(str::trim) {
                Some(target) => event.target = resolved(target, source),
                None => event.fields.extend(field_of(argument)),
            }
        }
        events.push((event, line_of(&code, at)));
    }
    events
}

/// Returns the arguments of the macro whose parenthesis opens at `open`.
fn arguments<'a>(source: &'a Source, code: &str, open: usize) -> Vec<&'a str> {
    let end = closing(code, open) - 1;
    let (mut depth, mut from) = (0_usize, open + 1);
    let mut parts = Vec::new();
    for (offset, c) in code[open + 1..end].char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(source.text[from..open + 1 + offset].trim());
                from = open + 2 + offset;
            }
            _ => {}
        }
    }
    parts.push(source.text[from..end].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns the name of a field: `at` of `at = %loc`, `error` of `%error`. A message has none.
fn field_of(argument: &str) -> Option<String> {
    let name = argument.split(" = ").next()?.trim_start_matches(['%', '?']);
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_name && name != "message").then(|| name.to_owned())
}

/// Returns a target: a literal, or the constant of that name in the file.
fn resolved(target: &str, source: &Source) -> String {
    let text = match target.starts_with('"') {
        true => target,
        false => {
            let constant = format!("const {target}: &str = ");
            source.text.split(&constant).nth(1).and_then(|rest| rest.split(';').next()).unwrap()
        }
    };
    text.trim_matches('"').to_owned()
}

/// Returns the module of a file, which is the target of events that name none.
fn module_of(path: &str) -> String {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let (krate, module) = match path.strip_prefix("crates/").and_then(|rest| rest.split_once('/')) {
        Some((krate, module)) => (format!("oxidax_{krate}"), module),
        None => ("oxidax".to_owned(), path),
    };
    let module = module.strip_prefix("src/").unwrap_or(module);
    let parts = module.split('/').filter(|part| !["mod", "lib", "main"].contains(part));
    std::iter::once(krate.as_str()).chain(parts).collect::<Vec<_>>().join("::")
}
