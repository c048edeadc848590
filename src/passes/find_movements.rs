//! Finds the [`Movement`]s of a program.

use super::movement::{Movement, MovementReason, ShardedValue};
use super::partitioning::{Axes, DimAxes, Grid, HeldProgram, Partitioning, all_axes, held};
use super::plan::Plan;
use super::region::{Region, Step};
use crate::core::{Access, Loc, Program, SourceLine};
use std::rc::Rc;

/// Returns the movements of a program with the shardings of `plan`, in program order. `inputs` are
/// the names of its inputs, and `outputs` the paths of its outputs. Empty on one device.
pub(crate) fn movements(
    program: &Program,
    plan: &Plan,
    inputs: &[String],
    outputs: &[String],
) -> Vec<Movement> {
    let Some(mesh) = plan.mesh().filter(|mesh| mesh.devices().len() > 1) else {
        return Vec::new();
    };
    let (grid, region) = (Grid(mesh), Region::of(program));
    let partitions = region.inputs.iter().enumerate().map(|(index, &value)| {
        let rank = region.avals[value].rank();
        let sharding = plan.inputs.get(index);
        let axes = sharding.map_or(vec![0; rank], |it| grid.dim_axes(it.spec(), rank));
        (axes, sharding.is_some())
    });
    let cuts = Partitioning::of(&region, partitions.collect(), grid);
    let mut names = vec![ValueName::default(); region.avals.len()];
    for (index, &value) in region.inputs.iter().enumerate() {
        let name = inputs.get(index).cloned().unwrap_or_else(|| format!("input {index}"));
        names[value] = ValueName { text: Some(name), input: Some(index) };
    }
    let mut finder = Finder { grid, found: Vec::new() };
    finder.region(&region, &cuts, names.clone(), &region.outputs);
    for (index, (&value, requested)) in region.outputs.iter().zip(&plan.outputs).enumerate() {
        let Some(requested) = requested else { continue };
        let asked = grid.dim_axes(requested.spec(), region.avals[value].rank());
        let path = outputs.get(index).cloned().unwrap_or_else(|| index.to_string());
        let estimated = moved_axes(cuts.cut(value), &asked);
        // The compiler may have split it along other axes than those of the estimate.
        let others = !all_axes(&asked) & !estimated;
        for (axes, spec) in [(estimated, Some(grid.spec(cuts.cut(value)))), (others, None)] {
            let axes = grid.names(axes);
            if axes.is_empty() {
                continue;
            }
            let name = match names[value].input {
                Some(_) => value_name(&region, &names, value, Loc::UNKNOWN),
                None => format!("result `{path}`"),
            };
            finder.found.push(Movement {
                loc: region.maker(value).map_or(Loc::UNKNOWN, |step| step.loc),
                operation: "",
                axes,
                inputs: names[value].input.into_iter().collect(),
                bytes: None,
                source: None,
                output: None,
                result: Some(index),
                reason: MovementReason::Requested {
                    value: ShardedValue { name, spec: spec.map(|spec| spec.to_string()) },
                    by: "out_shardings".into(),
                    spec: requested.spec().to_string(),
                },
            });
        }
    }
    finder.found
}

/// The name of a value, and the input of the program that it is.
#[derive(Clone, Debug, Default)]
struct ValueName {
    text: Option<String>,
    input: Option<usize>,
}

/// Returns the axes along which a value has to move to be split as `asked`: those that split one of
/// its dimensions, and not the same one of `asked`.
fn moved_axes(cut: &[Axes], asked: &[Axes]) -> Axes {
    cut.iter().zip(asked).fold(0, |moved, (own, asked)| moved | (own & !asked))
}

/// Returns the name of a value, for an operation at `loc`.
fn value_name(region: &Region, names: &[ValueName], value: usize, loc: Loc) -> String {
    if let Some(text) = &names[value].text {
        return text.clone();
    }
    let Some(maker) = region.maker(value) else { return "an operand".into() };
    let operation = format!("the result of `{}`", maker.primitive.name());
    match (SourceLine::of(maker.loc), SourceLine::of(loc)) {
        (Some(own), other) if other.as_ref() != Some(&own) => format!("{operation} at {own}"),
        _ => operation,
    }
}

/// Walks over regions.
struct Finder<'m> {
    grid: Grid<'m>,
    found: Vec<Movement>,
}

/// A region with the partitioning and the names of its values.
#[derive(Clone, Copy)]
struct Scene<'a, 'm> {
    region: &'a Region,
    cuts: &'a Partitioning<'m>,
    names: &'a [ValueName],
    /// The outputs of the program, if it is its region.
    outputs: &'a [usize],
}

impl<'m> Finder<'m> {
    fn region(
        &mut self,
        region: &Region,
        cuts: &Rc<Partitioning<'m>>,
        mut names: Vec<ValueName>,
        outputs: &[usize],
    ) {
        name_moved_inputs(region, &mut names);
        let scene = Scene { region, cuts, names: &names, outputs };
        for step in &region.steps {
            self.requests(scene, step);
            if step.inner.is_empty() {
                self.operation(scene, step);
                continue;
            }
            for held in held(region, step).into_iter().flatten() {
                let inner = cuts.within(step, &held);
                self.carries(scene, step, &held, &inner);
                let names = inner_names(scene, step, &held);
                self.region(held.region, &inner, names, &[]);
            }
        }
    }

    fn value(&self, scene: Scene<'_, 'm>, step: &Step, value: usize) -> ShardedValue {
        let name = value_name(scene.region, scene.names, value, step.loc);
        ShardedValue { name, spec: Some(self.grid.spec(scene.cuts.cut(value)).to_string()) }
    }

    /// Returns the bytes of a value on one device, if it is not split along these axes.
    fn bytes(&self, scene: Scene<'_, 'm>, value: usize, without: Axes) -> u64 {
        let parts = self.grid.parts(all_axes(scene.cuts.cut(value)) & !without);
        scene.region.bytes(value) / parts.max(1)
    }

    fn push(
        &mut self,
        scene: Scene<'_, 'm>,
        step: &Step,
        axes: Axes,
        moved: &[usize],
        reason: MovementReason,
    ) {
        let maker = moved.first().and_then(|&value| scene.region.maker(value));
        let bytes = match (&reason, moved, step.results.as_slice()) {
            (MovementReason::Combines { .. }, _, &[result]) => Some(self.bytes(scene, result, 0)),
            (MovementReason::Combines { .. } | MovementReason::Written(_), ..) => None,
            (_, &[value], _) => Some(self.bytes(scene, value, axes)),
            _ => None,
        };
        self.found.push(Movement {
            loc: step.loc,
            operation: step.primitive.name(),
            axes: self.grid.names(axes),
            bytes,
            source: maker.map(|maker| (maker.loc, maker.primitive.name())),
            inputs: moved.iter().filter_map(|&value| scene.names[value].input).collect(),
            output: step
                .results
                .iter()
                .find_map(|&result| scene.outputs.iter().position(|&output| output == result)),
            result: None,
            reason,
        });
    }

    /// Finds operands whose sharding is fixed by the operation, and results for constraints.
    fn requests(&mut self, scene: Scene<'_, 'm>, step: &Step) {
        let primitive = &step.primitive;
        let specs = match (primitive.operand_specs(), step.inner.is_empty()) {
            (Some(specs), _) => specs,
            (None, true) => primitive.result_specs().unwrap_or_default(),
            (None, false) => return,
        };
        for (&operand, spec) in step.operands.iter().zip(specs) {
            let cut = scene.cuts.cut(operand);
            let asked = self.grid.dim_axes(spec, cut.len()).into_iter().enumerate();
            // A dimension that is left to the compiler stays as it is.
            let asked: DimAxes = asked
                .map(|(dim, axes)| if spec.is_unconstrained(dim) { cut[dim] } else { axes })
                .collect();
            let axes = moved_axes(cut, &asked);
            if axes != 0 {
                let reason = MovementReason::Requested {
                    value: self.value(scene, step, operand),
                    by: primitive.name().into(),
                    spec: spec.to_string(),
                };
                self.push(scene, step, axes, &[operand], reason);
            }
        }
    }

    fn operation(&mut self, scene: Scene<'_, 'm>, step: &Step) {
        if let Some(communication) = step.primitive.communication() {
            let kind = communication.kind;
            self.push(scene, step, 0, &step.operands, MovementReason::Written(kind));
            if let Some(last) = self.found.last_mut() {
                last.axes = communication.axes;
            }
            return;
        }
        if step.primitive.result_specs().is_some() {
            return;
        }
        self.combined(scene, step);
        self.differing(scene, step);
        for (index, &operand) in step.operands.iter().enumerate() {
            for (dim, &axes) in scene.cuts.cut(operand).iter().enumerate() {
                if axes != 0 && reads_along(scene.region, step, index, dim) {
                    let name = value_name(scene.region, scene.names, operand, step.loc);
                    let reason = MovementReason::Reads(name, dim);
                    self.push(scene, step, axes, &[operand], reason);
                }
            }
        }
    }

    /// Finds split dimensions of operands along which the operation combines elements.
    fn combined(&mut self, scene: Scene<'_, 'm>, step: &Step) {
        if !step.rule.combines() {
            return;
        }
        let mut by_axes: Vec<(Axes, Vec<(usize, usize)>)> = Vec::new();
        for (index, &operand) in step.operands.iter().enumerate() {
            for (dim, &axes) in scene.cuts.cut(operand).iter().enumerate() {
                if axes == 0 || step.rule.is_kept(index, dim) {
                    continue;
                }
                match by_axes.iter_mut().find(|(other, _)| *other == axes) {
                    Some((_, terms)) => terms.push((operand, dim)),
                    None => by_axes.push((axes, vec![(operand, dim)])),
                }
            }
        }
        for (axes, terms) in by_axes {
            let moved: Vec<usize> = terms.iter().map(|(operand, _)| *operand).collect();
            let name = |value| value_name(scene.region, scene.names, value, step.loc);
            let is_partial = step.contraction.is_none() || terms.len() >= step.operands.len();
            let terms = terms.into_iter().map(|(value, dim)| (name(value), dim)).collect();
            let reason = MovementReason::Combines { terms, is_partial };
            self.push(scene, step, axes, &moved, reason);
        }
    }

    /// Finds operands that are split along an axis that the result does not have there.
    fn differing(&mut self, scene: Scene<'_, 'm>, step: &Step) {
        for (index, &operand) in step.operands.iter().enumerate() {
            let cut = scene.cuts.cut(operand);
            let mut lost = 0;
            for (at, &result) in step.results.iter().enumerate() {
                for (dim, &own) in scene.cuts.cut(result).iter().enumerate() {
                    let along = step.rule.along(at, dim).iter();
                    let from = along.filter(|(other, _)| *other == index);
                    lost |= from.fold(0, |lost, &(_, from)| lost | (cut[from] & !own));
                }
            }
            // Axes of a dimension that the operation combines, which the result is split along.
            let results = step.results.iter().map(|&result| all_axes(scene.cuts.cut(result)));
            let results = results.fold(0, |all, axes| all | axes);
            for (dim, axes) in cut.iter().enumerate() {
                if step.rule.combines() && !step.rule.is_kept(index, dim) {
                    lost |= axes & results;
                }
            }
            if lost == 0 {
                continue;
            }
            let is_other =
                |&&other: &&usize| other != operand && all_axes(scene.cuts.cut(other)) & lost != 0;
            let mut others: Vec<usize> = step.operands.iter().filter(is_other).copied().collect();
            if others.is_empty() {
                others.extend(step.results.first());
            }
            let name_result = |value: usize| {
                let mut value_of = self.value(scene, step, value);
                if step.results.contains(&value) {
                    value_of.name = "the result".into();
                }
                value_of
            };
            let others = others.into_iter().map(name_result).collect();
            let own = self.value(scene, step, operand);
            self.push(scene, step, lost, &[operand], MovementReason::Differs(own, others));
        }
    }

    /// Finds carried values whose sharding an iteration changes.
    fn carries(
        &mut self,
        scene: Scene<'_, 'm>,
        step: &Step,
        held: &HeldProgram<'_>,
        inner: &Partitioning<'m>,
    ) {
        for (at, &output) in held.carries.clone().zip(&held.region.outputs) {
            let operand = step.operands[held.first + at];
            let (start, next) = (scene.cuts.cut(operand), inner.cut(output));
            let axes = moved_axes(start, next) | moved_axes(next, start);
            if axes != 0 {
                let next = self.grid.spec(next).to_string();
                let start = self.value(scene, step, operand);
                self.push(scene, step, axes, &[operand], MovementReason::Carry { start, next });
            }
        }
    }
}

/// Names the results of transposes, broadcasts and the like after the arguments that they move.
fn name_moved_inputs(region: &Region, names: &mut [ValueName]) {
    for step in &region.steps {
        let (&[operand], &[result]) = (step.operands.as_slice(), step.results.as_slice()) else {
            continue;
        };
        let moves = step.inner.is_empty() && step.cost.access == Access::Movement;
        if let ValueName { text: Some(text), input: Some(input) } = &names[operand]
            && moves
        {
            // The last one of several.
            let argument = text.rsplit(" of ").next().unwrap_or(text);
            let text = format!("the `{}` of {argument}", step.primitive.name());
            names[result] = ValueName { text: Some(text), input: Some(*input) };
        }
    }
}

/// Returns true if a step may read other elements along a dimension of an operand than those with
/// the index of its results.
fn reads_along(region: &Region, step: &Step, index: usize, dim: usize) -> bool {
    let (rule, is_kept) = (&step.rule, step.rule.is_kept(index, dim));
    if is_kept && rule.combines() {
        return false;
    }
    let in_place = || rule.along(0, dim).contains(&(index, dim));
    match step.cost.access {
        Access::Pointwise | Access::Reduction => false,
        Access::Movement => !is_kept || in_place(),
        Access::Whole => {
            // Of a product, devices add their parts. Windows of a convolution cross them.
            let lhs = region.avals[step.operands[0]].shape.iter().enumerate();
            let summed = lhs.filter(|(dim, _)| !rule.is_kept(0, *dim)).map(|(_, &size)| size);
            step.contraction.is_none_or(|product| product.k != summed.product::<usize>())
        }
    }
}

/// Returns the names of the values of a program that a step holds.
fn inner_names(scene: Scene<'_, '_>, step: &Step, held: &HeldProgram<'_>) -> Vec<ValueName> {
    let mut names = vec![ValueName::default(); held.region.avals.len()];
    for (at, &value) in held.region.inputs.iter().enumerate() {
        let operand = step.operands[held.first + at];
        let outer = || value_name(scene.region, scene.names, operand, step.loc);
        let ranks = (held.region.avals[value].rank(), scene.region.avals[operand].rank());
        names[value] = if held.carries.contains(&at) {
            let name = format!("carry {} of `{}`", at - held.carries.start, step.primitive.name());
            ValueName { text: Some(name), input: None }
        } else if ranks.0 < ranks.1 {
            ValueName { text: Some(format!("a slice of {}", outer())), input: None }
        } else {
            ValueName { text: Some(outer()), input: scene.names[operand].input }
        };
    }
    names
}
