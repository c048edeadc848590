//! Loops that are compiled as one kernel: which ones are, and that nothing else changes.

use oxidax::core::{
    Aval, BatchAxis, Batched, Cost, JvpResult, LowerCtx, Primitive, RuleResult, bind1,
};
use oxidax::jit::{LoopForm, LoopReport, disable_loop_kernels, disable_most_optimizations};
use oxidax::prelude::*;
use oxidax::random::{self, Key};
use oxidax::stablehlo::Value;

type Arrays = Vec<Array>;

fn loops(f: fn(Arrays) -> Arrays, inputs: &Arrays) -> Vec<LoopReport> {
    jit(f).lower(inputs).unwrap().loops().unwrap()
}

/// Checks that the first loop is a kernel and computes the same bits as its operations.
#[track_caller]
fn check(f: fn(Arrays) -> Arrays, inputs: &Arrays) -> Arrays {
    let reports = loops(f, inputs);
    let first = reports.first().expect("a loop");
    assert_eq!(first.form, LoopForm::Kernel, "{first}");
    let f = jit(f);
    let (kernel, plain) =
        (f.call(inputs).unwrap(), disable_loop_kernels(|| f.call(inputs)).unwrap());
    assert_eq!(f.stats().compiles, 2, "the scope is part of the key");
    let bits = |all: &Arrays| -> Vec<Vec<u32>> {
        let bits = |x: &Array| bitcast_convert_type(x, DType::U32).to_vec::<u32>().unwrap();
        all.iter().map(bits).collect()
    };
    assert_eq!(bits(&kernel), bits(&plain));
    kernel
}

fn reason(f: fn(Arrays) -> Arrays, inputs: &Arrays) -> String {
    match &loops(f, inputs)[0].form {
        LoopForm::Operations(reason) => reason.clone(),
        form => panic!("{form:?}"),
    }
}

fn floats<const N: usize>(values: [f32; N]) -> Array {
    Array::from_slice(&values, [N]).unwrap()
}

fn fori(n: i32, f: impl Fn(&Array) -> Array, x: &Array) -> Array {
    fori_loop(0, n, |_, x: Array| f(&x), x.clone())
}

mod on_cpu {
    use super::*;

    #[test]
    fn loops_over_scalars_and_small_arrays_are_kernels() {
        let inputs = vec![scalar(0.3), floats([1.0, 2.0, 3.0])];
        let y = check(|x| vec![fori(50, |y| sin(y) + &x[0], &x[1])], &inputs);
        assert_eq!(y[0].shape().dims(), [3]);
        check(
            |x| {
                let step = |c: &Array, x: Array| (c * 0.5 + &x, exp(&-c));
                let (c, ys) = scan(step, x[0].clone(), x[1].clone());
                vec![c, ys]
            },
            &inputs,
        );
    }

    /// The compiler ends the process if a parameter of a kernel's function is unused. It removes
    /// uses by simplification.
    #[test]
    fn parameters_whose_uses_are_simplified_away_do_not_end_the_process() {
        let inputs = vec![scalar(3), scalar(4), floats([1.0, 2.0])];
        // Never read.
        check(
            |x| vec![scan(|c: &Array, _: Array| (c + 1, ()), x[0].clone(), x[2].clone()).0],
            &inputs,
        );
        // Multiplied by zero, subtracted from itself, not selected.
        check(|x| vec![fori(5, |c| c + &x[1] * scalar(0), &x[0])], &inputs);
        check(|x| vec![fori(5, |c| c + (&x[1] - &x[1]), &x[0])], &inputs);
        check(|x| vec![fori(5, |c| where_(true, c + 1, &x[1]), &x[0])], &inputs);
        // Carried, never read, or never written.
        check(
            |x| fori_loop(0, 5, |_, c: Arrays| vec![&c[0] + 1, &c[1] * 2, c[2].clone()], x),
            &inputs,
        );
        check(
            |x| {
                fori_loop(0, 5, |_, c: Arrays| vec![&c[0] + 1, &c[1] * 2, c[2].clone()], x)[..1]
                    .to_vec()
            },
            &inputs,
        );
        // The body ignores the carry, and the condition everything.
        check(
            |x| vec![while_loop(|c: &Array| lt(c, 5), |_: Array| scalar(7), x[0].clone())],
            &inputs,
        );
        check(
            |x| vec![while_loop(|_: &Array| scalar(false), |c: Array| c + 1, x[0].clone())],
            &inputs,
        );
        // A branch ignores its operands.
        check(
            |x| {
                let body =
                    |c: &Array| cond(gt(c, 5), |c: Array| c + 1, |_: Array| scalar(9), c.clone());
                vec![fori(5, body, &x[0])]
            },
            &inputs,
        );
    }

    /// The compiler also replaces parameters by operands that are constants, even if it finds out
    /// late that they are.
    #[test]
    fn constant_operands_do_not_end_the_process() {
        let inputs = vec![floats([1.0, 2.0, 4.0])];
        check(
            |x| {
                let step = |(sum, least): (Array, Array), x: Array| {
                    ((sum + &x, minimum(&least, &x)), x * 0.5)
                };
                let start = (scalar(0.0f32), zeros([4, 2]).sum() + 7.0);
                let ((sum, least), ys) = scan(step, start, x[0].clone());
                vec![sum, least, ys]
            },
            &inputs,
        );
        // All operands are constants, or there are none.
        check(|x| vec![fori(4, |c| c * 0.5, &ones([3])) + &x[0]], &inputs);
        check(|x| vec![scan(|(), ()| ((), scalar(2.0f32)), (), 3).1 + &x[0]], &inputs);
        disable_most_optimizations(|| {
            check(|x| vec![fori(4, |c| c * 0.5 + &ones([3]) * 0.0, &ones([3])) + &x[0]], &inputs)
        });
    }

    #[test]
    fn loops_may_end_before_their_first_step_or_at_a_value() {
        let collatz: fn(Arrays) -> Arrays = |x| {
            let step = |(n, steps): (Array, Array)| {
                let odd = eq(rem(&n, 2), 1);
                (where_(&odd, &n * 3 + 1, div(&n, 2)), steps + 1)
            };
            let (n, steps) = while_loop(|(n, _)| gt(n, 1), step, (x[0].clone(), scalar(0)));
            vec![n, steps]
        };
        for (start, steps) in [(1, 0), (27, 111)] {
            let result = check(collatz, &vec![scalar(start)]);
            assert_eq!(result[1].to_vec::<i32>().unwrap(), [steps]);
        }
        let upto: fn(Arrays) -> Arrays =
            |x| vec![fori_loop(0, &x[0], |_, c: Array| c * 2.0, x[1].clone())];
        for (n, expected) in [(-1, 1.0), (0, 1.0), (1, 2.0), (5, 32.0)] {
            let result = check(upto, &vec![scalar(n), floats([1.0])]);
            assert_eq!(result[0].to_vec::<f32>().unwrap(), [expected]);
        }
    }

    #[test]
    fn samplers_draw_the_same_numbers_in_a_kernel() {
        let walk: fn(Arrays) -> Arrays = |x| {
            let step = |c: Array, key: Key| {
                let c = c + random::normal(key, [5]);
                (c.clone(), c)
            };
            vec![scan(step, x[0].clone(), random::split(random::key(3), 20)).1]
        };
        check(walk, &vec![floats([0.0; 5])]);
    }

    #[test]
    fn all_dtypes_are_carried() {
        use DType::*;
        for dtype in [F64, F32, F16, BF16, F8E4M3FN, C64, C128, I64, I32, I16, I8, U64, U8, Bool] {
            let f = jit(move |x: Array| {
                let x = convert_element_type(&x, dtype);
                fori_loop(0, 3, |_, c: Array| if dtype == Bool { !c } else { &c + &c }, x)
            });
            let x = floats([1.0, 0.0]);
            let lowered = f.lower(&x).unwrap();
            assert_eq!(lowered.loops().unwrap()[0].form, LoopForm::Kernel, "{dtype}");
            let numbers = |y: Array| real(convert_element_type(&y, C128)).to_vec::<f64>().unwrap();
            let plain = disable_loop_kernels(|| f.call(&x)).unwrap();
            assert_eq!(numbers(f.call(&x).unwrap()), numbers(plain), "{dtype}");
        }
    }

    #[test]
    fn other_platforms_have_no_kernels() {
        let f = jit(|x: Array| fori_loop(0, 9, |_, c: Array| sin(&c), x));
        let lowered = f.lower(Aval::new(DType::F32, [3])).unwrap();
        let has_kernel =
            |platform| lowered.as_text(platform).unwrap().contains("xla_cpu_small_call");
        assert_eq!(["cpu", "tpu", "cuda"].map(has_kernel), [true, false, false]);
        assert!(!disable_loop_kernels(|| has_kernel("cpu")));
    }

    #[test]
    fn one_array_may_be_several_operands_and_several_results() {
        let inputs = vec![floats([1.0, 2.0])];
        check(
            |x| {
                let carry = vec![x[0].clone(), x[0].clone()];
                let step = |_, c: Arrays| vec![&c[0] + &x[0], &c[1] * &x[0]];
                let mut all = fori_loop(0, 3, step, carry);
                all.push(all[0].clone());
                all.push(x[0].clone());
                all
            },
            &inputs,
        );
    }

    #[test]
    fn inner_loops_and_functions_are_part_of_the_kernel() {
        let inputs = vec![floats([1.0, 2.0])];
        let nested: fn(Arrays) -> Arrays = |x| {
            let half = jit(|x: Array| x * 0.5);
            let inner = |c: &Array| fori(4, |c| half.apply(c) + 1.0, c);
            vec![fori(3, |c| inner(&relu(c)), &x[0]), half.apply(&x[0])]
        };
        check(nested, &inputs);
        let forms: Vec<_> = loops(nested, &inputs).into_iter().map(|report| report.form).collect();
        assert_eq!(forms, [LoopForm::Kernel, LoopForm::Inside]);
        // An inner loop is a kernel if the outer one cannot be.
        let sorted: fn(Arrays) -> Arrays =
            |x| vec![fori(3, |c| sort(&fori(4, |c| cos(c), c), 0), &x[0])];
        let forms: Vec<_> = loops(sorted, &inputs).into_iter().map(|report| report.form).collect();
        assert!(matches!(forms[..], [LoopForm::Operations(_), LoopForm::Kernel]), "{forms:?}");
        let f = jit(sorted);
        let plain = disable_loop_kernels(|| f.call(&inputs)).unwrap();
        assert_eq!(
            f.call(&inputs).unwrap()[0].to_vec::<f32>().unwrap(),
            plain[0].to_vec::<f32>().unwrap()
        );
    }

    /// A function is shared by calls inside and outside of a kernel, and holds a loop itself.
    #[test]
    fn functions_with_loops_are_shared_only_outside_of_kernels() {
        check(
            |x| {
                let looped = jit(|x: Array| fori(3, |c| sin(c), &x));
                vec![fori(3, |c| looped.apply(c), &x[0]), looped.apply(&x[0])]
            },
            &vec![floats([1.0, 2.0])],
        );
    }

    #[test]
    fn reasons_name_the_operation_the_numbers_and_the_line() {
        let inputs = vec![floats([1.0, 2.0]), ones([64, 64]), ones([128, 128]), zeros([0])];
        let sorts = reason(|x| vec![fori(5, |c| sort(c, 0), &x[0])], &inputs);
        assert!(
            sorts.starts_with("sort calls a library at ") && sorts.contains(file!()),
            "{sorts}"
        );
        let product = reason(|x| vec![fori(5, |c| c.matmul(c), &x[1])], &inputs);
        assert!(
            product.starts_with(
                "a product of [64,64] and [64,64] has 262144 multiplications, more than 4096 at "
            ),
            "{product}"
        );
        let large = reason(|x| vec![fori(5, |c| c + 1.0, &x[2])], &inputs);
        assert!(large.starts_with("add moves 196608 bytes, more than 65536"), "{large}");
        let mean = reason(|x| vec![fori(5, |c| c.t() * 0.5, &x[1])], &inputs);
        assert!(mean.starts_with("its operations move "), "{mean}");
        assert!(mean.ends_with(" bytes on average, more than 8192"), "{mean}");
        let prints = |x: Arrays| {
            let step = |c: &Array| {
                debug_print!("{}", c);
                c + 1.0
            };
            vec![fori(5, step, &x[0])]
        };
        assert!(reason(prints, &inputs).contains("side effects"), "{}", reason(prints, &inputs));
        let empty = reason(|x| vec![fori(5, |c| c + 1.0, &x[3])], &inputs);
        assert!(empty.contains("f32[0], which has no elements"), "{empty}");
        let scope =
            disable_loop_kernels(|| reason(|x| vec![fori(5, |c| sort(c, 0), &x[0])], &inputs));
        assert_eq!(scope, "`disable_loop_kernels`");
    }

    #[test]
    fn products_of_matrices_stay_out_where_the_program_needs_the_library() {
        let inputs = vec![ones([16, 16]), ones([64, 64])];
        let small: fn(Arrays) -> Arrays = |x| vec![fori(5, |c| c.matmul(c) * 0.1, &x[0])];
        assert_eq!(loops(small, &inputs)[0].form, LoopForm::Kernel);
        let with_large =
            |x: Arrays| vec![fori(5, |c| c.matmul(c) * 0.1, &x[0]), x[1].matmul(&x[1])];
        assert!(reason(with_large, &inputs).contains("large products"));
        // Products of fewer multiplications are sums.
        let smaller = |x: Arrays| {
            let y = fori(5, |c| c.matmul(c) * 0.1, &x[0].index(i![..8, ..8]));
            vec![y, x[1].matmul(&x[1])]
        };
        assert_eq!(loops(smaller, &inputs)[0].form, LoopForm::Kernel);
        // A product with a vector never runs in the library.
        let vector = |x: Arrays| {
            let y = fori(5, |c| x[0].matmul(c), &x[0].index(i![0]));
            vec![y, x[1].matmul(&x[1])]
        };
        assert_eq!(loops(vector, &inputs)[0].form, LoopForm::Kernel);
    }

    #[test]
    fn products_with_vectors_of_two_elements_are_sums() {
        let products_of = |n: usize| {
            let f = jit(|x: Arrays| {
                let step = |v: Array, ()| {
                    let wide = sin(v.matmul(&x[0]));
                    (x[0].matmul(&wide), wide)
                };
                scan(step, x[1].clone(), 5).1
            });
            let matrix: Vec<f32> = (0..n * 9).map(|i| (i as f32 * 0.7).cos()).collect();
            let vector: Vec<f32> = (0..n).map(|i| i as f32 - 0.5).collect();
            let inputs = vec![
                Array::from_slice(&matrix, [n, 9]).unwrap(),
                Array::from_slice(&vector, [n]).unwrap(),
            ];
            let lowered = f.lower(&inputs).unwrap();
            assert_eq!(lowered.loops().unwrap()[0].form, LoopForm::Kernel);
            let kernel = f.call(&inputs).unwrap().to_vec::<f32>().unwrap();
            let plain = disable_loop_kernels(|| f.call(&inputs)).unwrap().to_vec::<f32>().unwrap();
            for (kernel, plain) in kernel.iter().zip(&plain) {
                assert!((kernel - plain).abs() < 1e-5, "{kernel} is not {plain}");
            }
            lowered.as_text("cpu").unwrap().matches("dot_general").count()
        };
        // The vector times the matrix is a sum. The matrix times the vector of nine is a product.
        assert_eq!((products_of(2), products_of(3)), (1, 2));
    }

    /// Every arrangement of batch, free and contracted axes, as a sum in a kernel.
    #[test]
    fn products_in_kernels_equal_those_of_the_library() {
        let x = Array::from_slice(&(0..24).map(|n| n as f32 - 9.0).collect::<Vec<_>>(), [2, 3, 4]);
        let inputs = vec![x.unwrap()];
        let f = jit(|x: Arrays| {
            let step = |x: Array, ()| {
                let products = ["abc,abd->acd", "abc,dbc->ad", "abc,abd->dbc", "abc,dec->adbe"]
                    .map(|of| einsum(of, [&x, &x]));
                (x, Vec::from(products))
            };
            scan(step, x[0].clone(), 3).1
        });
        let loops = f.lower(&inputs).unwrap().loops().unwrap();
        assert_eq!(loops[0].form, LoopForm::Kernel, "{}", loops[0]);
        let text = f.lower(&inputs).unwrap().as_text("cpu").unwrap();
        assert!(!text.contains("dot_general"), "{text}");
        let plain = disable_loop_kernels(|| f.call(&inputs)).unwrap();
        for (kernel, plain) in f.call(&inputs).unwrap().iter().zip(&plain) {
            assert_eq!(kernel.to_vec::<f32>().unwrap(), plain.to_vec::<f32>().unwrap());
        }
    }

    /// An operation that kernels lack, and that does not say so.
    #[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
    struct Sorted;

    impl Primitive for Sorted {
        fn name(&self) -> &'static str {
            "test_sorted"
        }
        fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
            Ok(operands.to_vec())
        }
        fn jvp(&self, _: &[Array], _: &[oxidax::core::Tangent]) -> JvpResult {
            unreachable!("not differentiated")
        }
        fn batch(&self, _: &[Array], _: &[Option<usize>], _: &BatchAxis) -> RuleResult<Batched> {
            unreachable!("not batched")
        }
        fn lower(
            &self,
            ctx: &mut LowerCtx<'_>,
            operands: &[Value],
            _: &[Aval],
        ) -> RuleResult<Vec<Value>> {
            let scalar = operands[0].ty().scalar();
            let region = ctx.region(&[scalar.clone(), scalar.clone()], |w, pair| {
                let less = "comparison_direction = #stablehlo<comparison_direction LT>, \
                            compare_type = #stablehlo<comparison_type FLOAT>";
                Ok(vec![w.op_as("compare", pair, less, &scalar.with_element("i1"))])
            })?;
            let attributes = "dimension = 0 : i64, is_stable = true";
            let types = [operands[0].ty().clone()];
            Ok(ctx.op_full("sort", operands, attributes, vec![region], &types))
        }
        fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
            Cost::whole(operands, results)
        }
    }

    #[test]
    fn a_refused_kernel_is_compiled_again_without_kernels_and_remembered() {
        let sorted: fn(Arrays) -> Arrays =
            |x| vec![fori(3, |c| bind1(Sorted, [&(c * -1.0)]), &x[0])];
        let inputs = vec![floats([1.0, 3.0, 2.0])];
        assert_eq!(loops(sorted, &inputs)[0].form, LoopForm::Kernel);
        let f = jit(sorted);
        let y = f.call(&inputs).unwrap();
        assert_eq!(y[0].to_vec::<f32>().unwrap(), [-3.0, -2.0, -1.0]);
        assert_eq!(reason(sorted, &inputs), "the compiler refused a kernel of the program");
    }

    #[test]
    fn gradients_of_loops_are_kernels_in_both_directions() {
        let gradient: fn(Arrays) -> Arrays = |x| {
            let loss = |w: &Array| fori(20, |c| tanh(&(c * w)), &x[0]).sum();
            vec![grad(loss)(&x[1])]
        };
        let inputs = vec![floats([0.5, 1.0]), floats([0.9, 1.1])];
        check(gradient, &inputs);
        let reports = loops(gradient, &inputs);
        assert_eq!(reports.len(), 2, "{reports:?}");
        assert!(reports.iter().all(|report| report.form == LoopForm::Kernel), "{reports:?}");
    }
}
