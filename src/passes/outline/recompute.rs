//! [`recompute`]: cheap values that one part computes for another.

use super::group::{Groups, Member};
use super::parts::needed_outside;
use super::units::cost;
use crate::core::{Access, Var};
use rustc_hash::FxHashSet;

/// The availability, to another part, of a value that a part computes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Status {
    /// It is a result of the function.
    Returned,
    /// It is computed again from available values, at the price of an elementwise operation.
    Recomputed,
    Unavailable,
}

/// Lets parts compute again what costs no more than passing it on.
///
/// A layer's backward part uses values of its forward part. A compiler that sees both stores few of
/// them and fuses the cheap rest into its uses. Between functions all would be stored. So an
/// elementwise value of which all operands are available anyway is computed again where it is used.
pub(super) fn recompute(groups: &mut Groups<'_>) {
    let is_needed = needed_outside(groups);
    let statuses: Vec<Vec<Status>> =
        (0..groups.groups.len()).map(|group| statuses(groups, group, &is_needed)).collect();
    for user in 0..groups.groups.len() {
        let Some(lists) = recomputed_by(groups, user, &statuses) else { continue };
        for (list, mut more) in groups.groups[user].recomputed.iter_mut().zip(lists) {
            more.append(list);
            *list = more;
        }
    }
}

/// Returns the status of each equation of a part.
fn statuses(groups: &Groups<'_>, group: usize, is_needed: &[bool]) -> Vec<Status> {
    let program = groups.program;
    let copies = &groups.groups[group].copies;
    let middle = copies.len() / 2;
    let mut statuses = Vec::with_capacity(copies[middle].len());
    for (position, &index) in copies[middle].iter().enumerate() {
        let eqn = &program.eqns()[index];
        let is_needed = copies.iter().any(|copy| {
            program.eqns()[copy[position]].results.iter().any(|&var| is_needed[var as usize])
        });
        let is_available = |&var: &Var| match groups.member_defining(var) {
            Some(at) if (at.group, at.copy) == (group, middle) => {
                statuses[at.position] != Status::Unavailable
            }
            _ => true,
        };
        statuses.push(match () {
            () if is_cheap(groups, index) && eqn.operands.iter().all(is_available) => {
                Status::Recomputed
            }
            () if is_needed => Status::Returned,
            () => Status::Unavailable,
        });
    }
    statuses
}

/// Returns true for one operation per element, or movement of elements.
fn is_cheap(groups: &Groups<'_>, index: usize) -> bool {
    let (program, eqn) = (groups.program, &groups.program.eqns()[index]);
    let [result] = eqn.results[..] else { return false };
    if eqn.primitive.as_higher_order().is_some() {
        return false;
    }
    let cost = cost(program, eqn);
    cost.transcendentals == 0
        && cost.flops <= program.aval(result).size() as u64
        && matches!(cost.access, Access::Pointwise | Access::Movement)
}

/// Returns the equations that each copy of a part computes again, or `None` if there are none.
fn recomputed_by(
    groups: &Groups<'_>,
    user: usize,
    statuses: &[Vec<Status>],
) -> Option<Vec<Vec<usize>>> {
    let program = groups.program;
    let copies = &groups.groups[user].copies;
    let n = copies.len();
    let mut lists: Vec<Vec<usize>> = vec![Vec::new(); n];
    let mut seen: FxHashSet<Vec<Member>> = FxHashSet::default();
    let mut all: Vec<Vec<Member>> = Vec::new();
    for (position, &first) in copies[0].iter().enumerate() {
        for at in 0..program.eqns()[first].operands.len() {
            let origin = |copy: &Vec<usize>| {
                groups.member_defining(program.eqns()[copy[position]].operands[at])
            };
            let Some(origins) = copies.iter().map(origin).collect() else { continue };
            collect(groups, user, statuses, origins, &mut seen, &mut all);
        }
    }
    if all.is_empty() {
        return None;
    }
    for members in all {
        for (list, at) in lists.iter_mut().zip(members) {
            list.push(groups.groups[at.group].copies[at.copy][at.position]);
        }
    }
    Some(lists)
}

/// Adds the equations `origins`, one for each copy of `user`, after those that they need.
fn collect(
    groups: &Groups<'_>,
    user: usize,
    statuses: &[Vec<Status>],
    origins: Vec<Member>,
    seen: &mut FxHashSet<Vec<Member>>,
    all: &mut Vec<Vec<Member>>,
) {
    let Member { group, position, .. } = origins[0];
    let is_uniform = origins.iter().all(|at| (at.group, at.position) == (group, position));
    if group == user
        || !is_uniform
        || statuses[group][position] != Status::Recomputed
        || !seen.insert(origins.clone())
    {
        return;
    }
    let eqn =
        |at: &Member| &groups.program.eqns()[groups.groups[at.group].copies[at.copy][at.position]];
    for operand in 0..eqn(&origins[0]).operands.len() {
        let inner: Option<Vec<Member>> = origins
            .iter()
            .map(|at| {
                let inner = groups.member_defining(eqn(at).operands[operand])?;
                ((inner.group, inner.copy) == (at.group, at.copy)).then_some(inner)
            })
            .collect();
        if let Some(inner) = inner {
            collect(groups, user, statuses, inner, seen, all);
        }
    }
    all.push(origins);
}
