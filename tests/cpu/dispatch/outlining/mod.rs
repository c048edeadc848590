//! Repeated parts of programs, which are compiled once.

mod features;
mod random_layers;

use oxidax::jit::{RepeatedPart, disable_outlining};
use oxidax::prelude::*;

const WIDTH: usize = 64;

/// Rows of the input. Layers with less arithmetic are not worth a function.
const ROWS: usize = 32;

/// A layer with a normalization, two products and a residual.
#[derive(Tree, Clone)]
struct Layer {
    scale: Array,
    widen: nn::Linear,
    narrow: nn::Linear,
}

impl Layer {
    fn new(key: random::Key) -> Layer {
        let [a, b] = random::split(key, 2).into_iter().collect::<Vec<_>>().try_into().unwrap();
        Layer {
            scale: ones([WIDTH]),
            widen: nn::Linear::new(a, WIDTH, 2 * WIDTH),
            narrow: nn::Linear::new(b, 2 * WIDTH, WIDTH),
        }
    }

    fn forward(&self, x: &Array) -> Array {
        let wide = self.widen.forward(&(standardize(x, -1, 1e-5) * &self.scale));
        x + &self.narrow.forward(&gelu(&wide))
    }
}

fn layers(n: usize) -> Vec<Layer> {
    random::split(random::key(7), n).into_iter().map(Layer::new).collect()
}

fn input() -> Array {
    random::normal(random::key(3), [ROWS, WIDTH])
}

fn run(layers: &[Layer], x: &Array) -> Array {
    layers.iter().fold(x.clone(), |x, layer| layer.forward(&x))
}

fn loss(layers: &[Layer], x: &Array) -> Array {
    let y = run(layers, x);
    (&y * &y).mean()
}

/// Returns the equations and repetitions of each part.
fn sizes(parts: &[RepeatedPart]) -> Vec<(usize, usize)> {
    parts.iter().map(|part| (part.equations, part.times)).collect()
}

fn times(parts: &[RepeatedPart]) -> Vec<usize> {
    parts.iter().map(|part| part.times).collect()
}

#[test]
fn layers_of_a_loop_become_one_function() {
    let forward = jit(|layers: Vec<Layer>, x: Array| run(&layers, &x));
    for n in [3, 4, 7, 12] {
        let layers = eval_shape(layers, n).unwrap();
        let lowered = forward.lower(&layers, Aval::new(DType::F32, [ROWS, WIDTH])).unwrap();
        let parts = lowered.repeated_parts("cpu").unwrap();
        let equations = lowered.program().eqns().len() / n;
        assert_eq!(sizes(&parts), [(equations, n)]);
        let text = lowered.as_text("cpu").unwrap();
        assert_eq!(text.matches("inlineable = \"false\"").count(), n);
        let last = format!("loc(\"part_0[{}]\"(#loc", n - 1);
        assert!(text.contains(&last), "{last} in {text}");
        // Each equation of a layer is written once.
        assert_eq!(text.matches("stablehlo.dot_general").count(), 2);
        assert_eq!(parts[0].loc.get().unwrap().file(), file!());
    }
}

#[test]
fn parts_print_with_their_line() {
    let forward = jit(|layers: Vec<Layer>, x: Array| run(&layers, &x));
    let lowered = forward.lower(eval_shape(layers, 5).unwrap(), input_type()).unwrap();
    let text = lowered.repeated_parts("cpu").unwrap()[0].to_string();
    assert!(text.starts_with("part_0: "), "{text}");
    assert!(text.contains(" equations, 5 times, "), "{text}");
    assert!(text.contains("outlining/mod.rs:"), "{text}");
}

fn input_type() -> Aval {
    Aval::new(DType::F32, [ROWS, WIDTH])
}

#[test]
fn two_layers_and_other_targets_are_left_alone() {
    let forward = jit(|layers: Vec<Layer>, x: Array| run(&layers, &x));
    let parts = |n: usize, platform: &str| {
        let lowered = forward.lower(eval_shape(layers, n).unwrap(), input_type()).unwrap();
        lowered.repeated_parts(platform).unwrap().len()
    };
    assert_eq!(parts(2, "cpu"), 0);
    assert_eq!(parts(6, "cpu"), 1);
    assert_eq!(parts(6, "tpu"), 0);
    assert_eq!(parts(6, "cuda"), 0);
    assert_eq!(disable_outlining(|| parts(6, "cpu")), 0);
}

#[test]
fn layers_with_callbacks_are_left_alone() {
    let forward = jit(|layers: Vec<Layer>, x: Array| {
        layers.iter().fold(x, |x, layer| {
            oxidax::debug::callback(|_| (), [&x]);
            layer.forward(&x)
        })
    });
    let lowered = forward.lower(eval_shape(layers, 6).unwrap(), input_type()).unwrap();
    let parts = lowered.repeated_parts("cpu").unwrap();
    assert_eq!(times(&parts), [0; 0]);
    let text = lowered.as_text("cpu").unwrap();
    assert_eq!(text.matches("stablehlo.custom_call").count(), 6, "{text}");
}

/// Compares the elements of two trees, relative to the largest of each leaf.
fn assert_close<T: Tree>(outlined: &T, plain: &T, tolerance: f64) {
    let (a, b) = (tree::leaves(outlined), tree::leaves(plain));
    assert_eq!(a.len(), b.len());
    for (index, (a, b)) in a.iter().zip(&b).enumerate() {
        let elements = |x: &Array| convert_element_type(x, DType::F64).to_vec::<f64>().unwrap();
        let (a, b) = (elements(a), elements(b));
        let largest = b.iter().fold(f64::MIN_POSITIVE, |most, x| most.max(x.abs()));
        let apart = a.iter().zip(&b).map(|(a, b)| (a - b).abs() / largest);
        let apart = apart.fold(0.0, f64::max);
        assert!(apart <= tolerance, "leaf {index}: {apart:e} apart");
    }
}

mod on_cpu {
    use super::*;

    #[test]
    fn gradients_and_updates_equal_those_of_separate_layers() {
        for n in [3, 4, 6, 9] {
            let optimizer = optim::chain([optim::clip_by_global_norm(0.5), optim::adamw(1e-2)]);
            let step = jit(|model: Vec<Layer>, state: optim::State, x: Array| {
                let (loss, gradients) =
                    value_and_grad(|model: &Vec<Layer>| loss(model, &x))(&model);
                let (updates, state) = optimizer.update(&gradients, &state, &model);
                (optim::apply_updates(&model, &updates), state, loss)
            });
            // Adam divides by small numbers, which makes rounding visible in `f32`.
            let wide = |x: &Array| convert_element_type(x, DType::F64);
            let (model, x) = (tree::map(&layers(n), wide), wide(&input()));
            let state = optimizer.init(&model);
            let lowered = step.lower(&model, &state, &x).unwrap();
            let parts = lowered.repeated_parts("cpu").unwrap();
            // Forward, backward, the squares of the gradients, and the updates. The first layer is
            // not repeated: it has no derivative by its input.
            let expected = if n < 4 { Vec::new() } else { vec![n - 1; 4] };
            assert_eq!(times(&parts), expected, "{n} layers: {parts:?}");
            let train = || {
                let (mut model, mut state, mut losses) = (model.clone(), state.clone(), Vec::new());
                for _ in 0..3 {
                    let loss;
                    (model, state, loss) = step.call(model, state, &x).unwrap();
                    losses.push(loss);
                }
                (model, losses)
            };
            assert_close(&train(), &disable_outlining(train), 1e-10);
            assert_eq!(step.stats().compiles, 2, "the scope is part of the key");
        }
    }

    /// Returns the number of fusions in an optimized program that are copies of others.
    fn copied_fusions(hlo: &[u8]) -> usize {
        let text = String::from_utf8_lossy(hlo);
        let is_in_name = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
        let names = text.split(|c| !is_in_name(c));
        names.filter(|name| name.contains("computation") && name.contains(".clone")).count()
    }

    #[test]
    fn functions_are_copied_after_their_operations_are_fused() {
        let forward = jit(|layers: Vec<Layer>, x: Array| run(&layers, &x));
        let lowered = forward.lower(layers(6), input()).unwrap();
        let copied = |compiled: oxidax::jit::Compiled<_, Array>| {
            copied_fusions(&compiled.report().optimized_hlo().unwrap())
        };
        assert!(copied(lowered.compile().unwrap()) >= 5, "one copy for each further call");
        // The user's own option has precedence, with which each copy is fused on its own.
        let first = [("xla_cpu_opt_preset", "CPU_OPT_PRESET_DEFAULT")];
        assert_eq!(copied(lowered.compile_with(first).unwrap()), 0);
        let separate = disable_outlining(|| forward.lower(layers(6), input()).unwrap());
        assert_eq!(copied(disable_outlining(|| separate.compile().unwrap())), 0);
    }

    #[test]
    fn layers_with_their_own_keys_and_constants_share_a_function() {
        let f = jit(|layers: Vec<Layer>, key: random::Key, x: Array| {
            let loss = |layers: &Vec<Layer>| {
                let layers = layers.iter().zip(random::split(key.clone(), 6)).enumerate();
                let y = layers.fold(x.clone(), |x, (index, (layer, key))| {
                    let kept = random::bernoulli(key, [ROWS, WIDTH], 0.9);
                    layer.forward(&x) * kept * (1.0 + index as f32)
                });
                (&y * &y).mean()
            };
            value_and_grad(loss)(&layers)
        });
        let lowered = f.lower(layers(6), random::key(1), input()).unwrap();
        assert_eq!(times(&lowered.repeated_parts("cpu").unwrap()), [5, 5]);
        let call = || f.call(layers(6), random::key(1), input()).unwrap();
        assert_close(&call(), &disable_outlining(call), 2e-6);
    }

    #[test]
    fn batches_and_recomputed_layers_equal_separate_ones() {
        let rematerialized = |layers: &Vec<Layer>, x: &Array| {
            let step = |x: Array, layer: &Layer| {
                remat(|layer: &Layer, x: &Array| layer.forward(x))(layer, &x)
            };
            let y = layers.iter().fold(x.clone(), step);
            (&y * &y).mean()
        };
        let per_example = |layers: Vec<Layer>, xs: Array| {
            let one = |x: Array| {
                let x = reshape(&x, [ROWS, WIDTH]);
                value_and_grad(|layers: &Vec<Layer>| rematerialized(layers, &x))(&layers)
            };
            vmap(one).apply(reshape(&xs, [2, ROWS, WIDTH]))
        };
        let xs = random::normal(random::key(5), [2 * ROWS, WIDTH]);
        let f = jit(per_example);
        let lowered = f.lower(layers(5), &xs).unwrap();
        assert!(!lowered.repeated_parts("cpu").unwrap().is_empty());
        let call = || f.call(layers(5), &xs).unwrap();
        assert_close(&call(), &disable_outlining(call), 2e-6);
    }

    #[test]
    fn parts_return_sums_of_rows_instead_of_arrays_of_quotients() {
        // The gradients of softmax, of a normalization and of GELU use arrays that are cheap to
        // compute from sums of rows and from one array with the shape of the operand.
        let weights = |layers: Vec<Array>, x: Array| {
            let loss = |layers: &Vec<Array>| {
                let y = layers.iter().fold(x.clone(), |x, w| {
                    let weights = softmax(x.matmul(w), -1);
                    &x + gelu(standardize(weights, -1, 1e-5)).matmul(w)
                });
                (&y * &y).mean()
            };
            value_and_grad(loss)(&layers)
        };
        let layers: Vec<Array> =
            (0..12).map(|seed| random::normal(random::key(seed), [256; 2]) * 0.05).collect();
        let (f, x) = (jit(weights), random::normal(random::key(99), [256, 256]));
        let temporaries = || {
            let compiled = f.lower(&layers, &x).unwrap().compile().unwrap();
            compiled.report().memory_analysis().unwrap().temporaries
        };
        let array = 256 * 256 * 4;
        // Five for each of 12 layers. There would be eight if `1 / sum`, `x - mean` and both
        // factors of GELU's derivative were stored as arrays.
        assert!(temporaries() < array * (5 * 12 + 4), "{}", temporaries() / array);
        let call = || f.call(&layers, &x).unwrap();
        assert_close(&call(), &disable_outlining(call), 2e-5);
    }

    #[test]
    fn layers_inside_a_loop_share_a_function() {
        let f = jit(|layers: Vec<Layer>, x: Array| {
            scan(|x: Array, _: Array| (run(&layers, &x), x.sum()), x, zeros([3]))
        });
        let lowered = f.lower(layers(4), input()).unwrap();
        assert_eq!(times(&lowered.repeated_parts("cpu").unwrap()), [4]);
        let call = || f.call(layers(4), input()).unwrap();
        assert_close(&call(), &disable_outlining(call), 2e-6);
    }

    #[test]
    fn not_a_number_is_located_in_its_layer() {
        let f = jit(|layers: Vec<Layer>, x: Array| {
            layers.iter().fold(x, |x, layer| {
                let y = layer.forward(&x);
                log(&y) // the line
            })
        });
        let error = oxidax::debug::nan_check(|| f.call(layers(4), input())).err().unwrap();
        let line = include_str!("mod.rs").lines().position(|line| line.ends_with("// the line"));
        let expected = format!("outlining/mod.rs:{}", line.unwrap() + 1);
        assert!(error.error.to_string().contains(&expected), "{}", error.error);
    }
}
