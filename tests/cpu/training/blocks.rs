//! Layers: types, errors, and behaviour without recorded values. `crates/parity` compares values
//! with Flax.

use expect_test::{Expect, expect};
use oxidax::prelude::*;
use oxidax::random::Key;

fn aval(dtype: DType, dims: &[usize]) -> Aval {
    Aval::new(dtype, dims)
}

/// Returns the first line of the error for `x` of this type.
fn refused(f: fn(Key, Array) -> Array, x: Aval, expected: Expect) {
    let error = eval_shape(f, (Key::of_type(), x)).unwrap_err().to_string();
    assert!(error.contains(file!()), "{error}");
    expected.assert_eq(error.lines().next().unwrap());
}

#[test]
fn errors_name_layer_leaf_and_sizes() {
    let f32s = |dims: &[usize]| aval(DType::F32, dims);
    refused(
        |key, x| nn::Conv::grouped(key, &[3, 3], 4, 8, 2).forward(&x),
        f32s(&[2, 8, 8, 3]),
        expect![
            "error[shape]: Conv: x f32[2,8,8,3] has 3 features in its last axis, `weight` f32[3,3,2,8] takes 4"
        ],
    );
    refused(
        |key, x| nn::Conv::new(key, &[3, 3], 4, 8).forward(&x),
        f32s(&[8, 4]),
        expect![
            "error[shape]: Conv: x f32[8,4] needs axes […, 2 of space, channels] for `weight` f32[3,3,4,8]"
        ],
    );
    refused(
        |key, x| nn::Conv { strides: vec![2], ..nn::Conv::new(key, &[3, 3], 4, 8) }.forward(&x),
        f32s(&[2, 8, 8, 4]),
        expect!["error[shape]: Conv: strides [2] has 1 entries, the window 2 axes"],
    );
    refused(
        |key, x| nn::ConvTranspose::new(key, &[3], 4, 8).forward(&x),
        f32s(&[2, 8, 5]),
        expect![
            "error[shape]: ConvTranspose: x f32[2,8,5] has 5 features in its last axis, `weight` f32[3,4,8] takes 4"
        ],
    );
    refused(
        |_, x| nn::LayerNorm::new(6).forward(&x),
        f32s(&[2, 5]),
        expect![
            "error[shape]: LayerNorm: x f32[2,5] has 5 features in its last axis, `scale` f32[6] takes 6"
        ],
    );
    refused(
        |_, x| nn::GroupNorm::new(6, 4).forward(&x),
        f32s(&[2, 6]),
        expect!["error[shape]: GroupNorm: 6 channels are not divisible into 4 groups"],
    );
    refused(
        |_, x| nn::BatchNorm::new(6).forward_eval(&x, &nn::BatchStats::new(5)),
        f32s(&[2, 6]),
        expect![
            "error[shape]: BatchNorm: x f32[2,6] has 6 features in its last axis, `stats.mean` f32[5] takes 5"
        ],
    );
    refused(
        |key, x| nn::Embedding::new(key, 10, 4).forward(&x),
        f32s(&[2]),
        expect![
            "error[dtype]: Embedding: ids must be integers, rows of `weight` f32[10,4], got f32[2]"
        ],
    );
    refused(
        |key, x| nn::MultiHeadAttention::new(key, 8, 2).forward(&x),
        f32s(&[2, 5, 6]),
        expect![
            "error[shape]: MultiHeadAttention: x f32[2,5,6] has 6 features in its last axis, `query.weight` f32[8,8] takes 8"
        ],
    );
    refused(
        |key, x| nn::MultiHeadAttention::grouped(key, 8, 4, 3).forward(&x),
        f32s(&[2, 5, 8]),
        expect![
            "error[shape]: MultiHeadAttention: 4 query heads are not a multiple of 3 key heads"
        ],
    );
    refused(
        |key, x| {
            let layer = nn::MultiHeadAttention::new(key, 8, 2);
            layer.decode(&x, &layer.cache(2, 4, DType::F32)).0
        },
        f32s(&[2, 5, 8]),
        expect![
            "error[shape]: MultiHeadAttention: x f32[2,5,8] with 2 heads of 4 does not fit `keys` f32[2,4,2,4]"
        ],
    );
    refused(
        |key, x| {
            let cell = nn::LstmCell::new(key, 3, 4);
            cell.scan(cell.start([2]), &x).1
        },
        f32s(&[2, 5, 2]),
        expect![
            "error[shape]: LstmCell: x f32[2,2] has 2 features in its last axis, `input` f32[3,16] takes 3"
        ],
    );
    refused(
        |key, x| nn::Dropout::new(1.5).forward(&x, Some(key)),
        f32s(&[2]),
        expect!["error[value]: Dropout: rate must lie in 0..=1, got 1.5"],
    );
    refused(
        |_, x| nn::Rotary::new(100.0).forward(&x, &arange(5)),
        f32s(&[1, 4, 2, 6]),
        expect!["error[shape]: Rotary: x f32[1,4,2,6] takes positions [4] or [1,4], got i32[5]"],
    );
}

/// Returns the type of the result for `x` of bf16, with layers in `f32` and in `bf16`.
fn types(layer: fn(Key, &Array, nn::DTypePolicy) -> Array, dims: &[usize]) -> [String; 2] {
    let narrow = nn::DTypePolicy { param: DType::BF16, ..nn::DTypePolicy::full() };
    [nn::DTypePolicy::full(), narrow].map(|policy| {
        let run = move |key: Key, x: Array| layer(key, &x, policy);
        eval_shape(run, (Key::of_type(), aval(DType::BF16, dims))).unwrap().aval().to_string()
    })
}

#[test]
fn layers_compute_in_the_promoted_dtype() {
    let found = [
        types(|key, x, p| p.cast_to_param(&nn::Linear::new(key, 6, 4)).forward(x), &[2, 6]),
        types(|key, x, p| p.cast_to_param(&nn::Conv::new(key, &[3], 6, 4)).forward(x), &[2, 6]),
        types(|_, x, p| p.cast_to_param(&nn::LayerNorm::new(6)).forward(x), &[2, 6]),
        types(|_, x, p| p.cast_to_param(&nn::GroupNorm::new(6, 2)).forward(x), &[2, 6]),
        types(
            |key, x, p| p.cast_to_param(&nn::MultiHeadAttention::new(key, 6, 2)).forward(x),
            &[1, 2, 6],
        ),
        types(
            |key, x, p| {
                let cell = p.cast_to_param(&nn::GruCell::new(key, 6, 4));
                cell.scan(cell.start([1]), x).1
            },
            &[1, 2, 6],
        ),
    ];
    for (at, [wide, narrow]) in found.iter().enumerate() {
        assert!(wide.starts_with("f32["), "{at}: {wide}");
        assert!(narrow.starts_with("bf16["), "{at}: {narrow}");
    }
}

#[test]
fn hyperparameters_are_part_of_the_structure() {
    let norm = |epsilon: f64| {
        eval_shape(
            move |_: ()| nn::LayerNorm { epsilon: epsilon.into(), ..nn::LayerNorm::new(4) },
            (),
        )
        .unwrap()
    };
    assert_eq!(tree::structure(&norm(1e-6)), tree::structure(&norm(1e-6)));
    assert_ne!(tree::structure(&norm(1e-6)), tree::structure(&norm(1e-5)));
    let layer = eval_shape(
        |key: Key| nn::MultiHeadAttention::new(key, 8, 2).without_bias(),
        Key::of_type(),
    );
    let expected = ["query.weight", "key.weight", "value.weight", "out.weight"];
    assert_eq!(tree::paths(&layer.unwrap()), expected);
}

mod on_cpu {
    use super::*;

    fn values(x: &Array) -> Vec<f32> {
        x.to_vec::<f32>().unwrap()
    }

    fn near(x: &Array, y: &Array, within: f32) {
        assert_eq!(x.aval(), y.aval());
        for (x, y) in values(x).into_iter().zip(values(y)) {
            assert!((x - y).abs() <= within, "{x} and {y}");
        }
    }

    fn decoder() -> nn::MultiHeadAttention {
        let layer = nn::MultiHeadAttention::grouped(random::key(0), 16, 4, 2);
        nn::MultiHeadAttention { is_causal: true, rotary: Some(nn::Rotary::new(100.0)), ..layer }
    }

    #[test]
    fn decode_in_a_scan_equals_causal_attention() {
        let (layer, x) = (decoder(), random::normal(random::key(1), [2, 6, 16]));
        let whole = layer.forward(&x);
        let decode = jit(|layer: nn::MultiHeadAttention, x: Array| {
            let cache = layer.cache(2, 8, DType::F32);
            let tokens = x.swapaxes(0, 1).expand_dims(2);
            let step = |cache: nn::KvCache, x: Array| {
                let (y, cache) = layer.decode(&x, &cache);
                (cache, y)
            };
            let (cache, ys) = scan(step, cache, tokens);
            (ys.reshape([6, 2, 16]).swapaxes(0, 1), cache.position)
        });
        let (parts, position) = decode.call(&layer, &x).unwrap();
        near(&parts, &whole, 1e-5);
        assert_eq!(position.item::<i32>().unwrap(), 6);
    }

    #[test]
    fn decode_accepts_prompts_and_marks_overflow() {
        let (layer, x) = (decoder(), random::normal(random::key(1), [2, 6, 16]));
        let whole = layer.forward(&x);
        let cache = layer.cache(2, 6, DType::F32);
        let (first, cache) = layer.decode(&x.index(i![.., ..4]), &cache);
        let (second, cache) = layer.decode(&x.index(i![.., 4..]), &cache);
        near(&concatenate(&[first, second], 1), &whole, 1e-5);
        let (beyond, _) = layer.decode(&x.index(i![.., ..1]), &cache);
        assert!(values(&beyond).into_iter().all(f32::is_nan));
    }

    #[test]
    fn dropout_without_key_returns_the_input() {
        let x = random::normal(random::key(0), [50, 4]);
        let dropout = nn::Dropout::new(0.25);
        assert_eq!(values(&dropout.forward(&x, None)), values(&x));
        let dropped = values(&dropout.forward(&x, Some(random::key(1))));
        let zeros = dropped.iter().filter(|&&y| y == 0.0).count();
        assert!((25..75).contains(&zeros), "{zeros} of 200 dropped at a rate of 0.25");
        for (x, y) in values(&x).into_iter().zip(dropped) {
            assert!(y == 0.0 || (y - x / 0.75).abs() < 1e-6, "{x} became {y}");
        }
    }

    #[test]
    fn batch_norm_averages_over_a_named_axis() {
        let x = random::normal(random::key(0), [4, 3, 5]) * 2.0 + 1.0;
        let stats = nn::BatchStats::new(5);
        let (whole, expected) = nn::BatchNorm::new(5).forward_train(&x, &stats);
        let norm = nn::BatchNorm { axis_name: Some("batch".into()), ..nn::BatchNorm::new(5) };
        let each = vmap(move |x: Array| {
            let (y, stats) = norm.forward_train(&x, &stats);
            (y, stats.mean, stats.var)
        });
        let (y, mean, var) = each.axis_name("batch").apply(&x);
        near(&y, &whole, 1e-5);
        for at in 0..4 {
            near(&mean.index(i![at]), &expected.mean, 1e-6);
            near(&var.index(i![at]), &expected.var, 1e-6);
        }
    }

    #[test]
    fn recurrent_gates_are_initialized_orthogonal() {
        let cell = nn::LstmCell::new(random::key(3), 2, 4);
        let gate = cell.recurrent.index(i![.., 4..8]);
        near(&gate.t().matmul(&gate), &eye(4), 1e-5);
    }

    #[test]
    fn top_k_accuracy_prefers_the_first_of_equal_logits() {
        let logits =
            Array::from_slice(&[0.0f32, 1.0, 1.0, 1.0, 3.0, 2.0, 1.0, 0.0], [2, 4]).unwrap();
        let accuracy = |labels: [i32; 2], k: usize| {
            let labels = Array::from_slice(&labels, [2]).unwrap();
            nn::top_k_accuracy(&logits, &labels, k).item::<f32>().unwrap()
        };
        assert_eq!(accuracy([1, 0], 1), 1.0);
        assert_eq!(accuracy([2, 1], 1), 0.0);
        assert_eq!(accuracy([2, 1], 2), 1.0);
        assert_eq!(accuracy([3, 3], 2), 0.0);
        assert_eq!(accuracy([3, 9], 4), 0.5);
        assert_eq!(accuracy([-1, 3], 4), 0.5);
    }

    #[test]
    fn confusion_matrix_has_true_classes_as_rows() {
        let guesses = Array::from_slice(&[0i32, 1, 1, 2, 5], [5]).unwrap();
        let labels = Array::from_slice(&[0i32, 0, 1, 1, 1], [5]).unwrap();
        let counts = nn::confusion_matrix(&guesses, &labels, 3);
        assert_eq!(counts.to_vec::<i32>().unwrap(), [1, 1, 0, 0, 1, 1, 0, 0, 0]);
    }

    #[test]
    fn average_compensates_rounding() {
        let value = |x: f32| Array::from_slice(&[x], [1]).unwrap();
        // Each 1 is less than half of the spacing of f32 at 1e8.
        let start = nn::Average::new().update(&value(1e8));
        let many = (0..99).fold(start, |average, _| average.update(&value(1.0)));
        let mean = many.compute().item::<f32>().unwrap();
        assert!((mean - 1_000_000.99).abs() < 0.07, "{mean}");
        let both =
            nn::Average::new().update(&value(1.0)).merge(&nn::Average::new().update(&value(4.0)));
        assert_eq!(both.compute().item::<f32>().unwrap(), 2.5);
        let pair = Array::from_slice(&[2.0f32, 100.0], [2]).unwrap();
        let weights = Array::from_slice(&[3.0f32, 0.0], [2]).unwrap();
        let kept = nn::Average::new().update_weighted(&pair, &weights);
        assert_eq!(kept.compute().item::<f32>().unwrap(), 2.0);
        assert!(nn::Average::new().compute().item::<f32>().unwrap().is_nan());
    }

    #[test]
    fn ctc_loss_of_an_impossible_alignment_is_large() {
        // Two equal labels need a blank between them, so three frames.
        let labels = Array::from_slice(&[1i32, 1], [1, 2]).unwrap();
        let length = |n: i32| Array::from_slice(&[n], [1]).unwrap();
        let loss = |frames: usize| {
            let logits = zeros([1, frames, 2]);
            let loss = nn::ctc_loss(&logits, &length(frames as i32), &labels, &length(2));
            values(&loss)[0]
        };
        assert!(loss(2) > 9e4);
        assert!((loss(3) - 8f32.ln()).abs() < 1e-5);
    }

    #[test]
    fn stacked_layers_equal_unrolled_layers() {
        let unrolled = nn::Layers::new(random::key(0), 3, |key| nn::Linear::new(key, 4, 4));
        let stacked = unrolled.stacked();
        assert_eq!((unrolled.len(), stacked.len()), (3, 3));
        let x = full([2, 4], 0.5f32);
        let fold = |layers: &nn::Layers<nn::Linear>| {
            layers.fold(x.clone(), |x, layer| tanh(layer.forward(&x))).to_vec::<f32>().unwrap()
        };
        let expected = fold(&unrolled);
        for layers in [&stacked, &stacked.unrolled()] {
            let actual = fold(layers);
            let differences = actual.iter().zip(&expected).map(|(a, b)| (a - b).abs());
            assert!(differences.fold(0.0, f32::max) < 1e-6);
        }
        let key_of = |layers: &nn::Layers<nn::Linear>| {
            let keys = layers.split_key(Some(random::key(1)));
            layers.scan((), &keys, |(), _, key| ((), key.unwrap().data().clone())).1
        };
        let nn::Layers::Stacked { stack } = key_of(&unrolled).stacked() else { panic!("stacked") };
        let nn::Layers::Stacked { stack: expected } = key_of(&stacked) else { panic!("stacked") };
        assert_eq!(stack.to_vec::<u32>().unwrap(), expected.to_vec::<u32>().unwrap());
    }
}
