//! Layers and losses: types and errors. `crates/parity` compares values with JAX.

use expect_test::{Expect, expect};
use oxidax::prelude::*;

fn aval(dtype: DType, dims: &[usize]) -> Aval {
    Aval::new(dtype, dims)
}

fn refused(f: fn(Array, Array) -> Array, x: Aval, y: Aval, expected: Expect) {
    let error = eval_shape(f, (x, y)).unwrap_err().to_string();
    let lines: Vec<&str> = error
        .lines()
        .filter(|line| !line.contains("-->") && !line.contains("while tracing"))
        .collect();
    expected.assert_eq(&lines.join("\n"));
    assert!(error.contains(file!()), "{error}");
}

#[test]
fn losses_reject_wrong_shapes_and_dtypes() {
    let cross_entropy = |x: Array, y: Array| nn::softmax_cross_entropy(&x, &y);
    let integer_labels = |x: Array, y: Array| nn::softmax_cross_entropy_with_integer_labels(&x, &y);
    let (f32s, i32s) = (DType::F32, DType::I32);
    refused(
        integer_labels,
        aval(f32s, &[8, 10]),
        aval(i32s, &[7]),
        expect![[r#"
            error[shape]: softmax_cross_entropy_with_integer_labels: logits [8,10] take classes of shape [8], got i32[7]
              lhs: f32[8,10]
              rhs: i32[7]"#]],
    );
    refused(
        cross_entropy,
        aval(f32s, &[8, 10]),
        aval(f32s, &[8, 9]),
        expect![[r#"
            error[shape]: softmax_cross_entropy: operands must have one shape, got [8,10] and [8,9]
              lhs: f32[8,10]
              rhs: f32[8,9]"#]],
    );
    refused(
        integer_labels,
        aval(i32s, &[8, 10]),
        aval(i32s, &[8]),
        expect![[r#"
            error[dtype]: softmax_cross_entropy_with_integer_labels: logits must be floats, got i32[8,10]
              lhs: i32[8,10]
              rhs: i32[8]"#]],
    );
    refused(
        cross_entropy,
        aval(f32s, &[8, 10]),
        aval(DType::Bool, &[8, 10]),
        expect![[r#"
            error[dtype]: softmax_cross_entropy: labels must be distributions, floats, got bool[8,10]
              lhs: f32[8,10]
              rhs: bool[8,10]
              help: classes go to `softmax_cross_entropy_with_integer_labels`"#]],
    );
    refused(
        integer_labels,
        aval(f32s, &[]),
        aval(i32s, &[]),
        expect![[r#"
            error[shape]: softmax_cross_entropy_with_integer_labels: logits need an axis of classes, got []
              lhs: f32[]
              rhs: i32[]"#]],
    );
    let mean_squared_error = |x: Array, y: Array| nn::mean_squared_error(&x, &y);
    refused(
        mean_squared_error,
        aval(f32s, &[8, 1]),
        aval(f32s, &[8]),
        expect![[r#"
            error[shape]: squared_error: operands must have one shape, got [8,1] and [8]
              lhs: f32[8,1]
              rhs: f32[8]"#]],
    );
    let forward = |w: Array, x: Array| nn::Linear::with_weight(w).forward(&x);
    refused(
        forward,
        aval(f32s, &[784, 10]),
        aval(f32s, &[32, 512]),
        expect![[r#"
            error[shape]: Linear: x f32[32,512] has 512 features in its last axis, `weight` f32[784,10] takes 784
              lhs: f32[32,512]
              rhs: f32[784,10]"#]],
    );
}

#[test]
fn layers_keep_dtype_and_batch_axes() {
    let y = eval_shape(
        |w: Array, x: Array| nn::Linear::with_weight(w).forward(&x),
        (aval(DType::BF16, &[4, 3]), aval(DType::BF16, &[2, 5, 4])),
    );
    assert_eq!(y.unwrap().aval().to_string(), "bf16[2,5,3]");
}

#[test]
fn initializers_reject_vectors() {
    let error =
        eval_shape(|key: random::Key| nn::init::he_normal(key, [784]), random::Key::of_type());
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("error[shape]: variance_scaling: a weight needs an axis"), "{error}");
}

mod on_cpu {
    use super::*;

    #[test]
    fn accuracy_is_the_fraction_of_correct_predictions() {
        let logits = Array::from_slice(&[0.0f32, 1.0, 5.0, -1.0, 2.0, 2.0, -3.0, -2.0], [4, 2]);
        let labels = Array::from_slice(&[1i32, 0, 1, 1], [4]).unwrap();
        // The first of equal logits is the prediction.
        let accuracy = nn::accuracy(&logits.unwrap(), &labels);
        assert_eq!(accuracy.item::<f32>().unwrap(), 0.75);
    }

    #[test]
    fn cross_entropy_of_an_invalid_class_is_nan() {
        let labels = Array::from_slice(&[3i32, 2], [2]).unwrap();
        let loss = nn::softmax_cross_entropy_with_integer_labels(&zeros([2, 3]), &labels);
        let loss = loss.to_vec::<f32>().unwrap();
        assert!(loss[0].is_nan() && (loss[1] - 3f32.ln()).abs() < 1e-6, "{loss:?}");
    }
}
