//! Parts of the C API that are newer than the header from which `bindings.rs` was generated.
//!
//! Layouts are those of C API 0.114. A struct that only gained fields since 0.90 has a second
//! definition here. Its name ends in the version that it describes. It may be passed to older
//! plugins too, because they accept larger structs.

use core::ffi::c_char;
use core::mem::{offset_of, size_of};

use crate::bindings::*;

/// Extension that returns the shardings of a compiled program's parameters and outputs.
pub const PJRT_Extension_Type_Shardings: PJRT_Extension_Type = 19;
/// Extension that compares the binary interfaces of runtimes and executables.
pub const PJRT_Extension_Type_AbiVersion: PJRT_Extension_Type = 20;
/// Extension with standalone collectives.
pub const PJRT_Extension_Type_Collectives: PJRT_Extension_Type = 21;
/// Extension that configures programs for several slices.
pub const PJRT_Extension_Type_MultiSlice: PJRT_Extension_Type = 22;
/// Extension that allocates host memory accessible to the device.
pub const PJRT_Extension_Type_HostMemoryAllocator: PJRT_Extension_Type = 23;
/// Extension that lets the caller rewrite the module during compilation.
pub const PJRT_Extension_Type_XlaTransform: PJRT_Extension_Type = 24;

/// One-bit signed integer.
pub const PJRT_Buffer_Type_S1: PJRT_Buffer_Type = 30;
/// One-bit unsigned integer.
pub const PJRT_Buffer_Type_U1: PJRT_Buffer_Type = 31;
/// Six-bit float with two exponent bits.
pub const PJRT_Buffer_Type_F6E2M3FN: PJRT_Buffer_Type = 32;
/// Six-bit float with three exponent bits.
pub const PJRT_Buffer_Type_F6E3M2FN: PJRT_Buffer_Type = 33;

/// Arguments of both functions of [`PJRT_Shardings_Extension`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PJRT_Shardings_Args {
    /// Size of this struct in bytes.
    pub struct_size: usize,
    /// Reserved for extensions.
    pub extension_start: *mut PJRT_Extension_Base,
    /// The executable.
    pub executable: *mut PJRT_Executable,
    /// Out: number of shardings. 0 if the program has none.
    pub num_shardings: usize,
    /// Out: serialized `xla.OpSharding` messages, owned by the executable.
    pub shardings: *const *const c_char,
    /// Out: their lengths in bytes.
    pub sharding_sizes: *const usize,
}

/// A function of [`PJRT_Shardings_Extension`].
pub type PJRT_Shardings_Function =
    unsafe extern "C" fn(args: *mut PJRT_Shardings_Args) -> *mut PJRT_Error;

/// Functions that return the shardings of a compiled program's parameters and outputs.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PJRT_Shardings_Extension {
    /// Size, type and next extension.
    pub base: PJRT_Extension_Base,
    /// Returns the shardings of the parameters.
    pub parameter_shardings: Option<PJRT_Shardings_Function>,
    /// Returns the shardings of the outputs.
    pub output_shardings: Option<PJRT_Shardings_Function>,
}

/// `PJRT_Executable_GetCompiledMemoryStats_Args` as of 0.114, with three more fields at the end.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PJRT_Executable_GetCompiledMemoryStats_Args_0_114 {
    /// The struct as of 0.90.
    pub base: PJRT_Executable_GetCompiledMemoryStats_Args,
    /// Out: total bytes of all allocations.
    pub total_allocation_bytes: i64,
    /// Out: bytes of allocations that exist as long as the program.
    pub indefinite_allocations: i64,
    /// Out: peak heap size without padding, in bytes.
    pub peak_unpadded_heap_bytes: i64,
}

/// `PJRT_Device_MemoryStats_Args` as of 0.114, with one more counter at the end.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PJRT_Device_MemoryStats_Args_0_114 {
    /// The struct as of 0.90.
    pub base: PJRT_Device_MemoryStats_Args,
    /// Out: peak of the allocated bytes.
    pub peak_allocated_bytes: i64,
    /// Out: true if `peak_allocated_bytes` is set.
    pub peak_allocated_bytes_is_set: bool,
}

/// `PJRT_ExecuteOptions` as of 0.114.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PJRT_ExecuteOptions_0_114 {
    /// The struct as of 0.90.
    pub base: PJRT_ExecuteOptions,
    /// Configuration of a program for several slices, or null.
    pub multi_slice_config: *mut core::ffi::c_void,
    /// True if host callbacks get row-major data, whatever the device layout.
    pub use_major_to_minor_data_layout_for_callbacks: bool,
    /// Callbacks that receive the program's instrumented values, or null.
    pub hlo_output_callbacks: *mut core::ffi::c_void,
    /// Number of callbacks.
    pub num_hlo_output_callbacks: usize,
}

macro_rules! assert_layout {
    ($type:ty, $size:literal, $($field:ident @ $offset:literal),+) => {
        const _: () = {
            assert!(size_of::<$type>() == $size);
            $(assert!(offset_of!($type, $field) == $offset);)+
        };
    };
}

assert_layout!(
    PJRT_Shardings_Args, 48, struct_size @ 0, extension_start @ 8, executable @ 16,
    num_shardings @ 24, shardings @ 32, sharding_sizes @ 40
);
assert_layout!(
    PJRT_Shardings_Extension, 40, base @ 0, parameter_shardings @ 24, output_shardings @ 32
);
assert_layout!(
    PJRT_Executable_GetCompiledMemoryStats_Args_0_114, 144, base @ 0,
    total_allocation_bytes @ 120, indefinite_allocations @ 128, peak_unpadded_heap_bytes @ 136
);
assert_layout!(
    PJRT_Device_MemoryStats_Args_0_114, 208, base @ 0, peak_allocated_bytes @ 192,
    peak_allocated_bytes_is_set @ 200
);
assert_layout!(
    PJRT_ExecuteOptions_0_114, 144, base @ 0, multi_slice_config @ 112,
    use_major_to_minor_data_layout_for_callbacks @ 120, hlo_output_callbacks @ 128,
    num_hlo_output_callbacks @ 136
);
