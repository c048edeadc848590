//! Reverse mode: vector-Jacobian products, and transposes of linear functions.

use super::jvp::{checked_tangent, name_of};
use super::linearize::linearize_program;
use super::staging::{staged, trace_function};
use super::transpose::transpose_program;
use crate::core::{Array, Program, Scalar, Tangent, trace};
use crate::primitives::{fill_of, rules, zeros_of};
use crate::tree::{Tree, expect_alike, leaves_of, paths, rebuild};
use std::panic::Location;

/// A function's derivative at a point, ready to be pulled back: from cotangents of the outputs to
/// cotangents of the inputs. Apply it as often as wanted.
pub struct Vjp<P, O> {
    primals: P,
    outputs: O,
    linear: Program,
    residuals: Vec<Array>,
    positions: Vec<Option<usize>>,
}

/// Pulls cotangents back through a linear program; gives one per inexact input.
fn pull_back(
    linear: &Program,
    residuals: &[Array],
    n_varying: usize,
    cts: &[Option<Tangent>],
) -> Vec<Tangent> {
    let mut is_linear = vec![true; n_varying];
    is_linear.resize(n_varying + residuals.len(), false);
    let cts: Vec<Tangent> = cts.iter().flatten().cloned().collect();
    transpose_program(linear, &is_linear, residuals, &cts)
}

/// One cotangent per leaf: zeros of its own dtype for leaves that do not vary.
fn spread(primals: &[Array], cts: Vec<Tangent>) -> Vec<Array> {
    let mut cts = cts.into_iter();
    primals
        .iter()
        .map(|primal| match primal.dtype().is_inexact() {
            true => rules::dense(&cts.next().expect("one per inexact leaf")),
            false => zeros_of(primal.aval()),
        })
        .collect()
}

impl<P: Tree, O: Tree> Vjp<P, O> {
    /// The inputs' cotangents for these cotangents of the outputs. Leaves of integer or boolean
    /// dtype get zeros.
    ///
    /// Throws `Tree` if `cotangents` does not fit the outputs.
    #[track_caller]
    pub fn apply(&self, cotangents: &O) -> P {
        let location = Location::caller();
        expect_alike(&self.outputs, cotangents, location);
        staged(|| {
            let outputs = leaves_of(&self.outputs);
            let cts: Vec<Option<Tangent>> = paths(&self.outputs)
                .iter()
                .zip(outputs.iter().zip(leaves_of(cotangents)))
                .zip(&self.positions)
                .map(|((path, (output, ct)), position)| {
                    let ct = checked_tangent("vjp", path, output, &ct, location);
                    position.map(|_| ct)
                })
                .collect();
            let primals = leaves_of(&self.primals);
            let varying = primals.iter().filter(|leaf| leaf.dtype().is_inexact()).count();
            let cts = pull_back(&self.linear, &self.residuals, varying, &cts);
            rebuild(&self.primals, spread(&primals, cts))
        })
    }
}

/// The value of `f` at `primals`, and its pullback there.
///
/// Throws whatever `f` throws.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0], [2])?;
/// let (y, pullback) = vjp(|x: &Array| x * x, &x);
/// assert_eq!(pullback.apply(&ones_like(&y)).to_vec::<f32>()?, [2.0, 4.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn vjp<P: Tree, O: Tree>(f: impl Fn(&P) -> O, primals: &P) -> (O, Vjp<P, O>) {
    let name = name_of(&f);
    let (outputs, (), pullback) = vjp_named(&name, |primals: &P| (f(primals), ()), primals);
    (outputs, pullback)
}

/// As [`vjp`], of a function that also gives values that are not to be differentiated.
#[track_caller]
pub fn vjp_aux<P: Tree, O: Tree, X: Tree>(
    f: impl Fn(&P) -> (O, X),
    primals: &P,
) -> (O, X, Vjp<P, O>) {
    vjp_named(&name_of(&f), &f, primals)
}

#[track_caller]
fn vjp_named<P: Tree, O: Tree, X: Tree>(
    name: &str,
    f: impl Fn(&P) -> (O, X),
    primals: &P,
) -> (O, X, Vjp<P, O>) {
    let mut parts = None;
    let ((outputs, aux), residuals) = staged(|| {
        let step = forward(format!("vjp({name})"), &f, primals);
        parts = Some((step.linear, step.positions));
        (rebuild(&step.template, step.outputs), step.residuals)
    });
    let (linear, positions) = parts.expect("staged runs its work once");
    let n_outputs = leaves_of(&outputs).len();
    let pullback = Vjp {
        primals: rebuild(primals, leaves_of(primals)),
        outputs: rebuild(&outputs, leaves_of(&outputs)),
        linear,
        residuals,
        positions: positions[..n_outputs].to_vec(),
    };
    (outputs, aux, pullback)
}

struct Forward<O> {
    template: O,
    outputs: Vec<Array>,
    linear: Program,
    residuals: Vec<Array>,
    positions: Vec<Option<usize>>,
}

/// Traces and linearizes `f`; the linear program's outputs for `aux` are dropped.
fn forward<P: Tree, O: Tree, X: Tree>(
    scope: String,
    f: impl Fn(&P) -> (O, X),
    primals: &P,
) -> Forward<(O, X)> {
    let leaves = leaves_of(primals);
    let avals = leaves.iter().map(|leaf| leaf.aval().clone());
    let traced = trace_function(scope, avals, |leaves| f(&rebuild(primals, leaves)));
    let mut varies: Vec<bool> = leaves.iter().map(|leaf| leaf.dtype().is_inexact()).collect();
    varies.resize(leaves.len() + traced.captures.len(), false);
    let arguments: Vec<Array> = leaves.into_iter().chain(traced.captures).collect();
    let lin = linearize_program(&traced.program, &arguments, &varies);
    let n_outputs = leaves_of(&traced.template.0).len();
    let wanted: Vec<u32> =
        lin.tangents[..n_outputs].iter().flatten().map(|&at| lin.linear.outputs()[at]).collect();
    Forward {
        template: traced.template,
        outputs: lin.outputs,
        linear: lin.linear.with_outputs(&wanted),
        residuals: lin.residuals,
        positions: lin.tangents[..n_outputs].to_vec(),
    }
}

/// Value, aux and gradient of a scalar function in one stage: `grad` and its kin.
pub(super) fn value_aux_and_grad<P: Tree, X: Tree>(
    name: &'static str,
    scope: String,
    f: impl Fn(&P) -> (Array, X),
    primals: &P,
    location: &'static Location<'static>,
) -> (Array, X, P) {
    staged(|| {
        let step = forward(scope, f, primals);
        super::jvp::expect_scalar_output(name, &step.outputs[0], location);
        let leaves = leaves_of(primals);
        let varying = leaves.iter().filter(|leaf| leaf.dtype().is_inexact()).count();
        let one = || fill_of(Scalar::Int(1), step.outputs[0].aval());
        let seed = trace::at_location(Some(location), one);
        let cts: Vec<Option<Tangent>> =
            step.positions.iter().map(|at| at.map(|_| Tangent::Dense(seed.clone()))).collect();
        let cts = pull_back(&step.linear, &step.residuals, varying, &cts);
        let (value, aux) = rebuild(&step.template, step.outputs);
        (value, aux, rebuild(primals, spread(&leaves, cts)))
    })
}

/// The transpose of a linear function, applied to cotangents of its outputs. `example` gives the
/// types of its inputs; its values are not used.
///
/// Throws `Op` if an operation of `f` is not linear in the inputs.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = zeros([2], DType::F32);
/// let ct = linear_transpose(|x: &Array| x * 3.0, &x, &ones([2], DType::F32));
/// assert_eq!(ct.to_vec::<f32>()?, [3.0, 3.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn linear_transpose<P: Tree, O: Tree>(f: impl Fn(&P) -> O, example: &P, cotangents: &O) -> P {
    let location = Location::caller();
    let scope = format!("transpose({})", name_of(&f));
    staged(|| {
        let leaves = leaves_of(example);
        let avals = leaves.iter().map(|leaf| leaf.aval().clone());
        let traced = trace_function(scope, avals, |leaves| f(&rebuild(example, leaves)));
        expect_alike(&traced.template, cotangents, location);
        let outputs = leaves_of(&traced.template);
        let cts: Vec<Tangent> = paths(&traced.template)
            .iter()
            .zip(outputs.iter().zip(leaves_of(cotangents)))
            .map(|(path, (output, ct))| checked_tangent("transpose", path, output, &ct, location))
            .collect();
        let mut linear = vec![true; leaves.len()];
        linear.resize(leaves.len() + traced.captures.len(), false);
        let cts = transpose_program(&traced.program, &linear, &traced.captures, &cts);
        rebuild(example, cts.iter().map(rules::dense).collect())
    })
}
