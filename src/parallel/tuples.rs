//! One entry for each argument, as a tuple.

/// `From` tuples of up to eight of what becomes a `$one`, for an enum with a variant `Each`.
macro_rules! from_tuples {
    ($to:ident of $one:ident) => {
        from_tuples!(
            $to of $one:
            A a;
            A a, B b;
            A a, B b, C c;
            A a, B b, C c, D d;
            A a, B b, C c, D d, E e;
            A a, B b, C c, D d, E e, G g;
            A a, B b, C c, D d, E e, G g, H h;
            A a, B b, C c, D d, E e, G g, H h, I i;
        );
    };
    ($to:ident of $one:ident: $($($name:ident $value:ident),*;)*) => {$(
        impl<$($name: Into<$one>),*> From<($($name,)*)> for $to {
            fn from(($($value,)*): ($($name,)*)) -> $to {
                $to::Each(vec![$($value.into()),*])
            }
        }
    )*};
}

pub(super) use from_tuples;
