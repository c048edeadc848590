//! Runs cases and compares their results.

use super::difference::difference;
use super::recorded::{Case, Suite, numbers};
use super::{Function, Table};
use oxidax::jit::disable_most_optimizations;
use oxidax::parallel::{PerArgument, PerLeaf};
use oxidax::prelude::*;

pub(super) const PLAIN: Tiling = Tiling::Untiled;
pub(super) const TILED: Tiling = Tiling::Tiled;

pub(super) fn square(x: &Array) -> Array {
    integer_pow(x, 2)
}

/// Returns a mesh of all devices along `i`.
pub(super) fn row() -> Mesh {
    crate::parallel::mesh([("i", 8)])
}

/// Returns a mesh of four by two devices.
pub(super) fn grid() -> Mesh {
    crate::parallel::mesh([("a", 4), ("b", 2)])
}

/// Returns the pairs of a ring: each device sends to the next.
pub(super) fn ring() -> Vec<(usize, usize)> {
    (0..8).map(|k| (k, (k + 1) % 8)).collect()
}

/// Returns the first row.
pub(super) fn first(x: &Array) -> Array {
    squeeze(&dynamic_index_in_dim(x, 0, 0), &[0])
}

/// Maps a function of a list over the shards of a mesh. `outs` is one spec for all results, or one
/// for each.
pub(super) fn split<'f>(
    mesh: Mesh,
    ins: &[PartitionSpec],
    outs: &[PartitionSpec],
    f: impl Fn(Vec<Array>) -> Vec<Array> + 'f,
) -> impl Fn(&[Array]) -> Vec<Array> + 'f {
    let mapped = shard_map(f, &mesh).in_specs(listed(ins)).out_specs(results(outs));
    move |operands: &[Array]| mapped.apply(operands.to_vec())
}

/// Applies `f` to each device's rows.
pub(super) fn own(x: &[Array], f: impl Fn(&Array) -> Array) -> Vec<Array> {
    split(row(), &[p!["i"]], &[p!["i"]], |x| vec![f(&x[0])])(x)
}

/// Like [`split`], without the check of varying types.
pub(super) fn untyped<'f>(
    mesh: Mesh,
    ins: &[PartitionSpec],
    outs: &[PartitionSpec],
    f: impl Fn(Vec<Array>) -> Vec<Array> + 'f,
) -> impl Fn(&[Array]) -> Vec<Array> + 'f {
    let mapped = shard_map(f, &mesh).in_specs(listed(ins)).out_specs(results(outs));
    let mapped = mapped.check_varying(false);
    move |operands: &[Array]| mapped.apply(operands.to_vec())
}

/// Like [`split`], mapped over one axis of the grid. The compiler partitions the other axis.
pub(super) fn partly<'f>(
    axis: &str,
    ins: &[PartitionSpec],
    outs: &[PartitionSpec],
    f: impl Fn(Vec<Array>) -> Vec<Array> + 'f,
) -> impl Fn(&[Array]) -> Vec<Array> + 'f {
    let mapped = shard_map(f, &grid()).in_specs(listed(ins)).out_specs(results(outs));
    let mapped = mapped.axis_names(axis);
    move |operands: &[Array]| mapped.apply(operands.to_vec())
}

/// Returns the only result of a function mapped over the row.
pub(super) fn over(
    f: impl Fn(Vec<Array>) -> Vec<Array>,
    ins: &[PartitionSpec],
    out: PartitionSpec,
    operands: &[&Array],
) -> Array {
    let operands: Vec<Array> = operands.iter().copied().cloned().collect();
    split(row(), ins, &[out], f)(&operands).remove(0)
}

/// Returns the specs of a function whose only argument is a list.
fn listed(specs: &[PartitionSpec]) -> PerArgument<PartitionSpec> {
    PerArgument::Each(vec![PerLeaf::Each(specs.to_vec())])
}

/// Returns the specs of a list of results.
fn results(specs: &[PartitionSpec]) -> PerArgument<PartitionSpec> {
    match specs {
        [one] => PerArgument::All(PerLeaf::All(one.clone())),
        many => PerArgument::All(PerLeaf::Each(many.to_vec())),
    }
}

/// Returns the values, the tangents of inexact results, and the cotangents of the operands.
fn with_derivatives(f: Function, wrt: &[usize], operands: &[Array]) -> Vec<Array> {
    let inexact = |chosen: &Vec<Array>| -> Vec<Array> {
        let mut all = operands.to_vec();
        wrt.iter().zip(chosen).for_each(|(&at, x)| all[at] = x.clone());
        f(&all).into_iter().filter(|y| y.dtype().is_inexact()).collect()
    };
    let chosen: Vec<Array> = wrt.iter().map(|&at| operands[at].clone()).collect();
    let seeded = |first: usize, like: &[Array]| -> Vec<Array> {
        let each = like.iter().enumerate();
        each.map(|(n, x)| numbers(x.dtype(), x.shape().dims(), first + n)).collect()
    };
    let (values, pull) = vjp(inexact, &chosen);
    let tangents = jvp(inexact, &chosen, seeded(20, &chosen)).1;
    let mut all = f(operands);
    all.extend(tangents);
    all.extend(pull.apply(&seeded(40, &values)));
    all
}

/// Computes the results of a case: in one program, unless the function creates its own programs.
fn run(case: Case<'_>, f: Function, compiled: bool) -> Result<Vec<Array>, String> {
    let wrt = case.wrt();
    let all = move |operands: Vec<Array>| match &wrt {
        Some(wrt) => with_derivatives(f, wrt, &operands),
        None => f(&operands),
    };
    let operands = case.operands();
    match compiled {
        true => jit(all).call(operands).map_err(|error| error.to_string()),
        false => oxidax::catch(|| all(operands)).map_err(|error| error.to_string()),
    }
}

/// Compares the results of a case with the recorded ones.
fn compared(case: Case<'_>, results: &[Array]) -> Result<(), String> {
    let expected = case.results();
    if results.len() != expected.len() {
        return Err(format!("{} results, recorded {}", results.len(), expected.len()));
    }
    for (at, (result, recorded)) in results.iter().zip(&expected).enumerate() {
        let (aval, dtype) = (result.aval(), recorded.aval.dtype);
        if aval.dtype != dtype || aval.shape != recorded.aval.shape {
            return Err(format!("result {at}: {aval}, recorded {}", recorded.aval));
        }
        let bytes = result.to_bytes().map_err(|error| error.to_string())?;
        if let Some(message) = difference(dtype, &bytes, &recorded.bytes, case.tolerance(dtype)) {
            return Err(format!("result {at} of {}, {aval}: {message}", expected.len()));
        }
    }
    let Some(specs) = case.specs() else { return Ok(()) };
    for (at, (result, recorded)) in results.iter().zip(specs).enumerate() {
        let recorded = PartitionSpec(recorded.into_iter().map(Into::into).collect());
        let Some(found) = result.sharding() else {
            return Err(format!("result {at}: is on one device, recorded {recorded}"));
        };
        if *found.spec() != recorded {
            return Err(format!("result {at}: sharded as {}, recorded {recorded}", found.spec()));
        }
    }
    Ok(())
}

/// Runs every recorded case of a family. Fails for cases that differ, for cases without a function,
/// and for functions without a case.
pub(super) fn check(family: &str, table: Table) {
    crate::parallel::eight();
    let suite = Suite::load();
    let cases = suite.cases(family);
    let compiled = !["pmapped", "sharded", "sharded_steps"].contains(&family);
    let mut wrong = Vec::new();
    for &case in &cases {
        let name = case.name();
        let outcome = match table.iter().find(|(known, _)| *known == name) {
            None => Err("no function has this name".into()),
            Some((_, f)) => {
                // Most of the time goes to compilation.
                let found = disable_most_optimizations(|| run(case, *f, compiled));
                found.and_then(|found| compared(case, &found))
            }
        };
        wrong.extend(outcome.err().map(|message| format!("{name}: {message}")));
    }
    let recorded: Vec<&str> = cases.iter().map(|case| case.name()).collect();
    let unrecorded = table.iter().filter(|(name, _)| !recorded.contains(name));
    wrong.extend(unrecorded.map(|(name, _)| format!("{name}: not recorded")));
    let count = cases.len();
    assert!(wrong.is_empty(), "{} of {count} cases differ:\n{}", wrong.len(), wrong.join("\n"));
}
