//! The windows of a kernel: [`Grid`], [`BlockSpec`], [`Output`] and [`Scratch`].

use super::refs::Ref;
use crate::core::{Array, Aval, DType, Loc, Shape};
use crate::primitives::{ArrayList, ListEntry};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// The order in which programs along a grid axis run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DimensionSemantics {
    /// In any order, and on several cores or multiprocessors at once. Programs must not depend on
    /// each other.
    Parallel,
    /// One after the other, by ascending index. A program sees what earlier ones wrote to scratch
    /// memory, and to the block of an output that they share.
    Arbitrary,
}

/// The grid of a kernel: the number of programs along each axis, the last of which varies fastest.
///
/// All axes are [`Parallel`](DimensionSemantics::Parallel) unless [`Grid::semantics`] says
/// otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// The number of programs along each axis.
    pub(super) sizes: Vec<usize>,
    /// The order of programs along each axis.
    pub(super) semantics: Vec<DimensionSemantics>,
}

impl Grid {
    /// Creates a grid of these sizes. Without an axis it has one program.
    pub fn new(sizes: impl Into<Shape>) -> Grid {
        let sizes = sizes.into().to_vec();
        Grid { semantics: vec![DimensionSemantics::Parallel; sizes.len()], sizes }
    }

    /// Declares that the last `count` axes are
    /// [`Arbitrary`](DimensionSemantics::Arbitrary): their programs run one after the other.
    #[must_use]
    pub fn sequential(mut self, count: usize) -> Grid {
        let first = self.sizes.len().saturating_sub(count);
        self.semantics[first..].fill(DimensionSemantics::Arbitrary);
        self
    }

    /// Sets the order of programs along each axis. [`call`](super::call) throws if their number
    /// differs from that of the axes.
    #[doc(alias = "dimension_semantics")]
    #[must_use]
    pub fn semantics(mut self, semantics: impl Into<Vec<DimensionSemantics>>) -> Grid {
        self.semantics = semantics.into();
        self
    }

    /// Returns the number of programs along each axis.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Returns the number of programs.
    pub fn n_programs(&self) -> usize {
        self.sizes.iter().product()
    }
}

/// The memory of a window or of scratch space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KernelMemory {
    /// The memory of vectors: VMEM on a TPU, registers and shared memory on a GPU.
    Vmem,
    /// The memory of scalars: SMEM on a TPU. Loads and stores are of single elements.
    Smem,
}

/// The size of a block along one axis of its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BlockDim {
    /// This many indices.
    Size(usize),
    /// One index. The reference lacks the axis.
    Squeezed,
}

impl BlockDim {
    /// Returns the number of indices.
    pub fn size(self) -> usize {
        match self {
            BlockDim::Size(size) => size,
            BlockDim::Squeezed => 1,
        }
    }
}

impl From<usize> for BlockDim {
    fn from(size: usize) -> BlockDim {
        BlockDim::Size(size)
    }
}

impl From<Option<usize>> for BlockDim {
    fn from(size: Option<usize>) -> BlockDim {
        size.map_or(BlockDim::Squeezed, BlockDim::Size)
    }
}

/// Maps grid indices and prefetched operands to block indices.
type IndexMap = dyn Fn(&[Array], &[Ref]) -> Vec<ListEntry> + Send + Sync;

/// The block of an array that each program sees.
#[derive(Clone)]
pub struct BlockSpec {
    /// The sizes; `None` for the whole array.
    pub(super) block: Option<Vec<BlockDim>>,
    /// The function to block indices; `None` for the first block.
    pub(super) index_map: Option<Arc<IndexMap>>,
    /// The number of grid indices that the function takes.
    pub(super) n_indices: Option<usize>,
    pub(super) memory: KernelMemory,
    pub(super) loc: Loc,
}

impl fmt::Debug for BlockSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockSpec")
            .field("block", &self.block)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

impl BlockSpec {
    /// Creates blocks of a size per axis of the array. `index_map` maps the grid indices of a
    /// program to the index of its block, in blocks: `|[i, j, k]| (i, k)`. An axis of size `None`
    /// has blocks of one index, and the reference lacks it.
    ///
    /// If the size of an array is not a multiple of the block's, the last block reaches beyond the
    /// array. A program reads undefined elements there, and what it writes there is lost.
    #[track_caller]
    pub fn new<B: Into<BlockDim>, const D: usize, const N: usize, R: ArrayList<F>, F>(
        block: [B; D],
        index_map: impl Fn([Array; N]) -> R + Send + Sync + 'static,
    ) -> BlockSpec {
        BlockSpec::with_map(block, N, move |ids, _| index_map(to_array(ids)).into_entries())
    }

    /// Creates blocks as [`BlockSpec::new`] does, whose index also depends on the prefetched
    /// operands: see [`Kernel::prefetch`](super::Kernel::prefetch).
    #[track_caller]
    pub fn prefetched<
        B: Into<BlockDim>,
        const D: usize,
        const N: usize,
        const P: usize,
        R: ArrayList<F>,
        F,
    >(
        block: [B; D],
        index_map: impl Fn([Array; N], [Ref; P]) -> R + Send + Sync + 'static,
    ) -> BlockSpec {
        BlockSpec::with_map(block, N, move |ids, refs| {
            index_map(to_array(ids), to_array(refs)).into_entries()
        })
    }

    #[track_caller]
    fn with_map<B: Into<BlockDim>, const D: usize>(
        block: [B; D],
        n_indices: usize,
        index_map: impl Fn(&[Array], &[Ref]) -> Vec<ListEntry> + Send + Sync + 'static,
    ) -> BlockSpec {
        BlockSpec {
            block: Some(block.map(Into::into).into()),
            index_map: Some(Arc::new(index_map)),
            n_indices: Some(n_indices),
            memory: KernelMemory::Vmem,
            loc: Loc::caller(),
        }
    }

    /// Creates one block, the whole array, which all programs see.
    #[track_caller]
    pub fn whole() -> BlockSpec {
        BlockSpec {
            block: None,
            index_map: None,
            n_indices: None,
            memory: KernelMemory::Vmem,
            loc: Loc::caller(),
        }
    }

    /// Stores the block in another memory.
    #[must_use]
    pub fn memory(mut self, memory: KernelMemory) -> BlockSpec {
        self.memory = memory;
        self
    }
}

/// Converts a list whose length the caller has checked.
fn to_array<T: Clone, const N: usize>(list: &[T]) -> [T; N] {
    std::array::from_fn(|index| list[index].clone())
}

/// The type of a result of a kernel, and its blocks.
#[derive(Clone, Debug)]
pub struct Output {
    pub(super) aval: Aval,
    pub(super) spec: BlockSpec,
}

impl Output {
    /// Creates an output of this dtype and shape.
    pub fn new(dtype: DType, shape: impl Into<Shape>, spec: BlockSpec) -> Output {
        Output { aval: Aval::new(dtype, shape), spec }
    }
}

/// Scratch memory of a kernel, which all programs that run one after the other share. It is not
/// initialized.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scratch {
    #[serde(with = "super::text::aval")]
    pub(super) aval: Aval,
    pub(super) memory: KernelMemory,
}

impl Scratch {
    /// Creates scratch memory for vectors.
    pub fn vmem(dtype: DType, shape: impl Into<Shape>) -> Scratch {
        Scratch { aval: Aval::new(dtype, shape), memory: KernelMemory::Vmem }
    }

    /// Creates scratch memory for scalars.
    pub fn smem(dtype: DType, shape: impl Into<Shape>) -> Scratch {
        Scratch { aval: Aval::new(dtype, shape), memory: KernelMemory::Smem }
    }

    /// Returns the type.
    pub fn aval(&self) -> &Aval {
        &self.aval
    }

    /// Returns the memory.
    pub fn memory(&self) -> KernelMemory {
        self.memory
    }
}
