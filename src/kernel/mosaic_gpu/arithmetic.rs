//! Functions of elements: arithmetic, comparisons, conversions and elementary functions, which
//! NVIDIA's library of functions computes.

use super::text::{Element, Predicate, Writer};
use super::types::{element_type, wide};
use crate::core::{Aval, DType, Scalar};
use crate::kernel::arith::binary_operation;
use crate::primitives::{
    Abs, Acos, Acosh, Asin, Asinh, Atan, Atan2, Atanh, BitcastConvertType, Cbrt, Ceil, Clamp,
    Compare, ComparisonDirection, ConvertElementType, Cos, Cosh, Div, Erf, Exp, Exp2, Expm1, Floor,
    IntegerPow, IsFinite, Log, Log1p, LogAddExp, Logistic, Neg, Not, Pow, Rem, Round,
    RoundingMethod, Rsqrt, Select, Sign, Sin, Sinh, Sqrt, Tan, Tanh,
};
use std::any::Any;

/// Returns the operation of a function of one float.
fn float_function(primitive: &dyn Any) -> Option<&'static str> {
    let table: [(bool, &'static str); 25] = [
        (primitive.is::<Exp>(), "math.exp"),
        (primitive.is::<Exp2>(), "math.exp2"),
        (primitive.is::<Expm1>(), "math.expm1"),
        (primitive.is::<Log>(), "math.log"),
        (primitive.is::<Log1p>(), "math.log1p"),
        (primitive.is::<Sin>(), "math.sin"),
        (primitive.is::<Cos>(), "math.cos"),
        (primitive.is::<Tan>(), "math.tan"),
        (primitive.is::<Tanh>(), "math.tanh"),
        (primitive.is::<Sinh>(), "math.sinh"),
        (primitive.is::<Cosh>(), "math.cosh"),
        (primitive.is::<Asin>(), "math.asin"),
        (primitive.is::<Acos>(), "math.acos"),
        (primitive.is::<Atan>(), "math.atan"),
        (primitive.is::<Asinh>(), "math.asinh"),
        (primitive.is::<Acosh>(), "math.acosh"),
        (primitive.is::<Atanh>(), "math.atanh"),
        (primitive.is::<Erf>(), "math.erf"),
        (primitive.is::<Cbrt>(), "math.cbrt"),
        (primitive.is::<Sqrt>(), "math.sqrt"),
        (primitive.is::<Rsqrt>(), "math.rsqrt"),
        (primitive.is::<Floor>(), "math.floor"),
        (primitive.is::<Ceil>(), "math.ceil"),
        (primitive.is::<Abs>(), "math.absf"),
        (primitive.is::<Neg>(), "arith.negf"),
    ];
    table.into_iter().find(|(is_this, _)| *is_this).map(|(_, operation)| operation)
}

/// Writes a function of elements, or returns `None` if it is unknown or not defined for the
/// operands. Small floats are computed as `f32`.
pub(super) fn function(
    of: &mut Writer,
    primitive: &dyn Any,
    x: &[Element],
    result: &Aval,
) -> Option<Element> {
    if primitive.is::<ConvertElementType>() {
        return Some(convert(of, &x[0], result.dtype));
    }
    if let Some(bits) = primitive.downcast_ref::<BitcastConvertType>() {
        return bitcast(of, &x[0], bits.dtype);
    }
    if primitive.is::<Select>() {
        return Some(of.select(&x[0], &x[1], &x[2]));
    }
    let operands: Vec<Element> = x.iter().map(|x| convert(of, x, wide(x.dtype))).collect();
    let value = wide_function(of, primitive, &operands)?;
    Some(match value.dtype == result.dtype {
        true => value,
        false => convert(of, &value, result.dtype),
    })
}

fn wide_function(of: &mut Writer, primitive: &dyn Any, x: &[Element]) -> Option<Element> {
    let first = x.first()?;
    let dtype = first.dtype;
    let is_float = dtype.is_float();
    if let Some([float, signed, unsigned]) = binary_operation(primitive) {
        let operation = match (is_float, dtype.is_unsigned() || dtype.is_bool()) {
            // The plugin does not compile the rest of a division of floats.
            (true, _) if primitive.is::<Rem>() => "",
            (true, _) => float,
            (false, true) => unsigned,
            (false, false) => signed,
        };
        let is_division = !is_float && (primitive.is::<Div>() || primitive.is::<Rem>());
        return match operation {
            "" => None,
            _ if is_division => Some(division(of, operation, first, &x[1])),
            _ if operation.starts_with("arith.sh") => Some(shift(of, operation, first, &x[1])),
            _ => Some(of.binary(operation, first, &x[1])),
        };
    }
    if let Some(compare) = primitive.downcast_ref::<Compare>() {
        return Some(of.compare(predicate(compare.direction), first, &x[1]));
    }
    if let Some(power) = primitive.downcast_ref::<IntegerPow>() {
        return Some(integer_power(of, first, power.exponent));
    }
    if primitive.is::<Clamp>() {
        let [max, min] = match (is_float, dtype.is_unsigned()) {
            (true, _) => ["arith.maximumf", "arith.minimumf"],
            (false, true) => ["arith.maxui", "arith.minui"],
            (false, false) => ["arith.maxsi", "arith.minsi"],
        };
        let above = of.binary(max, &x[0], &x[1]);
        return Some(of.binary(min, &above, &x[2]));
    }
    if primitive.is::<Sign>() {
        return Some(sign(of, first));
    }
    if primitive.is::<Not>() {
        let all = match dtype {
            DType::Bool => of.fill(Scalar::Bool(true), dtype),
            _ if dtype.is_unsigned() => of.int(dtype.int_range().1, dtype),
            _ => of.int(-1, dtype),
        };
        return Some(of.binary("arith.xori", first, &all));
    }
    match is_float {
        true => float(of, primitive, x),
        false => integer(of, primitive, first),
    }
}

fn integer(of: &mut Writer, primitive: &dyn Any, x: &Element) -> Option<Element> {
    let zero = of.int(0, x.dtype);
    if primitive.is::<Neg>() {
        return Some(of.binary("arith.subi", &zero, x));
    }
    if primitive.is::<Abs>() {
        let negated = of.binary("arith.subi", &zero, x);
        return Some(match x.dtype.is_unsigned() {
            true => x.clone(),
            false => of.binary("arith.maxsi", x, &negated),
        });
    }
    None
}

fn float(of: &mut Writer, primitive: &dyn Any, x: &[Element]) -> Option<Element> {
    let (first, dtype) = (&x[0], x[0].dtype);
    if let Some(operation) = float_function(primitive) {
        return Some(of.unary(operation, first));
    }
    if primitive.is::<IsFinite>() {
        let size = of.unary("math.absf", first);
        let infinity = of.float(f64::INFINITY, dtype);
        return Some(of.compare(Predicate::Less, &size, &infinity));
    }
    if primitive.is::<Logistic>() {
        let negative = of.unary("arith.negf", first);
        let exp = of.unary("math.exp", &negative);
        let one = of.float(1.0, dtype);
        let sum = of.binary("arith.addf", &one, &exp);
        return Some(of.binary("arith.divf", &one, &sum));
    }
    if primitive.is::<LogAddExp>() {
        let high = of.binary("arith.maximumf", first, &x[1]);
        let difference = of.binary("arith.subf", first, &x[1]);
        let size = of.unary("math.absf", &difference);
        let negative = of.unary("arith.negf", &size);
        let exp = of.unary("math.exp", &negative);
        let rest = of.unary("math.log1p", &exp);
        let sum = of.binary("arith.addf", &high, &rest);
        // The difference of equal infinities is NaN.
        let is_equal = of.compare(Predicate::Equal, first, &x[1]);
        let infinity = of.float(f64::INFINITY, dtype);
        let size = of.unary("math.absf", first);
        let is_infinite = of.compare(Predicate::Equal, &size, &infinity);
        let is_same = of.binary("arith.andi", &is_equal, &is_infinite);
        return Some(of.select(&is_same, first, &sum));
    }
    if let Some(round) = primitive.downcast_ref::<Round>() {
        return Some(match round.rounding_method {
            RoundingMethod::AwayFromZero => of.unary("math.round", first),
            RoundingMethod::ToNearestEven => of.unary("math.roundeven", first),
        });
    }
    if primitive.is::<Pow>() && x[1].dtype == dtype {
        return Some(of.binary("math.powf", first, &x[1]));
    }
    primitive.is::<Atan2>().then(|| of.binary("math.atan2", first, &x[1]))
}

fn predicate(direction: ComparisonDirection) -> Predicate {
    match direction {
        ComparisonDirection::Eq => Predicate::Equal,
        ComparisonDirection::Ne => Predicate::NotEqual,
        ComparisonDirection::Ge => Predicate::GreaterEqual,
        ComparisonDirection::Gt => Predicate::Greater,
        ComparisonDirection::Le => Predicate::LessEqual,
        ComparisonDirection::Lt => Predicate::Less,
    }
}

/// Divides integers as StableHLO does: the quotient by 0 has all bits, and the rest is the
/// dividend. The quotient of the least integer and -1 is the least integer.
fn division(of: &mut Writer, operation: &str, x: &Element, y: &Element) -> Element {
    let (dtype, is_rest) = (x.dtype, operation.contains("rem"));
    let (zero, one) = (of.int(0, dtype), of.int(1, dtype));
    let is_zero = of.compare(Predicate::Equal, y, &zero);
    let mut safe = of.select(&is_zero, &one, y);
    let (low, high) = dtype.int_range();
    if dtype.is_signed() {
        let (least, minus) = (of.int(low, dtype), of.int(-1, dtype));
        let is_least = of.compare(Predicate::Equal, x, &least);
        let is_minus = of.compare(Predicate::Equal, y, &minus);
        let overflows = of.binary("arith.andi", &is_least, &is_minus);
        safe = of.select(&overflows, &one, &safe);
    }
    // With 1 instead of -1, the quotient of the least integer is that integer, and the rest is 0.
    let value = of.binary(operation, x, &safe);
    let of_zero = match (is_rest, dtype.is_signed()) {
        (true, _) => x.clone(),
        (false, true) => of.int(-1, dtype),
        (false, false) => of.int(high, dtype),
    };
    of.select(&is_zero, &of_zero, &value)
}

/// Shifts bits. A shift by the width or more leaves no bits of the number.
fn shift(of: &mut Writer, operation: &str, x: &Element, by: &Element) -> Element {
    let bits = x.dtype.bits() as i128;
    // A negative count is a large one without a sign.
    let unsigned = match by.dtype {
        DType::I8 => DType::U8,
        DType::I16 => DType::U16,
        DType::I32 => DType::U32,
        DType::I64 => DType::U64,
        other => other,
    };
    let count = Element { dtype: unsigned, ..by.clone() };
    let width = of.int(bits, unsigned);
    let is_inside = of.compare(Predicate::Less, &count, &width);
    let most = of.int(bits - 1, by.dtype);
    let limited = of.select(&is_inside, by, &most);
    let shifted = of.binary(operation, x, &limited);
    if operation == "arith.shrsi" {
        return shifted;
    }
    let zero = of.int(0, x.dtype);
    of.select(&is_inside, &shifted, &zero)
}

fn sign(of: &mut Writer, x: &Element) -> Element {
    let (zero, one) = (of.int(0, x.dtype), of.int(1, x.dtype));
    let is_above = of.compare(Predicate::Greater, x, &zero);
    // Zeros and NaN are their own sign.
    let rest = if x.dtype.is_unsigned() {
        x.clone()
    } else {
        let is_below = of.compare(Predicate::Less, x, &zero);
        let minus = of.int(-1, x.dtype);
        of.select(&is_below, &minus, x)
    };
    of.select(&is_above, &one, &rest)
}

fn integer_power(of: &mut Writer, x: &Element, exponent: i32) -> Element {
    let is_float = x.dtype.is_float();
    let multiply = if is_float { "arith.mulf" } else { "arith.muli" };
    let one = of.int(1, x.dtype);
    let (mut square, mut power) = (x.clone(), None);
    let mut rest = exponent.unsigned_abs();
    while rest > 0 {
        if rest % 2 == 1 {
            power = Some(match power {
                Some(power) => of.binary(multiply, &power, &square),
                None => square.clone(),
            });
        }
        rest /= 2;
        if rest > 0 {
            square = of.binary(multiply, &square.clone(), &square);
        }
    }
    let power = power.unwrap_or_else(|| one.clone());
    match (exponent < 0, is_float, x.dtype.is_unsigned()) {
        (false, ..) => power,
        (true, true, _) => of.binary("arith.divf", &one, &power),
        (true, false, true) => division(of, "arith.divui", &one, &power),
        (true, false, false) => division(of, "arith.divsi", &one, &power),
    }
}

fn bitcast(of: &mut Writer, x: &Element, dtype: DType) -> Option<Element> {
    if x.dtype.bits() != dtype.bits() || x.dtype.is_bool() || dtype.is_bool() {
        return None;
    }
    if element_type(x.dtype) == element_type(dtype) {
        return Some(Element { dtype, ..x.clone() });
    }
    Some(of.apply("arith.bitcast", &[x], "", dtype))
}

/// Converts to another dtype.
pub(super) fn convert(of: &mut Writer, x: &Element, dtype: DType) -> Element {
    let from = x.dtype;
    if from == dtype {
        return x.clone();
    }
    if dtype.is_bool() {
        let zero = of.int(0, from);
        return of.compare(Predicate::NotEqual, x, &zero);
    }
    let is_small = |dtype: DType| dtype.is_float() && dtype.bits() < 32;
    let through_f32 = |of: &mut Writer| {
        let wide = convert(of, x, DType::F32);
        convert(of, &wide, dtype)
    };
    let is_signed = from.is_signed() && !from.is_bool();
    match (from.is_float(), dtype.is_float()) {
        (false, false) if element_type(from) == element_type(dtype) => {
            Element { dtype, ..x.clone() }
        }
        (false, false) if from.bits() > dtype.bits() && !from.is_bool() => {
            of.apply("arith.trunci", &[x], "", dtype)
        }
        (false, false) if is_signed => of.apply("arith.extsi", &[x], "", dtype),
        (false, false) => of.apply("arith.extui", &[x], "", dtype),
        (false, true) if is_small(dtype) => through_f32(of),
        (false, true) if is_signed => of.apply("arith.sitofp", &[x], "", dtype),
        (false, true) => of.apply("arith.uitofp", &[x], "", dtype),
        (true, false) if is_small(from) => through_f32(of),
        (true, false) if dtype.is_unsigned() => of.apply("arith.fptoui", &[x], "", dtype),
        (true, false) => of.apply("arith.fptosi", &[x], "", dtype),
        (true, true) if is_small(from) && dtype != DType::F32 => through_f32(of),
        (true, true) if is_small(dtype) && from == DType::F64 => through_f32(of),
        (true, true) if from.bits() > dtype.bits() => of.apply("arith.truncf", &[x], "", dtype),
        (true, true) => of.apply("arith.extf", &[x], "", dtype),
    }
}
