//! `cond`: one of several programs, chosen by a number.

mod function;

pub use function::{cond, switch};

use super::derived::{
    Derived, batch_of, jvp_of, marked, same_size, tangents_of, transpose_of, with_kept_inputs,
    with_used_outputs,
};
use super::partial::{PartialEval, partial_eval};
use super::scan::grow;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Effects, Error, Exemplar, HigherOrder, LowerCtx,
    Operand, Primitive, Program, Pruned, Rule, RuleError, Sample, Source, Split, Tangent, bind,
};
use crate::passes;
use crate::primitives::rules::{batch_at, move_axis};
use crate::primitives::{broadcast_in_dim, cos, eq, select, sin, zeros_of};
use crate::stablehlo::{TensorType, Value};
use crate::transforms::staging::trace_rules;
use crate::transforms::vmap::batch_program;
use crate::{ensure, ensure_dtype, ensure_shape};
use serde::Serialize;
use std::sync::Arc;

/// Applies the program whose number is given; only that one runs.
///
/// | | |
/// |-|-|
/// | operands   | `index: i32[]`, then what every branch takes |
/// | results    | those of the chosen branch; all branches give the same types. A number that no branch has chooses the last |
/// | lowering   | [`stablehlo.case`](https://openxla.org/stablehlo/spec#case) |
/// | batching   | over `index`: all branches run and results are selected |
/// | derivative | a choice among the branches' derivatives; what the chosen one keeps for the way back stands beside zeros for the others |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[doc(alias = "case")]
pub struct Cond {
    /// The programs.
    #[serde(skip)]
    pub branches: Vec<Arc<Program>>,
}

impl Cond {
    fn of(branches: impl IntoIterator<Item = Program>) -> Cond {
        Cond { branches: branches.into_iter().map(Arc::new).collect() }
    }

    fn n_out(&self) -> usize {
        self.branches[0].outputs().len()
    }

    /// Derives a program from each branch, where what one branch has something for, all must have.
    fn derived(
        &self,
        n: usize,
        derive: impl Fn(&Program, &[bool]) -> Derived,
    ) -> (Cond, Vec<bool>) {
        let mut force = vec![false; n];
        loop {
            let branches: Vec<Derived> =
                self.branches.iter().map(|branch| derive(branch, &force)).collect();
            let grown = branches.iter().map(|branch| grow(&mut force, &branch.marks));
            let grown = grown.filter(|grown| *grown).count() > 0;
            // The first round finds out; if all branches agree there is no second.
            if !grown || branches.iter().all(|branch| branch.marks == force) {
                return (Cond::of(branches.into_iter().map(|branch| branch.program)), force);
            }
        }
    }
}

impl Primitive for Cond {
    fn name(&self) -> &'static str {
        "cond"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> Rule<Vec<Aval>> {
        let [index, operands @ ..] = operands else {
            return Err(RuleError::value("takes a number and operands, got nothing"));
        };
        ensure_dtype!(
            index.same_type(&Aval::new(DType::I32, [])),
            "the branch's number must be i32[], got {index}"
        );
        let Some(first) = self.branches.first() else {
            return Err(RuleError::value("has no branches"));
        };
        let mut results = first.avals_out();
        for (number, branch) in self.branches.iter().enumerate() {
            let inputs = branch.avals_in();
            ensure!(
                inputs.len() == operands.len(),
                "branch {number} takes {} operands, got {}",
                inputs.len(),
                operands.len()
            );
            for (position, (operand, input)) in operands.iter().zip(&inputs).enumerate() {
                ensure_shape!(
                    operand.same_type(input),
                    "branch {number} takes {input} at {position}, got {operand}"
                );
            }
            let outputs = branch.avals_out();
            ensure!(
                outputs.len() == results.len(),
                "branch {number} gives {} results, branch 0 gives {}",
                outputs.len(),
                results.len()
            );
            for (position, (result, output)) in results.iter_mut().zip(&outputs).enumerate() {
                ensure_shape!(
                    result.same_type(output),
                    "branch {number} gives {output} at {position}, branch 0 gives {result}"
                );
                result.weak &= output.weak;
            }
        }
        Ok(results)
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> Rule<(Vec<Array>, Vec<Tangent>)> {
        let varies: Vec<bool> = tangents[1..].iter().map(|tangent| !tangent.is_zero()).collect();
        let n_out = self.n_out();
        let (derivative, marks) =
            self.derived(n_out, |branch, force| jvp_of(branch, &varies, force));
        let dense = tangents.iter().filter_map(Tangent::array);
        let operands: Vec<&Array> = primals.iter().chain(dense).collect();
        let mut results = bind(derivative, &operands);
        let tangents = results.split_off(n_out);
        let avals: Vec<Aval> = results.iter().map(|array| array.aval().clone()).collect();
        let tangents = tangents_of(&marks, avals, tangents);
        Ok((results, tangents))
    }

    fn batch(&self, operands: &[Array], axes: &[Option<usize>], axis: &BatchAxis) -> Rule<Batched> {
        if let Some(at) = axes[0] {
            let index = move_axis(&operands[0], at, 0);
            let outputs = self.selected(&index, &operands[1..], &axes[1..], axis);
            let axes = vec![Some(0); outputs.len()];
            return Ok(Batched { outputs, axes });
        }
        let mapped: Vec<bool> = axes[1..].iter().map(Option::is_some).collect();
        let (batched, marks) =
            self.derived(self.n_out(), |branch, force| batch_of(branch, &mapped, force, axis));
        let placed = operands.iter().zip(axes).map(|(x, &at)| match at {
            Some(at) => move_axis(x, at, 0),
            None => x.clone(),
        });
        let placed: Vec<Array> = placed.collect();
        let outputs = bind(batched, &placed.iter().collect::<Vec<_>>());
        let axes = marks.iter().map(|mark| mark.then_some(0)).collect();
        Ok(Batched { outputs, axes })
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> Rule<Vec<Value>> {
        let mut regions = Vec::with_capacity(self.branches.len());
        for branch in &self.branches {
            let (outside, _) = ctx.open_region(&[]);
            let outputs = ctx.inline(branch, &operands[1..])?;
            regions.push(ctx.close_region(outside, &outputs));
        }
        let types: Vec<TensorType> = results.iter().map(Aval::stablehlo).collect();
        Ok(ctx.op_full("case", &operands[..1], "", regions, &types))
    }

    /// That of the most expensive branch, by each count.
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let costs = self.branches.iter().map(|branch| passes::cost(branch));
        let most = costs.fold(Cost::default(), |a, b| Cost {
            flops: a.flops.max(b.flops),
            transcendentals: a.transcendentals.max(b.transcendentals),
            bytes: a.bytes.max(b.bytes),
        });
        most + Cost::movement(operands, results)
    }

    fn effects(&self) -> Effects {
        let effects = self.branches.iter().map(|branch| branch.effects());
        effects.fold(Effects::None, Effects::and)
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> Rule<Vec<Option<Tangent>>> {
        let [Operand::Known(index), operands @ ..] = operands else {
            return Err(RuleError::not_linear("cond"));
        };
        let linear: Vec<bool> = operands.iter().map(Operand::is_linear).collect();
        let there: Vec<bool> = cts.iter().map(|ct| !ct.is_zero()).collect();
        let n_linear = linear.iter().filter(|linear| **linear).count();
        let (transposed, marks) =
            self.derived(n_linear, |branch, force| transpose_of(branch, &linear, &there, force));
        let known = operands.iter().filter_map(Operand::known);
        let dense = cts.iter().filter_map(Tangent::array);
        let arguments: Vec<&Array> = std::iter::once(index).chain(known).chain(dense).collect();
        let found = match marks.contains(&true) {
            true => bind(transposed, &arguments),
            false => Vec::new(),
        };
        let avals = operands.iter().filter(|x| x.is_linear()).map(|x| x.aval().clone());
        let mut found = tangents_of(&marks, avals, found).into_iter();
        let ct = |linear: bool| linear.then(|| found.next().expect("one per linear operand"));
        Ok(std::iter::once(None).chain(linear.iter().map(|&linear| linear).map(ct)).collect())
    }

    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        Some(self)
    }
}

impl Cond {
    /// All branches on a batch, and for each example the results of the one that its number names.
    fn selected(
        &self,
        index: &Array,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> Vec<Array> {
        let mut each = self.branches.iter().map(|branch| {
            let (outputs, axes) = batch_program(branch, operands, axes, axis);
            let placed = outputs.iter().zip(axes).map(|(x, at)| batch_at(x, at, 0, axis));
            placed.collect::<Vec<Array>>()
        });
        let last = each.next_back().expect("there is a branch");
        each.enumerate().fold(last, |selected, (number, outputs)| {
            let chosen = eq(index, number as i32);
            let pairs = outputs.iter().zip(&selected);
            pairs
                .map(|(x, other)| select(&broadcast_in_dim(&chosen, x.shape(), &[0]), x, other))
                .collect()
        })
    }
}

impl HigherOrder for Cond {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        self.branches.iter().map(|branch| ("branch", &**branch)).collect()
    }

    /// Known is what is known in every branch. Residuals of different branches share a place if they
    /// are of one type; where the chosen branch has none, there are zeros.
    fn split(&self, known: &[bool]) -> Option<Split> {
        let [true, known @ ..] = known else { return None };
        let n_out = self.n_out();
        let mut unknown = vec![false; n_out];
        let halves: Vec<PartialEval> = loop {
            let halves: Vec<PartialEval> =
                self.branches.iter().map(|branch| partial_eval(branch, known, &unknown)).collect();
            let found = |half: &PartialEval| -> Vec<bool> {
                half.outputs.iter().map(Result::is_err).collect()
            };
            if halves.iter().filter(|half| grow(&mut unknown, &found(half))).count() == 0
                || halves.iter().all(|half| found(half) == unknown)
            {
                break halves;
            }
        };
        if halves.iter().all(PartialEval::is_idle) {
            return None;
        }
        Some(Joined::of(&halves, known).split(&halves, known))
    }

    fn prune(&self, used: &[bool]) -> Option<Pruned> {
        let each: Vec<(Program, Vec<bool>)> =
            self.branches.iter().map(|branch| with_used_outputs(branch, used)).collect();
        let mut kept = vec![false; self.branches[0].inputs().len()];
        for (_, inputs) in &each {
            grow(&mut kept, inputs);
        }
        let sizes = each.iter().zip(&self.branches);
        let unchanged = sizes.filter(|((now, _), before)| !same_size(now, before)).count() == 0;
        if !used.contains(&false) && !kept.contains(&false) && unchanged {
            return None;
        }
        let branches = each.iter().map(|(branch, _)| with_kept_inputs(branch, &kept));
        let operands = (0..kept.len()).filter(|&at| kept[at]).map(|at| at + 1);
        Some(Pruned {
            primitive: Arc::new(Cond::of(branches)),
            operands: std::iter::once(0).chain(operands).collect(),
            results: (0..used.len()).filter(|&at| used[at]).collect(),
        })
    }

    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        let index = operands[0].item::<i32>()?;
        let last = self.branches.len() - 1;
        let number = usize::try_from(index).map_or(last, |number| number.min(last));
        Ok(passes::eval(&self.branches[number], &operands[1..]))
    }
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
    fn of(halves: &[PartialEval], known: &[bool]) -> Joined {
        let n_known = halves[0].outputs.iter().filter(|output| output.is_ok()).count();
        let mut joined =
            Joined { n_known, handed_on: Vec::new(), places: Vec::new(), residuals: Vec::new() };
        for half in halves {
            let mut residuals: Vec<(usize, usize)> = Vec::new();
            for source in &half.sources {
                match *source {
                    Source::Operand(at) if known[at] && !joined.handed_on.contains(&at) => {
                        joined.handed_on.push(at);
                    }
                    Source::Known(at) if at >= n_known => {
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
                    Source::Operand(_) | Source::Known(_) => {}
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

    fn split(&self, halves: &[PartialEval], known: &[bool]) -> Split {
        // What every unknown half takes, in order.
        let sources: Vec<Source> = (0..known.len())
            .filter(|&at| !known[at])
            .chain(self.handed_on.iter().copied())
            .map(Source::Operand)
            .chain((0..self.n_known + self.places.len()).map(Source::Known))
            .collect();
        let places = halves.iter().zip(&self.residuals);
        // Known results serve as residuals too, if a branch needs them.
        let mut needed = vec![false; sources.len()];
        let positions: Vec<Vec<usize>> = places
            .clone()
            .map(|(half, residuals)| {
                let position = |source: &Source| {
                    let placed = match *source {
                        Source::Known(at) if at >= self.n_known => {
                            let mine = residuals.iter().find(|&&(residual, _)| residual == at);
                            let (_, place) = mine.expect("every residual has its place");
                            Source::Known(self.n_known + place)
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
        let shifted = |source: Source| match source {
            Source::Operand(at) => Source::Operand(at + 1),
            known => known,
        };
        let operands = marked(&sources, &needed).into_iter().map(shifted);
        let known_operands = (0..known.len()).filter(|&at| known[at]).map(|at| at + 1);
        Split {
            known: Arc::new(Cond::of(ahead)),
            known_operands: std::iter::once(0).chain(known_operands).collect(),
            unknown: Arc::new(unknown),
            unknown_operands: std::iter::once(Source::Operand(0)).chain(operands).collect(),
            outputs: halves[0].outputs.clone(),
        }
    }

    /// The types of the needed sources, each as some branch takes it.
    fn source_avals(
        &self,
        halves: &[PartialEval],
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

pub(super) fn make(_: serde_json::Value, programs: Vec<Program>) -> Rule<Arc<dyn Primitive>> {
    ensure!(!programs.is_empty(), "cond holds at least one program, got none");
    Ok(Arc::new(Cond::of(programs)))
}

pub(super) fn exemplars() -> Vec<Exemplar> {
    let f64s = || Aval::new(DType::F64, [2]);
    let branch = |body: fn(&[Array]) -> Vec<Array>| trace_rules([f64s(), f64s()], body);
    let three = Cond::of([
        branch(|x| vec![sin(&x[0]) * &x[1], x[1].clone()]),
        branch(|x| vec![x[0].clone(), cos(&(&x[0] * &x[1]))]),
        branch(|x| vec![zeros_of(x[0].aval()), &x[0] * &x[0]]),
    ]);
    let counts = Aval::new(DType::I32, [2]);
    let integers = Cond::of([
        trace_rules([counts.clone()], |x| vec![x[0].clone()]),
        trace_rules([counts.clone()], |x| vec![&x[0] + 1]),
    ]);
    let floats = || Sample::uniform(DType::F64, [2], -1.0, 1.0);
    vec![
        // Another branch in each example of a batch, and numbers that no branch has.
        Exemplar::new(
            three.clone(),
            [Sample::uniform(DType::I32, [], 0.0, 3.0), floats(), floats()],
        ),
        Exemplar::new(three.clone(), [Sample::listed(DType::I32, [], &[-1.0]), floats(), floats()]),
        Exemplar::new(three, [Sample::listed(DType::I32, [], &[1.0]), floats(), floats()]),
        Exemplar::new(
            integers,
            [Sample::uniform(DType::I32, [], 0.0, 2.0), Sample::uniform(DType::I32, [2], 0.0, 9.0)],
        ),
    ]
}
