//! Collectives over the named axes of `vmap`: values and derivatives in both modes.

use crate::parity::collective_functions::function;
use crate::parity::fixtures::Suite;
use oxidax::prelude::*;
use serde_json::Value;

fn apply(op: &str, _: &Value, operands: &[Array]) -> Vec<Array> {
    function(op)(operands)
}

mod on_cpu {
    use super::*;

    #[test]
    fn collectives_match_jax() {
        Suite::load("collectives").with_narrow_defaults().check_ops(|_| true, apply);
    }
}
