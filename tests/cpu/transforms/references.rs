//! Mutable references in every transform. Values and derivatives are compared with JAX's in
//! `oxidax-parity`.

use oxidax::control_flow::map;
use oxidax::prelude::*;

fn vector(elements: &[f32]) -> Array {
    Array::from_slice(elements, [elements.len()]).unwrap()
}

fn elements(r: &ArrayRef) -> Vec<f32> {
    r.get(i![]).to_vec::<f32>().unwrap()
}

fn error_of<R>(f: impl FnOnce() -> R) -> String {
    match catch(f) {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn programs_hold_no_references() {
    let f = |x: Array| {
        let r = new_ref(&x);
        r.addupdate(i![0], 1.0);
        r.get(i![])
    };
    let program = make_program(f, Aval::new(DType::F32, [2])).unwrap();
    assert_eq!(parse_program(&program.to_string()).unwrap(), program);
    assert_eq!(program.inputs().len(), 1);
    assert!(program.to_string().contains("dynamic_update_slice"));
}

#[test]
fn eval_shape_drops_what_is_written() {
    let f = |x: Array| {
        let r = new_ref(&x);
        let inner = |y: Array| r.set(i![], &y);
        eval_shape(inner, Aval::new(DType::F32, [2])).unwrap();
        r.get(i![])
    };
    let program = make_program(f, Aval::new(DType::F32, [2])).unwrap();
    assert_eq!(program.inputs(), program.outputs());
}

mod on_cpu {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn reads_and_writes_happen_in_order() {
        let r = new_ref(zeros([3]));
        r.set(i![1], 5.0);
        r.addupdate(i![..], 1.0);
        let clone = r.clone();
        assert_eq!(clone.swap(i![2], 9.0).item::<f32>().unwrap(), 1.0);
        assert!(r.same_ref(&clone));
        assert_eq!(elements(&r), [1.0, 6.0, 9.0]);
        assert_eq!(r.to_string(), "Ref(f32[3])");
        r.set(i![], vector(&[1.0]));
        assert_eq!(freeze(&r).to_vec::<f32>().unwrap(), [1.0; 3]);
        let text = error_of(|| clone.get(i![]));
        assert!(text.contains("was frozen at tests/cpu/transforms/references.rs"), "{text}");
        let bf16 = new_ref(ones(([2], DType::BF16)));
        bf16.addupdate(i![0], 1.5);
        assert_eq!(bf16.get(i![]).dtype(), DType::BF16);
        free_ref(&bf16);
        assert!(error_of(|| bf16.set(i![], 0.0)).contains("was freed"));
    }

    #[test]
    fn values_must_have_the_dtype_and_broadcast() {
        let r = new_ref(zeros([3]));
        let text = error_of(|| r.set(i![0], &array![1]));
        assert!(text.contains("the reference has f32[3], the value i32"), "{text}");
        assert!(text.contains("astype(DType::F32)"), "{text}");
        assert!(error_of(|| r.set(i![], ones([2]))).contains("do not broadcast"));
        let counts = new_ref(&array![1, 2]);
        assert!(error_of(|| counts.addupdate(i![0], 0.5)).contains("convert it"));
        assert_eq!(elements(&r), [0.0; 3]);
    }

    #[test]
    fn compiled_functions_read_and_write_captured_references() {
        let total = new_ref(zeros([2]));
        let held = total.clone();
        let f = jit(move |x: Array| {
            held.addupdate(i![0], &x);
            held.get(i![]).sum()
        });
        for expected in [2.0, 4.0] {
            let sum = f.call(full([], 2.0)).unwrap();
            assert_eq!(sum.item::<f32>().unwrap(), expected);
        }
        total.set(i![], 10.0);
        assert_eq!(f.call(full([], 1.0)).unwrap().item::<f32>().unwrap(), 21.0);
        assert_eq!(elements(&total), [11.0, 10.0]);
        assert_eq!(f.stats().compiles, 1);
        let plain = disable_jit(|| f.call(full([], 1.0))).unwrap();
        assert_eq!(plain.item::<f32>().unwrap(), 22.0);
        assert_eq!(elements(&total), [12.0, 10.0]);
    }

    #[test]
    fn compiled_functions_take_references() {
        let push = jit(|r: ArrayRef, x: Array| r.swap(i![0], &x));
        let (a, b) = (new_ref(vector(&[1.0, 2.0])), new_ref(vector(&[3.0, 4.0])));
        assert_eq!(push.call(&a, full([], 7.0)).unwrap().item::<f32>().unwrap(), 1.0);
        // By value: the buffer of a reference is not donated.
        assert_eq!(push.call(b.clone(), full([], 8.0)).unwrap().item::<f32>().unwrap(), 3.0);
        assert_eq!((elements(&a), elements(&b)), (vec![7.0, 2.0], vec![8.0, 4.0]));
        assert_eq!(push.stats().compiles, 1);
        // As a part of a tree, and in a function under trace.
        let outer = jit(move |x: Array| {
            let r = new_ref(zeros([2]));
            push.apply(&r, &x);
            push.apply(&r, x + 1.0);
            r.get(i![])
        });
        let y = outer.call(full([], 3.0)).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [4.0, 0.0]);
        let read = jit(|(r, x): (ArrayRef, Array)| r.get(i![0]) * x);
        assert_eq!(read.call((&a, &full([], 2.0))).unwrap().item::<f32>().unwrap(), 14.0);
    }

    #[test]
    fn loops_thread_references() {
        let (total, factor) = (new_ref(0.0), new_ref(10.0));
        let xs = vector(&[1.0, 2.0, 3.0]);
        let step = |c: Array, x: Array| {
            total.addupdate(i![], &x * factor.get(i![]));
            (c + &x, total.get(i![]))
        };
        let (carry, ys) = scan(step, 0.0, &xs);
        assert_eq!(carry.item::<f32>().unwrap(), 6.0);
        assert_eq!(ys.to_vec::<f32>().unwrap(), [10.0, 30.0, 60.0]);
        assert_eq!(total.get(i![]).item::<f32>().unwrap(), 60.0);
        let (n, limit) = (new_ref(0), new_ref(5));
        let below = |x: Array| lt(n.get(i![]), limit.get(i![])) & lt(&x, 100.0);
        let body = |x: Array| {
            n.addupdate(i![], 1);
            x * 2.0
        };
        assert_eq!(while_loop(below, body, 1.0).item::<f32>().unwrap(), 32.0);
        assert_eq!(n.get(i![]).item::<i32>().unwrap(), 5);
        let upper = scalar(3);
        fori_loop(0, &upper, |i: Array, ()| n.addupdate(i![], i), ());
        assert_eq!(n.get(i![]).item::<i32>().unwrap(), 8);
        map(|x: Array| total.set(i![], x), &xs);
        assert_eq!(total.get(i![]).item::<f32>().unwrap(), 3.0);
        let wrong = |x: Array| {
            n.addupdate(i![], 1);
            lt(&x, 3.0)
        };
        let text = error_of(|| while_loop(wrong, |x: Array| x + 1.0, 0.0));
        assert!(text.contains("the condition writes the reference"), "{text}");
        assert_eq!(n.get(i![]).item::<i32>().unwrap(), 8, "a failed loop changes nothing");
    }

    #[test]
    fn branches_write_references() {
        let r = new_ref(zeros([2]));
        let held = r.clone();
        let f = jit(move |p: Array| {
            let first = |()| held.addupdate(i![0], 1.0);
            cond(&p, first, |()| (), ());
        });
        for p in [true, false, true] {
            f.call(full([], p)).unwrap();
        }
        assert_eq!(elements(&r), [2.0, 0.0]);
        assert_eq!(f.stats().compiles, 1);
        let second = |()| r.set(i![1], r.get(i![0]) * 2.0);
        switch(1, (|()| r.set(i![], 9.0), second, |()| ()), ());
        assert_eq!(elements(&r), [2.0, 4.0]);
    }

    #[test]
    fn batches_write_mapped_arguments() {
        let r = new_ref(vector(&[1.0, 2.0]));
        let one = |r: ArrayRef, x: Array| {
            r.addupdate(i![], &x);
            r.get(i![]) * 2.0
        };
        let y = vmap(one).apply(&r, vector(&[10.0, 20.0]));
        assert_eq!(y.to_vec::<f32>().unwrap(), [22.0, 44.0]);
        assert_eq!(elements(&r), [11.0, 22.0]);
        let text = error_of(|| vmap(|x: Array| r.set(i![0], &x)).apply(ones([2])));
        assert!(text.contains("which all examples share"), "{text}");
        // A value that is equal for all examples.
        vmap(|x: Array| (r.set(i![0], 5.0), x).1).apply(ones([2]));
        assert_eq!(elements(&r), [5.0, 22.0]);
    }

    #[test]
    fn derivatives_flow_through_references_of_the_function() {
        let cube = |x: &Array| {
            let total = new_ref(0.0);
            scan(|(), x: Array| (total.addupdate(i![], &x * &x * &x), ()), (), x);
            total.get(i![])
        };
        let x = vector(&[1.0, 2.0]);
        assert_eq!(grad(cube)(&x).to_vec::<f32>().unwrap(), [3.0, 12.0]);
        let second = grad(|x: &Array| grad(cube)(x).sum());
        assert_eq!(second(&x).to_vec::<f32>().unwrap(), [6.0, 12.0]);
        assert_eq!(jvp(cube, &x, ones([2])).1.item::<f32>().unwrap(), 15.0);
        let recomputed = |x: &Array| {
            let r = new_ref(0.0);
            let f = remat(|x: &Array| {
                r.addupdate(i![], sin(x));
                r.get(i![]) * x
            });
            f(x) + r.get(i![])
        };
        let slope = grad(recomputed)(&full([], 0.5)).item::<f32>().unwrap();
        let expected = 0.5f32.sin() + 1.5 * 0.5f32.cos();
        assert!((slope - expected).abs() < 1e-6, "{slope} is not {expected}");
    }

    #[test]
    fn references_outside_of_a_derivative_are_constant() {
        let stash = new_ref(0.0);
        let x = full([], 0.5);
        let f = |x: &Array| {
            let y = sin(x);
            stash.set(i![], stop_gradient(&y));
            y * stash.get(i![])
        };
        let slope = grad(f)(&x).item::<f32>().unwrap();
        assert!((slope - 0.5f32.sin() * 0.5f32.cos()).abs() < 1e-6);
        assert!((stash.get(i![]).item::<f32>().unwrap() - 0.5f32.sin()).abs() < 1e-6);
        let text = error_of(|| grad(|x: &Array| (stash.set(i![], x), sin(x)).1)(&x));
        assert!(text.contains("a value with a derivative is written"), "{text}");
        assert!(text.contains("stop_gradient(&value)"), "{text}");
        let text = error_of(|| grad(|r: &ArrayRef| r.get(i![]))(&stash));
        assert!(text.contains("capture the reference in the closure"), "{text}");
        let log = new_ref_with(0.0, RefOptions { kind: RefKind::NoGrad });
        grad(|x: &Array| (log.set(i![], x), sin(x)).1)(&x);
        assert_eq!(log.get(i![]).item::<f32>().unwrap(), 0.5);
    }

    #[test]
    fn pullbacks_accumulate() {
        let params = (ones([2]), full([], 3.0));
        let sums = (new_ref(zeros([2])), new_ref(0.0));
        for _ in 0..2 {
            let f = |(w, b): &(Array, Array)| w.sum() * b;
            let (y, pullback) = vjp(f, &params);
            pullback.accumulate_into(&ones_like(&y), &sums);
        }
        assert_eq!(elements(&sums.0), [6.0, 6.0]);
        assert_eq!(sums.1.get(i![]).item::<f32>().unwrap(), 4.0);
        let (y, pullback) = vjp(|x: &Array| x.sum(), ones([2]));
        let text = error_of(|| pullback.accumulate_into(&ones_like(&y), &sums));
        assert!(text.contains("2 references for 1 leaves"), "{text}");
        let text = error_of(|| pullback.accumulate_into(&ones_like(&y), &sums.1));
        assert!(text.contains("the cotangent is f32[2], the reference has f32[]"), "{text}");
    }

    #[test]
    fn aliases_are_errors() {
        let (r, other) = (new_ref(zeros([2])), new_ref(ones([2])));
        let both = jit(|a: ArrayRef, b: ArrayRef| a.set(i![], b.get(i![])));
        let text = both.call(&r, &r).unwrap_err().to_string();
        assert!(text.contains("is passed twice, or passed and captured"), "{text}");
        let held = r.clone();
        let f = jit(move |a: ArrayRef| a.set(i![], held.get(i![])));
        assert!(f.call(&r).unwrap_err().to_string().contains("passed and captured"));
        f.call(&other).unwrap();
        assert_eq!(elements(&other), [0.0, 0.0]);
        // Also if the program is compiled already.
        assert!(f.call(&r).unwrap_err().to_string().contains("passed and captured"));
    }

    #[test]
    fn references_stay_in_their_function() {
        let text = jit(|x: Array| new_ref(&x)).call(ones([2])).unwrap_err().to_string();
        assert!(text.contains("the function returns a reference to f32[2]"), "{text}");
        let leaked = Mutex::new(None);
        let f = jit(|x: Array| {
            *leaked.lock().unwrap() = Some(new_ref(&x));
            x * 1.0
        });
        f.call(ones([])).unwrap();
        let leaked_ref = leaked.lock().unwrap().clone().unwrap();
        let text = error_of(|| leaked_ref.get(i![]));
        assert!(text.contains("outside of the trace that created it"), "{text}");
        let r = new_ref(0.0);
        let held = r.clone();
        let f = jit(move |x: Array| x + freeze(&held));
        let text = f.call(ones([])).unwrap_err().to_string();
        assert!(text.contains("cannot end inside of a function under trace"), "{text}");
        let text = error_of(|| scan(|c: ArrayRef, ()| (c, ()), r.clone(), 2));
        assert!(text.contains("scan"), "{text}");
        let held = r.clone();
        let lowered = jit(move |x: Array| x + held.get(i![])).lower(Aval::new(DType::F32, []));
        assert!(lowered.err().unwrap().to_string().contains("whose value belongs to a call"));
        let text = error_of(|| ensure_compile_time_eval(|| r.get(i![])));
        assert!(text.contains("at another time"), "{text}");
    }

    #[test]
    fn rules_do_not_see_references_from_outside() {
        let r = new_ref(2.0);
        let held = r.clone();
        let f = custom_vjp(
            |x: &Array| sin(x),
            |x: &Array| (sin(x), cos(x)),
            move |c: Array, ct: Array| &c * &ct * held.get(i![]),
        );
        f(&full([], 0.5));
        let text = error_of(|| grad(|x: &Array| f(x))(&full([], 0.5)));
        assert!(text.contains("a rule of `custom_vjp`"), "{text}");
        let held = r.clone();
        let writes = custom_jvp(
            move |x: &Array| (held.set(i![], x), sin(x)).1,
            |x: &Array, dx: &Array| (sin(x), cos(x) * dx),
        );
        let text = error_of(|| grad(|x: &Array| writes(x))(&full([], 0.5)));
        assert!(text.contains("cannot write references from outside"), "{text}");
        // A rule may create references.
        let squares = custom_vjp(
            |x: &Array| x * x,
            |x: &Array| (x * x, x.clone()),
            |x: Array, ct: Array| {
                let r = new_ref(&x);
                r.addupdate(i![], &x);
                r.get(i![]) * ct
            },
        );
        assert_eq!(grad(|x: &Array| squares(x))(&full([], 3.0)).item::<f32>().unwrap(), 6.0);
    }
}
