//! Elementwise operations.

use super::{Operands, Translated, Translator, lapack};
use crate::core::{Array, bind1};
use crate::primitives::{
    Abs, Add, And, Atan2, BitcastConvertType, Cbrt, Ceil, Clamp, Compare, ComparisonDirection,
    Complex, ConvertElementType, Cos, CountLeadingZeros, Div, Exp, Expm1, FftType, Floor, Imag,
    IsFinite, Log, Log1p, Logistic, Max, Min, Mul, Neg, Not, Or, PopulationCount, Pow, Real,
    ReducePrecision, Rem, Round, RoundingMethod, Rsqrt, Select, ShiftLeft, ShiftRightArithmetic,
    ShiftRightLogical, Sign, Sin, Sqrt, Sub, Tan, Tanh, TransposeA, TriangularSolve, Xor,
    broadcast_to, cholesky, fft, real, triangular_solve,
};

impl<'m> Translator<'m> {
    /// Translates an elementwise operation; `None` for another one.
    pub(super) fn elementwise(&self, operands: &Operands<'m>) -> Translated<Option<Array>> {
        let name = operands.operation.name();
        if let Some(result) = self.unary(operands, name)? {
            return Ok(Some(result));
        }
        if let Some(result) = self.binary(operands, name)? {
            return Ok(Some(result));
        }
        Ok(Some(match name {
            "select" => {
                let [mask, x, y] = self.exactly(operands)?;
                bind1(Select, [&mask, &x, &y])
            }
            "clamp" => {
                let [low, x, high] = self.exactly(operands)?;
                let [low, high] = [low, high].map(|bound| match bound.rank() {
                    0 => broadcast_to(&bound, x.shape().clone()),
                    _ => bound,
                });
                bind1(Clamp, [&low, &x, &high])
            }
            "compare" => {
                let [x, y] = self.exactly(operands)?;
                bind1(self.comparison(operands)?, [&x, &y])
            }
            "convert" => {
                let [x] = self.exactly(operands)?;
                let dtype = self.result_dtype(operands)?;
                bind1(ConvertElementType { dtype, weak: false }, [&x])
            }
            "bitcast_convert" => {
                let [x] = self.exactly(operands)?;
                bind1(BitcastConvertType { dtype: self.result_dtype(operands)? }, [&x])
            }
            "reduce_precision" => {
                let [x] = self.exactly(operands)?;
                let bits = |name| self.number(operands, name).map(|bits| bits as u32);
                let (exponent_bits, mantissa_bits) =
                    (bits("exponent_bits")?, bits("mantissa_bits")?);
                bind1(ReducePrecision { exponent_bits, mantissa_bits }, [&x])
            }
            "fft" => {
                let [x] = self.exactly(operands)?;
                let fft_type = match operands.operation.text("fft_type") {
                    Some("FFT") => FftType::Fft,
                    Some("IFFT") => FftType::Ifft,
                    Some("RFFT") => FftType::Rfft,
                    Some("IRFFT") => FftType::Irfft,
                    _ => return Err(self.unsupported(operands.operation, "its kind is not known")),
                };
                fft(&x, fft_type, &self.sizes(operands, "fft_length")?)
            }
            "cholesky" => {
                let [x] = self.exactly(operands)?;
                match operands.operation.flag("lower") {
                    true => cholesky(&x),
                    false => lapack::adjoint(&cholesky(&lapack::adjoint(&x))),
                }
            }
            "triangular_solve" => {
                let [a, b] = self.exactly(operands)?;
                let transpose_a = match operands.operation.text("transpose_a") {
                    Some("TRANSPOSE") => TransposeA::Transpose,
                    Some("ADJOINT") => TransposeA::Adjoint,
                    _ => TransposeA::NoTranspose,
                };
                let flag = |name| operands.operation.flag(name);
                let how = TriangularSolve {
                    left_side: flag("left_side"),
                    lower: flag("lower"),
                    transpose_a,
                    unit_diagonal: flag("unit_diagonal"),
                };
                triangular_solve(&a, &b, how)
            }
            _ => return Ok(None),
        }))
    }

    fn unary(&self, operands: &Operands<'m>, name: &str) -> Translated<Option<Array>> {
        let apply = |primitive: Box<dyn Fn(&Array) -> Array>| -> Translated<Option<Array>> {
            let [x] = self.exactly(operands)?;
            Ok(Some(primitive(&x)))
        };
        let of = |primitive: fn(&Array) -> Array| apply(Box::new(primitive));
        let round =
            |rounding_method| apply(Box::new(move |x| bind1(Round { rounding_method }, [x])));
        match name {
            // The absolute value of complex numbers is real.
            "abs" => of(|x| bind1(Abs, [x])),
            "cbrt" => of(|x| bind1(Cbrt, [x])),
            "ceil" => of(|x| bind1(Ceil, [x])),
            "cosine" => of(|x| bind1(Cos, [x])),
            "count_leading_zeros" => of(|x| bind1(CountLeadingZeros, [x])),
            "exponential" => of(|x| bind1(Exp, [x])),
            "exponential_minus_one" => of(|x| bind1(Expm1, [x])),
            "floor" => of(|x| bind1(Floor, [x])),
            "imag" => of(|x| match x.dtype().is_complex() {
                true => bind1(Imag, [x]),
                false => crate::primitives::zeros_like(x),
            }),
            "is_finite" => of(|x| bind1(IsFinite, [x])),
            "log" => of(|x| bind1(Log, [x])),
            "log_plus_one" => of(|x| bind1(Log1p, [x])),
            "logistic" => of(|x| bind1(Logistic, [x])),
            "negate" => of(|x| bind1(Neg, [x])),
            "not" => of(|x| bind1(Not, [x])),
            "popcnt" => of(|x| bind1(PopulationCount, [x])),
            "real" => of(|x| match x.dtype().is_complex() {
                true => bind1(Real, [x]),
                false => real(x),
            }),
            "round_nearest_afz" => round(RoundingMethod::AwayFromZero),
            "round_nearest_even" => round(RoundingMethod::ToNearestEven),
            "rsqrt" => of(|x| bind1(Rsqrt, [x])),
            "sign" => of(|x| bind1(Sign, [x])),
            "sine" => of(|x| bind1(Sin, [x])),
            "sqrt" => of(|x| bind1(Sqrt, [x])),
            "tan" => of(|x| bind1(Tan, [x])),
            "tanh" => of(|x| bind1(Tanh, [x])),
            _ => Ok(None),
        }
    }

    fn binary(&self, operands: &Operands<'m>, name: &str) -> Translated<Option<Array>> {
        let apply = |f: fn(&Array, &Array) -> Array| -> Translated<Option<Array>> {
            let [x, y] = self.exactly(operands)?;
            Ok(Some(f(&x, &y)))
        };
        let is_bool = matches!(operands.values.first().and_then(|x| x.array_type()),
            Some((dtype, _)) if dtype.is_bool());
        match name {
            // Flags are added by `or` and multiplied by `and`.
            "add" if is_bool => apply(|x, y| bind1(Or, [x, y])),
            "multiply" if is_bool => apply(|x, y| bind1(And, [x, y])),
            "maximum" if is_bool => apply(|x, y| bind1(Or, [x, y])),
            "minimum" if is_bool => apply(|x, y| bind1(And, [x, y])),
            "add" => apply(|x, y| bind1(Add, [x, y])),
            "and" => apply(|x, y| bind1(And, [x, y])),
            "atan2" => apply(|x, y| bind1(Atan2, [x, y])),
            "complex" => apply(|x, y| bind1(Complex, [x, y])),
            "divide" => apply(|x, y| bind1(Div, [x, y])),
            "maximum" => apply(|x, y| bind1(Max, [x, y])),
            "minimum" => apply(|x, y| bind1(Min, [x, y])),
            "multiply" => apply(|x, y| bind1(Mul, [x, y])),
            "or" => apply(|x, y| bind1(Or, [x, y])),
            "power" => apply(|x, y| bind1(Pow, [x, y])),
            "remainder" => apply(|x, y| bind1(Rem, [x, y])),
            "shift_left" => apply(|x, y| bind1(ShiftLeft, [x, y])),
            "shift_right_arithmetic" => apply(|x, y| bind1(ShiftRightArithmetic, [x, y])),
            "shift_right_logical" => apply(|x, y| bind1(ShiftRightLogical, [x, y])),
            "subtract" => apply(|x, y| bind1(Sub, [x, y])),
            "xor" => apply(|x, y| bind1(Xor, [x, y])),
            _ => Ok(None),
        }
    }

    /// Returns the comparison of an operation.
    pub(super) fn comparison(&self, operands: &Operands<'m>) -> Translated<Compare> {
        let operation = operands.operation;
        let direction = match operation.text("comparison_direction") {
            Some("EQ") => ComparisonDirection::Eq,
            Some("NE") => ComparisonDirection::Ne,
            Some("GE") => ComparisonDirection::Ge,
            Some("GT") => ComparisonDirection::Gt,
            Some("LE") => ComparisonDirection::Le,
            Some("LT") => ComparisonDirection::Lt,
            _ => return Err(self.unsupported(operation, "its direction is not known")),
        };
        let total_order = operation.text("compare_type") == Some("TOTALORDER");
        Ok(Compare { direction, total_order })
    }
}
