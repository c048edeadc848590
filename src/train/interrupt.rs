//! Stopping a training loop on Ctrl-C.

use crate::core::Error;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Turns Ctrl-C into a flag that the loop checks between steps, to save and return.
///
/// `SIGTERM`, which cloud providers send before they reclaim a machine, and `SIGHUP` count as well.
/// A second signal ends the process immediately with exit status 130. On Linux, signals that the
/// process was started to ignore stay ignored, such as `SIGHUP` under `nohup` and `SIGINT` in
/// background jobs.
///
/// ```no_run
/// use oxidax::train::Interrupt;
/// let interrupt = Interrupt::catch()?;
/// for step in 0..1_000_000 {
///     // …
///     if interrupt.requested() {
///         println!("stopped after step {step}");
///         break;
///     }
/// }
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Interrupt(&'static Arc<AtomicBool>);

impl Interrupt {
    /// Installs the signal handlers. Existing handlers are called as well. Further calls return
    /// handles of the same flag.
    ///
    /// # Errors
    /// `Data` if a handler cannot be installed.
    pub fn catch() -> Result<Interrupt, Error> {
        static REQUESTED: OnceLock<Result<Arc<AtomicBool>, String>> = OnceLock::new();
        match REQUESTED.get_or_init(|| install().map_err(|error| error.to_string())) {
            Ok(requested) => Ok(Interrupt(requested)),
            Err(why) => Err(Error::data("Interrupt::catch", why.clone())),
        }
    }

    /// Returns true if a signal has arrived.
    pub fn requested(self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

fn install() -> io::Result<Arc<AtomicBool>> {
    let (requested, ignored) = (Arc::new(AtomicBool::new(false)), ignored());
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if ignored & (1 << (signal - 1)) == 0 {
            // Handlers run in this order: for the first signal the flag is unset, then it is set.
            flag::register_conditional_shutdown(signal, 130, requested.clone())?;
            flag::register(signal, requested.clone())?;
        }
    }
    Ok(requested)
}

/// Returns the ignored signals as a bit mask, on systems that report it.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
