//! Exemplars inside named axes. A collective has a meaning only inside its axis, so the program of
//! a collective runs on examples along all axes that the exemplar names, each with different
//! operands. Laws apply rules to the program of one example, before the axes are bound, and compare
//! results for all examples together.

use crate::core::{Aval, BatchAxis, Program, Sample};
use crate::primitives::rules::{batch_at, batch_at_front};
use crate::transforms::batch::batch_program;
use crate::transforms::staging::trace_rules;

/// The named axes of an exemplar, outermost first.
pub(super) type Axes = Vec<(String, usize)>;

fn bound(axis: &(String, usize)) -> BatchAxis {
    BatchAxis::named(&axis.0, axis.1)
}

/// Returns the type of a value for all examples together, with the axes in front.
pub(super) fn of_all(aval: &Aval, axes: &Axes) -> Aval {
    axes.iter().rev().fold(aval.clone(), |aval, (_, size)| aval.stacked(*size))
}

/// Returns the sample for all examples together.
pub(super) fn sample_of_all(sample: &Sample, axes: &Axes) -> Sample {
    Sample { aval: of_all(&sample.aval, axes), ..sample.clone() }
}

/// Returns the program for all examples together.
pub(super) fn close(program: &Program, axes: &Axes) -> Program {
    axes.iter().rev().fold(program.clone(), |program, axis| {
        let axis = bound(axis);
        let front = |aval: Aval| aval.stacked(axis.size);
        let avals = program.avals_in().into_iter().map(front);
        trace_rules(avals, |inputs| {
            let mapped = vec![Some(0); inputs.len()];
            let (outputs, index) = batch_program(&program, inputs, &mapped, &axis);
            batch_at_front(&outputs, &index, &axis)
        })
    })
}

/// The form of an operand in the law of copies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyForm {
    /// Not mapped along the innermost axis: equal for all examples.
    Once,
    /// Mapped over copies, with their axis in front.
    Copied,
    /// Mapped over copies, with their axis behind the axes of the array.
    CopiedBehind,
}

/// Returns the program for all examples, with operands that are equal along the innermost axis, in
/// one of the forms.
pub(super) fn close_over_copies(program: &Program, axes: &Axes, copies: &[CopyForm]) -> Program {
    let (innermost, outer) = axes.split_last().expect("there is an axis");
    let axis = bound(innermost);
    let inner = trace_rules(program.avals_in(), |inputs| {
        let place = |(x, copies): (&crate::core::Array, &CopyForm)| match copies {
            CopyForm::Once => (x.clone(), None),
            CopyForm::Copied => (batch_at(x, None, 0, &axis), Some(0)),
            CopyForm::CopiedBehind => (batch_at(x, None, x.rank(), &axis), Some(x.rank())),
        };
        let (operands, index): (Vec<_>, Vec<_>) = inputs.iter().zip(copies).map(place).unzip();
        let (outputs, index) = batch_program(program, &operands, &index, &axis);
        batch_at_front(&outputs, &index, &axis)
    });
    close(&inner, &outer.to_vec())
}
