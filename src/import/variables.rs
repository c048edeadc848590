//! Dimension variables: their values from the shapes of arguments.

use oxidax_jax_export::{Dimension, Expression};
use std::collections::BTreeMap;

/// The values of dimension variables.
pub(super) type Values = BTreeMap<String, u64>;

/// Returns the values that give these dimensions these sizes, or the problem. Each dimension comes
/// with the place in the arguments.
pub(super) fn solve(dimensions: &[(String, &Dimension, usize)]) -> Result<Values, String> {
    let mut values = Values::new();
    // Each round solves the dimensions with one unknown variable.
    loop {
        let before = values.len();
        for (place, dimension, size) in dimensions {
            let Dimension::Symbolic(expression) = dimension else { continue };
            let mut unknown = Vec::new();
            expression.for_each_variable(&mut |name| {
                if !values.contains_key(name) && !unknown.iter().any(|other| other == name) {
                    unknown.push(name.to_owned());
                }
            });
            if let [variable] = &unknown[..] {
                if let Some(value) = value_of(expression, variable, &values, *size) {
                    values.insert(variable.clone(), value);
                } else {
                    let message =
                        format!("{place}: no size `{variable}` gives {dimension} = {size}");
                    return Err(message);
                }
            }
        }
        if values.len() == before {
            break;
        }
    }
    for (place, dimension, size) in dimensions {
        match dimension.size(&values) {
            Some(expected) if expected == *size as u64 => {}
            Some(expected) => {
                let values = shown(&values);
                return Err(format!(
                    "{place} has size {size}, and {dimension} is {expected}{values}"
                ));
            }
            None => {
                return Err(format!(
                    "{place}: the dimension {dimension} cannot be solved for {size}"
                ));
            }
        }
    }
    Ok(values)
}

fn shown(values: &Values) -> String {
    let each: Vec<String> =
        values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    if each.is_empty() { String::new() } else { format!(" for {}", each.join(", ")) }
}

/// Returns the value of a variable for which an expression, which is linear in it or grows with it,
/// has a size.
fn value_of(expression: &Expression, variable: &str, values: &Values, size: usize) -> Option<u64> {
    let target = i64::try_from(size).ok()?;
    if let Expression::Variable(_) = expression {
        return u64::try_from(size).ok();
    }
    let mut values = values.clone();
    let mut at = |value: u64| {
        values.insert(variable.to_owned(), value);
        expression.value(&values)
    };
    // A linear expression has one solution, which two of its values give.
    let (first, second) = (at(1)?, at(2)?);
    let slope = second.checked_sub(first)?;
    if slope != 0 {
        let steps = target.checked_sub(first)?;
        if steps % slope == 0 {
            let value = u64::try_from((steps / slope).checked_add(1)?).ok();
            if let Some(value) = value.filter(|value| at(*value) == Some(target)) {
                return Some(value);
            }
        }
    }
    // Other expressions, such as powers and quotients, grow with it: the smallest solution.
    let (mut low, mut high) = (0_u64, (size as u64).saturating_mul(64).saturating_add(64));
    while low < high {
        let middle = low + (high - low) / 2;
        match at(middle) {
            Some(value) if value < target => low = middle + 1,
            _ => high = middle,
        }
    }
    (at(low) == Some(target)).then_some(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str) -> Box<Expression> {
        Box::new(Expression::Variable(name.into()))
    }

    fn number(value: i64) -> Box<Expression> {
        Box::new(Expression::Number(value))
    }

    fn of(dimensions: &[(&str, Expression, usize)]) -> Result<Values, String> {
        let dimensions: Vec<_> = dimensions
            .iter()
            .map(|(place, dimension, size)| {
                (place.to_string(), Dimension::Symbolic(dimension.clone()), *size)
            })
            .collect();
        let dimensions =
            dimensions.iter().map(|(place, dimension, size)| (place.clone(), dimension, *size));
        solve(&dimensions.collect::<Vec<_>>())
    }

    #[test]
    fn variables_are_solved_from_sizes() {
        let twice =
            Expression::Add(Box::new(Expression::Multiply(number(2), variable("b"))), number(3));
        let sum = Expression::Add(variable("b"), variable("n"));
        let values = of(&[("x[0]", sum, 12), ("x[1]", twice, 13)]).unwrap();
        assert_eq!(values, [("b".to_owned(), 5), ("n".to_owned(), 7)].into());
        let square = Expression::Power(variable("b"), 2);
        assert_eq!(of(&[("x[0]", square.clone(), 49)]).unwrap()["b"], 7);
        let error = of(&[("x[0]", square, 50)]).unwrap_err();
        assert_eq!(error, "x[0]: no size `b` gives b^2 = 50");
    }

    #[test]
    fn equal_variables_have_equal_sizes() {
        let b = || *variable("b");
        let error = of(&[("x[0]", b(), 4), ("y[0]", b(), 5)]).unwrap_err();
        assert_eq!(error, "y[0] has size 5, and b is 4 for b = 4");
    }
}
