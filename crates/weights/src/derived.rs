//! Tensors computed from stored ones: parts, joins, permutations, other shapes and types.

use crate::convert::{convert, is_convertible};
use crate::dtype::WeightDType;
use crate::error::{Error, Result};
use crate::source::reserved;
use crate::strided::gather;
use crate::tensor::{ReadElements, StoredTensor};

/// Returns the tensor with single elements instead of blocks.
fn plain(tensor: &StoredTensor) -> StoredTensor {
    match tensor.dtype() {
        WeightDType::Ggml(_) => converted(tensor, WeightDType::F32),
        _ => tensor.clone(),
    }
}

fn converted(tensor: &StoredTensor, dtype: WeightDType) -> StoredTensor {
    let shape = tensor.shape().to_vec();
    StoredTensor::new(dtype, shape, Cast { of: tensor.clone(), dtype })
}

/// Converts the elements to a float type.
pub(crate) fn cast(tensor: &StoredTensor, dtype: WeightDType) -> Result<StoredTensor> {
    match is_convertible(tensor.dtype(), dtype) {
        true => Ok(converted(tensor, dtype)),
        false => Err(Error::new(format!("{tensor} cannot be converted to {dtype}"))),
    }
}

struct Cast {
    of: StoredTensor,
    dtype: WeightDType,
}

impl ReadElements for Cast {
    fn read(&self) -> Result<Vec<u8>> {
        convert(self.of.read()?, self.of.dtype(), self.dtype)
    }
}

/// Returns the part of a tensor from `start` along an axis.
pub(crate) fn slice(
    tensor: &StoredTensor,
    axis: usize,
    start: usize,
    length: usize,
) -> Result<StoredTensor> {
    let size = axis_size(tensor, axis)?;
    if start.checked_add(length).is_none_or(|end| end > size) {
        let message = format!("{length} from {start} of axis {axis} of {tensor}");
        return Err(Error::new(message));
    }
    let of = plain(tensor);
    let mut shape = of.shape().to_vec();
    shape[axis] = length;
    Ok(StoredTensor::new(of.dtype(), shape, Slice { of, axis, start, length }))
}

/// Returns the size of an axis.
pub(crate) fn axis_size(tensor: &StoredTensor, axis: usize) -> Result<usize> {
    let size = tensor.shape().get(axis).copied();
    size.ok_or_else(|| Error::new(format!("{tensor} has no axis {axis}")))
}

struct Slice {
    of: StoredTensor,
    axis: usize,
    start: usize,
    length: usize,
}

/// Returns the bytes of one index of the axis before `axis`.
fn row_bytes(tensor: &StoredTensor, axis: usize) -> usize {
    let width = tensor.dtype().width().unwrap_or(1);
    tensor.shape()[axis..].iter().product::<usize>() * width
}

impl ReadElements for Slice {
    fn read(&self) -> Result<Vec<u8>> {
        let Slice { of, axis, start, length } = self;
        let bytes = of.read()?;
        let row = row_bytes(of, *axis);
        let step = row.checked_div(of.shape()[*axis]).unwrap_or(0);
        let rows = bytes.len().checked_div(row).unwrap_or(0);
        let mut part = reserved((rows * step * length) as u64)?;
        if row > 0 {
            for row in bytes.chunks_exact(row) {
                part.extend_from_slice(&row[start * step..(start + length) * step]);
            }
        }
        Ok(part)
    }
}

/// Joins tensors along an axis.
pub(crate) fn join(parts: &[StoredTensor], axis: usize) -> Result<StoredTensor> {
    let parts: Vec<StoredTensor> = parts.iter().map(plain).collect();
    let first = parts.first().ok_or_else(|| Error::new("there is nothing to join"))?;
    axis_size(first, axis)?;
    let mut shape = first.shape().to_vec();
    shape[axis] = 0;
    for part in &parts {
        let size = axis_size(part, axis)?;
        let mut others = part.shape().to_vec();
        others[axis] = 0;
        let same = part.shape().len() == shape.len()
            && others.iter().zip(&shape).enumerate().all(|(at, (a, b))| at == axis || a == b);
        if !same || part.dtype() != first.dtype() {
            return Err(Error::new(format!(
                "{part} cannot be joined to {first} along axis {axis}"
            )));
        }
        shape[axis] = shape[axis].saturating_add(size);
    }
    let dtype = first.dtype();
    if dtype.byte_len(&shape).is_none() {
        return Err(Error::new(format!("{dtype}{shape:?} is too large")));
    }
    Ok(StoredTensor::new(dtype, shape, Join { parts, axis }))
}

struct Join {
    parts: Vec<StoredTensor>,
    axis: usize,
}

impl ReadElements for Join {
    fn read(&self) -> Result<Vec<u8>> {
        let parts: Vec<(usize, Vec<u8>)> = self
            .parts
            .iter()
            .map(|part| Ok((row_bytes(part, self.axis), part.read()?)))
            .collect::<Result<_>>()?;
        let total: usize = parts.iter().map(|part| part.1.len()).sum();
        let mut joined = reserved(total as u64)?;
        let rows = parts.iter().find(|part| part.0 > 0).map_or(0, |(row, all)| all.len() / row);
        for index in 0..rows {
            for (row, bytes) in &parts {
                joined.extend_from_slice(&bytes[index * row..(index + 1) * row]);
            }
        }
        Ok(joined)
    }
}

/// Permutes the axes: axis `i` of the result is axis `axes[i]` of the tensor.
pub(crate) fn permute(tensor: &StoredTensor, axes: &[usize]) -> Result<StoredTensor> {
    let mut sorted = axes.to_vec();
    sorted.sort_unstable();
    if !sorted.iter().copied().eq(0..tensor.shape().len()) {
        return Err(Error::new(format!("{axes:?} is not a permutation of the axes of {tensor}")));
    }
    let of = plain(tensor);
    let shape = axes.iter().map(|&axis| of.shape()[axis]).collect();
    Ok(StoredTensor::new(of.dtype(), shape, Permuted { of, axes: axes.to_vec() }))
}

struct Permuted {
    of: StoredTensor,
    axes: Vec<usize>,
}

impl ReadElements for Permuted {
    fn read(&self) -> Result<Vec<u8>> {
        let shape = self.of.shape();
        if shape.contains(&0) {
            return Ok(Vec::new());
        }
        let mut strides = vec![1u64; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis] as u64;
        }
        let permuted: Vec<usize> = self.axes.iter().map(|&axis| shape[axis]).collect();
        let strides: Vec<u64> = self.axes.iter().map(|&axis| strides[axis]).collect();
        gather(self.of.read()?, &permuted, &strides, self.of.dtype().width().unwrap_or(1))
    }
}

/// Returns the elements with other axis sizes. One size may be `None`: it follows from the others.
pub(crate) fn reshape(tensor: &StoredTensor, sizes: &[Option<usize>]) -> Result<StoredTensor> {
    let of = plain(tensor);
    let elements: usize = of.shape().iter().product();
    let known = sizes.iter().flatten().try_fold(1usize, |all, &size| all.checked_mul(size));
    let known = known.unwrap_or(0);
    let free = elements.checked_div(known).unwrap_or(0);
    let shape: Vec<usize> = sizes.iter().map(|size| size.unwrap_or(free)).collect();
    let count = shape.iter().try_fold(1usize, |all, &size| all.checked_mul(size));
    let unknown = sizes.iter().filter(|size| size.is_none()).count();
    if unknown > 1 || count != Some(elements) {
        return Err(Error::new(format!("{tensor} cannot have the axis sizes {shape:?}")));
    }
    Ok(StoredTensor::new(of.dtype(), shape, Reshaped(of)))
}

struct Reshaped(StoredTensor);

impl ReadElements for Reshaped {
    fn read(&self) -> Result<Vec<u8>> {
        self.0.read()
    }
}
