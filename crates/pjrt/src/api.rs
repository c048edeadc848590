//! Uniform calls into the C API: each argument struct names the function that takes it.
//!
//! Every PJRT function takes a pointer to a struct that begins with its own size. [`Args`] ties the
//! struct to its slot in the table of function pointers. [`Plugin::call`](crate::Plugin) then
//! checks that the plugin provides the function, passes the struct, and converts the error.

use std::ptr::NonNull;

use oxidax_pjrt_sys as sys;

use crate::error::{Error, Result};

/// A C function of the PJRT table that takes `A`.
pub(crate) type Function<A> = unsafe extern "C" fn(*mut A) -> *mut sys::PJRT_Error;

/// An argument struct of a function in the PJRT table.
pub(crate) trait Args: Sized {
    /// The function's name, as in the C header.
    const NAME: &'static str;

    /// The function's slot in the plugin's table.
    fn slot(table: &sys::PJRT_Api) -> Option<Function<Self>>;

    /// Returns a zeroed struct with its size field set.
    fn new() -> Self;
}

macro_rules! args {
    ($($args:ident => $function:ident),+ $(,)?) => {
        $(impl Args for sys::$args {
            const NAME: &'static str = stringify!($function);

            fn slot(table: &sys::PJRT_Api) -> Option<Function<Self>> {
                table.$function
            }

            fn new() -> Self {
                Self { struct_size: size_of::<Self>(), ..Self::default() }
            }
        })+
    };
}

args! {
    PJRT_Plugin_Initialize_Args => PJRT_Plugin_Initialize,
    PJRT_Plugin_Attributes_Args => PJRT_Plugin_Attributes,
    PJRT_Event_Destroy_Args => PJRT_Event_Destroy,
    PJRT_Event_IsReady_Args => PJRT_Event_IsReady,
    PJRT_Event_Error_Args => PJRT_Event_Error,
    PJRT_Event_Await_Args => PJRT_Event_Await,
    PJRT_Event_OnReady_Args => PJRT_Event_OnReady,
    PJRT_Client_Create_Args => PJRT_Client_Create,
    PJRT_Client_Destroy_Args => PJRT_Client_Destroy,
    PJRT_Client_PlatformName_Args => PJRT_Client_PlatformName,
    PJRT_Client_PlatformVersion_Args => PJRT_Client_PlatformVersion,
    PJRT_Client_ProcessIndex_Args => PJRT_Client_ProcessIndex,
    PJRT_Client_Devices_Args => PJRT_Client_Devices,
    PJRT_Client_AddressableMemories_Args => PJRT_Client_AddressableMemories,
    PJRT_Client_DefaultDeviceAssignment_Args => PJRT_Client_DefaultDeviceAssignment,
    PJRT_Client_TopologyDescription_Args => PJRT_Client_TopologyDescription,
    PJRT_Client_Compile_Args => PJRT_Client_Compile,
    PJRT_Client_BufferFromHostBuffer_Args => PJRT_Client_BufferFromHostBuffer,
    PJRT_Client_CreateUninitializedBuffer_Args => PJRT_Client_CreateUninitializedBuffer,
    PJRT_Client_CreateViewOfDeviceBuffer_Args => PJRT_Client_CreateViewOfDeviceBuffer,
    PJRT_Device_GetDescription_Args => PJRT_Device_GetDescription,
    PJRT_Device_IsAddressable_Args => PJRT_Device_IsAddressable,
    PJRT_Device_LocalHardwareId_Args => PJRT_Device_LocalHardwareId,
    PJRT_Device_AddressableMemories_Args => PJRT_Device_AddressableMemories,
    PJRT_Device_DefaultMemory_Args => PJRT_Device_DefaultMemory,
    PJRT_DeviceDescription_Id_Args => PJRT_DeviceDescription_Id,
    PJRT_DeviceDescription_ProcessIndex_Args => PJRT_DeviceDescription_ProcessIndex,
    PJRT_DeviceDescription_Attributes_Args => PJRT_DeviceDescription_Attributes,
    PJRT_DeviceDescription_Kind_Args => PJRT_DeviceDescription_Kind,
    PJRT_DeviceDescription_DebugString_Args => PJRT_DeviceDescription_DebugString,
    PJRT_DeviceDescription_ToString_Args => PJRT_DeviceDescription_ToString,
    PJRT_Memory_Id_Args => PJRT_Memory_Id,
    PJRT_Memory_Kind_Args => PJRT_Memory_Kind,
    PJRT_Memory_Kind_Id_Args => PJRT_Memory_Kind_Id,
    PJRT_Memory_DebugString_Args => PJRT_Memory_DebugString,
    PJRT_Memory_ToString_Args => PJRT_Memory_ToString,
    PJRT_Memory_AddressableByDevices_Args => PJRT_Memory_AddressableByDevices,
    PJRT_Executable_Destroy_Args => PJRT_Executable_Destroy,
    PJRT_Executable_Name_Args => PJRT_Executable_Name,
    PJRT_Executable_NumReplicas_Args => PJRT_Executable_NumReplicas,
    PJRT_Executable_NumPartitions_Args => PJRT_Executable_NumPartitions,
    PJRT_Executable_NumOutputs_Args => PJRT_Executable_NumOutputs,
    PJRT_Executable_SizeOfGeneratedCodeInBytes_Args => PJRT_Executable_SizeOfGeneratedCodeInBytes,
    PJRT_Executable_GetCostAnalysis_Args => PJRT_Executable_GetCostAnalysis,
    PJRT_Executable_OutputElementTypes_Args => PJRT_Executable_OutputElementTypes,
    PJRT_Executable_OutputDimensions_Args => PJRT_Executable_OutputDimensions,
    PJRT_Executable_OutputMemoryKinds_Args => PJRT_Executable_OutputMemoryKinds,
    PJRT_Executable_OptimizedProgram_Args => PJRT_Executable_OptimizedProgram,
    PJRT_Executable_Serialize_Args => PJRT_Executable_Serialize,
    PJRT_Executable_Fingerprint_Args => PJRT_Executable_Fingerprint,
    PJRT_Executable_DeserializeAndLoad_Args => PJRT_Executable_DeserializeAndLoad,
    PJRT_LoadedExecutable_Destroy_Args => PJRT_LoadedExecutable_Destroy,
    PJRT_LoadedExecutable_GetExecutable_Args => PJRT_LoadedExecutable_GetExecutable,
    PJRT_LoadedExecutable_AddressableDevices_Args => PJRT_LoadedExecutable_AddressableDevices,
    PJRT_LoadedExecutable_Execute_Args => PJRT_LoadedExecutable_Execute,
    PJRT_Buffer_Destroy_Args => PJRT_Buffer_Destroy,
    PJRT_Buffer_ElementType_Args => PJRT_Buffer_ElementType,
    PJRT_Buffer_Dimensions_Args => PJRT_Buffer_Dimensions,
    PJRT_Buffer_GetMemoryLayout_Args => PJRT_Buffer_GetMemoryLayout,
    PJRT_Buffer_ToHostBuffer_Args => PJRT_Buffer_ToHostBuffer,
    PJRT_Buffer_OnDeviceSizeInBytes_Args => PJRT_Buffer_OnDeviceSizeInBytes,
    PJRT_Buffer_Delete_Args => PJRT_Buffer_Delete,
    PJRT_Buffer_IsDeleted_Args => PJRT_Buffer_IsDeleted,
    PJRT_Buffer_CopyRawToHost_Args => PJRT_Buffer_CopyRawToHost,
    PJRT_Buffer_CopyToDevice_Args => PJRT_Buffer_CopyToDevice,
    PJRT_Buffer_CopyToMemory_Args => PJRT_Buffer_CopyToMemory,
    PJRT_Buffer_IsOnCpu_Args => PJRT_Buffer_IsOnCpu,
    PJRT_Buffer_Memory_Args => PJRT_Buffer_Memory,
    PJRT_Buffer_ReadyEvent_Args => PJRT_Buffer_ReadyEvent,
    PJRT_Buffer_IncreaseExternalReferenceCount_Args => PJRT_Buffer_IncreaseExternalReferenceCount,
    PJRT_Buffer_DecreaseExternalReferenceCount_Args => PJRT_Buffer_DecreaseExternalReferenceCount,
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args => PJRT_Buffer_OpaqueDeviceMemoryDataPointer,
    PJRT_Buffer_UnsafePointer_Args => PJRT_Buffer_UnsafePointer,
    PJRT_CopyToDeviceStream_AddChunk_Args => PJRT_CopyToDeviceStream_AddChunk,
    PJRT_CopyToDeviceStream_Destroy_Args => PJRT_CopyToDeviceStream_Destroy,
    PJRT_TopologyDescription_Create_Args => PJRT_TopologyDescription_Create,
    PJRT_TopologyDescription_Destroy_Args => PJRT_TopologyDescription_Destroy,
    PJRT_TopologyDescription_PlatformName_Args => PJRT_TopologyDescription_PlatformName,
    PJRT_TopologyDescription_PlatformVersion_Args => PJRT_TopologyDescription_PlatformVersion,
    PJRT_TopologyDescription_GetDeviceDescriptions_Args =>
        PJRT_TopologyDescription_GetDeviceDescriptions,
    PJRT_TopologyDescription_Attributes_Args => PJRT_TopologyDescription_Attributes,
    PJRT_TopologyDescription_Serialize_Args => PJRT_TopologyDescription_Serialize,
    PJRT_TopologyDescription_Deserialize_Args => PJRT_TopologyDescription_Deserialize,
    PJRT_Compile_Args => PJRT_Compile,
}

/// A pointer to a plugin object that may move between threads.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handle<T>(NonNull<T>);

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Handle<T> {}

// SAFETY: PJRT documents its objects as usable from any thread, and this crate never dereferences a
// handle.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above; the plugin synchronizes concurrent calls on one object.
unsafe impl<T> Sync for Handle<T> {}

impl<T> Handle<T> {
    /// Wraps a pointer that the C API returned; `None` for null.
    pub(crate) fn new(pointer: *mut T) -> Option<Self> {
        NonNull::new(pointer).map(Self)
    }

    pub(crate) fn as_ptr(self) -> *mut T {
        self.0.as_ptr()
    }
}

/// Copies bytes that the C API returned as pointer and length into a `String`.
///
/// # Safety
/// `data` is null or points to `size` readable bytes.
pub(crate) unsafe fn string(data: *const std::ffi::c_char, size: usize) -> String {
    // SAFETY: the caller guarantees the range.
    String::from_utf8_lossy(unsafe { slice(data.cast::<u8>(), size) }).into_owned()
}

/// Returns the slice that the C API described by pointer and length; empty for null.
///
/// # Safety
/// `data` is null or points to `size` values that stay readable for `'a`.
pub(crate) unsafe fn slice<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if data.is_null() || size == 0 {
        return &[];
    }
    // SAFETY: the caller guarantees the range, and it is not null.
    unsafe { std::slice::from_raw_parts(data, size) }
}

/// Wraps a pointer that the C API returned; for null, the error names the missing object.
pub(crate) fn expect<T>(pointer: *mut T, what: &'static str) -> Result<Handle<T>> {
    Handle::new(pointer).ok_or_else(|| Error::invalid(what, "the plugin returned none"))
}

impl Args for sys::PJRT_Device_MemoryStats_Args_0_114 {
    const NAME: &'static str = "PJRT_Device_MemoryStats";

    fn slot(table: &sys::PJRT_Api) -> Option<Function<Self>> {
        // SAFETY: both are pointers to a function that takes one pointer, and the struct begins
        // with the fields of its 0.90 version.
        unsafe { std::mem::transmute(table.PJRT_Device_MemoryStats) }
    }

    fn new() -> Self {
        let base = sys::PJRT_Device_MemoryStats_Args {
            struct_size: size_of::<Self>(),
            ..Default::default()
        };
        Self { base, peak_allocated_bytes: 0, peak_allocated_bytes_is_set: false }
    }
}

impl Args for sys::PJRT_Executable_GetCompiledMemoryStats_Args_0_114 {
    const NAME: &'static str = "PJRT_Executable_GetCompiledMemoryStats";

    fn slot(table: &sys::PJRT_Api) -> Option<Function<Self>> {
        // SAFETY: both are pointers to a function that takes one pointer, and the struct begins
        // with the fields of its 0.90 version.
        unsafe { std::mem::transmute(table.PJRT_Executable_GetCompiledMemoryStats) }
    }

    fn new() -> Self {
        let base = sys::PJRT_Executable_GetCompiledMemoryStats_Args {
            struct_size: size_of::<Self>(),
            ..Default::default()
        };
        Self {
            base,
            total_allocation_bytes: 0,
            indefinite_allocations: 0,
            peak_unpadded_heap_bytes: 0,
        }
    }
}
