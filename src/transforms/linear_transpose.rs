//! Transposes of linear functions.

use super::checks::checked_tangents;
use super::staging::{staged, template_of, trace_call};
use super::transpose::transpose_program;
use crate::core::{Array, Known, Loc, Marks, Program, Tangent};
use crate::tree::{
    Function, PrimalArgs, Primals, Transformed, Tree, expect_alike, leaves_of, paths, rebuild,
};
use std::ops::Deref;

/// The transpose of a linear function: a linear map from cotangents of its outputs to cotangents of
/// its inputs. Created by [`linear_transpose`].
///
/// It is called, `transpose(&ct)`, any number of times, and transforms accept it.
pub struct LinearTranspose<P, O> {
    pull_back: Box<dyn Fn(&O) -> P + Send + Sync>,
}

impl<P: Tree, O: Tree> LinearTranspose<P, O> {
    fn new(
        inputs: P,
        outputs: O,
        program: Program,
        captures: Vec<Array>,
        created: Loc,
    ) -> LinearTranspose<P, O> {
        let n_arguments = program.inputs().len() - captures.len();
        let known: Marks<Known> = Marks::none(n_arguments).concat(&Marks::all(captures.len()));
        let pull_back = move |cotangents: &O| {
            let loc = Loc::scoped().or(created);
            expect_alike(&outputs, cotangents, loc);
            staged(|| {
                let cts = checked_tangents(
                    "transpose",
                    &paths(&outputs),
                    &leaves_of(&outputs),
                    &leaves_of(cotangents),
                    loc,
                );
                let cts = transpose_program(&program, &known, &captures, &cts);
                rebuild(&inputs, cts.iter().map(Tangent::to_dense).collect())
            })
        };
        LinearTranspose { pull_back: Box::new(pull_back) }
    }

    /// Returns the cotangents of the inputs for cotangents of the outputs, as a call does.
    ///
    /// Throws `Tree` if `cotangents` does not match the outputs, and `Op` if an operation is not
    /// linear in the inputs. The error names the line of `apply`; that of a call names the line of
    /// [`linear_transpose`].
    #[track_caller]
    pub fn apply(&self, cotangents: &O) -> P {
        Loc::caller().scope(|| (self.pull_back)(cotangents))
    }
}

impl<P, O> Deref for LinearTranspose<P, O> {
    type Target = dyn Fn(&O) -> P + Send + Sync;
    fn deref(&self) -> &Self::Target {
        &*self.pull_back
    }
}

#[diagnostic::do_not_recommend]
impl<P: Tree, O: Tree> Function<(O,), Transformed> for LinearTranspose<P, O> {
    type Output = P;
    fn apply(&self, (cotangents,): (O,)) -> P {
        (self.pull_back)(&cotangents)
    }
    fn name(&self) -> String {
        "linear_transpose".into()
    }
}

/// Returns the transpose of a linear function. `example` gives the types of its inputs; its values
/// are not used.
///
/// The function is traced once. The transpose throws `Op` if one of its operations is not linear in
/// the inputs.
///
/// ```
/// use oxidax::prelude::*;
/// let transpose = linear_transpose(|x: &Array| x * 3.0, &zeros([2]));
/// assert_eq!(transpose(&ones([2])).to_vec::<f32>()?, [3.0, 3.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn linear_transpose<A: PrimalArgs, M, F: Function<A, M>>(
    f: F,
    example: impl Primals<A>,
) -> LinearTranspose<A::Primals, F::Output> {
    let loc = Loc::caller();
    let example = &loc.scope(|| example.tree());
    let scope = format!("transpose({})", f.name());
    let call = trace_call(scope, |example| f.apply(A::from_primals(example)), example);
    let captures = call.operands[call.n_arguments..].to_vec();
    let outputs = template_of(&call.template);
    LinearTranspose::new(template_of(example), outputs, call.program, captures, loc)
}
