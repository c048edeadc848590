//! Loads and stores.

use super::elementwise::{ADD, binary};
use super::emitter::{Emitter, Item, MemRef, Op};
use super::text::{Val, dims, element, list, value_type};
use crate::core::{DType, RuleError, RuleResult};
use crate::kernel::ref_ops::{AxisPart, AxisStart, RefGet, RefPart, RefSet};
use crate::kernel::spec::KernelMemory;

/// The number of slices that a load or store with a stride is unrolled to at most.
const MAX_UNROLLED: usize = 64;

/// Writes a load or store.
pub(super) fn emit(emitter: &mut Emitter, op: &Op<'_>) -> RuleResult<Option<Vec<Item>>> {
    let memory = match op.operands.first() {
        Some(Item::Memory(memory)) => *memory,
        _ => return Ok(None),
    };
    let memref = emitter.memories[memory].clone();
    if let Some(RefGet { part }) = op.get() {
        let starts = starts(op, 1, part)?;
        let value = emitter.load(&memref, part, &starts)?;
        let value = match part.masked {
            true => {
                let first = 1 + starts.len();
                emitter.select(op.value(first)?, &value, op.value(first + 1)?)?
            }
            false => value,
        };
        return Ok(Some(vec![Item::Value(value)]));
    }
    if let Some(RefSet { part }) = op.get() {
        let starts = starts(op, 2, part)?;
        let mut value = op.value(1)?.clone();
        if part.masked {
            // A program owns its blocks, so it may write what it read.
            let previous = emitter.load(&memref, part, &starts)?;
            value = emitter.select(op.value(2 + starts.len())?, &value, &previous)?;
        }
        emitter.store(&memref, part, &starts, &value)?;
        emitter.written.insert(memory);
        return Ok(Some(vec![Item::Memory(memory)]));
    }
    Ok(None)
}

fn starts(op: &Op<'_>, first: usize, part: &RefPart) -> RuleResult<Vec<Val>> {
    (first..first + part.n_starts()).map(|index| op.value(index).cloned()).collect()
}

/// A part of memory: the first index, the size and the stride along each axis of the memory.
struct Region {
    starts: Vec<Start>,
    sizes: Vec<usize>,
    strides: Vec<usize>,
}

#[derive(Clone)]
enum Start {
    Static(usize),
    Dynamic(Val),
}

impl Region {
    fn of(memref: &MemRef, part: &RefPart, starts: &[Val]) -> Region {
        let (mut axes, mut starts) = (part.axes.iter(), starts.iter());
        let mut region = Region { starts: vec![], sizes: vec![], strides: vec![] };
        for &is_squeezed in &memref.is_squeezed {
            let axis = match is_squeezed {
                true => AxisPart::At(AxisStart::Static(0)),
                false => *axes.next().expect("a part has all axes of its reference"),
            };
            region.starts.push(match axis.start() {
                AxisStart::Static(start) => Start::Static(start),
                AxisStart::Dynamic => {
                    Start::Dynamic(starts.next().expect("there is a start").clone())
                }
            });
            region.sizes.push(axis.size());
            region.strides.push(axis.stride());
        }
        region
    }

    /// Returns the axis with a stride, if there is one.
    fn strided_axis(&self) -> Option<usize> {
        (0..self.sizes.len()).find(|&axis| self.strides[axis] > 1 && self.sizes[axis] > 1)
    }
}

impl Emitter {
    fn load(&mut self, memref: &MemRef, part: &RefPart, starts: &[Val]) -> RuleResult<Val> {
        let region = Region::of(memref, part, starts);
        let shape = part.shape();
        if memref.memory == KernelMemory::Smem {
            let indices = self.scalar_indices(memref, &region)?;
            let operands = access(memref, &indices);
            let ty = value_type(memref.dtype, &[]);
            let name = self.text.op("memref.load", &operands, "", &[], &[ty]).swap_remove(0);
            let (dtype, multiple) = (memref.dtype, 1);
            let value = Val { name, dtype, shape: Vec::new(), multiple };
            return Ok(self.reshape(&value, shape.dims()));
        }
        let value = match region.strided_axis() {
            Some(axis) if !has_strided_access(memref, &region, axis) => {
                let parts = self.unrolled(memref, &region, axis)?;
                let parts: RuleResult<Vec<Val>> =
                    parts.iter().map(|part| self.load_region(memref, part)).collect();
                self.concatenate(&parts?, axis)
            }
            _ => self.load_region(memref, &region)?,
        };
        Ok(self.reshape(&value, shape.dims()))
    }

    fn store(
        &mut self,
        memref: &MemRef,
        part: &RefPart,
        starts: &[Val],
        value: &Val,
    ) -> RuleResult<()> {
        let region = Region::of(memref, part, starts);
        if memref.memory == KernelMemory::Smem {
            let indices = self.scalar_indices(memref, &region)?;
            let value = self.reshape(value, &[]);
            let mut operands = vec![(value.name.as_str(), value.ty())];
            operands.extend(access(memref, &indices));
            self.text.op("memref.store", &operands, "", &[], &[]);
            return Ok(());
        }
        let value = self.reshape(value, &region.sizes);
        match region.strided_axis() {
            Some(axis) if !has_strided_access(memref, &region, axis) => {
                for (index, part) in self.unrolled(memref, &region, axis)?.iter().enumerate() {
                    let mut offsets = vec![0; value.rank()];
                    offsets[axis] = index;
                    let slice = self.slice(&value, &offsets, &part.sizes);
                    self.store_region(memref, part, &slice)?;
                }
                Ok(())
            }
            _ => self.store_region(memref, &region, &value),
        }
    }

    /// Copies all elements of one memory to another of the same type.
    pub(super) fn copy(&mut self, from: &MemRef, to: &MemRef) -> RuleResult<()> {
        let region = |sizes: Vec<usize>| Region {
            starts: vec![Start::Static(0); sizes.len()],
            strides: vec![1; sizes.len()],
            sizes,
        };
        if from.memory != KernelMemory::Smem {
            let value = self.load_region(from, &region(from.shape.clone()))?;
            return self.store_region(to, &region(to.shape.clone()), &value);
        }
        let is_one = from.shape.iter().all(|&size| size == 1);
        if !is_one {
            let message = format!("{} shares memory with an output", described(from));
            return Err(RuleError::unsupported(message)
                .help("use `KernelMemory::Vmem`, or write the output before it is read"));
        }
        let whole = RefPart { axes: Vec::new(), masked: false };
        let [from, to] = [from, to].map(squeezed);
        let value = self.load(&from, &whole, &[])?;
        self.store(&to, &whole, &[], &value)
    }

    fn load_region(&mut self, memref: &MemRef, region: &Region) -> RuleResult<Val> {
        let indices = self.indices(memref, region)?;
        let operands = access(memref, &indices);
        let (name, attributes) = match region.strided_axis() {
            Some(_) => ("tpu.strided_load", strides(region)),
            None => ("vector.load", String::new()),
        };
        let ty = value_type(memref.dtype, &region.sizes);
        let name = self.text.op(name, &operands, &attributes, &[], &[ty]).swap_remove(0);
        Ok(Val { name, dtype: memref.dtype, shape: region.sizes.clone(), multiple: 1 })
    }

    fn store_region(&mut self, memref: &MemRef, region: &Region, value: &Val) -> RuleResult<()> {
        let indices = self.indices(memref, region)?;
        let mut operands = vec![(value.name.as_str(), value.ty())];
        operands.extend(access(memref, &indices));
        let (name, attributes) = match region.strided_axis() {
            Some(_) => ("tpu.strided_store", strides(region)),
            None => ("vector.store", String::new()),
        };
        self.text.op(name, &operands, &attributes, &[], &[]);
        Ok(())
    }

    /// Splits a part with a stride into slices of one index along its axis.
    fn unrolled(
        &mut self,
        memref: &MemRef,
        region: &Region,
        axis: usize,
    ) -> RuleResult<Vec<Region>> {
        let (size, stride) = (region.sizes[axis], region.strides[axis]);
        let ty = described(memref);
        let strided = region.strides.iter().filter(|&&stride| stride > 1).count();
        if axis + 1 == memref.shape.len() || strided > 1 || size > MAX_UNROLLED {
            let message = format!("{size} indices {stride} apart along axis {axis} of {ty}");
            return Err(RuleError::unsupported(message).help(
                "a TPU reads with a stride along one axis that is not the last, at most 64 indices, \
                 and more in f32 blocks of 128 lanes: choose such blocks, or arrange the array \
                 outside",
            ));
        }
        let part = |index: usize, emitter: &mut Emitter| -> RuleResult<Region> {
            let offset = index * stride;
            let mut starts = region.starts.clone();
            starts[axis] = match &starts[axis] {
                Start::Static(start) => Start::Static(start + offset),
                Start::Dynamic(start) => {
                    let start = emitter.convert(start, DType::I32);
                    let offset = emitter.text.int(offset as i64);
                    Start::Dynamic(binary(emitter, ADD, &start, &offset)?)
                }
            };
            let mut sizes = region.sizes.clone();
            sizes[axis] = 1;
            Ok(Region { starts, strides: vec![1; sizes.len()], sizes })
        };
        (0..size).map(|index| part(index, self)).collect()
    }

    /// Returns the indices of a vector's first element.
    fn indices(&mut self, memref: &MemRef, region: &Region) -> RuleResult<Vec<String>> {
        let rank = memref.shape.len();
        (0..rank)
            .map(|axis| match &region.starts[axis] {
                Start::Static(start) => Ok(self.text.index(*start)),
                // All indices of an axis begin at 0.
                Start::Dynamic(_) if region.sizes[axis] == memref.shape[axis] => {
                    Ok(self.text.index(0))
                }
                Start::Dynamic(start) => {
                    let start = self.convert(start, DType::I32);
                    let required = required_multiple(memref, axis, region.sizes[axis]);
                    let start = self.aligned(memref, axis, &start, required)?;
                    Ok(self.text.index_of(&start))
                }
            })
            .collect()
    }

    /// Declares that a start is a multiple of `required`, which its computation must show.
    fn aligned(
        &mut self,
        memref: &MemRef,
        axis: usize,
        start: &Val,
        required: u64,
    ) -> RuleResult<Val> {
        if required == 1 {
            return Ok(start.clone());
        }
        if !start.multiple.is_multiple_of(required) {
            let message = format!(
                "a start along axis {axis} of {} that is not known to be a multiple of {required}",
                described(memref)
            );
            return Err(RuleError::value(message).help(format!(
                "a TPU's registers hold whole tiles: compute the start as a number times \
                 {required}, or promise it with `kernel::multiple_of(&start, {required})`; a \
                 single row of 32-bit elements may start anywhere"
            )));
        }
        let attributes = format!("multiple = {required} : i32");
        Ok(self.text.value("tpu.assume_multiple", &[start], &attributes, (DType::I32, &[])))
    }

    /// Returns the indices of one element in the memory of scalars.
    fn scalar_indices(&mut self, memref: &MemRef, region: &Region) -> RuleResult<Vec<String>> {
        if region.sizes.iter().any(|&size| size != 1) {
            let sizes = list(&region.sizes);
            let message = format!("[{sizes}] elements of {} at once", described(memref));
            return Err(RuleError::unsupported(message).help(
                "the memory of scalars is read and written one element at a time: index every \
                 axis, in a loop if necessary, or use `KernelMemory::Vmem`",
            ));
        }
        let starts = region.starts.iter();
        Ok(starts
            .map(|start| match start {
                Start::Static(start) => self.text.index(*start),
                Start::Dynamic(start) => {
                    let start = self.convert(start, DType::I32);
                    self.text.index_of(&start)
                }
            })
            .collect())
    }
}

/// Returns memory of one element as a scalar.
fn squeezed(memref: &MemRef) -> MemRef {
    MemRef { is_squeezed: vec![true; memref.shape.len()], ..memref.clone() }
}

/// Returns the operands of a load: the memory and the indices.
fn access<'a>(memref: &'a MemRef, indices: &'a [String]) -> Vec<(&'a str, String)> {
    let mut operands = vec![(memref.name.as_str(), memref.ty())];
    operands.extend(indices.iter().map(|index| (index.as_str(), "index".to_string())));
    operands
}

fn strides(region: &Region) -> String {
    format!("strides = array<i32: {}>", list(&region.strides))
}

/// Returns true if one instruction reads the part with its stride: rows of 128 lanes of 32 bits.
fn has_strided_access(memref: &MemRef, region: &Region, axis: usize) -> bool {
    let rank = memref.shape.len();
    let is_one = region.strides.iter().filter(|&&stride| stride > 1).count() == 1;
    let is_row = rank >= 2 && axis + 2 == rank;
    is_one && is_row && memref.dtype.bits() == 32 && memref.shape[rank - 1] == 128
}

/// Returns the number of which a start must be a multiple (measured with libtpu 0.0.51: tiles of
/// windows have 8 rows of elements of 16 and 32 bits and 32 of 8 bits; those of scratch memory on
/// 7x have 16 rows of 16 bits).
fn required_multiple(memref: &MemRef, axis: usize, size: usize) -> u64 {
    let rank = memref.shape.len();
    let packing = (32 / memref.dtype.bits()).max(1) as u64;
    if rank == 1 {
        128 * packing
    } else if axis + 1 == rank {
        128
    } else if axis + 2 == rank {
        match packing {
            1 if size == 1 => 1,
            1 => 8,
            2 if memref.is_scratch => 16,
            2 => 8,
            _ => 8 * packing,
        }
    } else {
        1
    }
}

/// Describes memory in messages.
fn described(memref: &MemRef) -> String {
    let dims = dims(&memref.shape);
    let space = if memref.memory == KernelMemory::Smem { " in SMEM" } else { "" };
    format!("{}[{}]{space}", element(memref.dtype), dims.trim_end_matches('x').replace('x', ","))
}
