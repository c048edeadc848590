//! [`Encoder`]: writes MLIR's numbers and sections.

/// Bytes under construction.
#[derive(Default)]
pub(super) struct Encoder {
    pub(super) bytes: Vec<u8>,
}

impl Encoder {
    /// Writes a number, whose length is the number of zeros below the lowest one of its first byte.
    pub(super) fn number(&mut self, value: u64) {
        let length = (1..=8).find(|length| value < 1 << (7 * length));
        match length {
            Some(length) => {
                let marked = value << length | 1 << (length - 1);
                self.bytes.extend_from_slice(&marked.to_le_bytes()[..length]);
            }
            None => {
                self.bytes.push(0);
                self.bytes.extend_from_slice(&value.to_le_bytes());
            }
        }
    }

    /// Writes an index or a length.
    pub(super) fn index(&mut self, value: usize) {
        self.number(value as u64);
    }

    /// Writes a number and a flag in its lowest bit.
    pub(super) fn number_and_flag(&mut self, value: usize, flag: bool) {
        self.number((value as u64) << 1 | u64::from(flag));
    }

    /// Writes an index that may be absent.
    pub(super) fn optional(&mut self, value: Option<usize>) {
        self.number_and_flag(value.unwrap_or(0), value.is_some());
    }

    /// Writes a signed number.
    pub(super) fn signed(&mut self, value: i64) {
        self.number((value << 1 ^ value >> 63).cast_unsigned());
    }

    /// Writes the bits of a number of this width.
    pub(super) fn bits(&mut self, value: u64, width: u32) {
        let value = if width < 64 { value & ((1 << width) - 1) } else { value };
        match width {
            0..=8 => self.bytes.push(value.to_le_bytes()[0]),
            _ => self.signed(value.cast_signed()),
        }
    }

    /// Writes indices after their number.
    pub(super) fn indices(&mut self, values: &[usize]) {
        self.index(values.len());
        values.iter().for_each(|value| self.index(*value));
    }

    /// Writes signed numbers after their number.
    pub(super) fn signed_list(&mut self, values: impl ExactSizeIterator<Item = i64>) {
        self.index(values.len());
        values.for_each(|value| self.signed(value));
    }

    /// Writes a section.
    pub(super) fn section(&mut self, id: u8, section: &Encoder) {
        self.bytes.push(id);
        self.index(section.bytes.len());
        self.bytes.extend_from_slice(&section.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::Encoder;
    use crate::cursor::Cursor;

    #[test]
    fn numbers_are_read_back() {
        let numbers =
            (0..64).flat_map(|shift| [1_u64 << shift, (1 << shift) - 1, u64::MAX >> shift]);
        for number in numbers {
            let mut encoder = Encoder::default();
            encoder.number(number);
            encoder.signed(number.cast_signed());
            let mut cursor = Cursor::new(&encoder.bytes);
            assert_eq!(cursor.number().unwrap(), number);
            assert_eq!(cursor.signed().unwrap(), number.cast_signed());
            assert!(cursor.is_empty());
        }
    }
}
