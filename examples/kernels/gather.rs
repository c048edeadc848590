//! Step 5: rows of a table, chosen by prefetched indices.
//!
//! Index maps may depend on data. Operands that are *prefetched* are integers in the memory of
//! scalars, which the device reads before a program runs, so that it knows the next block while the
//! current one is computed. An embedding uses this: program `i` sees the row `ids[i]` of the table.
//! Nothing else of the table is read.
//!
//! A row is a block of one index, `None`, of an axis that the reference lacks. The table is
//! `[rows, 1, columns]`, since the last two axes of a block are whole tiles or whole axes.

use crate::Step;
use oxidax::kernel::{self, BlockSpec, Grid, Kernel, Output, Ref};
use oxidax::prelude::*;

fn gather_rows(count: usize, columns: usize) -> Kernel {
    let body = |[_ids, row, output]: [Ref; 3]| output.store(row.load());
    let block = [None, Some(1), Some(columns)];
    let row = BlockSpec::prefetched(block, |[i], [ids]| (ids.at((i,)).load(), 0, 0));
    let written = BlockSpec::prefetched(block, |[i], [_ids]| (i, 0, 0));
    let output = Output::new(DType::F32, [count, 1, columns], written);
    kernel::call(body, Grid::new([count]), [row], [output]).prefetch(1).name("gather_rows")
}

pub(crate) fn run() -> Result<Step, Error> {
    let table = random::normal(random::key(0), [1000, 256]);
    let ids = array![3i32, 999, 0, 3, 512];
    let kernel = gather_rows(5, 256);
    let reshaped = table.reshape([1000, 1, 256]);
    let rows = kernel.apply1(&[&ids, &reshaped]).reshape([5, 256]);
    Step::new(&kernel.trace(&[&ids, &reshaped]), &rows, &take(&table, &ids, 0))
}
