//! The order in which the interpreter runs the programs of a grid.

use crate::kernel::{DimensionSemantics, KernelCall};

/// One program of the grid.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The number of the program, with the last axis fastest.
    pub(super) program: u32,
    /// Programs of one number have the same indices along parallel axes, and run one after the
    /// other.
    pub(super) run: u32,
    /// Programs of one number run one after the other, without others between them: scratch memory
    /// is kept.
    pub(super) stretch: u32,
}

/// Returns the indices of a program from its number.
pub(super) fn indices_of(grid: &[usize], program: u32) -> Vec<usize> {
    let mut rest = program as usize;
    let mut indices = vec![0; grid.len()];
    for (index, &size) in indices.iter_mut().zip(grid).rev() {
        *index = rest % size;
        rest /= size;
    }
    indices
}

/// Returns the programs in the order in which they run. Parallel axes are shuffled.
pub(super) fn schedule(kernel: &KernelCall) -> Vec<Step> {
    let is_parallel = |&axis: &usize| kernel.semantics[axis] == DimensionSemantics::Parallel;
    let parallel: Vec<usize> = (0..kernel.rank()).filter(is_parallel).collect();
    // The axes up to the last parallel one select a stretch.
    let n_outer = parallel.last().map_or(0, |&axis| axis + 1);
    let outer: Vec<usize> = (0..n_outer).filter(|axis| !is_parallel(axis)).collect();
    let number = |indices: &[usize], axes: &mut dyn Iterator<Item = usize>| {
        axes.fold(0, |number, axis| number * kernel.grid[axis] + indices[axis]) as u32
    };
    let mut steps: Vec<(Vec<usize>, Step)> = (0..kernel.n_programs() as u32)
        .map(|program| {
            let indices = indices_of(&kernel.grid, program);
            let run = number(&indices, &mut parallel.iter().copied());
            let stretch = number(&indices, &mut (0..n_outer));
            (outer.iter().map(|&axis| indices[axis]).collect(), Step { program, run, stretch })
        })
        .collect();
    steps.sort_by_key(|(outer, step)| (outer.clone(), shuffled(step.run), step.program));
    steps.into_iter().map(|(_, step)| step).collect()
}

/// Returns a number that looks random: splitmix64 (Steele, Lea, Flood 2014), with a fixed seed.
fn shuffled(number: u32) -> u64 {
    let mut mixed = (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Aval, DType};
    use crate::kernel::{self, BlockSpec, Grid, Output, Ref};
    use DimensionSemantics::{Arbitrary, Parallel};

    fn steps(grid: [usize; 2], semantics: [DimensionSemantics; 2]) -> Vec<(Vec<usize>, Step)> {
        let aval = Aval::new(DType::F32, [8, 128]);
        let kernel = kernel::call(
            |[y]: [Ref; 1]| y.store(0.0),
            Grid::new(grid).semantics(semantics),
            [],
            [Output::new(aval.dtype, aval.shape, BlockSpec::whole())],
        )
        .targets([])
        .trace(&[]);
        let steps = schedule(&kernel);
        steps.into_iter().map(|step| (indices_of(&grid, step.program), step)).collect()
    }

    #[test]
    fn parallel_programs_are_shuffled_and_sequential_ones_are_not() {
        let steps = steps([5, 3], [Parallel, Arbitrary]);
        assert_eq!(steps.len(), 15);
        let rows: Vec<usize> = steps.iter().map(|(indices, _)| indices[0]).collect();
        assert!(!rows.is_sorted(), "{rows:?}");
        for stretch in steps.chunks(3) {
            let columns: Vec<usize> = stretch.iter().map(|(indices, _)| indices[1]).collect();
            assert_eq!(columns, [0, 1, 2]);
            assert!(stretch.iter().all(|(_, step)| step.stretch == stretch[0].1.stretch));
        }
    }

    #[test]
    fn an_outer_sequential_axis_ascends_and_ends_stretches() {
        let steps = steps([2, 3], [Arbitrary, Parallel]);
        let rows: Vec<usize> = steps.iter().map(|(indices, _)| indices[0]).collect();
        assert_eq!(rows, [0, 0, 0, 1, 1, 1]);
        assert!(steps.windows(2).all(|pair| pair[0].1.stretch != pair[1].1.stretch));
        assert_eq!(steps.iter().filter(|(_, step)| step.run == 1).count(), 2);
    }
}
