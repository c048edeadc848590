//! [`build`]: the functions of repeated parts.

use super::group::{Group, Groups};
use crate::core::lowering::{PartCall, PartFunction};
use crate::core::{Eqn, Loc, Program, Var};
use rustc_hash::FxHashMap;

/// The equations of a group's copies, with those that they compute again.
struct Bodies<'a> {
    program: &'a Program,
    /// The equations of each copy.
    copies: Vec<Vec<usize>>,
    /// For each operand of each position, the position and result that define it; `None` for a
    /// value of another part. All copies agree.
    origins: Vec<Vec<Option<(usize, usize)>>>,
}

impl<'a> Bodies<'a> {
    fn of(program: &'a Program, group: &Group) -> Bodies<'a> {
        let both = group.recomputed.iter().zip(&group.copies);
        let copies: Vec<Vec<usize>> =
            both.map(|(recomputed, own)| recomputed.iter().chain(own).copied().collect()).collect();
        let defined: Vec<FxHashMap<Var, (usize, usize)>> = copies
            .iter()
            .map(|copy| {
                let results = copy.iter().enumerate().flat_map(|(position, &index)| {
                    let results = program.eqns()[index].results.iter().enumerate();
                    results.map(move |(result, &var)| (var, (position, result)))
                });
                results.collect()
            })
            .collect();
        let mut bodies = Bodies { program, copies, origins: Vec::new() };
        for position in 0..bodies.copies[0].len() {
            let n_operands = bodies.eqn(0, position).operands.len();
            let origin = |operand: usize| {
                let of = |copy: usize| {
                    let var = bodies.eqn(copy, position).operands[operand];
                    defined[copy].get(&var).copied().filter(|&(at, _)| at < position)
                };
                let first = of(0);
                first.filter(|_| (1..bodies.copies.len()).all(|copy| of(copy) == first))
            };
            let origins = (0..n_operands).map(origin).collect();
            bodies.origins.push(origins);
        }
        bodies
    }

    fn eqn(&self, copy: usize, position: usize) -> &'a Eqn {
        &self.program.eqns()[self.copies[copy][position]]
    }

    /// Returns the variables of an operand in all copies.
    fn operands(&self, position: usize, operand: usize) -> Vec<Var> {
        let copies = 0..self.copies.len();
        copies.map(|copy| self.eqn(copy, position).operands[operand]).collect()
    }

    /// Returns the positions and indices of the operands that come from elsewhere.
    fn inputs(&self) -> impl Iterator<Item = (usize, usize)> {
        self.origins.iter().enumerate().flat_map(|(position, origins)| {
            let inputs = origins.iter().enumerate().filter(|(_, origin)| origin.is_none());
            inputs.map(move |(operand, _)| (position, operand))
        })
    }
}

/// Builds the functions of all groups and the variables of their calls.
pub(super) fn build(groups: &Groups<'_>) -> Vec<PartFunction> {
    let bodies = bodies(groups);
    let is_needed = needed(groups, &bodies);
    let each = bodies.iter().zip(&groups.groups);
    each.map(|(bodies, group)| part(bodies, group.recomputed[0].len(), &is_needed)).collect()
}

fn bodies<'a>(groups: &Groups<'a>) -> Vec<Bodies<'a>> {
    groups.groups.iter().map(|group| Bodies::of(groups.program, group)).collect()
}

/// Marks the variables that are used outside of the copy that defines them.
pub(super) fn needed_outside(groups: &Groups<'_>) -> Vec<bool> {
    needed(groups, &bodies(groups))
}

fn needed(groups: &Groups<'_>, bodies: &[Bodies<'_>]) -> Vec<bool> {
    let mut is_needed = groups.used_outside_of_parts();
    for bodies in bodies {
        for (position, operand) in bodies.inputs() {
            let vars = bodies.operands(position, operand);
            vars.into_iter().for_each(|var| is_needed[var as usize] = true);
        }
    }
    is_needed
}

/// Returns `loc` in the scope that it shares with all others.
fn common_scope(others: impl Iterator<Item = Loc>, loc: Loc) -> Loc {
    others.fold(loc, Loc::in_common_scope)
}

/// Builds the function of a part whose first `n_recomputed` equations belong to others.
fn part(bodies: &Bodies<'_>, n_recomputed: usize, is_needed: &[bool]) -> PartFunction {
    let (program, n_copies) = (bodies.program, bodies.copies.len());
    let n = bodies.origins.len();
    let mut avals = Vec::new();
    let mut inputs: Vec<Var> = Vec::new();
    let mut operands: Vec<Vec<Var>> = Vec::new();
    // Operands that are equal in every copy are one input.
    let mut known: FxHashMap<Vec<Var>, Var> = FxHashMap::default();
    let mut eqns: Vec<Eqn> = Vec::with_capacity(n);
    for position in 0..n {
        let mut eqn = bodies.eqn(n_copies / 2, position).clone();
        eqn.loc = common_scope((0..n_copies).map(|copy| bodies.eqn(copy, position).loc), eqn.loc);
        for (at, operand) in eqn.operands.iter_mut().enumerate() {
            *operand = match bodies.origins[position][at] {
                Some((inner, result)) => eqns[inner].results[result],
                None => *known.entry(bodies.operands(position, at)).or_insert_with_key(|vars| {
                    let input = avals.len() as Var;
                    avals.push(program.aval(*operand).clone());
                    inputs.push(input);
                    operands.push(vars.clone());
                    input
                }),
            };
        }
        for var in &mut eqn.results {
            let number = avals.len() as Var;
            avals.push(program.aval(*var).clone());
            *var = number;
        }
        eqns.push(eqn);
    }
    let of_copy = |copy: usize, (position, result): (usize, usize)| {
        bodies.eqn(copy, position).results[result]
    };
    let own = n_recomputed..n;
    let own_results = own.clone().flat_map(|position| {
        (0..eqns[position].results.len()).map(move |result| (position, result))
    });
    let is_used =
        |&at: &(usize, usize)| (0..n_copies).any(|copy| is_needed[of_copy(copy, at) as usize]);
    let results: Vec<(usize, usize)> = own_results.filter(is_used).collect();
    let output = |&(position, result): &(usize, usize)| eqns[position].results[result];
    let outputs: Vec<Var> = results.iter().map(output).collect();
    let calls = (0..n_copies).map(|copy| PartCall {
        operands: operands.iter().map(|vars| vars[copy]).collect(),
        results: results.iter().map(|&at| of_copy(copy, at)).collect(),
        loc: {
            let first = bodies.eqn(copy, own.start).loc;
            common_scope(own.clone().map(|position| bodies.eqn(copy, position).loc), first)
        },
    });
    let (calls, loc) = (calls.collect(), eqns[own.start].loc);
    PartFunction { body: Program::new(&avals, &inputs, eqns, &outputs), calls, loc }
}
