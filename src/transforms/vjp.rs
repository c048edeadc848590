//! Reverse mode: vector-Jacobian products, and transposes of linear functions.

use super::checks::{checked_tangents, expect_scalar_output};
use super::linearize::{LinearMap, linearize_call, linearize_staged};
use super::staging::{short_name_of, staged, template_of, trace_call};
use super::transpose::transpose_program;
use crate::core::{Array, Known, Loc, Marks, Scalar, Tangent};
use crate::primitives::fill_of;
use crate::tree::{Tree, expect_alike, leaves_of, paths, rebuild};

/// The derivative of a function at a point, in reverse mode: a linear map from cotangents of the
/// outputs to cotangents of the inputs. Created by [`vjp`].
///
/// It holds the residuals of the primal computation and can be applied any number of times.
pub struct Vjp<P, O> {
    primals: P,
    outputs: O,
    map: LinearMap,
}

impl<P: Tree, O: Tree> Vjp<P, O> {
    /// Returns the cotangents of the inputs for cotangents of the outputs. Leaves of integer or
    /// boolean dtype get zeros.
    ///
    /// Throws `Tree` if `cotangents` does not match the outputs.
    #[track_caller]
    pub fn apply(&self, cotangents: &O) -> P {
        let loc = Loc::caller();
        expect_alike(&self.outputs, cotangents, loc);
        staged(|| {
            let cts = checked_tangents(
                "vjp",
                &paths(&self.outputs),
                &leaves_of(&self.outputs),
                &leaves_of(cotangents),
                loc,
            );
            let cts = self.map.pull_back_to(&cts, &leaves_of(&self.primals));
            rebuild(&self.primals, cts)
        })
    }
}

/// Returns the value of `f` at `primals`, and its pullback there.
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
    let scope = format!("vjp({})", short_name_of(&f));
    let (outputs, (), pullback) = vjp_staged(scope, |primals: &P| (f(primals), ()), primals);
    (outputs, pullback)
}

/// As [`vjp`], for a function that also returns values that are not differentiated.
#[track_caller]
pub fn vjp_aux<P: Tree, O: Tree, X: Tree>(
    f: impl Fn(&P) -> (O, X),
    primals: &P,
) -> (O, X, Vjp<P, O>) {
    vjp_staged(format!("vjp({})", short_name_of(&f)), &f, primals)
}

#[track_caller]
fn vjp_staged<P: Tree, O: Tree, X: Tree>(
    scope: String,
    f: impl Fn(&P) -> (O, X),
    primals: &P,
) -> (O, X, Vjp<P, O>) {
    let (outputs, aux, map) = linearize_staged(scope, f, primals);
    let pullback = Vjp { primals: template_of(primals), outputs: template_of(&outputs), map };
    (outputs, aux, pullback)
}

/// A call of `grad` or one of its variants.
pub(super) struct GradCall {
    /// The name of the variant, for errors.
    pub(super) transform: &'static str,
    /// The scope of the traced function.
    pub(super) scope: String,
    pub(super) loc: Loc,
}

impl GradCall {
    /// Returns the value, the auxiliary values and the gradient of a scalar function, in one stage.
    pub(super) fn apply<P: Tree, X: Tree>(
        &self,
        f: impl Fn(&P) -> (Array, X),
        primals: &P,
    ) -> (Array, X, P) {
        staged(|| {
            let (value, aux, map) = linearize_call(self.scope.clone(), f, primals);
            let gradient = self.gradient(&value, &map, &leaves_of(primals));
            (value, aux, rebuild(primals, gradient))
        })
    }

    fn gradient(&self, value: &Array, map: &LinearMap, primals: &[Array]) -> Vec<Array> {
        expect_scalar_output(self.transform, value, self.loc);
        let one = || fill_of(Scalar::Int(1), value.aval());
        let seed = self.loc.scope(one);
        map.pull_back_to(&[Tangent::Dense(seed)], primals)
    }
}

/// Applies the transpose of a linear function to cotangents of its outputs. `example` gives the
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
    let loc = Loc::caller();
    let scope = format!("transpose({})", short_name_of(&f));
    staged(|| {
        let call = trace_call(scope, &f, example);
        expect_alike(&call.template, cotangents, loc);
        let cts = checked_tangents(
            "transpose",
            &paths(&call.template),
            &leaves_of(&call.template),
            &leaves_of(cotangents),
            loc,
        );
        let known: Marks<Known> =
            Marks::none(call.n_arguments).concat(&Marks::all(call.n_captures()));
        let captures = &call.operands[call.n_arguments..];
        let cts = transpose_program(&call.program, &known, captures, &cts);
        rebuild(example, cts.iter().map(Tangent::to_dense).collect())
    })
}
