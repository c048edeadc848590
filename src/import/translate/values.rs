//! The values of a translation.

use super::{KnownIntegers, Operands, Translated, Translator};
use crate::core::{Array, Aval, DType, Error, Scalar, Shape};
use crate::primitives::{broadcast_to, fill_of};
use oxidax_vhlo::ValueType;
use rustc_hash::FxHashMap;
use std::sync::{Mutex, PoisonError};

/// A value of the module.
#[derive(Clone, Debug)]
pub(in crate::import) enum Traced {
    /// An array.
    Array(Array),
    /// An array of equal elements, and the element.
    Filled(Array, Scalar),
    /// Integers that are known while the module is translated.
    Known(KnownIntegers),
    /// A whole array whose shards a function is called with, or has returned, and the text of its
    /// sharding.
    Sharded(Array, String),
    /// A token.
    Token,
    /// A tuple.
    Tuple(Vec<Traced>),
}

impl Traced {
    /// Returns the dtype and the shape of an array.
    pub(super) fn array_type(&self) -> Option<(DType, Shape)> {
        match self {
            Traced::Array(array) | Traced::Filled(array, _) => {
                Some((array.dtype(), array.shape().clone()))
            }
            Traced::Known(known) => Some((known.dtype, known.shape.clone())),
            Traced::Sharded(..) | Traced::Token | Traced::Tuple(_) => None,
        }
    }

    /// Returns true for an array that operations take.
    pub(super) fn is_array(&self) -> bool {
        matches!(self, Traced::Array(_) | Traced::Filled(..) | Traced::Known(_))
    }

    pub(in crate::import) fn kind(&self) -> &'static str {
        match self {
            Traced::Array(_) | Traced::Filled(..) | Traced::Known(_) => "an array",
            Traced::Sharded(..) => "an array in shards",
            Traced::Token => "a token",
            Traced::Tuple(_) => "a tuple",
        }
    }

    pub(super) fn known(&self) -> Option<&KnownIntegers> {
        match self {
            Traced::Known(known) => Some(known),
            _ => None,
        }
    }
}

/// The constants of a module on the device. Translations share them.
#[derive(Default)]
pub(in crate::import) struct Constants(Mutex<FxHashMap<usize, Array>>);

impl<'m> Translator<'m> {
    /// Returns a constant. An array of equal elements is filled where it is used.
    pub(super) fn constant(&self, operands: &Operands<'m>) -> Translated<Traced> {
        let id = operands.operation.results().next().unwrap_or_default();
        let constants = || self.constants.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = constants().get(&id).cloned();
        if let Some(array) = known {
            return Ok(Traced::Array(array));
        }
        let (ty, data) = self.vhlo(operands.operation.constant())?;
        let fail = |message: &str| self.unsupported(operands.operation, message);
        let ValueType::Tensor(element, sizes) = &ty else {
            return Err(fail("its value is not an array"));
        };
        let dtype = DType::from_stablehlo(element);
        let dtype = dtype.ok_or_else(|| fail(&format!("the dtype {element} is not supported")))?;
        let sizes = sizes.iter().map(|size| size.and_then(|size| usize::try_from(size).ok()));
        let sizes: Option<Vec<usize>> = sizes.collect();
        let shape = Shape::from(sizes.ok_or_else(|| fail("its value has no known size"))?);
        let aval = Aval::new(dtype, shape);
        let width = dtype.host_bytes();
        if aval.size() == 0 {
            return Ok(Traced::Filled(fill_of(Scalar::Int(0), &aval), Scalar::Int(0)));
        }
        // The bytecode has one byte for each integer of less than 8 bits, as the host does.
        if data.len() == width {
            if let Some(value) = scalar_of(dtype, &data) {
                return Ok(Traced::Filled(fill_of(value, &aval), value));
            }
            let one = Array::from_bytes(&data, dtype, Shape::scalar())?;
            return Ok(Traced::Array(broadcast_to(&one, aval.shape.clone())));
        }
        if aval.size().checked_mul(width) != Some(data.len()) {
            let (size, found) = (aval.size(), data.len());
            return Err(fail(&format!("{size} elements of {dtype} have {found} bytes")));
        }
        let array = Array::from_bytes(&data, dtype, aval.shape.clone())?;
        constants().insert(id, array.clone());
        Ok(Traced::Array(array))
    }

    /// Returns an error if the operation has another number of operands.
    pub(super) fn expect(&self, operands: &Operands<'m>, count: usize) -> Result<(), Error> {
        match operands.values.len() {
            found if found == count => Ok(()),
            found => {
                let message = format!("it has {found} operands in place of {count}");
                Err(self.unsupported(operands.operation, &message))
            }
        }
    }
}

/// Returns a number that is exact as a `Scalar`.
fn scalar_of(dtype: DType, data: &[u8]) -> Option<Scalar> {
    Some(match (dtype, data) {
        (DType::Bool, [byte]) => Scalar::Bool(*byte != 0),
        (DType::I8 | DType::I4 | DType::I2, [byte]) => Scalar::Int((*byte as i8).into()),
        (DType::U8 | DType::U4 | DType::U2, [byte]) => Scalar::Int((*byte).into()),
        (DType::I16, data) => Scalar::Int(i16::from_le_bytes(data.try_into().ok()?).into()),
        (DType::U16, data) => Scalar::Int(u16::from_le_bytes(data.try_into().ok()?).into()),
        (DType::I32, data) => Scalar::Int(i32::from_le_bytes(data.try_into().ok()?).into()),
        (DType::U32, data) => Scalar::Int(u32::from_le_bytes(data.try_into().ok()?).into()),
        (DType::I64, data) => Scalar::Int(i64::from_le_bytes(data.try_into().ok()?).into()),
        (DType::U64, data) => Scalar::Int(u64::from_le_bytes(data.try_into().ok()?).into()),
        (DType::F32, data) => {
            let number = f32::from_le_bytes(data.try_into().ok()?);
            // Other bits of NaN would be lost.
            (!number.is_nan() || number.to_bits() == f32::NAN.to_bits())
                .then_some(Scalar::Float(number.into()))?
        }
        (DType::F64, data) => {
            let number = f64::from_le_bytes(data.try_into().ok()?);
            (!number.is_nan() || number.to_bits() == f64::NAN.to_bits())
                .then_some(Scalar::Float(number))?
        }
        (DType::BF16, data) => {
            let number = half::bf16::from_le_bytes(data.try_into().ok()?);
            (!number.is_nan()).then_some(Scalar::Float(number.into()))?
        }
        (DType::F16, data) => {
            let number = half::f16::from_le_bytes(data.try_into().ok()?);
            (!number.is_nan()).then_some(Scalar::Float(number.into()))?
        }
        _ => return None,
    })
}
