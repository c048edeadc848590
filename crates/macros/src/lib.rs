//! Derive macros of oxidax. Use them through the `oxidax` crate, which exports `#[derive(Tree)]`
//! beside the trait of the same name, `#[derive(TreeOps)]` and `#[derive(TreeRef)]`.
//!
//! `item` parses the type and rejects types that cannot be trees, `bounds` computes the bounds of
//! its type parameters, `expand` generates the `impl` of `Tree`, `operators` those of arithmetic,
//! and `references` structs of references.

mod bounds;
mod expand;
mod item;
mod operators;
mod references;

use proc_macro::TokenStream;

/// Implements `Tree` for a struct or an enum whose fields are trees.
///
/// A field's name is its step in the paths of its leaves (`weight`, or `[0]` in a tuple struct or
/// variant); the name of the struct, or of the enum and its variant, is part of the structure. A
/// field marked `#[tree(static)]` holds no arrays: its value is part of the structure, so it must
/// be `Clone + Eq + Hash + Debug + Send + Sync + 'static`, or `f32`, `f64` or an option of them,
/// which are compared by their bits; `jit` recompiles when it changes.
///
/// A type parameter in a tree's field gets the bound `Tree`, one in a static field the bounds
/// above. Lifetimes and unions are refused.
#[proc_macro_derive(Tree, attributes(tree))]
pub fn derive_tree(input: TokenStream) -> TokenStream {
    let derived = syn::parse(input).and_then(|input| {
        item::read(&input).map(|i| {
            let tree = expand::tree(&i);
            let nestable = expand::nestable(&i);
            quote::quote!(#tree #nestable)
        })
    });
    derived.unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements arithmetic for a type with `#[derive(Tree)]`, leaf by leaf: `a + b`, `a - b`, `-a`,
/// `a * factor`, `0.1 * a`, `a / factor`, `+=`, `-=`, `*=` and `/=`, for values and references.
///
/// A factor is a number or an array. The other operand of `+` and `-` has the same type; the
/// operation throws `Tree` if the structures differ. See `oxidax::tree::add` and `scale` for the
/// functions.
///
/// ```
/// use oxidax::prelude::*;
///
/// #[derive(Tree, TreeOps)]
/// struct Params {
///     w: Array,
///     b: Array,
/// }
///
/// let step = |p: Params, g: Params| p - 0.1 * g;
/// let params = || {
///     let w = Aval::new(DType::F32, [3]);
///     eval_shape(|w: Array| Params { b: w.sum(), w }, w)
/// };
/// assert_eq!(eval_shape(step, (params()?, params()?))?.w.shape().dims(), [3]);
/// # Ok::<(), Error>(())
/// ```
#[proc_macro_derive(TreeOps)]
pub fn derive_tree_ops(input: TokenStream) -> TokenStream {
    let derived = syn::parse(input)
        .and_then(|input| item::read(&input).map(|item| operators::operators(&item)));
    derived.unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Declares a struct of references for a struct with `#[derive(Tree)]`: `StateRef` for `State`. It
/// is an argument or an initial carry in place of a `State`, and keeps all of its arrays.
///
/// Each field is a reference to the field of the same name. Enums and structs without fields are
/// refused.
///
/// ```
/// use oxidax::prelude::*;
///
/// #[derive(Tree, TreeRef)]
/// struct Batch {
///     x: Array,
///     y: Array,
/// }
///
/// let error = jit(|batch: &Batch| (&batch.x - &batch.y).square().mean());
/// let of = |x: &Array, y: &Array| error.apply(BatchRef { x, y });
/// let scalar = eval_shape(of, (Aval::new(DType::F32, [3]), Aval::new(DType::F32, [3])))?;
/// assert_eq!(scalar.rank(), 0);
/// # Ok::<(), Error>(())
/// ```
#[proc_macro_derive(TreeRef, attributes(tree))]
pub fn derive_tree_ref(input: TokenStream) -> TokenStream {
    let derived = syn::parse(input).and_then(|input| {
        item::read(&input).and_then(|item| references::references(&input, &item))
    });
    derived.unwrap_or_else(syn::Error::into_compile_error).into()
}
