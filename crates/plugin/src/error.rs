//! What can go wrong between wanting a plugin and having its path.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use crate::devices::Unusable;
use crate::platform::Platform;

/// Why a plugin could not be found or installed. Each message names the numbers, and the remedy
/// where there is a sure one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A platform name that is none of `cpu`, `tpu`, `cuda`.
    #[error("unknown platform `{name}`, expected one of cpu, tpu, cuda")]
    UnknownPlatform {
        /// What was given.
        name: String,
    },

    /// An environment variable holds a value that means nothing.
    #[error("{name} is `{value}`, expected {expected}")]
    BadVariable {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        expected: Cow<'static, str>,
    },

    /// The platform's devices cannot be used on this host.
    #[error(transparent)]
    Unusable(#[from] Unusable),

    /// A plugin file was named outright and there is no such file. Nothing else is tried: the
    /// user asked for this file.
    #[error("{named_by} names the {platform} plugin {path}, which is not a readable file: {source}", path = .path.display())]
    MissingPlugin {
        /// The platform.
        platform: Platform,
        /// `the caller`, or the environment variable.
        named_by: String,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A plugin file was named, but not its platform, and the file's name does not tell either.
    #[error("which platform does {path} drive? its name does not say\n  help: name the platform: cpu, tpu or cuda", path = .path.display())]
    PlatformUnclear {
        /// The file.
        path: PathBuf,
    },

    /// No plugin for the platform on this machine, and none may be or can be installed unasked.
    #[error("no {platform} plugin found; looked at:\n{looked}  help: {help}", looked = bullets(.looked))]
    NotFound {
        /// The platform.
        platform: Platform,
        /// Each place, with what was found there.
        looked: Vec<String>,
        /// What to do.
        help: String,
    },

    /// There is no pinned plugin for this operating system and processor.
    #[error(
        "{requirement} is for {wanted}, this host is {host}\n  help: build or get a PJRT plugin for this host, then `oxidax plugin install PATH`, or set {variable} to its path"
    )]
    WrongHost {
        /// The package that was asked for.
        requirement: String,
        /// The host that it is for.
        wanted: String,
        /// This host.
        host: String,
        /// The variable that names the plugin's file.
        variable: &'static str,
    },

    /// Downloads are forbidden.
    #[error("OXIDAX_OFFLINE forbids fetching {requirement} ({size})\n  help: unset OXIDAX_OFFLINE and run `{command}`, or copy the wheel {wheel} here and run `oxidax plugin install PATH`", size = mib(*.size))]
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

    /// Neither `HOME` nor another variable says where the cache is.
    #[error(
        "no cache folder: OXIDAX_CACHE, XDG_CACHE_HOME and HOME are all unset\n  help: set OXIDAX_CACHE to a folder of your own"
    )]
    NoCache,

    /// Somebody else could exchange the library before it is loaded.
    #[error("refusing the plugin cache: {path} {reason}\n  help: {help}", path = .path.display())]
    UnsafeCache {
        /// The folder or file.
        path: PathBuf,
        /// Owner or mode, with the numbers.
        reason: String,
        /// The command that repairs it.
        help: String,
    },

    /// The cache cannot be created or written.
    #[error("cannot write the plugin cache at {path}: {source}\n  help: set OXIDAX_CACHE to a folder that you can write, or {variable} to a plugin file", path = .path.display())]
    CacheNotWritable {
        /// The file or folder that could not be written.
        path: PathBuf,
        /// The variable that names a plugin file instead.
        variable: &'static str,
        /// What the system said.
        source: io::Error,
    },

    /// Reading, writing or locking a file failed.
    #[error("cannot {action} {path}: {source}", path = .path.display())]
    Io {
        /// The verb: `read`, `write`, `lock`, …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// Neither `pip` nor `uv` is on this machine.
    #[error("fetching {requirement} ({size}) needs pip or uv, and neither is on the PATH\n  help: install one of them (on Debian: `apt install python3-pip`), or copy the wheel {wheel} from another machine and run `oxidax plugin install PATH`", size = mib(*.size))]
    NoTool {
        /// The package.
        requirement: String,
        /// The wheel's size in bytes.
        size: u64,
        /// The wheel's file name.
        wheel: &'static str,
    },

    /// Every tool that is there failed to fetch the package.
    #[error("could not fetch {requirement} ({size}):\n{attempts}  help: check the network, the proxy and the package index that the tool is set up for, then run `{command}` again", size = mib(*.size), attempts = bullets(.attempts))]
    Fetch {
        /// The package.
        requirement: String,
        /// The wheel's size in bytes.
        size: u64,
        /// Each tool, with the end of what it said.
        attempts: Vec<String>,
        /// The command that tries again.
        command: String,
    },

    /// The tool fetched something, but not the pinned file.
    #[error("{requirement}: expected the file {expected}, {tool} fetched {found}")]
    WrongWheel {
        /// The package.
        requirement: String,
        /// The tool's command.
        tool: String,
        /// The pinned file name.
        expected: String,
        /// The names that are there.
        found: String,
    },

    /// A file's size is not the pinned one: it was cut short, or it is another file.
    #[error("{path} has {found} bytes, expected {expected}: it is truncated or another file; it was not installed", path = .path.display())]
    WrongSize {
        /// The file.
        path: PathBuf,
        /// Bytes that it should have.
        expected: u64,
        /// Bytes that it has.
        found: u64,
    },

    /// A file's content is not the pinned one.
    #[error("{path} has SHA-256 {found}, expected {expected}; it was not installed\n  help: the package index or a proxy served another file; do not use it", path = .path.display())]
    WrongHash {
        /// The file.
        path: PathBuf,
        /// The pinned hash.
        expected: String,
        /// The file's hash.
        found: String,
    },

    /// The wheel is not a readable zip archive, or lacks the library.
    #[error("{path}: cannot extract {member}: {reason}", path = .path.display())]
    BadWheel {
        /// The wheel.
        path: PathBuf,
        /// The library inside.
        member: String,
        /// What is wrong.
        reason: String,
    },

    /// A wheel that no pin knows was given to install.
    #[error("{path} is not a wheel that oxidax knows; known:\n{known}  help: unzip it and install the library inside", path = .path.display(), known = bullets(.known))]
    UnknownWheel {
        /// The wheel.
        path: PathBuf,
        /// The names of the known ones.
        known: Vec<String>,
    },

    /// An installed library is no longer what was installed.
    #[error("the installed plugin {path} is damaged: {reason}\n  help: run `oxidax plugin install {name} --force`", path = .path.display())]
    Damaged {
        /// The library.
        path: PathBuf,
        /// What differs, with the numbers.
        reason: String,
        /// The entry's name.
        name: String,
    },

    /// The file is no shared library of this operating system.
    #[error("{path} is not a shared library: {reason}", path = .path.display())]
    NotALibrary {
        /// The file.
        path: PathBuf,
        /// What was found instead.
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

    /// A shared library, but not a PJRT plugin.
    #[error("{path} is not a PJRT plugin: it does not export GetPjrtApi (it exports {exports} symbols)", path = .path.display())]
    NotAPlugin {
        /// The file.
        path: PathBuf,
        /// How many symbols it does export.
        exports: usize,
    },

    /// The cache has no entry of that name.
    #[error("no installed plugin is called `{name}`; installed: {installed}")]
    NoSuchEntry {
        /// What was asked for.
        name: String,
        /// What is there, separated by commas.
        installed: String,
    },

    /// An entry of that name is there and shall not be replaced unasked.
    #[error("{path} is installed already\n  help: add --force to replace it", path = .path.display())]
    AlreadyInstalled {
        /// The installed library.
        path: PathBuf,
    },
}

impl Error {
    /// For `map_err` on file operations.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    }
}

/// A size in bytes as people read it.
pub(crate) fn mib(bytes: u64) -> String {
    if bytes < 1 << 20 {
        return format!("{bytes} bytes");
    }
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// One line each, indented under the message's first line.
fn bullets(lines: &[String]) -> String {
    lines.iter().map(|line| format!("  - {}\n", line.replace('\n', "\n    "))).collect()
}
