//! `pmap`: a function mapped over devices, one example each.

use super::compiled::{Jit, jit};
use super::error::CallError;
use super::stats::JitStats;
use crate::core::{
    Array, AxisSpec, Device, Loc, Mesh, OpErrorKind, PartitionSpec, leaf_error, trace,
};
use crate::parallel::Region;
use crate::primitives::reshape;
use crate::primitives::rules::resolve_axis;
use crate::runtime::devices;
use crate::transforms::staging::short_name;
use crate::tree::for_each_arity;
use crate::tree::{Arg, Args, Arguments, Function, Tree, TreeDef, leaves_of, rebuild, rooted};
use std::sync::{Arc, OnceLock};

/// A function compiled for several devices, each with its own example. Made by [`pmap`].
pub struct PMap<A: Args, F: Function<A>> {
    mapped: Mapped<F>,
    compiled: OnceLock<Jit<A, F::Output>>,
}

/// What is mapped how.
struct Mapped<F> {
    f: Arc<F>,
    name: String,
    axis_name: String,
    in_axes: Option<Vec<Option<isize>>>,
    out_axes: Vec<Option<isize>>,
    devices: Option<Vec<Device>>,
}

impl<F> Clone for Mapped<F> {
    fn clone(&self) -> Mapped<F> {
        Mapped {
            f: self.f.clone(),
            name: self.name.clone(),
            axis_name: self.axis_name.clone(),
            in_axes: self.in_axes.clone(),
            out_axes: self.out_axes.clone(),
            devices: self.devices.clone(),
        }
    }
}

/// Compiles `f` for as many devices as the arguments have examples along their first axis; each device gets one, without that axis, and the results
/// are stacked.
///
/// As [`vmap`](crate::transforms::vmap()), but on devices of their own: [`psum`](crate::ops::psum) and its kin speak of
/// the devices by the axis's name. It is [`shard_map`](crate::parallel::shard_map()) over one axis inside of [`jit`], and donates as that does. New programs are better
/// off with `jit` and shardings, or `shard_map`, which spread over several axes and need no axis of that size.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let centred = pmap(|x: Array| &x - pmean(&x, "i")).axis_name("i");
/// let y = centred.call(&Array::from_slice(&[1.0f32, 2.0, 6.0], [3])?)?;
/// assert_eq!(y.to_vec::<f32>()?, [-2.0, -1.0, 3.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn pmap<A: Args, F: Function<A> + Send + Sync + 'static>(f: F) -> PMap<A, F> {
    let mapped = Mapped {
        f: Arc::new(f),
        name: short_name::<F>(),
        axis_name: "devices".into(),
        in_axes: None,
        out_axes: vec![Some(0)],
        devices: None,
    };
    PMap { mapped, compiled: OnceLock::new() }
}

impl<A: Args, F: Function<A> + Send + Sync + 'static> PMap<A, F> {
    /// Names the axis of the devices: `devices` if nothing is said.
    #[must_use]
    pub fn axis_name(mut self, name: &str) -> Self {
        self.mapped.axis_name = name.into();
        self
    }

    /// Where each argument's leaves have the axis of examples: one entry per argument, the first axis if nothing is
    /// said; `None` gives every device the whole argument.
    #[must_use]
    pub fn in_axes(mut self, axes: impl Into<Vec<Option<isize>>>) -> Self {
        self.mapped.in_axes = Some(axes.into());
        self
    }

    /// Where the results get it: one entry for all leaves, or one for each. `None` for a leaf that is the same on all
    /// devices, of which the first is taken.
    #[must_use]
    pub fn out_axes(mut self, axes: impl Into<Vec<Option<isize>>>) -> Self {
        self.mapped.out_axes = axes.into();
        self
    }

    /// The devices, one for each example: the first ones of all if nothing is said.
    #[must_use]
    pub fn devices(mut self, devices: impl AsRef<[Device]>) -> Self {
        self.mapped.devices = Some(devices.as_ref().to_vec());
        self
    }

    /// What it has done so far.
    pub fn stats(&self) -> JitStats {
        self.compiled().stats()
    }

    /// The function as one of whole arrays, compiled once per signature.
    fn compiled(&self) -> &Jit<A, F::Output> {
        self.compiled.get_or_init(|| {
            let name = format!("pmap({})", self.mapped.name);
            jit::<A, _>(self.mapped.clone()).name(&name)
        })
    }
}

impl<A: Args, F: Function<A> + Send + Sync + 'static> Function<A> for Mapped<F> {
    type Output = F::Output;

    #[track_caller]
    fn apply(&self, arguments: A) -> F::Output {
        let loc = Loc::caller();
        let refs = arguments.refs();
        let (leaves, structure) =
            (leaves_of(&Arguments::<A>(refs)), TreeDef::of(&Arguments::<A>(refs)));
        let axes = self.leaf_axes(&A::leaf_counts(refs), &leaves, structure.paths(), loc);
        let mesh = self.mesh(&leaves, &axes, structure.paths(), loc);
        let specs = axes.iter().map(|&at| self.spec(at)).collect();
        let region = Region {
            name: self.name.clone(),
            function: "pmap",
            mesh: &mesh,
            axes: vec![self.axis_name.clone()],
            tracked: false,
            loc,
        };
        // Each device sees one example along the axis, which the function does not.
        let one = |leaves: Vec<Array>| {
            let own: Vec<Array> = leaves
                .iter()
                .zip(&axes)
                .map(|(leaf, at)| match *at {
                    Some(at) => reshape(leaf, leaf.shape().remove(at)),
                    None => leaf.clone(),
                })
                .collect();
            let result = self.f.apply(A::unflatten(refs, &mut own.into_iter()));
            let results = leaves_of(&result);
            let places = self.out_places(&results, 1, loc);
            let results = results.iter().zip(places).map(|(leaf, at)| match at {
                Some(at) => reshape(leaf, leaf.shape().insert(at, 1)),
                None => leaf.clone(),
            });
            rebuild(&result, results.collect())
        };
        region.map((structure.paths(), leaves, specs), one, |result| {
            let places = self.out_places(&leaves_of(result), 0, loc);
            places.into_iter().map(|at| self.spec(at)).collect()
        })
    }
}

impl<F> Mapped<F> {
    fn refuse(&self, message: String, help: &str, loc: Loc) -> ! {
        let error = trace::op_error(OpErrorKind::Value, "pmap", message, loc);
        trace::throw(error.with_help(help))
    }

    /// How an array is cut that has the axis of examples here.
    fn spec(&self, at: Option<usize>) -> PartitionSpec {
        let mut axes = vec![AxisSpec::default(); at.unwrap_or(0)];
        axes.extend(at.map(|_| AxisSpec::from(&self.axis_name)));
        PartitionSpec(axes)
    }

    /// Where each leaf of the arguments has the axis of examples.
    fn leaf_axes(
        &self,
        counts: &[usize],
        leaves: &[Array],
        paths: &[String],
        loc: Loc,
    ) -> Vec<Option<usize>> {
        let axes = self.in_axes.clone().unwrap_or_else(|| vec![Some(0); counts.len()]);
        if axes.len() != counts.len() {
            let message =
                format!("in_axes names {} axes for {} arguments", axes.len(), counts.len());
            self.refuse(message, "give one for each argument", loc);
        }
        let spread = counts.iter().zip(axes).flat_map(|(&n, axis)| vec![axis; n]);
        let resolved = spread.zip(leaves.iter().zip(paths)).map(|(axis, (leaf, path))| {
            axis.map(|axis| {
                resolve_axis(axis, leaf.rank()).unwrap_or_else(|error| {
                    trace::throw(leaf_error("pmap", &rooted(path), error, loc))
                })
            })
        });
        resolved.collect()
    }

    /// Where each leaf of the results has it, in arrays that lack `lacking` of their axes.
    fn out_places(&self, results: &[Array], lacking: usize, loc: Loc) -> Vec<Option<usize>> {
        let axes = match self.out_axes.as_slice() {
            [one] => vec![*one; results.len()],
            many => many.to_vec(),
        };
        if axes.len() != results.len() {
            let message =
                format!("out_axes names {} axes for {} leaves", axes.len(), results.len());
            self.refuse(message, "give one for all leaves, or one for each", loc);
        }
        let resolved = axes.into_iter().zip(results).map(|(axis, leaf)| {
            axis.map(|axis| {
                resolve_axis(axis, leaf.rank() + lacking).unwrap_or_else(|error| {
                    trace::throw(leaf_error("pmap", "out_axes", error, loc))
                })
            })
        });
        resolved.collect()
    }

    /// As many devices as there are examples.
    fn mesh(&self, leaves: &[Array], axes: &[Option<usize>], paths: &[String], loc: Loc) -> Mesh {
        let mut sizes = leaves.iter().zip(axes).zip(paths).filter_map(|((leaf, axis), path)| {
            axis.map(|axis| (path, leaf.shape()[axis], leaf.aval().clone()))
        });
        let Some((first, size, _)) = sizes.next() else {
            let message =
                "no argument has an axis of examples, so their number is not known".into();
            self.refuse(message, "give one argument an axis in `in_axes`", loc);
        };
        if let Some((path, other, aval)) = sizes.find(|(_, other, _)| *other != size) {
            let (path, first) = (rooted(path), rooted(first));
            let message = format!(
                "{path}, {aval}, has {other} examples, {first} has {size}: each device gets one of each"
            );
            self.refuse(message, "pass `None` in `in_axes` for what all devices get whole", loc);
        }
        let known = match &self.devices {
            Some(devices) => devices.clone(),
            None => devices().unwrap_or_else(|error| trace::throw(error)).to_vec(),
        };
        let fits = if self.devices.is_some() { known.len() == size } else { known.len() >= size };
        if !fits {
            let (path, n) = (rooted(first), known.len());
            let message = format!(
                "{path} has {size} examples, one for each device, and there are {n} devices"
            );
            self.refuse(
                message,
                "give each device several with `shard_map`, or `vmap` inside; `OXIDAX_CPU_DEVICES=8` shows eight \
                 devices on a CPU",
                loc,
            );
        }
        let axes = [(self.axis_name.as_str(), size)];
        Mesh::new(&known[..size], axes).unwrap_or_else(|error| trace::throw(error))
    }
}

macro_rules! calls {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: Tree,)* Func> PMap<($($name,)*), Func>
        where
            Func: Function<($($name,)*)> + Send + Sync + 'static,
        {
            /// Runs the function on all devices, compiling it first if this signature is new. Arguments passed by value
            /// are donated, those passed by reference are kept.
            ///
            /// # Errors
            /// As [`Jit`]'s `call`; `Op` (value) if arguments differ in their number of examples, or there are fewer
            /// devices.
            #[track_caller]
            #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
            pub fn call<$($param: Arg<$name>),*>(
                &self,
                $($value: $param),*
            ) -> Result<Func::Output, CallError<<($($name,)*) as Args>::Returned>> {
                self.compiled().call($($value),*)
            }
        }
    };
}

for_each_arity!(0..=8 calls []);
