//! [`Scanner`]: reads tokens of MLIR's text.

use super::error::TextError;

/// The result type of parsers.
pub(super) type Parsed<T> = std::result::Result<T, TextError>;

/// A position in a text.
#[derive(Clone)]
pub(super) struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

/// Returns true for the bytes of a word after its first.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.')
}

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t str) -> Scanner<'t> {
        Scanner { text, at: 0 }
    }

    /// Returns the position, in bytes.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn fail<T>(&self, message: impl Into<String>) -> Parsed<T> {
        self.fail_at(self.at, message)
    }

    /// Returns an error at an earlier position.
    pub(super) fn fail_at<T>(&self, at: usize, message: impl Into<String>) -> Parsed<T> {
        Err(TextError::at(self.text, at, message))
    }

    fn rest(&self) -> &'t [u8] {
        &self.text.as_bytes()[self.at..]
    }

    /// Skips spaces, line breaks and comments.
    pub(super) fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let spaces = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            self.at += spaces;
            if !self.rest().starts_with(b"//") {
                return;
            }
            self.at += self.rest().iter().take_while(|byte| **byte != b'\n').count();
        }
    }

    /// Returns the next byte after spaces.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.rest().first().copied()
    }

    /// Returns true if `token` follows. A word must end there.
    pub(super) fn is_next(&mut self, token: &str) -> bool {
        self.skip_space();
        let Some(after) = self.rest().strip_prefix(token.as_bytes()) else { return false };
        let ends_in_word = token.bytes().last().is_some_and(|byte| byte.is_ascii_alphanumeric());
        !(ends_in_word && after.first().is_some_and(|byte| is_word(*byte)))
    }

    /// Skips `token` if it follows.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        let found = self.is_next(token);
        if found {
            self.at += token.len();
        }
        found
    }

    /// Skips a prefix of the following word, such as the `x` between sizes.
    pub(super) fn eat_prefix(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix.as_bytes());
        if found {
            self.at += prefix.len();
        }
        found
    }

    pub(super) fn expect(&mut self, token: &str) -> Parsed<()> {
        match self.eat(token) {
            true => Ok(()),
            false => self.fail(format!("expected `{token}`, found {}", self.found())),
        }
    }

    /// Describes the following text, for errors.
    pub(super) fn found(&self) -> String {
        let rest = &self.text[self.at..];
        let end = rest.char_indices().take_while(|(_, c)| *c != '\n').take(24).last();
        match end {
            Some((start, c)) => format!("`{}`", &rest[..start + c.len_utf8()]),
            None if rest.is_empty() => "the end".to_owned(),
            None => "the end of the line".to_owned(),
        }
    }

    /// Takes the bytes that belong to a token.
    fn take_while(&mut self, is_part: impl Fn(u8) -> bool) -> &'t str {
        let length = self.rest().iter().take_while(|byte| is_part(**byte)).count();
        let start = self.at;
        self.at += length;
        // The ends are beside ASCII bytes, or at the ends of the text.
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Takes a word.
    pub(super) fn word(&mut self) -> Parsed<&'t str> {
        self.skip_space();
        let starts = self.rest().first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_');
        if !starts {
            return self.fail(format!("expected a word, found {}", self.found()));
        }
        Ok(self.take_while(|byte| byte.is_ascii() && is_word(byte)))
    }

    /// Takes a word or a text in quotes.
    pub(super) fn name(&mut self) -> Parsed<String> {
        match self.peek() {
            Some(b'"') => self.string(),
            _ => self.word().map(str::to_owned),
        }
    }

    /// Takes the digits of a size.
    pub(super) fn digits(&mut self) -> Option<&'t str> {
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        (!digits.is_empty()).then_some(digits)
    }

    /// Takes a number as it is written: decimal, hexadecimal or with a point.
    pub(super) fn number(&mut self) -> Parsed<&'t str> {
        self.skip_space();
        let start = self.at;
        self.eat_prefix("-");
        if self.rest().starts_with(b"0x") {
            self.at += 2;
            self.take_while(|byte| byte.is_ascii_hexdigit());
            return Ok(&self.text[start..self.at]);
        }
        if self.digits().is_none() {
            self.at = start;
            return self.fail(format!("expected a number, found {}", self.found()));
        }
        if self.eat_prefix(".") {
            self.take_while(|byte| byte.is_ascii_digit());
        }
        let before = self.at;
        if self.eat_prefix("e") || self.eat_prefix("E") {
            let _sign = self.eat_prefix("-") || self.eat_prefix("+");
            if self.digits().is_none() {
                self.at = before;
            }
        }
        Ok(&self.text[start..self.at])
    }

    /// Takes a whole number.
    pub(super) fn integer(&mut self) -> Parsed<i64> {
        let at = self.at;
        let text = self.number()?;
        match text.parse() {
            Ok(number) => Ok(number),
            Err(_) => self.fail_at(at, format!("`{text}` is not a whole number of 64 bits")),
        }
    }

    /// Takes the name of a value, without its `%`.
    pub(super) fn value(&mut self) -> Parsed<&'t str> {
        self.expect("%")?;
        let name = self.take_while(|byte| byte.is_ascii() && (is_word(byte) || byte == b'-'));
        match name {
            "" => self.fail("expected the name of a value after `%`"),
            name => Ok(name),
        }
    }

    /// Takes the name of a symbol, without its `@`.
    pub(super) fn symbol(&mut self) -> Parsed<String> {
        self.expect("@")?;
        self.name()
    }

    /// Takes a text in quotes: `\"`, `\\`, `\n`, `\t` and `\0A` stand for bytes.
    pub(super) fn string(&mut self) -> Parsed<String> {
        let start = self.at;
        let bytes = self.bytes()?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(text),
            Err(_) => self.fail_at(start, "a text is not UTF-8"),
        }
    }

    fn bytes(&mut self) -> Parsed<Vec<u8>> {
        self.expect("\"")?;
        let start = self.at;
        let mut bytes = Vec::new();
        let mut rest = self.rest().iter();
        loop {
            let Some(byte) = rest.next() else { return self.fail_at(start, "a text has no end") };
            match byte {
                b'"' => break,
                b'\n' => return self.fail_at(start, "a text has no end"),
                b'\\' => {
                    let next = rest.next().copied();
                    bytes.push(match next {
                        Some(b'n') => b'\n',
                        Some(b't') => b'\t',
                        Some(byte @ (b'"' | b'\\')) => byte,
                        Some(first) => {
                            let digit = |byte: u8| char::from(byte).to_digit(16);
                            let pair = digit(first).zip(rest.next().and_then(|b| digit(*b)));
                            match pair {
                                // Two digits of 4 bits each.
                                Some((high, low)) => (high << 4 | low) as u8,
                                None => return self.fail_at(start, "a text has a bad escape"),
                            }
                        }
                        None => return self.fail_at(start, "a text has no end"),
                    });
                }
                byte => bytes.push(*byte),
            }
        }
        self.at = self.text.len() - rest.len();
        Ok(bytes)
    }

    /// Skips text in balanced parentheses.
    pub(super) fn skip_parentheses(&mut self) -> Parsed<()> {
        self.expect("(")?;
        let (start, mut depth) = (self.at, 1_usize);
        while depth > 0 {
            match self.rest().first() {
                None => return self.fail_at(start, "a parenthesis is not closed"),
                Some(b'"') => {
                    self.bytes()?;
                    continue;
                }
                Some(b'(') => depth += 1,
                Some(b')') => depth -= 1,
                Some(_) => {}
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Skips the rest of the line.
    pub(super) fn skip_line(&mut self) {
        self.at += self.rest().iter().take_while(|byte| **byte != b'\n').count();
    }

    /// Reads elements between `open` and `close`, with commas between them.
    pub(super) fn is_end(&mut self, close: &str, is_first: bool) -> Parsed<bool> {
        if self.eat(close) {
            return Ok(true);
        }
        if !is_first {
            self.expect(",")?;
        }
        Ok(false)
    }
}
