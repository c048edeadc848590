//! Constant arrays: numbers in the program, or tensors of the file beside it.

use crate::error::Obstacle;
use crate::file::ConstEntry;
use crate::ir::{Dtype, Literal, Number};

use super::Writer;
use super::shaping::filled;
use super::text::{Text, list};

impl Writer<'_> {
    pub(crate) fn constant_text(&self, entry: &ConstEntry, dtype: Dtype) -> Result<Text, Obstacle> {
        let Some(values) = &entry.values else {
            let name = entry.tensor.as_deref().unwrap_or_default();
            let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
            if !plain || dtype == Dtype::Key {
                return Err(Obstacle::new(format!("a constant of shape {:?}", entry.shape)));
            }
            return Ok(Text::atom(format!("recorded(\"{name}\")")));
        };
        let numbers: Option<Vec<Number>> =
            values.iter().map(|value| Number::parse(value).map(|n| n.of(dtype))).collect();
        let numbers = numbers.ok_or_else(|| Obstacle::new("a constant holds no numbers"))?;
        if dtype != Dtype::Key {
            if let Some((&first, rest)) = numbers.split_first()
                && rest.iter().all(|&other| other == first)
            {
                let literal = Literal { value: first, dtype, weak: false };
                return Ok(filled(&literal, &entry.shape));
            }
            let counts = |(index, number): (usize, &Number)| *number == Number::Int(index as i128);
            let rising = numbers.iter().enumerate().all(counts);
            if rising && entry.shape.len() == 1 && dtype == Dtype::Int(32) {
                return Ok(Text::atom(format!("arange({})", numbers.len())));
            }
        }
        let suffix = match dtype {
            Dtype::Bool => "",
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
            Dtype::Int(8) => "i8",
            Dtype::Int(16) => "i16",
            Dtype::Int(32) => "i32",
            Dtype::Int(64) => "i64",
            Dtype::Uint(8) => "u8",
            Dtype::Uint(16) => "u16",
            Dtype::Uint(32) | Dtype::Key => "u32",
            Dtype::Uint(64) => "u64",
            dtype => {
                return Err(Obstacle::new(format!(
                    "constants of {} are not written",
                    dtype.rust()
                )));
            }
        };
        let mut items = Vec::with_capacity(numbers.len());
        for (index, number) in numbers.iter().enumerate() {
            let suffix = if index == 0 { suffix } else { "" };
            items.push(match *number {
                Number::Bool(value) => value.to_string(),
                Number::Int(value) => format!("{value}{suffix}"),
                Number::Float(value) if value.is_finite() => {
                    let text = format!("{:?}", crate::patterns::shortest(value));
                    format!("{text}{suffix}")
                }
                Number::Float(value) => {
                    let name = if value.is_nan() { "NAN" } else { "INFINITY" };
                    let sign = if value == f64::NEG_INFINITY { "-" } else { "" };
                    let ty = if dtype == Dtype::F64 { "f64" } else { "f32" };
                    format!("{sign}{ty}::{name}")
                }
                Number::Complex(..) => return Err(Obstacle::new("complex constants")),
            });
        }
        let array = format!(
            "Array::from_slice(&[{}], {}).expect(\"as many numbers as the shape has elements\")",
            items.join(", "),
            list(&entry.shape)
        );
        Ok(Text::atom(match dtype {
            Dtype::Key => format!("random::Key::from_data({array})"),
            _ => array,
        }))
    }
}
