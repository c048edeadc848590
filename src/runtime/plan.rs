//! Where a program runs and where its arguments are to lie, decided from where they lie.

use super::home::{Home, Lies, default_device};
use crate::core::{Aval, Error, Mesh, NamedSharding, OpErrorKind, Program, RuleError, trace};

/// Where a program runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Runs {
    /// On the device of this number.
    On(i32),
    /// On all devices of a mesh.
    Over(Mesh),
}

/// Where a program runs, and where each of its inputs is to lie.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Plan {
    pub(crate) runs: Runs,
    pub(crate) inputs: Vec<Home>,
    /// What the user wants of each output; `None` leaves it to the compiler.
    pub(crate) outputs: Vec<Option<NamedSharding>>,
    /// Whether an argument was put on the device, or one of the mesh's; results then count as put there.
    pub(crate) committed: bool,
}

/// What decides a plan besides where the arguments lie.
#[derive(Default)]
pub(crate) struct Wishes<'a> {
    /// For each input, in order; those behind the last are free.
    pub(crate) inputs: &'a [Option<NamedSharding>],
    pub(crate) outputs: &'a [Option<NamedSharding>],
    /// The inputs' paths, for errors.
    pub(crate) paths: &'a [String],
}

impl Wishes<'_> {
    fn of(&self, at: usize) -> Option<&NamedSharding> {
        self.inputs.get(at).and_then(Option::as_ref)
    }

    /// Input `at`, for an error.
    fn name(&self, at: usize) -> String {
        match self.paths.get(at) {
            Some(path) => format!("argument {path}"),
            None => format!("operand {at}"),
        }
    }
}

impl Plan {
    /// A program that runs on one device.
    pub(crate) fn on(device: i32, n_inputs: usize) -> Plan {
        let inputs = vec![Home::Device(device); n_inputs];
        Plan { runs: Runs::On(device), inputs, outputs: Vec::new(), committed: false }
    }

    /// The plan for a program whose inputs lie so. `name` is that of the function.
    ///
    /// # Errors
    /// `Op` (value) if they lie on different devices, and which; `Op` (shape) if an array cannot be cut as it is to be.
    pub(crate) fn of(
        name: &str,
        program: &Program,
        lies: &[Lies],
        wishes: &Wishes<'_>,
    ) -> Result<Plan, Error> {
        match Plan::over(name, program, lies, wishes)? {
            Some(plan) => Ok(plan),
            None => Plan::on_one(name, lies, wishes),
        }
    }

    /// The same without a look at the devices; `None` if nothing speaks of a mesh.
    ///
    /// # Errors
    /// As [`Plan::of`].
    pub(crate) fn over(
        name: &str,
        program: &Program,
        lies: &[Lies],
        wishes: &Wishes<'_>,
    ) -> Result<Option<Plan>, Error> {
        let said = |lies: &Lies| match lies {
            Lies::At(Home::Mesh(sharding)) => Some(sharding.mesh().clone()),
            _ => None,
        };
        let wished = wishes.inputs.iter().chain(wishes.outputs).flatten();
        let mesh = (wished.map(|sharding| sharding.mesh().clone()).next())
            .or_else(|| program.mesh().cloned())
            .or_else(|| lies.iter().find_map(said));
        let Some(mesh) = mesh else { return Ok(None) };
        let avals = program.avals_in();
        let inputs = lies.iter().enumerate().map(|(at, lies)| {
            let sharding = match (wishes.of(at), lies) {
                (Some(wished), Lies::At(Home::Mesh(now))) if !now.mesh().same_devices(&mesh) => {
                    return Err(elsewhere(
                        name,
                        &wishes.name(at),
                        &now.to_string(),
                        &wished.to_string(),
                    ));
                }
                (Some(wished), _) => wished.clone(),
                (None, Lies::Anywhere) => mesh.replicated(),
                (None, Lies::At(Home::Mesh(now))) if now.mesh().same_devices(&mesh) => now.clone(),
                (None, Lies::At(home)) => {
                    return Err(elsewhere(
                        name,
                        &wishes.name(at),
                        &home.to_string(),
                        &mesh.to_string(),
                    ));
                }
            };
            fits(name, &wishes.name(at), &sharding, &avals[at], &mesh)?;
            Ok(Home::Mesh(sharding))
        });
        let inputs = inputs.collect::<Result<_, Error>>()?;
        for (at, (sharding, aval)) in wishes.outputs.iter().zip(program.avals_out()).enumerate() {
            if let Some(sharding) = sharding {
                fits(name, &format!("result {at}"), sharding, &aval, &mesh)?;
            }
        }
        let outputs = wishes.outputs.to_vec();
        Ok(Some(Plan { runs: Runs::Over(mesh), inputs, outputs, committed: true }))
    }

    fn on_one(name: &str, lies: &[Lies], wishes: &Wishes<'_>) -> Result<Plan, Error> {
        let mut found: Option<(usize, i32)> = None;
        for (at, lies) in lies.iter().enumerate() {
            let Lies::At(Home::Device(id)) = lies else { continue };
            match found {
                Some((first, other)) if other != *id => {
                    let first = format!("{} on device {other}", wishes.name(first));
                    return Err(elsewhere(name, &wishes.name(at), &format!("device {id}"), &first));
                }
                _ => found = Some((at, *id)),
            }
        }
        let device = match found {
            Some((_, id)) => id,
            None => default_device()?,
        };
        Ok(Plan { committed: found.is_some(), ..Plan::on(device, lies.len()) })
    }

    /// The shardings of the inputs, for a program over a mesh.
    pub(crate) fn input_shardings(&self) -> Vec<Option<NamedSharding>> {
        let sharding = |home: &Home| match home {
            Home::Mesh(sharding) => Some(sharding.clone()),
            Home::Device(_) => None,
        };
        self.inputs.iter().map(sharding).collect()
    }
}

/// Whether a value of this type can lie so, on the devices of a mesh.
fn fits(
    name: &str,
    what: &str,
    sharding: &NamedSharding,
    aval: &Aval,
    mesh: &Mesh,
) -> Result<(), Error> {
    if !sharding.mesh().same_devices(mesh) {
        return Err(elsewhere(name, what, &sharding.to_string(), &mesh.to_string()));
    }
    let shape = sharding.spec().shard_shape(sharding.mesh(), &aval.shape);
    shape.map(drop).map_err(|error| {
        let error = RuleError { message: format!("{what}: {}", error.message), ..error };
        trace::rule_error(name, error, crate::core::Loc::UNKNOWN)
    })
}

fn elsewhere(name: &str, what: &str, now: &str, wanted: &str) -> Error {
    let message =
        format!("{what} lies on other devices than the program runs on: {now}, and {wanted}");
    let error = trace::op_error(OpErrorKind::Value, name, message, crate::core::Loc::UNKNOWN);
    error.with_help("`device_put` moves an array to a device or a mesh")
}
