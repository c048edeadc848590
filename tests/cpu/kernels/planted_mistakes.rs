//! Kernels with one planted mistake each: the interpreter must find it, at the marked line. The
//! rules of compilers, which find some of them while tracing, are turned off.

use oxidax::kernel::{
    self, BlockSpec, CheckOptions, DimensionSemantics, Grid, Kernel, KernelTarget, Output, Ref,
    Scratch, ds,
};
use oxidax::prelude::*;

const F32: DType = DType::F32;

/// Blocks of 8 rows of an array `[n, 128]`.
fn rows() -> BlockSpec {
    BlockSpec::new([8, 128], |[i]| (i, 0))
}

/// An output of `[32, 128]`.
fn output(spec: BlockSpec) -> [Output; 1] {
    [Output::new(F32, [32, 128], spec)]
}

/// A kernel of one input and one output, both of `[32, 128]`, over four blocks of rows.
fn map_rows(body: impl Fn([Ref; 2]) + Send + Sync + 'static) -> Kernel {
    kernel::call(body, Grid::new([4]), [rows()], output(rows())).name("planted").targets([])
}

/// A kernel that reduces an input `[8, 512]` to `[8, 128]`, in four sequential steps, with scratch
/// memory of the size of a block.
fn reduction(body: impl Fn([Ref; 3]) + Send + Sync + 'static) -> Kernel {
    kernel::call(
        body,
        Grid::new([4]).sequential(1),
        [BlockSpec::new([8, 128], |[k]| (0, k))],
        [Output::new(F32, [8, 128], BlockSpec::new([8, 128], |[_k]| (0, 0)))],
    )
    .name("planted")
    .targets([])
    .scratch([Scratch::vmem(F32, [8, 128])])
}

fn is_first() -> Array {
    eq(kernel::program_id(0), 0)
}

fn is_last() -> Array {
    eq(kernel::program_id(0), kernel::num_programs(0) as i32 - 1)
}

/// The number of the line that the comment `// planted: NAME` ends.
#[track_caller]
fn planted_line(name: &str) -> usize {
    let comment = format!("// planted: {name}");
    let lines = include_str!("planted_mistakes.rs").lines();
    let found: Vec<usize> =
        lines.zip(1..).filter(|(text, _)| text.ends_with(&comment)).map(|(_, line)| line).collect();
    assert_eq!(found.len(), 1, "one line ends with `{comment}`");
    found[0]
}

/// Checks the first line of an error, and that it names the line of the mistake.
#[track_caller]
fn expect_error(outcome: Result<Vec<Array>, oxidax::Error>, name: &str, message: &str) {
    let error = outcome.expect_err("the mistake is found").to_string();
    let expected = format!("error[value]: kernel `planted`: {message}");
    assert_eq!(error.lines().next(), Some(&*expected), "{error}");
    let location = format!("planted_mistakes.rs:{}:", planted_line(name));
    assert!(error.contains(&location), "{location} expected, got\n{error}");
    assert!(error.contains("help: "), "{error}");
}

/// Runs a kernel that has a mistake of memory accesses.
#[track_caller]
fn expect_mistake(kernel: &Kernel, operands: &[&Array], name: &str, message: &str) {
    expect_error(kernel.run_checked(operands), name, message);
}

/// Runs a kernel that computes wrong numbers.
#[track_caller]
fn expect_wrong(
    kernel: &Kernel,
    operands: &[&Array],
    reference: impl FnOnce(&[Array]) -> Vec<Array>,
    name: &str,
    message: &str,
) {
    let options = CheckOptions::default();
    expect_error(kernel::check(kernel, operands, reference, options), name, message);
}

mod on_cpu {
    use super::*;

    fn x() -> Array {
        ones([32, 128])
    }

    // Races between parallel programs.

    #[test]
    fn programs_write_one_block() {
        let kernel = kernel::call(
            |[x, y]: [Ref; 2]| y.store(x.load()), // planted: one block
            Grid::new([4]),
            [rows()],
            [Output::new(F32, [8, 128], BlockSpec::new([8, 128], |[_i]| (0, 0)))],
        )
        .name("planted")
        .targets([]);
        let message = "programs [2] and [1] write output 0 at [0, 0], and run in parallel";
        expect_mistake(&kernel, &[&x()], "one block", message);
    }

    #[test]
    fn a_sum_over_a_parallel_axis() {
        let kernel = kernel::call(
            |[x, y]: [Ref; 2]| {
                kernel::when(is_first(), || y.store(0.0));
                y.add_assign(x.load().sum_axes(axes(0).keepdims())); // planted: sum
            },
            Grid::new([4]),
            [rows()],
            [Output::new(F32, [1, 128], BlockSpec::whole())],
        )
        .name("planted")
        .targets([]);
        let message = "program [2] reads output 0 at [0, 0], which is not initialized";
        expect_mistake(&kernel, &[&x()], "sum", message);
    }

    #[test]
    fn a_block_of_rows_is_written_by_its_neighbor_too() {
        let kernel = kernel::call(
            |[x, y]: [Ref; 2]| {
                let first = kernel::program_id(0) * 8;
                // 9 rows, of which the last one belongs to the next program.
                y.at((ds(&first, 9), ..)).store(x.at((ds(first, 9), ..)).load()); // planted: rows
            },
            Grid::new([3]),
            [BlockSpec::whole()],
            [Output::new(F32, [32, 128], BlockSpec::whole())],
        )
        .name("planted")
        .targets([]);
        let message = "programs [2] and [1] write output 0 at [16, 0], and run in parallel";
        expect_mistake(&kernel, &[&x()], "rows", message);
    }

    #[test]
    fn parallel_programs_store_rows_of_one_block_of_a_tpu() {
        let halves = BlockSpec::new([16, 128], |[i]| (floor_divide(i, 2), 0)); // planted: halves
        let kernel = kernel::call(
            |[x, y]: [Ref; 2]| {
                let first = remainder(kernel::program_id(0), 2) * 8;
                y.at((ds(first, 8), ..)).store(x.load());
            },
            Grid::new([4]),
            [rows()],
            output(halves),
        )
        .name("planted")
        .targets([KernelTarget::Tpu]);
        let message = "programs [1] and [0] share block [0, 0] of output 0, and run in parallel";
        expect_mistake(&kernel, &[&x()], "halves", message);
        kernel.targets([]).run_checked(&[&x()]).unwrap();
    }

    // Memory that an input and an output share.

    #[test]
    fn an_input_is_read_that_a_parallel_program_writes() {
        let next = BlockSpec::new([8, 128], |[i]| (minimum(i + 1, 3), 0));
        let kernel = kernel::call(
            |[x, next, y]: [Ref; 3]| {
                y.store(x.load() + next.load()); // planted: neighbor
            },
            Grid::new([4]),
            [rows(), next],
            output(rows()),
        )
        .name("planted")
        .targets([])
        .alias(1, 0);
        let message = "program [1] reads input 1 at [16, 0], which program [2] writes, and they \
                       run in parallel";
        expect_mistake(&kernel, &[&x(), &x()], "neighbor", message);
    }

    #[test]
    fn an_output_is_written_that_a_parallel_program_has_read() {
        let previous = BlockSpec::new([8, 128], |[i]| (maximum(i - 1, 0), 0));
        let kernel = kernel::call(
            |[x, previous, y]: [Ref; 3]| {
                let sum = x.load() + previous.load();
                y.store(sum); // planted: previous
            },
            Grid::new([4]),
            [rows(), previous],
            output(rows()),
        )
        .name("planted")
        .targets([])
        .alias(1, 0);
        let message = "program [1] writes output 0 at [8, 0], which program [2] reads through an \
                       alias, and they run in parallel";
        expect_mistake(&kernel, &[&x(), &x()], "previous", message);
    }

    #[test]
    fn an_input_is_read_after_the_output_in_its_memory_is_written() {
        let kernel = map_rows(|[x, y]| {
            y.store(x.load() * 2.0);
            let total = x.load() + y.load(); // planted: after
            y.store(total);
        })
        .alias(0, 0);
        let message = "program [2] reads input 0 at [16, 0] after program [2] wrote it through \
                       output 0, which shares its memory";
        expect_mistake(&kernel, &[&x()], "after", message);
    }

    // Indices beyond blocks, and blocks beyond arrays.

    #[test]
    fn a_loop_has_one_step_too_many() {
        let kernel = map_rows(|[x, y]| {
            y.store(0.0);
            let step = |i: Array, ()| {
                let row = x.at((ds(&i, 1), ..)).load(); // planted: nine
                y.at((ds(&i, 1), ..)).store(row);
            };
            kernel::fori_loop(0, 9, step, ());
        });
        let message = "program [2] uses indices 8..9 along axis 0 of input 0, whose block has 8";
        expect_mistake(&kernel, &[&x()], "nine", message);
    }

    #[test]
    fn a_store_starts_before_the_block() {
        let kernel = map_rows(|[x, y]| {
            y.store(x.load());
            let step = |i: Array, ()| {
                let row = x.at((ds(&i, 1), ..)).load();
                y.at((ds(i - 1, 1), ..)).store(row); // planted: negative
            };
            kernel::fori_loop(0, 8, step, ());
        });
        let message = "program [2] uses indices -1..0 along axis 0 of output 0, whose block has 8";
        expect_mistake(&kernel, &[&x()], "negative", message);
    }

    #[test]
    fn a_while_loop_does_not_stop_at_the_end_of_the_block() {
        let kernel = map_rows(|[x, y]| {
            y.store(0.0);
            let step = |i: Array| {
                y.at((ds(&i, 3), ..)).store(x.at((ds(&i, 3), ..)).load()); // planted: threes
                i + 3
            };
            kernel::while_loop(|i: Array| lt(i, 8), step, zeros(Aval::new(DType::I32, [])));
        });
        let message = "program [2] uses indices 6..9 along axis 0 of input 0, whose block has 8";
        expect_mistake(&kernel, &[&x()], "threes", message);
    }

    #[test]
    fn an_index_map_returns_the_next_block() {
        let next = BlockSpec::new([8, 128], |[i]| (i + 1, 0)); // planted: next
        let body = |[x, y]: [Ref; 2]| y.store(x.load());
        let kernel =
            kernel::call(body, Grid::new([4]), [next], output(rows())).name("planted").targets([]);
        let message = "program [3] has block [4, 0] of input 0, which does not exist: f32[32,128] \
                       has [4, 1] blocks of [8, 128]";
        expect_mistake(&kernel, &[&x()], "next", message);
    }

    #[test]
    fn an_index_map_returns_elements() {
        let elements = BlockSpec::new([8, 128], |[i]| (i * 8, 0)); // planted: elements
        let body = |[x, y]: [Ref; 2]| y.store(x.load());
        let kernel = kernel::call(body, Grid::new([4]), [rows()], output(elements))
            .name("planted")
            .targets([]);
        let message = "program [2] has block [16, 0] of output 0, which does not exist: \
                       f32[32,128] has [4, 1] blocks of [8, 128]";
        expect_mistake(&kernel, &[&x()], "elements", message);
    }

    #[test]
    fn an_index_map_swaps_axes() {
        let swapped = BlockSpec::new([8, 128], |[i, j]| (j, i)); // planted: swapped
        let kernel = kernel::call(
            |[x, y]: [Ref; 2]| y.store(x.load()),
            Grid::new([4, 2]),
            [swapped],
            [Output::new(F32, [32, 256], BlockSpec::new([8, 128], |[i, j]| (i, j)))],
        )
        .name("planted")
        .targets([]);
        let message = "program [2, 0] has block [0, 2] of input 0, which does not exist: \
                       f32[32,256] has [4, 2] blocks of [8, 128]";
        expect_mistake(&kernel, &[&ones([32, 256])], "swapped", message);
    }

    #[test]
    fn a_prefetched_operand_selects_a_block_beyond_the_array() {
        let block = |i: Array, table: Ref| (table.at((i,)).load(), 0);
        let chosen = BlockSpec::prefetched([8, 128], move |[i], [t]| block(i, t)); // planted: table
        let kernel = kernel::call(
            |[_table, x, y]: [Ref; 3]| y.store(x.load()),
            Grid::new([4]),
            [chosen],
            output(rows()),
        )
        .name("planted")
        .targets([])
        .prefetch(1);
        let table = Array::from_slice(&[0i32, 4, 2, 3], [4]).unwrap();
        let message = "program [1] has block [4, 0] of input 0, which does not exist: f32[32,128] \
                       has [4, 1] blocks of [8, 128]";
        expect_mistake(&kernel, &[&table, &x()], "table", message);
    }

    // Memory that is not initialized.

    #[test]
    fn scratch_memory_is_not_initialized() {
        let kernel = reduction(|[x, y, sum]| {
            sum.add_assign(x.load()); // planted: no zero
            kernel::when(is_last(), || y.store(sum.load()));
        });
        let message = "program [0] reads scratch 0 at [0, 0], which is not initialized";
        expect_mistake(&kernel, &[&ones([8, 512])], "no zero", message);
    }

    #[test]
    fn an_output_is_not_initialized() {
        let kernel = map_rows(|[x, y]| y.add_assign(x.load())); // planted: output
        let message = "program [2] reads output 0 at [16, 0], which is not initialized";
        expect_mistake(&kernel, &[&x()], "output", message);
    }

    #[test]
    fn scratch_memory_is_initialized_in_the_wrong_step() {
        let kernel = reduction(|[x, y, sum]| {
            kernel::when(eq(kernel::program_id(0), 1), || sum.store(0.0));
            sum.add_assign(x.load()); // planted: step 1
            kernel::when(is_last(), || y.store(sum.load()));
        });
        let message = "program [0] reads scratch 0 at [0, 0], which is not initialized";
        expect_mistake(&kernel, &[&ones([8, 512])], "step 1", message);
    }

    #[test]
    fn scratch_memory_is_initialized_in_part() {
        let kernel = reduction(|[x, y, sum]| {
            kernel::when(is_first(), || sum.at((0..4, ..)).store(0.0));
            sum.add_assign(x.load()); // planted: part
            kernel::when(is_last(), || y.store(sum.load()));
        });
        let message = "program [0] reads scratch 0 at [4, 0], which is not initialized";
        expect_mistake(&kernel, &[&ones([8, 512])], "part", message);
    }

    #[test]
    fn scratch_memory_is_initialized_for_the_first_parallel_program_alone() {
        let kernel = kernel::call(
            |[x, y, sum]: [Ref; 3]| {
                let k = kernel::program_id(1);
                // Only at the corner of the grid.
                kernel::when(logical_and(is_first(), eq(&k, 0)), || sum.store(0.0));
                sum.add_assign(x.load()); // planted: corner
                kernel::when(eq(&k, 1), || y.store(sum.load()));
            },
            Grid::new([4, 2]).sequential(1),
            [BlockSpec::new([8, 128], |[i, k]| (i, k))],
            output(BlockSpec::new([8, 128], |[i, _k]| (i, 0))),
        )
        .name("planted")
        .targets([])
        .scratch([Scratch::vmem(F32, [8, 128])]);
        let message = "program [2, 0] reads scratch 0 at [0, 0], which is not initialized";
        expect_mistake(&kernel, &[&ones([32, 256])], "corner", message);
    }

    #[test]
    fn scratch_memory_is_carried_along_a_parallel_axis() {
        let kernel = kernel::call(
            |[x, y, last]: [Ref; 3]| {
                kernel::when(eq(kernel::program_id(0), 2), || last.store(0.0));
                let previous = last.load(); // planted: carried
                last.store(x.load());
                y.store(x.load() - previous);
            },
            Grid::new([4]),
            [rows()],
            output(rows()),
        )
        .name("planted")
        .targets([])
        .scratch([Scratch::vmem(F32, [8, 128])]);
        let message = "program [1] reads scratch 0 at [0, 0], which is not initialized: program \
                       [2] wrote it";
        expect_mistake(&kernel, &[&x()], "carried", message);
    }

    #[test]
    fn a_mask_includes_memory_that_is_not_initialized() {
        let kernel = reduction(|[x, y, sum]| {
            sum.at((0..2, ..)).store(x.at((0..2, ..)).load());
            let rows = arange(8).reshape([8, 1]);
            y.store(sum.at((.., ..)).load_masked(&le(rows, 2), 0.0)); // planted: mask
        });
        let message = "program [0] reads scratch 0 at [2, 0], which is not initialized";
        expect_mistake(&kernel, &[&ones([8, 512])], "mask", message);
    }

    // Blocks that are left and visited again, and elements that nothing writes.

    #[test]
    fn a_block_is_left_and_visited_again() {
        let kernel = kernel::call(
            |[x, y]: [Ref; 2]| {
                kernel::when(is_first(), || y.store(0.0));
                y.add_assign(x.load());
            },
            Grid::new([2, 4])
                .semantics([DimensionSemantics::Arbitrary, DimensionSemantics::Parallel]),
            [BlockSpec::new([8, 128], |[k, i]| (i, k))],
            output(BlockSpec::new([8, 128], |[_k, i]| (i, 0))), // planted: revisit
        )
        .name("planted")
        .targets([]);
        let message = "program [1, 2] comes back to block [2, 0] of output 0, which the grid left \
                       after program [0, 2]";
        expect_mistake(&kernel, &[&ones([32, 256])], "revisit", message);
    }

    #[test]
    fn a_grid_is_too_small() {
        let small = BlockSpec::new([8, 128], |[i]| (i, 0)); // planted: grid
        let body = |[x, y]: [Ref; 2]| y.store(x.load());
        let kernel =
            kernel::call(body, Grid::new([3]), [rows()], output(small)).name("planted").targets([]);
        let message =
            "no program writes output 0 at [24, 0]: 1024 of 4096 elements are not written";
        expect_mistake(&kernel, &[&x()], "grid", message);
    }

    #[test]
    fn a_store_writes_half_of_the_block() {
        let body = |[x, y]: [Ref; 2]| y.at((0..4, ..)).store(x.at((0..4, ..)).load());
        let half = BlockSpec::new([8, 128], |[i]| (i, 0)); // planted: half
        let kernel =
            kernel::call(body, Grid::new([4]), [rows()], output(half)).name("planted").targets([]);
        let message = "no program writes output 0 at [4, 0]: 2048 of 4096 elements are not written";
        expect_mistake(&kernel, &[&x()], "half", message);
    }

    #[test]
    fn a_condition_is_never_true() {
        let kernel = reduction(|[x, y, sum]| {
            kernel::when(is_first(), || sum.store(0.0));
            sum.add_assign(x.load());
            let is_last = eq(kernel::program_id(0), kernel::num_programs(0) as i32);
            kernel::when(is_last, || y.store(sum.load())); // planted: never
        });
        let message = "no program writes output 0 at [0, 0]: 1024 of 1024 elements are not \
                       written; this store never runs";
        expect_mistake(&kernel, &[&ones([8, 512])], "never", message);
    }

    // Elements beyond the end of an array.

    /// Row sums of an input `[8, 300]` in blocks of 128 columns.
    fn row_sums(body: impl Fn([Ref; 2]) + Send + Sync + 'static) -> Kernel {
        kernel::call(
            body,
            Grid::new([3]).sequential(1),
            [BlockSpec::new([8, 128], |[k]| (0, k))],
            [Output::new(F32, [8, 1], BlockSpec::new([8, 1], |[_k]| (0, 0)))],
        )
        .name("planted")
        .targets([])
    }

    /// The columns of a block of 128.
    fn columns() -> Array {
        kernel::program_id(0) * 128 + arange(128).reshape([1, 128])
    }

    fn sum_of_rows(x: &Array) -> Array {
        x.sum_axes(axes(1).keepdims())
    }

    #[test]
    fn a_mask_is_missing() {
        let kernel = row_sums(|[x, y]| {
            kernel::when(is_first(), || y.store(0.0));
            y.add_assign(sum_of_rows(&x.load())); // planted: missing mask
        });
        let message = "output 0 at [0, 0], stored by program [2], depends on elements beyond the \
                       end of input 0, f32[8,300]";
        expect_mistake(&kernel, &[&ones([8, 300])], "missing mask", message);
    }

    #[test]
    fn a_mask_has_one_column_too_many() {
        let kernel = row_sums(|[x, y]| {
            kernel::when(is_first(), || y.store(0.0));
            let masked = where_(le(columns(), 300), x.load(), 0.0);
            y.add_assign(sum_of_rows(&masked)); // planted: one too many
        });
        let message = "output 0 at [0, 0], stored by program [2], depends on elements beyond the \
                       end of input 0, f32[8,300]";
        expect_mistake(&kernel, &[&ones([8, 300])], "one too many", message);
    }

    #[test]
    fn one_factor_of_a_product_has_no_mask() {
        let kernel = kernel::call(
            |[a, b, c]: [Ref; 3]| {
                kernel::when(is_first(), || c.store(0.0));
                // 0 * NaN is NaN.
                let a = where_(lt(columns(), 300), a.load(), 0.0);
                c.add_assign(a.matmul(&b.load())); // planted: factor
            },
            Grid::new([3]).sequential(1),
            [BlockSpec::new([8, 128], |[k]| (0, k)), BlockSpec::new([128, 128], |[k]| (k, 0))],
            [Output::new(F32, [8, 128], BlockSpec::new([8, 128], |[_k]| (0, 0)))],
        )
        .name("planted")
        .targets([]);
        let message = "output 0 at [0, 0], stored by program [2], depends on elements beyond the \
                       end of input 1, f32[300,128]";
        expect_mistake(&kernel, &[&ones([8, 300]), &ones([300, 128])], "factor", message);
    }

    // Wrong numbers.

    #[test]
    fn a_maximum_starts_from_zero() {
        let kernel = reduction(|[x, y, largest]| {
            kernel::when(is_first(), || largest.store(0.0));
            largest.store(maximum(largest.load(), x.load()));
            kernel::when(is_last(), || y.store(largest.load())); // planted: maximum
        });
        let message = "output 0 at [0, 0] is 0, stored by program [3], the reference -1: 1024 of \
                       1024 elements differ";
        let reference = |x: &[Array]| vec![x[0].reshape([8, 4, 128]).max_axes(1)];
        expect_wrong(&kernel, &[&full([8, 512], -1.0f32)], reference, "maximum", message);
    }

    #[test]
    fn masked_elements_of_a_maximum_are_zero() {
        let kernel = row_sums(|[x, y]| {
            let x = where_(lt(columns(), 300), x.load(), 0.0);
            let largest = x.max_axes(axes(1).keepdims());
            kernel::when(is_first(), || y.store(&largest));
            y.store(maximum(y.load(), &largest)); // planted: masked maximum
        });
        let message = "output 0 at [0, 0] is 0, stored by program [2], the reference -1: 8 of 8 \
                       elements differ";
        let reference = |x: &[Array]| vec![x[0].max_axes(axes(1).keepdims())];
        expect_wrong(&kernel, &[&full([8, 300], -1.0f32)], reference, "masked maximum", message);
    }

    #[test]
    fn a_product_starts_from_zero() {
        let kernel = reduction(|[x, y, product]| {
            kernel::when(is_first(), || product.store(0.0));
            product.store(product.load() * x.load());
            kernel::when(is_last(), || y.store(product.load())); // planted: product
        });
        let message = "output 0 at [0, 0] is 0, stored by program [3], the reference 16: 1024 of \
                       1024 elements differ";
        let reference = |x: &[Array]| {
            let [a, b, c, d] =
                [0, 128, 256, 384].map(|first| x[0].index(i![.., first..first + 128]));
            vec![a * b * c * d]
        };
        expect_wrong(&kernel, &[&full([8, 512], 2.0f32)], reference, "product", message);
    }

    #[test]
    fn a_loop_has_one_step_too_few() {
        let kernel = map_rows(|[x, y]| {
            let step = |i: Array, sum: Array| sum + x.at((ds(i, 1), ..)).load();
            let sum = kernel::fori_loop(0, 7, step, zeros([1, 128]));
            y.store(sum); // planted: seven
        });
        let message = "output 0 at [0, 0] is 7, stored by program [0], the reference 8: 4096 of \
                       4096 elements differ";
        let reference = |x: &[Array]| vec![&x[0] * 8.0];
        expect_wrong(&kernel, &[&x()], reference, "seven", message);
    }

    #[test]
    fn an_accumulator_is_not_reset() {
        let kernel = kernel::call(
            |[x, y, sum]: [Ref; 3]| {
                let k = kernel::program_id(1);
                // The first axis is sequential too.
                kernel::when(logical_and(is_first(), eq(&k, 0)), || sum.store(0.0));
                sum.add_assign(x.load());
                kernel::when(eq(&k, 1), || y.store(sum.load())); // planted: reset
            },
            Grid::new([4, 2]).sequential(2),
            [BlockSpec::new([8, 128], |[i, k]| (i, k))],
            output(BlockSpec::new([8, 128], |[i, _k]| (i, 0))),
        )
        .name("planted")
        .targets([])
        .scratch([Scratch::vmem(F32, [8, 128])]);
        let message = "output 0 at [8, 0] is 4, stored by program [1, 1], the reference 2: 3072 \
                       of 4096 elements differ";
        let reference = |x: &[Array]| vec![x[0].index(i![.., ..128]) + x[0].index(i![.., 128..])];
        expect_wrong(&kernel, &[&ones([32, 256])], reference, "reset", message);
    }

    #[test]
    fn a_square_index_map_swaps_axes() {
        let kernel = kernel::call(
            |[x, y]: [Ref; 2]| y.store(x.load()), // planted: transposed
            Grid::new([2, 2]),
            [BlockSpec::new([128, 128], |[i, j]| (j, i))],
            [Output::new(F32, [256, 256], BlockSpec::new([128, 128], |[i, j]| (i, j)))],
        )
        .name("planted")
        .targets([]);
        let x = arange(256 * 256).astype(F32).reshape([256, 256]);
        let message = "output 0 at [0, 128] is 32768, stored by program [0, 1], the reference \
                       128: 32768 of 65536 elements differ";
        expect_wrong(&kernel, &[&x], |x| vec![x[0].clone()], "transposed", message);
    }
}
