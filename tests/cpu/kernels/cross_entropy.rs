//! Cross entropy of a linear layer.

use super::{difference, expect_close, normal};
use oxidax::kernels::{
    HeadLayout, LinearCrossEntropyOptions, linear_cross_entropy, linear_cross_entropy_with,
    linear_cross_entropy_with_lse,
};
use oxidax::prelude::*;

#[test]
fn operands_that_do_not_fit_are_refused() {
    let of = |shape: &[usize]| Aval::new(DType::F32, shape.to_vec());
    let error = |x: Aval, w: Aval, labels: Aval, options: LinearCrossEntropyOptions| {
        let loss = move |x: Array, w: Array, labels: Array| {
            linear_cross_entropy_with(&x, &w, &labels, &options)
        };
        eval_shape(loss, (x, w, labels)).unwrap_err().to_string()
    };
    let labels = |n: usize| Aval::new(DType::I32, [n]);
    let plain = LinearCrossEntropyOptions::default;
    let text = error(of(&[4, 8]), of(&[8, 100]), labels(4), plain());
    assert!(text.contains("HeadLayout::FeaturesFirst"), "{text}");
    assert!(text.contains("cross_entropy.rs"), "{text}");
    let text = error(of(&[4, 8]), of(&[100, 8]), labels(5), plain());
    assert!(text.contains("takes labels of shape [4]"), "{text}");
    let text = error(of(&[4, 8]), of(&[100, 8]), of(&[4]), plain());
    assert!(text.contains("labels must be classes"), "{text}");
    let half = Aval::new(DType::BF16, [100, 8]);
    let text = error(of(&[4, 8]), half, labels(4), plain());
    assert!(text.contains("got f32 and bf16"), "{text}");
    let smoothed = LinearCrossEntropyOptions { label_smoothing: 1.5, ..plain() };
    let text = error(of(&[4, 8]), of(&[100, 8]), labels(4), smoothed);
    assert!(text.contains("label_smoothing must be in 0..=1, got 1.5"), "{text}");
}

/// Loss and logsumexp from logits, in `f64`.
fn reference(
    x: &Array,
    w: &Array,
    labels: &Array,
    options: &LinearCrossEntropyOptions,
) -> (Array, Array) {
    let w = match options.layout {
        HeadLayout::VocabularyFirst => w.t(),
        HeadLayout::FeaturesFirst => w.clone(),
    };
    let mut logits = x.matmul(&w);
    if let Some(bias) = &options.bias {
        logits += bias;
    }
    if let Some(bound) = options.soft_cap {
        logits = tanh(logits / bound) * bound;
    }
    let lse = logsumexp(&logits, -1);
    let smoothing = options.label_smoothing;
    let label = maximum(labels, 0).expand_dims(-1);
    let picked = take_along_axis(&logits, &label, -1).squeeze_axes([-1]);
    let mut loss = &lse - picked * (1.0 - smoothing) - logits.mean_axes(-1) * smoothing;
    loss += &lse * &lse * options.z_loss;
    if let Some(ignored) = options.ignore_index {
        loss = where_(eq(labels, ignored), 0.0, loss);
    }
    (loss, lse)
}

type Function = fn(&Array, &Array, &Array, &LinearCrossEntropyOptions) -> (Array, Array);

/// Returns losses, logsumexps and the gradients of a weighted sum of both.
fn results(
    function: Function,
    operands: &[Array; 5],
    options: &LinearCrossEntropyOptions,
) -> Vec<Array> {
    let (has_bias, options) = (options.bias.is_some(), options.clone());
    let step = jit(move |operands: &Vec<Array>| {
        let [x, w, bias, labels, weights] = [0, 1, 2, 3, 4].map(|index: usize| &operands[index]);
        let of = |(x, w, bias): &(Array, Array, Array)| {
            let bias = has_bias.then(|| bias.clone());
            function(x, w, labels, &LinearCrossEntropyOptions { bias, ..options.clone() })
        };
        let operands = (x.clone(), w.clone(), bias.clone());
        let (loss, lse) = of(&operands);
        let weighted = |operands: &(Array, Array, Array)| {
            let (loss, lse) = of(operands);
            (loss * weights).sum() + (lse * weights * 0.3).sum()
        };
        let (dx, dw, db) = grad(weighted)(&operands);
        let mut all = vec![loss, lse, dx, dw];
        all.extend(has_bias.then_some(db));
        all
    });
    step.call(operands.to_vec()).unwrap()
}

/// Compares with the reference, on operands drawn for these sizes.
fn compare(
    [n, d, vocabulary]: [usize; 3],
    dtype: DType,
    options: &LinearCrossEntropyOptions,
    what: &str,
) {
    let shape = match options.layout {
        HeadLayout::VocabularyFirst => [vocabulary, d],
        HeadLayout::FeaturesFirst => [d, vocabulary],
    };
    let w = (normal(1, shape, DType::F32) * 0.3).astype(dtype);
    let mut labels = random::randint(random::key(2), [n], 0..vocabulary as i32);
    if let Some(ignored) = options.ignore_index {
        labels = where_(lt(iota(DType::I32, n), 3), ignored, labels);
    }
    let weights = normal(4, [n], DType::F32);
    let operands = [normal(0, [n, d], dtype), w, normal(3, [vocabulary], dtype), labels, weights];
    let found = results(linear_cross_entropy_with_lse, &operands, options);
    let wide = [0, 1, 2, 3, 4].map(|index: usize| match &operands[index] {
        x if index == 3 => x.clone(),
        x => x.astype(DType::F64),
    });
    expect_close(&found, &results(reference, &wide, options), dtype, what);
    assert_eq!(found[3].dtype(), dtype);
}

fn all_options() -> LinearCrossEntropyOptions {
    LinearCrossEntropyOptions {
        layout: HeadLayout::VocabularyFirst,
        bias: Some(zeros([1])),
        ignore_index: Some(-1),
        label_smoothing: 0.1,
        z_loss: 0.01,
        soft_cap: Some(3.0),
        block_sizes: None,
    }
}

mod on_cpu {
    use super::*;

    #[test]
    fn blocks_of_devices_equal_the_reference() {
        let block_sizes = Some((128, 128));
        compare_all([150, 80, 300], block_sizes);
    }

    #[test]
    fn blocks_of_cpus_equal_the_reference() {
        // Two whole blocks of 8,192 classes and a rest.
        compare_all([20, 12, 17_001], None);
    }

    /// Compares all layouts, dtypes and options.
    fn compare_all(sizes: [usize; 3], block_sizes: Option<(usize, usize)>) {
        use HeadLayout::{FeaturesFirst, VocabularyFirst};
        for (layout, dtype, options) in [
            (VocabularyFirst, DType::F32, LinearCrossEntropyOptions::default()),
            (FeaturesFirst, DType::F32, LinearCrossEntropyOptions::default()),
            (VocabularyFirst, DType::BF16, all_options()),
            (FeaturesFirst, DType::F32, all_options()),
            (FeaturesFirst, DType::BF16, LinearCrossEntropyOptions::default()),
        ] {
            let options = LinearCrossEntropyOptions { layout, block_sizes, ..options };
            compare(sizes, dtype, &options, &format!("{dtype} {options:?}"));
        }
    }

    #[test]
    fn labels_outside_of_the_vocabulary_give_nan() {
        let labels = Array::from_slice(&[0i32, -1, 9, 10], [4]).unwrap();
        let (x, w) = (normal(0, [4, 8], DType::F32), normal(1, [10, 8], DType::F32));
        for block_sizes in [None, Some((128, 128))] {
            let options = LinearCrossEntropyOptions { block_sizes, ..Default::default() };
            let loss = linear_cross_entropy_with(&x, &w, &labels, &options);
            let is_nan =
                loss.to_vec::<f32>().unwrap().iter().map(|x| x.is_nan()).collect::<Vec<_>>();
            assert_eq!(is_nan, [false, true, false, true]);
        }
    }

    #[test]
    fn leading_axes_jit_and_vmap_give_the_same_losses() {
        let (x, w) = (normal(0, [2, 3, 9, 16], DType::F32), normal(1, [50, 16], DType::F32));
        let labels = random::randint(random::key(2), [2, 3, 9], 0..50);
        let loss = |x: &Array, w: &Array, labels: &Array| {
            nn::softmax_cross_entropy_with_integer_labels(&x.matmul(&w.t()), labels)
        };
        let expected = loss(&x, &w, &labels);
        assert!(difference(&linear_cross_entropy(&x, &w, &labels), &expected) < 1e-5);
        for block_sizes in [None, Some((128, 128))] {
            let options = LinearCrossEntropyOptions { block_sizes, ..Default::default() };
            let of = {
                let options = options.clone();
                move |x: Array, w: Array, labels: Array| {
                    linear_cross_entropy_with(&x, &w, &labels, &options)
                }
            };
            let compiled = jit(of.clone()).call(&x, &w, &labels).unwrap();
            assert!(difference(&compiled, &expected) < 1e-5);
            let mapped = vmap(of.clone()).in_axes((0, None, 0)).apply(&x, &w, &labels);
            assert!(difference(&mapped, &expected) < 1e-5);
            let gradient = move |x: Array, w: Array, labels: Array| {
                let of = |(x, w): &(Array, Array)| {
                    linear_cross_entropy_with(x, w, &labels, &options).sum()
                };
                grad(of)(&(x, w))
            };
            let (dx, dw) = vmap(gradient).in_axes((0, None, 0)).apply(&x, &w, &labels);
            let plain = |(x, w): &(Array, Array)| loss(x, w, &labels).sum();
            let (expected_dx, expected_dw) = grad(plain)(&(x.clone(), w.clone()));
            assert!(difference(&dx, &expected_dx) < 1e-5);
            assert!(difference(&dw.sum_axes(0), &expected_dw) < 1e-5);
        }
    }

    #[test]
    fn a_step_needs_a_fraction_of_the_memory_of_logits() {
        const ROWS: usize = 256;
        const VOCABULARY: usize = 20_000;
        let temporaries = |loss: fn(&Array, &Array, &Array) -> Array| {
            let step = jit(move |x: Array, w: Array, labels: Array| {
                grad(|(x, w): &(Array, Array)| loss(x, w, &labels).mean())(&(x, w))
            });
            let x = Aval::new(DType::F32, [ROWS, 16]);
            let w = Aval::new(DType::F32, [VOCABULARY, 16]);
            let labels = Aval::new(DType::I32, [ROWS]);
            let compiled = step.lower(x, w, labels).unwrap().compile().unwrap();
            compiled.report().memory_analysis().unwrap().temporaries
        };
        let fused = temporaries(|x, w, labels| {
            let block_sizes = Some((128, 128));
            let options = LinearCrossEntropyOptions { block_sizes, ..Default::default() };
            linear_cross_entropy_with(x, w, labels, &options)
        });
        let plain = temporaries(|x, w, labels| {
            nn::softmax_cross_entropy_with_integer_labels(&x.matmul(&w.t()), labels)
        });
        let logits = (ROWS * VOCABULARY * 4) as u64;
        assert!(plain >= logits, "{plain}");
        assert!(fused < logits / 2, "{fused}");
    }
}
