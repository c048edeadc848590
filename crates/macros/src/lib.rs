//! Derive macros of oxidax. Use them through the `oxidax` crate, which exports `#[derive(Tree)]`
//! beside the trait of the same name.
//!
//! `item` parses the type and rejects types that cannot be trees, `bounds` computes the bounds of
//! its type parameters, and `expand` generates the `impl`.

mod bounds;
mod expand;
mod item;

use proc_macro::TokenStream;

/// Implements `Tree` for a struct or an enum whose fields are trees.
///
/// A field's name is its step in the paths of its leaves (`weight`, or `[0]` in a tuple struct or
/// variant); the name of the struct, or of the enum and its variant, is part of the structure. A
/// field marked `#[tree(static)]` holds no arrays: its value is part of the structure, so it must
/// be `Clone + Eq + Hash + Debug + Send + Sync + 'static`, and `jit` recompiles when it changes.
///
/// A type parameter in a tree's field gets the bound `Tree`, one in a static field the bounds
/// above. Lifetimes and unions are refused.
#[proc_macro_derive(Tree, attributes(tree))]
pub fn derive_tree(input: TokenStream) -> TokenStream {
    let derived = syn::parse(input).and_then(|input| item::read(&input).map(|i| expand::tree(&i)));
    derived.unwrap_or_else(syn::Error::into_compile_error).into()
}
