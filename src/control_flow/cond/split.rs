//! Splitting a choice into what is known ahead and the rest.

use super::Cond;
use crate::control_flow::masked::marked;
use crate::control_flow::partial::{PartialEval, partial_eval};
use crate::control_flow::scan::grow;
use crate::core::{Aval, Half, Program, Split, SplitOperand};
use crate::passes;
use crate::primitives::zeros_of;
use crate::transforms::staging::trace_rules;
use std::sync::Arc;

/// Known is what is known in every branch. Residuals of different branches share a place if they
/// are of one type; where the chosen branch has none, there are zeros.
pub(super) fn split(cond: &Cond, known: &[bool]) -> Option<Split> {
    let [true, known @ ..] = known else { return None };
    let n_out = cond.n_out();
    let mut unknown = vec![false; n_out];
    let halves: Vec<Arc<PartialEval>> = loop {
        let halves: Vec<Arc<PartialEval>> =
            cond.branches.iter().map(|branch| partial_eval(branch, known, &unknown)).collect();
        let found = |half: &PartialEval| -> Vec<bool> {
            half.outputs.iter().map(Half::is_unknown).collect()
        };
        if halves.iter().filter(|half| grow(&mut unknown, &found(half))).count() == 0
            || halves.iter().all(|half| found(half) == unknown)
        {
            break halves;
        }
    };
    if halves.iter().all(|half| half.is_idle()) {
        return None;
    }
    Some(Joined::of(&halves, known).split(&halves, known))
}

/// What the halves of all branches have in common.
struct Joined {
    n_known: usize,
    /// Known operands that some unknown half uses as they are.
    handed_on: Vec<usize>,
    /// The types of the places for residuals.
    places: Vec<Aval>,
    /// For each branch, which of its known half's outputs, behind the known results, stands where.
    residuals: Vec<Vec<(usize, usize)>>,
}

impl Joined {
    fn of(halves: &[Arc<PartialEval>], known: &[bool]) -> Joined {
        let n_known = halves[0].outputs.iter().filter(|output| output.is_known()).count();
        let mut joined =
            Joined { n_known, handed_on: Vec::new(), places: Vec::new(), residuals: Vec::new() };
        for half in halves {
            let mut residuals: Vec<(usize, usize)> = Vec::new();
            for source in &half.sources {
                match *source {
                    SplitOperand::Operand(at) if known[at] && !joined.handed_on.contains(&at) => {
                        joined.handed_on.push(at);
                    }
                    SplitOperand::Known(at) if at >= n_known => {
                        let aval = half.known.aval(half.known.outputs()[at]);
                        let taken = |place: usize| residuals.iter().any(|&(_, p)| p == place);
                        let free = (0..joined.places.len())
                            .find(|&place| joined.places[place] == *aval && !taken(place));
                        let place = free.unwrap_or_else(|| {
                            joined.places.push(aval.clone());
                            joined.places.len() - 1
                        });
                        residuals.push((at, place));
                    }
                    SplitOperand::Operand(_) | SplitOperand::Known(_) => {}
                }
            }
            joined.residuals.push(residuals);
        }
        joined
    }

    /// The known half of a branch, with something in every place.
    fn known_branch(&self, half: &PartialEval, residuals: &[(usize, usize)]) -> Program {
        trace_rules(half.known.avals_in(), |inputs| {
            let outputs = passes::eval(&half.known, inputs);
            let in_place = |(place, aval): (usize, &Aval)| {
                let mine = residuals.iter().find(|&&(_, other)| other == place);
                mine.map_or_else(|| zeros_of(aval), |&(at, _)| outputs[at].clone())
            };
            let places = self.places.iter().enumerate().map(in_place);
            outputs[..self.n_known].iter().cloned().chain(places).collect()
        })
    }

    fn split(&self, halves: &[Arc<PartialEval>], known: &[bool]) -> Split {
        // What every unknown half takes, in order.
        let sources: Vec<SplitOperand> = (0..known.len())
            .filter(|&at| !known[at])
            .chain(self.handed_on.iter().copied())
            .map(SplitOperand::Operand)
            .chain((0..self.n_known + self.places.len()).map(SplitOperand::Known))
            .collect();
        let places = halves.iter().zip(&self.residuals);
        // Known results serve as residuals too, if a branch needs them.
        let mut needed = vec![false; sources.len()];
        let positions: Vec<Vec<usize>> = places
            .clone()
            .map(|(half, residuals)| {
                let position = |source: &SplitOperand| {
                    let placed = match *source {
                        SplitOperand::Known(at) if at >= self.n_known => {
                            let mine = residuals.iter().find(|&&(residual, _)| residual == at);
                            let (_, place) = mine.expect("every residual has its place");
                            SplitOperand::Known(self.n_known + place)
                        }
                        other => other,
                    };
                    let at = sources.iter().position(|&other| other == placed);
                    at.expect("every source is among those of all branches")
                };
                half.sources.iter().map(position).collect()
            })
            .collect();
        for &at in positions.iter().flatten() {
            needed[at] = true;
        }
        let avals: Vec<Aval> = self.source_avals(halves, &positions, &needed);
        let unknown = halves.iter().zip(&positions).map(|(half, positions)| {
            let inputs = (0..sources.len()).filter(|&at| needed[at]).zip(&avals);
            let inputs: Vec<Result<usize, Aval>> = inputs
                .map(|(at, aval)| {
                    positions.iter().position(|&other| other == at).ok_or_else(|| aval.clone())
                })
                .collect();
            half.unknown.with_inputs(&inputs)
        });
        let unknown = Cond::of(unknown);
        let ahead = places.map(|(half, residuals)| self.known_branch(half, residuals));
        let shifted = |source: SplitOperand| match source {
            SplitOperand::Operand(at) => SplitOperand::Operand(at + 1),
            known => known,
        };
        let operands = marked(&sources, &needed).into_iter().map(shifted);
        let known_operands = (0..known.len()).filter(|&at| known[at]).map(|at| at + 1);
        Split {
            known: Arc::new(Cond::of(ahead)),
            known_operands: std::iter::once(0).chain(known_operands).collect(),
            unknown: Arc::new(unknown),
            unknown_operands: std::iter::once(SplitOperand::Operand(0)).chain(operands).collect(),
            outputs: halves[0].outputs.clone(),
        }
    }

    /// The types of the needed sources, each as some branch takes it.
    fn source_avals(
        &self,
        halves: &[Arc<PartialEval>],
        positions: &[Vec<usize>],
        needed: &[bool],
    ) -> Vec<Aval> {
        let aval = |at: usize| {
            halves.iter().zip(positions).find_map(|(half, positions)| {
                let input = positions.iter().position(|&other| other == at)?;
                Some(half.unknown.aval(half.unknown.inputs()[input]).clone())
            })
        };
        let each = (0..needed.len()).filter(|&at| needed[at]);
        each.map(|at| aval(at).expect("a needed source is taken by some branch")).collect()
    }
}
