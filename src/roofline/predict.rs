//! [`Prediction`]: an estimate of the time of a program on a device, and its bottleneck.

use super::count::{Exchange, OpCost, Roofline};
use super::explanation::TimedCollective;
use super::network::{CommunicationTime, Network};
use super::specs::DeviceSpec;
use crate::core::SourceLine;
use crate::profile::{LineProfile, ProfiledCollective, ProfiledOperation};
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// The bottleneck of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Matrix products.
    Products,
    /// Other arithmetic on the vector unit.
    Vectors,
    /// Main memory.
    Memory,
    /// Exchanges over ICI or NVLink.
    Wires,
    /// Exchanges over the network of the data centre.
    DataCentre,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bound::Products => "products",
            Bound::Vectors => "vectors",
            Bound::Memory => "memory",
            Bound::Wires => "wires",
            Bound::DataCentre => "data centre",
        })
    }
}

/// The time that each part of the machine is busy in a step, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Seconds {
    /// The matrix unit.
    pub products: f64,
    /// The vector unit, or 0 if its rate is not known.
    pub vectors: f64,
    /// Main memory, after fusion.
    pub memory: f64,
    /// Main memory if nothing is fused.
    pub memory_unfused: f64,
    /// Main memory for arguments and results only, read and written once.
    pub memory_least: f64,
    /// Fast memory, if all values were stored in it.
    pub vmem: f64,
    /// ICI or NVLink.
    pub wires: f64,
    /// The data centre's network.
    pub data_centre: f64,
}

impl Seconds {
    fn parts(&self) -> [(Bound, f64); 5] {
        [
            (Bound::Products, self.products),
            (Bound::Vectors, self.vectors),
            (Bound::Memory, self.memory),
            (Bound::Wires, self.wires),
            (Bound::DataCentre, self.data_centre),
        ]
    }
}

/// The time of an exchange in a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExchangeTime {
    /// The exchange.
    pub exchange: Exchange,
    /// Seconds over all its runs.
    pub time: CommunicationTime,
}

/// Predicted time and bottleneck of one step of a program on one kind of device. Prints as a table.
///
/// [`Prediction::seconds`] assumes that compute, memory traffic and communication overlap fully,
/// [`Prediction::serial_seconds`] that none does. Both are estimates, not bounds: they assume peak
/// rates, sizes without padding, no cost of vector work where its rate is not known, and the fusion
/// of [`OpCost::fused_bytes`](super::OpCost::fused_bytes), from which a compiler can differ either
/// way.
#[derive(Clone, Debug, Serialize)]
pub struct Prediction {
    /// The kind of device.
    pub device: DeviceSpec,
    /// The number of devices.
    pub devices: usize,
    /// FLOPs of one device. Work that several devices duplicate counts for each.
    pub flops: f64,
    /// Fused bytes of one device.
    pub bytes: f64,
    /// Bytes of arguments and results on one device.
    pub least_bytes: f64,
    /// The time that each part of the machine is busy.
    pub times: Seconds,
    /// Seconds for a step if everything overlaps: the longest of the times.
    pub seconds: f64,
    /// Seconds for a step if nothing overlaps: the sum of the times.
    pub serial_seconds: f64,
    /// The part of the machine with the longest time.
    pub bound: Bound,
    /// The utilization in [`Prediction::seconds`], from 0 to 1: FLOPs of the program, divided by
    /// those of the devices in this time at their `bf16` peak. Work that `remat` repeats
    /// counts again, work that several devices duplicate counts once.
    pub mfu: f64,
    /// FLOPs per fused byte.
    pub intensity: f64,
    /// The intensity, in FLOPs per byte of main memory, from which on products are the bound, at
    /// the rate of this program's dtypes.
    pub critical_intensity: f64,
    /// The critical intensity per byte of fast memory.
    pub critical_intensity_from_vmem: f64,
    /// True if products would be the bound with all values in fast memory.
    pub bound_by_products_from_vmem: bool,
    /// The exchanges, the longest first.
    pub exchanges: Vec<ExchangeTime>,
}

/// The time that an operation keeps the parts of a device busy, over all its runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OpTime {
    /// The matrix unit, seconds, without padding to tiles.
    pub products: f64,
    /// The vector unit, seconds, or 0 if its rate is not known.
    pub vectors: f64,
    /// Main memory, seconds, after fusion.
    pub memory: f64,
}

impl OpTime {
    /// Returns the longest of them.
    pub fn seconds(self) -> f64 {
        self.products.max(self.vectors).max(self.memory)
    }
}

impl OpCost {
    /// Returns the time that the operation keeps a device busy.
    pub fn on(&self, spec: &DeviceSpec) -> OpTime {
        let passes = self.product.map_or(1, |product| product.passes);
        let peak = self.dtype.map_or(spec.peak.bf16, |dtype| spec.peak_of(dtype));
        let flops = self.per_device.flops as f64;
        let vectors = flops + self.per_device.transcendentals as f64;
        let is_product = self.product.is_some();
        OpTime {
            products: if is_product { flops * f64::from(passes) / peak } else { 0.0 },
            vectors: match spec.vector_flops {
                Some(rate) if !is_product => vectors / rate,
                _ => 0.0,
            },
            memory: self.per_device.fused_bytes as f64 / spec.hbm_bandwidth,
        }
    }
}

impl Roofline {
    /// Predicts the time of a step on as many devices of this kind as the mesh of the program has.
    ///
    /// Each mesh axis is assigned to one grid axis, as in [`Network::of`].
    pub fn on(&self, spec: &DeviceSpec) -> Prediction {
        self.over(spec, &Network::of(spec, &self.mesh))
    }

    /// Predicts the time of a step with this network.
    pub fn over(&self, spec: &DeviceSpec, network: &Network) -> Prediction {
        let devices = self.devices().max(1);
        let each = self.per_device();
        let mut times = Seconds::default();
        let mut product_flops = 0.0;
        for operation in &self.operations {
            let time = operation.on(spec);
            times.products += time.products;
            times.vectors += time.vectors;
            times.memory += time.memory;
            if operation.product.is_some() {
                product_flops += operation.per_device.flops as f64;
            }
        }
        let (flops, bytes) = (each.flops as f64, each.fused_bytes as f64);
        let least_bytes = self.held_bytes as f64;
        times.memory_unfused = each.bytes as f64 / spec.hbm_bandwidth;
        times.memory_least = least_bytes / spec.hbm_bandwidth;
        times.vmem = bytes / spec.vmem_bandwidth;
        let mut exchanges: Vec<ExchangeTime> =
            self.exchanges.iter().map(|e| timed(e, network)).collect();
        exchanges.sort_by(|a, b| b.time.seconds().total_cmp(&a.time.seconds()));
        for exchange in &exchanges {
            times.wires += exchange.time.wires;
            times.data_centre += exchange.time.data_centre;
        }
        let (bound, seconds) = times
            .parts()
            .into_iter()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap_or((Bound::Memory, 0.0));
        // Replicated work does not count for utilization.
        let useful = self.flops() as f64 / devices as f64;
        // The rate of products for the mixture of dtypes of this program.
        let rate =
            if times.products > 0.0 { product_flops / times.products } else { spec.peak.bf16 };
        Prediction {
            device: *spec,
            devices,
            flops,
            bytes,
            least_bytes,
            seconds,
            serial_seconds: times.parts().iter().map(|(_, seconds)| seconds).sum(),
            bound,
            mfu: if seconds > 0.0 { useful / (spec.peak.bf16 * seconds) } else { 0.0 },
            intensity: flops / bytes.max(1.0),
            critical_intensity: rate / spec.hbm_bandwidth,
            critical_intensity_from_vmem: rate / spec.vmem_bandwidth,
            bound_by_products_from_vmem: times.products >= times.vmem.max(times.vectors),
            times,
            exchanges,
        }
    }
}

fn timed(exchange: &Exchange, network: &Network) -> ExchangeTime {
    let one = network.time(exchange);
    let times = exchange.times as f64;
    let time = CommunicationTime { wires: one.wires * times, data_centre: one.data_centre * times };
    ExchangeTime { exchange: exchange.clone(), time }
}

impl Roofline {
    /// Predicts the time of each line on a device, which need not be here: each operation takes as
    /// long as the part of the device that it keeps busy longest, and nothing overlaps.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax::roofline::{DeviceSpec, Roofline};
    /// let f = |x: Array| tanh(x.matmul(&x));
    /// let program = make_program(f, Aval::new(DType::BF16, [2048, 2048]))?;
    /// let v5e = DeviceSpec::named("v5e").expect("it is in the table");
    /// let profile = Roofline::of(&program).line_profile("f", &v5e);
    /// assert!(profile.to_string().contains("predicted for v5e"), "{profile}");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn line_profile(&self, name: &str, spec: &DeviceSpec) -> LineProfile {
        self.line_profile_over(name, spec, &Network::of(spec, &self.mesh))
    }

    /// Predicts the time of each line with this network; see [`Roofline::line_profile`].
    pub fn line_profile_over(
        &self,
        name: &str,
        spec: &DeviceSpec,
        network: &Network,
    ) -> LineProfile {
        let collective = |exchange: &Exchange| ProfiledCollective {
            kind: exchange.kind.to_string(),
            axes: exchange.axes.clone(),
            size: exchange.size,
            bytes: exchange.bytes,
            runs: exchange.times,
            time: duration(timed(exchange, network).time.seconds()),
            line: exchange.place.clone(),
            scope: String::new(),
            cause: None,
        };
        self.profile_with(name, spec, self.exchanges.iter().map(collective).collect())
    }

    /// Predicts the time of each line with the collectives of the compiled program, whose lines and
    /// causes [`Compiled::explain_on`](crate::jit::Compiled::explain_on) has found.
    pub fn line_profile_explained(
        &self,
        name: &str,
        spec: &DeviceSpec,
        collectives: &[TimedCollective],
    ) -> LineProfile {
        let collectives = collectives.iter().map(|timed| {
            let found = &timed.collective;
            ProfiledCollective {
                kind: found.kind.to_string(),
                axes: found.axes.clone(),
                size: found.group_size,
                bytes: found.bytes,
                runs: found.runs.unwrap_or(1),
                time: duration(timed.seconds),
                line: found.place.clone(),
                scope: found.scope.clone(),
                cause: found.cause.clone(),
            }
        });
        self.profile_with(name, spec, collectives.collect())
    }

    fn profile_with(
        &self,
        name: &str,
        spec: &DeviceSpec,
        collectives: Vec<ProfiledCollective>,
    ) -> LineProfile {
        let entry =
            |name: String, place: &Option<SourceLine>, seconds: f64, runs: u64| ProfiledOperation {
                name,
                lines: place.iter().map(|line| (line.clone(), 1.0)).collect(),
                time: duration(seconds),
                runs: Some(runs as f64),
                ..ProfiledOperation::default()
            };
        let computed = self.operations.iter().map(|cost| ProfiledOperation {
            flops: cost.per_device.flops as f64,
            bytes: cost.per_device.fused_bytes as f64,
            scope: cost.scope.clone(),
            ..entry(cost.name.to_owned(), &cost.place, cost.on(spec).seconds(), cost.times)
        });
        let exchanged = collectives.iter().map(|collective| {
            let name = format!("{} over {}", collective.kind, collective.axes.join(", "));
            let (line, time) = (&collective.line, collective.time.as_secs_f64());
            let scope = collective.scope.clone();
            ProfiledOperation { scope, ..entry(name, line, time, collective.runs) }
        });
        let operations: Vec<ProfiledOperation> = computed.chain(exchanged).collect();
        let step = operations.iter().map(|operation| operation.time).sum();
        LineProfile {
            name: name.to_owned(),
            predicted_for: Some(spec.name.to_owned()),
            step,
            operations,
            collectives,
            ..LineProfile::default()
        }
        .with_peaks(spec.peak.bf16, spec.hbm_bandwidth)
    }
}

/// Returns the duration of a number of seconds; zero if it is not one.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

impl Prediction {
    /// Returns true if arguments and results fit into main memory.
    ///
    /// Intermediate values need more:
    /// [`CompilerReport::memory_analysis`](crate::jit::CompilerReport::memory_analysis) reports it.
    pub fn fits(&self) -> bool {
        self.least_bytes <= self.device.hbm_bytes as f64
    }
}
