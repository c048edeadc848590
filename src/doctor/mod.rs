//! What a step will do on devices that nobody needs to have: whether it fits, what fills the memory, how long it takes,
//! what limits it, and what to change.
//!
//! [`examine`] asks the compiler and the [`roofline`](crate::roofline), and gives a [`Report`], which prints and serializes. [`fit`] looks for the batch and the
//! `remat` policy that a memory has room for. [`main`] makes a program of a step that `oxidax doctor` runs with a topology, a mesh and a batch from
//! the command line.
//!
//! ```no_run
//! use oxidax::{doctor, prelude::*};
//! let step = jit(|w: Array, x: Array| {
//!     let loss = |w: &Array| tanh(&x.matmul(w)).mean();
//!     let (loss, slope) = value_and_grad(loss)(&w);
//!     (&w - slope * 0.1, loss)
//! });
//! let (w, x) = (Aval::new(DType::BF16, [4096, 4096]), Aval::new(DType::BF16, [1024, 4096]));
//! let report = doctor::examine(&step.lower((w, x))?, &Topology::named("v5e:1x1")?)?;
//! println!("{report}");
//! assert!(report.fits);
//! # Ok::<(), oxidax::Error>(())
//! ```

mod advice;
mod case;
mod display;
mod examine;
mod fit;
mod memory;
mod predict;
mod report;

pub use advice::{Advice, Topic, advice_on_calls};
pub use case::{Case, main};
pub use examine::{examine, examine_as};
pub use fit::{Fit, Fitted, Trial, fit};
pub use memory::{Kind, Kinds, MemoryUse};
pub use report::{Line, Report};
