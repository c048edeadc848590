//! Dimension numbers of convolutions: the roles of the axes.

use crate::core::{RuleError, RuleResult, trace};
use crate::ensure_shape;
use serde::{Deserialize, Serialize};

/// The roles of the axes of a convolution's operands and result.
///
/// Each list holds axis indices: first the batch axis (for `rhs_spec` the output features), then
/// the feature axis (for `rhs_spec` the input features), then the spatial axes in an order that all
/// three lists share. The default, three empty lists, means `NC…`, `OI…`, `NC…`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConvDimensionNumbers {
    /// Batch, features and space of `lhs`.
    pub lhs_spec: Vec<usize>,
    /// Output features, input features and space of `rhs`.
    pub rhs_spec: Vec<usize>,
    /// Batch, features and space of the result.
    pub out_spec: Vec<usize>,
}

impl ConvDimensionNumbers {
    /// Creates dimension numbers from one letter per axis. `N` is the batch, `C` the features, `O`
    /// and `I` the output and input features of `rhs`. Other letters are spatial axes, the same in
    /// all three strings.
    ///
    /// Throws `Op` (value) if a letter is missing, repeated, or not in all three strings.
    ///
    /// ```
    /// use oxidax::primitives::ConvDimensionNumbers;
    /// let numbers = ConvDimensionNumbers::of("NHWC", "HWIO", "NHWC");
    /// assert_eq!(numbers.lhs_spec, [0, 3, 1, 2]);
    /// assert_eq!(numbers.rhs_spec, [3, 2, 0, 1]);
    /// ```
    #[doc(alias = "conv_dimension_numbers")]
    #[track_caller]
    pub fn of(lhs: &str, rhs: &str, out: &str) -> ConvDimensionNumbers {
        match ConvDimensionNumbers::parse(lhs, rhs, out) {
            Ok(numbers) => numbers,
            Err(error) => trace::throw_operands("conv_dimension_numbers", error, &[]),
        }
    }

    fn parse(lhs: &str, rhs: &str, out: &str) -> RuleResult<ConvDimensionNumbers> {
        let texts = [("lhs", lhs, ['N', 'C']), ("rhs", rhs, ['O', 'I']), ("out", out, ['N', 'C'])];
        for (name, text, named) in texts {
            for (index, letter) in text.chars().enumerate() {
                if text.chars().take(index).any(|other| other == letter) {
                    let message = format!("{name} layout `{text}` has the letter {letter} twice");
                    return Err(RuleError::value(message));
                }
            }
            if let Some(missing) = named.into_iter().find(|letter| !text.contains(*letter)) {
                let message = format!("{name} layout `{text}` lacks the letter {missing}");
                return Err(RuleError::value(message));
            }
        }
        let space: Vec<char> = rhs.chars().filter(|c| !['O', 'I'].contains(c)).collect();
        let spec = |name: &str, text: &str, named: [char; 2]| -> RuleResult<Vec<usize>> {
            let letters: Vec<char> = text.chars().collect();
            let order = named.iter().chain(&space);
            let positions: Option<Vec<usize>> =
                order.map(|letter| letters.iter().position(|other| other == letter)).collect();
            positions.filter(|spec| spec.len() == letters.len()).ok_or_else(|| {
                RuleError::value(format!(
                    "{name} layout `{text}` and rhs layout `{rhs}` differ in their spatial letters"
                ))
            })
        };
        Ok(ConvDimensionNumbers {
            lhs_spec: spec("lhs", lhs, ['N', 'C'])?,
            rhs_spec: spec("rhs", rhs, ['O', 'I'])?,
            out_spec: spec("out", out, ['N', 'C'])?,
        })
    }

    /// Returns the lists, with defaults resolved for operands of this rank.
    pub(super) fn resolved(&self, rank: usize) -> RuleResult<ConvDimensionNumbers> {
        ensure_shape!(rank >= 2, "operands need a batch and a feature axis, their rank is {rank}");
        let list = |name: &str, list: &[usize]| -> RuleResult<Vec<usize>> {
            if list.is_empty() {
                return Ok((0..rank).collect());
            }
            let mut sorted = list.to_vec();
            sorted.sort_unstable();
            ensure_shape!(
                sorted.iter().copied().eq(0..rank),
                "{name} {list:?} must name each of the {rank} axes once"
            );
            Ok(list.to_vec())
        };
        Ok(ConvDimensionNumbers {
            lhs_spec: list("lhs_spec", &self.lhs_spec)?,
            rhs_spec: list("rhs_spec", &self.rhs_spec)?,
            out_spec: list("out_spec", &self.out_spec)?,
        })
    }

    /// Returns the StableHLO attribute of resolved lists.
    pub(super) fn stablehlo(&self) -> String {
        let axes = |spec: &[usize], named: [&str; 2]| {
            let mut names = vec![String::new(); spec.len()];
            for (position, &axis) in spec.iter().enumerate() {
                names[axis] = match named.get(position) {
                    Some(name) => (*name).to_string(),
                    None => (position - 2).to_string(),
                };
            }
            names.join(", ")
        };
        format!(
            "#stablehlo.conv<[{}]x[{}]->[{}]>",
            axes(&self.lhs_spec, ["b", "f"]),
            axes(&self.rhs_spec, ["o", "i"]),
            axes(&self.out_spec, ["b", "f"])
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn letters_name_axes() {
        let numbers = ConvDimensionNumbers::parse("WNHC", "OHIW", "CHNW").unwrap();
        assert_eq!(numbers.lhs_spec, [1, 3, 2, 0]);
        assert_eq!(numbers.rhs_spec, [0, 2, 1, 3]);
        assert_eq!(numbers.out_spec, [2, 0, 1, 3]);
        expect!["#stablehlo.conv<[1, b, 0, f]x[o, 0, i, 1]->[f, 0, b, 1]>"]
            .assert_eq(&numbers.stablehlo());
        let error = |lhs, rhs, out| ConvDimensionNumbers::parse(lhs, rhs, out).unwrap_err().message;
        expect!["lhs layout `NHWW` has the letter W twice"]
            .assert_eq(&error("NHWW", "HWIO", "NHWC"));
        expect!["rhs layout `HWIC` lacks the letter O"].assert_eq(&error("NHWC", "HWIC", "NHWC"));
        expect!["out layout `NHDC` and rhs layout `HWIO` differ in their spatial letters"]
            .assert_eq(&error("NHWC", "HWIO", "NHDC"));
    }
}
