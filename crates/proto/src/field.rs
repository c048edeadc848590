//! Types of fields.

use std::collections::BTreeMap;

use crate::message::Message;
use crate::wire::{DecodeError, Fields, WireValue, put_bytes, put_tag, put_varint};

const WRONG_TYPE: DecodeError = DecodeError("a field has the wrong wire type");

/// A type that a field of a message can have.
pub trait Field {
    /// Appends the field unless it has its default value.
    fn put(&self, number: u32, out: &mut Vec<u8>);

    /// Appends the field, also if it has its default value.
    fn put_present(&self, number: u32, out: &mut Vec<u8>) {
        self.put(number, out);
    }

    /// Stores a decoded value; appends it if the field is repeated.
    ///
    /// # Errors
    /// The value has the wrong wire type or is invalid.
    fn merge(&mut self, value: WireValue<'_>, depth: u32) -> Result<(), DecodeError>;
}

/// An enum of which a message holds at most one variant.
pub trait Oneof: Sized {
    /// Appends the variant.
    fn put(&self, out: &mut Vec<u8>);

    /// Stores a decoded value if `number` is the number of a variant.
    ///
    /// # Errors
    /// The value has the wrong wire type or is invalid.
    fn merge(
        this: &mut Option<Self>,
        number: u32,
        value: WireValue<'_>,
        depth: u32,
    ) -> Result<(), DecodeError>;
}

/// Numbers: single and, packed, repeated.
macro_rules! numbers {
    ($($type:ty, $kind:literal, $put:expr, $take:expr, $next:expr;)*) => { $(
        impl Field for $type {
            fn put(&self, number: u32, out: &mut Vec<u8>) {
                if *self != <$type>::default() {
                    self.put_present(number, out);
                }
            }
            fn put_present(&self, number: u32, out: &mut Vec<u8>) {
                put_tag(number, $kind, out);
                let put: fn($type, &mut Vec<u8>) = $put;
                put(*self, out);
            }
            fn merge(&mut self, value: WireValue<'_>, _: u32) -> Result<(), DecodeError> {
                let take: fn(WireValue<'_>) -> Option<$type> = $take;
                *self = take(value).ok_or(WRONG_TYPE)?;
                Ok(())
            }
        }
        impl Field for Vec<$type> {
            fn put(&self, number: u32, out: &mut Vec<u8>) {
                if self.is_empty() {
                    return;
                }
                let put: fn($type, &mut Vec<u8>) = $put;
                let mut packed = Vec::new();
                for &value in self {
                    put(value, &mut packed);
                }
                put_bytes(number, &packed, out);
            }
            fn merge(&mut self, value: WireValue<'_>, _: u32) -> Result<(), DecodeError> {
                let take: fn(WireValue<'_>) -> Option<$type> = $take;
                let next: fn(&mut Fields<'_>) -> Result<WireValue<'static>, DecodeError> = $next;
                if let WireValue::Bytes(bytes) = value {
                    let mut packed = Fields(bytes);
                    while !packed.0.is_empty() {
                        self.push(take(next(&mut packed)?).ok_or(WRONG_TYPE)?);
                    }
                } else {
                    self.push(take(value).ok_or(WRONG_TYPE)?);
                }
                Ok(())
            }
        }
    )* };
}

fn varint(value: WireValue<'_>) -> Option<u64> {
    if let WireValue::Varint(value) = value { Some(value) } else { None }
}

fn next_varint(packed: &mut Fields<'_>) -> Result<WireValue<'static>, DecodeError> {
    packed.varint().map(WireValue::Varint)
}

numbers! {
    i32, 0, |value, out| put_varint(i64::from(value) as u64, out),
        |value| varint(value).map(|value| value as i32), next_varint;
    i64, 0, |value, out| put_varint(value as u64, out),
        |value| varint(value).map(|value| value as i64), next_varint;
    u32, 0, |value, out| put_varint(u64::from(value), out),
        |value| varint(value).map(|value| value as u32), next_varint;
    u64, 0, put_varint, varint, next_varint;
    bool, 0, |value, out| put_varint(u64::from(value), out),
        |value| varint(value).map(|value| value != 0), next_varint;
    f32, 5, |value, out| out.extend(value.to_le_bytes()),
        |value| {
            let WireValue::Fixed32(bytes) = value else { return None };
            Some(f32::from_le_bytes(bytes))
        },
        |packed| packed.array().map(WireValue::Fixed32);
    f64, 1, |value, out| out.extend(value.to_le_bytes()),
        |value| {
            let WireValue::Fixed64(bytes) = value else { return None };
            Some(f64::from_le_bytes(bytes))
        },
        |packed| packed.array().map(WireValue::Fixed64);
}

fn bytes(value: WireValue<'_>) -> Result<&[u8], DecodeError> {
    if let WireValue::Bytes(bytes) = value { Ok(bytes) } else { Err(WRONG_TYPE) }
}

impl Field for String {
    fn put(&self, number: u32, out: &mut Vec<u8>) {
        if !self.is_empty() {
            self.put_present(number, out);
        }
    }
    fn put_present(&self, number: u32, out: &mut Vec<u8>) {
        put_bytes(number, self.as_bytes(), out);
    }
    fn merge(&mut self, value: WireValue<'_>, _: u32) -> Result<(), DecodeError> {
        let text = std::str::from_utf8(bytes(value)?);
        text.map_err(|_| DecodeError("a string is not UTF-8"))?.clone_into(self);
        Ok(())
    }
}

impl Field for Vec<u8> {
    fn put(&self, number: u32, out: &mut Vec<u8>) {
        if !self.is_empty() {
            put_bytes(number, self, out);
        }
    }
    fn merge(&mut self, value: WireValue<'_>, _: u32) -> Result<(), DecodeError> {
        bytes(value)?.clone_into(self);
        Ok(())
    }
}

impl Field for Vec<Vec<u8>> {
    fn put(&self, number: u32, out: &mut Vec<u8>) {
        for value in self {
            put_bytes(number, value, out);
        }
    }
    fn merge(&mut self, value: WireValue<'_>, _: u32) -> Result<(), DecodeError> {
        self.push(bytes(value)?.to_vec());
        Ok(())
    }
}

impl<M: Message> Field for M {
    fn put(&self, number: u32, out: &mut Vec<u8>) {
        put_bytes(number, &self.encode_to_vec(), out);
    }
    fn merge(&mut self, value: WireValue<'_>, depth: u32) -> Result<(), DecodeError> {
        Message::merge(self, bytes(value)?, depth)
    }
}

impl<M: Message> Field for Option<M> {
    fn put(&self, number: u32, out: &mut Vec<u8>) {
        if let Some(message) = self {
            message.put(number, out);
        }
    }
    fn merge(&mut self, value: WireValue<'_>, depth: u32) -> Result<(), DecodeError> {
        Message::merge(self.get_or_insert_default(), bytes(value)?, depth)
    }
}

impl<M: Message> Field for Vec<M> {
    fn put(&self, number: u32, out: &mut Vec<u8>) {
        for message in self {
            message.put(number, out);
        }
    }
    fn merge(&mut self, value: WireValue<'_>, depth: u32) -> Result<(), DecodeError> {
        let mut message = M::default();
        Message::merge(&mut message, bytes(value)?, depth)?;
        self.push(message);
        Ok(())
    }
}

impl<M: Message + PartialEq> Field for BTreeMap<String, M> {
    fn put(&self, number: u32, out: &mut Vec<u8>) {
        for (key, value) in self {
            let mut entry = Vec::new();
            key.put(1, &mut entry);
            if *value != M::default() {
                value.put(2, &mut entry);
            }
            put_bytes(number, &entry, out);
        }
    }
    fn merge(&mut self, value: WireValue<'_>, depth: u32) -> Result<(), DecodeError> {
        let (mut key, mut entry) = (String::new(), M::default());
        let mut fields = Fields(bytes(value)?);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => key.merge(value, depth)?,
                2 => Field::merge(&mut entry, value, depth)?,
                _ => {}
            }
        }
        self.insert(key, entry);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{DecodeError, Message, messages};
    use std::collections::BTreeMap;

    messages! {
        struct Node {
            id: i32 = 1,
            weights: Vec<f32> = 2,
            children: Vec<Node> = 3,
            names: BTreeMap<String, Leaf> = 4,
            ; kind: Option<Kind>
        }
        struct Leaf {
            bytes: Vec<u8> = 1,
            flag: bool = 2,
        }
        oneof enum Kind {
            Text(String) = 5,
            Leaf(Leaf) = 6,
        }
    }

    #[test]
    fn messages_round_trip() {
        let leaf = Leaf { bytes: vec![0, 255], flag: true };
        let child = Node { kind: Some(Kind::Text(String::new())), ..Node::default() };
        let node = Node {
            id: -1,
            weights: vec![0.5, -2.0],
            children: vec![child, Node::default()],
            names: BTreeMap::from([("a".into(), leaf.clone()), (String::new(), Leaf::default())]),
            kind: Some(Kind::Leaf(leaf)),
        };
        assert_eq!(Node::decode(&node.encode_to_vec()), Ok(node));
    }

    #[test]
    fn unknown_fields_and_groups_are_skipped() {
        // Field 9 as varint, a group of number 10 with a nested group, then `id`.
        let bytes = [0x48, 7, 0x53, 0x5b, 0x48, 1, 0x5c, 0x54, 0x08, 5];
        assert_eq!(Node::decode(&bytes).map(|node| node.id), Ok(5));
    }

    #[test]
    fn unpacked_repeated_numbers_are_decoded() {
        let bytes = [0x15, 0, 0, 0, 0x3f, 0x15, 0, 0, 0, 0x40];
        assert_eq!(Node::decode(&bytes).map(|node| node.weights), Ok(vec![0.5, 2.0]));
    }

    #[test]
    fn damaged_bytes_are_errors() {
        let refused = |bytes: &[u8]| Node::decode(bytes).unwrap_err();
        assert_eq!(refused(&[0x08]), DecodeError("invalid varint"));
        assert_eq!(refused(&[0x0a, 0]), DecodeError("a field has the wrong wire type"));
        assert_eq!(refused(&[0x1a, 9, 0]), DecodeError("the message ends too early"));
        assert_eq!(refused(&[0x2a, 1, 0xff]), DecodeError("a string is not UTF-8"));
        assert_eq!(refused(&[0x00, 0]), DecodeError("invalid field number"));
        let mut deep = Vec::new();
        for _ in 0..200 {
            let child = std::mem::take(&mut deep);
            crate::wire::put_bytes(3, &child, &mut deep);
        }
        assert_eq!(refused(&deep), DecodeError("messages are nested too deeply"));
    }
}
