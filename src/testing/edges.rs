//! Laws of elementwise primitives on empty arrays, scalars and axes of size one.

use super::laws::{Laws, examine_all};
use super::subject::Subject;
use crate::core::{Aval, Exemplar, RegistryEntry, Sample, Shape};

/// Shapes with no elements, no axes, and axes of size one.
const SHAPES: [&[usize]; 3] = [&[0, 2], &[], &[1, 3, 1]];

/// Returns true if every result has the shape of the operands, for every shape.
///
/// ```
/// use oxidax::primitives::PRIMITIVES;
/// let exemplars_of = |name: &str| {
///     let entry = PRIMITIVES.iter().find(|entry| entry.name == name).expect("it is listed");
///     (entry.exemplars)()
/// };
/// assert!(exemplars_of("add").iter().any(oxidax::testing::is_elementwise));
/// assert!(!exemplars_of("sort").iter().any(oxidax::testing::is_elementwise));
/// ```
pub fn is_elementwise(exemplar: &Exemplar) -> bool {
    SHAPES.iter().all(|shape| in_shape(exemplar, shape).is_some())
}

/// Returns the exemplar's operands in another shape; `None` if the primitive rejects them or its
/// results have yet another shape.
fn in_shape(exemplar: &Exemplar, shape: &[usize]) -> Option<Vec<Sample>> {
    let first = &exemplar.operands.first()?.aval.shape;
    if exemplar.operands.iter().any(|one| one.aval.shape != *first) {
        return None;
    }
    let samples: Vec<Sample> = exemplar
        .operands
        .iter()
        .map(|one| Sample { aval: one.aval.with_shape(Shape::from(shape)), ..one.clone() })
        .collect();
    let avals: Vec<Aval> = samples.iter().map(|one| one.aval.clone()).collect();
    let results = exemplar.primitive.abstract_eval(&avals).ok()?;
    results.iter().all(|aval| aval.shape.dims() == shape).then_some(samples)
}

/// Checks the laws of every exemplar on an elementwise primitive in all of these shapes.
pub(super) fn check(entry: &RegistryEntry, exemplars: &[Exemplar], laws: &Laws) -> Vec<String> {
    let Some(exemplar) = exemplars.iter().find(|exemplar| is_elementwise(exemplar)) else {
        return Vec::new();
    };
    let subjects: Vec<(String, Subject)> = SHAPES
        .iter()
        .filter_map(|shape| {
            let subject = Subject::new(entry, exemplar, &in_shape(exemplar, shape)?).ok()?;
            Some((format!("{} in shape {shape:?}", entry.name), subject))
        })
        .collect();
    let laws = [laws];
    examine_all(subjects.iter().map(|(label, subject)| (label.as_str(), subject, &laws[..])))
}
