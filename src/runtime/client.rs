//! The process's client: made once, on the first use, and alive until the process ends.

use crate::core::Error;
use oxidax_pjrt::{Client, Plugin};
use oxidax_plugin::{Config, Request, Stderr, find_or_install};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The client of the default platform.
///
/// # Errors
/// `Plugin` if there is no usable plugin; asked again, it is looked for again.
pub(super) fn client() -> Result<&'static Client, Error> {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    static MAKING: Mutex<()> = Mutex::new(());
    if let Some(client) = CLIENT.get() {
        return Ok(client);
    }
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(client) = CLIENT.get() {
        return Ok(client);
    }
    let made = make()?;
    Ok(CLIENT.get_or_init(|| made))
}

fn make() -> Result<Client, Error> {
    let plugin = |error: &dyn std::fmt::Display| Error::Plugin(error.to_string());
    let config = Config::from_env().map_err(|error| plugin(&error))?;
    let found = find_or_install(&Request::default(), &config, &mut Stderr::new())
        .map_err(|error| plugin(&error))?;
    let loaded = Plugin::load(&found.path).map_err(|error| plugin(&error))?;
    Client::new(&loaded).map_err(|error| plugin(&error))
}

/// An error of PJRT's as ours.
pub(super) fn runtime_error(doing: &str, error: oxidax_pjrt::Error) -> Error {
    Error::Runtime {
        doing: doing.to_string(),
        code: Some(error.code),
        message: error.to_string(),
        help: None,
    }
}
