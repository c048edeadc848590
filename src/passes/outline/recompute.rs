//! [`recompute`]: cheap values that one part computes for another.

use super::group::{Groups, Member};
use super::parts::needed_outside;
use super::units::cost;
use crate::core::{Access, Var};
use rustc_hash::{FxHashMap, FxHashSet};

/// The most values that a part returns in place of one that is computed again.
const MAX_SOURCES: usize = 4;

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
/// Where a part returns fewer bytes for it, such as the sums of rows for an array of quotients, it
/// returns the operands instead.
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
    let part = Part { groups, group, middle: groups.groups[group].copies.len() / 2 };
    let statuses = part.statuses(is_needed, &FxHashSet::default());
    let sources = part.smaller_sources(&statuses);
    match sources.is_empty() {
        true => statuses,
        false => part.statuses(is_needed, &sources),
    }
}

/// A part, seen in its middle copy.
struct Part<'a> {
    groups: &'a Groups<'a>,
    group: usize,
    middle: usize,
}

impl Part<'_> {
    /// Returns the index of the equation at a position.
    fn index(&self, position: usize) -> usize {
        self.groups.groups[self.group].copies[self.middle][position]
    }

    /// Returns the position of the equation that defines a variable, if it is in this copy.
    fn position_defining(&self, var: Var) -> Option<usize> {
        let at = self.groups.member_defining(var)?;
        ((at.group, at.copy) == (self.group, self.middle)).then_some(at.position)
    }

    /// Returns the status of each equation. Those at the positions `sources` are returned.
    fn statuses(&self, is_needed: &[bool], sources: &FxHashSet<usize>) -> Vec<Status> {
        let program = self.groups.program;
        let copies = &self.groups.groups[self.group].copies;
        let mut statuses = Vec::with_capacity(copies[self.middle].len());
        for position in 0..copies[self.middle].len() {
            let index = self.index(position);
            let eqn = &program.eqns()[index];
            let is_needed = copies.iter().any(|copy| {
                program.eqns()[copy[position]].results.iter().any(|&var| is_needed[var as usize])
            });
            let is_available = |&var: &Var| match self.position_defining(var) {
                Some(at) => statuses[at] != Status::Unavailable,
                None => true,
            };
            statuses.push(match () {
                () if is_cheap(self.groups, index) && eqn.operands.iter().all(is_available) => {
                    Status::Recomputed
                }
                () if is_needed || sources.contains(&position) => Status::Returned,
                () => Status::Unavailable,
            });
        }
        statuses
    }

    /// Returns positions of equations that are not returned, but have fewer bytes than the values
    /// that could be computed again from them.
    fn smaller_sources(&self, statuses: &[Status]) -> FxHashSet<usize> {
        let program = self.groups.program;
        let bytes = |position: usize| -> usize {
            let results = &program.eqns()[self.index(position)].results;
            results.iter().map(|&var| program.aval(var).bytes()).sum()
        };
        let is_used_alone = self.groups.used_outside_of_parts();
        // The sources of each cheap value, and the bytes of all returned values with these sources.
        let mut sources: Vec<Option<Vec<usize>>> = Vec::with_capacity(statuses.len());
        let mut saved: FxHashMap<Vec<usize>, usize> = FxHashMap::default();
        for (position, &status) in statuses.iter().enumerate() {
            let index = self.index(position);
            let eqn = &program.eqns()[index];
            let mut of_eqn = Some(Vec::new());
            if !is_cheap(self.groups, index) {
                of_eqn = None;
            }
            for at in eqn.operands.iter().filter_map(|&var| self.position_defining(var)) {
                let Some(found) = &mut of_eqn else { break };
                match &sources[at] {
                    _ if statuses[at] != Status::Unavailable => {}
                    Some(inner) => found.extend(inner),
                    None => found.push(at),
                }
            }
            let of_eqn = of_eqn.and_then(|mut found| {
                found.sort_unstable();
                found.dedup();
                (found.len() <= MAX_SOURCES).then_some(found)
            });
            let is_returned_alone = || eqn.results.iter().any(|&var| is_used_alone[var as usize]);
            if let Some(found) = &of_eqn
                && status == Status::Returned
                && !is_returned_alone()
            {
                *saved.entry(found.clone()).or_default() += bytes(position);
            }
            sources.push(of_eqn);
        }
        let smaller = saved.into_iter().filter(|(found, saved)| {
            let cost: usize = found.iter().map(|&source| bytes(source)).sum();
            cost < *saved
        });
        smaller.flat_map(|(found, _)| found).collect()
    }
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
