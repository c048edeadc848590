//! The partitioning of values over a mesh, by dimension.

use super::region::{Region, Step};
use crate::core::{Mesh, PartitionSpec, RunCount};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// A set of mesh axes, one bit each.
pub(crate) type Axes = u64;

/// The axes that partition each dimension of a value.
pub(crate) type DimAxes = Vec<Axes>;

/// The partitioning of each input of a region, and whether it is pinned.
type Inputs = Vec<(DimAxes, bool)>;

/// The partitionings that were computed, by the address of the region and its inputs.
///
/// Every pass over a region propagates through the programs that its steps hold, and loops do so
/// twice. Without it, a level of nesting would multiply the work by four.
type Computed<'m> = Rc<RefCell<FxHashMap<(*const Region, Inputs), Rc<Partitioning<'m>>>>>;

/// The sizes of the axes of a mesh.
#[derive(Clone, Copy)]
pub(crate) struct Grid<'m>(pub(crate) &'m Mesh);

impl<'m> Grid<'m> {
    /// Returns the set of these axes. Names that the mesh does not have are ignored.
    pub(crate) fn axes<'a>(self, names: impl IntoIterator<Item = &'a String>) -> Axes {
        let index = |name: &String| self.sizes().position(|(axis, _)| axis == name);
        names.into_iter().filter_map(index).fold(0, |axes, index| axes | 1 << index)
    }

    /// Returns the number of parts along these axes.
    pub(crate) fn parts(self, axes: Axes) -> u64 {
        let sizes = self.sizes().enumerate();
        sizes.filter(|(i, _)| axes >> i & 1 == 1).map(|(_, (_, size))| *size as u64).product()
    }

    /// Returns the axes for which the set has bits.
    fn sizes(self) -> impl Iterator<Item = &'m (String, usize)> {
        self.0.axes().iter().take(Axes::BITS as usize)
    }

    /// Returns the names of these axes, in the order of the mesh.
    pub(crate) fn names(self, axes: Axes) -> Vec<String> {
        let sizes = self.sizes().enumerate();
        sizes.filter(|(i, _)| axes >> i & 1 == 1).map(|(_, (name, _))| name.clone()).collect()
    }

    /// Returns the spec of a partitioning.
    pub(crate) fn spec(self, cut: &[Axes]) -> PartitionSpec {
        let len = cut.iter().rposition(|&axes| axes != 0).map_or(0, |last| last + 1);
        PartitionSpec(cut[..len].iter().map(|&axes| self.names(axes).into()).collect())
    }

    /// Returns the axes of each dimension for a spec and a rank.
    pub(crate) fn dim_axes(self, spec: &PartitionSpec, rank: usize) -> DimAxes {
        (0..rank).map(|dim| self.axes(spec.along(dim))).collect()
    }
}

/// Returns the union of the axes of all dimensions.
pub(crate) fn all_axes(cut: &[Axes]) -> Axes {
    cut.iter().fold(0, |all, axes| all | axes)
}

/// The partitioning of the values of a region, an estimate of the compiler's result.
///
/// It starts from the shardings of the arguments, propagates them forwards along [sharding
/// rules](crate::core::ShardingRule), then backwards to values that are not partitioned yet.
pub(crate) struct Partitioning<'m> {
    pub(crate) grid: Grid<'m>,
    of: Vec<DimAxes>,
    /// True for values whose sharding is fixed by the user.
    pinned: Vec<bool>,
    computed: Computed<'m>,
}

impl<'m> Partitioning<'m> {
    /// Propagates the partitioning of inputs. Inputs that are not pinned may be partitioned
    /// further.
    pub(crate) fn of(region: &Region, inputs: Inputs, grid: Grid<'m>) -> Rc<Partitioning<'m>> {
        Partitioning::known_or_new(region, inputs, grid, &Computed::default())
    }

    fn known_or_new(
        region: &Region,
        inputs: Inputs,
        grid: Grid<'m>,
        computed: &Computed<'m>,
    ) -> Rc<Partitioning<'m>> {
        let key = (std::ptr::from_ref(region), inputs);
        if let Some(known) = computed.borrow().get(&key) {
            return known.clone();
        }
        let new = Rc::new(Partitioning::new(region, key.1.clone(), grid, computed));
        computed.borrow_mut().insert(key, new.clone());
        new
    }

    fn new(
        region: &Region,
        inputs: Inputs,
        grid: Grid<'m>,
        computed: &Computed<'m>,
    ) -> Partitioning<'m> {
        let of = region.avals.iter().map(|aval| vec![0; aval.rank()]).collect();
        let pinned = vec![false; region.avals.len()];
        let mut cuts = Partitioning { grid, of, pinned, computed: computed.clone() };
        for (&value, (cut, pinned)) in region.inputs.iter().zip(inputs) {
            cuts.pinned[value] |= pinned;
            cuts.of[value] = cut;
        }
        cuts.forwards(region);
        cuts.backwards(region);
        cuts.forwards(region);
        cuts
    }

    /// Returns the axes of each dimension of a value.
    pub(crate) fn cut(&self, value: usize) -> &DimAxes {
        &self.of[value]
    }

    /// Partitions a dimension along more axes: those that no other dimension uses, as long as its
    /// size is divisible.
    fn add(&mut self, region: &Region, value: usize, dim: usize, axes: Axes) {
        if self.pinned[value] {
            return;
        }
        let mut remaining = axes & !all_axes(&self.of[value]);
        while remaining != 0 {
            let axis = remaining & remaining.wrapping_neg();
            remaining &= !axis;
            let candidate = self.of[value][dim] | axis;
            let size = region.avals[value].shape[dim] as u64;
            if size > 0 && size.is_multiple_of(self.grid.parts(candidate)) {
                self.of[value][dim] = candidate;
            }
        }
    }

    /// Adds axes to all dimensions.
    fn join(&mut self, region: &Region, value: usize, cut: &DimAxes) {
        for (dim, &axes) in cut.iter().enumerate() {
            self.add(region, value, dim, axes);
        }
    }

    fn forwards(&mut self, region: &Region) {
        for step in &region.steps {
            if let Some(specs) = step.primitive.result_specs() {
                for (&result, spec) in step.results.iter().zip(specs) {
                    self.of[result] = self.grid.dim_axes(spec, region.avals[result].rank());
                }
                // Unconstrained dimensions keep the axes of the operand.
                for (result, dim, operand, from) in dims(region, step) {
                    let at = step.results.iter().position(|&own| own == result);
                    if at.is_some_and(|at| specs[at].is_unconstrained(dim)) {
                        let axes = self.of[operand][from];
                        self.pinned[result] = false;
                        self.add(region, result, dim, axes);
                    }
                }
                for &result in &step.results {
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

    /// Returns the partitioning of the results of a step that holds programs.
    fn results(&self, region: &Region, step: &Step) -> Vec<DimAxes> {
        let mut found: Vec<DimAxes> =
            step.results.iter().map(|&result| vec![0; region.avals[result].rank()]).collect();
        for held in held(region, step).into_iter().flatten() {
            let inner = self.within(step, &held);
            for (result, &output) in found.iter_mut().zip(&held.region.outputs) {
                // Stacked results of a loop have an additional dimension.
                let cut = inner.cut(output);
                let Some(more) = result.len().checked_sub(cut.len()) else { continue };
                result.iter_mut().skip(more).zip(cut).for_each(|(own, axes)| *own |= axes);
            }
        }
        found
    }

    /// Returns the partitioning of a program that a step holds.
    pub(crate) fn within(&self, step: &Step, held: &HeldProgram<'_>) -> Rc<Partitioning<'m>> {
        let manual = match held.run {
            RunCount::Devices(_) => self.manual(step),
            _ => 0,
        };
        let mut inputs: Inputs = (0..held.region.inputs.len())
            .map(|at| {
                let rank = held.region.avals[held.region.inputs[at]].rank();
                let cut = &self.of[step.operands[held.first + at]];
                // Scanned operands of a loop have an additional dimension outside.
                let skipped = cut.len().saturating_sub(rank);
                let cut = cut[skipped..].iter().map(|axes| axes & !manual).collect();
                (cut, !held.carries.contains(&at))
            })
            .collect();
        let inner = self.of_held(held.region, inputs.clone());
        if held.carries.is_empty() {
            return inner;
        }
        // The outputs of one iteration are the inputs of the next.
        for (at, &output) in held.carries.clone().zip(&held.region.outputs) {
            let (own, next) = (&mut inputs[at].0, inner.cut(output));
            let mut used = all_axes(own);
            for (own, axes) in own.iter_mut().zip(next) {
                *own |= axes & !used;
                used |= axes;
            }
        }
        self.of_held(held.region, inputs)
    }

    /// Returns the partitioning of a program within this one.
    pub(crate) fn of_held(&self, region: &Region, inputs: Inputs) -> Rc<Partitioning<'m>> {
        Partitioning::known_or_new(region, inputs, self.grid, &self.computed)
    }

    /// Returns the manual axes of a `shard_map`.
    fn manual(&self, step: &Step) -> Axes {
        let params = step.primitive.params();
        let names = params["axes"].as_array().into_iter().flatten();
        let names: Vec<String> = names.filter_map(|it| it.as_str().map(String::from)).collect();
        self.grid.axes(&names)
    }
}

/// Returns related dimensions of a step: result, its dimension, operand, its dimension.
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
pub(crate) struct HeldProgram<'r> {
    pub(crate) run: RunCount,
    pub(crate) region: &'r Region,
    /// The operand of the step that is the first input of the program.
    pub(crate) first: usize,
    /// The carried inputs, which are the first outputs of the previous iteration.
    pub(crate) carries: Range<usize>,
}

impl HeldProgram<'_> {
    /// Returns pairs of operand and result of the step for each carried value.
    fn carried(&self) -> impl Iterator<Item = (usize, usize)> {
        let operands = self.carries.clone().map(|at| at + self.first);
        operands.enumerate().map(|(result, operand)| (operand, result))
    }
}

/// Returns, for each program that a step holds, the position of its inputs among the operands.
///
/// It is `None` for the condition of a loop, which is small, and for an unknown order of operands.
pub(crate) fn held<'r>(region: &Region, step: &'r Step) -> Vec<Option<HeldProgram<'r>>> {
    let ranks = |values: &[usize], of: &Region| -> Vec<usize> {
        values.iter().map(|&value| of.avals[value].rank()).collect()
    };
    let place = |run: RunCount, inner: &'r Region, first: usize, carries: Range<usize>| {
        let fits = first + inner.inputs.len() <= step.operands.len();
        fits.then_some(HeldProgram { run, region: inner, first, carries })
    };
    match step.inner.as_slice() {
        [(RunCount::Unknown, cond), (run @ RunCount::Unknown, body)] => {
            let (inputs, n_carry) = (body.inputs.len(), body.outputs.len());
            let n_cond = cond.inputs.len().saturating_sub(n_carry);
            vec![None, place(*run, body, n_cond, inputs.saturating_sub(n_carry)..inputs)]
        }
        [(run @ RunCount::Times(_), body)] => {
            // Stacked results and scanned operands have an additional dimension outside.
            let (outputs, results) = (ranks(&body.outputs, body), ranks(&step.results, region));
            let n_carry = outputs.iter().zip(&results).filter(|(inner, outer)| inner == outer);
            let (inputs, operands) = (ranks(&body.inputs, body), ranks(&step.operands, region));
            let n_over = inputs.iter().zip(&operands).filter(|(inner, outer)| inner < outer);
            let end = inputs.len() - n_over.count();
            vec![place(*run, body, 0, end.saturating_sub(n_carry.count())..end)]
        }
        // The first operand of a choice is the index of the branch.
        inner => inner
            .iter()
            .map(|(run, inner)| place(*run, inner, usize::from(*run == RunCount::Choice), 0..0))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Array, Aval, DType, Device, Mesh};
    use crate::p;
    use crate::prelude::{fori_loop, make_program, tanh};

    /// A product in loops that are nested this deep.
    fn nested(depth: usize, x: Array, w: &Array) -> Array {
        match depth {
            0 => tanh(x.matmul(w)),
            _ => fori_loop(0, 2, |_: Array, x: Array| nested(depth - 1, x, w), x),
        }
    }

    #[test]
    fn work_is_linear_in_the_depth_of_loops() {
        let devices: Vec<Device> = (0..8).map(|id| Device::new(id, 0, "cpu", "", true)).collect();
        let mesh = Mesh::new(devices, [("data", 8)]).unwrap();
        let grid = Grid(&mesh);
        let computed = |depth: usize| {
            let square = Aval::new(DType::F32, [16, 16]);
            let f = move |x: Array, w: Array| nested(depth, x, &w);
            let program = make_program(f, (square.clone(), square)).unwrap();
            let region = Region::of(&program);
            let inputs = [p!["data"], p![]].map(|spec| (grid.dim_axes(&spec, 2), true));
            let cuts = Partitioning::of(&region, inputs.to_vec(), grid);
            assert_eq!(cuts.cut(region.outputs[0]), &vec![1, 0]);
            cuts.computed.borrow().len()
        };
        assert_eq!([2, 4, 8].map(computed), [3, 5, 9]);
    }
}
