//! The guide in `docs/guide`: each chapter is in the table of contents and is tested, begins with a
//! program, fits one sitting, and its links resolve.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use super::sources::root;

/// Number of lines of a chapter.
const LINES: std::ops::RangeInclusive<usize> = 100..=250;

/// Pages to look things up, with a section for each habit of another framework.
const LOOK_UP: &[&str] = &["from-candle-and-burn.md", "from-pytorch-xla.md"];
/// Number of lines of such a page.
const LOOK_UP_LINES: std::ops::RangeInclusive<usize> = 100..=450;

/// Pages that are not chapters.
const OTHER_PAGES: &[&str] = &["SUMMARY.md", "introduction.md", "gallery.md"];

fn folder() -> PathBuf {
    root().join("docs/guide/src")
}

fn read(page: &str) -> String {
    fs::read_to_string(folder().join(page)).unwrap()
}

/// Returns the file names of all pages, sorted.
fn pages() -> BTreeSet<String> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let names = files.map(|name| name.into_string().unwrap());
    names.filter(|name| name.ends_with(".md")).collect()
}

fn chapters() -> impl Iterator<Item = String> {
    pages().into_iter().filter(|page| !OTHER_PAGES.contains(&page.as_str()))
}

/// Returns the targets of the links in Markdown text, without those in code.
fn links(text: &str) -> Vec<String> {
    let mut is_code = false;
    let mut prose = String::new();
    for line in text.lines() {
        let is_fence = line.starts_with("```");
        is_code ^= is_fence;
        if !is_code && !is_fence {
            // Links may be wrapped, so lines are joined.
            prose.push_str(line);
            prose.push(' ');
        }
    }
    let without_code: String = prose.split('`').step_by(2).collect();
    let targets = without_code.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.map(str::to_owned).collect()
}

/// Returns the anchors of a page's headings, as mdBook and code hosts form them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
    headings
        .map(|heading| {
            let words = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let listed: Vec<String> = links(&read("SUMMARY.md"));
    let distinct: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(distinct.len(), listed.len(), "SUMMARY.md lists a page twice");
    let mut expected = pages();
    expected.remove("SUMMARY.md");
    assert_eq!(distinct, expected, "SUMMARY.md lists other pages than the folder has");
}

#[test]
fn every_page_is_tested() {
    let text = fs::read_to_string(root().join("docs/guide/lib.rs")).unwrap();
    let included = text.split("include_str!(\"src/").skip(1);
    let tested: Vec<&str> = included.filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(tested, links(&read("SUMMARY.md")), "lib.rs and SUMMARY.md list the same pages");
}

#[test]
fn links_resolve_inside_the_book() {
    let mut wrong = Vec::new();
    for page in pages() {
        for link in links(&read(&page)).iter().filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let file = if file.is_empty() { page.as_str() } else { file };
            // Files outside the folder are not part of the book.
            let is_inside = !file.starts_with("..") && folder().join(file).is_file();
            let has_anchor = || anchor.is_empty() || anchors(&read(file)).contains(anchor);
            if !is_inside || !has_anchor() {
                wrong.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn chapters_begin_with_a_program_that_states_its_output() {
    let mut wrong = Vec::new();
    for chapter in chapters() {
        let text = read(&chapter);
        let mut blocks = text.split("\n```").skip(1);
        let program = blocks.next().unwrap_or_default();
        let check = format!("guide::check_printed(\"{}\")", chapter.trim_end_matches(".md"));
        if !program.starts_with("rust\n") || !program.contains(&check) {
            wrong.push(format!("{chapter}: the first block is no program that ends with {check}"));
        }
        if !blocks.nth(1).unwrap_or_default().starts_with("text\n") {
            wrong.push(format!("{chapter}: the second block is not the program's output"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn chapters_fit_one_sitting() {
    let mut wrong = Vec::new();
    for chapter in chapters() {
        let lines = read(&chapter).lines().count();
        let expected = if LOOK_UP.contains(&chapter.as_str()) { LOOK_UP_LINES } else { LINES };
        if !expected.contains(&lines) {
            wrong.push(format!("{chapter}: {lines} lines, expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn links_and_anchors_are_found() {
    let text = "# A `b`: c\n[x](y.md#z) `[no](code)`\n```\n[no](block)\n```\n[w\nv](u.md)\n";
    assert_eq!(links(text), ["y.md#z", "u.md"]);
    assert!(anchors(text).contains("a-b-c"));
}
