//! Transfers between host memory and devices.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oxidax_pjrt::{AlignedBytes, BufferLayout, ElementType, ExecuteOptions};

use crate::execution::DONATE;
use crate::plugins::{ALL, Api, client, compile, f32_buffer, f32_bytes, f32_values, on_each};

#[test]
fn every_element_type_round_trips() {
    on_each(|client, api| {
        let device = &client.addressable_devices()[0];
        for &element in ElementType::ALL {
            let dims = [3, 2];
            // Values that fit the smallest types, distinct where the type permits.
            let mask = if element.bits() >= 8 { 0x3f } else { (1_u8 << element.bits()) - 1 };
            let mask = if element == ElementType::Pred { 1 } else { mask };
            let bytes: Vec<u8> =
                (0..6 * element.host_size() as u8).map(|byte| byte & mask).collect();
            let put = client.buffer_from_host(&bytes, element, &dims, device);
            let is_new = matches!(
                element,
                ElementType::S1 | ElementType::U1 | ElementType::F6E2M3FN | ElementType::F6E3M2FN
            );
            if element == ElementType::Token || (is_new && api != Api::V115) {
                let error = put.expect_err("must be refused").to_string();
                assert!(error.contains("token") || error.contains("does not know"), "{error}");
                continue;
            }
            let buffer = put.expect("put");
            assert_eq!((buffer.element_type(), buffer.dims()), (element, &dims[..]));
            let mask_signed =
                |bytes: Vec<u8>| bytes.into_iter().map(|b| b & mask).collect::<Vec<_>>();
            assert_eq!(mask_signed(buffer.to_vec().expect("read")), bytes, "{element} on {api:?}");
        }
    });
}

#[test]
fn sizes_are_checked_in_both_directions() {
    on_each(|client, _| {
        let device = &client.addressable_devices()[0];
        let put = |bytes: &[u8], dims: &[i64]| {
            client
                .buffer_from_host(bytes, ElementType::F32, dims, device)
                .map(|_| ())
                .expect_err("refused")
                .to_string()
        };
        assert_eq!(put(&[0; 12], &[4]), "buffer from host: f32[4] takes 16 bytes, got 12");
        assert!(put(&[0; 12], &[-3]).contains("must not be negative"));
        assert!(put(&[], &[i64::MAX, i64::MAX]).contains("larger than memory"));
        let buffer = f32_buffer(client, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let error = buffer.to_host(&mut [0; 3]).expect_err("refused").to_string();
        assert_eq!(error, "buffer to host: f32[2,2] takes 16 bytes, got room for 3");
        let empty = client.buffer_from_host(&[], ElementType::F32, &[0, 7], device).expect("empty");
        assert_eq!(empty.to_vec().expect("read"), []);
        let scalar = client
            .buffer_from_host(&f32_bytes(&[2.5]), ElementType::F32, &[], device)
            .expect("scalar");
        assert_eq!(f32_values(&scalar), [2.5]);
    });
}

#[test]
fn strides_transpose_and_broadcast() {
    on_each(|client, _| {
        let device = &client.addressable_devices()[0];
        let bytes = f32_bytes(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let put = |dims: &[i64], strides: &[i64]| {
            client.buffer_from_host_strided(&bytes, ElementType::F32, dims, strides, device)
        };
        let transposed = put(&[3, 2], &[4, 12]).expect("put");
        assert_eq!(f32_values(&transposed), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let broadcast = put(&[2, 2], &[0, 4]).expect("put");
        assert_eq!(f32_values(&broadcast), [1.0, 2.0, 1.0, 2.0]);
        let outside = put(&[3, 2], &[4, 13]).expect_err("one byte too far").to_string();
        assert!(outside.ends_with("reaches over 25 bytes, got 24"), "{outside}");
        assert!(put(&[3], &[-4]).expect_err("refused").to_string().contains("negative"));
        assert!(put(&[3], &[4, 4]).expect_err("refused").to_string().contains("needs 1 strides"));
        assert!(put(&[3, 2], &[i64::MAX, i64::MAX]).is_err());
        put(&[0, 2], &[i64::MAX, 8]).expect("an empty array reaches nowhere");
    });
}

/// Counts its live instances.
struct Owner(AlignedBytes, Arc<AtomicUsize>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn shared_memory_is_not_copied_and_freed_with_the_buffer() {
    on_each(|client, api| {
        let device = &client.addressable_devices()[0];
        let alive = Arc::new(AtomicUsize::new(1));
        let bytes = AlignedBytes::copy_of(&f32_bytes(&[7.0; 64]));
        let address = bytes.as_ptr();
        let owner = Arc::new(Owner(bytes, Arc::clone(&alive)));
        let buffer =
            client.buffer_from_shared(owner, ElementType::F32, &[64], device).expect("put");
        assert_eq!(buffer.host_view().expect("CPU").as_ptr(), address, "{api:?} copied");
        assert_eq!(f32_values(&buffer), [7.0; 64]);
        assert_eq!(alive.load(Ordering::SeqCst), 1);
        drop(buffer);
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn donated_shared_memory_is_not_written_to() {
    on_each(|client, _| {
        let device = &client.addressable_devices()[0];
        let executable = compile(client, DONATE);
        let owner = Arc::new(AlignedBytes::copy_of(&f32_bytes(&[1.0, 2.0])));
        let x = client.buffer_from_shared(Arc::clone(&owner), ElementType::F32, &[2], device);
        let result =
            executable.execute(&[&x.expect("put")], &ExecuteOptions::default()).expect("runs");
        assert_eq!(f32_values(&result[0]), [2.0, 4.0]);
        assert_eq!(owner[..], f32_bytes(&[1.0, 2.0]));

        // The same applies to memory that a buffer owns.
        let owned = AlignedBytes::copy_of(&f32_bytes(&[1.0, 2.0]));
        let x = client.buffer_from_owned(owned, ElementType::F32, &[2], device).expect("adopted");
        let result = executable.execute(&[&x], &ExecuteOptions::default()).expect("runs");
        drop(x);
        assert_eq!(f32_values(&result[0]), [2.0, 4.0]);
    });
}

#[test]
fn a_forgotten_view_leaks_the_buffer() {
    on_each(|client, _| {
        let x = f32_buffer(client, &[2], &[1.0, 2.0]);
        std::mem::forget(x.host_view().expect("CPU"));
        drop(x);
    });
}

/// Memory use is measured for the whole process, so this test runs itself in a separate process.
#[test]
fn buffers_that_are_dropped_are_freed() {
    const CASE: &str = "OXIDAX_TEST_MEMORY_CASE";
    let Some(case) = std::env::var_os(CASE) else {
        for api in ALL {
            let output = std::process::Command::new(std::env::current_exe().expect("known"))
                .args(["--exact", "buffers::buffers_that_are_dropped_are_freed", "--nocapture"])
                .env(CASE, api.minor().to_string())
                .output()
                .expect("runs");
            assert!(output.status.success(), "{api:?}: {output:?}");
        }
        return;
    };
    let api = ALL.into_iter().find(|api| *api.minor().to_string() == *case).expect("one of them");
    let client = client(api);
    let executable = compile(client, DONATE);
    let resident_pages = || -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
        statm.split(' ').nth(1).expect("the second number").parse().expect("a number")
    };
    let device = &client.addressable_devices()[0];
    let large = vec![0; 4 * 4096];
    let cycle = || {
        let x = f32_buffer(client, &[2], &[1.0, 2.0]);
        let large =
            client.buffer_from_host(&large, ElementType::F32, &[4096], device).expect("put");
        let results = executable.execute(&[&x], &ExecuteOptions::default()).expect("runs");
        drop(results[0].host_view().expect("CPU"));
        large.ready_event().expect("an event").on_ready(|_| ()).expect("taken");
    };
    (0..1000).for_each(|_| cycle());
    let before = resident_pages();
    (0..10_000).for_each(|_| cycle());
    let grown = (resident_pages() * 4096).saturating_sub(before * 4096);
    assert!(grown < 4 << 20, "160 MB were put, and {grown} bytes stayed");
}

#[test]
fn unaligned_shared_memory_is_copied() {
    on_each(|client, _| {
        let device = &client.addressable_devices()[0];
        let alive = Arc::new(AtomicUsize::new(1));
        struct Unaligned(Owner);
        impl AsRef<[u8]> for Unaligned {
            fn as_ref(&self) -> &[u8] {
                &self.0.as_ref()[4..]
            }
        }
        let owner = Owner(AlignedBytes::copy_of(&f32_bytes(&[0.0, 8.0, 9.0])), Arc::clone(&alive));
        let buffer =
            client.buffer_from_shared(Arc::new(Unaligned(owner)), ElementType::F32, &[2], device);
        let buffer = buffer.expect("put");
        assert_eq!(f32_values(&buffer), [8.0, 9.0]);
    });
}

#[test]
fn owned_memory_is_adopted_and_freed_once() {
    on_each(|client, _| {
        let device = &client.addressable_devices()[0];
        let bytes = AlignedBytes::copy_of(&f32_bytes(&[1.0, 2.0]));
        let address = bytes.as_ptr();
        let buffer =
            client.buffer_from_owned(bytes, ElementType::F32, &[2], device).expect("adopted");
        assert_eq!(buffer.host_view().expect("CPU").as_ptr(), address);
        drop(buffer);
        let packed =
            client.buffer_from_owned(AlignedBytes::zeroed(2), ElementType::S4, &[2], device);
        assert!(packed.expect_err("packed on the device").to_string().contains("copy it"));
        let short =
            client.buffer_from_owned(AlignedBytes::zeroed(2), ElementType::F32, &[2], device);
        assert!(short.expect_err("too short").to_string().contains("takes 8 bytes"));
    });
}

#[test]
fn a_deleted_buffer_gives_errors() {
    on_each(|client, _| {
        let buffer = f32_buffer(client, &[2], &[1.0, 2.0]);
        let clone = buffer.clone();
        assert!(!buffer.is_unique());
        assert!(!buffer.is_deleted());
        buffer.delete().expect("deleted");
        buffer.delete().expect("twice is no error");
        assert!(clone.is_deleted());
        let error = clone.to_vec().expect_err("gone").to_string();
        assert_eq!(error, "buffer to host: the buffer (f32[2]) was deleted or donated");
        assert!(clone.ready_event().is_err());
        assert!(clone.on_device_size().is_err());
        assert!(clone.layout().is_err());
        assert!(clone.host_view().is_err());
        assert_eq!(clone.dims(), [2]);
    });
}

#[test]
fn copies_between_devices_and_memories() {
    on_each(|client, api| {
        let buffer = f32_buffer(client, &[2], &[1.0, 2.0]);
        let other = client.device(5).expect("exists");
        let copy = buffer.copy_to_device(&other).expect("copied");
        assert_eq!(copy.device(), other);
        assert_eq!(f32_values(&copy), [1.0, 2.0]);
        assert_eq!(copy.memory().expect("known"), other.default_memory().expect("has one"));
        for memory in other.memories() {
            let copy = buffer.copy_to_memory(&memory).expect("copied");
            assert_eq!(f32_values(&copy), [1.0, 2.0], "{memory:?}");
            assert_eq!(copy.memory().expect("known"), memory);
            let put = client.buffer_from_host(&f32_bytes(&[3.0]), ElementType::F32, &[1], &memory);
            assert_eq!(f32_values(&put.expect("put")), [3.0]);
        }
        // A device of another client is rejected, and the error names it.
        let foreign = crate::plugins::client(if api == Api::V81 { Api::V106 } else { Api::V81 });
        let device = &foreign.addressable_devices()[0];
        assert!(
            buffer
                .copy_to_device(device)
                .expect_err("foreign")
                .to_string()
                .contains("another client")
        );
        assert!(client.buffer_from_host(&[], ElementType::F32, &[0], device).is_err());
    });
}

#[test]
fn small_signed_integers_are_sign_extended() {
    on_each(|client, _| {
        let device = &client.addressable_devices()[0];
        let round_trip = |element_type, values: &[i8]| {
            let bytes: Vec<u8> = values.iter().map(|&value| value.cast_unsigned()).collect();
            let put = client.buffer_from_host(&bytes, element_type, &[values.len() as i64], device);
            assert_eq!(put.expect("put").to_vec().expect("read"), bytes, "{element_type}");
        };
        round_trip(ElementType::S4, &[0, 7, -8, -1, 3]);
        round_trip(ElementType::S2, &[0, 1, -2, -1]);
    });
}

#[test]
fn raw_bytes_have_the_device_representation() {
    on_each(|client, api| {
        let device = &client.addressable_devices()[0];
        let buffer =
            client.buffer_from_host(&[1, 2, 3, 4], ElementType::S4, &[4], device).expect("put");
        assert_eq!(buffer.on_device_size().expect("known"), 2, "{api:?} does not pack");
        let floats = f32_buffer(client, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let mut middle = [0; 8];
        floats.copy_raw(4, &mut middle).expect("copied");
        assert_eq!(middle[..], f32_bytes(&[2.0, 3.0]));
        let error = floats.copy_raw(12, &mut middle).expect_err("outside").to_string();
        assert!(error.ends_with("8 bytes from offset 12 are not inside 16 bytes"), "{error}");
        assert!(floats.copy_raw(usize::MAX, &mut middle).is_err());
        let layout = floats.layout().expect("known");
        assert_eq!(layout, BufferLayout::Tiled { minor_to_major: vec![1, 0], tiles: vec![] });
        assert!(layout.is_row_major());
    });
}

#[test]
fn an_oversized_buffer_is_an_error() {
    on_each(|client, _| {
        let device = &client.addressable_devices()[0];
        let huge = client.uninitialized_buffer(ElementType::F32, &[1 << 40], device);
        let error = huge.expect_err("4 TiB do not fit");
        assert!(error.code().is_some(), "{error}");
        let small = client.uninitialized_buffer(ElementType::F32, &[4], device).expect("fits");
        assert_eq!(small.to_vec().expect("arbitrary, but readable").len(), 16);
    });
}
