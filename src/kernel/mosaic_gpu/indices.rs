//! [`Index`]: integers that count or locate elements, and their arithmetic.

use super::text::{Element, Predicate, Writer};
use crate::core::DType;

/// An integer of 32 bits that counts or locates elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Index {
    Number(i64),
    Name(String),
}

/// Arithmetic of indices, which computes with numbers where it can.
impl Writer {
    pub(super) fn name_of(&mut self, index: &Index) -> String {
        match index {
            Index::Number(number) => self.int(i128::from(*number), DType::I32).name,
            Index::Name(name) => name.clone(),
        }
    }

    pub(super) fn element_of(&mut self, index: &Index) -> Element {
        Element { name: self.name_of(index), dtype: DType::I32 }
    }

    fn index_op(&mut self, name: &str, x: &Index, y: &Index) -> Index {
        let (x, y) = (self.element_of(x), self.element_of(y));
        Index::Name(self.binary(name, &x, &y).name)
    }

    pub(super) fn plus(&mut self, x: &Index, y: &Index) -> Index {
        match (x, y) {
            (Index::Number(x), Index::Number(y)) => Index::Number(x + y),
            (Index::Number(0), other) | (other, Index::Number(0)) => other.clone(),
            _ => self.index_op("arith.addi", x, y),
        }
    }

    pub(super) fn minus(&mut self, x: &Index, y: &Index) -> Index {
        match (x, y) {
            (Index::Number(x), Index::Number(y)) => Index::Number(x - y),
            (_, Index::Number(0)) => x.clone(),
            _ => self.index_op("arith.subi", x, y),
        }
    }

    pub(super) fn times(&mut self, x: &Index, by: usize) -> Index {
        match (x, by) {
            (_, 0) => Index::Number(0),
            (Index::Number(x), _) => Index::Number(x * by as i64),
            (_, 1) => x.clone(),
            _ => self.index_op("arith.muli", x, &Index::Number(by as i64)),
        }
    }

    /// Returns the quotient and the rest of an index that is not negative.
    pub(super) fn divided(&mut self, x: &Index, by: usize) -> (Index, Index) {
        let number = by as i64;
        match (x, by) {
            (Index::Number(x), _) => (Index::Number(x / number), Index::Number(x % number)),
            (_, 1) => (x.clone(), Index::Number(0)),
            _ => {
                let by = Index::Number(number);
                (self.index_op("arith.divui", x, &by), self.index_op("arith.remui", x, &by))
            }
        }
    }

    /// Limits an index to the range from 0 to `last`.
    pub(super) fn limited(&mut self, x: &Index, last: usize) -> Index {
        let (zero, most) = (Index::Number(0), Index::Number(last as i64));
        match x {
            Index::Number(x) => Index::Number((*x).clamp(0, last as i64)),
            Index::Name(_) => {
                let x = self.index_op("arith.maxsi", x, &zero);
                self.index_op("arith.minsi", &x, &most)
            }
        }
    }

    /// Compares indices as signed integers.
    pub(super) fn compare_indices(
        &mut self,
        predicate: Predicate,
        x: &Index,
        y: &Index,
    ) -> Element {
        let (x, y) = (self.element_of(x), self.element_of(y));
        self.compare(predicate, &x, &y)
    }

    /// Returns the position of an element in row-major order.
    pub(super) fn ravel(&mut self, index: &[Index], shape: &[usize]) -> Index {
        let mut position = Index::Number(0);
        for (index, &size) in index.iter().zip(shape) {
            let scaled = self.times(&position, size);
            position = self.plus(&scaled, index);
        }
        position
    }

    /// Returns the index along each axis from a position in row-major order.
    pub(super) fn unravel(&mut self, position: &Index, shape: &[usize]) -> Vec<Index> {
        let mut index = vec![Index::Number(0); shape.len()];
        let mut rest = position.clone();
        let first = shape.iter().position(|&size| size != 1);
        for axis in (0..shape.len()).rev() {
            if Some(axis) == first {
                index[axis] = rest;
                break;
            }
            if shape[axis] != 1 {
                let (quotient, along) = self.divided(&rest, shape[axis]);
                index[axis] = along;
                rest = quotient;
            }
        }
        index
    }
}
