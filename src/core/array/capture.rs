//! Capturing the arrays that a format string prints.
//!
//! `format_args!` finds the arrays that a format names, as in `println!`. While a format is
//! captured, printing an array writes a marker with a number instead of elements, and the array is
//! recorded under that number.

use crate::core::array::array::Array;
use crate::core::scoped::scoped;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// The characters around the number in a marker. Unicode assigns them no meaning, for use inside
/// programs.
const OPEN: char = '\u{10FFFE}';
const CLOSE: char = '\u{10FFFF}';

/// An array that a format prints, and its precision.
#[derive(Clone)]
pub(crate) struct Captured {
    pub(crate) array: Array,
    pub(crate) precision: Option<usize>,
}

scoped!(
    /// The arrays captured so far; `None` outside of a capture.
    static CAPTURED: Option<Rc<RefCell<Vec<Captured>>>> = None
);

/// A part of a captured line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CapturedPiece {
    /// Text.
    Text(String),
    /// The index of a captured array.
    Array(usize),
}

/// Formats `arguments` and returns the pieces of the line with the arrays in it.
pub(crate) fn capture(arguments: fmt::Arguments<'_>) -> (Vec<CapturedPiece>, Vec<Captured>) {
    let captured = Rc::new(RefCell::new(Vec::new()));
    let line = CAPTURED.scope(Some(captured.clone()), || arguments.to_string());
    let arrays = captured.take();
    (pieces(&line, arrays.len()), arrays)
}

/// Writes a marker for an array and records it. Returns `None` outside of a capture.
pub(super) fn mark(array: &Array, f: &mut fmt::Formatter<'_>) -> Option<fmt::Result> {
    let captured = CAPTURED.get()?;
    let mut captured = captured.borrow_mut();
    captured.push(Captured { array: array.clone(), precision: f.precision() });
    Some(write!(f, "{OPEN}{}{CLOSE}", captured.len() - 1))
}

/// Splits a line at its markers.
fn pieces(line: &str, count: usize) -> Vec<CapturedPiece> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    for (position, part) in line.split(OPEN).enumerate() {
        let marker = part.split_once(CLOSE).filter(|_| position > 0);
        let index = marker.and_then(|(number, _)| number.parse().ok());
        match (index.filter(|&index: &usize| index < count), marker) {
            (Some(index), Some((_, rest))) => {
                if !text.is_empty() {
                    pieces.push(CapturedPiece::Text(std::mem::take(&mut text)));
                }
                pieces.push(CapturedPiece::Array(index));
                text.push_str(rest);
            }
            _ => {
                if position > 0 {
                    text.push(OPEN);
                }
                text.push_str(part);
            }
        }
    }
    if !text.is_empty() {
        pieces.push(CapturedPiece::Text(text));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_at_markers() {
        let text = |text: &str| CapturedPiece::Text(text.into());
        let line = format!("a {OPEN}0{CLOSE}{OPEN}1{CLOSE} b");
        let array = CapturedPiece::Array;
        assert_eq!(pieces(&line, 2), [text("a "), array(0), array(1), text(" b")]);
        // A text may contain the characters themselves.
        let odd = format!("{OPEN}7{CLOSE} {OPEN}x");
        assert_eq!(pieces(&odd, 2), [text(&odd)]);
        assert_eq!(pieces("", 0), []);
    }
}
