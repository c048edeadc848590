//! Arrays in memory as a source of rows.

use crate::core::{Aval, Error, HostArray};
use crate::data::record::Record;
use crate::data::source::Source;
use std::fmt;
use std::sync::Arc;

/// The rows of arrays with equal first axes, as records with the same names. The arrays come from
/// [`npz`](super::npz), [`safetensors`](super::safetensors()), or any [`Record`].
///
/// ```
/// use oxidax::data::{HostArray, Record, Rows, Source};
/// let x = HostArray::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// let y = HostArray::from_slice(&[7, 8], [2])?;
/// let rows = Rows::new(Record::new().with("x", x).with("y", y))?;
/// let second = rows.get(1)?;
/// assert_eq!(second.get("x")?.to_vec::<f32>()?, [3.0, 4.0]);
/// assert_eq!(second.get("y")?.item::<i32>()?, 8);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone)]
#[doc(alias = "from_tensor_slices")]
pub struct Rows {
    arrays: Arc<Record>,
    len: usize,
}

impl Rows {
    /// Creates a source from arrays with the same number of rows.
    ///
    /// # Errors
    /// `Data` if there are no arrays, one has no axes, or their numbers of rows differ.
    pub fn new(arrays: Record) -> Result<Rows, Error> {
        let refused = |message: String| Err(Error::data("rows", message));
        let mut first: Option<(&str, usize)> = None;
        for (name, array) in arrays.fields() {
            let Some(&len) = array.shape().first() else {
                return refused(format!("`{name}` is {}, which has no rows", array.aval()));
            };
            match first {
                Some((other, others)) if others != len => {
                    return refused(format!("`{other}` has {others} rows, `{name}` has {len}"));
                }
                _ => first = Some((name, len)),
            }
        }
        let Some((_, len)) = first else {
            return refused("a record without fields has no rows".into());
        };
        Ok(Rows { arrays: Arc::new(arrays), len })
    }
}

impl Source for Rows {
    type Record = Record;

    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, index: usize) -> Result<Record, Error> {
        let row = |(name, array): (&String, &HostArray)| {
            let aval = Aval::new(array.dtype(), &array.shape()[1..]);
            let size = aval.size() * array.dtype().host_bytes();
            let bytes = array.as_bytes()[index * size..][..size].to_vec();
            Ok((name.clone(), HostArray::from_bytes(bytes, aval)?))
        };
        self.arrays.fields().iter().map(row).collect()
    }
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rows({} of {} arrays)", self.len, self.arrays.fields().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_lengths_are_refused() {
        let array =
            |dims: &[usize]| HostArray::from_slice(&vec![0; dims.iter().product()], dims).unwrap();
        let refused = |record: Record| Rows::new(record).unwrap_err().to_string();
        let record = Record::new().with("x", array(&[3, 2])).with("y", array(&[2]));
        assert_eq!(refused(record), "error[data]: rows: `x` has 3 rows, `y` has 2");
        let record = Record::new().with("x", array(&[]));
        assert_eq!(refused(record), "error[data]: rows: `x` is i32[], which has no rows");
        assert!(refused(Record::new()).ends_with("a record without fields has no rows"));
    }
}
