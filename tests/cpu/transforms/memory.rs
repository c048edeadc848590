//! `remat`: peak temporary memory of the compiled gradient.

use oxidax::prelude::*;

const BATCH: usize = 512;
const WIDTH: usize = 64;
const HIDDEN: usize = 256;
const LAYERS: usize = 8;

/// A residual block, whose wide hidden layer takes most of the memory.
fn block(x: &Array, w: &(Array, Array)) -> Array {
    let hidden = checkpoint_name(x.matmul(&w.0), "hidden");
    x + gelu(&hidden).matmul(&w.1)
}

/// The blocks in sequence, each with the policy applied; as a loop or unrolled.
fn loss(policy: Option<&Policy>, looped: bool, weights: &(Array, Array), x: &Array) -> Array {
    let step = |x: &Array, w: &(Array, Array)| match policy {
        Some(policy) => {
            let options = RematOptions { policy: policy.clone(), ..RematOptions::default() };
            let layer = |(x, w): &(Array, (Array, Array))| block(x, w);
            remat_with(layer, options)(&(x.clone(), w.clone()))
        }
        None => block(x, w),
    };
    if looped {
        let (last, ()) = scan(|x: Array, w: (Array, Array)| (step(&x, &w), ()), x, weights);
        return (&last * &last).mean();
    }
    let mut x = x.clone();
    for layer in 0..LAYERS {
        let layer = layer as isize;
        x = step(&x, &(weights.0.index(i![layer]), weights.1.index(i![layer])));
    }
    (&x * &x).mean()
}

mod on_cpu {
    use super::*;

    /// Returns the peak temporary memory of the gradient's program in KiB.
    fn temporaries(policy: Option<Policy>, looped: bool) -> u64 {
        let step = jit(move |wide: Array, narrow: Array, x: Array| {
            let weights = (wide, narrow);
            grad(|weights: &(Array, Array)| loss(policy.as_ref(), looped, weights, &x))(&weights)
        });
        let wide = Aval::new(DType::F32, [LAYERS, WIDTH, HIDDEN]);
        let narrow = Aval::new(DType::F32, [LAYERS, HIDDEN, WIDTH]);
        let lowered = step.lower(wide, narrow, Aval::new(DType::F32, [BATCH, WIDTH])).unwrap();
        lowered.compile().unwrap().report().memory_analysis().unwrap().temporaries / 1024
    }

    #[test]
    fn remat_policies_reduce_temporary_memory() {
        // Memory of the hidden products of all blocks.
        let hidden = (BATCH * HIDDEN * LAYERS * size_of::<f32>()) as u64 / 1024;
        for looped in [false, true] {
            let of = |policy| temporaries(policy, looped);
            let plain = of(None);
            let everything = of(Some(Policy::Everything));
            let dots = of(Some(Policy::Dots));
            let names = of(Some(Policy::names(["hidden"])));
            let nothing = of(Some(Policy::Nothing));
            println!(
                "{}: {plain} KiB without, {everything} everything, {dots} dots, {names} names, \
                 {nothing} nothing",
                if looped { "scan" } else { "unrolled" },
            );
            assert_eq!(dots, names, "the named values are the products");
            assert!(plain <= everything, "{plain} and {everything}");
            assert!(2 * dots < plain + hidden / 2, "{dots} and {plain}");
            // The policies differ in these products.
            let more = dots - nothing;
            assert!((hidden * 3 / 4..=hidden * 5 / 4).contains(&more), "{more} and {hidden}");
        }
    }
}
