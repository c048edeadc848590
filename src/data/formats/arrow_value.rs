//! Rows of Arrow record batches as serde values.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch};
use arrow_schema::{DataType, Fields, IntervalUnit, TimeUnit};
use serde::de::value::{Error, SeqDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use std::cell::Cell;
use std::ops::Range;

/// The memory of an element of a list, at least.
const ELEMENT: u64 = 16;

/// The bytes that the values of a row may still take. A few bytes of a dictionary, or of a list of
/// nulls, may stand for many.
#[derive(Clone, Copy)]
pub(super) struct Budget<'a>(pub(super) &'a Cell<u64>);

impl Budget<'_> {
    fn spend(self, bytes: u64) -> Result<(), Error> {
        let left = self.0.get().checked_sub(bytes);
        self.0.set(left.ok_or_else(|| Error::custom("the row is too large for this file"))?);
        Ok(())
    }
}

/// A row, deserialized as a struct or map of its columns, or as a tuple of their values. Also a
/// struct in a column.
#[derive(Clone, Copy)]
pub(super) struct ArrowRow<'a> {
    fields: &'a Fields,
    columns: &'a [ArrayRef],
    index: usize,
    budget: Budget<'a>,
}

/// A value of a column.
#[derive(Clone, Copy)]
struct Value<'a> {
    array: &'a dyn Array,
    index: usize,
    budget: Budget<'a>,
}

/// Returns the part of a type that cannot be read.
pub(super) fn unsupported(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::Union(..) | DataType::Interval(IntervalUnit::DayTime) => Some(data_type),
        DataType::Interval(IntervalUnit::MonthDayNano) => Some(data_type),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => unsupported(field.data_type()),
        DataType::Struct(fields) => fields.iter().find_map(|field| unsupported(field.data_type())),
        DataType::Dictionary(_, values) => unsupported(values),
        DataType::RunEndEncoded(_, values) => unsupported(values.data_type()),
        _ => None,
    }
}

impl<'a> ArrowRow<'a> {
    pub(super) fn new(
        batch: &'a RecordBatch,
        fields: &'a Fields,
        index: usize,
        budget: Budget<'a>,
    ) -> ArrowRow<'a> {
        ArrowRow { fields, columns: batch.columns(), index, budget }
    }

    fn value(self, column: &'a ArrayRef) -> Value<'a> {
        Value { array: column, index: self.index, budget: self.budget }
    }
}

macro_rules! tuples_are_sequences {
    () => {
        fn deserialize_tuple<V: Visitor<'de>>(
            self,
            _: usize,
            visitor: V,
        ) -> Result<V::Value, Error> {
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
    };
}

impl<'de> Deserializer<'de> for ArrowRow<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(Columns { row: self, at: 0 })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let mut columns = Columns { row: self, at: 0 };
        let value = visitor.visit_seq(&mut columns)?;
        match self.columns.len() {
            count if columns.at < count => {
                let expected = columns.at;
                Err(Error::custom(format!("invalid length {count}, expected {expected} columns")))
            }
            _ => Ok(value),
        }
    }

    tuples_are_sequences!();

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct map struct enum identifier ignored_any
    }
}

/// The columns of a row, in order.
struct Columns<'a> {
    row: ArrowRow<'a>,
    at: usize,
}

impl<'de> MapAccess<'de> for Columns<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let field = self.row.fields.get(self.at);
        field.map(|field| seed.deserialize(StrDeserializer::new(field.name()))).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        self.next_element_seed(seed)?.ok_or_else(|| Error::custom("a column is missing"))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.row.columns.len() - self.at)
    }
}

impl<'de> SeqAccess<'de> for Columns<'_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        let Some(column) = self.row.columns.get(self.at) else { return Ok(None) };
        self.at += 1;
        seed.deserialize(self.row.value(column)).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.row.columns.len() - self.at)
    }
}

/// The elements of a list.
struct Elements<'a> {
    array: &'a dyn Array,
    range: Range<usize>,
    budget: Budget<'a>,
}

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        let Some(index) = self.range.next() else { return Ok(None) };
        seed.deserialize(Value { array: self.array, index, budget: self.budget }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.range.len())
    }
}

/// The entries of a map.
struct Entries<'a> {
    keys: &'a dyn Array,
    values: &'a dyn Array,
    range: Range<usize>,
    budget: Budget<'a>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Range { start: index, end } = self.range;
        let key = Value { array: self.keys, index, budget: self.budget };
        (index < end).then(|| seed.deserialize(key)).transpose()
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        let index = self.range.next().ok_or_else(|| Error::custom("a map has no more entries"))?;
        seed.deserialize(Value { array: self.values, index, budget: self.budget })
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.range.len())
    }
}

impl<'a> Value<'a> {
    /// Looks the value up in its dictionary or run. Returns `None` for a null.
    fn resolved(mut self) -> Result<Option<Value<'a>>, Error> {
        loop {
            if self.array.is_null(self.index) {
                return Ok(None);
            }
            match self.array.data_type() {
                DataType::Null => return Ok(None),
                DataType::Dictionary(..) => {
                    let dictionary = self.array.as_any_dictionary();
                    let values: &'a dyn Array = dictionary.values();
                    let index = dictionary_key(dictionary.keys(), self.index)
                        .filter(|&key| key < values.len())
                        .ok_or_else(|| Error::custom("a key is not in its dictionary"))?;
                    self = Value { array: values, index, ..self };
                }
                DataType::RunEndEncoded(ends, _) => {
                    let (index, array): (usize, &'a dyn Array) = match ends.data_type() {
                        DataType::Int16 => run::<Int16Type>(self.array, self.index),
                        DataType::Int32 => run::<Int32Type>(self.array, self.index),
                        _ => run::<Int64Type>(self.array, self.index),
                    };
                    self = Value { array, index, ..self };
                }
                _ => return Ok(Some(self)),
            }
        }
    }

    fn primitive<T: ArrowPrimitiveType>(&self) -> T::Native {
        self.array.as_primitive::<T>().value(self.index)
    }

    /// Returns the bytes of binary data.
    fn binary(&self) -> Option<&'a [u8]> {
        Some(match self.array.data_type() {
            DataType::Binary => self.array.as_binary::<i32>().value(self.index),
            DataType::LargeBinary => self.array.as_binary::<i64>().value(self.index),
            DataType::BinaryView => self.array.as_binary_view().value(self.index),
            DataType::FixedSizeBinary(_) => self.array.as_fixed_size_binary().value(self.index),
            _ => return None,
        })
    }

    /// Returns text.
    fn text(&self) -> Option<&'a str> {
        Some(match self.array.data_type() {
            DataType::Utf8 => self.array.as_string::<i32>().value(self.index),
            DataType::LargeUtf8 => self.array.as_string::<i64>().value(self.index),
            DataType::Utf8View => self.array.as_string_view().value(self.index),
            _ => return None,
        })
    }

    /// Returns the elements of a list.
    fn elements(&self) -> Result<Option<Elements<'a>>, Error> {
        let index = self.index;
        let (array, start, count): (&'a dyn Array, usize, usize) = match self.array.data_type() {
            DataType::List(_) => {
                let list = self.array.as_list::<i32>();
                let offsets = list.value_offsets();
                let (start, end) = (offsets[index] as usize, offsets[index + 1] as usize);
                (list.values(), start, end - start)
            }
            DataType::LargeList(_) => {
                let list = self.array.as_list::<i64>();
                let offsets = list.value_offsets();
                let (start, end) = (offsets[index] as usize, offsets[index + 1] as usize);
                (list.values(), start, end - start)
            }
            DataType::ListView(_) => {
                let list = self.array.as_list_view::<i32>();
                (list.values(), list.value_offset(index) as usize, list.value_size(index) as usize)
            }
            DataType::LargeListView(_) => {
                let list = self.array.as_list_view::<i64>();
                (list.values(), list.value_offset(index) as usize, list.value_size(index) as usize)
            }
            DataType::FixedSizeList(..) => {
                let list = self.array.as_fixed_size_list();
                let count = list.value_length() as usize;
                (list.values(), list.value_offset_at(index), count)
            }
            _ => return Ok(None),
        };
        self.budget.spend((count as u64).saturating_mul(ELEMENT))?;
        Ok(Some(Elements { array, range: start..start + count, budget: self.budget }))
    }

    fn visit_scalar<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let (array, index) = (self.array, self.index);
        match array.data_type() {
            DataType::Boolean => visitor.visit_bool(array.as_boolean().value(index)),
            DataType::Int8 => visitor.visit_i8(self.primitive::<Int8Type>()),
            DataType::Int16 => visitor.visit_i16(self.primitive::<Int16Type>()),
            DataType::Int32 => visitor.visit_i32(self.primitive::<Int32Type>()),
            DataType::Int64 => visitor.visit_i64(self.primitive::<Int64Type>()),
            DataType::UInt8 => visitor.visit_u8(self.primitive::<UInt8Type>()),
            DataType::UInt16 => visitor.visit_u16(self.primitive::<UInt16Type>()),
            DataType::UInt32 => visitor.visit_u32(self.primitive::<UInt32Type>()),
            DataType::UInt64 => visitor.visit_u64(self.primitive::<UInt64Type>()),
            DataType::Float16 => visitor.visit_f32(self.primitive::<Float16Type>().to_f32()),
            DataType::Float32 => visitor.visit_f32(self.primitive::<Float32Type>()),
            DataType::Float64 => visitor.visit_f64(self.primitive::<Float64Type>()),
            DataType::Date32 => visitor.visit_i32(self.primitive::<Date32Type>()),
            DataType::Date64 => visitor.visit_i64(self.primitive::<Date64Type>()),
            DataType::Time32(TimeUnit::Second) => {
                visitor.visit_i32(self.primitive::<Time32SecondType>())
            }
            DataType::Time32(_) => visitor.visit_i32(self.primitive::<Time32MillisecondType>()),
            DataType::Time64(TimeUnit::Microsecond) => {
                visitor.visit_i64(self.primitive::<Time64MicrosecondType>())
            }
            DataType::Time64(_) => visitor.visit_i64(self.primitive::<Time64NanosecondType>()),
            DataType::Timestamp(unit, _) => visitor.visit_i64(match unit {
                TimeUnit::Second => self.primitive::<TimestampSecondType>(),
                TimeUnit::Millisecond => self.primitive::<TimestampMillisecondType>(),
                TimeUnit::Microsecond => self.primitive::<TimestampMicrosecondType>(),
                TimeUnit::Nanosecond => self.primitive::<TimestampNanosecondType>(),
            }),
            DataType::Duration(unit) => visitor.visit_i64(match unit {
                TimeUnit::Second => self.primitive::<DurationSecondType>(),
                TimeUnit::Millisecond => self.primitive::<DurationMillisecondType>(),
                TimeUnit::Microsecond => self.primitive::<DurationMicrosecondType>(),
                TimeUnit::Nanosecond => self.primitive::<DurationNanosecondType>(),
            }),
            DataType::Interval(IntervalUnit::YearMonth) => {
                visitor.visit_i32(self.primitive::<IntervalYearMonthType>())
            }
            DataType::Decimal32(..) => {
                visitor.visit_string(array.as_primitive::<Decimal32Type>().value_as_string(index))
            }
            DataType::Decimal64(..) => {
                visitor.visit_string(array.as_primitive::<Decimal64Type>().value_as_string(index))
            }
            DataType::Decimal128(..) => {
                visitor.visit_string(array.as_primitive::<Decimal128Type>().value_as_string(index))
            }
            DataType::Decimal256(..) => {
                visitor.visit_string(array.as_primitive::<Decimal256Type>().value_as_string(index))
            }
            other => Err(Error::custom(format!("the type {other} is not supported"))),
        }
    }
}

/// Returns a value of the array that holds the indices of a dictionary.
fn dictionary_key(keys: &dyn Array, index: usize) -> Option<usize> {
    fn key<T: ArrowPrimitiveType>(keys: &dyn Array, index: usize) -> Option<usize>
    where
        T::Native: TryInto<usize>,
    {
        keys.as_primitive::<T>().value(index).try_into().ok()
    }
    match keys.data_type() {
        DataType::Int8 => key::<Int8Type>(keys, index),
        DataType::Int16 => key::<Int16Type>(keys, index),
        DataType::Int32 => key::<Int32Type>(keys, index),
        DataType::Int64 => key::<Int64Type>(keys, index),
        DataType::UInt8 => key::<UInt8Type>(keys, index),
        DataType::UInt16 => key::<UInt16Type>(keys, index),
        DataType::UInt32 => key::<UInt32Type>(keys, index),
        DataType::UInt64 => key::<UInt64Type>(keys, index),
        _ => None,
    }
}

/// Returns the index of a run, and the values of the runs.
fn run<T: RunEndIndexType>(array: &dyn Array, index: usize) -> (usize, &dyn Array) {
    let runs = array.as_run::<T>();
    (runs.get_physical_index(index), runs.values())
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Some(value) = self.resolved()? else { return visitor.visit_unit() };
        if let Some(text) = value.text() {
            value.budget.spend(text.len() as u64)?;
            return visitor.visit_str(text);
        }
        if let Some(bytes) = value.binary() {
            value.budget.spend(bytes.len() as u64)?;
            return visitor.visit_bytes(bytes);
        }
        if let Some(elements) = value.elements()? {
            return visitor.visit_seq(elements);
        }
        match value.array.data_type() {
            DataType::Struct(fields) => {
                let (columns, index) = (value.array.as_struct().columns(), value.index);
                let row = ArrowRow { fields, columns, index, budget: value.budget };
                row.deserialize_any(visitor)
            }
            DataType::Map(..) => {
                let map = value.array.as_map();
                let offsets = map.value_offsets();
                let (start, end) = (offsets[value.index], offsets[value.index + 1]);
                let range = start as usize..end as usize;
                value.budget.spend((range.len() as u64).saturating_mul(2 * ELEMENT))?;
                let (keys, values): (&dyn Array, &dyn Array) = (map.keys(), map.values());
                visitor.visit_map(Entries { keys, values, range, budget: value.budget })
            }
            _ => value.visit_scalar(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.resolved()? {
            None => visitor.visit_none(),
            Some(value) => visitor.visit_some(value),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let Some(value) = self.resolved()? else { return visitor.visit_unit() };
        // `Vec<u8>` asks for a sequence.
        if let Some(bytes) = value.binary() {
            value.budget.spend(bytes.len() as u64)?;
            return visitor.visit_seq(SeqDeserializer::new(bytes.iter().copied()));
        }
        match value.array.data_type() {
            DataType::Struct(fields) => {
                let (columns, index) = (value.array.as_struct().columns(), value.index);
                let row = ArrowRow { fields, columns, index, budget: value.budget };
                row.deserialize_seq(visitor)
            }
            _ => value.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let value = self.resolved()?;
        match value.as_ref().and_then(Value::text) {
            Some(text) => visitor.visit_enum(StrDeserializer::new(text)),
            None => {
                let found = self.array.data_type();
                Err(Error::custom(format!("a value of type {found} is not the name of a variant")))
            }
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    tuples_are_sequences!();

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct map struct identifier
    }
}
