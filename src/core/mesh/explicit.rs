//! Shardings of results over the explicit axes of a mesh.
//!
//! The sharding over explicit axes is part of an array's type ([`Aval::sharding`]). The type of a
//! result follows from those of the operands by the operation's [`ShardingRule`], or is an error.
//! Shardings never change values: they decide where shards are stored, and lowering writes them as
//! constraints. `docs/decisions/0041-shardings-over-explicit-axes-are-types.md` has the reasons.

use super::axis_spec::AxisSpec;
use super::mesh::Mesh;
use super::partition::{NamedSharding, PartitionSpec};
use super::sharding_rule::ShardingRule;
use crate::core::error::{RuleError, RuleResult};
use crate::core::types::aval::Aval;

/// Returns the mesh over whose explicit axes the values are sharded, if any of them is.
///
/// # Errors
/// `Sharding` if there are two.
pub(crate) fn joint_mesh<'a>(
    avals: impl IntoIterator<Item = &'a Aval>,
) -> RuleResult<Option<&'a Mesh>> {
    let mut meshes =
        avals.into_iter().filter_map(|aval| aval.sharding.as_ref()).map(NamedSharding::mesh);
    let Some(first) = meshes.next() else { return Ok(None) };
    match meshes.find(|mesh| *mesh != first) {
        None => Ok(Some(first)),
        Some(other) => {
            let message = format!("operands are sharded over {first} and over {other}");
            Err(RuleError::sharding(message)
                .help("`device_put` moves arrays to another mesh, outside of `jit`"))
        }
    }
}

/// Returns the shardings of an operation's results, `None` for those that are not sharded.
///
/// Operand dimensions that correspond to one result dimension must be sharded alike, or not at all.
/// Those that correspond to none must not be sharded, unless the operation combines along them.
///
/// # Errors
/// `Sharding`, with the dimensions and mesh axes.
pub(crate) fn result_shardings(
    rule: &ShardingRule,
    operands: &[Aval],
    results: &[Aval],
) -> RuleResult<Vec<Option<NamedSharding>>> {
    let Some(mesh) = joint_mesh(operands)? else { return Ok(vec![None; results.len()]) };
    if !rule.combines() {
        expect_whole(rule, operands)?;
    }
    let of_result = |(index, result): (usize, &Aval)| {
        let axes = (0..result.rank()).map(|dim| joint_axes(rule, operands, index, dim));
        sharding_of(mesh, PartitionSpec(axes.collect::<RuleResult<_>>()?), result)
    };
    results.iter().enumerate().map(of_result).collect()
}

/// Returns the explicit mesh axes over which a dimension is sharded, if there are any.
pub(crate) fn axes_along(aval: &Aval, dim: usize) -> Option<&[String]> {
    let axes = aval.sharding.as_ref()?.spec().along(dim);
    (!axes.is_empty()).then_some(axes)
}

/// Formats mesh axes for an error.
pub(crate) fn quoted(axes: &[String]) -> String {
    axes.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Returns the sharding of a result that a parameter of the operation states.
///
/// # Errors
/// `Sharding` if the operands are over another mesh, or the sharding does not fit the result.
pub(crate) fn stated_sharding(
    sharding: &NamedSharding,
    operands: &[Aval],
    result: &Aval,
) -> RuleResult<Option<NamedSharding>> {
    if let Some(mesh) = joint_mesh(operands)?.filter(|mesh| *mesh != sharding.mesh()) {
        return Err(RuleError::sharding(format!(
            "the operands are sharded over {mesh}, the result over {}",
            sharding.mesh()
        ))
        .help("name axes of the operands' mesh"));
    }
    sharding_of(sharding.mesh(), sharding.spec().clone(), result)
}

/// Returns the mesh axes of the operand dimensions that a result dimension corresponds to.
fn joint_axes(
    rule: &ShardingRule,
    operands: &[Aval],
    result: usize,
    dim: usize,
) -> RuleResult<AxisSpec> {
    let mut joint: Option<(&(usize, usize), &[String])> = None;
    for source in rule.along(result, dim) {
        let (operand, operand_dim) = *source;
        let axes = operands.get(operand).and_then(|aval| axes_along(aval, operand_dim));
        let Some(axes) = axes else { continue };
        match joint {
            Some((first, other)) if other != axes => {
                return Err(RuleError::sharding(format!(
                    "operands are sharded differently: operand {} along axis {} over {}, operand \
                     {operand} along axis {operand_dim} over {}",
                    first.0,
                    first.1,
                    quoted(other),
                    quoted(axes)
                ))
                .help("`reshard` one of them"));
            }
            _ => joint = Some((source, axes)),
        }
    }
    Ok(AxisSpec::from(joint.map(|(_, axes)| axes.to_vec()).unwrap_or_default()))
}

/// Checks that operand dimensions without a result dimension are not sharded.
fn expect_whole(rule: &ShardingRule, operands: &[Aval]) -> RuleResult<()> {
    for (index, operand) in operands.iter().enumerate() {
        for dim in 0..operand.rank() {
            let sharded = axes_along(operand, dim).filter(|_| !rule.is_kept(index, dim));
            if let Some(axes) = sharded {
                return Err(RuleError::sharding(format!(
                    "operand {index} is sharded along axis {dim} over {}, which must be whole on \
                     each device",
                    quoted(axes)
                ))
                .help(
                    "`reshard` it so that this axis is `None`, or leave the function to the \
                     compiler with `auto_axes`",
                ));
            }
        }
    }
    Ok(())
}

/// Returns the sharding of a value by a spec over explicit axes. `None` if it shards no dimension.
///
/// # Errors
/// `Sharding` if a mesh axis shards two dimensions, or does not divide the size.
pub(crate) fn sharding_of(
    mesh: &Mesh,
    spec: PartitionSpec,
    value: &Aval,
) -> RuleResult<Option<NamedSharding>> {
    let refused = |error: RuleError| RuleError::sharding(error.message);
    for dim in 0..value.rank() {
        let mut twice = spec.along(dim).iter();
        let earlier = |name: &&String| (0..dim).any(|other| spec.along(other).contains(name));
        if let Some(name) = twice.find(earlier) {
            return Err(RuleError::sharding(format!(
                "the result would be sharded over `{name}` along two axes: {spec}"
            ))
            .help("`reshard` an operand, or state `out_sharding` where the operation has it"));
        }
    }
    if let Err(error) = spec.shard_shape(mesh, &value.shape) {
        return Err(refused(error).help("`reshard` the operand before"));
    }
    Ok(NamedSharding::checked(mesh, spec).map_err(refused)?.explicit_part())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{DType, Device};
    use crate::p;

    fn mesh() -> Mesh {
        let devices: Vec<Device> = (0..8).map(|id| Device::new(id, 0, "cpu", "", true)).collect();
        Mesh::new(devices, [("x", 4), ("y", 2)]).unwrap().explicit()
    }

    fn typed(shape: &[usize], spec: PartitionSpec) -> Aval {
        Aval::new(DType::F32, shape).with_sharding(&mesh().sharding(spec).unwrap())
    }

    fn elementwise(operands: &[Aval]) -> Result<String, String> {
        let result = Aval::new(DType::F32, &operands[0].shape);
        let results = [result.clone()];
        let rule = ShardingRule::in_place(operands, &results);
        let shardings = result_shardings(&rule, operands, &results);
        let shardings = shardings.map_err(|error| error.message)?;
        Ok(Aval { sharding: shardings[0].clone(), ..result }.to_string())
    }

    #[test]
    fn operands_determine_the_result() {
        let (rows, columns) = (typed(&[8, 4], p!["x"]), typed(&[8, 4], p![None, "y"]));
        assert_eq!(elementwise(&[rows.clone(), columns]).unwrap(), "f32[8@x,4@y]");
        let whole = Aval::new(DType::F32, [8, 4]);
        assert_eq!(elementwise(&[whole, rows.clone()]).unwrap(), "f32[8@x,4]");
        let other = typed(&[8, 4], p!["y"]);
        assert!(elementwise(&[rows.clone(), other]).unwrap_err().contains("`x`"));
        let twice = typed(&[8, 4], p![None, "x"]);
        assert!(elementwise(&[rows, twice]).unwrap_err().contains("along two axes"));
        let both = typed(&[8, 4], p![["x", "y"]]);
        assert_eq!(both.to_string(), "f32[8@(x,y),4]");
    }

    #[test]
    fn removed_axes_are_whole_or_combined() {
        let operands = [typed(&[8, 4], p!["x", "y"])];
        let results = [Aval::new(DType::F32, [4])];
        let rule = ShardingRule::moved([Some(1)]);
        let error = result_shardings(&rule, &operands, &results).unwrap_err();
        assert!(error.message.contains("along axis 0 over `x`"), "{}", error.message);
        let combined = result_shardings(&rule.combining(), &operands, &results).unwrap();
        assert_eq!(combined, [Some(mesh().sharding(p!["y"]).unwrap())]);
        assert_eq!(operands[0].without_axis(0).to_string(), "f32[4@y]");
    }

    #[test]
    fn sizes_must_be_divisible() {
        let value = Aval::new(DType::F32, [6]);
        let error = sharding_of(&mesh(), p!["x"], &value).unwrap_err();
        assert!(error.message.contains("size 6"), "{}", error.message);
        let automatic = mesh().with_axis_types([crate::core::AxisType::Auto; 2]).unwrap();
        let value = Aval::new(DType::F32, [8]);
        assert_eq!(sharding_of(&automatic, p!["x"], &value).unwrap(), None);
    }
}
