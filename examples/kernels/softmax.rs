//! Step 3: softmax of rows, in one pass over memory.
//!
//! The function needs the maximum of a row, then the sum of exponentials, then their quotients. A
//! compiler may read the row once for each of them. A program with a whole row in fast memory reads
//! it once and writes it once, which is the least possible.
//!
//! Statistics keep the axis of the row, `[8, 1]`. So every value in the kernel has two axes, and
//! fills the registers of a TPU. There are 100 rows in blocks of 8. The last block reaches beyond
//! the array, which does not matter, since rows do not depend on each other.

use crate::Step;
use oxidax::kernel::{self, BlockSpec, Grid, Kernel, Output, Ref};
use oxidax::prelude::*;

fn softmax_kernel([x, output]: [Ref; 2]) {
    let x = x.load();
    let exponentials = exp(&x - x.max_axes(axes(1).keepdims()));
    output.store(&exponentials / exponentials.sum_axes(axes(1).keepdims()));
}

fn softmax_of_rows([rows, columns]: [usize; 2]) -> Kernel {
    let block = || BlockSpec::new([8, columns], |[i]| (i, 0));
    let output = Output::new(DType::F32, [rows, columns], block());
    kernel::call(softmax_kernel, Grid::new([rows.div_ceil(8)]), [block()], [output])
}

pub(crate) fn run() -> Result<Step, Error> {
    let x = random::normal(random::key(0), [100, 1000]) * 10.0;
    let kernel = softmax_of_rows([100, 1000]);
    let y = kernel.apply1(&[&x]);
    Step::new(&kernel.trace(&[&x]), &y, &softmax(&x, -1))
}
