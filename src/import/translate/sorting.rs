//! Sorting: the order that a region of comparisons describes.

use super::{Operands, Scope, Traced, Translated, Translator};
use crate::core::{Array, bind};
use crate::primitives::{Rev, Sort, bitwise_not, neg};
use oxidax_vhlo::VhloBlock;
use rustc_hash::FxHashMap;

/// A value of a region that compares two elements.
#[derive(Clone, Debug, PartialEq)]
enum Compared {
    /// The element of an operand: its index, and true for the second of both elements. Canonical
    /// forms of floats, with one zero and one NaN, count as the element.
    Element(usize, bool),
    /// A constant.
    Constant,
    /// A property of one element.
    Property(usize, bool),
    /// Both elements of an operand are equal.
    Equal(usize),
    /// The elements are in order by these operands, each in descending order if true.
    Ordered(Vec<(usize, bool)>),
    /// The elements of an operand are equal, and they are in order by others.
    EqualThen(usize, Vec<(usize, bool)>),
}

/// Returns true if elements are in order by one operand alone.
fn is_by(keys: &[(usize, bool)], operand: usize) -> bool {
    matches!(keys, [(only, _)] if *only == operand)
}

impl<'m> Translator<'m> {
    /// Returns the operands by which a region orders elements, most important first.
    fn keys(&self, block: VhloBlock<'m>) -> Translated<Option<Vec<(usize, bool)>>> {
        let mut values: FxHashMap<usize, Compared> = FxHashMap::default();
        for (position, (id, _)) in self.vhlo(block.arguments())?.into_iter().enumerate() {
            values.insert(id, Compared::Element(position / 2, position % 2 == 1));
        }
        for operation in block.operations() {
            // Values from outside of the region are constants.
            let operands = operation.operands().iter();
            let operands: Vec<Compared> =
                operands.map(|id| values.get(id).cloned().unwrap_or(Compared::Constant)).collect();
            use Compared::{Constant, Element, Equal, EqualThen, Ordered, Property};
            let direction = operation.text("comparison_direction");
            let value = match (operation.name(), &operands[..]) {
                ("return", [Ordered(keys)]) => return Ok(Some(keys.clone())),
                ("constant", []) => Constant,
                ("convert" | "reshape" | "broadcast_in_dim", [value]) => value.clone(),
                ("compare", [Element(a, first), Element(b, second)]) if a == b => {
                    match (first == second, direction) {
                        (true, _) => Property(*a, *first),
                        (false, Some("EQ")) => Equal(*a),
                        (false, Some("LT" | "LE")) => Ordered(vec![(*a, *first)]),
                        (false, Some("GT" | "GE")) => Ordered(vec![(*a, !*first)]),
                        _ => return Ok(None),
                    }
                }
                ("compare", [Element(a, side), Constant] | [Constant, Element(a, side)]) => {
                    Property(*a, *side)
                }
                ("select", [Property(a, side), x, y]) => {
                    let own = Element(*a, *side);
                    match (x == &own || x == &Constant) && (y == &own || y == &Constant) {
                        true => own,
                        false => return Ok(None),
                    }
                }
                ("and", [Equal(a), Ordered(keys)] | [Ordered(keys), Equal(a)]) => {
                    EqualThen(*a, keys.clone())
                }
                (
                    "or",
                    [Ordered(first), EqualThen(a, rest)] | [EqualThen(a, rest), Ordered(first)],
                ) if is_by(first, *a) => Ordered(first.iter().chain(rest).copied().collect()),
                ("select", [Equal(a), Ordered(rest), Ordered(first)]) if is_by(first, *a) => {
                    Ordered(first.iter().chain(rest).copied().collect())
                }
                _ => return Ok(None),
            };
            for id in operation.results() {
                values.insert(id, value.clone());
            }
        }
        Ok(None)
    }

    pub(super) fn sort(&self, operands: &Operands<'m>, _: &Scope<'_>) -> Translated<Vec<Traced>> {
        let arrays = self.arrays(operands)?;
        let rank = arrays.first().map_or(0, Array::rank);
        let dimension = match self.vhlo(operands.operation.numbers("dimension"))?[..] {
            [axis] if axis < 0 => (axis + rank as i64) as usize,
            [axis] => axis as usize,
            _ => rank.saturating_sub(1),
        };
        let keys = self.keys(self.region(operands, 0)?)?;
        let Some(keys) = keys.filter(|keys| keys.iter().all(|(at, _)| *at < arrays.len())) else {
            let message = "its comparison is not an order by operands";
            return Err(self.unsupported(operands.operation, message));
        };
        let is_stable = operands.operation.flag("is_stable");
        let all_descending = keys.iter().all(|(_, is_descending)| *is_descending);
        let reversed = |x: &Array| bind(Rev { dimensions: vec![dimension] }, &[x]).swap_remove(0);
        let mut sorted: Vec<Array> = Vec::new();
        for (at, is_descending) in &keys {
            let x = &arrays[*at];
            sorted.push(match (is_descending, all_descending) {
                (true, true) => reversed(x),
                // Keys of opposite order, which are dropped afterwards.
                (true, false) if x.dtype().is_inexact() => neg(x),
                (true, false) => bitwise_not(x),
                (false, _) => x.clone(),
            });
        }
        let n_keys = sorted.len();
        sorted.extend(arrays.iter().map(|x| if all_descending { reversed(x) } else { x.clone() }));
        // A key that is an operand as it is need not be there twice.
        let is_plain =
            |at: &usize| keys.iter().position(|key| key.0 == *at && (all_descending || !key.1));
        let places: Vec<usize> =
            (0..arrays.len()).map(|at| is_plain(&at).unwrap_or(n_keys + at)).collect();
        let kept: Vec<usize> =
            (0..sorted.len()).filter(|at| *at < n_keys || places.contains(at)).collect();
        let inputs: Vec<&Array> = kept.iter().map(|at| &sorted[*at]).collect();
        let results = bind(Sort { dimension, is_stable, num_keys: n_keys }, &inputs);
        let place = |wanted: &usize| {
            let at = kept.iter().position(|at| at == wanted).unwrap_or_default();
            if all_descending { reversed(&results[at]) } else { results[at].clone() }
        };
        Ok(places.iter().map(|wanted| Traced::Array(place(wanted))).collect())
    }
}
