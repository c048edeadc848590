//! Implementations for tuples and functions of every supported number of arguments.

/// Expands `$macro!` once per number of arguments in the range.
///
/// Each expansion gets `$context`, a token tree from the caller, and one row per argument:
/// `(index Type PassedType name)`.
macro_rules! for_each_arity {
    (0..=16 $macro:ident $context:tt) => {
        $macro!($context);
        $crate::tree::for_each_arity!(1..=16 $macro $context);
    };
    (1..=16 $macro:ident $context:tt) => {
        $crate::tree::for_each_arity!(@ $macro $context []
            (0 A PA a) (1 B PB b) (2 C PC c) (3 D PD d)
            (4 E PE e) (5 G PG g) (6 H PH h) (7 I PI i)
            (8 J PJ j) (9 K PK k) (10 L PL l) (11 M PM m)
            (12 N PN n) (13 Q PQ q) (14 R PR r) (15 S PS s));
    };
    (2..=16 $macro:ident $context:tt) => {
        $crate::tree::for_each_arity!(@ $macro $context [(0 A PA a)]
            (1 B PB b) (2 C PC c) (3 D PD d)
            (4 E PE e) (5 G PG g) (6 H PH h) (7 I PI i)
            (8 J PJ j) (9 K PK k) (10 L PL l) (11 M PM m)
            (12 N PN n) (13 Q PQ q) (14 R PR r) (15 S PS s));
    };
    // Rarely used methods have examples, which run once per number of arguments.
    (0..=8 $macro:ident $context:tt) => {
        $macro!($context);
        $crate::tree::for_each_arity!(1..=8 $macro $context);
    };
    (1..=8 $macro:ident $context:tt) => {
        $crate::tree::for_each_arity!(@ $macro $context []
            (0 A PA a) (1 B PB b) (2 C PC c) (3 D PD d)
            (4 E PE e) (5 G PG g) (6 H PH h) (7 I PI i));
    };
    (@ $macro:ident $context:tt [$($row:tt)*]) => {};
    (@ $macro:ident $context:tt [$($row:tt)*] $next:tt $($rest:tt)*) => {
        $macro!($context $($row)* $next);
        $crate::tree::for_each_arity!(@ $macro $context [$($row)* $next] $($rest)*);
    };
}

pub(crate) use for_each_arity;
