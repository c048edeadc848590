//! Communication between devices, in regions that run on shards.

use super::{ManualRegion, Operands, Scope, Traced, Translated, Translator};
use crate::core::{Array, AxisNames, DType};
use crate::ops::{
    Tiling, all_gather, all_to_all, axis_index, pmax, pmin, ppermute, psum, psum_scatter,
};
use crate::primitives::{convert_element_type, scalar};
use oxidax_vhlo::{AttributeValue, ValueType};

impl ManualRegion {
    /// Returns the number of devices.
    fn size(&self) -> usize {
        self.axes.iter().map(|(_, size)| size).product()
    }

    /// Returns the groups of devices that differ along these axes only, by their numbers.
    fn groups_along(&self, names: &[&String]) -> Vec<Vec<usize>> {
        let mut groups: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        for device in 0..self.size() {
            let mut rest = device;
            let mut others = Vec::new();
            for (name, size) in self.axes.iter().rev() {
                if !names.contains(&name) {
                    others.push(rest % size);
                }
                rest /= size;
            }
            match groups.iter_mut().find(|(key, _)| *key == others) {
                Some((_, group)) => group.push(device),
                None => groups.push((others, vec![device])),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Returns the axes along which devices of these groups differ, or groups along all axes.
    fn axes_of(&self, groups: &[Vec<usize>]) -> AxisNames {
        for subset in 0..1_u32 << self.manual.len().min(8) {
            let chosen = self.manual.iter().enumerate();
            let chosen = chosen.filter(|(bit, _)| subset >> bit & 1 != 0).map(|(_, name)| name);
            let names: Vec<&String> = chosen.collect();
            let (mut along, mut found) = (self.groups_along(&names), groups.to_vec());
            along.sort();
            found.sort();
            if along == found {
                let ordered = self.axes.iter().map(|(name, _)| name);
                let ordered: Vec<String> =
                    ordered.filter(|name| names.contains(name)).cloned().collect();
                return AxisNames::from(ordered);
            }
        }
        self.all_axes().axis_index_groups(groups.to_vec())
    }

    fn all_axes(&self) -> AxisNames {
        AxisNames::from(self.axes.iter().map(|(name, _)| name.clone()).collect::<Vec<String>>())
    }
}

impl<'m> Translator<'m> {
    /// Returns something of the innermost region that runs on shards.
    fn in_region<T>(
        &self,
        operands: &Operands<'m>,
        f: impl FnOnce(&ManualRegion) -> Translated<T>,
    ) -> Translated<T> {
        match self.manual.borrow().last() {
            Some(region) => f(region),
            None => {
                let message = "devices communicate outside of a region that runs on shards";
                Err(self.unsupported(operands.operation, message))
            }
        }
    }

    /// Returns the groups of devices of an operation.
    fn groups(&self, operands: &Operands<'m>) -> Translated<AxisNames> {
        let attribute = self.vhlo(operands.operation.attribute("replica_groups"))?;
        let columns = match &attribute {
            Some(AttributeValue::Tensor(ValueType::Tensor(_, sizes), _)) => match sizes[..] {
                [Some(_), Some(columns)] => usize::try_from(columns).ok(),
                _ => None,
            },
            _ => None,
        };
        let Some(columns) = columns else {
            return Err(self.unsupported(operands.operation, "it does not state groups of devices"));
        };
        let numbers = self.sizes(operands, "replica_groups")?;
        self.in_region(operands, |region| {
            let groups: Vec<Vec<usize>> = match numbers.is_empty() {
                true => vec![(0..region.size()).collect()],
                false => numbers.chunks(columns.max(1)).map(<[usize]>::to_vec).collect(),
            };
            Ok(region.axes_of(&groups))
        })
    }

    /// Translates an operation between devices.
    pub(super) fn collective(
        &self,
        operands: &Operands<'m>,
        scope: &Scope<'_>,
    ) -> Translated<Vec<Traced>> {
        let operation = operands.operation;
        let number = |name| self.number(operands, name).map(|number| number as isize);
        let results = match operation.name() {
            "partition_id" | "replica_id" => vec![self.device_index(operands)?],
            "all_reduce" => {
                let axes = self.groups(operands)?;
                let name = self.reducer(operands, 0, scope)?;
                let arrays = self.arrays(operands)?;
                let reduced = arrays.iter().map(|x| self.all_reduce(operands, name, x, &axes));
                reduced.collect::<Translated<_>>()?
            }
            "all_gather" => {
                let (axes, axis) = (self.groups(operands)?, number("all_gather_dim")?);
                all_gather(&self.arrays(operands)?, axes, axis, Tiling::Tiled)
            }
            "reduce_scatter" => {
                if self.reducer(operands, 0, scope)? != Some("add") {
                    return Err(self.unsupported(operation, "it does not compute sums"));
                }
                let (axes, axis) = (self.groups(operands)?, number("scatter_dimension")?);
                psum_scatter(&self.arrays(operands)?, axes, axis, Tiling::Tiled)
            }
            "all_to_all" => {
                let (axes, split) = (self.groups(operands)?, number("split_dimension")?);
                let concat = number("concat_dimension")?;
                all_to_all(&self.arrays(operands)?, axes, split, concat, Tiling::Tiled)
            }
            "collective_permute" => {
                let numbers = self.sizes(operands, "source_target_pairs")?;
                let pairs: Vec<(usize, usize)> =
                    numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
                let axes = self.in_region(operands, |region| Ok(region.all_axes()))?;
                ppermute(&self.arrays(operands)?, axes, &pairs)
            }
            _ => return Err(self.unsupported(operation, "it is not supported")),
        };
        Ok(results.into_iter().map(Traced::Array).collect())
    }

    fn all_reduce(
        &self,
        operands: &Operands<'m>,
        name: Option<&str>,
        x: &Array,
        axes: &AxisNames,
    ) -> Translated<Array> {
        let axes = axes.clone();
        let as_numbers = |f: fn(&Array, AxisNames) -> Array| {
            convert_element_type(&f(&convert_element_type(x, DType::I32), axes.clone()), x.dtype())
        };
        Ok(match name {
            Some("add") => psum(x, axes),
            Some("maximum") => pmax(x, axes),
            Some("minimum") => pmin(x, axes),
            Some("or") if x.dtype().is_bool() => as_numbers(|x, axes| pmax(x, axes)),
            Some("and") if x.dtype().is_bool() => as_numbers(|x, axes| pmin(x, axes)),
            _ => return Err(self.unsupported(operands.operation, "it combines by a function")),
        })
    }

    /// Returns the number of the device, in the order of the mesh.
    fn device_index(&self, operands: &Operands<'m>) -> Translated<Array> {
        let (dtype, _) = self.result_type(operands, 0)?;
        if self.target.mesh.is_none() {
            return Ok(convert_element_type(&scalar(0), dtype));
        }
        self.in_region(operands, |region| {
            if region.manual.len() != region.axes.len() {
                let message = "the region runs on shards along some axes of the mesh only";
                return Err(self.unsupported(operands.operation, message));
            }
            Ok(convert_element_type(&axis_index(region.all_axes()), dtype))
        })
    }
}
