//! Programs derived from the programs that primitives hold: derivatives, batched and transposed
//! programs. Each is computed once and cached.

use super::memo::Memo;
use super::partial_eval::{PartialEval, partial_eval};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Dense, Known, Mapped, Marks, Operand, Primitive, Program,
    SplitEqn, Tangent, Varying, bind,
};
use crate::passes;
use crate::primitives::rules::batch_at;
use crate::transforms::batch::batch_program;
use crate::transforms::jvp::jvp_program;
use crate::transforms::staging::trace_rules;
use crate::transforms::transpose::transpose_program;
use std::sync::Arc;

/// A derived program, and what it computes for each output (or linear input) of the original.
#[derive(Clone)]
pub(super) struct Derived<R> {
    pub(super) program: Arc<Program>,
    pub(super) results: R,
}

/// Returns the tangents that are dense or marked, as arrays, and marks them.
fn dense_or_required(tangents: &[Tangent], required: &Marks<Dense>) -> (Vec<Array>, Marks<Dense>) {
    let mut marks = Marks::of_tangents(tangents);
    marks.grow(required);
    let arrays = marks.select(tangents).iter().map(Tangent::to_dense).collect();
    (arrays, marks)
}

/// Derives the forward derivative of a program.
///
/// Its inputs are those of the program, then the tangents of the inputs marked by `varying`. Its
/// outputs are those of the program, then their dense tangents. Tangents marked by `required` are
/// dense even if they are zero. The result marks the outputs that have a dense tangent.
pub(super) fn jvp_of(
    program: &Arc<Program>,
    varying: &Marks<Dense>,
    required: &Marks<Dense>,
) -> Derived<Marks<Dense>> {
    static CACHE: Memo<[Marks<Dense>; 2], Derived<Marks<Dense>>> = Memo::new();
    let key = [varying.clone(), required.clone()];
    CACHE.get_or_derive(program, key, |program, [varying, required]| {
        let avals = program.avals_in();
        let inputs: Vec<Aval> = avals.iter().cloned().chain(varying.select(&avals)).collect();
        let mut results = Marks::none(0);
        let derivative = trace_rules(inputs, |inputs| {
            let (primals, tangents) = inputs.split_at(avals.len());
            let tangents = varying.tangents(avals.iter().cloned(), tangents.iter().cloned());
            let (mut outputs, tangents) = jvp_program(program, primals, &tangents);
            let (dense, marks) = dense_or_required(&tangents, required);
            results = marks;
            outputs.extend(dense);
            outputs
        });
        Derived { program: Arc::new(derivative), results }
    })
}

/// Positions of the batch axes of a batched program's outputs.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum OutputAxes {
    /// At the positions where the rules leave them.
    Any,
    /// At the front. The marked outputs have a batch axis even if they do not depend on the batch.
    Front(Marks<Mapped>),
}

/// Derives the batched program. Its inputs have their batch axes at the positions `axes`. The
/// result has the positions of the outputs' batch axes.
pub(super) fn batch_of(
    program: &Arc<Program>,
    axes: &[Option<usize>],
    output_axes: OutputAxes,
    axis: &BatchAxis,
) -> Derived<Vec<Option<usize>>> {
    type Key = (Vec<Option<usize>>, OutputAxes, BatchAxis);
    static CACHE: Memo<Key, Derived<Vec<Option<usize>>>> = Memo::new();
    let key = (axes.to_vec(), output_axes, axis.clone());
    CACHE.get_or_derive(program, key, |program, (axes, output_axes, axis)| {
        let mut inputs = program.avals_in();
        for (aval, position) in inputs.iter_mut().zip(axes) {
            if let Some(position) = *position {
                *aval = axis.batch_of(aval, position);
            }
        }
        let mut results = Vec::new();
        let batched = trace_rules(inputs, |inputs| {
            let (mut outputs, mut axes) = batch_program(program, inputs, axes, axis);
            if let OutputAxes::Front(required) = output_axes {
                for (index, (output, position)) in outputs.iter_mut().zip(&mut axes).enumerate() {
                    if required[index] || position.is_some() {
                        *output = batch_at(output, *position, 0, axis);
                        *position = Some(0);
                    }
                }
            }
            results = axes;
            outputs
        });
        Derived { program: Arc::new(batched), results }
    })
}

/// Derives the batched program with all batch axes in front. `mapped` marks the inputs that have
/// one. Outputs marked by `required` have one even if they do not depend on the batch. The result
/// marks the outputs that have one.
pub(super) fn batch_front(
    program: &Arc<Program>,
    mapped: &Marks<Mapped>,
    required: &Marks<Mapped>,
    axis: &BatchAxis,
) -> Derived<Marks<Mapped>> {
    let output_axes = OutputAxes::Front(required.clone());
    let batched = batch_of(program, &front_axes(mapped), output_axes, axis);
    Derived { program: batched.program, results: Marks::of(&batched.results, Option::is_some) }
}

/// Returns the position 0 for marked values, `None` for the others.
pub(super) fn front_axes(mapped: &Marks<Mapped>) -> Vec<Option<usize>> {
    mapped.iter().map(|is_mapped| is_mapped.then_some(0)).collect()
}

/// Marks the values that have a batch axis.
pub(super) fn mapped_of(axes: &[Option<usize>]) -> Marks<Mapped> {
    Marks::of(axes, Option::is_some)
}

/// Moves the batch axes of the operands marked by `mapped` to the front. A marked operand without
/// one is broadcast.
pub(super) fn with_front_axes(
    operands: &[Array],
    axes: &[Option<usize>],
    mapped: &Marks<Mapped>,
    axis: &BatchAxis,
) -> Vec<Array> {
    let mut moved = Vec::with_capacity(operands.len());
    for (index, (x, &position)) in operands.iter().zip(axes).enumerate() {
        moved.push(if mapped[index] { batch_at(x, position, 0, axis) } else { x.clone() });
    }
    moved
}

/// Derives the transpose of a program in the inputs that `known` does not mark.
///
/// Its inputs are the known inputs, then the cotangents of the outputs marked by `cts`. Its outputs
/// are the dense cotangents of the linear inputs. Cotangents marked by `required` are dense even if
/// they are zero. The result marks the linear inputs that have a dense cotangent.
pub(super) fn transpose_of(
    program: &Arc<Program>,
    known: &Marks<Known>,
    cts: &Marks<Dense>,
    required: &Marks<Dense>,
) -> Derived<Marks<Dense>> {
    type Key = (Marks<Known>, [Marks<Dense>; 2]);
    static CACHE: Memo<Key, Derived<Marks<Dense>>> = Memo::new();
    let key = (known.clone(), [cts.clone(), required.clone()]);
    CACHE.get_or_derive(program, key, |program, (known, [cts, required])| {
        let outputs = program.avals_out();
        let mut inputs = known.select(&program.avals_in());
        let n_known = inputs.len();
        inputs.extend(cts.select(&outputs));
        let mut results = Marks::none(0);
        let transposed = trace_rules(inputs, |inputs| {
            let (values, dense) = inputs.split_at(n_known);
            let cts = cts.tangents(outputs.iter().cloned(), dense.iter().cloned());
            let cts = transpose_program(program, known, values, &cts);
            let (dense, marks) = dense_or_required(&cts, required);
            results = marks;
            dense
        });
        Derived { program: Arc::new(transposed), results }
    })
}

/// Traces a program again for inputs that vary over the given mesh axes. Calls are inlined.
pub(super) fn retrace_varying(
    program: &Program,
    varying: impl IntoIterator<Item = Varying>,
) -> Program {
    let inputs = program.avals_in().into_iter().zip(varying);
    let inputs = inputs.map(|(aval, varying)| aval.with_varying(varying));
    trace_rules(inputs, |inputs| passes::eval_flat(program, inputs))
}

/// Returns the program for inputs that vary over the same mesh axes as the operands.
///
/// Operands may vary over more axes than the inputs. The tangents of such an input vary too, and
/// the transpose must not sum their cotangents.
fn vary_like(program: &Arc<Program>, operands: &[Array]) -> Arc<Program> {
    static CACHE: Memo<Vec<Varying>, Arc<Program>> = Memo::new();
    let mut pairs = program.inputs().iter().zip(operands);
    if pairs.all(|(&var, operand)| program.aval(var).varying == operand.aval().varying) {
        return program.clone();
    }
    let varying = operands.iter().map(|operand| operand.aval().varying.clone()).collect();
    CACHE.get_or_derive(program, varying, |program, varying| {
        Arc::new(retrace_varying(program, varying.iter().cloned()))
    })
}

/// Implements `jvp` for a primitive that applies a program. `wrap` creates the primitive that
/// applies the program's derivative.
pub(crate) fn jvp_call<P: Primitive>(
    program: &Arc<Program>,
    primals: &[Array],
    tangents: &[Tangent],
    wrap: impl FnOnce(Arc<Program>) -> P,
) -> (Vec<Array>, Vec<Tangent>) {
    let varying = Marks::of_tangents(tangents);
    let Derived { program: derivative, results } =
        jvp_of(&vary_like(program, primals), &varying, &Marks::none(program.outputs().len()));
    bind_derivative(wrap(derivative), primals, tangents, &results)
}

/// Applies a derivative to the primals and the dense tangents. Returns its outputs and their
/// tangents, of which `results` marks the dense ones.
pub(super) fn bind_derivative(
    derivative: impl Primitive,
    primals: &[Array],
    tangents: &[Tangent],
    results: &Marks<Dense>,
) -> (Vec<Array>, Vec<Tangent>) {
    let dense = tangents.iter().filter_map(Tangent::array);
    let operands: Vec<&Array> = primals.iter().chain(dense).collect();
    let mut outputs = bind(derivative, &operands);
    let dense = outputs.split_off(results.len());
    let tangents = results.tangents(avals_of(&outputs), dense);
    (outputs, tangents)
}

/// Implements `batch` for a primitive that applies a program. `wrap` creates the primitive that
/// applies the batched program.
pub(crate) fn batch_call<P: Primitive>(
    program: &Arc<Program>,
    operands: &[Array],
    axes: &[Option<usize>],
    axis: &BatchAxis,
    wrap: impl FnOnce(Arc<Program>) -> P,
) -> Batched {
    let batched = batch_of(program, axes, OutputAxes::Any, axis);
    let outputs = bind(wrap(batched.program), &operands.iter().collect::<Vec<_>>());
    Batched { outputs, axes: batched.results }
}

/// Implements `transpose` for a primitive that applies a program. `wrap` creates the primitive that
/// applies the transposed program.
pub(crate) fn transpose_call<P: Primitive>(
    program: &Arc<Program>,
    cts: &[Tangent],
    operands: &[Operand],
    wrap: impl FnOnce(Arc<Program>) -> P,
) -> Vec<Option<Tangent>> {
    let known = Marks::of_operands(operands);
    let transposed = transpose_of(
        program,
        &known,
        &Marks::of_tangents(cts),
        &Marks::none(known.count_unmarked()),
    );
    let values = operands.iter().filter_map(Operand::known);
    let arguments: Vec<&Array> = values.chain(cts.iter().filter_map(Tangent::array)).collect();
    let dense = bind(wrap(transposed.program), &arguments);
    operand_cotangents(operands, &transposed.results, dense)
}

/// Returns one cotangent per linear operand and `None` for known operands. `dense` are the
/// cotangents of the linear operands that `results` marks.
pub(super) fn operand_cotangents(
    operands: &[Operand],
    results: &Marks<Dense>,
    dense: Vec<Array>,
) -> Vec<Option<Tangent>> {
    let known = Marks::of_operands(operands);
    let avals = known.select_unmarked(operands).into_iter().map(|operand| operand.aval().clone());
    let mut cts = results.tangents(avals, dense).into_iter();
    known.iter().map(|is_known| if is_known { None } else { cts.next() }).collect()
}

/// Splits a program by its known inputs. Returns `None` if the known half would compute nothing.
pub(super) fn split_program(
    program: &Arc<Program>,
    known: &Marks<Known>,
) -> Option<Arc<PartialEval>> {
    if !known.any() {
        return None;
    }
    let halves = partial_eval(program, known, &Marks::all(program.outputs().len()));
    (!halves.is_trivial()).then_some(halves)
}

/// Splits an equation that applies a program into one for each half. `known` and `unknown` return
/// the primitive that applies a half. Returns `None` if the known half would compute nothing.
pub(super) fn split_call<P: Primitive>(
    program: &Arc<Program>,
    marks: &Marks<Known>,
    known: impl FnOnce(Arc<Program>) -> P,
    unknown: impl FnOnce(Arc<Program>) -> P,
) -> Option<SplitEqn> {
    let halves = split_program(program, marks)?;
    Some(SplitEqn {
        known: Arc::new(known(halves.known.clone())),
        known_operands: marks.positions(),
        unknown: Arc::new(unknown(halves.unknown.clone())),
        unknown_operands: halves.sources.clone(),
        outputs: halves.outputs.clone(),
    })
}

/// Returns the types of arrays.
pub(super) fn avals_of(arrays: &[Array]) -> Vec<Aval> {
    arrays.iter().map(|array| array.aval().clone()).collect()
}
