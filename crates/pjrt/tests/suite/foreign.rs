//! Handlers of other languages, buffers that share memory, and DLPack.

use std::ffi::c_void;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oxidax_pjrt::ffi::{self, ForeignHandler, SITE};
use oxidax_pjrt::{
    AlignedBytes, ArrayType, DlpackDevice, DlpackTensor, ElementType, Error, ExecuteOptions,
    LoadedExecutable, PjrtBuffer, SharedView, UniqueBuffer,
};
use oxidax_pjrt_sys as sys;

use crate::plugins::{client, compile, f32_buffer, f32_bytes, f32_values, on_each};

fn call(name: &str, attributes: &str) -> String {
    format!(
        "module @m {{ func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
           %0 = stablehlo.custom_call @{name}(%x)
             {{api_version = 4 : i32, backend_config = {{{attributes}}}}}
             : (tensor<4xf32>) -> tensor<4xf32>
           return %0 : tensor<4xf32> }} }}"
    )
}

fn run(executable: &LoadedExecutable) -> Result<Vec<f32>, Error> {
    let x = f32_buffer(executable.client(), &[4], &[1.0, 2.0, 3.0, 4.0]);
    let results = executable.execute(&[&x], &ExecuteOptions::default())?;
    results[0].wait()?;
    Ok(f32_values(&results[0]))
}

/// Multiplies by the attribute `factor`. Fails with `the factor is negative` if it is, and if there
/// are other attributes, as the bindings for C++ do.
unsafe extern "C" fn scale(frame: *mut sys::XLA_FFI_CallFrame) -> *mut sys::XLA_FFI_Error {
    // SAFETY: XLA passes a valid frame.
    let frame = unsafe { &*frame };
    // SAFETY: a list of extensions holds extensions of the types that they state.
    if let Some(extension) = unsafe { frame.extension_start.as_ref() }
        && extension.type_ == sys::XLA_FFI_Extension_Metadata
    {
        // SAFETY: as above.
        unsafe {
            let metadata = frame.extension_start.cast::<sys::XLA_FFI_Metadata_Extension>();
            let metadata = (*metadata).metadata;
            (*metadata).api_version.major_version = 0;
            (*metadata).api_version.minor_version = 1;
            (*metadata).traits = 0;
        }
        return std::ptr::null_mut();
    }
    let fail = |message: &std::ffi::CStr| {
        let mut args = sys::XLA_FFI_Error_Create_Args {
            struct_size: size_of::<sys::XLA_FFI_Error_Create_Args>(),
            extension_start: std::ptr::null_mut(),
            message: message.as_ptr(),
            errc: sys::XLA_FFI_Error_Code_INVALID_ARGUMENT,
        };
        // SAFETY: the table is valid, and the message is copied.
        unsafe { (*frame.api).XLA_FFI_Error_Create.expect("in every version")(&raw mut args) }
    };
    if frame.attrs.size != 1 {
        return fail(c"there must be one attribute");
    }
    // SAFETY: programs of these tests call it with one `f32` attribute, and with four `f32`.
    unsafe {
        let factor = &**frame.attrs.attrs.cast::<*const sys::XLA_FFI_Scalar>();
        let factor = *factor.value.cast::<f32>();
        if factor < 0.0 {
            return fail(c"the factor is negative");
        }
        let x = &**frame.args.args.cast::<*const sys::XLA_FFI_Buffer>();
        let y = &**frame.rets.rets.cast::<*const sys::XLA_FFI_Buffer>();
        for index in 0..4 {
            *y.data.cast::<f32>().add(index) = factor * *x.data.cast::<f32>().add(index);
        }
    }
    std::ptr::null_mut()
}

fn described(site: Option<&str>, message: String) -> String {
    format!("{message} at {}", site.unwrap_or("an unknown place"))
}

#[test]
fn a_c_function_is_called_without_the_site() {
    on_each(|client, _| {
        // SAFETY: the function is of this type, and keeps to the rules.
        let handler = unsafe { ForeignHandler::from_address(scale as *const c_void) };
        let handler = handler.expect("not null");
        let plugin = client.plugin();
        ffi::register_foreign(plugin, "cpu", "test.c_scale", handler, described)
            .expect("registered");
        let plain = compile(client, &call("test.c_scale", "factor = 2.0 : f32"));
        assert_eq!(run(&plain).expect("runs"), [2.0, 4.0, 6.0, 8.0]);
        let site = format!("factor = 3.0 : f32, {SITE} = \"main.rs:1:2\"");
        let placed = compile(client, &call("test.c_scale", &site));
        assert_eq!(run(&placed).expect("runs"), [3.0, 6.0, 9.0, 12.0]);
        let site = site.replace("3.0", "-3.0");
        let failing = compile(client, &call("test.c_scale", &site));
        let error = run(&failing).expect_err("fails").to_string();
        assert!(error.contains("the factor is negative at main.rs:1:2"), "{error}");
        let failing = compile(client, &call("test.c_scale", "factor = -1.0 : f32"));
        let error = run(&failing).expect_err("fails").to_string();
        assert!(error.contains("the factor is negative at an unknown place"), "{error}");
    });
    // SAFETY: null is not a handler.
    assert!(unsafe { ForeignHandler::from_address(std::ptr::null()) }.is_none());
}

/// Doubles, without XLA's headers: the offsets are those of `c_api.h`.
const SOURCE: &str = r#"
#include <stddef.h>
#include <stdint.h>
struct base { size_t size; struct base *next; };
struct extension { size_t size; uint32_t type; struct extension *next; struct metadata *metadata; };
struct version { size_t size; void *next; int major, minor; };
struct metadata { size_t size; struct version v; uint32_t traits; };
struct list { size_t size; void *next; int64_t n; void *types; void **items; };
struct frame {
  size_t size; struct extension *extensions; void *api, *ctx; uint32_t stage;
  struct list args, rets;
};
struct buffer { size_t size; void *next; uint32_t dtype; void *data; int64_t rank; int64_t *dims; };
void *doubled(struct frame *frame) {
  if (frame->extensions && frame->extensions->type == 1) {
    struct metadata *m = frame->extensions->metadata;
    m->v.major = 0; m->v.minor = 1; m->traits = 0;
    return NULL;
  }
  struct buffer *x = frame->args.items[0], *y = frame->rets.items[0];
  for (int64_t i = 0; i < x->dims[0]; i++) ((float *)y->data)[i] = 2 * ((float *)x->data)[i];
  return NULL;
}
"#;

#[test]
fn a_symbol_of_a_shared_library_is_called() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, library) = (folder.path().join("doubled.c"), folder.path().join("doubled.so"));
    std::fs::write(&source, SOURCE).expect("written");
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    // Rust programs are linked by `cc`, so it is there.
    assert!(compiled.expect("cc runs").success());
    // SAFETY: the library has no initializers.
    let missing = unsafe { ForeignHandler::from_library(&library, "tripled") };
    assert!(missing.expect_err("no symbol").to_string().contains("tripled"));
    // SAFETY: as above.
    let missing = unsafe { ForeignHandler::from_library(Path::new("/no/such.so"), "doubled") };
    assert!(missing.expect_err("no library").to_string().contains("/no/such.so"));
    on_each(|client, _| {
        // SAFETY: the symbol is a handler.
        let handler = unsafe { ForeignHandler::from_library(&library, "doubled") };
        let handler = handler.expect("opened");
        let plugin = client.plugin();
        ffi::register_foreign(plugin, "cpu", "test.c_doubled", handler, described)
            .expect("registered");
        let executable = compile(client, &call("test.c_doubled", ""));
        assert_eq!(run(&executable).expect("runs"), [2.0, 4.0, 6.0, 8.0]);
    });
}

#[test]
fn aliased_arguments_are_the_results() {
    on_each(|client, _| {
        ffi::register(client, "test.aliased", |frame| {
            assert_eq!(frame.aliases()?, [Some(0)]);
            let (arguments, mut results) = frame.buffers_in_place()?;
            assert!(arguments[0].is_none());
            results[0].bytes_mut()[..4].copy_from_slice(&9f32.to_ne_bytes());
            Ok(())
        })
        .expect("registered");
        let alias = "output_operand_aliases = [#stablehlo.output_operand_alias<\
            output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]";
        let text = call("test.aliased", "").replace("backend_config = {}", alias);
        assert_eq!(run(&compile(client, &text)).expect("runs"), [9.0, 2.0, 3.0, 4.0]);
    });
}

fn view_of(buffer: PjrtBuffer) -> SharedView {
    fn unique(buffer: &PjrtBuffer) -> &UniqueBuffer {
        buffer
    }
    SharedView::new(Arc::new(buffer), unique).expect("a view")
}

#[test]
fn a_view_outlives_handle_deletion_and_donation() {
    on_each(|client, _| {
        let buffer = f32_buffer(client, &[4], &[1.0, 2.0, 3.0, 4.0]);
        let address = buffer.address().expect("an address");
        let view = view_of(buffer.clone());
        assert_eq!(view.as_ptr() as usize, address);
        let bytes = f32_bytes(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(view.bytes(), Some(&bytes[..]));
        let donating = compile(
            client,
            "func.func @main(%x: tensor<4xf32> {jax.buffer_donor = true}) -> tensor<4xf32> {
               %0 = stablehlo.add %x, %x : tensor<4xf32> return %0 : tensor<4xf32> }",
        );
        let results = donating.execute(&[&buffer], &ExecuteOptions::default()).expect("runs");
        assert_eq!(f32_values(&results[0]), [2.0, 4.0, 6.0, 8.0]);
        assert_eq!(view.bytes(), Some(&bytes[..]));
        drop(buffer);
        assert_eq!(view.bytes(), Some(&bytes[..]));
        // An array that was deleted has no memory to view.
        let deleted = f32_buffer(client, &[4], &[0.0; 4]);
        deleted.delete().expect("deleted");
        let unique: fn(&PjrtBuffer) -> &UniqueBuffer = |buffer| buffer;
        let refused = SharedView::new(Arc::new(deleted.clone()), unique);
        assert!(refused.expect_err("gone").to_string().contains("was deleted"));
        assert!(deleted.address().is_err());
    });
}

/// `DLManagedTensorVersioned` and `DLManagedTensor`, written apart from the crate's structs.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

#[repr(C)]
struct Unversioned {
    tensor: Tensor,
    manager: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Unversioned)>,
}

/// A foreign producer: a tensor over `elements`, and the count of its releases.
struct Producer {
    elements: AlignedBytes,
    shape: Vec<i64>,
    strides: Vec<i64>,
    offset: u64,
    released: &'static AtomicUsize,
}

unsafe extern "C" fn release(tensor: *mut Versioned) {
    // SAFETY: both boxes were leaked by `produce`.
    unsafe {
        let tensor = Box::from_raw(tensor);
        let producer = Box::from_raw(tensor.manager.cast::<Producer>());
        producer.released.fetch_add(1, Ordering::SeqCst);
    }
}

fn produce(producer: Producer) -> *mut Versioned {
    let mut producer = Box::new(producer);
    let tensor = Tensor {
        data: producer.elements.as_mut_ptr().cast(),
        device_type: 1,
        device_id: 0,
        ndim: producer.shape.len() as i32,
        code: 2,
        bits: 32,
        lanes: 1,
        shape: producer.shape.as_mut_ptr(),
        strides: match producer.strides.is_empty() {
            true => std::ptr::null_mut(),
            false => producer.strides.as_mut_ptr(),
        },
        byte_offset: producer.offset,
    };
    let manager = Box::into_raw(producer).cast();
    let deleter = Some(release as unsafe extern "C" fn(*mut Versioned));
    Box::into_raw(Box::new(Versioned { major: 1, minor: 0, manager, deleter, flags: 0, tensor }))
}

fn take(tensor: *mut Versioned) -> Result<DlpackTensor, Error> {
    // SAFETY: the tensor was just produced.
    unsafe { DlpackTensor::from_versioned_ptr(tensor.cast()) }
}

#[test]
fn memory_of_a_foreign_producer_is_shared_and_released_once() {
    on_each(|client, _| {
        let released: &AtomicUsize = Box::leak(Box::default());
        let device = &client.addressable_devices()[0];
        let producer = |shape: &[i64], strides: &[i64], offset| Producer {
            elements: AlignedBytes::copy_of(&f32_bytes(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])),
            shape: shape.to_vec(),
            strides: strides.to_vec(),
            offset,
            released,
        };
        let dense = take(produce(producer(&[2, 3], &[], 0))).expect("taken");
        assert_eq!(dense.array_type().to_string(), "f32[2,3]");
        assert_eq!((dense.strides(), dense.device()), (&[3, 1][..], DlpackDevice::Cpu));
        let address = dense.address();
        let shared = client.buffer_from_dlpack(dense, device).expect("put").expect("shared");
        assert_eq!(shared.address().expect("an address"), address);
        assert_eq!(f32_values(&shared), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(released.load(Ordering::SeqCst), 0);
        drop(shared);
        assert_eq!(released.load(Ordering::SeqCst), 1);
        // A transpose, a row of stride 2 from an offset, and a reversed row are not shared.
        for (shape, strides, offset, expected) in [
            (&[3, 2][..], &[1, 3][..], 0, &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0][..]),
            (&[2], &[2], 4, &[1.0, 3.0]),
            (&[3], &[-1], 20, &[5.0, 4.0, 3.0]),
            (&[2, 2], &[0, 1], 4, &[1.0, 2.0, 1.0, 2.0]),
        ] {
            let before = released.load(Ordering::SeqCst);
            let tensor = take(produce(producer(shape, strides, offset))).expect("taken");
            let tensor = client.buffer_from_dlpack(tensor, device).expect("asked");
            let tensor = tensor.expect_err("not shared");
            assert_eq!(tensor.to_vec().expect("copied"), f32_bytes(expected));
            drop(tensor);
            assert_eq!(released.load(Ordering::SeqCst), before + 1);
        }
    });
}

#[test]
fn tensors_that_are_not_understood_are_released() {
    let released: &AtomicUsize = Box::leak(Box::default());
    let tensor = || {
        produce(Producer {
            elements: AlignedBytes::zeroed(8),
            shape: vec![2],
            strides: Vec::new(),
            offset: 0,
            released,
        })
    };
    let (newer, lanes, code) = (tensor(), tensor(), tensor());
    // SAFETY: the tensors are owned by this test.
    unsafe {
        (*newer).major = 2;
        (*lanes).tensor.lanes = 4;
        (*code).tensor.code = 99;
    }
    for (tensor, message) in [(newer, "version 2.0"), (lanes, "4 lanes"), (code, "type code 99")] {
        let error = take(tensor).expect_err("refused").to_string();
        assert!(error.contains(message), "{error}");
    }
    assert_eq!(released.load(Ordering::SeqCst), 3);
    assert!(take(std::ptr::null_mut()).is_err());
}

#[test]
fn a_foreign_consumer_reads_and_releases_buffers() {
    let client = client(crate::plugins::Api::V115);
    let buffer = f32_buffer(client, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    let tensor = DlpackTensor::of_view(view_of(buffer.clone())).expect("shared");
    let raw = tensor.into_versioned_ptr().cast::<Versioned>();
    // SAFETY: the tensor is owned by this test, which calls its deleter once.
    unsafe {
        assert_eq!(((*raw).major, (*raw).flags), (1, 1), "read-only");
        let tensor = &(*raw).tensor;
        assert_eq!((tensor.device_type, tensor.ndim, tensor.code, tensor.bits), (1, 2, 2, 32));
        assert_eq!(std::slice::from_raw_parts(tensor.shape, 2), [2, 2]);
        assert_eq!(std::slice::from_raw_parts(tensor.strides, 2), [2, 1]);
        let elements = std::slice::from_raw_parts(tensor.data.cast::<f32>(), 4);
        drop(buffer);
        assert_eq!(elements, [1.0, 2.0, 3.0, 4.0]);
        ((*raw).deleter.expect("a deleter"))(raw);
    }
    // The form without version, of a tensor that has one, and back.
    let array_type = ArrayType::new(ElementType::F32, &[2]).expect("a type");
    let bytes = AlignedBytes::copy_of(&f32_bytes(&[5.0, 6.0]));
    let tensor = DlpackTensor::of_copy(bytes, array_type).expect("copied");
    assert!(tensor.is_copied() && tensor.is_read_only());
    let raw = tensor.into_ptr().cast::<Unversioned>();
    // SAFETY: as above.
    let tensor = unsafe {
        let tensor = &(*raw).tensor;
        let elements = std::slice::from_raw_parts(tensor.data.cast::<f32>(), 2);
        assert_eq!(elements, [5.0, 6.0]);
        assert!((*raw).deleter.is_some() && !(*raw).manager.is_null());
        DlpackTensor::from_ptr(raw.cast()).expect("taken")
    };
    let tensor = tensor.into_versioned_ptr();
    // SAFETY: as above.
    let tensor = unsafe { DlpackTensor::from_versioned_ptr(tensor) }.expect("taken");
    assert_eq!(tensor.bytes(), Some(&f32_bytes(&[5.0, 6.0])[..]));
}
