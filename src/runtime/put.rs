//! Arrays brought to where they are to lie.

use super::buffer::{OnDevice, element_type};
use super::client::{Runtime, runtime, runtime_error};
use super::executable::{Executable, Kept, Scratch};
use super::home::{Home, Place, default_device, place};
use super::plan::{Plan, Runs};
use super::shards::Shards;
use crate::core::host_function::refuse_inside;
use crate::core::{
    Array, Aval, Buffer, Cache, Error, Kind, NamedSharding, OpErrorKind, Program, Shape, trace,
};
use oxidax_pjrt::UniqueBuffer;
use rustc_hash::{FxHashMap, FxHasher};
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

thread_local! {
    /// How arrays lie that are copied from the host, if a scope says so.
    static SPREAD: RefCell<Option<NamedSharding>> = const { RefCell::new(None) };
}

/// Runs `f` with arrays that are copied from the host spread so.
pub(crate) fn with_spread<R>(sharding: &NamedSharding, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<NamedSharding>);
    impl Drop for Restore {
        fn drop(&mut self) {
            SPREAD.set(self.0.take());
        }
    }
    let _restore = Restore(SPREAD.replace(Some(sharding.clone())));
    f()
}

/// The parts of an array that this process's devices have.
fn own_parts(shape: &Shape, sharding: &NamedSharding) -> Vec<Vec<Range<usize>>> {
    let local = sharding.devices().iter().enumerate().filter(|(_, device)| device.is_local());
    local.map(|(place, _)| sharding.part(place, shape)).collect()
}

/// The shape of the array of which this process's devices have a part of this shape.
fn whole_of(own: &Shape, sharding: &NamedSharding) -> Result<Shape, Error> {
    if sharding.mesh().is_local() {
        sharding.shard_shape(own)?;
        return Ok(own.clone());
    }
    // An array of one element on each device tells how many of the parts along an axis are ours.
    let mesh = sharding.mesh();
    let parts = |at: usize| mesh.count(sharding.spec().along(at));
    let cells: Shape = (0..own.rank()).map(parts).collect();
    let ours = own_parts(&cells, sharding);
    let along = |at: usize| {
        let mut mine: Vec<usize> = ours.iter().map(|part| part[at].start).collect();
        mine.sort_unstable();
        mine.dedup();
        own[at] * cells[at] / mine.len().max(1)
    };
    Ok((0..own.rank()).map(along).collect())
}

/// An array of which each process gives what its own devices have, as one piece of type `local`.
///
/// # Errors
/// `Op` (shape) if that is not the size of this process's part; `Runtime`.
pub(crate) fn put_local(
    bytes: &[u8],
    local: &Aval,
    whole: &Aval,
    sharding: &NamedSharding,
) -> Result<Array, Error> {
    sharding.shard_shape(&whole.shape)?;
    if sharding.mesh().is_local() && local.shape == whole.shape {
        return put_at(bytes, whole, &Home::Mesh(sharding.clone()));
    }
    let own = own_parts(&whole.shape, sharding);
    // The box that this process's parts fill.
    let bounds: Vec<Range<usize>> = (0..whole.rank())
        .map(|at| {
            let starts = own.iter().map(|part| part[at].start).min().unwrap_or(0);
            starts..own.iter().map(|part| part[at].end).max().unwrap_or(0)
        })
        .collect();
    let wanted: Shape = bounds.iter().map(Range::len).collect();
    if own.is_empty() || local.shape != wanted {
        let message = format!(
            "the devices of this process have {wanted} of {whole} as {sharding}, its data is {local}"
        );
        return Err(trace::op_error(
            OpErrorKind::Shape,
            "local data",
            message,
            crate::core::Loc::UNKNOWN,
        ));
    }
    let piece = |part: &Vec<Range<usize>>| {
        let inside: Vec<Range<usize>> = part
            .iter()
            .zip(&bounds)
            .map(|(part, bounds)| part.start - bounds.start..part.end - bounds.start)
            .collect();
        wanted.read_slice(&inside, local.dtype.host_bytes(), bytes)
    };
    assembled(whole, sharding, &own.iter().map(piece).collect::<Vec<_>>())
}

/// Copies elements to the default device, or spreads them if a scope says so.
///
/// # Errors
/// `Plugin`, `Runtime`.
pub(super) fn put(bytes: &[u8], aval: &Aval) -> Result<Array, Error> {
    refuse_inside("copying an array to the device")?;
    if let Some(sharding) = SPREAD.with_borrow(Clone::clone) {
        let whole = whole_of(&aval.shape, &sharding)?;
        return put_local(bytes, aval, &aval.with_shape(whole), &sharding);
    }
    put_default(bytes, aval)
}

/// Copies elements to the default device, whatever is said of arrays from the host: constants of programs.
///
/// # Errors
/// `Plugin`, `Runtime`.
pub(super) fn put_default(bytes: &[u8], aval: &Aval) -> Result<Array, Error> {
    refuse_inside("copying an array to the device")?;
    let device = default_device()?;
    let buffer = to_device(runtime()?, bytes, aval, &aval.shape, device)?;
    let on = OnDevice { buffer, device, committed: false };
    Ok(Array::concrete(aval.clone(), Arc::new(on)))
}

/// Copies elements to where they are to lie.
///
/// # Errors
/// `Plugin`, `Runtime`.
pub(crate) fn put_at(bytes: &[u8], aval: &Aval, home: &Home) -> Result<Array, Error> {
    refuse_inside("copying an array to the device")?;
    expect_here(aval, home)?;
    let runtime = runtime()?;
    let buffer: Arc<dyn Buffer> = match home {
        Home::Device(device) => {
            let buffer = to_device(runtime, bytes, aval, &aval.shape, *device)?;
            Arc::new(OnDevice { buffer, device: *device, committed: true })
        }
        Home::Mesh(sharding) => Arc::new(spread(runtime, bytes, aval, sharding)?),
    };
    Ok(Array::concrete(aval.clone(), buffer))
}

/// Whether there is such a place.
fn expect_here(aval: &Aval, home: &Home) -> Result<(), Error> {
    match home {
        Home::Mesh(sharding) if sharding.mesh().is_absent() => Err(Error::Plugin(format!(
            "{aval} cannot be put on {}, whose devices are not here: it was made `without_devices`",
            sharding.mesh()
        ))),
        _ => Ok(()),
    }
}

fn to_device(
    runtime: &Runtime,
    bytes: &[u8],
    aval: &Aval,
    shape: &Shape,
    device: i32,
) -> Result<UniqueBuffer, Error> {
    let dims: Vec<i64> = shape.iter().map(|&dim| dim as i64).collect();
    let buffer = runtime
        .client
        .buffer_from_host(bytes, element_type(aval.dtype), &dims, runtime.device(device)?)
        .map_err(|error| runtime_error(format!("copying {aval} to device {device}"), &error))?;
    Ok(buffer.into_unique().expect("nobody else knows of it yet"))
}

fn spread(
    runtime: &Runtime,
    bytes: &[u8],
    aval: &Aval,
    sharding: &NamedSharding,
) -> Result<Shards, Error> {
    let mut parts: FxHashMap<Vec<Range<usize>>, Vec<u8>> = FxHashMap::default();
    let mut buffers = Vec::with_capacity(sharding.devices().len());
    for (place, device) in sharding.devices().iter().enumerate() {
        if !device.is_local() {
            continue;
        }
        let part = sharding.part(place, &aval.shape);
        let shape: Shape = part.iter().map(Range::len).collect();
        let each = aval.dtype.host_bytes();
        let buffer = match shape == aval.shape {
            true => to_device(runtime, bytes, aval, &shape, device.id())?,
            false => {
                let make = || aval.shape.read_slice(&part, each, bytes);
                let piece = parts.entry(part.clone()).or_insert_with(make);
                to_device(runtime, piece, aval, &shape, device.id())?
            }
        };
        buffers.push(buffer);
    }
    Ok(Shards::new(sharding.clone(), Arc::new(aval.clone()), buffers))
}

/// An array made of shards that lie on their devices already: one for each local device of the mesh, in its order.
pub(crate) fn assembled(
    aval: &Aval,
    sharding: &NamedSharding,
    pieces: &[Vec<u8>],
) -> Result<Array, Error> {
    let runtime = runtime()?;
    let shape = sharding.shard_shape(&aval.shape)?;
    let local = sharding.devices().iter().filter(|device| device.is_local());
    let buffers = local
        .zip(pieces)
        .map(|(device, piece)| to_device(runtime, piece, aval, &shape, device.id()))
        .collect::<Result<_, _>>()?;
    let shards = Shards::new(sharding.clone(), Arc::new(aval.clone()), buffers);
    Ok(Array::concrete(aval.clone(), Arc::new(shards)))
}

/// The array where it is to lie, in elements of its own: a copy, but for an array that lies there already.
///
/// # Errors
/// `Plugin`, `Compile`, `Runtime`; `Op` (shape) if it cannot be cut so.
pub(crate) fn moved(array: &Array, home: &Home) -> Result<Array, Error> {
    let Kind::Concrete(buffer) = &array.kind else { return Ok(array.clone()) };
    if let Home::Mesh(sharding) = home {
        sharding.shard_shape(array.shape())?;
    }
    let moved = brought(buffer, array.aval(), home)?;
    Ok(Array::concrete(array.shared_aval().clone(), moved))
}

/// As [`moved`], for buffers. An array that nobody put anywhere, and that lies right, is put there by this.
pub(super) fn brought(
    buffer: &Arc<dyn Buffer>,
    aval: &Aval,
    home: &Home,
) -> Result<Arc<dyn Buffer>, Error> {
    refuse_inside("moving an array")?;
    expect_here(aval, home)?;
    let runtime = runtime()?;
    match (place(buffer), home) {
        (Place::Device(on), Home::Device(id)) if on.device == *id && on.committed => {
            Ok(buffer.clone())
        }
        (Place::Device(on), Home::Device(id)) => {
            let copy = copied(runtime, &on.buffer, *id)?;
            Ok(Arc::new(OnDevice { buffer: copy, device: *id, committed: true }))
        }
        (Place::Mesh(shards), Home::Mesh(sharding)) if shards.sharding() == sharding => {
            Ok(buffer.clone())
        }
        (Place::Device(on), Home::Mesh(sharding)) if sharding.is_replicated() => {
            let local = sharding.devices().iter().filter(|device| device.is_local());
            let copies = local.map(|device| copied(runtime, &on.buffer, device.id()));
            let copies = copies.collect::<Result<_, _>>()?;
            Ok(Arc::new(Shards::new(sharding.clone(), Arc::new(aval.clone()), copies)))
        }
        (Place::Mesh(shards), Home::Mesh(sharding))
            if shards.sharding().mesh().same_devices(sharding.mesh()) =>
        {
            resharded(buffer, aval, shards.sharding(), sharding)
        }
        _ => {
            let mut bytes = vec![0; aval.size() * aval.dtype.host_bytes()];
            buffer.read(&mut bytes)?;
            match put_at(&bytes, aval, home)?.kind {
                Kind::Concrete(buffer) => Ok(buffer),
                Kind::Traced { .. } => unreachable!("it was put on a device"),
            }
        }
    }
}

fn copied(runtime: &Runtime, buffer: &UniqueBuffer, id: i32) -> Result<UniqueBuffer, Error> {
    let failed = |error| runtime_error(format!("copying an array to device {id}"), &error);
    let copy = buffer.copy_to_device(runtime.device(id)?).map_err(failed)?;
    Ok(copy.into_unique().expect("nobody else knows of it yet"))
}

/// The same array spread otherwise over the same devices, which exchange what is needed themselves.
fn resharded(
    buffer: &Arc<dyn Buffer>,
    aval: &Aval,
    from: &NamedSharding,
    to: &NamedSharding,
) -> Result<Arc<dyn Buffer>, Error> {
    type Key = (Aval, NamedSharding, NamedSharding);
    static MOVES: OnceLock<Cache<Key, Executable>> = OnceLock::new();
    let key = (aval.clone(), from.clone(), to.clone());
    let mut hasher = FxHasher::default();
    key.hash(&mut hasher);
    let moves = MOVES.get_or_init(|| Cache::new(256));
    let executable = moves.get_or_make(
        hasher.finish(),
        |known| *known == key,
        || key.clone(),
        |(aval, from, to)| {
            let program = Program::new(std::slice::from_ref(aval), &[0], Vec::new(), &[0]);
            let plan = Plan {
                runs: Runs::Over(to.mesh().clone()),
                inputs: vec![Home::Mesh(from.clone())],
                outputs: vec![Some(to.clone())],
                committed: true,
            };
            Executable::compile(&program, "reshard", plan)
        },
    )?;
    let mut scratch = Scratch::default();
    scratch.arguments.push(buffer.clone());
    let mut results = executable.value().execute(&mut scratch, Kept::These(&[0]))?;
    match results.next().map(|array| array.kind) {
        Some(Kind::Concrete(buffer)) => Ok(buffer),
        _ => unreachable!("a program of one result gives one"),
    }
}
