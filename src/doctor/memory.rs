//! Memory of a step by kind.

use crate::jit::{Argument, MemoryAnalysis};
use crate::passes::Peak;
use crate::tree::captures;
use serde::Serialize;

/// A kind of device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// Parameters of the model.
    Parameters,
    /// State of the optimizer.
    Optimizer,
    /// All other arguments: a batch, keys, caches.
    Inputs,
    /// Intermediate values that are live at the peak of the program.
    Activations,
    /// All other temporary memory.
    Temporaries,
    /// Padding of arguments by the device layout.
    Padding,
    /// Results that do not reuse the memory of arguments.
    Results,
    /// The code of the program.
    Code,
}

impl Kind {
    /// Returns the kind in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Parameters => "parameters",
            Kind::Optimizer => "optimizer",
            Kind::Inputs => "inputs",
            Kind::Activations => "activations",
            Kind::Temporaries => "temporaries",
            Kind::Padding => "padding",
            Kind::Results => "results",
            Kind::Code => "code",
        }
    }
}

/// The bytes of one kind on each device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    /// The kind.
    pub kind: Kind,
    /// Bytes on a device.
    pub bytes: u64,
}

/// The kinds of argument leaves: patterns of paths, and guesses for all other leaves.
///
/// - Leaves below a field `opt`, `optimizer`, `opt_state` or `optimizer_state` are optimizer state.
/// - Other leaves of the first of several arguments are parameters.
/// - An argument with a leaf whose path ends with that of a parameter is optimizer state.
/// - All other leaves are inputs.
///
/// ```
/// use oxidax::doctor::{Kind, Kinds};
/// let kinds = Kinds::guessed().with("$[0].ema*", Kind::Optimizer).with("$[2]*", Kind::Parameters);
/// # let _ = kinds;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Kinds(Vec<(String, Kind)>);

impl Kinds {
    /// Returns kinds without patterns: all leaves are guessed.
    pub fn guessed() -> Kinds {
        Kinds::default()
    }

    /// Sets the kind of leaves whose path matches a pattern, in which `*` matches any text. The
    /// first pattern that matches applies.
    #[must_use]
    pub fn with(mut self, pattern: impl Into<String>, kind: Kind) -> Kinds {
        self.0.push((pattern.into(), kind));
        self
    }

    /// Returns the kind of each leaf.
    pub(super) fn of(&self, arguments: &[Argument]) -> Vec<Kind> {
        let several = arguments.iter().any(|leaf| leaf.position > 0);
        // The path within the argument: `.weight` of `$[0].weight`.
        let own = |leaf: &'_ Argument| match leaf.path.split_once(']') {
            Some((_, path)) => path.to_string(),
            None => String::new(),
        };
        let parameters: Vec<String> =
            arguments.iter().filter(|leaf| leaf.position == 0).map(own).collect();
        let follows = |leaf: &Argument| {
            let path = own(leaf);
            parameters
                .iter()
                .any(|of| !of.is_empty() && path.len() > of.len() && path.ends_with(of.as_str()))
        };
        let last = arguments.last().map_or(0, |leaf| leaf.position);
        let holds_state: Vec<bool> = (0..=last)
            .map(|at| at > 0 && arguments.iter().any(|leaf| leaf.position == at && follows(leaf)))
            .collect();
        let guess = |leaf: &Argument| match leaf.position {
            _ if has_optimizer_field(&leaf.path) => Kind::Optimizer,
            0 if several => Kind::Parameters,
            at if holds_state[at] => Kind::Optimizer,
            _ => Kind::Inputs,
        };
        let of = |leaf: &Argument| {
            let matching =
                self.0.iter().find(|(pattern, _)| captures(pattern, &leaf.path).is_some());
            matching.map_or_else(|| guess(leaf), |(_, kind)| *kind)
        };
        arguments.iter().map(of).collect()
    }
}

/// Returns true if a field in the path is named like optimizer state.
fn has_optimizer_field(path: &str) -> bool {
    let mut fields = path.split(['.', '[', ']']);
    fields.any(|field| matches!(field, "opt" | "optimizer" | "opt_state" | "optimizer_state"))
}

/// Returns the memory of each device by kind: arguments by their types, the rest from the compiler.
///
/// The values that are live at the peak of the program count as activations, the rest of the
/// compiler's temporary memory as temporaries.
pub(super) fn memory_uses(
    arguments: &[Argument],
    kinds: &[Kind],
    analysis: Option<&MemoryAnalysis>,
    peak: &Peak,
    devices: usize,
) -> Vec<MemoryUse> {
    let of = |kind: Kind| {
        let own = arguments
            .iter()
            .zip(kinds)
            .filter(|(leaf, found)| **found == kind && !leaf.aval.memory.is_host());
        own.map(|(leaf, _)| leaf.bytes_per_device() as u64).sum::<u64>()
    };
    let made = peak.values.iter().filter(|live| live.produced_by.is_some());
    let held = made.map(|live| live.aval.bytes() as u64).sum::<u64>() / devices.max(1) as u64;
    let [parameters, optimizer, inputs] = [Kind::Parameters, Kind::Optimizer, Kind::Inputs].map(of);
    let mut shares =
        vec![(Kind::Parameters, parameters), (Kind::Optimizer, optimizer), (Kind::Inputs, inputs)];
    match analysis {
        None => shares.push((Kind::Activations, held)),
        Some(found) => {
            let held = held.min(found.temporaries);
            shares.extend([
                (Kind::Activations, held),
                (Kind::Temporaries, found.temporaries - held),
                (Kind::Padding, found.arguments.saturating_sub(parameters + optimizer + inputs)),
                (Kind::Results, found.results.saturating_sub(found.aliased)),
                (Kind::Code, found.code),
            ]);
        }
    }
    let shares = shares.into_iter().filter(|(_, bytes)| *bytes > 0);
    shares.map(|(kind, bytes)| MemoryUse { kind, bytes }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim;
    use crate::prelude::*;

    fn kinds(paths: &[(&str, usize)], said: &Kinds) -> Vec<Kind> {
        let aval = Aval::new(DType::F32, [2]);
        let leaf = |&(path, position): &(&str, usize)| {
            Argument::new(path.into(), position, aval.clone(), None)
        };
        said.of(&paths.iter().map(leaf).collect::<Vec<_>>())
    }

    #[test]
    fn kinds_are_guessed_by_position_and_path() {
        use Kind::{Inputs, Optimizer, Parameters};
        let step =
            [("$[0].w", 0), ("$[0].b", 0), ("$[1].adam.mu.w", 1), ("$[1].count", 1), ("$[2]", 2)];
        let guessed = kinds(&step, &Kinds::guessed());
        assert_eq!(guessed, [Parameters, Parameters, Optimizer, Optimizer, Inputs]);
        let state = [("$[0].model.w", 0), ("$[0].opt_state.count", 0), ("$[1]", 1)];
        assert_eq!(kinds(&state, &Kinds::guessed()), [Parameters, Optimizer, Inputs]);
        assert_eq!(kinds(&[("$", 0)], &Kinds::guessed()), [Inputs]);
        let said = Kinds::guessed().with("$[0].b", Inputs).with("$[2]*", Parameters);
        assert_eq!(kinds(&step, &said), [Parameters, Inputs, Optimizer, Optimizer, Parameters]);
    }

    #[test]
    fn optimizer_state_paths_end_with_parameter_paths() {
        let parameters = (zeros([4, 4]), zeros([4]));
        let state = optim::adam(1e-3).init(&parameters);
        let paths = crate::tree::paths(&state);
        assert!(paths.iter().any(|path| path.ends_with("[1]")), "{paths:?}");
    }

    #[test]
    fn memory_uses_sum_to_the_total() {
        let aval = Aval::new(DType::F32, [256]);
        let arguments = vec![
            Argument::new("$[0]".into(), 0, aval.clone(), None),
            Argument::new("$[1]".into(), 1, aval, None),
        ];
        let kinds = Kinds::guessed().of(&arguments);
        let analysis = MemoryAnalysis {
            arguments: 2100,
            results: 1024,
            aliased: 1000,
            temporaries: 5000,
            code: 7,
            ..MemoryAnalysis::default()
        };
        let program =
            make_program(|x: Array| x.matmul(&x), Aval::new(DType::F32, [16, 16])).unwrap();
        let peak = crate::passes::peak(&program);
        let found = memory_uses(&arguments, &kinds, Some(&analysis), &peak, 1);
        let bytes = |kind| found.iter().find(|share| share.kind == kind).map(|share| share.bytes);
        assert_eq!(bytes(Kind::Parameters), Some(1024));
        assert_eq!(bytes(Kind::Activations), Some(1024));
        assert_eq!(bytes(Kind::Temporaries), Some(5000 - 1024));
        assert_eq!(bytes(Kind::Padding), Some(2100 - 2048));
        assert_eq!(bytes(Kind::Results), Some(24));
        assert_eq!(found.iter().map(|share| share.bytes).sum::<u64>(), analysis.total());
        let unknown = memory_uses(&arguments, &kinds, None, &peak, 4);
        assert_eq!(unknown.last().map(|share| share.bytes), Some(256));
    }
}
