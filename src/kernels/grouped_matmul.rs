//! [`grouped_matmul`]: products of groups of rows with one matrix each.

use super::products::{block_size, dot, select_wide, sum_dtype, zero_from};
use super::row_groups::{Steps, Visits};
use super::scoped::{ScopedBlocks, combinations};
use crate::control_flow::custom_vjp;
use crate::core::{Loc, RuleError, RuleResult, throw_operands};
use crate::kernel::{self, BlockSpec, Grid, Kernel, Output, Ref, Scratch};
use crate::primitives::{
    bitwise_and, broadcasted_iota, convert_element_type, eq, full_like, ge, lt, ne, where_, zeros,
    zeros_like,
};
use crate::{Array, DType};

/// Options of [`grouped_matmul_with`].
///
/// Blocks are the sizes of the tiles that a program multiplies. On CPUs they do not apply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupedMatmulOptions {
    /// The matrices are `[g, n, k]` instead of `[g, k, n]`.
    pub transpose_rhs: bool,
    /// The rows of a block, a multiple of 16; 128 if `None`.
    pub block_m: Option<usize>,
    /// The summed indices of a block, a multiple of 128; 128 if `None`.
    pub block_k: Option<usize>,
    /// The columns of a block, a multiple of 128; 128 if `None`.
    pub block_n: Option<usize>,
    /// Runs the kernel with these blocks as a loop on every platform, to test it on a CPU.
    pub interpret: bool,
}

/// The size of a block along each axis, if the user does not choose.
const BLOCK: usize = 128;
/// The summed indices and the columns of a block that a table in scope chooses from.
const CANDIDATES: [usize; 3] = [128, 256, 512];

/// Returns [`grouped_matmul_with`] without options.
///
/// ```
/// use oxidax::kernels::grouped_matmul;
/// use oxidax::prelude::*;
/// let rows = Aval::new(DType::BF16, [512, 256]);
/// let experts = Aval::new(DType::BF16, [8, 256, 384]);
/// let sizes = Aval::new(DType::I32, [8]);
/// let y = eval_shape(
///     |x: Array, w: Array, sizes: Array| grouped_matmul(&x, &w, &sizes),
///     (rows, experts, sizes),
/// )?;
/// assert_eq!(y.aval().to_string(), "bf16[512,384]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "gmm")]
#[doc(alias = "ragged_dot")]
#[track_caller]
pub fn grouped_matmul(lhs: &Array, rhs: &Array, group_sizes: &Array) -> Array {
    grouped_matmul_with(lhs, rhs, group_sizes, &GroupedMatmulOptions::default())
}

/// Multiplies each row of `lhs`, `[m, k]`, by the matrix of its group in `rhs`, `[g, k, n]`. Layers
/// of experts use it with rows sorted by expert. The result is `[m, n]`, of the operands' dtype.
///
/// `group_sizes`, `int[g]`, holds the number of consecutive rows of each group, which may be 0.
/// Rows after the last group are zeros. Time and memory depend on the number of rows, hardly on
/// that of groups. Sums are computed in `f32` for narrower floats. The function has a derivative
/// with respect to `lhs` and `rhs`, of two more kernels, in reverse mode.
/// [`ragged_dot`](crate::ops::ragged_dot) is the plain function.
///
/// Throws `Op` (shape) if sizes do not fit, and `Op` (dtype) if `lhs` and `rhs` are not floats of
/// one dtype, or `group_sizes` are not integers.
///
/// Reference: Gale et al., "MegaBlocks: efficient sparse training with mixture-of-experts" (2022).
#[track_caller]
pub fn grouped_matmul_with(
    lhs: &Array,
    rhs: &Array,
    group_sizes: &Array,
    options: &GroupedMatmulOptions,
) -> Array {
    if let Err(error) = check(lhs, rhs, group_sizes, options) {
        throw_operands("grouped_matmul", error, &[lhs, rhs, group_sizes]);
    }
    let (forward, backward) = (options.clone(), options.clone());
    let product = custom_vjp(
        |lhs: &Array, rhs: &Array, sizes: &Array| rows_times_groups(lhs, rhs, sizes, options),
        move |lhs: &Array, rhs: &Array, sizes: &Array| {
            let product = rows_times_groups(lhs, rhs, sizes, &forward);
            (product, (lhs.clone(), rhs.clone(), sizes.clone()))
        },
        move |(lhs, rhs, sizes): &(Array, Array, Array), ct: &Array| {
            let transpose_rhs = !backward.transpose_rhs;
            let transposed = GroupedMatmulOptions { transpose_rhs, ..backward.clone() };
            let of_lhs = rows_times_groups(ct, rhs, sizes, &transposed);
            let of_rhs = match backward.transpose_rhs {
                false => products_of_groups(lhs, ct, sizes, &backward),
                true => products_of_groups(ct, lhs, sizes, &backward),
            };
            (of_lhs, of_rhs, zeros_like(sizes))
        },
    );
    Loc::caller().scope(|| product(lhs, rhs, group_sizes))
}

fn check(
    lhs: &Array,
    rhs: &Array,
    sizes: &Array,
    options: &GroupedMatmulOptions,
) -> RuleResult<()> {
    let ([_, k], [g, a, b], [n]) = (lhs.shape().dims(), rhs.shape().dims(), sizes.shape().dims())
    else {
        return Err(RuleError::shape(format!(
            "takes rows [m, k], matrices [g, k, n] and sizes [g], got {}, {} and {}",
            lhs.shape(),
            rhs.shape(),
            sizes.shape()
        )));
    };
    if !lhs.dtype().is_float() || lhs.dtype() != rhs.dtype() || !sizes.dtype().is_integer() {
        return Err(RuleError::dtype(format!(
            "takes floats of one dtype and integer sizes, got {}, {} and {}",
            lhs.dtype(),
            rhs.dtype(),
            sizes.dtype()
        )));
    }
    let summed = if options.transpose_rhs { b } else { a };
    if k != summed {
        let message = format!("rows of {k} elements and matrices with {summed} rows");
        return Err(RuleError::shape(message).help("`transpose_rhs` takes matrices [g, n, k]"));
    }
    if g != n {
        return Err(RuleError::shape(format!("{g} matrices and sizes of {n} groups")));
    }
    let blocks = [options.block_m, options.block_k, options.block_n];
    if blocks.contains(&Some(0)) {
        let blocks = blocks.map(|size| size.unwrap_or(BLOCK));
        return Err(RuleError::shape(format!(
            "blocks of m, k, n = {blocks:?}, which must not be 0"
        )));
    }
    Ok(())
}

/// The sizes of a product and of its blocks.
#[derive(Clone, Copy)]
struct Sizes {
    m: usize,
    k: usize,
    n: usize,
    block_m: usize,
    block_k: usize,
    block_n: usize,
}

impl Sizes {
    fn new([m, k, n]: [usize; 3], options: &GroupedMatmulOptions) -> Sizes {
        Sizes {
            m,
            k,
            n,
            block_m: block_size(m, options.block_m.unwrap_or(BLOCK)),
            block_k: block_size(k, options.block_k.unwrap_or(BLOCK)),
            block_n: block_size(n, options.block_n.unwrap_or(BLOCK)),
        }
    }

    /// Returns the sizes with these summed indices and columns of a block.
    fn with_blocks(self, blocks: &[usize]) -> Sizes {
        let (block_k, block_n) = (block_size(self.k, blocks[0]), block_size(self.n, blocks[1]));
        Sizes { block_k, block_n, ..self }
    }

    /// Returns the kernel `name` that is called with these operands. A table in scope chooses
    /// summed indices and columns of a block; the rows determine the operands.
    #[track_caller]
    fn on_platforms(
        self,
        name: &str,
        operands: &[&Array],
        options: &GroupedMatmulOptions,
        kernel: impl Fn(Sizes) -> Kernel,
    ) -> Kernel {
        if options.interpret {
            return kernel(self).interpret();
        }
        let scoped = match (options.block_k, options.block_n) {
            (None, None) => {
                let candidates = combinations([(self.k, &CANDIDATES), (self.n, &CANDIDATES)]);
                let build = |_, blocks: &[usize]| kernel(self.with_blocks(blocks));
                ScopedBlocks::of(name, operands, &candidates, build)
            }
            _ => ScopedBlocks::default(),
        };
        let sizes = scoped.tpu.map_or(self, |blocks| self.with_blocks(&blocks));
        let blocked = kernel(sizes).on_cpu(kernel(self.on_cpu()));
        match scoped.gpu {
            Some(blocks) => blocked.on_gpu(kernel(self.with_blocks(&blocks))),
            None => blocked,
        }
    }

    /// Returns the sizes for a CPU, which multiplies whole matrices faster. The steps depend on the
    /// rows of a block, which therefore stay.
    fn on_cpu(self) -> Sizes {
        Sizes { block_k: self.k, block_n: self.n, ..self }
    }
}

/// Returns a mask of the rows of a block, from index `first` of the array on, that are in
/// `start..end`.
fn rows_within(block: &Array, first: &Array, start: &Array, end: &Array) -> Array {
    let row = broadcasted_iota(DType::I32, block.shape().clone(), 0) + first;
    bitwise_and(ge(&row, start), lt(&row, end))
}

/// Multiplies rows by the matrices of their groups.
fn rows_times_groups(
    lhs: &Array,
    rhs: &Array,
    group_sizes: &Array,
    options: &GroupedMatmulOptions,
) -> Array {
    let (m, k, g) = (lhs.shape()[0], lhs.shape()[1], rhs.shape()[0]);
    let n = rhs.shape()[if options.transpose_rhs { 1 } else { 2 }];
    if [m, k, n, g].contains(&0) {
        return zeros([m, n]).astype(lhs.dtype());
    }
    let sizes = Sizes::new([m, k, n], options);
    let steps = Steps::new(group_sizes, m, sizes.block_m, Visits::Tiles);
    let kernel = |sizes| rows_kernel(sizes, steps.len(), lhs.dtype(), options.transpose_rhs);
    let Steps { tiles, groups, starts, ends, first, .. } = &steps;
    let operands = [tiles, groups, starts, ends, first, lhs, rhs];
    sizes.on_platforms("grouped_matmul", &operands, options, kernel).apply1(&operands)
}

fn rows_kernel(sizes: Sizes, n_steps: usize, dtype: DType, is_transposed: bool) -> Kernel {
    let Sizes { m, k, n, block_m, block_k, block_n } = sizes;
    let n_k = k.div_ceil(block_k);
    let body = move |[tiles, _, starts, ends, first, lhs, rhs, output, sums]: [Ref; 9]| {
        let (step, k_index) = (kernel::program_id(1), kernel::program_id(2));
        let scalar = |of: &Ref| of.at((&step,)).load();
        let (start, end) = (scalar(&starts), scalar(&ends));
        let is_first = bitwise_and(ne(scalar(&first), 0), eq(&k_index, 0));
        kernel::when(is_first, || output.store(0.0));
        kernel::when(lt(&start, &end), || {
            kernel::when(eq(&k_index, 0), || sums.store(0.0));
            let (mut rows, mut matrix) = (lhs.load(), rhs.load());
            let k_axis = usize::from(is_transposed);
            if k % block_k != 0 {
                let left = k as i32 - &k_index * (block_k as i32);
                rows = zero_from(&rows, 1, &left);
                matrix = zero_from(&matrix, k_axis, &left);
            }
            sums.add_assign(dot(&rows, 1, &matrix, k_axis));
            kernel::when(eq(&k_index, n_k as i32 - 1), || {
                let product = sums.load();
                let first_row = scalar(&tiles) * (block_m as i32);
                let mask = rows_within(&product, &first_row, &start, &end);
                let before = convert_element_type(&output.load(), sums.dtype());
                let merged = where_(&mask, &product, &before);
                output.store(convert_element_type(&merged, output.dtype()));
            });
        });
    };
    let rows = BlockSpec::prefetched([block_m, block_k], |[_, step, k], [tiles, _, _, _, _]| {
        (tiles.at((&step,)).load(), k)
    });
    let matrices = match is_transposed {
        false => BlockSpec::prefetched(
            [None, Some(block_k), Some(block_n)],
            |[j, step, k], [_, groups, _, _, _]| (groups.at((&step,)).load(), k, j),
        ),
        true => BlockSpec::prefetched(
            [None, Some(block_n), Some(block_k)],
            |[j, step, k], [_, groups, _, _, _]| (groups.at((&step,)).load(), j, k),
        ),
    };
    let written = BlockSpec::prefetched([block_m, block_n], |[j, step, _], [tiles, _, _, _, _]| {
        (tiles.at((&step,)).load(), j)
    });
    let grid = Grid::new([n.div_ceil(block_n), n_steps, n_k]).sequential(2);
    kernel::call(body, grid, [rows, matrices], [Output::new(dtype, [m, n], written)])
        .name("grouped_matmul")
        .prefetch(5)
        .scratch([Scratch::vmem(sum_dtype(dtype), [block_m, block_n])])
}

/// Returns `lhsᵀ · rhs` for each group of rows of `lhs`, `[m, k]`, and `rhs`, `[m, n]`:
/// `[g, k, n]`.
fn products_of_groups(
    lhs: &Array,
    rhs: &Array,
    group_sizes: &Array,
    options: &GroupedMatmulOptions,
) -> Array {
    let (m, k, n, g) = (lhs.shape()[0], lhs.shape()[1], rhs.shape()[1], group_sizes.shape()[0]);
    if [m, k, n, g].contains(&0) {
        return zeros([g, k, n]).astype(lhs.dtype());
    }
    let sizes = Sizes::new([m, k, n], options);
    let steps = Steps::new(group_sizes, m, sizes.block_m, Visits::Groups);
    let kernel = |sizes| groups_kernel(sizes, steps.len(), lhs.dtype(), g);
    let Steps { tiles, groups, starts, ends, first, last } = &steps;
    let operands = [tiles, groups, starts, ends, first, last, lhs, rhs];
    sizes.on_platforms("grouped_matmul_of_groups", &operands, options, kernel).apply1(&operands)
}

fn groups_kernel(sizes: Sizes, n_steps: usize, dtype: DType, n_groups: usize) -> Kernel {
    let Sizes { k, n, block_m, block_k, block_n, .. } = sizes;
    let body = move |[tiles, _, starts, ends, first, last, lhs, rhs, output, sums]: [Ref; 10]| {
        let step = kernel::program_id(2);
        let scalar = |of: &Ref| of.at((&step,)).load();
        let (start, end) = (scalar(&starts), scalar(&ends));
        kernel::when(ne(scalar(&first), 0), || sums.store(0.0));
        kernel::when(lt(&start, &end), || {
            let first_row = scalar(&tiles) * (block_m as i32);
            // Both operands, since a number of another group may be infinite.
            let [lhs, rhs] = [&lhs, &rhs].map(|rows| {
                let rows = rows.load();
                let mask = rows_within(&rows, &first_row, &start, &end);
                select_wide(&mask, &rows, &full_like(&rows, 0))
            });
            sums.add_assign(dot(&lhs, 0, &rhs, 0));
        });
        kernel::when(ne(scalar(&last), 0), || {
            output.store(convert_element_type(&sums.load(), output.dtype()));
        });
    };
    let left = BlockSpec::prefetched([block_m, block_k], |[i, _, step], [tiles, _, _, _, _, _]| {
        (tiles.at((&step,)).load(), i)
    });
    let right =
        BlockSpec::prefetched([block_m, block_n], |[_, j, step], [tiles, _, _, _, _, _]| {
            (tiles.at((&step,)).load(), j)
        });
    let written = BlockSpec::prefetched(
        [None, Some(block_k), Some(block_n)],
        |[i, j, step], [_, groups, _, _, _, _]| (groups.at((&step,)).load(), i, j),
    );
    let grid = Grid::new([k.div_ceil(block_k), n.div_ceil(block_n), n_steps]).sequential(1);
    kernel::call(body, grid, [left, right], [Output::new(dtype, [n_groups, k, n], written)])
        .name("grouped_matmul_of_groups")
        .prefetch(6)
        .scratch([Scratch::vmem(sum_dtype(dtype), [block_k, block_n])])
}
