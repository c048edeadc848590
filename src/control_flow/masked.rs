//! What the rules of loops and choices make of the programs that they hold: derived programs, with masks
//! that say what is there and what must be.

use super::memo::Memo;
use crate::core::{Array, Aval, BatchAxis, Eqn, Program, Tangent};
use crate::passes;
use crate::primitives::rules::{batch_at, dense};
use crate::transforms::batch::batch_program;
use crate::transforms::jvp::jvp_program;
use crate::transforms::staging::trace_rules;
use crate::transforms::transpose::transpose_program;
use std::sync::Arc;

/// A derived program, and which of the original's values it has something for.
#[derive(Clone)]
pub(super) struct Derived {
    pub(super) program: Arc<Program>,
    /// For the derivative: which outputs have a tangent. For the batched program: which outputs are
    /// batched. For the transposed one: which linear inputs have a cotangent.
    pub(super) marks: Vec<bool>,
}

/// As many of `arrays` as there are marks, in order, zeros of the given types elsewhere.
fn spread<'a>(
    marks: &[bool],
    avals: impl IntoIterator<Item = &'a Aval>,
    arrays: &[Array],
) -> Vec<Tangent> {
    let mut arrays = arrays.iter();
    let each = marks.iter().zip(avals).map(|(&marked, aval)| match marked {
        true => Tangent::Dense(arrays.next().expect("one array per mark").clone()),
        false => Tangent::Zero(aval.clone()),
    });
    each.collect()
}

/// Keeps the tangents that are dense or forced; gives them as arrays, and which they are.
fn kept(tangents: &[Tangent], force: &[bool]) -> (Vec<Array>, Vec<bool>) {
    let marks: Vec<bool> =
        tangents.iter().zip(force).map(|(tangent, &force)| force || !tangent.is_zero()).collect();
    let arrays = tangents.iter().zip(&marks).filter(|(_, mark)| **mark).map(|(t, _)| dense(t));
    (arrays.collect(), marks)
}

/// The forward derivative. Inputs are the program's and then a tangent for each that `varies` marks;
/// outputs are the program's and then the tangents of those that vary, or that `force` marks.
pub(super) fn jvp_of(program: &Arc<Program>, varies: &[bool], force: &[bool]) -> Derived {
    static ANSWERS: Memo<[Vec<bool>; 2], Derived> = Memo::new();
    let question = [varies.to_vec(), force.to_vec()];
    ANSWERS.get_or_derive(program, question, |program, [varies, force]| {
        derive_jvp(program, varies, force)
    })
}

fn derive_jvp(program: &Program, varies: &[bool], force: &[bool]) -> Derived {
    let avals = program.avals_in();
    let varying = avals.iter().zip(varies).filter(|(_, varies)| **varies).map(|(aval, _)| aval);
    let inputs: Vec<Aval> = avals.iter().chain(varying).cloned().collect();
    let mut marks = Vec::new();
    let program = trace_rules(inputs, |inputs| {
        let (primals, tangents) = inputs.split_at(avals.len());
        let tangents = spread(varies, &avals, tangents);
        let (mut outputs, tangents) = jvp_program(program, primals, &tangents);
        let (tangents, found) = kept(&tangents, force);
        marks = found;
        outputs.extend(tangents);
        outputs
    });
    Derived { program: Arc::new(program), marks }
}

/// The program on a batch, whose axis is in front of every input that `mapped` marks, and of every
/// output that depends on one or that `force` marks.
pub(super) fn batch_of(
    program: &Arc<Program>,
    mapped: &[bool],
    force: &[bool],
    axis: &BatchAxis,
) -> Derived {
    static ANSWERS: Memo<([Vec<bool>; 2], BatchAxis), Derived> = Memo::new();
    let question = ([mapped.to_vec(), force.to_vec()], axis.clone());
    ANSWERS.get_or_derive(program, question, |program, ([mapped, force], axis)| {
        derive_batch(program, mapped, force, axis)
    })
}

fn derive_batch(program: &Program, mapped: &[bool], force: &[bool], axis: &BatchAxis) -> Derived {
    let inputs = program.avals_in().into_iter().zip(mapped).map(|(aval, &mapped)| match mapped {
        true => aval.with_shape(aval.shape.insert(0, axis.size)),
        false => aval,
    });
    let axes: Vec<Option<usize>> = mapped.iter().map(|&mapped| mapped.then_some(0)).collect();
    let mut marks = Vec::new();
    let program = trace_rules(inputs, |inputs| {
        let (outputs, axes) = batch_program(program, inputs, &axes, axis);
        marks = axes.iter().zip(force).map(|(at, &force)| force || at.is_some()).collect();
        let placed = outputs.iter().zip(axes.iter().zip(&marks));
        placed
            .map(|(output, (&at, &mark))| match mark {
                true => batch_at(output, at, 0, axis),
                false => output.clone(),
            })
            .collect()
    });
    Derived { program: Arc::new(program), marks }
}

/// The transpose in the inputs that `linear` marks. Inputs are the known ones and then a cotangent for
/// each output that `cts` marks; outputs are the cotangents of the linear inputs that have one, or
/// that `force` marks.
pub(super) fn transpose_of(
    program: &Arc<Program>,
    linear: &[bool],
    cts: &[bool],
    force: &[bool],
) -> Derived {
    static ANSWERS: Memo<[Vec<bool>; 3], Derived> = Memo::new();
    let question = [linear.to_vec(), cts.to_vec(), force.to_vec()];
    ANSWERS.get_or_derive(program, question, |program, [linear, cts, force]| {
        derive_transpose(program, linear, cts, force)
    })
}

fn derive_transpose(program: &Program, linear: &[bool], cts: &[bool], force: &[bool]) -> Derived {
    let known = program.avals_in().into_iter().zip(linear).filter(|(_, linear)| !**linear);
    let known: Vec<Aval> = known.map(|(aval, _)| aval).collect();
    let outputs = program.avals_out();
    let marked = outputs.iter().zip(cts).filter(|(_, marked)| **marked).map(|(aval, _)| aval);
    let inputs: Vec<Aval> = known.iter().chain(marked).cloned().collect();
    let mut marks = Vec::new();
    let program = trace_rules(inputs, |inputs| {
        let (known, dense) = inputs.split_at(known.len());
        let cts = spread(cts, &outputs, dense);
        let (arrays, found) = kept(
            &transpose_program(
                program,
                &linear.iter().map(|linear| !linear).collect(),
                known,
                &cts,
            ),
            force,
        );
        marks = found;
        arrays
    });
    Derived { program: Arc::new(program), marks }
}

/// The marked ones of `items`.
pub(super) fn marked<T: Clone>(items: &[T], marks: &[bool]) -> Vec<T> {
    items.iter().zip(marks).filter(|(_, mark)| **mark).map(|(item, _)| item.clone()).collect()
}

/// Results in order where marks are, symbolic zeros of the given types elsewhere.
pub(super) fn tangents_of(
    marks: &[bool],
    avals: impl IntoIterator<Item = Aval>,
    arrays: impl IntoIterator<Item = Array>,
) -> Vec<Tangent> {
    let mut arrays = arrays.into_iter();
    let each = marks.iter().zip(avals).map(|(&marked, aval)| match marked {
        true => Tangent::Dense(arrays.next().expect("one array per mark")),
        false => Tangent::Zero(aval),
    });
    each.collect()
}

/// For each variable, whether it depends on an input that `roots` marks.
pub(super) fn depends_on(program: &Program, roots: &[bool]) -> Vec<bool> {
    let mut depends = vec![false; program.avals().len()];
    for (&var, &root) in program.inputs().iter().zip(roots) {
        depends[var as usize] = root;
    }
    for eqn in program.eqns() {
        if eqn.operands.iter().any(|&var| depends[var as usize]) {
            for &var in &eqn.results {
                depends[var as usize] = true;
            }
        }
    }
    depends
}

/// The program with the chosen outputs, without dead code, and which of its inputs are used.
pub(super) fn with_used_outputs(program: &Program, used: &[bool]) -> (Program, Vec<bool>) {
    let program = passes::dce(&program.with_outputs(&marked(program.outputs(), used)));
    let inputs = program.used_inputs();
    (program, inputs)
}

/// The equations that the outputs need and no others, whatever their side effects.
pub(super) fn without_effects(program: &Program) -> Program {
    let mut needed = vec![false; program.avals().len()];
    for &var in program.outputs() {
        needed[var as usize] = true;
    }
    let mut kept: Vec<Eqn> = Vec::new();
    for eqn in program.eqns().iter().rev() {
        if eqn.results.iter().any(|&var| needed[var as usize]) {
            eqn.operands.iter().for_each(|&var| needed[var as usize] = true);
            kept.push(eqn.clone());
        }
    }
    kept.reverse();
    Program::new(program.avals(), program.inputs(), kept, program.outputs())
}

/// The program with the inputs that `keep` marks; the others must be unused.
pub(super) fn with_kept_inputs(program: &Program, keep: &[bool]) -> Program {
    let order: Vec<usize> = (0..keep.len()).filter(|&at| keep[at]).collect();
    program.permute_inputs(&order)
}

/// Whether two programs have as many equations, those of programs inside counted: as dead code
/// elimination leaves one that has no dead code.
pub(super) fn same_size(a: &Program, b: &Program) -> bool {
    fn size(program: &Program) -> usize {
        let inner = program.eqns().iter().flat_map(|eqn| eqn.primitive.as_higher_order());
        let inner = inner.flat_map(|holder| holder.programs());
        let inner: usize = inner.map(|(_, program)| size(program) + program.outputs().len()).sum();
        program.eqns().len() + inner
    }
    size(a) == size(b)
}
