//! How values lie on a mesh, by dimension: what is cut along which axes.

use super::region::{Region, Step};
use crate::core::{Mesh, PartitionSpec, RunCount};
use std::ops::Range;

/// Axes of a mesh, one bit each.
pub(super) type Axes = u64;

/// For each dimension of a value, the axes that it is cut along.
pub(super) type Cut = Vec<Axes>;

/// How many parts there are along each axis of a mesh.
#[derive(Clone, Copy)]
pub(super) struct Grid<'m>(pub(super) &'m Mesh);

impl<'m> Grid<'m> {
    /// The bit of each of these axes that the mesh has.
    pub(super) fn axes<'a>(self, names: impl IntoIterator<Item = &'a String>) -> Axes {
        let at = |name: &String| self.sizes().position(|(own, _)| own == name);
        names.into_iter().filter_map(at).fold(0, |all, at| all | 1 << at)
    }

    /// How many parts these axes cut into.
    pub(super) fn parts(self, axes: Axes) -> u64 {
        let sizes = self.sizes().enumerate();
        sizes.filter(|(at, _)| axes >> at & 1 == 1).map(|(_, (_, size))| *size as u64).product()
    }

    /// The axes that there are bits for.
    fn sizes(self) -> impl Iterator<Item = &'m (String, usize)> {
        self.0.axes().iter().take(Axes::BITS as usize)
    }

    /// What a spec says of a value of this rank.
    pub(super) fn cut(self, spec: &PartitionSpec, rank: usize) -> Cut {
        (0..rank).map(|dim| self.axes(spec.along(dim))).collect()
    }
}

/// All axes that a value is cut along.
pub(super) fn all(cut: &[Axes]) -> Axes {
    cut.iter().fold(0, |all, axes| all | axes)
}

/// How the values of a region lie, as the compiler's partitioner is likely to have it: arguments as they are given, and
/// from there forwards along [sharding rules](crate::core::ShardingRule), then back to what has no cut yet.
pub(super) struct Cuts<'m> {
    pub(super) grid: Grid<'m>,
    of: Vec<Cut>,
    /// Values that lie as the user says.
    pinned: Vec<bool>,
}

impl<'m> Cuts<'m> {
    /// Of a region whose inputs lie so; what is not `pinned` may be cut further.
    pub(super) fn of(region: &Region, inputs: Vec<(Cut, bool)>, grid: Grid<'m>) -> Cuts<'m> {
        let of = region.avals.iter().map(|aval| vec![0; aval.rank()]).collect();
        let mut cuts = Cuts { grid, of, pinned: vec![false; region.avals.len()] };
        for (&value, (cut, pinned)) in region.inputs.iter().zip(inputs) {
            cuts.pinned[value] |= pinned;
            cuts.of[value] = cut;
        }
        cuts.forwards(region);
        cuts.backwards(region);
        cuts.forwards(region);
        cuts
    }

    /// How a value lies.
    pub(super) fn cut(&self, value: usize) -> &Cut {
        &self.of[value]
    }

    /// Cuts a dimension along more axes: of those that no other dimension has, as far as its size divides.
    fn add(&mut self, region: &Region, value: usize, dim: usize, axes: Axes) {
        if self.pinned[value] {
            return;
        }
        let mut rest = axes & !all(&self.of[value]);
        while rest != 0 {
            let axis = rest & rest.wrapping_neg();
            rest &= !axis;
            let wanted = self.of[value][dim] | axis;
            let size = region.avals[value].shape[dim] as u64;
            if size > 0 && size.is_multiple_of(self.grid.parts(wanted)) {
                self.of[value][dim] = wanted;
            }
        }
    }

    /// Adds a whole cut.
    fn join(&mut self, region: &Region, value: usize, cut: &Cut) {
        for (dim, &axes) in cut.iter().enumerate() {
            self.add(region, value, dim, axes);
        }
    }

    fn forwards(&mut self, region: &Region) {
        for step in &region.steps {
            if let Some(specs) = step.primitive.result_specs() {
                for (&result, spec) in step.results.iter().zip(specs) {
                    self.of[result] = self.grid.cut(spec, region.avals[result].rank());
                    self.pinned[result] = true;
                }
            } else if step.inner.is_empty() {
                for (result, dim, operand, from) in dims(region, step) {
                    let axes = self.of[operand][from];
                    self.add(region, result, dim, axes);
                }
            } else {
                for (result, cut) in step.results.iter().zip(self.results(region, step)) {
                    self.join(region, *result, &cut);
                }
            }
        }
    }

    fn backwards(&mut self, region: &Region) {
        for step in region.steps.iter().rev() {
            if step.inner.is_empty() {
                for (result, dim, operand, from) in dims(region, step) {
                    let axes = self.of[result][dim];
                    self.add(region, operand, from, axes);
                }
            } else {
                for held in held(region, step).into_iter().flatten() {
                    for (operand, result) in held.carried() {
                        let cut = self.of[step.results[result]].clone();
                        self.join(region, step.operands[operand], &cut);
                    }
                }
            }
        }
    }

    /// How the results of a step that holds programs lie.
    fn results(&self, region: &Region, step: &Step) -> Vec<Cut> {
        let mut found: Vec<Cut> =
            step.results.iter().map(|&result| vec![0; region.avals[result].rank()]).collect();
        for held in held(region, step).into_iter().flatten() {
            let inner = self.within(step, &held);
            for (result, &output) in found.iter_mut().zip(&held.region.outputs) {
                // What a loop stacks has one dimension more.
                let cut = inner.cut(output);
                let Some(more) = result.len().checked_sub(cut.len()) else { continue };
                result.iter_mut().skip(more).zip(cut).for_each(|(own, axes)| *own |= axes);
            }
        }
        found
    }

    /// How the values of a program lie that a step holds.
    pub(super) fn within(&self, step: &Step, held: &Held<'_>) -> Cuts<'m> {
        let manual = match held.run {
            RunCount::Devices(_) => self.manual(step),
            _ => 0,
        };
        let mut inputs: Vec<(Cut, bool)> = (0..held.region.inputs.len())
            .map(|at| {
                let rank = held.region.avals[held.region.inputs[at]].rank();
                let cut = &self.of[step.operands[held.first + at]];
                // What a loop goes over has one dimension more outside.
                let skipped = cut.len().saturating_sub(rank);
                let cut = cut[skipped..].iter().map(|axes| axes & !manual).collect();
                (cut, !held.carries.contains(&at))
            })
            .collect();
        let inner = Cuts::of(held.region, inputs.clone(), self.grid);
        if held.carries.is_empty() {
            return inner;
        }
        // What comes out of a loop's step goes into the next.
        for (at, &output) in held.carries.clone().zip(&held.region.outputs) {
            let (own, next) = (&mut inputs[at].0, inner.cut(output));
            let mut used = all(own);
            for (own, axes) in own.iter_mut().zip(next) {
                *own |= axes & !used;
                used |= axes;
            }
        }
        Cuts::of(held.region, inputs, self.grid)
    }

    /// The axes along which devices compute their own in a `shard_map`.
    fn manual(&self, step: &Step) -> Axes {
        let params = step.primitive.params();
        let names = params["axes"].as_array().into_iter().flatten();
        let names: Vec<String> = names.filter_map(|it| it.as_str().map(String::from)).collect();
        self.grid.axes(&names)
    }
}

/// The dimensions of a step that go together: result, its dimension, operand, its dimension.
fn dims(region: &Region, step: &Step) -> Vec<(usize, usize, usize, usize)> {
    let mut found = Vec::new();
    for (at, &result) in step.results.iter().enumerate() {
        for dim in 0..region.avals[result].rank() {
            let along = step.rule.along(at, dim).iter();
            found.extend(along.map(|&(operand, from)| (result, dim, step.operands[operand], from)));
        }
    }
    found
}

/// A program that a step holds.
pub(super) struct Held<'r> {
    run: RunCount,
    region: &'r Region,
    /// The operand that is its first input.
    first: usize,
    /// Its inputs that are its first outputs the next time.
    carries: Range<usize>,
}

impl Held<'_> {
    /// Operands and results of the step that are one carried value.
    fn carried(&self) -> impl Iterator<Item = (usize, usize)> {
        let operands = self.carries.clone().map(|at| at + self.first);
        operands.enumerate().map(|(result, operand)| (operand, result))
    }
}

/// Of each program that a step holds, where its inputs are among the step's operands; `None` of a loop's condition, which
/// is small, and of what follows no order that is known.
pub(super) fn held<'r>(region: &Region, step: &'r Step) -> Vec<Option<Held<'r>>> {
    let ranks = |values: &[usize], of: &Region| -> Vec<usize> {
        values.iter().map(|&value| of.avals[value].rank()).collect()
    };
    let place = |run: RunCount, inner: &'r Region, first: usize, carries: Range<usize>| {
        let fits = first + inner.inputs.len() <= step.operands.len();
        fits.then_some(Held { run, region: inner, first, carries })
    };
    match step.inner.as_slice() {
        [(RunCount::Unknown, cond), (run @ RunCount::Unknown, body)] => {
            let (inputs, n_carry) = (body.inputs.len(), body.outputs.len());
            let n_cond = cond.inputs.len().saturating_sub(n_carry);
            vec![None, place(*run, body, n_cond, inputs.saturating_sub(n_carry)..inputs)]
        }
        [(run @ RunCount::Times(_), body)] => {
            // What it stacks and what it goes over has a dimension more outside.
            let (outputs, results) = (ranks(&body.outputs, body), ranks(&step.results, region));
            let n_carry = outputs.iter().zip(&results).filter(|(inner, outer)| inner == outer);
            let (inputs, operands) = (ranks(&body.inputs, body), ranks(&step.operands, region));
            let n_over = inputs.iter().zip(&operands).filter(|(inner, outer)| inner < outer);
            let end = inputs.len() - n_over.count();
            vec![place(*run, body, 0, end.saturating_sub(n_carry.count())..end)]
        }
        // A choice's first operand says which.
        inner => inner
            .iter()
            .map(|(run, inner)| place(*run, inner, usize::from(*run == RunCount::Choice), 0..0))
            .collect(),
    }
}
