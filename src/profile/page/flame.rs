//! Flame graphs: time by nested names, widest first, outermost on top.

use super::html::{escape, missing, percent, seconds, short_path};
use super::trace_file::HostTrace;
use crate::profile::{LineProfile, ProfiledOperation};
use std::collections::BTreeMap;

/// The height of a level in pixels.
const ROW: usize = 22;
/// The smallest share of the whole that has a box. Smaller siblings share one.
const SMALLEST: f64 = 0.001;
/// The largest number of nested names. Deeper ones are left out.
const LEVELS: usize = 24;
/// The number of colours for names: see `--c0` and so on in page.css.
const COLOURS: u32 = 8;

/// Time by nested names.
#[derive(Debug, Default)]
struct Node {
    seconds: f64,
    children: BTreeMap<String, Node>,
}

impl Node {
    /// Adds time to the names of a path, outermost first.
    fn add(&mut self, path: &[&str], seconds: f64) {
        let mut node = self;
        node.seconds += seconds;
        for name in path.iter().take(LEVELS) {
            node = node.children.entry((*name).to_owned()).or_default();
            node.seconds += seconds;
        }
    }
}

/// Returns the number of a name's colour. Classes of [`timeline`](super::timeline) come first.
pub(super) fn colour(name: &str) -> usize {
    // FNV-1a: equal names have equal colours on every page.
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = base_name(name).bytes().fold(0x811c_9dc5, step);
    10 + ((hash >> 8) % COLOURS) as usize
}

/// Returns the name of an operation without its number: `fusion` of `fusion.12`.
pub(super) fn base_name(name: &str) -> &str {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if base.is_empty() { name } else { base }
}

/// A box of a flame graph. Positions are shares of the whole.
struct Placed<'n> {
    name: &'n str,
    level: usize,
    left: f64,
    width: f64,
    seconds: f64,
}

/// Places the boxes of a node's children. `found` has the outermost first.
fn place<'n>(node: &'n Node, total: f64, left: f64, level: usize, found: &mut Vec<Placed<'n>>) {
    let mut children: Vec<(&String, &Node)> = node.children.iter().collect();
    children.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds).then_with(|| a.0.cmp(b.0)));
    let (mut left, mut others) = (left, 0.0);
    for (name, child) in children {
        let width = child.seconds / total;
        if width < SMALLEST {
            others += child.seconds;
            continue;
        }
        found.push(Placed { name, level, left, width, seconds: child.seconds });
        place(child, total, left, level + 1, found);
        left += width;
    }
    if others / total >= SMALLEST {
        let (name, width) = ("others", others / total);
        found.push(Placed { name, level, left, width, seconds: others });
    }
}

/// Returns a flame graph whose root has this name.
fn graph(root: &str, tree: &Node, label: &str) -> String {
    let mut boxes =
        vec![Placed { name: root, level: 0, left: 0.0, width: 1.0, seconds: tree.seconds }];
    place(tree, tree.seconds, 0.0, 1, &mut boxes);
    let levels = boxes.iter().map(|placed| placed.level + 1).max().unwrap_or(1);
    let mut out = format!(
        "<div class=\"flame\" role=\"group\" aria-label=\"{}\" style=\"height:{}px\">\n",
        escape(label),
        levels * ROW
    );
    for placed in &boxes {
        let name = escape(placed.name);
        let title = format!(
            "{name}: {}, {}",
            seconds(placed.seconds),
            percent(placed.seconds / tree.seconds)
        );
        let class = if placed.level == 0 { 0 } else { colour(placed.name) };
        out.push_str(&format!(
            "<button class=\"k{class}\" title=\"{title}\" data-x=\"{:.5}\" data-w=\"{:.5}\" \
             style=\"left:{:.3}%;width:{:.3}%;top:{}px\">{name}</button>\n",
            placed.left,
            placed.width,
            100.0 * placed.left,
            100.0 * placed.width,
            placed.level * ROW,
        ));
    }
    out.push_str("</div>");
    out
}

/// The path of an operation in the graph by scope.
fn scope_path(operation: &ProfiledOperation) -> Vec<&str> {
    // Operations of a part that the program repeats have their own scopes within the part's.
    let whole: Vec<&str> = split_scope(&operation.scope).take(LEVELS - 1).collect();
    let inside = whole.iter().rposition(|name| is_part(name)).map_or(0, |part| part + 1);
    let mut path = whole[inside..].to_vec();
    if path.is_empty() {
        path.push("no scope");
    }
    path.push(base_name(&operation.name));
    path
}

/// Returns true for the name of a copy of a repeated part, `part_1[3]`, as `passes::outline` writes
/// it.
fn is_part(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name.strip_prefix("part_").and_then(|rest| rest.strip_suffix(']'));
    numbers.and_then(|rest| rest.split_once('[')).is_some_and(|(a, b)| number(a) && number(b))
}

/// Parts a scope path at the slashes outside of parentheses: `transpose(jvp(a/b))/c` has two.
fn split_scope(scope: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let parts = scope.split(move |character| {
        match character {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == '/' && depth <= 0
    });
    parts.filter(|part| !part.is_empty())
}

fn by_scope(lines: &LineProfile) -> Node {
    let mut tree = Node::default();
    for operation in &lines.operations {
        tree.add(&scope_path(operation), operation.time.as_secs_f64());
    }
    tree
}

fn by_line(lines: &LineProfile) -> Node {
    let mut tree = Node::default();
    for operation in &lines.operations {
        let (name, time) = (base_name(&operation.name), operation.time.as_secs_f64());
        if operation.lines.is_empty() {
            tree.add(&["without a line", name], time);
        }
        for (line, share) in &operation.lines {
            let (file, line) = (short_path(&line.file), short_path(&line.to_string()));
            tree.add(&[&file, &line, name], share * time);
        }
    }
    tree
}

/// The work of the host by the work that contains it.
fn by_host_work(trace: &HostTrace) -> Node {
    let mut tree = Node::default();
    for track in trace.host_tracks() {
        let mut open: Vec<(&str, u64, u64)> = Vec::new();
        let mut close_to = |depth: usize, open: &mut Vec<(&str, u64, u64)>| {
            while open.len() > depth {
                let path: Vec<&str> = std::iter::once(track.title.as_str())
                    .chain(open.iter().map(|(name, ..)| *name))
                    .collect();
                let Some((_, duration, inner)) = open.pop() else { return };
                tree.add(&path, duration.saturating_sub(inner) as f64 / 1e9);
            }
        };
        for slice in &track.slices {
            close_to(usize::from(slice.depth), &mut open);
            if let Some((.., inner)) = open.last_mut() {
                *inner = inner.saturating_add(slice.duration());
            }
            open.push((trace.names.text(slice.name), slice.duration(), 0));
        }
        close_to(0, &mut open);
    }
    tree
}

/// Returns the section's body.
pub(super) fn html(lines: Option<&LineProfile>, trace: Option<&HostTrace>) -> String {
    let mut tabs: Vec<(&str, String)> = Vec::new();
    if let Some(lines) = lines.filter(|lines| lines.operations.iter().any(|it| !it.time.is_zero()))
    {
        let name = if lines.name.is_empty() { "step" } else { &lines.name };
        tabs.push(("By line", graph(name, &by_line(lines), "Flame graph by file and line")));
        let tree = by_scope(lines);
        let is_scoped = lines.operations.iter().any(|operation| !operation.scope.is_empty());
        let text = match is_scoped {
            true => graph(name, &tree, "Flame graph by scope"),
            false => missing(
                "No operation has a scope: <code>profile::named_scope</code> names parts of a \
                 program.",
            ),
        };
        tabs.push(("By scope", text));
    }
    if let Some(trace) = trace.filter(|trace| !trace.is_of_operations()) {
        let tree = by_host_work(trace);
        if tree.seconds > 0.0 {
            tabs.push(("Host", graph("all threads", &tree, "Flame graph of the host's work")));
        }
    }
    if tabs.is_empty() {
        return missing(
            "The profile has no times of operations: <code>Compiled::line_profile</code> measures \
             them, and <code>Profile::with_lines</code> adds them.",
        );
    }
    let mut out = String::from(
        "<p>The width is the share of the time; names within others are below them. Click on one \
         to see it in full width, and on the top one to go back.</p><div class=\"tabs\">",
    );
    for (index, (title, _)) in tabs.iter().enumerate() {
        out.push_str(&format!("<button data-tab=\"flame-{index}\">{title}</button>"));
    }
    out.push_str("</div>");
    for (index, (title, graph)) in tabs.iter().enumerate() {
        out.push_str(&format!(
            "<div class=\"tab\" id=\"flame-{index}\"><h3>{title}</h3>{graph}</div>"
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::line_profile_file::tests::example;

    #[test]
    fn boxes_are_within_those_above() {
        let profile = example();
        for tree in [by_line(&profile), by_scope(&profile)] {
            assert!((tree.seconds - 0.01).abs() < 1e-12);
            let mut boxes = Vec::new();
            place(&tree, tree.seconds, 0.0, 1, &mut boxes);
            for inner in boxes.iter().filter(|placed| placed.level > 1) {
                let is_within = |outer: &&Placed<'_>| {
                    outer.level + 1 == inner.level
                        && outer.left <= inner.left + 1e-9
                        && inner.left + inner.width <= outer.left + outer.width + 1e-9
                };
                assert_eq!(boxes.iter().filter(is_within).count(), 1, "{}", inner.name);
            }
        }
    }

    #[test]
    fn scopes_are_parted_outside_of_parentheses() {
        let parts: Vec<&str> = split_scope("jit(f)/transpose(jvp(a/b))//c").collect();
        assert_eq!(parts, ["jit(f)", "transpose(jvp(a/b))", "c"]);
        assert_eq!(split_scope(")/(").collect::<Vec<_>>(), [")", "("]);
        let in_part = ProfiledOperation {
            name: "dot.1".into(),
            scope: "jvp(*)/part_1[3]/jvp(mlp)".into(),
            ..Default::default()
        };
        assert_eq!(scope_path(&in_part), ["jvp(mlp)", "dot"]);
        let deep = ProfiledOperation { scope: "a/".repeat(100_000), ..Default::default() };
        assert_eq!(scope_path(&deep).len(), LEVELS);
    }

    #[test]
    fn small_siblings_share_a_box() {
        let mut tree = Node::default();
        tree.add(&["large"], 1.0);
        (0..1000).for_each(|at| tree.add(&[&format!("small {at}")], 1e-5));
        let text = graph("all", &tree, "a < b");
        assert_eq!(text.matches("<button").count(), 3, "{text}");
        assert!(text.contains(">others</button>") && text.contains("a &lt; b"));
    }

    #[test]
    fn operations_have_the_colour_of_their_kind() {
        assert_eq!(colour("fusion.1"), colour("fusion.22"));
        assert_eq!([base_name("dot.1.2"), base_name("12"), base_name("add")], ["dot", "12", "add"]);
    }
}
