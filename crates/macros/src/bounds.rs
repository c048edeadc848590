//! Bounds on the type parameters of generic trees.

use crate::item::Item;
use quote::quote;
use syn::visit::{self, Visit};
use syn::{Generics, Ident, Type, TypeParamBound, TypePath, parse_quote};

/// The type parameters, and their associated types, that occur in fields.
struct Found<'a> {
    parameters: &'a [&'a Ident],
    used: Vec<bool>,
    projections: Vec<&'a TypePath>,
}

impl<'a> Found<'a> {
    fn in_types(parameters: &'a [&'a Ident], types: impl Iterator<Item = &'a Type>) -> Found<'a> {
        let used = vec![false; parameters.len()];
        let mut found = Found { parameters, used, projections: Vec::new() };
        types.for_each(|ty| found.visit_type(ty));
        found
    }

    fn mentions(&self, ty: &Type) -> bool {
        let one = Found::in_types(self.parameters, std::iter::once(ty));
        one.used.contains(&true) || !one.projections.is_empty()
    }
}

impl<'a> Visit<'a> for Found<'a> {
    fn visit_type_path(&mut self, ty: &'a TypePath) {
        if let Some(of) = &ty.qself {
            // `<T as Trait>::Item` bounds the item; `T` itself need not be a tree.
            if self.mentions(&of.ty) {
                self.projections.push(ty);
            }
            return;
        }
        let first = ty.path.segments.first().map(|segment| &segment.ident);
        let parameter = self.parameters.iter().position(|name| Some(*name) == first);
        match parameter {
            Some(position) if ty.path.segments.len() == 1 => self.used[position] = true,
            Some(_) => self.projections.push(ty),
            // `PhantomData` holds no arrays.
            None if ty.path.segments.last().is_some_and(|s| s.ident == "PhantomData") => {}
            None => visit::visit_type_path(self, ty),
        }
    }
}

/// The bounds of static values beside `Send`, `Sync` and `'static`.
fn of_static() -> [TypeParamBound; 4] {
    [
        parse_quote!(::core::clone::Clone),
        parse_quote!(::core::cmp::Eq),
        parse_quote!(::core::hash::Hash),
        parse_quote!(::core::fmt::Debug),
    ]
}

/// Adds to the item's generics the bounds required by its fields.
pub(crate) fn bounded(item: &Item<'_>) -> Generics {
    let parameters: Vec<&Ident> = item.generics.type_params().map(|param| &param.ident).collect();
    let types = |is_static: bool| {
        let fields = item.variants.iter().flat_map(|variant| &variant.fields);
        fields.filter(move |field| field.is_static == is_static).map(|field| field.ty)
    };
    let trees = Found::in_types(&parameters, types(false));
    let statics = Found::in_types(&parameters, types(true));
    let mut generics = item.generics.clone();
    for (position, param) in generics.type_params_mut().enumerate() {
        // `Tree` implies these.
        if !trees.used[position] {
            let every: [TypeParamBound; 3] = [
                parse_quote!(::core::marker::Send),
                parse_quote!(::core::marker::Sync),
                parse_quote!('static),
            ];
            param.bounds.extend(every);
        } else {
            param.bounds.push(parse_quote!(::oxidax::tree::Tree));
        }
        if statics.used[position] {
            param.bounds.extend(of_static());
        }
    }
    if !trees.projections.is_empty() || !statics.projections.is_empty() {
        let predicates = &mut generics.make_where_clause().predicates;
        for ty in &trees.projections {
            predicates.push(parse_quote!(#ty: ::oxidax::tree::Tree));
        }
        for ty in &statics.projections {
            let bounds = of_static();
            let every = quote!(#(#bounds +)* ::core::marker::Send + ::core::marker::Sync);
            predicates.push(parse_quote!(#ty: #every + 'static));
        }
    }
    generics
}

#[cfg(test)]
mod tests {
    use super::bounded;
    use crate::item::read;
    use quote::ToTokens;
    use syn::{DeriveInput, parse_quote};

    /// Returns the bounds as text without spaces.
    fn bounds(input: &DeriveInput) -> String {
        let generics = bounded(&read(input).unwrap());
        let clause = generics.where_clause.to_token_stream();
        format!("{}{clause}", generics.params.to_token_stream()).replace(' ', "")
    }

    #[test]
    fn a_parameter_inside_containers_must_be_a_tree() {
        let input = parse_quote!(
            struct S<T, U: Default, const N: usize>([Vec<T>; N], (u8, U));
        );
        let expected = "T:::oxidax::tree::Tree,U:Default+::oxidax::tree::Tree,constN:usize";
        assert_eq!(bounds(&input), expected);
    }

    #[test]
    fn a_phantom_parameter_need_not_be_a_tree() {
        let input = parse_quote!(
            struct S<T: ?Sized>(std::marker::PhantomData<T>);
        );
        let expected = "T:?Sized+::core::marker::Send+::core::marker::Sync+'static";
        assert_eq!(bounds(&input), expected);
    }

    #[test]
    fn a_static_parameter_must_be_a_key() {
        let input = parse_quote!(
            struct S<T> {
                #[tree(static)]
                name: Option<T>,
            }
        );
        let expected = "T:::core::marker::Send+::core::marker::Sync+'static+::core::clone::Clone\
                        +::core::cmp::Eq+::core::hash::Hash+::core::fmt::Debug";
        assert_eq!(bounds(&input), expected);
    }

    #[test]
    fn associated_types_are_bounded_instead_of_their_parameter() {
        let input = parse_quote! {
            struct S<T: Layer> { a: Vec<T::State>, #[tree(static)] b: <T as Layer>::Config }
        };
        let expected = "T:Layer+::core::marker::Send+::core::marker::Sync+'static\
                        whereT::State:::oxidax::tree::Tree,\
                        <TasLayer>::Config:::core::clone::Clone+::core::cmp::Eq\
                        +::core::hash::Hash+::core::fmt::Debug+::core::marker::Send\
                        +::core::marker::Sync+'static";
        assert_eq!(bounds(&input), expected);
    }
}
