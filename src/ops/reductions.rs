//! Reductions as methods of [`Array`], with NumPy's dtypes and defaults.

use super::axes::{Axes, Over, signed};
use crate::core::{Array, DType, RuleError, Scalar, trace};
use crate::primitives::{
    add, argmax, argmin, conj, convert_element_type, convert_to, div, fill_of, full_like, gt,
    highest, lowest, maximum, minimum, mul, ne, real, reduce_and, reduce_max, reduce_min,
    reduce_or, reduce_prod, reduce_sum, reshape, sqrt, sub, where_,
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

/// The operand of a search for an extremum, `neutral` where elements do not count.
#[track_caller]
fn extremes(name: &str, x: &Array, over: &Over, axes: &[usize], neutral: Scalar) -> Array {
    if over.begins() {
        return over.masked(name, x, neutral);
    }
    if let Some(mask) = over.mask(name, x) {
        let message = format!("nothing is the {name} where no element counts");
        let error = RuleError::unsupported(message)
            .help("say what it begins with: `axes(…).where_(&mask).initial(…)`");
        trace::throw_operands(name, error, &[x, &mask]);
    }
    not_empty(name, x, axes);
    x.clone()
}

/// How many elements each result of a reduction takes together, as a number where that is known.
enum Count {
    Known(f64),
    /// In the dtype of the sums.
    Counted(Array),
}

impl Count {
    #[track_caller]
    fn of(name: &str, x: &Array, over: &Over, axes: &[usize]) -> Count {
        match over.mask(name, x) {
            None => Count::Known(axes.iter().map(|&axis| x.shape()[axis] as f64).product()),
            Some(mask) => {
                let ones = convert_element_type(&mask, x.dtype().real());
                Count::Counted(reduce_sum(&ones, &signed(axes)))
            }
        }
    }
}

/// Reductions. Each comes over all axes (`x.sum()`) and over some (`x.sum_axes(-1)`,
/// `x.sum_axes([0, 1])`, `x.sum_axes(axes(-1).keepdims())`; see [`Axes`]), and of some elements
/// (`x.sum_axes(axes(-1).where_(&mask))`; see [`Over`]).
impl Array {
    /// Sum of all elements. See [`Array::sum_axes`].
    #[track_caller]
    pub fn sum(&self) -> Array {
        self.sum_axes(Axes::all())
    }

    /// Sum along `axes`; 0 over an empty axis. Booleans and integers below 32 bits sum to 32 bits;
    /// 16-bit floats are summed in `f32` and rounded once.
    #[track_caller]
    pub fn sum_axes(&self, over: impl Into<Over>) -> Array {
        let over = over.into();
        let axes = signed(&over.axes.resolve("sum", self));
        let (within, result) = summing(self);
        let weak = self.aval().weak;
        let x = over.masked("sum", &convert_to(self, within, weak), Scalar::Int(0));
        let sum = over.begun("sum", &reduce_sum(&x, &axes), |a, b| add(a, b));
        over.axes.restore("sum", self, &convert_to(&sum, result, weak))
    }

    /// Product of all elements. See [`Array::prod_axes`].
    #[track_caller]
    pub fn prod(&self) -> Array {
        self.prod_axes(Axes::all())
    }

    /// Product along `axes`; 1 over an empty axis. Dtypes as in [`Array::sum_axes`].
    #[track_caller]
    pub fn prod_axes(&self, over: impl Into<Over>) -> Array {
        let over = over.into();
        let axes = signed(&over.axes.resolve("prod", self));
        let (within, result) = summing(self);
        let weak = self.aval().weak;
        let x = over.masked("prod", &convert_to(self, within, weak), Scalar::Int(1));
        let product = over.begun("prod", &reduce_prod(&x, &axes), |a, b| mul(a, b));
        over.axes.restore("prod", self, &convert_to(&product, result, weak))
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
    pub fn max_axes(&self, over: impl Into<Over>) -> Array {
        let over = over.into();
        let axes = over.axes.resolve("max", self);
        let x = extremes("max", self, &over, &axes, lowest(self.dtype()));
        let max = reduce_max(&x, &signed(&axes));
        let max = over.begun("max", &max, |a, b| maximum(a, b));
        over.axes.restore("max", self, &max)
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
    pub fn min_axes(&self, over: impl Into<Over>) -> Array {
        let over = over.into();
        let axes = over.axes.resolve("min", self);
        let x = extremes("min", self, &over, &axes, highest(self.dtype()));
        let min = reduce_min(&x, &signed(&axes));
        let min = over.begun("min", &min, |a, b| minimum(a, b));
        over.axes.restore("min", self, &min)
    }

    /// Mean of all elements. See [`Array::mean_axes`].
    #[track_caller]
    pub fn mean(&self) -> Array {
        self.mean_axes(Axes::all())
    }

    /// Mean along `axes`; NaN over an empty axis. Integers have an `f32` mean; 16-bit floats are
    /// summed in `f32`.
    #[track_caller]
    pub fn mean_axes(&self, over: impl Into<Over>) -> Array {
        let over = over.into();
        over.without_initial("mean");
        let axes = over.axes.resolve("mean", self);
        let result = averaged(self.dtype());
        let weak = self.aval().weak;
        let x = over.masked("mean", &convert_to(self, wide(result), weak), Scalar::Int(0));
        let sum = reduce_sum(&x, &signed(&axes));
        let mean = match Count::of("mean", &x, &over, &axes) {
            Count::Known(n) => div(&sum, Scalar::Float(n)),
            Count::Counted(n) => div(&sum, convert_to(&n, sum.dtype(), weak)),
        };
        over.axes.restore("mean", self, &convert_to(&mean, result, weak))
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
    pub fn var_axes(&self, over: impl Into<Over>, ddof: f64) -> Array {
        let over = over.into();
        over.without_initial("var");
        let axes = over.axes.resolve("var", self);
        let result = averaged(self.dtype()).real();
        let weak = self.aval().weak;
        let x = convert_to(self, wide(averaged(self.dtype())), weak);
        // What does not count is taken out first, or its NaN would come back in the gradient.
        let x = over.masked("var", &x, Scalar::Int(0));
        let kept = Over { axes: Axes::from(signed(&axes)).keepdims(), ..over.clone() };
        let mean = x.mean_axes(kept);
        let centred = over.masked("var", &sub(&x, &mean), Scalar::Int(0));
        let squared = match centred.dtype().is_complex() {
            true => real(&mul(&centred, conj(&centred))),
            false => mul(&centred, &centred),
        };
        let sum = reduce_sum(&squared, &signed(&axes));
        let var = match Count::of("var", &x, &over, &axes) {
            Count::Known(n) if n - ddof > 0.0 => div(&sum, Scalar::Float(n - ddof)),
            Count::Known(_) => full_like(&sum, f64::NAN),
            Count::Counted(n) => {
                let n = sub(&n, ddof);
                let enough = gt(&n, 0);
                where_(&enough, div(&sum, where_(&enough, n, 1)), f64::NAN)
            }
        };
        over.axes.restore("var", self, &convert_to(&var, result, weak))
    }

    /// Standard deviation of all elements. See [`Array::std_axes`].
    #[track_caller]
    pub fn std(&self) -> Array {
        self.std_axes(Axes::all(), 0.0)
    }

    /// Standard deviation along `axes`: the square root of [`Array::var_axes`].
    #[track_caller]
    pub fn std_axes(&self, over: impl Into<Over>, ddof: f64) -> Array {
        sqrt(&self.var_axes(over, ddof))
    }

    /// Whether all elements are other than zero. See [`Array::all_axes`].
    #[track_caller]
    pub fn all(&self) -> Array {
        self.all_axes(Axes::all())
    }

    /// Whether all elements along `axes` are other than zero, as `bool`; true over an empty axis.
    #[track_caller]
    pub fn all_axes(&self, over: impl Into<Over>) -> Array {
        let over = over.into();
        over.without_initial("all");
        let axes = signed(&over.axes.resolve("all", self));
        let truth = over.masked("all", &self.truth(), Scalar::Bool(true));
        over.axes.restore("all", self, &reduce_and(&truth, &axes))
    }

    /// Whether any element is other than zero. See [`Array::any_axes`].
    #[track_caller]
    pub fn any(&self) -> Array {
        self.any_axes(Axes::all())
    }

    /// Whether any element along `axes` is other than zero, as `bool`; false over an empty axis.
    #[track_caller]
    pub fn any_axes(&self, over: impl Into<Over>) -> Array {
        let over = over.into();
        over.without_initial("any");
        let axes = signed(&over.axes.resolve("any", self));
        let truth = over.masked("any", &self.truth(), Scalar::Bool(false));
        over.axes.restore("any", self, &reduce_or(&truth, &axes))
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
