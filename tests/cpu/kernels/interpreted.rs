//! Correct kernels in the interpreter, compared with functions of `f64`.

use oxidax::kernel::{self, BlockSpec, CheckOptions, Grid, Kernel, Output, Ref, Scratch, ds};
use oxidax::kernel::{ds_strided, program_id};
use oxidax::prelude::*;

const F32: DType = DType::F32;

/// Blocks of 8 rows of an array `[n, 128]`.
fn rows() -> BlockSpec {
    BlockSpec::new([8, 128], |[i]| (i, 0))
}

/// A kernel of one input and one output, both of `[32, 128]`, over four blocks of rows.
fn map_rows(body: impl Fn([Ref; 2]) + Send + Sync + 'static) -> Kernel {
    kernel::call(body, Grid::new([4]), [rows()], [Output::new(F32, [32, 128], rows())])
}

/// A product of ragged matrices, with masks along the axis of the sum.
fn matmul_kernel(m: usize, k: usize, n: usize) -> Kernel {
    let size = 32;
    kernel::call(
        move |[a, b, product, sum]: [Ref; 4]| {
            let step = program_id(2);
            let position = &step * size as i32 + arange(size as i32);
            let is_inside = lt(position, k as i32);
            kernel::when(eq(&step, 0), || sum.store(0.0));
            let a = where_(is_inside.reshape([1, size]), a.load(), 0.0);
            let b = where_(is_inside.reshape([size, 1]), b.load(), 0.0);
            sum.add_assign(a.matmul(&b));
            let is_last = eq(&step, kernel::num_programs(2) as i32 - 1);
            kernel::when(is_last, || product.store(sum.load()));
        },
        Grid::new([m.div_ceil(size), n.div_ceil(size), k.div_ceil(size)]).sequential(1),
        [
            BlockSpec::new([size, size], |[i, _, k]| (i, k)),
            BlockSpec::new([size, size], |[_, j, k]| (k, j)),
        ],
        [Output::new(F32, [m, n], BlockSpec::new([size, size], |[i, j, _]| (i, j)))],
    )
    .scratch([Scratch::vmem(F32, [size, size])])
    .targets([])
}

/// Softmax of rows of a length that is not a multiple of the block's.
fn softmax_kernel(n: usize, length: usize) -> Kernel {
    let rows = move || BlockSpec::new([8, 128], |[i]| (i, 0));
    kernel::call(
        move |[x, y]: [Ref; 2]| {
            let is_inside = lt(arange(128), length as i32).reshape([1, 128]);
            let x = x.at((.., ..)).load_masked(&is_inside, f64::NEG_INFINITY);
            let e = exp(&x - x.max_axes(axes(1).keepdims()));
            y.store(&e / e.sum_axes(axes(1).keepdims()));
        },
        Grid::new([n.div_ceil(8)]),
        [rows()],
        [Output::new(F32, [n, length], rows())],
    )
}

mod on_cpu {
    use super::*;

    fn x(seed: i64) -> Array {
        random::normal(random::key(seed), [32, 128])
    }

    /// Checks a kernel against a reference, and against the kernel that is compiled.
    #[track_caller]
    fn expect_correct(
        kernel: &Kernel,
        operands: &[&Array],
        reference: impl FnOnce(&[Array]) -> Vec<Array>,
    ) {
        // Rules of compilers are not the subject.
        let kernel = kernel.clone().targets([]);
        let options = CheckOptions { rtol: 1e-4, atol: 1e-4 };
        let checked = match kernel::check(&kernel, operands, reference, options) {
            Ok(checked) => checked,
            Err(error) => panic!("{error}"),
        };
        let compiled = kernel.apply_list(operands);
        assert_eq!(checked.len(), compiled.len());
        for (x, y) in checked.iter().zip(&compiled) {
            let difference = (x.astype(F32) - y.astype(F32)).abs().max().item::<f32>().unwrap();
            assert!(difference < 1e-4, "{difference}");
        }
    }

    #[test]
    fn sums_of_blocks() {
        let kernel = kernel::call(
            |[x, y, sum]: [Ref; 3]| sum.store(x.load() + y.load()),
            Grid::new([4]),
            [rows(), rows()],
            [Output::new(F32, [32, 128], rows())],
        );
        expect_correct(&kernel, &[&x(0), &x(1)], |x| vec![&x[0] + &x[1]]);
    }

    #[test]
    fn products_of_ragged_matrices() {
        let a = random::normal(random::key(0), [50, 70]);
        let b = random::normal(random::key(1), [70, 40]);
        let kernel = matmul_kernel(50, 70, 40);
        expect_correct(&kernel, &[&a, &b], |x| vec![x[0].matmul(&x[1])]);
    }

    #[test]
    fn softmax_of_ragged_rows() {
        let x = random::normal(random::key(0), [20, 100]);
        expect_correct(&softmax_kernel(20, 100), &[&x], |x| vec![softmax(&x[0], -1)]);
    }

    #[test]
    fn blocks_that_a_prefetched_operand_selects() {
        let kernel = kernel::call(
            |[_table, x, y]: [Ref; 3]| y.store(x.load() * 2.0),
            Grid::new([4]),
            [BlockSpec::prefetched([8, 128], |[i], [table]| (table.at((i,)).load(), 0))],
            [Output::new(F32, [32, 128], rows())],
        )
        .prefetch(1);
        let table = Array::from_slice(&[3i32, 0, 2, 2], [4]).unwrap();
        let reference = |x: &[Array]| {
            let blocks = x[1].reshape([4, 8, 128]).index(i![&x[0]]);
            vec![blocks.reshape([32, 128]) * 2.0]
        };
        expect_correct(&kernel, &[&table, &x(0)], reference);
    }

    #[test]
    fn loops_of_loads_and_stores() {
        let kernel = map_rows(|[x, y]| {
            let step = |i: Array, ()| {
                let row = x.at((ds(&i, 1), ..)).load();
                y.at((ds(7 - &i, 1), ..)).store(row);
            };
            kernel::fori_loop(0, 8, step, ());
        });
        let reference =
            |x: &[Array]| vec![rev(&x[0].reshape([4, 8, 128]), &[1]).reshape([32, 128])];
        expect_correct(&kernel, &[&x(0)], reference);
    }

    #[test]
    fn loops_whose_end_the_kernel_computes() {
        let kernel = map_rows(|[x, y]| {
            y.store(0.0);
            // Program i copies 2 i rows.
            let end = program_id(0) * 2;
            let step = |i: Array| {
                y.at((ds(&i, 1), ..)).store(x.at((ds(&i, 1), ..)).load());
                i + 1
            };
            kernel::while_loop(|i: Array| lt(i, &end), step, zeros(Aval::new(DType::I32, [])));
        });
        let reference = |x: &[Array]| {
            let row = arange(32);
            let is_copied = lt(remainder(&row, 8), floor_divide(&row, 8) * 2).reshape([32, 1]);
            vec![where_(is_copied, &x[0], 0.0)]
        };
        expect_correct(&kernel, &[&x(0)], reference);
    }

    #[test]
    fn scans_that_read_references() {
        let kernel = map_rows(|[x, y]| {
            let block = x.load();
            let step = |sum: Array, row: Array| {
                let sum = sum + row + x.at((0, ..)).load() * 0.0;
                (sum.clone(), sum)
            };
            let (_, sums) = scan(step, zeros([128]), &block);
            y.store(sums);
        });
        let reference =
            |x: &[Array]| vec![cumsum(&x[0].reshape([4, 8, 128]), 1).reshape([32, 128])];
        expect_correct(&kernel, &[&x(0)], reference);
    }

    #[test]
    fn strided_and_single_rows() {
        let kernel = map_rows(|[x, y]| {
            y.at((ds_strided(0, 4, 2), ..)).store(x.at((ds_strided(1, 4, 2), ..)).load());
            y.at((ds_strided(1, 4, 2), ..)).store(x.at((ds_strided(0, 4, 2), ..)).load());
            y.at((0, ..)).store(x.at((1, ..)).load());
        });
        let reference =
            |x: &[Array]| vec![rev(&x[0].reshape([16, 2, 128]), &[1]).reshape([32, 128])];
        expect_correct(&kernel, &[&x(0)], reference);
    }

    #[test]
    fn an_output_in_the_memory_of_an_input() {
        let kernel = map_rows(|[x, y]| y.store(x.load() + 1.0)).alias(0, 0);
        expect_correct(&kernel, &[&x(0)], |x| vec![&x[0] + 1.0]);
        // Elements that are not written are those of the input.
        let kernel = map_rows(|[x, y]| {
            let first = x.at((0..4, ..)).load();
            y.at((0..4, ..)).store(first * 2.0);
        })
        .alias(0, 0);
        let reference = |x: &[Array]| {
            let is_first = lt(remainder(arange(32), 8), 4).reshape([32, 1]);
            vec![where_(is_first, &x[0] * 2.0, &x[0])]
        };
        expect_correct(&kernel, &[&x(0)], reference);
    }

    #[test]
    fn accumulators_in_blocks_of_outputs() {
        let kernel = kernel::call(
            |[x, sum, count]: [Ref; 3]| {
                kernel::when(eq(program_id(1), 0), || {
                    sum.store(0.0);
                    count.store(0);
                });
                sum.add_assign(x.load());
                count.add_assign(gt(x.load(), 0.0).astype(DType::I32));
            },
            Grid::new([2, 3]).sequential(1),
            [BlockSpec::new([8, 128], |[i, k]| (k, i))],
            [
                Output::new(F32, [8, 256], BlockSpec::new([8, 128], |[i, _k]| (0, i))),
                Output::new(DType::I32, [8, 256], BlockSpec::new([8, 128], |[i, _k]| (0, i))),
            ],
        );
        let x = random::normal(random::key(0), [24, 256]);
        let reference = |x: &[Array]| {
            let x = x[0].reshape([3, 8, 256]);
            vec![x.sum_axes(0), gt(&x, 0.0).astype(DType::I32).sum_axes(0)]
        };
        expect_correct(&kernel, &[&x], reference);
    }

    #[test]
    fn rows_beyond_the_end_may_be_read_if_no_output_depends_on_them() {
        let kernel = kernel::call(
            |[x, y]: [Ref; 2]| y.store(x.load() * 2.0),
            Grid::new([3]),
            [rows()],
            [Output::new(DType::BF16, [20, 128], rows())],
        );
        let x = random::normal(random::key(0), [20, 128]).astype(DType::BF16);
        expect_correct(&kernel, &[&x], |x| vec![&x[0] * 2.0]);
    }

    #[test]
    fn a_grid_without_axes() {
        let kernel = kernel::call(
            |[x, y]: [Ref; 2]| y.store(x.load() * 2.0),
            Grid::new([]),
            [BlockSpec::whole()],
            [Output::new(F32, [32, 128], BlockSpec::whole())],
        );
        expect_correct(&kernel, &[&x(0)], |x| vec![&x[0] * 2.0]);
    }

    #[test]
    fn a_reference_of_another_shape_is_refused() {
        let kernel = map_rows(|[x, y]| y.store(x.load()));
        let options = CheckOptions::default();
        let error = kernel::check(&kernel, &[&x(0)], |x| vec![x[0].sum()], options).unwrap_err();
        assert!(error.to_string().contains("output 0 is f32[32,128], the reference f64[]"));
    }
}
