//! Names with values: client options, and the attributes of plugins, devices and topologies.

use std::ffi::c_char;

use oxidax_pjrt_sys as sys;

use crate::api;

/// A value of a client option or an attribute.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PjrtValue {
    /// Text.
    String(String),
    /// An integer.
    Int64(i64),
    /// A list of integers, such as a device's coordinates.
    Int64List(Vec<i64>),
    /// A single-precision number.
    Float(f32),
    /// True or false.
    Bool(bool),
}

/// A name with its value.
///
/// ```
/// # use oxidax_pjrt::{NamedValue, PjrtValue};
/// let option = NamedValue::new("cpu_device_count", 8);
/// assert_eq!(option.value, PjrtValue::Int64(8));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NamedValue {
    /// The name.
    pub name: String,
    /// The value.
    pub value: PjrtValue,
}

impl NamedValue {
    /// Creates a name with a value.
    pub fn new(name: impl Into<String>, value: impl Into<PjrtValue>) -> Self {
        Self { name: name.into(), value: value.into() }
    }

    /// Returns the C form, which borrows from `self`.
    pub(crate) fn to_raw(&self) -> sys::PJRT_NamedValue {
        let mut raw = sys::PJRT_NamedValue {
            struct_size: size_of::<sys::PJRT_NamedValue>(),
            name: self.name.as_ptr().cast::<c_char>(),
            name_size: self.name.len(),
            value_size: 1,
            ..Default::default()
        };
        let value = &mut raw.__bindgen_anon_1;
        match &self.value {
            PjrtValue::String(text) => {
                raw.type_ = sys::PJRT_NamedValue_kString;
                raw.value_size = text.len();
                value.string_value = text.as_ptr().cast::<c_char>();
            }
            PjrtValue::Int64(number) => {
                raw.type_ = sys::PJRT_NamedValue_kInt64;
                value.int64_value = *number;
            }
            PjrtValue::Int64List(list) => {
                raw.type_ = sys::PJRT_NamedValue_kInt64List;
                raw.value_size = list.len();
                value.int64_array_value = list.as_ptr();
            }
            PjrtValue::Float(number) => {
                raw.type_ = sys::PJRT_NamedValue_kFloat;
                value.float_value = *number;
            }
            PjrtValue::Bool(flag) => {
                raw.type_ = sys::PJRT_NamedValue_kBool;
                value.bool_value = *flag;
            }
        }
        raw
    }

    /// Copies an array that the C API returned and sorts it by name, because plugins return it in
    /// arbitrary order. Values of a kind that this crate does not support are omitted.
    ///
    /// # Safety
    /// `raw` is null or points to `count` valid named values.
    pub(crate) unsafe fn list(raw: *const sys::PJRT_NamedValue, count: usize) -> Vec<Self> {
        // SAFETY: the caller guarantees the array.
        let raw = unsafe { api::slice(raw, count) };
        // SAFETY: each item of the array is valid.
        let mut list: Vec<_> =
            raw.iter().filter_map(|item| unsafe { Self::from_raw(item) }).collect();
        list.sort_by(|lhs, rhs| lhs.name.cmp(&rhs.name));
        list
    }

    /// # Safety
    /// The pointers in `raw` are valid, and its `type_` states which member of the union is set.
    unsafe fn from_raw(raw: &sys::PJRT_NamedValue) -> Option<Self> {
        let value = &raw.__bindgen_anon_1;
        // SAFETY: `type_` selects the member that the plugin wrote, and pointers are accompanied by
        // their length.
        let value = unsafe {
            match raw.type_ {
                sys::PJRT_NamedValue_kString => {
                    PjrtValue::String(api::string(value.string_value, raw.value_size))
                }
                sys::PJRT_NamedValue_kInt64 => PjrtValue::Int64(value.int64_value),
                sys::PJRT_NamedValue_kInt64List => PjrtValue::Int64List(
                    api::slice(value.int64_array_value, raw.value_size).to_vec(),
                ),
                sys::PJRT_NamedValue_kFloat => PjrtValue::Float(value.float_value),
                sys::PJRT_NamedValue_kBool => PjrtValue::Bool(value.bool_value),
                _ => return None,
            }
        };
        // SAFETY: the name is accompanied by its length.
        let name = unsafe { api::string(raw.name, raw.name_size) };
        Some(Self { name, value })
    }
}

macro_rules! from {
    ($($from:ty => $variant:ident),+) => {
        $(impl From<$from> for PjrtValue {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        })+
    };
}

from!(i32 => Int64, i64 => Int64, Vec<i64> => Int64List);
from!(f32 => Float, bool => Bool, &str => String, String => String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_trip_through_c() {
        let values = [
            NamedValue::new("b", true),
            NamedValue::new("empty", ""),
            NamedValue::new("f", 2.5_f32),
            NamedValue::new("i", -3),
            NamedValue::new("l", vec![1_i64, 2, 3]),
            NamedValue::new("s", "text"),
        ];
        let raw: Vec<_> = values.iter().map(NamedValue::to_raw).collect();
        // SAFETY: `raw` borrows from `values`, which is alive.
        let back = unsafe { NamedValue::list(raw.as_ptr(), raw.len()) };
        assert_eq!(back, values);
    }
}
