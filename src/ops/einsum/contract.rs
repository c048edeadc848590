//! Contraction of the operands of an `einsum`, two at a time.

use super::spec::{Label, Spec};
use crate::core::{Array, Aval, DType, RuleError, Shape, promote, trace};
use crate::ops::diagonal_of;
use crate::ops::products::{MatmulOptions, inverse};
use crate::primitives::{
    ArrayList, DotGeneral, convert_element_type, dot_general, reduce_sum, references, reshape,
    resharded, transpose,
};
use std::collections::BTreeMap;

/// Operand or intermediate product: an array with a label for each axis.
#[derive(Clone)]
struct Term {
    array: Array,
    labels: Vec<Label>,
}

/// Returns the Einstein summation of the operands: products over the indices in `spec`, summed over
/// every index that is not in the result.
///
/// - A repeated index within one operand takes a diagonal: `"ii->i"`.
/// - Without `->` the result has the indices that occur once, in alphabetical order.
/// - `...` stands for leading, trailing or middle axes, which broadcast and come first in an
///   implicit result: `"...ij,...jk"`.
/// - An axis of size 1 broadcasts against a larger one of the same index.
///
/// Dtypes are promoted. With more than two operands, the pair that takes the fewest multiplications
/// is contracted first, repeatedly. Throws `Op` (value) for an invalid specification and `Op`
/// (shape) for operands that do not fit it.
///
/// ```
/// use oxidax::prelude::*;
/// let (q, k) = (Aval::new(DType::F32, [2, 8, 4, 16]), Aval::new(DType::F32, [2, 9, 4, 16]));
/// let scores = eval_shape(|q: Array, k: Array| einsum("bthc,bshc->bhts", [&q, &k]), (q, k))?;
/// assert_eq!(scores.aval().to_string(), "f32[2,4,8,9]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn einsum<F>(spec: &str, operands: impl ArrayList<F>) -> Array {
    einsum_all(spec, &references(&operands.into_arrays()), MatmulOptions::default())
}

/// Returns the Einstein summation, as [`einsum`], with another dtype of the sums or another
/// precision.
///
/// Operands are not converted to the preferred dtype before they are multiplied. Throws as
/// [`einsum`], and `Op` (dtype) for a dtype that cannot hold the products.
///
/// ```
/// use oxidax::prelude::*;
/// let (q, k) = (Aval::new(DType::BF16, [8, 4, 16]), Aval::new(DType::BF16, [9, 4, 16]));
/// let wide = MatmulOptions { preferred_element_type: Some(DType::F32), ..Default::default() };
/// let scores = move |q: Array, k: Array| einsum_with("thc,shc->hts", [&q, &k], wide);
/// assert_eq!(eval_shape(scores, (q, k))?.aval().to_string(), "f32[4,8,9]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn einsum_with<F>(
    spec: &str,
    operands: impl ArrayList<F>,
    options: MatmulOptions<'_>,
) -> Array {
    einsum_all(spec, &references(&operands.into_arrays()), options)
}

#[track_caller]
fn einsum_all(spec: &str, operands: &[&Array], options: MatmulOptions<'_>) -> Array {
    let avals: Vec<Aval> = operands.iter().map(|x| x.aval().clone()).collect();
    let parsed = Spec::parse(spec, &avals).and_then(|parsed| Ok((parsed, joint_dtype(&avals)?)));
    let (spec, dtype) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => trace::throw_operands("einsum", error, operands),
    };
    let mut terms = Vec::new();
    for (x, labels) in operands.iter().zip(&spec.inputs) {
        let x = if x.dtype() == dtype { (*x).clone() } else { convert_element_type(x, dtype) };
        terms.push(diagonal(squeezed(x, labels, &spec.sizes)));
    }
    while terms.len() > 1 {
        let (i, j) = cheapest_pair(&terms, &spec.sizes);
        let (second, first) = (terms.remove(j), terms.remove(i));
        let is_needed = |label: &Label| {
            spec.output.contains(label) || terms.iter().any(|term| term.labels.contains(label))
        };
        // The last product has the sharding of the result.
        let output = terms.is_empty().then_some(spec.output.as_slice());
        let product = contract(first, second, &is_needed, options, output);
        terms.push(product);
    }
    match terms.pop() {
        Some(last) => {
            let sum = arrange(last, &spec.output);
            let sum = match options.out_sharding {
                Some(sharding) if sum.aval().sharding != sharding.explicit_part() => {
                    resharded(&sum, sharding)
                }
                _ => sum,
            };
            match options.preferred_element_type {
                Some(dtype) => convert_element_type(&sum, dtype),
                None => sum,
            }
        }
        None => trace::throw_operands("einsum", RuleError::value("takes operands, got none"), &[]),
    }
}

fn joint_dtype(avals: &[Aval]) -> Result<DType, RuleError> {
    let mut joint: Option<(DType, bool)> = None;
    for aval in avals {
        let next = (aval.dtype, aval.weak);
        let Some(known) = joint else {
            joint = Some(next);
            continue;
        };
        joint = Some(promote(known, next).ok_or_else(|| {
            RuleError::dtype(format!("{} and {} have no implicit promotion", known.0, next.0))
                .help("convert one of them with `astype`")
        })?);
    }
    joint.map(|(dtype, _)| dtype).ok_or_else(|| RuleError::value("takes operands, got none"))
}

/// Drops the axes of size 1 that broadcast against another operand.
#[track_caller]
fn squeezed(x: Array, labels: &[Label], sizes: &BTreeMap<Label, usize>) -> Term {
    let stays = |axis: &usize| x.shape()[*axis] == sizes[&labels[*axis]];
    let kept: Vec<usize> = (0..x.rank()).filter(stays).collect();
    if kept.len() == x.rank() {
        return Term { array: x, labels: labels.to_vec() };
    }
    let shape: Shape = kept.iter().map(|&axis| x.shape()[axis]).collect();
    Term { array: reshape(&x, shape), labels: kept.iter().map(|&axis| labels[axis]).collect() }
}

/// Takes diagonals until every index has one axis.
#[track_caller]
fn diagonal(mut term: Term) -> Term {
    let again = |labels: &[Label]| {
        (0..labels.len())
            .find_map(|i| labels[..i].iter().position(|&other| other == labels[i]).map(|j| (j, i)))
    };
    while let Some((first, second)) = again(&term.labels) {
        let label = term.labels.remove(second);
        term.labels.remove(first);
        term.labels.push(label);
        term.array = diagonal_of(&term.array, 0, first, second);
    }
    term
}

/// Returns the pair whose product takes the fewest multiplications.
fn cheapest_pair(terms: &[Term], sizes: &BTreeMap<Label, usize>) -> (usize, usize) {
    let cost = |i: usize, j: usize| -> f64 {
        let rest = terms[j].labels.iter().filter(|label| !terms[i].labels.contains(label));
        terms[i].labels.iter().chain(rest).map(|label| sizes[label] as f64).product()
    };
    let pairs = (0..terms.len()).flat_map(|i| (i + 1..terms.len()).map(move |j| (i, j)));
    pairs
        .min_by(|&(a, b), &(c, d)| cost(a, b).total_cmp(&cost(c, d)))
        .expect("there are two terms at least")
}

/// Sums a term over the indices that are not needed.
#[track_caller]
fn summed(term: Term, wanted: impl Fn(&Label) -> bool) -> Term {
    let gone: Vec<isize> = (0..term.labels.len())
        .filter(|&axis| !wanted(&term.labels[axis]))
        .map(|axis| axis as isize)
        .collect();
    let labels = term.labels.iter().copied().filter(wanted).collect();
    Term { array: reduce_sum(&term.array, &gone), labels }
}

/// Multiplies two terms and sums over the indices that other terms and the result do not have.
/// `output` has the indices of the result, if this is the last product.
#[track_caller]
fn contract(
    lhs: Term,
    rhs: Term,
    wanted: &impl Fn(&Label) -> bool,
    options: MatmulOptions<'_>,
    output: Option<&[Label]>,
) -> Term {
    let (in_lhs, in_rhs) = (lhs.labels.clone(), rhs.labels.clone());
    let lhs = summed(lhs, |label| wanted(label) || in_rhs.contains(label));
    let rhs = summed(rhs, |label| wanted(label) || in_lhs.contains(label));
    let mut how = DotGeneral::default();
    let mut labels = Vec::new();
    for (axis, label) in lhs.labels.iter().enumerate() {
        let Some(other) = rhs.labels.iter().position(|other| other == label) else { continue };
        if wanted(label) {
            how.lhs_batch.push(axis);
            how.rhs_batch.push(other);
            labels.push(*label);
        } else {
            how.lhs_contracting.push(axis);
            how.rhs_contracting.push(other);
        }
    }
    let free = |own: &Term, other: &Term| -> Vec<Label> {
        own.labels.iter().copied().filter(|label| !other.labels.contains(label)).collect()
    };
    labels.extend(free(&lhs, &rhs));
    labels.extend(free(&rhs, &lhs));
    let how = match output {
        Some(output) => options.apply(how, &positions(&labels, output)),
        None => MatmulOptions { out_sharding: None, ..options }.apply(how, &[]),
    };
    Term { array: dot_general(&lhs.array, &rhs.array, how), labels }
}

/// Sums the last term and orders its axes as in the result.
#[track_caller]
fn arrange(term: Term, output: &[Label]) -> Array {
    let term = summed(term, |label| output.contains(label));
    transpose(&term.array, &inverse(&positions(&term.labels, output)))
}

/// Returns the position of each index in the result.
fn positions(labels: &[Label], output: &[Label]) -> Vec<usize> {
    let position = |label: &Label| {
        output.iter().position(|other| other == label).expect("only the result's indices are left")
    };
    labels.iter().map(position).collect()
}
