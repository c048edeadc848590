//! The table of capabilities is complete, and what it names exists.

use std::fs;

use super::sources::root;

/// The groups of capabilities and their sizes.
const GROUPS: [(char, usize); 6] = [('T', 17), ('D', 10), ('F', 7), ('S', 5), ('C', 4), ('N', 10)];

/// A row of the table: id, capability, state, and what shows it.
struct Row<'a> {
    id: &'a str,
    state: &'a str,
    evidence: &'a str,
}

fn rows(page: &str) -> Vec<Row<'_>> {
    let cells = |line| -> Option<[&str; 4]> {
        let line: &str = line;
        let line = line.strip_prefix("| ")?.strip_suffix('|')?;
        let cells: Vec<&str> = line.split(" |").map(str::trim).collect();
        cells.get(..4)?.try_into().ok()
    };
    let rows = page.lines().filter_map(cells).filter(|[id, ..]| *id != "id" && *id != "---");
    rows.map(|[id, _, state, evidence]| Row { id, state, evidence }).collect()
}

/// Returns the problems of a row: paths that do not exist, and functions that no file has.
fn problems(row: &Row<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let mut file: Option<(&str, String)> = None;
    let spans = row.evidence.split('`').skip(1).step_by(2);
    for span in spans {
        if span.contains('/') {
            let path = root().join(span);
            if !path.exists() {
                found.push(format!("{}: there is no {span}", row.id));
            }
            file = fs::read_to_string(path).ok().map(|text| (span, text));
            continue;
        }
        let is_there = |(_, text): &(&str, String)| text.contains(&format!("fn {span}("));
        if !file.as_ref().is_some_and(is_there) {
            let name = file.as_ref().map_or("nothing", |(name, _)| name);
            found.push(format!("{}: {name} has no function {span}", row.id));
        }
    }
    let is_started = row.state.starts_with("works") || row.state.starts_with("in part: ");
    if !is_started && row.state != "not yet" {
        found.push(format!("{}: the state is `{}`", row.id, row.state));
    }
    if is_started == row.evidence.is_empty() {
        found.push(format!("{}: `{}` with the evidence `{}`", row.id, row.state, row.evidence));
    }
    found
}

#[test]
fn every_capability_names_what_shows_it() {
    let page = fs::read_to_string(root().join("docs/mission.md")).unwrap();
    let rows = rows(&page);
    let expected: Vec<String> = GROUPS
        .iter()
        .flat_map(|&(group, size)| (1..=size).map(move |number| format!("{group}{number}")))
        .collect();
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), expected);
    let found: Vec<String> = rows.iter().flat_map(problems).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn wrong_rows_are_found() {
    let found = |line: &str| problems(&rows(line)[0]).len();
    let here = "`tests/pure/tidy/mission.rs`";
    assert_eq!(found(&format!("| T1 | a | works | {here} `wrong_rows_are_found` |")), 0);
    assert_eq!(found(&format!("| T1 | a | works | {here} `rows_that_are_not` |")), 1);
    assert_eq!(found("| T1 | a | works | `tests/none.rs` |"), 1);
    assert_eq!(found("| T1 | a | works | |"), 1);
    assert_eq!(found(&format!("| T1 | a | half done | {here} |")), 2);
    assert_eq!(found("| T1 | a | not yet | |"), 0);
}
