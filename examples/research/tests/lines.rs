//! The programs are not much longer than their JAX originals.

use std::path::Path;

/// The largest number of lines of Rust per line of Python.
const MOST: f64 = 1.4;

const PROGRAMS: [&str; 10] = [
    "blockwise_attention",
    "graph_net",
    "hmc",
    "implicit_layer",
    "kalman",
    "maml",
    "neural_ode",
    "own_optimizer",
    "pinn",
    "ppo",
];

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Counts lines of Rust without blank lines, comments, imports and lint settings.
fn lines_of_rust(text: &str) -> usize {
    let left_out = ["//", "use ", "mod ", "#!["];
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !left_out.iter().any(|s| line.starts_with(s))).count()
}

/// Counts lines of Python without blank lines, comments, imports and docstrings.
fn lines_of_python(text: &str) -> usize {
    let mut is_docstring = false;
    let mut count = 0;
    for line in text.lines().map(str::trim) {
        let quotes = line.matches("\"\"\"").count();
        let is_left_out = is_docstring || quotes > 0;
        is_docstring ^= quotes == 1;
        let others = ["#", "import ", "from "];
        if !is_left_out && !line.is_empty() && !others.iter().any(|s| line.starts_with(s)) {
            count += 1;
        }
    }
    count
}

#[test]
fn programs_have_at_most_1_4_times_the_lines_of_jax() {
    for name in PROGRAMS {
        let rust = lines_of_rust(&read(&format!("{name}.rs")));
        let python = lines_of_python(&read(&format!("../../python-compat/research/{name}.py")));
        let ratio = rust as f64 / python as f64;
        assert!(python > 40 && ratio <= MOST, "{name}: {rust} lines, JAX {python}: {ratio:.2}");
    }
}

#[test]
fn every_program_is_compared() {
    let manifest = read("Cargo.toml");
    let bins = manifest.split("[[bin]]\nname = \"").skip(1);
    let mut names: Vec<&str> = bins.filter_map(|rest| rest.split('"').next()).collect();
    names.sort_unstable();
    assert_eq!(names, PROGRAMS);
}

#[test]
fn comments_imports_and_blank_lines_do_not_count() {
    let rust = "//! A.\n\n#![allow(x)]\nuse a::b;\nmod c;\n/// D.\nfn d() {\n    // e\n}\n";
    assert_eq!(lines_of_rust(rust), 2);
    let python = "\"\"\"A.\n\nB.\n\"\"\"\nimport c\nfrom d import e\n\n# f\ndef g():\n    \"\"\"H.\"\"\"\n    i\n";
    assert_eq!(lines_of_python(python), 2);
}
