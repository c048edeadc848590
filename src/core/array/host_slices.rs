//! Parts of arrays in host memory.

use crate::core::types::shape::Shape;
use std::ops::Range;

/// Calls `each` with the place of every run of bytes of a part in the whole, in order, and its length.
fn runs(
    shape: &Shape,
    part: &[Range<usize>],
    each_bytes: usize,
    mut each: impl FnMut(usize, usize),
) {
    if part.iter().any(|along| along.is_empty()) {
        return;
    }
    // From this axis on the part has everything, so that it lies in one piece.
    let dims = shape.dims();
    let whole = |at: usize| part[at] == (0..dims[at]);
    let last = (0..dims.len()).rev().find(|&at| !whole(at)).unwrap_or(0);
    let inner: usize = dims.iter().skip(last + 1).product();
    let Some(along) = part.get(last) else { return each(0, each_bytes) };
    let length = along.len() * inner * each_bytes;
    let mut index: Vec<usize> = part[..last].iter().map(|along| along.start).collect();
    loop {
        let outer = index.iter().zip(dims).fold(0, |at, (&i, &size)| at * size + i);
        each((outer * dims[last] + along.start) * inner * each_bytes, length);
        let Some(at) = (0..last).rev().find(|&at| index[at] + 1 < part[at].end) else { return };
        index[at] += 1;
        for (index, along) in index.iter_mut().zip(part).skip(at + 1) {
            *index = along.start;
        }
    }
}

impl Shape {
    /// The bytes of a part of an array of this shape, whose elements have `each` bytes.
    pub(crate) fn take(&self, part: &[Range<usize>], each: usize, whole: &[u8]) -> Vec<u8> {
        let size: usize = part.iter().map(Range::len).product();
        let mut taken = Vec::with_capacity(size * each);
        runs(self, part, each, |at, length| taken.extend_from_slice(&whole[at..at + length]));
        taken
    }

    /// Writes the bytes of a part of an array of this shape to their places.
    pub(crate) fn place(&self, part: &[Range<usize>], each: usize, bytes: &[u8], whole: &mut [u8]) {
        let mut from = 0;
        runs(self, part, each, |at, length| {
            whole[at..at + length].copy_from_slice(&bytes[from..from + length]);
            from += length;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_out_and_go_back() {
        let shape = Shape::new(&[2, 3, 4]);
        let bytes: Vec<u8> = (0..48).collect();
        for part in [[0..2, 1..3, 0..4], [1..2, 0..3, 2..3], [0..2, 0..3, 0..4], [0..1, 2..2, 0..4]]
        {
            let piece = shape.take(&part, 2, &bytes);
            let mut expected = Vec::new();
            for (i, j, k) in (0..24).map(|at| (at / 12, at / 4 % 3, at % 4)) {
                if part[0].contains(&i) && part[1].contains(&j) && part[2].contains(&k) {
                    let at = (i * 12 + j * 4 + k) as u8 * 2;
                    expected.extend([at, at + 1]);
                }
            }
            assert_eq!(piece, expected, "{part:?}");
            let mut whole = vec![0; 48];
            shape.place(&part, 2, &piece, &mut whole);
            assert_eq!(shape.take(&part, 2, &whole), piece);
            assert_eq!(
                whole.iter().filter(|&&byte| byte != 0).count(),
                piece.iter().filter(|&&b| b != 0).count()
            );
        }
        assert_eq!(Shape::scalar().take(&[], 2, &[7, 8]), [7, 8]);
    }
}
