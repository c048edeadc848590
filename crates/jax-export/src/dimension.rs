//! [`Dimension`]: a size that is known, or an expression of dimension variables.

use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::fmt;

/// A size of an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// A known size.
    Known(u64),
    /// An expression of dimension variables, such as `2*b + 1`.
    Symbolic(Expression),
}

/// An expression of dimension variables, as
/// [`jax.export.symbolic_shape`](https://docs.jax.dev/en/latest/export/shape_poly.html) writes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Expression {
    /// A number.
    Number(i64),
    /// A dimension variable.
    Variable(String),
    /// A sum.
    Add(Box<Expression>, Box<Expression>),
    /// A difference.
    Subtract(Box<Expression>, Box<Expression>),
    /// A product.
    Multiply(Box<Expression>, Box<Expression>),
    /// A power with a constant exponent.
    Power(Box<Expression>, u32),
    /// The quotient, rounded down.
    FloorDivide(Box<Expression>, Box<Expression>),
    /// The remainder, with the sign of the divisor.
    Modulo(Box<Expression>, Box<Expression>),
    /// The larger of two.
    Maximum(Box<Expression>, Box<Expression>),
    /// The smaller of two.
    Minimum(Box<Expression>, Box<Expression>),
}

/// Nesting at which an expression is refused.
const MAX_DEPTH: usize = 64;

impl Dimension {
    /// Parses a dimension at a position of the file.
    pub(crate) fn parse(text: &str, at: usize) -> Result<Dimension> {
        let fail = |message: &str| Error::at(at, format!("the dimension `{text}`: {message}"));
        let mut parser = Parser { rest: text.trim_start(), depth: 0 };
        let expression = parser.sum().map_err(fail)?;
        if !parser.rest.is_empty() {
            return Err(fail(&format!("unexpected `{}`", parser.rest)));
        }
        match expression {
            Expression::Number(size) => {
                let size = u64::try_from(size).map_err(|_| fail("it is negative"))?;
                Ok(Dimension::Known(size))
            }
            expression => Ok(Dimension::Symbolic(expression)),
        }
    }

    /// Returns the size for these values of the dimension variables; `None` if one is missing, or
    /// the size is negative or too large.
    ///
    /// ```
    /// use oxidax_jax_export::{Dimension, Expression};
    /// let b = || Box::new(Expression::Variable("b".into()));
    /// let twice = Dimension::Symbolic(Expression::Add(b(), b()));
    /// assert_eq!(twice.size(&[("b".to_owned(), 4)].into()), Some(8));
    /// assert_eq!(twice.size(&[].into()), None);
    /// ```
    pub fn size(&self, variables: &BTreeMap<String, u64>) -> Option<u64> {
        match self {
            Dimension::Known(size) => Some(*size),
            Dimension::Symbolic(expression) => u64::try_from(expression.value(variables)?).ok(),
        }
    }
}

impl Expression {
    /// Returns the value; `None` if a variable is missing, a divisor is 0, or a number is too
    /// large.
    pub fn value(&self, variables: &BTreeMap<String, u64>) -> Option<i64> {
        use Expression::{
            Add, FloorDivide, Maximum, Minimum, Modulo, Multiply, Number, Power, Subtract, Variable,
        };
        let both = |a: &Expression, b: &Expression| a.value(variables).zip(b.value(variables));
        match self {
            Number(number) => Some(*number),
            Variable(name) => i64::try_from(*variables.get(name)?).ok(),
            Add(a, b) => both(a, b).and_then(|(a, b)| a.checked_add(b)),
            Subtract(a, b) => both(a, b).and_then(|(a, b)| a.checked_sub(b)),
            Multiply(a, b) => both(a, b).and_then(|(a, b)| a.checked_mul(b)),
            Power(a, exponent) => a.value(variables)?.checked_pow(*exponent),
            FloorDivide(a, b) => {
                let (a, b) = both(a, b)?;
                let (quotient, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
                Some(if rest != 0 && (rest < 0) != (b < 0) { quotient - 1 } else { quotient })
            }
            Modulo(a, b) => {
                let (a, b) = both(a, b)?;
                let rest = a.checked_rem(b)?;
                Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
            }
            Maximum(a, b) => both(a, b).map(|(a, b)| a.max(b)),
            Minimum(a, b) => both(a, b).map(|(a, b)| a.min(b)),
        }
    }

    /// Calls `f` with each variable.
    pub fn for_each_variable(&self, f: &mut impl FnMut(&str)) {
        use Expression::{
            Add, FloorDivide, Maximum, Minimum, Modulo, Multiply, Number, Power, Subtract, Variable,
        };
        match self {
            Number(_) => {}
            Variable(name) => f(name),
            Power(a, _) => a.for_each_variable(f),
            Add(a, b)
            | Subtract(a, b)
            | Multiply(a, b)
            | FloorDivide(a, b)
            | Modulo(a, b)
            | Maximum(a, b)
            | Minimum(a, b) => {
                a.for_each_variable(f);
                b.for_each_variable(f);
            }
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dimension::Known(size) => size.fmt(f),
            Dimension::Symbolic(expression) => expression.fmt(f),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Expression::{
            Add, FloorDivide, Maximum, Minimum, Modulo, Multiply, Number, Power, Subtract, Variable,
        };
        /// Writes a factor, in parentheses if it is a sum.
        fn factor(part: &Expression, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match part {
                Add(..) | Subtract(..) => write!(f, "({part})"),
                _ => write!(f, "{part}"),
            }
        }
        match self {
            Number(number) => write!(f, "{number}"),
            Variable(name) => f.write_str(name),
            Add(a, b) => write!(f, "{a} + {b}"),
            Subtract(a, b) => {
                write!(f, "{a} - ")?;
                factor(b, f)
            }
            Multiply(a, b) => {
                factor(a, f)?;
                f.write_str("*")?;
                factor(b, f)
            }
            Power(a, exponent) => {
                factor(a, f)?;
                write!(f, "^{exponent}")
            }
            FloorDivide(a, b) => write!(f, "floordiv({a}, {b})"),
            Modulo(a, b) => write!(f, "mod({a}, {b})"),
            Maximum(a, b) => write!(f, "max({a}, {b})"),
            Minimum(a, b) => write!(f, "min({a}, {b})"),
        }
    }
}

/// Parses an expression by recursive descent.
struct Parser<'t> {
    rest: &'t str,
    depth: usize,
}

type Parsed = std::result::Result<Expression, &'static str>;

impl Parser<'_> {
    /// Skips a token, and the spaces after it.
    fn skip(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    /// Takes the longest beginning of such characters, and the spaces after it.
    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &str {
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        taken
    }

    fn sum(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("it is nested too deep");
        }
        let mut sum = self.product()?;
        let mut terms = 0;
        loop {
            sum = if self.skip("+") {
                Expression::Add(Box::new(sum), Box::new(self.product()?))
            } else if self.skip("-") {
                Expression::Subtract(Box::new(sum), Box::new(self.product()?))
            } else {
                self.depth -= 1;
                return Ok(sum);
            };
            terms += 1;
            if terms > MAX_DEPTH {
                return Err("it has too many terms");
            }
        }
    }

    fn product(&mut self) -> Parsed {
        let mut product = self.factor()?;
        let mut factors = 0;
        while self.skip("*") {
            product = Expression::Multiply(Box::new(product), Box::new(self.factor()?));
            factors += 1;
            if factors > MAX_DEPTH {
                return Err("it has too many factors");
            }
        }
        Ok(product)
    }

    fn factor(&mut self) -> Parsed {
        let mut is_negative = false;
        while self.skip("-") {
            is_negative = !is_negative;
        }
        let mut factor = self.atom()?;
        if self.skip("^") {
            let exponent = self.take(|c| c.is_ascii_digit()).parse();
            let exponent = exponent.map_err(|_| "an exponent is not a small number")?;
            factor = Expression::Power(Box::new(factor), exponent);
        }
        Ok(match factor {
            factor if !is_negative => factor,
            Expression::Number(number) => Expression::Number(-number),
            factor => Expression::Multiply(Box::new(Expression::Number(-1)), Box::new(factor)),
        })
    }

    fn atom(&mut self) -> Parsed {
        if self.skip("(") {
            let inner = self.sum()?;
            return if self.skip(")") { Ok(inner) } else { Err("a parenthesis is not closed") };
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            let number = self.take(|c| c.is_ascii_digit()).parse();
            return number.map(Expression::Number).map_err(|_| "a number is too large");
        }
        let name = self.take(|c| c.is_alphanumeric() || c == '_').to_owned();
        if name.is_empty() {
            return Err("a number or a name is missing");
        }
        if !self.skip("(") {
            return Ok(Expression::Variable(name));
        }
        let make = match name.as_str() {
            "floordiv" => Expression::FloorDivide,
            "mod" => Expression::Modulo,
            "max" => Expression::Maximum,
            "min" => Expression::Minimum,
            _ => return Err("its functions are floordiv, mod, max and min"),
        };
        let first = self.sum()?;
        if !self.skip(",") {
            return Err("a function has two operands");
        }
        let second = self.sum()?;
        match self.skip(")") {
            true => Ok(make(Box::new(first), Box::new(second))),
            false => Err("a parenthesis is not closed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_have_the_values_of_jax() {
        let variables = [("b".to_owned(), 7), ("seq_len".to_owned(), 3)].into();
        let cases = [
            ("5", Some(5)),
            ("b", Some(7)),
            ("2*b + 1", Some(15)),
            ("b - 3", Some(4)),
            ("-1*b + 10", Some(3)),
            ("- b + 10", Some(3)),
            ("b^2", Some(49)),
            ("b*seq_len^2", Some(63)),
            ("floordiv(b, 2)", Some(3)),
            ("floordiv(-1*b + 10, -2)", None),
            ("mod(b, seq_len) + 1", Some(2)),
            ("mod(-1*b, 4)", Some(1)),
            ("max(b, 9) - min(2, b)", Some(7)),
            ("2*(b + seq_len)", Some(20)),
            ("floordiv(b, 0)", None),
            ("b - 8", None),
            ("other", None),
            ("9000000000000*b^9", None),
        ];
        for (text, expected) in cases {
            let dimension = Dimension::parse(text, 0).expect(text);
            assert_eq!(dimension.size(&variables), expected, "{text}");
            // The text of an expression means the same.
            let again = Dimension::parse(&dimension.to_string(), 0).expect(text);
            assert_eq!(again.size(&variables), expected, "{text} is printed as {dimension}");
        }
    }

    #[test]
    fn other_text_is_an_error() {
        for text in
            ["", "b +", "2b", "f(b)", "floordiv(b)", "(b", "-3", "b^c", "99999999999999999999"]
        {
            let error = Dimension::parse(text, 12).expect_err(text).to_string();
            assert!(error.contains(&format!("byte 12: the dimension `{text}`")), "{error}");
        }
        let deep = "(".repeat(10_000);
        assert!(Dimension::parse(&deep, 0).is_err());
        assert!(Dimension::parse(&"-".repeat(100_000), 0).is_err());
        assert!(Dimension::parse(&format!("b{}", " + b".repeat(100_000)), 0).is_err());
    }
}
