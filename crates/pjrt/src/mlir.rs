//! The few words of MLIR text that matter here: names, symbols, strings, tensor types.

/// A piece of MLIR text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word<'a> {
    /// An operation's name, a keyword, an attribute's name.
    Name(&'a str),
    /// `@name` or `@"name"`, without the `@`.
    Symbol(&'a str),
    /// The inside of `"..."`, escapes left as they are.
    String(&'a str),
    /// The inside of `tensor<...>` up to an encoding.
    Tensor(&'a str),
    /// Any other character.
    Sign(char),
}

/// Walks over MLIR text word by word, passing over blanks and comments.
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

    /// The inside of a string whose opening quote is next; the rest of the text if it does not end.
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

/// An escape at the end of the text must not lead past it.
fn floor_boundary(text: &str, mut index: usize) -> usize {
    index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

/// Which bytes a name is made of, as a table: a program's text is read byte by byte, and there may
/// be megabytes of it.
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
                // `complex<f32>` closes a bracket of its own.
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
    fn broken_text_ends() {
        for text in ["\"\\", "\"é", "@", "@\"", "tensor<", "tensor<2xcomplex<", "//", "é"] {
            assert!(Scanner::new(text).count() <= 3, "{text}");
        }
    }
}
