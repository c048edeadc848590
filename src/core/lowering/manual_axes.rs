//! Meshes, shardings and manual axes in lowered text.

use crate::core::lowering::lower_ctx::LowerCtx;
pub(crate) use crate::core::lowering::manual::Manual;
use crate::core::mesh::mesh::Mesh;
use crate::core::mesh::partition::{NamedSharding, PartitionSpec};
use crate::core::program::program::{Eqn, Program, Var};
use crate::stablehlo::{TensorType, Value};

/// The compiler's freedom to shard the axes of an array further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DimSharding {
    /// The compiler may add mesh axes.
    Open,
    /// The spec is complete.
    Closed,
}

impl LowerCtx<'_> {
    /// Returns the manual axes of the region being written.
    pub(crate) fn manual(&self) -> Option<&Manual> {
        self.manual.as_ref()
    }

    /// Runs `write` with other manual axes.
    pub(crate) fn with_manual<R>(
        &mut self,
        manual: Manual,
        write: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let outer = self.manual.replace(manual);
        let written = write(self);
        self.manual = outer;
        written
    }

    /// Returns the groups of device ordinals along these axes, or `None` unless all of them are
    /// manual.
    pub(crate) fn groups(&self, axes: &[String]) -> Option<Vec<Vec<usize>>> {
        let Manual { mesh, axes: manual } = self.manual.as_ref()?;
        axes.iter().all(|axis| manual.contains(axis)).then(|| mesh.groups(axes))
    }

    /// Returns the index of the device along an axis, a scalar `ui32`, or `None` unless it is
    /// manual.
    pub(crate) fn position_along(&mut self, axis: &str) -> Option<Value> {
        let Manual { mesh, axes } = self.manual.as_ref()?;
        if !axes.iter().any(|manual| manual == axis) {
            return None;
        }
        let (stride, size) = (mesh.stride(axis), mesh.size(axis)?);
        let ty = TensorType::new("ui32", &[]);
        let ordinal = self.op_as("partition_id", &[], "", &ty);
        let stride = self.constant(&stride.to_string(), &ty);
        let size = self.constant(&size.to_string(), &ty);
        let row = self.op("divide", &[ordinal, stride]);
        Some(self.op("remainder", &[row, size]))
    }

    /// Formats a sharding of an array with `rank` axes for Shardy: `<@mesh, [{"data"}, {}]>`.
    pub(crate) fn sharding(&mut self, sharding: &NamedSharding, rank: usize) -> String {
        self.spec(sharding.mesh(), sharding.spec(), rank, DimSharding::Closed)
    }

    /// Formats a spec for Shardy. With [`DimSharding::Open`] the compiler may shard over further
    /// mesh axes: `<@mesh, [{"data", ?}, {?}]>`. Unconstrained axes are always open.
    pub(crate) fn spec(
        &mut self,
        mesh: &Mesh,
        spec: &PartitionSpec,
        rank: usize,
        dims: DimSharding,
    ) -> String {
        let mesh = self.mesh_symbol(mesh);
        let texts: Vec<String> = (0..rank)
            .map(|axis| {
                let is_open = dims == DimSharding::Open || spec.is_unconstrained(axis);
                let open = is_open.then(|| "?".into());
                let names = spec.along(axis).iter().map(|name| format!("{name:?}"));
                let names: Vec<String> = names.chain(open).collect();
                format!("{{{}}}", names.join(", "))
            })
            .collect();
        format!("<@{mesh}, [{}]>", texts.join(", "))
    }

    /// Writes the shardings over explicit axes of a mesh that are part of the types of an
    /// equation's results as constraints. Returns the results.
    pub(super) fn constrain(
        &mut self,
        program: &Program,
        eqn: &Eqn,
        values: Vec<Value>,
    ) -> Vec<Value> {
        // Operations that state shardings write them themselves.
        let is_holder = eqn.primitive.as_higher_order().is_some();
        if !is_holder && eqn.primitive.mesh().is_some() {
            return values;
        }
        let sharding_of = |var: &Var| program.aval(*var).sharding.as_ref();
        let mut all = eqn.operands.iter().chain(&eqn.results);
        let Some(mesh) = all.find_map(sharding_of).map(NamedSharding::mesh) else { return values };
        // What replicates a value is written where a sharded operand ends.
        let rules = eqn.primitive.spmd();
        let may_replicate = eqn.operands.iter().any(|var| sharding_of(var).is_some())
            && !is_holder
            && !rules.is_some_and(|rules| rules.leaves_results_to_compiler());
        let replicated = PartitionSpec::replicated();
        let constrained = values.into_iter().zip(&eqn.results).map(|(value, var)| {
            let spec = match sharding_of(var) {
                Some(sharding) => sharding.spec(),
                None if may_replicate => &replicated,
                None => return value,
            };
            self.constrain_explicit(mesh, spec, &value)
        });
        constrained.collect()
    }

    /// Writes a constraint over the explicit axes of a mesh. Returns the constrained value.
    pub(crate) fn constrain_explicit(
        &mut self,
        mesh: &Mesh,
        spec: &PartitionSpec,
        value: &Value,
    ) -> Value {
        let text = self.explicit_spec(mesh, spec, value.ty().dims().len());
        let attributes = format!("sharding = #sdy.sharding{text}");
        let ty = value.ty().clone();
        self.op_as("sdy.sharding_constraint", std::slice::from_ref(value), &attributes, &ty)
    }

    /// Formats a spec over the explicit axes of a mesh. The compiler chooses along its other axes.
    fn explicit_spec(&mut self, mesh: &Mesh, spec: &PartitionSpec, rank: usize) -> String {
        if mesh.is_fully_explicit() && self.manual.is_none() {
            return self.spec(mesh, spec, rank, DimSharding::Closed);
        }
        let text = self.spec(mesh, spec, rank, DimSharding::Open);
        let is_manual =
            |name: &str| self.manual.as_ref().is_some_and(|at| at.axes.iter().any(|a| a == name));
        let whole = mesh.axis_names().filter(|name| {
            mesh.is_explicit(name) && !is_manual(name) && !spec.mentioned().any(|axis| axis == name)
        });
        let whole: Vec<String> = whole.map(|name| format!("{name:?}")).collect();
        match text.strip_suffix('>').filter(|_| !whole.is_empty()) {
            Some(open) => format!("{open}, replicated={{{}}}>", whole.join(", ")),
            None => text,
        }
    }

    /// Returns the annotation of an operation with `results` results that only the first device
    /// runs, on whole arrays.
    pub(crate) fn on_first_device(&mut self, results: usize) -> String {
        let mesh = self.declare("sdy.mesh", "first_device", "<[], device_ids=[0]>");
        let shardings = vec![format!("<@{mesh}, []>"); results];
        format!("sdy.sharding = #sdy.sharding_per_value<[{}]>", shardings.join(", "))
    }

    /// Declares a mesh in the module and returns its symbol.
    fn mesh_symbol(&mut self, mesh: &Mesh) -> String {
        let axes: Vec<String> =
            mesh.axes().iter().map(|(name, size)| format!("{name:?}={size}")).collect();
        self.declare("sdy.mesh", "mesh", &format!("<[{}]>", axes.join(", ")))
    }
}
