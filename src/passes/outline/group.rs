//! [`Groups`]: parts of a program with equal dataflow.

use super::repeats::Repeat;
use super::units::{Units, cost, is_contraction, is_same_operation, may_differ};
use super::{MIN_COPIES, MIN_FLOPS};
use crate::core::{Program, Var};

/// Copies of one part.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// The equations of each copy. Those with the same position correspond.
    pub(super) copies: Vec<Vec<usize>>,
    /// Equations outside of each copy that it computes again, before its own.
    pub(super) recomputed: Vec<Vec<usize>>,
}

/// The copy that an equation belongs to, and its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Member {
    pub(super) group: usize,
    pub(super) copy: usize,
    pub(super) position: usize,
}

/// The repeated parts of a program.
pub(super) struct Groups<'a> {
    pub(super) program: &'a Program,
    pub(super) groups: Vec<Group>,
    /// The copy that each equation belongs to.
    pub(super) members: Vec<Option<Member>>,
    /// The equation that defines each variable and the index of the result; `None` for inputs.
    definitions: Vec<Option<(usize, usize)>>,
}

impl<'a> Groups<'a> {
    pub(super) fn new(program: &'a Program) -> Groups<'a> {
        let mut definitions = vec![None; program.avals().len()];
        for (index, eqn) in program.eqns().iter().enumerate() {
            for (position, &var) in eqn.results.iter().enumerate() {
                definitions[var as usize] = Some((index, position));
            }
        }
        let members = vec![None; program.eqns().len()];
        Groups { program, groups: Vec::new(), members, definitions }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the equation that defines a variable and the index of the result; `None` for an
    /// input.
    pub(super) fn definition(&self, var: Var) -> Option<(usize, usize)> {
        self.definitions[var as usize]
    }

    /// Returns the copy that the definition of a variable belongs to.
    pub(super) fn member_defining(&self, var: Var) -> Option<Member> {
        self.members[self.definition(var)?.0]
    }

    /// Marks the variables that equations outside of all parts use, and the program's results.
    pub(super) fn used_outside_of_parts(&self) -> Vec<bool> {
        let mut is_used = vec![false; self.program.avals().len()];
        let both = self.program.eqns().iter().zip(&self.members);
        let free = both.filter(|(_, member)| member.is_none()).flat_map(|(eqn, _)| &eqn.operands);
        for &var in free.chain(self.program.outputs()) {
            is_used[var as usize] = true;
        }
        is_used
    }

    /// Adds a group of these copies.
    pub(super) fn add(&mut self, copies: Vec<Vec<usize>>, recomputed: Vec<Vec<usize>>) {
        let group = self.groups.len();
        for (copy, equations) in copies.iter().enumerate() {
            for (position, &index) in equations.iter().enumerate() {
                self.members[index] = Some(Member { group, copy, position });
            }
        }
        self.groups.push(Group { copies, recomputed });
    }

    /// Adds the copies of a repeat that are equal to the one in the middle, unless they are too few
    /// or too small, or do not multiply matrices.
    pub(super) fn add_layers(&mut self, units: &Units, repeat: Repeat) {
        let len = repeat.period;
        let is_free = |&start: &usize| self.members[start..start + len].iter().all(Option::is_none);
        let starts: Vec<usize> = repeat.starts().filter(is_free).collect();
        let Some(&reference) = starts.get(starts.len() / 2) else { return };
        let eqns = &self.program.eqns()[reference..reference + len];
        let flops = |eqn| cost(self.program, eqn).flops;
        if starts.len() < MIN_COPIES
            || !eqns.iter().any(is_contraction)
            || eqns.iter().map(flops).fold(0, u64::saturating_add) < MIN_FLOPS
        {
            return;
        }
        let expected: Vec<usize> = (reference..reference + len).collect();
        let mut is_outside = vec![false; len];
        let mut equal = Vec::with_capacity(starts.len());
        for start in starts {
            if units.hashes[start..start + len] != units.hashes[reference..reference + len] {
                continue;
            }
            let copy: Vec<usize> = (start..start + len).collect();
            let position = |first: usize| move |index: usize| index.checked_sub(first);
            if let Some(differing) =
                self.differences([&expected, &copy], position(reference), position(start))
            {
                differing.into_iter().for_each(|offset| is_outside[offset] = true);
                equal.push(start);
            }
        }
        if equal.len() < MIN_COPIES || !self.close(&mut is_outside, reference) {
            return;
        }
        let inside: Vec<usize> = (0..len).filter(|&offset| !is_outside[offset]).collect();
        let copies = equal.iter().map(|start| inside.iter().map(|offset| start + offset).collect());
        let recomputed = vec![Vec::new(); equal.len()];
        self.add(copies.collect(), recomputed);
    }

    /// Compares two copies. `position_left` and `position_right` return the position of an equation
    /// in its copy. Returns the positions of equations that differ in their parameters and can be
    /// computed outside, or `None` if the copies do not compute the same function.
    pub(super) fn differences(
        &self,
        [left, right]: [&[usize]; 2],
        position_left: impl Fn(usize) -> Option<usize>,
        position_right: impl Fn(usize) -> Option<usize>,
    ) -> Option<Vec<usize>> {
        let program = self.program;
        let mut differing = Vec::new();
        if left == right {
            return Some(differing);
        }
        let origin = |var: Var, position: &dyn Fn(usize) -> Option<usize>| {
            let (index, result) = self.definition(var)?;
            Some((position(index)?, result))
        };
        for (offset, (&left, &right)) in left.iter().zip(right).enumerate() {
            let (a, b) = (&program.eqns()[left], &program.eqns()[right]);
            let is_equal = a.operands.len() == b.operands.len()
                && a.results.len() == b.results.len()
                && a.loc.without_scope() == b.loc.without_scope()
                && a.primitive.name() == b.primitive.name()
                && a.operands.iter().zip(&b.operands).all(|(&x, &y)| {
                    program.aval(x) == program.aval(y)
                        && origin(x, &position_left) == origin(y, &position_right)
                })
                && a.results
                    .iter()
                    .zip(&b.results)
                    .all(|(&x, &y)| program.aval(x) == program.aval(y));
            if !is_equal {
                return None;
            }
            if !is_same_operation(a, b) {
                if !may_differ(program, a) {
                    return None;
                }
                differing.push(offset);
            }
        }
        Some(differing)
    }

    /// Marks what equations outside of the function need as outside too. Returns false if that
    /// includes one that should be inside.
    fn close(&self, is_outside: &mut [bool], reference: usize) -> bool {
        for offset in (0..is_outside.len()).rev() {
            if !is_outside[offset] {
                continue;
            }
            let eqn = &self.program.eqns()[reference + offset];
            if !may_differ(self.program, eqn) {
                return false;
            }
            for &var in &eqn.operands {
                let defined = self.definition(var).and_then(|(at, _)| at.checked_sub(reference));
                defined.into_iter().for_each(|inner| is_outside[inner] = true);
            }
        }
        true
    }
}
