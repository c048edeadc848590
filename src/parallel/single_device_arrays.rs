//! [`make_array_from_single_device_arrays`]: sharded arrays from their shards.

use crate::core::{
    Array, DType, Error, IntoAval, Loc, NamedSharding, OpErrorKind, Placement, trace,
};
use crate::runtime::array_on_devices;

/// Creates a sharded array from arrays on the devices of this process that are its shards, in any
/// order. `aval` is the global shape, or a pair of shape and dtype; the default dtype is that of
/// the arrays. With several processes each process gives the shards on its own devices.
///
/// The shards are copied on their devices, so that donating one of `arrays` does not delete part of
/// the result.
///
/// # Errors
/// [`Error::Op`] (value) if there is not one array for each local device of the sharding, or an
/// array is traced, sharded itself, on another device or in another memory; [`Error::Op`] (shape)
/// if an array has another shape or dtype than a shard, or the sharding does not divide the global
/// array; `Runtime`.
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::prelude::*;
/// let rows = Mesh::new(devices()?, [("data", 8)])?.sharding(p!["data"])?;
/// let mut shards = Vec::new();
/// for (i, device) in devices()?.iter().enumerate() {
///     shards.push(device_put(&full([1, 2], i as f32), device)?);
/// }
/// let x = make_array_from_single_device_arrays([8, 2], &rows, &shards)?;
/// assert_eq!(x.to_vec::<f32>()?[14..], [7.0, 7.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn make_array_from_single_device_arrays(
    aval: impl IntoAval,
    sharding: &NamedSharding,
    arrays: &[Array],
) -> Result<Array, Error> {
    let loc = Loc::caller();
    let refuse = |kind: OpErrorKind, message: String, help: &str| {
        let name = "make_array_from_single_device_arrays";
        Err(trace::op_error(kind, name, message, loc).with_help(help))
    };
    let aval = aval.into_aval(arrays.first().map_or(DType::F32, Array::dtype));
    let aval = aval.with_memory(sharding.memory_kind());
    let shard = aval.with_shape(sharding.shard_shape(&aval.shape)?);
    let local: Vec<_> = sharding.devices().iter().filter(|device| device.is_local()).collect();
    if arrays.len() != local.len() {
        let message = format!("{} arrays for {} local devices", arrays.len(), local.len());
        return refuse(OpErrorKind::Value, message, "give one array for each device");
    }
    let mut ordered: Vec<Option<&Array>> = vec![None; local.len()];
    for (n, array) in arrays.iter().enumerate() {
        let place = match array.placement() {
            Some(Placement::Device(id)) => local.iter().position(|device| device.id() == id),
            Some(Placement::Mesh(own)) => {
                let message = format!("array {n}, {}, is sharded as {own}", array.aval());
                let help = "`addressable_shards` returns the shards of an array";
                return refuse(OpErrorKind::Value, message, help);
            }
            None => {
                let message = format!("array {n}, {}, is traced", array.aval());
                let help = "call it outside of `jit`, where arrays are on devices";
                return refuse(OpErrorKind::Value, message, help);
            }
        };
        if !array.aval().same_type(&shard) {
            let message = format!("array {n} is {}, a shard of {aval} is {shard}", array.aval());
            let help = "arrays need the shape, dtype and memory of a shard";
            return refuse(OpErrorKind::Shape, message, help);
        }
        let device = array.placement().map(|placement| placement.to_string()).unwrap_or_default();
        match place {
            None => {
                let message = format!("array {n} is on {device}, which {sharding} does not use");
                let help = "`device_put` moves it to a device of the sharding";
                return refuse(OpErrorKind::Value, message, help);
            }
            Some(place) if ordered[place].is_some() => {
                let message = format!("two arrays are on {device}, the second is array {n}");
                let help = "each device has one shard";
                return refuse(OpErrorKind::Value, message, help);
            }
            Some(place) => ordered[place] = Some(array),
        }
    }
    let ordered: Vec<&Array> = ordered.into_iter().flatten().collect();
    loc.scope(|| array_on_devices(&aval, sharding, &ordered))
}
