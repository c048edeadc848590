//! [`shard_map`]: runs a function on every device of a mesh, on that device's shards.

use super::per_argument::{LeafKeys, PerArgument};
use crate::control_flow::{ShardMapping, map_shards};
use crate::core::named_axes::with_axes;
use crate::core::{
    Array, Aval, AxisNames, Loc, Mesh, OpErrorKind, PartitionSpec, RuleError, Varying, leaf_error,
    trace,
};
use crate::transforms::staging::{staged, trace_function};
use crate::tree::{
    Arg, Args, Arguments, Function, Transformed, Tree, TreeDef, applied_as_function,
    for_each_arity, leaves_of, rebuild, rooted,
};
use std::marker::PhantomData;

/// A function mapped over the devices of a mesh. It is applied to whole arrays. Made by
/// [`shard_map`].
pub struct ShardMapped<A, F> {
    f: F,
    name: String,
    mesh: Mesh,
    in_specs: Option<PerArgument<PartitionSpec>>,
    out_specs: Option<PerArgument<PartitionSpec>>,
    axes: Option<Vec<String>>,
    tracked: bool,
    arguments: PhantomData<fn(A)>,
}

/// Maps `f` over the devices of a mesh. Each device runs it on its shards of the arguments.
///
/// `in_specs` says how each argument is split, and `out_specs` how the results are concatenated.
/// Over [explicit](Mesh::explicit) axes `in_specs` may be left out: the types of the arguments say
/// how they are split.
/// Inside `f` arrays have the shapes of shards, and [collectives](crate::ops::psum) name the axes
/// of the mesh. A value is equal on all devices along the axes that its spec does not mention;
/// results are checked for that. Types show the axes that a value varies over (`f32[4]{data}`). The
/// gradient of a value that is equal on all devices is summed over them.
///
/// Captured arrays are replicated. Applying it throws errors, like operations do. Inside
/// [`jit`](crate::jit::jit) it becomes part of the program; a loop should use it so.
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 8)])?;
/// // The mean of squares: of one shard on each device, then over all devices.
/// let mean = shard_map(|x: Array| pmean(&(&x * &x).mean(), "data"), &mesh)
///     .in_specs(p!["data"])
///     .out_specs(p![]);
/// let x = ones([16]);
/// assert_eq!(mean.apply(&x).item::<f32>()?, 1.0);
///
/// let mesh = mesh.explicit();
/// let x = device_put(&x, mesh.sharding(p!["data"])?)?;
/// let sizes = shard_map(|x: Array| ones([1]) * x.size(), &mesh).out_specs(p![]);
/// let sizes = sizes.check_varying(false).apply(&x);
/// assert_eq!(sizes.to_vec::<f32>()?, [2.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "xmp.spawn")]
#[doc(alias = "xmap")]
pub fn shard_map<A: Args, M, F: Function<A, M>>(
    f: F,
    mesh: &Mesh,
) -> A::Callable<ShardMapped<A, impl Fn(A) -> F::Output + use<A, M, F>>> {
    let (name, mesh) = (f.name(), mesh.clone());
    A::callable(ShardMapped {
        f: move |arguments| f.apply(arguments),
        name,
        mesh,
        in_specs: None,
        out_specs: None,
        axes: None,
        tracked: true,
        arguments: PhantomData,
    })
}

impl<A: Args, O: Tree, F: Fn(A) -> O> ShardMapped<A, F> {
    /// Sets the specs of the arguments: one [`PartitionSpec`] for all, or a tuple with an entry for
    /// each. The entry of an argument may be a tree of specs, nested as the argument is:
    /// `(p!["data"], (p![], p!["model"]))`, in the order of the fields, or by name with
    /// [`PerLeaf::fields`](super::PerLeaf::fields). One entry may stand for a part of the argument.
    #[must_use]
    pub fn in_specs(mut self, specs: impl Into<PerArgument<PartitionSpec>>) -> Self {
        self.in_specs = Some(specs.into());
        self
    }

    /// Sets the specs by which the devices' results are concatenated: one for all, or a tuple with
    /// an entry for each part of a tuple, each a spec or a tree of specs as in
    /// [`in_specs`](Self::in_specs).
    #[must_use]
    pub fn out_specs(mut self, specs: impl Into<PerArgument<PartitionSpec>>) -> Self {
        self.out_specs = Some(specs.into());
        self
    }

    /// Maps over these axes of the mesh only. Along the others the function sees whole arrays,
    /// which the compiler partitions.
    #[must_use]
    #[doc(alias = "auto")]
    pub fn axis_names(mut self, names: impl Into<AxisNames>) -> Self {
        self.axes = Some(names.into().names().to_vec());
        self
    }

    /// Enables the tracking of varying axes, on by default. Without it a result whose spec omits an
    /// axis is assumed to be equal along it, and [`psum`](crate::ops::psum) is its own transpose,
    /// as inside [`pmap`](crate::jit::pmap).
    #[must_use]
    #[doc(alias = "check_vma")]
    #[doc(alias = "check_rep")]
    pub fn check_varying(mut self, check: bool) -> Self {
        self.tracked = check;
        self
    }

    #[track_caller]
    fn run(&self, arguments: A::Refs<'_>) -> O {
        let loc = Loc::caller();
        staged(|| loc.scope(|| self.bind(arguments, loc)))
    }

    fn bind(&self, arguments: A::Refs<'_>, loc: Loc) -> O {
        let axes = self.axes.clone();
        let axes = axes.unwrap_or_else(|| self.mesh.axis_names().map(String::from).collect());
        let region = MapRegion {
            name: self.name.clone(),
            function: "shard_map",
            mesh: &self.mesh,
            axes,
            tracked: self.tracked,
            loc,
        };
        let Some(out_specs) = &self.out_specs else {
            region.refuse(
                "out_specs must say how the results are concatenated".into(),
                "`shard_map(f, &mesh).in_specs(p![\"data\"]).out_specs(p![\"data\"])`",
            )
        };
        let view = Arguments::<A>(arguments);
        let leaves = leaves_of(&view);
        let specs = match &self.in_specs {
            Some(in_specs) => {
                let keys = LeafKeys::of_arguments(A::leaf_counts(arguments), &view);
                let specs = in_specs
                    .leaves("in_specs", "specs", &keys)
                    .unwrap_or_else(|message| region.refuse(message, "give one for each argument"));
                specs.into_iter().map(Option::unwrap_or_default).collect()
            }
            None => region.inferred_specs(&leaves),
        };
        region.map(
            (TreeDef::of(&view).paths(), leaves, specs),
            |leaves| (self.f)(A::unflatten(arguments, &mut leaves.into_iter())),
            |result| {
                let specs = out_specs.leaves("out_specs", "specs", &LeafKeys::of_result(result));
                let specs = specs.unwrap_or_else(|message| {
                    region.refuse(message, "give one for each part of the result")
                });
                specs.into_iter().map(Option::unwrap_or_default).collect()
            },
        )
    }
}

/// The mesh and the axes that a function is mapped over, and the transform that maps it.
pub(crate) struct MapRegion<'a> {
    /// The function's name.
    pub(crate) name: String,
    /// The transform that the user called, for errors.
    pub(crate) function: &'static str,
    pub(crate) mesh: &'a Mesh,
    /// The mapped axes.
    pub(crate) axes: Vec<String>,
    pub(crate) tracked: bool,
    pub(crate) loc: Loc,
}

impl MapRegion<'_> {
    /// Throws `Op` (value).
    fn refuse(&self, message: String, help: &str) -> ! {
        let error = trace::op_error(OpErrorKind::Value, self.function, message, self.loc);
        trace::throw(error.with_help(help))
    }

    /// Returns the specs that the types of the arguments have over the mapped axes.
    fn inferred_specs(&self, leaves: &[Array]) -> Vec<PartitionSpec> {
        if let Some(axis) = self.axes.iter().find(|axis| !self.mesh.is_explicit(axis)) {
            let message = format!(
                "in_specs must say how the arguments are split: the axis `{axis}` of {} is not \
                 explicit, so the types of arguments do not say it",
                self.mesh
            );
            self.refuse(message, "give `in_specs(p![\"data\"])`, or map over `mesh.explicit()`")
        }
        let spec = |leaf: &Array| {
            let sharding = leaf.aval().sharding.as_ref();
            let own = sharding.filter(|sharding| sharding.mesh().same_devices(self.mesh));
            own.map(|sharding| sharding.spec().over(&self.axes)).unwrap_or_default()
        };
        leaves.iter().map(spec).collect()
    }

    /// Traces `f` on the shards of `leaves`, which have these paths and specs, and binds it.
    /// `out_specs` returns the spec of each leaf of its result.
    pub(crate) fn map<O: Tree>(
        &self,
        (paths, mut leaves, mut specs): (&[String], Vec<Array>, Vec<PartitionSpec>),
        f: impl FnOnce(Vec<Array>) -> O,
        out_specs: impl FnOnce(&O) -> Vec<PartitionSpec>,
    ) -> O {
        if let Some(unknown) = self.axes.iter().find(|axis| self.mesh.size(axis).is_none()) {
            let message = format!("axis_names has `{unknown}`, {} has no such axis", self.mesh);
            self.refuse(message, "name axes of the mesh");
        }
        let throw_for = |leaf: &str, error: RuleError| -> ! {
            trace::throw(leaf_error(self.function, leaf, error, self.loc))
        };
        let avals: Vec<Aval> = leaves
            .iter()
            .zip(&specs)
            .zip(paths)
            .map(|((leaf, spec), path)| {
                self.shard_aval(leaf, spec).unwrap_or_else(|error| throw_for(&rooted(path), error))
            })
            .collect();
        let size = |axis: &String| (axis.clone(), self.mesh.size(axis).unwrap_or(1));
        let traced = with_axes(self.axes.iter().map(size), self.tracked, || {
            trace_function(format!("{}({})", self.function, self.name), avals, f)
        });
        specs.resize(leaves.len() + traced.captures.len(), PartitionSpec::replicated());
        leaves.extend(traced.captures);
        let out_specs = out_specs(&traced.template);
        let results = TreeDef::of(&traced.template);
        let outputs = traced.program.avals_out();
        for ((path, aval), spec) in results.paths().iter().zip(&outputs).zip(&out_specs) {
            if let Err(error) = self.check_result(aval, spec) {
                throw_for(&format!("result {}", rooted(path)), error);
            }
        }
        let mapping = ShardMapping {
            name: self.name.clone(),
            mesh: self.mesh.clone(),
            axes: self.axes.clone(),
            in_specs: specs,
            out_specs,
            tracked: self.tracked,
        };
        rebuild(&traced.template, map_shards(mapping, traced.program, &leaves))
    }

    /// Returns the type of one device's shard of an argument.
    fn shard_aval(&self, leaf: &Array, spec: &PartitionSpec) -> Result<Aval, RuleError> {
        self.check_axes(spec)?;
        let shard = spec.shard_shape(self.mesh, leaf.shape())?;
        let varying = if self.tracked {
            leaf.aval().varying.and(&Varying::over(spec.mentioned()))
        } else {
            leaf.aval().varying.clone()
        };
        let sharding = leaf.aval().sharding.as_ref();
        let sharding = sharding.and_then(|sharding| sharding.without_mesh_axes(&self.axes));
        Ok(Aval { sharding, ..leaf.aval().with_shape(shard).with_varying(varying) })
    }

    fn check_axes(&self, spec: &PartitionSpec) -> Result<(), RuleError> {
        spec.check(self.mesh)?;
        spec.check_constrained()?;
        match spec.mentioned().find(|name| !self.axes.contains(name)) {
            None => Ok(()),
            Some(name) => Err(RuleError::value(format!(
                "{spec} names the axis `{name}`, over which the function is not mapped: \
                 axis_names is {:?}",
                self.axes
            ))),
        }
    }

    /// Checks that results of this type can be concatenated by `spec`.
    fn check_result(&self, aval: &Aval, spec: &PartitionSpec) -> Result<(), RuleError> {
        self.check_axes(spec)?;
        if spec.0.len() > aval.rank() {
            let (n, rank) = (spec.0.len(), aval.rank());
            return Err(RuleError::shape(format!("{spec} has {n} axes, {aval} has {rank}")));
        }
        let varying = aval.varying.names().iter();
        let mut varying = varying.filter(|name| self.axes.contains(name));
        match varying.find(|name| !spec.mentioned().any(|mentioned| mentioned == *name)) {
            None => Ok(()),
            Some(name) => Err(RuleError::value(format!(
                "{aval} differs between devices along `{name}`, and {spec} says that it is equal \
                 along it"
            ))
            .help(format!(
                "make it equal, with `psum(&x, \"{name}\")` or `pmean`, or concatenate the \
                 devices' values: `p![\"{name}\"]`"
            ))),
        }
    }
}

macro_rules! apply {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: Tree,)* O: Tree, Func> ShardMapped<($($name,)*), Func>
        where
            Func: Fn(($($name,)*)) -> O,
        {
            /// Applies the function to whole arrays. Each argument is a tree or a reference to one.
            ///
            /// Throws `Op` (value, shape), naming the leaf, if a spec does not fit an argument or a
            /// result, and errors that the function throws.
            #[track_caller]
            #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
            pub fn apply(&self, $($value: impl Arg<$name>),*) -> O {
                $(let $value = $value.hold();)*
                self.run(($(&*$value,)*))
            }
        }
    };
}

for_each_arity!(1..=16 apply []);

applied_as_function!(ShardMapped);

impl<O: Tree, F: Fn(()) -> O> ShardMapped<(), F> {
    /// Applies a function without arguments on each device. Throws errors that the function throws.
    #[track_caller]
    pub fn apply(&self) -> O {
        self.run(())
    }
}
