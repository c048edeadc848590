//! [`pmap`]: maps a function over devices, one example on each.

use super::error::CallError;
use super::jit::Jit;
use super::lowered::Lowered;
use super::stats::JitStats;
use crate::core::{
    Array, AxisSpec, CompileLimit, Device, Error, Loc, Mesh, OpErrorKind, PartitionSpec,
    Recompilation, leaf_error, trace,
};
use crate::parallel::MapRegion;
use crate::primitives::reshape;
use crate::primitives::rules::resolve_axis;
use crate::runtime::devices;
use crate::transforms::{IntoMappedAxes, MappedAxes};
use crate::tree::{
    Arg, Args, Arguments, Example, Function, Transformed, Tree, TreeDef, for_each_arity, leaf_keys,
    leaves_of, rebuild, rooted,
};
use std::sync::{Arc, OnceLock};

/// A function mapped over devices, with one example on each. Made by [`pmap`].
pub struct PMap<'f, A: Args, O> {
    mapped: PMapped<'f, A, O>,
    compiled: OnceLock<Jit<'f, A, O>>,
    limit: Option<CompileLimit>,
}

/// The mapped function, the axes of its arguments and results, and its devices.
struct PMapped<'f, A, O> {
    f: Arc<dyn Fn(A) -> O + Send + Sync + 'f>,
    name: String,
    axis_name: String,
    in_axes: MappedAxes,
    out_axes: MappedAxes,
    devices: Option<Vec<Device>>,
    /// The call of [`pmap`], which errors name.
    loc: Loc,
}

impl<A, O> Clone for PMapped<'_, A, O> {
    fn clone(&self) -> Self {
        PMapped {
            f: self.f.clone(),
            name: self.name.clone(),
            axis_name: self.axis_name.clone(),
            in_axes: self.in_axes.clone(),
            out_axes: self.out_axes.clone(),
            devices: self.devices.clone(),
            loc: self.loc,
        }
    }
}

/// Maps `f` over the first axis of its arguments, with one example on each device. The devices run
/// `f` on examples without that axis, and the results are stacked.
///
/// It is [`vmap`](crate::transforms::vmap()) over devices: collectives such as
/// [`psum`](crate::ops::psum) name the mapped axis. It is implemented by
/// [`shard_map`](crate::parallel::shard_map()) over one axis inside [`jit`](crate::jit::jit()), and
/// donates arguments like `jit`. New programs should use `jit` with shardings, or `shard_map`,
/// which support several mesh axes and any number of examples.
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::prelude::*;
/// let centred = pmap(|x: Array| &x - pmean(&x, "i")).axis_name("i");
/// let y = centred.call(&Array::from_slice(&[1.0f32, 2.0, 3.0, 6.0], [4])?)?;
/// assert_eq!(y.to_vec::<f32>()?, [-2.0, -1.0, 0.0, 3.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn pmap<'f, A: Args, M: 'f, F>(f: F) -> A::Callable<PMap<'f, A, F::Output>>
where
    F: Function<A, M> + Send + Sync + 'f,
{
    let mapped = PMapped {
        name: f.name(),
        f: Arc::new(move |arguments| f.apply(arguments)),
        axis_name: "devices".into(),
        in_axes: MappedAxes::All(Some(0)),
        out_axes: MappedAxes::All(Some(0)),
        devices: None,
        loc: Loc::caller(),
    };
    A::callable(PMap { mapped, compiled: OnceLock::new(), limit: None })
}

impl<'f, A: Args, O: Tree> PMap<'f, A, O> {
    /// Sets the name of the mapped axis, `devices` by default.
    #[must_use]
    pub fn axis_name(mut self, name: &str) -> Self {
        self.mapped.axis_name = name.into();
        self
    }

    /// Sets the mapped axes as [`VMap::in_axes`](crate::transforms::VMap::in_axes); the first axis
    /// by default. `None` passes the whole argument to every device.
    #[must_use]
    pub fn in_axes(mut self, axes: impl IntoMappedAxes) -> Self {
        self.mapped.in_axes = axes.mapped_axes();
        self
    }

    /// Sets the mapped axis of the results: one for all leaves, or a tree of axes. `None` is for a
    /// leaf that is equal on all devices; the first device's value is
    /// returned.
    #[must_use]
    pub fn out_axes(mut self, axes: impl IntoMappedAxes) -> Self {
        self.mapped.out_axes = axes.mapped_axes();
        self
    }

    /// Sets the devices, one for each example; the first devices by default.
    #[must_use]
    pub fn devices(mut self, devices: impl AsRef<[Device]>) -> Self {
        self.mapped.devices = Some(devices.as_ref().to_vec());
        self
    }

    /// Sets the function's name in logs, errors and profiles, which show it as `pmap(name)`.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.mapped.name = name.into();
        self
    }

    /// Makes a call that would compile a second signature an error. See [`Jit::sealed`].
    ///
    /// ```
    /// # oxidax::parallel::set_cpu_devices(8)?;
    /// use oxidax::prelude::*;
    /// let double = pmap(|x: Array| x * 2.0).sealed();
    /// double.call(ones([4, 3]))?; // compiles
    /// let error = double.call(ones([2, 3])).unwrap_err().to_string();
    /// assert!(error.contains("$[0]: axis 0 has size 2, was 4"), "{error}");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn sealed(mut self) -> Self {
        self.limit = Some(CompileLimit::Sealed);
        self
    }

    /// Makes a call that would compile a signature beyond the first `count` an error. See
    /// [`Jit::max_specializations`].
    #[must_use]
    pub fn max_specializations(mut self, count: usize) -> Self {
        self.limit = Some(CompileLimit::MaxSpecializations(count));
        self
    }

    /// Returns counts and times of the calls so far.
    pub fn stats(&self) -> JitStats {
        self.compiled().stats()
    }

    /// Returns the latest compilations after the first, oldest first, with the reasons. See
    /// [`Jit::recompilations`].
    pub fn recompilations(&self) -> Vec<Recompilation> {
        self.compiled().recompilations()
    }

    /// Returns the function of whole arrays, compiled once per signature.
    fn compiled(&self) -> &Jit<'f, A, O> {
        self.compiled.get_or_init(|| {
            let name = format!("pmap({})", self.mapped.name);
            let mut whole = Jit::new(self.mapped.clone(), self.mapped.loc).name(&name);
            whole.limit = self.limit;
            whole
        })
    }
}

impl<A: Args, O: Tree> Function<A, Transformed> for PMapped<'_, A, O> {
    type Output = O;

    #[track_caller]
    fn apply(&self, arguments: A) -> O {
        let loc = self.loc;
        let refs = arguments.refs();
        let (leaves, structure) =
            (leaves_of(&Arguments::<A>(refs)), TreeDef::of(&Arguments::<A>(refs)));
        let keys = leaf_keys(&Arguments::<A>(refs));
        let axes = self.leaf_axes((&A::leaf_counts(refs), &keys), &leaves, structure.paths(), loc);
        let mesh = self.mesh(&leaves, &axes, structure.paths(), loc);
        let specs = axes.iter().map(|&axis| self.spec(axis)).collect();
        let region = MapRegion {
            name: self.name.clone(),
            function: "pmap",
            mesh: &mesh,
            axes: vec![self.axis_name.clone()],
            tracked: false,
            loc,
        };
        // A shard has one example along the mapped axis; the function sees it without that axis.
        let map_one = |leaves: Vec<Array>| {
            let mut examples = leaves.iter().zip(&axes).map(|(leaf, axis)| match *axis {
                Some(axis) => reshape(leaf, leaf.shape().remove(axis)),
                None => leaf.clone(),
            });
            let result = (self.f)(A::unflatten(refs, &mut examples));
            let results = leaves_of(&result);
            let ranks = results.iter().map(|leaf| leaf.rank() + 1).collect();
            let out_axes = self.result_axes(&leaf_keys(&result), ranks, loc);
            let results = results.iter().zip(out_axes).map(|(leaf, axis)| match axis {
                Some(axis) => reshape(leaf, leaf.shape().insert(axis, 1)),
                None => leaf.clone(),
            });
            rebuild(&result, results.collect())
        };
        region.map((structure.paths(), leaves, specs), map_one, |result| {
            let ranks = leaves_of(result).iter().map(Array::rank).collect();
            let out_axes = self.result_axes(&leaf_keys(result), ranks, loc);
            out_axes.into_iter().map(|axis| self.spec(axis)).collect()
        })
    }
}

impl<A, O> PMapped<'_, A, O> {
    fn refuse(&self, message: String, help: &str, loc: Loc) -> ! {
        let error = trace::op_error(OpErrorKind::Value, "pmap", message, loc);
        trace::throw(error.with_help(help))
    }

    /// Returns the spec of an array with this mapped axis.
    fn spec(&self, axis: Option<usize>) -> PartitionSpec {
        let mut axes = vec![AxisSpec::default(); axis.unwrap_or(0)];
        axes.extend(axis.map(|_| AxisSpec::from(&self.axis_name)));
        PartitionSpec(axes)
    }

    /// Returns the mapped axis of each leaf of the arguments, which have so many leaves each, with
    /// these keys.
    fn leaf_axes(
        &self,
        (counts, keys): (&[usize], &[Vec<String>]),
        leaves: &[Array],
        paths: &[String],
        loc: Loc,
    ) -> Vec<Option<usize>> {
        let axes = self.in_axes.of_arguments(counts, keys);
        let axes =
            axes.unwrap_or_else(|message| self.refuse(message, "give one for each argument", loc));
        let mut resolved = Vec::with_capacity(leaves.len());
        for (axis, (leaf, path)) in axes.into_iter().zip(leaves.iter().zip(paths)) {
            resolved.push(axis.map(|axis| {
                resolve_axis(axis, leaf.rank()).unwrap_or_else(|error| {
                    trace::throw(leaf_error("pmap", &rooted(path), error, loc))
                })
            }));
        }
        resolved
    }

    /// Returns the mapped axis of each leaf of the results, which have these keys; `ranks` are the
    /// ranks of the leaves with that axis.
    fn result_axes(&self, keys: &[Vec<String>], ranks: Vec<usize>, loc: Loc) -> Vec<Option<usize>> {
        let axes = self.out_axes.of_result(keys).unwrap_or_else(|message| {
            self.refuse(message, "give one for all leaves, or one for each", loc)
        });
        let resolve = |(axis, rank): (Option<isize>, usize)| {
            axis.map(|axis| {
                resolve_axis(axis, rank).unwrap_or_else(|error| {
                    trace::throw(leaf_error("pmap", "out_axes", error, loc))
                })
            })
        };
        axes.into_iter().zip(ranks).map(resolve).collect()
    }

    /// Returns the mesh: one device for each example.
    fn mesh(&self, leaves: &[Array], axes: &[Option<usize>], paths: &[String], loc: Loc) -> Mesh {
        let mut sizes = leaves.iter().zip(axes).zip(paths).filter_map(|((leaf, axis), path)| {
            axis.map(|axis| (path, leaf.shape()[axis], leaf.aval().clone()))
        });
        let Some((first, size, _)) = sizes.next() else {
            let message =
                "no argument has a mapped axis, so the number of examples is unknown".into();
            self.refuse(message, "give one argument an axis in `in_axes`", loc);
        };
        if let Some((path, other, aval)) = sizes.find(|(_, other, _)| *other != size) {
            let (path, first) = (rooted(path), rooted(first));
            let message = format!(
                "{path}, {aval}, has {other} examples, {first} has {size}: each device gets one \
                 of each"
            );
            self.refuse(
                message,
                "pass `None` in `in_axes` for an argument that all devices get whole",
                loc,
            );
        }
        let available = match &self.devices {
            Some(devices) => devices.clone(),
            None => devices().unwrap_or_else(|error| trace::throw(error)).to_vec(),
        };
        let is_enough = match self.devices {
            Some(_) => available.len() == size,
            None => available.len() >= size,
        };
        if !is_enough {
            let (path, n) = (rooted(first), available.len());
            let message = format!(
                "{path} has {size} examples, one for each device, and there are {n} devices"
            );
            self.refuse(
                message,
                "give each device several examples with `shard_map`, or `vmap` inside; \
                 `OXIDAX_CPU_DEVICES=8` provides eight CPU devices",
                loc,
            );
        }
        let axes = [(self.axis_name.as_str(), size)];
        Mesh::new(&available[..size], axes).unwrap_or_else(|error| trace::throw(error))
    }
}

macro_rules! calls {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: Tree,)* O: Tree> PMap<'_, ($($name,)*), O> {
            /// Calls the function on all devices, compiling it first if this signature is new.
            /// Arguments passed by value are donated, those passed by reference are kept.
            ///
            /// # Errors
            /// As [`Jit`]'s `call`; `Op` (value) if the arguments' numbers of examples differ, or
            /// exceed the number of devices.
            #[track_caller]
            #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
            pub fn call<$($param: Arg<$name>),*>(
                &self,
                $($value: $param),*
            ) -> Result<O, CallError<<($($name,)*) as Args>::Returned>> {
                self.compiled().call($($value),*)
            }

            /// Traces and lowers the function for arguments of these types, without running it.
            /// See [`Jit`]'s `lower`. An array on devices is passed as it will be in calls, since
            /// its placement is part of the program.
            ///
            /// # Errors
            /// As `call`, except those of the compiler and of execution.
            #[track_caller]
            #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
            pub fn lower(
                &self,
                $($value: impl Example<$name>),*
            ) -> Result<Lowered<($($name,)*), O>, Error> {
                self.compiled().lower_arguments(&($($value.example(),)*))
            }

            /// Compiles the function for arguments of these types, without running it. See
            /// [`Jit`]'s `compile_ahead`.
            ///
            /// # Errors
            /// As `call`, except those of execution.
            #[track_caller]
            #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
            pub fn compile_ahead(&self, $($value: impl Example<$name>),*) -> Result<(), Error> {
                self.compiled().compile_arguments(&($($value.example(),)*))
            }
        }
    };
}

for_each_arity!(0..=16 calls []);
