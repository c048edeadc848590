//! Constant attributes of a custom call.

use std::ffi::c_void;

use oxidax_pjrt_sys as sys;

use crate::api;
use crate::types::ElementType;

/// A constant attribute of a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Attribute {
    /// A number or a boolean.
    Scalar(AttributeScalar),
    /// Text.
    String(String),
    /// Several numbers of one element type.
    Array(Vec<AttributeScalar>),
    /// Several attributes, sorted by name.
    Dictionary(Vec<(String, Attribute)>),
}

/// A number or a boolean of some element type.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum AttributeScalar {
    /// A boolean.
    Bool(bool),
    /// A signed integer of any width.
    Int(i64),
    /// An unsigned integer of any width.
    Uint(u64),
    /// A single- or double-precision number.
    Float(f64),
    /// A value of any other type, as its bytes.
    Other(ElementType, [u8; 16]),
}

impl Attribute {
    /// Returns the integer, if the value is one and fits an `i64`.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Scalar(AttributeScalar::Int(number)) => Some(*number),
            Self::Scalar(AttributeScalar::Uint(number)) => i64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// Returns the number, if the value is a floating-point number.
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Self::Scalar(AttributeScalar::Float(number)) => Some(*number),
            _ => None,
        }
    }

    /// Returns the boolean, if the value is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Scalar(AttributeScalar::Bool(flag)) => Some(*flag),
            _ => None,
        }
    }

    /// Returns the text, if the value is text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// Copies the attributes of a frame or a dictionary. Attribute kinds that this crate does not
    /// support are omitted.
    ///
    /// # Safety
    /// The attributes belong to a running call.
    pub(super) unsafe fn list(raw: &sys::XLA_FFI_Attrs) -> Vec<(String, Self)> {
        let count = usize::try_from(raw.size).unwrap_or(0);
        // SAFETY: the numbers of types, names and values are those that the struct states.
        let (kinds, names, values) = unsafe {
            (
                api::slice(raw.types, count),
                api::slice(raw.names, count),
                api::slice(raw.attrs, count),
            )
        };
        let pairs = kinds.iter().zip(names).zip(values).filter_map(|((&kind, &name), &value)| {
            // SAFETY: names are spans, and the kind states the type of the value.
            unsafe { Some((span(&*name), Self::from_raw(kind, value)?)) }
        });
        pairs.collect()
    }

    /// # Safety
    /// `value` points to a value of the type that `kind` states.
    unsafe fn from_raw(kind: sys::XLA_FFI_AttrType, value: *mut c_void) -> Option<Self> {
        // SAFETY: the caller guarantees the kind.
        unsafe {
            match kind {
                sys::XLA_FFI_AttrType_SCALAR => {
                    let scalar = &*value.cast::<sys::XLA_FFI_Scalar>();
                    let element = ElementType::from_primitive(scalar.dtype)?;
                    AttributeScalar::read(element, scalar.value.cast::<u8>()).map(Self::Scalar)
                }
                sys::XLA_FFI_AttrType_STRING => {
                    Some(Self::String(span(&*value.cast::<sys::XLA_FFI_ByteSpan>())))
                }
                sys::XLA_FFI_AttrType_ARRAY => {
                    let array = &*value.cast::<sys::XLA_FFI_Array>();
                    let element = ElementType::from_primitive(array.dtype)?;
                    let start = array.data.cast::<u8>();
                    let items = (0..array.size).map(|i| {
                        AttributeScalar::read(element, start.add(i * element.host_size()))
                    });
                    items.collect::<Option<_>>().map(Self::Array)
                }
                sys::XLA_FFI_AttrType_DICTIONARY => {
                    Some(Self::Dictionary(Self::list(&*value.cast::<sys::XLA_FFI_Attrs>())))
                }
                _ => None,
            }
        }
    }
}

impl AttributeScalar {
    /// # Safety
    /// `start` points to a value of the type.
    unsafe fn read(element: ElementType, start: *const u8) -> Option<Self> {
        let mut bytes = [0; 16];
        let size = element.host_size();
        // SAFETY: the value is `size` bytes long, and no type is longer than 16.
        unsafe { start.copy_to_nonoverlapping(bytes.as_mut_ptr(), size) };
        let number = u64::from_ne_bytes(*bytes.first_chunk()?);
        Some(match element {
            ElementType::Pred => Self::Bool(bytes[0] != 0),
            ElementType::S8 => Self::Int((number as i8).into()),
            ElementType::S16 => Self::Int((number as i16).into()),
            ElementType::S32 => Self::Int((number as i32).into()),
            ElementType::S64 => Self::Int(number as i64),
            ElementType::U8 | ElementType::U16 | ElementType::U32 | ElementType::U64 => {
                Self::Uint(number)
            }
            ElementType::F32 => Self::Float(f32::from_bits(number as u32).into()),
            ElementType::F64 => Self::Float(f64::from_bits(number)),
            other => Self::Other(other, bytes),
        })
    }
}

/// # Safety
/// The span's bytes are readable.
unsafe fn span(span: &sys::XLA_FFI_ByteSpan) -> String {
    // SAFETY: the caller guarantees the span.
    unsafe { api::string(span.ptr, span.len) }
}
