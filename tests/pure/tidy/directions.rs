//! Dependencies between the folders of `src` (ARCHITECTURE, invariants). Every path that begins
//! with
//! `crate::` is a use of another folder.

use crate::tidy::sources::{Source, closing, line_of, root, rust_below, without_tests, words};
use std::collections::{BTreeMap, BTreeSet};

/// Folders of `src` in dependency order, each with the folders it may use. All of those come
/// earlier in the list, so the folders do not form a circle.
const FOLDERS: &[(&str, &[&str])] = &[
    ("stablehlo", &[]),
    ("core", &["stablehlo"]),
    ("passes", &["core", "stablehlo"]),
    // A lowering rule writes StableHLO values, so it names their type.
    ("primitives", &["core", "stablehlo"]),
    // Arithmetic of trees (docs/decisions/0031).
    ("tree", &["core", "primitives"]),
    ("transforms", &["core", "passes", "tree", "primitives"]),
    ("control_flow", &["stablehlo", "core", "tree", "passes", "primitives", "transforms"]),
    ("runtime", &["stablehlo", "core", "passes"]),
    (
        "parallel",
        &["core", "tree", "passes", "primitives", "transforms", "control_flow", "runtime"],
    ),
    ("debug", &["core", "tree", "primitives", "transforms"]),
    // Functions that programs call, registered with plugins by `runtime`.
    ("ffi", &["stablehlo", "core", "primitives", "control_flow", "runtime"]),
    // Memory that arrays share with other frameworks and with the host.
    ("dlpack", &["core", "runtime"]),
    ("host_view", &["core", "runtime"]),
    // Records failing calls of `jit`, and runs them again (docs/decisions/0047).
    ("replay", &["core", "passes", "primitives", "control_flow", "runtime", "debug"]),
    ("ops", &["core", "tree", "primitives", "control_flow"]),
    // Kernels are programs with primitives of their own, and control flow around them.
    (
        "kernel",
        &["stablehlo", "core", "tree", "passes", "primitives", "transforms", "control_flow", "ops"],
    ),
    // Joining processes needs the runtime's key-value store.
    ("distributed", &["core", "tree", "ops", "runtime"]),
    // Profiles: the recorder is in `core`, where every folder reaches it, and the list of live
    // arrays in `runtime` (docs/decisions/0048). The memory over a step comes from `passes` (0050).
    // Processes agree on a folder through the store of `distributed`.
    ("profile", &["core", "passes", "runtime", "distributed"]),
    (
        "jit",
        &[
            "stablehlo",
            "core",
            "tree",
            "passes",
            "primitives",
            "transforms",
            "control_flow",
            "runtime",
            "parallel",
            "profile",
            "replay",
        ],
    ),
    // Translates operations of other frameworks to primitives, for calls under `jit`.
    (
        "import",
        &[
            "core",
            "tree",
            "primitives",
            "transforms",
            "control_flow",
            "runtime",
            "parallel",
            "ops",
            "jit",
        ],
    ),
    // Listeners of events, which every folder records: their list is in `core`.
    ("monitoring", &["core"]),
    // Settings of the process that belong to several folders.
    ("config", &["core", "runtime", "parallel", "jit"]),
    // A sampler is staged as one program even at the top level.
    ("random", &["core", "tree", "primitives", "transforms", "control_flow", "ops"]),
    // Counts operations of programs; compiled collectives and measurements come from `jit`.
    ("roofline", &["core", "tree", "passes", "primitives", "profile", "jit"]),
    // Predicts the time of kernels from counted operations, and measures them under `jit`.
    ("block_sizes", &["core", "kernel", "parallel", "jit", "roofline"]),
    // Lowers what `jit` has traced, and differentiates it (docs/guide/src/exporting-to-jax.md).
    (
        "export",
        &[
            "stablehlo",
            "core",
            "tree",
            "passes",
            "primitives",
            "transforms",
            "control_flow",
            "parallel",
            "ops",
            "jit",
        ],
    ),
    // Compiles for topologies through `jit`.
    (
        "doctor",
        &["core", "tree", "passes", "control_flow", "parallel", "profile", "jit", "roofline"],
    ),
];

/// Folders that import only what users can import: public modules and the re-exports of `lib.rs`.
const USERS: &[&str] = &["kernels", "nn", "optim", "data", "checkpoint", "train"];

/// Folders that may use anything: tests, and a list of re-exports. No other folder may use them.
const FREE: &[&str] = &["testing", "prelude"];

/// The functions of `src/lib.rs`, each with the file that may call it and the reason.
const SEAMS: &[(&str, &str, &str)] = &[
    (
        "default_backend",
        "src/core/array/backend.rs",
        "the evaluator of concrete arrays is in `runtime`, which `core` must not use",
    ),
    (
        "precision_of_environment",
        "src/core/types/precision.rs",
        "`runtime` reads the environment, and products are traced without it",
    ),
    (
        "options_of_environment",
        "src/core/options.rs",
        "`runtime` reads the environment, and operations are checked without it",
    ),
    (
        "kernel_primitives",
        "src/control_flow/mod.rs",
        "kernels use control flow, and the text of a program may name them",
    ),
    (
        "checked_program",
        "src/core/trace/checked.rs",
        "checks are calls of the host, with the format strings of `debug`",
    ),
    (
        "vary",
        "src/core/trace/bind.rs",
        "making a value vary is an operation, with its rules in `primitives`",
    ),
];

/// Uses that the table forbids, each with the reason for the exception.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// A path that begins with `crate::`: its second segment and its line.
struct Mention {
    name: String,
    line: usize,
}

#[test]
fn folders_use_only_folders_in_their_list() {
    let library = Library::read();
    let mut wrong = Vec::new();
    for source in rust_below("src") {
        let Some(folder) = folder_of(&source) else { continue };
        if FREE.contains(&folder) {
            continue;
        }
        for mention in mentions(&source) {
            if SEAMS.iter().any(|(name, file, _)| *name == mention.name && *file == source.path) {
                continue;
            }
            if let Some(reason) = library.forbids(folder, &mention.name) {
                if EXCEPTIONS
                    .iter()
                    .any(|(file, to, _)| *file == source.path && *to == mention.name)
                {
                    continue;
                }
                wrong.push(format!("{}:{}: {reason}", source.path, mention.line));
            }
        }
    }
    assert!(wrong.is_empty(), "forbidden uses of folders:\n{}", wrong.join("\n"));
}

#[test]
fn the_table_is_in_dependency_order() {
    for (index, (folder, allowed)) in FOLDERS.iter().enumerate() {
        for name in *allowed {
            let earlier = FOLDERS[..index].iter().any(|(known, _)| known == name);
            assert!(earlier, "{folder} may use {name}, which is not listed before it");
        }
    }
}

/// Covers also the folders outside the table: `nn`, `optim`, `data`, `checkpoint` and `train`
/// import one another like users.
#[test]
fn folders_form_no_circle() {
    let library = Library::read();
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in rust_below("src") {
        let Some(folder) = folder_of(&source) else { continue };
        for mention in mentions(&source) {
            let is_seam =
                SEAMS.iter().any(|(name, file, _)| *name == mention.name && *file == source.path);
            let is_folder = library.folders.contains(&mention.name) && mention.name != folder;
            if is_folder && !is_seam && !FREE.contains(&folder) {
                uses.entry(folder.to_owned()).or_default().insert(mention.name);
            }
        }
    }
    // Folders that use only removed folders are removed until none is left, or a circle.
    loop {
        let leaves: Vec<String> = uses
            .iter()
            .filter(|(_, used)| used.iter().all(|name| !uses.contains_key(name)))
            .map(|(folder, _)| folder.clone())
            .collect();
        if leaves.is_empty() {
            break;
        }
        uses.retain(|folder, _| !leaves.contains(folder));
    }
    assert!(uses.is_empty(), "these folders use one another in a circle: {uses:?}");
}

#[test]
fn only_the_runtime_knows_plugins() {
    let mut wrong = Vec::new();
    for source in rust_below("src") {
        let folder = folder_of(&source).unwrap_or("lib.rs");
        if ["runtime", "lib.rs"].contains(&folder) {
            continue;
        }
        for foreign in ["oxidax_pjrt", "oxidax_pjrt_sys", "oxidax_plugin", "oxidax_cache"] {
            for at in words(&source.code, foreign) {
                wrong.push(format!("{}:{}: {foreign}", source.path, line_of(&source.code, at)));
            }
        }
    }
    assert!(wrong.is_empty(), "only src/runtime may use the plugin crates:\n{}", wrong.join("\n"));
}

#[test]
fn core_does_no_input_or_output() {
    forbid(
        &["core", "stablehlo", "tree", "passes", "primitives", "transforms"],
        &["std::fs", "std::net", "std::process", "File::open", "println!", "eprintln!"],
    );
}

#[test]
fn transforms_do_not_match_on_primitives() {
    forbid(&["transforms", "passes"], &["TypeId", "downcast", "downcast_ref"]);
}

#[test]
fn the_library_root_holds_no_code() {
    let library = rust_below("src").into_iter().find(|s| s.path == "src/lib.rs").unwrap();
    let functions: Vec<String> = words(&library.code, "fn")
        .map(|at| first_segment(library.code[at + "fn".len()..].trim_start()))
        .filter(|name| !SEAMS.iter().any(|(seam, _, _)| seam == name))
        .collect();
    assert!(functions.is_empty(), "src/lib.rs defines functions: {}", functions.join(", "));
}

#[test]
fn every_folder_is_in_the_table() {
    let known = |name: &str| {
        FOLDERS.iter().any(|(folder, _)| *folder == name)
            || USERS.contains(&name)
            || FREE.contains(&name)
    };
    for source in rust_below("src") {
        if let Some(folder) = folder_of(&source) {
            assert!(
                known(folder),
                "src/{folder} is not in tests/pure/tidy/directions.rs: list what it may use"
            );
        }
    }
}

fn forbid(folders: &[&str], phrases: &[&str]) {
    let mut wrong = Vec::new();
    for source in rust_below("src") {
        if !folder_of(&source).is_some_and(|folder| folders.contains(&folder)) {
            continue;
        }
        for phrase in phrases {
            for at in words(&source.code, phrase) {
                wrong.push(format!("{}:{}: {phrase}", source.path, line_of(&source.code, at)));
            }
        }
    }
    assert!(wrong.is_empty(), "not in the folders {folders:?}:\n{}", wrong.join("\n"));
}

/// The declarations of `src/lib.rs`.
struct Library {
    /// Macros of this crate. Exported ones are at its root, wherever they are defined.
    macros: Vec<String>,
    folders: Vec<String>,
    public_folders: Vec<String>,
}

impl Library {
    fn read() -> Library {
        let text = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
        let declared = |line: &str| {
            let rest = line.trim_start().trim_start_matches("pub ");
            let name = rest.strip_prefix("mod ")?.strip_suffix(';')?;
            Some((name.to_owned(), line.trim_start().starts_with("pub ")))
        };
        let modules: Vec<(String, bool)> = text.lines().filter_map(declared).collect();
        let macros = rust_below("src").iter().flat_map(macros_of).collect();
        Library {
            macros,
            folders: modules.iter().map(|(name, _)| name.clone()).collect(),
            public_folders: modules.into_iter().filter(|m| m.1).map(|m| m.0).collect(),
        }
    }

    /// Returns the reason why `folder` may not mention `crate::tidy::name`, or `None` if it may.
    fn forbids(&self, folder: &str, name: &str) -> Option<String> {
        if name == folder {
            return None;
        }
        let is_room = self.folders.iter().any(|r| r == name);
        if USERS.contains(&folder) {
            let hidden = is_room && !self.public_folders.iter().any(|r| r == name);
            return hidden
                .then(|| format!("{folder} imports what users can; crate::{name} is private"));
        }
        if !is_room {
            // Except for macros the path must name the folder, or the use could not be checked.
            let hidden = !self.macros.iter().any(|m| m == name);
            return hidden.then(|| format!("crate::{name}: name the folder that it comes from"));
        }
        let (_, allowed) = FOLDERS.iter().find(|(known, _)| *known == folder)?;
        let wrong = !allowed.contains(&name);
        wrong.then(|| format!("{folder} may not use {name} (it may use {})", allowed.join(", ")))
    }
}

/// Returns the names of the macros that a file defines.
fn macros_of(source: &Source) -> Vec<String> {
    words(&source.code, "macro_rules!")
        .map(|at| first_segment(source.code[at + "macro_rules!".len()..].trim_start()))
        .collect()
}

/// Returns the folder, or the single file, of `src` that a file belongs to.
fn folder_of(source: &Source) -> Option<&str> {
    let below = source.path.strip_prefix("src/")?;
    let folder = below.split('/').next()?;
    let folder = folder.strip_suffix(".rs").unwrap_or(folder);
    (folder != "lib").then_some(folder)
}

/// Returns the paths after `crate::`, with groups expanded. Unit tests may use any folder.
fn mentions(source: &Source) -> Vec<Mention> {
    let code = &without_tests(&source.code);
    let mut found = Vec::new();
    for at in words(code, "crate") {
        // `$crate` in a macro names the expanding crate; `pub(crate)` is not a path.
        let Some(rest) = code[at + "crate".len()..].strip_prefix("::") else { continue };
        if code[..at].ends_with('$') {
            continue;
        }
        let start = code.len() - rest.len();
        let line = line_of(code, at);
        if rest.starts_with('{') {
            let end = closing(code, start);
            let inside = code[start + 1..end - 1].to_owned();
            found.extend(top_level(&inside).map(|name| Mention { name, line }));
        } else {
            found.push(Mention { name: first_segment(rest), line });
        }
    }
    found
}

/// Returns the first segment of each item of a group: `a` and `b` for `a, b::{c, d}`.
fn top_level(group: &str) -> impl Iterator<Item = String> {
    let mut items = vec![String::new()];
    let mut depth = 0;
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => items.push(String::new()),
            c => items.last_mut().unwrap().push(c),
        }
    }
    items.into_iter().map(|item| first_segment(item.trim())).filter(|name| !name.is_empty())
}

fn first_segment(path: &str) -> String {
    path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[test]
fn groups_are_expanded() {
    let code = "use crate::{core::{Array, Shape}, tree};\nfn f() { crate::jit::x(); $crate::y }";
    let source = Source { path: String::new(), text: String::new(), code: code.to_owned() };
    let found: Vec<(String, usize)> =
        mentions(&source).into_iter().map(|m| (m.name, m.line)).collect();
    let expected = [("core", 1), ("tree", 1), ("jit", 2)];
    assert_eq!(found, expected.map(|(name, line)| (name.to_owned(), line)));
}
