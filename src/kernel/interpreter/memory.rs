//! The memory of a reference: its elements, and the last accesses of each of them.

use crate::core::{Aval, DType, Error, HostArray, Loc, Shape};
use crate::kernel::refs::RefRole;
use crate::kernel::{AxisPart, AxisStart, RefPart};

/// A load or store of an element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// The number of the program.
    pub(super) program: u32,
    /// The number of the programs with its indices along parallel axes.
    pub(super) run: u32,
    /// The line.
    pub(super) loc: Loc,
}

/// The accesses of an element.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    /// The last store.
    pub(super) writer: Option<Access>,
    /// The first load from shared memory, and the first one by a program of another run.
    pub(super) readers: [Option<Access>; 2],
    /// True if the memory was lost after the last store.
    pub(super) is_lost: bool,
}

impl Cell {
    /// Notes a load.
    pub(super) fn read(&mut self, access: Access) {
        match self.readers {
            [None, _] => self.readers[0] = Some(access),
            [Some(first), None] if first.run != access.run => self.readers[1] = Some(access),
            _ => {}
        }
    }
}

/// The memory of a reference: an array with whole blocks, or scratch memory.
pub(super) struct Memory {
    pub(super) role: RefRole,
    dtype: DType,
    /// The axis sizes: multiples of the block's.
    shape: Vec<usize>,
    /// The axis sizes of the array, without the undefined elements at the ends of axes.
    array: Vec<usize>,
    bytes: Vec<u8>,
    /// The accesses of each element; empty for memory that is only read.
    pub(super) cells: Vec<Cell>,
    /// The block of the current program.
    pub(super) block: Block,
}

/// The block of an array that a program sees.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    /// The index of the first element along each axis.
    pub(super) starts: Vec<usize>,
    /// The number of indices along each axis, and true for one that the reference lacks.
    pub(super) sizes: Vec<(usize, bool)>,
}

impl Block {
    /// Returns the whole of an array.
    pub(super) fn whole(shape: &[usize]) -> Block {
        let sizes = shape.iter().map(|&size| (size, false)).collect();
        Block { starts: vec![0; shape.len()], sizes }
    }
}

/// A part of an axis beyond the end of the block.
#[derive(Debug)]
pub(super) struct OutOfBlock {
    pub(super) axis: usize,
    pub(super) start: i128,
    pub(super) extent: usize,
    pub(super) size: usize,
}

impl Memory {
    /// Creates memory with a value in every element.
    pub(super) fn filled(role: RefRole, aval: &Aval, padded: &[usize], value: &[u8]) -> Memory {
        let n_elements = padded.iter().product();
        Memory {
            role,
            dtype: aval.dtype,
            shape: padded.to_vec(),
            array: aval.shape.to_vec(),
            bytes: value.repeat(n_elements),
            cells: Vec::new(),
            block: Block::whole(padded),
        }
    }

    /// Creates memory with the elements of an array, and a value in those beyond its end.
    pub(super) fn padded(
        role: RefRole,
        array: &HostArray,
        padded: &[usize],
        value: &[u8],
    ) -> Memory {
        let mut memory = Memory::filled(role, array.aval(), padded, value);
        let width = memory.width();
        let offsets = memory.array_elements();
        for (offset, bytes) in offsets.into_iter().zip(array.as_bytes().chunks_exact(width)) {
            memory.set(offset, bytes);
        }
        memory
    }

    /// Adds accesses for each element.
    pub(super) fn with_cells(mut self) -> Memory {
        self.cells = vec![Cell::default(); self.shape.iter().product()];
        self
    }

    fn width(&self) -> usize {
        self.dtype.host_bytes()
    }

    /// Returns the offsets of the array's elements, row-major.
    pub(super) fn array_elements(&self) -> Vec<usize> {
        let axes: Vec<(usize, usize, usize)> =
            self.array.iter().map(|&size| (0, size, 1)).collect();
        self.offsets_of(&axes)
    }

    /// Returns the offsets of the elements with these starts, sizes and strides, row-major.
    fn offsets_of(&self, axes: &[(usize, usize, usize)]) -> Vec<usize> {
        let mut offsets = vec![0];
        for (&(start, size, stride), &length) in axes.iter().zip(&self.shape) {
            let next = |&offset: &usize| {
                let first = offset * length + start;
                (0..size).map(move |index| first + index * stride)
            };
            offsets = offsets.iter().flat_map(next).collect();
        }
        offsets
    }

    /// Returns the offsets of the elements of a part of the current block. `starts` are those that
    /// the kernel computed.
    pub(super) fn part(&self, part: &RefPart, starts: &[i128]) -> Result<Vec<usize>, OutOfBlock> {
        let mut dynamic = starts.iter();
        let mut entries = part.axes.iter().enumerate();
        let mut axes = Vec::with_capacity(self.shape.len());
        for (&first, &(size, is_squeezed)) in self.block.starts.iter().zip(&self.block.sizes) {
            if is_squeezed {
                axes.push((first, 1, 1));
                continue;
            }
            let (axis, entry) = entries.next().expect("a part has an entry for each axis");
            let start = match entry.start() {
                AxisStart::Static(start) => start as i128,
                AxisStart::Dynamic => *dynamic.next().expect("there is a start for each entry"),
            };
            let extent = entry.extent();
            if start < 0 || start + extent as i128 > size as i128 {
                return Err(OutOfBlock { axis, start, extent, size });
            }
            axes.push((first + start as usize, AxisPart::size(entry), entry.stride()));
        }
        Ok(self.offsets_of(&axes))
    }

    /// Returns the indices of an element.
    pub(super) fn indices(&self, offset: usize) -> Vec<usize> {
        let mut rest = offset;
        let mut indices = vec![0; self.shape.len()];
        for (index, &size) in indices.iter_mut().zip(&self.shape).rev() {
            *index = rest % size;
            rest /= size;
        }
        indices
    }

    /// Returns true if blocks reach beyond the array.
    pub(super) fn is_ragged(&self) -> bool {
        self.shape != self.array
    }

    /// Returns true for an element beyond the end of the array.
    pub(super) fn is_beyond(&self, offset: usize) -> bool {
        self.is_ragged()
            && self.indices(offset).iter().zip(&self.array).any(|(index, size)| index >= size)
    }

    pub(super) fn get(&self, offset: usize) -> &[u8] {
        let width = self.width();
        &self.bytes[offset * width..(offset + 1) * width]
    }

    pub(super) fn set(&mut self, offset: usize, bytes: &[u8]) {
        let width = self.width();
        self.bytes[offset * width..(offset + 1) * width].copy_from_slice(bytes);
    }

    /// Loses all elements.
    pub(super) fn lose(&mut self, value: &[u8]) {
        self.bytes = value.repeat(self.cells.len());
        for cell in &mut self.cells {
            cell.is_lost = cell.writer.is_some();
        }
    }

    /// Returns the last store to an element.
    pub(super) fn last_store(&self, offset: usize) -> Option<Access> {
        self.cells.get(offset).and_then(|cell| cell.writer)
    }

    /// Returns the elements at these offsets.
    pub(super) fn gather(&self, offsets: &[usize], shape: Shape) -> Result<HostArray, Error> {
        let bytes = offsets.iter().flat_map(|&offset| self.get(offset)).copied().collect();
        HostArray::from_bytes(bytes, Aval::new(self.dtype, shape))
    }

    /// Returns the array, without elements beyond its end.
    pub(super) fn array(&self) -> Result<HostArray, Error> {
        self.gather(&self.array_elements(), Shape::from(self.array.clone()))
    }
}
