//! Loops that are compiled in another form because they are one kernel: products after the loop,
//! joined parts, functions of short arrays.

use oxidax::jit::{disable_loop_kernels, disable_rewrites};
use oxidax::prelude::*;

type Arrays = Vec<Array>;

/// Returns `scale * sin(1), scale * sin(2), …` in `f64`.
fn wave(shape: impl Into<Shape>, scale: f64) -> Array {
    let shape = shape.into();
    let elements: Vec<f64> = (0..shape.size()).map(|at| scale * (at as f64 + 1.0).sin()).collect();
    Array::from_slice(&elements, shape).unwrap()
}

/// Returns the StableHLO of a program with kernels.
fn text(f: impl Fn(Arrays) -> Arrays + Send + Sync + 'static, inputs: &Arrays) -> String {
    jit(f).lower(inputs).unwrap().as_text("cpu").unwrap()
}

/// Checks that the forms of kernels change the program, and that the results are those of the plain
/// form, up to rounding.
#[track_caller]
fn check(f: impl Fn(Arrays) -> Arrays + Send + Sync + 'static, inputs: &Arrays) {
    let f = jit(f);
    let lowered = f.lower(inputs).unwrap();
    let text = || lowered.as_text("cpu").unwrap();
    assert_ne!(text(), disable_rewrites(text), "the form of the kernels is the plain one");
    compare(&f.call(inputs).unwrap(), &disable_rewrites(|| f.call(inputs)).unwrap());
    compare(&f.call(inputs).unwrap(), &disable_loop_kernels(|| f.call(inputs)).unwrap());
}

#[track_caller]
fn compare(results: &Arrays, plain: &Arrays) {
    assert_eq!(results.len(), plain.len());
    for (index, (x, y)) in results.iter().zip(plain).enumerate() {
        assert_eq!(x.aval(), y.aval());
        let numbers = |x: &Array| x.astype(DType::F64).to_vec::<f64>().unwrap();
        let (x, y) = (numbers(x), numbers(y));
        let scale = y.iter().fold(1e-30f64, |most, y| most.max(y.abs()));
        let largest = x.iter().zip(&y).fold(0.0f64, |most, (x, y)| most.max((x - y).abs()));
        let tolerance = if results[index].dtype() == DType::F32 { 1e-5 } else { 1e-11 };
        assert!(largest <= tolerance * scale, "result {index} differs by {largest} of {scale}");
        assert!(y.iter().any(|y| *y != 0.0), "result {index} is zero");
    }
}

/// The loss of an LSTM with the weights of inputs and state, the bias, and the inputs.
fn lstm_loss(x: &Arrays, reverse: bool) -> Array {
    let units = x[1].shape()[0] as isize;
    let step = |(c, h): (Array, Array), input: Array| {
        let gates = input.matmul(&x[0]) + h.matmul(&x[1]) + &x[2];
        let gate = |at: isize| gates.index(i![.., units * at..units * (at + 1)]);
        let c = logistic(gate(0)) * c + logistic(gate(1)) * tanh(gate(2));
        let h = logistic(gate(3)) * tanh(&c);
        ((c, h.clone()), h)
    };
    let start = zeros_with([1, units as usize], x[0].dtype());
    let options = ScanOptions { reverse, ..ScanOptions::default() };
    square(&scan_with(step, (start.clone(), start), x[3].clone(), options).1).sum()
}

fn zeros_with(shape: impl Into<Shape>, dtype: DType) -> Array {
    zeros(shape).astype(dtype)
}

fn lstm_inputs(units: usize, steps: usize) -> Arrays {
    vec![
        wave([units, 4 * units], 0.1),
        wave([units, 4 * units], 0.1),
        wave([4 * units], 0.1),
        wave([steps, 1, units], 1.0),
    ]
}

fn lstm_gradients(x: Arrays) -> Arrays {
    grad(|x: &Arrays| lstm_loss(x, false))(&x)
}

/// A perceptron whose output is its next input.
fn mlp_loss(x: &Arrays) -> Array {
    let step = |y: &Array, ()| (tanh(y.matmul(&x[0])), ());
    square(&scan(step, x[1].clone(), 9).0).sum()
}

mod on_cpu {
    use super::*;

    #[test]
    fn gradients_of_large_weights_are_products_after_the_loop() {
        let inputs = lstm_inputs(32, 20);
        let text = text(lstm_gradients, &inputs);
        let is_kernel = |function: &&str| function.trim_start().starts_with("private @scan_kernel");
        let (kernels, main): (Vec<&str>, Vec<&str>) = text.split("func.func").partition(is_kernel);
        let has = |functions: &[&str], text: &str| functions.iter().any(|of| of.contains(text));
        assert_eq!(kernels.len(), 2);
        assert!(has(&main, "tensor<20x1x128xf64>"), "cotangents are stacked");
        let products = |functions: &[&str]| {
            let lines = functions.iter().flat_map(|of| of.lines());
            let products = lines.filter(|line| line.contains("dot_general"));
            products.filter(|line| line.contains("-> tensor<32x128xf64>")).count()
        };
        assert_eq!((products(&main), products(&kernels)), (2, 0));
        let adds = |line: &str| line.contains("stablehlo.add") && line.contains("32x128");
        assert!(!kernels.iter().any(|of| of.lines().any(adds)));
        check(lstm_gradients, &inputs);
    }

    #[test]
    fn small_products_and_long_stacks_stay_in_the_loop() {
        let has_stack = |steps: usize, units: usize| {
            let aval = |shape: &[usize]| Aval::new(DType::F64, shape);
            let weights = aval(&[units, 4 * units]);
            let f = jit(|a: Array, b: Array, c: Array, x: Array| lstm_gradients(vec![a, b, c, x]));
            let (bias, inputs) = (aval(&[4 * units]), aval(&[steps, 1, units]));
            let lowered = f.lower(weights.clone(), weights, bias, inputs).unwrap();
            let stack = format!("tensor<{steps}x1x{}xf64>", 4 * units);
            lowered.as_text("cpu").unwrap().contains(&stack)
        };
        assert!(has_stack(20, 32));
        // 16 × 64 multiplications in a step.
        assert!(!has_stack(20, 16));
        // 16 MiB of stacked factors, and more.
        assert!(has_stack(13_000, 32));
        assert!(!has_stack(17_000, 32));
        let has_product = |units: usize| {
            let inputs = vec![wave([units, units], 0.2), wave([units], 1.0)];
            let factors = format!("(tensor<9x{units}xf64>, tensor<9x{units}xf64>)");
            let text = text(|x| grad(mlp_loss)(&x), &inputs);
            text.lines().any(|line| line.contains("dot_general") && line.contains(&factors))
        };
        assert!(has_product(64));
        assert!(!has_product(32));
    }

    #[test]
    fn hoisted_products_compose_with_transforms() {
        let inputs = lstm_inputs(32, 5);
        check(|x| grad(|x: &Arrays| lstm_loss(x, true))(&x), &inputs);
        // Gradients for several inputs at once.
        check(
            |x| {
                let of = |row: Array| {
                    let x = vec![x[0].clone(), x[1].clone(), x[2].clone(), row];
                    grad(|x: &Arrays| lstm_loss(x, false))(&x)
                };
                vmap(of).apply(stack(&[x[3].clone(), &x[3] * 2.0], 0))
            },
            &lstm_inputs(16, 5),
        );
        // Second derivatives in a direction.
        check(
            |x| {
                let along = |x: &Arrays| lstm_gradients(x.clone())[1].sum();
                grad(along)(&x)
            },
            &inputs,
        );
        check(|x| grad(mlp_loss)(&x), &vec![wave([64, 64], 0.2), wave([64], 1.0)]);
        check(|x| grad(mlp_loss)(&x), &vec![wave([64, 64], 0.2), wave([1, 64], 1.0)]);
    }

    #[test]
    fn other_terms_of_a_sum_stay_in_the_loop() {
        // A weight that is also added to the state elementwise.
        let loss = |x: &Arrays| {
            let step = |h: Array, input: Array| {
                (tanh(&(h.matmul(&x[0]) + x[0].index(i![3]) * &input)), ())
            };
            scan(step, x[1].clone(), x[2].clone()).0.sum()
        };
        let inputs = [wave([48, 48], 0.2), wave([48], 1.0), wave([7, 48], 1.0)];
        let inputs: Arrays = inputs.iter().map(|x| x.astype(DType::F32)).collect();
        check(move |x| grad(loss)(&x), &inputs);
    }

    #[test]
    fn parts_that_cover_an_axis_are_joined() {
        let counts = |f: fn(&Arrays) -> Array| {
            let text = text(move |x| grad(f)(&x), &vec![wave([24], 0.3)]);
            (text.matches("stablehlo.pad").count(), text.matches("stablehlo.concatenate").count())
        };
        let whole = |x: &Arrays| {
            let step = |c: &Array, ()| {
                let [a, b] = [c.index(i![..10]), c.index(i![10..])];
                (concatenate(&[sin(&b), cos(&a)], 0) * &x[0], ())
            };
            scan(step, x[0].clone(), 4).0.sum()
        };
        let gap = |x: &Arrays| {
            let step = |c: &Array, ()| {
                let [a, b] = [c.index(i![..10]), c.index(i![11..])];
                (concatenate(&[sin(&b), cos(&a), a.index(i![..1])], 0) * &x[0], ())
            };
            scan(step, x[0].clone(), 4).0.sum()
        };
        let (pads, joined) = counts(whole);
        assert!(pads == 0 && joined > 1, "{pads} {joined}");
        let (pads, _) = counts(gap);
        assert!(pads > 0);
        check(move |x| grad(whole)(&x), &vec![wave([24], 0.3)]);
    }

    #[test]
    fn functions_of_short_arrays_keep_their_values() {
        let f = |size: usize| {
            let edges = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, 1e-30, 30.0, -30.0];
            let x: Vec<f32> = (0..size)
                .map(|at| edges.get(at).copied().unwrap_or((at as f32 - 20.0) * 0.4))
                .collect();
            Array::from_slice(&x, [size]).unwrap()
        };
        let functions: [fn(&Array) -> Array; 3] = [|x| tanh(x), |x| logistic(x), |x| erf(x)];
        for function in functions {
            let program =
                move |x: Array| scan(|c: &Array, ()| (c.clone(), function(c)), x, 2).1.index(i![1]);
            let program = jit(program);
            let is_limited = |size: usize| {
                program.lower(f(size)).unwrap().as_text("cpu").unwrap().contains("stablehlo.clamp")
            };
            assert!(is_limited(32) && is_limited(51) && !is_limited(31) && !is_limited(52));
            let numbers = |x: Array| x.to_vec::<f32>().unwrap();
            let limited = numbers(program.call(f(40)).unwrap());
            let plain = numbers(disable_rewrites(|| program.call(f(40))).unwrap());
            for (x, y) in limited.iter().zip(&plain) {
                let is_equal = x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
                assert!(is_equal || (x - y).abs() <= 2e-7 * y.abs(), "{x} is not {y}");
            }
        }
    }
}
