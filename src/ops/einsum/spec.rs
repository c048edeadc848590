//! The notation of `einsum`: `"bij,bjk->bik"`, `"...i,i"`, `"ii->i"`.

use crate::core::{Aval, RuleError};
use std::collections::BTreeMap;
use std::fmt;

/// Index of the notation: a letter, or one of the axes of an ellipsis, counted from the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Label {
    Ellipsis(std::cmp::Reverse<usize>),
    Letter(char),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Letter(letter) => write!(f, "`{letter}`"),
            Label::Ellipsis(place) => write!(f, "axis -{} of `...`", place.0 + 1),
        }
    }
}

/// Specification resolved for the ranks of its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    /// For each operand, the label of each axis.
    pub(super) inputs: Vec<Vec<Label>>,
    /// The labels of the result's axes.
    pub(super) output: Vec<Label>,
    /// The size of each label; if operands differ, the size that is not 1.
    pub(super) sizes: BTreeMap<Label, usize>,
}

/// Comma-separated term: letters before and after an ellipsis.
struct Term {
    before: Vec<char>,
    after: Option<Vec<char>>,
}

fn error(spec: &str, message: impl fmt::Display) -> RuleError {
    RuleError::value(format!("{message}, in \"{spec}\""))
}

fn term(spec: &str, text: &str) -> Result<Term, RuleError> {
    let letters = |part: &str| -> Result<Vec<char>, RuleError> {
        let letters: Vec<char> = part.chars().filter(|c| !c.is_whitespace()).collect();
        match letters.iter().find(|c| !c.is_ascii_alphabetic()) {
            Some('.') => Err(error(spec, "an ellipsis is written `...`, once a term")),
            Some(other) => {
                Err(error(spec, format!("`{other}` is not an index: indices are letters")))
            }
            None => Ok(letters),
        }
    };
    match text.split_once("...") {
        Some((before, after)) => {
            Ok(Term { before: letters(before)?, after: Some(letters(after)?) })
        }
        None => Ok(Term { before: letters(text)?, after: None }),
    }
}

impl Term {
    fn letters(&self) -> impl Iterator<Item = char> + '_ {
        self.before.iter().chain(self.after.iter().flatten()).copied()
    }

    /// Returns the labels of the axes of an array of rank `rank`, or the number of axes of the
    /// term.
    fn labels(&self, rank: usize) -> Result<Vec<Label>, String> {
        let named = self.letters().count();
        let hidden = match &self.after {
            None if named != rank => return Err(format!("names {named} axes")),
            Some(_) if named > rank => return Err(format!("names at least {named} axes")),
            None => 0,
            Some(_) => rank - named,
        };
        let ellipsis = (0..hidden).rev().map(|place| Label::Ellipsis(std::cmp::Reverse(place)));
        let before = self.before.iter().copied().map(Label::Letter);
        let after = self.after.iter().flatten().copied().map(Label::Letter);
        Ok(before.chain(ellipsis).chain(after).collect())
    }
}

impl Spec {
    /// Parses `spec` for operands of these types.
    pub(super) fn parse(spec: &str, operands: &[Aval]) -> Result<Spec, RuleError> {
        let (inputs, output) = match spec.split_once("->") {
            Some((inputs, output)) => (inputs, Some(output)),
            None => (spec, None),
        };
        let terms: Vec<&str> = inputs.split(',').collect();
        if terms.len() != operands.len() {
            let (n, m) = (terms.len(), operands.len());
            return Err(error(spec, format!("{n} terms for {m} operands")));
        }
        let mut labels = Vec::new();
        for (position, (text, operand)) in terms.iter().zip(operands).enumerate() {
            let found = term(spec, text)?.labels(operand.rank()).map_err(|names| {
                let text = text.trim();
                RuleError::shape(format!(
                    "term {position} `{text}` {names}, operand {position} has {}, in \"{spec}\"",
                    operand.rank()
                ))
            })?;
            labels.push(found);
        }
        let sizes = sizes(spec, &labels, operands)?;
        let output = match output {
            Some(text) => explicit_output(spec, text, &sizes)?,
            None => implicit_output(&labels),
        };
        Ok(Spec { inputs: labels, output, sizes })
    }
}

fn sizes(
    spec: &str,
    labels: &[Vec<Label>],
    operands: &[Aval],
) -> Result<BTreeMap<Label, usize>, RuleError> {
    let mut sizes: BTreeMap<Label, (usize, usize)> = BTreeMap::new();
    for (operand, (labels, aval)) in labels.iter().zip(operands).enumerate() {
        for (axis, (&label, &size)) in labels.iter().zip(aval.shape.iter()).enumerate() {
            let repeated = labels[..axis].iter().position(|&other| other == label);
            if let Some(first) = repeated.filter(|&first| aval.shape[first] != size) {
                return Err(RuleError::shape(format!(
                    "index {label} is {} and {size} in operand {operand}, in \"{spec}\"",
                    aval.shape[first]
                )));
            }
            let known = sizes.entry(label).or_insert((size, operand));
            if known.0 == 1 {
                *known = (size, operand);
            } else if size != known.0 && size != 1 {
                return Err(RuleError::shape(format!(
                    "index {label} is {} in operand {} and {size} in operand {operand}, \
                     in \"{spec}\"",
                    known.0, known.1
                )));
            }
        }
    }
    Ok(sizes.into_iter().map(|(label, (size, _))| (label, size)).collect())
}

fn explicit_output(
    spec: &str,
    text: &str,
    sizes: &BTreeMap<Label, usize>,
) -> Result<Vec<Label>, RuleError> {
    let term = term(spec, text)?;
    let hidden = sizes.keys().filter(|label| matches!(label, Label::Ellipsis(_))).count();
    let rank = term.letters().count() + if term.after.is_some() { hidden } else { 0 };
    let output = term.labels(rank).map_err(|names| error(spec, names))?;
    for (position, label) in output.iter().enumerate() {
        if !sizes.contains_key(label) {
            return Err(error(spec, format!("index {label} of the result is in no operand")));
        }
        if output[..position].contains(label) {
            return Err(error(spec, format!("index {label} is twice in the result")));
        }
    }
    Ok(output)
}

/// Returns the axes of the ellipsis, then every letter that occurs once, in alphabetical order.
fn implicit_output(labels: &[Vec<Label>]) -> Vec<Label> {
    let mut counts: BTreeMap<Label, usize> = BTreeMap::new();
    for &label in labels.iter().flatten() {
        *counts.entry(label).or_default() += 1;
    }
    let once = |(label, count): (Label, usize)| match label {
        Label::Ellipsis(_) => Some(label),
        Label::Letter(_) => (count == 1).then_some(label),
    };
    counts.into_iter().filter_map(once).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::DType;
    use expect_test::expect;

    fn show(spec: &str, shapes: &[&[usize]]) -> String {
        let avals: Vec<Aval> = shapes.iter().map(|&s| Aval::new(DType::F32, s)).collect();
        let text = |labels: &[Label]| -> String {
            let one = |label: &Label| match label {
                Label::Letter(letter) => letter.to_string(),
                Label::Ellipsis(place) => place.0.to_string(),
            };
            labels.iter().map(one).collect()
        };
        match Spec::parse(spec, &avals) {
            Ok(spec) => {
                let inputs: Vec<String> = spec.inputs.iter().map(|labels| text(labels)).collect();
                format!("{}->{}", inputs.join(","), text(&spec.output))
            }
            Err(error) => error.message,
        }
    }

    #[test]
    fn implicit_outputs_follow_numpy() {
        assert_eq!(show("ij,jk", &[&[2, 3], &[3, 4]]), "ij,jk->ik");
        assert_eq!(show("ba", &[&[2, 3]]), "ba->ab");
        assert_eq!(show("ii", &[&[3, 3]]), "ii->");
        assert_eq!(show("...ij, ...jk", &[&[5, 7, 2, 3], &[7, 3, 4]]), "10ij,0jk->10ik");
        assert_eq!(show("i...->...", &[&[2, 3, 4]]), "i10->10");
        assert_eq!(show("->", &[&[]]), "->");
    }

    #[test]
    fn errors_name_the_index_and_the_sizes() {
        let errors = [
            show("ij,jk->ik", &[&[2, 3], &[4, 5]]),
            show("ij->ij", &[&[2]]),
            show("i...j->ij", &[&[2]]),
            show("ij,jk", &[&[2, 3]]),
            show("ij->ik", &[&[2, 3]]),
            show("ij->ii", &[&[2, 3]]),
            show("ii->i", &[&[2, 3]]),
            show("i1->i", &[&[2, 3]]),
            show("i..->i", &[&[2, 3]]),
            show("...,...", &[&[2], &[3]]),
        ];
        expect![[r#"
            index `j` is 3 in operand 0 and 4 in operand 1, in "ij,jk->ik"
            term 0 `ij` names 2 axes, operand 0 has 1, in "ij->ij"
            term 0 `i...j` names at least 2 axes, operand 0 has 1, in "i...j->ij"
            2 terms for 1 operands, in "ij,jk"
            index `k` of the result is in no operand, in "ij->ik"
            index `i` is twice in the result, in "ij->ii"
            index `i` is 2 and 3 in operand 0, in "ii->i"
            `1` is not an index: indices are letters, in "i1->i"
            an ellipsis is written `...`, once a term, in "i..->i"
            index axis -1 of `...` is 2 in operand 0 and 3 in operand 1, in "...,..."
        "#]]
        .assert_eq(&(errors.join("\n") + "\n"));
    }
}
