//! Reductions as methods of [`Array`], with NumPy's dtypes and defaults.

use super::axes::{Axes, Reduction, signed};
use crate::core::{Array, DType, RuleError, Scalar, trace};
use crate::primitives::{
    add, argmax, argmin, conj, convert_element_type, convert_to, div, fill_of, full_like, gt,
    highest, lowest, maximum, minimum, mul, ne, real, reduce_and, reduce_max, reduce_min,
    reduce_or, reduce_prod, reduce_sum, reshape, sqrt, sub, where_,
};

/// Returns the dtype in which a sum or product is accumulated, and the dtype of its result.
/// Integers below 32 bits are widened to 32; 16-bit floats are accumulated in `f32`.
fn sum_dtypes(x: &Array, dtype: Option<DType>) -> (DType, DType) {
    if let Some(dtype) = dtype {
        return (accumulator(dtype), dtype);
    }
    let result = match x.dtype() {
        DType::Bool => DType::I32,
        dtype if dtype.is_signed() && dtype.bits() < 32 => DType::I32,
        dtype if dtype.is_unsigned() && dtype.bits() < 32 => DType::U32,
        dtype => dtype,
    };
    (accumulator(result), result)
}

/// Returns `f32` for floats of 16 bits and less, else the dtype itself.
fn accumulator(dtype: DType) -> DType {
    if dtype.is_float() && dtype.bits() <= 16 { DType::F32 } else { dtype }
}

/// Returns the dtype of a mean: `f32` for integers, else the dtype itself.
fn mean_dtype(dtype: DType) -> DType {
    if dtype.is_inexact() { dtype } else { DType::F32 }
}

/// Throws if an axis is empty.
#[track_caller]
fn expect_elements(name: &str, x: &Array, axes: &[usize]) {
    if let Some(axis) = axes.iter().find(|&&axis| x.shape()[axis] == 0) {
        let message = format!("axis {axis} is empty, and no elements have no {name}");
        trace::throw_operands(name, RuleError::shape(message), &[x]);
    }
}

/// Returns the operand of a maximum or minimum, with masked elements replaced by `neutral`.
#[track_caller]
fn extremum_operand(
    name: &str,
    x: &Array,
    over: &Reduction,
    axes: &[usize],
    neutral: Scalar,
) -> Array {
    if over.initial.is_some() {
        return over.masked(name, x, neutral);
    }
    if let Some(mask) = over.mask(name, x) {
        let message =
            format!("a masked {name} needs an initial value, since all elements may be masked");
        let error =
            RuleError::unsupported(message).help("add one: `axes(…).where_(&mask).initial(…)`");
        trace::throw_operands(name, error, &[x, &mask]);
    }
    expect_elements(name, x, axes);
    x.clone()
}

/// Number of elements that are reduced to one.
enum Count {
    Static(f64),
    /// The number of unmasked elements, in the dtype of the sums.
    Masked(Array),
}

impl Count {
    #[track_caller]
    fn of(name: &str, x: &Array, over: &Reduction, axes: &[usize]) -> Count {
        match over.mask(name, x) {
            None => Count::Static(axes.iter().map(|&axis| x.shape()[axis] as f64).product()),
            Some(mask) => {
                let ones = convert_element_type(&mask, x.dtype().real());
                Count::Masked(reduce_sum(&ones, &signed(axes)))
            }
        }
    }
}

/// Reductions over all axes (`x.sum()`) and over some (`x.sum_axes(-1)`, `x.sum_axes([0, 1])`,
/// `x.sum_axes(axes(-1).keepdims())`; see [`Axes`]). A mask, an initial value and `ddof` follow the
/// axes (`x.sum_axes(axes(-1).where_(&mask))`; see [`Reduction`]).
impl Array {
    /// Returns the sum of all elements. See [`Array::sum_axes`].
    #[track_caller]
    pub fn sum(&self) -> Array {
        self.sum_axes(Axes::all())
    }

    /// Returns the sum along `axes`; 0 over an empty axis. The sum of booleans and of integers
    /// below 32 bits has 32 bits. 16-bit floats are accumulated in `f32` and rounded once.
    #[track_caller]
    pub fn sum_axes(&self, over: impl Into<Reduction>) -> Array {
        let over = over.into();
        over.reject_ddof("sum");
        let axes = signed(&over.axes.resolve("sum", self));
        let (within, result) = sum_dtypes(self, over.dtype);
        let weak = self.aval().weak && over.dtype.is_none();
        let x = over.masked("sum", &convert_to(self, within, weak), Scalar::Int(0));
        let sum = over.with_initial("sum", &reduce_sum(&x, &axes), |a, b| add(a, b));
        over.axes.restore("sum", self, &convert_to(&sum, result, weak))
    }

    /// Returns the product of all elements. See [`Array::prod_axes`].
    #[track_caller]
    pub fn prod(&self) -> Array {
        self.prod_axes(Axes::all())
    }

    /// Returns the product along `axes`; 1 over an empty axis. Dtypes as in [`Array::sum_axes`].
    #[track_caller]
    pub fn prod_axes(&self, over: impl Into<Reduction>) -> Array {
        let over = over.into();
        over.reject_ddof("prod");
        let axes = signed(&over.axes.resolve("prod", self));
        let (within, result) = sum_dtypes(self, over.dtype);
        let weak = self.aval().weak && over.dtype.is_none();
        let x = over.masked("prod", &convert_to(self, within, weak), Scalar::Int(1));
        let product = over.with_initial("prod", &reduce_prod(&x, &axes), |a, b| mul(a, b));
        over.axes.restore("prod", self, &convert_to(&product, result, weak))
    }

    /// Returns the largest element. See [`Array::max_axes`].
    #[track_caller]
    pub fn max(&self) -> Array {
        self.max_axes(Axes::all())
    }

    /// Returns the largest element along `axes`; NaN if there is one. Equal largest elements share
    /// the gradient. Throws `Op` (shape) over an empty axis.
    #[doc(alias = "amax")]
    #[track_caller]
    pub fn max_axes(&self, over: impl Into<Reduction>) -> Array {
        let over = over.into();
        over.reject_ddof("max");
        over.reject_dtype("max");
        let axes = over.axes.resolve("max", self);
        let x = extremum_operand("max", self, &over, &axes, lowest(self.dtype()));
        let max = reduce_max(&x, &signed(&axes));
        let max = over.with_initial("max", &max, |a, b| maximum(a, b));
        over.axes.restore("max", self, &max)
    }

    /// Returns the smallest element. See [`Array::min_axes`].
    #[track_caller]
    pub fn min(&self) -> Array {
        self.min_axes(Axes::all())
    }

    /// Returns the smallest element along `axes`; NaN if there is one. Equal smallest elements
    /// share the gradient. Throws `Op` (shape) over an empty axis.
    #[doc(alias = "amin")]
    #[track_caller]
    pub fn min_axes(&self, over: impl Into<Reduction>) -> Array {
        let over = over.into();
        over.reject_ddof("min");
        over.reject_dtype("min");
        let axes = over.axes.resolve("min", self);
        let x = extremum_operand("min", self, &over, &axes, highest(self.dtype()));
        let min = reduce_min(&x, &signed(&axes));
        let min = over.with_initial("min", &min, |a, b| minimum(a, b));
        over.axes.restore("min", self, &min)
    }

    /// Returns the mean of all elements. See [`Array::mean_axes`].
    #[track_caller]
    pub fn mean(&self) -> Array {
        self.mean_axes(Axes::all())
    }

    /// Returns the mean along `axes`; NaN over an empty axis. The mean of integers is `f32`. 16-bit
    /// floats are accumulated in `f32`.
    #[track_caller]
    pub fn mean_axes(&self, over: impl Into<Reduction>) -> Array {
        let over = over.into();
        over.reject_ddof("mean");
        over.reject_initial("mean");
        let axes = over.axes.resolve("mean", self);
        let result = over.dtype.unwrap_or(mean_dtype(self.dtype()));
        let weak = self.aval().weak && over.dtype.is_none();
        let x = over.masked("mean", &convert_to(self, accumulator(result), weak), Scalar::Int(0));
        let sum = reduce_sum(&x, &signed(&axes));
        let mean = match Count::of("mean", &x, &over, &axes) {
            Count::Static(n) => div(&sum, Scalar::Float(n)),
            Count::Masked(n) => div(&sum, convert_to(&n, sum.dtype(), weak)),
        };
        over.axes.restore("mean", self, &convert_to(&mean, result, weak))
    }

    /// Returns the variance of all elements. See [`Array::var_axes`].
    #[track_caller]
    pub fn var(&self) -> Array {
        self.var_axes(Axes::all())
    }

    /// Returns the variance along `axes`: the sum of squared distances from the mean, divided by
    /// `n - ddof` for `n` elements; NaN if that is not positive. `ddof` is 0 unless set, as in
    /// `x.var_axes(axes(-1).ddof(1))`. The variance of complex numbers is real.
    #[track_caller]
    pub fn var_axes(&self, over: impl Into<Reduction>) -> Array {
        let over = over.into();
        over.reject_initial("var");
        let axes = over.axes.resolve("var", self);
        let within = over.dtype.unwrap_or(mean_dtype(self.dtype()));
        let result = within.real();
        let weak = self.aval().weak && over.dtype.is_none();
        let x = convert_to(self, accumulator(within), weak);
        // Masked elements are replaced first: otherwise their NaN would reach the gradient.
        let x = over.masked("var", &x, Scalar::Int(0));
        let mean_axes = Axes::from(signed(&axes)).keepdims();
        let mean =
            x.mean_axes(Reduction { axes: mean_axes, ddof: 0.0, dtype: None, ..over.clone() });
        let centred = over.masked("var", &sub(&x, &mean), Scalar::Int(0));
        let squared = if centred.dtype().is_complex() {
            real(mul(&centred, conj(&centred)))
        } else {
            mul(&centred, &centred)
        };
        let sum = reduce_sum(&squared, &signed(&axes));
        let var = match Count::of("var", &x, &over, &axes) {
            Count::Static(n) if n - over.ddof > 0.0 => div(&sum, Scalar::Float(n - over.ddof)),
            Count::Static(_) => full_like(&sum, f64::NAN),
            Count::Masked(n) => {
                let n = sub(&n, over.ddof);
                let enough = gt(&n, 0);
                where_(&enough, div(&sum, where_(&enough, n, 1)), f64::NAN)
            }
        };
        over.axes.restore("var", self, &convert_to(&var, result, weak))
    }

    /// Returns the standard deviation of all elements. See [`Array::std_axes`].
    #[track_caller]
    pub fn std(&self) -> Array {
        self.std_axes(Axes::all())
    }

    /// Returns the standard deviation along `axes`: the square root of [`Array::var_axes`].
    #[track_caller]
    pub fn std_axes(&self, over: impl Into<Reduction>) -> Array {
        sqrt(self.var_axes(over))
    }

    /// Returns true if no element is zero. See [`Array::all_axes`].
    #[track_caller]
    pub fn all(&self) -> Array {
        self.all_axes(Axes::all())
    }

    /// Returns, along `axes`, true if no element is zero; true over an empty axis.
    #[track_caller]
    pub fn all_axes(&self, over: impl Into<Reduction>) -> Array {
        let over = over.into();
        over.reject_ddof("all");
        over.reject_dtype("all");
        over.reject_initial("all");
        let axes = signed(&over.axes.resolve("all", self));
        let truth = over.masked("all", &self.truth(), Scalar::Bool(true));
        over.axes.restore("all", self, &reduce_and(&truth, &axes))
    }

    /// Returns true if any element is not zero. See [`Array::any_axes`].
    #[track_caller]
    pub fn any(&self) -> Array {
        self.any_axes(Axes::all())
    }

    /// Returns, along `axes`, true if any element is not zero; false over an empty axis.
    #[track_caller]
    pub fn any_axes(&self, over: impl Into<Reduction>) -> Array {
        let over = over.into();
        over.reject_ddof("any");
        over.reject_dtype("any");
        over.reject_initial("any");
        let axes = signed(&over.axes.resolve("any", self));
        let truth = over.masked("any", &self.truth(), Scalar::Bool(false));
        over.axes.restore("any", self, &reduce_or(&truth, &axes))
    }

    /// Returns `self != 0`.
    #[track_caller]
    fn truth(&self) -> Array {
        if self.dtype().is_bool() {
            self.clone()
        } else {
            ne(self, fill_of(Scalar::Int(0), self.aval()))
        }
    }

    /// Returns the number of elements that are not zero, as `i32`. See
    /// [`Array::count_nonzero_axes`].
    #[track_caller]
    pub fn count_nonzero(&self) -> Array {
        self.count_nonzero_axes(Axes::all())
    }

    /// Returns the number of elements along `axes` that are not zero, as `i32`.
    #[track_caller]
    pub fn count_nonzero_axes(&self, axes: impl Into<Axes>) -> Array {
        convert_element_type(&self.truth(), DType::I32).sum_axes(axes)
    }

    /// Returns the index of the largest element of the flattened array, as `i32`. See
    /// [`Array::argmax_axis`].
    #[track_caller]
    pub fn argmax(&self) -> Array {
        argmax(&reshape(self, [self.size()]), 0)
    }

    /// Returns the index of the largest element along `axis`, as `i32`: the first of equal
    /// elements, or the first NaN if there is one. `axes(-1).keepdims()` keeps the axis with size
    /// 1, and `Axes::all()` counts in the flattened array. Throws `Op` (shape) over an empty axis
    /// and for several axes.
    #[track_caller]
    pub fn argmax_axis(&self, axis: impl Into<Axes>) -> Array {
        let axes = axis.into();
        let (x, axis) = self.along_extremum("argmax", &axes);
        axes.restore("argmax", self, &argmax(&x, axis))
    }

    /// Returns the index of the smallest element of the flattened array, as `i32`. See
    /// [`Array::argmin_axis`].
    #[track_caller]
    pub fn argmin(&self) -> Array {
        argmin(&reshape(self, [self.size()]), 0)
    }

    /// Returns the index of the smallest element along `axis`, as `i32`: the first of equal
    /// elements, or the first NaN if there is one. `axes(-1).keepdims()` keeps the axis with size
    /// 1, and `Axes::all()` counts in the flattened array. Throws `Op` (shape) over an empty axis
    /// and for several axes.
    #[track_caller]
    pub fn argmin_axis(&self, axis: impl Into<Axes>) -> Array {
        let axes = axis.into();
        let (x, axis) = self.along_extremum("argmin", &axes);
        axes.restore("argmin", self, &argmin(&x, axis))
    }

    /// Returns the array and the axis along which an extremum is searched: the flattened array for
    /// all axes. A function passed as an argument would lose the location of the caller.
    #[track_caller]
    fn along_extremum(&self, name: &str, axes: &Axes) -> (Array, isize) {
        match axes.list() {
            None => (reshape(self, [self.size()]), 0),
            Some(&[axis]) => (self.clone(), axis),
            Some(several) => {
                let message = format!("takes one axis or all of them, got {several:?}");
                trace::throw_operands(name, RuleError::shape(message), &[self])
            }
        }
    }
}
