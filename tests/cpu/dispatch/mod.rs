//! Calls: donation, threads, static values, and functions compiled ahead of time.

mod ahead;
mod config_scopes;
mod formats;
mod listener;
mod outlining;
mod recompiled;

use oxidax::jit::disable_most_optimizations;
use oxidax::prelude::*;
use std::sync::Arc;

mod on_cpu {
    use super::*;

    fn f32s(elements: &[f32]) -> Array {
        Array::from_slice(elements, [elements.len()]).unwrap()
    }

    #[test]
    fn moved_arguments_are_donated_and_borrowed_ones_are_kept() {
        let double = jit(|x: Array| &x + &x);
        let x = f32s(&[1.0, 2.0]);
        assert_eq!(double.call(&x).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
        assert_eq!(double.call(&x).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
        // Passed by value but not donated, because another owner holds it.
        let held = x.clone();
        assert_eq!(double.call(x).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
        assert_eq!(held.to_vec::<f32>().unwrap(), [1.0, 2.0]);
        assert_eq!(double.stats().not_donated, 1);
        assert_eq!(double.call(held).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
        assert_eq!(double.stats().not_donated, 1);
        assert_eq!(double.stats().compiles, 1, "one executable serves both");
    }

    #[test]
    fn optimized_programs_and_others_are_cached_separately() {
        let f = jit(|x: Array| sin(&x).sum() + (&x * 2.0).sum());
        let x = f32s(&[0.5, 1.5, -2.0]);
        let fast = || f.call(&x).unwrap().item::<f32>().unwrap();
        let few = || disable_most_optimizations(fast);
        let expected = fast();
        assert!((few() - expected).abs() < 1e-6, "{} and {expected}", few());
        fast();
        assert_eq!(f.stats().compiles, 2);
    }

    #[test]
    fn array_passed_twice_is_kept() {
        let sum = jit(|x: Array, y: Array| &x + &y);
        let x = f32s(&[1.0, 2.0]);
        let y = x.clone();
        assert_eq!(sum.call(x, y).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
        assert_eq!(sum.stats().not_donated, 2);
    }

    #[test]
    fn first_leaf_not_donated_is_logged_once_per_compile() {
        let scale = jit(|xs: Vec<Array>, y: Array| vec![&xs[0] * &y, &xs[1] * &y]).name("scale");
        let y = f32s(&[2.0]);
        let events = listener::listen(|| {
            let xs = vec![f32s(&[1.0]), f32s(&[3.0])];
            let held = xs[1].clone();
            let xs = scale.call(xs, &y).unwrap();
            let held = (held, xs.clone());
            let xs = scale.call(xs, &y).unwrap();
            drop(held);
            scale.call(xs, y.clone()).unwrap();
        });
        assert_eq!(scale.stats().not_donated, 4);
        let [line] = events.as_slice() else { panic!("one event, got {events:?}") };
        assert!(line.contains("not donated"), "{line}");
        assert!(line.contains("function=\"scale\""), "{line}");
        assert!(line.contains("leaf=\"$[0][1]\""), "{line}");
        // A different signature compiles another program.
        let events = listener::listen(|| {
            let xs = vec![f32s(&[1.0, 2.0]), f32s(&[3.0, 4.0])];
            let _held = xs.clone();
            scale.call(xs, &y).unwrap();
        });
        let [again, line] = events.as_slice() else { panic!("two events, got {events:?}") };
        assert!(again.contains("compiled again"), "{again}");
        assert!(line.contains("leaf=\"$[0][0]\""), "{line}");
    }

    #[test]
    fn alternating_signatures_compile_once_each() {
        let double = jit(|x: Array| &x + &x);
        for round in 0..6 {
            let elements = vec![round as f32; 1 + round % 2];
            let y = double.call(f32s(&elements)).unwrap();
            assert_eq!(y.to_vec::<f32>().unwrap(), vec![2.0 * round as f32; 1 + round % 2]);
        }
        assert_eq!((double.stats().compiles, double.stats().signatures), (2, 2));
    }

    #[test]
    fn full_cache_drops_the_least_recently_used_signature() {
        let sum = jit(|x: Array| x.sum()).cache_size(2);
        for n in [1, 2, 1, 3, 1, 2] {
            assert_eq!(sum.call(f32s(&vec![1.0; n])).unwrap().item::<f32>().unwrap(), n as f32);
        }
        let stats = sum.stats();
        assert_eq!((stats.hits, stats.misses, stats.compiles, stats.loaded), (2, 4, 4, 0));
        assert_eq!((stats.signatures, stats.limit, stats.evictions), (2, 2, 2));
        disable_jit(|| sum.call(f32s(&[1.0]))).unwrap();
        let stats = sum.stats();
        assert_eq!(
            (stats.calls, stats.hits, stats.misses),
            (7, 2, 4),
            "`disable_jit` looks up no signature"
        );
        assert_eq!(jit(|x: Array| x).cache_size(0).stats().limit, 1);
        assert_eq!(jit(|x: Array| x).stats().limit, 256);
    }

    #[test]
    fn static_values_are_part_of_the_signature() {
        let power = jit(|x: Array, n: u32| (1..n).fold(x.clone(), |y, _| &y * &x));
        let x = f32s(&[2.0]);
        assert_eq!(power.call(&x, 3).unwrap().to_vec::<f32>().unwrap(), [8.0]);
        assert_eq!(power.call(&x, 5).unwrap().to_vec::<f32>().unwrap(), [32.0]);
        assert_eq!(power.call(&x, 3).unwrap().to_vec::<f32>().unwrap(), [8.0]);
        assert_eq!(power.stats().traces, 2);
    }

    #[test]
    fn captured_arrays_are_constants() {
        let w = f32s(&[10.0, 20.0]);
        let scale = jit(move |x: Array| &x * &w);
        assert_eq!(scale.call(f32s(&[1.0, 2.0])).unwrap().to_vec::<f32>().unwrap(), [10.0, 40.0]);
        assert_eq!(scale.call(f32s(&[2.0, 2.0])).unwrap().to_vec::<f32>().unwrap(), [20.0, 40.0]);
        assert_eq!(scale.stats().traces, 1);
    }

    #[test]
    fn thirty_two_threads_share_one_compile_per_signature() {
        let f = Arc::new(jit(|x: Array| sin(&x) * &x));
        let start = std::sync::Barrier::new(32);
        std::thread::scope(|scope| {
            for thread in 0..32usize {
                let (f, start) = (f.clone(), &start);
                scope.spawn(move || {
                    let own = jit(|x: Array| &x * 3.0);
                    start.wait();
                    for round in 0..20 {
                        let n = 1 + (thread + round) % 4;
                        let value = thread as f32 * 0.1;
                        let x = f32s(&vec![value; n]);
                        let y = f.call(&x).unwrap().to_vec::<f32>().unwrap();
                        assert_eq!(y.len(), n);
                        assert!((y[0] - value.sin() * value).abs() < 1e-5);
                        assert_eq!(own.call(x).unwrap().to_vec::<f32>().unwrap()[0], value * 3.0);
                    }
                });
            }
        });
        let stats = f.stats();
        assert_eq!((stats.calls, stats.compiles, stats.traces), (640, 4, 4));
    }
}

#[test]
fn arrays_functions_and_errors_cross_threads() {
    fn send_sync<T: Send + Sync + 'static>() {}
    send_sync::<Array>();
    send_sync::<Error>();
    send_sync::<oxidax::core::Program>();
    send_sync::<oxidax::core::Tangent>();
    send_sync::<Jit<'_, (Array, Array), Array>>();
    send_sync::<CallError<(Option<Array>,)>>();
    send_sync::<Lowered<(Array, Array), Array>>();
    send_sync::<Compiled<(Array, Array), Array>>();
}

mod waiting_on_cpu {
    use super::*;

    #[test]
    fn trees_are_waited_for_and_copied() {
        let f = jit(|x: Array| (sin(&x), vec![cos(&x), x.sum()]));
        let tree = f.call(ones([1 << 16])).unwrap();
        copy_to_host_async(&tree).unwrap();
        block_until_ready(&tree).unwrap();
        assert!(tree.0.is_ready().unwrap() && tree.1[1].is_ready().unwrap());
        assert_eq!(tree.1[1].item::<f32>().unwrap(), 65536.0);
    }

    #[test]
    fn results_that_are_ready_do_not_stall() {
        // A small program has run when its call returns. `runtime::stalls` tests the others.
        let lines = listener::listen(|| {
            let step = jit(|x: Array| x.sum());
            let x = ones([4]);
            for _ in 0..30 {
                assert_eq!(step.call(&x).unwrap().item::<f32>().unwrap(), 4.0);
            }
        });
        assert!(!lines.iter().any(|line| line.contains("the device is")), "{lines:?}");
    }
}
