//! Shardings: constraints, and regions that run on shards.

use super::{ManualRegion, Operands, Scope, Traced, Translated, Translator};
use crate::core::{Array, AxisSpec, Mesh, NamedSharding, PartitionSpec, trace};
use crate::parallel::MapRegion;
use crate::primitives::constrained;
use oxidax_vhlo::ArraySharding;

impl<'m> Translator<'m> {
    pub(super) fn shardy(
        &self,
        operands: &Operands<'m>,
        scope: &Scope<'_>,
    ) -> Translated<Vec<Traced>> {
        match operands.operation.name() {
            "sdy.sharding_constraint" | "sdy.reshard" => {
                let [x] = self.exactly(operands)?;
                let sharding = self.vhlo(operands.operation.sharding("sharding"))?;
                let result = match sharding {
                    Some(sharding) => self.constraint(&x, &sharding)?,
                    None => x,
                };
                Ok(vec![Traced::Array(result)])
            }
            "sdy.manual_computation" => self.manual_computation(operands, scope),
            "sdy.sharding_group" => Ok(Vec::new()),
            _ => Err(self.unsupported(operands.operation, "it is not supported")),
        }
    }

    /// Constrains an array to a sharding, if the caller runs on a mesh with its axes.
    fn constraint(&self, x: &Array, sharding: &ArraySharding<'_>) -> Translated<Array> {
        let Some(mesh) = &self.target.mesh else { return Ok(x.clone()) };
        if !self.manual.borrow().is_empty() {
            // The compiler partitions the other axes inside a region.
            return Ok(x.clone());
        }
        // A dimension that the compiler may split further states nothing.
        if sharding.open.contains(&true) {
            return Ok(x.clone());
        }
        let spec = self.spec(sharding)?;
        match NamedSharding::checked(mesh, spec) {
            Ok(sharding) => Ok(constrained(x, sharding)),
            Err(_) => Ok(x.clone()),
        }
    }

    fn spec(&self, sharding: &ArraySharding<'_>) -> Translated<PartitionSpec> {
        let dimensions = sharding.dimensions.iter().map(|axes| {
            let names = axes.iter().map(|axis| match axis.part {
                None => Ok(axis.name.to_owned()),
                Some(_) => Err(self.error(format!(
                    "a dimension is split over a part of the mesh axis `{}`",
                    axis.name
                ))),
            });
            Ok(AxisSpec::Axes(names.collect::<Translated<Vec<String>>>()?))
        });
        Ok(PartitionSpec(dimensions.collect::<Translated<_>>()?))
    }

    fn manual_computation(
        &self,
        operands: &Operands<'m>,
        scope: &Scope<'_>,
    ) -> Translated<Vec<Traced>> {
        let Some(mesh) = &self.target.mesh else {
            return Err(self.unsupported(operands.operation, "the caller has one device"));
        };
        let body = self.region(operands, 0)?;
        let operation = operands.operation;
        let axes: Vec<String> =
            self.vhlo(operation.manual_axes())?.into_iter().map(str::to_owned).collect();
        let specs = |name: &str| -> Translated<Vec<PartitionSpec>> {
            let shardings = self.vhlo(operation.shardings(name))?;
            shardings.iter().map(|sharding| Ok(self.only(self.spec(sharding)?, &axes))).collect()
        };
        let (in_specs, out_specs) = (specs("in_shardings")?, specs("out_shardings")?);
        let arrays = self.arrays(operands)?;
        let run = |shards| self.block(body, shards, Some(scope));
        let results = self.on_shards((mesh, axes), (arrays, in_specs), run, out_specs);
        Ok(results.into_iter().map(Traced::Array).collect())
    }

    /// Applies a part of the module to the shards of arrays along these axes, on each device.
    pub(super) fn on_shards(
        &self,
        (mesh, axes): (&Mesh, Vec<String>),
        (arrays, in_specs): (Vec<Array>, Vec<PartitionSpec>),
        run: impl FnOnce(Vec<Traced>) -> Translated<Vec<Traced>>,
        out_specs: Vec<PartitionSpec>,
    ) -> Vec<Array> {
        let paths: Vec<String> = (0..arrays.len()).map(|index| format!("[{index}]")).collect();
        let region = MapRegion {
            name: self.target.name.clone(),
            function: "shard_map",
            mesh,
            axes: axes.clone(),
            tracked: false,
            loc: self.target.loc,
        };
        let manual = ManualRegion { axes: mesh.axes().to_vec(), manual: axes };
        let run = |leaves: Vec<Array>| -> Vec<Array> {
            self.manual.borrow_mut().push(manual);
            let results = run(leaves.into_iter().map(Traced::Array).collect());
            self.manual.borrow_mut().pop();
            let arrays = results.and_then(|results| self.arrays_of(&results));
            arrays.unwrap_or_else(|error| trace::throw(error))
        };
        region.map((&paths, arrays, in_specs), run, |_| out_specs)
    }

    /// Returns a spec with only these axes.
    fn only(&self, spec: PartitionSpec, axes: &[String]) -> PartitionSpec {
        let dimensions = spec.0.into_iter().map(|along| match along {
            AxisSpec::Axes(names) => {
                AxisSpec::Axes(names.into_iter().filter(|name| axes.contains(name)).collect())
            }
            other => other,
        });
        PartitionSpec(dimensions.collect())
    }
}
