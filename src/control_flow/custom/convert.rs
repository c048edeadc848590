//! Closures as functions of what they capture: `closure_convert` and `custom_gradient`.

use super::held_function::expect_types;
use super::vjp::custom_vjp;
use crate::core::{Array, Error, Loc, Program, TreeError, trace};
use crate::passes;
use crate::transforms::staging::{template_of, trace_call, trace_function};
use crate::tree::{
    Function, PathKey, PrimalArgs, Primals, Tag, TransformedFn, Tree, TreeDef, Visitor, leaves_of,
    rebuild,
};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A closure as a function of its arguments and of the arrays that it captured. Created by
/// [`closure_convert`].
pub struct ClosureConverted<P, O> {
    program: Program,
    inputs: P,
    outputs: O,
    loc: Loc,
}

impl<P: Tree, O: Tree> ClosureConverted<P, O> {
    /// Applies the function to arguments and values for the captured arrays.
    ///
    /// Throws `Tree` if they do not have the structure, shapes and dtypes of the example and of the
    /// captured arrays.
    #[track_caller]
    pub fn apply(&self, arguments: &P, captures: &[Array]) -> O {
        let loc = Loc::caller();
        expect_types("closure_convert: the arguments", &self.inputs, arguments, loc);
        let leaves = leaves_of(arguments);
        let expected = self.program.avals_in().split_off(leaves.len());
        let mut pairs = expected.iter().zip(captures);
        let differs = pairs.position(|(aval, capture)| !aval.same_type(capture.aval()));
        if expected.len() != captures.len() || differs.is_some() {
            let show = |avals: Vec<String>| avals.join(", ");
            let message = format!(
                "closure_convert: the captured arrays are ({}), got ({})",
                show(expected.iter().map(ToString::to_string).collect()),
                show(captures.iter().map(|x| x.aval().to_string()).collect())
            );
            trace::throw(Error::Tree(Box::new(TreeError {
                path: "$".into(),
                message,
                loc,
                help: Some(
                    "pass the arrays that `closure_convert` returned, or others like them".into(),
                ),
            })));
        }
        let operands = [&leaves[..], captures].concat();
        self.loc.scope(|| rebuild(&self.outputs, passes::eval(&self.program, &operands)))
    }
}

/// Converts a closure to a function of its arguments and of the arrays that it captures. Returns
/// the function and the captured arrays.
///
/// `example` gives the types of the arguments; its values are not used. Rules of
/// [`custom_vjp`](super::custom_vjp()) cannot be differentiated with respect to arrays that they
/// capture: with this function a solver that takes a closure makes them arguments.
///
/// ```
/// use oxidax::prelude::*;
/// let w = full([3], 2.0);
/// let (f, captures) = closure_convert(|x: &Array| (x * &w).sum(), &ones([3]));
/// let gradient = grad(|w: &Array| f.apply(&ones([3]), &[w.clone()]))(&captures[0]);
/// assert_eq!(gradient.to_vec::<f32>()?, [1.0; 3]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn closure_convert<A: PrimalArgs, M, F: Function<A, M>>(
    f: F,
    example: impl Primals<A>,
) -> (ClosureConverted<A::Primals, F::Output>, Vec<Array>) {
    let loc = Loc::caller();
    let example = &loc.scope(|| example.tree());
    let scope = format!("closure_convert({})", f.name());
    let call = trace_call(scope, |example| f.apply(A::from_primals(example)), example);
    let captures = call.operands[call.n_arguments..].to_vec();
    let (inputs, outputs) = (template_of(example), template_of(&call.template));
    (ClosureConverted { program: call.program, inputs, outputs, loc }, captures)
}

/// A traced pullback: a program, and the arrays that it captures, which are the leaves.
struct Pullback<P> {
    structure: Arc<PullbackStructure<P>>,
    residuals: Vec<Array>,
}

struct PullbackStructure<P> {
    key: PullbackKey,
    primals: P,
}

/// The part of a pullback's structure by which structures are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PullbackKey {
    program: Program,
    primals: TreeDef,
}

impl Hash for PullbackKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.program.hash(state);
    }
}

impl<P: Tree> Tree for Pullback<P> {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        visitor.tag(Tag::Name("Pullback"));
        visitor.tag(Tag::Static(&self.structure.key));
        for (index, residual) in self.residuals.iter().enumerate() {
            visitor.enter(PathKey::Index(index));
            visitor.leaf(residual);
            visitor.exit();
        }
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self {
        let residuals = self.residuals.iter().map(|leaf| leaf.unflatten(leaves)).collect();
        Pullback { structure: self.structure.clone(), residuals }
    }
}

impl<P: Tree> Pullback<P> {
    fn trace<O: Tree>(pull: impl Fn(&O) -> P, primals: &P, value: &O, loc: Loc) -> Pullback<P> {
        let avals = leaves_of(value).into_iter().map(|leaf| leaf.aval().clone());
        let traced = trace_function("custom_gradient, pullback".into(), avals, |leaves| {
            let cts = pull(&rebuild(value, leaves));
            expect_types("custom_gradient: the pullback's cotangent", primals, &cts, loc);
            cts
        });
        let primals = template_of(primals);
        let key = PullbackKey { program: traced.program, primals: TreeDef::of(&primals) };
        let structure = Arc::new(PullbackStructure { key, primals });
        Pullback { structure, residuals: traced.captures }
    }

    fn apply<O: Tree>(&self, cotangents: &O) -> P {
        let operands = [leaves_of(cotangents), self.residuals.clone()].concat();
        let cts = passes::eval(&self.structure.key.program, &operands);
        rebuild(&self.structure.primals, cts)
    }
}

/// Returns `f` with the reverse derivative that `f` itself returns: `f` maps its argument to the
/// value and a closure from the cotangent of the value to that of the argument.
///
/// The closure captures what it needs of the forward pass. For several arguments, take a tuple.
/// Limits are those of [`custom_vjp`](super::custom_vjp()).
///
/// ```
/// use oxidax::prelude::*;
/// // The square with a derivative that is clipped to 1.
/// let f = custom_gradient(|x: &Array| {
///     let slope = clip(&(x * 2.0), -1.0, 1.0);
///     (x * x, move |ct: &Array| ct * &slope)
/// });
/// assert_eq!(grad(|x: &Array| f(x))(&full([], 3.0)).item::<f32>()?, 1.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn custom_gradient<P, O, B, F>(f: F) -> impl TransformedFn<'static, (P,), O>
where
    P: Tree,
    O: Tree,
    F: Fn(&P) -> (O, B) + Send + Sync + 'static,
    B: Fn(&O) -> P + 'static,
{
    let loc = Loc::caller();
    let f = Arc::new(f);
    let forward = f.clone();
    custom_vjp(
        move |x: &P| f(x).0,
        move |x: &P| {
            let (value, pull) = forward(x);
            let pullback = Pullback::trace(pull, x, &value, loc);
            (value, pullback)
        },
        |pullback: &Pullback<P>, cotangents: &O| pullback.apply(cotangents),
    )
}
