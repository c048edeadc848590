//! Closures that programs call with their buffers.

mod on_cpu {
    use crate::foreign::{double, error_of, f32s};
    use oxidax::ffi::{self, BufferCallbackOptions, FfiFrame, VmapMethod};
    use oxidax::prelude::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_closure_lives_as_long_as_its_program() {
        let alive = Arc::new(());
        let held = alive.clone();
        let f = jit(move |x: Array| {
            let held = held.clone();
            let f = move |frame: &mut FfiFrame<'_>| {
                let _ = &held;
                double(frame)
            };
            ffi::buffer_callback(f, x.aval(), [&x])
        });
        for _ in 0..3 {
            assert_eq!(f.call(f32s(&[1.0, 2.0])).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
        }
        assert!(Arc::strong_count(&alive) > 2);
    }

    #[test]
    fn an_output_shares_the_memory_of_an_input() {
        let f = |frame: &mut FfiFrame<'_>| {
            let (inputs, outputs) = frame.buffers();
            let error = inputs[0].as_slice::<f32>().unwrap_err();
            assert!(error.contains("read it there"), "{error}");
            outputs[0].as_mut_slice::<f32>()?.iter_mut().for_each(|x| *x += 1.0);
            Ok(())
        };
        let options = BufferCallbackOptions {
            input_output_aliases: vec![(0, 0)],
            ..BufferCallbackOptions::default()
        };
        let increment = jit(move |x: Array| {
            // In a loop, whose carry is updated in place.
            let step =
                |_: Array, x: Array| ffi::buffer_callback_with(f, x.aval(), [&x], options.clone());
            fori_loop(0, 3, step, x)
        });
        let x = f32s(&[1.0, 2.0]);
        assert_eq!(increment.call(&x).unwrap().to_vec::<f32>().unwrap(), [4.0, 5.0]);
        assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    }

    #[test]
    fn calls_run_in_parallel_programs_and_batches() {
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        let f = |frame: &mut FfiFrame<'_>| {
            CALLS.fetch_add(1, Ordering::Relaxed);
            double(frame)
        };
        let options = BufferCallbackOptions {
            vmap_method: Some(VmapMethod::BroadcastAll),
            has_side_effect: true,
            ..BufferCallbackOptions::default()
        };
        let doubled =
            vmap(move |x: Array| ffi::buffer_callback_with(f, x.aval(), [&x], options.clone()));
        let y = doubled.apply(ones([4, 2]));
        assert_eq!(y.to_vec::<f32>().unwrap(), [2.0; 8]);
        assert_eq!(CALLS.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn an_error_names_the_line() {
        let f = |_: &mut FfiFrame<'_>| Err("down".into());
        let line = line!() + 1;
        let f = jit(move |x: Array| ffi::buffer_callback(f, x.aval(), [&x]));
        let error = error_of(f.call(f32s(&[1.0])));
        assert!(error.contains("failed: down"), "{error}");
        assert!(error.contains(&format!("tests/cpu/foreign/closures.rs:{line}:")), "{error}");
    }
}
