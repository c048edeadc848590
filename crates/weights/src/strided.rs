//! Tensors that are strided views of a storage.

use crate::archive::Member;
use crate::dtype::WeightDType;
use crate::error::{Error, Result};
use crate::source::reserved;
use crate::tensor::{ByteOrder, ReadElements, StoredTensor, to_little_endian};

/// Most axes of a tensor.
pub(crate) const MAX_AXES: usize = 64;

/// A view may repeat the elements of its storage this often, plus [`FREE_BYTES`].
const MAX_REPEATS: u64 = 64;
const FREE_BYTES: u64 = 1 << 20;

/// Elements of a storage, with a stride for each axis.
struct StridedView {
    storage: Member,
    order: ByteOrder,
    dtype: WeightDType,
    /// The first element, and the number of elements from it to the last one.
    first: u64,
    span: u64,
    shape: Vec<usize>,
    strides: Vec<u64>,
}

/// Returns a view of a storage. Offset and strides count elements.
pub(crate) fn view(
    storage: Member,
    order: ByteOrder,
    dtype: WeightDType,
    offset: u64,
    shape: Vec<usize>,
    strides: Vec<u64>,
) -> Result<StoredTensor> {
    let wrong = |message: String| Err(Error::new(message));
    if shape.len() != strides.len() || shape.len() > MAX_AXES {
        let (axes, others) = (shape.len(), strides.len());
        return wrong(format!("{axes} axes with {others} strides, at most {MAX_AXES}"));
    }
    let width = dtype.width().unwrap_or(1) as u64;
    let Some(bytes) = dtype.byte_len(&shape) else {
        return wrong(format!("axis sizes {shape:?} overflow"));
    };
    let steps = shape.iter().zip(&strides);
    let last = steps.map(|(&size, &stride)| (size.max(1) as u64 - 1).checked_mul(stride));
    let span = match bytes {
        0 => Some(0),
        _ => last.into_iter().try_fold(1u64, |sum, step| sum.checked_add(step?)),
    };
    let end = span
        .and_then(|span| span.checked_add(if span == 0 { 0 } else { offset }))
        .and_then(|end| end.checked_mul(width))
        .filter(|&end| end <= storage.size);
    let (Some(span), Some(_)) = (span, end) else {
        return wrong(format!(
            "{dtype}{shape:?} with strides {strides:?} from element {offset} exceeds its storage \
             of {} bytes",
            storage.size
        ));
    };
    if bytes > storage.size.saturating_mul(MAX_REPEATS).saturating_add(FREE_BYTES) {
        return wrong(format!(
            "{dtype}{shape:?} repeats the {} bytes of its storage over {MAX_REPEATS} times; save \
             it after `.contiguous()`",
            storage.size
        ));
    }
    let view =
        StridedView { storage, order, dtype, first: offset, span, shape: shape.clone(), strides };
    Ok(StoredTensor::new(dtype, shape, view))
}

impl ReadElements for StridedView {
    fn read(&self) -> Result<Vec<u8>> {
        if self.span == 0 {
            return Ok(Vec::new());
        }
        let width = self.dtype.width().unwrap_or(1);
        let (first, count) = (self.first * width as u64, self.span * width as u64);
        let mut bytes = self.storage.read(first, count)?;
        to_little_endian(&mut bytes, self.order, self.dtype.swap_width());
        gather(bytes, &self.shape, &self.strides, width)
    }
}

/// Returns the elements in row-major order.
pub(crate) fn gather(
    bytes: Vec<u8>,
    shape: &[usize],
    strides: &[u64],
    width: usize,
) -> Result<Vec<u8>> {
    let mut contiguous = 1;
    let is_row_major = shape.iter().zip(strides).rev().all(|(&size, &stride)| {
        let fits = size == 1 || stride == contiguous;
        contiguous *= size as u64;
        fits
    });
    if is_row_major {
        return Ok(bytes);
    }
    match width {
        1 => gather_of::<1>(&bytes, shape, strides),
        2 => gather_of::<2>(&bytes, shape, strides),
        4 => gather_of::<4>(&bytes, shape, strides),
        8 => gather_of::<8>(&bytes, shape, strides),
        _ => gather_of::<16>(&bytes, shape, strides),
    }
}

/// Gathers elements of `N` bytes.
fn gather_of<const N: usize>(bytes: &[u8], shape: &[usize], strides: &[u64]) -> Result<Vec<u8>> {
    let elements: u64 = shape.iter().map(|&size| size as u64).product();
    let mut result = reserved(elements * N as u64)?;
    let (Some((&size, outer)), Some((&stride, outer_strides))) =
        (shape.split_last(), strides.split_last())
    else {
        return Ok(bytes.to_vec());
    };
    let mut index = vec![0usize; outer.len()];
    let mut at = 0u64;
    for _ in 0..outer.iter().product() {
        if stride == 1 {
            result.extend_from_slice(&bytes[at as usize * N..][..size * N]);
        } else {
            let mut from = at;
            for _ in 0..size {
                let element = &bytes[from as usize * N..][..N];
                result.extend_from_slice(&std::array::from_fn::<u8, N, _>(|byte| element[byte]));
                // The stride of an axis of size 1 can be anything.
                from = from.wrapping_add(stride);
            }
        }
        for axis in (0..outer.len()).rev() {
            index[axis] += 1;
            at = at.wrapping_add(outer_strides[axis]);
            if index[axis] < outer[axis] {
                break;
            }
            at = at.wrapping_sub(outer_strides[axis].wrapping_mul(outer[axis] as u64));
            index[axis] = 0;
        }
    }
    Ok(result)
}
