//! [`Marks`]: the inputs or outputs of a program that have a property.

use super::primitive::Operand;
use super::tangent::Tangent;
use crate::core::{Array, Aval};
use std::marker::PhantomData;
use std::ops::{Index, Range};

/// Property of a value that is available while the rest of a program is still unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Known {}

/// Property of a result that is used, or of an input that a used result depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Used {}

/// Property of a value whose tangent or cotangent is an array rather than a symbolic zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dense {}

/// Property of a value that has a batch axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mapped {}

/// One mark per input or output of a program. A marked position has the property `P`.
///
/// ```
/// use oxidax::core::{Marks, Used};
/// let used: Marks<Used> = [true, false, true].into_iter().collect();
/// assert_eq!(used.positions(), [0, 2]);
/// assert_eq!(used.select(&["a", "b", "c"]), ["a", "c"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Marks<P> {
    marks: Vec<bool>,
    property: PhantomData<P>,
}

impl<P> FromIterator<bool> for Marks<P> {
    fn from_iter<I: IntoIterator<Item = bool>>(marks: I) -> Marks<P> {
        Marks { marks: marks.into_iter().collect(), property: PhantomData }
    }
}

impl<P> Index<usize> for Marks<P> {
    type Output = bool;

    fn index(&self, position: usize) -> &bool {
        &self.marks[position]
    }
}

impl<P> Marks<P> {
    /// Returns marks of which none is set.
    pub fn none(len: usize) -> Marks<P> {
        std::iter::repeat_n(false, len).collect()
    }

    /// Returns marks of which all are set.
    pub fn all(len: usize) -> Marks<P> {
        std::iter::repeat_n(true, len).collect()
    }

    /// Marks the items for which `has_property` returns true.
    pub fn of<T>(items: &[T], has_property: impl Fn(&T) -> bool) -> Marks<P> {
        items.iter().map(has_property).collect()
    }

    /// Returns the number of positions, marked or not.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Returns true if there are no positions.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Returns the number of marked positions.
    pub fn count(&self) -> usize {
        self.marks.iter().filter(|mark| **mark).count()
    }

    /// Returns the number of positions that are not marked.
    pub fn count_unmarked(&self) -> usize {
        self.len() - self.count()
    }

    /// Returns true if some position is marked.
    pub fn any(&self) -> bool {
        self.marks.contains(&true)
    }

    /// Returns true if every position is marked.
    pub fn is_all(&self) -> bool {
        !self.marks.contains(&false)
    }

    /// Marks a position.
    pub fn set(&mut self, position: usize) {
        self.marks[position] = true;
    }

    /// Iterates over the marks in order.
    pub fn iter(&self) -> impl Iterator<Item = bool> + '_ {
        self.marks.iter().copied()
    }

    /// Returns the marked positions in increasing order.
    pub fn positions(&self) -> Vec<usize> {
        (0..self.len()).filter(|&position| self.marks[position]).collect()
    }

    /// Returns the positions that are not marked, in increasing order.
    pub fn unmarked_positions(&self) -> Vec<usize> {
        (0..self.len()).filter(|&position| !self.marks[position]).collect()
    }

    /// Returns the items at the marked positions.
    pub fn select<T: Clone>(&self, items: &[T]) -> Vec<T> {
        self.positions().into_iter().map(|position| items[position].clone()).collect()
    }

    /// Returns the items at the positions that are not marked.
    pub fn select_unmarked<T: Clone>(&self, items: &[T]) -> Vec<T> {
        self.unmarked_positions().into_iter().map(|position| items[position].clone()).collect()
    }

    /// Returns the marks at the positions of `range`.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Marks<P> {
        self.marks[range].iter().copied().collect()
    }

    /// Returns these marks followed by `others`.
    #[must_use]
    pub fn concat(&self, others: &Marks<P>) -> Marks<P> {
        self.iter().chain(others.iter()).collect()
    }

    /// Returns these marks followed by `n` positions that are not marked.
    #[must_use]
    pub fn padded(&self, n: usize) -> Marks<P> {
        self.concat(&Marks::none(n))
    }

    /// Marks every position that `others` marks. Returns true if that changed something.
    pub fn grow(&mut self, others: &Marks<P>) -> bool {
        let before = self.count();
        for (mark, other) in self.marks.iter_mut().zip(others.iter()) {
            *mark |= other;
        }
        self.count() > before
    }

    /// Unmarks every position that `others` does not mark. Returns true if that changed something.
    pub fn shrink(&mut self, others: &Marks<P>) -> bool {
        let before = self.count();
        for (mark, other) in self.marks.iter_mut().zip(others.iter()) {
            *mark &= other;
        }
        self.count() < before
    }
}

impl Marks<Dense> {
    /// Marks the tangents that are arrays.
    pub fn of_tangents(tangents: &[Tangent]) -> Marks<Dense> {
        Marks::of(tangents, |tangent| !tangent.is_zero())
    }

    /// Returns one tangent per position: the next of `arrays` where there is a mark, a symbolic
    /// zero of the type in `avals` elsewhere.
    pub(crate) fn tangents(
        &self,
        avals: impl IntoIterator<Item = Aval>,
        arrays: impl IntoIterator<Item = Array>,
    ) -> Vec<Tangent> {
        let mut arrays = arrays.into_iter();
        self.iter()
            .zip(avals)
            .map(|(is_dense, aval)| {
                if is_dense {
                    Tangent::Dense(arrays.next().expect("one array per mark"))
                } else {
                    Tangent::Zero(aval)
                }
            })
            .collect()
    }
}

impl Marks<Known> {
    /// Marks the operands that are known.
    pub fn of_operands(operands: &[Operand]) -> Marks<Known> {
        Marks::of(operands, |operand| !operand.is_linear())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(marks: [bool; 3]) -> Marks<Used> {
        marks.into_iter().collect()
    }

    #[test]
    fn grow_and_shrink_report_changes() {
        let mut used = marks([true, false, false]);
        assert!(used.grow(&marks([false, true, false])));
        assert!(!used.grow(&marks([true, true, false])));
        assert_eq!(used, marks([true, true, false]));
        assert!(used.shrink(&marks([false, true, true])));
        assert!(!used.shrink(&marks([false, true, true])));
        assert_eq!(used.positions(), [1]);
        assert_eq!(used.unmarked_positions(), [0, 2]);
    }

    #[test]
    fn groups_can_be_cut_out_and_joined() {
        let used = marks([true, false, true]);
        assert_eq!(used.slice(0..2).concat(&used.slice(2..3)), used);
        assert_eq!(used.padded(2).count_unmarked(), 3);
        assert!(Marks::<Used>::none(0).is_all() && !Marks::<Used>::none(0).any());
    }
}
