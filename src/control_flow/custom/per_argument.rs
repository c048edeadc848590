//! `custom_jvp_per_argument`: a forward derivative as a sum over the arguments.

use super::jvp::with_rule;
use super::symbolic::{SymbolicZeros, take_dense};
use crate::core::{Array, Loc};
use crate::primitives::{add, zeros_of};
use crate::tree::{
    ByReference, Function, PrimalArgs, TransformedFn, Tree, count_leaves, for_each_arity,
    leaves_of, rebuild, share,
};
use std::sync::Arc;

/// The rule of an argument with a derivative of zero, in [`custom_jvp_per_argument`].
#[derive(Clone, Copy, Debug)]
pub struct NoTangent;

/// A rule that maps the tangent of one argument `X`, the value `O` and all arguments `P` to its
/// part of the tangent of the value: a closure, or [`NoTangent`].
pub trait JvpRule<X, O, P, M> {
    /// Returns the part of the tangent; `None` if it is zero.
    fn tangent(&self, direction: &X, value: &O, primals: &P) -> Option<O>;
}

impl<X, O, P, F: Fn(&X, &O, &P) -> O> JvpRule<X, O, P, ByReference> for F {
    fn tangent(&self, direction: &X, value: &O, primals: &P) -> Option<O> {
        Some(self(direction, value, primals))
    }
}

impl<X, O, P> JvpRule<X, O, P, ()> for NoTangent {
    fn tangent(&self, _: &X, _: &O, _: &P) -> Option<O> {
        None
    }
}

/// The rules of all arguments of a function: a tuple of [`JvpRule`], one for each.
pub trait JvpRules<A: PrimalArgs, O, M> {
    /// Returns the parts of the tangent, but for those of arguments whose tangents are zero.
    fn tangents(
        &self,
        tangents: SymbolicZeros<A::Primals>,
        value: &O,
        primals: &A::Primals,
    ) -> Vec<O>;
}

macro_rules! rules {
    ([] $(($index:tt $name:ident $rule:ident $marker:ident))*) => {
        impl<Out, Whole, $($name: Tree, $rule, $marker),*>
            JvpRules<($($name,)*), Out, ($($marker,)*)> for ($($rule,)*)
        where
            ($($name,)*): PrimalArgs<Primals = Whole>,
            Whole: Tree,
            $($rule: JvpRule<$name, Out, Whole, $marker>,)*
        {
            fn tangents(
                &self,
                tangents: SymbolicZeros<Whole>,
                value: &Out,
                primals: &Whole,
            ) -> Vec<Out> {
                let is_zero: Vec<bool> =
                    (0..tangents.len()).map(|index| tangents.is_zero(index)).collect();
                let mut is_zero = is_zero.into_iter();
                let directions =
                    <($($name,)*) as PrimalArgs>::from_primals(tangents.into_dense());
                let mut parts = Vec::new();
                $(
                    let n_leaves = count_leaves(&directions.$index);
                    let leaves: Vec<bool> = is_zero.by_ref().take(n_leaves).collect();
                    if leaves.contains(&false) {
                        parts.extend(self.$index.tangent(&directions.$index, value, primals));
                    }
                )*
                parts
            }
        }
    };
}

macro_rules! rules_of_arity {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        rules_of_arity!(@ $(($index $name))*);
    };
    (@ (0 $a:ident)) => { rules!([] (0 $a RA MA)); };
    (@ (0 $a:ident) (1 $b:ident)) => { rules!([] (0 $a RA MA) (1 $b RB MB)); };
    (@ (0 $a:ident) (1 $b:ident) (2 $c:ident)) => {
        rules!([] (0 $a RA MA) (1 $b RB MB) (2 $c RC MC));
    };
    (@ (0 $a:ident) (1 $b:ident) (2 $c:ident) (3 $d:ident)) => {
        rules!([] (0 $a RA MA) (1 $b RB MB) (2 $c RC MC) (3 $d RD MD));
    };
    (@ $($others:tt)*) => {};
}

for_each_arity!(1..=8 rules_of_arity []);

/// Returns `f` with a forward derivative that is a sum over its arguments. `rules` is a tuple with
/// a rule for each of up to four arguments: a closure from the tangent of that argument, the value
/// of `f` and all arguments (a tuple if there are several) to its part of the tangent, or
/// [`NoTangent`].
///
/// A rule does not run if the tangent of its argument is known to be zero. Other limits are those
/// of [`custom_jvp`](super::custom_jvp()).
///
/// ```
/// use oxidax::prelude::*;
/// let f = custom_jvp_per_argument(
///     |x: &Array, y: &Array| sin(x) * y,
///     (
///         |dx: &Array, _: &Array, (x, y): &(Array, Array)| cos(x) * dx * y,
///         |dy: &Array, _: &Array, (x, _): &(Array, Array)| sin(x) * dy,
///     ),
/// );
/// let (x, y) = (zeros([]), full([], 3.0));
/// assert_eq!(grad(|x: &Array| f(x, &y))(&x).item::<f32>()?, 3.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "defjvps")]
#[track_caller]
pub fn custom_jvp_per_argument<A, O, M, MR, F, R>(
    f: F,
    rules: R,
) -> impl TransformedFn<'static, A, O>
where
    A: PrimalArgs + 'static,
    O: Tree,
    M: 'static,
    MR: 'static,
    F: Function<A, M, Output = O> + Send + Sync + 'static,
    R: JvpRules<A, O, MR> + Send + Sync + 'static,
{
    per_argument(Arc::new(f), Arc::new(rules), Loc::caller())
}

fn per_argument<A, O, M, MR, F, R>(
    f: Arc<F>,
    rules: Arc<R>,
    loc: Loc,
) -> impl TransformedFn<'static, A, O>
where
    A: PrimalArgs + 'static,
    O: Tree,
    M: 'static,
    MR: 'static,
    F: Function<A, M, Output = O> + Send + Sync + 'static,
    R: JvpRules<A, O, MR> + Send + Sync + 'static,
{
    let (name, value, value_rules) = (f.name(), f.clone(), rules.clone());
    let rule = move |primals: A::Primals, tangents: A::Primals| {
        let dense = take_dense(count_leaves(&tangents));
        let value = per_argument_value(&value, &value_rules, share(&primals), loc);
        let parts = rules.tangents(SymbolicZeros::new(tangents, dense), &value, &primals);
        let mut sum: Option<Vec<Array>> = None;
        for part in parts {
            let part = leaves_of(&part);
            sum = Some(match sum {
                Some(sum) => sum.iter().zip(&part).map(|(a, b)| add(a, b)).collect(),
                None => part,
            });
        }
        let zeros = || leaves_of(&value).iter().map(|leaf| zeros_of(leaf.aval())).collect();
        let tangent = rebuild(&value, sum.unwrap_or_else(zeros));
        (value, tangent)
    };
    with_rule(name, move |arguments: A| f.apply(arguments), rule, loc)
}

/// Returns the value of the function in its own rule, where higher derivatives follow the rules
/// again.
fn per_argument_value<A, O, M, MR, F, R>(
    f: &Arc<F>,
    rules: &Arc<R>,
    primals: A::Primals,
    loc: Loc,
) -> O
where
    A: PrimalArgs + 'static,
    O: Tree,
    M: 'static,
    MR: 'static,
    F: Function<A, M, Output = O> + Send + Sync + 'static,
    R: JvpRules<A, O, MR> + Send + Sync + 'static,
{
    per_argument(f.clone(), rules.clone(), loc).apply(A::from_primals(primals))
}
