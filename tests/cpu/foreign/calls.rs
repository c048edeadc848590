//! Calls of registered handlers: dtypes, options, errors and texts.

use oxidax::ffi::{self, FfiAttributes, FfiCallOptions};
use oxidax::prelude::*;

#[test]
fn a_call_prints_and_is_read_back() {
    let f = |x: Array| {
        let options = FfiCallOptions {
            attributes: FfiAttributes::new().with("eps", 1e-5f32).with("mode", "fast"),
            vmap_method: Some(ffi::VmapMethod::ExpandDims),
            input_output_aliases: vec![(0, 0)],
            ..FfiCallOptions::default()
        };
        ffi::ffi_call_with("test.printed", x.aval(), [&x], options)
    };
    let program = make_program(f, Aval::new(DType::F32, [2, 3])).unwrap();
    let text = program.to_string();
    for part in [
        r#"ffi_call[api_version=4 attributes={"eps":"1e-5:f32","mode":"\"fast\""}"#,
        r#"input_output_aliases=[[0,0]] results=[["f32",[2,3]]] target="test.printed""#,
        r#"vmap_method="ExpandDims"]"#,
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(parse_program(&text).unwrap().to_string(), text);
    let module = oxidax::passes::lower(&program, "f", "cpu").unwrap();
    let call = module.text.lines().find(|line| line.contains("custom_call")).unwrap();
    for part in [
        r#"<{call_target_name = "test.printed", api_version = 4 : i32, has_side_effect = false"#,
        r#"backend_config = {"eps" = 1.0e-5 : f32, "mode" = "fast"}"#,
        "operand_layouts = [dense<[1, 0]> : tensor<2xindex>]",
        "result_layouts = [dense<[1, 0]> : tensor<2xindex>]",
        "output_operand_alias<output_tuple_indices = [], operand_index = 0",
    ] {
        assert!(call.contains(part), "{part} is not in {call}");
    }
}

#[test]
fn options_are_checked() {
    let aval = Aval::new(DType::F32, [2, 3]);
    let error = |options: FfiCallOptions| {
        let result = Aval::new(DType::F32, [3, 2]);
        let f = move |x: Array| ffi::ffi_call_with("x", &result, [&x], options.clone());
        make_program(f, aval.clone()).unwrap_err().to_string()
    };
    let default = FfiCallOptions::default;
    let text = error(FfiCallOptions { input_output_aliases: vec![(0, 0)], ..default() });
    assert!(text.contains("input 0 is f32[2,3] and cannot share memory with output 0"), "{text}");
    let text = error(FfiCallOptions { input_output_aliases: vec![(1, 0)], ..default() });
    assert!(text.contains("names input 1 of 1"), "{text}");
    let text = error(FfiCallOptions { input_layouts: vec![Some(vec![0, 0])], ..default() });
    assert!(text.contains("the layout of input 0 is [0, 0]"), "{text}");
    let text = error(FfiCallOptions { output_layouts: vec![None, None], ..default() });
    assert!(text.contains("output_layouts has 2 entries for 1 outputs"), "{text}");
    let text = error(FfiCallOptions { custom_call_api_version: 5, ..default() });
    assert!(text.contains("custom_call_api_version is 5"), "{text}");
    let legacy = Some(String::new());
    let text = error(FfiCallOptions { legacy_backend_config: legacy, ..default() });
    assert!(text.contains("use attributes"), "{text}");
}

#[test]
fn programs_for_tpus_do_not_call_handlers() {
    ffi::register_ffi_target("test.not_on_tpus", |_| Ok(())).unwrap();
    let f = |x: Array| ffi::ffi_call("test.not_on_tpus", x.aval(), [&x]);
    let program = make_program(f, Aval::new(DType::F32, [2])).unwrap();
    let error = oxidax::passes::lower(&program, "f", "tpu").unwrap_err().to_string();
    assert!(error.contains("cannot call the handler of test.not_on_tpus on the host"), "{error}");
}

mod on_cpu {
    use super::*;
    use crate::foreign::{double, error_of, f32s, register};
    use half::{bf16, f16};
    use num_complex::{Complex32, Complex64};
    use oxidax::core::Element;

    /// Checks that a handler gets and writes elements of a dtype.
    fn reversed<T: Element + PartialEq + std::fmt::Debug>(elements: &[T]) {
        let name = format!("test.reversed_{}_{}", T::DTYPE, elements.len());
        register(&name, |frame| {
            let ([x], [y]) = frame.slices::<T, 1, 1>()?;
            y.iter_mut().zip(x.iter().rev()).for_each(|(y, x)| *y = *x);
            Ok(())
        });
        let x = Array::from_slice(elements, [elements.len()]).unwrap();
        let called = name.clone();
        let f = jit(move |x: Array| ffi::ffi_call(&called, x.aval(), [&x]));
        let mut expected = elements.to_vec();
        expected.reverse();
        assert_eq!(f.call(&x).unwrap().to_vec::<T>().unwrap(), expected);
        assert_eq!(ffi::ffi_call(&name, x.aval(), [&x]).to_vec::<T>().unwrap(), expected);
    }

    #[test]
    fn handlers_take_every_host_type() {
        reversed(&[true, false, true, true]);
        reversed(&[-1i8, 2, 3]);
        reversed(&[-1i16, 2, 3]);
        reversed(&[-1i32, 2, 3]);
        reversed(&[-1i64, 2, 3]);
        reversed(&[1u8, 2, 3]);
        reversed(&[1u16, 2, 3]);
        reversed(&[1u32, 2, 3]);
        reversed(&[1u64, 2, 3]);
        reversed(&[f16::from_f32(0.5), f16::from_f32(1.5)]);
        reversed(&[bf16::from_f32(0.5), bf16::from_f32(1.5)]);
        reversed(&[0.5f32, 1.5]);
        reversed(&[0.5f64, 1.5]);
        reversed(&[Complex32::new(0.0, 1.0), Complex32::new(2.0, 3.0)]);
        reversed(&[Complex64::new(0.0, 1.0), Complex64::new(2.0, 3.0)]);
        reversed::<f32>(&[]);
    }

    #[test]
    fn small_dtypes_are_bytes() {
        register("test.bytes", |frame| {
            let (inputs, outputs) = frame.buffers();
            outputs[0].bytes_mut().copy_from_slice(inputs[0].bytes()?);
            Ok(())
        });
        for (dtype, count) in [(DType::F8E4M3FN, 3), (DType::I4, 4), (DType::U2, 8)] {
            let x = arange(count).astype(dtype);
            let y = ffi::ffi_call("test.bytes", x.aval(), [&x]);
            assert_eq!(y.to_bytes().unwrap(), x.to_bytes().unwrap(), "{dtype}");
        }
    }

    #[test]
    fn several_results_have_their_shapes() {
        register("test.halves", |frame| {
            let ([x], [low, high]) = frame.slices::<f32, 1, 2>()?;
            low.copy_from_slice(&x[..low.len()]);
            high.copy_from_slice(&x[low.len()..]);
            Ok(())
        });
        let results = [Aval::new(DType::F32, [1]), Aval::new(DType::F32, [2])];
        let x = f32s(&[1.0, 2.0, 3.0]);
        let [low, high] = ffi::ffi_call("test.halves", results.clone(), [&x]);
        assert_eq!(low.to_vec::<f32>().unwrap(), [1.0]);
        assert_eq!(high.to_vec::<f32>().unwrap(), [2.0, 3.0]);
        let all: Vec<Array> = ffi::ffi_call("test.halves", &results[..], [&x]);
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn errors_and_panics_name_the_line_of_the_call() {
        register("test.fails", |_| Err("not today".into()));
        register("test.panics", |_| panic!("handler {}", "down"));
        register("test.typed", double);
        let x = f32s(&[1.0]);
        let line = line!() + 2;
        let message = |name: &'static str, x: &Array| {
            let f = jit(move |x: Array| ffi::ffi_call(name, x.aval(), [&x]));
            let text = error_of(f.call(x));
            assert!(text.contains(&format!("tests/cpu/foreign/calls.rs:{line}:")), "{text}");
            // The next call works.
            assert_eq!((f32s(&[1.0]) + 1.0).to_vec::<f32>().unwrap(), [2.0]);
            text
        };
        let text = message("test.fails", &x);
        assert!(
            text.contains("error[runtime]: ffi_call: `test.fails` failed: not today"),
            "{text}"
        );
        let text = message("test.panics", &x);
        assert!(text.contains("`test.panics` failed: it panicked: handler down"), "{text}");
        let text = message("test.typed", &x.astype(DType::I32));
        assert!(text.contains("input 0: it is i32[1], not f32"), "{text}");
    }

    #[test]
    fn handlers_do_not_run_array_operations() {
        register("test.nested", |frame| {
            let y = zeros([1]) + 1.0;
            frame.outputs()[0].as_mut_slice::<f32>()?.copy_from_slice(&y.to_vec::<f32>()?);
            Ok(())
        });
        let f = jit(|x: Array| ffi::ffi_call("test.nested", x.aval(), [&x]));
        let error = error_of(f.call(f32s(&[1.0])));
        assert!(error.contains("a host callback may not run array operations"), "{error}");
    }

    #[test]
    fn an_unregistered_target_is_named_with_its_line() {
        let f = jit(|x: Array| ffi::ffi_call("test.unregistered", x.aval(), [&x]));
        let line = line!() - 1;
        let error = f.call(f32s(&[1.0])).unwrap_err().to_string();
        assert!(error.contains("test.unregistered"), "{error}");
        assert!(error.contains(&format!("tests/cpu/foreign/calls.rs:{line}:")), "{error}");
        assert!(error.contains("register_ffi_target"), "{error}");
    }

    #[test]
    fn a_name_is_registered_once() {
        register("test.once", double);
        let error = ffi::register_ffi_target("test.once", double).unwrap_err().to_string();
        assert!(error.contains("`test.once` is registered already"), "{error}");
        assert!(error.contains("tests/cpu/foreign/calls.rs"), "{error}");
    }

    #[test]
    fn layouts_order_the_axes_in_memory() {
        register("test.copied", |frame| {
            let ([x], [y]) = frame.slices::<f32, 1, 1>()?;
            y.copy_from_slice(x);
            Ok(())
        });
        let f = |x: Array| {
            let options = FfiCallOptions {
                input_layouts: vec![Some(vec![1, 0])],
                ..FfiCallOptions::default()
            };
            // The input is column-major, so that its memory is that of the row-major transpose.
            let result = Aval::new(DType::F32, [3, 2]);
            ffi::ffi_call_with("test.copied", &result, [&x], options)
        };
        let x = arange(6).astype(DType::F32).reshape([2, 3]);
        let expected = x.t().to_vec::<f32>().unwrap();
        assert_eq!(jit(f).call(&x).unwrap().to_vec::<f32>().unwrap(), expected);
    }

    #[test]
    fn side_effects_are_kept_and_others_are_not() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        register("test.counted", |frame| {
            COUNT.fetch_add(1, Ordering::Relaxed);
            double(frame)
        });
        let run = |has_side_effect: bool| {
            let before = COUNT.load(Ordering::Relaxed);
            let f = jit(move |x: Array| {
                let options = FfiCallOptions { has_side_effect, ..FfiCallOptions::default() };
                ffi::ffi_call_with("test.counted", x.aval(), [&x], options);
                x + 1.0
            });
            f.call(f32s(&[1.0])).unwrap().to_vec::<f32>().unwrap();
            effects_barrier().unwrap();
            COUNT.load(Ordering::Relaxed) - before
        };
        assert_eq!(run(true), 1);
        assert_eq!(run(false), 0);
    }
}
