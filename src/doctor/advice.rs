//! Advice on a step.

use super::memory::Kind;
use super::report::Report;
use crate::core::DType;
use crate::jit::{Argument, JitStats};
use crate::roofline::{Bound, DeviceSpec, OpCost, Roofline, SourceLine};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// The least fraction of a step that a finding must concern.
const WORTH: f64 = 0.02;
/// The largest number of source lines per topic.
const LINES: usize = 3;

/// The topic of a piece of advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Topic {
    /// The step does not fit into memory, or barely.
    Memory,
    /// Sizes that are not multiples of the tile of the matrix unit.
    Tiles,
    /// Products bound by memory because the batch is small.
    SmallBatch,
    /// Products in `f32`.
    Float32,
    /// Parameters or optimizer state replicated on every device.
    Replicated,
    /// Exchanges that take longer than arithmetic.
    Exchanges,
    /// Callbacks to the host.
    HostRoundTrips,
    /// A function that is compiled repeatedly.
    Recompiles,
    /// Arrays that are copied at each call.
    Copies,
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Topic::Memory => "memory",
            Topic::Tiles => "tiles",
            Topic::SmallBatch => "small batch",
            Topic::Float32 => "float32",
            Topic::Replicated => "replicated",
            Topic::Exchanges => "exchanges",
            Topic::HostRoundTrips => "host round trips",
            Topic::Recompiles => "recompiles",
            Topic::Copies => "copies",
        })
    }
}

/// A suggested change and its reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Advice {
    /// The topic.
    pub topic: Topic,
    /// The finding with numbers, and the change.
    pub message: String,
    /// The source line that it concerns, if any.
    pub place: Option<SourceLine>,
    /// An upper bound of the seconds per step that it saves. `None` if it is not known.
    pub seconds: Option<f64>,
}

impl Advice {
    fn new(topic: Topic, message: String) -> Advice {
        Advice { topic, message, place: None, seconds: None }
    }
}

/// Returns all advice on a step that does not need measurements.
pub(super) fn advice(
    report: &Report,
    costs: &Roofline,
    spec: Option<&DeviceSpec>,
    arguments: &[Argument],
    kinds: &[Kind],
) -> Vec<Advice> {
    let mut advice: Vec<Advice> = memory(report).into_iter().collect();
    advice.extend(replicated(report, arguments, kinds));
    if let Some(spec) = spec {
        advice.extend(tiles(costs, spec));
        advice.extend(small_batch(costs, spec));
        advice.extend(float32(costs, spec));
    }
    advice.extend(exchanges(report));
    advice.extend(host_round_trips(costs));
    advice
}

fn memory(report: &Report) -> Option<Advice> {
    let available = report.available?;
    let part = report.needed as f64 / available as f64;
    (part > 0.9).then(|| {
        let message = format!(
            "{:.0} % of the device memory is needed; use a smaller batch or `remat` around each layer; \
             `doctor::fit` finds both",
            part * 100.0
        );
        Advice::new(Topic::Memory, message)
    })
}

/// Finds optimizer state and parameters that are replicated on every device of a mesh.
fn replicated(report: &Report, arguments: &[Argument], kinds: &[Kind]) -> Vec<Advice> {
    if report.devices < 2 {
        return Vec::new();
    }
    let replicated_bytes = |kind: Kind| {
        let leaves = arguments.iter().zip(kinds).filter(|(_, leaf_kind)| **leaf_kind == kind);
        let replicated = leaves.filter(|(leaf, _)| leaf.bytes_per_device() == leaf.aval.bytes());
        replicated.map(|(leaf, _)| leaf.aval.bytes() as u64).sum::<u64>()
    };
    let least = ((report.needed as f64 * WORTH) as u64).max(1 << 16);
    let mut advice = Vec::new();
    for kind in [Kind::Optimizer, Kind::Parameters] {
        let bytes = replicated_bytes(kind);
        if bytes <= least {
            continue;
        }
        let saved = bytes - bytes / report.devices as u64;
        let message = format!(
            "{:.1} MiB of {} are replicated on {} devices; shard them along a mesh axis \
             (`PartitionRules`, as in the FSDP recipe) to free {:.1} MiB on each",
            mib(bytes),
            kind.name(),
            report.devices,
            mib(saved)
        );
        advice.push(Advice::new(Topic::Replicated, message));
    }
    advice
}

/// The seconds lost by the operations of each line, and the operation that loses most.
type Losses<'a> = BTreeMap<Option<&'a SourceLine>, (f64, f64, &'a OpCost)>;

fn losses<'a>(costs: &'a Roofline, loss: impl Fn(&OpCost) -> f64) -> Vec<(f64, &'a OpCost)> {
    let mut lines: Losses<'a> = BTreeMap::new();
    for operation in &costs.operations {
        let lost = loss(operation);
        if lost > 0.0 {
            let line = lines.entry(operation.place.as_ref()).or_insert((0.0, 0.0, operation));
            line.0 += lost;
            if lost > line.1 {
                (line.1, line.2) = (lost, operation);
            }
        }
    }
    let mut lines: Vec<(f64, &OpCost)> =
        lines.into_values().map(|(sum, _, largest)| (sum, largest)).collect();
    lines.sort_by(|a, b| b.0.total_cmp(&a.0));
    lines
}

/// Returns the time of a step as the sum over its operations.
fn total(costs: &Roofline, spec: &DeviceSpec) -> f64 {
    costs.operations.iter().map(|operation| operation.on(spec).seconds()).sum()
}

/// Returns the largest losses that are above the least fraction of a step.
fn largest_losses(
    costs: &Roofline,
    spec: &DeviceSpec,
    losses: Vec<(f64, &OpCost)>,
) -> Vec<(f64, OpCost)> {
    let least = total(costs, spec) * WORTH;
    let largest = losses.into_iter().filter(|(lost, _)| *lost > least).take(LINES);
    largest.map(|(lost, operation)| (lost, operation.clone())).collect()
}

/// Finds products that are bound by the padding of their sizes to tiles.
fn tiles(costs: &Roofline, spec: &DeviceSpec) -> Vec<Advice> {
    let losses = losses(costs, |operation| {
        let Some(product) = &operation.product else { return 0.0 };
        let time = operation.on(spec);
        let padded = time.products / spec.tile_use(product);
        padded.max(time.memory) - time.seconds()
    });
    let largest = largest_losses(costs, spec, losses).into_iter();
    largest.filter_map(|(lost, operation)| {
        let product = operation.product?;
        let off = [("n", product.n), ("k", product.k)];
        let off = off.into_iter().filter(|(_, size)| size % spec.mxu != 0);
        let padded = |(name, size): (&str, usize)| {
            format!("{name} = {size} is padded to {}", size.next_multiple_of(spec.mxu))
        };
        let off: Vec<String> = off.map(padded).collect();
        let sizes = match off.is_empty() {
            true => format!("m = {} is padded to 8", product.m),
            false => off.join(", "),
        };
        let message = format!(
            "{} of {} (m = {}, n = {}, k = {}): {sizes}; {:.0} % of the work of the matrix unit is \
             padding; use multiples of {}",
            operation.name,
            operation.operands,
            product.m,
            product.n,
            product.k,
            (1.0 - spec.tile_use(&product)) * 100.0,
            spec.mxu
        );
        Some(advice_for(Topic::Tiles, message, &operation, lost))
    })
    .collect()
}

/// Finds products that are bound by memory.
fn small_batch(costs: &Roofline, spec: &DeviceSpec) -> Vec<Advice> {
    let losses = losses(costs, |operation| {
        let time = operation.on(spec);
        if operation.product.is_some() { time.memory - time.products } else { 0.0 }
    });
    let largest = largest_losses(costs, spec, losses).into_iter();
    largest.filter_map(|(lost, operation)| {
        let product = operation.product?;
        let dtype = operation.dtype.unwrap_or(DType::BF16);
        let critical = spec.peak_of(dtype) / spec.hbm_bandwidth;
        let bytes = operation.per_device.fused_bytes.max(1);
        let intensity = operation.per_device.flops as f64 / bytes as f64;
        let message = format!(
            "{} of {} is bound by memory: {intensity:.0} FLOPs per byte, {} needs {critical:.0}; its \
             smallest size is {}: use a larger batch on each device",
            operation.name,
            operation.operands,
            spec.name,
            product.m.min(product.n).min(product.k)
        );
        Some(advice_for(Topic::SmallBatch, message, &operation, lost))
    })
    .collect()
}

/// Finds products in `f32`.
fn float32(costs: &Roofline, spec: &DeviceSpec) -> Vec<Advice> {
    let time = |operation: &OpCost| match operation.product {
        Some(_) if operation.dtype == Some(DType::F32) => operation.on(spec).seconds(),
        _ => 0.0,
    };
    let all: f64 = costs.operations.iter().map(time).sum();
    let largest = costs.operations.iter().max_by(|a, b| time(a).total_cmp(&time(b)));
    let part = all / total(costs, spec).max(f64::MIN_POSITIVE);
    let Some(largest) = largest.filter(|_| part > WORTH) else { return Vec::new() };
    // The gain is at least that of half the bytes, or that of the higher peak.
    let gain = all * (1.0 - (spec.peak.f32 / spec.peak.bf16).min(0.5));
    let faster = spec.peak.bf16 / spec.peak.f32;
    let faster = if faster > 1.5 {
        format!(", and {} multiplies {faster:.0} times as fast", spec.name)
    } else {
        String::new()
    };
    let message = format!(
        "products of f32 take {:.0} % of the step, the largest is {} of {}; in bf16 they read half \
         the bytes{faster}: `nn::DTypePolicy::mixed_bf16()`",
        part * 100.0,
        largest.name,
        largest.operands,
    );
    vec![advice_for(Topic::Float32, message, largest, gain)]
}

fn advice_for(topic: Topic, message: String, operation: &OpCost, seconds: f64) -> Advice {
    Advice { topic, message, place: operation.place.clone(), seconds: Some(seconds) }
}

fn exchanges(report: &Report) -> Option<Advice> {
    let prediction = report.prediction.as_ref()?;
    if !matches!(prediction.bound, Bound::Wires | Bound::DataCentre) {
        return None;
    }
    let longest = prediction.exchanges.first()?;
    let exchange = &longest.exchange;
    let message = format!(
        "the step is bound by communication: exchanges take {:.2} ms, products {:.2} ms; the longest \
         is {} of {} bytes along {}; use a larger batch, or fewer devices along that axis",
        (prediction.times.wires + prediction.times.data_centre) * 1e3,
        prediction.times.products * 1e3,
        exchange.kind.name(),
        exchange.bytes,
        exchange.axes.join(", ")
    );
    let seconds = Some(prediction.seconds - prediction.times.products);
    Some(Advice { topic: Topic::Exchanges, message, place: exchange.place.clone(), seconds })
}

fn host_round_trips(costs: &Roofline) -> Vec<Advice> {
    let callbacks = costs.operations.iter().filter(|operation| operation.name == "callback");
    callbacks
        .take(LINES)
        .map(|operation| {
            let message = format!(
                "the host is called {} times per step while the device waits; remove the callback, or \
                 run it only every few steps",
                operation.times
            );
            let place = operation.place.clone();
            Advice { topic: Topic::HostRoundTrips, message, place, seconds: None }
        })
        .collect()
}

/// Returns advice from the counters of a function that has run: repeated compilation and copies of
/// arguments.
///
/// ```
/// use oxidax::doctor::{Topic, advice_on_calls};
/// use oxidax::jit::JitStats;
/// let stats = JitStats { calls: 40, compiles: 40, signatures: 40, ..Default::default() };
/// let advice = advice_on_calls("step", &stats);
/// assert_eq!(advice[0].topic, Topic::Recompiles);
/// ```
pub fn advice_on_calls(name: &str, stats: &JitStats) -> Vec<Advice> {
    let mut advice = Vec::new();
    if stats.compiles > 3 && stats.compiles * 4 > stats.calls {
        let message = format!(
            "`{name}` was compiled {} times in {} calls ({:.1} s): shapes, dtypes or static values \
             differ between calls; `recompilations` names them; pad batches to one size \
             (`drop_remainder`), and pass changing numbers as arrays",
            stats.compiles,
            stats.calls,
            stats.compile_seconds()
        );
        advice.push(Advice::new(Topic::Recompiles, message));
    }
    if stats.evictions > 0 {
        let message = format!(
            "`{name}` has evicted {} compiled programs: it is called with more signatures than its \
             cache holds",
            stats.evictions
        );
        advice.push(Advice::new(Topic::Recompiles, message));
    }
    let calls = stats.calls.max(1);
    for (count, what) in [
        (
            stats.not_donated,
            "passed by value but held elsewhere, so that results take new memory; drop the clones",
        ),
        (stats.transferred, "transferred before each call; `device_put` them once"),
    ] {
        if count >= calls {
            let message = format!("at each call of `{name}` {} leaves are {what}", count / calls);
            advice.push(Advice::new(Topic::Copies, message));
        }
    }
    advice
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;

    fn costs(f: impl Fn(Array, Array) -> Array + 'static, x: Aval, y: Aval) -> Roofline {
        Roofline::of(&make_program(f, (x, y)).unwrap())
    }

    fn v5e() -> DeviceSpec {
        DeviceSpec::named("v5e").unwrap()
    }

    fn bf16<const N: usize>(shape: [usize; N]) -> Aval {
        Aval::new(DType::BF16, shape)
    }

    #[test]
    fn tiles_reports_padded_sizes_and_their_waste() {
        let off = costs(|x, w| x.matmul(&w), bf16([4096, 1024]), bf16([1024, 1025]));
        let found = tiles(&off, &v5e());
        assert_eq!(found.len(), 1);
        let said = &found[0].message;
        assert!(said.contains("n = 1025 is padded to 1152") && said.contains("11 %"), "{said}");
        assert!(found[0].place.as_ref().unwrap().file.ends_with("advice.rs"));
        let on = costs(|x, w| x.matmul(&w), bf16([4096, 1024]), bf16([1024, 1024]));
        assert!(tiles(&on, &v5e()).is_empty());
    }

    #[test]
    fn small_batch_reports_products_bound_by_memory() {
        let small = costs(|x, w| x.matmul(&w), bf16([8, 4096]), bf16([4096, 4096]));
        let found = small_batch(&small, &v5e());
        assert!(found[0].message.contains("its smallest size is 8"), "{found:?}");
        assert!(found[0].seconds.unwrap() > 0.0);
        let large = costs(|x, w| x.matmul(&w), bf16([4096, 4096]), bf16([4096, 4096]));
        assert!(small_batch(&large, &v5e()).is_empty());
    }

    #[test]
    fn float32_reports_only_f32_products() {
        let f32s = |shape| Aval::new(DType::F32, shape);
        let wide = costs(|x, w| x.matmul(&w), f32s([512, 512]), f32s([512, 512]));
        assert!(float32(&wide, &v5e())[0].message.contains("products of f32 take 100 %"));
        let narrow = costs(|x, w| x.matmul(&w), bf16([512, 512]), bf16([512, 512]));
        assert!(float32(&narrow, &v5e()).is_empty());
    }

    #[test]
    fn callbacks_are_reported() {
        let f = |x: Array, y: Array| {
            crate::debug::print("{}", [&x]);
            x + y
        };
        let found = costs(f, bf16([8]), bf16([8]));
        assert_eq!(host_round_trips(&found).len(), 1);
    }

    #[test]
    fn counters_are_read() {
        let stats = JitStats { calls: 100, compiles: 2, ..Default::default() };
        assert!(advice_on_calls("f", &stats).is_empty());
        let stats = JitStats {
            calls: 10,
            compiles: 9,
            evictions: 1,
            transferred: 20,
            not_donated: 10,
            ..stats
        };
        let topics: Vec<Topic> = advice_on_calls("f", &stats).iter().map(|it| it.topic).collect();
        assert_eq!(topics, [Topic::Recompiles, Topic::Recompiles, Topic::Copies, Topic::Copies]);
    }
}
