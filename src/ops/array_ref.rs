//! Mutable references to arrays: [`new_ref`] and the methods of [`ArrayRef`].

use super::indexing::Index;
use crate::core::trace::RefEnd;
use crate::core::{Array, ArrayRef, Aval, Loc, RefKind, RuleError, promote, trace};
use crate::primitives::{ArrayLike, Like, add, broadcast_to, convert_to, fill_of, zeros_of};

/// Creates a mutable reference to an array, with this initial value.
///
/// [`ArrayRef::get`] reads the value or a part of it, [`ArrayRef::set`], [`ArrayRef::swap`] and
/// [`ArrayRef::addupdate`] change it, in the order of the program. Compiled programs contain no
/// references: the value becomes an operand and a result.
///
/// ```
/// use oxidax::prelude::*;
/// let r = new_ref(&zeros([3]));
/// r.set(i![1], 5.0);
/// r.addupdate(i![..], 1.0);
/// assert_eq!(r.get(i![1..]).to_vec::<f32>()?, [6.0, 1.0]);
/// assert_eq!(freeze(&r).to_vec::<f32>()?, [1.0, 6.0, 1.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Functions under trace
///
/// A function under any transform may create references. Values that are written and read again
/// have their derivatives.
///
/// ```
/// use oxidax::prelude::*;
/// let cube_sum = |x: &Array| {
///     let total = new_ref(0.0);
///     scan(|(), x: Array| (total.addupdate(i![], &x * &x * &x), ()), (), x);
///     total.get(i![])
/// };
/// let x = Array::from_slice(&[1.0f32, 2.0], [2])?;
/// assert_eq!(grad(cube_sum)(&x).to_vec::<f32>()?, [3.0, 12.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// References from outside are used as follows:
///
/// | function | reads | writes |
/// |-|-|-|
/// | [`jit`](crate::jit::jit()), captured or an argument | the value at each call | are there after each call |
/// | bodies of [`scan`](crate::control_flow::scan()), [`fori_loop`](crate::control_flow::fori_loop()), [`map`](crate::control_flow::map()) and [`while_loop`](crate::control_flow::while_loop()) | the value at each step | pass from step to step |
/// | branches of [`cond`](crate::control_flow::cond()) and [`switch`](crate::control_flow::switch), functions under [`remat`](crate::control_flow::remat) | yes | yes |
/// | [`grad`](crate::transforms::grad), [`vjp`](crate::transforms::vjp()), [`jvp`](crate::transforms::jvp()), [`linearize`](crate::transforms::linearize()), captured | as constants | of values without derivatives: `stop_gradient` them, or create the reference with [`RefKind::NoGrad`] |
/// | [`vmap`](crate::transforms::vmap()), captured or an unmapped argument | yes | of values that do not depend on the batch |
/// | [`vmap`](crate::transforms::vmap()), a mapped argument | each example its part | each example its part |
/// | functions with user-defined rules, solvers, `shard_map`, `map_with` in batches, `make_program` | yes | an error |
/// | rules of `custom_vjp` and the like, functions that are lowered ahead | an error | an error |
///
/// ```
/// use oxidax::prelude::*;
/// let calls = new_ref(0);
/// let counted = calls.clone();
/// let step = jit(move |x: Array| {
///     counted.addupdate(i![], 1);
///     x * 2.0
/// });
/// step.call(ones([2]))?;
/// step.call(ones([2]))?;
/// assert_eq!(calls.get(i![]).item::<i32>()?, 2);
/// assert_eq!(step.stats().compiles, 1);
/// // As an argument.
/// let push = jit(|r: ArrayRef, x: Array| r.set(i![0], x));
/// let r = new_ref(&zeros([2]));
/// push.call(&r, full([], 3.0))?;
/// assert_eq!(r.get(i![]).to_vec::<f32>()?, [3.0, 0.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// A function does not return references, and gets each of them once. A reference does not end
/// inside of a function that it is outside of.
#[doc(alias = "mutable_array")]
#[doc(alias = "Variable")]
#[track_caller]
pub fn new_ref(initial: impl ArrayLike) -> ArrayRef {
    new_ref_with(initial, RefOptions::default())
}

/// Options of [`new_ref_with`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefOptions {
    /// The derivatives of what is written.
    pub kind: RefKind,
}

/// As [`new_ref`], with options.
///
/// ```
/// use oxidax::prelude::*;
/// let largest = new_ref_with(0.0, RefOptions { kind: RefKind::NoGrad });
/// let loss = |x: &Array| {
///     let y = x * x;
///     largest.set(i![], y.max());
///     y.sum()
/// };
/// grad(loss)(&Array::from_slice(&[1.0f32, -3.0], [2])?);
/// assert_eq!(largest.get(i![]).item::<f32>()?, 9.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn new_ref_with(initial: impl ArrayLike, options: RefOptions) -> ArrayRef {
    let loc = Loc::caller();
    let initial = loc.scope(|| strong(&initial.to_array()));
    ArrayRef::create(initial, options.kind, loc)
}

/// Creates a mutable reference to an array of this type without an initial value. Elements are zero
/// until they are written, as programs must not depend on them.
///
/// ```
/// use oxidax::prelude::*;
/// let r = empty_ref(Aval::new(DType::F32, [2]));
/// r.set(i![..], 3.0);
/// assert_eq!(freeze(&r).to_vec::<f32>()?, [3.0, 3.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn empty_ref(aval: impl Into<Aval>) -> ArrayRef {
    let loc = Loc::caller();
    let initial = loc.scope(|| zeros_of(&aval.into().strong()));
    ArrayRef::create(initial, RefKind::default(), loc)
}

/// Ends a reference and returns its final value. The reference and its clones cannot be used after
/// that.
///
/// Throws `Op` (value) if it has ended, and inside of a function under trace for a reference from
/// outside.
#[track_caller]
pub fn freeze(r: &ArrayRef) -> Array {
    r.end(RefEnd::Freeze, Loc::caller())
}

/// Ends a reference. The reference and its clones cannot be used after that.
///
/// Throws as [`freeze`] does.
#[track_caller]
pub fn free_ref(r: &ArrayRef) {
    r.end(RefEnd::Free, Loc::caller());
}

fn strong(x: &Array) -> Array {
    if x.aval().weak { convert_to(x, x.dtype(), false) } else { x.clone() }
}

/// An update of elements.
#[derive(Clone, Copy)]
enum Update {
    Set,
    Add,
}

impl Update {
    fn name(self) -> &'static str {
        match self {
            Update::Set => "set",
            Update::Add => "addupdate",
        }
    }
}

/// Reads and writes. An index is a list made by [`i!`](crate::i), as for
/// [`Array::index`](crate::core::Array::index); an empty one is for all elements.
impl ArrayRef {
    /// Returns the elements at an index.
    ///
    /// Throws `Op` for a static index out of range and for a reference that has ended, `Tracer`
    /// outside of the traced function that created it.
    #[doc(alias = "ref_get")]
    #[track_caller]
    pub fn get(&self, indices: impl AsRef<[Index]>) -> Array {
        let loc = Loc::caller();
        let value = self.read("get", loc);
        loc.scope(|| elements(&value, indices.as_ref()))
    }

    /// Replaces the elements at an index. The values broadcast to their shape.
    ///
    /// Throws as [`ArrayRef::get`] does, and `Op` (dtype) for values of another dtype.
    #[doc(alias = "ref_set")]
    #[track_caller]
    pub fn set(&self, indices: impl AsRef<[Index]>, values: impl ArrayLike) {
        let loc = Loc::caller();
        let value = self.read("set", loc);
        self.update(&value, Update::Set, indices.as_ref(), values.like(), loc);
    }

    /// Replaces the elements at an index, and returns those before. Throws as [`ArrayRef::set`]
    /// does.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let r = new_ref(&arange(4));
    /// assert_eq!(r.swap(i![3], 10).item::<i32>()?, 3);
    /// assert_eq!(r.get(i![]).to_vec::<i32>()?, [0, 1, 2, 10]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "ref_swap")]
    #[track_caller]
    pub fn swap(&self, indices: impl AsRef<[Index]>, values: impl ArrayLike) -> Array {
        let loc = Loc::caller();
        let value = self.read("swap", loc);
        let before = loc.scope(|| elements(&value, indices.as_ref()));
        self.update(&value, Update::Set, indices.as_ref(), values.like(), loc);
        before
    }

    /// Adds to the elements at an index, once for each occurrence of an element. Throws as
    /// [`ArrayRef::set`] does.
    #[doc(alias = "ref_addupdate")]
    #[doc(alias = "add_assign")]
    #[track_caller]
    pub fn addupdate(&self, indices: impl AsRef<[Index]>, values: impl ArrayLike) {
        let loc = Loc::caller();
        let value = self.read("addupdate", loc);
        self.update(&value, Update::Add, indices.as_ref(), values.like(), loc);
    }

    fn update(&self, value: &Array, update: Update, indices: &[Index], values: Like<'_>, loc: Loc) {
        self.expect_dtype(update, values, loc);
        let updated = loc.scope(|| {
            let updated = match update {
                Update::Set if is_whole(indices) => broadcast_like(value, values),
                Update::Set => value.at(indices).set(values),
                Update::Add if is_whole(indices) => add(value, broadcast_like(value, values)),
                Update::Add => value.at(indices).add(values),
            };
            match self.kind() {
                RefKind::Differentiable => strong(&updated),
                RefKind::NoGrad => strong(&crate::primitives::stop_gradient(&updated)),
            }
        });
        self.write(updated, update.name(), loc);
    }

    /// Throws `Op` (dtype) for values that do not take the dtype of the reference.
    fn expect_dtype(&self, update: Update, values: Like<'_>, loc: Loc) {
        let (dtype, weak) = match values {
            Like::Array(x) => (x.dtype(), x.aval().weak),
            Like::Scalar(number) => (number.default_dtype(), true),
        };
        let own = self.dtype();
        let fits = match weak {
            false => dtype == own,
            true => promote((own, false), (dtype, true)).is_some_and(|(joint, _)| joint == own),
        };
        if !fits {
            let message = format!("the reference has {}, the value {dtype}", self.aval());
            let error =
                RuleError::dtype(message).help(format!("convert it: `astype(DType::{own:?})`"));
            trace::throw_rule(update.name(), error, &[], loc);
        }
    }
}

/// Returns true for an index of all elements.
fn is_whole(indices: &[Index]) -> bool {
    let is_full = |index: &Index| {
        matches!(index, Index::Ellipsis | Index::Slice { start: None, stop: None, step: 1 })
    };
    indices.iter().all(is_full)
}

#[track_caller]
fn elements(value: &Array, indices: &[Index]) -> Array {
    if indices.is_empty() { value.clone() } else { value.at(indices).get() }
}

/// Broadcasts values to the type of `x`.
#[track_caller]
fn broadcast_like(x: &Array, values: Like<'_>) -> Array {
    match values {
        Like::Scalar(number) => fill_of(number, &x.aval().strong()),
        Like::Array(values) if values.shape() == x.shape() => convert_to(values, x.dtype(), false),
        Like::Array(values) => {
            let fits = values.shape().broadcast(x.shape()).as_ref() == Some(x.shape());
            if !fits || values.rank() > x.rank() {
                let message = format!("values {} do not broadcast to {}", values.aval(), x.aval());
                trace::throw_operands("set", RuleError::shape(message), &[x, values]);
            }
            broadcast_to(&convert_to(values, x.dtype(), false), x.shape())
        }
    }
}
