//! Expressions of Rust with their precedence.

use crate::ir::{Dtype, Literal, Number};
use crate::patterns::shortest;

/// The precedence of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Precedence {
    /// A name, a call, a method call, a field.
    Atom,
    Unary,
    Product,
    Sum,
    /// Shifts, bits and everything else.
    Other,
}

/// An expression that owns its value.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) precedence: Precedence,
}

impl Text {
    pub(crate) fn atom(text: impl Into<String>) -> Text {
        Text { text: text.into(), precedence: Precedence::Atom }
    }

    /// The text as a receiver of methods.
    pub(crate) fn receiver(&self) -> String {
        match self.precedence {
            Precedence::Atom => self.text.clone(),
            _ => format!("({})", self.text),
        }
    }

    /// The text as an operand of an operator; `right` is the right side.
    pub(crate) fn operand(&self, of: Precedence, right: bool) -> String {
        let fits = match self.precedence {
            Precedence::Atom | Precedence::Unary => true,
            Precedence::Other => false,
            inner => of != Precedence::Other && (inner < of || (inner == of && !right)),
        };
        if fits { self.text.clone() } else { format!("({})", self.text) }
    }
}

/// A number as Rust writes it.
pub(crate) fn number(literal: &Literal) -> String {
    match literal.value {
        Number::Bool(value) => value.to_string(),
        Number::Int(value) => match literal.dtype {
            Dtype::Int(64) if i32::try_from(value).is_err() => format!("{value}i64"),
            Dtype::Uint(64) if i32::try_from(value).is_err() => format!("{value}u64"),
            Dtype::Uint(bits) if i32::try_from(value).is_err() => format!("{value}u{bits}"),
            _ => value.to_string(),
        },
        Number::Float(value) => float(value, literal.dtype),
        Number::Complex(re, im) => format!(
            "num_complex::Complex32::new({}, {})",
            float(re, Dtype::F32),
            float(im, Dtype::F32)
        ),
    }
}

/// A float with the digits that its dtype needs.
pub(crate) fn float(value: f64, dtype: Dtype) -> String {
    if value.is_nan() {
        return "f64::NAN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "f64::INFINITY".into() } else { "f64::NEG_INFINITY".into() };
    }
    let value = if dtype == Dtype::F64 { value } else { shortest(value) };
    for (known, name) in [
        (std::f64::consts::PI, "std::f64::consts::PI"),
        (std::f64::consts::TAU, "std::f64::consts::TAU"),
        (std::f64::consts::SQRT_2, "std::f64::consts::SQRT_2"),
        (std::f64::consts::LN_2, "std::f64::consts::LN_2"),
        (std::f64::consts::E, "std::f64::consts::E"),
        (std::f64::consts::FRAC_PI_2, "std::f64::consts::FRAC_PI_2"),
        (std::f64::consts::FRAC_1_SQRT_2, "std::f64::consts::FRAC_1_SQRT_2"),
    ] {
        for sign in [1.0, -1.0] {
            let exact = sign * known;
            if value == exact || (dtype != Dtype::F64 && value as f32 == exact as f32) {
                return if sign > 0.0 { name.into() } else { format!("-{name}") };
            }
        }
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e7).contains(&size) {
        format!("{value:e}")
    } else {
        format!("{value:?}")
    }
}

/// `[2, 3]`.
pub(crate) fn list<T: std::fmt::Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    format!("[{}]", items.join(", "))
}
