//! `shard_map`: a function that each device of a mesh runs on its own shards.

use super::partition_rules::TreeSharding;
use super::tuples::from_tuples;
use crate::control_flow::{ShardMapping, map_shards};
use crate::core::named_axes::with_axes;
use crate::core::{
    Array, Aval, AxisNames, Loc, Mesh, OpErrorKind, PartitionSpec, RuleError, Varying, leaf_error,
    trace,
};
use crate::transforms::staging::{short_name, staged, trace_function};
use crate::tree::{
    Arg, Args, Arguments, Function, Tree, TreeDef, for_each_arity, leaves_of, rebuild, rooted,
};
use std::marker::PhantomData;

/// How the leaves of one tree are cut.
#[derive(Clone, Debug)]
pub enum Spec {
    /// All alike.
    All(PartitionSpec),
    /// Each in its way.
    Each(Vec<PartitionSpec>),
}

impl From<PartitionSpec> for Spec {
    fn from(spec: PartitionSpec) -> Spec {
        Spec::All(spec)
    }
}

impl From<&PartitionSpec> for Spec {
    fn from(spec: &PartitionSpec) -> Spec {
        Spec::All(spec.clone())
    }
}

impl From<&TreeSharding> for Spec {
    fn from(shardings: &TreeSharding) -> Spec {
        Spec::Each(shardings.shardings().map(|sharding| sharding.spec().clone()).collect())
    }
}

impl From<TreeSharding> for Spec {
    fn from(shardings: TreeSharding) -> Spec {
        Spec::from(&shardings)
    }
}

/// How the arguments of a function, or the parts of its result, are cut: one [`PartitionSpec`] for all, or a tuple with one
/// for each argument or part, each a spec or a [`TreeSharding`].
#[derive(Clone, Debug)]
pub enum Specs {
    /// The same for all.
    All(Spec),
    /// One each.
    Each(Vec<Spec>),
}

impl<T: Into<Spec>> From<T> for Specs {
    fn from(spec: T) -> Specs {
        Specs::All(spec.into())
    }
}

for_each_arity!(1..=8 from_tuples [Specs of Spec]);

impl Specs {
    /// One for each leaf, where parts `0..` have so many leaves each.
    fn leaves(&self, option: &str, counts: &[usize]) -> Result<Vec<PartitionSpec>, String> {
        let one = |spec: &Spec, n: usize| match spec {
            Spec::All(spec) => Ok(vec![spec.clone(); n]),
            Spec::Each(specs) if specs.len() == n => Ok(specs.clone()),
            Spec::Each(specs) => Err(format!("{option} has {} specs for {n} leaves", specs.len())),
        };
        match self {
            Specs::All(spec) => one(spec, counts.iter().sum()),
            Specs::Each(specs) if specs.len() == counts.len() => {
                let each = specs.iter().zip(counts).map(|(spec, &n)| one(spec, n));
                Ok(each.collect::<Result<Vec<_>, _>>()?.concat())
            }
            Specs::Each(specs) => {
                Err(format!("{option} has {} entries for {} trees", specs.len(), counts.len()))
            }
        }
    }
}

/// A function mapped over the devices of a mesh, to be called with whole arrays. Made by [`shard_map`].
pub struct ShardMapped<A, F> {
    f: F,
    mesh: Mesh,
    in_specs: Option<Specs>,
    out_specs: Option<Specs>,
    axes: Option<Vec<String>>,
    tracked: bool,
    arguments: PhantomData<fn(A)>,
}

/// Runs `f` on every device of a mesh, each on its own shards of the arguments.
///
/// `in_specs` says how each argument is cut, and `out_specs` how the results are put together. Inside, arrays have the
/// shapes of shards, and [collectives](crate::ops::psum) speak of the axes of the mesh by name. A spec that does not mention an axis stands for
/// a value that all devices along that axis have alike: so it is for arguments, and so it is checked for results. Types
/// say what varies (`f32[4]{data}`); the derivative of what is alike everywhere is the sum over all devices, put in where it belongs.
///
/// `f` takes owned trees, and captures what it likes, which is alike everywhere. Calls throw as operations do; inside of
/// [`jit`](crate::jit::jit) they become part of its program, which is how they should be used in a loop.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("data", 8)])?;
/// // The mean of squares: of one shard on each device, then over all devices.
/// let mean = shard_map(|x: Array| pmean(&(&x * &x).mean(), "data"), &mesh)
///     .in_specs(p!["data"])
///     .out_specs(p![]);
/// let x = ones([16], DType::F32);
/// assert_eq!(mean.apply(&x).item::<f32>()?, 1.0);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "xmap")]
pub fn shard_map<A: Args, F: Function<A>>(f: F, mesh: &Mesh) -> ShardMapped<A, F> {
    let mesh = mesh.clone();
    ShardMapped {
        f,
        mesh,
        in_specs: None,
        out_specs: None,
        axes: None,
        tracked: true,
        arguments: PhantomData,
    }
}

impl<A: Args, F: Function<A>> ShardMapped<A, F> {
    /// How the arguments are cut: one [`PartitionSpec`] for all, or a tuple with one for each.
    #[must_use]
    pub fn in_specs(mut self, specs: impl Into<Specs>) -> Self {
        self.in_specs = Some(specs.into());
        self
    }

    /// How the results of the devices are put together: one spec for all, or a tuple with one for each part of a tuple.
    #[must_use]
    pub fn out_specs(mut self, specs: impl Into<Specs>) -> Self {
        self.out_specs = Some(specs.into());
        self
    }

    /// Maps over these axes of the mesh only. Along the others the function sees whole arrays, and the compiler spreads
    /// what it computes.
    #[must_use]
    #[doc(alias = "auto")]
    pub fn axis_names(mut self, names: impl Into<AxisNames>) -> Self {
        self.axes = Some(names.into().names().to_vec());
        self
    }

    /// Whether types say what varies, and results are checked against their specs: yes, unless this says no. Then a result
    /// whose spec leaves out an axis is believed to be alike along it, and [`psum`](crate::ops::psum) is its own transpose,
    /// as inside of [`pmap`](crate::jit::pmap).
    #[must_use]
    #[doc(alias = "check_vma")]
    #[doc(alias = "check_rep")]
    pub fn check_varying(mut self, check: bool) -> Self {
        self.tracked = check;
        self
    }

    #[track_caller]
    fn run(&self, arguments: A::Refs<'_>) -> F::Output {
        let loc = Loc::caller();
        staged(|| loc.scope(|| self.bind(arguments, loc)))
    }

    fn bind(&self, arguments: A::Refs<'_>, loc: Loc) -> F::Output {
        let axes = self.axes.clone();
        let axes = axes.unwrap_or_else(|| self.mesh.axis_names().map(String::from).collect());
        let region = Region {
            name: short_name::<F>(),
            function: "shard_map",
            mesh: &self.mesh,
            axes,
            tracked: self.tracked,
            loc,
        };
        let (Some(in_specs), Some(out_specs)) = (&self.in_specs, &self.out_specs) else {
            region.refuse(
                "in_specs and out_specs must say how arguments and results are cut".into(),
                "`shard_map(f, &mesh).in_specs(p![\"data\"]).out_specs(p![\"data\"])`",
            )
        };
        let view = Arguments::<A>(arguments);
        let specs = in_specs
            .leaves("in_specs", &A::leaf_counts(arguments))
            .unwrap_or_else(|message| region.refuse(message, "give one for each argument"));
        region.map(
            (TreeDef::of(&view).paths(), leaves_of(&view), specs),
            |leaves| self.f.apply(A::unflatten(arguments, &mut leaves.into_iter())),
            |result| {
                out_specs.leaves("out_specs", &TreeDef::of(result).parts()).unwrap_or_else(
                    |message| region.refuse(message, "give one for each part of the result"),
                )
            },
        )
    }
}

/// The devices over which a function is mapped, and on whose behalf.
pub(crate) struct Region<'a> {
    /// The function's name.
    pub(crate) name: String,
    /// What the user called.
    pub(crate) function: &'static str,
    pub(crate) mesh: &'a Mesh,
    /// The axes over which it is mapped.
    pub(crate) axes: Vec<String>,
    pub(crate) tracked: bool,
    pub(crate) loc: Loc,
}

impl Region<'_> {
    /// Throws `Op` (value).
    fn refuse(&self, message: String, help: &str) -> ! {
        let error = trace::op_error(OpErrorKind::Value, self.function, message, self.loc);
        trace::throw(error.with_help(help))
    }

    /// Traces `f` on the shards of leaves, which have paths and specs, and binds it; `out_specs` says how the leaves of its
    /// result are put together.
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
        let blamed = |what: &str, error: RuleError| -> ! {
            trace::throw(leaf_error(self.function, what, error, self.loc))
        };
        let avals: Vec<Aval> = leaves
            .iter()
            .zip(&specs)
            .zip(paths)
            .map(|((leaf, spec), path)| {
                self.share(leaf, spec).unwrap_or_else(|error| blamed(&rooted(path), error))
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
                blamed(&format!("result {}", rooted(path)), error);
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

    /// The type of one device's share of an argument.
    fn share(&self, leaf: &Array, spec: &PartitionSpec) -> Result<Aval, RuleError> {
        self.check_axes(spec)?;
        let part = spec.shard_shape(self.mesh, leaf.shape())?;
        let varying = match self.tracked {
            true => leaf.aval().varying.and(&Varying::over(spec.mentioned())),
            false => leaf.aval().varying.clone(),
        };
        Ok(leaf.aval().with_shape(part).with_varying(varying))
    }

    fn check_axes(&self, spec: &PartitionSpec) -> Result<(), RuleError> {
        spec.check(self.mesh)?;
        match spec.mentioned().find(|name| !self.axes.contains(name)) {
            None => Ok(()),
            Some(name) => Err(RuleError::value(format!(
                "{spec} names the axis `{name}`, over which the function is not mapped: axis_names is {:?}",
                self.axes
            ))),
        }
    }

    /// Whether results can be put together so.
    fn check_result(&self, aval: &Aval, spec: &PartitionSpec) -> Result<(), RuleError> {
        self.check_axes(spec)?;
        if spec.0.len() > aval.rank() {
            let (n, rank) = (spec.0.len(), aval.rank());
            return Err(RuleError::shape(format!("{spec} speaks of {n} axes, {aval} has {rank}")));
        }
        let differs = aval.varying.names().iter();
        let mut differs = differs.filter(|name| self.axes.contains(name));
        match differs.find(|name| !spec.mentioned().any(|mentioned| mentioned == *name)) {
            None => Ok(()),
            Some(name) => Err(RuleError::value(format!(
                "{aval} differs from device to device along `{name}`, and {spec} says that it is the same along it"
            ))
            .help(format!(
                "make it the same, with `psum(&x, \"{name}\")` or `pmean`, or put the devices' values together: \
                 `p![\"{name}\"]`"
            ))),
        }
    }
}

macro_rules! apply {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: Tree,)* Func: Function<($($name,)*)>> ShardMapped<($($name,)*), Func> {
            /// Applies the function to whole arrays. Each argument is a tree or a reference to one.
            ///
            /// Throws `Op` (value, shape), naming the leaf, if an argument cannot be cut as its spec says or a result
            /// cannot be put together so, and whatever the function throws.
            #[track_caller]
            #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
            pub fn apply(&self, $($value: impl Arg<$name>),*) -> Func::Output {
                self.run(($($value.tree(),)*))
            }
        }
    };
}

for_each_arity!(1..=8 apply []);

impl<Func: Function<()>> ShardMapped<(), Func> {
    /// Applies a function without arguments on each device.
    ///
    /// Throws whatever the function throws.
    #[track_caller]
    pub fn apply(&self) -> Func::Output {
        self.run(())
    }
}
