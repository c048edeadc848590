//! Kernels for GPUs, whose Triton IR runs in an evaluator here, against the loop over their grids.

mod machine;

mod on_cpu {
    use super::machine::Machine;
    use oxidax::core::DType::{BF16, F32, I8, I32};
    use oxidax::kernel::{self, BlockSpec, Grid, Kernel, KernelTarget, Output, Ref, Scratch, ds};
    use oxidax::prelude::*;
    use oxidax::primitives::{
        DotGeneral, argmax, broadcasted_iota, concatenate, cumsum, dot_general, erf, expm1, log1p,
        pow, rev, round,
    };

    /// Returns the Triton IR of the only kernel of a module, and the number of its programs.
    fn triton_ir(module: &str) -> (String, usize) {
        let escaped = module.split("ir = \"").nth(1).unwrap().split('"').next().unwrap();
        let mut parts = escaped.split('\\');
        let mut text = parts.next().unwrap().to_string();
        for part in parts {
            text.push(char::from(u8::from_str_radix(&part[..2], 16).unwrap()));
            text.push_str(&part[2..]);
        }
        let count = module.split("grid_x = ").nth(1).unwrap().split(' ').next().unwrap();
        (text, count.parse().unwrap())
    }

    fn host(x: &Array) -> Vec<f64> {
        x.astype(DType::F64).to_vec().unwrap()
    }

    /// Compares the output of a kernel for GPUs with that of the loop on the CPU.
    fn check(kernel: fn() -> Kernel, operands: &[Array]) {
        let avals: Vec<Aval> = operands.iter().map(|x| x.aval().clone()).collect();
        let lowered = match &avals[..] {
            [x] => {
                let run = jit(move |x: Array| kernel().apply1(&[&x]));
                run.lower(x.clone()).unwrap().as_text("cuda")
            }
            [x, y] => {
                let run = jit(move |x: Array, y: Array| kernel().apply1(&[&x, &y]));
                run.lower(x.clone(), y.clone()).unwrap().as_text("cuda")
            }
            [x, y, z] => {
                let run = jit(move |x: Array, y: Array, z: Array| kernel().apply1(&[&x, &y, &z]));
                run.lower(x.clone(), y.clone(), z.clone()).unwrap().as_text("cuda")
            }
            _ => panic!("{} operands", avals.len()),
        };
        let (text, n_programs) = triton_ir(&lowered.unwrap());
        let references: Vec<&Array> = operands.iter().collect();
        let expected = host(&kernel().apply1(&references));
        let mut arrays: Vec<Vec<f64>> = operands.iter().map(host).collect();
        arrays.push(vec![f64::NAN; expected.len()]);
        // Scratch memory that is written in parts is in main memory, for each program.
        for scratch in &kernel().trace(&references).scratch {
            let padded = scratch.aval().shape.iter().map(|size| size.next_power_of_two());
            arrays.push(vec![f64::NAN; n_programs * padded.product::<usize>()]);
        }
        let computed = Machine::run(&text, n_programs, arrays).swap_remove(operands.len());
        let largest = expected.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
        for (index, (x, y)) in computed.iter().zip(&expected).enumerate() {
            assert!((x - y).abs() <= 1e-2 * largest, "element {index}: {x}, expected {y}");
        }
    }

    fn normal<const N: usize>(seed: i64, dtype: DType, shape: [usize; N]) -> Array {
        random::normal(random::key(seed), shape).astype(dtype)
    }

    fn rows() -> BlockSpec {
        BlockSpec::new([8, 128], |[i]| (i, 0))
    }

    fn output(spec: BlockSpec) -> [Output; 1] {
        [Output::new(F32, [32, 128], spec)]
    }

    /// A product of matrices with a sequential axis, in blocks that the arrays end within.
    fn product<const M: usize, const N: usize, const K: usize>(out: DType) -> Kernel {
        kernel::call(
            move |[a, b, o, sum]: [Ref; 4]| {
                let k = kernel::program_id(2);
                kernel::when(eq(&k, 0), || sum.store(0.0));
                let how = DotGeneral {
                    lhs_contracting: vec![1],
                    rhs_contracting: vec![0],
                    preferred_element_type: Some(out),
                    ..DotGeneral::default()
                };
                sum.add_assign(dot_general(&a.load(), &b.load(), how));
                let last = kernel::num_programs(2) as i32 - 1;
                kernel::when(eq(&k, last), || o.store(sum.load()));
            },
            Grid::new([50usize.div_ceil(M), 60usize.div_ceil(N), 80 / K]).sequential(1),
            [
                BlockSpec::new([M, K], |[i, _, k]| (i, k)),
                BlockSpec::new([K, N], |[_, j, k]| (k, j)),
            ],
            [Output::new(out, [50, 60], BlockSpec::new([M, N], |[i, j, _]| (i, j)))],
        )
        .scratch([Scratch::vmem(out, [M, N])])
        .targets([KernelTarget::Gpu])
    }

    #[test]
    fn products_of_odd_blocks() {
        let bf16 = [normal(0, BF16, [50, 80]), normal(1, BF16, [80, 60])];
        check(|| product::<24, 20, 40>(F32), &bf16);
        check(|| product::<5, 20, 8>(F32), &bf16);
        check(|| product::<8, 3, 80>(F32), &bf16);
        let i8 = [0, 1].map(|seed| random::normal(random::key(seed), [80, 80]) * 5.0);
        let i8 = [i8[0].index(i![..50, ..]).astype(I8), i8[1].index(i![.., ..60]).astype(I8)];
        check(|| product::<24, 20, 40>(I32), &i8);
    }

    #[test]
    fn row_statistics_ignore_padding() {
        let norm = || {
            kernel::call(
                |[x, o]: [Ref; 2]| {
                    let x = x.load();
                    let centered = &x - x.mean_axes(axes(1).keepdims());
                    let scale = square(&centered).mean_axes(axes(1).keepdims());
                    let best = argmax(&x, 1).astype(F32).reshape([4, 1]);
                    o.store(softmax(centered * rsqrt(&(scale + 1e-5)), [1]) * 100.0 + best);
                },
                Grid::new([8]),
                [BlockSpec::new([4, 100], |[i]| (i, 0))],
                [Output::new(F32, [30, 100], BlockSpec::new([4, 100], |[i]| (i, 0)))],
            )
            .targets([KernelTarget::Gpu])
        };
        check(norm, &[normal(0, F32, [30, 100])]);
    }

    #[test]
    fn attention_with_running_statistics() {
        let attention = || {
            let block = |of: usize| {
                BlockSpec::new([None, Some(16), Some(32)], move |[h, i, j]| {
                    (h, if of == 0 { i } else { j }, 0)
                })
            };
            let how = |axis: usize| DotGeneral {
                lhs_contracting: vec![1],
                rhs_contracting: vec![axis],
                ..DotGeneral::default()
            };
            kernel::call(
                move |[q, k, v, o, m, l, sum]: [Ref; 7]| {
                    let (i, j) = (kernel::program_id(1), kernel::program_id(2));
                    kernel::when(eq(&j, 0), || {
                        m.store(-1e30);
                        l.store(0.0);
                        sum.store(0.0);
                    });
                    kernel::when(le(&j, &i), || {
                        let scores = dot_general(&q.load(), &k.load(), how(1));
                        let rows = broadcasted_iota(I32, [16, 16], 0) + &i * 16;
                        let columns = broadcasted_iota(I32, [16, 16], 1) + &j * 16;
                        let scores = where_(ge(&rows, &columns), &scores, -1e30f32);
                        let old = m.load();
                        let new = maximum(&old, scores.max_axes(axes(1).keepdims()));
                        let (p, decay) = (exp(&(scores - &new)), exp(&(old - &new)));
                        l.store(l.load() * &decay + p.sum_axes(axes(1).keepdims()));
                        sum.store(sum.load() * &decay + dot_general(&p, &v.load(), how(0)));
                        m.store(new);
                    });
                    kernel::when(eq(&j, 2), || o.store(sum.load() / l.load()));
                },
                Grid::new([2, 3, 3]).sequential(1),
                [block(0), block(1), block(1)],
                [Output::new(F32, [2, 48, 32], block(0))],
            )
            .scratch([
                Scratch::vmem(F32, [16, 1]),
                Scratch::vmem(F32, [16, 1]),
                Scratch::vmem(F32, [16, 32]),
            ])
            .targets([KernelTarget::Gpu])
        };
        check(attention, &[0, 1, 2].map(|seed| normal(seed, F32, [2, 48, 32])));
    }

    #[test]
    fn parts_of_references() {
        let reversed = || {
            kernel::call(
                |[x, o]: [Ref; 2]| {
                    o.store(0.0);
                    kernel::fori_loop(
                        0,
                        8,
                        |i: Array, ()| {
                            let row = x.at((ds(&i, 1), ..)).load();
                            o.at((ds(7 - &i, 1), ..)).store(row);
                        },
                        (),
                    );
                },
                Grid::new([4]),
                [rows()],
                output(rows()),
            )
        };
        check(reversed, &[normal(0, F32, [32, 128])]);
        let scratch = || {
            kernel::call(
                |[x, o, part]: [Ref; 3]| {
                    part.store(0.0);
                    kernel::fori_loop(
                        0,
                        8,
                        |i: Array, ()| {
                            part.at((&i, ds(0, 48))).store(x.at((&i, ds(64, 48))).load());
                        },
                        (),
                    );
                    part.at((ds(2, 2), ..)).store(1.0);
                    o.store(part.load() + part.at((3, ..)).load());
                },
                Grid::new([4]),
                [rows()],
                output(rows()),
            )
            .scratch([Scratch::vmem(F32, [8, 128])])
            .targets([KernelTarget::Gpu])
        };
        check(scratch, &[normal(0, F32, [32, 128])]);
    }

    #[test]
    fn prefetched_operands_choose_blocks() {
        let gather = || {
            kernel::call(
                |[_index, x, o]: [Ref; 3]| o.store(x.load() * 2.0),
                Grid::new([4]),
                [BlockSpec::prefetched([8, 128], |[i], [index]| (index.at((i,)).load(), 0))],
                output(rows()),
            )
            .prefetch(1)
        };
        let index = Array::from_slice(&[3i32, 0, 2, 2], [4]).unwrap();
        check(gather, &[index, normal(0, F32, [32, 128])]);
    }

    #[test]
    fn sequential_programs_share_an_output() {
        let total = || {
            kernel::call(
                |[x, o]: [Ref; 2]| {
                    kernel::when(eq(kernel::program_id(0), 0), || o.store(0.0));
                    o.add_assign(x.load().sum_axes(axes(0).keepdims()));
                },
                Grid::new([4]).sequential(1),
                [rows()],
                [Output::new(F32, [1, 128], BlockSpec::whole())],
            )
        };
        check(total, &[normal(0, F32, [32, 128])]);
    }

    #[test]
    fn elements_move_within_values() {
        let moved = || {
            kernel::call(
                |[x, o]: [Ref; 2]| {
                    let x = x.load();
                    let twice = transpose(&concatenate([&x, &x], 1), &[1, 0]);
                    let halves = rev(&twice.reshape([100, 2, 4]), &[0]).sum_axes([1]);
                    let middle = transpose(&halves, &[1, 0]).index(i![.., 25..75]);
                    o.store(cumsum(&concatenate([&middle, &middle], 0), 1));
                },
                Grid::new([4]),
                [BlockSpec::new([8, 50], |[i]| (i, 0))],
                [Output::new(F32, [32, 50], BlockSpec::new([8, 50], |[i]| (i, 0)))],
            )
            .targets([KernelTarget::Gpu])
        };
        check(moved, &[normal(0, F32, [32, 50])]);
    }

    #[test]
    fn functions_of_elements() {
        let functions = || {
            kernel::call(
                |[x, o]: [Ref; 2]| {
                    let x = x.load();
                    let bounded = tanh(&x) + erf(&x) + logistic(&x) + sin(&x) + round(&x);
                    o.store(bounded + log1p(abs(&x)) + expm1(&x) + pow(abs(&x), &x));
                },
                Grid::new([4]),
                [rows()],
                output(rows()),
            )
        };
        check(functions, &[normal(0, F32, [32, 128])]);
        let integers = || {
            kernel::call(
                |[x, y, o]: [Ref; 3]| {
                    let (x, y) = (x.load(), y.load());
                    o.store(
                        floor_divide(&x, &y)
                            + (&x ^ &y)
                            + maximum(&x, &y)
                            + where_(lt(&x, &y), &x, 7),
                    );
                },
                Grid::new([4]),
                [rows(), rows()],
                [Output::new(I32, [32, 128], rows())],
            )
        };
        let [x, y] = [0, 1].map(|seed| (normal(seed, F32, [32, 128]) * 5.0).astype(I32));
        check(integers, &[x, y]);
    }

    #[test]
    fn unknown_operations_are_refused_at_their_line() {
        let sorted = jit(|x: Array| {
            let body = |[x, o]: [Ref; 2]| o.store(oxidax::primitives::sort(&x.load(), 1));
            let sort = kernel::call(body, Grid::new([4]), [rows()], output(rows()));
            sort.targets([KernelTarget::Gpu]).apply1(&[&x])
        });
        let lowered = sorted.lower(Aval::new(F32, [32, 128])).unwrap();
        let error = lowered.as_text("cuda").unwrap_err().to_string();
        assert!(error.contains("do not have the operation `sort` on f32[8,128]"), "{error}");
        assert!(error.contains(file!()) && error.contains("Kernel::interpret"), "{error}");
    }
}
