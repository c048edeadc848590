//! Functions with a required accuracy.

use super::arithmetic::{Cbrt, Rsqrt, Sqrt};
use super::elementwise::{CostRule, Derivative, Dtypes, Elementwise, Lowering, TypeRule};
use super::exponential::{Exp, Exp2, Expm1, Log, Log1p, Logistic, Tanh};
use super::promote::{ArrayLike, inexact};
use super::trig::{Cos, Sin, Tan};
use crate::core::{
    Array, Aval, DType, Exemplar, LowerCtx, RuleError, RuleResult, Sample, Scalar, bind1, trace,
};
use crate::primitives::rules::arity;
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};

/// The error that a function may have: an absolute one with a relative one, or an absolute one with
/// a number of units in the last place. Zeros are not stated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    /// The absolute error.
    pub atol: f64,
    /// The relative error.
    pub rtol: f64,
    /// The error in units in the last place of the result.
    pub ulps: u32,
}

impl Eq for Tolerance {}

impl Hash for Tolerance {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.atol.to_bits(), self.rtol.to_bits(), self.ulps).hash(state);
    }
}

impl Tolerance {
    fn check(self) -> RuleResult<()> {
        let Tolerance { atol, rtol, ulps } = self;
        let is_stated = |number: f64| number > 0.0;
        let problem = if [atol, rtol].iter().any(|number| !number.is_finite() || *number < 0.0) {
            "must be finite and at least 0"
        } else if !is_stated(atol) && !is_stated(rtol) && ulps == 0 {
            "states no error"
        } else if is_stated(rtol) && ulps > 0 {
            "states both a relative error and units in the last place"
        } else {
            return Ok(());
        };
        Err(RuleError::value(format!("the tolerance {problem}: {self:?}"))
            .help("state atol, rtol or ulps, or atol with one of the others"))
    }
}

/// The accuracy that a function must have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AccuracyMode {
    /// The accuracy of the platform's default implementation.
    #[default]
    Default,
    /// The accuracy of the platform's most accurate implementation.
    Highest,
    /// An implementation whose error is within a tolerance. Compiling fails if there is none.
    Tolerance(Tolerance),
}

/// Options of [`exp_with`] and the other functions with an accuracy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AccuracyOptions {
    /// The accuracy. Platforms with one implementation of the function use that for every mode:
    /// CPUs do, and ignore tolerances. TPUs have several of most functions.
    pub accuracy: AccuracyMode,
}

/// A function that [`Accurate`] computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccurateFunction {
    /// See [`Cbrt`].
    Cbrt,
    /// See [`Cos`].
    Cos,
    /// See [`Exp`].
    Exp,
    /// See [`Exp2`].
    Exp2,
    /// See [`Expm1`].
    Expm1,
    /// See [`Log`].
    Log,
    /// See [`Log1p`].
    Log1p,
    /// See [`Logistic`].
    Logistic,
    /// See [`Rsqrt`].
    Rsqrt,
    /// See [`Sin`].
    Sin,
    /// See [`Sqrt`].
    Sqrt,
    /// See [`Tan`].
    Tan,
    /// See [`Tanh`].
    Tanh,
}

/// A function with a required accuracy.
///
/// | | |
/// |-|-|
/// | operand    | `x: {float, complex}[…]`; `cbrt` takes floats |
/// | result     | same shape and dtype as `x` |
/// | lowering   | the function's operation with `result_accuracy`; `exp2(x)` is `exp(ln 2 · x)` |
/// | derivative | that of the function, from the accurate result where it appears |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Accurate {
    /// The function.
    pub function: AccurateFunction,
    /// The accuracy.
    pub accuracy: AccuracyMode,
}

impl Accurate {
    fn result_type(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        arity::<1>(operands)?;
        if let AccuracyMode::Tolerance(tolerance) = self.accuracy {
            tolerance.check()?;
        }
        let dtypes = match self.function {
            AccurateFunction::Cbrt => Dtypes::Float,
            _ => Dtypes::Inexact,
        };
        Ok(vec![dtypes.same_type(operands)?])
    }

    fn tangent(&self, x: &Array, y: &Array, dx: &Array) -> Array {
        match self.function {
            AccurateFunction::Cbrt => tangent_by(&Cbrt, x, y, dx),
            AccurateFunction::Cos => tangent_by(&Cos, x, y, dx),
            AccurateFunction::Exp => tangent_by(&Exp, x, y, dx),
            AccurateFunction::Exp2 => tangent_by(&Exp2, x, y, dx),
            AccurateFunction::Expm1 => tangent_by(&Expm1, x, y, dx),
            AccurateFunction::Log => tangent_by(&Log, x, y, dx),
            AccurateFunction::Log1p => tangent_by(&Log1p, x, y, dx),
            AccurateFunction::Logistic => tangent_by(&Logistic, x, y, dx),
            AccurateFunction::Rsqrt => tangent_by(&Rsqrt, x, y, dx),
            AccurateFunction::Sin => tangent_by(&Sin, x, y, dx),
            AccurateFunction::Sqrt => tangent_by(&Sqrt, x, y, dx),
            AccurateFunction::Tan => tangent_by(&Tan, x, y, dx),
            AccurateFunction::Tanh => tangent_by(&Tanh, x, y, dx),
        }
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let name = match self.function {
            AccurateFunction::Cbrt => "cbrt",
            AccurateFunction::Cos => "cosine",
            AccurateFunction::Exp | AccurateFunction::Exp2 => "exponential",
            AccurateFunction::Expm1 => "exponential_minus_one",
            AccurateFunction::Log => "log",
            AccurateFunction::Log1p => "log_plus_one",
            AccurateFunction::Logistic => "logistic",
            AccurateFunction::Rsqrt => "rsqrt",
            AccurateFunction::Sin => "sine",
            AccurateFunction::Sqrt => "sqrt",
            AccurateFunction::Tan => "tan",
            AccurateFunction::Tanh => "tanh",
        };
        let ty = results[0].stablehlo();
        let mut x = operands[0].clone();
        if self.function == AccurateFunction::Exp2 {
            let factor = Scalar::Float(std::f64::consts::LN_2).stablehlo(results[0].dtype);
            let factor = ctx.constant(&factor, &ty);
            x = ctx.op_as("multiply", &[factor, x], "", &ty);
        }
        let mut accuracy = self.accuracy;
        if self.function == AccurateFunction::Cbrt && ctx.platform() == "tpu" {
            // libtpu 0.0.51 ends with an internal error.
            if let AccuracyMode::Tolerance(_) = accuracy {
                return Err(RuleError::unsupported("TPUs have no tolerances of cube roots")
                    .help("use AccuracyMode::Highest"));
            }
            accuracy = AccuracyMode::Default;
        }
        Ok(vec![ctx.op_as(name, &[x], &attribute(accuracy), &ty)])
    }
}

/// Returns the attribute of an operation; empty for the default.
fn attribute(accuracy: AccuracyMode) -> String {
    let (Tolerance { atol, rtol, ulps }, mode) = match accuracy {
        AccuracyMode::Default => return String::new(),
        AccuracyMode::Highest => (Tolerance::default(), "HIGHEST"),
        AccuracyMode::Tolerance(tolerance) => (tolerance, "TOLERANCE"),
    };
    format!(
        "result_accuracy = #stablehlo.result_accuracy<atol = {atol:.17e}, rtol = {rtol:.17e}, \
         ulps = {ulps}, mode = #stablehlo.result_accuracy_mode<{mode}>>"
    )
}

/// Returns the tangent of a function by its own rule.
fn tangent_by<E: Elementwise>(function: &E, x: &Array, y: &Array, dx: &Array) -> Array {
    match E::DERIVATIVE {
        Derivative::Unary(rule) => rule(function, x, y, dx),
        _ => unreachable!("functions with an accuracy have one operand"),
    }
}

impl Elementwise for Accurate {
    const NAME: &'static str = "accurate";
    const TYPE: TypeRule<Accurate> = TypeRule::Custom(Accurate::result_type);
    const DERIVATIVE: Derivative<Accurate> = Derivative::Unary(Accurate::tangent);
    const LOWERING: Lowering<Accurate> = Lowering::Custom(Accurate::lower);
    const COST: CostRule<Accurate> = CostRule::Transcendental;
    fn exemplars() -> Vec<Exemplar> {
        let exemplar = |function, accuracy, x| Exemplar::new(Accurate { function, accuracy }, [x]);
        let near_one = |dtype| Sample::uniform(dtype, [2, 3], 0.5, 1.2);
        let tolerance = Tolerance { atol: 1e-3, rtol: 1e-3, ulps: 0 };
        let highest = |function| exemplar(function, AccuracyMode::Highest, near_one(DType::F32));
        vec![
            highest(AccurateFunction::Cbrt),
            highest(AccurateFunction::Cos),
            highest(AccurateFunction::Exp),
            highest(AccurateFunction::Exp2),
            highest(AccurateFunction::Expm1),
            highest(AccurateFunction::Log),
            highest(AccurateFunction::Log1p),
            highest(AccurateFunction::Logistic),
            highest(AccurateFunction::Rsqrt),
            highest(AccurateFunction::Sin),
            highest(AccurateFunction::Sqrt),
            highest(AccurateFunction::Tan),
            highest(AccurateFunction::Tanh),
            exemplar(AccurateFunction::Exp, AccuracyMode::Default, near_one(DType::F64)),
            exemplar(AccurateFunction::Exp2, AccuracyMode::Highest, near_one(DType::C64)),
            exemplar(
                AccurateFunction::Tanh,
                AccuracyMode::Tolerance(tolerance),
                near_one(DType::BF16),
            ),
        ]
    }
}

#[track_caller]
fn accurate<E: Elementwise>(
    function: AccurateFunction,
    base: E,
    x: &Array,
    options: AccuracyOptions,
) -> Array {
    let x = &inexact(x);
    match options.accuracy {
        AccuracyMode::Default => bind1(base, [x]),
        accuracy => {
            if let AccuracyMode::Tolerance(tolerance) = accuracy
                && let Err(error) = tolerance.check()
            {
                trace::throw_operands(<E as Elementwise>::NAME, error, &[x]);
            }
            bind1(Accurate { function, accuracy }, [x])
        }
    }
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident $case:ident;)*) => {$(
        $(#[$doc])*
        #[track_caller]
        pub fn $name(x: impl ArrayLike, options: AccuracyOptions) -> Array {
            accurate(AccurateFunction::$case, $case, &x.to_array(), options)
        }
    )*};
}

functions! {
    /// Returns the cube root, as [`cbrt`](super::cbrt), with a required accuracy.
    cbrt_with Cbrt;
    /// Returns the cosine, as [`cos`](super::cos), with a required accuracy.
    cos_with Cos;
    /// Returns the exponential, as [`exp`](super::exp), with a required accuracy.
    ///
    /// Throws `Op` (value) for a tolerance that is negative or states no error.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax::primitives::{AccuracyMode, AccuracyOptions, Tolerance, exp_with};
    /// let highest = AccuracyOptions { accuracy: AccuracyMode::Highest };
    /// assert_eq!(exp_with(&array![0.0], highest).to_vec::<f32>()?, [1.0]);
    /// let tolerance = Tolerance { atol: 1e-6, ulps: 4, ..Default::default() };
    /// let close = AccuracyOptions { accuracy: AccuracyMode::Tolerance(tolerance) };
    /// let program = make_program(move |x: Array| exp_with(&x, close), array![0.0])?;
    /// assert!(program.to_string().contains("accurate"));
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    exp_with Exp;
    /// Returns 2 to the power `x`, as [`exp2`](super::exp2), with a required accuracy.
    exp2_with Exp2;
    /// Returns `exp(x) - 1`, as [`expm1`](super::expm1), with a required accuracy.
    expm1_with Expm1;
    /// Returns the natural logarithm, as [`log`](super::log), with a required accuracy.
    log_with Log;
    /// Returns `log(1 + x)`, as [`log1p`](super::log1p), with a required accuracy.
    log1p_with Log1p;
    /// Returns the sigmoid, as [`logistic`](super::logistic), with a required accuracy.
    logistic_with Logistic;
    /// Returns the reciprocal square root, as [`rsqrt`](super::rsqrt), with a required accuracy.
    rsqrt_with Rsqrt;
    /// Returns the sine, as [`sin`](super::sin), with a required accuracy.
    sin_with Sin;
    /// Returns the square root, as [`sqrt`](super::sqrt), with a required accuracy.
    sqrt_with Sqrt;
    /// Returns the tangent, as [`tan`](super::tan), with a required accuracy.
    tan_with Tan;
    /// Returns the hyperbolic tangent, as [`tanh`](super::tanh), with a required accuracy.
    tanh_with Tanh;
}
