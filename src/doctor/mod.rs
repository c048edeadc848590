//! Predicts memory, time and bottlenecks of a training step on devices that you do not have, and
//! gives advice.
//!
//! - [`examine`] compiles a step for a topology and returns a [`Report`], which prints and
//!   serializes.
//! - [`fit`] searches for the batch and the `remat` policy that fit into memory.
//! - [`main`] is the entry point of a program that `oxidax doctor` runs, with topology, mesh and
//!   batch from the command line.
//!
//! ```no_run
//! use oxidax::{doctor, prelude::*};
//! let step = jit(|w: Array, x: Array| {
//!     let loss = |w: &Array| tanh(&x.matmul(w)).mean();
//!     let (loss, slope) = value_and_grad(loss)(&w);
//!     (&w - slope * 0.1, loss)
//! });
//! let (w, x) = (Aval::new(DType::BF16, [4096, 4096]), Aval::new(DType::BF16, [1024, 4096]));
//! let report = doctor::examine(&step.lower(w, x)?, &Topology::named("v5e:1x1")?)?;
//! println!("{report}");
//! # Ok::<(), oxidax::Error>(())
//! ```

mod advice;
mod case;
mod display;
mod examine;
mod fit;
mod memory;
mod page;
mod predict;
mod report;

pub use advice::{Advice, Topic, advice_on_calls};
pub use case::{Case, main};
pub use examine::{examine, examine_with};
pub use fit::{Fit, Fitted, Trial, fit};
pub use memory::{Kind, Kinds, MemoryUse};
pub use report::{Line, Report};
