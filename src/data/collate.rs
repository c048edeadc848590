//! Putting examples together to batches.

use super::stages::Remainder;
use crate::core::{Aval, DType, Error, HostArray};
use std::collections::BTreeMap;

/// An example that can be put together with others to a batch: an array, a tuple or a
/// [`Record`](super::Record) of them, or a type of your own.
///
/// Arrays are stacked along a new leading axis.
pub trait Collate: Sized {
    /// The batch.
    type Batch;
    /// Puts at least one example together.
    ///
    /// # Errors
    /// `Data` if the examples do not fit together; `Plugin` or `Runtime` if the batch is of arrays that
    /// cannot be put on the device.
    fn collate(examples: Vec<Self>) -> Result<Self::Batch, Error>;
}

/// An example that can be put together with others of other lengths.
pub trait Pad: Collate {
    /// Puts at least one example together, padded to one shape.
    ///
    /// # Errors
    /// `Data` if the examples do not fit together however they are padded.
    fn pad(examples: Vec<Self>, padding: &Padding) -> Result<Self::Batch, Error>;
}

/// With what examples are padded, and how far: along their first axis, at the end.
///
/// ```
/// use oxidax::data::{Padding, Remainder};
/// let padding = Padding::with(0.0).field("labels", -100.0).multiple_of(128).remainder(Remainder::Keep);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Padding {
    value: f64,
    fields: BTreeMap<String, f64>,
    length: Option<usize>,
    multiple: usize,
    pub(super) remainder: Remainder,
}

impl Padding {
    /// Padding with this value, to the length of the longest example; a last batch that is not full is
    /// dropped.
    pub fn with(value: f64) -> Padding {
        let remainder = Remainder::Drop;
        Padding { value, fields: BTreeMap::new(), length: None, multiple: 1, remainder }
    }

    /// Another value for one field of records.
    pub fn field(mut self, name: impl Into<String>, value: f64) -> Padding {
        self.fields.insert(name.into(), value);
        self
    }

    /// To exactly this length; a longer example is an error.
    pub fn length(mut self, length: usize) -> Padding {
        self.length = Some(length);
        self
    }

    /// To a multiple of this; 0 and 1 leave the length as it is.
    pub fn multiple_of(mut self, multiple: usize) -> Padding {
        self.multiple = multiple.max(1);
        self
    }

    /// What becomes of the examples at the end that do not fill a batch.
    pub fn remainder(mut self, remainder: Remainder) -> Padding {
        self.remainder = remainder;
        self
    }

    /// The same with the value of a field for all.
    pub(super) fn of_field(&self, name: &str) -> Padding {
        let value = self.fields.get(name).copied().unwrap_or(self.value);
        Padding { value, ..self.clone() }
    }
}

fn mixed(first: &Aval, number: usize, other: &Aval) -> Error {
    let mut error =
        Error::data("batch", format!("example 0 is {first}, example {number} is {other}"));
    if let Error::Data { help, .. } = &mut error
        && first.dtype == other.dtype
        && first.shape.len() == other.shape.len()
    {
        *help = Some("`pad_batch` puts examples of different lengths together".into());
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
                return Err(mixed(first, number, example.aval()));
            }
            bytes.extend_from_slice(example.as_bytes());
        }
        let shape = first.shape.insert(0, examples.len());
        HostArray::from_bytes(bytes, Aval::new(first.dtype, shape))
    }
}

impl Pad for HostArray {
    fn pad(examples: Vec<HostArray>, padding: &Padding) -> Result<HostArray, Error> {
        let first = examples[0].aval();
        if first.shape.is_empty() {
            return HostArray::collate(examples);
        }
        for (number, example) in examples.iter().enumerate() {
            let aval = example.aval();
            if aval.dtype != first.dtype || aval.shape.get(1..) != first.shape.get(1..) {
                return Err(mixed(first, number, aval));
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

/// The bytes of a number as an element; integers must be met exactly.
fn element(value: f64, dtype: DType) -> Result<Vec<u8>, Error> {
    macro_rules! integer {
        ($ty:ty) => {{
            let exact = value as $ty;
            if exact as f64 != value {
                let message = format!("the padding {value} is no {dtype}");
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
        impl<$($name: Pad),*> Pad for ($($name,)*) {
            fn pad(examples: Vec<Self>, padding: &Padding) -> Result<Self::Batch, Error> {
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
    fn arrays_of_one_shape_are_stacked() {
        let pair = |n| (ids(&[n, n + 1]), HostArray::from_slice(&[n as f32], []).unwrap());
        let (x, y) = Collate::collate(vec![pair(1), pair(5)]).unwrap();
        assert_eq!(x.to_vec::<i32>().unwrap(), [1, 2, 5, 6]);
        assert_eq!(y.aval().to_string(), "f32[2]");
    }

    #[test]
    fn other_shapes_are_refused_with_the_remedy() {
        let error = HostArray::collate(vec![ids(&[1]), ids(&[1]), ids(&[1, 2])]).unwrap_err();
        expect![[r#"
            error[data]: batch: example 0 is i32[1], example 2 is i32[2]
              help: `pad_batch` puts examples of different lengths together"#]]
        .assert_eq(&error.to_string());
        let matrix = HostArray::from_slice(&[1], [1, 1]).unwrap();
        let error = HostArray::collate(vec![ids(&[1]), matrix]).unwrap_err().to_string();
        assert_eq!(error, "error[data]: batch: example 0 is i32[1], example 1 is i32[1,1]");
    }

    #[test]
    fn padding_goes_as_far_as_it_is_told() {
        let examples = vec![ids(&[1, 2, 3]), ids(&[]), ids(&[4])];
        let dims =
            |padding: Padding| HostArray::pad(examples.clone(), &padding).unwrap().shape().to_vec();
        assert_eq!(dims(Padding::with(0.0)), [3, 3]);
        assert_eq!(dims(Padding::with(0.0).multiple_of(4)), [3, 4]);
        assert_eq!(dims(Padding::with(0.0).length(9)), [3, 9]);
        let padded = HostArray::pad(examples.clone(), &Padding::with(-1.0)).unwrap();
        assert_eq!(padded.to_vec::<i32>().unwrap(), [1, 2, 3, -1, -1, -1, 4, -1, -1]);
        let refused = |padding: Padding| HostArray::pad(examples.clone(), &padding).unwrap_err();
        let error = refused(Padding::with(0.0).length(2)).to_string();
        assert_eq!(error, "error[data]: pad_batch: an example of length 3 does not fit into 2");
        let error = refused(Padding::with(0.5)).to_string();
        assert_eq!(error, "error[data]: pad_batch: the padding 0.5 is no i32");
        let error = refused(Padding::with(0.0).length(1 << 62)).to_string();
        assert!(error.contains("overflow"), "{error}");
    }

    #[test]
    fn rows_of_a_matrix_are_padded_along_the_first_axis() {
        let rows = |n: usize| HostArray::from_slice(&vec![1.5f32; 2 * n], [n, 2]).unwrap();
        let padded = HostArray::pad(vec![rows(1), rows(2)], &Padding::with(0.0)).unwrap();
        assert_eq!(padded.aval().to_string(), "f32[2,2,2]");
        assert_eq!(padded.to_vec::<f32>().unwrap(), [1.5, 1.5, 0.0, 0.0, 1.5, 1.5, 1.5, 1.5]);
    }
}
