//! Printing, callbacks, checks and NaN checks in compiled programs.

mod nan;

use expect_test::expect;
use oxidax::core::HostArray;
use oxidax::prelude::*;
use std::sync::{Arc, Mutex};

fn f32s(elements: &[f32]) -> Array {
    Array::from_slice(elements, [elements.len()]).unwrap()
}

/// A log written by callbacks.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// Records `tag` and the elements of `x` when the program reaches this point.
    #[track_caller]
    fn note(&self, tag: &'static str, x: &Array) {
        let log = self.0.clone();
        debug::callback(move |x| log.lock().unwrap().push(format!("{tag} {}", x[0])), [x]);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

/// Doubles on the host.
fn doubled(x: &Array) -> Array {
    let on_host = |x: &[HostArray]| {
        let twice: Vec<f32> = x[0].to_vec::<f32>()?.iter().map(|x| 2.0 * x).collect();
        Ok(vec![HostArray::from_slice(&twice, x[0].shape())?])
    };
    debug::pure_callback(on_host, &[x.aval().clone()], [x]).swap_remove(0)
}

#[test]
fn wrong_formats_are_refused_while_tracing() {
    let f = |x: Array| debug::print("{} {}", [&x]);
    let text = eval_shape(f, Aval::new(DType::F32, [2])).unwrap_err().to_string();
    assert!(
        text.starts_with("error[value]: print: `{} {}` refers to array 1, got 1 arrays"),
        "{text}"
    );
    assert!(text.contains("debugging/mod.rs"), "{text}");
    let f = |x: Array| debug::check(&x, "no", ());
    let text = eval_shape(f, Aval::new(DType::F32, [2])).unwrap_err().to_string();
    assert!(text.starts_with("error[dtype]: check: needs a bool condition, got f32[2]"), "{text}");
}

#[test]
fn programs_with_callbacks_cannot_be_parsed() {
    let program = make_program(|x: Array| doubled(&x), Aval::new(DType::F32, [2])).unwrap();
    let text = parse_program(&program.to_string()).unwrap_err().to_string();
    assert!(text.contains("holds a closure"), "{text}");
}

#[test]
fn callbacks_have_no_derivative() {
    let f = |x: Array| grad(|x: &Array| doubled(x).sum())(&x);
    let text = eval_shape(f, Aval::new(DType::F32, [2])).unwrap_err().to_string();
    assert!(text.contains("pure_callback has no derivative"), "{text}");
    assert!(text.contains("custom_jvp"), "{text}");
}

#[test]
fn tpu_programs_transfer_to_the_host_and_back() {
    let log = Log::default();
    let f = jit(move |x: Array| {
        log.note("x", &x);
        doubled(&x)
    });
    let text = f.lower(Aval::new(DType::F32, [2])).unwrap().as_text("tpu").unwrap();
    assert_eq!(text.matches("stablehlo.send").count(), 2);
    assert_eq!(text.matches("stablehlo.recv").count(), 1);
    let lowered = jit(|x: Array| doubled(&x)).lower(Aval::new(DType::F32, [2])).unwrap();
    let refused = lowered.as_text("rocm").unwrap_err().to_string();
    assert!(refused.contains("does not reach the host from rocm yet"), "{refused}");
}

#[test]
fn gpu_programs_call_the_host_like_cpu_programs() {
    let log = Log::default();
    let f = jit(move |x: Array| {
        log.note("x", &x);
        doubled(&x)
    });
    let lowered = f.lower(Aval::new(DType::F32, [2])).unwrap();
    let text = lowered.as_text("cuda").unwrap();
    assert_eq!(text.matches("oxidax.callback").count(), 2);
    assert_eq!(text, lowered.as_text("cpu").unwrap());
}

mod on_cpu {
    use super::*;

    #[test]
    fn callbacks_run_in_program_order() {
        let log = Log::default();
        let f = {
            let log = log.clone();
            jit(move |x: Array| {
                // Without ordering these could run in any order.
                for _ in 0..8 {
                    log.note("a", &x.sum());
                    log.note("b", &x);
                }
                &x + 1.0
            })
        };
        let expected = ["a 3.", "b [1. 2.]"].repeat(8);
        for _ in 0..3 {
            assert_eq!(f.call(f32s(&[1.0, 2.0])).unwrap().to_vec::<f32>().unwrap(), [2.0, 3.0]);
            assert_eq!(log.take(), expected);
        }
        assert_eq!(f.stats().compiles, 1);
    }

    #[test]
    fn callbacks_under_transforms() {
        let log = Log::default();
        let f = {
            let log = log.clone();
            move |x: &Array| {
                log.note("forward", x);
                sin(x).sum()
            }
        };
        let x = f32s(&[0.0, 0.5]);
        let g = f.clone();
        jit(move |x: Array| grad(g.clone())(&x)).call(&x).unwrap();
        assert_eq!(log.take(), ["forward [0.  0.5]"]);
        // The results are equal without `jit`. Equal programs are compiled once.
        grad(f.clone())(&x);
        assert_eq!(log.take(), ["forward [0.  0.5]"]);
        // Once per example, with its own elements.
        vmap(|x: Array| f(&x)).apply(f32s(&[1.0, 2.0, 3.0, 4.0]).reshape([2, 2]));
        assert_eq!(log.take(), ["forward [1. 2.]", "forward [3. 4.]"]);
        // Inside a call, which is inlined.
        let inner = jit(move |x: Array| f(&x));
        let outer = jit(move |x: Array| inner.apply(&x) + inner.apply(&(&x * 2.0)));
        outer.call(f32s(&[1.0])).unwrap();
        assert_eq!(log.take(), ["forward [1.]", "forward [2.]"]);
        // Recomputation does not call again.
        let noted = log.clone();
        let block = remat(move |x: &Array| {
            noted.note("once", x);
            sin(sin(x))
        });
        grad(|x: &Array| block(x).sum())(&f32s(&[1.0]));
        assert_eq!(log.take(), ["once [1.]"]);
    }

    #[test]
    fn pure_callbacks_compute() {
        let x = f32s(&[1.0, 2.5]);
        assert_eq!(doubled(&x).to_vec::<f32>().unwrap(), [2.0, 5.0]);
        let compiled = jit(|x: Array| doubled(&doubled(&x)) + 1.0);
        assert_eq!(compiled.call(&x).unwrap().to_vec::<f32>().unwrap(), [5.0, 11.0]);
        let rows = vmap(|x: Array| doubled(&x)).apply(x.reshape([2, 1]));
        assert_eq!(rows.to_vec::<f32>().unwrap(), [2.0, 5.0]);
        // With a custom derivative it works under `grad`.
        let smooth =
            |x: &Array| custom_jvp(doubled, |x: &Array, dx: &Array| (doubled(x), dx * 2.0))(x);
        let gradient = grad(|x: &Array| (smooth(x) * smooth(x)).sum())(&x);
        assert_eq!(gradient.to_vec::<f32>().unwrap(), [8.0, 20.0]);
    }

    #[test]
    fn closures_live_as_long_as_their_program() {
        let counted = Arc::new(());
        let f = {
            let counted = counted.clone();
            jit(move |x: Array| {
                let counted = counted.clone();
                debug::callback(move |_| drop(counted.clone()), [&x]);
                x
            })
        };
        f.call(f32s(&[1.0])).unwrap();
        assert_eq!(Arc::strong_count(&counted), 3);
        drop(f);
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    #[test]
    fn errors_of_closures_fail_the_call() {
        let x = f32s(&[1.0]);
        let fails = jit(|x: Array| {
            debug::pure_callback(|_| Err("no luck".into()), &[x.aval().clone()], [&x])
                .swap_remove(0)
        });
        let read = || -> Result<Vec<f32>, Error> { fails.call(&x)?.to_vec::<f32>() };
        let text = read().unwrap_err().to_string();
        let first = text.lines().next().unwrap();
        expect!["error[runtime]: pure_callback: the closure failed: no luck"].assert_eq(first);
        assert!(text.contains("debugging/mod.rs"), "{text}");

        let panics = jit(|x: Array| {
            debug::callback(|_| panic!("mine"), [&x]);
            x
        });
        let text = panics.call(&x).unwrap_err().to_string();
        let first = text.lines().next().unwrap();
        expect!["error[runtime]: callback: panicked: mine"].assert_eq(first);
        assert!(text.contains("debugging/mod.rs"), "{text}");

        let other = jit(|x: Array| {
            let wrong = |x: &[HostArray]| Ok(vec![HostArray::from_slice(&[1i32], x[0].shape())?]);
            debug::pure_callback(wrong, &[x.aval().clone()], [&x]).swap_remove(0)
        });
        let read = || -> Result<Vec<f32>, Error> { other.call(&x)?.to_vec::<f32>() };
        let text = read().unwrap_err().to_string();
        let first = text.lines().next().unwrap();
        expect!["error[runtime]: callback: result 0 must be f32[1], got i32[1]"].assert_eq(first);

        // The next calls work.
        assert_eq!(doubled(&x).to_vec::<f32>().unwrap(), [2.0]);
        assert_eq!(jit(|x: Array| doubled(&x)).call(&x).unwrap().to_vec::<f32>().unwrap(), [2.0]);
    }

    #[test]
    fn array_operations_are_refused_inside_callbacks() {
        // A large program runs on the plugin's thread pool, a small one on the caller's thread.
        let mut on_caller = Vec::new();
        for size in [1usize, 1 << 20] {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let concrete = f32s(&[1.0]);
            let f = {
                let seen = seen.clone();
                jit(move |x: Array| {
                    let (seen, concrete) = (seen.clone(), concrete.clone());
                    debug::callback(
                        move |_| {
                            let operation = oxidax::catch(|| &concrete + 1.0).map(drop);
                            let reading = concrete.to_vec::<f32>().map(drop);
                            let copying = Array::from_slice(&[1.0f32], [1]).map(drop);
                            let thread = std::thread::current().id();
                            for outcome in [operation, reading, copying] {
                                seen.lock().unwrap().push((outcome.unwrap_err(), thread));
                            }
                        },
                        [&sin(cos(&x)).sum()],
                    );
                    x
                })
            };
            f.call(zeros([size])).unwrap();
            let seen = seen.lock().unwrap();
            assert_eq!(seen.len(), 3);
            for (error, _) in seen.iter() {
                let text = error.to_string();
                assert!(text.contains("a host callback may not run array operations"), "{text}");
            }
            on_caller.push(seen[0].1 == std::thread::current().id());
        }
        assert_eq!(on_caller, [true, false]);
    }

    #[test]
    fn checks_surface_as_errors() {
        let root = jit(|x: Array| {
            debug::check(ge(&x, 0.0), "no root of {:.1}", [&x]);
            sqrt(&x)
        });
        assert_eq!(root.call(f32s(&[4.0])).unwrap().to_vec::<f32>().unwrap(), [2.0]);
        let text = root.call(f32s(&[4.0, -1.0])).unwrap_err().to_string();
        let first = text.lines().next().unwrap();
        expect!["error[value]: check: no root of [ 4.0 -1.0]"].assert_eq(first);
        assert!(text.contains("debugging/mod.rs"), "{text}");
        assert_eq!(root.call(f32s(&[9.0])).unwrap().to_vec::<f32>().unwrap(), [3.0]);
        // Eager checks throw, also under `grad` and `vmap`.
        let eager = oxidax::catch(|| debug::check(full([], false), "never", ())).unwrap_err();
        assert!(eager.to_string().starts_with("error[value]: check: never"), "{eager}");
        let positive = |x: &Array| {
            debug::check(gt(x, 0.0), "{} is not positive", [x]);
            log(x)
        };
        let failed = oxidax::catch(|| grad(positive)(&full([], -1.0f32))).unwrap_err().to_string();
        assert!(failed.contains("-1. is not positive"), "{failed}");
        let rows = f32s(&[1.0, -2.0, 3.0]);
        let failed = oxidax::catch(|| vmap(|x: Array| positive(&x)).apply(&rows)).unwrap_err();
        assert!(failed.to_string().contains("-2. is not positive"), "{failed}");
    }

    #[test]
    fn printing_can_be_redirected() {
        #[derive(Clone, Default)]
        struct Sink(Arc<Mutex<Vec<u8>>>);
        impl std::io::Write for Sink {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let sink = Sink::default();
        debug::set_output(sink.clone());
        let step = jit(|w: Array| {
            let loss = (&w * &w).sum();
            debug::print("loss {:.2} at {1}", [&loss, &w]);
            w * 0.5
        });
        let mut w = f32s(&[1.0, 2.0]);
        for _ in 0..2 {
            w = step.call(w).unwrap();
        }
        debug::print("and {}", [&w]);
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "loss 5.00 at [1. 2.]\nloss 1.25 at [0.5 1. ]\nand [0.25 0.5 ]\n");
        debug::set_output(std::io::stdout());
    }
}
