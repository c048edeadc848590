//! [`Literal`]: the value of an attribute, as the text has it.

use super::floats::bits_of;
use super::scanner::Parsed;
use super::{MAX_DEPTH, Parser};
use crate::cases::ENUMERATIONS;
use crate::entries::{AttributeId, Type, TypeId};

/// The value of an attribute.
#[derive(Clone, Debug)]
pub(super) enum Literal {
    /// A name without a value.
    Unit,
    Boolean(bool),
    /// A whole number, and its type if the text has one.
    Integer(i128, Option<TypeId>),
    /// A number with a point.
    Number(f64),
    /// The bits of a floating-point number.
    Float(u64, TypeId),
    String(String),
    Symbol(String),
    List(Vec<Literal>),
    Dictionary(Vec<(String, Literal)>),
    Type(TypeId),
    /// `array<i64: 1, 2>`; flags are 0 or 1.
    Numbers(&'static str, Vec<i64>),
    /// An array of constants.
    Dense(TypeId, Vec<u8>),
    /// A case of an enumeration.
    Case(&'static str, &'static str),
    /// The parts of an attribute of StableHLO, and its name.
    Record(String, Vec<(String, Literal)>),
    /// An attribute that is in the module already.
    Attribute(AttributeId),
}

impl Parser<'_> {
    /// Parses `{name = value, flag}`, after the opening brace, up to `close`.
    pub(super) fn entries(&mut self, close: &str, depth: usize) -> Parsed<Vec<(String, Literal)>> {
        let mut entries = Vec::new();
        while !self.scanner.is_end(close, entries.is_empty())? {
            let name = self.scanner.name()?;
            let value = match self.scanner.eat("=") {
                true => self.literal(depth)?,
                false => Literal::Unit,
            };
            entries.push((name, value));
        }
        Ok(entries)
    }

    /// Parses a value.
    pub(super) fn literal(&mut self, depth: usize) -> Parsed<Literal> {
        let Some(depth) = depth.checked_sub(1) else {
            return self.scanner.fail(format!("an attribute is nested deeper than {MAX_DEPTH}"));
        };
        Ok(match self.scanner.peek() {
            Some(b'"') => Literal::String(self.scanner.string()?),
            Some(b'@') => Literal::Symbol(self.scanner.symbol()?),
            Some(b'[') => {
                self.scanner.expect("[")?;
                let mut list = Vec::new();
                while !self.scanner.is_end("]", list.is_empty())? {
                    list.push(self.literal(depth)?);
                }
                Literal::List(list)
            }
            Some(b'{') => {
                self.scanner.expect("{")?;
                Literal::Dictionary(self.entries("}", depth)?)
            }
            Some(b'<') => {
                self.scanner.expect("<")?;
                Literal::Record(String::new(), self.entries(">", depth)?)
            }
            Some(b'#') => self.dialect_literal(depth)?,
            Some(b'-' | b'0'..=b'9') => self.number_literal(depth)?,
            _ if self.scanner.eat("true") => Literal::Boolean(true),
            _ if self.scanner.eat("false") => Literal::Boolean(false),
            _ if self.scanner.eat("unit") => Literal::Unit,
            _ if self.scanner.eat("dense") => self.dense(depth)?,
            _ if self.scanner.eat("array") => self.array()?,
            _ => Literal::Type(self.ty(depth)?),
        })
    }

    fn number_literal(&mut self, depth: usize) -> Parsed<Literal> {
        let at = self.scanner.at();
        let text = self.scanner.number()?;
        let ty = match self.scanner.eat(":") {
            true => Some(self.ty(depth)?),
            false => None,
        };
        let is_float = |name: &str| name.starts_with(['f', 'b', 't']);
        let float = ty.and_then(|id| match self.types[id] {
            Type::Element(name) if is_float(name) => Some((id, name)),
            _ => None,
        });
        if let Some((id, name)) = float {
            let bits = match text.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => text.parse().ok().and_then(|number| bits_of(name, number)),
            };
            return match bits {
                Some(bits) => Ok(Literal::Float(bits, id)),
                None => self.scanner.fail_at(at, format!("`{text}` is not a number")),
            };
        }
        match text.parse() {
            Ok(number) => Ok(Literal::Integer(number, ty)),
            Err(_) => match (text.parse(), ty) {
                (Ok(number), None) => Ok(Literal::Number(number)),
                _ => self.scanner.fail_at(at, format!("`{text}` is not a number of this type")),
            },
        }
    }

    /// Parses `<i64: 1, 2>`.
    fn array(&mut self) -> Parsed<Literal> {
        self.scanner.expect("<")?;
        let name = match self.scanner.word()? {
            "i64" => "i64",
            "i1" => "i1",
            other => return self.scanner.fail(format!("lists of `{other}` are not supported")),
        };
        let mut numbers = Vec::new();
        if self.scanner.eat(">") {
            return Ok(Literal::Numbers(name, numbers));
        }
        self.scanner.expect(":")?;
        while !self.scanner.is_end(">", numbers.is_empty())? {
            numbers.push(match name {
                "i1" if self.scanner.eat("true") => 1,
                "i1" if self.scanner.eat("false") => 0,
                _ => self.scanner.integer()?,
            });
        }
        Ok(Literal::Numbers(name, numbers))
    }

    fn dialect_literal(&mut self, depth: usize) -> Parsed<Literal> {
        let at = self.scanner.at();
        self.scanner.expect("#")?;
        let word = self.scanner.word()?;
        if let Some(name) = word.strip_prefix("sdy") {
            return self.shardy_literal(name.trim_start_matches('.'));
        }
        let Some(name) = word.strip_prefix("stablehlo") else {
            return self.scanner.fail_at(at, format!("attributes `#{word}` are not supported"));
        };
        self.scanner.expect("<")?;
        match name.trim_start_matches('.') {
            "" => {
                let name = self.scanner.word()?;
                let case = self.case(name)?;
                self.scanner.expect(">")?;
                Ok(case)
            }
            "result_accuracy_mode" => {
                let case = self.case("result_accuracy_mode")?;
                self.scanner.expect(">")?;
                Ok(case)
            }
            "conv" => match self.scanner.eat("raw") {
                true => Ok(Literal::Record("conv".to_owned(), self.entries(">", depth)?)),
                false => self.convolution_numbers(),
            },
            name => Ok(Literal::Record(name.to_owned(), self.entries(">", depth)?)),
        }
    }

    fn case(&mut self, name: &str) -> Parsed<Literal> {
        let at = self.scanner.at();
        let case = self.scanner.word()?;
        let found = ENUMERATIONS.iter().find(|(known, ..)| *known == name);
        let found = found.and_then(|(name, _, _, cases)| {
            let case = cases.iter().find(|known| **known == case)?;
            Some(Literal::Case(name, case))
        });
        match found {
            Some(case) => Ok(case),
            None => self.scanner.fail_at(at, format!("`{name}` has no case `{case}`")),
        }
    }

    /// Parses `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>`: the axes of the image, of the kernel and
    /// of the result.
    fn convolution_numbers(&mut self) -> Parsed<Literal> {
        let mut parts = Vec::new();
        for (group, names, separator) in [
            ("input", [("b", "batch"), ("f", "feature")], "x"),
            ("kernel", [("i", "input_feature"), ("o", "output_feature")], "->"),
            ("output", [("b", "batch"), ("f", "feature")], ">"),
        ] {
            let at = self.scanner.at();
            self.scanner.expect("[")?;
            let (mut spatial, mut count) = (Vec::new(), 0_i64);
            while !self.scanner.is_end("]", count == 0)? {
                let found = names.iter().find(|(letter, _)| self.scanner.eat(letter));
                match found {
                    Some((_, name)) => parts.push((
                        format!("{group}_{name}_dimension"),
                        Literal::Integer(count.into(), None),
                    )),
                    None => spatial.push((self.scanner.integer()?, count)),
                }
                count += 1;
            }
            spatial.sort_unstable();
            let is_complete = spatial.iter().enumerate().all(|(i, (axis, _))| *axis == i as i64);
            if !is_complete {
                return self.scanner.fail_at(at, "the spatial axes are not numbered from 0");
            }
            let axes = spatial.into_iter().map(|(_, axis)| Literal::Integer(axis.into(), None));
            parts.push((format!("{group}_spatial_dimensions"), Literal::List(axes.collect())));
            match separator {
                "x" if self.scanner.eat_prefix("x") => {}
                separator => self.scanner.expect(separator)?,
            }
        }
        Ok(Literal::Record("conv".to_owned(), parts))
    }
}
