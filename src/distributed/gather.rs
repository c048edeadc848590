//! Collective operations on host arrays.

use super::contribution::{
    Contribution, describe, describe_with_digest, digest, host_arrays, unequal,
};
use super::rendezvous::Failure;
use super::session::{Session, joined_session};
use crate::core::{Array, Error, HostArray, Shape};
use crate::ops::Tiling;
use crate::runtime::process_count;
use crate::tree::{self, Tree};

/// Gathers the arrays of all processes, in the order of the processes. Every process receives the
/// same result.
///
/// A leaf of shape `[a, b]` becomes one of shape `[processes, a, b]`, or [tiled](Tiling::Tiled) of
/// shape `[processes · a, b]`. Scalars are always stacked. Arrays travel over the hosts and the
/// coordinator, which sends everything to every process: use it for metrics, not for weights. With
/// a single process, a leaf becomes a stack of one.
///
/// Throws `Tracer` if an array is traced.
///
/// # Errors
/// `Distributed`: `Timeout` with the processes that are missing, `Lost` if a process died,
/// `Mismatch` if others call another function or have trees of other types, `Refused` if the data
/// exceeds [`ClusterConfig::store_limit`](super::ClusterConfig::store_limit).
///
/// ```no_run
/// use oxidax::distributed::process_allgather;
/// use oxidax::prelude::*;
/// let loss = Array::from_slice(&[0.25f32], [])?;
/// let losses = process_allgather(&loss, Tiling::Untiled)?; // f32[processes]
/// let worst = losses.max();
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn process_allgather<T: Tree>(tree: &T, tiling: Tiling) -> Result<T, Error> {
    let doing = match tiling {
        Tiling::Untiled => "process_allgather",
        Tiling::Tiled => "process_allgather (tiled)",
    };
    gather(tree, tiling, doing)
}

/// Gathers on behalf of the operation `doing`, which all processes must have in common.
#[track_caller]
pub(super) fn gather<T: Tree>(tree: &T, tiling: Tiling, doing: &str) -> Result<T, Error> {
    let arrays = host_arrays(tree)?;
    let data = concatenated(&arrays);
    let all = match joined_session()? {
        None => vec![data],
        Some(session) => {
            let mine = Contribution::of(doing, describe(&arrays), data);
            session.exchange(&mine)?.into_iter().map(|contribution| contribution.data).collect()
        }
    };
    let together = |shape: &Shape| match (tiling, shape.dims()) {
        (Tiling::Tiled, [first, rest @ ..]) => {
            std::iter::once(first * all.len()).chain(rest.iter().copied()).collect()
        }
        _ => shape.insert(0, all.len()),
    };
    let mut start = 0;
    let leaves: Result<Vec<Array>, Error> = arrays
        .iter()
        .map(|(path, array)| {
            let end = start + array.as_bytes().len();
            let mut bytes = Vec::with_capacity((end - start) * all.len());
            for data in &all {
                bytes.extend_from_slice(part_of(data, start, end, path, doing)?);
            }
            start = end;
            Array::from_bytes(&bytes, array.dtype(), together(array.shape()))
        })
        .collect();
    Ok(tree::unflatten(tree, leaves?))
}

/// Sends the arrays of one process to all processes. The arrays of the others only define shapes
/// and dtypes.
///
/// Throws `Tracer` if an array is traced.
///
/// # Errors
/// As [`process_allgather`], and `Refused` if process `source` does not exist.
///
/// ```no_run
/// use oxidax::distributed::broadcast_one_to_all;
/// use oxidax::prelude::*;
/// // Each process drew its own seed; all use the seed of process 0.
/// let seed = Array::from_slice(&[std::process::id()], [])?;
/// let seed = broadcast_one_to_all(&seed, 0)?.item::<u32>()?;
/// # let _ = seed;
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn broadcast_one_to_all<T: Tree>(tree: &T, source: usize) -> Result<T, Error> {
    let arrays = host_arrays(tree)?;
    let doing = format!("broadcast_one_to_all from process {source}");
    if source >= process_count() {
        let message = format!("there is no process {source}; there are {}", process_count());
        return Err(Failure::refused(message).error(doing));
    }
    let given = match joined_session()? {
        None => concatenated(&arrays),
        Some(session) => {
            let is_source = session.is(source);
            let data = if is_source { concatenated(&arrays) } else { Vec::new() };
            let mine = Contribution::of(&doing, describe(&arrays), data);
            session.exchange(&mine)?.swap_remove(source).data
        }
    };
    let mut start = 0;
    let leaves: Result<Vec<Array>, Error> = arrays
        .iter()
        .map(|(path, array)| {
            let end = start + array.as_bytes().len();
            let bytes = part_of(&given, start, end, path, &doing)?;
            start = end;
            Array::from_bytes(bytes, array.dtype(), array.shape().clone())
        })
        .collect();
    Ok(tree::unflatten(tree, leaves?))
}

/// Waits until all processes have called it with the same name.
///
/// Unlike [`barrier`](super::barrier), it detects immediately, and names, a process that calls
/// something else. It does not wait for devices: block on a result for that.
///
/// # Errors
/// As [`process_allgather`].
///
/// ```
/// use oxidax::distributed::sync_global_devices;
/// sync_global_devices("epoch 3")?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "rendezvous")]
pub fn sync_global_devices(name: &str) -> Result<(), Error> {
    let Some(session) = joined_session()? else { return Ok(()) };
    let mine = Contribution::of(&format!("sync_global_devices `{name}`"), Vec::new(), Vec::new());
    session.exchange(&mine).map(drop)
}

/// Checks that all processes have equal arrays, bit for bit. NaN equals NaN of the same bits, and 0
/// differs from −0.
///
/// Processes exchange digests. Only if they differ do they exchange the first elements, to show
/// which arrays differ.
///
/// Throws `Tracer` if an array is traced.
///
/// # Errors
/// `Distributed`: `Mismatch` if arrays differ. The message begins with `message` and names arrays
/// and processes. Otherwise as [`process_allgather`].
///
/// ```no_run
/// # let weights = oxidax::Array::from_slice(&[0.0f32], [1])?;
/// oxidax::distributed::assert_equal(&weights, "the weights after restoring")?;
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn assert_equal<T: Tree>(tree: &T, message: &str) -> Result<(), Error> {
    let doing = "assert_equal";
    let arrays = host_arrays(tree)?;
    let Some(session) = joined_session()? else { return Ok(()) };
    let mine = Contribution::of(doing, Vec::new(), digest(&arrays));
    let all = session.exchange(&mine)?;
    if all.iter().all(|other| other.data == mine.data) {
        return Ok(());
    }
    // All processes have seen the same digests, so all of them reach this point.
    let mine = Contribution::of(
        "assert_equal, showing the differences",
        describe_with_digest(&arrays),
        Vec::new(),
    );
    Err(unequal(&session.exchange(&mine)?, message).error(doing))
}

impl Session {
    fn is(&self, index: usize) -> bool {
        crate::runtime::process_index() == index
    }

    /// Exchanges contributions, and returns those of all processes in order, after checking that
    /// their structures are equal.
    fn exchange(&self, mine: &Contribution) -> Result<Vec<Contribution>, Error> {
        let doing = mine.doing.as_str();
        let place = format!("round/{}", self.next_round());
        let all = self.meet(doing, &place, &[], self.timeout, mine.bytes())?;
        if all.len() != process_count() {
            let message = format!("received {} of {} contributions", all.len(), process_count());
            return Err(Failure::mismatch(message).error(doing));
        }
        let read = |(index, bytes): (u32, Vec<u8>)| {
            let other = Contribution::read(&bytes)?;
            mine.expect_like(&other, index, self.name(index))?;
            Ok(other)
        };
        let all: Result<Vec<Contribution>, Failure> = all.into_iter().map(read).collect();
        all.map_err(|failure| failure.error(doing))
    }
}

/// Concatenates the bytes of all arrays.
fn concatenated(arrays: &[(String, HostArray)]) -> Vec<u8> {
    arrays.iter().flat_map(|(_, array)| array.as_bytes().iter().copied()).collect()
}

fn part_of<'a>(
    data: &'a [u8],
    start: usize,
    end: usize,
    path: &str,
    doing: &str,
) -> Result<&'a [u8], Error> {
    data.get(start..end).ok_or_else(|| {
        let message = format!("`{}` should be bytes {start} to {end} of {}", path, data.len());
        Failure::mismatch(message).error(doing)
    })
}
