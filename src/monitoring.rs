//! Listeners of events, as in `jax.monitoring`: compilations, cache hits, and your own.
//!
//! ```
//! use oxidax::monitoring;
//! use oxidax::prelude::*;
//! let id = monitoring::register_event_listener(|event, metadata| {
//!     if event == "/oxidax/jit/recompilation" {
//!         eprintln!("{metadata:?}"); // the function, and why it was compiled again
//!     }
//! });
//! let sum = jit(|x: Array| x.sum());
//! sum.call(ones([4]))?;
//! sum.call(ones([5]))?;
//! assert!(monitoring::unregister_event_listener(id));
//! # Ok::<(), oxidax::Error>(())
//! ```
//!
//! | event | kind | metadata |
//! |---|---|---|
//! | `/oxidax/compile/trace_duration` | seconds to trace a `jit` function | `fun_name` |
//! | `/oxidax/compile/lower_duration` | seconds to write StableHLO | `fun_name` |
//! | `/oxidax/compile/backend_compile_duration` | seconds of the plugin's compiler | `fun_name` |
//! | `/oxidax/cache/load_duration` | seconds to load a program from disk instead | `fun_name` |
//! | `/oxidax/cache/hits` | a program was found on disk | `fun_name` |
//! | `/oxidax/cache/misses` | a program was not found on disk | `fun_name` |
//! | `/oxidax/data/wait_duration` | seconds that the program waited for an item of a `data::Stream` | |
//! | `/oxidax/jit/recompilation` | a `jit` function was compiled again | `fun_name`, `reason`, `call_site` |
//! | `/oxidax/jit/programs` | number of programs that a `jit` function has compiled | `fun_name` |
//!
//! Events of compiling in seconds are also time spans, with start and end. Programs of operations
//! outside `jit` are lowered and compiled too, so they have these events, except those of tracing
//! and of `jit`. The events of a compilation are delivered when it has ended, with no lock held. A
//! call that finds its program in memory records nothing;
//! [`JitStats::hits`](crate::jit::JitStats::hits) counts it.
//!
//! JAX removes a listener by the function; here, by the [`ListenerId`] that registering returns.

pub use crate::core::monitoring::{
    EventMetadata, ListenerId, MetadataValue, clear_event_listeners, record_event,
    record_event_duration_secs, record_event_time_span, record_scalar,
    register_event_duration_secs_listener, register_event_listener,
    register_event_time_span_listener, register_scalar_listener,
    unregister_event_duration_listener, unregister_event_listener,
    unregister_event_time_span_listener, unregister_scalar_listener,
};
