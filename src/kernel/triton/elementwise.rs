//! Arithmetic, comparisons, conversions and bits of elements.

use super::emitter::Emitter;
use super::ir::Tensor;
use crate::core::{Aval, DType, RuleResult, Scalar};
use crate::kernel::arith::binary_operation;
use crate::primitives::{
    Abs, BitcastConvertType, Clamp, Compare, ComparisonDirection, ConvertElementType, Div,
    IntegerPow, IsFinite, Neg, Not, Rem, Sign,
};
use std::any::Any;

/// Returns true for dtypes that are computed as `f32`.
fn is_small_float(dtype: DType) -> bool {
    matches!(dtype, DType::BF16 | DType::F16)
}

impl Emitter<'_> {
    /// Writes an operation on elements, or returns `None` if it is unknown.
    pub(super) fn elementwise(
        &mut self,
        primitive: &dyn Any,
        x: &[Tensor],
        result: &Aval,
    ) -> RuleResult<Option<Tensor>> {
        if primitive.is::<ConvertElementType>() {
            return Ok(Some(self.convert(&x[0], result.dtype)));
        }
        if let Some(of) = primitive.downcast_ref::<BitcastConvertType>() {
            return Ok(self.bitcast(&x[0], of.dtype));
        }
        let shape = result.shape.to_vec();
        // Operands that are scalars broadcast, and small floats are computed as f32.
        let mut operands = Vec::with_capacity(x.len());
        for operand in x {
            let wide = match is_small_float(operand.dtype) {
                true => self.convert(operand, DType::F32),
                false => operand.clone(),
            };
            operands.push(self.ir.broadcast(&wide, &shape));
        }
        let Some(value) = self.wide_elementwise(primitive, &operands) else { return Ok(None) };
        let value = Tensor { output: None, zero_padding: false, ..value };
        Ok(Some(match value.dtype == result.dtype || value.dtype.is_bool() {
            true => value,
            false => self.convert(&value, result.dtype),
        }))
    }

    fn wide_elementwise(&mut self, primitive: &dyn Any, x: &[Tensor]) -> Option<Tensor> {
        let first = &x[0];
        let dtype = first.dtype;
        let is_float = dtype.is_float();
        if let Some([float, signed, unsigned]) = binary_operation(primitive) {
            let operation = match (is_float, dtype.is_unsigned() || dtype.is_bool()) {
                (true, _) => float,
                (false, true) => unsigned,
                (false, false) => signed,
            };
            let is_shift = operation.starts_with("arith.sh");
            let is_division = !is_float && (primitive.is::<Div>() || primitive.is::<Rem>());
            return match (operation, is_shift) {
                ("", _) => None,
                _ if is_division => Some(self.division(operation, first, &x[1])),
                (_, true) => Some(self.shift(operation, first, &x[1])),
                _ => Some(self.ir.binary(operation, first, &x[1])),
            };
        }
        if let Some(of) = primitive.downcast_ref::<Compare>() {
            return Some(self.comparison(of.direction, first, &x[1]));
        }
        if let Some(of) = primitive.downcast_ref::<IntegerPow>() {
            return Some(self.integer_power(first, of.exponent));
        }
        if primitive.is::<Clamp>() {
            let [max, min] = match (is_float, dtype.is_unsigned()) {
                (true, _) => ["arith.maximumf", "arith.minimumf"],
                (false, true) => ["arith.maxui", "arith.minui"],
                (false, false) => ["arith.maxsi", "arith.minsi"],
            };
            let above = self.ir.binary(max, &x[0], &x[1]);
            return Some(self.ir.binary(min, &above, &x[2]));
        }
        if primitive.is::<Neg>() {
            let zero = match is_float {
                true => self.ir.float(-0.0, first),
                false => self.ir.int(0, dtype, &first.shape),
            };
            let operation = if is_float { "arith.subf" } else { "arith.subi" };
            return Some(self.ir.binary(operation, &zero, first));
        }
        if primitive.is::<Not>() {
            let all = match dtype.is_bool() {
                true => self.ir.fill(Scalar::Bool(true), dtype, &first.shape),
                false if dtype.is_unsigned() => {
                    self.ir.int(dtype.int_range().1, dtype, &first.shape)
                }
                false => self.ir.int(-1, dtype, &first.shape),
            };
            return Some(self.ir.binary("arith.xori", first, &all));
        }
        if primitive.is::<Abs>() {
            if is_float {
                return Some(self.ir.unary("math.absf", first));
            }
            let zero = self.ir.int(0, dtype, &first.shape);
            let negated = self.ir.binary("arith.subi", &zero, first);
            return Some(match dtype.is_unsigned() {
                true => first.clone(),
                false => self.ir.binary("arith.maxsi", first, &negated),
            });
        }
        if primitive.is::<Sign>() {
            return Some(self.sign(first));
        }
        if primitive.is::<IsFinite>() {
            let size = self.ir.unary("math.absf", first);
            let infinity = self.ir.float(f64::INFINITY, first);
            return Some(self.ir.compare("cmpf olt", &size, &infinity));
        }
        self.math(primitive, x)
    }

    fn comparison(&mut self, direction: ComparisonDirection, x: &Tensor, y: &Tensor) -> Tensor {
        use ComparisonDirection::{Eq, Ge, Gt, Le, Lt, Ne};
        let is_unsigned = x.dtype.is_unsigned() || x.dtype.is_bool();
        let name = match (x.dtype.is_float(), is_unsigned, direction) {
            (true, _, Eq) => "cmpf oeq",
            (true, _, Ne) => "cmpf une",
            (true, _, Ge) => "cmpf oge",
            (true, _, Gt) => "cmpf ogt",
            (true, _, Le) => "cmpf ole",
            (true, _, Lt) => "cmpf olt",
            (false, _, Eq) => "cmpi eq",
            (false, _, Ne) => "cmpi ne",
            (false, true, Ge) => "cmpi uge",
            (false, true, Gt) => "cmpi ugt",
            (false, true, Le) => "cmpi ule",
            (false, true, Lt) => "cmpi ult",
            (false, false, Ge) => "cmpi sge",
            (false, false, Gt) => "cmpi sgt",
            (false, false, Le) => "cmpi sle",
            (false, false, Lt) => "cmpi slt",
        };
        self.ir.compare(name, x, y)
    }

    /// Divides integers as StableHLO does: the quotient by 0 has all bits, and the rest is the
    /// dividend. The quotient of the least integer and -1 is the least integer.
    fn division(&mut self, operation: &str, x: &Tensor, y: &Tensor) -> Tensor {
        let (dtype, is_rest) = (x.dtype, operation.contains("rem"));
        let [zero, one] = [0, 1].map(|number| self.ir.int(number, dtype, &x.shape));
        let is_zero = self.ir.compare("cmpi eq", y, &zero);
        let mut safe = self.ir.select(&is_zero, &one, y);
        let (low, high) = dtype.int_range();
        if dtype.is_signed() {
            let least = self.ir.int(low, dtype, &x.shape);
            let minus = self.ir.int(-1, dtype, &x.shape);
            let is_least = self.ir.compare("cmpi eq", x, &least);
            let is_minus = self.ir.compare("cmpi eq", y, &minus);
            let overflows = self.ir.binary("arith.andi", &is_least, &is_minus);
            safe = self.ir.select(&overflows, &one, &safe);
        }
        let value = self.ir.binary(operation, x, &safe);
        let of_zero = match (is_rest, dtype.is_signed()) {
            (true, _) => x.clone(),
            (false, true) => self.ir.int(-1, dtype, &x.shape),
            (false, false) => self.ir.int(high, dtype, &x.shape),
        };
        self.ir.select(&is_zero, &of_zero, &value)
    }

    /// Shifts bits. A shift by the width or more leaves no bits of the number.
    fn shift(&mut self, operation: &str, x: &Tensor, by: &Tensor) -> Tensor {
        let bits = x.dtype.bits() as i128;
        let width = self.ir.int(bits, by.dtype, &by.shape);
        let is_inside = self.ir.compare("cmpi ult", by, &width);
        let most = self.ir.int(bits - 1, by.dtype, &by.shape);
        let limited = self.ir.select(&is_inside, by, &most);
        let shifted = self.ir.binary(operation, x, &limited);
        if operation == "arith.shrsi" {
            return shifted;
        }
        let zero = self.ir.int(0, x.dtype, &x.shape);
        self.ir.select(&is_inside, &shifted, &zero)
    }

    fn sign(&mut self, x: &Tensor) -> Tensor {
        let is_float = x.dtype.is_float();
        let number = |of: &mut Self, value: i128| of.ir.int(value, x.dtype, &x.shape);
        let (zero, one) = (number(self, 0), number(self, 1));
        let [above, below] = match (is_float, x.dtype.is_unsigned()) {
            (true, _) => ["cmpf ogt", "cmpf olt"],
            (false, true) => ["cmpi ugt", "cmpi ult"],
            (false, false) => ["cmpi sgt", "cmpi slt"],
        };
        let is_above = self.ir.compare(above, x, &zero);
        // Zeros and NaN are their own sign.
        let rest = if x.dtype.is_unsigned() {
            x.clone()
        } else {
            let is_below = self.ir.compare(below, x, &zero);
            let minus = number(self, -1);
            self.ir.select(&is_below, &minus, x)
        };
        self.ir.select(&is_above, &one, &rest)
    }

    fn integer_power(&mut self, x: &Tensor, exponent: i32) -> Tensor {
        let [multiply, divide] = match x.dtype.is_float() {
            true => ["arith.mulf", "arith.divf"],
            false => ["arith.muli", "arith.divsi"],
        };
        let one = self.ir.int(1, x.dtype, &x.shape);
        let (mut square, mut power) = (x.clone(), None);
        let mut rest = exponent.unsigned_abs();
        while rest > 0 {
            if rest % 2 == 1 {
                power = Some(match power {
                    Some(power) => self.ir.binary(multiply, &power, &square),
                    None => square.clone(),
                });
            }
            rest /= 2;
            if rest > 0 {
                square = self.ir.binary(multiply, &square.clone(), &square);
            }
        }
        let power = power.unwrap_or_else(|| one.clone());
        if exponent < 0 { self.ir.binary(divide, &one, &power) } else { power }
    }

    fn bitcast(&mut self, x: &Tensor, dtype: DType) -> Option<Tensor> {
        if x.dtype.bits() != dtype.bits() {
            return None;
        }
        let (from, to) = (super::ir::element(x.dtype), super::ir::element(dtype));
        if from == to {
            return Some(Tensor { dtype, output: None, ..x.clone() });
        }
        let operation = if x.rank() == 0 { "arith.bitcast" } else { "tt.bitcast" };
        let to = super::ir::type_of(dtype, &x.shape);
        let arrow = if x.rank() == 0 { "to" } else { "->" };
        let text = format!("{operation} {} : {} {arrow} {to}", x.name, x.ty());
        Some(self.ir.op(&text, dtype, &x.shape))
    }
}
