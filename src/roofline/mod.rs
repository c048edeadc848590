//! Roofline predictions: estimates of the time of a program from its FLOPs, memory traffic and
//! communication.
//!
//! - [`Roofline`] counts FLOPs and bytes of a traced program, by operation and by source line.
//!   Loops count as often as they run. It does not need a compiler.
//! - [`DeviceSpec`] describes a device. [`DeviceSpec::ALL`] is a table of known devices.
//! - [`Roofline::on`] combines both into a [`Prediction`]: seconds, the bottleneck, and the
//!   utilization.
//! - [`Network`] computes the time of exchanges between devices.
//!
//! ```
//! use oxidax::prelude::*;
//! use oxidax::roofline::{DeviceSpec, Roofline};
//! let step = |h: Array, w: Array| (relu(&h.matmul(&w)), ());
//! let network = move |ws: Array, x: Array| scan(step, x, &ws).0;
//! let ws = Aval::new(DType::BF16, [48, 8192, 8192]);
//! let lowered = jit(network).lower(ws, Aval::new(DType::BF16, [1024, 8192]))?;
//! let roofline = Roofline::of(lowered.program());
//! let prediction = roofline.on(&DeviceSpec::named("v5p").expect("it is in the table"));
//! assert_eq!(prediction.bound.to_string(), "products");
//! assert_eq!((prediction.seconds * 1e3).round(), 14.0);
//! println!("{roofline}\n{prediction}");
//! # Ok::<(), oxidax::Error>(())
//! ```
//!
//! It is not a simulator: it does not predict how far a program stays below the peaks.
//! `docs/roofline.md` has the formulas, the table with its sources, and a comparison of the counts
//! with those of the TPU compiler.

mod compiled_exchanges;
mod count;
mod counting;
mod device_costs;
mod device_table;
mod display;
mod explanation;
mod fusion;
mod grid;
mod measure;
mod network;
mod predict;
mod specs;
mod trip_count;

#[cfg(test)]
mod grid_tests;
#[cfg(test)]
mod tests;

pub use crate::core::SourceLine;
pub use count::{DeviceCost, Exchange, LineCost, OpCost, Roofline, UnknownLoop};
pub use explanation::{Explanation, TimedCollective};
pub use measure::Effort;
pub use network::{CommunicationTime, Network, Route};
pub use predict::{Bound, ExchangeTime, OpTime, Prediction, Seconds};
pub use specs::{DeviceSpec, Peaks, Rings, Wires};
