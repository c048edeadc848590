//! The language of kernels: references, grids, blocks, loops, and the errors of wrong uses.

use expect_test::{Expect, expect};
use oxidax::core::{Loc, Program, throw};
use oxidax::kernel::{
    self, BlockSpec, DimensionSemantics, Grid, Kernel, Output, Ref, Scratch, ds, ds_strided,
};
use oxidax::prelude::*;

const F32: DType = DType::F32;

/// Blocks of 8 rows of an array `[n, 128]`.
fn rows() -> BlockSpec {
    BlockSpec::new([8, 128], |[i]| (i, 0))
}

fn aval(shape: impl Into<Shape>) -> Array {
    zeros(Aval::new(F32, shape))
}

/// A kernel of one input and one output, both of `[32, 128]`, over four blocks of rows.
fn map_rows(body: impl Fn([Ref; 2]) + Send + Sync + 'static) -> Kernel {
    kernel::call(body, Grid::new([4]), [rows()], [Output::new(F32, [32, 128], rows())])
        .name("map_rows")
}

/// A product of matrices with blocks of 128 × 128, which sums over the last grid axis.
fn matmul_kernel(m: usize, k: usize, n: usize) -> Kernel {
    kernel::call(
        |[a, b, product, sum]: [Ref; 4]| {
            let k = kernel::program_id(2);
            kernel::when(eq(&k, 0), || sum.store(0.0));
            sum.add_assign(a.load().matmul(&b.load()));
            let is_last = eq(&k, kernel::num_programs(2) as i32 - 1);
            kernel::when(is_last, || product.store(sum.load()));
        },
        Grid::new([m.div_ceil(128), n.div_ceil(128), k.div_ceil(128)]).sequential(1),
        [
            BlockSpec::new([128, 128], |[i, _, k]| (i, k)),
            BlockSpec::new([128, 128], |[_, j, k]| (k, j)),
        ],
        [Output::new(F32, [m, n], BlockSpec::new([128, 128], |[i, j, _]| (i, j)))],
    )
    .name("matmul")
    .scratch([Scratch::vmem(F32, [128, 128])])
}

/// Checks the first line and the help of an error, in lines of at most 90 columns.
#[track_caller]
fn expect_refused(kernel: impl FnOnce() -> Array, expected: Expect) {
    let error = catch(kernel).expect_err("the kernel is refused").to_string();
    let mut lines = vec![String::new()];
    for line in error.lines().filter(|line| line.starts_with("error") || line.contains("help:")) {
        lines.push(String::new());
        for word in line.split_whitespace() {
            let last = lines.last_mut().unwrap();
            match last.len() + word.len() < 90 {
                true => last.push_str(word),
                false => lines.push(word.to_string()),
            }
            lines.last_mut().unwrap().push(' ');
        }
    }
    let lines: Vec<&str> = lines[1..].iter().map(|line| line.trim_end()).collect();
    expected.assert_eq(&lines.join("\n"));
}

mod on_cpu {
    use super::*;

    fn x() -> Array {
        random::normal(random::key(0), [32, 128])
    }

    fn assert_close(a: &Array, b: &Array) {
        assert_eq!(a.shape(), b.shape());
        let difference = (a - b).abs().max().item::<f32>().unwrap();
        assert!(difference < 1e-4, "the largest difference is {difference}");
    }

    #[test]
    fn blocks_are_read_and_written() {
        let (x, y) = (x(), x() * 3.0);
        let add = kernel::call(
            |[x, y, sum]: [Ref; 3]| sum.store(x.load() + y.load()),
            Grid::new([4]),
            [rows(), rows()],
            [Output::new(F32, [32, 128], rows())],
        );
        assert_close(&add.apply1(&[&x, &y]), &(&x + &y));
        let in_jit = jit(move |x: Array, y: Array| add.apply1(&[&x, &y]));
        assert_close(&in_jit.call(&x, &y).unwrap(), &(&x + &y));
    }

    #[test]
    fn scratch_accumulates_over_a_sequential_axis() {
        let a = random::normal(random::key(1), [256, 384]);
        let b = random::normal(random::key(2), [384, 128]);
        assert_close(&matmul_kernel(256, 384, 128).apply1(&[&a, &b]), &a.matmul(&b));
    }

    /// The last blocks of rows and columns reach beyond the arrays.
    #[test]
    fn ragged_blocks_write_what_is_inside() {
        let a = random::normal(random::key(1), [300, 256]);
        let b = random::normal(random::key(2), [256, 200]);
        assert_close(&matmul_kernel(300, 256, 200).apply1(&[&a, &b]), &a.matmul(&b));
    }

    #[test]
    fn batches_add_a_grid_axis() {
        let a = random::normal(random::key(1), [3, 128, 256]);
        let b = random::normal(random::key(2), [256, 128]);
        let product = matmul_kernel(128, 256, 128);
        let batched = vmap(move |a: Array, b: Array| product.apply1(&[&a, &b]));
        assert_close(&batched.in_axes((0, None)).apply(&a, &b), &a.matmul(&b));
        // Twice, over different axes of the operands.
        let (a, b) = (
            random::normal(random::key(3), [2, 3, 128, 128]),
            random::normal(random::key(4), [128, 2, 128]),
        );
        let product = matmul_kernel(128, 128, 128);
        let inner = move |a: Array, b: Array| {
            let product = product.clone();
            vmap(move |a: Array, b: Array| product.apply1(&[&a, &b])).in_axes((0, None)).apply(a, b)
        };
        let twice = vmap(inner).in_axes((0, 1)).apply(&a, &b);
        assert_close(&twice, &a.matmul(&moveaxis(&b, 1, 0).expand_dims(1)));
    }

    #[test]
    fn prefetched_operands_choose_blocks() {
        let (x, order) = (x(), Array::from_slice(&[3i32, 0, 2, 2], [4]).unwrap());
        let gather = kernel::call(
            |[order, x, y]: [Ref; 3]| {
                let scale = order.at((kernel::program_id(0),)).load().astype(F32);
                y.store(x.load() * scale);
            },
            Grid::new([4]),
            [BlockSpec::prefetched([8, 128], |[i], [order]| (order.at((i,)).load(), 0))],
            [Output::new(F32, [32, 128], rows())],
        )
        .prefetch(1);
        let blocks = x.reshape([4, 8, 128]);
        let scale = order.astype(F32).reshape([4, 1, 1]);
        let expected = (blocks.index(i![&order]) * scale).reshape([32, 128]);
        assert_close(&gather.apply1(&[&order, &x]), &expected);
        // A different order for each example: the kernel runs once for each of them.
        let orders = Array::from_slice(&[3i32, 0, 2, 2, 1, 1, 0, 3], [2, 4]).unwrap();
        let batched = vmap(move |order: Array, x: Array| gather.apply1(&[&order, &x]));
        let both = batched.in_axes((0, None)).apply(&orders, &x);
        assert_close(&both.index(i![0]), &expected);
    }

    #[test]
    fn loops_write_references() {
        let x = x();
        let reverse = map_rows(|[x, y]| {
            let step = |i: Array, ()| {
                let row = x.at((ds(&i, 1), ..)).load();
                y.at((ds(7 - &i, 1), ..)).store(row);
            };
            kernel::fori_loop(0, 8, step, ());
        });
        let blocks = x.reshape([4, 8, 128]);
        assert_close(&reverse.apply1(&[&x]), &rev(&blocks, &[1]).reshape([32, 128]));
        // A loop whose length the kernel computes, with a value and a reference.
        let sums = map_rows(|[x, y]| {
            y.store(0.0);
            let below = |(i, _): (Array, Array)| lt(i, kernel::program_id(0) + 1);
            let step = |(i, sum): (Array, Array)| {
                y.add_assign(x.load());
                (i + 1, sum + 1.0)
            };
            let (_, sum) = kernel::while_loop(below, step, (scalar(0i32), scalar(0.0f32)));
            y.add_assign(sum);
        });
        let count = arange(4.0).reshape([4, 1, 1]) + 1.0;
        let expected = (&blocks * &count + &count).reshape([32, 128]);
        assert_close(&sums.apply1(&[&x]), &expected);
    }

    #[test]
    fn parts_are_strided_and_masked() {
        let x = x();
        let parts = map_rows(|[x, y]| {
            y.store(0.0);
            // Every second row, to the first four rows.
            y.at((0..4, ..)).store(x.at((ds_strided(0, 4, 2), ..)).load());
            // One row, without its axis.
            y.at((4, ..)).store(x.at((7, ..)).load());
            // A strided write at a computed start.
            let start = minimum(kernel::program_id(0) + 5, 5);
            y.at((ds_strided(&start, 2, 2), ..)).store(x.at((0..2, ..)).load());
            let column = broadcasted_iota(DType::I32, [1, 128], 1);
            let left = lt(&column, 64);
            y.at((6..7, ..)).store_masked(x.at((6..7, ..)).load_masked(&left, -1.0), &left);
        })
        .targets([]);
        let blocks = x.reshape([4, 8, 128]);
        let y = parts.apply1(&[&x]).reshape([4, 8, 128]);
        assert_close(&y.index(i![.., 0..4]), &blocks.index(i![.., strided(0..8, 2)]));
        assert_close(&y.index(i![.., 4]), &blocks.index(i![.., 7]));
        assert_close(&y.index(i![.., 5]), &blocks.index(i![.., 0]));
        assert_close(&y.index(i![.., 7]), &blocks.index(i![.., 1]));
        assert_close(&y.index(i![.., 6, 0..64]), &blocks.index(i![.., 6, 0..64]));
        assert_eq!(y.index(i![.., 6, 64..]).abs().max().item::<f32>().unwrap(), 0.0);
    }

    #[test]
    fn swap_returns_the_previous_elements() {
        let x = x();
        let swapped = kernel::call(
            |[x, y, old]: [Ref; 3]| {
                y.store(1.0);
                old.store(y.swap(x.load()));
            },
            Grid::new([4]),
            [rows()],
            [Output::new(F32, [32, 128], rows()), Output::new(F32, [32, 128], rows())],
        );
        let [y, old] = swapped.apply(&[&x]);
        assert_close(&y, &x);
        assert_close(&old, &ones([32, 128]));
    }

    #[test]
    fn aliased_outputs_start_with_the_input() {
        let x = x();
        let add_to_first = kernel::call(
            |[_, y]: [Ref; 2]| kernel::when(eq(kernel::program_id(0), 0), || y.add_assign(1.0)),
            Grid::new([4]),
            [rows()],
            [Output::new(F32, [32, 128], rows())],
        )
        .alias(0, 0);
        assert_close(&add_to_first.apply1(&[&x]), &x.at(i![0..8]).add(1.0));
    }

    #[test]
    fn unwritten_elements_are_nan() {
        let nothing =
            map_rows(|[_, y]| kernel::when(eq(kernel::program_id(0), 1), || y.store(2.0)));
        let y = nothing.apply1(&[&x()]);
        assert!(y.index(i![0]).isnan().all().item::<bool>().unwrap());
        assert_eq!(y.index(i![8..16]).max().item::<f32>().unwrap(), 2.0);
    }

    #[test]
    fn grids_without_axes_have_one_program() {
        let x = x();
        let whole = kernel::call(
            |[x, y]: [Ref; 2]| y.store(exp(x.load())),
            Grid::new([0usize; 0]),
            [BlockSpec::whole()],
            [Output::new(F32, [32, 128], BlockSpec::whole())],
        );
        assert_close(&whole.apply1(&[&x]), &exp(&x));
    }

    #[test]
    fn another_kernel_runs_on_cpus() {
        let whole = kernel::call(
            |[x, y]: [Ref; 2]| y.store(x.load() + 1.0),
            Grid::new([0usize; 0]),
            [BlockSpec::whole()],
            [Output::new(F32, [32, 128], BlockSpec::whole())],
        );
        let both = map_rows(|[x, y]| y.store(x.load() + 2.0)).on_cpu(whole);
        let x = x();
        assert_close(&both.apply1(&[&x]), &(&x + 1.0));
        let batched = vmap(move |x: Array| both.apply1(&[&x]));
        let xs = stack([&x, &x], 0);
        assert_close(&batched.apply(&xs), &(&xs + 1.0));
    }

    #[test]
    fn custom_vjp_gives_a_derivative() {
        let double = || map_rows(|[x, y]| y.store(x.load() * 2.0));
        let f = custom_vjp(
            move |x: &Array| double().apply1(&[x]),
            move |x: &Array| (double().apply1(&[x]), ()),
            move |(), ct: Array| double().apply1(&[&ct]),
        );
        let slope = grad(move |x: &Array| f(x).sum())(&x());
        assert_close(&slope, &full([32, 128], 2.0));
    }
}

/// The body is a program of the states of references, without side effects.
#[test]
fn bodies_are_programs() {
    let kernel = map_rows(|[x, y]| y.at((0..4, ..)).store(x.at((4.., ..)).load() * 2.0));
    let kernel = kernel.trace(&[&aval([32, 128])]);
    let body: &Program = &kernel.body;
    expect![[r#"
        { lambda ; a:i32[] b:f32[8,128] c:f32[8,128]. let
            d:f32[4,128] = ref_get[part="[4..8, 0..128]"] b
            e:f32[4,128] = fill[dtype="f32" shape=[4,128] value=2.0 weak=false]
            f:f32[4,128] = mul d e
            g:f32[8,128] = ref_set[part="[0..4, 0..128]"] c f
          in (g) }"#]]
    .assert_eq(&body.to_string());
    assert_ne!(body.eqns()[0].loc, Loc::UNKNOWN);
}

/// The cost of a kernel is counted from its body and its windows.
#[test]
fn costs_are_counted() {
    let product = matmul_kernel(256, 384, 256);
    let (a, b) = (aval([256, 384]), aval([384, 256]));
    let program = make_program(|a: Array, b: Array| product.apply1(&[&a, &b]), (a, b)).unwrap();
    let cost = oxidax::passes::cost(&program);
    let products = 2 * 256 * 384 * 256;
    assert!(cost.flops >= products && cost.flops < products + 1_000_000, "{}", cost.flops);
    // The product is counted as one of tiles, for the peak of matrix units.
    let eqn = &program.eqns()[0];
    let contraction = eqn.primitive.contraction(&program.avals_in(), &program.avals_out()).unwrap();
    assert_eq!((contraction.batch, contraction.m, contraction.k), (12, 128, 128));
    // Each of the 12 programs reads two blocks; each of the four outputs is written once.
    assert_eq!(cost.bytes, (12 * 2 + 4) * 128 * 128 * 4);
}

#[test]
fn wrong_uses_are_refused() {
    let x = aval([32, 128]);
    expect_refused(
        || map_rows(|[x, _]| x.store(1.0)).apply1(&[&x]),
        expect![[r#"
        error[value]: store: input 0 cannot be written
        help: write to an output; `Kernel::alias` lets it share the memory of an input"#]],
    );
    let narrow = map_rows(|[x, y]| y.store(x.load().astype(DType::BF16)));
    expect_refused(
        || narrow.apply1(&[&x]),
        expect![[r#"
        error[dtype]: store: output 0 is f32, the value bf16[8,128]
        help: convert the value: `astype(DType::F32)`"#]],
    );
    let in_cond = map_rows(|[x, y]| {
        let store = |v: Array| {
            y.store(&v);
            v
        };
        cond(eq(kernel::program_id(0), 0), store, |v: Array| v, x.load());
    });
    expect_refused(
        || in_cond.apply1(&[&x]),
        expect![[r#"
        error[value]: store: output 0 is written inside of a function that another operation
        traces
        help: write inside of `kernel::when`, `kernel::fori_loop` or `kernel::while_loop`, or
        return the value from the function and write it outside"#]],
    );
    expect_refused(
        || kernel::program_id(0),
        expect![[r#"
        error[value]: program_id: called outside of a kernel
        help: call it in the function given to `kernel::call`"#]],
    );
    let axis = map_rows(|[_, y]| y.store(kernel::program_id(1).astype(F32)));
    expect_refused(
        || axis.apply1(&[&x]),
        expect!["error[value]: program_id: axis 1 of a grid with 1 axes"],
    );
    let half = map_rows(|[x, y]| y.store(x.at((0..8, 0..64)).load()));
    expect_refused(
        || half.apply1(&[&x]),
        expect!["error[shape]: broadcast_to: [8,64] does not broadcast to [8,128]"],
    );
    let ninth = map_rows(|[x, y]| y.store(x.at((8, ..)).load()));
    expect_refused(
        || ninth.apply1(&[&x]),
        expect!["error[shape]: ref_get: indices up to 9 along axis 0, which has 8 in f32[8,128]"],
    );
    let three = map_rows(|[x, y]| y.store(x.at((0, 0, 0)).load()));
    expect_refused(
        || three.apply1(&[&x]),
        expect!["error[shape]: Ref::at: 3 indices for a block of f32[8,128]"],
    );
    let copy = || map_rows(|[x, y]| y.store(x.load()));
    expect_refused(
        || copy().apply1(&[&x, &x]),
        expect![[r#"
        error[value]: kernel `map_rows`: takes 1 operands, 0 prefetched and 1 with a BlockSpec,
        got 2"#]],
    );
    expect_refused(
        || copy().apply::<2>(&[&x])[0].clone(),
        expect!["error[value]: kernel `map_rows`: has 1 outputs, and 2 were expected"],
    );
    expect_refused(
        || copy().alias(0, 1).apply1(&[&x]),
        expect![[r#"
        error[value]: kernel `map_rows`: an alias of input 0 and output 1, of 1 inputs and 1
        outputs"#]],
    );
    expect_refused(
        || copy().alias(0, 0).alias(0, 0).apply1(&[&x]),
        expect!["error[value]: kernel `map_rows`: input 0 or output 0 has two aliases"],
    );
    expect_refused(
        || copy().prefetch(1).apply1(&[&x, &x]),
        expect![[r#"
        error[value]: kernel `map_rows`: the body takes 2 references, the kernel has 3: 1
        prefetched, 1 inputs, 1 outputs, 0 scratch
        help: take one reference for each of them"#]],
    );
    let spare = copy().scratch([Scratch::vmem(F32, [8, 128])]);
    expect_refused(
        || spare.apply1(&[&x]),
        expect![[r#"
        error[value]: kernel `map_rows`: the body takes 2 references, the kernel has 3: 0
        prefetched, 1 inputs, 1 outputs, 1 scratch
        help: take one reference for each of them"#]],
    );
    let derivative = || grad(|x: &Array| copy().apply1(&[x]).sum())(&x);
    expect_refused(
        derivative,
        expect![[r#"
        error[unsupported]: kernel_call: the kernel `map_rows` has no derivative
        help: give the function that calls it a derivative with `custom_vjp`, whose backward pass
        may call other kernels"#]],
    );
}

/// An array of an outer trace, which a kernel cannot read.
#[test]
fn captured_arrays_are_refused() {
    let capture = |x: Array, y: Array| map_rows(move |[a, b]| b.store(a.load() + &y)).apply1(&[&x]);
    let types = (aval([32, 128]), aval([8, 128]));
    expect_refused(
        || eval_shape(capture, types).map(|_| scalar(0.0)).unwrap_or_else(|error| throw(error)),
        expect![[r#"
            error[value]: kernel `map_rows`: the body uses 1 arrays from outside, the first is
            f32[8,128]
            help: pass them as operands with a BlockSpec each"#]],
    );
}

#[test]
fn wrong_specifications_are_refused() {
    let x = aval([32, 128]);
    let copy = |grid: Grid, spec: BlockSpec| {
        let output = Output::new(F32, [32, 128], rows());
        let copy = kernel::call(|[x, y]: [Ref; 2]| y.store(x.load()), grid, [spec], [output]);
        copy.name("copy").apply1(&[&x])
    };
    let four = || Grid::new([4]);
    expect_refused(
        || copy(four(), BlockSpec::new([8], |[i]| (i,))),
        expect!["error[value]: kernel `copy`: input 0: a block of 1 axes, [8], for f32[32,128]"],
    );
    expect_refused(
        || copy(four(), BlockSpec::new([0, 128], |[i]| (i, 0))),
        expect![
            "error[value]: kernel `copy`: input 0: a block of size 0 along axis 0 of f32[32,128]"
        ],
    );
    expect_refused(
        || copy(four(), BlockSpec::new([8, 128], |[i, _]| (i, 0))),
        expect![[r#"
        error[value]: kernel `copy`: input 0: the index map takes 2 indices, the grid has 1
        help: take one index for each axis of the grid"#]],
    );
    expect_refused(
        || copy(four(), BlockSpec::new([8, 128], |[i]| (i,))),
        expect![[r#"
        error[value]: kernel `copy`: input 0: the index map returns 1 indices for f32[32,128]
        help: return the index of a block for each axis of the array"#]],
    );
    let float = BlockSpec::new([8, 128], |[i]| (i.astype(F32), 0));
    expect_refused(
        || copy(four(), float),
        expect![[r#"
        error[value]: kernel `copy`: input 0: the index map returns f32[] for axis 0 of
        f32[32,128]
        help: return an integer scalar for each axis of the array"#]],
    );
    let two = four().semantics([DimensionSemantics::Parallel; 2]);
    expect_refused(
        || copy(two, rows()),
        expect!["error[value]: kernel `copy`: the grid has 1 axes and semantics for 2"],
    );
    expect_refused(
        || copy(Grid::new([1 << 20, 1 << 20]), BlockSpec::whole()),
        expect![
            "error[value]: kernel `copy`: a grid of [1048576, 1048576] has more than 2^31 - 1 \
             programs"
        ],
    );
}
