//! Memory of a step, by what it is for.

use crate::jit::{Argument, MemoryAnalysis};
use crate::passes::Peak;
use crate::tree::captures;
use serde::Serialize;

/// What memory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Kind {
    /// What is learnt.
    Parameters,
    /// What an optimizer keeps of each parameter, and its counters.
    Optimizer,
    /// All other arguments: a batch, keys, caches.
    Inputs,
    /// Values of the way forward that the derivative needs, as far as the program shows them.
    Activations,
    /// Everything else in between.
    Temporaries,
    /// What arguments take more than their elements do, because of how the device lays them out.
    Padding,
    /// Results that take over no argument's memory.
    Results,
    /// The program's code.
    Code,
}

impl Kind {
    /// The kind in lower case.
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

/// How many bytes on each device are of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryUse {
    /// The kind.
    pub kind: Kind,
    /// Bytes on a device.
    pub bytes: u64,
}

/// Which argument leaves are of which kind.
///
/// What nobody says is guessed: leaves under a field `opt`, `optimizer`, `opt_state` or `optimizer_state` are the optimizer's state; the rest of the
/// first of several arguments is the parameters; an argument that holds a leaf whose path ends in that of a parameter is the
/// optimizer's state; the others are inputs.
///
/// ```
/// use oxidax::doctor::{Kind, Kinds};
/// let kinds = Kinds::guessed().with("$[0].ema*", Kind::Optimizer).with("$[2]*", Kind::Parameters);
/// # let _ = kinds;
/// ```
#[derive(Clone, Debug, Default)]
pub struct Kinds(Vec<(String, Kind)>);

impl Kinds {
    /// All are guessed.
    pub fn guessed() -> Kinds {
        Kinds::default()
    }

    /// Leaves whose path fits the pattern, in which `*` stands for any text, are of this kind. The first pattern that fits
    /// counts.
    #[must_use]
    pub fn with(mut self, pattern: impl Into<String>, kind: Kind) -> Kinds {
        self.0.push((pattern.into(), kind));
        self
    }

    /// The kind of each leaf.
    pub(super) fn of(&self, arguments: &[Argument]) -> Vec<Kind> {
        let several = arguments.iter().any(|leaf| leaf.position > 0);
        // Without the argument's own place: `.weight` of `$[0].weight`.
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
            _ if is_named_so(&leaf.path) => Kind::Optimizer,
            0 if several => Kind::Parameters,
            at if holds_state[at] => Kind::Optimizer,
            _ => Kind::Inputs,
        };
        let of = |leaf: &Argument| {
            let said = self.0.iter().find(|(pattern, _)| captures(pattern, &leaf.path).is_some());
            said.map_or_else(|| guess(leaf), |(_, kind)| *kind)
        };
        arguments.iter().map(of).collect()
    }
}

/// Whether a field on the way to a leaf says that it is an optimizer's state.
fn is_named_so(path: &str) -> bool {
    let mut fields = path.split(['.', '[', ']']);
    fields.any(|field| matches!(field, "opt" | "optimizer" | "opt_state" | "optimizer_state"))
}

/// What is on each device, by kind: arguments by their types, the rest as the compiler says, as far as it was asked.
///
/// Of what lies in between, what the program holds at its fullest moment counts as activations, and the compiler's remainder as temporaries.
pub(super) fn shares(
    arguments: &[Argument],
    kinds: &[Kind],
    analysis: Option<&MemoryAnalysis>,
    peak: &Peak,
    devices: usize,
) -> Vec<MemoryUse> {
    let of = |kind: Kind| {
        let own = arguments.iter().zip(kinds).filter(|(_, found)| **found == kind);
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
    fn kinds_are_guessed_by_place_and_path() {
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
    fn an_optimizers_own_paths_are_known() {
        let parameters = (zeros([4, 4], DType::F32), zeros([4], DType::F32));
        let state = optim::adam(1e-3).init(&parameters);
        let paths = crate::tree::paths(&state);
        assert!(paths.iter().any(|path| path.ends_with("[1]")), "{paths:?}");
    }

    #[test]
    fn every_byte_is_of_one_kind() {
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
        let found = shares(&arguments, &kinds, Some(&analysis), &peak, 1);
        let bytes = |kind| found.iter().find(|share| share.kind == kind).map(|share| share.bytes);
        assert_eq!(bytes(Kind::Parameters), Some(1024));
        assert_eq!(bytes(Kind::Activations), Some(1024));
        assert_eq!(bytes(Kind::Temporaries), Some(5000 - 1024));
        assert_eq!(bytes(Kind::Padding), Some(2100 - 2048));
        assert_eq!(bytes(Kind::Results), Some(24));
        assert_eq!(found.iter().map(|share| share.bytes).sum::<u64>(), analysis.total());
        let unknown = shares(&arguments, &kinds, None, &peak, 4);
        assert_eq!(unknown.last().map(|share| share.bytes), Some(256));
    }
}
