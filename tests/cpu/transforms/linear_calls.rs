//! Linear functions with a user-defined transpose, and composites.

use super::{close, f32s, value};
use oxidax::control_flow::CompositeOptions;
use oxidax::prelude::*;

/// Divides by `by`. The transpose divides too, and multiplies by 10 to be recognized.
fn divided(x: &Array, by: &Array) -> Array {
    let transpose = |by: Array, ct: Array| ct / by * 10.0;
    linear_call(|by: Array, x: Array| x / by, transpose, by, x)
}

#[test]
fn composites_and_linear_calls_print_and_parse() {
    let options = CompositeOptions {
        version: 3,
        attributes: [("axis".to_string(), (-1).into()), ("p".to_string(), 0.5.into())].into(),
    };
    let tangent = composite_with(|x: &Array| sin(x) / cos(x), "my.tangent", options);
    let f = move |x: Array| divided(&tangent(&x), &scalar(2.0f32));
    let program = make_program(&f, Aval::new(DType::F32, [3])).unwrap();
    assert_eq!(parse_program(&program.to_string()).unwrap(), program);
    let text = jit(f).lower(Aval::new(DType::F32, [3])).unwrap().as_text("tpu").unwrap();
    assert!(text.contains(r#""stablehlo.composite""#), "{text}");
    assert!(text.contains(r#""axis" = -1 : i64"#) && text.contains("version = 3 : i32"), "{text}");
}

#[test]
fn transposes_must_fit() {
    let wrong = |x: Array| linear_call(|(), x: Array| x.sum(), |(), ct: Array| ct, (), x);
    let error = make_program(wrong, Aval::new(DType::F32, [3])).unwrap_err().to_string();
    assert!(error.contains("the transpose gives f32[] here, the argument is f32[3]"), "{error}");
}

mod on_cpu {
    use super::*;

    #[test]
    fn transposes_of_transposes_alternate() {
        let (x, by) = (f32s(&[6.0], &[]), f32s(&[2.0], &[]));
        assert_eq!(value(&divided(&x, &by)), 3.0);
        let f = |x: &Array| divided(x, &by);
        assert_eq!(value(&jvp(f, &x, ones([])).1), 0.5);
        assert_eq!(value(&grad(f)(&x)), 5.0);
        let once = |x: &Array| linear_transpose(f, x)(x);
        assert_eq!(value(&once(&x)), 30.0);
        let twice = |x: &Array| linear_transpose(once, x)(x);
        assert_eq!(value(&twice(&x)), 3.0);
    }

    #[test]
    fn batches_of_linear_calls() {
        let (x, by) = (f32s(&[6.0, 8.0], &[2]), f32s(&[2.0, 4.0], &[2]));
        let rows = |x: &Array| vmap(|x: Array, by: Array| divided(&x, &by)).apply(x, &by);
        assert_eq!(rows(&x).to_vec::<f32>().unwrap(), [3.0, 2.0]);
        let slopes = grad(|x: &Array| rows(x).sum())(&x);
        assert_eq!(slopes.to_vec::<f32>().unwrap(), [5.0, 2.5]);
        let shared = |x: &Array| vmap(|by: Array| divided(x, &by)).apply(&by).sum();
        let slope = grad(shared)(&f32s(&[6.0], &[]));
        assert_eq!(value(&slope), 7.5);
    }

    #[test]
    fn residuals_have_no_derivative() {
        let x = f32s(&[6.0], &[]);
        let error = catch(|| grad(|by: &Array| divided(&x, by))(&ones([]))).unwrap_err();
        assert!(error.to_string().contains("a residual of"), "{error}");
        // Also captured arrays.
        let captured =
            |by: &Array| linear_call(|(), x: Array| x * by, |(), ct: Array| ct * by, (), &x);
        let error = catch(|| grad(captured)(&ones([]))).unwrap_err();
        assert!(error.to_string().contains("that it captures"), "{error}");
        let by = f32s(&[3.0], &[]);
        let f = |x: &Array| linear_call(|(), x: Array| x * &by, |(), ct: Array| ct * &by, (), x);
        assert_eq!(value(&grad(f)(&x)), 3.0);
    }

    #[test]
    fn composites_compute_and_differentiate_their_decompositions() {
        let tangent = composite(|x: &Array| sin(x) / cos(x), "my.tangent");
        let x = f32s(&[0.3, 0.7], &[2]);
        let y = jit(|x: Array| tangent(&x)).call(&x).unwrap().to_vec::<f32>().unwrap();
        close(y[0], 0.3f32.tan());
        close(y[1], 0.7f32.tan());
        let rows = vmap(|x: Array| tangent(&x)).apply(&x).to_vec::<f32>().unwrap();
        close(rows[1], 0.7f32.tan());
        let slopes = grad(|x: &Array| tangent(x).sum())(&x).to_vec::<f32>().unwrap();
        close(slopes[0], 1.0 / 0.3f32.cos().powi(2));
        let pair = composite(|x: &Array, y: &Array| (x + y, x * y), "my.pair");
        let (sum, product) = pair(&x, &x);
        close(sum.to_vec::<f32>().unwrap()[0], 0.6);
        close(product.to_vec::<f32>().unwrap()[1], 0.49);
    }
}
