//! The wire format: tags, varints and length-delimited bytes.

use std::fmt;

/// Maximum depth of nested messages.
pub(crate) const MAX_DEPTH: u32 = 100;

/// The error for bytes that are not a valid message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(pub(crate) &'static str);

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for DecodeError {}

/// The undecoded value of a field.
#[derive(Clone, Copy, Debug)]
pub enum WireValue<'a> {
    /// An integer or boolean.
    Varint(u64),
    /// Eight bytes, little-endian.
    Fixed64([u8; 8]),
    /// A string, bytes, a message or packed numbers.
    Bytes(&'a [u8]),
    /// Four bytes, little-endian.
    Fixed32([u8; 4]),
}

/// Reads fields from bytes.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// Returns the number and value of the next field, or `None` at the end. Groups are skipped.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, WireValue<'a>)>, DecodeError> {
        while !self.0.is_empty() {
            let (number, kind) = self.tag()?;
            match kind {
                3 => self.skip_group(number, MAX_DEPTH)?,
                4 => return Err(DecodeError("a group ends that did not begin")),
                _ => return Ok(Some((number, self.value(kind)?))),
            }
        }
        Ok(None)
    }

    fn tag(&mut self) -> Result<(u32, u64), DecodeError> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| DecodeError("invalid field number"))?;
        if number == 0 {
            return Err(DecodeError("invalid field number"));
        }
        Ok((number, tag & 7))
    }

    fn value(&mut self, kind: u64) -> Result<WireValue<'a>, DecodeError> {
        Ok(match kind {
            0 => WireValue::Varint(self.varint()?),
            1 => WireValue::Fixed64(self.array()?),
            2 => {
                let length = self.varint()?;
                WireValue::Bytes(self.take(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            5 => WireValue::Fixed32(self.array()?),
            _ => return Err(DecodeError("invalid wire type")),
        })
    }

    fn skip_group(&mut self, group: u32, depth: u32) -> Result<(), DecodeError> {
        let depth = depth.checked_sub(1).ok_or(DecodeError("groups are nested too deeply"))?;
        loop {
            let (number, kind) = self.tag()?;
            match kind {
                3 => self.skip_group(number, depth)?,
                4 if number == group => return Ok(()),
                4 => return Err(DecodeError("a group ends that did not begin")),
                _ => drop(self.value(kind)?),
            }
        }
    }

    pub(crate) fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for (index, &byte) in self.0.iter().take(10).enumerate() {
            if index == 9 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.0 = &self.0[index + 1..];
                return Ok(value);
            }
        }
        Err(DecodeError("invalid varint"))
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.take(N).map(|bytes| std::array::from_fn(|index| bytes[index]))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or(DecodeError("the message ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }
}

/// A field of an encoded message.
#[derive(Clone, Copy, Debug)]
pub struct RawField<'a> {
    /// The number of the field.
    pub number: u32,
    /// The value.
    pub value: WireValue<'a>,
    /// The whole encoding, with the tag.
    pub encoded: &'a [u8],
}

/// Returns the fields of an encoded message in order, with those that no struct declares. A group
/// is part of the encoding of the field after it.
///
/// ```
/// use oxidax_proto::{WireValue, raw_fields};
/// let fields = raw_fields(&[0x0a, 1, b'a', 0x10, 7])?;
/// assert_eq!(fields.len(), 2);
/// assert_eq!((fields[1].number, fields[1].encoded), (2, &[0x10, 7][..]));
/// assert!(matches!(fields[1].value, WireValue::Varint(7)));
/// # Ok::<(), oxidax_proto::DecodeError>(())
/// ```
///
/// # Errors
/// The bytes are not a message.
pub fn raw_fields(bytes: &[u8]) -> Result<Vec<RawField<'_>>, DecodeError> {
    let mut fields = Fields(bytes);
    let mut found = Vec::new();
    loop {
        let before = fields.0;
        let Some((number, value)) = fields.next()? else { return Ok(found) };
        let encoded = &before[..before.len() - fields.0.len()];
        found.push(RawField { number, value, encoded });
    }
}

pub(crate) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_tag(number: u32, kind: u64, out: &mut Vec<u8>) {
    put_varint(u64::from(number) << 3 | kind, out);
}

/// Appends a field whose value is a string, bytes or an encoded message.
///
/// ```
/// let mut message = Vec::new();
/// oxidax_proto::put_bytes(1, b"a", &mut message);
/// assert_eq!(message, [0x0a, 1, b'a']);
/// ```
pub fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_tag(number, 2, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
