//! Ctrl-C between two steps.

use crate::core::Error;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Ctrl-C as a question that the loop asks: it ends its step, saves and returns.
///
/// `SIGTERM`, with which a cloud announces that it takes a machine back, and `SIGHUP` count too. A second signal
/// ends the process at once, with exit status 130. On Linux a signal that the process was started to ignore, as
/// `nohup` does with `SIGHUP` and a shell script's `&` with `SIGINT`, is ignored still.
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
    /// From now on signals set a flag; handlers that others have installed are called as well. Called again it
    /// gives another handle of the same flag.
    ///
    /// # Errors
    /// `Data` if the system refuses a handler.
    pub fn catch() -> Result<Interrupt, Error> {
        static REQUESTED: OnceLock<Result<Arc<AtomicBool>, String>> = OnceLock::new();
        match REQUESTED.get_or_init(|| install().map_err(|error| error.to_string())) {
            Ok(requested) => Ok(Interrupt(requested)),
            Err(why) => Err(Error::data("Interrupt::catch", why.clone())),
        }
    }

    /// Whether a signal has come.
    pub fn requested(self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

fn install() -> io::Result<Arc<AtomicBool>> {
    let (requested, ignored) = (Arc::new(AtomicBool::new(false)), ignored());
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if ignored & (1 << (signal - 1)) == 0 {
            // Called in this order: the first signal finds the flag unset, and sets it.
            flag::register_conditional_shutdown(signal, 130, requested.clone())?;
            flag::register(signal, requested.clone())?;
        }
    }
    Ok(requested)
}

/// The signals that the process ignores, a bit for each, where the system has a file that says so.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
