//! Assembling examples into batches.

use super::stages::Remainder;
use crate::core::{Aval, DType, Error, HostArray};
use std::collections::BTreeMap;

/// An example that can be assembled into a batch: an array, a tuple or [`Record`](super::Record) of
/// arrays, or a user-defined type.
///
/// Arrays are stacked along a new leading axis.
pub trait Collate: Sized {
    /// The type of a batch.
    type Batch;
    /// Assembles one or more examples into a batch.
    ///
    /// # Errors
    /// `Data` if the examples do not have equal shapes and dtypes. `Plugin` or `Runtime` if a batch
    /// of device arrays cannot be copied.
    fn collate(examples: Vec<Self>) -> Result<Self::Batch, Error>;
}

/// An example of variable length that can be padded.
pub trait CollatePadded: Collate {
    /// Pads one or more examples to one shape and assembles them into a batch.
    ///
    /// # Errors
    /// `Data` if the examples differ in more than their length, or exceed it.
    fn pad(examples: Vec<Self>, padding: &BatchPadding) -> Result<Self::Batch, Error>;
}

/// Value and length of padding. Examples are padded at the end of their first axis.
///
/// ```
/// use oxidax::data::{BatchPadding, Remainder};
/// let padding = BatchPadding::with(0.0).field("labels", -100.0).multiple_of(128);
/// let padding = padding.remainder(Remainder::Keep);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BatchPadding {
    value: f64,
    fields: BTreeMap<String, f64>,
    length: Option<usize>,
    multiple: usize,
    pub(super) remainder: Remainder,
}

impl BatchPadding {
    /// Pads with this value to the length of the longest example, and drops an incomplete last
    /// batch.
    pub fn with(value: f64) -> BatchPadding {
        let remainder = Remainder::Drop;
        BatchPadding { value, fields: BTreeMap::new(), length: None, multiple: 1, remainder }
    }

    /// Sets a different value for one field of records.
    pub fn field(mut self, name: impl Into<String>, value: f64) -> BatchPadding {
        self.fields.insert(name.into(), value);
        self
    }

    /// Pads to exactly this length. A longer example is an error.
    pub fn length(mut self, length: usize) -> BatchPadding {
        self.length = Some(length);
        self
    }

    /// Pads to a multiple of this length. 0 and 1 leave the length as it is.
    pub fn multiple_of(mut self, multiple: usize) -> BatchPadding {
        self.multiple = multiple.max(1);
        self
    }

    /// Sets the handling of examples that do not fill the last batch.
    pub fn remainder(mut self, remainder: Remainder) -> BatchPadding {
        self.remainder = remainder;
        self
    }

    /// Returns the padding of one field: its value applies to all elements.
    pub(super) fn of_field(&self, name: &str) -> BatchPadding {
        let value = self.fields.get(name).copied().unwrap_or(self.value);
        BatchPadding { value, ..self.clone() }
    }
}

fn mismatch(first: &Aval, number: usize, other: &Aval) -> Error {
    let mut error =
        Error::data("batch", format!("example 0 is {first}, example {number} is {other}"));
    if let Error::Data { help, .. } = &mut error
        && first.dtype == other.dtype
        && first.shape.len() == other.shape.len()
    {
        *help = Some("`pad_batch` batches examples of different lengths".into());
    }
    error
}

impl Collate for HostArray {
    type Batch = HostArray;

    fn collate(examples: Vec<HostArray>) -> Result<HostArray, Error> {
        let first = examples[0].aval();
        let mut bytes = Vec::with_capacity(examples.len() * examples[0].as_bytes().len());
        for (number, example) in examples.iter().enumerate() {
            if example.aval() != first {
                return Err(mismatch(first, number, example.aval()));
            }
            bytes.extend_from_slice(example.as_bytes());
        }
        let shape = first.shape.insert(0, examples.len());
        HostArray::from_bytes(bytes, Aval::new(first.dtype, shape))
    }
}

impl CollatePadded for HostArray {
    fn pad(examples: Vec<HostArray>, padding: &BatchPadding) -> Result<HostArray, Error> {
        let first = examples[0].aval();
        if first.shape.is_empty() {
            return HostArray::collate(examples);
        }
        for (number, example) in examples.iter().enumerate() {
            let aval = example.aval();
            if aval.dtype != first.dtype || aval.shape.get(1..) != first.shape.get(1..) {
                return Err(mismatch(first, number, aval));
            }
        }
        let longest = examples.iter().map(|example| example.shape()[0]).max().unwrap_or(0);
        let length = padding.length.unwrap_or(longest).next_multiple_of(padding.multiple);
        if longest > length {
            let message = format!("an example of length {longest} does not fit into {length}");
            return Err(Error::data("pad_batch", message));
        }
        let row: usize = first.shape[1..].iter().product::<usize>() * first.dtype.host_bytes();
        let element = element(padding.value, first.dtype)?;
        let size = examples.len().checked_mul(length).and_then(|rows| rows.checked_mul(row));
        let size = size.filter(|&size| isize::try_from(size).is_ok()).ok_or_else(|| {
            let message = format!("{} examples of length {length} overflow", examples.len());
            Error::data("pad_batch", message)
        })?;
        let mut bytes = Vec::with_capacity(size);
        for example in &examples {
            bytes.extend_from_slice(example.as_bytes());
            let missing = (length - example.shape()[0]) * row;
            bytes.extend(element.iter().cycle().take(missing));
        }
        let rest = first.shape.remove(0);
        let shape = rest.insert(0, length).insert(0, examples.len());
        HostArray::from_bytes(bytes, Aval::new(first.dtype, shape))
    }
}

/// Returns the bytes of an element. Integers must be represented exactly.
pub(super) fn element(value: f64, dtype: DType) -> Result<Vec<u8>, Error> {
    macro_rules! integer {
        ($ty:ty) => {{
            let exact = value as $ty;
            if exact as f64 != value {
                let message = format!("the padding {value} is not a valid {dtype}");
                return Err(Error::data("pad_batch", message));
            }
            exact.to_ne_bytes().to_vec()
        }};
    }
    Ok(match dtype {
        DType::Bool if value == 0.0 || value == 1.0 => vec![value as u8],
        DType::I8 => integer!(i8),
        DType::I16 => integer!(i16),
        DType::I32 => integer!(i32),
        DType::I64 => integer!(i64),
        DType::U8 => integer!(u8),
        DType::U16 => integer!(u16),
        DType::U32 => integer!(u32),
        DType::U64 => integer!(u64),
        DType::F16 => half::f16::from_f64(value).to_ne_bytes().to_vec(),
        DType::BF16 => half::bf16::from_f64(value).to_ne_bytes().to_vec(),
        DType::F32 => (value as f32).to_ne_bytes().to_vec(),
        DType::F64 => value.to_ne_bytes().to_vec(),
        other => {
            let message = format!("arrays of {other} cannot be padded with {value}");
            return Err(Error::data("pad_batch", message));
        }
    })
}

macro_rules! tuples {
    ($($name:ident $column:ident $index:tt),*) => {
        impl<$($name: Collate),*> Collate for ($($name,)*) {
            type Batch = ($($name::Batch,)*);
            fn collate(examples: Vec<Self>) -> Result<Self::Batch, Error> {
                $(let mut $column = Vec::with_capacity(examples.len());)*
                for example in examples {
                    $($column.push(example.$index);)*
                }
                Ok(($($name::collate($column)?,)*))
            }
        }
        impl<$($name: CollatePadded),*> CollatePadded for ($($name,)*) {
            fn pad(examples: Vec<Self>, padding: &BatchPadding) -> Result<Self::Batch, Error> {
                $(let mut $column = Vec::with_capacity(examples.len());)*
                for example in examples {
                    $($column.push(example.$index);)*
                }
                Ok(($($name::pad($column, padding)?,)*))
            }
        }
    };
}

tuples!(A a 0, B b 1);
tuples!(A a 0, B b 1, C c 2);

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn ids(ids: &[i32]) -> HostArray {
        HostArray::from_slice(ids, [ids.len()]).unwrap()
    }

    #[test]
    fn equal_shapes_are_stacked() {
        let pair = |n| (ids(&[n, n + 1]), HostArray::from_slice(&[n as f32], []).unwrap());
        let (x, y) = Collate::collate(vec![pair(1), pair(5)]).unwrap();
        assert_eq!(x.to_vec::<i32>().unwrap(), [1, 2, 5, 6]);
        assert_eq!(y.aval().to_string(), "f32[2]");
    }

    #[test]
    fn different_shapes_are_refused_with_a_remedy() {
        let error = HostArray::collate(vec![ids(&[1]), ids(&[1]), ids(&[1, 2])]).unwrap_err();
        expect![[r#"
            error[data]: batch: example 0 is i32[1], example 2 is i32[2]
              help: `pad_batch` batches examples of different lengths"#]]
        .assert_eq(&error.to_string());
        let matrix = HostArray::from_slice(&[1], [1, 1]).unwrap();
        let error = HostArray::collate(vec![ids(&[1]), matrix]).unwrap_err().to_string();
        assert_eq!(error, "error[data]: batch: example 0 is i32[1], example 1 is i32[1,1]");
    }

    #[test]
    fn padding_reaches_the_requested_length() {
        let examples = vec![ids(&[1, 2, 3]), ids(&[]), ids(&[4])];
        let dims = |padding: BatchPadding| {
            HostArray::pad(examples.clone(), &padding).unwrap().shape().to_vec()
        };
        assert_eq!(dims(BatchPadding::with(0.0)), [3, 3]);
        assert_eq!(dims(BatchPadding::with(0.0).multiple_of(4)), [3, 4]);
        assert_eq!(dims(BatchPadding::with(0.0).length(9)), [3, 9]);
        let padded = HostArray::pad(examples.clone(), &BatchPadding::with(-1.0)).unwrap();
        assert_eq!(padded.to_vec::<i32>().unwrap(), [1, 2, 3, -1, -1, -1, 4, -1, -1]);
        let refused =
            |padding: BatchPadding| HostArray::pad(examples.clone(), &padding).unwrap_err();
        let error = refused(BatchPadding::with(0.0).length(2)).to_string();
        assert_eq!(error, "error[data]: pad_batch: an example of length 3 does not fit into 2");
        let error = refused(BatchPadding::with(0.5)).to_string();
        assert_eq!(error, "error[data]: pad_batch: the padding 0.5 is not a valid i32");
        let error = refused(BatchPadding::with(0.0).length(1 << 62)).to_string();
        assert!(error.contains("overflow"), "{error}");
    }

    #[test]
    fn rows_of_a_matrix_are_padded_along_the_first_axis() {
        let rows = |n: usize| HostArray::from_slice(&vec![1.5f32; 2 * n], [n, 2]).unwrap();
        let padded = HostArray::pad(vec![rows(1), rows(2)], &BatchPadding::with(0.0)).unwrap();
        assert_eq!(padded.aval().to_string(), "f32[2,2,2]");
        assert_eq!(padded.to_vec::<f32>().unwrap(), [1.5, 1.5, 0.0, 0.0, 1.5, 1.5, 1.5, 1.5]);
    }
}
