//! What the rules of primitives that apply a program, as [`Call`](super::Call) does, make of that
//! program: made once for each question, and applied by a primitive of the same kind.

use super::memo::Memo;
use super::partial::{PartialEval, partial_eval};
use crate::core::{Array, Aval, BatchAxis, Batched, Operand, Primitive, Program, Tangent, bind};
use crate::transforms::batch::batch_program;
use crate::transforms::jvp::jvp_program;
use crate::transforms::staging::trace_rules;
use crate::transforms::transpose::transpose_program;
use std::sync::Arc;

/// A tangent or cotangent without its elements: its type, and whether it is a symbolic zero.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    aval: Aval,
    dense: bool,
}

impl Slot {
    pub(super) fn of(tangent: &Tangent) -> Slot {
        Slot { aval: tangent.aval().clone(), dense: !tangent.is_zero() }
    }

    /// The tangent, whose elements are the next of `dense` if it has some.
    pub(super) fn fill(&self, dense: &mut impl Iterator<Item = Array>) -> Tangent {
        match self.dense {
            true => Tangent::Dense(dense.next().expect("one per dense tangent")),
            false => Tangent::Zero(self.aval.clone()),
        }
    }

    fn dense_avals(slots: &[Slot]) -> impl Iterator<Item = Aval> {
        slots.iter().filter(|slot| slot.dense).map(|slot| slot.aval.clone())
    }

    fn fill_all(slots: &[Slot], dense: &[Array]) -> Vec<Tangent> {
        let mut dense = dense.iter().cloned();
        slots.iter().map(|slot| slot.fill(&mut dense)).collect()
    }
}

fn slots_of(tangents: &[Tangent]) -> Vec<Slot> {
    tangents.iter().map(Slot::of).collect()
}

/// The elements of those that are not zero.
fn dense_of(tangents: &[Tangent]) -> impl Iterator<Item = Array> {
    tangents.iter().filter_map(Tangent::array).cloned()
}

/// The jvp of an equation that applies a program: `wrap` makes the primitive that applies the
/// program's own jvp, of primals and dense tangents to outputs and dense tangents.
pub(super) fn jvp_call<P: Primitive>(
    program: &Arc<Program>,
    primals: &[Array],
    tangents: &[Tangent],
    wrap: impl FnOnce(Arc<Program>) -> P,
) -> (Vec<Array>, Vec<Tangent>) {
    let (derived, results) = jvp(program, tangents);
    let dense = tangents.iter().filter_map(Tangent::array);
    let operands: Vec<&Array> = primals.iter().chain(dense).collect();
    let mut outputs = bind(wrap(derived), &operands);
    let mut dense = outputs.split_off(results.len()).into_iter();
    (outputs, results.iter().map(|slot| slot.fill(&mut dense)).collect())
}

/// From the primals and the dense tangents to the outputs and their dense tangents; the outputs'
/// tangents.
fn jvp(program: &Arc<Program>, tangents: &[Tangent]) -> (Arc<Program>, Vec<Slot>) {
    static ANSWERS: Memo<Vec<Slot>, (Arc<Program>, Vec<Slot>)> = Memo::new();
    ANSWERS.get_or_derive(program, slots_of(tangents), |program, slots| {
        let avals = program.avals_in().into_iter().chain(Slot::dense_avals(slots));
        let mut results = Vec::new();
        let derived = trace_rules(avals, |inputs| {
            let (primals, dense) = inputs.split_at(slots.len());
            let (mut outputs, tangents) =
                jvp_program(program, primals, &Slot::fill_all(slots, dense));
            outputs.extend(dense_of(&tangents));
            results = slots_of(&tangents);
            outputs
        });
        (Arc::new(derived), results)
    })
}

/// The batching of an equation that applies a program: `wrap` makes the primitive that applies the
/// batched program.
pub(super) fn batch_call<P: Primitive>(
    program: &Arc<Program>,
    operands: &[Array],
    axes: &[Option<usize>],
    axis: &BatchAxis,
    wrap: impl FnOnce(Arc<Program>) -> P,
) -> Batched {
    let (derived, axes) = batch(program, operands, axes, axis);
    let outputs = bind(wrap(derived), &operands.iter().collect::<Vec<_>>());
    Batched { outputs, axes }
}

/// What a batched program is asked for.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Mapping {
    operands: Vec<Aval>,
    axes: Vec<Option<usize>>,
    axis: BatchAxis,
}

/// The batched program, and where its outputs have the batch axis.
fn batch(
    program: &Arc<Program>,
    operands: &[Array],
    axes: &[Option<usize>],
    axis: &BatchAxis,
) -> (Arc<Program>, Vec<Option<usize>>) {
    static ANSWERS: Memo<Mapping, (Arc<Program>, Vec<Option<usize>>)> = Memo::new();
    let operands = operands.iter().map(|x| x.aval().clone()).collect();
    let mapping = Mapping { operands, axes: axes.to_vec(), axis: axis.clone() };
    ANSWERS.get_or_derive(program, mapping, |program, mapping| {
        let mut out_axes = Vec::new();
        let derived = trace_rules(mapping.operands.iter().cloned(), |inputs| {
            let (outputs, axes) = batch_program(program, inputs, &mapping.axes, &mapping.axis);
            out_axes = axes;
            outputs
        });
        (Arc::new(derived), out_axes)
    })
}

/// The transpose of an equation that applies a program: `wrap` makes the primitive that applies the
/// program's own transpose, of known operands and dense cotangents to dense cotangents.
pub(super) fn transpose_call<P: Primitive>(
    program: &Arc<Program>,
    cts: &[Tangent],
    operands: &[Operand],
    wrap: impl FnOnce(Arc<Program>) -> P,
) -> Vec<Option<Tangent>> {
    let (derived, pulled) = transpose(program, cts, operands);
    let known = operands.iter().filter_map(Operand::known);
    let arguments: Vec<&Array> = known.chain(cts.iter().filter_map(Tangent::array)).collect();
    let mut dense = bind(wrap(derived), &arguments).into_iter();
    let mut pulled = pulled.iter();
    let mut ct = |operand: &Operand| {
        operand.is_linear().then(|| pulled.next().expect("one per linear operand").fill(&mut dense))
    };
    operands.iter().map(&mut ct).collect()
}

/// What a transposed program is asked for: the operands, which of them are linear, and the outputs'
/// cotangents.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Pulling {
    operands: Vec<Aval>,
    linear: Vec<bool>,
    cts: Vec<Slot>,
}

/// From the known operands and the dense cotangents of the outputs to the dense cotangents of the
/// linear operands; the linear operands' cotangents.
fn transpose(
    program: &Arc<Program>,
    cts: &[Tangent],
    operands: &[Operand],
) -> (Arc<Program>, Vec<Slot>) {
    static ANSWERS: Memo<Pulling, (Arc<Program>, Vec<Slot>)> = Memo::new();
    let pulling = Pulling {
        operands: operands.iter().map(|operand| operand.aval().clone()).collect(),
        linear: operands.iter().map(Operand::is_linear).collect(),
        cts: slots_of(cts),
    };
    ANSWERS.get_or_derive(program, pulling, |program, Pulling { operands, linear, cts }| {
        let operands = operands.iter().zip(linear);
        let known: Vec<Aval> =
            operands.filter(|(_, linear)| !**linear).map(|(aval, _)| aval.clone()).collect();
        let n_known = known.len();
        let mut pulled = Vec::new();
        let derived = trace_rules(known.into_iter().chain(Slot::dense_avals(cts)), |inputs| {
            let (known, dense) = inputs.split_at(n_known);
            let cts = transpose_program(
                program,
                &linear.iter().map(|linear| !linear).collect(),
                known,
                &Slot::fill_all(cts, dense),
            );
            pulled = slots_of(&cts);
            dense_of(&cts).collect()
        });
        (Arc::new(derived), pulled)
    })
}

/// The two halves of a program whose inputs are partly known; `None` if nothing can be done ahead.
pub(super) fn split(program: &Arc<Program>, known: &[bool]) -> Option<Arc<PartialEval>> {
    if !known.contains(&true) {
        return None;
    }
    let halves = partial_eval(program, known, &vec![false; program.outputs().len()]);
    (!halves.is_idle()).then_some(halves)
}
