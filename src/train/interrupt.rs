//! Ctrl-C between two steps.

use crate::core::Error;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often the user, or the system, has asked the process to end.
static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Ctrl-C as a question that the loop asks: it ends its step, saves and returns.
///
/// `SIGTERM`, with which a cloud announces that it takes a machine back, and `SIGHUP` count too. A second signal
/// ends the process at once, with exit status 130.
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
pub struct Interrupt(());

impl Interrupt {
    /// From now on signals set a flag. Called again it gives another handle of the same flag.
    ///
    /// # Errors
    /// `Data` if another library handles these signals already.
    pub fn catch() -> Result<Interrupt, Error> {
        static INSTALLED: OnceLock<Result<(), String>> = OnceLock::new();
        let handler = || {
            if REQUESTED.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
        };
        let installed =
            INSTALLED.get_or_init(|| ctrlc::try_set_handler(handler).map_err(|e| e.to_string()));
        match installed {
            Ok(()) => Ok(Interrupt(())),
            Err(why) => Err(Error::data("Interrupt::catch", why.clone())),
        }
    }

    /// Whether a signal has come.
    pub fn requested(self) -> bool {
        REQUESTED.load(Ordering::SeqCst)
    }
}
