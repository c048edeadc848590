//! The header of NumPy files: a Python dictionary literal.

use crate::core::DType;

/// A parsed header.
#[derive(Debug, PartialEq)]
pub(super) struct Header {
    pub(super) dtype: DType,
    /// The elements, or the halves of complex elements, are not in the host's byte order.
    pub(super) swapped: bool,
    pub(super) fortran: bool,
    pub(super) shape: Vec<usize>,
}

/// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
pub(super) fn parse(text: &str) -> Result<Header, String> {
    let mut parser = Parser { rest: text.trim_end() };
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    parser.expect('{')?;
    while !parser.take('}') {
        let key = parser.string()?;
        parser.expect(':')?;
        match key {
            "descr" => descr = Some(parser.descr()?),
            "fortran_order" => fortran = Some(parser.boolean()?),
            "shape" => shape = Some(parser.tuple()?),
            other => return Err(format!("the header has the key `{}`", shortened(other))),
        }
        if !parser.take(',') {
            parser.expect('}')?;
            break;
        }
    }
    if !parser.rest.trim().is_empty() {
        return Err(format!("the header continues with `{}`", shortened(parser.rest)));
    }
    let lacks = |key: &str| format!("the header has no `{key}`");
    let (dtype, swapped) = element(descr.ok_or_else(|| lacks("descr"))?)?;
    Ok(Header {
        dtype,
        swapped,
        fortran: fortran.ok_or_else(|| lacks("fortran_order"))?,
        shape: shape.ok_or_else(|| lacks("shape"))?,
    })
}

/// Returns the dtype of a description such as `<f4`, and true if its byte order is not the host's.
fn element(descr: &str) -> Result<(DType, bool), String> {
    let (order, kind) = match descr.as_bytes() {
        [b'<' | b'>' | b'|' | b'=', ..] => descr.split_at(1),
        _ => ("=", descr),
    };
    let dtype = match kind {
        "b1" | "?" => DType::Bool,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "u1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        "c8" => DType::C64,
        "c16" => DType::C128,
        _ => {
            let remedy = match kind.as_bytes().first() {
                Some(b'V') => "; save bfloat16 and the like as float32, or `.view(np.uint16)`",
                Some(b'U' | b'S' | b'O') => "; store text in a JSONL file",
                _ => "",
            };
            return Err(format!("arrays cannot have the dtype `{}`{remedy}", shortened(descr)));
        }
    };
    let swapped = match order {
        "<" => cfg!(target_endian = "big"),
        ">" => cfg!(target_endian = "little"),
        _ => false,
    };
    Ok((dtype, swapped))
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn take(&mut self, token: char) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: char) -> Result<(), String> {
        if self.take(token) { Ok(()) } else { Err(self.unexpected(&format!("`{token}`"))) }
    }

    fn unexpected(&self, expected: &str) -> String {
        match self.rest.trim_start() {
            "" => format!("the header ends where {expected} is expected"),
            rest => format!("the header has `{}` where {expected} is expected", shortened(rest)),
        }
    }

    fn string(&mut self) -> Result<&'a str, String> {
        let text = self.rest.trim_start();
        let quote = text.chars().next().filter(|&quote| quote == '\'' || quote == '"');
        let end = quote.and_then(|quote| text[1..].find(quote));
        let Some(end) = end else { return Err(self.unexpected("a string")) };
        self.rest = &text[end + 2..];
        Ok(&text[1..=end])
    }

    fn descr(&mut self) -> Result<&'a str, String> {
        if self.rest.trim_start().starts_with('[') {
            Err("arrays cannot have a structured dtype; save its fields separately".into())
        } else {
            self.string()
        }
    }

    fn boolean(&mut self) -> Result<bool, String> {
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.trim_start().strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(self.unexpected("`True` or `False`"))
    }

    fn tuple(&mut self) -> Result<Vec<usize>, String> {
        let mut sizes = Vec::new();
        self.expect('(')?;
        while !self.take(')') {
            let text = self.rest.trim_start();
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            let size = text[..end].parse().map_err(|_| self.unexpected("an axis size"))?;
            sizes.push(size);
            // Python 2 wrote long numbers with an L.
            self.rest = text[end..].strip_prefix('L').unwrap_or(&text[end..]);
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn numpy_headers_are_parsed() {
        let header = parse("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   \n");
        let expected =
            Header { dtype: DType::F32, swapped: false, fortran: false, shape: vec![3, 4] };
        assert_eq!(header, Ok(expected));
        let header = parse("{\"shape\":(7L,),'fortran_order':True,'descr':'>i8'}").unwrap();
        assert_eq!((header.dtype, header.swapped, header.fortran), (DType::I64, true, true));
        assert_eq!(header.shape, [7]);
        let header = parse("{'descr': '|b1', 'fortran_order': False, 'shape': ()}").unwrap();
        assert_eq!((header.dtype, header.shape), (DType::Bool, vec![]));
    }

    #[test]
    fn errors_describe_the_mistake() {
        let of = |descr: &str| format!("{{'descr': {descr}, 'fortran_order': False, 'shape': ()}}");
        let headers = [
            String::new(),
            "{'descr': '<f4'}".into(),
            "{'descr': '<f4".into(),
            "{'descr' '<f4'}".into(),
            "{'shape': (3, -1)}".into(),
            "{'shape': (99999999999999999999,)}".into(),
            "{'fortran_order': 1}".into(),
            "{'size': 1}".into(),
            of("'<f4'") + " + 1",
            of("'<V2'"),
            of("'<U5'"),
            of("'<f16'"),
            of("[('x', '<f4')]"),
        ];
        let errors = headers.map(|header| parse(&header).unwrap_err()).join("\n");
        expect![[r#"
            the header ends where `{` is expected
            the header has no `fortran_order`
            the header has `'<f4` where a string is expected
            the header has `'<f4'}` where `:` is expected
            the header has `-1)}` where an axis size is expected
            the header has `99999999999999999999,)}` where an axis size is expected
            the header has `1}` where `True` or `False` is expected
            the header has the key `size`
            the header continues with ` + 1`
            arrays cannot have the dtype `<V2`; save bfloat16 and the like as float32, or `.view(np.uint16)`
            arrays cannot have the dtype `<U5`; store text in a JSONL file
            arrays cannot have the dtype `<f16`
            arrays cannot have a structured dtype; save its fields separately"#]]
        .assert_eq(&errors);
    }
}
