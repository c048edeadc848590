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
}
