//! Kernels as text: their parameters, and reading them back.

use super::kernel_call::KernelCall;
use super::ref_ops::{RefGet, RefSet};
use super::spec::{BlockSpec, Grid, Output};
use super::{Ref, call};
use crate::core::{
    Array, Aval, DType, Exemplar, Primitive, Program, RegistryEntry, RuleError, RuleResult, Sample,
};
use crate::transforms::staging::trace_rules;
use std::sync::Arc;

/// The primitives of kernels, sorted by name.
pub const KERNEL_PRIMITIVES: &[RegistryEntry] = &[
    RegistryEntry::new("kernel_call", read, exemplars),
    RegistryEntry::of::<RefGet>(),
    RegistryEntry::of::<RefSet>(),
];

/// Types as their dtype and shape.
pub(super) mod aval {
    use crate::core::{Aval, DType};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Parts {
        dtype: DType,
        shape: Vec<usize>,
    }

    pub(in crate::kernel) fn serialize<S: Serializer>(
        aval: &Aval,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Parts { dtype: aval.dtype, shape: aval.shape.to_vec() }.serialize(serializer)
    }

    pub(in crate::kernel) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Aval, D::Error> {
        let Parts { dtype, shape } = Parts::deserialize(deserializer)?;
        Ok(Aval::new(dtype, shape))
    }
}

/// Programs that may be absent, as whether they are there.
pub(super) mod presence {
    use super::no_program;
    use crate::core::Program;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    pub(in crate::kernel) fn serialize<S: Serializer>(
        program: &Option<Arc<Program>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        program.is_some().serialize(serializer)
    }

    pub(in crate::kernel) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Arc<Program>>, D::Error> {
        Ok(bool::deserialize(deserializer)?.then(no_program))
    }
}

/// Returns an empty program, in place of one that follows the parameters.
pub(super) fn no_program() -> Arc<Program> {
    Arc::new(Program::new(&[], &[], Vec::new(), &[]))
}

/// Reads a kernel from its parameters and programs.
fn read(parameters: serde_json::Value, programs: Vec<Program>) -> RuleResult<Arc<dyn Primitive>> {
    let kernel: KernelCall =
        serde_json::from_value(parameters).map_err(|error| RuleError::value(error.to_string()))?;
    let mut programs = programs.into_iter();
    let kernel = with_programs(kernel, &mut programs)?;
    match programs.next() {
        None => Ok(Arc::new(kernel)),
        Some(_) => Err(RuleError::value("more programs than the kernel has")),
    }
}

/// Returns the kernel with its body and index maps, and those of its kernels for other platforms.
fn with_programs(
    mut kernel: KernelCall,
    programs: &mut impl Iterator<Item = Program>,
) -> RuleResult<KernelCall> {
    let mut next = || {
        let program = programs.next();
        program.map(Arc::new).ok_or_else(|| RuleError::value("a program of the kernel is missing"))
    };
    kernel.body = next()?;
    for window in kernel.inputs.iter_mut().chain(&mut kernel.outputs) {
        window.index_map = next()?;
    }
    if let Some(program) = &mut kernel.on_partitioned {
        *program = next()?;
    }
    kernel.check_programs()?;
    for (platform, other) in std::mem::take(&mut kernel.variants) {
        kernel.variants.push((platform, Box::new(with_programs(*other, programs)?)));
    }
    Ok(kernel)
}

fn exemplars() -> Vec<Exemplar> {
    let example = |grid: Grid, shape: &[usize], specs: fn() -> BlockSpec| {
        let kernel = call(
            |[x, y, sum]: [Ref; 3]| sum.store(x.load() + y.load()),
            grid,
            [specs(), specs()],
            [Output::new(DType::F32, shape, specs())],
        );
        let mut traced = None;
        let types = [Aval::new(DType::F32, shape), Aval::new(DType::F32, shape)];
        trace_rules(types, |inputs| {
            let operands: Vec<&Array> = inputs.iter().collect();
            traced = Some(kernel.name("add").targets([]).trace(&operands));
            Vec::new()
        });
        let operand = || Sample::uniform(DType::F32, shape, -1.0, 1.0);
        let kernel = traced.expect("the kernel is traced");
        // A kernel has no derivative.
        Exemplar::new(kernel, [operand(), operand()]).without_derivative()
    };
    vec![
        example(Grid::new([2]), &[4, 3], || BlockSpec::new([2, 3], |[i]| (i, 0))),
        // The last blocks reach beyond the arrays.
        example(Grid::new([3, 2]), &[5, 3], || BlockSpec::new([2, 2], |[i, j]| (i, j))),
        example(Grid::new([0usize; 0]), &[], BlockSpec::whole),
        example(Grid::new([1]), &[1, 2], BlockSpec::whole),
        example(Grid::new([2]), &[0, 2], BlockSpec::whole),
    ]
}
