//! Callbacks, `remat`, custom derivatives and NaN checks inside loops and conditionals.

use crate::arrays::scattered;
use crate::control_flow::support::{close, f64s, results_of, row, steps};
use oxidax::core::HostArray;
use oxidax::debug::CallbackOptions;
use oxidax::passes::dce;
use oxidax::prelude::*;
use std::sync::{Arc, Mutex};

/// A log written by callbacks.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    #[track_caller]
    fn note(&self, tag: &'static str, x: &Array) {
        let log = self.0.clone();
        let note = move |x: &[HostArray]| log.lock().unwrap().push(format!("{tag}{}", x[0]));
        debug::callback_with(note, [x], CallbackOptions { ordered: true });
    }

    fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap()).join(" ")
    }
}

/// log(1 + exp(x)) with a custom derivative that is ten times too large.
fn steep(x: &Array) -> Array {
    let rule = |x: &Array, dx: &Array| (steep(x), dx * sigmoid(x) * 10.0);
    custom_jvp(|x: &Array| log1p(exp(x)), rule)(x)
}

fn steep_back(x: &Array) -> Array {
    let forward = |x: &Array| (log1p(exp(x)), x.clone());
    let backward = |x: &Array, ct: &Array| ct * sigmoid(x) * 10.0;
    custom_vjp(|x: &Array| log1p(exp(x)), forward, backward)(x)
}

#[test]
fn remat_in_scan_stores_operands_only() {
    let n_stored = |policy: Option<Policy>| {
        let loss = move |w: &Array, xs: &Array| {
            let layer = |h: &Array| sin(sin(sin(h.matmul(w))));
            let step = |h: Array, x: Array| {
                let h = match &policy {
                    Some(policy) => remat_with(
                        layer,
                        RematOptions { policy: policy.clone(), ..RematOptions::default() },
                    )(&h),
                    None => layer(&h),
                };
                (h + x, ())
            };
            scan(step, zeros([8]), xs).0.sum()
        };
        let avals = (Aval::new(DType::F32, [8, 8]), Aval::new(DType::F32, [100, 8]));
        let program =
            make_program(move |w: Array, xs: Array| grad(|w: &Array| loss(w, &xs))(&w), avals);
        let results = results_of(&dce(&program.unwrap()), "scan");
        results[0].iter().filter(|aval| *aval == "f32[100,8]").count()
    };
    // Everything: three cosines and the state. Nothing: the state. Dots: the state and the product.
    assert_eq!(n_stored(None), 4);
    assert_eq!(n_stored(Some(Policy::Nothing)), 1);
    assert_eq!(n_stored(Some(Policy::Dots)), 2);
}

#[test]
fn vmap_rejects_repeated_effects() {
    let refused = |f: fn(Array) -> Array| {
        let all = move |xs: Array| vmap(f).apply(xs);
        make_program(all, Aval::new(DType::F32, [3])).unwrap_err().to_string()
    };
    let text = refused(|x: Array| {
        let shout = |x: Array| {
            debug::print("{}", [&x]);
            x
        };
        cond(gt(&x, 0.0), shout, |x: Array| -x, &x)
    });
    assert!(text.contains("cond: has side effects in its branches"), "{text}");
    let text = refused(|x: Array| {
        let step = |x: Array| {
            debug::print("{}", [&x]);
            x * 2.0
        };
        while_loop(|x: Array| lt(&x, 3.0), step, x)
    });
    assert!(text.contains("while_loop: has side effects"), "{text}");
}

mod on_cpu {
    use super::*;

    #[test]
    fn ordered_callbacks_follow_the_steps() {
        let log = Log::default();
        let f = {
            let log = log.clone();
            move |xs: Array| {
                let step = |c: Array, x: Array| {
                    log.note("x", &x);
                    let c = cond(
                        gt(&x, 1.5),
                        |c: Array| {
                            log.note("big", &c);
                            c + &x
                        },
                        |c: Array| c,
                        c,
                    );
                    (c.clone(), c)
                };
                let (last, _) = scan(step, zeros([]), xs);
                let go_on = |y: Array| {
                    log.note("?", &y);
                    lt(&y, 12.0)
                };
                let double = |y: Array| {
                    log.note("y", &y);
                    y * 2.0
                };
                while_loop(go_on, double, last)
            }
        };
        let xs = Array::from_slice(&[1.0f32, 2.0, 3.0], [3]).unwrap();
        let expected = "x1. x2. big0. x3. big2. ?5. y5. ?10. y10. ?20.";
        let compiled = jit(f.clone());
        for _ in 0..2 {
            assert_eq!(compiled.call(&xs).unwrap().item::<f32>().unwrap(), 20.0);
            assert_eq!(log.take(), expected);
        }
        disable_jit(|| f(xs.clone()));
        assert_eq!(log.take(), expected);
    }

    /// Callbacks run once per step, in the forward pass only.
    #[test]
    fn callbacks_run_once_under_derivatives() {
        let log = Log::default();
        let f = |x: &Array| {
            let step = |_: Array, y: Array| {
                log.note("", &y);
                y * x
            };
            fori_loop(0, 3, step, x)
        };
        let x = f64s(&[2.0], &[]);
        close(&grad(f)(&x), &f64s(&[32.0], &[]));
        assert_eq!(log.take(), "2. 4. 8.");
        let g = |x: &Array| {
            let step = |y: Array| {
                log.note("", &y);
                y * 2.0
            };
            while_loop(|y: Array| lt(&y, 10.0), step, x)
        };
        close(&jvp(g, &x, &x).1, &f64s(&[16.0], &[]));
        assert_eq!(log.take(), "2. 4. 8.");
        close(&linearize(g, &x).1.apply(&x), &f64s(&[16.0], &[]));
        assert_eq!(log.take(), "2. 4. 8.");
    }

    #[test]
    fn custom_rules_apply_inside_loops() {
        let xs = scattered(&[4], 5);
        for function in [steep, steep_back] {
            let looped = |w: &Array| {
                let step = |c: Array, x: Array| (function(&(c * w + x)), ());
                scan(step, zeros(([], DType::F64)), &xs).0
            };
            let plain = |w: &Array| {
                (0..4).fold(zeros(([], DType::F64)), |c, at| function(&(c * w + row(&xs, at))))
            };
            let w = f64s(&[0.3], &[]);
            close(&looped(&w), &plain(&w));
            close(&grad(looped)(&w), &grad(plain)(&w));
            let chosen = |x: &Array| cond(gt(x, 0.0), |x: Array| function(&x), |x: Array| x, x);
            close(&grad(chosen)(&w), &grad(function)(&w));
        }
    }

    #[test]
    fn remat_in_scan_keeps_gradients() {
        let xs = scattered(&[3, 2], 1);
        let loss = |w: &Array, policy: Option<Policy>| {
            let layer = |h: &Array| sin(exp(h.matmul(w)));
            let step = |h: Array, x: Array| match &policy {
                Some(policy) => (
                    remat_with(
                        layer,
                        RematOptions { policy: policy.clone(), ..RematOptions::default() },
                    )(&(h + x)),
                    (),
                ),
                None => (layer(&(h + x)), ()),
            };
            scan(step, zeros(([2], DType::F64)), &xs).0.sum()
        };
        let w = scattered(&[2, 2], 2);
        let expected = grad(|w: &Array| loss(w, None))(&w);
        for policy in [Policy::Nothing, Policy::Dots, Policy::Everything] {
            close(&grad(|w: &Array| loss(w, Some(policy.clone())))(&w), &expected);
        }
    }

    #[test]
    fn nan_check_locates_operations_in_loops() {
        let line = line!() + 3;
        let f = jit(|x: Array| {
            let step = |c: Array, ()| {
                let next = sqrt(&(&c - 1.0));
                (cond(lt(&c, 9.0), |y: Array| y, |y: Array| y * 2.0, next), ())
            };
            scan_with(step, x, (), steps(4)).0
        });
        let x = Array::from_slice(&[3.0f32], []).unwrap();
        let text = debug::nan_check(|| f.call(&x)).unwrap_err().to_string();
        assert!(text.starts_with("error[value]: sqrt: made a NaN"), "{text}");
        assert!(text.contains(&format!("nesting.rs:{line}:")), "{text}");
    }
}
