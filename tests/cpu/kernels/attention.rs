//! Flash attention against the formula in f64, and the choice of the algorithm in
//! `dot_product_attention_with`.

use oxidax::kernels::{FlashAttentionOptions, flash_attention, flash_attention_with};
use oxidax::prelude::*;

fn options() -> FlashAttentionOptions {
    FlashAttentionOptions {
        block_q: Some(128),
        block_kv: Some(128),
        ..FlashAttentionOptions::default()
    }
}

fn typed(shape: [usize; 4]) -> Aval {
    Aval::new(DType::F32, shape)
}

#[track_caller]
fn refused(options: FlashAttentionOptions, shapes: [[usize; 4]; 3], expected: &str) {
    let attend = move |q: Array, k: Array, v: Array| flash_attention_with(&q, &k, &v, &options);
    let [q, k, v] = shapes.map(typed);
    let error = eval_shape(attend, (q, k, v)).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn wrong_operands_and_options_are_refused() {
    let fitting = [[2, 8, 4, 16], [2, 9, 2, 16], [2, 9, 2, 16]];
    refused(options(), [[2, 8, 4, 16], [2, 9, 3, 16], [2, 9, 3, 16]], "not a multiple of 3 key");
    refused(options(), [[2, 8, 4, 16], [2, 9, 2, 8], [2, 9, 2, 8]], "do not fit [b, t, n, h]");
    refused(options(), [[2, 0, 4, 16], [2, 9, 2, 16], [2, 9, 2, 16]], "an axis has the size 0");
    let rate = FlashAttentionOptions { dropout_rate: 1.0, ..options() };
    refused(rate, fitting, "the dropout rate 1 is not in 0..1");
    let block = FlashAttentionOptions { block_kv: Some(0), ..options() };
    refused(block, fitting, "a block of size 0");
}

#[test]
fn blocks_that_a_tpu_does_not_take_are_refused() {
    let block = FlashAttentionOptions { block_q: Some(64), ..options() };
    refused(block, [[1, 256, 1, 16]; 3], "neither a multiple of 128");
}

#[test]
fn second_derivatives_are_refused() {
    let norm = |q: &Array| {
        let slope = |q: &Array| flash_attention(q, q, q).sum();
        square(grad(slope)(q)).sum()
    };
    let error = eval_shape(move |q: Array| grad(norm)(&q), typed([1, 8, 2, 16])).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("the kernel `flash_attention"), "{error}");
    assert!(error.contains("has no derivative"), "{error}");
}

/// Returns true if `dot_product_attention_with` becomes a kernel for sequences of this length.
fn is_kernel(length: usize, options: AttentionOptions) -> bool {
    let attend =
        move |q: Array, k: Array, v: Array| dot_product_attention_with(&q, &k, &v, &options);
    let x = || typed([1, length, 2, 16]);
    make_program(attend, (x(), x(), x())).unwrap().to_string().contains("kernel_call")
}

#[test]
fn the_kernel_is_chosen_for_long_sequences_with_masks_that_it_knows() {
    let causal = || AttentionOptions { is_causal: true, ..AttentionOptions::default() };
    assert!(!is_kernel(1023, causal()));
    assert!(is_kernel(1024, causal()));
    assert!(is_kernel(2048, AttentionOptions { local_window: Some((9, 0)), ..causal() }));
    let plain = AttentionImplementation::Plain;
    assert!(!is_kernel(2048, AttentionOptions { implementation: plain, ..causal() }));
    let flash = AttentionImplementation::Flash;
    assert!(is_kernel(16, AttentionOptions { implementation: flash, ..causal() }));
}

mod on_cpu {
    use super::*;

    /// An attention: sizes and options.
    #[derive(Clone)]
    struct Case {
        sizes: [usize; 7],
        options: FlashAttentionOptions,
    }

    impl Case {
        fn new(sizes: [usize; 7], options: FlashAttentionOptions) -> Case {
            Case { sizes, options }
        }

        fn operands(&self, dtype: DType) -> [Array; 4] {
            let [b, t, s, n, k, h, hv] = self.sizes;
            let shapes = [[b, t, n, h], [b, s, k, h], [b, s, k, hv], [b, t, n, hv]];
            let mut seeds = 0..;
            shapes.map(|shape| {
                random::normal(random::key(seeds.next().unwrap()), shape).astype(dtype)
            })
        }

        /// Returns the result and the gradients of its product with the last operand.
        fn run(&self, [q, k, v, weights]: &[Array; 4]) -> [Vec<f64>; 4] {
            let options = self.options.clone();
            let step = jit(move |q: Array, k: Array, v: Array, weights: Array| {
                let attend =
                    |x: &(Array, Array, Array)| flash_attention_with(&x.0, &x.1, &x.2, &options);
                let loss =
                    |x: &(Array, Array, Array)| (attend(x) * &weights).astype(DType::F32).sum();
                let x = (q, k, v);
                (attend(&x), grad(loss)(&x))
            });
            let (out, (q, k, v)) = step.call(q, k, v, weights).unwrap();
            [out, q, k, v].map(|x| numbers(&x))
        }

        /// Returns the same by the formula in f64.
        fn expected(&self, operands: &[Array; 4]) -> [Vec<f64>; 4] {
            let [b, t, s, n, k, h, hv] = self.sizes;
            let [queries, keys, values, weights] = operands.each_ref().map(numbers);
            let mut results = [b * t * n * hv, b * t * n * h, b * s * k * h, b * s * k * hv]
                .map(|size| vec![0.0; size]);
            let scale = self.options.scale.unwrap_or(1.0 / (h as f64).sqrt());
            let allowed_of = self.allowed();
            for example in 0..b {
                for head in 0..n {
                    let of_q = |i: usize| ((example * t + i) * n + head) * h;
                    let of_out = |i: usize| ((example * t + i) * n + head) * hv;
                    let of_k = |j: usize| ((example * s + j) * k + head / (n / k)) * h;
                    let of_v = |j: usize| ((example * s + j) * k + head / (n / k)) * hv;
                    for i in 0..t {
                        let allowed = &allowed_of[example * t + i];
                        let scores: Vec<f64> = allowed
                            .iter()
                            .map(|&j| scale * dot(&queries[of_q(i)..][..h], &keys[of_k(j)..][..h]))
                            .collect();
                        let max = scores.iter().copied().fold(f64::MIN, f64::max);
                        let sum: f64 = scores.iter().map(|score| (score - max).exp()).sum();
                        let p: Vec<f64> =
                            scores.iter().map(|score| (score - max).exp() / sum).collect();
                        let kept: Vec<f64> =
                            allowed.iter().map(|&j| self.kept(example * n + head, i, j)).collect();
                        let ct = &weights[of_out(i)..][..hv];
                        let of_p: Vec<f64> = allowed
                            .iter()
                            .zip(&kept)
                            .map(|(&j, kept)| kept * dot(ct, &values[of_v(j)..][..hv]))
                            .collect();
                        let delta = dot(&p, &of_p);
                        for (index, &j) in allowed.iter().enumerate() {
                            let weight = p[index] * kept[index];
                            let of_score = scale * p[index] * (of_p[index] - delta);
                            for f in 0..hv {
                                results[0][of_out(i) + f] += weight * values[of_v(j) + f];
                                results[3][of_v(j) + f] += weight * ct[f];
                            }
                            for f in 0..h {
                                results[1][of_q(i) + f] += of_score * keys[of_k(j) + f];
                                results[2][of_k(j) + f] += of_score * queries[of_q(i) + f];
                            }
                        }
                    }
                }
            }
            results
        }

        /// Returns the keys that each query of each example attends to.
        fn allowed(&self) -> Vec<Vec<usize>> {
            let ([b, t, s, ..], options) = (self.sizes, &self.options);
            let (before, after) = options.local_window.unwrap_or((usize::MAX, usize::MAX));
            let segments = |x: &Option<Array>, length: usize| match x {
                Some(x) => x.to_vec::<i32>().unwrap(),
                None => vec![0; b * length],
            };
            let of_queries = segments(&options.query_segments, t);
            let of_keys = segments(&options.key_segments, s);
            let is_allowed = |example: usize, i: usize, j: usize| {
                !(options.is_causal && j > i)
                    && i.saturating_sub(j) <= before
                    && j.saturating_sub(i) <= after
                    && of_queries[example * t + i] == of_keys[example * s + j]
            };
            let keys = |at: usize| (0..s).filter(|&j| is_allowed(at / t, at % t, j)).collect();
            (0..b * t).map(keys).collect()
        }

        /// Returns the factor of a weight by dropout, from the kernels' hash in wrapping `u32`.
        fn kept(&self, head: usize, i: usize, j: usize) -> f64 {
            let Some(key) = &self.options.dropout_key else { return 1.0 };
            let seed = key.data().to_vec::<u32>().unwrap();
            let mix = |x: u32| {
                let x = (x ^ (x >> 16)).wrapping_mul(0x7FEB_352D);
                let x = (x ^ (x >> 15)).wrapping_mul(0x846C_A68B);
                x ^ (x >> 16)
            };
            let x = mix(seed[1].wrapping_add((head as u32).wrapping_mul(0x9E37_79B9)));
            let x = mix(seed[0] ^ x);
            let x = mix(x ^ (i as u32).wrapping_mul(0x85EB_CA6B));
            let bits = mix(x ^ (j as u32).wrapping_mul(0xC2B2_AE35)) >> 8;
            let rate = self.options.dropout_rate;
            let threshold = ((1.0 - rate) * f64::from(1 << 24)).round() as u32;
            if bits < threshold { 1.0 / (1.0 - rate) } else { 0.0 }
        }

        #[track_caller]
        fn check(&self, dtype: DType, tolerance: f64) {
            let operands = self.operands(dtype);
            let names = ["result", "gradient of q", "gradient of k", "gradient of v"];
            let (found, expected) = (self.run(&operands), self.expected(&operands));
            for ((found, expected), name) in found.iter().zip(&expected).zip(names) {
                assert_eq!(found.len(), expected.len());
                let largest = expected.iter().fold(0.0, |max: f64, x| max.max(x.abs()));
                for (at, (x, y)) in found.iter().zip(expected).enumerate() {
                    let close = (x - y).abs() <= tolerance * largest.max(1.0);
                    assert!(close, "{name} {at}: {x}, expected {y}, largest {largest}");
                }
            }
        }
    }

    fn numbers(x: &Array) -> Vec<f64> {
        x.astype(DType::F32).to_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
    }

    fn dot(x: &[f64], y: &[f64]) -> f64 {
        x.iter().zip(y).map(|(x, y)| x * y).sum()
    }

    fn causal() -> FlashAttentionOptions {
        FlashAttentionOptions { is_causal: true, ..options() }
    }

    /// Returns options with segments of about 40 tokens, which differ between two examples.
    fn segmented(t: usize, s: usize) -> FlashAttentionOptions {
        let ids = |length: usize| {
            let length_of = |i: usize| 40 + i / length;
            let ids: Vec<i32> =
                (0..2 * length).map(|i| (i % length / length_of(i)) as i32).collect();
            Array::from_slice(&ids, [2, length]).unwrap()
        };
        FlashAttentionOptions {
            query_segments: Some(ids(t)),
            key_segments: Some(ids(s)),
            ..options()
        }
    }

    #[test]
    fn results_and_gradients_are_those_of_the_formula() {
        let window = |window| FlashAttentionOptions { local_window: Some(window), ..options() };
        let default = FlashAttentionOptions::default;
        let scaled = FlashAttentionOptions { scale: Some(0.3), ..options() };
        for case in [
            Case::new([1, 1, 1, 1, 1, 8, 8], default()),
            Case::new([2, 20, 33, 4, 2, 8, 16], default()),
            // One block fewer queries than keys, and blocks that do not divide either.
            Case::new([1, 130, 257, 2, 2, 16, 8], scaled),
            Case::new([1, 256, 256, 2, 1, 16, 16], causal()),
            Case::new([1, 300, 140, 3, 1, 16, 16], causal()),
            Case::new([1, 140, 300, 4, 2, 8, 8], causal()),
            Case::new([1, 300, 300, 2, 2, 8, 8], window((30, 7))),
            Case::new([1, 300, 300, 2, 2, 8, 8], window((0, 200))),
            Case::new([2, 150, 270, 2, 1, 8, 8], segmented(150, 270)),
            Case::new(
                [2, 270, 270, 2, 1, 8, 8],
                FlashAttentionOptions {
                    is_causal: true,
                    local_window: Some((25, 100)),
                    ..segmented(270, 270)
                },
            ),
        ] {
            case.check(DType::F32, 1e-5);
        }
    }

    #[test]
    fn narrow_floats_are_summed_in_f32() {
        Case::new([1, 200, 200, 4, 2, 16, 16], causal()).check(DType::BF16, 0.02);
    }

    #[test]
    fn queries_without_keys_get_zeros() {
        // Queries from 150 on have no key in their window.
        let options = FlashAttentionOptions { local_window: Some((50, 0)), ..options() };
        let case = Case::new([1, 300, 100, 2, 1, 8, 8], options);
        case.check(DType::F32, 1e-5);
        let [out, of_q, ..] = case.run(&case.operands(DType::F32));
        let first = 150 * 2 * 8;
        assert!(out[..first].iter().all(|&x| x != 0.0));
        assert!(out[first..].iter().chain(&of_q[first..]).all(|&x| x == 0.0));
    }

    #[test]
    fn dropout_drops_the_same_weights_in_both_passes() {
        let dropped = FlashAttentionOptions {
            dropout_rate: 0.3,
            dropout_key: Some(random::key(5)),
            ..causal()
        };
        let case = Case::new([2, 150, 150, 4, 2, 8, 8], dropped);
        case.check(DType::F32, 1e-5);
        let kept = (0..100 * 100).filter(|i| case.kept(1, i / 100, i % 100) > 0.0).count();
        // Six standard deviations of 10,000 decisions.
        assert!((6725..=7275).contains(&kept), "{kept} of 10000 weights are kept");
        // Without a key nothing is dropped.
        let rate_alone = FlashAttentionOptions { dropout_rate: 0.3, ..causal() };
        Case::new([1, 20, 20, 1, 1, 8, 8], rate_alone).check(DType::F32, 1e-5);
    }

    #[test]
    fn a_batched_call_is_a_call_for_each_example() {
        let case = Case::new([3, 140, 140, 2, 1, 8, 8], causal());
        let [q, k, v, _] = case.operands(DType::F32);
        let slope = |q: &Array, k: &Array, v: &Array| {
            let loss =
                |x: &(Array, Array)| square(flash_attention_with(&x.0, &x.1, v, &causal())).sum();
            grad(loss)(&(q.clone(), k.clone()))
        };
        let add_batch = |x: &Array| expand_dims(x, &[1]);
        let batched = vmap(move |q: Array, k: Array, v: Array| slope(&q, &k, &v));
        let found = batched.apply(add_batch(&q), add_batch(&k), add_batch(&v));
        let expected = slope(&q, &k, &v);
        for (found, expected) in [(found.0, expected.0), (found.1, expected.1)] {
            let (found, expected) = (numbers(&found), numbers(&expected));
            let close = found.iter().zip(&expected).all(|(x, y)| (x - y).abs() < 1e-5);
            assert!(close && found.len() == expected.len());
        }
    }

    #[test]
    fn both_implementations_agree_on_lengths() {
        let [q, k, v, _] = Case::new([2, 60, 60, 4, 2, 8, 8], options()).operands(DType::F32);
        let lengths = |lengths: [i32; 2]| Some(Array::from_slice(&lengths, [2]).unwrap());
        let attend = |implementation| {
            let options = AttentionOptions {
                is_causal: true,
                query_lengths: lengths([60, 31]),
                key_lengths: lengths([17, 60]),
                implementation,
                ..AttentionOptions::default()
            };
            let loss = |x: &(Array, Array, Array)| {
                let y = dot_product_attention_with(&x.0, &x.1, &x.2, &options);
                (square(&y).sum(), y)
            };
            let ((_, y), (of_q, of_k, of_v)) =
                value_and_grad_aux(loss)(&(q.clone(), k.clone(), v.clone()));
            [y, of_q, of_k, of_v].map(|x| numbers(&x))
        };
        let plain = attend(AttentionImplementation::Plain);
        let flash = attend(AttentionImplementation::Flash);
        for (plain, flash) in plain.iter().zip(&flash) {
            assert!(plain.iter().zip(flash).all(|(x, y)| (x - y).abs() < 1e-5));
        }
    }
}
