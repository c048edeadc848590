//! The structs of `dlpack.h`, and its numbers of types.

use std::ffi::c_void;

use crate::types::ElementType;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DlpackVersion {
    pub(super) major: u32,
    pub(super) minor: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RawDevice {
    pub(super) device_type: i32,
    pub(super) device_id: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RawType {
    pub(super) code: u8,
    pub(super) bits: u8,
    pub(super) lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RawTensor {
    pub(super) data: *mut c_void,
    pub(super) device: RawDevice,
    pub(super) ndim: i32,
    pub(super) dtype: RawType,
    pub(super) shape: *mut i64,
    pub(super) strides: *mut i64,
    pub(super) byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
pub(super) struct Unversioned {
    pub(super) tensor: RawTensor,
    pub(super) manager: *mut c_void,
    pub(super) deleter: Option<unsafe extern "C" fn(*mut Unversioned)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
pub(super) struct Versioned {
    pub(super) version: DlpackVersion,
    pub(super) manager: *mut c_void,
    pub(super) deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    pub(super) flags: u64,
    pub(super) tensor: RawTensor,
}

/// The codes of `DLDataTypeCode`, with the number of bits.
const TYPES: &[(u8, u8, ElementType)] = &[
    (0, 8, ElementType::S8),
    (0, 16, ElementType::S16),
    (0, 32, ElementType::S32),
    (0, 64, ElementType::S64),
    (1, 8, ElementType::U8),
    (1, 16, ElementType::U16),
    (1, 32, ElementType::U32),
    (1, 64, ElementType::U64),
    (2, 16, ElementType::F16),
    (2, 32, ElementType::F32),
    (2, 64, ElementType::F64),
    (4, 16, ElementType::Bf16),
    (5, 64, ElementType::C64),
    (5, 128, ElementType::C128),
    (6, 8, ElementType::Pred),
    (7, 8, ElementType::F8E3M4),
    (8, 8, ElementType::F8E4M3),
    (9, 8, ElementType::F8E4M3B11FNUZ),
    (10, 8, ElementType::F8E4M3FN),
    (11, 8, ElementType::F8E4M3FNUZ),
    (12, 8, ElementType::F8E5M2),
    (13, 8, ElementType::F8E5M2FNUZ),
    (14, 8, ElementType::F8E8M0FNU),
];

pub(super) fn type_of(element_type: ElementType) -> Option<RawType> {
    let (code, bits, _) = TYPES.iter().find(|(_, _, known)| *known == element_type)?;
    Some(RawType { code: *code, bits: *bits, lanes: 1 })
}

pub(super) fn element_type_of(raw: RawType) -> Option<ElementType> {
    let is_it = |(code, bits, _): &&(u8, u8, ElementType)| (*code, *bits) == (raw.code, raw.bits);
    (raw.lanes == 1).then(|| TYPES.iter().find(is_it).map(|(_, _, known)| *known)).flatten()
}
