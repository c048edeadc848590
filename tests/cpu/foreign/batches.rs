//! Every way to batch a foreign function, and derivatives.

mod on_cpu {
    use crate::foreign::{double, f32s, register};
    use oxidax::ffi::{self, FfiCallOptions, VmapMethod};
    use oxidax::prelude::*;
    use std::sync::{Mutex, PoisonError};

    /// The shapes of the inputs of each call.
    static SHAPES: Mutex<Vec<Vec<Vec<usize>>>> = Mutex::new(Vec::new());
    static ALONE: Mutex<()> = Mutex::new(());

    /// `x + y` with broadcasting of leading axes of size 1, or of a `y` without the batch axis.
    fn add(x: &Array, y: &Array, method: VmapMethod) -> Array {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| {
            register("test.batched_add", |frame| {
                let shapes = frame.inputs().iter().map(|input| input.shape().to_vec()).collect();
                SHAPES.lock().unwrap().push(shapes);
                let (inputs, outputs) = frame.buffers();
                let (x, y) = (inputs[0].as_slice::<f32>()?, inputs[1].as_slice::<f32>()?);
                for (index, sum) in outputs[0].as_mut_slice::<f32>()?.iter_mut().enumerate() {
                    *sum = x[index % x.len()] + y[index % y.len()];
                }
                Ok(())
            });
        });
        let options = FfiCallOptions { vmap_method: Some(method), ..FfiCallOptions::default() };
        ffi::ffi_call_with("test.batched_add", x.aval(), [x, y], options)
    }

    fn shapes_of(method: VmapMethod) -> Vec<Vec<Vec<usize>>> {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let x = arange(6).astype(DType::F32).reshape([3, 2]);
        let y = f32s(&[10.0, 20.0]);
        SHAPES.lock().unwrap().clear();
        let sum = jit(move |x: Array, y: Array| {
            let sum = vmap(move |x: Array, y: Array| add(&x, &y, method));
            sum.in_axes((0, None)).apply(x, y)
        });
        let sum = sum.call(&x, &y).unwrap();
        assert_eq!(sum.shape().dims(), [3, 2]);
        assert_eq!(sum.to_vec::<f32>().unwrap(), [10.0, 21.0, 12.0, 23.0, 14.0, 25.0]);
        SHAPES.lock().unwrap().clone()
    }

    #[test]
    fn sequential_calls_once_for_each_example() {
        let one = vec![vec![2], vec![2]];
        assert_eq!(shapes_of(VmapMethod::Sequential), vec![one.clone(); 3]);
        assert_eq!(shapes_of(VmapMethod::SequentialUnrolled), vec![one; 3]);
    }

    #[test]
    fn other_methods_call_once() {
        assert_eq!(shapes_of(VmapMethod::ExpandDims), [[vec![3, 2], vec![1, 2]]]);
        assert_eq!(shapes_of(VmapMethod::BroadcastAll), [[vec![3, 2], vec![3, 2]]]);
        assert_eq!(shapes_of(VmapMethod::LegacyVectorized), [[vec![3, 2], vec![2]]]);
    }

    #[test]
    fn a_batch_without_a_method_is_an_error() {
        let f = |x: Array| ffi::ffi_call("test.unbatched", x.aval(), [&x]);
        let error = make_program(vmap(f), Aval::new(DType::F32, [3, 2])).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("nothing is known of how `test.unbatched` computes a batch"),
            "{text}"
        );
        assert!(text.contains("choose a `vmap_method`"), "{text}");
    }

    #[test]
    fn derivatives_are_those_of_custom_rules() {
        register("test.differentiated", double);
        let call = |x: &Array| ffi::ffi_call("test.differentiated", x.aval(), [x]);
        let error = make_program(grad(move |x: &Array| call(x).sum()), Aval::new(DType::F32, [3]));
        let text = error.unwrap_err().to_string();
        assert!(text.contains("`test.differentiated` has no derivative"), "{text}");
        assert!(text.contains("custom_vjp"), "{text}");

        let f = custom_jvp(call, |x: &Array, t: &Array| {
            let call = |x: &Array| ffi::ffi_call("test.differentiated", x.aval(), [x]);
            (call(x), t * 2.0)
        });
        let slope = jit(grad(move |x: &Array| sin(f(x)).sum())).call(f32s(&[0.0, 0.5])).unwrap();
        let expected = [2.0, 2.0 * 1f32.cos()];
        let slope = slope.to_vec::<f32>().unwrap();
        assert!(slope.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{slope:?}");
    }
}
