//! Elementary functions.
//!
//! `exp`, `exp2`, `log`, `sin`, `cos`, `sqrt`, `rsqrt`, `floor` and `ceil` are instructions or
//! short sequences of the compiler. Other functions are computed from them, because those of the
//! `math` dialect end the process if NVIDIA's library of functions is not installed.

use super::emitter::Emitter;
use super::ir::Tensor;
use crate::core::DType;
use crate::primitives::{
    Ceil, Cos, Cosh, Erf, Erfc, Exp, Exp2, Expm1, Floor, Log, Log1p, LogAddExp, Logistic, Pow,
    Round, RoundingMethod, Rsqrt, Sin, Sinh, Sqrt, Tan, Tanh,
};
use std::any::Any;
use std::f64::consts::{FRAC_2_SQRT_PI, LOG2_E};

/// The coefficients of the approximation of `erfc(x) exp(x²)` by powers of `1 / (1 + P x)`.
///
/// Source: Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 7.1.26, with an
/// absolute error of 1.5e-7.
const ERF: [f64; 5] = [0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429];
const ERF_P: f64 = 0.3275911;

impl Emitter<'_> {
    /// Writes a function of `f32` or `f64`, or returns `None` if it is unknown.
    pub(super) fn math(&mut self, primitive: &dyn Any, x: &[Tensor]) -> Option<Tensor> {
        let first = x.first()?;
        if !first.dtype.is_float() {
            return None;
        }
        let direct: [(bool, &str); 9] = [
            (primitive.is::<Exp>(), "math.exp"),
            (primitive.is::<Exp2>(), "math.exp2"),
            (primitive.is::<Log>(), "math.log"),
            (primitive.is::<Sin>(), "math.sin"),
            (primitive.is::<Cos>(), "math.cos"),
            (primitive.is::<Sqrt>(), "math.sqrt"),
            (primitive.is::<Rsqrt>(), "math.rsqrt"),
            (primitive.is::<Floor>(), "math.floor"),
            (primitive.is::<Ceil>(), "math.ceil"),
        ];
        if let Some((_, operation)) = direct.into_iter().find(|(is_this, _)| *is_this) {
            return Some(self.ir.unary(operation, first));
        }
        let value = if primitive.is::<Tan>() {
            let (sin, cos) = (self.ir.unary("math.sin", first), self.ir.unary("math.cos", first));
            self.ir.binary("arith.divf", &sin, &cos)
        } else if primitive.is::<Tanh>() {
            self.tanh(first)
        } else if primitive.is::<Expm1>() {
            self.expm1(first)
        } else if primitive.is::<Log1p>() {
            self.log1p(first)
        } else if primitive.is::<Logistic>() {
            let exp = self.exp_of_negative(first);
            let one = self.ir.float(1.0, first);
            let sum = self.ir.binary("arith.addf", &one, &exp);
            self.ir.binary("arith.divf", &one, &sum)
        } else if primitive.is::<LogAddExp>() {
            let high = self.ir.binary("arith.maximumf", first, &x[1]);
            let difference = self.ir.binary("arith.subf", first, &x[1]);
            let size = self.ir.unary("math.absf", &difference);
            let exp = self.exp_of_negative(&size);
            let rest = self.log1p(&exp);
            let sum = self.ir.binary("arith.addf", &high, &rest);
            // Equal infinities have no difference.
            let is_equal = self.ir.compare("cmpf oeq", first, &x[1]);
            let infinity = self.ir.float(f64::INFINITY, first);
            let size = self.ir.unary("math.absf", first);
            let is_infinite = self.ir.compare("cmpf oeq", &size, &infinity);
            let is_same = self.ir.binary("arith.andi", &is_equal, &is_infinite);
            self.ir.select(&is_same, first, &sum)
        } else if primitive.is::<Sinh>() || primitive.is::<Cosh>() {
            let half = self.ir.float(0.5, first);
            let m = if primitive.is::<Sinh>() {
                // With m = exp(x) - 1, sinh(x) = (m + m / (m + 1)) / 2.
                let m = self.expm1(first);
                let one = self.ir.float(1.0, first);
                let next = self.ir.binary("arith.addf", &m, &one);
                let ratio = self.ir.binary("arith.divf", &m, &next);
                self.ir.binary("arith.addf", &m, &ratio)
            } else {
                let up = self.ir.unary("math.exp", first);
                let down = self.exp_of_negative(first);
                self.ir.binary("arith.addf", &up, &down)
            };
            self.ir.binary("arith.mulf", &m, &half)
        } else if primitive.is::<Erf>() && first.dtype == DType::F32 {
            self.erf(first, false)
        } else if primitive.is::<Erfc>() && first.dtype == DType::F32 {
            self.erf(first, true)
        } else if primitive.is::<Pow>() && x[1].dtype.is_float() {
            self.power(first, &x[1])
        } else if let Some(of) = primitive.downcast_ref::<Round>() {
            self.round(first, of.rounding_method)
        } else {
            return None;
        };
        Some(value)
    }

    fn exp_of_negative(&mut self, x: &Tensor) -> Tensor {
        let zero = self.ir.float(0.0, x);
        let negative = self.ir.binary("arith.subf", &zero, x);
        self.ir.unary("math.exp", &negative)
    }

    /// Computes `a x + b` for numbers `a` and `b`.
    fn linear(&mut self, a: f64, x: &Tensor, b: f64) -> Tensor {
        let (a, b) = (self.ir.float(a, x), self.ir.float(b, x));
        let product = self.ir.binary("arith.mulf", &a, x);
        self.ir.binary("arith.addf", &product, &b)
    }

    /// Computes a polynomial, whose highest coefficient is the first.
    fn polynomial(&mut self, x: &Tensor, coefficients: &[f64]) -> Tensor {
        let mut value = self.ir.float(coefficients[0], x);
        for &coefficient in &coefficients[1..] {
            value = self.ir.binary("arith.mulf", &value, x);
            let coefficient = self.ir.float(coefficient, x);
            value = self.ir.binary("arith.addf", &value, &coefficient);
        }
        value
    }

    /// Computes `tanh` of numbers between -0.5 and 0.5 by its continued fraction
    /// `x / (1 + x² / (3 + x² / (5 + …)))` (Lambert, 1768).
    fn small_tanh(&mut self, x: &Tensor) -> Tensor {
        let square = self.ir.binary("arith.mulf", x, x);
        let last = if x.dtype == DType::F64 { 17 } else { 9 };
        let mut fraction = self.ir.float(f64::from(last), x);
        for odd in (1..last).step_by(2).collect::<Vec<_>>().into_iter().rev() {
            let rest = self.ir.binary("arith.divf", &square, &fraction);
            let odd = self.ir.float(f64::from(odd), x);
            fraction = self.ir.binary("arith.addf", &odd, &rest);
        }
        self.ir.binary("arith.divf", x, &fraction)
    }

    fn is_small(&mut self, x: &Tensor, bound: f64) -> Tensor {
        let size = self.ir.unary("math.absf", x);
        let bound = self.ir.float(bound, x);
        self.ir.compare("cmpf olt", &size, &bound)
    }

    fn tanh(&mut self, x: &Tensor) -> Tensor {
        let small = self.small_tanh(x);
        let size = self.ir.unary("math.absf", x);
        let double = self.ir.binary("arith.addf", &size, &size);
        let exp = self.exp_of_negative(&double);
        let above = self.linear(-1.0, &exp, 1.0);
        let below = self.linear(1.0, &exp, 1.0);
        let ratio = self.ir.binary("arith.divf", &above, &below);
        let sign = self.negative_where_negative(x, &ratio);
        let is_small = self.is_small(x, 0.5);
        self.ir.select(&is_small, &small, &sign)
    }

    /// Returns `value` with the sign of `x`.
    fn negative_where_negative(&mut self, x: &Tensor, value: &Tensor) -> Tensor {
        let zero = self.ir.float(0.0, x);
        let is_negative = self.ir.compare("cmpf olt", x, &zero);
        let negated = self.ir.binary("arith.subf", &zero, value);
        self.ir.select(&is_negative, &negated, value)
    }

    /// Computes `exp(x) - 1`. Near 0 it is `2 t / (1 - t)` with `t = tanh(x / 2)`.
    fn expm1(&mut self, x: &Tensor) -> Tensor {
        let half = self.linear(0.5, x, 0.0);
        let t = self.small_tanh(&half);
        let above = self.ir.binary("arith.addf", &t, &t);
        let below = self.linear(-1.0, &t, 1.0);
        let small = self.ir.binary("arith.divf", &above, &below);
        let exp = self.ir.unary("math.exp", x);
        let large = self.linear(1.0, &exp, -1.0);
        let is_small = self.is_small(x, 1.0);
        self.ir.select(&is_small, &small, &large)
    }

    /// Computes `log(1 + x)` as `x log(u) / (u - 1)` with the rounded `u = 1 + x`.
    ///
    /// Source: Goldberg, "What every computer scientist should know about floating-point
    /// arithmetic" (1991), theorem 4.
    fn log1p(&mut self, x: &Tensor) -> Tensor {
        let sum = self.linear(1.0, x, 1.0);
        let rest = self.linear(1.0, &sum, -1.0);
        let log = self.ir.unary("math.log", &sum);
        let ratio = self.ir.binary("arith.divf", x, &rest);
        let product = self.ir.binary("arith.mulf", &log, &ratio);
        let zero = self.ir.float(0.0, x);
        let is_lost = self.ir.compare("cmpf oeq", &rest, &zero);
        let value = self.ir.select(&is_lost, x, &product);
        let infinity = self.ir.float(f64::INFINITY, x);
        let is_infinite = self.ir.compare("cmpf oeq", x, &infinity);
        self.ir.select(&is_infinite, x, &value)
    }

    /// Computes `erf`, or `1 - erf`.
    fn erf(&mut self, x: &Tensor, is_complement: bool) -> Tensor {
        let square = self.ir.binary("arith.mulf", x, x);
        // The Taylor series at 0, whose terms are 2/√π (-1)ⁿ x²ⁿ⁺¹ / (n! (2n + 1)).
        let mut coefficients = Vec::new();
        let mut factorial = 1.0;
        for n in 0..8 {
            if n > 0 {
                factorial *= -f64::from(n);
            }
            coefficients.push(FRAC_2_SQRT_PI / (factorial * f64::from(2 * n + 1)));
        }
        coefficients.reverse();
        let series = self.polynomial(&square, &coefficients);
        let small = self.ir.binary("arith.mulf", &series, x);
        let size = self.ir.unary("math.absf", x);
        let one = self.ir.float(1.0, x);
        let below = self.linear(ERF_P, &size, 1.0);
        let t = self.ir.binary("arith.divf", &one, &below);
        let mut coefficients: Vec<f64> = ERF.into_iter().rev().collect();
        coefficients.push(0.0);
        let polynomial = self.polynomial(&t, &coefficients);
        let exp = self.exp_of_negative(&square);
        let complement = self.ir.binary("arith.mulf", &polynomial, &exp);
        let is_small = self.is_small(x, 0.5);
        if is_complement {
            let small = self.linear(-1.0, &small, 1.0);
            let zero = self.ir.float(0.0, x);
            let is_negative = self.ir.compare("cmpf olt", x, &zero);
            let other = self.linear(-1.0, &complement, 2.0);
            let large = self.ir.select(&is_negative, &other, &complement);
            return self.ir.select(&is_small, &small, &large);
        }
        let large = self.linear(-1.0, &complement, 1.0);
        let large = self.negative_where_negative(x, &large);
        self.ir.select(&is_small, &small, &large)
    }

    /// Computes `|x|ʸ` as a power of two, and its sign for negative `x`.
    fn power(&mut self, x: &Tensor, y: &Tensor) -> Tensor {
        let size = self.ir.unary("math.absf", x);
        let log = self.ir.unary("math.log", &size);
        let log2 = self.linear(LOG2_E, &log, 0.0);
        let exponent = self.ir.binary("arith.mulf", y, &log2);
        let power = self.ir.unary("math.exp2", &exponent);
        let (zero, one) = (self.ir.float(0.0, x), self.ir.float(1.0, x));
        let floor = self.ir.unary("math.floor", y);
        let is_whole = self.ir.compare("cmpf oeq", &floor, y);
        let half = self.linear(0.5, y, 0.0);
        let half_floor = self.ir.unary("math.floor", &half);
        let is_odd = self.ir.compare("cmpf une", &half, &half_floor);
        let negated = self.ir.binary("arith.subf", &zero, &power);
        let signed = self.ir.select(&is_odd, &negated, &power);
        let nan = self.ir.float(f64::NAN, x);
        let negative = self.ir.select(&is_whole, &signed, &nan);
        let is_negative = self.ir.compare("cmpf olt", x, &zero);
        let value = self.ir.select(&is_negative, &negative, &power);
        // `x⁰` and `1ʸ` are 1.
        let is_zero = self.ir.compare("cmpf oeq", y, &zero);
        let is_one = self.ir.compare("cmpf oeq", x, &one);
        let is_trivial = self.ir.binary("arith.ori", &is_zero, &is_one);
        self.ir.select(&is_trivial, &one, &value)
    }

    fn round(&mut self, x: &Tensor, method: RoundingMethod) -> Tensor {
        let floor = self.ir.unary("math.floor", x);
        let fraction = self.ir.binary("arith.subf", x, &floor);
        let up = self.linear(1.0, &floor, 1.0);
        let half = self.ir.float(0.5, x);
        let is_above = self.ir.compare("cmpf ogt", &fraction, &half);
        let is_half = self.ir.compare("cmpf oeq", &fraction, &half);
        let takes_up = match method {
            RoundingMethod::AwayFromZero => {
                let zero = self.ir.float(0.0, x);
                self.ir.compare("cmpf ogt", x, &zero)
            }
            RoundingMethod::ToNearestEven => {
                let halved = self.linear(0.5, &floor, 0.0);
                let whole = self.ir.unary("math.floor", &halved);
                self.ir.compare("cmpf une", &halved, &whole)
            }
        };
        let half_up = self.ir.binary("arith.andi", &is_half, &takes_up);
        let is_up = self.ir.binary("arith.ori", &is_above, &half_up);
        self.ir.select(&is_up, &up, &floor)
    }
}
