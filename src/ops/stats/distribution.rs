//! Parameters of distributions, and the macros that declare distributions.

use crate::core::{Array, Scalar};
use crate::primitives::{ArrayLike, Like, div, eq, floor, full_like, ge, sub, where_};

/// A parameter of a distribution: an array, or a number.
///
/// A number is weakly typed: it takes the dtype of the arrays it meets.
#[derive(Clone, Debug)]
pub enum Parameter {
    /// An array, which broadcasts with the argument and the other parameters.
    Array(Array),
    /// A number.
    Number(Scalar),
}

impl Parameter {
    /// Converts an array or a number to a parameter.
    pub fn new(value: impl ArrayLike) -> Parameter {
        match value.like() {
            Like::Array(x) => Parameter::Array(x.clone()),
            Like::Scalar(number) => Parameter::Number(number),
        }
    }
}

impl ArrayLike for Parameter {
    fn like(&self) -> Like<'_> {
        match self {
            Parameter::Array(x) => Like::Array(x),
            Parameter::Number(number) => Like::Scalar(*number),
        }
    }
}

/// Declares a distribution: a struct of [`Parameter`]s, its constructor, and `operands`, which
/// promotes the argument of a method together with the parameters.
///
/// Parameters before the semicolon are arguments of `new`. Those after it have a default and a
/// setter; a distribution that has only those takes them in `new` and implements `Default`.
macro_rules! distribution {
    (
        $(#[$attribute:meta])*
        $name:ident(
            $($required:ident: $about:literal),+
            $(; $($optional:ident = $default:literal, $setter:ident: $note:literal),+)?
        )
    ) => {
        distribution! {
            @declare [$(#[$attribute])*] $name
            [$($required: $about),+ $($(, $optional: $note)+)?]
            [$($($optional, $setter: $note),+)?]
        }

        impl $name {
            #[doc = concat!(
                "Creates the distribution from its parameters",
                $($(", with `", stringify!($optional), "` ", $default,)+)? "."
            )]
            pub fn new($($required: impl ArrayLike),+) -> $name {
                $name {
                    $($required: Parameter::new($required),)+
                    $($($optional: Parameter::new($default),)+)?
                }
            }
        }
    };
    (
        $(#[$attribute:meta])*
        $name:ident(; $($optional:ident = $default:literal, $setter:ident: $note:literal),+)
    ) => {
        distribution! {
            @declare [$(#[$attribute])*] $name
            [$($optional: $note),+]
            [$($optional, $setter: $note),+]
        }

        impl $name {
            /// Creates the distribution from its parameters.
            pub fn new($($optional: impl ArrayLike),+) -> $name {
                $name { $($optional: Parameter::new($optional)),+ }
            }
        }

        impl Default for $name {
            #[doc = concat!(
                "Returns the standard distribution",
                $(", with `", stringify!($optional), "` ", $default,)+ "."
            )]
            fn default() -> $name {
                $name { $($optional: Parameter::new($default)),+ }
            }
        }
    };
    (
        @declare [$(#[$attribute:meta])*] $name:ident
        [$($parameter:ident: $about:literal),+]
        [$($optional:ident, $setter:ident: $note:literal),*]
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $(#[doc = concat!("The parameter `", stringify!($parameter), "`: ", $about, ".")]
            pub $parameter: Parameter,)+
        }

        impl $name {
            $(#[doc = concat!("Sets `", stringify!($optional), "`: ", $note, ".")]
            pub fn $setter(self, $optional: impl ArrayLike) -> $name {
                $name { $optional: Parameter::new($optional), ..self }
            })*

            /// Promotes the argument of `method` and the parameters to one float dtype and shape.
            #[allow(dead_code, reason = "some distributions delegate to another one")]
            #[track_caller]
            fn operands(
                &self,
                method: &str,
                x: impl ArrayLike,
            ) -> [Array; 1 + [$(stringify!($parameter)),+].len()] {
                $crate::primitives::promote_inexact(
                    method,
                    [x.like(), $(self.$parameter.like()),+],
                )
            }
        }
    };
}

/// Adds methods of a distribution that are the exponential or the logarithm of another one.
macro_rules! derived_methods {
    ($name:ident: $($method:ident = $function:ident($source:ident), $alias:literal;)+) => {
        impl $name {
            $(
                #[doc = concat!(
                    "Returns the ", derived_methods!(@quantity $method), ", the ",
                    derived_methods!(@quantity $function), " of [`", stringify!($name), "::",
                    stringify!($source), "`]."
                )]
                #[doc(alias = $alias)]
                #[track_caller]
                pub fn $method(&self, x: impl ArrayLike) -> Array {
                    $crate::primitives::$function(&self.$source(x))
                }
            )+
        }
    };
    (@quantity pdf) => { "density at `x`" };
    (@quantity pmf) => { "probability of `x`" };
    (@quantity cdf) => { "probability of a value of at most `x`" };
    (@quantity sf) => { "probability of a value above `x`" };
    (@quantity logcdf) => { "logarithm of the probability of a value of at most `x`" };
    (@quantity logsf) => { "logarithm of the probability of a value above `x`" };
    (@quantity exp) => { "exponential" };
    (@quantity log) => { "logarithm" };
}

/// Returns `(x - loc) / scale`.
#[track_caller]
pub(super) fn standardize(x: &Array, loc: &Array, scale: &Array) -> Array {
    div(sub(x, loc), scale)
}

/// Returns true where `k` is an integer of at least 0, and `k` there with 0 elsewhere.
#[track_caller]
pub(super) fn nonnegative_integer(k: &Array) -> (Array, Array) {
    let in_support = ge(k, 0.0) & eq(k, floor(k));
    (where_(&in_support, k, full_like(k, 0)), in_support)
}
