//! Observing the shardings that the compiler chooses.

use crate::core::{Loc, NamedSharding, ShardingObserver};
use crate::primitives::inspect_sharding;
use crate::tree::{Tree, leaves_of};

/// Calls `callback` with the sharding of each leaf of `value`, as early as it is known: at once for
/// concrete arrays and over explicit axes of a mesh, else when the program is compiled. `None`
/// stands for one device.
///
/// It is not called again when the compiled program runs. A program that is compiled for several
/// devices is compiled twice: the second program, which returns the values, is dropped. Its
/// compiler may choose other shardings than without the inspection, as for every result.
///
/// Compilation returns `Op` (unsupported) for values inside of loops, branches and inner functions
/// that are not inlined, in a program for several devices.
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::parallel::inspect_array_sharding;
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 8)])?;
/// let rows = mesh.sharding(p!["data"])?;
/// let f = jit(|x: Array| {
///     let y = sin(&x);
///     inspect_array_sharding(&y, |sharding| println!("{sharding:?}"));
///     y * 2.0
/// });
/// f.in_shardings(&rows).call(&ones([16, 4]))?; // prints the sharding over `data`
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn inspect_array_sharding<T: Tree>(
    value: &T,
    callback: impl Fn(Option<&NamedSharding>) + Send + Sync + 'static,
) {
    let (observer, loc) = (ShardingObserver::new(callback), Loc::caller());
    for leaf in leaves_of(value) {
        let known = if leaf.is_traced() { None } else { leaf.sharding() };
        loc.scope(|| inspect_sharding(&leaf, known, observer.clone()));
    }
}
