//! Which axes a reduction goes along.

use crate::core::{Array, RuleError, Scalar, Shape, trace};
use crate::primitives::{
    ArrayLike, Like, broadcast_to, convert_to, reshape, resolve_axes, scalar, transpose, where_,
};

/// The axes of a reduction: one, several, or all, and whether they stay as axes of size 1.
///
/// Made from an index or a list of them; negative ones count from the back. [`axes`] adds what an
/// index cannot say:
///
/// ```
/// use oxidax::prelude::*;
/// let x = Aval::new(DType::F32, [2, 3, 4]);
/// let shape = |f: fn(&Array) -> Array| eval_shape(move |x: Array| f(&x), x.clone());
/// assert_eq!(shape(|x| x.sum_axes(-1))?.aval().to_string(), "f32[2,3]");
/// assert_eq!(shape(|x| x.sum_axes([0, -1]))?.aval().to_string(), "f32[3]");
/// assert_eq!(shape(|x| x.sum_axes(axes(-1).keepdims()))?.aval().to_string(), "f32[2,3,1]");
/// assert_eq!(shape(|x| x.sum_axes(Axes::all().keepdims()))?.aval().to_string(), "f32[1,1,1]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axes {
    /// `None` for all.
    list: Option<Vec<isize>>,
    keepdims: bool,
}

impl Axes {
    /// Every axis.
    pub fn all() -> Axes {
        Axes { list: None, keepdims: false }
    }

    /// The same axes, which stay with size 1, so that the result broadcasts against the operand.
    pub fn keepdims(self) -> Axes {
        Axes { keepdims: true, ..self }
    }

    /// The same axes, along which only the elements count where `mask` is true.
    pub fn where_(self, mask: &Array) -> Over {
        Over::from(self).where_(mask)
    }

    /// The same axes, whose elements are combined with `value` besides.
    pub fn initial(self, value: impl ArrayLike) -> Over {
        Over::from(self).initial(value)
    }

    /// The axes of `x`, sorted.
    #[track_caller]
    pub(super) fn resolve(&self, name: &str, x: &Array) -> Vec<usize> {
        match &self.list {
            None => (0..x.rank()).collect(),
            Some(list) => resolve_axes(name, x, list),
        }
    }

    /// `reduced`, which is `x` without these axes, with the axes put back if they are kept.
    #[track_caller]
    pub(super) fn restore(&self, name: &str, x: &Array, reduced: &Array) -> Array {
        match self.keepdims {
            true => reshape(reduced, self.result_shape(name, x)),
            false => reduced.clone(),
        }
    }

    /// The shape of `x` reduced along these axes.
    #[track_caller]
    pub(super) fn result_shape(&self, name: &str, x: &Array) -> Shape {
        let axes = self.resolve(name, x);
        let size = |(axis, &size): (usize, &usize)| match axes.contains(&axis) {
            true => self.keepdims.then_some(1),
            false => Some(size),
        };
        x.shape().iter().enumerate().filter_map(size).collect()
    }

    /// `x` with these axes at the end, flattened into one.
    #[track_caller]
    pub(super) fn flattened_last(&self, name: &str, x: &Array) -> Array {
        let over = self.resolve(name, x);
        let kept: Vec<usize> = (0..x.rank()).filter(|axis| !over.contains(axis)).collect();
        let mut shape: Vec<usize> = kept.iter().map(|&axis| x.shape()[axis]).collect();
        shape.push(over.iter().map(|&axis| x.shape()[axis]).product());
        let order: Vec<usize> = kept.into_iter().chain(over).collect();
        reshape(&transpose(x, &order), shape)
    }
}

/// What a reduction goes over: [`Axes`], which elements count, and what it begins with. Made from axes; what
/// a method does not know it refuses.
///
/// | | takes |
/// |-|-|
/// | `sum_axes`, `prod_axes` | `where_`, `initial` |
/// | `max_axes`, `min_axes` | `where_` together with `initial`, `initial` |
/// | `mean_axes`, `var_axes`, `std_axes`, `all_axes`, `any_axes` | `where_` |
///
/// Elements that do not count have no part in the result, nor in its gradient, whatever they are.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, f32::NAN, 4.0], [3])?;
/// let there = isfinite(&x);
/// assert_eq!(x.mean_axes(axes(0).where_(&there)).item::<f32>()?, 2.5);
/// assert_eq!(x.max_axes(axes(0).where_(&there).initial(0.0)).item::<f32>()?, 4.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Over {
    pub(super) axes: Axes,
    pub(super) mask: Option<Array>,
    pub(super) initial: Option<Array>,
}

impl<A: Into<Axes>> From<A> for Over {
    fn from(axes: A) -> Over {
        Over { axes: axes.into(), mask: None, initial: None }
    }
}

impl Over {
    /// Only the elements count where `mask`, `bool` and broadcast to the operand, is true.
    pub fn where_(self, mask: &Array) -> Over {
        Over { mask: Some(mask.clone()), ..self }
    }

    /// The elements are combined with `value`, a scalar that takes the operand's dtype, besides.
    pub fn initial(self, value: impl ArrayLike) -> Over {
        let initial = match value.like() {
            Like::Array(value) => value.clone(),
            Like::Scalar(value) => scalar(value),
        };
        Over { initial: Some(initial), ..self }
    }

    /// The axes stay with size 1, so that the result broadcasts against the operand.
    pub fn keepdims(self) -> Over {
        Over { axes: self.axes.keepdims(), ..self }
    }

    /// Whether the reduction begins with something.
    pub(super) fn begins(&self) -> bool {
        self.initial.is_some()
    }

    /// The mask, broadcast to `x`. Throws `Op` if it is none.
    #[track_caller]
    pub(super) fn mask(&self, name: &str, x: &Array) -> Option<Array> {
        let mask = self.mask.as_ref()?;
        let fits =
            mask.dtype().is_bool() && mask.shape().broadcast(x.shape()).as_ref() == Some(x.shape());
        if !fits {
            let message = format!(
                "where_ takes booleans that broadcast to {}, got {}",
                x.shape(),
                mask.aval()
            );
            trace::throw_operands(name, RuleError::shape(message), &[x, mask]);
        }
        Some(broadcast_to(mask, x.shape()))
    }

    /// `x` with `neutral` where elements do not count.
    #[track_caller]
    pub(super) fn masked(&self, name: &str, x: &Array, neutral: Scalar) -> Array {
        match self.mask(name, x) {
            Some(mask) => where_(&mask, x, neutral),
            None => x.clone(),
        }
    }

    /// `reduced` combined with what the reduction begins with.
    #[track_caller]
    pub(super) fn begun(
        &self,
        name: &str,
        reduced: &Array,
        combine: impl FnOnce(&Array, &Array) -> Array,
    ) -> Array {
        let Some(initial) = &self.initial else { return reduced.clone() };
        if initial.rank() != 0 {
            let message = format!("initial must be a scalar, got {}", initial.aval());
            trace::throw_operands(name, RuleError::shape(message), &[initial]);
        }
        let initial = convert_to(initial, reduced.dtype(), reduced.aval().weak);
        combine(&broadcast_to(&initial, reduced.shape()), reduced)
    }

    /// Refuses an initial value, which `name` has no use for.
    #[track_caller]
    pub(super) fn without_initial(&self, name: &str) {
        if let Some(initial) = &self.initial {
            let message =
                format!("begins with nothing, so that initial {} has no place", initial.aval());
            let error = RuleError::unsupported(message)
                .help("`sum_axes`, `prod_axes`, `max_axes` and `min_axes` take it");
            trace::throw_operands(name, error, &[initial]);
        }
    }
}

/// Axes from an index or a list of them, for [`Axes::keepdims`], [`Axes::where_`] and [`Axes::initial`].
pub fn axes(axes: impl Into<Axes>) -> Axes {
    axes.into()
}

/// Resolved axes as they are given to primitives.
pub(super) fn signed(axes: &[usize]) -> Vec<isize> {
    axes.iter().map(|&axis| axis as isize).collect()
}

impl From<isize> for Axes {
    fn from(axis: isize) -> Axes {
        Axes { list: Some(vec![axis]), keepdims: false }
    }
}

impl<const N: usize> From<[isize; N]> for Axes {
    fn from(axes: [isize; N]) -> Axes {
        Axes { list: Some(axes.to_vec()), keepdims: false }
    }
}

impl From<&[isize]> for Axes {
    fn from(axes: &[isize]) -> Axes {
        Axes { list: Some(axes.to_vec()), keepdims: false }
    }
}

impl From<Vec<isize>> for Axes {
    fn from(axes: Vec<isize>) -> Axes {
        Axes { list: Some(axes), keepdims: false }
    }
}
