//! Installs plugins into the cache.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::cache::{self, Cache, Lock, intact};
use crate::config::Config;
use crate::error::{Error, mib};
use crate::fetch::{self, Fetched};
use crate::hash;
use crate::library::check_library;
use crate::pins::{self, Pin};
use crate::platform::Platform;
use crate::progress::{Progress, Silent};

/// Installs a pinned plugin and its dependencies into the cache unless it is there, and returns its
/// path.
///
/// An intact plugin is returned at once, without network, lock or write access. Otherwise the wheel
/// is fetched with `pip` or `uv` and checked against the pin, and the library is extracted. A lock
/// makes concurrent calls, also of other processes, wait and then share the result. A damaged file
/// is replaced.
///
/// # Errors
///
/// - [`Error::WrongHost`], [`Error::Offline`], [`Error::NoTool`] and [`Error::Fetch`] if the wheel
///   cannot be fetched.
/// - [`Error::WrongWheel`], [`Error::WrongSize`], [`Error::WrongHash`] and [`Error::BadWheel`] if
///   the fetched file is not the pinned one.
/// - [`Error::UnsafeCache`], [`Error::CacheNotWritable`], [`Error::NoCache`] and [`Error::Io`] if
///   the cache cannot be used.
///
/// # Example
///
/// ```no_run
/// use oxidax_plugin::{Config, Stderr, install, pins};
/// let path = install(&pins::CPU, &Config::from_env()?, &mut Stderr::new())?;
/// println!("{}", path.display());
/// # Ok::<(), oxidax_plugin::Error>(())
/// ```
pub fn install(pin: &Pin, config: &Config, progress: &mut dyn Progress) -> Result<PathBuf, Error> {
    for needed in pin.needs {
        install(needed, config, progress)?;
    }
    let cache = Cache::open(config)?;
    if let Some(path) = intact(pin, &cache, progress)? {
        return Ok(path);
    }
    may_fetch(pin, config)?;
    let lock = cache.lock(pin.platform, progress)?;
    // The previous holder of the lock may have installed this plugin.
    if let Some(path) = intact(pin, &cache, &mut Silent)? {
        return Ok(path);
    }
    fetch_into(pin, config, &cache, &lock, progress)
}

/// Like [`install`], but fetches the wheel again and replaces an existing installation. The old
/// file stays in place until the new one is complete.
///
/// # Errors
///
/// The errors of [`install`].
pub fn reinstall(
    pin: &Pin,
    config: &Config,
    progress: &mut dyn Progress,
) -> Result<PathBuf, Error> {
    for needed in pin.needs {
        reinstall(needed, config, progress)?;
    }
    let cache = Cache::open(config)?;
    may_fetch(pin, config)?;
    let lock = cache.lock(pin.platform, progress)?;
    fetch_into(pin, config, &cache, &lock, progress)
}

/// Installs a plugin from a file: a pinned wheel fetched elsewhere, or any PJRT plugin for this
/// host, which then takes precedence over the pinned plugin of its platform.
///
/// `platform` may be `None` if the file's name contains it. Only [`reinstall_file`] replaces an
/// installed file.
///
/// # Errors
///
/// [`Error::AlreadyInstalled`]. [`Error::UnknownWheel`], [`Error::NotALibrary`],
/// [`Error::WrongMachine`], [`Error::NotAPlugin`] and [`Error::PlatformUnclear`] for unsuitable
/// files. The errors of [`install`] for wheels and the cache.
pub fn install_file(
    file: &Path,
    platform: Option<Platform>,
    config: &Config,
    progress: &mut dyn Progress,
) -> Result<PathBuf, Error> {
    let source = Source::of(file, platform)?;
    let cache = Cache::open(config)?;
    if let Some(path) = source.installed(&cache)? {
        return Err(Error::AlreadyInstalled { path });
    }
    let lock = cache.lock(source.platform(), progress)?;
    if let Some(path) = source.installed(&cache)? {
        return Err(Error::AlreadyInstalled { path });
    }
    source.install(&cache, &lock, progress)
}

/// Like [`install_file`], but replaces an existing installation.
///
/// # Errors
///
/// The errors of [`install_file`], except [`Error::AlreadyInstalled`].
pub fn reinstall_file(
    file: &Path,
    platform: Option<Platform>,
    config: &Config,
    progress: &mut dyn Progress,
) -> Result<PathBuf, Error> {
    let source = Source::of(file, platform)?;
    let cache = Cache::open(config)?;
    let lock = cache.lock(source.platform(), progress)?;
    source.install(&cache, &lock, progress)
}

/// A file to install from.
enum Source<'a> {
    Wheel(&'a Path, &'static Pin),
    Library(&'a Path, Platform),
}

impl<'a> Source<'a> {
    fn of(file: &'a Path, platform: Option<Platform>) -> Result<Source<'a>, Error> {
        if file.extension().is_some_and(|ext| ext == "whl") {
            let name = file.file_name().unwrap_or_default();
            let pin = pins::ALL.iter().find(|pin| name == pin.wheel);
            return match pin {
                Some(pin) => Ok(Source::Wheel(file, pin)),
                None => Err(Error::UnknownWheel {
                    path: file.to_owned(),
                    known: pins::ALL.iter().map(|pin| pin.wheel.to_owned()).collect(),
                }),
            };
        }
        check_library(file)?;
        let platform = platform
            .or_else(|| Platform::of_file_name(file))
            .ok_or_else(|| Error::PlatformUnclear { path: file.to_owned() })?;
        Ok(Source::Library(file, platform))
    }

    fn platform(&self) -> Platform {
        match self {
            Source::Wheel(_, pin) => pin.platform,
            Source::Library(_, platform) => *platform,
        }
    }

    fn installed(&self, cache: &Cache) -> Result<Option<PathBuf>, Error> {
        match self {
            Source::Wheel(_, pin) => intact(pin, cache, &mut Silent),
            Source::Library(_, platform) => Ok(cache.local_library(*platform)),
        }
    }

    fn install(
        &self,
        cache: &Cache,
        lock: &Lock,
        progress: &mut dyn Progress,
    ) -> Result<PathBuf, Error> {
        let staging = cache.staging(lock, self.platform())?;
        match self {
            Source::Wheel(wheel, pin) => {
                check_wheel(wheel, pin, progress)?;
                let prepared = extract(wheel, pin, &staging.path, progress)?;
                publish_pinned(pin, &prepared, cache, lock, progress)
            }
            Source::Library(file, platform) => {
                let name = file.file_name().expect("a readable file has a name");
                let prepared = staging.path.join(name);
                let mut from = File::open(file).map_err(Error::io("read", file))?;
                let (size, sha256) = write_synced(&mut from, &prepared, progress)
                    .map_err(Error::io("copy", file))?;
                check_library(&prepared)?;
                let entry = cache::local_name(*platform);
                if cache.entry(&entry).exists() {
                    cache.remove(lock, &entry)?;
                }
                let path = cache.publish(lock, &prepared, &entry, &sha256)?;
                progress.note(&format!("installed {} ({})", path.display(), mib(size)));
                Ok(path)
            }
        }
    }
}

/// Returns an error if this host cannot use the pin or may not use the network.
fn may_fetch(pin: &Pin, config: &Config) -> Result<(), Error> {
    let (os, arch) = pin.host();
    if (config.host.0.as_str(), config.host.1.as_str()) != (os, arch) {
        return Err(Error::WrongHost {
            requirement: pin.requirement(),
            wanted: format!("{os} {arch}"),
            host: format!("{} {}", config.host.0, config.host.1),
            variable: pin.platform.variable(),
        });
    }
    if config.offline {
        return Err(Error::Offline {
            requirement: pin.requirement(),
            size: pin.wheel_size,
            wheel: pin.wheel,
            command: format!("oxidax plugin install {}", pin.name),
        });
    }
    Ok(())
}

fn fetch_into(
    pin: &Pin,
    config: &Config,
    cache: &Cache,
    lock: &Lock,
    progress: &mut dyn Progress,
) -> Result<PathBuf, Error> {
    let staging = cache.staging(lock, pin.platform)?;
    progress.note(&format!(
        "installing {}: {} by {}, licence {}, {} to download, {} on disk",
        pin.title(),
        pin.requirement(),
        pin.publisher,
        pin.license,
        mib(pin.wheel_size),
        mib(pin.library_size),
    ));
    let prepared = match fetch::fetch(pin, config, &staging.path, progress)? {
        Fetched::Wheel(wheel) => {
            check_wheel(&wheel, pin, progress)?;
            extract(&wheel, pin, &staging.path, progress)?
        }
        Fetched::Library(library) => {
            let mut from = File::open(&library).map_err(Error::io("read", &library))?;
            prepare(&mut from, &library, pin, &staging.path, progress)?
        }
    };
    publish_pinned(pin, &prepared, cache, lock, progress)
}

fn check_wheel(wheel: &Path, pin: &Pin, progress: &mut dyn Progress) -> Result<(), Error> {
    progress.begin("check", pin.wheel_size);
    let checked = hash::check_file(wheel, pin.wheel_size, pin.wheel_sha256, progress);
    progress.end();
    checked
}

/// Extracts only the library from a wheel whose hash was checked.
fn extract(
    wheel: &Path,
    pin: &Pin,
    staging: &Path,
    progress: &mut dyn Progress,
) -> Result<PathBuf, Error> {
    let bad = |reason: String| Error::BadWheel {
        path: wheel.to_owned(),
        member: pin.member.to_owned(),
        reason,
    };
    let file = File::open(wheel).map_err(Error::io("read", wheel))?;
    let mut archive =
        zip::ZipArchive::new(io::BufReader::new(file)).map_err(|e| bad(e.to_string()))?;
    let mut member = archive.by_name(pin.member).map_err(|e| bad(e.to_string()))?;
    prepare(&mut member, wheel, pin, staging, progress)
}

/// Copies the library to the staging folder and checks it against the pin.
fn prepare(
    from: &mut dyn Read,
    origin: &Path,
    pin: &Pin,
    staging: &Path,
    progress: &mut dyn Progress,
) -> Result<PathBuf, Error> {
    let prepared = staging.join(pin.file_name());
    progress.begin("extract", pin.library_size);
    // One byte more than expected is enough to detect a wrong size.
    let written = write_synced(&mut from.take(pin.library_size + 1), &prepared, progress);
    progress.end();
    let (size, sha256) = written.map_err(Error::io("extract", origin))?;
    let path = origin.join(pin.member);
    if size != pin.library_size {
        return Err(Error::WrongSize { path, expected: pin.library_size, found: size });
    }
    if sha256 != pin.library_sha256 {
        let expected = pin.library_sha256.to_owned();
        return Err(Error::WrongHash { path, expected, found: sha256 });
    }
    if pin.beside.is_some_and(|beside| beside.executable) {
        make_executable(&prepared).map_err(Error::io("make executable", &prepared))?;
    }
    Ok(prepared)
}

fn publish_pinned(
    pin: &Pin,
    prepared: &Path,
    cache: &Cache,
    lock: &Lock,
    progress: &mut dyn Progress,
) -> Result<PathBuf, Error> {
    let path = cache.publish(lock, prepared, &pin.folder(), pin.library_sha256)?;
    progress.note(&format!("installed {} ({})", path.display(), mib(pin.library_size)));
    Ok(path)
}

/// Writes a file, syncs it to disk, and returns its size and SHA-256.
fn write_synced(
    from: &mut dyn Read,
    path: &Path,
    progress: &mut dyn Progress,
) -> io::Result<(u64, String)> {
    let mut file = File::create_new(path)?;
    make_private(&file)?;
    let written = hash::copy(from, &mut file, progress)?;
    file.sync_all()?;
    Ok(written)
}

/// Makes the file writable only by the user, whatever the umask: the cache refuses libraries that
/// others can write.
#[cfg(unix)]
fn make_private(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

/// Makes the file executable by everybody, as files in the cache are readable by everybody.
#[cfg(unix)]
fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn make_private(_: &File) -> io::Result<()> {
    Ok(())
}
