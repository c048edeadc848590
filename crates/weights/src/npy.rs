//! NumPy's `.npy` files, versions 1 to 3.
//!
//! Source: NumPy's documentation of `numpy.lib.format`.

use crate::archive::Member;
use crate::dtype::WeightDType;
use crate::error::{Error, Result, shortened};
use crate::source::ByteSource;
use crate::strided::view;
use crate::tensor::{ByteOrder, StoredTensor};
use crate::weights::Contents;

/// The first bytes.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";

/// Longest header, in bytes.
const MAX_HEADER: u64 = 1 << 20;

/// Reads a file with one array, which is named after the file.
pub(crate) fn read(source: &ByteSource, name: &str) -> Result<Contents> {
    let name = name.strip_suffix(".npy").unwrap_or(name);
    let mut contents = Contents::default();
    let tensor = tensor(&Member::range(source, 0, source.size()))?;
    contents.insert(if name.is_empty() { "array".into() } else { name.into() }, tensor)?;
    Ok(contents)
}

/// Reads the header of an array.
pub(crate) fn tensor(member: &Member) -> Result<StoredTensor> {
    let first = member.read(0, member.size.min(12))?;
    if !first.starts_with(MAGIC) {
        return Err(Error::new("npy, byte 0: the file does not begin with \\x93NUMPY"));
    }
    let (start, length) = match first[..] {
        [_, _, _, _, _, _, 1, _, a, b, ..] => (10, u64::from(u16::from_le_bytes([a, b]))),
        [_, _, _, _, _, _, 2 | 3, _, a, b, c, d] => {
            (12, u64::from(u32::from_le_bytes([a, b, c, d])))
        }
        _ => return Err(Error::new("npy, byte 6: the version is not 1 to 3")),
    };
    if length > MAX_HEADER {
        return Err(Error::new(format!("npy: a header of {length} bytes, at most {MAX_HEADER}")));
    }
    let text = member.read(start, length)?;
    let text =
        std::str::from_utf8(&text).map_err(|_| Error::new("npy: the header is not UTF-8"))?;
    let Header { dtype, order, is_fortran, shape } =
        parse(text).map_err(|message| Error::new(format!("npy, byte {start}: {message}")))?;
    let start = start + length;
    let bytes = dtype.byte_len(&shape);
    if bytes != Some(member.size - start) {
        let found = member.size - start;
        let message = format!("npy, byte {start}: {found} bytes are not a {dtype}{shape:?}");
        return Err(Error::new(message));
    }
    let mut strides = vec![1u64; shape.len()];
    let mut step = 1u64;
    let axes: Vec<usize> = match is_fortran {
        true => (0..shape.len()).collect(),
        false => (0..shape.len()).rev().collect(),
    };
    for axis in axes {
        strides[axis] = step;
        step = step.saturating_mul(shape[axis] as u64);
    }
    view(member.behind(start), order, dtype, 0, shape, strides)
}

struct Header {
    dtype: WeightDType,
    order: ByteOrder,
    is_fortran: bool,
    shape: Vec<usize>,
}

/// Parses a dictionary such as `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
fn parse(text: &str) -> Result<Header, String> {
    let mut tokens = Tokens { rest: text };
    let (mut descr, mut is_fortran, mut shape) = (None, None, None);
    tokens.expect("{")?;
    while !tokens.take("}") {
        let key = tokens.quoted()?;
        tokens.expect(":")?;
        match key {
            "descr" => descr = Some(tokens.quoted()?),
            "fortran_order" if tokens.take("True") => is_fortran = Some(true),
            "fortran_order" => {
                tokens.expect("False")?;
                is_fortran = Some(false);
            }
            "shape" => shape = Some(tokens.sizes()?),
            other => return Err(format!("the header has the key `{}`", shortened(other))),
        }
        if !tokens.take(",") {
            tokens.expect("}")?;
            break;
        }
    }
    let lacks = |key: &str| format!("the header has no `{key}`");
    let (dtype, order) = element(descr.ok_or_else(|| lacks("descr"))?)?;
    let is_fortran = is_fortran.ok_or_else(|| lacks("fortran_order"))?;
    Ok(Header { dtype, order, is_fortran, shape: shape.ok_or_else(|| lacks("shape"))? })
}

/// Returns type and byte order of a description such as `<f4`.
pub(crate) fn element(descr: &str) -> Result<(WeightDType, ByteOrder), String> {
    let kind = descr.trim_start_matches(['<', '>', '|', '=']);
    let order = if descr.starts_with('>') { ByteOrder::Big } else { ByteOrder::Little };
    let dtype = match kind {
        "b1" | "?" => WeightDType::Bool,
        "i1" => WeightDType::I8,
        "i2" => WeightDType::I16,
        "i4" => WeightDType::I32,
        "i8" => WeightDType::I64,
        "u1" => WeightDType::U8,
        "u2" => WeightDType::U16,
        "u4" => WeightDType::U32,
        "u8" => WeightDType::U64,
        "f2" => WeightDType::F16,
        "f4" => WeightDType::F32,
        "f8" => WeightDType::F64,
        "c8" => WeightDType::C64,
        "c16" => WeightDType::C128,
        // NumPy writes the dtype of `ml_dtypes` with two bytes, bfloat16, as raw bytes.
        "V2" => WeightDType::BF16,
        _ => {
            let name = shortened(descr);
            return Err(format!(
                "the dtype `{name}` is not supported; save numbers of a float type"
            ));
        }
    };
    Ok((dtype, order))
}

struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        match self.take(token) {
            true => Ok(()),
            false => Err(format!("`{}` where `{token}` is expected", shortened(self.rest))),
        }
    }

    fn quoted(&mut self) -> Result<&'a str, String> {
        let text = self.rest.trim_start();
        let quote = text.chars().next().filter(|&quote| quote == '\'' || quote == '"');
        let Some(end) = quote.and_then(|quote| text[1..].find(quote)) else {
            return Err(format!("`{}` where text is expected", shortened(text)));
        };
        self.rest = &text[end + 2..];
        Ok(&text[1..=end])
    }

    fn sizes(&mut self) -> Result<Vec<usize>, String> {
        let mut sizes = Vec::new();
        self.expect("(")?;
        while !self.take(")") {
            let text = self.rest.trim_start();
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            let size = text[..end].parse();
            sizes.push(size.map_err(|_| format!("`{}` is not an axis size", shortened(text)))?);
            self.rest = &text[end..];
            if !self.take(",") {
                self.expect(")")?;
                break;
            }
        }
        Ok(sizes)
    }
}
