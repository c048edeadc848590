//! Texts of attributes: in StableHLO, and in printed programs.

use super::attribute::{FfiAttribute, FfiScalar};
use super::attributes::FfiAttributes;
use crate::core::types::dtype::DType;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::{self, Write};

/// Keys of the dictionary that stands for a value whose dtype XLA's attributes do not have.
pub(crate) const TAG_BYTES: &str = "oxidax.bytes";
pub(crate) const TAG_DTYPE: &str = "oxidax.dtype";
pub(crate) const TAG_SCALAR: &str = "oxidax.scalar";

impl FfiAttributes {
    /// Returns the dictionary in StableHLO text.
    pub(crate) fn stablehlo(&self) -> String {
        let entries =
            self.iter().map(|(name, value)| format!("{} = {}", quoted(name), mlir(value)));
        format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
    }
}

impl FfiAttribute {
    /// Returns the attribute in StableHLO text.
    pub(crate) fn stablehlo(&self) -> String {
        mlir(self)
    }
}

fn mlir(attribute: &FfiAttribute) -> String {
    match attribute {
        FfiAttribute::Scalar(scalar) => mlir_scalar(scalar),
        FfiAttribute::String(text) => quoted(text),
        FfiAttribute::Dictionary(attributes) => attributes.stablehlo(),
        FfiAttribute::Array { dtype, bytes } if is_native(*dtype) && *dtype != DType::Bool => {
            let element = dtype.stablehlo();
            let count = bytes.len() / dtype.host_bytes();
            match count {
                0 if dtype.is_unsigned() => format!("dense<> : tensor<0x{element}>"),
                0 => format!("array<{element}>"),
                _ => format!("dense<\"0x{}\"> : tensor<{count}x{element}>", hex(bytes)),
            }
        }
        FfiAttribute::Array { dtype, bytes } => tagged(*dtype, bytes, false),
    }
}

fn mlir_scalar(scalar: &FfiScalar) -> String {
    let dtype = scalar.dtype();
    let element = dtype.stablehlo();
    match (dtype, scalar.integer()) {
        (DType::Bool, Some(value)) => (value != 0).to_string(),
        (_, Some(value)) if is_native(dtype) => format!("{value} : {element}"),
        (DType::F32 | DType::F64, _) => {
            let mut bytes = scalar.as_bytes().to_vec();
            bytes.reverse();
            match decimal(scalar) {
                Some(text) => format!("{text} : {element}"),
                None => format!("0x{} : {element}", hex(&bytes)),
            }
        }
        _ => tagged(dtype, scalar.as_bytes(), true),
    }
}

/// Returns the shortest decimal number that is equal to a finite one. MLIR requires a point.
fn decimal(scalar: &FfiScalar) -> Option<String> {
    let value = scalar.float().filter(|value| value.is_finite())?;
    let text = match scalar.dtype() {
        DType::F32 => format!("{:?}", value as f32),
        _ => format!("{value:?}"),
    };
    Some(match text.split_once('e') {
        Some((digits, power)) if !digits.contains('.') => format!("{digits}.0e{power}"),
        _ => text,
    })
}

/// Returns true if XLA's attributes have the dtype.
fn is_native(dtype: DType) -> bool {
    matches!(dtype, DType::Bool | DType::F32 | DType::F64)
        || (dtype.is_integer() && dtype.bits() >= 8)
}

fn tagged(dtype: DType, bytes: &[u8], is_scalar: bool) -> String {
    let elements = match bytes.len() {
        0 => "dense<> : tensor<0xui8>".to_owned(),
        count => format!("dense<\"0x{}\"> : tensor<{count}xui8>", hex(bytes)),
    };
    let dtype = dtype.name();
    format!(
        "{{\"{TAG_BYTES}\" = {elements}, \"{TAG_DTYPE}\" = \"{dtype}\", \
         \"{TAG_SCALAR}\" = {is_scalar}}}"
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02X}");
        text
    })
}

/// Returns text as a string of MLIR.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' | 0..=31 | 127 => quoted.push_str(&format!("\\{byte:02X}")),
            byte if byte.is_ascii() => quoted.push(char::from(byte)),
            byte => quoted.push_str(&format!("\\{byte:02X}")),
        }
    }
    quoted + "\""
}

impl fmt::Display for FfiScalar {
    /// Writes the number and its dtype: `1e-5:f32`. Numbers without a host type, and those that are
    /// not finite, are written as hexadecimal bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dtype = self.dtype();
        match (dtype, self.integer(), self.float()) {
            (DType::Bool, Some(value), _) => write!(f, "{}", value != 0),
            (_, Some(value), _) => write!(f, "{value}:{dtype}"),
            (DType::F32, _, Some(value)) if value.is_finite() => {
                write!(f, "{:?}:{dtype}", value as f32)
            }
            (_, _, Some(value)) if value.is_finite() => write!(f, "{value:?}:{dtype}"),
            _ => write!(f, "0x{}:{dtype}", hex(self.as_bytes())),
        }
    }
}

impl fmt::Display for FfiAttribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FfiAttribute::Scalar(scalar) => scalar.fmt(f),
            FfiAttribute::String(text) => write!(f, "{text:?}"),
            FfiAttribute::Array { dtype, bytes } => {
                f.write_str("[")?;
                for (index, bytes) in bytes.chunks_exact(dtype.host_bytes().max(1)).enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    let scalar = FfiScalar::from_bytes(*dtype, bytes).ok_or(fmt::Error)?;
                    let text = scalar.to_string();
                    let number = text.rsplit_once(':').map_or(text.as_str(), |(number, _)| number);
                    write!(f, "{separator}{number}")?;
                }
                write!(f, "]:{dtype}")
            }
            FfiAttribute::Dictionary(attributes) => {
                f.write_str("{")?;
                for (index, (name, value)) in attributes.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{name} = {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Parses a number as it is displayed, without its dtype.
fn parse_number(text: &str, dtype: DType) -> Option<FfiScalar> {
    if let Some(digits) = text.strip_prefix("0x") {
        let byte = |start: usize| u8::from_str_radix(digits.get(start..start + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        return FfiScalar::from_bytes(dtype, &bytes?);
    }
    if dtype == DType::Bool {
        return Some(FfiScalar::from(text.parse::<bool>().ok()?));
    }
    if dtype.is_integer() {
        let value: i128 = text.parse().ok()?;
        let scalar = FfiScalar::from_bytes(dtype, &value.to_le_bytes()[..dtype.host_bytes()])?;
        return (scalar.integer() == Some(value)).then_some(scalar);
    }
    let value: f64 = text.parse().ok()?;
    match dtype {
        DType::F64 => Some(value.into()),
        DType::F32 => Some(text.parse::<f32>().ok()?.into()),
        DType::F16 => Some(half::f16::from_f64(value).into()),
        DType::BF16 => Some(half::bf16::from_f64(value).into()),
        _ => None,
    }
}

fn parse(text: &str) -> Option<FfiAttribute> {
    if let "true" | "false" = text {
        return Some((text == "true").into());
    }
    let (number, dtype) = text.rsplit_once(':')?;
    let dtype = DType::from_name(dtype)?;
    let Some(list) = number.strip_prefix('[').and_then(|list| list.strip_suffix(']')) else {
        return parse_number(number, dtype).map(FfiAttribute::Scalar);
    };
    let mut bytes = Vec::new();
    for number in list.split(", ").filter(|number| !number.is_empty()) {
        bytes.extend_from_slice(parse_number(number, dtype)?.as_bytes());
    }
    Some(FfiAttribute::Array { dtype, bytes })
}

/// The forms of an attribute in the parameters of a printed program: text in quotes has one more
/// pair of them than numbers.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Printed {
    Text(String),
    Dictionary(FfiAttributes),
}

impl Serialize for FfiAttribute {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            FfiAttribute::Dictionary(attributes) => attributes.serialize(serializer),
            FfiAttribute::String(text) => {
                serializer.serialize_str(&serde_json::Value::from(text.as_str()).to_string())
            }
            other => serializer.serialize_str(&other.to_string()),
        }
    }
}

impl<'de> Deserialize<'de> for FfiAttribute {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FfiAttribute, D::Error> {
        let text = match Printed::deserialize(deserializer)? {
            Printed::Dictionary(attributes) => return Ok(FfiAttribute::Dictionary(attributes)),
            Printed::Text(text) => text,
        };
        let parsed = match text.starts_with('"') {
            true => serde_json::from_str(&text).ok().map(FfiAttribute::String),
            false => parse(&text),
        };
        parsed.ok_or_else(|| serde::de::Error::custom(format!("`{text}` is not an attribute")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};
    use num_complex::{Complex32, Complex64};

    fn round_trip(attribute: FfiAttribute) -> String {
        let json = serde_json::to_string(&attribute).unwrap();
        assert_eq!(serde_json::from_str::<FfiAttribute>(&json).unwrap(), attribute, "{json}");
        attribute.to_string()
    }

    #[test]
    fn printed_attributes_are_read_back() {
        assert_eq!(round_trip(1e-5f32.into()), "1e-5:f32");
        assert_eq!(round_trip((-3i8).into()), "-3:i8");
        assert_eq!(round_trip(u64::MAX.into()), "18446744073709551615:u64");
        assert_eq!(round_trip(true.into()), "true");
        assert_eq!(round_trip("true".into()), "\"true\"");
        assert_eq!(round_trip("a \"b\"\n".into()), "\"a \\\"b\\\"\\n\"");
        assert_eq!(round_trip(f32::NAN.into()), "0x0000C07F:f32");
        assert_eq!(round_trip(f16::from_f32(0.1).into()), "0.0999755859375:f16");
        assert_eq!(round_trip(bf16::from_f32(1.5).into()), "1.5:bf16");
        assert_eq!(round_trip(Complex32::new(1.0, -2.0).into()), "0x0000803F000000C0:c64");
        round_trip(Complex64::new(1.0, -2.0).into());
        assert_eq!(round_trip(vec![1i32, -2].into()), "[1, -2]:i32");
        assert_eq!(round_trip(Vec::<f64>::new().into()), "[]:f64");
        assert_eq!(round_trip([true, false].into()), "[true, false]:bool");
        let small = FfiScalar::from_bytes(DType::F8E4M3FN, &[0x38]).unwrap();
        assert_eq!(round_trip(small.into()), "0x38:f8_e4m3fn");
        let inner = FfiAttributes::new().with("x", "y").with("n", 1i64);
        assert_eq!(round_trip(inner.into()), "{n = 1:i64, x = \"y\"}");
    }

    #[test]
    fn stablehlo_has_only_attributes_that_xla_reads() {
        let text = |value: FfiAttribute| mlir(&value);
        assert_eq!(text(1e-5f32.into()), "1.0e-5 : f32");
        assert_eq!(text(0.25f64.into()), "0.25 : f64");
        assert_eq!(text(f32::INFINITY.into()), "0x7F800000 : f32");
        assert_eq!(text(7u8.into()), "7 : ui8");
        assert_eq!(text("a\"b\u{e9}".into()), "\"a\\22b\\C3\\A9\"");
        assert_eq!(text(vec![1i16, -1].into()), "dense<\"0x0100FFFF\"> : tensor<2xi16>");
        assert_eq!(text(Vec::<i64>::new().into()), "array<i64>");
        assert_eq!(
            text(bf16::from_f32(1.0).into()),
            "{\"oxidax.bytes\" = dense<\"0x803F\"> : tensor<2xui8>, \"oxidax.dtype\" = \"bf16\", \
             \"oxidax.scalar\" = true}"
        );
    }
}
