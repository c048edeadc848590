//! Rows of Parquet files as serde values.

use parquet::data_type::Decimal;
use parquet::record::{Field, Row};
use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::de::{Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// A row, deserialized as a struct or map of its columns, or as a tuple of their values.
pub(super) struct ParquetRow(pub(super) Row);

/// A value of a column.
struct Value(Field);

impl<'de> Deserializer<'de> for ParquetRow {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let columns = self.0.into_columns().into_iter();
        visitor.visit_map(MapDeserializer::new(columns.map(|(name, field)| (name, Value(field)))))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let columns = self.0.into_columns().into_iter();
        let mut values = SeqDeserializer::new(columns.map(|(_, field)| Value(field)));
        let value = visitor.visit_seq(&mut values)?;
        values.end().map(|()| value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct map struct enum identifier ignored_any
    }
}

impl IntoDeserializer<'_, Error> for Value {
    type Deserializer = Value;
    fn into_deserializer(self) -> Value {
        self
    }
}

impl<'de> Deserializer<'de> for Value {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Field::Null => visitor.visit_unit(),
            Field::Bool(value) => visitor.visit_bool(value),
            Field::Byte(value) => visitor.visit_i8(value),
            Field::Short(value) => visitor.visit_i16(value),
            Field::Int(value) | Field::Date(value) | Field::TimeMillis(value) => {
                visitor.visit_i32(value)
            }
            Field::Long(value)
            | Field::TimeMicros(value)
            | Field::TimestampMillis(value)
            | Field::TimestampMicros(value) => visitor.visit_i64(value),
            Field::UByte(value) => visitor.visit_u8(value),
            Field::UShort(value) => visitor.visit_u16(value),
            Field::UInt(value) => visitor.visit_u32(value),
            Field::ULong(value) => visitor.visit_u64(value),
            Field::Float16(value) => visitor.visit_f32(value.to_f32()),
            Field::Float(value) => visitor.visit_f32(value),
            Field::Double(value) => visitor.visit_f64(value),
            Field::Decimal(value) => visitor.visit_string(decimal(&value)?),
            Field::Str(value) => visitor.visit_string(value),
            Field::Bytes(value) => visitor.visit_byte_buf(value.data().to_vec()),
            Field::Group(row) => ParquetRow(row).deserialize_any(visitor),
            Field::ListInternal(list) => {
                let values = list.elements().iter().map(|field| Value(field.clone()));
                visitor.visit_seq(SeqDeserializer::new(values))
            }
            Field::MapInternal(map) => {
                let entries = map.entries().iter();
                let entries =
                    entries.map(|(key, value)| (Value(key.clone()), Value(value.clone())));
                visitor.visit_map(MapDeserializer::new(entries))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Field::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            // `Vec<u8>` asks for a sequence.
            Field::Bytes(value) => {
                visitor.visit_seq(SeqDeserializer::new(value.data().iter().copied()))
            }
            Field::Group(row) => ParquetRow(row).deserialize_seq(visitor),
            other => Value(other).deserialize_any(visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Field::Str(variant) => visitor.visit_enum(variant.into_deserializer()),
            other => Err(Error::custom(format!("{other} is not the name of a variant"))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct map struct identifier ignored_any
    }
}

/// Writes a decimal number as text, all digits kept.
fn decimal(value: &Decimal) -> Result<String, Error> {
    let bytes = value.data();
    if bytes.len() > 16 {
        return Err(Error::custom(format!("a decimal of {} bytes, at most 16", bytes.len())));
    }
    // Big-endian, in two's complement.
    let sign = if bytes.first().is_some_and(|byte| byte & 0x80 != 0) { -1i128 } else { 0 };
    let unscaled = bytes.iter().fold(sign, |number, &byte| number << 8 | i128::from(byte));
    let scale = usize::try_from(value.scale()).unwrap_or(0);
    if scale > 1000 {
        return Err(Error::custom(format!("a decimal with {scale} digits after the point")));
    }
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let minus = if unscaled < 0 { "-" } else { "" };
    Ok(if scale == 0 { format!("{minus}{whole}") } else { format!("{minus}{whole}.{fraction}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[test]
    fn decimals_keep_their_digits() {
        let text = |bytes: &[u8], scale| {
            decimal(&Decimal::from_bytes(bytes.to_vec().into(), 10, scale)).unwrap()
        };
        assert_eq!(text(&[0x04, 0xd2], 2), "12.34");
        assert_eq!(text(&[0xff], 2), "-0.01");
        assert_eq!(text(&[0x7f], 0), "127");
        assert_eq!(text(&[], 1), "0.0");
    }

    #[test]
    fn rows_become_structs_and_tuples() {
        #[derive(Deserialize, PartialEq, Debug)]
        #[serde(rename_all = "lowercase")]
        enum Split {
            Train,
        }
        #[derive(Deserialize, PartialEq, Debug)]
        struct Example {
            id: u32,
            text: String,
            missing: Option<f32>,
            image: Vec<u8>,
            split: Split,
        }
        let row = || {
            let fields = [
                ("id", Field::Long(7)),
                ("text", Field::Str("a".into())),
                ("missing", Field::Null),
                ("image", Field::Bytes(vec![1, 2].into())),
                ("split", Field::Str("train".into())),
                ("other", Field::Bool(true)),
            ];
            Row::new(fields.into_iter().map(|(name, field)| (name.to_owned(), field)).collect())
        };
        let example = Example::deserialize(ParquetRow(row())).unwrap();
        let expected = Example {
            id: 7,
            text: "a".into(),
            missing: None,
            image: vec![1, 2],
            split: Split::Train,
        };
        assert_eq!(example, expected);
        type Columns = (i64, String, Option<f32>, Vec<u8>, String, bool);
        let columns = Columns::deserialize(ParquetRow(row())).unwrap();
        assert_eq!(columns.4, "train");
        let error = <(i64,)>::deserialize(ParquetRow(row())).unwrap_err().to_string();
        assert!(error.contains("length 6, expected 1 element"), "{error}");
    }
}
