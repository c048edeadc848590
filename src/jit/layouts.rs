//! The layouts that a [`Jit`] requests of its arguments and results.

use super::jit::Jit;
use crate::core::{Aval, Error, LayoutMode, Loc, OpErrorKind, Program, trace};
use crate::parallel::{LeafKeys, PerArgument};
use crate::passes::RequestedLayouts;
use crate::tree::{Args, Tree};

impl<A: Args, O: Tree> Jit<'_, A, O> {
    /// Sets the layouts of the arguments in the devices' memory: one for all leaves, or a tuple
    /// with one for each argument, as in [`in_shardings`](Self::in_shardings). Each is a
    /// [`Layout`](crate::parallel::Layout), [`Layout::AUTO`](crate::parallel::Layout::AUTO), or
    /// `None::<Layout>` for the default of the device.
    ///
    /// Results do not depend on layouts. An argument with another layout is copied at each call, as
    /// one with another placement is, so put it into the layout once with
    /// [`device_put`](crate::parallel::device_put). Every operation accepts an array with any
    /// layout; those outside of this function copy it to the default first.
    ///
    /// Inside another trace, where the call becomes part of that program, layouts are an error.
    /// Compiling returns an error if the plugin does not follow a layout.
    ///
    /// ```
    /// use oxidax::parallel::Layout;
    /// use oxidax::prelude::*;
    /// let product = jit(|w: Array, x: Array| x.matmul(&w));
    /// let product = product.in_layouts((Layout::AUTO, None::<Layout>));
    /// let (w, x) = (ones([4, 2]), ones([3, 4]));
    /// let compiled = product.lower(w.aval().clone(), x.aval().clone())?.compile()?;
    /// let w = device_put(&w, compiled.input_formats()?.remove(0))?;
    /// assert_eq!(product.call(&w, &x)?.to_vec::<f32>()?, [4.0; 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "Format")]
    #[must_use]
    pub fn in_layouts(mut self, layouts: impl Into<PerArgument<LayoutMode>>) -> Self {
        self.in_layouts = Some(layouts.into());
        self
    }

    /// Sets the layouts of the results, as [`in_layouts`](Self::in_layouts): one for all leaves, or
    /// a tuple with one for each part of a tuple.
    ///
    /// ```
    /// use oxidax::parallel::Layout;
    /// use oxidax::prelude::*;
    /// let double = jit(|x: Array| x * 2.0).out_layouts(Layout::new([1, 0]));
    /// let y = double.call(Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?)?;
    /// assert_eq!(y.format()?.layout, Layout::new([1, 0]));
    /// assert_eq!(y.to_vec::<f32>()?, [2.0, 4.0, 6.0, 8.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn out_layouts(mut self, layouts: impl Into<PerArgument<LayoutMode>>) -> Self {
        self.out_layouts = Some(layouts.into());
        self
    }

    /// Returns the requested layouts of the leaves of arguments and results.
    pub(super) fn layouts(
        &self,
        program: &Program,
        [arguments, results]: [LeafKeys; 2],
    ) -> Result<RequestedLayouts, Error> {
        let modes =
            |option, requested: &PerArgument<LayoutMode>, keys: &LeafKeys, avals: &[Aval]| {
                requested.modes(&self.name, option, keys, avals)
            };
        let mut layouts = RequestedLayouts::default();
        if let Some(requested) = &self.in_layouts {
            layouts.inputs = modes("in_layouts", requested, &arguments, &program.avals_in())?;
        }
        if let Some(requested) = &self.out_layouts {
            layouts.outputs = modes("out_layouts", requested, &results, &program.avals_out())?;
        }
        Ok(layouts)
    }

    /// Throws `Op` (value) inside another trace if layouts are requested.
    pub(super) fn refuse_layouts_in_trace(&self, loc: Loc) {
        if self.in_layouts.is_none() && self.out_layouts.is_none() {
            return;
        }
        let message = format!("`{}` requests layouts inside another trace", self.name);
        let error = trace::op_error(OpErrorKind::Value, "jit", message, loc);
        trace::throw(
            error.with_help(
                "set them on the outermost `jit`, or use `with_layout_constraint` inside",
            ),
        );
    }
}
