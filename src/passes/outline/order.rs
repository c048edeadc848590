//! [`steps`]: the order of equations and calls.

use super::group::Groups;
use crate::core::Effects;
use crate::core::lowering::Step;
use rustc_hash::FxHashSet;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Returns the order of lowering: close to that of the program, with each call after the values
/// that it takes. Returns `None` if two parts need each other's results.
pub(super) fn steps(groups: &Groups<'_>) -> Option<Vec<Step>> {
    let program = groups.program;
    let n = program.eqns().len();
    // Every call is a node with the number of the first equation of its copy.
    let first = |index: usize| match groups.members[index] {
        Some(at) => groups.groups[at.group].copies[at.copy][0],
        None => index,
    };
    let mut users: Vec<Vec<u32>> = vec![Vec::new(); n];
    let mut missing = vec![0_u32; n];
    let mut depend = |user: usize, on: usize| {
        if user != on {
            users[on].push(user as u32);
            missing[user] += 1;
        }
    };
    let mut last_effect = None;
    for (index, eqn) in program.eqns().iter().enumerate() {
        let defined = eqn.operands.iter().filter_map(|&var| groups.definition(var));
        defined.for_each(|(at, _)| depend(first(index), first(at)));
        if eqn.primitive.effects() != Effects::None {
            last_effect.into_iter().for_each(|before| depend(index, before));
            last_effect = Some(index);
        }
    }
    for group in &groups.groups {
        for (own, recomputed) in group.copies.iter().zip(&group.recomputed) {
            let again: FxHashSet<usize> = recomputed.iter().copied().collect();
            let operands = recomputed.iter().flat_map(|&index| &program.eqns()[index].operands);
            for (at, _) in operands.filter_map(|&var| groups.definition(var)) {
                if !again.contains(&at) {
                    depend(own[0], first(at));
                }
            }
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> = BinaryHeap::new();
    let is_node = |&index: &usize| first(index) == index;
    ready.extend((0..n).filter(is_node).filter(|&index| missing[index] == 0).map(Reverse));
    let mut steps = Vec::new();
    while let Some(Reverse(index)) = ready.pop() {
        steps.push(match groups.members[index] {
            Some(at) => Step::Call { part: at.group, copy: at.copy },
            None => Step::Eqn(index),
        });
        for &user in &users[index] {
            missing[user as usize] -= 1;
            if missing[user as usize] == 0 {
                ready.push(Reverse(user as usize));
            }
        }
    }
    (steps.len() == (0..n).filter(is_node).count()).then_some(steps)
}
