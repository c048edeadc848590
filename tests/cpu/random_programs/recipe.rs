//! Recipes for random programs: lists of steps that select among the values computed so far. Every
//! list of steps is a program, and so is every shorter list.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde::{Deserialize, Serialize};

/// Inputs and steps of a random function.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Recipe {
    /// Positions in [`SHAPES`], one per input.
    pub inputs: Vec<usize>,
    pub steps: Vec<Step>,
    /// Seed of the elements of the inputs.
    pub elements: u16,
}

/// Shapes of inputs: scalar, vectors, matrices, an axis of size 1, and arrays without elements.
pub(crate) const SHAPES: &[&[usize]] =
    &[&[], &[3], &[2, 3], &[3, 2], &[1, 3], &[4], &[2, 1, 2], &[0, 2]];

/// One operation on values computed before.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Step {
    pub op: Op,
    /// Selects among the suitable values: an index from the newest, modulo their number.
    pub from: [u8; 2],
    /// The number that the operation takes: an axis, a shift or a length.
    pub number: u8,
    /// The steps of the functions that the operation calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bodies: Vec<Vec<Step>>,
}

macro_rules! operations {
    ($list:ident $kind:ident $doc:literal: $($name:ident)*) => {
        #[doc = $doc]
        const $list: &[Op] = &[$(Op::$kind($kind::$name)),*];

        #[doc = $doc]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum $kind { $($name),* }
    };
}

operations!(UNARY Unary "Elementwise functions of one value, kept away from poles and from growth.":
    Sin Cos Tanh Exp Log Sqrt Rsqrt Logistic Neg Abs Square Erf Floor Relu Expm1 Reciprocal
    Through32);
operations!(BINARY Binary "Elementwise functions of two values that broadcast.":
    Add Sub Mul Div Max Min Atan2 Pow Rem Where);
operations!(ALONG Along "Functions along an axis.":
    Sum Mean Max Min Prod Logsumexp Var Softmax Cumsum Cumprod Cummax Cumlogsumexp Sort Argmax
    TopK);
operations!(MOVE Move "Moving elements about.":
    Transpose Flatten ExpandDims Broadcast Pad Slice DynamicSlice Update Flip Roll Take ScatterAdd
    Tile);
operations!(JOIN Join "Joining two values.": Concatenate Outer Matmul Conv);
operations!(INNER Inner "Operations that hold one function.":
    Jit Remat RematDots Vmap VmapLast Scan ScanReverse Fori Map AssociativeScan Grad GradOfGrad Jvp
    CustomJvp CustomVjp);

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    Unary(Unary),
    Binary(Binary),
    Along(Along),
    Move(Move),
    Join(Join),
    Inner(Inner),
    /// Selects one of two functions by the sign of a mean.
    Cond,
    /// A loop of at most three steps that stops depending on a value. It has no reverse mode.
    While,
}

/// Returns true if no loop stops depending on a value.
pub(crate) fn has_reverse(steps: &[Step]) -> bool {
    none(steps, Op::While)
}

/// Returns true if no function has only a reverse rule.
pub(crate) fn has_forward(steps: &[Step]) -> bool {
    none(steps, Op::Inner(Inner::CustomVjp))
}

fn none(steps: &[Step], op: Op) -> bool {
    steps.iter().all(|step| step.op != op && step.bodies.iter().all(|body| none(body, op)))
}

/// Random recipes, which shrink towards fewer and simpler steps.
pub(crate) fn recipes() -> impl Strategy<Value = Recipe> {
    (vec(0..SHAPES.len(), 1..=3), vec(step(2), 1..=6), any::<u16>())
        .prop_map(|(inputs, steps, elements)| Recipe { inputs, steps, elements })
}

fn step(depth: u32) -> BoxedStrategy<Step> {
    let plain = prop_oneof![
        3 => select(UNARY),
        3 => select(BINARY),
        3 => select(ALONG),
        3 => select(MOVE),
        1 => select(JOIN),
    ];
    let plain = made(plain.boxed(), Just(Vec::new()).boxed());
    if depth == 0 {
        return plain;
    }
    let body = || vec(step(depth - 1), 1..=3);
    let inner = made(select(INNER).boxed(), vec(body(), 1).boxed());
    let cond = made(Just(Op::Cond).boxed(), vec(body(), 2).boxed());
    let repeat = made(Just(Op::While).boxed(), vec(body(), 1).boxed());
    prop_oneof![20 => plain, 12 => inner, 2 => cond, 1 => repeat].boxed()
}

fn made(op: BoxedStrategy<Op>, bodies: BoxedStrategy<Vec<Vec<Step>>>) -> BoxedStrategy<Step> {
    (op, any::<[u8; 2]>(), any::<u8>(), bodies)
        .prop_map(|(op, from, number, bodies)| Step { op, from, number, bodies })
        .boxed()
}
