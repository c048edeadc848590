//! Times by source line, of programs with products, loops, branches, callbacks and layers.

use oxidax::debug;
use oxidax::prelude::*;
use oxidax::profile::{LineProfile, LineTime};

fn f32s(shape: &[usize]) -> Array {
    full(shape, 0.5_f32)
}

/// Returns the time of the line that ends with this comment.
fn line<'p>(lines: &'p [LineTime], comment: &str) -> Option<&'p LineTime> {
    let ends = |text: &str| text.ends_with(&format!("// {comment}"));
    let number = include_str!("lines.rs").lines().position(ends).unwrap() as u32 + 1;
    lines.iter().find(|found| {
        found.line.as_ref().is_some_and(|at| at.file.ends_with("lines.rs") && at.line == number)
    })
}

fn assert_attributed(profile: &LineProfile) {
    assert!(profile.attributed() >= 0.95, "{profile}");
    let total: f64 = profile.lines().iter().map(|line| line.share).sum();
    assert!((total - 1.0).abs() < 1e-3, "{profile}");
}

mod on_cpu {
    use super::*;

    #[test]
    fn products_and_their_derivatives_have_their_lines() {
        let loss = |w: &Array, x: &Array| {
            let h = tanh(x.matmul(w)); // product
            (&h * &h).mean() // square
        };
        let (w, x) = (f32s(&[512, 256]), f32s(&[384, 512]));
        let step = jit(move |w: Array, x: Array| grad(|w: &Array| loss(w, &x))(&w));
        let profile = step.lower(&w, &x).unwrap().compile().unwrap().line_profile(&w, &x).unwrap();
        assert_attributed(&profile);
        let lines = profile.lines();
        let product = line(&lines, "product").unwrap();
        // The product, and its derivative for the weights, in which XLA exchanges the operands.
        let products = 2.0 * 2.0 * (512 * 256 * 384) as f64;
        assert!(product.flops >= products && product.flops < 1.01 * products, "{profile}");
        assert!(product.share > 0.0 && product.flops_per_second() > 0.0, "{profile}");
        assert!(line(&lines, "square").is_some(), "{profile}");
    }

    #[test]
    fn operations_of_loops_count_once_for_each_step() {
        let f = jit(|x: Array| {
            let x = sort(&x, 1); // before
            fori_loop(0, 7, |_, x: Array| x.matmul(&x) / 128.0, x) // loop
        });
        let x = f32s(&[256, 256]);
        let profile = f.lower(&x).unwrap().compile().unwrap().line_profile(&x).unwrap();
        assert_attributed(&profile);
        let lines = profile.lines();
        let looped = line(&lines, "loop").unwrap();
        assert!(looped.flops >= 7.0 * 2.0 * 256f64.powi(3), "{profile}");
        assert!(line(&lines, "before").is_some(), "{profile}");
    }

    #[test]
    fn kernels_of_loops_divide_their_time_among_lines() {
        let f = jit(|x: Array| {
            let step = |_: Array, x: Array| {
                let x = sin(&x); // sine
                x * 0.5 + 1.0 // line
            };
            fori_loop(0, 1000, step, x)
        });
        let x = f32s(&[8]);
        let profile = f.lower(&x).unwrap().compile().unwrap().line_profile(&x).unwrap();
        assert_attributed(&profile);
        let lines = profile.lines();
        let (sine, linear) = (line(&lines, "sine").unwrap(), line(&lines, "line").unwrap());
        assert!(sine.share > linear.share && linear.share > 0.0, "{profile}");
    }

    #[test]
    fn operations_that_cannot_be_measured_say_why() {
        let f = jit(|x: Array| {
            let big = x.matmul(&x); // measured
            debug::callback(|_| (), [big.sum()]);
            let stop = |x: &Array| x.sum().less(1e30);
            let doubled = |x: Array| x * 2.0; // repeated
            while_loop(stop, doubled, big)
        });
        let x = f32s(&[64, 64]);
        let profile = f.lower(&x).unwrap().compile().unwrap().line_profile(&x).unwrap();
        assert_attributed(&profile);
        let text = profile.to_string();
        assert!(text.contains("it calls the host"), "{text}");
        let lines = profile.lines();
        assert!(line(&lines, "repeated").is_some() && line(&lines, "measured").is_some(), "{text}");
    }

    #[test]
    fn repeated_layers_and_scopes_are_measured_once_each() {
        let layer = |x: &Array, w: &Array| {
            let h = tanh(x.matmul(w)); // layer
            &h / &(h.sum() + 1.0)
        };
        let f = jit(move |ws: Vec<Array>, x: Array| ws.iter().fold(x, |x, w| layer(&x, w)));
        let (ws, x) = ((0..6).map(|_| f32s(&[128, 128])).collect::<Vec<_>>(), f32s(&[64, 128]));
        let compiled = f.lower(&ws, &x).unwrap().compile().unwrap();
        let profile = compiled.line_profile(&ws, &x).unwrap();
        assert_attributed(&profile);
        let flops = line(&profile.lines(), "layer").unwrap().flops;
        assert!(flops >= 6.0 * 2.0 * (64 * 128 * 128) as f64, "{profile}");
        // The arguments were not donated.
        assert_eq!(ws[0].to_vec::<f32>().unwrap()[0], 0.5);
    }

    #[test]
    fn programs_without_operations_have_no_lines() {
        let x = f32s(&[4]);
        let same = jit(|x: Array| x).lower(&x).unwrap().compile().unwrap();
        let profile = same.line_profile(&x).unwrap();
        assert!(profile.to_string().contains("ms"), "{profile}");
    }
}
