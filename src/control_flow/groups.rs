//! Lists of operands, inputs or marks that consist of named groups.

use crate::core::Marks;

/// A list that can be cut in two and joined again.
pub(super) trait List: Sized {
    /// Returns the first `n` items and the rest.
    fn cut(self, n: usize) -> (Self, Self);

    /// Returns the items of both lists.
    #[must_use]
    fn join(self, other: Self) -> Self;
}

impl<T> List for Vec<T> {
    fn cut(mut self, n: usize) -> (Vec<T>, Vec<T>) {
        let rest = self.split_off(n);
        (self, rest)
    }

    fn join(mut self, other: Vec<T>) -> Vec<T> {
        self.extend(other);
        self
    }
}

impl<P> List for Marks<P> {
    fn cut(self, n: usize) -> (Marks<P>, Marks<P>) {
        (self.slice(0..n), self.slice(n..self.len()))
    }

    fn join(self, other: Marks<P>) -> Marks<P> {
        self.concat(&other)
    }
}

/// One item per operand of a scan, or per input of its body.
#[derive(Clone)]
pub(super) struct Inputs<L> {
    pub(super) consts: L,
    pub(super) carry: L,
    pub(super) xs: L,
}

impl<L: List> Inputs<L> {
    /// Cuts a list into `n_consts` constants, `n_carry` carries and the rest.
    pub(super) fn cut(list: L, n_consts: usize, n_carry: usize) -> Inputs<L> {
        let (consts, rest) = list.cut(n_consts);
        let (carry, xs) = rest.cut(n_carry);
        Inputs { consts, carry, xs }
    }

    /// Joins the groups to one list.
    pub(super) fn join(self) -> L {
        self.consts.join(self.carry).join(self.xs)
    }

    /// Appends each group of `others` to the same group of this list.
    pub(super) fn append_groups(self, others: Inputs<L>) -> Inputs<L> {
        Inputs {
            consts: self.consts.join(others.consts),
            carry: self.carry.join(others.carry),
            xs: self.xs.join(others.xs),
        }
    }
}

/// One item per result of a scan, or per output of its body.
#[derive(Clone)]
pub(super) struct Outputs<L> {
    pub(super) carry: L,
    pub(super) ys: L,
}

impl<L: List> Outputs<L> {
    /// Cuts a list into `n_carry` carries and the rest.
    pub(super) fn cut(list: L, n_carry: usize) -> Outputs<L> {
        let (carry, ys) = list.cut(n_carry);
        Outputs { carry, ys }
    }

    /// Joins the groups to one list.
    pub(super) fn join(self) -> L {
        self.carry.join(self.ys)
    }

    /// Appends each group of `others` to the same group of this list.
    pub(super) fn append_groups(self, others: Outputs<L>) -> Outputs<L> {
        Outputs { carry: self.carry.join(others.carry), ys: self.ys.join(others.ys) }
    }
}
