//! [`Explanation`]: the collectives of a compiled program with their predicted times.

use super::compiled_exchanges::convert;
use super::network::Network;
use super::specs::DeviceSpec;
use crate::core::units::time;
use crate::core::{Error, Mesh};
use crate::jit::{Collectives, Compiled, ExplainedCollective};
use crate::tree::{Args, Tree};
use serde::Serialize;
use std::fmt;

/// The device whose interconnect is assumed for devices that are not in the table.
const ASSUMED: &str = "v5e";

/// A collective of a compiled program, with its cause and its predicted time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TimedCollective {
    /// The collective, its line and its cause.
    #[serde(flatten)]
    pub collective: ExplainedCollective,
    /// The predicted seconds of all its runs in a call. In a loop whose trip count the compiler
    /// does not report, those of one run.
    pub seconds: f64,
}

/// The collectives of a compiled program: what moves between devices, for which line, for how long,
/// and why. Prints as a list, and serializes. Made by [`Compiled::explain`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The name of the function.
    pub function: String,
    /// The mesh, such as `Mesh(data=4, model=2)`. `None` for one device.
    pub mesh: Option<String>,
    /// The device whose times are predicted: the name of its [`DeviceSpec`].
    pub device: String,
    /// The kind of the devices, if it is not in the table, so that `device` is an assumption.
    pub unknown_device: Option<String>,
    /// True if the program was loaded from the disk cache. Lines are then those of the process that
    /// compiled it, and operations whose line has changed since then have no cause.
    pub is_from_disk: bool,
    /// The collectives, the longest first.
    pub collectives: Vec<TimedCollective>,
}

impl Explanation {
    /// Returns the sum of the predicted times, in seconds for each call.
    pub fn seconds(&self) -> f64 {
        self.collectives.iter().map(|collective| collective.seconds).sum()
    }
}

impl fmt::Display for TimedCollective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9}  {}", time(self.seconds), self.collective.headline())?;
        match &self.collective.cause {
            Some(cause) => write!(f, "\n{:9}  because {cause}", ""),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.function)?;
        match &self.mesh {
            Some(mesh) => write!(f, " on {mesh}: ")?,
            None => write!(f, " on one device: ")?,
        }
        match self.collectives.len() {
            0 => return f.write_str("no collectives"),
            1 => f.write_str("1 collective")?,
            n => write!(f, "{n} collectives")?,
        }
        write!(f, ", {} in a call", time(self.seconds()))?;
        write!(f, "\npredicted for {}", self.device)?;
        if let Some(unknown) = &self.unknown_device {
            write!(f, " (`{unknown}` is not in the table of devices)")?;
        }
        if self.is_from_disk {
            write!(f, "\nlines are those of the process that compiled it, as it was on disk")?;
        }
        self.collectives.iter().try_for_each(|collective| write!(f, "\n{collective}"))
    }
}

impl<A: Args, O: Tree> Compiled<A, O> {
    /// Explains what the program moves between devices: each collective of the compiled program
    /// with its line, bytes, mesh axes, predicted time, and the cause, such as operands whose
    /// shardings differ.
    ///
    /// Times follow from the interconnect of the devices, as in
    /// [`Network`](crate::roofline::Network). For a device that is not in the table, such as a CPU,
    /// they are those of a v5e, and the text says so; [`explain_on`](Self::explain_on) chooses
    /// another. Shardings of arguments and constraints are known. Between them the compiler
    /// chooses, and a cause that does not fit the compiled program is left out. A program of one
    /// device has no collectives.
    ///
    /// # Errors
    /// [`Error::Runtime`] if the plugin does not provide the optimized program.
    ///
    /// ```
    /// # oxidax::parallel::set_cpu_devices(8)?;
    /// use oxidax::prelude::*;
    /// let mesh = Mesh::new(devices()?, [("data", 4), ("model", 2)])?;
    /// let shardings = (mesh.sharding(p!["data", "model"])?, mesh.sharding(p!["model"])?);
    /// let layer = jit(|x: Array, w: Array| x.matmul(&w)).in_shardings(shardings);
    /// let (x, w) = (Aval::new(DType::F32, [8, 16]), Aval::new(DType::F32, [16, 32]));
    /// let explanation = layer.lower(x, w)?.compile()?.explain()?;
    /// let collective = &explanation.collectives[0].collective;
    /// assert_eq!((collective.bytes, collective.axes.as_slice()), (256, &["model".into()][..]));
    /// let cause = "`dot_general` combines axis 1 of `$[0]` and axis 0 of `$[1]`, which are split \
    ///              over `model`";
    /// assert_eq!(collective.cause.as_deref(), Some(cause));
    /// println!("{explanation}");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn explain(&self) -> Result<Explanation, Error> {
        let kind = match (self.topology(), self.mesh()) {
            (Some(topology), _) => Some((topology.name(), topology.kind())),
            (None, Some(mesh)) => mesh.devices().first().map(|device| ("", device.kind())),
            (None, None) => None,
        };
        let known = kind.and_then(|(topology, kind)| {
            DeviceSpec::of_topology(topology).or_else(|| DeviceSpec::named(kind))
        });
        let assumed = DeviceSpec::ALL.iter().find(|spec| spec.name == ASSUMED);
        let Some(spec) = known.or(assumed.copied()) else {
            return Err(Error::Plugin(format!("no device is named {ASSUMED}")));
        };
        let unknown = kind.filter(|_| known.is_none()).map(|(_, kind)| kind.to_string());
        Ok(Explanation { unknown_device: unknown, ..self.explain_on(&spec)? })
    }

    /// Explains what the program moves between devices, as [`explain`](Self::explain), with the
    /// times of this kind of device.
    ///
    /// # Errors
    /// As [`explain`](Self::explain).
    pub fn explain_on(&self, spec: &DeviceSpec) -> Result<Explanation, Error> {
        let is_partitioned = self.mesh().is_some_and(|mesh| mesh.devices().len() > 1);
        let found = is_partitioned.then(|| self.report().collectives()).transpose()?;
        self.explain_found(&found.unwrap_or_default(), spec)
    }

    /// Explains the collectives of [`report`](Self::report), as [`explain_on`](Self::explain_on).
    pub(crate) fn explain_found(
        &self,
        found: &Collectives,
        spec: &DeviceSpec,
    ) -> Result<Explanation, Error> {
        let mut explanation = Explanation {
            function: self.name().to_string(),
            mesh: None,
            device: spec.name.to_string(),
            unknown_device: None,
            is_from_disk: self.is_from_disk(),
            collectives: Vec::new(),
        };
        let Some(mesh) = self.mesh().filter(|mesh| mesh.devices().len() > 1) else {
            return Ok(explanation);
        };
        explanation.mesh = Some(mesh.to_string());
        let placed = self.topology().map(|topology| topology.mesh_of(mesh)).transpose()?;
        let placed = placed.as_ref().unwrap_or(mesh);
        explanation.collectives = timed(self.explain_each(found), found, placed, spec);
        Ok(explanation)
    }
}

/// Predicts the time of each collective, and sorts them by it.
fn timed(
    explained: Vec<ExplainedCollective>,
    found: &Collectives,
    mesh: &Mesh,
    spec: &DeviceSpec,
) -> Vec<TimedCollective> {
    let network = Network::of_mesh(spec, mesh);
    let found = found.each().iter().filter(|found| !found.origins.continues());
    let pairs = explained.into_iter().zip(found);
    let pairs = pairs.map(|(collective, compiled)| {
        let exchange = convert(compiled, mesh, &[]);
        let seconds = network.time(&exchange).seconds() * exchange.times as f64;
        TimedCollective { collective, seconds }
    });
    let mut collectives: Vec<TimedCollective> = pairs.collect();
    collectives.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    collectives
}
