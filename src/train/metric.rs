//! Numbers that the device may still be computing.

use crate::core::{Array, DType, Error};
use half::{bf16, f16};

/// A number to write: a host value, or an array of one element that may still be computed.
///
/// Created from numbers and from `&Array` with `into()`.
#[derive(Clone, Debug)]
pub struct Metric(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Number(f64),
    Array(Array),
}

macro_rules! numbers {
    ($($ty:ty),*) => {$(
        impl From<$ty> for Metric {
            fn from(number: $ty) -> Metric {
                Metric(Kind::Number(number.into()))
            }
        }
    )*};
}

numbers!(f64, f32, i32, u32);

impl From<&Array> for Metric {
    fn from(array: &Array) -> Metric {
        Metric(Kind::Array(array.clone()))
    }
}

impl From<Array> for Metric {
    fn from(array: Array) -> Metric {
        Metric(Kind::Array(array))
    }
}

impl Metric {
    /// Returns true if reading does not wait.
    pub(super) fn is_ready(&self) -> Result<bool, Error> {
        match &self.0 {
            Kind::Number(_) => Ok(true),
            Kind::Array(array) => array.is_ready(),
        }
    }

    /// Waits for the number and returns it.
    pub(super) fn read(&self) -> Result<f64, Error> {
        match &self.0 {
            Kind::Number(number) => Ok(*number),
            Kind::Array(array) => item(array),
        }
    }

    /// Returns an error for anything but a single real number, while the caller's line is known.
    pub(super) fn checked(self, doing: &str, name: &str) -> Result<Metric, Error> {
        match &self.0 {
            Kind::Array(array) if array.is_traced() => Err(Error::data(
                doing,
                format!("`{name}` is traced; return it from the step and pass what `call` gives"),
            )),
            Kind::Array(array) if array.size() != 1 || !is_readable(array.dtype()) => {
                Err(Error::data(
                    doing,
                    format!("`{name}` is {}, not one real number: pass its mean", array.aval()),
                ))
            }
            _ => Ok(self),
        }
    }
}

fn is_readable(dtype: DType) -> bool {
    use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    [Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64].contains(&dtype)
}

fn item(array: &Array) -> Result<f64, Error> {
    Ok(match array.dtype() {
        DType::Bool => f64::from(u8::from(array.item::<bool>()?)),
        DType::I8 => array.item::<i8>()?.into(),
        DType::I16 => array.item::<i16>()?.into(),
        DType::I32 => array.item::<i32>()?.into(),
        DType::I64 => array.item::<i64>()? as f64,
        DType::U8 => array.item::<u8>()?.into(),
        DType::U16 => array.item::<u16>()?.into(),
        DType::U32 => array.item::<u32>()?.into(),
        DType::U64 => array.item::<u64>()? as f64,
        DType::F16 => array.item::<f16>()?.into(),
        DType::BF16 => array.item::<bf16>()?.into(),
        DType::F32 => array.item::<f32>()?.into(),
        _ => array.item::<f64>()?,
    })
}
