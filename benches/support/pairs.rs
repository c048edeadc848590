//! Measures a model on two sides at a time, each in its own process.

use crate::figures::{lower_quartile, ratio, relative_difference};
use crate::jax::Jax;
use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

/// A model and its measurement.
pub struct Entry {
    pub title: String,
    /// The model that the sides start: `model`, `sizes`, and for oxidax `name`.
    pub start: Value,
    /// Rounds, and calls per round.
    pub rounds: usize,
    pub calls: u64,
    /// Largest allowed difference of the first results, relative to the largest.
    pub tolerance: f64,
    /// The number of tokens that a call generates.
    pub tokens: Option<u32>,
}

/// A library that has models.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Jax,
    Torch,
    TorchCompiled,
    Candle,
    Burn,
}

impl Side {
    const ALL: [Side; 5] = [Side::Jax, Side::Torch, Side::TorchCompiled, Side::Candle, Side::Burn];

    pub fn name(self) -> &'static str {
        match self {
            Side::Jax => "JAX",
            Side::Torch => "PyTorch",
            Side::TorchCompiled => "PyTorch, compiled",
            Side::Candle => "candle",
            Side::Burn => "burn",
        }
    }

    fn start(self) -> Result<Option<Jax>> {
        match self {
            Side::Jax => Jax::start("models_bench.py"),
            Side::Torch => Jax::torch(false),
            Side::TorchCompiled => Jax::torch(true),
            Side::Candle => Jax::framework("candle"),
            Side::Burn => Jax::framework("burn"),
        }
    }

    /// Returns the sides that this machine has, with their versions. Only those in `words` if
    /// `words` names any.
    pub fn available(words: &[String]) -> Result<Vec<(Side, String)>> {
        let is_named = |side: &Side| {
            words.iter().any(|word| word.strip_prefix("--side=") == Some(side.name()))
        };
        let is_any_named = Side::ALL.iter().any(is_named);
        let mut available = Vec::new();
        for side in Side::ALL.into_iter().filter(|side| !is_any_named || is_named(side)) {
            if let Some(mut process) = side.start()? {
                available.push((side, process.version()?));
            }
        }
        Ok(available)
    }
}

/// Milliseconds per call of a round: wall time and processor time.
#[derive(Clone, Copy)]
struct Time {
    wall: f64,
    cpu: f64,
}

/// The measurements of one side.
struct Measured {
    process: Jax,
    name: &'static str,
    parameters: f64,
    /// Seconds of the first call.
    first: f64,
    /// Results of the first call.
    values: Vec<f64>,
    times: Vec<Time>,
}

impl Measured {
    /// Starts a model and calls it once. Returns nothing if the side does not have it.
    fn start(name: &'static str, mut process: Jax, entry: &Entry) -> Result<Option<Measured>> {
        let answer = process.numbers(&json!({"what": "start", "start": entry.start}))?;
        let [parameters, first, values @ ..] = &answer[..] else { return Ok(None) };
        let (values, title) = (values.to_vec(), &entry.title);
        ensure!(values.iter().all(|x| x.is_finite()), "{title}: {name} has {values:?}");
        let (parameters, first) = (*parameters, *first);
        Ok(Some(Measured { process, name, parameters, first, values, times: Vec::new() }))
    }

    fn turn(&mut self, calls: u64) -> Result<()> {
        let answer = self.process.numbers(&json!({"what": "run", "calls": calls}))?;
        let &[wall, cpu] = &answer[..] else { bail!("{} answered {answer:?}", self.name) };
        self.times.push(Time { wall, cpu });
        Ok(())
    }

    fn walls(&self) -> Vec<f64> {
        self.times.iter().map(|time| time.wall).collect()
    }

    fn cpu(&self) -> f64 {
        self.times.iter().map(|time| time.cpu).sum()
    }
}

/// The table's row of a model, and the sentence about its rounds.
pub struct Row {
    pub cells: Vec<String>,
    pub rounds: Option<String>,
}

/// Measures a model beside another side. Returns nothing if the other side does not have it.
///
/// Both sides must have the same number of parameters, and the same first results up to rounding.
pub fn measure(entry: &Entry, own: Jax, other: Option<Side>) -> Result<Option<Row>> {
    // The other side starts first, because a missing model is known without a call.
    let other = match other {
        None => None,
        Some(side) => {
            let Some(process) = side.start()? else { return Ok(None) };
            match Measured::start(side.name(), process, entry)? {
                None => return Ok(None),
                some => some,
            }
        }
    };
    let Some(own) = Measured::start("oxidax", own, entry)? else {
        bail!("oxidax has no model for {}", entry.start)
    };
    let apart = other.as_ref().map(|other| compare(entry, &own, other)).transpose()?;
    let mut sides: Vec<Measured> = [own].into_iter().chain(other).collect();
    // The first round warms up caches.
    for round in 0..=entry.rounds {
        for side in &mut sides {
            side.turn(entry.calls)?;
            if round == 0 {
                side.times.clear();
            }
        }
    }
    Ok(Some(row(entry, &sides, apart)))
}

/// Returns the difference of the first results, which must be small.
fn compare(entry: &Entry, own: &Measured, other: &Measured) -> Result<f64> {
    let (title, name) = (&entry.title, other.name);
    let counts = [own, other].map(|side| (side.parameters, side.values.len()));
    ensure!(counts[0] == counts[1], "{title}: parameters and results are {counts:?} with {name}");
    let apart = relative_difference(&own.values, &other.values);
    ensure!(
        apart <= entry.tolerance,
        "{title}: the first numbers are {:?}, {name} has {:?}: {apart:.1e} apart, at most {:.0e}",
        own.values,
        other.values,
        entry.tolerance
    );
    Ok(apart)
}

/// The headings of the rows of models.
pub const HEADINGS: [&str; 11] = [
    "model",
    "beside",
    "oxidax",
    "theirs",
    "ratio",
    "CPU ratio",
    "first call, s",
    "their first, s",
    "peak, MB",
    "their peak, MB",
    "apart",
];

fn row(entry: &Entry, sides: &[Measured], apart: Option<f64>) -> Row {
    let nothing = || "-".to_owned();
    let (own, other) = (&sides[0], sides.get(1));
    let title = format!("{}, {:.1}M", entry.title, own.parameters / 1e6);
    let of_other = |cell: &dyn Fn(&Measured) -> String| other.map_or_else(nothing, cell);
    let time = |side: &Measured| {
        let time = lower_quartile(&side.walls());
        match entry.tokens {
            Some(tokens) => format!("{:.1}", f64::from(tokens) * 1e3 / time),
            None => format!("{time:.1}"),
        }
    };
    let first = |side: &Measured| format!("{:.1}", side.first);
    let peak = |side: &Measured| format!("{:.0}", side.process.peak());
    let rounds = other.map(|other| {
        let pairs = own.times.iter().zip(&other.times);
        let ratios: Vec<_> = pairs.map(|(a, b)| format!("{:.2}", a.wall / b.wall)).collect();
        format!("{title}, oxidax / {}: {}", other.name, ratios.join(" "))
    });
    let cells = vec![
        title.clone(),
        of_other(&|other| other.name.to_owned()),
        time(own),
        of_other(&time),
        of_other(&|other| format!("{:.2}", ratio(&own.walls(), &other.walls()))),
        of_other(&|other| format!("{:.2}", own.cpu() / other.cpu())),
        first(own),
        of_other(&first),
        peak(own),
        of_other(&peak),
        apart.map_or_else(nothing, |apart| format!("{apart:.0e}")),
    ];
    Row { cells, rounds }
}
