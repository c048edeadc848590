//! Axes and options of reductions.

use crate::core::{Array, DType, RuleError, Scalar, Shape, trace};
use crate::primitives::{
    ArrayLike, Like, broadcast_to, convert_to, reshape, resolve_axes, scalar, transpose, where_,
};

/// Axes of a reduction: one, several or all. [`Axes::keepdims`] keeps them with size 1.
///
/// Converts from an axis or a list of axes; negative ones count from the end. [`axes`] makes the
/// conversion explicit, so that options can follow:
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
    /// `None` stands for all axes.
    list: Option<Vec<isize>>,
    keepdims: bool,
}

impl Axes {
    /// Every axis.
    pub fn all() -> Axes {
        Axes { list: None, keepdims: false }
    }

    /// Keeps the reduced axes with size 1, so that the result broadcasts against the operand.
    pub fn keepdims(self) -> Axes {
        Axes { keepdims: true, ..self }
    }

    /// Reduces only the elements at which `mask` is true. See [`Reduction::where_`].
    #[doc(alias = "where")]
    pub fn where_(self, mask: &Array) -> Reduction {
        Reduction::from(self).where_(mask)
    }

    /// Starts the reduction with `value`. See [`Reduction::initial`].
    pub fn initial(self, value: impl ArrayLike) -> Reduction {
        Reduction::from(self).initial(value)
    }

    /// Sums in `dtype`. See [`Reduction::dtype`].
    pub fn dtype(self, dtype: DType) -> Reduction {
        Reduction::from(self).dtype(dtype)
    }

    /// Divides by `n - ddof` in a variance or standard deviation. See [`Reduction::ddof`].
    pub fn ddof(self, ddof: impl Into<f64>) -> Reduction {
        Reduction::from(self).ddof(ddof)
    }

    /// Returns the axes as they were given; `None` for all of them.
    pub(super) fn list(&self) -> Option<&[isize]> {
        self.list.as_deref()
    }

    /// Returns the axes of `x`, sorted.
    #[track_caller]
    pub(super) fn resolve(&self, name: &str, x: &Array) -> Vec<usize> {
        match &self.list {
            None => (0..x.rank()).collect(),
            Some(list) => resolve_axes(name, x, list),
        }
    }

    /// Restores the reduced axes of `reduced` with size 1 if `keepdims` is set. `reduced` is `x`
    /// without these axes.
    #[track_caller]
    pub(super) fn restore(&self, name: &str, x: &Array, reduced: &Array) -> Array {
        if self.keepdims { reshape(reduced, self.result_shape(name, x)) } else { reduced.clone() }
    }

    /// Returns the shape of `x` reduced along these axes.
    #[track_caller]
    pub(super) fn result_shape(&self, name: &str, x: &Array) -> Shape {
        let axes = self.resolve(name, x);
        let size = |(axis, &size): (usize, &usize)| {
            if axes.contains(&axis) { self.keepdims.then_some(1) } else { Some(size) }
        };
        x.shape().iter().enumerate().filter_map(size).collect()
    }

    /// Moves these axes of `x` to the end and flattens them into one.
    #[track_caller]
    pub(super) fn flattened_last(&self, name: &str, x: &Array) -> Array {
        let reduced = self.resolve(name, x);
        let free: Vec<usize> = (0..x.rank()).filter(|axis| !reduced.contains(axis)).collect();
        let mut shape: Vec<usize> = free.iter().map(|&axis| x.shape()[axis]).collect();
        shape.push(reduced.iter().map(|&axis| x.shape()[axis]).product());
        let order: Vec<usize> = free.into_iter().chain(reduced).collect();
        reshape(&transpose(x, &order), shape)
    }
}

/// [`Axes`] and options of a reduction: a mask, an initial value, a dtype and `ddof`. Converts from
/// axes. A method throws `Op` (unsupported) for an option that it does not take.
///
/// | methods | options |
/// |-|-|
/// | `sum_axes`, `prod_axes` | `where_`, `initial`, `dtype` |
/// | `max_axes`, `min_axes` | `initial`, and `where_` together with `initial` |
/// | `var_axes`, `std_axes` | `where_`, `ddof`, `dtype` |
/// | `mean_axes` | `where_`, `dtype` |
/// | `all_axes`, `any_axes` | `where_` |
///
/// Masked elements affect neither the result nor its gradient, whatever their values.
///
/// ```
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, f32::NAN, 4.0], [3])?;
/// let finite = isfinite(&x);
/// assert_eq!(x.mean_axes(axes(0).where_(&finite)).item::<f32>()?, 2.5);
/// assert_eq!(x.max_axes(axes(0).where_(&finite).initial(0.0)).item::<f32>()?, 4.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reduction {
    pub(super) axes: Axes,
    pub(super) mask: Option<Array>,
    pub(super) initial: Option<Array>,
    pub(super) ddof: f64,
    pub(super) dtype: Option<DType>,
}

impl<A: Into<Axes>> From<A> for Reduction {
    fn from(axes: A) -> Reduction {
        Reduction { axes: axes.into(), mask: None, initial: None, ddof: 0.0, dtype: None }
    }
}

impl Reduction {
    /// Reduces only the elements at which `mask` is true. The mask is `bool` and broadcasts to the
    /// operand.
    #[doc(alias = "where")]
    pub fn where_(self, mask: &Array) -> Reduction {
        Reduction { mask: Some(mask.clone()), ..self }
    }

    /// Starts the reduction with `value`, a scalar that is converted to the operand's dtype.
    pub fn initial(self, value: impl ArrayLike) -> Reduction {
        let initial = match value.like() {
            Like::Array(value) => value.clone(),
            Like::Scalar(value) => scalar(value),
        };
        Reduction { initial: Some(initial), ..self }
    }

    /// Divides by `n - ddof` for `n` elements in a variance or standard deviation. 0, the default,
    /// gives the variance of a population; 1 gives the unbiased estimate from a sample.
    pub fn ddof(self, ddof: impl Into<f64>) -> Reduction {
        Reduction { ddof: ddof.into(), ..self }
    }

    /// Converts the operand to `dtype` before the reduction, and gives the result that dtype. By
    /// default sums of integers below 32 bits have 32 bits; the dtype of the operand keeps its
    /// width. Floats of 16 bits and less are accumulated in `f32` all the same.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let x = Array::from_slice(&[200u8, 100], [2])?;
    /// assert_eq!(x.sum_axes(axes(0).dtype(DType::U8)).item::<u8>()?, 44);
    /// assert_eq!(x.mean_axes(axes(0).dtype(DType::F64)).item::<f64>()?, 150.0);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[doc(alias = "promote_integers")]
    pub fn dtype(self, dtype: DType) -> Reduction {
        Reduction { dtype: Some(dtype), ..self }
    }

    /// Keeps the reduced axes with size 1, so that the result broadcasts against the operand.
    pub fn keepdims(self) -> Reduction {
        Reduction { axes: self.axes.keepdims(), ..self }
    }

    /// Returns the mask, broadcast to `x`. Throws `Op` if it is not `bool` or does not broadcast.
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

    /// Replaces the masked elements of `x` by `neutral`.
    #[track_caller]
    pub(super) fn masked(&self, name: &str, x: &Array, neutral: Scalar) -> Array {
        match self.mask(name, x) {
            Some(mask) => where_(&mask, x, neutral),
            None => x.clone(),
        }
    }

    /// Combines `reduced` with the initial value, if there is one.
    #[track_caller]
    pub(super) fn with_initial(
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

    /// Throws if an initial value is set.
    #[track_caller]
    pub(super) fn reject_initial(&self, name: &str) {
        if let Some(initial) = &self.initial {
            let message = format!("does not take an initial value, got {}", initial.aval());
            let error = RuleError::unsupported(message)
                .help("`sum_axes`, `prod_axes`, `max_axes` and `min_axes` take it");
            trace::throw_operands(name, error, &[initial]);
        }
    }

    /// Throws if a dtype is set.
    #[track_caller]
    pub(super) fn reject_dtype(&self, name: &str) {
        if let Some(dtype) = self.dtype {
            let error = RuleError::unsupported(format!("does not take a dtype, got {dtype}"))
                .help("convert the result with `astype`");
            trace::throw_operands(name, error, &[]);
        }
    }

    /// Throws if `ddof` is set.
    #[track_caller]
    pub(super) fn reject_ddof(&self, name: &str) {
        if self.ddof != 0.0 {
            let error = RuleError::unsupported(format!("does not take ddof, got {}", self.ddof))
                .help("`var_axes` and `std_axes` take it");
            trace::throw_operands(name, error, &[]);
        }
    }
}

/// Converts an axis or a list of axes to [`Axes`], so that options can follow:
/// `axes(-1).keepdims()`.
pub fn axes(axes: impl Into<Axes>) -> Axes {
    axes.into()
}

/// Converts resolved axes to the signed axes that primitives take.
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
