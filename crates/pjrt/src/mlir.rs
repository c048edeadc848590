//! A scanner for the parts of MLIR text that this crate needs: names, symbols, strings, tensor
//! types.

/// A token of MLIR text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word<'a> {
    /// The name of an operation, keyword or attribute.
    Name(&'a str),
    /// `@name` or `@"name"`, without the `@`.
    Symbol(&'a str),
    /// The contents of `"..."`, with escapes unchanged.
    String(&'a str),
    /// The contents of `tensor<...>`, up to an encoding.
    Tensor(&'a str),
    /// Any other character.
    Sign(char),
}

/// Splits MLIR text into tokens, skipping whitespace and comments.
#[derive(Clone)]
pub(crate) struct Scanner<'a> {
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        taken
    }

    fn skip_blanks(&mut self) {
        loop {
            self.rest = self.rest.trim_ascii_start();
            if !self.rest.starts_with("//") {
                return;
            }
            self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
    }

    /// Returns the contents of a string whose opening quote is next, or the rest of the text if the
    /// string is not terminated.
    fn string(&mut self) -> &'a str {
        self.take(1);
        let bytes = self.rest.as_bytes();
        let mut end = 0;
        while end < bytes.len() && bytes[end] != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let inside = self.take(floor_boundary(self.rest, end));
        if !self.rest.is_empty() {
            self.take(1);
        }
        inside
    }

    fn name(&mut self) -> &'a str {
        let end = self.rest.bytes().position(|byte| !IS_NAME[usize::from(byte)]);
        self.take(end.unwrap_or(self.rest.len()))
    }
}

/// Clamps `index` to the length of `text` and rounds it down to a character boundary. An escape at
/// the end of the text can point past it.
fn floor_boundary(text: &str, mut index: usize) -> usize {
    index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

/// The bytes that a name consists of, as a table. A program's text can have megabytes and is
/// scanned byte by byte.
const IS_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$');
        byte += 1;
    }
    table
};

impl<'a> Iterator for Scanner<'a> {
    type Item = Word<'a>;

    fn next(&mut self) -> Option<Word<'a>> {
        self.skip_blanks();
        let first = *self.rest.as_bytes().first()?;
        if first == b'"' {
            return Some(Word::String(self.string()));
        }
        if first == b'@' {
            self.take(1);
            let quoted = self.rest.starts_with('"');
            return Some(Word::Symbol(if quoted { self.string() } else { self.name() }));
        }
        if IS_NAME[usize::from(first)] {
            let name = self.name();
            if name == "tensor" && self.rest.starts_with('<') {
                self.take(1);
                let end = self.rest.find(['>', ',']).unwrap_or(self.rest.len());
                // The type `complex<f32>` contains its own closing bracket.
                let nested = self.rest[..end].contains('<') && self.rest[end..].starts_with('>');
                return Some(Word::Tensor(self.take(if nested { end + 1 } else { end })));
            }
            return Some(Word::Name(name));
        }
        let sign = self.rest.chars().next()?;
        self.take(sign.len_utf8());
        Some(Word::Sign(sign))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_signature() {
        let text = "func.func @\"a b\"(%x: tensor<2xcomplex<f32>>) // @no\n \"s\\\"t\"";
        let words: Vec<_> = Scanner::new(text).collect();
        assert_eq!(
            words,
            [
                Word::Name("func.func"),
                Word::Symbol("a b"),
                Word::Sign('('),
                Word::Sign('%'),
                Word::Name("x"),
                Word::Sign(':'),
                Word::Tensor("2xcomplex<f32>"),
                Word::Sign('>'),
                Word::Sign(')'),
                Word::String("s\\\"t"),
            ]
        );
    }

    #[test]
    fn scanning_broken_text_terminates() {
        for text in ["\"\\", "\"é", "@", "@\"", "tensor<", "tensor<2xcomplex<", "//", "é"] {
            assert!(Scanner::new(text).count() <= 3, "{text}");
        }
    }
}
