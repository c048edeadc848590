//! Vectorization: a function of one example becomes a function of a batch.
//!
//! The closure is traced with the logical shapes of one example, so that its errors show what the
//! user wrote; the batch rules run afterwards, on the program.

use super::jvp::throw_rule_of;
use super::staging::{staged, trace_function};
use crate::core::{
    Array, Aval, BatchAxis, Error, OpErrorKind, Program, RuleError, TreeError, trace,
};
use crate::primitives::rules::{broadcast_axis, move_axis, resolve_axis};
use crate::tree::{
    Arg, Args, Arguments, Function, Tree, TreeDef, for_each_arity, leaves_of, rebuild, rooted,
};
use std::marker::PhantomData;
use std::panic::Location;

/// Interprets a program with the `batch` rules. `axes` says where each argument has its batch axis.
pub(crate) fn batch_program(
    program: &Program,
    arguments: &[Array],
    axes: &[Option<usize>],
    axis: &BatchAxis,
) -> (Vec<Array>, Vec<Option<usize>>) {
    let inputs = arguments.iter().cloned().zip(axes.iter().copied());
    let outputs = program.interpret(inputs, |eqn, operands| {
        let (operands, axes): (Vec<Array>, Vec<Option<usize>>) =
            operands.iter().map(|&operand| operand.clone()).unzip();
        let (outputs, axes) = trace::at_location(eqn.location, || {
            let names_axis = || axis.name.is_some() && axis.is_among(&eqn.primitive.axis_names());
            if axes.iter().all(Option::is_none) && !names_axis() {
                let refs: Vec<&Array> = operands.iter().collect();
                let outputs = trace::bind_at(&eqn.primitive, &refs, eqn.location);
                let axes = vec![None; outputs.len()];
                return (outputs, axes);
            }
            match eqn.primitive.batch(&operands, &axes, axis) {
                Ok(batched) => (batched.outputs, batched.axes),
                Err(error) => throw_rule_of(eqn.primitive.name(), error, &operands, eqn.location),
            }
        });
        let results: Vec<(Array, Option<usize>)> = outputs.into_iter().zip(axes).collect();
        for ((output, batch_axis), &var) in results.iter().zip(&eqn.results) {
            debug_assert!(
                logical(output, *batch_axis).same_type(program.aval(var))
                    && batch_axis.is_none_or(|position| output.shape()[position] == axis.size),
                "`{}`, rule `batch`: expected {} with a batch axis of {} at {batch_axis:?}, found {}",
                eqn.primitive.name(),
                program.aval(var),
                axis.size,
                output.aval()
            );
        }
        results
    });
    outputs.into_iter().unzip()
}

fn logical(array: &Array, axis: Option<usize>) -> Aval {
    match axis {
        Some(axis) => array.aval().with_shape(array.shape().remove(axis)),
        None => array.aval().clone(),
    }
}

/// Where the batch axis lies: an axis (negative ones count from the back), or `None` for a value
/// that is the same for the whole batch.
pub type InAxes = Vec<Option<isize>>;

/// A vectorized function. Made by [`vmap`].
pub struct VMap<A, F> {
    f: F,
    in_axes: Option<InAxes>,
    out_axes: Vec<Option<isize>>,
    axis_name: Option<String>,
    axis_size: Option<usize>,
    arguments: PhantomData<fn(A)>,
}

/// The function that applies `f` to every example of a batch, as one vectorized program.
///
/// `f` takes owned trees, as under `jit`, and sees the shapes of one example. By default every
/// argument is mapped over axis 0 of its leaves, and results are stacked along a new axis 0; see
/// [`VMap::in_axes`] and [`VMap::out_axes`]. Arrays that `f` captures are not mapped.
///
/// ```no_run
/// use oxidax::prelude::*;
/// let xs = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// let sums = vmap(|x: Array| x.sum()).apply(&xs);
/// assert_eq!(sums.to_vec::<f32>()?, [3.0, 7.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn vmap<A: Args, F: Function<A>>(f: F) -> VMap<A, F> {
    VMap {
        f,
        in_axes: None,
        out_axes: vec![Some(0)],
        axis_name: None,
        axis_size: None,
        arguments: PhantomData,
    }
}

impl<A: Args, F: Function<A>> VMap<A, F> {
    /// Where each argument's leaves have their batch axis: one entry per argument.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let (xs, w) = (ones([8, 3], DType::F32), ones([3], DType::F32));
    /// let ys = vmap(|x: Array, w: Array| (&x * &w).sum()).in_axes([Some(0), None]).apply(&xs, &w);
    /// assert_eq!(ys.shape().dims(), [8]);
    /// ```
    #[must_use]
    pub fn in_axes(mut self, axes: impl Into<InAxes>) -> Self {
        self.in_axes = Some(axes.into());
        self
    }

    /// Where the results get their batch axis: one entry for all leaves, or one for each. `None`
    /// for a leaf that must not depend on the batch.
    #[must_use]
    pub fn out_axes(mut self, axes: impl Into<Vec<Option<isize>>>) -> Self {
        self.out_axes = axes.into();
        self
    }

    /// Names the axis that is mapped over, so that collectives in the function can speak of it:
    /// [`psum`](crate::ops::psum), [`axis_index`](crate::ops::axis_index) and their kin.
    ///
    /// The name holds while the function is traced, in the functions that it calls and inside loops,
    /// choices, derivatives and `jit`s in it. Of nested axes with one name the innermost is meant.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// let xs = Array::from_slice(&[1.0f32, 2.0, 6.0], [3])?;
    /// let centred = vmap(|x: Array| &x - pmean(&x, "batch")).axis_name("batch").apply(&xs);
    /// assert_eq!(centred.to_vec::<f32>()?, [-2.0, -1.0, 3.0]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn axis_name(mut self, name: &str) -> Self {
        self.axis_name = Some(name.to_string());
        self
    }

    /// States the number of examples: needed if no argument is mapped, checked if one is.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// let ranks = || vmap(|| axis_index("i")).axis_name("i").axis_size(4).apply();
    /// assert_eq!(eval_shape(ranks, ())?.shape().dims(), [4]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[must_use]
    pub fn axis_size(mut self, size: usize) -> Self {
        self.axis_size = Some(size);
        self
    }

    #[track_caller]
    fn run(&self, arguments: A::Refs<'_>) -> F::Output {
        let location = Location::caller();
        staged(|| {
            let mut leaves = leaves_of(&Arguments::<A>(arguments));
            let mut axes = self.leaf_axes(arguments, &leaves, location);
            let size = batch_size(
                TreeDef::of(&Arguments::<A>(arguments)).paths(),
                &leaves,
                &axes,
                self.axis_size,
                location,
            );
            let axis = BatchAxis { size, name: self.axis_name.as_deref().map(Into::into) };
            let scope = format!("vmap[{}={size}]", self.axis_name.as_deref().unwrap_or("batch"));
            let avals: Vec<Aval> =
                leaves.iter().zip(&axes).map(|(leaf, &axis)| logical(leaf, axis)).collect();
            let traced = axis.in_scope(|| {
                trace_function(scope, avals, |leaves| {
                    self.f.apply(A::unflatten(arguments, &mut leaves.into_iter()))
                })
            });
            axes.resize(leaves.len() + traced.captures.len(), None);
            leaves.extend(traced.captures);
            let (outputs, axes) = batch_program(&traced.program, &leaves, &axes, &axis);
            self.place(&traced.template, outputs, &axes, size, location)
        })
    }

    /// Moves the batch axes of the outputs to where they are wanted.
    fn place(
        &self,
        template: &F::Output,
        outputs: Vec<Array>,
        axes: &[Option<usize>],
        size: usize,
        location: &'static Location<'static>,
    ) -> F::Output {
        let wanted: Vec<Option<isize>> = match self.out_axes.as_slice() {
            [one] => vec![*one; outputs.len()],
            many => many.to_vec(),
        };
        if wanted.len() != outputs.len() {
            let message = format!(
                "out_axes names {} axes, the function gives {} leaves",
                wanted.len(),
                outputs.len()
            );
            trace::throw_op(OpErrorKind::Value, "vmap", message, Some(location));
        }
        let moved = outputs.iter().zip(axes.iter().zip(wanted)).map(|(output, (&at, wanted))| {
            let rank = output.rank() + usize::from(at.is_none());
            match (at, wanted) {
                (None, None) => output.clone(),
                (Some(_), None) => {
                    let message = format!(
                        "out_axes says that an output does not depend on the batch, but it does: {}",
                        output.aval()
                    );
                    trace::throw_op(OpErrorKind::Value, "vmap", message, Some(location))
                }
                (at, Some(to)) => {
                    let to = resolve_axis(to, rank)
                        .unwrap_or_else(|error| throw_value("out_axes", error, location));
                    match at {
                        Some(from) => move_axis(output, from, to),
                        None => broadcast_axis(output, to, size),
                    }
                }
            }
        });
        let moved = moved.collect();
        rebuild(template, moved)
    }

    fn leaf_axes(
        &self,
        arguments: A::Refs<'_>,
        leaves: &[Array],
        location: &'static Location<'static>,
    ) -> Vec<Option<usize>> {
        let counts = A::leaf_counts(arguments);
        let in_axes = self.in_axes.clone().unwrap_or_else(|| vec![Some(0); counts.len()]);
        if in_axes.len() != counts.len() {
            let message = format!(
                "in_axes names {} axes, the function takes {} arguments",
                in_axes.len(),
                counts.len()
            );
            trace::throw_op(OpErrorKind::Value, "vmap", message, Some(location));
        }
        let spread = counts.iter().zip(in_axes).flat_map(|(&n, axis)| vec![axis; n]);
        let structure = TreeDef::of(&Arguments::<A>(arguments));
        spread
            .zip(leaves.iter().zip(structure.paths()))
            .map(|(axis, (leaf, path))| {
                axis.map(|axis| {
                    resolve_axis(axis, leaf.rank()).unwrap_or_else(|error| {
                        throw_leaf(path, format!("vmap: in_axes: {}", error.message), location)
                    })
                })
            })
            .collect()
    }
}

fn throw_value(what: &str, error: RuleError, location: &'static Location<'static>) -> ! {
    let message = format!("{what}: {}", error.message);
    trace::throw_op(error.kind, "vmap", message, Some(location))
}

fn throw_leaf(path: &str, message: String, location: &'static Location<'static>) -> ! {
    trace::throw(Error::Tree(Box::new(TreeError {
        path: rooted(path),
        message,
        location: Some(location),
        help: Some("pass `None` in `in_axes` for an argument that is not mapped".into()),
    })))
}

/// The one size that all batch axes have.
fn batch_size(
    paths: &[String],
    leaves: &[Array],
    axes: &[Option<usize>],
    stated: Option<usize>,
    location: &'static Location<'static>,
) -> usize {
    let mut mapped = paths
        .iter()
        .zip(leaves.iter().zip(axes))
        .filter_map(|(path, (leaf, axis))| axis.map(|axis| (path, axis, leaf.shape()[axis])));
    let Some((first, first_axis, size)) = mapped.next() else {
        if let Some(size) = stated {
            return size;
        }
        let message = "no argument is mapped, so the batch has no size";
        let error = trace::op_error(OpErrorKind::Value, "vmap", message, Some(location));
        trace::throw(error.with_help("state it: `vmap(f).axis_size(n)`"))
    };
    if let Some(stated) = stated.filter(|stated| *stated != size) {
        let message =
            format!("vmap: axis {first_axis} has size {size}, and axis_size says {stated}");
        throw_leaf(first, message, location);
    }
    if let Some((path, axis, other)) = mapped.find(|(_, _, other)| *other != size) {
        let message = format!(
            "vmap: batch sizes differ: axis {axis} is {other}, axis {first_axis} of {} is {size}",
            rooted(first)
        );
        throw_leaf(path, message, location);
    }
    size
}

macro_rules! apply {
    ([] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: Tree,)* Func: Function<($($name,)*)>> VMap<($($name,)*), Func> {
            /// Applies the function to a batch. Each argument is a tree or a reference to one.
            ///
            /// Throws `Tree` if a leaf has no such axis or batch sizes differ, and whatever the
            /// function throws.
            #[track_caller]
            #[allow(clippy::too_many_arguments, reason = "as many as the function has")]
            pub fn apply(&self, $($value: impl Arg<$name>),*) -> Func::Output {
                self.run(($($value.tree(),)*))
            }
        }
    };
}

impl<Func: Function<()>> VMap<(), Func> {
    /// Applies a function without arguments for each index of a named axis, whose size
    /// [`VMap::axis_size`] states.
    ///
    /// Throws whatever the function throws.
    #[track_caller]
    pub fn apply(&self) -> Func::Output {
        self.run(())
    }
}

for_each_arity!(1..=8 apply []);
