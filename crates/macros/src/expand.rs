//! Generates the `impl`s of `#[derive(Tree)]`.

use crate::bounds::bounded;
use crate::item::{Field, Item, Variant};
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::{GenericArgument, Ident, Member, PathArguments, Type};

/// Generates the implementation.
pub(crate) fn tree(item: &Item<'_>) -> TokenStream {
    let name = item.name;
    let generics = bounded(item);
    let (parameters, arguments, clause) = generics.split_for_impl();
    let flatten = item.variants.iter().map(flatten);
    let unflatten = item.variants.iter().map(unflatten);
    let visit = visit_children(item);
    // The match of an enum without variants needs a place, not a reference, to be exhaustive.
    let place = if item.variants.is_empty() { quote!(*self) } else { quote!(self) };
    quote! {
        #[automatically_derived]
        impl #parameters ::oxidax::tree::Tree for #name #arguments #clause {
            fn flatten(&self, visitor: &mut dyn ::oxidax::tree::Visitor) {
                let _ = &visitor;
                match #place { #(#flatten)* }
            }

            fn unflatten(
                &self,
                leaves: &mut dyn ::core::iter::Iterator<Item = ::oxidax::core::Array>,
            ) -> Self {
                let _ = &leaves;
                match #place { #(#unflatten)* }
            }

            #visit
        }
    }
}

/// Generates the implementation of `NestableTree`, by which a type is the structure of a Jacobian.
pub(crate) fn nestable(item: &Item<'_>) -> TokenStream {
    let name = item.name;
    let generics = bounded(item);
    let (parameters, arguments, clause) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #parameters ::oxidax::tree::NestableTree for #name #arguments #clause {
            type Nested<__Inner: ::oxidax::tree::Tree> =
                ::oxidax::tree::NestedTree<Self, __Inner>;

            fn nest<__Inner: ::oxidax::tree::Tree>(
                &self,
                trees: &mut dyn ::core::iter::Iterator<Item = __Inner>,
            ) -> ::oxidax::tree::NestedTree<Self, __Inner> {
                ::oxidax::tree::NestedTree::new(self, trees)
            }
        }
    }
}

/// Generates the visit of all children, unless there are none.
fn visit_children(item: &Item<'_>) -> Option<TokenStream> {
    let has_children = |variant: &Variant<'_>| variant.fields.iter().any(|f| !f.is_static);
    if !item.variants.iter().any(has_children) {
        return None;
    }
    let arms = item.variants.iter().map(|variant| {
        let constructor = constructor(variant);
        let fields = variant.fields.iter().enumerate().filter(|(_, field)| !field.is_static);
        let (patterns, visits): (Vec<_>, Vec<_>) = fields
            .map(|(position, field)| {
                let (local, member, key) = (local(position), &field.member, key(field));
                let ty = field.ty;
                // The type's own tokens give compiler errors one location, so that they are merged.
                let visit = quote!(<#ty as ::oxidax::tree::Tree>::visit_at(#local, #key, visitor););
                (quote!(#member: #local), visit)
            })
            .unzip();
        quote!(#constructor { #(#patterns,)* .. } => { #(#visits)* })
    });
    Some(quote! {
        fn visit_children(&mut self, visitor: &mut dyn ::oxidax::tree::NodeVisitor) {
            match self { #(#arms)* }
        }
    })
}

/// Returns `Self` or `Self::Variant`. With braces it fits named, numbered and no fields.
fn constructor(variant: &Variant<'_>) -> TokenStream {
    match variant.name {
        Some(name) => quote!(Self::#name),
        None => quote!(Self),
    }
}

/// Returns a variable name that cannot be a user's constant, which would turn the pattern into a
/// comparison.
fn local(position: usize) -> Ident {
    format_ident!("__tree_{position}", span = Span::mixed_site())
}

fn pattern(variant: &Variant<'_>) -> TokenStream {
    let constructor = constructor(variant);
    let members = variant.fields.iter().map(|field| &field.member);
    let locals = (0..variant.fields.len()).map(local);
    quote!(#constructor { #(#members: #locals),* })
}

fn flatten(variant: &Variant<'_>) -> TokenStream {
    let pattern = pattern(variant);
    let tag = &variant.tag;
    let fields = variant.fields.iter().enumerate().map(|(position, field)| {
        let local = local(position);
        let ty = field.ty;
        let key = key(field);
        if field.is_static
            && let Some(value) = float_key(ty, &local)
        {
            return quote!(
                ::oxidax::tree::Visitor::static_field(
                    visitor, #key, ::oxidax::tree::Tag::of(&#value)););
        }
        if field.is_static {
            // The type's own tokens give compiler errors the right location.
            return quote!(
                ::oxidax::tree::Visitor::static_field(
                    visitor, #key, ::oxidax::tree::Tag::of::<#ty>(#local));
            );
        }
        quote! {
            ::oxidax::tree::Visitor::enter(visitor, #key);
            <#ty as ::oxidax::tree::Tree>::flatten(#local, visitor);
            ::oxidax::tree::Visitor::exit(visitor);
        }
    });
    quote! {
        #pattern => {
            ::oxidax::tree::Visitor::tag(visitor, ::oxidax::tree::Tag::Name(#tag));
            #(#fields)*
        }
    }
}

/// Returns the key of a static float or option of one, which have no total equality.
fn float_key(ty: &Type, local: &Ident) -> Option<TokenStream> {
    let is_float = |ty: &Type| match ty {
        Type::Path(path) => path.path.is_ident("f32") || path.path.is_ident("f64"),
        _ => false,
    };
    let static_float = quote!(::oxidax::tree::StaticFloat::from);
    if is_float(ty) {
        return Some(quote!(#static_float(*#local)));
    }
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|segment| segment.ident == "Option")?;
    match &last.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first() {
            Some(GenericArgument::Type(inner)) if is_float(inner) => {
                Some(quote!(::core::option::Option::map(*#local, #static_float)))
            }
            _ => None,
        },
        _ => None,
    }
}

fn key(field: &Field<'_>) -> TokenStream {
    match &field.member {
        Member::Named(name) => {
            let name = name.unraw().to_string();
            quote!(::oxidax::tree::PathKey::Field(#name))
        }
        Member::Unnamed(index) => {
            let index = index.index as usize;
            quote!(::oxidax::tree::PathKey::Index(#index))
        }
    }
}

fn unflatten(variant: &Variant<'_>) -> TokenStream {
    let pattern = pattern(variant);
    let constructor = constructor(variant);
    let fields = variant.fields.iter().enumerate().map(|(position, field)| {
        let local = local(position);
        let (member, ty) = (&field.member, field.ty);
        if field.is_static {
            quote!(#member: <#ty as ::core::clone::Clone>::clone(#local))
        } else {
            quote!(#member: <#ty as ::oxidax::tree::Tree>::unflatten(#local, leaves))
        }
    });
    quote!(#pattern => #constructor { #(#fields),* },)
}

#[cfg(test)]
mod tests {
    use crate::item::read;
    use quote::quote;
    use syn::{DeriveInput, parse_quote};

    fn expanded(input: &DeriveInput) -> String {
        super::tree(&read(input).unwrap()).to_string()
    }

    #[test]
    fn a_struct_expands_to_one_arm() {
        let found = expanded(&parse_quote! {
            pub struct Pair<T> { w: T, #[tree(static)] r#type: u8 }
        });
        let expected = quote! {
            #[automatically_derived]
            impl<T: ::oxidax::tree::Tree> ::oxidax::tree::Tree for Pair<T> {
                fn flatten(&self, visitor: &mut dyn ::oxidax::tree::Visitor) {
                    let _ = &visitor;
                    match self {
                        Self { w: __tree_0, r#type: __tree_1 } => {
                            ::oxidax::tree::Visitor::tag(
                                visitor, ::oxidax::tree::Tag::Name("Pair"));
                            ::oxidax::tree::Visitor::enter(
                                visitor, ::oxidax::tree::PathKey::Field("w"));
                            <T as ::oxidax::tree::Tree>::flatten(__tree_0, visitor);
                            ::oxidax::tree::Visitor::exit(visitor);
                            ::oxidax::tree::Visitor::static_field(
                                visitor, ::oxidax::tree::PathKey::Field("type"),
                                ::oxidax::tree::Tag::of::<u8>(__tree_1));
                        }
                    }
                }

                fn unflatten(
                    &self,
                    leaves: &mut dyn ::core::iter::Iterator<Item = ::oxidax::core::Array>,
                ) -> Self {
                    let _ = &leaves;
                    match self {
                        Self { w: __tree_0, r#type: __tree_1 } => Self {
                            w: <T as ::oxidax::tree::Tree>::unflatten(__tree_0, leaves),
                            r#type: <u8 as ::core::clone::Clone>::clone(__tree_1)
                        },
                    }
                }

                fn visit_children(&mut self, visitor: &mut dyn ::oxidax::tree::NodeVisitor) {
                    match self {
                        Self { w: __tree_0, .. } => {
                            <T as ::oxidax::tree::Tree>::visit_at(
                                __tree_0, ::oxidax::tree::PathKey::Field("w"), visitor);
                        }
                    }
                }
            }
        };
        assert_eq!(found, expected.to_string());
    }

    #[test]
    fn tuple_fields_are_numbered_and_variants_named() {
        let found = expanded(&parse_quote!(
            enum Act {
                Relu,
                Scaled(Array),
            }
        ));
        assert!(found.contains(&quote!(Self::Relu {} => Self::Relu {},).to_string()), "{found}");
        assert!(found.contains(&quote!(Tag::Name("Act::Scaled")).to_string()), "{found}");
        assert!(found.contains(&quote!(PathKey::Index(0usize)).to_string()), "{found}");
    }

    #[test]
    fn static_floats_are_compared_by_their_bits() {
        let found = expanded(&parse_quote! {
            struct Norm { #[tree(static)] eps: f32, #[tree(static)] cap: Option<f64> }
        });
        assert!(found.contains(&quote!(StaticFloat::from(*__tree_0)).to_string()), "{found}");
        assert!(found.contains("Option :: map (* __tree_1 ,"), "{found}");
        assert!(!found.contains("visit_children"), "{found}");
    }

    #[test]
    fn an_enum_without_variants_matches_its_place() {
        let found = expanded(&parse_quote!(
            enum Never {}
        ));
        assert!(found.contains(&quote!(match *self {}).to_string()), "{found}");
    }
}
