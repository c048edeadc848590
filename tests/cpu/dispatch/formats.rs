//! Layouts: of arrays, of compiled functions, and as constraints.

use oxidax::parallel::{Layout, with_layout_constraint};
use oxidax::prelude::*;

#[test]
fn a_constraint_must_order_the_axes() {
    let refused = |layout: Layout| {
        let f = move |x: Array| with_layout_constraint(&x, &layout);
        eval_shape(f, Aval::new(DType::F32, [2, 3])).unwrap_err().to_string()
    };
    let error = refused(Layout::new([0]));
    let expected =
        "error[value]: layout_constraint: `major_to_minor` [0] is not an order of the 2 axes";
    assert!(error.starts_with(expected) && error.contains("formats.rs"), "{error}");
    assert!(refused(Layout::new([1, 1])).contains("is not an order"));
    let tiled = Layout { tiling: vec![vec![8, 128]], ..Layout::row_major(2) };
    assert_eq!(tiled.to_string(), "{1,0:T(8,128)}");
    assert!(refused(tiled).contains("constrains the order of axes, not the tiling"));
}

#[test]
fn vmap_makes_its_axis_the_slowest() {
    let columns = |x: Array| with_layout_constraint(&x, &Layout::new([1, 0]));
    let f = jit(move |x: Array| vmap(columns).in_axes(1).out_axes(1).apply(x));
    let text = f.lower(Aval::new(DType::F32, [2, 5, 3])).unwrap().as_text("tpu").unwrap();
    // Axis 1 is the batch: the order is 1, then 2 and 0 of the example's [1, 0].
    assert!(text.contains("result_layouts = [dense<[0, 2, 1]> : tensor<3xindex>]"), "{text}");
}

mod on_cpu {
    use super::*;

    #[test]
    fn the_compiler_keeps_a_constraint() {
        let f = |x: &Array| (with_layout_constraint(&sin(x), &Layout::new([1, 0])) * 2.0).sum();
        let compiled = jit(|x: Array| value_and_grad(f)(&x));
        let compiled = compiled.lower(Aval::new(DType::F32, [2, 3])).unwrap().compile().unwrap();
        assert!(compiled.as_text().unwrap().contains("f32[2,3]{0,1}"), "the column-major order");
        let (value, slope) = compiled.call(zeros([2, 3])).unwrap();
        assert_eq!(value.item::<f32>().unwrap(), 0.0);
        assert_eq!(slope.to_vec::<f32>().unwrap(), [2.0; 6]);
        for format in compiled.input_formats().unwrap() {
            assert_eq!(format.layout, Layout::row_major(2));
        }
        let outputs = compiled.output_formats().unwrap();
        let layouts: Vec<String> = outputs.iter().map(|of| of.layout.to_string()).collect();
        assert_eq!(layouts, ["{}", "{1,0}"]);
        assert_eq!(outputs[1].placement, compiled.output_shardings()[1]);
    }

    #[test]
    fn arrays_have_the_default_layout() {
        let x = ones([2, 3]);
        assert_eq!(x.format().unwrap().layout, Layout::row_major(2));
        assert_eq!(x.t().format().unwrap().layout, Layout::row_major(2));
        let y = with_layout_constraint(&x, &Layout::new([1, 0]));
        assert_eq!(y.to_vec::<f32>().unwrap(), [1.0; 6]);
        let refused = |x: Array| {
            let error = x.format().unwrap_err().to_string();
            assert!(error.contains("is traced: it has no memory"), "{error}");
            x
        };
        eval_shape(refused, x.aval().clone()).unwrap();
    }

    /// Returns the numbers from 0 in row-major order.
    fn counted(shape: &[usize]) -> Array {
        iota(DType::F32, shape.iter().product()).reshape(shape)
    }

    fn columns() -> Layout {
        Layout::new([1, 0])
    }

    #[test]
    fn device_put_changes_layouts_and_not_elements() {
        for (shape, order) in
            [(vec![2, 3], vec![1, 0]), (vec![2, 3, 4], vec![2, 0, 1]), (vec![0, 3], vec![1, 0])]
        {
            let x = counted(&shape);
            let elements = x.to_vec::<f32>().unwrap();
            let y = device_put(&x, Layout::new(order.clone())).unwrap();
            let stored = y.format().unwrap();
            assert_eq!(stored.layout, Layout::new(order));
            assert_eq!(y.to_vec::<f32>().unwrap(), elements);
            // Every way out of the layout, and operations outside of `jit`.
            assert_eq!((&y + 0.0).to_vec::<f32>().unwrap(), elements);
            assert_eq!((&y + &x).to_vec::<f32>().unwrap(), (&x + &x).to_vec::<f32>().unwrap());
            y.copy_to_host_async().unwrap();
            assert_eq!(y.to_vec::<f32>().unwrap(), elements);
            let back = device_put(&y, Layout::row_major(shape.len())).unwrap();
            assert_eq!(back.format().unwrap().layout, Layout::row_major(shape.len()));
            assert_eq!(back.to_vec::<f32>().unwrap(), elements);
            let other = device_put(&y, &devices().unwrap()[0]).unwrap();
            assert_eq!(other.to_vec::<f32>().unwrap(), elements);
            assert_eq!(device_put(&x, stored.clone()).unwrap().format().unwrap(), stored);
        }
        let error = device_put(&counted(&[2, 3]), Layout::new([0])).unwrap_err().to_string();
        assert!(error.contains("is not an order of the 2 axes"), "{error}");
    }

    #[test]
    fn small_types_change_layouts() {
        let x = Array::from_slice(&[true, false, true, true, false, false], [2, 3]).unwrap();
        let y = device_put(&x, columns()).unwrap();
        assert_eq!(y.to_vec::<bool>().unwrap(), x.to_vec::<bool>().unwrap());
        let x = iota(DType::I32, 6).reshape([2, 3]) - 3;
        for dtype in [DType::I4, DType::BF16, DType::C64] {
            let y = device_put(&x.astype(dtype), columns()).unwrap();
            let y = y.astype(DType::C64).astype(DType::I32);
            assert_eq!(y.to_vec::<i32>().unwrap(), [-3, -2, -1, 0, 1, 2], "{dtype}");
        }
        let y = device_put(&x.astype(DType::I4), columns()).unwrap();
        assert_eq!(y.to_bytes().unwrap(), x.astype(DType::I4).to_bytes().unwrap());
    }

    #[test]
    fn compiled_functions_take_and_return_layouts() {
        let f = |x: Array, y: Array| (&x * 2.0, x.matmul(&y));
        let laid =
            jit(f).in_layouts((columns(), None::<Layout>)).out_layouts((columns(), None::<Layout>));
        let (x, y) = (counted(&[2, 3]), counted(&[3, 4]));
        let elements = |(a, b): (Array, Array)| [a, b].map(|x| x.to_vec::<f32>().unwrap());
        let expected = elements(jit(f).call(&x, &y).unwrap());
        let results = laid.call(&x, &y).unwrap();
        assert_eq!(laid.stats().transferred, 1);
        assert_eq!(results.0.format().unwrap().layout, columns());
        assert_eq!(results.1.format().unwrap().layout, Layout::row_major(2));
        assert_eq!(elements(results.clone()), expected);
        // A result in the layout is not copied again, also if it is donated.
        let again = laid.call(results.0.clone(), &y).unwrap();
        assert_eq!(laid.stats().transferred, 1);
        let twice = jit(f).call(&x * 2.0, &y).unwrap();
        assert_eq!(elements(again), elements(twice.clone()));
        assert_eq!(elements(laid.call(results.0, &y).unwrap()), elements(twice));
        // Functions without the option take every layout.
        let put = device_put(&x, columns()).unwrap();
        assert_eq!(elements(jit(f).call(&put, &y).unwrap()), expected);
        let captured = put.clone();
        let sum = jit(move |y: Array| captured.matmul(&y));
        assert_eq!(sum.call(&y).unwrap().to_vec::<f32>().unwrap(), expected[1]);
        let slope = grad(|x: &Array| laid_free(x).sum())(&put).to_vec::<f32>().unwrap();
        assert_eq!(slope, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    }

    fn laid_free(x: &Array) -> Array {
        x * x
    }

    #[test]
    fn the_compiler_chooses_automatic_layouts() {
        let product = jit(|w: Array, x: Array| x.matmul(&w)).in_layouts(Layout::AUTO);
        let (w, x) = (counted(&[4, 2]), counted(&[3, 4]));
        let expected = x.matmul(&w).to_vec::<f32>().unwrap();
        assert_eq!(product.call(&w, &x).unwrap().to_vec::<f32>().unwrap(), expected);
        let compiled = product.lower(w.aval().clone(), x.aval().clone()).unwrap();
        let text = compiled.as_text("cpu").unwrap();
        assert_eq!(text.matches(r#"mhlo.layout_mode = "auto""#).count(), 2, "{text}");
        let compiled = compiled.compile().unwrap();
        let mut formats = compiled.input_formats().unwrap();
        let x_put = device_put(&x, formats.pop().unwrap()).unwrap();
        let w_put = device_put(&w, formats.pop().unwrap()).unwrap();
        assert_eq!(compiled.call(&w_put, &x_put).unwrap().to_vec::<f32>().unwrap(), expected);
    }

    #[test]
    fn impossible_layouts_are_refused() {
        let call = |layout: Layout| {
            jit(|x: Array| x * 2.0).in_layouts(layout).call(counted(&[2, 3])).unwrap_err().error
        };
        let error = call(Layout::new([0, 2])).to_string();
        assert!(error.contains("in_layouts, leaf 0, f32[2,3]: `major_to_minor` [0, 2]"), "{error}");
        let tiled = Layout { tiling: vec![vec![8, 128]], ..Layout::row_major(2) };
        assert!(catch(|| call(tiled)).is_ok(), "an error and not a wrong result");
        let inner = jit(|x: Array| x * 2.0).out_layouts(columns());
        let outer = jit(move |x: Array| inner.apply(x));
        let error = outer.call(counted(&[2, 3])).unwrap_err().error.to_string();
        assert!(error.contains("requests layouts inside another trace"), "{error}");
        let f = jit(|x: Array| x * 2.0).out_layouts(columns());
        let compiled = f.lower(Aval::new(DType::F32, [2, 3])).unwrap().compile().unwrap();
        let error = compiled.serialize().unwrap_err().to_string();
        assert!(error.contains("request layouts, which are not stored"), "{error}");
    }
}
