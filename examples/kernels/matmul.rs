//! Step 2: matrix multiplication with an accumulator.
//!
//! Blocks of a result are sums over blocks of the operands. The third axis of the grid goes over
//! the terms of the sum. It is *sequential*: its programs run one after the other, and share
//! scratch memory, which holds the sum. The block of the output does not depend on the third index,
//! so it stays in fast memory until the last program has written it.
//!
//! The sizes are not multiples of the blocks. What a program computes outside of an array is lost,
//! but a sum must not include it: elements there are undefined. The summed axis has a whole number
//! of blocks here. Otherwise both operands need a mask: zero times an undefined number is not zero.

use crate::Step;
use oxidax::kernel::{self, BlockSpec, Grid, Kernel, Output, Ref, Scratch};
use oxidax::prelude::*;

const BLOCK: usize = 128;

fn matmul_kernel([lhs, rhs, output, sums]: [Ref; 4]) {
    let (step, last) = (kernel::program_id(2), kernel::num_programs(2) as i32 - 1);
    kernel::when(eq(&step, 0), || sums.store(0.0));
    sums.add_assign(lhs.load().matmul(&rhs.load()));
    kernel::when(eq(&step, last), || output.store(sums.load()));
}

fn matmul([m, k, n]: [usize; 3]) -> Kernel {
    let block = [BLOCK, BLOCK];
    let lhs = BlockSpec::new(block, |[i, _, k]| (i, k));
    let rhs = BlockSpec::new(block, |[_, j, k]| (k, j));
    let output = Output::new(DType::F32, [m, n], BlockSpec::new(block, |[i, j, _]| (i, j)));
    let grid = Grid::new([m, n, k].map(|size| size.div_ceil(BLOCK))).sequential(1);
    kernel::call(matmul_kernel, grid, [lhs, rhs], [output])
        .scratch([Scratch::vmem(DType::F32, block)])
}

pub(crate) fn run() -> Result<Step, Error> {
    let [m, k, n] = [300, 512, 200];
    let lhs = random::normal(random::key(0), [m, k]);
    let rhs = random::normal(random::key(1), [k, n]);
    let kernel = matmul([m, k, n]);
    let product = kernel.apply1(&[&lhs, &rhs]);
    Step::new(&kernel.trace(&[&lhs, &rhs]), &product, &lhs.matmul(&rhs))
}
