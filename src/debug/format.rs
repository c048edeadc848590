//! Format strings for arrays.

use crate::core::HostArray;
use crate::core::capture::{Captured, CapturedPiece};
use std::fmt::Write as _;

/// A part of a format string.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Text(String),
    /// An array, and the number of digits after the decimal point.
    Array(usize, Option<usize>),
}

/// A parsed format string: `{}` is the next array, `{1}` the second, `{loss}` the one with this
/// name. `{:.3}`, `{0:.3}` and `{loss:.3}` set the digits after the decimal point. `{{` and `}}`
/// are braces.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Format(Vec<Piece>);

impl Format {
    /// Returns the format of a captured line.
    pub(super) fn captured(pieces: Vec<CapturedPiece>, arrays: &[Captured]) -> Format {
        let convert = |piece| match piece {
            CapturedPiece::Text(text) => Piece::Text(text),
            CapturedPiece::Array(at) => Piece::Array(at, arrays[at].precision),
        };
        Format(pieces.into_iter().map(convert).collect())
    }

    /// Parses a format string for as many arrays as there are `names`; empty names are those of
    /// arrays without one.
    ///
    /// # Errors
    /// A description of the mistake.
    pub(super) fn parse(format: &str, names: &[String]) -> Result<Format, String> {
        let count = names.len();
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
                        name => match names.iter().position(|known| known == name) {
                            Some(at) => at,
                            None => name.parse().map_err(|_| unknown_name(name, names))?,
                        },
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

/// Describes a placeholder whose name no array has.
fn unknown_name(name: &str, names: &[String]) -> String {
    let known: Vec<&str> =
        names.iter().map(String::as_str).filter(|known| !known.is_empty()).collect();
    if known.is_empty() {
        return format!(
            "`{{{name}}}` is not an array: write `{{}}` or `{{0}}`, or name it: `[(\"{name}\", \
             &{name})]`"
        );
    }
    format!("no array is called `{name}`; there are {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(format: &str) -> Result<String, String> {
        let x = HostArray::from_slice(&[1.5f32, 2.25], [2]).unwrap();
        let n = HostArray::from_slice(&[7i32], []).unwrap();
        let names = ["", "count"].map(String::from);
        Ok(Format::parse(format, &names)?.apply(&[x, n]))
    }

    #[test]
    fn fields_are_found_by_name() {
        assert_eq!(shown("{count} of {:.1}").unwrap(), "7 of [1.5 2.2]");
        assert_eq!(shown("{0:.2}{count:.3}").unwrap(), "[1.50 2.25]7");
        let error = shown("{} {cuont}").unwrap_err();
        assert_eq!(error, "no array is called `cuont`; there are count");
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
            ("{:>8} {}", "only `:.3` is understood"),
            ("{} {} }", "closes nothing"),
        ] {
            let error = shown(format).unwrap_err();
            assert!(error.contains(mistake), "{error}");
        }
    }

    #[test]
    fn names_are_suggested_where_there_are_none() {
        let error = Format::parse("{loss:.3}", &[String::new()]).unwrap_err();
        assert!(error.contains("`{loss}` is not an array"), "{error}");
        assert!(error.contains("[(\"loss\", &loss)]"), "{error}");
    }
}
