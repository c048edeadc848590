//! Meshes in lowered text: their declarations, shardings, and regions in which each device computes its own.

use crate::core::lowering::lower_ctx::LowerCtx;
use crate::core::mesh::mesh::Mesh;
use crate::core::mesh::partition::{NamedSharding, PartitionSpec};
use crate::stablehlo::{TensorType, Value};

/// A region in which the program is that of one device along some axes of a mesh.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Manual {
    pub(crate) mesh: Mesh,
    /// All axes along which devices compute their own, those of regions around it included.
    pub(crate) axes: Vec<String>,
}

impl LowerCtx<'_> {
    /// The region that is being written.
    pub(crate) fn manual(&self) -> Option<&Manual> {
        self.manual.as_ref()
    }

    /// Writes with another region around it.
    pub(crate) fn within<R>(&mut self, region: Manual, write: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.manual.replace(region);
        let written = write(self);
        self.manual = outer;
        written
    }

    /// The devices along these axes in groups, by their place in the mesh; `None` outside of a region over all of them.
    pub(crate) fn groups(&self, axes: &[String]) -> Option<Vec<Vec<usize>>> {
        let Manual { mesh, axes: own } = self.manual.as_ref()?;
        axes.iter().all(|axis| own.contains(axis)).then(|| mesh.groups(axes))
    }

    /// Where a device stands along an axis, as a scalar `ui32`; `None` outside of a region over it.
    pub(crate) fn position_along(&mut self, axis: &str) -> Option<Value> {
        let Manual { mesh, axes } = self.manual.as_ref()?;
        if !axes.iter().any(|own| own == axis) {
            return None;
        }
        let (stride, size) = (mesh.stride(axis), mesh.size(axis)?);
        let ty = TensorType::new("ui32", &[]);
        let place = self.op_as("partition_id", &[], "", &ty);
        let stride = self.constant(&stride.to_string(), &ty);
        let size = self.constant(&size.to_string(), &ty);
        let row = self.op("divide", &[place, stride]);
        Some(self.op("remainder", &[row, size]))
    }

    /// A sharding of an array with `rank` axes, as Shardy spells it: `<@mesh, [{"data"}, {}]>`.
    pub(crate) fn sharding(&mut self, sharding: &NamedSharding, rank: usize) -> String {
        self.spec(sharding.mesh(), sharding.spec(), rank, false)
    }

    /// The same; if it is `open`, the compiler may cut along further axes: `<@mesh, [{"data", ?}, {?}]>`.
    pub(crate) fn spec(
        &mut self,
        mesh: &Mesh,
        spec: &PartitionSpec,
        rank: usize,
        open: bool,
    ) -> String {
        let mesh = self.mesh_symbol(mesh);
        let axes: Vec<String> = (0..rank)
            .map(|at| {
                let names = spec.along(at).iter().map(|name| format!("{name:?}"));
                let names: Vec<String> = names.chain(open.then(|| "?".into())).collect();
                format!("{{{}}}", names.join(", "))
            })
            .collect();
        format!("<@{mesh}, [{}]>", axes.join(", "))
    }

    /// The name under which the module declares a mesh.
    fn mesh_symbol(&mut self, mesh: &Mesh) -> String {
        let axes: Vec<String> =
            mesh.axes().iter().map(|(name, size)| format!("{name:?}={size}")).collect();
        let declared = format!("<[{}]>", axes.join(", "));
        self.declare("sdy.mesh", "mesh", &declared)
    }
}
