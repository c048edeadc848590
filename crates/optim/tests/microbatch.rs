//! Microbatches: the order of examples, derivatives, and errors.

#![allow(clippy::unwrap_used, reason = "a failed computation fails the test")]

mod on_cpu {
    use oxidax::prelude::*;
    use oxidax_optim::{AccumulationType, MicrobatchOptions, micro_grad, micro_vmap, microbatch};

    fn floats(x: &Array) -> Vec<f32> {
        x.astype(DType::F32).to_vec::<f32>().unwrap()
    }

    fn with(accumulation: AccumulationType, size: usize) -> MicrobatchOptions {
        MicrobatchOptions { accumulation, ..MicrobatchOptions::of_size(size) }
    }

    /// Of three microbatches, the first has the examples 0 and 3.
    #[test]
    fn microbatches_take_every_nth_example() {
        let x = array![1f32, 2.0, 4.0, 8.0, 16.0, 32.0];
        let sums = |x: &Array| x.sum();
        let each = microbatch(sums, with(AccumulationType::Concat, 2));
        assert_eq!(floats(&each(&x)), [9.0, 18.0, 36.0]);
        let mean = microbatch(sums, with(AccumulationType::Mean, 2));
        assert_eq!(floats(&mean(&x)), [21.0]);
        let columns = MicrobatchOptions { in_axis: 1, ..with(AccumulationType::Sum, 2) };
        let rows = microbatch(|x: &Array| x.clone(), columns)(&x.reshape([1, 6]));
        assert_eq!(floats(&rows), [7.0, 56.0]);
        let back = microbatch(|x: &Array| x * 2.0, with(AccumulationType::Concat, 3));
        let matrix = stack(&[x.clone(), -&x], -1);
        assert_eq!(floats(&back(&matrix)), floats(&(&matrix * 2.0)));
    }

    /// The results of Optax for the first two of three microbatches.
    #[test]
    fn microbatching_stops_early() {
        let x = array![1f32, 2.0, 4.0, 8.0, 16.0, 32.0];
        let run = |accumulation, n: i32| {
            let num_real_microbatches = Some(scalar(n).astype(DType::I32));
            let options = MicrobatchOptions { num_real_microbatches, ..with(accumulation, 2) };
            floats(&microbatch(|x: &Array| x.sum(), options)(&x))
        };
        assert_eq!(run(AccumulationType::Sum, 2), [27.0]);
        assert_eq!(run(AccumulationType::Mean, 2), [9.0]);
        assert_eq!(run(AccumulationType::RunningMean, 2), [13.5]);
        assert_eq!(run(AccumulationType::Concat, 2), [9.0, 18.0, 0.0]);
    }

    #[test]
    fn derivatives_are_those_of_the_whole_batch() {
        let x = array![[1f32, 2.0], [0.5, -1.0], [3.0, 0.25], [-2.0, 1.5]];
        let w = array![0.3f32, -0.7];
        let loss = |w: &Array, x: &Array| tanh(x.matmul(w)).square().sum();
        let whole = grad(|w: &Array| loss(w, &x))(&w);
        let parts = jit(|w: Array, x: Array| {
            grad(|w: &Array| microbatch(|x: &Array| loss(w, x), MicrobatchOptions::of_size(2))(&x))(
                &w,
            )
        });
        let found = parts.call(&w, &x).unwrap();
        let by_example = micro_grad(loss, |g: Array| g, MicrobatchOptions::of_size(1));
        let (summed, values) = by_example(&w, &x);
        for (found, whole) in floats(&found).iter().zip(floats(&summed)).zip(floats(&whole)) {
            let ((a, b), c) = (found, whole);
            assert!((a - c).abs() < 1e-6 && (b - c).abs() < 1e-6, "{a} {b} {c}");
        }
        let each = vmap(|x: Array| loss(&w, &expand_dims(&x, &[0]))).apply(&x);
        assert_eq!(floats(&values), floats(&each));
    }

    #[test]
    fn micro_vmap_is_vmap() {
        let x = array![1f32, 2.0, 4.0, 8.0];
        let f = |x: &Array| (x * x, sin(x));
        let options = MicrobatchOptions {
            accumulations: vec![("[1]".into(), AccumulationType::Mean)],
            ..with(AccumulationType::Concat, 2)
        };
        let (squares, mean) = micro_vmap(f, options)(&x);
        assert_eq!(floats(&squares), [1.0, 4.0, 16.0, 64.0]);
        let expected = floats(&sin(&x).mean())[0];
        assert!((floats(&mean)[0] - expected).abs() < 1e-6);
        let halves = x.astype(DType::BF16);
        let running = micro_vmap(|x: &Array| x.clone(), with(AccumulationType::RunningMean, 2));
        let mean = running(&halves);
        assert_eq!((mean.dtype(), floats(&mean)), (DType::BF16, vec![3.75]));
    }

    #[test]
    fn wrong_batches_are_refused() {
        let message = |f: &dyn Fn() -> Array| oxidax::catch(f).unwrap_err().to_string();
        let run = |x: &Array, size: usize| {
            microbatch(|x: &Array| x.sum(), MicrobatchOptions::of_size(size))(x)
        };
        let text = message(&|| run(&ones([6]), 4));
        assert!(text.contains("6 examples are not divisible into microbatches of 4"), "{text}");
        let text = message(&|| run(&ones([6]), 0));
        assert!(text.contains("microbatches of 0"), "{text}");
        let text = message(&|| run(&ones([]), 1));
        assert!(text.contains("the batch axis 0"), "{text}");
        let pair = |(a, b): &(Array, Array)| a.sum() + b.sum();
        let pair = microbatch(pair, MicrobatchOptions::of_size(1));
        let text = message(&|| pair(&(ones([4]), ones([3]))));
        assert!(text.contains("f32[4] and f32[3]"), "{text}");
        let integers = microbatch(|x: &Array| x.sum(), with(AccumulationType::Mean, 1));
        let text = message(&|| integers(&array![1, 2]));
        assert!(text.contains("needs floats"), "{text}");
    }
}
