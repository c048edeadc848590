//! The current mesh: the one that partition specs refer to where no mesh is named.

use super::mesh::Mesh;
use super::partition::{NamedSharding, PartitionSpec};
use crate::core::error::{Loc, OpErrorKind, throw};
use crate::core::scoped::scoped;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// A mesh by its position in [`KNOWN`], counted from 1, so that the keys of caches stay small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MeshId(u32);

/// Every mesh that was a current one. Programs have a few.
static KNOWN: Mutex<Vec<Mesh>> = Mutex::new(Vec::new());

/// The current mesh of the process; 0 for none.
static OF_PROCESS: AtomicU32 = AtomicU32::new(0);

scoped!(
    /// The current mesh of this thread, set by `with_mesh`.
    keyed static CURRENT: Option<MeshId> = None
);

impl MeshId {
    fn of(mesh: &Mesh) -> MeshId {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let index = known.iter().position(|other| other == mesh).unwrap_or_else(|| {
            known.push(mesh.clone());
            known.len() - 1
        });
        MeshId(index as u32 + 1)
    }

    /// Returns the current mesh of this thread, for the key of a cache.
    pub(crate) fn current() -> Option<MeshId> {
        CURRENT.key().or_else(|| MeshId::from_number(OF_PROCESS.load(Ordering::Relaxed)))
    }

    fn from_number(number: u32) -> Option<MeshId> {
        (number > 0).then_some(MeshId(number))
    }

    /// Returns the mesh.
    pub(crate) fn mesh(self) -> Option<Mesh> {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(self.0 as usize - 1).cloned()
    }
}

/// Sets the current mesh of the process, or none. Returns the previous one.
///
/// Functions that take shardings then accept a [`PartitionSpec`] alone, which refers to the current
/// mesh: [`device_put`](crate::parallel::device_put), [`reshard`](crate::parallel::reshard()),
/// [`with_sharding_constraint`](crate::parallel::with_sharding_constraint()), `in_shardings` and
/// `out_shardings`. A `jit` function is compiled once for each mesh that it is called under.
///
/// ```standalone_crate
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::parallel::{get_mesh, set_mesh};
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 8)])?;
/// set_mesh(&mesh);
/// let x = device_put(&ones([16]), p!["data"])?;
/// assert_eq!(x.sharding(), Some(mesh.sharding(p!["data"])?));
/// assert_eq!(set_mesh(None), Some(mesh));
/// assert_eq!(get_mesh(), None);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn set_mesh<'a>(mesh: impl Into<Option<&'a Mesh>>) -> Option<Mesh> {
    let id = mesh.into().map_or(0, |mesh| MeshId::of(mesh).0);
    MeshId::from_number(OF_PROCESS.swap(id, Ordering::Relaxed)).and_then(MeshId::mesh)
}

/// Runs `f` with the current mesh `mesh` on this thread; see [`set_mesh`].
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::parallel::with_mesh;
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 8)])?;
/// let x = with_mesh(&mesh, || device_put(&ones([16]), p!["data"]))?;
/// assert_eq!(x.addressable_shards()?.len(), 8);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "use_mesh")]
#[doc(alias = "use_abstract_mesh")]
pub fn with_mesh<R>(mesh: &Mesh, f: impl FnOnce() -> R) -> R {
    CURRENT.scope(Some(MeshId::of(mesh)), f)
}

/// Returns the current mesh of this thread: that of [`with_mesh`], else that of [`set_mesh`].
#[doc(alias = "get_abstract_mesh")]
pub fn get_mesh() -> Option<Mesh> {
    MeshId::current().and_then(MeshId::mesh)
}

/// Returns the sharding by a spec over the current mesh.
///
/// Throws `Op` (value) if there is none, or it does not have the axes.
pub(crate) fn sharding_over_current(spec: &PartitionSpec) -> NamedSharding {
    let Some(mesh) = get_mesh() else {
        let message = format!("{spec} refers to the current mesh, and none is set");
        let error = throw::op_error(OpErrorKind::Value, "PartitionSpec", message, Loc::scoped());
        throw::throw(error.with_help("call `set_mesh(&mesh)`, or pass `mesh.sharding(spec)?`"))
    };
    match NamedSharding::checked(&mesh, spec.clone()) {
        Ok(sharding) => sharding,
        Err(error) => throw::throw(throw::rule_error("PartitionSpec", error, Loc::scoped())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Device;

    #[test]
    fn scopes_nest_and_equal_meshes_have_one_id() {
        let device = || [Device::new(0, 0, "cpu", "", true)];
        let mesh = |name| Mesh::new(device(), [(name, 1)]).unwrap();
        let outer = mesh("outer");
        with_mesh(&outer, || {
            let id = MeshId::current();
            with_mesh(&mesh("inner"), || assert_eq!(get_mesh(), Some(mesh("inner"))));
            assert_eq!(get_mesh(), Some(outer.clone()));
            with_mesh(&mesh("outer"), || assert_eq!(MeshId::current(), id));
        });
    }
}
