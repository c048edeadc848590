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
/// each gradient, and each update on the norm. Therefore an equation has a level, which grows by
/// one where a path to it leaves a component, and a component has equations of one level. Such a
/// path cannot return to the component, nor to another of its level, so all components of one level
/// that take values of one layer may be one.
pub(super) fn add(groups: &mut Groups<'_>, units: &Units) {
    let is_inside = inside(groups);
    let levels = levels(groups, &is_inside);
    let mut roots = connected(groups, &is_inside, &levels);
    let parameters = Components::of(groups, units, &is_inside, &roots);
    bundle(groups, &parameters, &levels, &mut roots);
    let layers = Components::of(groups, units, &is_inside, &roots);
    let mut added = Vec::new();
    for candidates in layers.equal.iter().filter(|equal| equal[0].len() >= MIN_EQUATIONS) {
        let reference = &candidates[0];
        let within = |component: &[usize]| {
            let (root, roots, positions) = (roots[component[0]], &roots, &layers.positions);
            move |index: usize| (roots[index] == root).then(|| positions[index])
        };
        let is_equal = |copy: &&Vec<usize>| {
            let (a, b) = (within(reference), within(copy));
            groups
                .differences([reference, copy], a, b)
                .is_some_and(|differing| differing.is_empty())
        };
        let copies: Vec<Vec<usize>> = candidates.iter().filter(is_equal).cloned().collect();
        if copies.len() >= MIN_COPIES {
            let constants = copies.iter().map(|copy| constants(groups, copy)).collect();
            added.push((copies, common(groups, constants)));
        }
    }
    added.into_iter().for_each(|(copies, constants)| groups.add(copies, constants));
}

/// The components of a program, and which of them are equal.
struct Components {
    /// The position of each equation in its component.
    positions: Vec<usize>,
    /// Components with equal hashes, in program order.
    equal: Vec<Vec<Vec<usize>>>,
}

impl Components {
    /// Collects the equations inside of components by the number in `roots`.
    fn of(groups: &Groups<'_>, units: &Units, is_inside: &[bool], roots: &[usize]) -> Components {
        let mut components: Vec<Vec<usize>> = Vec::new();
        let mut numbers: FxHashMap<usize, usize> = FxHashMap::default();
        let mut positions = vec![0; roots.len()];
        for index in (0..roots.len()).filter(|&index| is_inside[index]) {
            let number = *numbers.entry(roots[index]).or_insert(components.len());
            if number == components.len() {
                components.push(Vec::new());
            }
            positions[index] = components[number].len();
            components[number].push(index);
        }
        let mut equal: Vec<Vec<Vec<usize>>> = Vec::new();
        let mut keys: FxHashMap<u64, usize> = FxHashMap::default();
        for component in components {
            let mut state = FxHasher::default();
            for &index in &component {
                units.hashes[index].hash(&mut state);
                for &var in &groups.program.eqns()[index].operands {
                    let defined = groups.definition(var);
                    let within = defined.filter(|&(at, _)| roots[at] == roots[index]);
                    within.map(|(at, result)| (positions[at], result)).hash(&mut state);
                }
            }
            let number = *keys.entry(state.finish()).or_insert(equal.len());
            if number == equal.len() {
                equal.push(Vec::new());
            }
            equal[number].push(component);
        }
        Components { positions, equal }
    }
}

/// Marks the equations that may be part of a component.
fn inside(groups: &Groups<'_>) -> Vec<bool> {
    let eqns = groups.program.eqns().iter().zip(&groups.members);
    let inside = eqns.map(|(eqn, member)| {
        let mut all = eqn.operands.iter().chain(&eqn.results);
        let is_scalar = all.all(|&var| is_scalar(groups, var));
        member.is_none() && !is_scalar && is_movable(eqn) && !is_contraction(eqn)
    });
    inside.collect()
}

/// Returns true for a value that does not connect equations.
fn is_scalar(groups: &Groups<'_>, var: Var) -> bool {
    groups.program.aval(var).size() <= 1
}

/// Returns the level of each equation: the highest that the equations which use it allow.
fn levels(groups: &Groups<'_>, is_inside: &[bool]) -> Vec<usize> {
    let program = groups.program;
    let first = |index: usize| match groups.members[index] {
        Some(at) => groups.groups[at.group].copies[at.copy][0],
        None => index,
    };
    let step = |from: usize, to: usize, var: Var| {
        usize::from(is_inside[from] && (!is_inside[to] || is_scalar(groups, var)))
    };
    let defined = |&var: &Var| groups.definition(var).map(|(at, _)| (at, var));
    let mut levels = vec![0_usize; program.eqns().len()];
    for (index, eqn) in program.eqns().iter().enumerate() {
        let node = first(index);
        for (at, var) in eqn.operands.iter().filter_map(defined) {
            let from = first(at);
            if from != node {
                levels[node] = levels[node].max(levels[from] + step(from, node, var));
            }
        }
    }
    let mut highest = vec![usize::MAX; program.eqns().len()];
    for (index, eqn) in program.eqns().iter().enumerate().rev() {
        let node = first(index);
        if is_inside[index] && highest[index] != usize::MAX {
            levels[index] = levels[index].max(highest[index]);
        }
        for (at, var) in eqn.operands.iter().filter_map(defined) {
            if is_inside[at] {
                highest[at] = highest[at].min(levels[node].saturating_sub(step(at, node, var)));
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
        let operands = eqn.operands.iter().filter(|&&var| !is_scalar(groups, var));
        for (at, _) in operands.filter_map(|&var| groups.definition(var)) {
            if is_inside[at] && is_inside[index] && levels[at] == levels[index] {
                let (a, b) = (root(&mut parents, at), root(&mut parents, index));
                parents[a.max(b)] = a.min(b);
            }
        }
    }
    (0..parents.len()).map(|index| root(&mut parents, index)).collect()
}

/// Joins the repeated components of one level that take values of the same copy of a layer, and of
/// no other.
fn bundle(groups: &Groups<'_>, components: &Components, levels: &[usize], roots: &mut [usize]) {
    let repeated = components.equal.iter().filter(|equal| equal.len() >= MIN_COPIES);
    let mut first: FxHashMap<(usize, usize, usize), usize> = FxHashMap::default();
    let mut in_order: Vec<&Vec<usize>> = repeated.flatten().collect();
    in_order.sort_unstable();
    for component in in_order {
        let operands = component.iter().flat_map(|&index| &groups.program.eqns()[index].operands);
        let mut sources = operands
            .filter_map(|&var| groups.member_defining(var))
            .map(|member| (member.group, member.copy));
        let Some((group, copy)) = sources.next() else { continue };
        if sources.all(|source| source == (group, copy)) {
            let own = roots[component[0]];
            let root = *first.entry((levels[component[0]], group, copy)).or_insert(own);
            component.iter().for_each(|&index| roots[index] = root);
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
                *eqn(a).primitive == *eqn(b).primitive
                    && eqn(a).results.len() == eqn(b).results.len()
            })
    });
    if is_equal { constants } else { vec![Vec::new(); constants.len()] }
}
