//! Elementwise operations: arithmetic, functions, comparison and selection.

use super::emitter::{Emitter, Item, Op};
use super::text::Val;
use crate::core::{DType, RuleError, RuleResult, Scalar};
use crate::primitives as p;
use crate::primitives::ComparisonDirection;

/// Writes an elementwise operation.
pub(super) fn emit(emitter: &mut Emitter, op: &Op<'_>) -> RuleResult<Option<Vec<Item>>> {
    let value = if let Some(name) = function(op) {
        let x = op.value(0)?;
        float_function(emitter, name, &[x])
    } else if let Some(forms) = arithmetic(op) {
        binary(emitter, forms, op.value(0)?, op.value(1)?)?
    } else {
        match other(emitter, op)? {
            Some(value) => value,
            None => return Ok(None),
        }
    };
    Ok(Some(vec![Item::Value(value)]))
}

/// Returns the operation of a function of one float.
fn function(op: &Op<'_>) -> Option<&'static str> {
    Some(match () {
        () if op.is::<p::Exp>() => "math.exp",
        () if op.is::<p::Exp2>() => "math.exp2",
        () if op.is::<p::Log>() => "math.log",
        () if op.is::<p::Log1p>() => "math.log1p",
        () if op.is::<p::Tanh>() => "math.tanh",
        () if op.is::<p::Sqrt>() => "math.sqrt",
        () if op.is::<p::Rsqrt>() => "math.rsqrt",
        () if op.is::<p::Erf>() => "math.erf",
        () if op.is::<p::Sin>() => "math.sin",
        () if op.is::<p::Cos>() => "math.cos",
        () if op.is::<p::Tan>() => "math.tan",
        () if op.is::<p::Floor>() => "math.floor",
        () if op.is::<p::Ceil>() => "math.ceil",
        () => match op.get::<p::Round>()?.rounding_method {
            p::RoundingMethod::AwayFromZero => "math.round",
            p::RoundingMethod::ToNearestEven => "math.roundeven",
        },
    })
}

/// The operations of a primitive of two operands, by dtype.
#[derive(Clone, Copy)]
pub(super) struct Forms {
    float: &'static str,
    signed: &'static str,
    unsigned: &'static str,
    bool: &'static str,
    /// The narrowest integers that have it, in bits.
    least_bits: usize,
}

const fn forms([float, signed, unsigned, bool]: [&'static str; 4], least_bits: usize) -> Forms {
    Forms { float, signed, unsigned, bool, least_bits }
}

pub(super) const ADD: Forms = forms(["arith.addf", "arith.addi", "arith.addi", "arith.ori"], 16);
pub(super) const SUB: Forms = forms(["arith.subf", "arith.subi", "arith.subi", ""], 16);
pub(super) const MUL: Forms = forms(["arith.mulf", "arith.muli", "arith.muli", "arith.andi"], 16);
pub(super) const DIV: Forms = forms(["arith.divf", "arith.divsi", "arith.divui", ""], 32);
pub(super) const REM: Forms = forms(["arith.remf", "arith.remsi", "arith.remui", ""], 32);
pub(super) const MAX: Forms =
    forms(["arith.maximumf", "arith.maxsi", "arith.maxui", "arith.ori"], 32);
pub(super) const MIN: Forms =
    forms(["arith.minimumf", "arith.minsi", "arith.minui", "arith.andi"], 32);
const POW: Forms = forms(["math.powf", "", "", ""], 32);
const ATAN2: Forms = forms(["math.atan2", "", "", ""], 32);
pub(super) const AND: Forms = forms(["", "arith.andi", "arith.andi", "arith.andi"], 4);
pub(super) const OR: Forms = forms(["", "arith.ori", "arith.ori", "arith.ori"], 4);
pub(super) const XOR: Forms = forms(["", "arith.xori", "arith.xori", "arith.xori"], 4);
const SHIFT_LEFT: Forms = forms(["", "arith.shli", "arith.shli", ""], 16);
const SHIFT_LOGICAL: Forms = forms(["", "arith.shrui", "arith.shrui", ""], 16);
const SHIFT_ARITHMETIC: Forms = forms(["", "arith.shrsi", "arith.shrsi", ""], 16);

fn arithmetic(op: &Op<'_>) -> Option<Forms> {
    Some(match () {
        () if op.is::<p::Add>() => ADD,
        () if op.is::<p::Sub>() => SUB,
        () if op.is::<p::Mul>() => MUL,
        () if op.is::<p::Div>() => DIV,
        () if op.is::<p::Rem>() => REM,
        () if op.is::<p::Max>() => MAX,
        () if op.is::<p::Min>() => MIN,
        () if op.is::<p::Pow>() => POW,
        () if op.is::<p::Atan2>() => ATAN2,
        () if op.is::<p::And>() => AND,
        () if op.is::<p::Or>() => OR,
        () if op.is::<p::Xor>() => XOR,
        () if op.is::<p::ShiftLeft>() => SHIFT_LEFT,
        () if op.is::<p::ShiftRightLogical>() => SHIFT_LOGICAL,
        () if op.is::<p::ShiftRightArithmetic>() => SHIFT_ARITHMETIC,
        () => return None,
    })
}

/// Writes an operation on two operands of one type.
pub(super) fn binary(emitter: &mut Emitter, forms: Forms, x: &Val, y: &Val) -> RuleResult<Val> {
    if x.dtype != y.dtype || x.shape != y.shape {
        let (x, y) = (x.aval(), y.aval());
        return Err(RuleError::unsupported(format!("operands of two types, {x} and {y}"))
            .help("convert one of them with `astype`"));
    }
    let dtype = x.dtype;
    if dtype.is_float() && !forms.float.is_empty() {
        return Ok(float_function(emitter, forms.float, &[x, y]));
    }
    let name = match dtype {
        DType::Bool => forms.bool,
        _ if dtype.is_unsigned() => forms.unsigned,
        _ => forms.signed,
    };
    if name.is_empty() {
        return Err(RuleError::unsupported(format!("has no form for {dtype} in a TPU kernel"))
            .help("convert the operands to f32 with `astype`"));
    }
    if dtype.is_integer() && dtype.bits() < forms.least_bits {
        let message = format!("a TPU computes it for integers of {} bits", forms.least_bits);
        return Err(RuleError::unsupported(format!("{message} or more, not for {}", x.aval()))
            .help("convert to i32 with `astype`, and back to store"));
    }
    let mut value = emitter.text.value(name, &[x, y], "", (dtype, &x.shape));
    value.multiple = multiple_of(name, x.multiple, y.multiple);
    Ok(value)
}

/// Returns a number that divides the result of an operation.
fn multiple_of(name: &str, x: u64, y: u64) -> u64 {
    match name {
        "arith.muli" => x.checked_mul(y).unwrap_or(1),
        "arith.addi" | "arith.subi" | "arith.maxsi" | "arith.minsi" => gcd(x, y),
        _ => 1,
    }
}

/// Returns the greatest common divisor. Every number divides 0.
pub(super) fn gcd(x: u64, y: u64) -> u64 {
    if y == 0 { x } else { gcd(y, x % y) }
}

/// Writes a function of floats. Scalars of `bf16` and vectors of 8 bits are computed in `f32`.
pub(super) fn float_function(emitter: &mut Emitter, name: &str, operands: &[&Val]) -> Val {
    let (dtype, shape) = (operands[0].dtype, operands[0].shape.clone());
    let is_narrow = dtype.bits() == 8 || (dtype.bits() == 16 && shape.is_empty());
    let wide_only = ["arith.remf", "math.powf", "math.atan2", "math.tan"].contains(&name);
    if dtype != DType::F32 && (is_narrow || wide_only) {
        let wide: Vec<Val> = operands.iter().map(|x| emitter.float(x, DType::F32)).collect();
        let value = float_function(emitter, name, &wide.iter().collect::<Vec<_>>());
        return emitter.float(&value, dtype);
    }
    // Scalar units lack these.
    let vector_only = ["math.powf", "math.atan2", "math.tan"].contains(&name);
    if shape.is_empty() && vector_only {
        let lifted: Vec<Val> = operands.iter().map(|x| emitter.broadcast(x, &[1, 1])).collect();
        let value = float_function(emitter, name, &lifted.iter().collect::<Vec<_>>());
        return emitter.extract(&value);
    }
    emitter.text.value(name, operands, "", (dtype, &shape))
}

fn other(emitter: &mut Emitter, op: &Op<'_>) -> RuleResult<Option<Val>> {
    let value = if op.is::<p::StopGradient>() || op.is::<p::Name>() {
        op.value(0)?.clone()
    } else if op.is::<p::Neg>() {
        let x = op.value(0)?;
        match x.dtype.is_float() {
            true => float_function(emitter, "arith.negf", &[x]),
            false => {
                let zero = emitter.like(x, 0.0);
                binary(emitter, SUB, &zero, x)?
            }
        }
    } else if op.is::<p::Abs>() {
        abs(emitter, op.value(0)?)?
    } else if op.is::<p::Not>() {
        not(emitter, op.value(0)?)?
    } else if op.is::<p::Sign>() {
        sign(emitter, op.value(0)?)?
    } else if op.is::<p::IsFinite>() {
        let x = op.value(0)?;
        let size = abs(emitter, x)?;
        let infinity = emitter.like(x, f64::INFINITY);
        emitter.compare(ComparisonDirection::Lt, &size, &infinity)
    } else if op.is::<p::PopulationCount>() {
        let x = op.value(0)?;
        emitter.text.value("math.ctpop", &[x], "", (x.dtype, &x.shape))
    } else if op.is::<p::CountLeadingZeros>() {
        let x = op.value(0)?;
        emitter.text.value("math.ctlz", &[x], "", (x.dtype, &x.shape))
    } else if let Some(compare) = op.get::<p::Compare>() {
        if compare.total_order {
            return Err(RuleError::unsupported("no total order of floats in a TPU kernel")
                .help("compare with `lt` and the other relations of IEEE 754"));
        }
        emitter.compare(compare.direction, op.value(0)?, op.value(1)?)
    } else if op.is::<p::Select>() {
        emitter.select(op.value(0)?, op.value(1)?, op.value(2)?)?
    } else if op.is::<p::Clamp>() {
        let x = op.value(1)?;
        let [low, high] = [op.value(0)?, op.value(2)?].map(|y| emitter.broadcast(y, &x.shape));
        let above = binary(emitter, MAX, x, &low)?;
        binary(emitter, MIN, &above, &high)?
    } else {
        return decomposed(emitter, op);
    };
    Ok(Some(value))
}

/// Writes a function by other ones.
fn decomposed(emitter: &mut Emitter, op: &Op<'_>) -> RuleResult<Option<Val>> {
    let value = if op.is::<p::Logistic>() {
        // 1 / (1 + exp(-x)), which is 0 if the exponential is infinite.
        let x = op.value(0)?;
        let negated = float_function(emitter, "arith.negf", &[x]);
        let exponential = float_function(emitter, "math.exp", &[&negated]);
        let one = emitter.like(x, 1.0);
        let sum = binary(emitter, ADD, &one, &exponential)?;
        binary(emitter, DIV, &one, &sum)?
    } else if op.is::<p::Expm1>() {
        // tanh(x / 2) (exp(x) + 1), which is accurate near 0.
        let x = op.value(0)?;
        let half = emitter.like(x, 0.5);
        let half = binary(emitter, MUL, x, &half)?;
        let tangent = float_function(emitter, "math.tanh", &[&half]);
        let exponential = float_function(emitter, "math.exp", &[x]);
        let one = emitter.like(x, 1.0);
        let sum = binary(emitter, ADD, &exponential, &one)?;
        binary(emitter, MUL, &tangent, &sum)?
    } else if op.is::<p::Sinh>() || op.is::<p::Cosh>() {
        // (exp(x) ∓ exp(-x)) / 2.
        let x = op.value(0)?;
        let negated = float_function(emitter, "arith.negf", &[x]);
        let [up, down] = [x, &negated].map(|x| float_function(emitter, "math.exp", &[x]));
        let forms = if op.is::<p::Sinh>() { SUB } else { ADD };
        let sum = binary(emitter, forms, &up, &down)?;
        let half = emitter.like(x, 0.5);
        binary(emitter, MUL, &sum, &half)?
    } else if let Some(power) = op.get::<p::IntegerPow>() {
        integer_pow(emitter, op.value(0)?, power.exponent)?
    } else if op.is::<p::Erfc>() {
        erfc(emitter, op.value(0)?)?
    } else {
        return Ok(None);
    };
    Ok(Some(value))
}

/// The coefficients of the polynomial in [`erfc`], of ascending powers.
const ERFC: [f64; 10] = [
    -1.26551223,
    1.00002368,
    0.37409196,
    0.09678418,
    -0.18628806,
    0.27886807,
    -1.13520398,
    1.48851587,
    -0.82215223,
    0.17087277,
];

/// Writes the complementary error function: `t exp(-x² + p(t))` with `t = 1 / (1 + |x| / 2)`, whose
/// relative error is below 1.2e-7 (Press et al., Numerical Recipes in C, 1992, section 6.2).
fn erfc(emitter: &mut Emitter, x: &Val) -> RuleResult<Val> {
    let (dtype, x) = (x.dtype, emitter.float(x, DType::F32));
    let [half, one, two, zero] = [0.5, 1.0, 2.0, 0.0].map(|number| emitter.like(&x, number));
    let size = abs(emitter, &x)?;
    let sum = binary(emitter, MUL, &size, &half)?;
    let sum = binary(emitter, ADD, &sum, &one)?;
    let t = binary(emitter, DIV, &one, &sum)?;
    let mut polynomial = zero.clone();
    for coefficient in ERFC.into_iter().rev() {
        let product = binary(emitter, MUL, &polynomial, &t)?;
        let coefficient = emitter.like(&x, coefficient);
        polynomial = binary(emitter, ADD, &product, &coefficient)?;
    }
    let square = binary(emitter, MUL, &x, &x)?;
    let exponent = binary(emitter, SUB, &polynomial, &square)?;
    let exponential = float_function(emitter, "math.exp", &[&exponent]);
    let tail = binary(emitter, MUL, &t, &exponential)?;
    let other = binary(emitter, SUB, &two, &tail)?;
    let is_negative = emitter.compare(ComparisonDirection::Lt, &x, &zero);
    let value = emitter.select(&is_negative, &other, &tail)?;
    Ok(emitter.float(&value, dtype))
}

fn abs(emitter: &mut Emitter, x: &Val) -> RuleResult<Val> {
    match x.dtype {
        _ if x.dtype.is_float() => Ok(float_function(emitter, "math.absf", &[x])),
        _ if x.dtype.is_unsigned() => Ok(x.clone()),
        _ => {
            let zero = emitter.like(x, 0.0);
            let negated = binary(emitter, SUB, &zero, x)?;
            binary(emitter, MAX, x, &negated)
        }
    }
}

fn not(emitter: &mut Emitter, x: &Val) -> RuleResult<Val> {
    let ones = match x.dtype {
        DType::Bool => Scalar::Bool(true),
        _ => Scalar::Int(-1),
    };
    let ones = emitter.text.fill(ones, x.dtype, &x.shape);
    binary(emitter, XOR, x, &ones)
}

fn sign(emitter: &mut Emitter, x: &Val) -> RuleResult<Val> {
    let [zero, one, minus_one] = [0.0, 1.0, -1.0].map(|number| emitter.like(x, number));
    let is_positive = emitter.compare(ComparisonDirection::Gt, x, &zero);
    let is_negative = emitter.compare(ComparisonDirection::Lt, x, &zero);
    // Zeros and NaN remain.
    let other = emitter.select(&is_negative, &minus_one, x)?;
    emitter.select(&is_positive, &one, &other)
}

/// Writes a power by repeated squaring.
fn integer_pow(emitter: &mut Emitter, x: &Val, exponent: i32) -> RuleResult<Val> {
    let one = emitter.like(x, 1.0);
    let mut square = x.clone();
    let mut product: Option<Val> = None;
    let mut rest = exponent.unsigned_abs();
    while rest > 0 {
        if rest & 1 == 1 {
            product = Some(match product {
                None => square.clone(),
                Some(product) => binary(emitter, MUL, &product, &square)?,
            });
        }
        rest >>= 1;
        if rest > 0 {
            square = binary(emitter, MUL, &square, &square)?;
        }
    }
    let power = product.unwrap_or_else(|| one.clone());
    if exponent < 0 { binary(emitter, DIV, &one, &power) } else { Ok(power) }
}

impl Emitter {
    /// Returns a number in the type of a value.
    pub(super) fn like(&mut self, x: &Val, number: f64) -> Val {
        let scalar = match x.dtype {
            DType::Bool => Scalar::Bool(number != 0.0),
            _ if x.dtype.is_integer() => Scalar::Int(number as i128),
            _ => Scalar::Float(number),
        };
        self.text.fill(scalar, x.dtype, &x.shape)
    }

    /// Writes a comparison of two values of one type.
    pub(super) fn compare(&mut self, direction: ComparisonDirection, x: &Val, y: &Val) -> Val {
        use ComparisonDirection::{Eq, Ge, Gt, Le, Lt, Ne};
        if x.dtype == DType::Bool {
            let [x, y] = [x, y].map(|x| self.bool_to_i32(x));
            return self.compare(direction, &x, &y);
        }
        let narrow = x.dtype.bits() < 32 && (x.rank() == 0 || x.dtype.bits() == 8);
        if x.dtype.is_float() && narrow {
            let [x, y] = [x, y].map(|x| self.float(x, DType::F32));
            return self.compare(direction, &x, &y);
        }
        if x.dtype.is_integer() && x.dtype.bits() < 16 {
            let [x, y] = [x, y].map(|x| self.widened(x));
            return self.compare(direction, &x, &y);
        }
        // The numbers of MLIR's predicates. Floats compare as false to NaN, except for `Ne`.
        let (name, predicate) = match (direction, x.dtype.is_float(), x.dtype.is_unsigned()) {
            (Eq, true, _) => ("arith.cmpf", 1),
            (Gt, true, _) => ("arith.cmpf", 2),
            (Ge, true, _) => ("arith.cmpf", 3),
            (Lt, true, _) => ("arith.cmpf", 4),
            (Le, true, _) => ("arith.cmpf", 5),
            (Ne, true, _) => ("arith.cmpf", 13),
            (Eq, false, _) => ("arith.cmpi", 0),
            (Ne, false, _) => ("arith.cmpi", 1),
            (Lt, false, false) => ("arith.cmpi", 2),
            (Le, false, false) => ("arith.cmpi", 3),
            (Gt, false, false) => ("arith.cmpi", 4),
            (Ge, false, false) => ("arith.cmpi", 5),
            (Lt, false, true) => ("arith.cmpi", 6),
            (Le, false, true) => ("arith.cmpi", 7),
            (Gt, false, true) => ("arith.cmpi", 8),
            (Ge, false, true) => ("arith.cmpi", 9),
        };
        let attributes = format!("predicate = {predicate} : i64");
        self.text.value(name, &[x, y], &attributes, (DType::Bool, &x.shape))
    }

    /// Writes a selection. The mask is a scalar or has the shape of the values.
    pub(super) fn select(&mut self, mask: &Val, x: &Val, y: &Val) -> RuleResult<Val> {
        if x.dtype == DType::Bool && x.rank() > 0 {
            // Vectors of bits are not selected: (mask and x) or (not mask and y).
            let mask = self.broadcast(mask, &x.shape);
            let inverse = not(self, &mask)?;
            let chosen = binary(self, AND, &mask, x)?;
            let other = binary(self, AND, &inverse, y)?;
            return binary(self, OR, &chosen, &other);
        }
        let mut value = self.text.value("arith.select", &[mask, x, y], "", (x.dtype, &x.shape));
        value.multiple = gcd(x.multiple, y.multiple);
        Ok(value)
    }
}
