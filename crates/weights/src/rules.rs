//! [`Rules`]: maps the names and layouts of one library to those of another.

use crate::derived;
use crate::dtype::WeightDType;
use crate::error::{Error, Result};
use crate::pattern::Pattern;
use crate::tensor::StoredTensor;
use crate::weights::Weights;
use std::collections::BTreeMap;

/// Rules that rename, split, join, permute, reshape, convert and drop tensors. They apply in order,
/// each to the results of the ones before.
///
/// In patterns `*` matches any text, and `{i}` one component: text without `.`, `/`, `[` and `]`.
/// New names use the captures: stars by their order, components by their names.
///
/// ```
/// use oxidax_weights::{Rules, StoredTensor, WeightDType, Weights};
/// let c_attn = StoredTensor::from_bytes(WeightDType::U8, &[1, 6], vec![1, 2, 3, 4, 5, 6])?;
/// let weights = Weights::from_tensors([("h.0.attn.c_attn.weight", c_attn)])?;
/// let rules = Rules::new()
///     .split("h.{i}.attn.c_attn.*", 1, ["blocks.{i}.q.*", "blocks.{i}.k.*", "blocks.{i}.v.*"])
///     .transpose("*.weight", [1, 0]);
/// let mapped = rules.apply(&weights)?;
/// assert_eq!(mapped.get("blocks.0.k.weight").unwrap().to_string(), "u8[2,1]");
/// assert_eq!(mapped.get("blocks.0.k.weight").unwrap().read()?, [3, 4]);
/// # Ok::<(), oxidax_weights::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Rules {
    steps: Vec<Step>,
    /// Wrong rules, reported by [`apply`](Rules::apply).
    wrong: Vec<String>,
}

#[derive(Clone, Debug)]
enum Step {
    Rename { pattern: Pattern, to: Pattern },
    Split { pattern: Pattern, axis: usize, to: Vec<Pattern> },
    Join { patterns: Vec<Pattern>, axis: usize, to: Pattern },
    Permute { pattern: Pattern, axes: Vec<usize> },
    Reshape { pattern: Pattern, sizes: Vec<Option<usize>> },
    Cast { pattern: Pattern, dtype: WeightDType },
    Drop { pattern: Pattern },
}

type Tensors = BTreeMap<String, StoredTensor>;

impl Rules {
    /// Creates a list without rules.
    pub fn new() -> Rules {
        Rules::default()
    }

    fn with(mut self, step: Result<Step>) -> Rules {
        match step {
            Ok(step) => self.steps.push(step),
            Err(error) => self.wrong.push(error.message().to_owned()),
        }
        self
    }

    /// Renames tensors.
    #[must_use]
    pub fn rename(self, pattern: &str, to: &str) -> Rules {
        self.with(named(pattern, to).map(|(pattern, to)| Step::Rename { pattern, to }))
    }

    /// Splits tensors along an axis into parts of equal size, for example the fused projection to
    /// queries, keys and values.
    #[must_use]
    pub fn split<S: AsRef<str>>(
        self,
        pattern: &str,
        axis: usize,
        to: impl IntoIterator<Item = S>,
    ) -> Rules {
        let parts = to.into_iter().map(|to| Ok(named(pattern, to.as_ref())?.1));
        let parts = parts.collect::<Result<Vec<Pattern>>>();
        self.with(
            parts.and_then(|to| Ok(Step::Split { pattern: Pattern::parse(pattern)?, axis, to })),
        )
    }

    /// Joins tensors along an axis into one. The first pattern captures; the others are names that
    /// use its captures.
    #[must_use]
    pub fn join<S: AsRef<str>>(
        self,
        patterns: impl IntoIterator<Item = S>,
        axis: usize,
        to: &str,
    ) -> Rules {
        let step = || {
            let patterns = patterns.into_iter().map(|text| Pattern::parse(text.as_ref()));
            let patterns = patterns.collect::<Result<Vec<Pattern>>>()?;
            let first =
                patterns.first().ok_or_else(|| Error::new("join: there are no patterns"))?;
            let to = Pattern::parse(to)?;
            patterns.iter().chain([&to]).try_for_each(|name| name.check_name(first))?;
            Ok(Step::Join { patterns, axis, to })
        };
        self.with(step())
    }

    /// Permutes the axes of tensors: axis `i` of the result is axis `axes[i]` of the stored tensor.
    /// `[1, 0]` turns the `[out, in]` weights of PyTorch's linear layers into `[in, out]`.
    #[must_use]
    pub fn transpose(self, pattern: &str, axes: impl IntoIterator<Item = usize>) -> Rules {
        let axes = axes.into_iter().collect();
        self.with(Pattern::parse(pattern).map(|pattern| Step::Permute { pattern, axes }))
    }

    /// Changes the axis sizes of tensors. One size may be `None`: it follows from the others.
    #[must_use]
    pub fn reshape(self, pattern: &str, sizes: impl IntoIterator<Item = Option<usize>>) -> Rules {
        let sizes = sizes.into_iter().collect();
        self.with(Pattern::parse(pattern).map(|pattern| Step::Reshape { pattern, sizes }))
    }

    /// Converts floats to `f16`, `bf16`, `f32` or `f64`. Quantized tensors are dequantized.
    /// Integers stay.
    #[must_use]
    pub fn cast(self, pattern: &str, dtype: WeightDType) -> Rules {
        use WeightDType::{BF16, F16, F32, F64};
        let step = Pattern::parse(pattern).and_then(|pattern| match dtype {
            F16 | BF16 | F32 | F64 => Ok(Step::Cast { pattern, dtype }),
            _ => Err(Error::new(format!("cast: {dtype} is not f16, bf16, f32 or f64"))),
        });
        self.with(step)
    }

    /// Drops tensors, such as the causal masks in older GPT-2 files.
    #[must_use]
    pub fn drop(self, pattern: &str) -> Rules {
        self.with(Pattern::parse(pattern).map(|pattern| Step::Drop { pattern }))
    }

    /// Adds the rules of another list behind these.
    #[must_use]
    pub fn then(mut self, other: Rules) -> Rules {
        self.steps.extend(other.steps);
        self.wrong.extend(other.wrong);
        self
    }

    /// Applies the rules. Elements are not read.
    ///
    /// # Errors
    /// One error that lists wrong rules, tensors that a rule does not fit, and names that two
    /// tensors have.
    pub fn apply(&self, weights: &Weights) -> Result<Weights> {
        let mut problems = self.wrong.clone();
        let start = |(name, tensor): (&String, &StoredTensor)| {
            let origin = tensor.origin().unwrap_or(name).to_owned();
            (name.clone(), tensor.clone().with_origin(origin))
        };
        let mut tensors: Tensors = weights.tensors().iter().map(start).collect();
        for step in &self.steps {
            tensors = step.apply(tensors, &mut problems);
        }
        if problems.is_empty() {
            return Ok(weights.with_tensors(tensors));
        }
        Err(Error::new(list("the rules do not fit:", &problems)).at(weights.location()))
    }
}

/// Returns a message with one problem on each line, at most 40.
pub(crate) fn list(title: &str, problems: &[String]) -> String {
    const SHOWN: usize = 40;
    let mut lines = vec![title.to_owned()];
    lines.extend(problems.iter().take(SHOWN).map(|problem| format!("  {problem}")));
    if problems.len() > SHOWN {
        lines.push(format!("  and {} more", problems.len() - SHOWN));
    }
    lines.join("\n")
}

/// Returns a pattern and the name that is made from its captures.
fn named(pattern: &str, to: &str) -> Result<(Pattern, Pattern)> {
    let (pattern, to) = (Pattern::parse(pattern)?, Pattern::parse(to)?);
    to.check_name(&pattern)?;
    Ok((pattern, to))
}

/// Puts a tensor under a name that must be free.
fn put(tensors: &mut Tensors, name: String, tensor: StoredTensor, problems: &mut Vec<String>) {
    if let Some(other) = tensors.get(&name) {
        let origins = [other, &tensor].map(|tensor| tensor.origin().unwrap_or_default().to_owned());
        problems.push(format!("`{}` and `{}` are both called `{name}`", origins[0], origins[1]));
    }
    tensors.insert(name, tensor);
}

impl Step {
    fn apply(&self, tensors: Tensors, problems: &mut Vec<String>) -> Tensors {
        match self {
            Step::Join { patterns, axis, to } => {
                return join(tensors, patterns, *axis, to, problems);
            }
            Step::Permute { pattern, axes } => {
                let what = format!("transpose {}", numbers(axes));
                return change(tensors, pattern, &what, problems, |t| derived::permute(t, axes));
            }
            Step::Reshape { pattern, sizes } => {
                let text = |size: &Option<usize>| size.map_or("_".into(), |size| size.to_string());
                let texts: Vec<String> = sizes.iter().map(text).collect();
                let what = format!("reshape {}", texts.join(","));
                return change(tensors, pattern, &what, problems, |t| derived::reshape(t, sizes));
            }
            Step::Cast { pattern, dtype } => {
                let what = format!("cast {dtype}");
                return change(tensors, pattern, &what, problems, |tensor| {
                    match tensor.dtype().is_float() && tensor.dtype() != *dtype {
                        true => derived::cast(tensor, *dtype),
                        false => Ok(tensor.clone()),
                    }
                });
            }
            _ => {}
        }
        let mut result = Tensors::new();
        for (name, tensor) in tensors {
            match self {
                Step::Drop { pattern } if pattern.matches(&name).is_some() => {}
                Step::Rename { pattern, to } => {
                    let name = pattern.matches(&name).map_or(name, |found| to.fill(&found));
                    put(&mut result, name, tensor, problems);
                }
                Step::Split { pattern, axis, to } => match pattern.matches(&name) {
                    Some(found) => {
                        let names = to.iter().map(|to| to.fill(&found)).collect::<Vec<_>>();
                        split(&mut result, (&name, &tensor), *axis, names, problems);
                    }
                    None => put(&mut result, name, tensor, problems),
                },
                _ => put(&mut result, name, tensor, problems),
            }
        }
        result
    }
}

/// Replaces the tensors that match.
fn change(
    tensors: Tensors,
    pattern: &Pattern,
    what: &str,
    problems: &mut Vec<String>,
    change: impl Fn(&StoredTensor) -> Result<StoredTensor>,
) -> Tensors {
    let mut replace = |(name, tensor): (String, StoredTensor)| {
        if pattern.matches(&name).is_none() {
            return (name, tensor);
        }
        let changed = change(&tensor).map(|changed| {
            let origin = tensor.origin().unwrap_or_default();
            let is_same = changed.dtype() == tensor.dtype() && what.starts_with("cast");
            let suffix = if is_same { String::new() } else { format!(", {what}") };
            changed.with_origin(format!("{origin}{suffix}"))
        });
        let changed = changed.unwrap_or_else(|error| {
            problems.push(format!("`{name}`: {what}: {}", error.message()));
            tensor
        });
        (name, changed)
    };
    tensors.into_iter().map(&mut replace).collect()
}

fn numbers(values: &[usize]) -> String {
    let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
    texts.join(",")
}

/// Splits a tensor into parts of equal size.
fn split(
    result: &mut Tensors,
    (name, tensor): (&str, &StoredTensor),
    axis: usize,
    names: Vec<String>,
    problems: &mut Vec<String>,
) {
    let count = names.len();
    let size = derived::axis_size(tensor, axis).and_then(|size| {
        let message = format!("axis {axis} of {tensor} has no {count} equal parts");
        let divides = count > 0 && size.is_multiple_of(count);
        divides.then(|| size / count).ok_or_else(|| Error::new(message))
    });
    for (index, to) in names.into_iter().enumerate() {
        let part = size.clone().and_then(|size| derived::slice(tensor, axis, index * size, size));
        match part {
            Ok(part) => {
                let origin = tensor.origin().unwrap_or_default();
                let origin = format!("{origin}, part {} of {count} of axis {axis}", index + 1);
                put(result, to, part.with_origin(origin), problems);
            }
            Err(error) => {
                problems.push(format!("`{name}`: split: {}", error.message()));
                return;
            }
        }
    }
}

fn join(
    mut tensors: Tensors,
    patterns: &[Pattern],
    axis: usize,
    to: &Pattern,
    problems: &mut Vec<String>,
) -> Tensors {
    let Some(first) = patterns.first() else { return tensors };
    let found: Vec<_> = tensors.keys().filter_map(|name| first.matches(name)).collect();
    for captures in found {
        let names: Vec<String> = patterns.iter().map(|name| name.fill(&captures)).collect();
        let missing: Vec<&String> =
            names.iter().filter(|name| !tensors.contains_key(*name)).collect();
        if let Some(missing) = missing.first() {
            problems.push(format!("`{}`: join: `{missing}` is missing", to.fill(&captures)));
            continue;
        }
        let parts: Vec<StoredTensor> = names.iter().map(|name| tensors[name].clone()).collect();
        match derived::join(&parts, axis) {
            Ok(joined) => {
                names.iter().for_each(|name| drop(tensors.remove(name)));
                let origins: Vec<&str> =
                    parts.iter().map(|part| part.origin().unwrap_or_default()).collect();
                let origin = format!("join of ({}) along axis {axis}", origins.join("; "));
                put(&mut tensors, to.fill(&captures), joined.with_origin(origin), problems);
            }
            Err(error) => {
                let name = to.fill(&captures);
                problems.push(format!("`{name}`: join: {}", error.message()));
            }
        }
    }
    tensors
}
