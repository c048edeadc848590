//! Errors of finding and installing plugins.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use crate::devices::Unusable;
use crate::platform::Platform;

/// The reason why a plugin could not be found or installed. Each message contains the relevant
/// numbers, and the remedy if there is a definite one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A platform name other than `cpu`, `tpu` and `cuda`.
    #[error("unknown platform `{name}`, expected one of cpu, tpu, cuda")]
    UnknownPlatform {
        /// The name.
        name: String,
    },

    /// An environment variable has an invalid value.
    #[error("{name} is `{value}`, expected {expected}")]
    BadVariable {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// Valid values.
        expected: Cow<'static, str>,
    },

    /// The platform's devices cannot be used on this host.
    #[error(transparent)]
    Unusable(#[from] Unusable),

    /// The plugin file selected by the user does not exist. No other location is tried.
    #[error(
        "{named_by} names the {platform} plugin {path}, which is not a readable file: {source}",
        path = .path.display()
    )]
    MissingPlugin {
        /// The platform.
        platform: Platform,
        /// `the caller`, or the name of the environment variable.
        named_by: String,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// A plugin file was given without its platform, and its name does not contain the platform.
    #[error(
        "which platform does {path} drive? its name does not say\n  \
         help: name the platform: cpu, tpu or cuda",
        path = .path.display()
    )]
    PlatformUnclear {
        /// The file.
        path: PathBuf,
    },

    /// This host has no plugin for the platform, and none can be installed without the user's
    /// consent.
    #[error(
        "no {platform} plugin found; looked at:\n{looked}  help: {help}",
        looked = bullets(.looked)
    )]
    NotFound {
        /// The platform.
        platform: Platform,
        /// Each searched location, with the result.
        looked: Vec<String>,
        /// The remedy.
        help: String,
    },

    /// There is no pinned plugin for this operating system and processor.
    #[error(
        "{requirement} is for {wanted}, this host is {host}\n  \
         help: build or get a PJRT plugin for this host, then `oxidax plugin install PATH`, or set \
         {variable} to its path"
    )]
    WrongHost {
        /// The requested package.
        requirement: String,
        /// The host that the package is for.
        wanted: String,
        /// This host.
        host: String,
        /// The variable that sets the plugin file.
        variable: &'static str,
    },

    /// Downloads are forbidden.
    #[error(
        "OXIDAX_OFFLINE forbids fetching {requirement} ({size})\n  \
         help: unset OXIDAX_OFFLINE and run `{command}`, or copy the wheel {wheel} here and run \
         `oxidax plugin install PATH`",
        size = mib(*.size)
    )]
    Offline {
        /// The package.
        requirement: String,
        /// The wheel's size in bytes.
        size: u64,
        /// The wheel's file name.
        wheel: &'static str,
        /// The command that installs it.
        command: String,
    },

    /// Neither `HOME` nor another variable gives the cache folder.
    #[error(
        "no cache folder: OXIDAX_CACHE, XDG_CACHE_HOME and HOME are all unset\n  \
         help: set OXIDAX_CACHE to a folder of your own"
    )]
    NoCache,

    /// Another user could replace the library before it is loaded.
    #[error("refusing the plugin cache: {path} {reason}\n  help: {help}", path = .path.display())]
    UnsafeCache {
        /// The folder or file.
        path: PathBuf,
        /// Owner or mode, with the ids.
        reason: String,
        /// The remedy.
        help: String,
    },

    /// The cache cannot be created or written.
    #[error(
        "cannot write the plugin cache at {path}: {source}\n  \
         help: set OXIDAX_CACHE to a folder that you can write, or {variable} to a plugin file",
        path = .path.display()
    )]
    CacheNotWritable {
        /// The file or folder that could not be written.
        path: PathBuf,
        /// The variable that sets a plugin file instead.
        variable: &'static str,
        /// The system's error.
        source: io::Error,
    },

    /// Reading, writing or locking a file failed.
    #[error("cannot {action} {path}: {source}", path = .path.display())]
    Io {
        /// The verb: `read`, `write`, `lock`, …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// This host has neither `pip` nor `uv`.
    #[error(
        "fetching {requirement} ({size}) needs pip or uv, and neither is on the PATH\n  \
         help: install one of them (on Debian: `apt install python3-pip`), or copy the wheel \
         {wheel} from another machine and run `oxidax plugin install PATH`",
        size = mib(*.size)
    )]
    NoTool {
        /// The package.
        requirement: String,
        /// The wheel's size in bytes.
        size: u64,
        /// The wheel's file name.
        wheel: &'static str,
    },

    /// Every available tool failed to fetch the package.
    #[error(
        "could not fetch {requirement} ({size}):\n{attempts}  help: check the network, the proxy \
         and the package index that the tool is set up for, then run `{command}` again",
        size = mib(*.size),
        attempts = bullets(.attempts)
    )]
    Fetch {
        /// The package.
        requirement: String,
        /// The wheel's size in bytes.
        size: u64,
        /// Each tool, with the end of its output.
        attempts: Vec<String>,
        /// The command that tries again.
        command: String,
    },

    /// The tool fetched a file other than the pinned one.
    #[error("{requirement}: expected the file {expected}, {tool} fetched {found}")]
    WrongWheel {
        /// The package.
        requirement: String,
        /// The tool's command.
        tool: String,
        /// The pinned file name.
        expected: String,
        /// The names of the fetched files.
        found: String,
    },

    /// A file's size differs from the pinned size: the file is truncated, or it is another file.
    #[error(
        "{path} has {found} bytes, expected {expected}: it is truncated or another file; it was \
         not installed",
        path = .path.display()
    )]
    WrongSize {
        /// The file.
        path: PathBuf,
        /// Expected size in bytes.
        expected: u64,
        /// Actual size in bytes.
        found: u64,
    },

    /// A file's hash differs from the pinned hash.
    #[error(
        "{path} has SHA-256 {found}, expected {expected}; it was not installed\n  \
         help: the package index or a proxy served another file; do not use it",
        path = .path.display()
    )]
    WrongHash {
        /// The file.
        path: PathBuf,
        /// The pinned hash.
        expected: String,
        /// The file's hash.
        found: String,
    },

    /// The wheel is not a readable zip archive, or does not contain the library.
    #[error("{path}: cannot extract {member}: {reason}", path = .path.display())]
    BadWheel {
        /// The wheel.
        path: PathBuf,
        /// The library inside.
        member: String,
        /// The problem.
        reason: String,
    },

    /// The wheel to install is not pinned.
    #[error(
        "{path} is not a wheel that oxidax knows; known:\n{known}  help: unzip it and install the \
         library inside",
        path = .path.display(),
        known = bullets(.known)
    )]
    UnknownWheel {
        /// The wheel.
        path: PathBuf,
        /// The names of the pinned wheels.
        known: Vec<String>,
    },

    /// An installed library has changed since its installation.
    #[error(
        "the installed plugin {path} is damaged: {reason}\n  \
         help: run `oxidax plugin install {name} --force`",
        path = .path.display()
    )]
    Damaged {
        /// The library.
        path: PathBuf,
        /// The difference, with the numbers.
        reason: String,
        /// The entry's name.
        name: String,
    },

    /// The file is not a shared library for this operating system.
    #[error("{path} is not a shared library: {reason}", path = .path.display())]
    NotALibrary {
        /// The file.
        path: PathBuf,
        /// A description of the file's content.
        reason: String,
    },

    /// The library is for another processor.
    #[error("{path} is a library for {found}, this host is {host}", path = .path.display())]
    WrongMachine {
        /// The file.
        path: PathBuf,
        /// The library's processor.
        found: String,
        /// This host's processor.
        host: &'static str,
    },

    /// The file is a shared library, but not a PJRT plugin.
    #[error(
        "{path} is not a PJRT plugin: it does not export GetPjrtApi (it exports {exports} symbols)",
        path = .path.display()
    )]
    NotAPlugin {
        /// The file.
        path: PathBuf,
        /// Number of symbols that it exports.
        exports: usize,
    },

    /// The cache has no entry with this name.
    #[error("no installed plugin is called `{name}`; installed: {installed}")]
    NoSuchEntry {
        /// The requested name.
        name: String,
        /// The existing names, comma-separated.
        installed: String,
    },

    /// An entry with this name exists. Only a reinstallation replaces it.
    #[error(
        "{path} is installed already\n  \
         help: add --force to replace it",
        path = .path.display()
    )]
    AlreadyInstalled {
        /// The installed library.
        path: PathBuf,
    },
}

impl Error {
    /// Returns a closure for `map_err` that adds the operation and the path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    }
}

/// Formats a size with a unit.
pub(crate) fn mib(bytes: u64) -> String {
    if bytes < 1 << 20 {
        return format!("{bytes} bytes");
    }
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Formats each item on its own line, indented under the message's first line.
fn bullets(lines: &[String]) -> String {
    lines.iter().map(|line| format!("  - {}\n", line.replace('\n', "\n    "))).collect()
}
