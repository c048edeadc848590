//! How long a program can take at best: its arithmetic, its memory traffic and its exchanges, against what a device does.
//!
//! [`Roofline`] counts on the traced program, which no compiler is needed for: each operation and each source line, loops
//! as often as they run. [`DeviceSpec`] is a table of devices. [`Roofline::on`] puts the two together into a
//! [`Prediction`]: seconds, what bounds them, how much of the device is used at most. [`Network`] times exchanges.
//!
//! ```
//! use oxidax::prelude::*;
//! use oxidax::roofline::{DeviceSpec, Roofline};
//! let step = |h: Array, w: Array| (relu(&h.matmul(&w)), ());
//! let network = move |ws: Array, x: Array| scan(step, x, &ws).0;
//! let ws = Aval::new(DType::BF16, [48, 8192, 8192]);
//! let lowered = jit(network).lower((ws, Aval::new(DType::BF16, [1024, 8192])))?;
//! let roofline = Roofline::of(lowered.program());
//! let prediction = roofline.on(&DeviceSpec::named("v5p").expect("it is in the table"));
//! assert_eq!(prediction.bound.to_string(), "products");
//! assert_eq!((prediction.seconds * 1e3).round(), 14.0);
//! println!("{roofline}\n{prediction}");
//! # Ok::<(), oxidax::Error>(())
//! ```
//!
//! It is no simulator: what a program does not reach of the peaks is not predicted. `docs/roofline.md` has the formulas, the
//! table with its sources, and how close the counts are to the TPU compiler's.

mod count;
mod cuts;
mod exchange;
mod fuse;
mod measure;
mod network;
mod predict;
mod region;
mod shares;
mod show;
mod specs;
mod table;
mod trips;
mod walk;

#[cfg(test)]
mod tests;

pub use count::{Exchange, LineCost, OpCost, OpenLoop, Place, Roofline, Share};
pub use measure::Effort;
pub use network::{Exchanging, Network, Route};
pub use predict::{Bound, ExchangeTime, OpTime, Prediction, Seconds};
pub use specs::{DeviceSpec, Peaks, Rings, Wires};
