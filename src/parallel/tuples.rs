//! Conversions from a tuple with one entry per argument.

/// Implements `From` for tuples of up to eight values that convert to `$one`. `$to` is an enum with a
/// variant `Each(Vec<$one>)`.
macro_rules! from_tuples {
    ([$to:ident of $one:ident] $(($index:tt $name:ident $param:ident $value:ident))*) => {
        impl<$($name: Into<$one>),*> From<($($name,)*)> for $to {
            fn from(($($value,)*): ($($name,)*)) -> $to {
                $to::Each(vec![$($value.into()),*])
            }
        }
    };
}

pub(super) use from_tuples;
