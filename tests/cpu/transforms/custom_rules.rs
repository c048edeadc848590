//! Batching rules, symbolic zeros and branches per platform.

use super::{close, f32s, value};
use oxidax::control_flow::{NoTangent, Perturbed, SymbolicZeros, VmapInputs, VmapOutput};
use oxidax::prelude::*;

#[test]
fn branches_of_platforms_print_and_parse() {
    let f =
        |x: Array| platform_dependent(["tpu", "cpu"], (|x: &Array| tanh(x), |x: &Array| sin(x)), x);
    let program = make_program(f, Aval::new(DType::F32, [])).unwrap();
    assert_eq!(parse_program(&program.to_string()).unwrap(), program);
    let lowered = jit(f).lower(Aval::new(DType::F32, [])).unwrap();
    assert!(lowered.as_text("cpu").unwrap().contains("stablehlo.sine"));
    assert!(lowered.as_text("tpu").unwrap().contains("stablehlo.tanh"));
    let text = lowered.as_text("cuda").unwrap_err().to_string();
    assert!(text.contains("has no branch for the platform `cuda`"), "{text}");
}

mod on_cpu {
    use super::*;

    /// The sine, with a batching rule that doubles it.
    fn doubled(x: &Array) -> Array {
        let rule = |inputs: VmapInputs<Array>| VmapOutput::mapped(sin(&inputs.arguments) * 2.0);
        custom_vmap(|x: &Array| sin(x), rule)(x)
    }

    fn expect(found: &Array, expected: impl Fn(f32) -> f32) {
        let inputs = [0.1, 0.2, 0.3, 0.4];
        for (found, x) in found.to_vec::<f32>().unwrap().into_iter().zip(inputs) {
            close(found, expected(x));
        }
    }

    #[test]
    fn batches_use_the_rule() {
        let x = f32s(&[0.1, 0.2, 0.3, 0.4], &[2, 2]);
        expect(&doubled(&x), f32::sin);
        let rows = |x: &Array| vmap(|x: Array| doubled(&x)).apply(x);
        expect(&rows(&x), |x| 2.0 * x.sin());
        expect(&vmap(vmap(|x: Array| doubled(&x))).apply(&x), |x| 2.0 * x.sin());
        expect(&jvp(rows, &x, ones_like(&x)).1, |x| 2.0 * x.cos());
        let tangent = |x: Array| jvp(|x: &Array| doubled(x), &x, ones_like(&x)).1;
        expect(&vmap(tangent).apply(&x), |x| 2.0 * x.cos());
        expect(&grad(|x: &Array| rows(x).sum())(&x), |x| 2.0 * x.cos());
    }

    #[test]
    fn a_mapped_capture_is_refused() {
        let f = |y: Array| {
            let rule = |inputs: VmapInputs<Array>| VmapOutput::mapped(inputs.arguments);
            custom_vmap(|x: &Array| x * &y, rule)(&y)
        };
        let text = catch(|| vmap(f).apply(ones([2]))).unwrap_err().to_string();
        assert!(text.contains("captures an array that is mapped over"), "{text}");
    }

    #[test]
    fn sequential_batches_are_loops() {
        let f = |x: Array| sequential_vmap(|x: &Array| sin(x) * x.sum())(&x);
        let x = f32s(&[0.1, 0.2, 0.3, 0.4], &[2, 2]);
        let y = vmap(f).apply(&x).to_vec::<f32>().unwrap();
        close(y[0], 0.1f32.sin() * 0.3);
        close(y[3], 0.4f32.sin() * 0.7);
        let program = make_program(move |x: Array| vmap(f).apply(x), x.aval().clone()).unwrap();
        assert_eq!(program.eqns()[0].primitive.name(), "scan");
    }

    #[test]
    fn rules_see_symbolic_zeros() {
        // The derivative is scaled by what the rules see.
        let f = |x: &Array, y: &Array| {
            custom_vjp_symbolic(
                |x: &Array, y: &Array| (x * y, x + y),
                |p: &Perturbed<(Array, Array)>| {
                    let (x, y) = p.value();
                    let scale = if p.is_perturbed(1) { 1.0 } else { 10.0 };
                    ((x * y, x + y), (x.clone(), y.clone(), full([], scale)))
                },
                |(x, y, scale): &(Array, Array, Array), cts: &SymbolicZeros<(Array, Array)>| {
                    let (first, second) = cts.dense();
                    let extra = if cts.is_zero(1) { 100.0 } else { 1.0 };
                    ((first * y + second) * scale * extra, (first * x + second) * scale * extra)
                },
            )(x, y)
        };
        let (x, y) = (f32s(&[2.0], &[]), f32s(&[3.0], &[]));
        close(value(&grad(|x: &Array| f(x, &y).0)(&x)), 3000.0);
        close(value(&grad(|y: &Array| f(&x, y).1)(&y)), 1.0);
        let rows = vmap(|x: Array| grad(|x: &Array| f(x, &y).0)(&x)).apply(f32s(&[1.0, 2.0], &[2]));
        assert_eq!(rows.to_vec::<f32>().unwrap(), [3000.0; 2]);
    }

    #[test]
    fn derivatives_by_argument() {
        let by_x = |dx: &Array, _: &Array, (_, y): &(Array, Array)| dx * y * 10.0;
        let f = custom_jvp_per_argument(|x: &Array, y: &Array| x * y, (by_x, NoTangent));
        let (x, y) = (f32s(&[2.0], &[]), f32s(&[3.0], &[]));
        close(value(&grad(|x: &Array| f(x, &y))(&x)), 30.0);
        close(value(&grad(|y: &Array| f(&x, y))(&y)), 0.0);
    }

    #[test]
    fn branches_of_platforms_pass_through_transforms() {
        let f = |x: &Array| {
            platform_dependent(["tpu", "default"], (|x: &Array| x * 2.0, |x: &Array| sin(x)), x)
        };
        let x = f32s(&[0.5], &[]);
        close(value(&grad(f)(&x)), 0.5f32.cos());
        close(value(&disable_jit(|| f(&x))), 0.5f32.sin());
        let rows = vmap(move |x: Array| f(&x)).apply(f32s(&[0.5, 0.5], &[2]));
        close(rows.to_vec::<f32>().unwrap()[1], 0.5f32.sin());
    }

    /// x k, with k created at every run of the function and of its rules, which multiply by 10.
    fn scaled(x: &Array, optimize_remat: bool) -> Array {
        let forward = |x: &Array| {
            let k = array![1.0, 2.0, 3.0];
            (x * &k, (x * &k, k))
        };
        let backward = |(_, k): &(Array, Array), ct: &Array| ct * k * array![10.0, 10.0, 10.0];
        let options = CustomVjpOptions { optimize_remat };
        custom_vjp_with(|x: &Array| x * array![1.0, 2.0, 3.0], forward, backward, options)(x)
    }

    #[test]
    fn rules_may_create_arrays_in_programs() {
        let x = f32s(&[0.5, -1.0, 2.0], &[3]);
        let rows = stack([&x, &x], 0);
        let expect = |found: Array, expected: [f32; 3]| {
            for (index, found) in found.to_vec::<f32>().unwrap().into_iter().enumerate() {
                close(found, expected[index % 3]);
            }
        };
        for optimize in [false, true] {
            let total = move |x: &Array| scaled(x, optimize).sum();
            let first = [10.0, 20.0, 30.0];
            expect(grad(remat(total))(&x), first);
            expect(jit(move |x: Array| grad(remat(total))(&x)).call(&x).unwrap(), first);
            expect(vmap(move |x: Array| grad(remat(total))(&x)).apply(&rows), first);
            expect(grad(|rows: &Array| vmap(remat(total)).apply(rows).sum())(&rows), first);
            let chosen = |x: &Array| cond(gt(x.sum(), 0.0), total, |x: &Array| x.sum(), x.clone());
            expect(grad(chosen)(&x), first);
            let steps = move |x: &Array| {
                let body = |x: &Array, scale: &Array| (scaled(x, optimize) * scale, ());
                scan(remat(body), x, array![0.5, 0.25]).0.sum()
            };
            let twice = [100.0 / 8.0, 400.0 / 8.0, 900.0 / 8.0];
            expect(grad(steps)(&x), twice);
            expect(vmap(move |x: Array| grad(steps)(&x)).apply(&rows), twice);
        }
        // Rules of forward mode, of batches, and with keys and arrays of other dtypes.
        let forward = |x: &Array| {
            let rule = |x: &Array, dx: &Array| (x * 1.0, dx * array![5.0, 6.0, 7.0]);
            custom_jvp(|x: &Array| x.clone(), rule)(x)
        };
        let twice = move |x: &Array| scan(|x: Array, ()| (forward(&x), ()), x, 2).0;
        expect(grad(|x: &Array| twice(x).sum())(&x), [25.0, 36.0, 49.0]);
        let batched = |x: &Array| {
            let rule = |inputs: VmapInputs<Array>| {
                VmapOutput::mapped(inputs.arguments * array![5.0, 6.0, 7.0])
            };
            custom_vmap(|x: &Array| x.clone(), rule)(x)
        };
        let steps = move |x: Array| scan(|x: Array, ()| (batched(&x), ()), x, 2).0;
        expect(vmap(steps).apply(&rows), [0.5 * 25.0, -36.0, 2.0 * 49.0]);
        let chosen = |x: &Array| {
            let backward = |(): &(), ct: &Array| {
                let factors = Array::from_slice(&[4i8, 5, 6], [3]).expect("three numbers");
                where_(array![true, false, true], ct, 0.0) * factors
            };
            custom_vjp(|x: &Array| x.clone(), |x: &Array| (x.clone(), ()), backward)(x)
        };
        expect(grad(remat(move |x: &Array| chosen(x).sum()))(&x), [4.0, 0.0, 6.0]);
    }
}
