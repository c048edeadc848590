//! Lists installed and available plugins, and removes installed ones.

use std::path::PathBuf;

use crate::cache::library_path;
use crate::cache::{self, Cache, State};
use crate::config::Config;
use crate::error::Error;
use crate::pins::{self, Pin};
use crate::platform::Platform;
use crate::progress::Progress;

/// One line of `oxidax plugin list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InventoryEntry {
    /// The name for `oxidax plugin remove`: a pin's name, otherwise the folder's name.
    pub name: String,
    /// The platform. `None` for a folder that this version of oxidax does not recognize.
    pub platform: Option<Platform>,
    /// The pin. `None` for other plugins.
    pub pin: Option<&'static Pin>,
    /// The library, or the folder of an unknown entry.
    pub path: PathBuf,
    /// The state of the entry.
    pub condition: Condition,
}

/// The state of an [`InventoryEntry`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// A pin that is not installed.
    NotInstalled,
    /// Installed and intact, with the SHA-256 recorded at installation.
    Intact,
    /// Changed since its installation; the text describes the difference. It is never loaded.
    Damaged(String),
    /// A folder that this version of oxidax does not use, for example of an older pin.
    Unused,
}

/// The thoroughness of [`list`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Trusts the recorded hash of a file whose size and modification time have not changed.
    Records,
    /// Reads every byte of every library.
    EveryByte,
}

/// Returns all pins, installed or not, then the plugins that the user installed from files, then
/// the other folders in the cache.
///
/// # Errors
///
/// [`Error::NoCache`], [`Error::UnsafeCache`], [`Error::Io`].
pub fn list(config: &Config, check: Check) -> Result<Vec<InventoryEntry>, Error> {
    let cache = Cache::open(config)?;
    let look = |path: &PathBuf, hash: Option<&str>| {
        let state = match check {
            Check::Records => cache::state(path, hash),
            Check::EveryByte => cache::verify(path, hash),
        };
        state.map(|state| match state {
            State::Absent => Condition::NotInstalled,
            State::Valid => Condition::Intact,
            State::Damaged(reason) => Condition::Damaged(reason),
        })
    };
    let mut entries = Vec::new();
    let mut known = Vec::new();
    for pin in pins::ALL {
        let path = library_path(pin, &cache);
        let condition = look(&path, Some(pin.library_sha256))?;
        let platform = Some(pin.platform);
        let name = pin.name.to_owned();
        // The cache lists only the first component of a nested folder.
        known.push(pin.folder().split('/').next().unwrap_or_default().to_owned());
        entries.push(InventoryEntry { name, platform, pin: Some(pin), path, condition });
    }
    for platform in Platform::ALL {
        if let Some(path) = cache.local_library(platform) {
            let name = cache::local_name(platform);
            let condition = look(&path, None)?;
            known.push(name.clone());
            entries.push(InventoryEntry {
                name,
                platform: Some(platform),
                pin: None,
                path,
                condition,
            });
        }
    }
    for name in cache.entries()?.into_iter().filter(|name| !known.contains(name)) {
        let path = cache.entry(&name);
        entries.push(InventoryEntry {
            name,
            platform: None,
            pin: None,
            path,
            condition: Condition::Unused,
        });
    }
    Ok(entries)
}

/// Deletes an installed plugin. `name` is the name shown by [`list`], or the name of the folder. A
/// process that has loaded the plugin keeps it.
///
/// # Errors
///
/// [`Error::NoSuchEntry`] with the existing names; [`Error::CacheNotWritable`],
/// [`Error::UnsafeCache`], [`Error::NoCache`], [`Error::Io`].
pub fn remove(name: &str, config: &Config, progress: &mut dyn Progress) -> Result<PathBuf, Error> {
    let cache = Cache::open(config)?;
    let pin = pins::ALL.iter().find(|pin| pin.name == name);
    let folder = pin.map_or_else(|| name.to_owned(), |pin| pin.folder());
    let installed = cache.entries()?;
    let is_there = installed.contains(&folder) || pin.is_some() && cache.entry(&folder).is_dir();
    if !is_there {
        let list = if installed.is_empty() { "none".to_owned() } else { installed.join(", ") };
        return Err(Error::NoSuchEntry { name: name.to_owned(), installed: list });
    }
    let lock = cache.lock(pin.map_or(Platform::Cpu, |pin| pin.platform), progress)?;
    cache.remove(&lock, &folder)?;
    Ok(cache.entry(&folder))
}
