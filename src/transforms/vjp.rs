//! Reverse mode: vector-Jacobian products.

use super::checks::{checked_tangents, expect_inexact, expect_scalar_output};
use super::jacobian::expect_holomorphic;
use super::linearize::{LinearMap, linearize_call, linearize_staged};
use super::staging::{staged, template_of};
use crate::core::{Array, Dense, Error, Loc, Marks, Program, Scalar, Tangent, TreeError, trace};
use crate::primitives::{add, fill_of};
use crate::tree::{
    Function, PathKey, PrimalArgs, Primals, Tag, Transformed, Tree, TreeDef, Visitor, expect_alike,
    leaves_of, paths, rebuild, refs_of, rooted,
};
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// The derivative of a function at a point, in reverse mode: a linear map from cotangents of the
/// outputs to cotangents of the inputs. Created by [`vjp`].
///
/// It is called, `pullback(&ct)`, any number of times, and transforms accept it. It holds the
/// residuals of the primal computation, and is a tree of them: functions under `jit` can return and
/// take it.
pub struct Vjp<P, O> {
    map: LinearMap,
    structure: Arc<Structure<P, O>>,
    pull_back: Box<dyn Fn(&O) -> P + Send + Sync>,
}

/// The part of a pullback that is not arrays.
struct Structure<P, O> {
    primals: P,
    outputs: O,
    created: Loc,
    key: VjpKey,
}

/// The part of a pullback's structure by which signatures are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
struct VjpKey {
    program: Arc<Program>,
    dense: Marks<Dense>,
    primals: TreeDef,
    outputs: TreeDef,
}

impl Hash for VjpKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.program.hash(state);
    }
}

impl<P: Tree, O: Tree> Vjp<P, O> {
    fn new(primals: P, outputs: O, map: LinearMap, created: Loc) -> Vjp<P, O> {
        let key = VjpKey {
            program: Arc::new(map.program.clone()),
            dense: map.outputs.clone(),
            primals: TreeDef::of(&primals),
            outputs: TreeDef::of(&outputs),
        };
        Vjp::with_structure(Arc::new(Structure { primals, outputs, created, key }), map)
    }

    fn with_structure(structure: Arc<Structure<P, O>>, map: LinearMap) -> Vjp<P, O> {
        let (held, linear) = (structure.clone(), map.clone());
        let pull_back = move |cotangents: &O| {
            let Structure { primals, outputs, created, .. } = &*structure;
            let loc = Loc::scoped().or(*created);
            expect_alike(outputs, cotangents, loc);
            staged(|| {
                let cts = checked_tangents(
                    "vjp",
                    &paths(outputs),
                    &leaves_of(outputs),
                    &leaves_of(cotangents),
                    loc,
                );
                rebuild(primals, linear.pull_back_to(&cts, &leaves_of(primals)))
            })
        };
        Vjp { map, structure: held, pull_back: Box::new(pull_back) }
    }

    /// Returns the cotangents of the inputs for cotangents of the outputs, as a call does. Leaves
    /// of integer or boolean dtype get zeros.
    ///
    /// Throws `Tree` if `cotangents` does not match the outputs. The error names the line of
    /// `apply`; that of a call names the line of [`vjp`].
    #[track_caller]
    pub fn apply(&self, cotangents: &O) -> P {
        Loc::caller().scope(|| (self.pull_back)(cotangents))
    }

    /// Adds the cotangents of the inputs to references. `refs` is a tree with one reference for
    /// each leaf of the inputs, in order.
    ///
    /// Throws as [`Vjp::apply`] does, and `Tree` if the references differ from the inputs in
    /// number, dtype or shape.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let gradient = new_ref(&zeros([2]));
    /// for factor in [1.0, 10.0] {
    ///     let (y, pullback) = vjp(|x: &Array| (x * factor).sum(), &ones([2]));
    ///     pullback.accumulate_into(&ones_like(&y), &gradient);
    /// }
    /// assert_eq!(freeze(&gradient).to_vec::<f32>()?, [11.0, 11.0]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "with_refs")]
    #[track_caller]
    pub fn accumulate_into(&self, cotangents: &O, refs: &impl Tree) {
        let loc = Loc::caller();
        let pulled = self.apply(cotangents);
        let (pulled, paths, refs) = (leaves_of(&pulled), paths(&pulled), refs_of(refs));
        let throw = |path: &str, message: String| -> ! {
            let help = Some("pass a reference for each leaf: `new_ref(&zeros_like(&x))`".into());
            let path = rooted(path);
            trace::throw(Error::Tree(Box::new(TreeError { path, message, loc, help })))
        };
        if pulled.len() != refs.len() {
            let (n, count) = (pulled.len(), refs.len());
            throw("", format!("vjp: {count} references for {n} leaves of the inputs"));
        }
        for ((ct, path), target) in pulled.iter().zip(&paths).zip(&refs) {
            if ct.dtype() != target.dtype() || ct.shape() != target.shape() {
                let (ct, target) = (ct.aval(), target.aval());
                throw(path, format!("vjp: the cotangent is {ct}, the reference has {target}"));
            }
        }
        for (ct, target) in pulled.iter().zip(&refs) {
            let sum = loc.scope(|| add(target.read("addupdate", loc), ct));
            target.write(sum, "addupdate", loc);
        }
    }
}

impl<P, O> Deref for Vjp<P, O> {
    type Target = dyn Fn(&O) -> P + Send + Sync;
    fn deref(&self) -> &Self::Target {
        &*self.pull_back
    }
}

impl<P: Tree, O: Tree> Tree for Vjp<P, O> {
    fn flatten(&self, visitor: &mut dyn Visitor) {
        visitor.tag(Tag::Name("Vjp"));
        visitor.tag(Tag::Static(&self.structure.key));
        for (index, residual) in self.map.residuals.iter().enumerate() {
            visitor.enter(PathKey::Index(index));
            visitor.leaf(residual);
            visitor.exit();
        }
    }
    fn unflatten(&self, leaves: &mut dyn Iterator<Item = Array>) -> Self {
        let residuals = self.map.residuals.iter().map(|leaf| leaf.unflatten(leaves)).collect();
        let map = LinearMap { residuals, ..self.map.clone() };
        Vjp::with_structure(self.structure.clone(), map)
    }
}

#[diagnostic::do_not_recommend]
impl<P: Tree, O: Tree> Function<(O,), Transformed> for Vjp<P, O> {
    type Output = P;
    fn apply(&self, (cotangents,): (O,)) -> P {
        (self.pull_back)(&cotangents)
    }
    fn name(&self) -> String {
        "vjp".into()
    }
}

/// Returns the value of `f` at `primals`, and its pullback there.
///
/// For a function of several arguments, `primals` is a tuple, `vjp(f, (&x, &y))`, and the pullback
/// returns one.
///
/// Throws whatever `f` throws.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0], [2])?;
/// let (y, pullback) = vjp(|x: &Array| x * x, &x);
/// assert_eq!(pullback(&ones_like(&y)).to_vec::<f32>()?, [2.0, 4.0]);
/// let (_, pullback) = vjp(|x: &Array, y: &Array| (x * y).sum(), (&x, &y));
/// let (dx, dy) = pullback(&scalar(1f32));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn vjp<A: PrimalArgs, M, F: Function<A, M>>(
    f: F,
    primals: impl Primals<A>,
) -> (F::Output, Vjp<A::Primals, F::Output>) {
    let loc = Loc::caller();
    let scope = format!("vjp({})", f.name());
    let primals = loc.scope(|| primals.tree());
    let f = |primals| (f.apply(A::from_primals(primals)), ());
    let (outputs, (), pullback) = vjp_staged(scope, f, &primals, loc);
    (outputs, pullback)
}

/// As [`vjp`], for a function that also returns values that are not differentiated.
#[track_caller]
pub fn vjp_aux<A: PrimalArgs, O: Tree, X: Tree, M, F: Function<A, M, Output = (O, X)>>(
    f: F,
    primals: impl Primals<A>,
) -> (O, X, Vjp<A::Primals, O>) {
    let loc = Loc::caller();
    let primals = loc.scope(|| primals.tree());
    let scope = format!("vjp({})", f.name());
    vjp_staged(scope, |primals| f.apply(A::from_primals(primals)), &primals, loc)
}

pub(super) fn vjp_staged<P: Tree, O: Tree, X: Tree>(
    scope: String,
    f: impl FnOnce(P) -> (O, X),
    primals: &P,
    loc: Loc,
) -> (O, X, Vjp<P, O>) {
    let (outputs, aux, map) = linearize_staged(scope, f, primals);
    let pullback = Vjp::new(template_of(primals), template_of(&outputs), map, loc);
    (outputs, aux, pullback)
}

/// Options of [`grad_with`](super::grad_with) and its variants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GradOptions {
    /// Accepts leaves of integer or boolean dtype in the first argument, such as counters and
    /// tables of a model. Their gradients are zeros of their dtype. False by default.
    pub allow_int: bool,
    /// Differentiates a holomorphic function: all inputs and outputs are complex, and the result is
    /// the complex derivative. False by default.
    pub holomorphic: bool,
}

/// A call of `grad` or one of its variants.
pub(super) struct GradCall {
    /// The name of the variant, for errors.
    transform: &'static str,
    /// The scope of the traced function.
    scope: String,
    options: GradOptions,
    loc: Loc,
}

impl GradCall {
    /// Describes a call of `transform` on the function called `name`.
    pub(super) fn new(
        transform: &'static str,
        name: &str,
        options: GradOptions,
        loc: Loc,
    ) -> GradCall {
        GradCall { transform, scope: format!("grad({name})"), options, loc }
    }

    /// Returns the value, the auxiliary values and the gradient of a scalar function, in one stage.
    pub(super) fn apply<P: Tree, X: Tree>(
        &self,
        f: impl FnOnce(P) -> (Array, X),
        primals: &P,
    ) -> (Array, X, P) {
        expect_inexact(self.transform, primals, self.options, self.loc);
        expect_holomorphic(self.transform, primals, self.options, self.loc);
        staged(|| {
            let linearize = || linearize_call(self.scope.clone(), f, primals);
            let (value, aux, map) = self.loc.scope(linearize);
            let gradient = self.gradient(&value, &map, &leaves_of(primals));
            (value, aux, rebuild(primals, gradient))
        })
    }

    fn gradient(&self, value: &Array, map: &LinearMap, primals: &[Array]) -> Vec<Array> {
        expect_scalar_output(self.transform, value, self.options, self.loc);
        let one = || fill_of(Scalar::Int(1), value.aval());
        let seed = self.loc.scope(one);
        map.pull_back_to(&[Tangent::Dense(seed)], primals)
    }
}
