//! Composable function transformations for Rust on XLA, in the spirit of JAX.
//!
//! A function of arrays is an ordinary closure. [`grad`](transforms::grad) differentiates it,
//! [`vmap`](transforms::vmap()) vectorizes it, [`jit`](jit::jit) compiles it, and they nest in any
//! order.
//!
//! ```no_run
//! use oxidax::prelude::*;
//!
//! let f = |x: &Array| (x * sin(x)).sum();
//! let x = Array::from_slice(&[0.0f32, 1.0, 2.0], [3])?;
//! let gradient = grad(f)(&x);
//! let step = jit(move |x: Array| &x - grad(f)(&x) * 0.1);
//! let y = step.call(x)?; // `x` was moved, so its memory is reused
//! # Ok::<(), oxidax::Error>(())
//! ```
//!
//! # A tour
//!
//! **Arrays.** An [`Array`] is concrete (its elements are on a device) or traced (a value of a
//! program under construction). Both have one type. Shape and [dtype](core::DType) are values.
//! Operators and the functions of [`ops`] and [`primitives`] broadcast and promote as NumPy and JAX
//! do, and Rust numbers are weakly typed.
//!
//! **Programs.** Tracing runs a closure once on traced arrays and records a
//! [`Program`](core::Program), which prints as text and parses back:
//!
//! ```
//! use oxidax::prelude::*;
//!
//! let program = make_program(|x: Array| sin(&x) * &x, Aval::new(DType::F32, [3]))?;
//! assert_eq!(
//!     program.to_string(),
//!     "{ lambda ; a:f32[3]. let\n    b:f32[3] = sin a\n    c:f32[3] = mul b a\n  in (c) }"
//! );
//! # Ok::<(), oxidax::Error>(())
//! ```
//!
//! **Transforms.** Each interprets programs with the rules of their [primitives](core::Primitive):
//! [`jvp`](transforms::jvp()), [`linearize`](transforms::linearize()), [`vjp`](transforms::vjp()),
//! [`grad`](transforms::grad), [`vmap`](transforms::vmap()).
//! [`eval_shape`](transforms::eval_shape) gives types without computing anything:
//!
//! ```
//! use oxidax::prelude::*;
//!
//! let hessian = |x: Array| vmap(|v: Array, x: Array| {
//!     jvp(grad(|x: &Array| (x * x * x).sum()), &x, &v).1
//! })
//! .in_axes((0, None))
//! .apply(eye(3), x);
//! let h = eval_shape(hessian, Aval::new(DType::F32, [3]))?;
//! assert_eq!(h.shape().dims(), [3, 3]);
//! # Ok::<(), oxidax::Error>(())
//! ```
//!
//! **Control flow.** What depends on the elements of traced arrays is a program inside the program:
//! [`cond`](control_flow::cond), [`scan`](control_flow::scan()),
//! [`while_loop`](control_flow::while_loop()). They take closures, compile to one loop or choice
//! however long it runs, and every transform goes through:
//!
//! ```
//! use oxidax::prelude::*;
//!
//! // A recurrent network's last state, and the gradient by its weights.
//! let last = |w: &Array, xs: &Array| {
//!     let step = |h: Array, x: Array| (tanh(&(h.matmul(w) + x)), ());
//!     scan(step, zeros([3]), xs).0
//! };
//! let (w, xs) = (Aval::new(DType::F32, [3, 3]), Aval::new(DType::F32, [100, 3]));
//! let slope = move |w: Array, xs: Array| grad(|w: &Array| last(w, &xs).sum())(&w);
//! assert_eq!(eval_shape(slope, (w, xs))?.shape().dims(), [3, 3]);
//! # Ok::<(), oxidax::Error>(())
//! ```
//!
//! **Trees.** Models, batches and optimizer states are plain structs with
//! [`#[derive(Tree)]`](derive@Tree); tuples, vectors, options and maps of trees are trees. A leaf's
//! path, `blocks[3].weight`, names it in errors and checkpoints.
//!
//! **Compiling.** [`jit`](jit::jit) traces and compiles once per signature. Arguments passed by
//! value are donated, those passed by reference are kept.
//!
//! **Errors.** Operations throw inside traced closures; `call`, `make_program`, `eval_shape` and
//! [`catch`] return the [`Error`], which names the operation, the numbers, your line and the
//! transforms under way.
//!
//! **On top.** [`random`], [`nn`], [`optim`], [`data`], [`checkpoint`] and [`train`] are what a
//! training program needs; [`distributed`] is for programs of several processes.
//!
//! # Devices
//!
//! Programs run through a PJRT plugin, a shared library that is loaded when the first array is
//! created. On Linux x86-64 the CPU plugin is installed if there is none; the README describes how,
//! and which environment variables configure it. Tracing, transforms and printing do not need a
//! plugin.
//!
//! **Several devices.** [`Mesh`](core::Mesh) and [`parallel`] place arrays, [`jit`](jit::jit)
//! partitions programs, [`shard_map`](parallel::shard_map()) runs one program per device;
//! `docs/parallel.md` is the guide.
//!
//! **Profiles.** [`profile::trace`] records what the host does, for XProf and Perfetto.
//!
//! **Compile cache.** Programs that took long to compile are stored on [disk](jit::cache), and
//! later processes load them from there.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

// Derived code contains `::oxidax` paths, which must resolve within this crate too.
extern crate self as oxidax;

#[cfg(feature = "roofline")]
pub mod block_sizes;
#[cfg(feature = "checkpoint")]
pub mod checkpoint;
pub mod config;
pub mod control_flow;
pub mod core;
#[cfg(feature = "data")]
pub mod data;
pub mod debug;
pub mod distributed;
pub mod dlpack;
#[cfg(feature = "doctor")]
pub mod doctor;
#[cfg(feature = "export")]
pub mod export;
pub mod ffi;
pub mod host_view;
#[cfg(feature = "import")]
pub mod import;
pub mod jit;
pub mod kernel;
pub mod kernels;
pub mod monitoring;
pub mod nn;
pub mod ops;
pub mod optim;
pub mod parallel;
pub mod passes;
pub mod prelude;
pub mod primitives;
pub mod profile;
pub mod random;
pub mod replay;
#[cfg(feature = "roofline")]
pub mod roofline;
mod runtime;
pub mod stablehlo;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "train")]
pub mod train;
pub mod transforms;
pub mod tree;

pub use core::{Array, Aval, DType, Element, Error, IntoAval, Scalar, Shape, catch};
pub use nn::image;
pub use ops::{linalg, special, stats};
pub use tree::{Tree, TreeOps};

/// Returns the backend that evaluates concrete arrays. Connects `core` to `runtime`.
fn default_backend() -> &'static dyn core::Backend {
    runtime::backend()
}

/// Returns the default precision of matrix products that the environment sets. Connects `core` to
/// `runtime`.
fn precision_of_environment() -> core::Precision {
    runtime::matmul_precision()
}

/// Returns the settings of operations, transfers and logs that the environment sets. Connects
/// `core` to `runtime`.
fn options_of_environment() -> core::options::EnvironmentOptions {
    runtime::options()
}

/// Returns a program with checks of these errors; `None` if it has none to check. Connects `core`
/// to `debug`.
fn checked_program(program: &core::Program, errors: core::CheckSet) -> Option<core::Program> {
    debug::checked_program(program, errors)
}

/// Makes a value vary over axes of a mesh. Connects `core` to the operation in `primitives`.
fn vary(x: &Array, varying: &core::Varying) -> Array {
    primitives::vary(x, varying)
}

/// Returns the primitives of kernels. Connects `control_flow`, whose functions read programs, to
/// `kernel`.
fn kernel_primitives() -> &'static [core::RegistryEntry] {
    kernel::KERNEL_PRIMITIVES
}

/// Compiles the code of the documentation pages with the doc tests.
#[cfg(doctest)]
mod pages {
    #[cfg(feature = "full")]
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[cfg(feature = "full")]
    #[doc = include_str!("../docs/for-jax-users.md")]
    struct ForJaxUsers;
    #[cfg(feature = "testing")]
    #[doc = include_str!("../CONTRIBUTING.md")]
    struct Contributing;
    #[cfg(feature = "data")]
    #[doc = include_str!("../docs/data.md")]
    struct Data;
    #[doc = include_str!("../docs/parallel.md")]
    struct Parallel;
    #[doc = include_str!("../docs/kernels.md")]
    struct Kernels;
    #[doc = include_str!("../docs/kernels/cross-entropy.md")]
    struct CrossEntropy;
    #[doc = include_str!("../docs/kernels/flash-attention.md")]
    struct FlashAttention;
    #[doc = include_str!("../docs/kernels/grouped-matmul.md")]
    struct GroupedMatmul;
    #[doc = include_str!("../docs/kernels/norms.md")]
    struct Norms;
    #[doc = include_str!("../docs/kernels/paged-attention.md")]
    struct PagedAttention;
    #[doc = include_str!("../docs/kernels/quantized-matmul.md")]
    struct QuantizedMatmul;
    #[cfg(feature = "checkpoint")]
    #[doc = include_str!("../docs/checkpoints.md")]
    struct Checkpoints;
    #[cfg(feature = "doctor")]
    #[doc = include_str!("../docs/ahead-of-time.md")]
    struct AheadOfTime;
    #[doc = include_str!("../docs/caching.md")]
    struct Caching;
    #[doc = include_str!("../docs/logging.md")]
    struct Logging;
    #[doc = include_str!("../docs/profiling.md")]
    struct Profiling;
    #[doc = include_str!("../docs/debugging.md")]
    struct Debugging;
    #[cfg(feature = "import")]
    #[doc = include_str!("../docs/xla-rs.md")]
    struct XlaRs;
    #[cfg(feature = "roofline")]
    #[doc = include_str!("../docs/roofline.md")]
    struct Roofline;
    #[cfg(feature = "distributed")]
    #[doc = include_str!("../docs/several-hosts.md")]
    struct SeveralHosts;
}
