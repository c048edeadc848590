//! Items that can be written to a cache file.

use super::record::Record;
use super::stages::Packed;
use crate::core::{Aval, DType, Error, HostArray};
use std::collections::BTreeMap;

/// An item that [`Stream::cache_on_disk`](super::Stream::cache_on_disk) can write and read:
/// numbers, text, bytes, arrays, records, and tuples, options and vectors of these.
///
/// A type of your own implements it with the methods of its fields:
///
/// ```
/// use oxidax::data::Cacheable;
/// use oxidax::Error;
/// #[derive(PartialEq, Debug)]
/// struct Example {
///     text: String,
///     label: u32,
/// }
/// impl Cacheable for Example {
///     fn encode(&self, bytes: &mut Vec<u8>) {
///         self.text.encode(bytes);
///         self.label.encode(bytes);
///     }
///     fn decode(bytes: &mut &[u8]) -> Result<Example, Error> {
///         Ok(Example { text: String::decode(bytes)?, label: u32::decode(bytes)? })
///     }
/// }
/// let mut bytes = Vec::new();
/// let example = Example { text: "red".into(), label: 3 };
/// example.encode(&mut bytes);
/// assert_eq!(Example::decode(&mut &bytes[..])?, example);
/// # Ok::<(), Error>(())
/// ```
pub trait Cacheable: Sized {
    /// Appends the item to `bytes`.
    fn encode(&self, bytes: &mut Vec<u8>);

    /// Reads an item from the start of `bytes`, and advances them.
    ///
    /// # Errors
    /// `Data` if the bytes are not an item.
    fn decode(bytes: &mut &[u8]) -> Result<Self, Error>;

    /// Appends several items. Bytes are copied at once.
    #[doc(hidden)]
    fn encode_slice(items: &[Self], bytes: &mut Vec<u8>) {
        items.iter().for_each(|item| item.encode(bytes));
    }

    /// Reads `count` items.
    #[doc(hidden)]
    fn decode_vec(count: usize, bytes: &mut &[u8]) -> Result<Vec<Self>, Error> {
        // The count is not trusted with memory: the vector grows as items are read.
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(Self::decode(bytes)?);
        }
        Ok(items)
    }
}

/// Splits the first `count` bytes off.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], Error> {
    let Some((taken, rest)) = bytes.split_at_checked(count) else {
        let message = format!("an item needs {count} more bytes, {} are left", bytes.len());
        return Err(Error::data("cache", message));
    };
    *bytes = rest;
    Ok(taken)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::data("cache", message)
}

macro_rules! numbers {
    ($($ty:ty),*) => {$(
        impl Cacheable for $ty {
            fn encode(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
            fn decode(bytes: &mut &[u8]) -> Result<$ty, Error> {
                let taken = take(bytes, size_of::<$ty>())?;
                Ok(<$ty>::from_le_bytes(taken.try_into().expect("as many bytes as were taken")))
            }
        }
    )*};
}

numbers!(i8, i16, i32, i64, i128, u16, u32, u64, u128, f32, f64, half::f16, half::bf16);

impl Cacheable for u8 {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push(*self);
    }
    fn decode(bytes: &mut &[u8]) -> Result<u8, Error> {
        take(bytes, 1).map(|taken| taken[0])
    }
    fn encode_slice(items: &[u8], bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(items);
    }
    fn decode_vec(count: usize, bytes: &mut &[u8]) -> Result<Vec<u8>, Error> {
        take(bytes, count).map(<[u8]>::to_vec)
    }
}

impl Cacheable for usize {
    fn encode(&self, bytes: &mut Vec<u8>) {
        (*self as u64).encode(bytes);
    }
    fn decode(bytes: &mut &[u8]) -> Result<usize, Error> {
        let number = u64::decode(bytes)?;
        usize::try_from(number).map_err(|_| invalid(format!("{number} exceeds this machine")))
    }
}

impl Cacheable for bool {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.push((*self).into());
    }
    fn decode(bytes: &mut &[u8]) -> Result<bool, Error> {
        match u8::decode(bytes)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(invalid(format!("{other} is not a bool"))),
        }
    }
}

impl Cacheable for String {
    fn encode(&self, bytes: &mut Vec<u8>) {
        self.len().encode(bytes);
        bytes.extend_from_slice(self.as_bytes());
    }
    fn decode(bytes: &mut &[u8]) -> Result<String, Error> {
        let text = Vec::<u8>::decode(bytes)?;
        String::from_utf8(text).map_err(|error| invalid(error.to_string()))
    }
}

impl<T: Cacheable> Cacheable for Option<T> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        self.is_some().encode(bytes);
        self.iter().for_each(|item| item.encode(bytes));
    }
    fn decode(bytes: &mut &[u8]) -> Result<Option<T>, Error> {
        bool::decode(bytes)?.then(|| T::decode(bytes)).transpose()
    }
}

impl<T: Cacheable> Cacheable for Vec<T> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        self.len().encode(bytes);
        T::encode_slice(self, bytes);
    }
    fn decode(bytes: &mut &[u8]) -> Result<Vec<T>, Error> {
        let count = usize::decode(bytes)?;
        // Every item takes at least one byte.
        if count > bytes.len() {
            let message = format!("a vector of {count} items in {} bytes", bytes.len());
            return Err(invalid(message));
        }
        T::decode_vec(count, bytes)
    }
}

impl<T: Cacheable> Cacheable for BTreeMap<String, T> {
    fn encode(&self, bytes: &mut Vec<u8>) {
        self.len().encode(bytes);
        for (name, item) in self {
            name.encode(bytes);
            item.encode(bytes);
        }
    }
    fn decode(bytes: &mut &[u8]) -> Result<BTreeMap<String, T>, Error> {
        let mut map = BTreeMap::new();
        for _ in 0..usize::decode(bytes)? {
            map.insert(String::decode(bytes)?, T::decode(bytes)?);
        }
        Ok(map)
    }
}

impl Cacheable for HostArray {
    fn encode(&self, bytes: &mut Vec<u8>) {
        self.dtype().name().to_owned().encode(bytes);
        self.shape().to_vec().encode(bytes);
        bytes.extend_from_slice(self.as_bytes());
    }
    fn decode(bytes: &mut &[u8]) -> Result<HostArray, Error> {
        let name = String::decode(bytes)?;
        let dtype = DType::from_name(&name)
            .ok_or_else(|| invalid(format!("there is no dtype {name:?}")))?;
        let shape = Vec::<usize>::decode(bytes)?;
        let sizes = shape.iter().try_fold(dtype.host_bytes(), |all, &n| all.checked_mul(n));
        let size = sizes.ok_or_else(|| invalid(format!("a shape of {shape:?} overflows")))?;
        HostArray::from_bytes(take(bytes, size)?.to_vec(), Aval::new(dtype, shape))
    }
}

impl Cacheable for Record {
    fn encode(&self, bytes: &mut Vec<u8>) {
        self.fields().encode(bytes);
    }
    fn decode(bytes: &mut &[u8]) -> Result<Record, Error> {
        BTreeMap::<String, HostArray>::decode(bytes).map(Record::from_iter)
    }
}

impl Cacheable for Packed {
    fn encode(&self, bytes: &mut Vec<u8>) {
        let arrays = [&self.tokens, &self.segment_ids, &self.positions];
        arrays.into_iter().for_each(|array| array.encode(bytes));
    }
    fn decode(bytes: &mut &[u8]) -> Result<Packed, Error> {
        let tokens = HostArray::decode(bytes)?;
        let segment_ids = HostArray::decode(bytes)?;
        Ok(Packed { tokens, segment_ids, positions: HostArray::decode(bytes)? })
    }
}

macro_rules! tuples {
    ($($name:ident $index:tt),*) => {
        impl<$($name: Cacheable),*> Cacheable for ($($name,)*) {
            fn encode(&self, bytes: &mut Vec<u8>) {
                $(self.$index.encode(bytes);)*
            }
            fn decode(bytes: &mut &[u8]) -> Result<Self, Error> {
                Ok(($($name::decode(bytes)?,)*))
            }
        }
    };
}

tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn round_trip<T: Cacheable + PartialEq + std::fmt::Debug>(item: T) {
        let mut bytes = Vec::new();
        item.encode(&mut bytes);
        let mut rest = &bytes[..];
        assert_eq!(T::decode(&mut rest).unwrap(), item);
        assert!(rest.is_empty());
        // No prefix is an item that panics or takes memory.
        for end in 0..bytes.len() {
            drop(T::decode(&mut &bytes[..end]));
        }
    }

    #[test]
    fn items_are_read_back() {
        round_trip((7u8, -3i64, f32::MIN_POSITIVE, true));
        round_trip((vec![1u8, 2, 3], String::from("é"), Some(vec![4u32]), None::<u16>));
        let array = HostArray::from_slice(&[1.5f32, 2.0], [2, 1]).unwrap();
        round_trip(Record::new().with("x", array.clone()).with("y", array.clone()));
        round_trip(HostArray::from_slice::<half::bf16>(&[], [0, 7]).unwrap());
        round_trip(Packed { tokens: array.clone(), segment_ids: array.clone(), positions: array });
    }

    #[test]
    fn wrong_bytes_are_errors() {
        let huge = u64::MAX.to_le_bytes();
        assert!(Vec::<u64>::decode(&mut &huge[..]).is_err());
        assert!(Vec::<u8>::decode(&mut &huge[..]).is_err());
        assert!(String::decode(&mut &[1, 0, 0, 0, 0, 0, 0, 0, 0xff][..]).is_err());
        assert!(bool::decode(&mut &[2][..]).is_err());
        let mut bytes = Vec::new();
        String::from("f32").encode(&mut bytes);
        vec![usize::MAX, 2].encode(&mut bytes);
        assert!(HostArray::decode(&mut &bytes[..]).is_err());
    }
}
