//! Printing, callbacks, checks and NaN checks in compiled programs.

mod checkify;
mod nan;
mod replay;

use expect_test::expect;
use oxidax::core::HostArray;
use oxidax::debug::{CallbackOptions, PureCallbackOptions, VmapMethod};
use oxidax::prelude::*;
use std::slice::from_ref;
use std::sync::{Arc, Mutex};

fn f32s(elements: &[f32]) -> Array {
    Array::from_slice(elements, [elements.len()]).unwrap()
}

/// Held by tests that wait for the callbacks of all threads.
static BARRIER: Mutex<()> = Mutex::new(());

fn barrier() -> std::sync::MutexGuard<'static, ()> {
    BARRIER.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A log written by callbacks.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    /// Records `tag` and the elements of `x` when the program reaches this point.
    #[track_caller]
    fn note(&self, tag: &'static str, x: &Array) {
        let log = self.0.clone();
        let note = move |x: &[HostArray]| log.lock().unwrap().push(format!("{tag} {}", x[0]));
        debug::callback_with(note, [x], CallbackOptions { ordered: true });
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
    // A callback without results ends with a number.
    assert_eq!(text.matches("stablehlo.recv").count(), 2);
    // One without operands starts with a number.
    let f = jit(|x: Array| {
        debug::print("here", ());
        x
    });
    let text = f.lower(Aval::new(DType::F32, [2])).unwrap().as_text("tpu").unwrap();
    assert_eq!(text.matches("stablehlo.send").count(), 1);
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
    fn results_of_a_dropped_program_can_be_read() {
        for n in 0..16 {
            let x = full([3], n as f32);
            let y = jit(|x: Array| doubled(&doubled(&x))).call(&x).unwrap();
            assert_eq!(y.to_vec::<f32>().unwrap(), [4.0 * n as f32; 3]);
        }
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
        effects_barrier().unwrap();
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
        let _barrier = barrier();
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
            effects_barrier().unwrap();
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
            let ordered = CallbackOptions { ordered: true };
            debug::print_with("loss {:.2} at {1}", [&loss, &w], ordered);
            let half = 0.5;
            debug::print_with("named {w}", [("w", &w)], ordered);
            debug_print!(ordered; "times {half}: {loss:.1}, {:.2}, {{}}", &w * half);
            w * half
        });
        let mut w = f32s(&[1.0, 2.0]);
        for _ in 0..2 {
            w = step.call(w).unwrap();
        }
        debug::print("and {}", [&w]);
        let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
        let expected = "loss 5.00 at [1. 2.]\nnamed [1. 2.]\ntimes 0.5: 5.0, [0.50 1.00], {}\n\
                        loss 1.25 at [0.5 1. ]\nnamed [0.5 1. ]\ntimes 0.5: 1.2, [0.25 0.50], {}\n\
                        and [0.25 0.5 ]\n";
        assert_eq!(text, expected);
        debug::set_output(std::io::stdout());
    }

    #[test]
    fn unordered_callbacks_run_once_each() {
        let _barrier = barrier();
        let log = Log::default();
        let f = {
            let log = log.clone();
            jit(move |x: Array| {
                for tag in ["a", "b", "c"] {
                    let log = log.0.clone();
                    let note = move |x: &[HostArray]| {
                        log.lock().unwrap().push(format!("{tag} {}", x[0]));
                    };
                    debug::callback(note, [&x.sum()]);
                }
                sin(&x)
            })
        };
        // A large program runs after the call has returned.
        for size in [2, 1 << 20] {
            f.call(ones([size])).unwrap();
            effects_barrier().unwrap();
            let mut seen = log.take();
            seen.sort();
            assert_eq!(seen, ["a", "b", "c"].map(|tag| format!("{tag} {size}.")));
        }
        // Also in a loop, in a function that is called twice, and once per example.
        let noted = log.clone();
        let note = move |x: &Array| {
            let log = noted.0.clone();
            debug::callback(move |x| log.lock().unwrap().push(x[0].to_string()), [x]);
        };
        let body = note.clone();
        let inner = jit(move |x: Array| {
            note(&x);
            x + 1.0
        });
        let outer = jit(move |x: Array| inner.apply(inner.apply(&x)));
        outer.call(full([], 1.0f32)).unwrap();
        let counted = body.clone();
        fori_loop(
            0,
            3,
            move |i: Array, x: Array| {
                counted(&i.astype(DType::F32));
                x + 1.0
            },
            full([], 0.0f32),
        );
        vmap(|x: Array| body(&x)).apply(f32s(&[7.0, 8.0]));
        effects_barrier().unwrap();
        let mut seen = log.take();
        seen.sort();
        assert_eq!(seen, ["0.", "1.", "1.", "2.", "2.", "7.", "8."]);
    }

    #[test]
    fn a_large_result_and_its_callback_do_not_conflict() {
        let _barrier = barrier();
        let log = Log::default();
        let noted = log.clone();
        let f = jit(move |x: Array| {
            let (y, log) = (sin(cos(&x)), noted.0.clone());
            debug::callback(move |x| log.lock().unwrap().push(x[0].to_string()), [&y.sum()]);
            y
        });
        let y = f.call(zeros([1 << 20])).unwrap();
        assert_eq!(y.size(), 1 << 20);
        effects_barrier().unwrap();
        assert_eq!(log.take().len(), 1);
    }

    #[test]
    fn the_barrier_returns_the_error_of_a_callback() {
        let _barrier = barrier();
        let f = jit(|x: Array| {
            debug::callback(|_| panic!("late"), [&x.sum()]);
            sin(&x)
        });
        let y = f.call(ones([1 << 20])).unwrap();
        let error = effects_barrier().unwrap_err().to_string();
        assert!(error.contains("panicked: late"), "{error}");
        drop(y);
        effects_barrier().unwrap();
    }

    #[test]
    fn io_callbacks_return_arrays_each_time() {
        use std::sync::atomic::{AtomicI32, Ordering};
        let count = Arc::new(AtomicI32::new(0));
        let f = {
            let count = count.clone();
            jit(move |(): ()| {
                let count = count.clone();
                let next = move |_: &[HostArray]| {
                    Ok(vec![HostArray::from_slice(&[count.fetch_add(1, Ordering::Relaxed)], [])?])
                };
                let aval = Aval::new(DType::I32, []);
                let ordered = CallbackOptions { ordered: true };
                let first = debug::io_callback_with(next.clone(), from_ref(&aval), (), ordered);
                let second = debug::io_callback_with(next, &[aval], (), ordered);
                (first[0].clone(), second[0].clone())
            })
        };
        for expected in [(0, 1), (2, 3)] {
            let (first, second) = f.call(()).unwrap();
            let found = (first.item::<i32>().unwrap(), second.item::<i32>().unwrap());
            assert_eq!(found, expected);
        }
        assert_eq!(count.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn pure_callbacks_are_batched_by_their_method() {
        let shapes = Arc::new(Mutex::new(Vec::new()));
        let sum = |method: VmapMethod| {
            let seen = shapes.clone();
            move |x: Array, y: Array| {
                let seen = seen.clone();
                let add = move |operands: &[HostArray]| {
                    let [x, y] = operands else { return Err("two operands".into()) };
                    seen.lock().unwrap().push(format!("{} {}", x.aval(), y.aval()));
                    let (xs, ys) = (x.to_vec::<f32>()?, y.to_vec::<f32>()?);
                    let sums: Vec<f32> =
                        xs.iter().enumerate().map(|(i, x)| x + ys[i % ys.len()]).collect();
                    Ok(vec![HostArray::from_slice(&sums, x.shape())?])
                };
                let options = PureCallbackOptions { vmap_method: method };
                let results = [x.aval().clone()];
                debug::pure_callback_with(add, &results, [&x, &y], options).swap_remove(0)
            }
        };
        let y = f32s(&[10.0]);
        for (method, expected) in [
            (VmapMethod::Sequential, vec!["f32[1] f32[1]"; 3]),
            (VmapMethod::ExpandDims, vec!["f32[3,1] f32[1,1]"]),
            (VmapMethod::BroadcastAll, vec!["f32[3,1] f32[3,1]"]),
        ] {
            let f = sum(method);
            let x = f32s(&[1.0, 2.0, 3.0]).reshape([3, 1]);
            let sums = vmap(f).in_axes((0, None)).apply(&x, &y);
            assert_eq!(sums.to_vec::<f32>().unwrap(), [11.0, 12.0, 13.0], "{method:?}");
            assert_eq!(std::mem::take(&mut *shapes.lock().unwrap()), expected, "{method:?}");
        }
    }

    #[test]
    fn calls_return_before_a_callback_has_run() {
        let _barrier = barrier();
        use std::sync::mpsc::channel;
        use std::time::Duration;
        let (release, released) = channel();
        let released = Mutex::new(released);
        let waits = Arc::new(move |_: &[HostArray]| {
            // The limit turns a call that waits into a failure instead of a hang.
            let outcome = released.lock().unwrap().recv_timeout(Duration::from_secs(60));
            outcome.expect("the call waited for the device");
        });
        let f = jit(move |x: Array| {
            let waits = waits.clone();
            // Large enough to run on the plugin's threads.
            debug::callback(move |x| waits(x), [&sin(cos(&x)).sum()]);
            x + 1.0
        });
        let y = f.call(ones([1 << 20])).unwrap();
        assert!(!y.is_ready().unwrap());
        release.send(()).unwrap();
        y.block_until_ready().unwrap();
        assert!(y.is_ready().unwrap());
        effects_barrier().unwrap();
    }
}
