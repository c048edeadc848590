//! Values that are part of the structure of a tree: [`Static`], [`StaticFloat`], [`ByPointer`].

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A value that is part of a tree's structure instead of its arrays.
///
/// ```
/// use oxidax::prelude::*;
/// let program = make_program(
///     |x: Array, power: Static<u32>| (1..power.0).fold(x.clone(), |y, _| &y * &x),
///     (Aval::new(DType::F32, []), Static(3)),
/// )?;
/// assert_eq!(program.eqns().len(), 2);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "static_argnums")]
#[doc(alias = "static_argnames")]
pub struct Static<T>(pub T);

/// A float that is part of a tree's structure, such as an epsilon or a rate: equal to another if
/// their bits are, so `jit` compiles again when it changes. It is a tree without leaves. A field of
/// type `f32` or `f64` with the mark `#[tree(static)]` is compared in the same way.
///
/// ```
/// use oxidax::prelude::*;
/// #[derive(Tree)]
/// struct Norm {
///     scale: Array,
///     #[tree(static)]
///     eps: f32,
/// }
/// let norm = |eps| Norm { scale: ones([2]), eps };
/// assert_eq!(tree::structure(&norm(1e-5)), tree::structure(&norm(1e-5)));
/// assert_ne!(tree::structure(&norm(1e-5)), tree::structure(&norm(1e-6)));
/// assert_eq!(tree::StaticFloat::from(1e-5).get(), 1e-5);
/// ```
#[derive(Clone, Copy)]
#[doc(alias = "Number")]
pub struct StaticFloat(pub f64);

impl StaticFloat {
    /// Returns the number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for StaticFloat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl PartialEq for StaticFloat {
    fn eq(&self, other: &StaticFloat) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for StaticFloat {}

impl Hash for StaticFloat {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl fmt::Debug for StaticFloat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl From<f32> for StaticFloat {
    fn from(value: f32) -> StaticFloat {
        StaticFloat(value.into())
    }
}

impl From<f64> for StaticFloat {
    fn from(value: f64) -> StaticFloat {
        StaticFloat(value)
    }
}

/// A shared value that is part of a tree's structure: equal to another if both are the same
/// allocation. It makes closures and other values without equality static, which JAX compares by
/// identity as well.
///
/// A clone is equal to the original. A value that is created again for every call is another one,
/// and compiles again.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::tree::ByPointer;
/// use std::sync::Arc;
/// type Activation = dyn Fn(&Array) -> Array + Send + Sync;
///
/// #[derive(Tree)]
/// struct Layer {
///     weight: Array,
///     #[tree(static)]
///     activation: ByPointer<Activation>,
/// }
///
/// let slope = 0.1;
/// let leaky: Arc<Activation> = Arc::new(move |x: &Array| maximum(x, x * slope));
/// let layer = Layer { weight: ones([2]), activation: ByPointer(leaky) };
/// let y = jit(|layer: &Layer| (layer.activation)(&-&layer.weight)).call(&layer)?;
/// assert_eq!(y.to_vec::<f32>()?, [-0.1, -0.1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "jax.tree_util.Partial")]
pub struct ByPointer<T: ?Sized>(pub Arc<T>);

impl<T> ByPointer<T> {
    /// Allocates a value.
    pub fn new(value: T) -> ByPointer<T> {
        ByPointer(Arc::new(value))
    }
}

impl<T: ?Sized> Deref for ByPointer<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> Clone for ByPointer<T> {
    fn clone(&self) -> ByPointer<T> {
        ByPointer(self.0.clone())
    }
}

impl<T: ?Sized> PartialEq for ByPointer<T> {
    fn eq(&self, other: &ByPointer<T>) -> bool {
        // The addresses alone: two pointers to one closure may have different tables of methods.
        Arc::as_ptr(&self.0).cast::<()>() == Arc::as_ptr(&other.0).cast::<()>()
    }
}

impl<T: ?Sized> Eq for ByPointer<T> {}

impl<T: ?Sized> Hash for ByPointer<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).cast::<()>().hash(state);
    }
}

impl<T: ?Sized> fmt::Debug for ByPointer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {:p}", std::any::type_name::<T>(), Arc::as_ptr(&self.0))
    }
}
