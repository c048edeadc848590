//! Constants that hold one value per element.

use super::device_put::in_memory;
use super::reshard::sharded_like;
use super::rules::{arity, zero_jvp};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    Registered, RuleError, RuleResult, Scalar, Shape, Tangent, bind1, trace,
};
use crate::ensure_shape;
use crate::stablehlo::Value;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::Write as _;
use std::sync::Arc;

/// An array whose elements are part of the program. Closed programs hold the concrete arrays that
/// rules of `custom_jvp` and `custom_vjp` create as constants, because their inputs are given.
///
/// | | |
/// |-|-|
/// | operands   | none |
/// | result     | the given dtype, weakness and shape |
/// | lowering   | [`stablehlo.constant`](https://openxla.org/stablehlo/spec#constant) |
/// | derivative | zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DenseConstant {
    /// The dtype of the result, other than `f4_e2m1fn`.
    pub dtype: DType,
    /// The shape of the result.
    pub shape: Vec<usize>,
    /// The result is weakly typed.
    pub weak: bool,
    /// The elements, row-major, little-endian. Sub-byte dtypes take one byte per element.
    #[serde(with = "digits")]
    pub elements: Arc<[u8]>,
}

/// Returns bytes as hexadecimal digits.
fn digits_of(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(digits, "{byte:02x}").expect("a string grows");
    }
    digits
}

/// Bytes in the text of a program: hexadecimal digits.
mod digits {
    use super::{Arc, Deserialize, Deserializer, Serializer, digits_of};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&digits_of(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<[u8]>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let byte = |pair: &[u8]| {
            let [high, low] = pair else { return None };
            let digit = |&digit: &u8| char::from(digit).to_digit(16);
            u8::try_from(16 * digit(high)? + digit(low)?).ok()
        };
        let bytes: Option<Arc<[u8]>> = text.as_bytes().chunks(2).map(byte).collect();
        bytes.ok_or_else(|| {
            serde::de::Error::custom("the elements of a constant are pairs of hexadecimal digits")
        })
    }
}

impl Primitive for DenseConstant {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        arity::<0>(operands)?;
        let aval = Aval { weak: self.weak, ..Aval::new(self.dtype, &self.shape[..]) };
        let expected = aval.size().saturating_mul(self.dtype.host_bytes());
        ensure_shape!(
            self.elements.len() == expected,
            "{aval} takes {expected} bytes, got {}",
            self.elements.len()
        );
        if self.dtype.is_float() && self.dtype.bits() < 8 {
            return Err(RuleError::unsupported(format!("no constants of {} yet", self.dtype)));
        }
        Ok(vec![aval])
    }
    fn jvp(&self, primals: &[Array], _: &[Tangent]) -> JvpResult {
        zero_jvp(self, primals)
    }
    fn batch(&self, _: &[Array], _: &[Option<usize>], _: &BatchAxis) -> RuleResult<Batched> {
        Ok(Batched { outputs: vec![bind1(self.clone(), [])], axes: vec![None] })
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        _: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let [result] = results else {
            return Err(RuleError::value("a constant has one result"));
        };
        if result.size() == 0 {
            let zero = Scalar::Int(0).stablehlo(self.dtype);
            return Ok(vec![ctx.constant(&zero, &result.stablehlo())]);
        }
        // Booleans and integers of less than a byte are written as bytes and converted.
        let stored = match self.dtype {
            DType::Bool => DType::U8,
            narrow if narrow.bits() < 8 && narrow.is_unsigned() => DType::U8,
            narrow if narrow.bits() < 8 => DType::I8,
            whole => whole,
        };
        let digits = format!("\"0x{}\"", digits_of(&self.elements));
        let constant = ctx.constant(&digits, &Aval::new(stored, &self.shape[..]).stablehlo());
        Ok(vec![match stored == self.dtype {
            true => constant,
            false => ctx.op_as("convert", &[constant], "", &result.stablehlo()),
        }])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        Cost::movement(operands, results)
    }
    fn constant_bytes(&self) -> Option<Vec<u8>> {
        Some(self.elements.to_vec())
    }
}

/// Returns a concrete array as a constant of the program that is being traced.
///
/// Throws `Runtime` if its elements cannot be read.
#[track_caller]
pub(crate) fn constant_of(x: &Array) -> Array {
    let aval = x.aval();
    let elements = match x.to_host() {
        Ok(host) => host.as_bytes().into(),
        Err(error) => trace::throw(error),
    };
    let shape = aval.shape.to_vec();
    let constant = bind1(DenseConstant { dtype: aval.dtype, shape, weak: aval.weak, elements }, []);
    let placed = match aval.memory.is_host() {
        true => in_memory(&constant, aval.memory),
        false => constant,
    };
    if aval.sharding.is_some() { sharded_like(&placed, aval) } else { placed }
}

impl Registered for DenseConstant {
    const NAME: &'static str = "dense_constant";
    fn exemplars() -> Vec<Exemplar> {
        let constant = |dtype: DType, shape: &[usize]| {
            let n_bytes = Shape::new(shape).size() * dtype.host_bytes();
            // Finite numbers in every dtype, and booleans that are 0 or 1.
            let elements = (0..n_bytes).map(|at| (at % 2) as u8).collect();
            let constant = DenseConstant { dtype, shape: shape.to_vec(), weak: false, elements };
            Exemplar::new(constant, [])
        };
        let is_whole = |dtype: &DType| !(dtype.is_float() && dtype.bits() < 8);
        let mut all: Vec<Exemplar> =
            DType::all().filter(is_whole).map(|dtype| constant(dtype, &[2])).collect();
        let shapes: [&[usize]; 3] = [&[], &[0, 3], &[1, 2]];
        all.extend(shapes.map(|shape| constant(DType::F32, shape)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_written_as_digits() {
        let elements = Arc::new([0, 0, 128, 63]);
        let constant = DenseConstant { dtype: DType::F32, shape: vec![], weak: false, elements };
        let text = serde_json::to_string(&constant).unwrap();
        assert!(text.contains("\"0000803f\""), "{text}");
        assert_eq!(serde_json::from_str::<DenseConstant>(&text).unwrap(), constant);
        for damaged in ["\"0000803\"", "\"0000zz3f\"", "\"+1\"", "4"] {
            let text = text.replace("\"0000803f\"", damaged);
            assert!(serde_json::from_str::<DenseConstant>(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_number_of_bytes_is_checked() {
        let elements = Arc::new([0; 7]);
        let constant = DenseConstant { dtype: DType::F32, shape: vec![2], weak: false, elements };
        let error = constant.abstract_eval(&[]).unwrap_err();
        assert_eq!(error.message, "f32[2] takes 8 bytes, got 7");
    }
}
