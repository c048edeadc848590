//! Arrays that were saved in the pieces that devices had of them.

use super::fault::{Read, abridged};
use super::header::Entry;
use crate::core::{DType, Shape};
use std::ops::Range;

/// An array that lies in pieces.
pub(super) struct Joined {
    /// What it is as a whole.
    pub(super) entry: Entry,
    dtype: DType,
    pieces: Vec<Piece>,
}

struct Piece {
    name: String,
    part: Vec<Range<usize>>,
}

impl Joined {
    /// Puts pieces, each with where it begins along the axes, together; or says why they are no array of this shape.
    pub(super) fn new(
        shape: &[usize],
        pieces: &[(&str, &Entry, &[usize])],
    ) -> Result<Joined, String> {
        let Some(&(_, first, _)) = pieces.first() else { return Err("there is none".into()) };
        let Some(dtype) = first.dtype else {
            return Err(format!("`{first}` is no type of ours"));
        };
        let mut parts = Vec::new();
        for &(name, entry, start) in pieces {
            let ends: Option<Vec<usize>> = start
                .iter()
                .zip(entry.shape.iter())
                .map(|(at, size)| at.checked_add(*size))
                .collect();
            let fits = entry.dtype == first.dtype
                && entry.shape.rank() == shape.len()
                && start.len() == shape.len()
                && ends
                    .as_ref()
                    .is_some_and(|ends| ends.iter().zip(shape).all(|(end, whole)| end <= whole));
            if !fits {
                let name = abridged(name);
                return Err(format!(
                    "`{name}`, {entry} at {start:?}, is no part of {dtype}{shape:?}"
                ));
            }
            let part =
                start.iter().zip(entry.shape.iter()).map(|(at, size)| *at..at + size).collect();
            parts.push(Piece { name: name.to_owned(), part });
        }
        let apart = |a: &Piece, b: &Piece| {
            a.part.iter().zip(&b.part).any(|(a, b)| a.end <= b.start || b.end <= a.start)
        };
        for (at, piece) in parts.iter().enumerate() {
            if let Some(other) = parts[..at].iter().find(|other| !apart(piece, other)) {
                let [a, b] = [abridged(&other.name), abridged(&piece.name)];
                return Err(format!("`{a}` and `{b}` overlap"));
            }
        }
        // Pieces that lie inside and do not overlap are the whole if they have as many elements.
        let size = |part: &Piece| part.part.iter().map(Range::len).product::<usize>();
        let (found, whole) =
            (parts.iter().map(size).sum::<usize>(), shape.iter().product::<usize>());
        if found != whole {
            return Err(format!("they have {found} elements, {dtype}{shape:?} has {whole}"));
        }
        let bytes = pieces.iter().map(|(_, entry, _)| entry.bytes).sum();
        let entry = Entry { shape: Shape::new(shape), bytes, ..first.clone() };
        Ok(Joined { entry, dtype, pieces: parts })
    }

    /// The names of the pieces.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().map(|piece| piece.name.as_str())
    }

    /// The whole, of which `read` gives each piece.
    pub(super) fn read(&self, read: impl Fn(&str) -> Read<Vec<u8>>) -> Read<Vec<u8>> {
        let each = self.dtype.host_bytes();
        let shape = &self.entry.shape;
        let mut whole = vec![0; shape.size() * each];
        for piece in &self.pieces {
            shape.write_slice(&piece.part, each, &read(&piece.name)?, &mut whole);
        }
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use safetensors::Dtype;

    fn entry(shape: &[usize]) -> Entry {
        let bytes = 4 * shape.iter().product::<usize>() as u64;
        let shape = Shape::new(shape);
        Entry { file: Dtype::F32, dtype: Some(DType::F32), shape, start: 0, bytes }
    }

    #[test]
    fn pieces_are_the_whole_or_refused() {
        let (half, quarter) = (entry(&[2, 4]), entry(&[2, 2]));
        let joined = |pieces: &[(&str, &Entry, &[usize])]| Joined::new(&[4, 4], pieces);
        let good =
            joined(&[("a", &half, &[0, 0]), ("b", &quarter, &[2, 0]), ("c", &quarter, &[2, 2])]);
        let read = good.unwrap_or_else(|why| panic!("{why}")).read(|name| {
            let n = if name == "a" { 8 } else { 4 };
            Ok([name.as_bytes()[0]; 4].repeat(n))
        });
        let read = read.unwrap_or_else(|fault| panic!("{}", fault.error));
        let letters: String = read.chunks(4).map(|x| x[0] as char).collect();
        assert_eq!(letters, "aaaaaaaabbccbbcc");
        let error = |pieces: &[(&str, &Entry, &[usize])]| joined(pieces).err().unwrap_or_default();
        assert!(error(&[("a", &half, &[0, 0])]).contains("8 elements"));
        assert!(error(&[("a", &half, &[0, 0]), ("b", &half, &[1, 0])]).contains("overlap"));
        assert!(error(&[("a", &half, &[3, 0])]).contains("no part"));
        assert!(error(&[("a", &half, &[usize::MAX, 0])]).contains("no part"));
        assert!(error(&[]).contains("none"));
    }
}
