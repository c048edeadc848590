//! Writes FlatBuffers: each table before the parts that it points to.
//!
//! The builder of the crate `flatbuffers` has generic unsafe accessors beside it, and a buffer of
//! this schema needs a page of code.

/// A part of a buffer.
pub(crate) enum Part {
    /// The fields of a table, by their numbers.
    Table(Vec<(usize, Field)>),
    /// Parts of the same kind.
    Parts(Vec<Part>),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Numbers of 16 bits.
    U16s(Vec<u16>),
    /// Numbers of 32 bits.
    U32s(Vec<u32>),
}

/// A field of a table.
pub(crate) enum Field {
    U8(u8),
    U16(u16),
    U32(u32),
    Part(Part),
}

impl Field {
    fn bytes(&self) -> usize {
        match self {
            Field::U8(_) => 1,
            Field::U16(_) => 2,
            Field::U32(_) | Field::Part(_) => 4,
        }
    }
}

/// A part would be further from its table than offsets of 32 bits reach.
pub(crate) struct TooLarge;

/// Returns the buffer whose root is a table.
pub(crate) fn write(root: &Part) -> Result<Vec<u8>, TooLarge> {
    let mut writer = Writer { bytes: vec![0; 4] };
    writer.point(0, root)?;
    Ok(writer.bytes)
}

struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn align(&mut self, alignment: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(alignment), 0);
    }

    fn set(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Writes a part, and its distance at a position before it.
    fn point(&mut self, at: usize, part: &Part) -> Result<(), TooLarge> {
        let target = self.part(part)?;
        let distance = u32::try_from(target - at).ok().filter(|far| *far <= i32::MAX as u32);
        self.set(at, &distance.ok_or(TooLarge)?.to_le_bytes());
        Ok(())
    }

    /// Writes a part. Returns its position.
    fn part(&mut self, part: &Part) -> Result<usize, TooLarge> {
        match part {
            Part::Table(fields) => self.table(fields),
            Part::Parts(parts) => {
                let at = self.vector(parts.len())?;
                self.bytes.resize(self.bytes.len() + 4 * parts.len(), 0);
                for (index, part) in parts.iter().enumerate() {
                    self.point(at + 4 + 4 * index, part)?;
                }
                Ok(at)
            }
            Part::Text(text) => {
                let at = self.vector(text.len())?;
                self.bytes.extend_from_slice(text.as_bytes());
                // Readers in C expect a zero at the end.
                self.bytes.push(0);
                Ok(at)
            }
            Part::Bytes(bytes) => {
                let at = self.vector(bytes.len())?;
                self.bytes.extend_from_slice(bytes);
                Ok(at)
            }
            Part::U16s(numbers) => {
                let at = self.vector(numbers.len())?;
                self.bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
                Ok(at)
            }
            Part::U32s(numbers) => {
                let at = self.vector(numbers.len())?;
                self.bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
                Ok(at)
            }
        }
    }

    /// Writes the length of a vector. Returns its position.
    fn vector(&mut self, length: usize) -> Result<usize, TooLarge> {
        self.align(4);
        let at = self.bytes.len();
        let length = u32::try_from(length).map_err(|_| TooLarge)?;
        self.bytes.extend_from_slice(&length.to_le_bytes());
        Ok(at)
    }

    fn table(&mut self, fields: &[(usize, Field)]) -> Result<usize, TooLarge> {
        let slots = fields.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
        let header = 4 + 2 * slots;
        // The table begins at a multiple of 4, after the offsets of its fields.
        self.align(4);
        if !header.is_multiple_of(4) {
            self.bytes.extend_from_slice(&[0, 0]);
        }
        let offsets = self.bytes.len();
        let at = offsets + header;
        // Larger fields come first, which aligns all of them.
        let mut order: Vec<&(usize, Field)> = fields.iter().collect();
        order.sort_by_key(|(_, field)| std::cmp::Reverse(field.bytes()));
        let mut length = 4;
        let mut places = Vec::with_capacity(order.len());
        for (number, field) in order {
            places.push((*number, length, field));
            length += field.bytes();
        }
        self.bytes.resize(at + length, 0);
        let short = |number: usize| (number as u16).to_le_bytes();
        self.set(offsets, &short(header));
        self.set(offsets + 2, &short(length));
        self.set(at, &(header as u32).to_le_bytes());
        for (number, place, field) in &places {
            self.set(offsets + 4 + 2 * number, &short(*place));
            match field {
                Field::U8(value) => self.set(at + place, &[*value]),
                Field::U16(value) => self.set(at + place, &value.to_le_bytes()),
                Field::U32(value) => self.set(at + place, &value.to_le_bytes()),
                Field::Part(_) => {}
            }
        }
        for (_, place, field) in places {
            if let Field::Part(part) = field {
                self.point(at + place, part)?;
            }
        }
        Ok(at)
    }
}
