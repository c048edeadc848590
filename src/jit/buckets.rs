//! [`Buckets`]: arrays of many lengths, padded to few.

use crate::core::trace::op_error;
use crate::core::{Array, DType, Error, HostArray, Loc, OpErrorKind};
use crate::primitives::rules::resolve_axis;
use crate::runtime::{committed_placement, transfer};

/// A set of sizes to which an axis is padded, so that few compiled programs serve many lengths.
///
/// Every length of an argument has its own program. Padded to powers of two, all lengths up to 1024
/// share eleven programs, and less than half of each array is padding. The mask tells the function
/// which elements are real.
///
/// ```
/// use oxidax::jit::Buckets;
/// use oxidax::prelude::*;
/// let mean = jit(|x: Array, mask: Array| {
///     where_(&mask, &x, 0.0).sum() / mask.astype(DType::F32).sum()
/// });
/// let buckets = Buckets::powers_of_two();
/// for n in [5, 7, 8, 6, 13, 9] {
///     let (x, mask) = buckets.pad(&full([n], 3.0_f32), 0)?;
///     assert_eq!(mean.call(&x, &mask)?.item::<f32>()?, 3.0);
/// }
/// let stats = mean.stats();
/// assert_eq!((stats.calls, stats.compiles), (6, 2)); // for 8 and 16
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets(Sizes);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Sizes {
    PowersOfTwo,
    /// Ascending.
    Listed(Vec<usize>),
}

impl Buckets {
    /// Returns the sizes 1, 2, 4, 8, ….
    pub fn powers_of_two() -> Buckets {
        Buckets(Sizes::PowersOfTwo)
    }

    /// Returns these sizes, in any order. A longer axis is an error.
    ///
    /// ```
    /// use oxidax::jit::Buckets;
    /// let buckets = Buckets::new([512, 64, 128]);
    /// assert_eq!(buckets.size_for(100)?, 128);
    /// let error = buckets.size_for(600).unwrap_err().to_string();
    /// assert!(error.contains("600 elements do not fit the largest bucket, 512"), "{error}");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn new(sizes: impl IntoIterator<Item = usize>) -> Buckets {
        let mut sizes: Vec<usize> = sizes.into_iter().collect();
        sizes.sort_unstable();
        sizes.dedup();
        Buckets(Sizes::Listed(sizes))
    }

    /// Returns the smallest size of at least `length`.
    ///
    /// # Errors
    /// `Op` (value) if `length` exceeds the largest size.
    #[track_caller]
    pub fn size_for(&self, length: usize) -> Result<usize, Error> {
        let loc = Loc::caller();
        let refuse = |message: String, help: &str| {
            Err(op_error(OpErrorKind::Value, "Buckets", message, loc).with_help(help))
        };
        match &self.0 {
            Sizes::PowersOfTwo => match length.checked_next_power_of_two() {
                Some(size) => Ok(size),
                None => refuse(
                    format!("{length} elements exceed the largest power of two"),
                    "split the array",
                ),
            },
            Sizes::Listed(sizes) => match sizes[sizes.partition_point(|&size| size < length)..] {
                [size, ..] => Ok(size),
                [] => {
                    let largest = sizes.last().copied().unwrap_or(0);
                    let message =
                        format!("{length} elements do not fit the largest bucket, {largest}");
                    refuse(message, "add a larger size, or truncate the array")
                }
            },
        }
    }

    /// Returns `x` with `axis` padded with zeros to the next size, and the mask of that axis:
    /// `bool[size]`, true for the elements of `x`. A negative axis counts from the end.
    ///
    /// Works in host memory, because a program that pads would itself be compiled for every length:
    /// an array on another device than the CPU is copied to the host and back. Pad what comes from
    /// the host anyway: batches and prompts. The result is placed like `x` if that is committed,
    /// and like a new array otherwise; the mask is a new array.
    ///
    /// Throws `Tracer` if `x` is traced: pad the arguments, before the call.
    ///
    /// # Errors
    /// `Op` (value) if the axis exceeds the largest size or `x` has no such axis; `Runtime` if `x`
    /// cannot be read.
    ///
    /// ```
    /// use oxidax::jit::Buckets;
    /// use oxidax::prelude::*;
    /// let x = Array::from_slice(&[1, 2, 3, 4, 5, 6], [2, 3])?;
    /// let (padded, mask) = Buckets::new([4, 8]).pad(&x, -1)?;
    /// assert_eq!(padded.to_vec::<i32>()?, [1, 2, 3, 0, 4, 5, 6, 0]);
    /// assert_eq!(mask.to_vec::<bool>()?, [true, true, true, false]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn pad(&self, x: &Array, axis: isize) -> Result<(Array, Array), Error> {
        let axis = resolve_axis(axis, x.rank())
            .map_err(|error| op_error(error.kind, "Buckets::pad", error.message, Loc::caller()))?;
        let length = x.shape()[axis];
        let size = self.size_for(length)?;
        let mask: Vec<u8> = (0..size).map(|index| u8::from(index < length)).collect();
        let mask = Array::from_bytes(&mask, DType::Bool, [size])?;
        if size == length {
            return Ok((x.clone(), mask));
        }
        let host = x.to_host()?;
        let shape = x.shape().remove(axis).insert(axis, size);
        let padded = Array::from_bytes(&padded_bytes(&host, axis, size), x.dtype(), shape)?;
        let padded = match committed_placement(x) {
            Some(placement) => transfer(&padded, &placement, x.aval().memory)?,
            None => padded,
        };
        Ok((padded, mask))
    }
}

/// Returns the bytes of an array with `axis` extended to `size` by zeros.
fn padded_bytes(x: &HostArray, axis: usize, size: usize) -> Vec<u8> {
    let dims = x.shape().dims();
    let inner = dims[axis + 1..].iter().product::<usize>() * x.dtype().host_bytes();
    let outer: usize = dims[..axis].iter().product();
    let (row, padded_row) = (dims[axis] * inner, size * inner);
    let mut bytes = vec![0; outer * padded_row];
    for index in 0..outer {
        let source = &x.as_bytes()[index * row..(index + 1) * row];
        bytes[index * padded_row..index * padded_row + row].copy_from_slice(source);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_next_of_the_set() {
        let powers = Buckets::powers_of_two();
        let sizes = [0, 1, 2, 3, 1000].map(|length| powers.size_for(length).ok());
        assert_eq!(sizes, [Some(1), Some(1), Some(2), Some(4), Some(1024)]);
        let listed = Buckets::new([30, 10, 10]);
        let sizes = [0, 10, 11, 31].map(|length| listed.size_for(length).ok());
        assert_eq!(sizes, [Some(10), Some(10), Some(30), None]);
        assert!(powers.size_for(usize::MAX).is_err() && Buckets::new([]).size_for(1).is_err());
    }

    #[test]
    fn inner_axes_are_padded_row_by_row() {
        let x = HostArray::from_slice(&[1_u8, 2, 3, 4, 5, 6, 7, 8], [2, 2, 2]).expect("a shape");
        assert_eq!(padded_bytes(&x, 1, 3), [1, 2, 3, 4, 0, 0, 5, 6, 7, 8, 0, 0]);
        assert_eq!(padded_bytes(&x, 2, 3), [1, 2, 0, 3, 4, 0, 5, 6, 0, 7, 8, 0]);
        assert_eq!(padded_bytes(&x, 0, 3)[..10], [1, 2, 3, 4, 5, 6, 7, 8, 0, 0]);
    }
}
