//! Vectorization: turns a function of one example into a function of a batch.
//!
//! The closure is traced with the shapes of one example, so that its errors show what the user
//! wrote. The batch rules then run on the program.

use super::batch::{batch_program, without_batch_axis};
use super::mapped_axes::{IntoMappedAxes, MappedAxes};
use super::staging::{staged, trace_with_refs};
use crate::core::trace::{RefAccess, RefSource, RefUses};
use crate::core::{
    Array, Aval, AxisSpec, BatchAxis, Error, Loc, OpErrorKind, RuleError, TreeError, trace,
};
use crate::primitives::rules::{batch_at, broadcast_axis, move_axis, resolve_axis};
use crate::tree::{
    Arg, Args, Arguments, Function, Transformed, Tree, TreeDef, applied_as_function,
    for_each_arity, leaf_keys, leaves_of, rebuild, rooted,
};
use std::marker::PhantomData;

/// A vectorized function. Created by [`vmap`].
pub struct VMap<A, F> {
    f: F,
    name: String,
    options: VMapOptions,
    arguments: PhantomData<fn(A)>,
}

#[derive(Clone)]
struct VMapOptions {
    in_axes: MappedAxes,
    out_axes: MappedAxes,
    axis_name: Option<String>,
    axis_size: Option<usize>,
    spmd_axis_name: AxisSpec,
}

/// Returns the function that applies `f` to every example of a batch, as one vectorized program.
///
/// `f` receives arrays with the shapes of one example. By default every argument is mapped over
/// axis 0 of its leaves, and results are stacked along a new axis 0; see [`VMap::in_axes`] and
/// [`VMap::out_axes`]. Arrays that `f` captures are not mapped.
///
/// ```
/// use oxidax::prelude::*;
/// let xs = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// let sums = vmap(|x: Array| x.sum()).apply(&xs);
/// assert_eq!(sums.to_vec::<f32>()?, [3.0, 7.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn vmap<A: Args, M, F: Function<A, M>>(f: F) -> A::Callable<VMap<A, impl Fn(A) -> F::Output>> {
    let name = f.name();
    let first = MappedAxes::All(Some(0));
    let options = VMapOptions {
        in_axes: first.clone(),
        out_axes: first,
        axis_name: None,
        axis_size: None,
        spmd_axis_name: AxisSpec::default(),
    };
    A::callable(VMap {
        f: move |arguments| f.apply(arguments),
        name,
        options,
        arguments: PhantomData,
    })
}

impl<A: Args, O: Tree, F: Fn(A) -> O> VMap<A, F> {
    /// Sets the batch axes: one for everything, `1`, or an entry per argument, `(0, None)`. The
    /// entry of an argument may be a tree of axes, nested as the argument is: `(0, (0, None))`, in
    /// the order of the fields, or by name with [`MappedAxes::fields`]. One entry may stand for a
    /// part of the argument, as in JAX. Fields without arrays have no entry.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let (xs, w) = (ones([8, 3]), ones([3]));
    /// let dot = |x: Array, w: Array| (&x * &w).sum();
    /// let ys = vmap(dot).in_axes((0, None)).apply(&xs, &w);
    /// assert_eq!(ys.shape().dims(), [8]);
    /// // The first leaf of the tuple is mapped, the second is shared.
    /// let of_pair = vmap(|(x, w): &(Array, Array)| (x * w).sum()).in_axes(((0, None),));
    /// assert_eq!(of_pair.apply((&xs, &w)).shape().dims(), [8]);
    /// ```
    #[must_use]
    pub fn in_axes(mut self, axes: impl IntoMappedAxes) -> Self {
        self.options.in_axes = axes.mapped_axes();
        self
    }

    /// Sets the batch axis of the results: one for all leaves, or a tree of axes as in
    /// [`VMap::in_axes`]. `None` for a leaf that must not depend on the batch.
    #[must_use]
    pub fn out_axes(mut self, axes: impl IntoMappedAxes) -> Self {
        self.options.out_axes = axes.mapped_axes();
        self
    }

    /// Names the mapped axis, for collectives in the function such as
    /// [`psum`](crate::ops::psum) and [`axis_index`](crate::ops::axis_index).
    ///
    /// The name is defined while the function is traced, including the functions that it calls and
    /// the bodies of loops, conditionals, derivatives and `jit`s in it. If nested axes have the
    /// same name, it refers to the innermost.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let xs = Array::from_slice(&[1.0f32, 2.0, 6.0], [3])?;
    /// let centred = vmap(|x: Array| &x - pmean(&x, "batch")).axis_name("batch").apply(&xs);
    /// assert_eq!(centred.to_vec::<f32>()?, [-2.0, -1.0, 3.0]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn axis_name(mut self, name: &str) -> Self {
        self.options.axis_name = Some(name.to_string());
        self
    }

    /// Sets the number of examples. Required if no argument is mapped, checked otherwise.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let ranks = || vmap(|| axis_index("i")).axis_name("i").axis_size(4).apply();
    /// assert_eq!(eval_shape(ranks, ())?.shape().dims(), [4]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn axis_size(mut self, size: usize) -> Self {
        self.options.axis_size = Some(size);
        self
    }

    /// Names the mesh axis, or the axes, over which the batch is sharded. Where the function states
    /// a sharding, the mapped dimension is sharded over it: in the shardings of
    /// [`with_sharding_constraint`](crate::parallel::with_sharding_constraint()) and in the specs
    /// of [`shard_map`](crate::parallel::shard_map()), whose devices then get a part of the batch.
    /// Without it, the mapped dimension is whole on each device there.
    ///
    /// The call throws `Op` (value) if the axis is not in the mesh or shards another dimension
    /// already, and `Op` (shape) if it does not divide the batch.
    ///
    /// ```
    /// # oxidax::parallel::set_cpu_devices(8)?;
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?;
    /// let over_model = mesh.sharding(p!["model"])?;
    /// let one = move |x: Array| with_sharding_constraint(&sin(&x), &over_model);
    /// let batch = jit(move |x: Array| vmap(&one).spmd_axis_name("data").apply(&x));
    /// let y = batch.call(&ones([8, 4]))?;
    /// assert_eq!(y.sharding().expect("it is sharded").spec(), &p!["data", "model"]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn spmd_axis_name(mut self, name: impl Into<AxisSpec>) -> Self {
        self.options.spmd_axis_name = name.into();
        self
    }

    #[track_caller]
    fn run(&self, arguments: A::Refs<'_>) -> O {
        let loc = Loc::caller();
        staged(|| {
            let view = Arguments::<A>(arguments);
            let mut leaves = leaves_of(&view);
            let structure = TreeDef::of(&view);
            let paths = Paths { paths: structure.paths(), loc };
            let counts = A::leaf_counts(arguments);
            let axes = self.options.leaf_axes(&counts, &leaf_keys(&view), &leaves, &paths);
            let axis = self.options.batch_axis(&leaves, &axes, &paths);
            let scope = format!("vmap[{}={}]", axis.name.as_deref().unwrap_or("batch"), axis.size);
            let avals: Vec<Aval> = leaves
                .iter()
                .zip(&axes)
                .map(|(leaf, &axis)| without_batch_axis(leaf, axis))
                .collect();
            let traced = axis.in_scope(|| {
                trace_with_refs(RefAccess::Captures, loc, scope, avals, |leaves| {
                    (self.f)(A::unflatten(arguments, &mut leaves.into_iter()))
                })
            });
            let in_axes = traced.per_input(axes, None);
            leaves.extend(traced.captures);
            let (mut outputs, mut axes) = batch_program(&traced.program, &leaves, &in_axes, &axis);
            let n_results = outputs.len() - traced.refs.n_written();
            let finals = outputs.drain(n_results..).zip(axes.drain(n_results..)).collect();
            write_batched(&traced.refs, finals, &in_axes, &axis);
            let keys = leaf_keys(&traced.template);
            let outputs = self.options.move_out_axes(outputs, &keys, &axes, axis.size, loc);
            rebuild(&traced.template, outputs)
        })
    }
}

/// Writes the final values of references, each with its batch axis. A reference that is a mapped
/// argument keeps its axis.
///
/// Throws `Op` (value) if the value of an unmapped reference depends on the batch.
fn write_batched(
    refs: &RefUses,
    finals: Vec<(Array, Option<usize>)>,
    in_axes: &[Option<usize>],
    axis: &BatchAxis,
) {
    let mut values = Vec::with_capacity(finals.len());
    for (used, (value, position)) in refs.written().zip(finals) {
        let to = match used.source {
            RefSource::Argument(input) => in_axes[input],
            _ => None,
        };
        values.push(match (position, to) {
            (_, Some(to)) => batch_at(&value, position, to, axis),
            (None, None) => value,
            (Some(_), None) => {
                let message = format!(
                    "a value that depends on the batch is written to the reference to {}, which \
                     all examples share",
                    used.target.aval()
                );
                let loc = used.written.unwrap_or_default();
                let error = trace::op_error(OpErrorKind::Value, "set", message, loc);
                trace::throw(error.with_help(
                    "pass a reference with a batch axis as a mapped argument, or return the value",
                ))
            }
        });
    }
    refs.write_values(values);
}

/// The paths of the arguments' leaves, for errors.
struct Paths<'a> {
    paths: &'a [String],
    loc: Loc,
}

impl Paths<'_> {
    fn throw(&self, leaf: usize, message: String) -> ! {
        trace::throw(Error::Tree(Box::new(TreeError {
            path: rooted(&self.paths[leaf]),
            message,
            loc: self.loc,
            help: Some("pass `None` in `in_axes` for an argument that is not mapped".into()),
        })))
    }
}

fn throw_value(message: String, loc: Loc) -> ! {
    trace::throw_op(OpErrorKind::Value, "vmap", message, loc)
}

impl VMapOptions {
    /// Returns the batch axis of every leaf of the arguments, which have `counts` leaves each, with
    /// these keys.
    fn leaf_axes(
        &self,
        counts: &[usize],
        keys: &[Vec<String>],
        leaves: &[Array],
        paths: &Paths<'_>,
    ) -> Vec<Option<usize>> {
        let in_axes = self.in_axes.of_arguments(counts, keys);
        let in_axes = in_axes.unwrap_or_else(|message| throw_value(message, paths.loc));
        let mut axes = Vec::with_capacity(leaves.len());
        for (index, (leaf, axis)) in leaves.iter().zip(in_axes).enumerate() {
            let resolved = axis.map(|axis| resolve_axis(axis, leaf.rank()));
            axes.push(resolved.transpose().unwrap_or_else(|error| {
                paths.throw(index, format!("vmap: in_axes: {}", error.message))
            }));
        }
        axes
    }

    /// Returns the axis that all mapped leaves share.
    ///
    /// Throws `Tree` if their sizes differ.
    fn batch_axis(&self, leaves: &[Array], axes: &[Option<usize>], paths: &Paths<'_>) -> BatchAxis {
        let name = self.axis_name.as_deref().map(Into::into);
        let of_size = |size| {
            let spmd_axis_name = self.spmd_axis_name.clone();
            BatchAxis { size, name, spmd_axis_name, sharding: None }
        };
        let mut mapped =
            leaves.iter().zip(axes).enumerate().filter_map(|(index, (leaf, axis))| {
                axis.map(|axis| (index, axis, leaf.shape()[axis]))
            });
        let Some((first, first_axis, size)) = mapped.next() else {
            if let Some(size) = self.axis_size {
                return of_size(size);
            }
            let message = "no argument is mapped, so the batch has no size";
            let error = trace::op_error(OpErrorKind::Value, "vmap", message, paths.loc);
            trace::throw(error.with_help("state it: `vmap(f).axis_size(n)`"))
        };
        if let Some(expected) = self.axis_size.filter(|expected| *expected != size) {
            let message =
                format!("vmap: axis {first_axis} has size {size}, and axis_size says {expected}");
            paths.throw(first, message);
        }
        if let Some((index, axis, other)) = mapped.find(|(_, _, other)| *other != size) {
            let message = format!(
                "vmap: batch sizes differ: axis {axis} is {other}, axis {first_axis} of {} is \
                {size}",
                rooted(&paths.paths[first])
            );
            paths.throw(index, message);
        }
        let along = |(leaf, axis): (&Array, &Option<usize>)| {
            leaf.aval()
                .sharding
                .as_ref()
                .zip(*axis)
                .map(|(sharding, axis)| sharding.permuted(&[axis]))
        };
        let sharding = leaves.iter().zip(axes).filter_map(along).find_map(|s| s.explicit_part());
        BatchAxis { sharding, ..of_size(size) }
    }

    /// Moves the batch axes of the outputs to the positions in `out_axes`. The leaves of the
    /// result have these keys.
    fn move_out_axes(
        &self,
        outputs: Vec<Array>,
        keys: &[Vec<String>],
        axes: &[Option<usize>],
        size: usize,
        loc: Loc,
    ) -> Vec<Array> {
        let out_axes = self.out_axes.of_result(keys);
        let out_axes = out_axes.unwrap_or_else(|message| throw_value(message, loc));
        let mut moved = Vec::with_capacity(outputs.len());
        for (output, (&axis, out_axis)) in outputs.iter().zip(axes.iter().zip(out_axes)) {
            let Some(out_axis) = out_axis else {
                if axis.is_some() {
                    let message = format!(
                        "out_axes says that an output does not depend on the batch, but it does: \
                        {}",
                        output.aval()
                    );
                    throw_value(message, loc);
                }
                moved.push(output.clone());
                continue;
            };
            let rank = output.rank() + usize::from(axis.is_none());
            let to =
                resolve_axis(out_axis, rank).unwrap_or_else(|error| throw_out_axis(error, loc));
            moved.push(match axis {
                Some(from) => move_axis(output, from, to),
                None => broadcast_axis(output, to, size),
            });
        }
        moved
    }
}

fn throw_out_axis(error: RuleError, loc: Loc) -> ! {
    let message = format!("out_axes: {}", error.message);
    trace::throw_op(error.kind, "vmap", message, loc)
}

macro_rules! apply {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: Tree,)* O: Tree, Func: Fn(($($name,)*)) -> O> VMap<($($name,)*), Func> {
            /// Applies the function to a batch. Each argument is a tree or a reference to one.
            ///
            /// Throws `Tree` if a leaf has no such axis or batch sizes differ, and whatever the
            /// function throws.
            #[track_caller]
            #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
            pub fn apply(&self, $($value: impl Arg<$name>),*) -> O {
                $(let $value = $value.hold();)*
                self.run(($(&*$value,)*))
            }
        }
    };
}

applied_as_function!(VMap);

impl<O: Tree, F: Fn(()) -> O> VMap<(), F> {
    /// Applies a function without arguments for each index of a named axis, whose size
    /// [`VMap::axis_size`] states.
    ///
    /// Throws whatever the function throws.
    #[track_caller]
    pub fn apply(&self) -> O {
        self.run(())
    }
}

for_each_arity!(1..=16 apply []);
