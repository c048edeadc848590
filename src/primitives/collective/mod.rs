//! Collectives: operations in which all examples along a named axis take part together.
//!
//! A collective holds the name of its axis, and its size where types depend on it. The batch rule
//! for the axis of that name computes the collective with ordinary operations along the batch axis.
//! For any other axis the batch rule keeps the collective. A collective whose axis is never bound
//! by `vmap` is lowered for the devices along the mesh axis of that name, inside `shard_map`.
//!
//! A collective over groups of examples, or over several axes of which `vmap` binds one, computes
//! the results of all examples from the values of all, and each example selects its own.
//!
//! The public functions, which take trees, are in `ops`.

mod axes;
mod extremum;
mod gather;
mod index;
mod lowering;
mod permute;
mod ragged;
mod scatter;
mod sum;
mod transposition;
mod varying;

pub use axes::{AxisIndexGroups, CollectiveAxes};
pub use extremum::{PMax, PMin};
pub use gather::AllGather;
pub use index::AxisIndex;
pub use permute::PPermute;
pub use ragged::RaggedAllToAll;
pub use scatter::PSumScatter;
pub use sum::PSum;
pub use transposition::AllToAll;
pub use varying::PVary;
pub(crate) use varying::vary;

use super::rules::{batch_at_front, batched, move_axis};
use super::shape::reshape;
use crate::core::{Array, BatchAxis, Batched, Primitive, RuleError, RuleResult, bind1};

/// Returns the error of a collective's `lower` rule outside of its axes.
fn unbound_axes<T>(name: &str, axes: &[String]) -> RuleResult<T> {
    let quoted: Vec<String> = axes.iter().map(|axis| format!("`{axis}`")).collect();
    let first = axes.first().map_or("i", String::as_str);
    Err(RuleError::unsupported(format!(
        "`{name}` over {} stands outside of any axis of that name",
        quoted.join(", ")
    ))
    .help(format!(
        "it belongs inside `vmap(f).axis_name(\"{first}\")`, or `shard_map` over a mesh \
        with that axis"
    )))
}

/// Batches a collective over an axis that it does not refer to, with the batch axis in front.
/// `shifted` is the collective with its axis indices increased by one.
fn behind(
    shifted: impl Primitive,
    operands: &[Array],
    axes: &[Option<usize>],
    axis: &BatchAxis,
) -> RuleResult<Batched> {
    let x = &batch_at_front(operands, axes, axis)[0];
    Ok(batched(bind1(shifted, [x]), 0))
}

/// Moves axis `from` in front of what is then axis `to`, and merges both.
fn merged(x: &Array, from: usize, to: usize) -> Array {
    let moved = move_axis(x, from, to);
    let mut shape = moved.shape().to_vec();
    let outer = shape.remove(to);
    shape[to] *= outer;
    reshape(&moved, shape)
}

/// Splits axis `axis` into `parts` and the rest.
fn split_axis_in(x: &Array, axis: usize, parts: usize) -> Array {
    let mut shape = x.shape().to_vec();
    shape[axis] /= parts.max(1);
    shape.insert(axis, parts);
    reshape(x, shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Aval, DType};
    use crate::primitives::snapshot::error_of;
    use expect_test::expect;

    fn f32s(shape: &[usize]) -> Aval {
        Aval::new(DType::F32, shape)
    }

    #[test]
    fn rejects_operands_that_do_not_fit() {
        let scatter =
            PSumScatter { axes: CollectiveAxes::one("i", 4), scatter_dimension: 1, tiled: false };
        expect![[r#"
            error[shape]: psum_scatter: axis 1 has size 6, and one element is to go to each of the 4 along `i`
              operand: f32[2,6]
              help: `tiled` scatters several elements to each"#]]
        .assert_eq(&error_of(scatter.clone(), [f32s(&[2, 6])]));
        expect![[r#"
            error[shape]: psum_scatter: axis 1 has size 6, which is not divisible by the size 4 of `i`
              operand: f32[2,6]"#]]
        .assert_eq(&error_of(PSumScatter { tiled: true, ..scatter }, [f32s(&[2, 6])]));
        let all_to_all = AllToAll {
            axes: CollectiveAxes::one("i", 3),
            split_axis: 0,
            concat_axis: 2,
            tiled: false,
        };
        expect![[r#"
            error[shape]: all_to_all: concat_axis 2 must be less than the rank 2 of the operand
              operand: f32[3,6]"#]]
        .assert_eq(&error_of(all_to_all.clone(), [f32s(&[3, 6])]));
        expect![[r#"
            error[shape]: all_to_all: axis 0 has size 6, and one element is to go to each of the 3 along `i`
              operand: f32[6,3,2]
              help: `tiled` sends several elements to each"#]]
        .assert_eq(&error_of(all_to_all, [f32s(&[6, 3, 2])]));
        let permute = PPermute { axes: CollectiveAxes::one("i", 3), perm: vec![(0, 1), (2, 1)] };
        expect![[r#"
            error[value]: ppermute: two elements are sent to 1 along `i`: those of 0 and of 2
              operand: f32[]"#]]
        .assert_eq(&error_of(permute.clone(), [f32s(&[])]));
        expect![[r#"
            error[value]: ppermute: the pair (0, 3) leaves the axis `i` of size 3
              operand: f32[]"#]]
        .assert_eq(&error_of(PPermute { perm: vec![(0, 3)], ..permute }, [f32s(&[])]));
        let sum = PSum::over(vec!["i".into()]);
        expect![[r#"
            error[dtype]: psum: needs a numeric operand, got bool
              operand: bool[2]"#]]
        .assert_eq(&error_of(sum, [Aval::new(DType::Bool, [2])]));
    }
}
