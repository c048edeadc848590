//! Functions of one row, or of the core of an array, applied to whole arrays: NumPy's
//! `apply_along_axis` and `vectorize`, by means of `vmap`.

use super::vmap::vmap;
use crate::core::{Array, Loc, RuleError, Shape, trace};
use crate::primitives::rules::{move_axis, resolve_axis};
use crate::primitives::{PaddingDim, broadcast_to, lax_pad, reshape, transpose};

/// Applies `f` to each vector of `x` along `axis`. The axes of its result replace that axis.
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
    let axis = match resolve_axis(axis, x.rank()) {
        Ok(axis) => axis,
        Err(error) => trace::throw_operands("apply_along_axis", error, &[x]),
    };
    let rows = move_axis(x, axis, x.rank() - 1);
    let loop_shape = x.shape().remove(axis);
    let rows = reshape(&rows, [loop_shape.size(), x.shape()[axis]]);
    let results = vmap(|row: Array| f(&row)).apply(&rows);
    let result_rank = results.rank() - 1;
    let mut shape = loop_shape.to_vec();
    shape.extend_from_slice(&results.shape()[1..]);
    let results = reshape(&results, shape);
    // The axes before `axis`, those of the result, those after `axis`.
    let mut order: Vec<usize> = (0..axis).collect();
    order.extend(loop_shape.rank()..loop_shape.rank() + result_rank);
    order.extend(axis..loop_shape.rank());
    transpose(&results, &order)
}

/// Pads `x` with values that a function computes.
///
/// First `x` is padded with zeros. Then each vector of the padded array along axis 0, along axis 1
/// and so on is replaced by the one that `f` returns for it, of the same length. `f` takes the
/// padded vector, the numbers of zeros before and after its elements, and the axis. `pad_width` has
/// these numbers for each axis.
///
/// Throws `Op` (shape) if the number of pairs differs from the rank of `x`.
///
/// ```
/// use oxidax::prelude::*;
/// // Ones around the elements.
/// let ones_around = |row: &Array, (before, after): (usize, usize), _: usize| {
///     let position = arange(row.size() as i32);
///     let is_before = lt(&position, before as i32);
///     where_(is_before | ge(&position, (row.size() - after) as i32), 1.0, row)
/// };
/// let y = pad_by(&array![3f32, 4.0], &[(1, 2)], ones_around);
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0, 4.0, 1.0, 1.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn pad_by(
    x: &Array,
    pad_width: &[(usize, usize)],
    f: impl Fn(&Array, (usize, usize), usize) -> Array,
) -> Array {
    let dims = pad_width.iter();
    let dims: Vec<PaddingDim> = dims
        .map(|&(low, high)| PaddingDim { low: low as isize, high: high as isize, interior: 0 })
        .collect();
    let mut padded = lax_pad(x, 0, &dims);
    for (axis, &width) in pad_width.iter().enumerate() {
        padded = apply_along_axis(|row| f(row, width, axis), &padded, axis as isize);
    }
    padded
}

/// A parsed signature such as `(m,n),(n)->(m)`.
struct Signature {
    /// The names of each operand's core axes.
    operands: Vec<Vec<String>>,
    /// The number of core axes of each result.
    results: Vec<usize>,
}

/// Parses the signature. Returns `None` if it is malformed.
fn parse_signature(signature: &str) -> Option<Signature> {
    let text: String = signature.chars().filter(|c| !c.is_whitespace()).collect();
    let (operands, results) = text.split_once("->")?;
    let results = parse_cores(results)?.iter().map(Vec::len).collect();
    Some(Signature { operands: parse_cores(operands)?, results })
}

/// Parses a list of cores such as `(m,n),(n)`.
fn parse_cores(text: &str) -> Option<Vec<Vec<String>>> {
    let inside = text.strip_prefix('(')?.strip_suffix(')')?;
    let mut cores = Vec::new();
    for core in inside.split("),(") {
        let names: Vec<String> =
            if core.is_empty() { Vec::new() } else { core.split(',').map(str::to_owned).collect() };
        let is_name = |name: &String| {
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_')
        };
        if !names.iter().all(is_name) {
            return None;
        }
        cores.push(names);
    }
    Some(cores)
}

/// Returns the shape that the axes before the core axes of all operands broadcast to.
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
            match sizes.iter().find(|(other, _)| other == name) {
                Some(&(_, other)) if other != size => {
                    return Err(RuleError::shape(format!("axis {name} is {other} and {size}")));
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

/// Returns the loop shape of all operands, and the operands with their loop axes broadcast to it
/// and flattened into one axis.
#[track_caller]
fn flatten_loop_axes(operands: &[&Array], cores: &[Vec<String>]) -> (Shape, Vec<Array>) {
    let joint = match loop_shape(operands, cores) {
        Ok(joint) => joint,
        Err(error) => trace::throw_operands("vectorize", error, operands),
    };
    let mut flat = Vec::with_capacity(operands.len());
    for (x, core) in operands.iter().zip(cores) {
        let core_shape = &x.shape()[x.rank() - core.len()..];
        let broadcast: Vec<usize> = joint.iter().chain(core_shape).copied().collect();
        let rows: Vec<usize> = [joint.size()].iter().chain(core_shape).copied().collect();
        flat.push(reshape(&broadcast_to(x, broadcast), rows));
    }
    (joint, flat)
}

/// Returns a function that applies `f` to arrays with additional leading axes.
///
/// `f` takes arrays with the core axes named in `signature`. The leading axes of the operands
/// broadcast. The signature is NumPy's: `"(m,n),(n)->(m)"`. Without one, `None`, `f` is a function
/// of scalars, any number of them, to scalars.
///
/// Throws `Op` (value) for a malformed signature. The returned function throws `Op` (value) if the
/// number of operands or results differs from the signature, and `Op` (shape) if sizes differ.
///
/// ```
/// use oxidax::prelude::*;
/// let product = vectorize("(m,n),(n)->(m)", |xs| vec![matmul(&xs[0], &xs[1])]);
/// let (a, x) = (Aval::new(DType::F32, [8, 1, 2, 3]), Aval::new(DType::F32, [5, 3]));
/// let y = eval_shape(|a: Array, x: Array| product(&[&a, &x]).swap_remove(0), (a, x))?;
/// assert_eq!(y.aval().to_string(), "f32[8,5,2]");
/// let larger = vectorize(None, |xs| vec![select(&gt(&xs[0], &xs[1]), &xs[0], &xs[1])]);
/// let y = larger(&[&array![[1.0], [4.0]], &array![2.0, 3.0]]).swap_remove(0);
/// assert_eq!(y.to_vec::<f32>()?, [2.0, 3.0, 4.0, 4.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn vectorize<'a>(
    signature: impl Into<Option<&'a str>>,
    f: impl Fn(&[Array]) -> Vec<Array>,
) -> impl Fn(&[&Array]) -> Vec<Array> {
    let mut parsed = None;
    if let Some(signature) = signature.into() {
        parsed = parse_signature(signature);
        if parsed.is_none() {
            let message = format!("cannot read the signature `{signature}`");
            let error = RuleError::value(message).help("write it as in \"(m,n),(n)->(m)\"");
            trace::throw_operands("vectorize", error, &[]);
        }
    }
    // A closure has no caller location, so its operations carry the location of this call.
    let loc = Loc::caller();
    move |operands: &[&Array]| {
        let of_scalars = vec![Vec::new(); operands.len()];
        let cores = parsed.as_ref().map_or(&of_scalars, |signature| &signature.operands);
        let (joint, flat) = loc.scope(|| flatten_loop_axes(operands, cores));
        let outputs = vmap(|xs: Vec<Array>| f(&xs)).apply(&flat);
        let ranks: Vec<usize> = outputs.iter().map(|y| y.rank() - 1).collect();
        let problem = match &parsed {
            Some(Signature { results, .. }) if ranks != *results => {
                Some(format!("the signature says {results:?}"))
            }
            None if ranks.iter().any(|&rank| rank > 0) => {
                Some("without a signature they must be scalars".to_owned())
            }
            _ => None,
        };
        if let Some(problem) = problem {
            let message = format!("results have {ranks:?} axes, {problem}");
            loc.scope(|| {
                trace::throw_operands("vectorize", RuleError::value(message), operands);
            });
        }
        let unflatten = |y: &Array| {
            let shape: Vec<usize> = joint.iter().chain(&y.shape()[1..]).copied().collect();
            reshape(y, shape)
        };
        loc.scope(|| outputs.iter().map(unflatten).collect())
    }
}
