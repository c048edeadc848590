//! Rules as text, one a line, for files and command lines.

use crate::dtype::WeightDType;
use crate::error::{Error, Result};
use crate::rules::Rules;

impl Rules {
    /// Parses rules, one on each line. Empty lines and lines that begin with `#` are skipped.
    ///
    /// | rule | example |
    /// |------|---------|
    /// | rename | `rename transformer.* -> *` |
    /// | split | `split h.{i}.c_attn.* axis 1 -> h.{i}.q.*, h.{i}.k.*, h.{i}.v.*` |
    /// | join | `join {i}.q, {i}.k, {i}.v axis 0 -> {i}.qkv` |
    /// | transpose | `transpose *.weight 1,0` |
    /// | reshape | `reshape *.bias 12,_` |
    /// | cast | `cast * f16` |
    /// | drop | `drop *.attn.bias` |
    ///
    /// # Errors
    /// If a line is not a rule; the error names it.
    ///
    /// ```
    /// use oxidax_weights::Rules;
    /// let rules = Rules::parse("# GPT-2\nrename transformer.* -> *\ndrop *.attn.bias")?;
    /// let error = Rules::parse("rename a").unwrap_err();
    /// assert_eq!(error.to_string(), "line 1: `rename a`: expected `rename PATTERN -> NAME`");
    /// # Ok::<(), oxidax_weights::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Rules> {
        let mut rules = Rules::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            rules = parse_line(rules, line).map_err(|form| {
                let message = format!("line {}: `{line}`: expected `{form}`", index + 1);
                Error::new(message)
            })?;
        }
        Ok(rules)
    }
}

/// Adds the rule of a line, or returns the form that it should have.
fn parse_line(rules: Rules, line: &str) -> Result<Rules, &'static str> {
    let (rule, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match rule {
        "rename" => {
            const FORM: &str = "rename PATTERN -> NAME";
            let (pattern, to) = rest.split_once("->").ok_or(FORM)?;
            Ok(rules.rename(word(pattern).ok_or(FORM)?, word(to).ok_or(FORM)?))
        }
        "split" => {
            const FORM: &str = "split PATTERN axis NUMBER -> NAME, NAME, …";
            let (from, to) = rest.split_once("->").ok_or(FORM)?;
            let (pattern, axis) = with_axis(from).ok_or(FORM)?;
            Ok(rules.split(word(pattern).ok_or(FORM)?, axis, words(to).ok_or(FORM)?))
        }
        "join" => {
            const FORM: &str = "join PATTERN, NAME, … axis NUMBER -> NAME";
            let (from, to) = rest.split_once("->").ok_or(FORM)?;
            let (patterns, axis) = with_axis(from).ok_or(FORM)?;
            Ok(rules.join(words(patterns).ok_or(FORM)?, axis, word(to).ok_or(FORM)?))
        }
        "transpose" => {
            const FORM: &str = "transpose PATTERN 1,0";
            let (pattern, axes) = pair(rest).ok_or(FORM)?;
            let axes: Option<Vec<usize>> = axes.split(',').map(|axis| axis.parse().ok()).collect();
            Ok(rules.transpose(pattern, axes.ok_or(FORM)?))
        }
        "reshape" => {
            const FORM: &str = "reshape PATTERN 12,_";
            let (pattern, sizes) = pair(rest).ok_or(FORM)?;
            let size = |text: &str| match text {
                "_" => Some(None),
                _ => text.parse().ok().map(Some),
            };
            let sizes: Option<Vec<Option<usize>>> = sizes.split(',').map(size).collect();
            Ok(rules.reshape(pattern, sizes.ok_or(FORM)?))
        }
        "cast" => {
            const FORM: &str = "cast PATTERN f32";
            let (pattern, dtype) = pair(rest).ok_or(FORM)?;
            Ok(rules.cast(pattern, WeightDType::from_name(dtype).ok_or(FORM)?))
        }
        "drop" => Ok(rules.drop(word(rest).ok_or("drop PATTERN")?)),
        _ => Err("rename, split, join, transpose, reshape, cast or drop"),
    }
}

fn word(text: &str) -> Option<&str> {
    let text = text.trim();
    (!text.is_empty() && !text.contains(char::is_whitespace)).then_some(text)
}

fn words(text: &str) -> Option<Vec<&str>> {
    text.split(',').map(word).collect()
}

fn pair(text: &str) -> Option<(&str, &str)> {
    let (first, second) = text.trim().split_once(char::is_whitespace)?;
    Some((first, word(second)?))
}

fn with_axis(text: &str) -> Option<(&str, usize)> {
    let (rest, axis) = text.rsplit_once(" axis ")?;
    Some((rest, axis.trim().parse().ok()?))
}
