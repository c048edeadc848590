//! Reading primitives that hold programs from text.

use crate::core::{Program, RuleError, RuleResult};
use serde::de::DeserializeOwned;

/// Reads the parameters of a primitive, as it prints them.
pub(super) fn parameters<T: DeserializeOwned>(params: serde_json::Value) -> RuleResult<T> {
    serde_json::from_value(params).map_err(|error| RuleError::value(error.to_string()))
}

/// Returns the programs of the primitive `name`, which holds exactly `N`.
pub(super) fn exact<const N: usize>(
    name: &str,
    programs: Vec<Program>,
) -> RuleResult<[Program; N]> {
    <[Program; N]>::try_from(programs).map_err(|programs| {
        let expected = if N == 1 { "one program" } else { "two programs" };
        RuleError::value(format!("{name} holds {expected}, got {}", programs.len()))
    })
}
