//! [`add`]: equal elementwise parts that are not contiguous, such as an optimizer's updates.

use super::MIN_COPIES;
use super::group::Groups;
use super::units::{Units, is_contraction, is_movable};
use crate::core::Var;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};

/// The least number of equations of a component.
const MIN_EQUATIONS: usize = 6;

/// Adds the equal components among the equations that are in no group.
///
/// A component consists of equations that are connected by values other than scalars, such as all
/// that an optimizer does to one parameter. Scalars connect everything: a global norm depends on
/// each gradient, and each update on the norm. Therefore an equation has a level, which grows by one
/// with each scalar, call and other equation outside of components on the way to it, and a component
/// has equations of one level. A path that leaves a component cannot return to it, nor to another
/// of its level, so all components of one level that take values of one layer are one.
pub(super) fn add(groups: &mut Groups<'_>, units: &Units) {
    let is_inside = inside(groups);
    let levels = levels(groups, &is_inside);
    let mut roots = connected(groups, &is_inside, &levels);
    bundle(groups, &is_inside, &levels, &mut roots);
    let mut components: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for index in (0..roots.len()).filter(|&index| is_inside[index]) {
        components.entry(roots[index]).or_default().push(index);
    }
    let mut components: Vec<Vec<usize>> = components.into_values().collect();
    components.retain(|component| component.len() >= MIN_EQUATIONS);
    components.sort_unstable();
    // The position of each equation in its component.
    let mut positions = vec![0; roots.len()];
    for component in &components {
        component.iter().enumerate().for_each(|(at, &index)| positions[index] = at);
    }
    let mut equal: FxHashMap<u64, Vec<Vec<usize>>> = FxHashMap::default();
    let mut order = Vec::new();
    for component in components {
        let mut state = FxHasher::default();
        for &index in &component {
            units.hashes[index].hash(&mut state);
            for &var in &groups.program.eqns()[index].operands {
                let defined = groups.definition(var).filter(|&(at, _)| roots[at] == roots[index]);
                defined.map(|(at, result)| (positions[at], result)).hash(&mut state);
            }
        }
        let key = state.finish();
        equal.entry(key).or_insert_with(|| {
            order.push(key);
            Vec::new()
        });
        equal.entry(key).or_default().push(component);
    }
    for key in order {
        let candidates = equal.remove(&key).unwrap_or_default();
        let reference = candidates[0].clone();
        let within = |root: usize| {
            let (roots, positions) = (&roots, &positions);
            move |index: usize| (roots[index] == root).then(|| positions[index])
        };
        let is_equal = |copy: &Vec<usize>| {
            let roots = [reference[0], copy[0]].map(|index| roots[index]);
            let [a, b] = roots.map(within);
            groups.differences([&reference, copy], a, b).is_some_and(|differing| differing.is_empty())
        };
        let copies: Vec<Vec<usize>> = candidates.into_iter().filter(is_equal).collect();
        if copies.len() >= MIN_COPIES {
            let constants = copies.iter().map(|copy| constants(groups, copy)).collect();
            groups.add(copies, common(groups, constants));
        }
    }
}

/// Marks the equations that may be part of a component.
fn inside(groups: &Groups<'_>) -> Vec<bool> {
    let eqns = groups.program.eqns().iter().zip(&groups.members);
    let inside = eqns.map(|(eqn, member)| {
        let is_scalar = eqn.results.iter().all(|&var| groups.program.aval(var).size() <= 1);
        member.is_none() && !is_scalar && is_movable(eqn) && !is_contraction(eqn)
    });
    inside.collect()
}

/// Returns the level of each equation: the highest that the equations which use it allow.
fn levels(groups: &Groups<'_>, is_inside: &[bool]) -> Vec<usize> {
    let program = groups.program;
    let first = |index: usize| match groups.members[index] {
        Some(at) => groups.groups[at.group].copies[at.copy][0],
        None => index,
    };
    let step = |from: usize, to: usize| usize::from(!(is_inside[from] && is_inside[to]));
    let mut levels = vec![0_usize; program.eqns().len()];
    for (index, eqn) in program.eqns().iter().enumerate() {
        let node = first(index);
        for (at, _) in eqn.operands.iter().filter_map(|&var| groups.definition(var)) {
            let from = first(at);
            if from != node {
                levels[node] = levels[node].max(levels[from] + step(from, node));
            }
        }
    }
    let mut highest = vec![usize::MAX; program.eqns().len()];
    for (index, eqn) in program.eqns().iter().enumerate().rev() {
        let node = first(index);
        if is_inside[index] && highest[index] != usize::MAX {
            levels[index] = levels[index].max(highest[index]);
        }
        for (at, _) in eqn.operands.iter().filter_map(|&var| groups.definition(var)) {
            if is_inside[at] {
                highest[at] = highest[at].min(levels[node].saturating_sub(step(at, node)));
            }
        }
    }
    levels
}

/// Returns a number for each equation, equal for those of one component.
fn connected(groups: &Groups<'_>, is_inside: &[bool], levels: &[usize]) -> Vec<usize> {
    fn root(parents: &mut [usize], mut index: usize) -> usize {
        while parents[index] != index {
            parents[index] = parents[parents[index]];
            index = parents[index];
        }
        index
    }
    let mut parents: Vec<usize> = (0..is_inside.len()).collect();
    for (index, eqn) in groups.program.eqns().iter().enumerate() {
        for (at, _) in eqn.operands.iter().filter_map(|&var| groups.definition(var)) {
            if is_inside[at] && is_inside[index] && levels[at] == levels[index] {
                let (a, b) = (root(&mut parents, at), root(&mut parents, index));
                parents[a.max(b)] = a.min(b);
            }
        }
    }
    (0..parents.len()).map(|index| root(&mut parents, index)).collect()
}

/// Joins the components of one level that take values of the same copy of a layer, and of no other.
fn bundle(groups: &Groups<'_>, is_inside: &[bool], levels: &[usize], roots: &mut [usize]) {
    #[derive(Clone, Copy, PartialEq)]
    enum Source {
        Copy(usize, usize),
        Several,
    }
    let mut sources: FxHashMap<usize, Source> = FxHashMap::default();
    for (index, eqn) in groups.program.eqns().iter().enumerate().filter(|(at, _)| is_inside[*at]) {
        for member in eqn.operands.iter().filter_map(|&var| groups.member_defining(var)) {
            let source = Source::Copy(member.group, member.copy);
            let known = sources.entry(roots[index]).or_insert(source);
            if *known != source {
                *known = Source::Several;
            }
        }
    }
    let mut first: FxHashMap<(usize, usize, usize), usize> = FxHashMap::default();
    for index in (0..roots.len()).filter(|&index| is_inside[index]) {
        if let Some(&Source::Copy(group, copy)) = sources.get(&roots[index]) {
            roots[index] = *first.entry((levels[index], group, copy)).or_insert(roots[index]);
        }
    }
}

/// Returns the constants that a component uses.
fn constants(groups: &Groups<'_>, component: &[usize]) -> Vec<usize> {
    let mut constants = Vec::new();
    let mut seen: FxHashSet<usize> = component.iter().copied().collect();
    let operand = |var: &Var| groups.definition(*var).map(|(at, _)| at);
    for &index in component {
        for at in groups.program.eqns()[index].operands.iter().filter_map(operand) {
            if groups.program.eqns()[at].operands.is_empty() && seen.insert(at) {
                constants.push(at);
            }
        }
    }
    constants
}

/// Keeps the lists of constants if they are equal for all components.
fn common(groups: &Groups<'_>, constants: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let eqn = |index: &usize| &groups.program.eqns()[*index];
    let first = constants[0].clone();
    let is_equal = constants.iter().all(|list| {
        list.len() == first.len()
            && list.iter().zip(&first).all(|(a, b)| {
                *eqn(a).primitive == *eqn(b).primitive && eqn(a).results.len() == eqn(b).results.len()
            })
    });
    if is_equal { constants } else { vec![Vec::new(); constants.len()] }
}
