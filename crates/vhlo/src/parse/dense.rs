//! Arrays of constants: `dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>`.

use super::Parser;
use super::floats::bits_of;
use super::literal::Literal;
use super::scanner::Parsed;
use crate::entries::{Type, TypeId};

/// The numbers of an element as the text has them: one, or a pair.
type Element<'t> = (&'t str, Option<&'t str>);

/// The type of numbers of an array.
struct Numbers {
    name: &'static str,
    bits: u32,
    is_complex: bool,
}

impl Numbers {
    /// Returns the bytes of an element.
    fn bytes(&self) -> usize {
        (self.bits.div_ceil(8) as usize) << usize::from(self.is_complex)
    }
}

impl<'t> Parser<'t> {
    /// Parses what follows `dense`.
    pub(super) fn dense(&mut self, depth: usize) -> Parsed<Literal> {
        let at = self.scanner.at();
        self.scanner.expect("<")?;
        let mut elements: Vec<Element<'t>> = Vec::new();
        let mut hex = None;
        let mut is_splat = false;
        match self.scanner.peek() {
            Some(b'>') => {}
            Some(b'"') => hex = Some(self.scanner.string()?),
            Some(b'[') => self.nested_elements(&mut elements, depth)?,
            _ => {
                elements.push(self.element()?);
                is_splat = true;
            }
        }
        self.scanner.expect(">")?;
        self.scanner.expect(":")?;
        let ty = self.ty(depth)?;
        let Type::Tensor(shape, element, _) = self.types[ty].clone() else {
            return self.scanner.fail_at(at, "a constant is not an array");
        };
        let count = shape.iter().try_fold(1_u64, |count, size| count.checked_mul((*size)?));
        let Some(count) = count.and_then(|count| usize::try_from(count).ok()) else {
            return self.scanner.fail_at(at, "a constant has no known size");
        };
        let Some(numbers) = self.numbers_type(element) else {
            return self.scanner.fail_at(at, "the elements of a constant are not numbers");
        };
        if let Some(hex) = hex {
            let data = self.hex_data(at, &hex, &numbers, count)?;
            return Ok(Literal::Dense(ty, data));
        }
        if is_splat && count == 0 {
            elements.clear();
        }
        if elements.len() != count && !is_splat {
            let found = elements.len();
            return self.scanner.fail_at(at, format!("{found} elements for an array of {count}"));
        }
        if numbers.name == "i1" {
            return Ok(Literal::Dense(ty, self.flags(at, &elements, count)?));
        }
        let mut data = Vec::with_capacity(elements.len() * numbers.bytes());
        for (first, second) in elements {
            if second.is_some() != numbers.is_complex {
                return self.scanner.fail_at(at, "pairs are the elements of complex arrays only");
            }
            for text in [Some(first), second].into_iter().flatten() {
                match number_bits(text, &numbers) {
                    Some(bits) => {
                        let length = numbers.bits.div_ceil(8) as usize;
                        data.extend_from_slice(&bits.to_le_bytes()[..length]);
                    }
                    None => {
                        let message = format!("`{text}` is not an element of `{}`", numbers.name);
                        return self.scanner.fail_at(at, message);
                    }
                }
            }
        }
        Ok(Literal::Dense(ty, data))
    }

    fn numbers_type(&self, element: TypeId) -> Option<Numbers> {
        let (element, is_complex) = match &self.types[element] {
            Type::Complex(part) => (&self.types[*part], true),
            Type::Quantized(_) | Type::Token | Type::None => return None,
            other => (other, false),
        };
        let Type::Element(name) = element else { return None };
        Some(Numbers { name, bits: element.bits()?, is_complex })
    }

    fn nested_elements(&mut self, elements: &mut Vec<Element<'t>>, depth: usize) -> Parsed<()> {
        let Some(depth) = depth.checked_sub(1) else {
            return self.scanner.fail("a constant is nested too deep");
        };
        self.scanner.expect("[")?;
        let mut is_first = true;
        while !self.scanner.is_end("]", is_first)? {
            is_first = false;
            match self.scanner.peek() {
                Some(b'[') => self.nested_elements(elements, depth)?,
                _ => {
                    let element = self.element()?;
                    elements.push(element);
                }
            }
        }
        Ok(())
    }

    fn element(&mut self) -> Parsed<Element<'t>> {
        if self.scanner.eat("(") {
            let first = self.scanner.number()?;
            self.scanner.expect(",")?;
            let second = self.scanner.number()?;
            self.scanner.expect(")")?;
            return Ok((first, Some(second)));
        }
        Ok((
            match self.scanner.peek() {
                Some(b't' | b'f') => self.scanner.word()?,
                _ => self.scanner.number()?,
            },
            None,
        ))
    }

    /// Returns the bytes of `0x…`, for all elements or for one that all are equal to.
    fn hex_data(&self, at: usize, hex: &str, numbers: &Numbers, count: usize) -> Parsed<Vec<u8>> {
        let digits = hex.strip_prefix("0x").map(str::as_bytes).unwrap_or_default();
        let pairs = digits.as_chunks::<2>();
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let bytes = pairs.0.iter().map(|[high, low]| {
            let (high, low) = digit(*high).zip(digit(*low))?;
            // Two digits of 4 bits each.
            Some((high << 4 | low) as u8)
        });
        let Some(data) = bytes.collect::<Option<Vec<u8>>>().filter(|_| pairs.1.is_empty()) else {
            return self.scanner.fail_at(at, "a constant is not hexadecimal");
        };
        if numbers.name == "i1" {
            return self.scanner.fail_at(at, "flags are not written as bytes");
        }
        let one = numbers.bytes();
        match count.checked_mul(one) {
            Some(all) if data.len() == all || (data.len() == one && count > 0) => Ok(data),
            _ => {
                let found = data.len();
                let message = format!("{found} bytes for {count} elements of {one} bytes");
                self.scanner.fail_at(at, message)
            }
        }
    }

    /// Packs flags into bits. Flags that are all equal are one byte.
    fn flags(&self, at: usize, elements: &[Element<'_>], count: usize) -> Parsed<Vec<u8>> {
        let flags = elements.iter().map(|element| match element {
            ("true" | "1", None) => Some(true),
            ("false" | "0", None) => Some(false),
            _ => None,
        });
        match flags.collect::<Option<Vec<bool>>>() {
            Some(flags) => Ok(packed(&flags, count)),
            None => self.scanner.fail_at(at, "flags are `true` or `false`"),
        }
    }
}

/// Packs flags into bits, for an array of `count` of them. Flags that are all equal are one byte.
pub(super) fn packed(flags: &[bool], count: usize) -> Vec<u8> {
    match flags {
        [] => Vec::new(),
        [first, rest @ ..] if count > 1 && rest.iter().all(|flag| flag == first) => {
            vec![if *first { 0xff } else { 0 }]
        }
        flags => {
            let bit = |(index, flag): (usize, &bool)| u8::from(*flag) << index;
            let byte = |part: &[bool]| part.iter().enumerate().map(bit).sum();
            flags.chunks(8).map(byte).collect()
        }
    }
}

/// Returns the bits of a number in an array.
fn number_bits(text: &str, numbers: &Numbers) -> Option<u64> {
    let is_float = numbers.name.starts_with(['f', 'b', 't']);
    if is_float {
        return match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => bits_of(numbers.name, text.parse().ok()?),
        };
    }
    let number = match text.strip_prefix("0x") {
        Some(digits) => i128::from_str_radix(digits, 16).ok()?,
        None => text.parse::<i128>().ok()?,
    };
    let is_unsigned = numbers.name.starts_with('u');
    let last = 1_i128 << numbers.bits;
    let range = if is_unsigned { 0..last } else { -(last / 2)..last };
    // The bits of negative numbers are those of their two's complement.
    let bits = u64::try_from(number.rem_euclid(last)).ok()?;
    range.contains(&number).then_some(bits)
}
