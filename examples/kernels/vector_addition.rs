//! Step 1: vector addition, the smallest kernel.
//!
//! A kernel is a function of *references* to blocks of memory. [`kernel::call`] needs three more
//! facts: the grid, the number of programs that run the function; a [`BlockSpec`] for each operand,
//! from the index of a program to the index of its block; and the type and blocks of the output.
//!
//! A vector of 4,096 numbers is stored as 32 rows of 128, since a TPU's registers hold tiles of
//! 8 × 128. Each of the four programs loads 8 rows of `x` and of `y`, and stores their sums.

use crate::Step;
use oxidax::kernel::{self, BlockSpec, Grid, Kernel, Output, Ref};
use oxidax::prelude::*;

/// Adds two references, and stores the result in a third one.
fn add_kernel([x, y, output]: [Ref; 3]) {
    output.store(x.load() + y.load());
}

fn add() -> Kernel {
    let rows = || BlockSpec::new([8, 128], |[i]| (i, 0));
    let output = Output::new(DType::F32, [32, 128], rows());
    kernel::call(add_kernel, Grid::new([4]), [rows(), rows()], [output])
}

pub(crate) fn run() -> Result<Step, Error> {
    let [x, y] = [0, 1].map(|key| random::normal(random::key(key), [32, 128]));
    let kernel = add();
    let sum = kernel.apply1(&[&x, &y]);
    Step::new(&kernel.trace(&[&x, &y]), &sum, &(&x + &y))
}
