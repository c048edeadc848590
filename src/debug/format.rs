//! Format strings for arrays.

use crate::core::HostArray;
use std::fmt::Write as _;

/// A part of a format string.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    /// An array, and the number of digits after the decimal point.
    Array(usize, Option<usize>),
}

/// A parsed format string: `{}` is the next array, `{1}` the second, `{:.3}` and `{0:.3}` set the
/// digits after the decimal point, `{{` and `}}` are braces.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Format(Vec<Piece>);

impl Format {
    /// Parses a format string for `count` arrays.
    ///
    /// # Errors
    /// A description of the mistake.
    pub(super) fn parse(format: &str, count: usize) -> Result<Format, String> {
        let mut pieces = Vec::new();
        let mut used = vec![false; count];
        let (mut text, mut next) = (String::new(), 0);
        let mut rest = format.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '{' | '}' if rest.peek() == Some(&c) => {
                    rest.next();
                    text.push(c);
                }
                '{' => {
                    let inside: String = rest.by_ref().take_while(|&c| c != '}').collect();
                    let (name, digits) = inside.split_once(':').unwrap_or((&inside, ""));
                    let at = match name.trim() {
                        "" => {
                            next += 1;
                            next - 1
                        }
                        name => name.parse().map_err(|_| {
                            format!("`{{{inside}}}` is not an array: write `{{}}` or `{{0}}`")
                        })?,
                    };
                    let digits = match digits.trim() {
                        "" => None,
                        text => match text.strip_prefix('.').and_then(|text| text.parse().ok()) {
                            Some(digits) => Some(digits),
                            None => {
                                return Err(format!("`{{{inside}}}`: only `:.3` is understood"));
                            }
                        },
                    };
                    let Some(slot) = used.get_mut(at) else {
                        return Err(format!("`{format}` refers to array {at}, got {count} arrays"));
                    };
                    *slot = true;
                    if !text.is_empty() {
                        pieces.push(Piece::Text(std::mem::take(&mut text)));
                    }
                    pieces.push(Piece::Array(at, digits));
                }
                '}' => {
                    return Err(format!("`{format}` has a `}}` that closes nothing; write `}}}}`"));
                }
                c => text.push(c),
            }
        }
        if let Some(unused) = used.iter().position(|used| !used) {
            return Err(format!("`{format}` does not use array {unused} of {count}"));
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        Ok(Format(pieces))
    }

    pub(super) fn apply(&self, arrays: &[HostArray]) -> String {
        let mut line = String::new();
        for piece in &self.0 {
            // Writing to a string cannot fail.
            let written = match piece {
                Piece::Text(text) => write!(line, "{text}"),
                Piece::Array(at, None) => write!(line, "{}", arrays[*at]),
                Piece::Array(at, Some(digits)) => write!(line, "{:.digits$}", arrays[*at]),
            };
            debug_assert!(written.is_ok());
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(format: &str) -> Result<String, String> {
        let x = HostArray::from_slice(&[1.5f32, 2.25], [2]).unwrap();
        let n = HostArray::from_slice(&[7i32], []).unwrap();
        Ok(Format::parse(format, 2)?.apply(&[x, n]))
    }

    #[test]
    fn formats_follow_rust() {
        assert_eq!(shown("x = {}, n = {}").unwrap(), "x = [1.5  2.25], n = 7");
        assert_eq!(shown("{1} {0:.1} {{}}").unwrap(), "7 [1.5 2.2] {}");
    }

    #[test]
    fn mistakes_are_named() {
        for (format, mistake) in [
            ("{}", "does not use array 1 of 2"),
            ("{} {} {}", "refers to array 2, got 2 arrays"),
            ("{x} {}", "`{x}` is not an array"),
            ("{:>8} {}", "only `:.3` is understood"),
            ("{} {} }", "closes nothing"),
        ] {
            let error = shown(format).unwrap_err();
            assert!(error.contains(mistake), "{error}");
        }
    }
}
