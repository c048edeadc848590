//! Linearization: the jvp at a point as a program that is linear in the tangents.

use super::jvp::{checked_tangent, jvp_program, name_of};
use super::staging::{debug_verify, staged, trace_function};
use crate::core::trace::{Mode, Tracing};
use crate::core::{Array, Aval, Program, Tangent};
use crate::passes;
use crate::primitives::{rules, zeros_of};
use crate::tree::{Tree, leaves_of, paths, rebuild};
use std::panic::Location;

/// A program's outputs at a point, and their derivative there.
pub(crate) struct Linearized {
    /// The outputs.
    pub(crate) outputs: Vec<Array>,
    /// From the tangents of the inputs that vary, and the residuals, to those tangents of the outputs
    /// that are not zero.
    pub(crate) linear: Program,
    /// What the linear program needs of the primal computation.
    pub(crate) residuals: Vec<Array>,
    /// For each output, its position among the linear program's outputs; `None` for a zero tangent.
    pub(crate) tangents: Vec<Option<usize>>,
}

/// Linearizes a program in those of its inputs that `varies` marks, which must be inexact.
///
/// This is the jvp under a lazy trace: primal work lands below, in the current trace; equations
/// that touch a tangent are recorded; what they use of the primal work becomes residuals.
pub(crate) fn linearize_program(
    program: &Program,
    arguments: &[Array],
    varies: &[bool],
) -> Linearized {
    let tracing = Tracing::begin(Mode::Lazy, None);
    let tangents: Vec<Tangent> = arguments
        .iter()
        .zip(varies)
        .map(|(argument, &varies)| match varies {
            true => Tangent::Dense(tracing.input(argument.aval().clone())),
            false => Tangent::zero_like(argument),
        })
        .collect();
    let (outputs, tangents) = jvp_program(program, arguments, &tangents);
    assert!(
        !outputs.iter().any(|output| tracing.owns(output)),
        "this is a bug in oxidax: a primal output depends on a tangent"
    );
    let dense: Vec<Array> = tangents.iter().filter_map(Tangent::array).cloned().collect();
    let (linear, residuals) = tracing.finish(&dense);
    let linear = passes::dce(&linear);
    debug_verify(&linear);
    let mut next = 0..;
    let tangents =
        tangents.iter().map(|tangent| tangent.array().and_then(|_| next.next())).collect();
    Linearized { outputs, linear, residuals, tangents }
}

/// The derivative of a function at a point: a linear map from tangents of its inputs to tangents of
/// its outputs. Holds what it needs; apply it as often as wanted.
pub struct Linear<P, O> {
    primals: P,
    template: O,
    output_avals: Vec<Aval>,
    linear: Program,
    residuals: Vec<Array>,
    positions: Vec<Option<usize>>,
}

impl<P: Tree, O: Tree> Linear<P, O> {
    /// The outputs' tangents for these tangents of the inputs.
    ///
    /// Throws `Tree` if `tangents` does not fit the primal inputs.
    #[track_caller]
    pub fn apply(&self, tangents: &P) -> O {
        let location = Location::caller();
        crate::tree::expect_alike(&self.primals, tangents, location);
        staged(|| {
            let primals = leaves_of(&self.primals);
            let paths = paths(&self.primals);
            let mut arguments: Vec<Array> = paths
                .iter()
                .zip(primals.iter().zip(leaves_of(tangents)))
                .filter(|(_, (primal, _))| primal.dtype().is_inexact())
                .map(|(path, (primal, tangent))| {
                    rules::dense(&checked_tangent("linear", path, primal, &tangent, location))
                })
                .collect();
            arguments.extend(self.residuals.iter().cloned());
            let dense = passes::eval(&self.linear, &arguments);
            let outputs = self.output_avals.iter().zip(&self.positions);
            let outputs = outputs
                .map(|(aval, position)| match position {
                    Some(position) => dense[*position].clone(),
                    None => zeros_of(aval),
                })
                .collect();
            rebuild(&self.template, outputs)
        })
    }

    /// The linear program: inputs are the tangents of the inexact leaves, then the residuals.
    pub fn program(&self) -> &Program {
        &self.linear
    }
}

/// The value of `f` at `primals`, and its derivative there as a linear map.
///
/// Cheaper than several [`jvp`](super::jvp()) at one point: the primal computation runs once.
///
/// Throws whatever `f` throws.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[0.0f32], [])?;
/// let (y, derivative) = linearize(|x: &Array| sin(x), &x);
/// assert_eq!(derivative.apply(&ones_like(&x)).item::<f32>()?, 1.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn linearize<P: Tree, O: Tree>(f: impl Fn(&P) -> O, primals: &P) -> (O, Linear<P, O>) {
    let scope = format!("linearize({})", name_of(&f));
    let mut parts = None;
    // Outputs and residuals leave the stage together, as concrete arrays if this is the top level.
    let (outputs, residuals) = staged(|| {
        let leaves = leaves_of(primals);
        let avals = leaves.iter().map(|leaf| leaf.aval().clone());
        let traced = trace_function(scope, avals, |leaves| f(&rebuild(primals, leaves)));
        let mut varies: Vec<bool> = leaves.iter().map(|leaf| leaf.dtype().is_inexact()).collect();
        varies.resize(leaves.len() + traced.captures.len(), false);
        let arguments: Vec<Array> = leaves.into_iter().chain(traced.captures).collect();
        let linearized = linearize_program(&traced.program, &arguments, &varies);
        parts = Some((linearized.linear, linearized.tangents));
        (rebuild(&traced.template, linearized.outputs), linearized.residuals)
    });
    let (linear, positions) = parts.expect("staged runs its work once");
    let output_leaves = leaves_of(&outputs);
    let derivative = Linear {
        primals: rebuild(primals, leaves_of(primals)),
        template: rebuild(&outputs, output_leaves.clone()),
        output_avals: output_leaves.iter().map(|leaf| leaf.aval().clone()).collect(),
        linear,
        residuals,
        positions,
    };
    (outputs, derivative)
}
