//! Types.

use super::scanner::Parsed;
use super::{MAX_DEPTH, Parser};
use crate::entries::{Attribute, Quantized, Type, TypeId};
use crate::version::VhloVersion;

/// The types of elements that the text names.
const ELEMENTS: [&str; 30] = [
    "i1",
    "i2",
    "i4",
    "i8",
    "i16",
    "i32",
    "i64",
    "ui2",
    "ui4",
    "ui8",
    "ui16",
    "ui32",
    "ui64",
    "bf16",
    "f16",
    "f32",
    "f64",
    "tf32",
    "index",
    "f8E4M3FN",
    "f8E5M2",
    "f8E4M3FNUZ",
    "f8E5M2FNUZ",
    "f8E4M3B11FNUZ",
    "f8E4M3",
    "f8E3M4",
    "f4E2M1FN",
    "f6E2M3FN",
    "f6E3M2FN",
    "f8E8M0FNU",
];

impl Parser<'_> {
    /// Returns the number of a type.
    pub(super) fn type_id(&mut self, ty: Type) -> TypeId {
        if let Some(id) = self.type_ids.get(&ty) {
            return *id;
        }
        let needed = match &ty {
            Type::Element("f8E4M3" | "f8E3M4") => VhloVersion::new(1, 7, 0),
            Type::Element("f4E2M1FN" | "f6E2M3FN" | "f6E3M2FN" | "f8E8M0FNU") => {
                VhloVersion::new(1, 8, 0)
            }
            Type::Element("tf32") | Type::None => VhloVersion::new(1, 6, 0),
            Type::Buffer(..) => VhloVersion::new(1, 13, 0),
            Type::Future(_) => VhloVersion::new(1, 15, 0),
            _ => VhloVersion::OLDEST,
        };
        let reason = match &ty {
            Type::Element(name) => format!("the type `{name}`"),
            Type::Buffer(..) => "a buffer".to_owned(),
            Type::Future(_) => "a future".to_owned(),
            _ => "the algorithm of a product".to_owned(),
        };
        // The type `none` stands for a missing algorithm, which older versions leave out.
        if ty != Type::None {
            self.need(needed, || reason);
        }
        let id = self.types.len();
        self.types.push(ty.clone());
        self.type_ids.insert(ty, id);
        id
    }

    pub(super) fn element_id(&mut self, name: &'static str) -> TypeId {
        self.type_id(Type::Element(name))
    }

    /// Parses a type.
    pub(super) fn ty(&mut self, depth: usize) -> Parsed<TypeId> {
        let Some(depth) = depth.checked_sub(1) else {
            return self.scanner.fail(format!("a type is nested deeper than {MAX_DEPTH}"));
        };
        let ty = match self.scanner.peek() {
            Some(b'!') => self.dialect_type(depth)?,
            Some(b'(') => {
                let inputs = self.type_list("(", ")", depth)?;
                self.scanner.expect("->")?;
                let results = match self.scanner.peek() {
                    Some(b'(') => self.type_list("(", ")", depth)?,
                    _ => vec![self.ty(depth)?],
                };
                Type::Function(inputs, results)
            }
            _ => {
                let at = self.scanner.at();
                let word = self.scanner.word()?;
                match word {
                    "tensor" | "memref" => self.shaped(word == "tensor", depth)?,
                    "complex" => {
                        self.scanner.expect("<")?;
                        let element = self.ty(depth)?;
                        self.scanner.expect(">")?;
                        Type::Complex(element)
                    }
                    "tuple" => Type::Tuple(self.type_list("<", ">", depth)?),
                    "none" => Type::None,
                    word => match ELEMENTS.iter().find(|name| **name == word) {
                        Some(name) => Type::Element(name),
                        None => return self.scanner.fail_at(at, format!("`{word}` is not a type")),
                    },
                }
            }
        };
        Ok(self.type_id(ty))
    }

    /// Parses types between `open` and `close`.
    pub(super) fn type_list(
        &mut self,
        open: &str,
        close: &str,
        depth: usize,
    ) -> Parsed<Vec<TypeId>> {
        self.scanner.expect(open)?;
        let mut types = Vec::new();
        while !self.scanner.is_end(close, types.is_empty())? {
            types.push(self.ty(depth)?);
        }
        Ok(types)
    }

    /// Parses the sizes, the element type and the encoding of an array or a buffer.
    fn shaped(&mut self, is_tensor: bool, depth: usize) -> Parsed<Type> {
        self.scanner.expect("<")?;
        let mut shape = Vec::new();
        loop {
            self.scanner.skip_space();
            let at = self.scanner.at();
            let size = match self.scanner.eat_prefix("?") {
                true => None,
                false => match self.scanner.digits() {
                    None => break,
                    Some(digits) => match digits.parse::<i64>() {
                        Ok(size) => Some(size.cast_unsigned()),
                        Err(_) => return self.scanner.fail_at(at, "a size is too large"),
                    },
                },
            };
            shape.push(size);
            if !self.scanner.eat_prefix("x") {
                return self.scanner.fail("expected `x` after a size");
            }
        }
        let element = self.ty(depth)?;
        let encoding = match is_tensor && self.scanner.eat(",") {
            true => {
                self.scanner.expect("#stablehlo.bounds<")?;
                let mut bounds = Vec::new();
                while !self.scanner.is_end(">", bounds.is_empty())? {
                    bounds.push(match self.scanner.eat("?") {
                        true => i64::MIN,
                        false => self.scanner.integer()?,
                    });
                }
                Some(self.attribute(Attribute::TypeExtensions(bounds)))
            }
            false => None,
        };
        self.scanner.expect(">")?;
        Ok(match is_tensor {
            true => Type::Tensor(shape, element, encoding),
            false => Type::Buffer(shape, element),
        })
    }

    fn dialect_type(&mut self, depth: usize) -> Parsed<Type> {
        if self.scanner.eat("!stablehlo.token") {
            Ok(Type::Token)
        } else if self.scanner.eat("!stablehlo.future") {
            Ok(Type::Future(self.type_list("<", ">", depth)?))
        } else if self.scanner.eat("!quant.uniform<") {
            Ok(Type::Quantized(self.quantized(depth)?))
        } else {
            self.scanner.fail(format!("expected a type, found {}", self.scanner.found()))
        }
    }

    /// Parses `i8<-127:127>:f32, 0.25:3>`, or with an axis `u8<0:255>:f32:1, {0.1:128, 2.0:0}>`.
    fn quantized(&mut self, depth: usize) -> Parsed<Quantized> {
        let at = self.scanner.at();
        let word = self.scanner.word()?;
        let is_signed = word.starts_with('i');
        let bits = word.trim_start_matches(['i', 'u']);
        let name = format!("i{bits}");
        let storage = ELEMENTS.iter().find(|element| **element == name);
        let width = bits.parse::<u32>().ok().filter(|width| (2..=32).contains(width));
        let (Some(storage), Some(width)) = (storage, width) else {
            return self.scanner.fail_at(at, format!("`{word}` does not store quantized numbers"));
        };
        let half = 1_i64 << (width - 1);
        let mut range = if is_signed { [-half, half - 1] } else { [0, 2 * half - 1] };
        if self.scanner.eat("<") {
            range[0] = self.scanner.integer()?;
            self.scanner.expect(":")?;
            range[1] = self.scanner.integer()?;
            self.scanner.expect(">")?;
        }
        self.scanner.expect(":")?;
        let types = [self.element_id(storage), self.ty(depth)?];
        let axis = match self.scanner.eat(":") {
            true => Some(self.scanner.integer()?.cast_unsigned()),
            false => None,
        };
        self.scanner.expect(",")?;
        let mut scales = Vec::new();
        if axis.is_some() {
            self.scanner.expect("{")?;
            while !self.scanner.is_end("}", scales.is_empty())? {
                scales.push(self.scale()?);
            }
        } else {
            scales.push(self.scale()?);
        }
        self.scanner.expect(">")?;
        Ok(Quantized { is_signed, types, range, axis, scales })
    }

    fn scale(&mut self) -> Parsed<(u64, i64)> {
        let at = self.scanner.at();
        let Ok(scale) = self.scanner.number()?.parse::<f64>() else {
            return self.scanner.fail_at(at, "a scale is not a number");
        };
        let zero = if self.scanner.eat(":") { self.scanner.integer()? } else { 0 };
        Ok((scale.to_bits(), zero))
    }
}
