//! The array API compared with JAX: values, derivatives, and both under `vmap` for every composite
//! function. An operation's name stands for one call with its options, which is in the table of its
//! family.

mod choosing;
mod elementwise;
mod integrals;
mod reductions;
mod shapes;
mod special;
mod statistics;

#[cfg(test)]
use crate::fixtures::Suite;
use crate::fixtures::by_example;
use oxidax::prelude::*;
use serde_json::Value;

fn plain(op: &str, x: &[Array]) -> Vec<Array> {
    let families = [
        elementwise::apply,
        shapes::apply,
        choosing::apply,
        reductions::apply,
        statistics::apply,
        integrals::apply,
        special::apply,
    ];
    let found = families.iter().find_map(|apply| apply(op, x));
    found.unwrap_or_else(|| panic!("no call is named {op}"))
}

/// Applies a call to one example or, over the leading axes, to a batch.
pub(crate) fn apply(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    by_example(params, operands, |operands| plain(op, operands))
}

macro_rules! families {
    ($($name:ident),*) => {
        #[cfg(test)]
        mod on_cpu {
            use super::*;
            $(#[test]
            fn $name() {
                let suite = Suite::load("api").with_narrow_defaults();
                let suite = suite.without(|_, params, _| params["family"] != stringify!($name));
                suite.check_ops(|_| true, apply);
            })*
        }
    };
}

families!(elementwise, shapes, choosing, reductions, statistics, special, integrals);
