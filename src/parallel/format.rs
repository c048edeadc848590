//! [`Format`]: the layout and the placement of arrays.

use crate::core::{Array, Error, Kind, Layout, Loc, OpErrorKind, Placement, trace};
use crate::primitives::in_layout;
use crate::runtime;
use crate::tree::{Tree, leaves_of, rebuild};

/// The way in which an array is stored: the order of its elements, and its devices. A target of
/// [`device_put`](super::device_put()).
///
/// ```
/// use oxidax::parallel::{Format, Layout};
/// use oxidax::prelude::*;
/// let x = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
/// let y = device_put(&x, Layout::new([1, 0]))?;
/// let format: Format = y.format()?;
/// assert_eq!(format.layout, Layout::new([1, 0]));
/// assert_eq!((&y * 2.0).to_vec::<f32>()?, [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
/// assert_eq!(device_put(&x, format)?.to_vec::<f32>()?, x.to_vec::<f32>()?);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Format {
    /// The order of the elements of each shard.
    pub layout: Layout,
    /// The device or the sharding; `None` if it is not known yet.
    pub placement: Option<Placement>,
}

impl Format {
    pub(crate) fn new(layout: Layout, placement: Option<Placement>) -> Format {
        Format { layout, placement }
    }
}

impl Array {
    /// Returns the layout and the placement of the array.
    ///
    /// # Errors
    /// `Op` (value) if the array is traced; `Runtime` if the plugin does not report layouts, or the
    /// array was donated.
    ///
    /// ```
    /// use oxidax::parallel::{Layout, Placement};
    /// use oxidax::prelude::*;
    /// let format = ones([2, 3]).format()?;
    /// assert_eq!(format.layout, Layout::row_major(2));
    /// assert_eq!(format.placement, Some(Placement::Device(devices()?[0].id())));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn format(&self) -> Result<Format, Error> {
        match &self.kind {
            Kind::Concrete(buffer) => {
                Ok(Format::new(runtime::layout_of(buffer, self.rank())?, self.placement()))
            }
            Kind::Traced { .. } => {
                let message = format!("{} is traced: it has no memory", self.aval());
                Err(trace::op_error(OpErrorKind::Value, "format", message, Loc::caller()))
            }
        }
    }
}

/// Returns the tree with its leaves constrained to a layout inside of `jit`: the compiler stores
/// the values in this order of axes. Derivatives are constrained in the same way. `vmap` makes its
/// axis the slowest one.
///
/// Arguments and results of compiled functions have the default layout of the device unless
/// [`in_layouts`](crate::jit::Jit::in_layouts) and `out_layouts` request others, so a constraint
/// costs copies at the borders of a function. Outside of a trace it does nothing.
///
/// Throws `Op` (value) if the layout does not order the axes of a leaf, and (unsupported) if it has
/// tiles.
///
/// ```
/// use oxidax::parallel::{Layout, with_layout_constraint};
/// use oxidax::prelude::*;
/// let f = jit(|x: Array| with_layout_constraint(&sin(&x), &Layout::new([1, 0])) * 2.0);
/// let text = f.lower(Aval::new(DType::F32, [2, 3]))?.as_text("cpu")?;
/// assert!(text.contains("LayoutConstraint"));
/// assert_eq!(f.call(zeros([2, 3]))?.to_vec::<f32>()?, [0.0; 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[track_caller]
pub fn with_layout_constraint<T: Tree>(tree: &T, layout: &Layout) -> T {
    let loc = Loc::caller();
    let leaves = leaves_of(tree);
    let constrained = leaves.iter().map(|leaf| loc.scope(|| in_layout(leaf, layout.clone())));
    rebuild(tree, constrained.collect())
}
