//! Slices of arrays in host memory.

use crate::core::types::shape::Shape;
use std::ops::Range;

/// Calls `visit` with offset and length of every contiguous run of bytes of a slice, in order.
/// `ranges` has the range of the slice along each axis of an array of shape `shape`.
fn for_each_run(
    shape: &Shape,
    ranges: &[Range<usize>],
    element_bytes: usize,
    mut visit: impl FnMut(usize, usize),
) {
    if ranges.iter().any(|range| range.is_empty()) {
        return;
    }
    // The slice covers all axes after `last`, so its elements along them are contiguous.
    let dims = shape.dims();
    let is_partial = |axis: usize| ranges[axis] != (0..dims[axis]);
    let last = (0..dims.len()).rev().find(|&axis| is_partial(axis)).unwrap_or(0);
    let inner: usize = dims.iter().skip(last + 1).product();
    let Some(range) = ranges.get(last) else { return visit(0, element_bytes) };
    let length = range.len() * inner * element_bytes;
    let mut index: Vec<usize> = ranges[..last].iter().map(|range| range.start).collect();
    loop {
        let outer = index.iter().zip(dims).fold(0, |offset, (&i, &size)| offset * size + i);
        visit((outer * dims[last] + range.start) * inner * element_bytes, length);
        let has_next = |&axis: &usize| index[axis] + 1 < ranges[axis].end;
        let Some(axis) = (0..last).rev().find(has_next) else { return };
        index[axis] += 1;
        for (index, range) in index.iter_mut().zip(ranges).skip(axis + 1) {
            *index = range.start;
        }
    }
}

impl Shape {
    /// Calls `visit` with offset and length of every contiguous run of bytes of a slice, in order.
    #[cfg(feature = "checkpoint")]
    pub(crate) fn for_each_run(
        &self,
        ranges: &[Range<usize>],
        element_bytes: usize,
        visit: impl FnMut(usize, usize),
    ) {
        for_each_run(self, ranges, element_bytes, visit);
    }

    /// Copies the bytes of a slice from `array`, the bytes of an array of this shape.
    pub(crate) fn read_slice(
        &self,
        ranges: &[Range<usize>],
        element_bytes: usize,
        array: &[u8],
    ) -> Vec<u8> {
        let size: usize = ranges.iter().map(Range::len).product();
        let mut slice = Vec::with_capacity(size * element_bytes);
        for_each_run(self, ranges, element_bytes, |offset, length| {
            slice.extend_from_slice(&array[offset..offset + length]);
        });
        slice
    }

    /// Copies the bytes of a slice to `array`, the bytes of an array of this shape.
    pub(crate) fn write_slice(
        &self,
        ranges: &[Range<usize>],
        element_bytes: usize,
        slice: &[u8],
        array: &mut [u8],
    ) {
        let mut read = 0;
        for_each_run(self, ranges, element_bytes, |offset, length| {
            array[offset..offset + length].copy_from_slice(&slice[read..read + length]);
            read += length;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_round_trip() {
        let shape = Shape::new(&[2, 3, 4]);
        let bytes: Vec<u8> = (0..48).collect();
        for part in [[0..2, 1..3, 0..4], [1..2, 0..3, 2..3], [0..2, 0..3, 0..4], [0..1, 2..2, 0..4]]
        {
            let piece = shape.read_slice(&part, 2, &bytes);
            let mut expected = Vec::new();
            for (i, j, k) in (0..24).map(|at| (at / 12, at / 4 % 3, at % 4)) {
                if part[0].contains(&i) && part[1].contains(&j) && part[2].contains(&k) {
                    let at = (i * 12 + j * 4 + k) as u8 * 2;
                    expected.extend([at, at + 1]);
                }
            }
            assert_eq!(piece, expected, "{part:?}");
            let mut whole = vec![0; 48];
            shape.write_slice(&part, 2, &piece, &mut whole);
            assert_eq!(shape.read_slice(&part, 2, &whole), piece);
            assert_eq!(
                whole.iter().filter(|&&byte| byte != 0).count(),
                piece.iter().filter(|&&b| b != 0).count()
            );
        }
        assert_eq!(Shape::scalar().read_slice(&[], 2, &[7, 8]), [7, 8]);
    }
}
