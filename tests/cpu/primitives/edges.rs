//! Every primitive has exemplars for empty arrays, axes of size one and scalars. Results at NaN,
//! infinities, -0 and the limits of integers are compared with JAX in `crates/parity` (the cases
//! whose names end in `_edges`).

use oxidax::control_flow::HOLDERS;
use oxidax::core::{Aval, RegistryEntry};
use oxidax::kernel::KERNEL_PRIMITIVES;
use oxidax::primitives::PRIMITIVES;
use oxidax::testing::is_elementwise;

type Edge = (&'static str, fn(&Aval) -> bool);

/// Edges that exemplars of primitives that are not elementwise may show.
const EDGES: [Edge; 3] = [
    ("no elements", |aval| aval.size() == 0),
    ("rank 0", |aval| aval.rank() == 0),
    ("an axis of one", |aval| aval.shape.contains(&1)),
];

/// Primitives without an edge, with the reason.
const WITHOUT: &[(&str, &[&str], &str)] = &[
    (
        "rank 0",
        &[
            "all_to_all",
            "approx_top_k",
            "concatenate",
            "cumlogsumexp",
            "cummax",
            "cummin",
            "cumprod",
            "cumsum",
            "fft",
            "iota",
            "linear_recurrence",
            "ragged_all_to_all",
            "sort",
            "split",
            "top_k",
        ],
        "goes along an axis",
    ),
    ("rank 0", &["conv_general_dilated"], "has axes for examples and channels"),
    (
        "rank 0",
        &[
            "cholesky",
            "eig",
            "eigh",
            "geqrf",
            "linear_solve",
            "lu",
            "qr",
            "svd",
            "triangular_solve",
        ],
        "is of matrices",
    ),
    ("no elements", &["axis_index"], "is one number"),
    ("an axis of one", &["axis_index"], "is one number"),
    ("no elements", HOLD_PROGRAMS, PASSED_ON),
    ("an axis of one", HOLD_PROGRAMS, PASSED_ON),
    (
        "rank 0",
        &[
            "call",
            "composite",
            "custom_jvp",
            "custom_vjp",
            "linear_call",
            "remat",
            "remat_opt",
            "xla_metadata_call",
        ],
        PASSED_ON,
    ),
];

/// Primitives that pass their operands to the programs that they hold.
const HOLD_PROGRAMS: &[&str] = &[
    "call",
    "composite",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "linear_call",
    "linear_solve",
    "remat",
    "remat_opt",
    "while_loop",
    "xla_metadata_call",
];
const PASSED_ON: &str = "what it holds looks at the operands";

/// Returns the edges that no operand and no result of any exemplar shows.
fn lacking(entry: &RegistryEntry) -> Vec<&'static str> {
    let exemplars = (entry.exemplars)();
    if exemplars.iter().any(is_elementwise) {
        return Vec::new();
    }
    let mut avals = Vec::new();
    for exemplar in &exemplars {
        let operands: Vec<Aval> = exemplar.operands.iter().map(|one| one.aval.clone()).collect();
        avals.extend(exemplar.primitive.abstract_eval(&operands).unwrap());
        avals.extend(operands);
    }
    let missing = EDGES.iter().filter(|(_, is)| !avals.iter().any(is));
    missing.map(|(edge, _)| *edge).collect()
}

#[test]
fn exemplars_cover_edges() {
    let mut wrong = Vec::new();
    for entry in PRIMITIVES.iter().chain(HOLDERS).chain(KERNEL_PRIMITIVES) {
        let excused: Vec<&str> = WITHOUT
            .iter()
            .filter(|(_, names, _)| names.contains(&entry.name))
            .map(|(edge, ..)| *edge)
            .collect();
        let lacking = lacking(entry);
        for edge in &lacking {
            if !excused.contains(edge) {
                wrong.push(format!("{}: no exemplar with {edge}", entry.name));
            }
        }
        for edge in excused.iter().filter(|edge| !lacking.contains(edge)) {
            wrong.push(format!("{}: has an exemplar with {edge} after all", entry.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
