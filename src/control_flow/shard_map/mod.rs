//! `shard_map`: a program that each device of a mesh runs on its own shards.

mod exemplars;
mod split;

pub(super) use exemplars::exemplars;

use crate::control_flow::closure::{avals_of, levelled};
use crate::control_flow::masked::{
    Derived, batch_of, jvp_of, marked, tangents_of, transpose_of, with_kept_inputs,
    with_used_outputs,
};
use crate::control_flow::partial::partial_eval;
use crate::core::manual_axes::Manual;
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, Effects, Eqn, Error, HigherOrder, JvpResult, LowerCtx,
    Mesh, Operand, PartitionSpec, Primitive, Program, Pruned, RuleError, RuleResult, RunCount,
    Shape, Split, Spmd, Tangent, Varying, backend, bind, bind1,
};
use crate::passes;
use crate::primitives::rules::batch_at;
use crate::primitives::{PSum, mul, scalar};
use crate::stablehlo::Value;
use crate::transforms::staging::trace_rules;
use crate::{ensure, ensure_shape};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where and how a program is mapped over the devices of a mesh.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mapping {
    /// The function's name, for reading.
    pub name: String,
    /// The devices.
    pub mesh: Mesh,
    /// The axes along which devices compute their own; along the others the compiler spreads the program.
    pub axes: Vec<String>,
    /// How each operand is cut.
    pub in_specs: Vec<PartitionSpec>,
    /// How the results lie.
    pub out_specs: Vec<PartitionSpec>,
    /// Whether types say what varies. If not, what a spec does not mention is believed to be the same everywhere.
    pub tracked: bool,
}

/// Applies a program on each device to that device's shards.
///
/// | | |
/// |-|-|
/// | operands   | those of the program, along each axis as many times as large as its spec cuts it |
/// | results    | those of the program, put together as their specs say |
/// | lowering   | `sdy.manual_computation` |
/// | derivative | the program's, mapped alike |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct ShardMap {
    /// Where and how.
    #[serde(flatten)]
    pub mapping: Mapping,
    /// What one device computes.
    #[serde(skip)]
    pub program: Arc<Program>,
}

impl Mapping {
    /// How many devices a spec cuts over.
    fn parts(&self, spec: &PartitionSpec, at: usize) -> usize {
        self.mesh.count(spec.along(at))
    }

    /// The type of what the shards of one device are parts of.
    fn whole(&self, aval: &Aval, spec: &PartitionSpec) -> Aval {
        let dims = aval.shape.iter().enumerate().map(|(at, size)| size * self.parts(spec, at));
        let varying = aval.varying.without(&self.axes);
        aval.with_shape(dims.collect::<Shape>()).with_varying(varying)
    }

    /// The axes of the mapping that a spec does not mention.
    fn unmentioned(&self, spec: &PartitionSpec) -> Vec<String> {
        let mentioned: Vec<&String> = spec.mentioned().collect();
        self.axes.iter().filter(|axis| !mentioned.contains(axis)).cloned().collect()
    }

    /// The same with other operands and results.
    fn with_specs(&self, in_specs: Vec<PartitionSpec>, out_specs: Vec<PartitionSpec>) -> Mapping {
        Mapping { in_specs, out_specs, ..self.clone() }
    }

    /// The axes over which a value of the program differs from device to device.
    fn differing(&self, aval: &Aval) -> Vec<String> {
        let differs = |axis: &&String| !self.tracked || aval.varying.contains(axis);
        self.axes.iter().filter(differs).cloned().collect()
    }
}

/// Maps a traced program, whose inputs are the shards of `operands`. Results are made to vary as their specs say.
#[track_caller]
pub(crate) fn map_shards(mapping: Mapping, program: Program, operands: &[Array]) -> Vec<Array> {
    let program = match mapping.tracked {
        false => program,
        true => {
            let outputs = program.avals_out().into_iter().zip(&mapping.out_specs);
            let outputs: Vec<Aval> = outputs
                .map(|(aval, spec)| {
                    let varying = aval.varying.and(&Varying::over(spec.mentioned()));
                    aval.with_varying(varying)
                })
                .collect();
            levelled(program, &outputs)
        }
    };
    let primitive = ShardMap { mapping, program: Arc::new(program) };
    bind(primitive, &operands.iter().collect::<Vec<_>>())
}

impl ShardMap {
    fn of(&self, derived: &Derived, specs: [Vec<PartitionSpec>; 2]) -> ShardMap {
        self.with(derived.program.clone(), specs)
    }

    fn with(&self, program: Arc<Program>, [in_specs, out_specs]: [Vec<PartitionSpec>; 2]) -> Self {
        ShardMap { mapping: self.mapping.with_specs(in_specs, out_specs), program }
    }

    /// The transposed program where types do not say what varies: a cotangent of a result that all devices have alike is
    /// shared out among them, and those of an operand that all had alike are added up.
    fn shared(&self, derived: Derived, cts: &[bool], linear: &[bool]) -> Derived {
        let Mapping { in_specs, out_specs, tracked, .. } = &self.mapping;
        if *tracked {
            return derived;
        }
        let unmentioned = |specs: &[PartitionSpec], marks: &[bool]| -> Vec<Vec<String>> {
            let specs = marked(specs, marks);
            specs.iter().map(|spec| self.mapping.unmentioned(spec)).collect()
        };
        let shared = unmentioned(out_specs, cts);
        let summed = marked(&unmentioned(in_specs, linear), &derived.marks);
        let program = trace_rules(derived.program.avals_in(), |inputs| {
            let (known, cts) = inputs.split_at(inputs.len() - shared.len());
            let cts =
                cts.iter().zip(&shared).map(|(ct, axes)| match self.mapping.mesh.count(axes) {
                    1 => ct.clone(),
                    n => mul(ct, scalar(1.0 / n as f64)),
                });
            let inputs: Vec<Array> = known.iter().cloned().chain(cts).collect();
            let pulled = passes::eval(&derived.program, &inputs);
            let each = pulled.iter().zip(&summed).map(|(ct, axes)| match axes.is_empty() {
                true => ct.clone(),
                false => bind1(PSum { axis_names: axes.clone() }, [ct]),
            });
            each.collect()
        });
        Derived { program: Arc::new(program), ..derived }
    }
}

impl Primitive for ShardMap {
    fn name(&self) -> &'static str {
        "shard_map"
    }

    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let Mapping { mesh, in_specs, out_specs, .. } = &self.mapping;
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
        for (at, (operand, input)) in operands.iter().zip(&inputs).enumerate() {
            let part = operand.with_shape(in_specs[at].shard_shape(mesh, &operand.shape)?);
            ensure_shape!(
                part.same_type(input),
                "operand {at} is {operand}, {part} on each device; the program takes {input}"
            );
        }
        for (output, spec) in outputs.iter().zip(out_specs) {
            spec.check(mesh)?;
            ensure_shape!(
                spec.0.len() <= output.rank(),
                "{spec} speaks of more axes than {output} has"
            );
        }
        Ok(outputs
            .iter()
            .zip(out_specs)
            .map(|(aval, spec)| self.mapping.whole(aval, spec))
            .collect())
    }

    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let Mapping { in_specs, out_specs, .. } = &self.mapping;
        let varies: Vec<bool> = tangents.iter().map(|tangent| !tangent.is_zero()).collect();
        let derived = jvp_of(&self.program, &varies, &vec![false; out_specs.len()]);
        let specs = [
            [&in_specs[..], &marked(in_specs, &varies)].concat(),
            [&out_specs[..], &marked(out_specs, &derived.marks)].concat(),
        ];
        let dense = tangents.iter().filter_map(Tangent::array);
        let operands: Vec<&Array> = primals.iter().chain(dense).collect();
        let mut results = bind(self.of(&derived, specs), &operands);
        let dense = results.split_off(out_specs.len());
        let tangents = tangents_of(&derived.marks, avals_of(&results), dense);
        Ok((results, tangents))
    }

    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        axis: &BatchAxis,
    ) -> RuleResult<Batched> {
        let Mapping { in_specs, out_specs, .. } = &self.mapping;
        if let Some(name) =
            axis.name.as_deref().filter(|name| self.mapping.mesh.size(name).is_some())
        {
            let message =
                format!("`{name}` names the axis of `vmap` and one of {}", self.mapping.mesh);
            return Err(RuleError::value(message).help("name one of them otherwise"));
        }
        let mapped: Vec<bool> = axes.iter().map(Option::is_some).collect();
        let derived = batch_of(&self.program, &mapped, &vec![false; out_specs.len()], axis);
        let shifted = |specs: &[PartitionSpec], marks: &[bool]| -> Vec<PartitionSpec> {
            let each = specs.iter().zip(marks);
            each.map(|(spec, &mark)| if mark { spec.with_axis(0) } else { spec.clone() }).collect()
        };
        let specs = [shifted(in_specs, &mapped), shifted(out_specs, &derived.marks)];
        let operands: Vec<Array> = operands
            .iter()
            .zip(axes)
            .map(|(x, &at)| if at.is_some() { batch_at(x, at, 0, axis) } else { x.clone() })
            .collect();
        let outputs = bind(self.of(&derived, specs), &operands.iter().collect::<Vec<_>>());
        let axes = derived.marks.iter().map(|&mark| mark.then_some(0)).collect();
        Ok(Batched { outputs, axes })
    }

    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        let Mapping { name, mesh, axes, in_specs, out_specs, .. } = &self.mapping;
        if self.program.effects() == Effects::Ordered {
            let message =
                format!("`{name}` has side effects in an order, which devices do not share");
            return Err(RuleError::unsupported(message).help("use unordered ones"));
        }
        let mut around: Vec<String> = Vec::new();
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
            around.clone_from(&outer.axes);
        }
        around.extend(axes.iter().cloned());
        // Along the other axes the compiler may cut what a spec leaves whole.
        let open = around.len() < mesh.axes().len();
        let mut list = |specs: &[PartitionSpec], ranks: &mut dyn Iterator<Item = usize>| {
            let each = specs.iter().zip(ranks);
            let texts: Vec<String> =
                each.map(|(spec, rank)| ctx.spec(mesh, spec, rank, open)).collect();
            format!("#sdy.sharding_per_value<[{}]>", texts.join(", "))
        };
        let in_shardings = list(in_specs, &mut operands.iter().map(|x| x.ty().dims().len()));
        let out_shardings = list(out_specs, &mut results.iter().map(Aval::rank));
        let manual: Vec<String> = axes.iter().map(|axis| format!("{axis:?}")).collect();
        let attributes = format!(
            "in_shardings = {in_shardings}, manual_axes = #sdy<manual_axes{{{}}}>, out_shardings = {out_shardings}",
            manual.join(", ")
        );
        let types: Vec<_> = self.program.avals_in().iter().map(Aval::stablehlo).collect();
        let (outside, inputs) = ctx.open_region(&types);
        let region = Manual { mesh: mesh.clone(), axes: around };
        let outputs = ctx.within(region, |ctx| ctx.inline(&self.program, &inputs))?;
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
        let Mapping { in_specs, out_specs, .. } = &self.mapping;
        let linear: Vec<bool> = operands.iter().map(Operand::is_linear).collect();
        let known: Vec<bool> = linear.iter().map(|linear| !linear).collect();
        let dense: Vec<bool> = cts.iter().map(|ct| !ct.is_zero()).collect();
        let n_linear = linear.iter().filter(|linear| **linear).count();
        let derived = transpose_of(&self.program, &linear, &dense, &vec![false; n_linear]);
        let derived = self.shared(derived, &dense, &linear);
        let specs = [
            [marked(in_specs, &known), marked(out_specs, &dense)].concat(),
            marked(&marked(in_specs, &linear), &derived.marks),
        ];
        let arguments = operands.iter().filter_map(Operand::known);
        let arguments: Vec<&Array> =
            arguments.chain(cts.iter().filter_map(Tangent::array)).collect();
        let pulled = bind(self.of(&derived, specs), &arguments);
        let avals = operands.iter().filter(|operand| operand.is_linear());
        let mut pulled =
            tangents_of(&derived.marks, avals.map(|operand| operand.aval().clone()), pulled)
                .into_iter();
        Ok(linear.iter().map(|&linear| if linear { pulled.next() } else { None }).collect())
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
}

impl HigherOrder for ShardMap {
    fn programs(&self) -> Vec<(&'static str, &Program)> {
        vec![("program", &self.program)]
    }

    fn run_counts(&self, _: &[Aval], _: &[Aval]) -> Vec<RunCount> {
        vec![RunCount::Devices(self.mapping.mesh.count(&self.mapping.axes))]
    }

    fn split(&self, known: &[bool]) -> Option<Split> {
        if !known.contains(&true) {
            return None;
        }
        let halves = partial_eval(&self.program, known, &vec![false; self.program.outputs().len()]);
        (!halves.is_idle()).then(|| self.halves(&halves, known))
    }

    fn prune(&self, used: &[bool]) -> Option<Pruned> {
        let (pruned, kept) = with_used_outputs(&self.program, used);
        if !used.contains(&false)
            && !kept.contains(&false)
            && crate::control_flow::masked::same_size(&pruned, &self.program)
        {
            return None;
        }
        let Mapping { in_specs, out_specs, .. } = &self.mapping;
        let positions = |marks: &[bool]| (0..marks.len()).filter(|&at| marks[at]).collect();
        let specs = [marked(in_specs, &kept), marked(out_specs, used)];
        let program = Arc::new(with_kept_inputs(&pruned, &kept));
        Some(Pruned {
            primitive: Arc::new(self.with(program, specs)),
            operands: positions(&kept),
            results: positions(used),
        })
    }

    /// Devices cannot stop after each operation, so it is compiled even then.
    fn interpret(&self, operands: &[Array]) -> Result<Vec<Array>, Error> {
        let mut avals = avals_of(operands);
        let results = self.abstract_eval(&avals).map_err(|error| {
            crate::core::trace::op_error(error.kind, "shard_map", error.message, None)
        })?;
        let (n, all) = (avals.len() as u32, (avals.len() + results.len()) as u32);
        avals.extend(results);
        let eqn = Eqn {
            primitive: Arc::new(self.clone()),
            operands: (0..n).collect(),
            results: (n..all).collect(),
            location: None,
        };
        let (inputs, outputs): (Vec<u32>, Vec<u32>) = ((0..n).collect(), (n..all).collect());
        backend().run(&Program::new(&avals, &inputs, vec![eqn], &outputs), operands)
    }
}

pub(super) fn make(
    params: serde_json::Value,
    programs: Vec<Program>,
) -> RuleResult<Arc<dyn Primitive>> {
    let mapping: Mapping =
        serde_json::from_value(params).map_err(|error| RuleError::value(error.to_string()))?;
    match <[Program; 1]>::try_from(programs) {
        Ok([program]) => Ok(Arc::new(ShardMap { mapping, program: Arc::new(program) })),
        Err(programs) => {
            Err(RuleError::value(format!("shard_map holds one program, got {}", programs.len())))
        }
    }
}
