//! `shard_map`: a program that each device of a mesh runs on its own shards.

mod exemplars;
mod interpret;
mod split;
mod spmd_batch;

pub(super) use exemplars::exemplars;

use crate::control_flow::closure::vary_outputs;
use crate::control_flow::derive::{
    Derived, batch_front, bind_derivative, front_axes, jvp_of, mapped_of, operand_cotangents,
    split_program, transpose_of, with_front_axes,
};
use crate::control_flow::parse;
use crate::control_flow::pruning::prune_call;
use crate::core::manual_axes::{DimSharding, Manual};
use crate::core::{
    Array, Aval, AxisSpec, BatchAxis, Batched, Cost, Dense, Effects, Error, HigherOrder, JvpResult,
    Known, LowerCtx, Mapped, Marks, Mesh, NamedSharding, Operand, PartitionSpec, Primitive,
    Program, Pruned, RuleError, RuleResult, RunCount, Shape, SplitEqn, Spmd, Tangent, Used,
    Varying, bind, bind1,
};
use crate::passes;
use crate::primitives::{PSum, mul, scalar};
use crate::stablehlo::Value;
use crate::transforms::staging::trace_rules;
use crate::{ensure, ensure_shape};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The parameters of a [`ShardMap`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShardMapping {
    /// The name of the function, for printing.
    pub name: String,
    /// The devices.
    pub mesh: Mesh,
    /// The manual axes: devices along them run the program on their own shards. Along the other
    /// axes the compiler partitions the program.
    pub axes: Vec<String>,
    /// The sharding of each operand.
    pub in_specs: Vec<PartitionSpec>,
    /// The sharding of each result.
    pub out_specs: Vec<PartitionSpec>,
    /// True if types record the axes over which values vary. If false, a value is assumed to be
    /// equal along the axes that its spec does not mention.
    pub tracked: bool,
}

/// Runs a program on each device, on that device's shards.
///
/// | | |
/// |-|-|
/// | operands   | those of the program; each dimension is larger by the number of shards in its spec |
/// | results    | those of the program, assembled as their specs state |
/// | lowering   | `sdy.manual_computation` |
/// | derivative | that of the program, with the same mapping |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct ShardMap {
    /// The mesh and the shardings.
    #[serde(flatten)]
    pub mapping: ShardMapping,
    /// The program of one device.
    #[serde(skip)]
    pub program: Arc<Program>,
}

impl ShardMapping {
    /// Returns the type of the array whose shards have the type `aval`.
    fn global_aval(&self, aval: &Aval, spec: &PartitionSpec) -> Aval {
        let n_shards = |axis: usize| self.mesh.count(spec.along(axis));
        let dims = aval.shape.iter().enumerate().map(|(axis, size)| size * n_shards(axis));
        let varying = aval.varying.without(&self.axes);
        let global = aval.with_shape(dims.collect::<Shape>()).with_varying(varying);
        Aval { sharding: self.global_sharding(aval, spec), ..global }
    }

    /// Returns the sharding, over explicit axes of the mesh, of the array whose shards have the
    /// type `aval`.
    fn global_sharding(&self, aval: &Aval, spec: &PartitionSpec) -> Option<NamedSharding> {
        if !self.mesh.has_explicit_axes() {
            return None;
        }
        let of_shard = |axis: usize| {
            let sharding = aval.sharding.as_ref();
            sharding.map(|sharding| sharding.spec().along(axis)).unwrap_or_default()
        };
        let axes = (0..aval.rank())
            .map(|axis| AxisSpec::from([spec.along(axis), of_shard(axis)].concat()));
        let sharding = NamedSharding::checked(&self.mesh, PartitionSpec(axes.collect())).ok()?;
        sharding.explicit_part()
    }

    /// Returns the manual axes that a spec does not mention.
    fn unmentioned(&self, spec: &PartitionSpec) -> Vec<String> {
        let mentioned: Vec<&String> = spec.mentioned().collect();
        self.axes.iter().filter(|axis| !mentioned.contains(axis)).cloned().collect()
    }

    /// Returns the manual axes over which a value of the program varies.
    fn varying_axes(&self, aval: &Aval) -> Vec<String> {
        let varies = |axis: &&String| !self.tracked || aval.varying.contains(axis);
        self.axes.iter().filter(varies).cloned().collect()
    }
}

/// Binds a traced program whose inputs are the shards of `operands`. Results are converted to vary
/// over the axes that their specs mention.
#[track_caller]
pub(crate) fn map_shards(
    mapping: ShardMapping,
    program: Program,
    operands: &[Array],
) -> Vec<Array> {
    let program = if mapping.tracked {
        let mut outputs = program.avals_out();
        for (aval, spec) in outputs.iter_mut().zip(&mapping.out_specs) {
            aval.varying = aval.varying.and(&Varying::over(spec.mentioned()));
        }
        vary_outputs(program, &outputs)
    } else {
        program
    };
    let primitive = ShardMap { mapping, program: Arc::new(program) };
    bind(primitive, &operands.iter().collect::<Vec<_>>())
}

impl ShardMap {
    /// Returns the same mapping of another program.
    fn with_program(
        &self,
        program: Arc<Program>,
        in_specs: Vec<PartitionSpec>,
        out_specs: Vec<PartitionSpec>,
    ) -> ShardMap {
        let mapping = ShardMapping { in_specs, out_specs, ..self.mapping.clone() };
        ShardMap { mapping, program }
    }

    /// Completes the transposed program of an untracked mapping. The cotangent of a result that is
    /// equal on several devices is divided among them. The cotangents of an operand that is equal
    /// on several devices are summed.
    fn sum_over_unmentioned_axes(
        &self,
        transposed: Derived<Marks<Dense>>,
        cts: &Marks<Dense>,
        known: &Marks<Known>,
    ) -> Derived<Marks<Dense>> {
        let ShardMapping { mesh, in_specs, out_specs, tracked, .. } = &self.mapping;
        if *tracked {
            return transposed;
        }
        let unmentioned = |specs: Vec<PartitionSpec>| -> Vec<Vec<String>> {
            specs.iter().map(|spec| self.mapping.unmentioned(spec)).collect()
        };
        let divided = unmentioned(cts.select(out_specs));
        let summed = unmentioned(transposed.results.select(&known.select_unmarked(in_specs)));
        let n_known = known.count();
        let program = trace_rules(transposed.program.avals_in(), |inputs| {
            let mut inputs = inputs.to_vec();
            for (ct, axes) in inputs[n_known..].iter_mut().zip(&divided) {
                let n_devices = mesh.count(axes);
                if n_devices > 1 {
                    *ct = mul(&*ct, scalar(1.0 / n_devices as f64));
                }
            }
            let mut cts = passes::eval(&transposed.program, &inputs);
            for (ct, axes) in cts.iter_mut().zip(&summed) {
                if !axes.is_empty() {
                    *ct = bind1(PSum::over(axes.clone()), [&*ct]);
                }
            }
            cts
        });
        Derived { program: Arc::new(program), ..transposed }
    }
}

/// Adds a batch axis in front to the specs of values that have one.
fn batched_specs(specs: &[PartitionSpec], mapped: &Marks<Mapped>) -> Vec<PartitionSpec> {
    let whole = AxisSpec::default();
    let batched = |(spec, is_mapped): (&PartitionSpec, bool)| match is_mapped {
        true => spec.with_axis_over(0, &whole),
        false => spec.clone(),
    };
    specs.iter().zip(mapped.iter()).map(batched).collect()
}

impl Primitive for ShardMap {
    fn name(&self) -> &'static str {
        "shard_map"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let ShardMapping { mesh, in_specs, out_specs, .. } = &self.mapping;
        let (inputs, outputs) = (self.program.avals_in(), self.program.avals_out());
        ensure!(
            operands.len() == inputs.len()
                && in_specs.len() == inputs.len()
                && out_specs.len() == outputs.len(),
            "takes {} operands and gives {} results, got {} operands and specs for {} and {}",
            inputs.len(),
            outputs.len(),
            operands.len(),
            in_specs.len(),
            out_specs.len()
        );
        for (index, (operand, input)) in operands.iter().zip(&inputs).enumerate() {
            let shard = operand.with_shape(in_specs[index].shard_shape(mesh, &operand.shape)?);
            ensure_shape!(
                shard.same_type(input),
                "operand {index} is {operand}, {shard} on each device; the program takes {input}"
            );
        }
        for (output, spec) in outputs.iter().zip(out_specs) {
            spec.check(mesh)?;
            ensure_shape!(
                spec.0.len() <= output.rank(),
                "{spec} names more axes than {output} has"
            );
        }
        Ok(outputs
            .iter()
            .zip(out_specs)
            .map(|(aval, spec)| self.mapping.global_aval(aval, spec))
            .collect())
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let ShardMapping { in_specs, out_specs, .. } = &self.mapping;
        let varying = Marks::of_tangents(tangents);
        let derivative = jvp_of(&self.program, &varying, &Marks::none(out_specs.len()));
        let derivative_in_specs = [&in_specs[..], &varying.select(in_specs)].concat();
        let derivative_out_specs = [&out_specs[..], &derivative.results.select(out_specs)].concat();
        let mapped =
            self.with_program(derivative.program, derivative_in_specs, derivative_out_specs);
        Ok(bind_derivative(mapped, primals, tangents, &derivative.results))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let ShardMapping { mesh, in_specs, out_specs, .. } = &self.mapping;
        if let Some(name) = axis.name.as_deref().filter(|name| mesh.size(name).is_some()) {
            let message = format!("`{name}` names the axis of `vmap` and one of {mesh}");
            return Err(RuleError::value(message).help("name one of them otherwise"));
        }
        let absent = |name: &&String| mesh.size(name).is_none();
        if let Some(name) = axis.spmd_axis_name.names().iter().find(absent) {
            return Err(RuleError::value(format!(
                "`{name}` is the spmd_axis_name of `vmap`, {mesh} has no axis of that name"
            ))
            .help("name an axis of the mesh"));
        }
        let is_manual = |name: &String| self.mapping.axes.contains(name);
        if axis.spmd_axis_name.names().iter().any(is_manual) {
            return self.batch_over_devices(operands, axes, axis);
        }
        let mapped = mapped_of(axes);
        let batched = batch_front(&self.program, &mapped, &Marks::none(out_specs.len()), axis);
        let out_specs = batched_specs(out_specs, &batched.results);
        let primitive =
            self.with_program(batched.program, batched_specs(in_specs, &mapped), out_specs);
        let operands = with_front_axes(operands, axes, &mapped, axis);
        let outputs = bind(primitive, &operands.iter().collect::<Vec<_>>());
        Ok(Batched { outputs, axes: front_axes(&batched.results) })
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let ShardMapping { name, mesh, axes, in_specs, out_specs, .. } = &self.mapping;
        if self.program.effects() == Effects::Ordered {
            let message =
                format!("`{name}` has ordered side effects, but devices have no common order");
            return Err(RuleError::unsupported(message).help("use unordered ones"));
        }
        let mut manual_axes: Vec<String> = Vec::new();
        if let Some(outer) = ctx.manual() {
            ensure!(
                outer.mesh == *mesh,
                "`{name}` maps over {mesh} inside of a map over {}",
                outer.mesh
            );
            if let Some(twice) = axes.iter().find(|axis| outer.axes.contains(axis)) {
                return Err(RuleError::value(format!(
                    "`{name}` maps over `{twice}` a second time"
                )));
            }
            manual_axes.clone_from(&outer.axes);
        }
        manual_axes.extend(axes.iter().cloned());
        // The compiler may shard over the axes that are not manual.
        let has_auto_axes = manual_axes.len() < mesh.axes().len();
        let dims = if has_auto_axes { DimSharding::Open } else { DimSharding::Closed };
        let mut list = |specs: &[PartitionSpec], ranks: &mut dyn Iterator<Item = usize>| {
            let texts: Vec<String> = specs
                .iter()
                .zip(ranks)
                .map(|(spec, rank)| ctx.spec(mesh, spec, rank, dims))
                .collect();
            format!("#sdy.sharding_per_value<[{}]>", texts.join(", "))
        };
        let in_shardings = list(in_specs, &mut operands.iter().map(|x| x.ty().dims().len()));
        let out_shardings = list(out_specs, &mut results.iter().map(Aval::rank));
        let manual: Vec<String> = axes.iter().map(|axis| format!("{axis:?}")).collect();
        let attributes = format!(
            "in_shardings = {in_shardings}, manual_axes = #sdy<manual_axes{{{}}}>, \
             out_shardings = {out_shardings}",
            manual.join(", ")
        );
        let types: Vec<_> = self.program.avals_in().iter().map(Aval::stablehlo).collect();
        let (outside, inputs) = ctx.open_region(&types);
        let region = Manual { mesh: mesh.clone(), axes: manual_axes };
        let outputs = ctx.with_manual(region, |ctx| ctx.inline(&self.program, &inputs))?;
        let body = ctx.close_region_with("sdy.return", outside, &outputs);
        let types: Vec<_> = results.iter().map(Aval::stablehlo).collect();
        Ok(ctx.op_full("sdy.manual_computation", operands, &attributes, vec![body], &types))
    }

    fn cost(&self, _: &[Aval], _: &[Aval]) -> Cost {
        passes::cost(&self.program).times(self.mapping.mesh.count(&self.mapping.axes))
    }

    fn effects(&self) -> Effects {
        self.program.effects()
    }

    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ShardMapping { in_specs, out_specs, .. } = &self.mapping;
        let known = Marks::of_operands(operands);
        let dense_cts = Marks::of_tangents(cts);
        let required = Marks::none(known.count_unmarked());
        let transposed = transpose_of(&self.program, &known, &dense_cts, &required);
        let transposed = self.sum_over_unmentioned_axes(transposed, &dense_cts, &known);
        let transposed_in_specs = [known.select(in_specs), dense_cts.select(out_specs)].concat();
        let transposed_out_specs = transposed.results.select(&known.select_unmarked(in_specs));
        let mapped =
            self.with_program(transposed.program, transposed_in_specs, transposed_out_specs);
        let values = operands.iter().filter_map(Operand::known);
        let arguments: Vec<&Array> = values.chain(cts.iter().filter_map(Tangent::array)).collect();
        let dense = bind(mapped, &arguments);
        Ok(operand_cotangents(operands, &transposed.results, dense))
    }

    fn as_higher_order(&self) -> Option<&dyn HigherOrder> {
        Some(self)
    }

    fn spmd(&self) -> Option<&dyn Spmd> {
        Some(self)
    }
}

impl Spmd for ShardMap {
    fn operand_varying(&self, _: &[Aval]) -> Option<Vec<Varying>> {
        let inputs = self.program.avals_in().into_iter();
        Some(inputs.map(|aval| aval.varying.without(&self.mapping.axes)).collect())
    }

    fn axis_names(&self) -> Option<Vec<String>> {
        let names = self.program.axis_names().iter();
        Some(names.filter(|name| !self.mapping.axes.contains(name)).cloned().collect())
    }

    fn mesh(&self) -> Option<&Mesh> {
        Some(&self.mapping.mesh)
    }

    fn result_specs(&self) -> Option<&[PartitionSpec]> {
        Some(&self.mapping.out_specs)
    }

    fn operand_specs(&self) -> Option<&[PartitionSpec]> {
        Some(&self.mapping.in_specs)
    }
}

impl HigherOrder for ShardMap {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        vec![("program", &self.program)]
    }

    fn run_counts(&self, _: &[Aval], _: &[Aval]) -> Vec<RunCount> {
        vec![RunCount::Devices(self.mapping.mesh.count(&self.mapping.axes))]
    }

    fn split(&self, known: &Marks<Known>) -> Option<SplitEqn> {
        let halves = split_program(&self.program, known)?;
        Some(self.map_halves(&halves, known))
    }

    fn prune(&self, used: &Marks<Used>) -> Option<Pruned> {
        let ShardMapping { in_specs, out_specs, .. } = &self.mapping;
        prune_call(&self.program, used, |program, inputs| {
            self.with_program(program, inputs.select(in_specs), used.select(out_specs))
        })
    }

    fn with_programs(&self, programs: Vec<Arc<Program>>) -> Option<Arc<dyn Primitive>> {
        let [program] = <[_; 1]>::try_from(programs).ok()?;
        Some(Arc::new(ShardMap { program, ..self.clone() }))
    }

    /// Compiles the program as a whole. To find a NaN, and in a replay, each equation is compiled
    /// as a map.
    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        interpret::interpret(self, operands)
    }
}

pub(super) fn make(
    params: serde_json::Value,
    programs: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    let mapping: ShardMapping = parse::parameters(params)?;
    let [program] = parse::exact("shard_map", programs)?;
    Ok(Arc::new(ShardMap { mapping, program: Arc::new(program) }))
}
