//! [`reshard`], [`auto_axes`] and [`explicit_axes`]: shardings in the types of arrays.

use super::per_argument::{LeafKeys, PerArgument, PerLeaf};
use crate::core::{
    Array, Loc, NamedSharding, Placement, RuleError, bind1, leaf_error, throw_operands, trace,
};
use crate::primitives::{ToAutoAxes, resharded, target_of_reshard};
use crate::runtime::transfer;
use crate::transforms::staging::staged;
use crate::tree::{
    Arguments, FnArgs, Function, TransformedFn, Tree, TreeDef, leaves_of, rebuild, rooted,
    transformed,
};

/// Returns the tree with its leaves sharded over the explicit axes of a mesh as stated: one
/// sharding for all leaves, or one for each.
///
/// A mesh has explicit axes by [`Mesh::explicit`](crate::core::Mesh::explicit) or
/// [`Mesh::with_axis_types`](crate::core::Mesh::with_axis_types). Shardings over them are part of
/// the types of arrays, and each operation derives that of its result. Where operands contradict
/// each other, or the result is ambiguous, the operation throws; `reshard` resolves it. Dimensions
/// that are [`UNCONSTRAINED`](crate::core::PartitionSpec::UNCONSTRAINED) stay as they are.
///
/// Inside a program the compiler exchanges shards between devices. Outside of a trace the arrays
/// are transferred, as by [`device_put`](super::device_put()). The derivative has the sharding of
/// the argument.
///
/// Throws `Op` (value) if the mesh has no explicit axes, the spec names one that is not explicit,
/// or the number of shardings and leaves differs; `Op` (sharding) if a leaf is over another mesh,
/// or the axes do not divide it.
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::parallel::{reshard, with_mesh};
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?.explicit();
/// let layer = jit(|x: Array, w: Array| {
///     // `w` is sharded over `data`, to store it; the product needs whole columns.
///     let w = reshard(&w, p![None, "model"]);
///     relu(x.matmul(&w))
/// });
/// let y = with_mesh(&mesh, || {
///     let x = device_put(&ones([8, 16]), p!["data"])?;
///     let w = device_put(&ones([16, 6]), p!["data", "model"])?;
///     Ok::<_, Error>(layer.call(x, w)?)
/// })?;
/// assert_eq!(y.aval().to_string(), "f32[8@data,6@model]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.sharding.reshard")]
#[track_caller]
pub fn reshard<T: Tree>(tree: &T, shardings: impl Into<PerLeaf<NamedSharding>>) -> T {
    let loc = Loc::caller();
    let shardings = PerArgument::All(loc.scope(|| shardings.into()));
    reshard_leaves("reshard", tree, &shardings, loc)
}

/// Reshards the leaves of a tree on behalf of `function`.
fn reshard_leaves<T: Tree>(
    function: &str,
    tree: &T,
    shardings: &PerArgument<NamedSharding>,
    loc: Loc,
) -> T {
    let leaves = leaves_of(tree);
    let shardings = shardings.shardings(function, "shardings", &LeafKeys::of_tree(tree));
    let shardings = shardings.unwrap_or_else(|error| trace::throw(error.at(loc)));
    let structure = TreeDef::of(tree);
    let mut moved = Vec::with_capacity(leaves.len());
    for ((leaf, sharding), path) in leaves.iter().zip(shardings).zip(structure.paths()) {
        let Some(sharding) = sharding else {
            moved.push(leaf.clone());
            continue;
        };
        if let Err(error) = expect_explicit(&sharding) {
            trace::throw(leaf_error(function, &rooted(path), error, loc));
        }
        moved.push(loc.scope(|| match leaf.is_traced() || trace::is_tracing() {
            true => resharded(leaf, &sharding),
            false => transferred(leaf, &sharding),
        }));
    }
    rebuild(tree, moved)
}

/// Checks that a sharding is over explicit axes alone.
fn expect_explicit(sharding: &NamedSharding) -> Result<(), RuleError> {
    let mesh = sharding.mesh();
    if !mesh.has_explicit_axes() {
        let message = format!("{mesh} has no explicit axes");
        return Err(RuleError::value(message)
            .help("make them with `mesh.explicit()`, or use `with_sharding_constraint`"));
    }
    match sharding.spec().mentioned().find(|name| !mesh.is_explicit(name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!("{} names `{name}`, which is not explicit", sharding.spec());
            Err(RuleError::value(message)
                .help("`with_sharding_constraint` constrains automatic axes"))
        }
    }
}

/// Transfers an array outside of a trace.
fn transferred(leaf: &Array, sharding: &NamedSharding) -> Array {
    let memory = leaf.memory_kind();
    let target = match target_of_reshard(leaf.aval(), sharding) {
        Ok(target) => Placement::Mesh(target.with_memory_kind(memory)),
        Err(error) => throw_operands("reshard", error, &[leaf]),
    };
    transfer(leaf, &target, memory).unwrap_or_else(|error| trace::throw(error))
}

/// Returns the function that runs `f` with shardings left to the compiler, as over automatic axes.
/// Its results get the stated shardings: one for all leaves, or one for each.
///
/// Inside `f`, types of arrays have no shardings, so every operation is allowed. Arrays that `f`
/// captures keep their types; pass them as arguments.
///
/// Throws whatever `f` and [`reshard`] throw.
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::parallel::auto_axes;
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 8)])?.explicit();
/// let rows = mesh.sharding(p!["data"])?;
/// let x = device_put(&ones([8, 8]), &rows)?;
/// // The contracted axis is sharded, so `x.matmul(&x.t())` alone would be an error.
/// let gram = auto_axes(|x: &Array| x.t().matmul(x), rows);
/// assert_eq!(gram(&x).aval().to_string(), "f32[8@data,8]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.sharding.auto_axes")]
#[track_caller]
pub fn auto_axes<'f, A: FnArgs, M: 'f, F: Function<A, M> + 'f>(
    f: F,
    out_shardings: impl Into<PerLeaf<NamedSharding>>,
) -> impl TransformedFn<'f, A, F::Output> {
    let loc = Loc::caller();
    let shardings = PerArgument::All(loc.scope(|| out_shardings.into()));
    transformed::<A, _>(f.name(), move |arguments| {
        staged(|| {
            let leaves = leaves_of(&Arguments::<A>(arguments));
            let mut free = leaves.iter().map(|leaf| loc.scope(|| without_sharding(leaf)));
            let result = f.apply(A::unflatten(arguments, &mut free));
            reshard_leaves("auto_axes", &result, &shardings, loc)
        })
    })
}

/// Returns the function that runs `f` with shardings over explicit axes in the types of arrays. The
/// arguments get the stated shardings: one for all leaves, or one for each. The shardings of the
/// results are left to the compiler.
///
/// Throws whatever `f` and [`reshard`] throw.
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::parallel::explicit_axes;
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 8)])?;
/// let rows = mesh.explicit().sharding(p!["data"])?;
/// let typed = explicit_axes(|x: &Array| {
///     assert_eq!(x.aval().to_string(), "f32[8@data,2]");
///     x * 2.0
/// }, rows);
/// assert_eq!(typed(&ones([8, 2])).aval().to_string(), "f32[8,2]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "jax.sharding.explicit_axes")]
#[track_caller]
pub fn explicit_axes<'f, A: FnArgs, M: 'f, F: Function<A, M> + 'f>(
    f: F,
    in_shardings: impl Into<PerLeaf<NamedSharding>>,
) -> impl TransformedFn<'f, A, F::Output> {
    let loc = Loc::caller();
    let shardings = PerArgument::All(loc.scope(|| in_shardings.into()));
    transformed::<A, _>(f.name(), move |arguments| {
        staged(|| {
            let leaves = leaves_of(&Arguments::<A>(arguments));
            let typed = reshard_leaves("explicit_axes", &leaves, &shardings, loc);
            let result = f.apply(A::unflatten(arguments, &mut typed.into_iter()));
            let leaves = leaves_of(&result);
            let free = leaves.iter().map(|leaf| loc.scope(|| without_sharding(leaf)));
            rebuild(&result, free.collect())
        })
    })
}

/// Returns `x` without a sharding in its type.
fn without_sharding(x: &Array) -> Array {
    match x.aval().sharding {
        Some(_) => bind1(ToAutoAxes, [x]),
        None => x.clone(),
    }
}
