//! Collectives over the named axes of `vmap`: values and derivatives in both modes.

use crate::collective_functions::function;
#[cfg(test)]
use crate::fixtures::Suite;
use oxidax::prelude::*;
use serde_json::Value;

pub(crate) fn apply(op: &str, _: &Value, operands: &[Array]) -> Vec<Array> {
    function(op)(operands)
}

#[cfg(test)]
mod on_cpu {
    use super::*;

    #[test]
    fn collectives_match_jax() {
        Suite::load("collectives").with_narrow_defaults().check_ops(|_| true, apply);
    }
}
