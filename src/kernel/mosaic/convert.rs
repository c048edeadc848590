//! Conversions between dtypes.

use super::emitter::{Emitter, Item, Op};
use super::text::Val;
use crate::core::{DType, RuleError, RuleResult};
use crate::primitives::{BitcastConvertType, ComparisonDirection, ConvertElementType};

/// Writes a conversion.
pub(super) fn emit(emitter: &mut Emitter, op: &Op<'_>) -> RuleResult<Option<Vec<Item>>> {
    let value = if let Some(convert) = op.get::<ConvertElementType>() {
        emitter.convert(op.value(0)?, convert.dtype)
    } else if let Some(bitcast) = op.get::<BitcastConvertType>() {
        let x = op.value(0)?;
        if x.dtype.bits() != bitcast.dtype.bits() || x.dtype == DType::Bool {
            let message = format!("no bits of {} as {} in a TPU kernel", x.dtype, bitcast.dtype);
            return Err(RuleError::unsupported(message).help("choose a dtype of the same width"));
        }
        match x.dtype.is_integer() && bitcast.dtype.is_integer() {
            true => Val { dtype: bitcast.dtype, ..x.clone() },
            false => emitter.text.value("arith.bitcast", &[x], "", (bitcast.dtype, &x.shape)),
        }
    } else {
        return Ok(None);
    };
    Ok(Some(vec![Item::Value(value)]))
}

impl Emitter {
    fn conversion(&mut self, name: &str, x: &Val, dtype: DType) -> Val {
        let mut value = self.text.value(name, &[x], "", (dtype, &x.shape));
        value.multiple = x.multiple;
        value
    }

    /// Converts a boolean to `i32`.
    pub(super) fn bool_to_i32(&mut self, x: &Val) -> Val {
        Val { multiple: 1, ..self.conversion("arith.extui", x, DType::I32) }
    }

    /// Converts a narrow integer to 32 bits.
    pub(super) fn widened(&mut self, x: &Val) -> Val {
        match x.dtype {
            _ if x.dtype.bits() == 32 => x.clone(),
            _ if x.dtype.is_unsigned() => self.conversion("arith.extui", x, DType::U32),
            _ => self.conversion("arith.extsi", x, DType::I32),
        }
    }

    /// Converts between floats. Floats of 8 bits convert through `f32`.
    pub(super) fn float(&mut self, x: &Val, dtype: DType) -> Val {
        let (from, to) = (x.dtype.bits(), dtype.bits());
        match from.cmp(&to) {
            _ if x.dtype == dtype => x.clone(),
            std::cmp::Ordering::Less => self.conversion("arith.extf", x, dtype),
            _ if x.dtype != DType::F32 => {
                let wide = self.float(x, DType::F32);
                self.float(&wide, dtype)
            }
            _ => self.conversion("arith.truncf", x, dtype),
        }
    }

    /// Converts a value to another dtype.
    pub(super) fn convert(&mut self, x: &Val, dtype: DType) -> Val {
        let is_scalar = x.rank() == 0;
        if x.dtype == dtype {
            return x.clone();
        }
        if x.dtype == DType::Bool {
            let number = self.bool_to_i32(x);
            return self.convert(&number, dtype);
        }
        if dtype == DType::Bool {
            let zero = self.like(x, 0.0);
            return self.compare(ComparisonDirection::Ne, x, &zero);
        }
        match (x.dtype.is_float(), dtype.is_float()) {
            (true, true) => self.float(x, dtype),
            (false, false) => self.integer(x, dtype),
            (false, true) => {
                let x = match x.dtype.bits() {
                    8 | 16 | 32 if !is_scalar => x.clone(),
                    _ => self.widened(x),
                };
                let name = if x.dtype.is_unsigned() { "arith.uitofp" } else { "arith.sitofp" };
                let direct = if dtype == DType::BF16 && !is_scalar { dtype } else { DType::F32 };
                let value = self.conversion(name, &x, direct);
                self.float(&Val { multiple: 1, ..value }, dtype)
            }
            (true, false) => {
                let x = self.float(x, DType::F32);
                let (name, wide) = match dtype.is_unsigned() {
                    true => ("arith.fptoui", DType::U32),
                    false => ("arith.fptosi", DType::I32),
                };
                let value = Val { multiple: 1, ..self.conversion(name, &x, wide) };
                self.integer(&value, dtype)
            }
        }
    }

    fn integer(&mut self, x: &Val, dtype: DType) -> Val {
        match x.dtype.bits().cmp(&dtype.bits()) {
            // Integers have no sign in Mosaic: only the operations on them differ.
            std::cmp::Ordering::Equal => Val { dtype, ..x.clone() },
            std::cmp::Ordering::Greater => {
                Val { multiple: 1, ..self.conversion("arith.trunci", x, dtype) }
            }
            std::cmp::Ordering::Less => {
                let name = if x.dtype.is_unsigned() { "arith.extui" } else { "arith.extsi" };
                self.conversion(name, x, dtype)
            }
        }
    }
}
