//! Reductions as methods of [`Array`], with NumPy's dtypes and defaults.

use super::axes::{Axes, signed};
use crate::core::{Array, DType, RuleError, Scalar, trace};
use crate::primitives::{
    argmax, argmin, conj, convert_element_type, convert_to, div, fill_of, full_like, mul, ne, real,
    reduce_and, reduce_max, reduce_min, reduce_or, reduce_prod, reduce_sum, reshape, sqrt, sub,
};

/// The dtype in which a sum or product is taken, and that of its result: small integers become 32
/// bits wide, 16-bit floats are summed in `f32`.
fn summing(x: &Array) -> (DType, DType) {
    let result = match x.dtype() {
        DType::Bool => DType::I32,
        dtype if dtype.is_signed() && dtype.bits() < 32 => DType::I32,
        dtype if dtype.is_unsigned() && dtype.bits() < 32 => DType::U32,
        dtype => dtype,
    };
    (wide(result), result)
}

/// `f32` for floats of 16 bits and less, else the dtype itself.
fn wide(dtype: DType) -> DType {
    if dtype.is_float() && dtype.bits() <= 16 { DType::F32 } else { dtype }
}

/// The float dtype of a mean: `f32` for integers.
fn averaged(dtype: DType) -> DType {
    if dtype.is_inexact() { dtype } else { DType::F32 }
}

/// Refuses to look for an extremum where there is no element.
#[track_caller]
fn not_empty(name: &str, x: &Array, axes: &[usize]) {
    if let Some(axis) = axes.iter().find(|&&axis| x.shape()[axis] == 0) {
        let message = format!("axis {axis} is empty, and nothing is the {name} of no elements");
        trace::throw_operands(name, RuleError::shape(message), &[x]);
    }
}

/// How many elements each result of a reduction takes together.
fn count(x: &Array, axes: &[usize]) -> usize {
    axes.iter().map(|&axis| x.shape()[axis]).product()
}

/// Reductions. Each comes over all axes (`x.sum()`) and over some (`x.sum_axes(-1)`,
/// `x.sum_axes([0, 1])`, `x.sum_axes(axes(-1).keepdims())`; see [`Axes`]).
impl Array {
    /// Sum of all elements. See [`Array::sum_axes`].
    #[track_caller]
    pub fn sum(&self) -> Array {
        self.sum_axes(Axes::all())
    }

    /// Sum along `axes`; 0 over an empty axis. Booleans and integers below 32 bits sum to 32 bits;
    /// 16-bit floats are summed in `f32` and rounded once.
    #[track_caller]
    pub fn sum_axes(&self, axes: impl Into<Axes>) -> Array {
        let axes = axes.into();
        let over = signed(&axes.resolve("sum", self));
        let (within, result) = summing(self);
        let weak = self.aval().weak;
        let sum = reduce_sum(&convert_to(self, within, weak), &over);
        axes.restore("sum", self, &convert_to(&sum, result, weak))
    }

    /// Product of all elements. See [`Array::prod_axes`].
    #[track_caller]
    pub fn prod(&self) -> Array {
        self.prod_axes(Axes::all())
    }

    /// Product along `axes`; 1 over an empty axis. Dtypes as in [`Array::sum_axes`].
    #[track_caller]
    pub fn prod_axes(&self, axes: impl Into<Axes>) -> Array {
        let axes = axes.into();
        let over = signed(&axes.resolve("prod", self));
        let (within, result) = summing(self);
        let weak = self.aval().weak;
        let product = reduce_prod(&convert_to(self, within, weak), &over);
        axes.restore("prod", self, &convert_to(&product, result, weak))
    }

    /// Largest element. See [`Array::max_axes`].
    #[track_caller]
    pub fn max(&self) -> Array {
        self.max_axes(Axes::all())
    }

    /// Largest element along `axes`; NaN if there is one. Equal largest elements share the gradient.
    /// Throws `Op` (shape) over an empty axis.
    #[doc(alias = "amax")]
    #[track_caller]
    pub fn max_axes(&self, axes: impl Into<Axes>) -> Array {
        let axes = axes.into();
        let over = axes.resolve("max", self);
        not_empty("max", self, &over);
        axes.restore("max", self, &reduce_max(self, &signed(&over)))
    }

    /// Smallest element. See [`Array::min_axes`].
    #[track_caller]
    pub fn min(&self) -> Array {
        self.min_axes(Axes::all())
    }

    /// Smallest element along `axes`; NaN if there is one. Equal smallest elements share the
    /// gradient. Throws `Op` (shape) over an empty axis.
    #[doc(alias = "amin")]
    #[track_caller]
    pub fn min_axes(&self, axes: impl Into<Axes>) -> Array {
        let axes = axes.into();
        let over = axes.resolve("min", self);
        not_empty("min", self, &over);
        axes.restore("min", self, &reduce_min(self, &signed(&over)))
    }

    /// Mean of all elements. See [`Array::mean_axes`].
    #[track_caller]
    pub fn mean(&self) -> Array {
        self.mean_axes(Axes::all())
    }

    /// Mean along `axes`; NaN over an empty axis. Integers have an `f32` mean; 16-bit floats are
    /// summed in `f32`.
    #[track_caller]
    pub fn mean_axes(&self, axes: impl Into<Axes>) -> Array {
        let axes = axes.into();
        let over = axes.resolve("mean", self);
        let result = averaged(self.dtype());
        let weak = self.aval().weak;
        let sum = reduce_sum(&convert_to(self, wide(result), weak), &signed(&over));
        let mean = div(&sum, Scalar::Float(count(self, &over) as f64));
        axes.restore("mean", self, &convert_to(&mean, result, weak))
    }

    /// Variance of all elements. See [`Array::var_axes`].
    #[track_caller]
    pub fn var(&self) -> Array {
        self.var_axes(Axes::all(), 0.0)
    }

    /// Variance along `axes`: the sum of squared distances from the mean, over `n - ddof` for `n`
    /// elements; NaN if that is not positive. `ddof` 0 is the variance of a population, 1 the
    /// unbiased estimate from a sample. Of complex numbers it is real.
    #[track_caller]
    pub fn var_axes(&self, axes: impl Into<Axes>, ddof: f64) -> Array {
        let axes = axes.into();
        let over = axes.resolve("var", self);
        let result = averaged(self.dtype()).real();
        let weak = self.aval().weak;
        let x = convert_to(self, wide(averaged(self.dtype())), weak);
        let mean = x.mean_axes(Axes::from(signed(&over)).keepdims());
        let centred = sub(&x, &mean);
        let squared = match centred.dtype().is_complex() {
            true => real(&mul(&centred, conj(&centred))),
            false => mul(&centred, &centred),
        };
        let n = count(self, &over) as f64 - ddof;
        let sum = reduce_sum(&squared, &signed(&over));
        let var = match n > 0.0 {
            true => div(&sum, Scalar::Float(n)),
            false => full_like(&sum, f64::NAN),
        };
        axes.restore("var", self, &convert_to(&var, result, weak))
    }

    /// Standard deviation of all elements. See [`Array::std_axes`].
    #[track_caller]
    pub fn std(&self) -> Array {
        self.std_axes(Axes::all(), 0.0)
    }

    /// Standard deviation along `axes`: the square root of [`Array::var_axes`].
    #[track_caller]
    pub fn std_axes(&self, axes: impl Into<Axes>, ddof: f64) -> Array {
        sqrt(&self.var_axes(axes, ddof))
    }

    /// Whether all elements are other than zero. See [`Array::all_axes`].
    #[track_caller]
    pub fn all(&self) -> Array {
        self.all_axes(Axes::all())
    }

    /// Whether all elements along `axes` are other than zero, as `bool`; true over an empty axis.
    #[track_caller]
    pub fn all_axes(&self, axes: impl Into<Axes>) -> Array {
        let axes = axes.into();
        let over = signed(&axes.resolve("all", self));
        axes.restore("all", self, &reduce_and(&self.truth(), &over))
    }

    /// Whether any element is other than zero. See [`Array::any_axes`].
    #[track_caller]
    pub fn any(&self) -> Array {
        self.any_axes(Axes::all())
    }

    /// Whether any element along `axes` is other than zero, as `bool`; false over an empty axis.
    #[track_caller]
    pub fn any_axes(&self, axes: impl Into<Axes>) -> Array {
        let axes = axes.into();
        let over = signed(&axes.resolve("any", self));
        axes.restore("any", self, &reduce_or(&self.truth(), &over))
    }

    /// `self != 0`.
    #[track_caller]
    fn truth(&self) -> Array {
        if self.dtype().is_bool() {
            self.clone()
        } else {
            ne(self, fill_of(Scalar::Int(0), self.aval()))
        }
    }

    /// How many elements are other than zero, as `i32`. See [`Array::count_nonzero_axes`].
    #[track_caller]
    pub fn count_nonzero(&self) -> Array {
        self.count_nonzero_axes(Axes::all())
    }

    /// How many elements along `axes` are other than zero, as `i32`.
    #[track_caller]
    pub fn count_nonzero_axes(&self, axes: impl Into<Axes>) -> Array {
        convert_element_type(&self.truth(), DType::I32).sum_axes(axes)
    }

    /// Index of the largest element of the flattened array, as `i32`. See [`Array::argmax_axis`].
    #[track_caller]
    pub fn argmax(&self) -> Array {
        argmax(&reshape(self, [self.size()]), 0)
    }

    /// Index of the largest element along `axis`, as `i32`: the first of equals, the first NaN if
    /// there is one. Throws `Op` (shape) over an empty axis.
    #[track_caller]
    pub fn argmax_axis(&self, axis: isize) -> Array {
        argmax(self, axis)
    }

    /// Index of the smallest element of the flattened array, as `i32`. See [`Array::argmin_axis`].
    #[track_caller]
    pub fn argmin(&self) -> Array {
        argmin(&reshape(self, [self.size()]), 0)
    }

    /// Index of the smallest element along `axis`, as `i32`: the first of equals, the first NaN if
    /// there is one. Throws `Op` (shape) over an empty axis.
    #[track_caller]
    pub fn argmin_axis(&self, axis: isize) -> Array {
        argmin(self, axis)
    }
}
