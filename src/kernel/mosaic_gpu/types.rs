//! Element types of the text.

use crate::core::DType;

/// The type of pointers to main memory.
pub(super) const GLOBAL: &str = "!llvm.ptr";
/// The type of pointers to shared memory.
pub(super) const SHARED: &str = "!llvm.ptr<3>";

/// Returns the type of an element. Integers have no sign.
pub(super) fn element_type(dtype: DType) -> &'static str {
    match dtype {
        DType::U8 => "i8",
        DType::U16 => "i16",
        DType::U32 => "i32",
        DType::U64 => "i64",
        _ => dtype.stablehlo(),
    }
}

/// Returns the type of an element in memory: a boolean is a byte.
pub(super) fn stored_type(dtype: DType) -> &'static str {
    if dtype.is_bool() { "i8" } else { element_type(dtype) }
}

/// Returns the bytes of an element in memory.
pub(super) fn stored_bytes(dtype: DType) -> usize {
    dtype.bits().div_ceil(8)
}

/// Returns the dtype in which elements are computed.
pub(super) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::BF16 | DType::F16 => DType::F32,
        _ => dtype,
    }
}

/// Returns the dtype in which elements are combined by reductions: one of 32 or 64 bits, which
/// threads exchange.
pub(super) fn combined(dtype: DType) -> DType {
    match dtype {
        DType::Bool | DType::I8 | DType::I16 => DType::I32,
        DType::U8 | DType::U16 => DType::U32,
        _ => wide(dtype),
    }
}
