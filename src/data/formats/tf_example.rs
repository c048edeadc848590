//! `tf.train.Example`, the usual content of TFRecord files.

use crate::core::{Aval, DType, Error, HostArray, Shape};
use crate::data::record::missing;
use oxidax_proto::{Message, messages};
use std::collections::BTreeMap;

/// A `tf.train.Example`: features by name.
///
/// ```
/// use oxidax::data::{TfExample, TfFeature};
/// use oxidax::DType;
/// let example = TfExample::from([
///     ("image", TfFeature::Bytes(vec![vec![0, 51, 102, 255]])),
///     ("label", TfFeature::Int64(vec![7])),
/// ]);
/// let parsed = TfExample::parse(&example.encode())?;
/// assert_eq!(parsed, example);
/// assert_eq!(parsed.array("image", DType::U8, [2, 2])?.to_vec::<u8>()?, [0, 51, 102, 255]);
/// assert_eq!(parsed.array("label", DType::I32, [])?.item::<i32>()?, 7);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TfExample {
    features: BTreeMap<String, TfFeature>,
}

/// One feature of a [`TfExample`]: a list of values of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum TfFeature {
    /// Byte strings: text, encoded images, raw elements.
    Bytes(Vec<Vec<u8>>),
    /// Floats.
    Float(Vec<f32>),
    /// Integers.
    Int64(Vec<i64>),
}

impl TfExample {
    /// Decodes an example from its protocol buffer. A feature without a kind is left out.
    ///
    /// # Errors
    /// `Data` if the bytes are not an example.
    pub fn parse(bytes: &[u8]) -> Result<TfExample, Error> {
        let message = ExampleMessage::decode(bytes).map_err(|error| {
            let message = format!("the {} bytes are not a tf.train.Example: {error}", bytes.len());
            Error::data("TfExample::parse", message)
        })?;
        let features = message.features.unwrap_or_default().feature.into_iter();
        let features = features.filter_map(|(name, feature)| {
            let feature = match feature.kind? {
                Kind::Bytes(list) => TfFeature::Bytes(list.value),
                Kind::Float(list) => TfFeature::Float(list.value),
                Kind::Int64(list) => TfFeature::Int64(list.value),
            };
            Some((name, feature))
        });
        Ok(TfExample { features: features.collect() })
    }

    /// Encodes the example as a protocol buffer.
    pub fn encode(&self) -> Vec<u8> {
        let features = self.features.iter().map(|(name, feature)| {
            let kind = match feature {
                TfFeature::Bytes(value) => Kind::Bytes(BytesList { value: value.clone() }),
                TfFeature::Float(value) => Kind::Float(FloatList { value: value.clone() }),
                TfFeature::Int64(value) => Kind::Int64(Int64List { value: value.clone() }),
            };
            (name.clone(), FeatureMessage { kind: Some(kind) })
        });
        let features = FeaturesMessage { feature: features.collect() };
        ExampleMessage { features: Some(features) }.encode_to_vec()
    }

    /// Returns the features, sorted by name.
    pub fn features(&self) -> &BTreeMap<String, TfFeature> {
        &self.features
    }

    /// Returns a feature.
    ///
    /// # Errors
    /// `Data` if there is no feature of this name. The message lists the names.
    pub fn feature(&self, name: &str) -> Result<&TfFeature, Error> {
        self.features.get(name).ok_or_else(|| missing(name, self.features.keys()))
    }

    /// Returns a feature that is a single byte string.
    ///
    /// # Errors
    /// `Data` if it is missing, or not a single byte string.
    pub fn bytes(&self, name: &str) -> Result<&[u8], Error> {
        match self.feature(name)? {
            TfFeature::Bytes(list) if list.len() == 1 => Ok(&list[0]),
            other => Err(mismatch(name, other, "one byte string")),
        }
    }

    /// Returns a feature as an array: floats as `f32`, integers as `i64` or a smaller integer or
    /// `bool` that holds them, and a byte string as little-endian elements of any dtype.
    ///
    /// # Errors
    /// `Data` if it is missing, or does not match the dtype and shape.
    #[doc(alias = "FixedLenFeature")]
    #[doc(alias = "decode_raw")]
    pub fn array(
        &self,
        name: &str,
        dtype: DType,
        shape: impl Into<Shape>,
    ) -> Result<HostArray, Error> {
        let aval = Aval::new(dtype, shape);
        let feature = self.feature(name)?;
        let bytes = match feature {
            TfFeature::Float(values) if dtype == DType::F32 => {
                values.iter().flat_map(|value| value.to_ne_bytes()).collect()
            }
            TfFeature::Int64(values) => integers(values, dtype)
                .ok_or_else(|| mismatch(name, feature, &format!("elements of {dtype}")))?,
            TfFeature::Bytes(list) if list.len() == 1 => raw(&list[0], dtype)
                .ok_or_else(|| mismatch(name, feature, &format!("elements of {dtype}")))?,
            TfFeature::Float(_) | TfFeature::Bytes(_) => {
                return Err(mismatch(name, feature, &format!("elements of {dtype}")));
            }
        };
        if Some(bytes.len()) != aval.size().checked_mul(dtype.host_bytes()) {
            return Err(mismatch(name, feature, &aval.to_string()));
        }
        HostArray::from_bytes(bytes, aval)
    }
}

impl<N: Into<String>> FromIterator<(N, TfFeature)> for TfExample {
    fn from_iter<I: IntoIterator<Item = (N, TfFeature)>>(features: I) -> TfExample {
        let features = features.into_iter().map(|(name, feature)| (name.into(), feature));
        TfExample { features: features.collect() }
    }
}

impl<N: Into<String>, const COUNT: usize> From<[(N, TfFeature); COUNT]> for TfExample {
    fn from(features: [(N, TfFeature); COUNT]) -> TfExample {
        features.into_iter().collect()
    }
}

fn mismatch(name: &str, feature: &TfFeature, wanted: &str) -> Error {
    let found = match feature {
        TfFeature::Bytes(list) if list.len() == 1 => format!("{} bytes", list[0].len()),
        TfFeature::Bytes(list) => format!("{} byte strings", list.len()),
        TfFeature::Float(list) => format!("{} floats", list.len()),
        TfFeature::Int64(list) => match list[..] {
            [value] => format!("the integer {value}"),
            _ => format!("{} integers", list.len()),
        },
    };
    Error::data("TfExample", format!("feature `{name}` is {found}, expected {wanted}"))
}

/// Converts integers to elements of a dtype, if it can represent all of them.
fn integers(values: &[i64], dtype: DType) -> Option<Vec<u8>> {
    macro_rules! narrowed {
        ($ty:ty) => {{
            let mut bytes = Vec::with_capacity(values.len() * size_of::<$ty>());
            for &value in values {
                bytes.extend(<$ty>::try_from(value).ok()?.to_ne_bytes());
            }
            Some(bytes)
        }};
    }
    match dtype {
        DType::I64 => narrowed!(i64),
        DType::I32 => narrowed!(i32),
        DType::I16 => narrowed!(i16),
        DType::I8 => narrowed!(i8),
        DType::U64 => narrowed!(u64),
        DType::U32 => narrowed!(u32),
        DType::U16 => narrowed!(u16),
        DType::U8 => narrowed!(u8),
        DType::Bool => narrowed!(u8).filter(|bytes| bytes.iter().all(|&byte| byte <= 1)),
        _ => None,
    }
}

/// Converts little-endian elements to the host's order, if the dtype and the number of bytes allow
/// it.
fn raw(bytes: &[u8], dtype: DType) -> Option<Vec<u8>> {
    let width = dtype.host_bytes();
    // The packing of sub-byte elements is not standardized.
    let whole = dtype.bits() == 8 * width || dtype.is_bool();
    if !whole || !bytes.len().is_multiple_of(width) {
        return None;
    }
    if dtype.is_bool() && bytes.iter().any(|&byte| byte > 1) {
        return None;
    }
    Some(bytes.to_vec())
}

messages! {
    struct ExampleMessage {
        features: Option<FeaturesMessage> = 1,
    }

    struct FeaturesMessage {
        feature: BTreeMap<String, FeatureMessage> = 1,
    }

    struct FeatureMessage {
        ; kind: Option<Kind>
    }

    oneof enum Kind {
        Bytes(BytesList) = 1,
        Float(FloatList) = 2,
        Int64(Int64List) = 3,
    }

    struct BytesList {
        value: Vec<Vec<u8>> = 1,
    }

    struct FloatList {
        value: Vec<f32> = 1,
    }

    struct Int64List {
        value: Vec<i64> = 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn features_convert_exactly_or_not_at_all() {
        let example = TfExample::from([
            ("floats", TfFeature::Float(vec![0.5, 2.0])),
            ("ints", TfFeature::Int64(vec![1, 300])),
            ("raw", TfFeature::Bytes(vec![vec![1, 0, 2, 0]])),
            ("texts", TfFeature::Bytes(vec![b"a".to_vec(), b"b".to_vec()])),
        ]);
        let array = |name, dtype, dims: &[usize]| example.array(name, dtype, dims);
        assert_eq!(array("floats", DType::F32, &[2]).unwrap().to_vec::<f32>().unwrap(), [0.5, 2.0]);
        assert_eq!(array("ints", DType::U16, &[2]).unwrap().to_vec::<u16>().unwrap(), [1, 300]);
        assert_eq!(array("raw", DType::U16, &[2]).unwrap().to_vec::<u16>().unwrap(), [1, 2]);
        let refused =
            |name, dtype, dims: &[usize]| array(name, dtype, dims).unwrap_err().to_string();
        let all = [
            refused("ints", DType::U8, &[2]),
            refused("ints", DType::F32, &[2]),
            refused("floats", DType::F32, &[2, 2]),
            refused("raw", DType::F64, &[]),
            refused("texts", DType::U8, &[2]),
            refused("text", DType::U8, &[2]),
            example.bytes("texts").unwrap_err().to_string(),
        ];
        expect![[r#"
            error[data]: TfExample: feature `ints` is 2 integers, expected elements of u8
            error[data]: TfExample: feature `ints` is 2 integers, expected elements of f32
            error[data]: TfExample: feature `floats` is 2 floats, expected f32[2,2]
            error[data]: TfExample: feature `raw` is 4 bytes, expected elements of f64
            error[data]: TfExample: feature `texts` is 2 byte strings, expected elements of u8
            error[data]: record: there is no field `text`; the fields are `floats`, `ints`, `raw`, `texts`
            error[data]: TfExample: feature `texts` is 2 byte strings, expected one byte string"#]]
        .assert_eq(&all.join("\n"));
    }
}
