//! Kernels that use the operations of the language.

use oxidax::kernel::{
    self, BlockSpec, Grid, Kernel, KernelMemory, Output, Ref, Scratch, ds, ds_strided,
};
use oxidax::prelude::*;
use oxidax::primitives::broadcasted_iota;

/// A kernel and the types of its operands.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) kernel: fn() -> Kernel,
    pub(super) operands: Vec<Aval>,
}

fn case<const N: usize>(name: &'static str, kernel: fn() -> Kernel, operands: [Aval; N]) -> Case {
    Case { name, kernel, operands: operands.into() }
}

fn f32s<const N: usize>(shape: [usize; N]) -> Aval {
    Aval::new(DType::F32, shape)
}

fn of<const N: usize>(dtype: DType, shape: [usize; N]) -> Aval {
    Aval::new(dtype, shape)
}

/// Returns the kernels.
pub(super) fn cases() -> Vec<Case> {
    let [bf16, i8, i32] = [DType::BF16, DType::I8, DType::I32];
    vec![
        case("add", add, [f32s([32, 128]), f32s([32, 128])]),
        case("add_vectors", add_vectors, [of(bf16, [4096]), of(bf16, [4096])]),
        case("scalars", scalars, [f32s([16, 128]), f32s([])]),
        case("matmul_f32", || matmul(DType::F32, DType::F32), [f32s([300, 512]), f32s([512, 384])]),
        case(
            "matmul_bf16",
            || matmul(DType::BF16, DType::F32),
            [of(bf16, [300, 512]), of(bf16, [512, 384])],
        ),
        case(
            "matmul_i8",
            || matmul(DType::I8, DType::I32),
            [of(i8, [300, 512]), of(i8, [512, 384])],
        ),
        case("softmax", softmax, [f32s([64, 1000])]),
        case("layer_norm", layer_norm, [of(bf16, [64, 512]), f32s([1, 512]), f32s([512])]),
        flash_attention(),
        case("gather", gather, [of(i32, [4]), f32s([32, 128])]),
        case("loops", loops, [f32s([128, 256]), of(i32, [2])]),
        case("alias", alias, [f32s([32, 128]), f32s([16, 128])]),
        case("functions", functions, [f32s([8, 128]), of(i32, [8, 128])]),
        case("weights_i8", weights_i8, [of(bf16, [32, 256]), of(i8, [256, 256]), f32s([1, 256])]),
        case("sums", || rows_of_sums(Grid::new([8]), 64), [f32s([64, 128])]),
        case("products", products, [f32s([4, 64, 128]), f32s([4, 128, 256])]),
        case("scratch_bf16", scratch_bf16, [of(bf16, [64, 128])]),
    ]
}

fn add() -> Kernel {
    let rows = || BlockSpec::new([8, 128], |[i]| (i, 0));
    kernel::call(
        |[x, y, sum]: [Ref; 3]| sum.store(x.load() + y.load()),
        Grid::new([4]),
        [rows(), rows()],
        [Output::new(DType::F32, [32, 128], rows())],
    )
}

fn add_vectors() -> Kernel {
    let parts = || BlockSpec::new([1024], |[i]| (i,));
    kernel::call(
        |[x, y, sum]: [Ref; 3]| sum.store(x.load() + y.load()),
        Grid::new([4]),
        [parts(), parts()],
        [Output::new(DType::BF16, [4096], parts())],
    )
}

/// A grid without axes, and operands and outputs without axes.
fn scalars() -> Kernel {
    kernel::call(
        |[x, scale, y, z]: [Ref; 4]| {
            y.store(x.load() * scale.load());
            z.store(exp(scale.load()) + 1.0);
        },
        Grid::new([]),
        [BlockSpec::whole(), BlockSpec::whole()],
        [
            Output::new(DType::F32, [16, 128], BlockSpec::whole()),
            Output::new(DType::F32, [], BlockSpec::whole()),
        ],
    )
}

/// A product of 300 × 512 and 512 × 384 with sums in scratch memory.
pub(super) fn matmul(_: DType, sums: DType) -> Kernel {
    let body = move |[a, b, c, sum]: [Ref; 4]| {
        let k = kernel::program_id(2);
        kernel::when(eq(&k, 0), || sum.store(zeros([128, 128]).astype(sums)));
        let options = MatmulOptions { preferred_element_type: Some(sums), ..Default::default() };
        sum.add_assign(matmul_with(&a.load(), &b.load(), options)); // product
        kernel::when(eq(&k, 3), || c.store(sum.load()));
    };
    let kernel = kernel::call(
        body,
        Grid::new([3, 3, 4]).sequential(1),
        [
            BlockSpec::new([128, 128], |[i, _, k]| (i, k)),
            BlockSpec::new([128, 128], |[_, j, k]| (k, j)),
        ],
        [Output::new(sums, [300, 384], BlockSpec::new([128, 128], |[i, j, _]| (i, j)))],
    );
    kernel.scratch([Scratch::vmem(sums, [128, 128])])
}

fn softmax() -> Kernel {
    let rows = || BlockSpec::new([16, 1000], |[i]| (i, 0));
    kernel::call(
        |[x, y]: [Ref; 2]| y.store(x.load().softmax(-1)),
        Grid::new([4]),
        [rows()],
        [Output::new(DType::F32, [64, 1000], rows())],
    )
}

/// Returns the sum of each row as a column.
fn row_sums(x: &Array) -> Array {
    x.sum_axes([1]).reshape([x.shape()[0], 1])
}

fn layer_norm() -> Kernel {
    let rows = || BlockSpec::new([16, 512], |[i]| (i, 0));
    let body = |[x, scale, bias, y]: [Ref; 4]| {
        let x = x.load().astype(DType::F32);
        let centred = &x - row_sums(&x) / 512.0;
        let variance = row_sums(&(&centred * &centred)) / 512.0;
        let z = centred * rsqrt(variance + 1e-5) * scale.load() + bias.load();
        y.store(z.astype(DType::BF16));
    };
    kernel::call(
        body,
        Grid::new([4]),
        [rows(), BlockSpec::whole(), BlockSpec::whole()],
        [Output::new(DType::BF16, [64, 512], rows())],
    )
}

/// Causal attention of 4 heads over 8,192 positions.
pub(super) fn flash_attention() -> Case {
    let shape = of(DType::BF16, [4, 8192, 128]);
    case("flash_attention", attention, [shape.clone(), shape.clone(), shape])
}

fn attention() -> Kernel {
    let queries = || BlockSpec::new([None, Some(128), Some(128)], |[b, i, _]| (b, i, 0));
    let keys = || BlockSpec::new([None, Some(128), Some(128)], |[b, _, j]| (b, j, 0));
    let body = |[q, k, v, out, m, l, acc]: [Ref; 7]| {
        let (i, j) = (kernel::program_id(1), kernel::program_id(2));
        kernel::when(eq(&j, 0), || {
            m.store(f64::NEG_INFINITY);
            l.store(0.0);
            acc.store(0.0);
        });
        kernel::when(le(&j, &i), || {
            let sums =
                || MatmulOptions { preferred_element_type: Some(DType::F32), ..Default::default() };
            let scores = matmul_with(&q.load(), &k.load().transpose(), sums()) / 128f64.sqrt();
            let row = broadcasted_iota(DType::I32, [128, 128], 0) + &i * 128;
            let column = broadcasted_iota(DType::I32, [128, 128], 1) + &j * 128;
            let scores = where_(ge(&row, &column), &scores, -1e30);
            let largest = maximum(m.load(), scores.max_axes([1]).reshape([128, 1]));
            let weights = exp(&scores - &largest);
            let decay = exp(m.load() - &largest);
            l.store(l.load() * &decay + row_sums(&weights));
            let values = matmul_with(&weights.astype(DType::BF16), &v.load(), sums());
            acc.store(acc.load() * &decay + values);
            m.store(largest);
        });
        kernel::when(eq(&j, 63), || out.store((acc.load() / l.load()).astype(DType::BF16)));
    };
    let kernel = kernel::call(
        body,
        Grid::new([4, 64, 64]).sequential(1),
        [queries(), keys(), keys()],
        [Output::new(DType::BF16, [4, 8192, 128], queries())],
    );
    kernel.scratch([[128, 1], [128, 1], [128, 128]].map(|shape| Scratch::vmem(DType::F32, shape)))
}

fn gather() -> Kernel {
    let kernel = kernel::call(
        |[_, x, y]: [Ref; 3]| y.store(x.load() * 2.0),
        Grid::new([4]),
        [BlockSpec::prefetched([8, 128], |[i], [index]| (index.at((i,)).load(), 0))],
        [Output::new(DType::F32, [32, 128], BlockSpec::new([8, 128], |[i]| (i, 0)))],
    );
    kernel.prefetch(1)
}

/// Loops with static and dynamic bounds, dynamic starts, strides, masks and scalars.
fn loops() -> Kernel {
    let body = |[x, n, y, total]: [Ref; 4]| {
        y.store(0.0);
        let step = |i: Array, sum: Array| {
            let part = x.at((ds(&i * 8, 8), ..)).load();
            y.at((ds(56 - &i * 8, 8), ..)).store(&part);
            sum + part
        };
        let sum = kernel::fori_loop(0, 8, step, zeros([8, 256]));
        total.store(sum.sum_axes([0]).reshape([1, 256]));
        let step = |i: Array, ()| y.at((&i, ..)).store(x.at((&i, ..)).load() * 2.0);
        kernel::fori_loop(0, n.at((0,)).load(), step, ());
        let is_large = |value: Array| gt(value.max(), 1.0);
        let last =
            kernel::while_loop(is_large, |value: Array| value * 0.5, x.at((0..8, ..)).load());
        y.at((0..8, ..)).add_assign(last);
        let start = kernel::multiple_of(&n.at((1,)).load(), 8);
        y.at((ds(&start, 8), 0..128)).add_assign(1.0);
        y.at((ds_strided(0, 8, 2), ..)).add_assign(1.0);
        let mask = gt(x.at((0..8, ..)).load(), 0.0);
        y.at((8..16, ..)).store_masked(3.0, &mask);
        y.at((16..24, ..)).store(x.at((16..24, ..)).load_masked(&mask, 0.0));
    };
    let rows = || BlockSpec::new([64, 256], |[i]| (i, 0));
    let sums = BlockSpec::new([None, Some(1), Some(256)], |[i]| (i, 0, 0));
    kernel::call(
        body,
        Grid::new([2]),
        [rows(), BlockSpec::whole().memory(KernelMemory::Smem)],
        [Output::new(DType::F32, [128, 256], rows()), Output::new(DType::F32, [2, 1, 256], sums)],
    )
}

/// An output that begins with the elements of an input, and is added to twice.
fn alias() -> Kernel {
    let rows = || BlockSpec::new([8, 128], |[i, _]| (i, 0));
    let kernel = kernel::call(
        |[_, x, sum]: [Ref; 3]| sum.add_assign(x.load()),
        Grid::new([4, 2]).sequential(1),
        [rows(), BlockSpec::new([8, 128], |[_, j]| (j, 0))],
        [Output::new(DType::F32, [32, 128], rows())],
    );
    kernel.alias(0, 0)
}

fn functions() -> Kernel {
    let body = |[x, n, y, z]: [Ref; 4]| {
        let x = x.load();
        let a = tanh(&x) + logistic(&x) + erf(&x) + erfc(&x) + expm1(&x) + log1p(abs(&x));
        let b = sqrt(abs(&x)) + integer_pow(&x, 3) + sign(&x) + floor(&x) + sin(&x) + cos(&x);
        let c = where_(gt(&x, 0.0) & lt(&x, 2.0), pow(abs(&x), 1.5), minimum(&x, 0.0));
        y.store(concatenate([&(a + &b), &c], 0).transpose());
        let n = n.load();
        let first = argmax(&b, 1).reshape([8, 1]) + broadcasted_iota(DType::I32, [8, 128], 1);
        z.store(rem(&n, 7) + maximum(&n, 3) + first + ge(&c, 0.0).astype(DType::I32));
    };
    kernel::call(
        body,
        Grid::new([1]),
        [BlockSpec::whole(), BlockSpec::whole()],
        [
            Output::new(DType::F32, [128, 16], BlockSpec::whole()),
            Output::new(DType::I32, [8, 128], BlockSpec::whole()),
        ],
    )
}

fn weights_i8() -> Kernel {
    let columns = |rows: usize| BlockSpec::new([rows, 128], |[j]| (0, j));
    let body = |[x, w, scale, y]: [Ref; 4]| {
        let options =
            MatmulOptions { preferred_element_type: Some(DType::F32), ..Default::default() };
        y.store(matmul_with(&x.load(), &w.load().astype(DType::BF16), options) * scale.load());
    };
    kernel::call(
        body,
        Grid::new([2]),
        [BlockSpec::whole(), columns(256), columns(1)],
        [Output::new(DType::F32, [32, 256], columns(32))],
    )
}

/// Replaces the elements of each block of 8 rows by their sum.
pub(super) fn rows_of_sums(grid: Grid, n_rows: usize) -> Kernel {
    let rows = || BlockSpec::new([8, 128], |[i]| (i, 0));
    kernel::call(
        |[x, y]: [Ref; 2]| y.store(x.load().sum()),
        grid,
        [rows()],
        [Output::new(DType::F32, [n_rows, 128], rows())],
    )
}

fn products() -> Kernel {
    let pairs = |rows: usize, columns: usize| BlockSpec::new([2, rows, columns], |[i]| (i, 0, 0));
    kernel::call(
        |[x, w, y]: [Ref; 3]| y.store(x.load().matmul(&w.load())),
        Grid::new([2]),
        [pairs(64, 128), pairs(128, 256)],
        [Output::new(DType::F32, [4, 64, 256], pairs(64, 256))],
    )
}

fn scratch_bf16() -> Kernel {
    let body = |[x, y, s]: [Ref; 3]| {
        s.store(x.load());
        let step = |i: Array, ()| {
            let part = s.at((ds(48 - &i * 16, 16), ..)).load();
            y.at((ds(&i * 16, 16), ..)).store(part);
        };
        kernel::fori_loop(0, 4, step, ());
    };
    let kernel = kernel::call(
        body,
        Grid::new([1]),
        [BlockSpec::whole()],
        [Output::new(DType::BF16, [64, 128], BlockSpec::whole())],
    );
    kernel.scratch([Scratch::vmem(DType::BF16, [64, 128])])
}
