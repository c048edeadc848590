//! [`Plan`]: the devices that a program runs on, and the shardings of its inputs and outputs.

use crate::core::{
    Aval, Error, LayoutMode, Loc, Mesh, NamedSharding, OpErrorKind, Placement, Program, RuleError,
    trace,
};

/// The devices and shardings of a program.
///
/// A plan is decided once, while a function is traced, from the placements of its arguments and the
/// shardings requested for them. Lowering and compiling follow it. Deciding needs no plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Plan {
    /// Placement of values without a sharding: a device, or replication over the mesh
    /// that the program runs on. `None` is the default device of the process that compiles.
    pub(crate) target: Option<Placement>,
    /// The sharding of each input; empty on one device.
    pub(crate) inputs: Vec<NamedSharding>,
    /// The requested sharding of each output, `None` where the compiler chooses. Empty on one
    /// device, or if no sharding is requested.
    pub(crate) outputs: Vec<Option<NamedSharding>>,
    /// The layouts that are requested.
    pub(crate) layouts: RequestedLayouts,
}

/// The layouts that are requested of the inputs and outputs of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RequestedLayouts {
    /// Of each input; empty for the default layouts.
    pub(crate) inputs: Vec<LayoutMode>,
    /// Of each output; empty for the default layouts.
    pub(crate) outputs: Vec<LayoutMode>,
}

impl RequestedLayouts {
    /// Returns true if all are the default layouts of the device.
    pub(crate) fn are_default(&self) -> bool {
        self.inputs.iter().chain(&self.outputs).all(|mode| *mode == LayoutMode::Default)
    }
}

/// The facts about one input that a [`Plan`] depends on.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlanInput {
    /// Path of the leaf among the arguments; `None` for the operand of a single operation.
    pub(crate) path: Option<String>,
    /// Placement of the argument; `None` if it is not committed to one.
    pub(crate) committed: Option<Placement>,
    /// Sharding requested with `in_shardings`.
    pub(crate) sharding: Option<NamedSharding>,
}

impl PlanInput {
    /// Describes input `index` for an error.
    fn describe(&self, index: usize) -> String {
        match &self.path {
            Some(path) => format!("argument {path}"),
            None => format!("operand {index}"),
        }
    }
}

impl Plan {
    /// Decides the plan of `program`. `name` is the function's name, for errors.
    ///
    /// # Errors
    /// `Op` (value) if arguments are committed to different devices; `Op` (shape) if a sharding
    /// does not divide its array.
    pub(crate) fn new(
        name: &str,
        program: &Program,
        inputs: &[PlanInput],
        outputs: &[Option<NamedSharding>],
    ) -> Result<Plan, Error> {
        let requested = inputs.iter().map(|input| &input.sharding).chain(outputs).flatten();
        let mesh = (requested.map(NamedSharding::mesh).next())
            .or_else(|| program.mesh())
            .or_else(|| inputs.iter().find_map(|input| input.committed.as_ref()?.mesh()));
        match mesh {
            Some(mesh) => Plan::on_mesh(name, program, mesh, inputs, outputs),
            None => Plan::on_one_device(name, inputs),
        }
    }

    fn on_mesh(
        name: &str,
        program: &Program,
        mesh: &Mesh,
        inputs: &[PlanInput],
        outputs: &[Option<NamedSharding>],
    ) -> Result<Plan, Error> {
        let mut shardings = Vec::with_capacity(inputs.len());
        for (index, (input, aval)) in inputs.iter().zip(program.avals_in()).enumerate() {
            let name_of_input = input.describe(index);
            let refuse = |current: &dyn ToString, wanted: &dyn ToString| {
                Err(conflict(name, &name_of_input, &current.to_string(), &wanted.to_string()))
            };
            let sharding = match (&input.sharding, &input.committed) {
                (Some(requested), Some(Placement::Mesh(current)))
                    if !current.mesh().same_devices(mesh) =>
                {
                    return refuse(current, requested);
                }
                (Some(requested), _) => requested.clone(),
                (None, None) => {
                    let explicit = aval.sharding.clone().unwrap_or_else(|| mesh.replicated());
                    explicit.with_memory_kind(aval.memory)
                }
                (None, Some(Placement::Mesh(current))) if current.mesh().same_devices(mesh) => {
                    current.clone()
                }
                (None, Some(current)) => return refuse(current, mesh),
            };
            check_sharding(name, &name_of_input, &sharding, &aval, mesh)?;
            check_memory(name, &name_of_input, &sharding, &aval)?;
            shardings.push(sharding);
        }
        for (index, (sharding, aval)) in outputs.iter().zip(program.avals_out()).enumerate() {
            if let Some(sharding) = sharding {
                check_sharding(name, &format!("result {index}"), sharding, &aval, mesh)?;
            }
        }
        let target = Some(Placement::Mesh(mesh.replicated()));
        let outputs = match mesh.is_fully_explicit() {
            true => explicit_outputs(program, mesh, outputs),
            false => outputs.to_vec(),
        };
        Ok(Plan { target, inputs: shardings, outputs, ..Plan::default() })
    }

    fn on_one_device(name: &str, inputs: &[PlanInput]) -> Result<Plan, Error> {
        let mut first: Option<(usize, &Placement)> = None;
        for (index, input) in inputs.iter().enumerate() {
            let Some(placement) = &input.committed else { continue };
            match first {
                Some((first, other)) if other != placement => {
                    let other = format!("{} on {other}", inputs[first].describe(first));
                    let placement = placement.to_string();
                    return Err(conflict(name, &input.describe(index), &placement, &other));
                }
                _ => first = Some((index, placement)),
            }
        }
        let target = first.map(|(_, placement)| placement.clone());
        Ok(Plan { target, ..Plan::default() })
    }

    /// The mesh that the program runs on; `None` for one device.
    pub(crate) fn mesh(&self) -> Option<&Mesh> {
        self.target.as_ref().and_then(Placement::mesh)
    }

    /// The placement of each of `count` inputs of a program that runs on `target`.
    pub(crate) fn input_placements(&self, target: &Placement, count: usize) -> Vec<Placement> {
        match target {
            Placement::Device(_) => vec![target.clone(); count],
            Placement::Mesh(_) => self.inputs.iter().cloned().map(Placement::Mesh).collect(),
        }
    }
}

/// Returns the sharding of each output over a mesh whose axes are all explicit: the requested one,
/// or that of its type.
fn explicit_outputs(
    program: &Program,
    mesh: &Mesh,
    requested: &[Option<NamedSharding>],
) -> Vec<Option<NamedSharding>> {
    let of_output = |(index, aval): (usize, Aval)| match requested.get(index).cloned().flatten() {
        Some(requested) => requested,
        None => aval.sharding.unwrap_or_else(|| mesh.replicated()).with_memory_kind(aval.memory),
    };
    program.avals_out().into_iter().enumerate().map(of_output).map(Some).collect()
}

/// Checks that an array of type `aval` can be split as `sharding` says, on the devices of `mesh`.
fn check_sharding(
    name: &str,
    value: &str,
    sharding: &NamedSharding,
    aval: &Aval,
    mesh: &Mesh,
) -> Result<(), Error> {
    if !sharding.mesh().same_devices(mesh) {
        return Err(conflict(name, value, &sharding.to_string(), &mesh.to_string()));
    }
    let shape = sharding.spec().shard_shape(sharding.mesh(), &aval.shape);
    shape.map(drop).map_err(|error| {
        let error = RuleError { message: format!("{value}: {}", error.message), ..error };
        trace::rule_error(name, error, Loc::UNKNOWN)
    })
}

/// Checks that an argument is in the memory of the sharding that it is expected with.
fn check_memory(
    name: &str,
    value: &str,
    sharding: &NamedSharding,
    aval: &Aval,
) -> Result<(), Error> {
    if sharding.memory_kind() == aval.memory {
        return Ok(());
    }
    let (memory, requested) = (aval.memory, sharding.memory_kind());
    let message = format!(
        "{value}, {aval}, is in the memory `{memory}`, in_shardings requests `{requested}`: {sharding}"
    );
    let error = trace::op_error(OpErrorKind::Value, name, message, Loc::UNKNOWN);
    Err(error
        .with_help("`device_put` moves it; an `Aval` to compile for says it with `with_memory`"))
}

fn conflict(name: &str, value: &str, current: &str, wanted: &str) -> Error {
    let message =
        format!("{value} is on other devices than the program runs on: {current}, and {wanted}");
    let error = trace::op_error(OpErrorKind::Value, name, message, Loc::UNKNOWN);
    error.with_help("`device_put` moves an array to a device or a mesh")
}
