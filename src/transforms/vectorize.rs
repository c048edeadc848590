//! Functions of one row, or of the core of an array, applied to whole arrays: `vmap` in the clothes of
//! NumPy.

use super::vmap::vmap;
use crate::core::{Array, RuleError, Shape, trace};
use crate::primitives::rules::{move_axis, resolve_axis};
use crate::primitives::{broadcast_to, reshape, transpose};
use std::panic::Location;

/// What `f` makes of each vector of `x` along `axis`: the axes of its result stand in the place of that
/// axis.
///
/// Throws `Op` (shape) for an axis out of range.
///
/// ```
/// use oxidax::prelude::*;
/// let outer = |row: &Array| outer(row, row);
/// let y = eval_shape(|x: Array| apply_along_axis(outer, &x, 0), Aval::new(DType::F32, [3, 5]))?;
/// assert_eq!(y.aval().to_string(), "f32[3,3,5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn apply_along_axis(f: impl Fn(&Array) -> Array, x: &Array, axis: isize) -> Array {
    let at = match resolve_axis(axis, x.rank()) {
        Ok(at) => at,
        Err(error) => trace::throw_operands("apply_along_axis", error, &[x]),
    };
    let rows = move_axis(x, at, x.rank() - 1);
    let around = x.shape().remove(at);
    let rows = reshape(&rows, [around.size(), x.shape()[at]]);
    let made = vmap(|row: Array| f(&row)).apply(&rows);
    let inner = made.rank() - 1;
    let mut shape = around.to_vec();
    shape.extend_from_slice(&made.shape()[1..]);
    let made = reshape(&made, shape);
    // The axes in front of the place, those of the result, those behind.
    let mut order: Vec<usize> = (0..at).collect();
    order.extend(around.rank()..around.rank() + inner);
    order.extend(at..around.rank());
    transpose(&made, &order)
}

/// The core axes of a signature such as `(m,n),(n)->(m)`: names for each operand, and how many each
/// result has.
fn cores(signature: &str) -> Option<(Vec<Vec<String>>, Vec<usize>)> {
    let text: String = signature.chars().filter(|c| !c.is_whitespace()).collect();
    let (operands, results) = text.split_once("->")?;
    let groups = |side: &str| -> Option<Vec<Vec<String>>> {
        let inside = side.strip_prefix('(')?.strip_suffix(')')?;
        let group = |group: &str| match group.is_empty() {
            true => Vec::new(),
            false => group.split(',').map(str::to_owned).collect(),
        };
        let all: Vec<Vec<String>> = inside.split("),(").map(group).collect();
        let named = |name: &String| {
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
        };
        all.iter().flatten().all(named).then_some(all)
    };
    Some((groups(operands)?, groups(results)?.iter().map(Vec::len).collect()))
}

/// The shape in front of the core axes that all operands broadcast to.
fn loop_shape(operands: &[&Array], cores: &[Vec<String>]) -> Result<Shape, RuleError> {
    if operands.len() != cores.len() {
        return Err(RuleError::value(format!(
            "the signature names {} operands, got {}",
            cores.len(),
            operands.len()
        )));
    }
    let mut sizes: Vec<(&str, usize)> = Vec::new();
    let mut joint = Shape::scalar();
    for (x, core) in operands.iter().zip(cores) {
        let Some(split) = x.rank().checked_sub(core.len()) else {
            return Err(RuleError::shape(format!(
                "{} has fewer axes than its core ({})",
                x.shape(),
                core.join(",")
            )));
        };
        for (name, &size) in core.iter().zip(&x.shape()[split..]) {
            match sizes.iter().find(|(known, _)| known == name) {
                Some(&(_, known)) if known != size => {
                    return Err(RuleError::shape(format!("axis {name} is {known} and {size}")));
                }
                Some(_) => {}
                None => sizes.push((name, size)),
            }
        }
        let own = Shape::new(&x.shape()[..split]);
        joint = joint.broadcast(&own).ok_or_else(|| {
            RuleError::shape(format!("loop axes {joint} and {own} do not broadcast"))
        })?;
    }
    Ok(joint)
}

/// The loop axes of all operands, and the operands with those broadcast and flattened into one.
#[track_caller]
fn rows(operands: &[&Array], cores: &[Vec<String>]) -> (Shape, Vec<Array>) {
    let joint = match loop_shape(operands, cores) {
        Ok(joint) => joint,
        Err(error) => trace::throw_operands("vectorize", error, operands),
    };
    let flat = operands.iter().zip(cores).map(|(x, core)| {
        let own = &x.shape()[x.rank() - core.len()..];
        let whole: Vec<usize> = joint.iter().chain(own).copied().collect();
        let rows: Vec<usize> = [joint.size()].iter().chain(own).copied().collect();
        reshape(&broadcast_to(x, whole), rows)
    });
    let flat = flat.collect();
    (joint, flat)
}

/// The function that applies `f`, which takes arrays with the core axes that `signature` names, to
/// arrays with any axes in front; those broadcast. The signature is NumPy's: `"(m,n),(n)->(m)"`, `"(),()->()"`
/// for functions of scalars.
///
/// The result throws `Op` (value) if there are not as many operands or results as in the signature, and
/// `Op` (shape) if they do not fit it. Throws `Op` (value) for a signature that cannot be read.
///
/// ```
/// use oxidax::prelude::*;
/// let product = vectorize("(m,n),(n)->(m)", |xs| vec![matmul(&xs[0], &xs[1])]);
/// let (a, x) = (Aval::new(DType::F32, [8, 1, 2, 3]), Aval::new(DType::F32, [5, 3]));
/// let y = eval_shape(|a: Array, x: Array| product(&[&a, &x]).swap_remove(0), (a, x))?;
/// assert_eq!(y.aval().to_string(), "f32[8,5,2]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn vectorize(
    signature: &str,
    f: impl Fn(&[Array]) -> Vec<Array>,
) -> impl Fn(&[&Array]) -> Vec<Array> {
    let Some((cores, results)) = cores(signature) else {
        let message = format!("cannot read the signature `{signature}`");
        let error = RuleError::value(message).help("write it as in \"(m,n),(n)->(m)\"");
        trace::throw_operands("vectorize", error, &[]);
    };
    // A closure has no caller to name, so its operations carry the line that made it.
    let location = Some(Location::caller());
    move |operands: &[&Array]| {
        let (joint, flat) = trace::at_location(location, || rows(operands, &cores));
        let made = vmap(|xs: Vec<Array>| f(&xs)).apply(&flat);
        let ranks: Vec<usize> = made.iter().map(|y| y.rank() - 1).collect();
        if ranks != results {
            let message = format!("results have {ranks:?} axes, the signature says {results:?}");
            trace::throw_operands("vectorize", RuleError::value(message), operands);
        }
        let unfolded = made.iter().map(|y| {
            let shape: Vec<usize> = joint.iter().chain(&y.shape()[1..]).copied().collect();
            reshape(y, shape)
        });
        trace::at_location(location, || unfolded.collect())
    }
}
