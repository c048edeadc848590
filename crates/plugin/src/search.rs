//! The search for a plugin: its order, and the automatic installation of the CPU plugin.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache::{self, Cache, State};
use crate::cache::{intact, library_path};
use crate::config::Config;
use crate::devices;
use crate::error::{Error, mib};
#[cfg(feature = "install")]
use crate::install::install;
use crate::pins::{self, Pin};
use crate::platform::{Choice, Platform, choose_platform};
use crate::progress::Progress;
use crate::site_packages;

/// A request for a plugin. The default request selects the platform by this host's devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// The platform. If `None`, [`choose_platform`] selects it.
    pub platform: Option<Platform>,
    /// The plugin file. If set, no other location is searched.
    pub path: Option<PathBuf>,
}

/// The file of a plugin that was found, but not loaded. For a plugin in the cache, the SHA-256 was
/// checked; for others, only that the file exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginFile {
    /// The platform of its devices.
    pub platform: Platform,
    /// The library.
    pub path: PathBuf,
    /// The location in which it was found.
    pub origin: Origin,
    /// Its checked SHA-256 in lower-case hexadecimal, for a plugin in the cache.
    pub sha256: Option<String>,
}

impl PluginFile {
    /// Creates a plugin whose content was not checked.
    fn unknown(platform: Platform, path: PathBuf, origin: Origin) -> PluginFile {
        PluginFile { platform, path, origin, sha256: None }
    }

    /// Creates a plugin with the hash of its pin.
    fn pinned(pin: &Pin, path: PathBuf) -> PluginFile {
        let sha256 = Some(pin.library_sha256.to_owned());
        PluginFile { sha256, ..PluginFile::unknown(pin.platform, path, Origin::Pinned) }
    }
}

impl PluginFile {
    /// Describes how to replace this plugin if it is unsuitable, for example because its version of
    /// the C API is too old.
    ///
    /// ```
    /// use oxidax_plugin::{Origin, Platform, PluginFile};
    /// let origin = Origin::Variable("TPU_LIBRARY_PATH");
    /// let path = "/usr/lib/libtpu.so".into();
    /// let plugin = PluginFile { platform: Platform::Tpu, path, origin, sha256: None };
    /// let help = plugin.replacement();
    /// assert!(
    ///     help.starts_with("`oxidax plugin install tpu` installs libtpu==0.0.51 (C API 0.116)")
    /// );
    /// assert!(help.ends_with("then unset TPU_LIBRARY_PATH"));
    /// ```
    pub fn replacement(&self) -> String {
        let pin = pins::of_platform(self.platform);
        let install = format!(
            "`oxidax plugin install {}` installs {} (C API {}.{}), which oxidax is tested with",
            pin.name,
            pin.requirement(),
            pin.api.0,
            pin.api.1,
        );
        match self.origin {
            Origin::Variable(name) => format!("{install}; then unset {name}"),
            Origin::Local => {
                let name = cache::local_name(self.platform);
                format!("{install}; then `oxidax plugin remove {name}`")
            }
            Origin::Caller => format!("{install}; name no other path"),
            Origin::Pinned | Origin::SitePackages => install,
        }
    }
}

/// The location in which a [`PluginFile`] was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The caller gave its path.
    Caller,
    /// This environment variable contains its path or its folder.
    Variable(&'static str),
    /// In the cache, installed by the user from a file.
    Local,
    /// The pinned plugin in the cache.
    Pinned,
    /// A Python package on this host.
    SitePackages,
}

/// Finds the plugin to use, and installs the CPU plugin if there is none.
///
/// The platform is the caller's, else that of `OXIDAX_PLATFORM`, else the one of this host's
/// devices. The search order is:
///
/// - the caller's path
/// - the variable `OXIDAX_PLUGIN_<PLATFORM>`
/// - `TPU_LIBRARY_PATH`, for TPUs
/// - `PJRT_PLUGIN_LIBRARY_PATH`
/// - the cache: a plugin that the user installed from a file, then the pinned one
/// - Python's site-packages
///
/// If there is no plugin, the platform is CPU and the host is Linux on x86-64, the pinned plugin is
/// installed.
///
/// A selected platform is never replaced by another. If a detected TPU or GPU has no plugin, the
/// CPU is used instead, and a message says so.
///
/// # Errors
///
/// [`Error::MissingPlugin`] for a path or variable with a file that does not exist,
/// [`Error::NotFound`] with all searched locations, [`Error::Damaged`], and the errors of
/// [`install`].
///
/// # Example
///
/// ```no_run
/// use oxidax_plugin::{Config, Request, Stderr, find_or_install};
/// let plugin =
///     find_or_install(&Request::default(), &Config::from_env()?, &mut Stderr::new())?;
/// println!("{} on {}", plugin.path.display(), plugin.platform);
/// # Ok::<(), oxidax_plugin::Error>(())
/// ```
pub fn find_or_install(
    request: &Request,
    config: &Config,
    progress: &mut dyn Progress,
) -> Result<PluginFile, Error> {
    if let Some(path) = &request.path {
        let platform = request
            .platform
            .or(Platform::of_file_name(path))
            .or(config.platform)
            .ok_or_else(|| Error::PlatformUnclear { path: path.clone() })?;
        return named_file(platform, path, "the caller", Origin::Caller);
    }
    if request.platform.is_none() {
        config.check_platform()?;
    }
    let choice = choose_platform(request.platform, config);
    let platform = choice.platform();
    match (find_or_explain(platform, config, progress)?, choice) {
        (Ok(plugin), _) => Ok(plugin),
        (Err(_), Choice::Detected(Platform::Tpu | Platform::Cuda)) => {
            progress.note(&format!(
                "this host has a {platform} device, but no plugin for it was found; using the \
                 CPU. `oxidax plugin install {platform}` installs one"
            ));
            let cpu = find_or_explain(Platform::Cpu, config, progress)?;
            cpu.or_else(|looked| last_resort(Platform::Cpu, looked, config, progress))
        }
        (Err(looked), _) => last_resort(platform, looked, config, progress),
    }
}

/// Like [`find_or_install`], for a program that uses this host's devices. First checks that they
/// are usable, before a plugin is installed or loaded.
///
/// # Errors
///
/// The errors of [`find_or_install`], [`devices::check`] and [`devices::check_plugin`].
pub fn find_usable(
    request: &Request,
    config: &Config,
    progress: &mut dyn Progress,
) -> Result<PluginFile, Error> {
    if request.platform.is_none() {
        config.check_platform()?;
    }
    let choice = choose_platform(request.platform, config);
    let is_named = request.path.is_none() && matches!(choice, Choice::Named(_));
    if is_named {
        devices::check(choice.platform(), config)?;
    }
    let plugin = find_or_install(request, config, progress)?;
    if !is_named {
        // The check of a detected device matters only if there is a plugin for it.
        devices::check(plugin.platform, config)?;
    }
    devices::check_plugin(&plugin, config)?;
    Ok(plugin)
}

/// Finds an installed plugin for a platform. Returns `None` if there is none.
///
/// # Errors
///
/// The errors of [`find_or_install`], except those of installation.
pub fn find(
    platform: Platform,
    config: &Config,
    progress: &mut dyn Progress,
) -> Result<Option<PluginFile>, Error> {
    Ok(find_or_explain(platform, config, progress)?.ok())
}

/// Handles a failed search: installs the CPU plugin if that is allowed, otherwise returns an error.
fn last_resort(
    platform: Platform,
    looked: Vec<String>,
    config: &Config,
    progress: &mut dyn Progress,
) -> Result<PluginFile, Error> {
    let pin = pins::for_host(platform, &config.host.0, &config.host.1);
    let on_pinned_host = (config.host.0.as_str(), config.host.1.as_str()) == pin.host();
    #[cfg(feature = "install")]
    if platform == Platform::Cpu && on_pinned_host && pin.is_tested() {
        let path = install(pin, config, progress)?;
        return Ok(PluginFile::pinned(pin, path));
    }
    #[cfg(not(feature = "install"))]
    let _: &mut dyn Progress = progress;
    let help = if on_pinned_host {
        format!(
            "`oxidax plugin install {}` installs {} ({} to download, licence: {}){}",
            pin.name,
            pin.requirement(),
            mib(pin.wheel_size),
            pin.license,
            if pin.is_tested() { "" } else { "; it is untested on this architecture" },
        )
    } else {
        let (os, arch) = pin.host();
        format!(
            "what can be installed ({}) is for {os} {arch}, this host is {} {}; get a PJRT plugin \
             for it and run `oxidax plugin install PATH`, or set {} to its path",
            pin.requirement(),
            config.host.0,
            config.host.1,
            platform.variable(),
        )
    };
    Err(Error::NotFound { platform, looked, help })
}

/// Searches all locations. The inner error lists the locations without a plugin.
fn find_or_explain(
    platform: Platform,
    config: &Config,
    progress: &mut dyn Progress,
) -> Result<Result<PluginFile, Vec<String>>, Error> {
    let mut looked = Vec::new();

    let variable = platform.variable();
    if let Some(path) = config.plugin_paths.get(&platform) {
        return named_file(platform, path, variable, Origin::Variable(variable)).map(Ok);
    }
    looked.push(format!("{variable}: not set"));

    if platform == Platform::Tpu {
        const NAME: &str = "TPU_LIBRARY_PATH";
        if let Some(path) = &config.tpu_library_path {
            return named_file(platform, path, NAME, Origin::Variable(NAME)).map(Ok);
        }
        looked.push(format!("{NAME}: not set"));
    }

    const LIST: &str = "PJRT_PLUGIN_LIBRARY_PATH";
    if let Some(path) = in_library_path(platform, &config.plugin_library_path) {
        return Ok(Ok(PluginFile::unknown(platform, path, Origin::Variable(LIST))));
    }
    looked.push(match config.plugin_library_path.len() {
        0 => format!("{LIST}: not set"),
        n => format!("{LIST}: none for this platform in its {n} entries"),
    });

    match in_cache(platform, config, progress)? {
        Ok(plugin) => return Ok(Ok(plugin)),
        Err(place) => looked.push(place),
    }

    if let Some(path) = site_packages::find(platform, config) {
        return Ok(Ok(PluginFile::unknown(platform, path, Origin::SitePackages)));
    }
    looked.push("Python's site-packages (jax_plugins, libtpu): none".to_owned());
    Ok(Err(looked))
}

/// Returns the plugin with an explicit path, or an error if the file does not exist.
fn named_file(
    platform: Platform,
    path: &Path,
    named_by: &str,
    origin: Origin,
) -> Result<PluginFile, Error> {
    match fs::File::open(path).and_then(|file| file.metadata()) {
        Ok(meta) if meta.is_file() => Ok(PluginFile::unknown(platform, path.to_owned(), origin)),
        outcome => Err(Error::MissingPlugin {
            platform,
            named_by: named_by.to_owned(),
            path: path.to_owned(),
            source: outcome.err().unwrap_or_else(|| std::io::ErrorKind::IsADirectory.into()),
        }),
    }
}

/// Returns the first suitable file for the platform in a list of files and folders. A listed file
/// is suitable unless its name contains another platform. The name of a file in a folder must
/// identify it as a PJRT plugin and contain the platform.
fn in_library_path(platform: Platform, entries: &[PathBuf]) -> Option<PathBuf> {
    entries.iter().find_map(|entry| {
        if entry.is_file() {
            let speaks_of = Platform::of_file_name(entry);
            return speaks_of.is_none_or(|p| p == platform).then(|| entry.clone());
        }
        let mut files: Vec<PathBuf> =
            fs::read_dir(entry).ok()?.flatten().map(|entry| entry.path()).collect();
        files.sort();
        files.into_iter().find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            let plugin = name.contains("pjrt") || name.contains("plugin") || name == "libtpu.so";
            let library = name.ends_with(".so") || name.ends_with(".dylib");
            plugin && library && Platform::of_file_name(path) == Some(platform) && path.is_file()
        })
    })
}

/// Returns the plugin that the user installed from a file, else the pinned one. The inner error
/// describes the searched entries.
fn in_cache(
    platform: Platform,
    config: &Config,
    progress: &mut dyn Progress,
) -> Result<Result<PluginFile, String>, Error> {
    if config.cache.is_none() {
        return Ok(Err("the cache: no folder for it (HOME is not set)".to_owned()));
    }
    let cache = Cache::open(config)?;
    if let Some(path) = cache.local_library(platform) {
        // The user selected this file, so it is not silently replaced by another one.
        return match cache::state(&path, None)? {
            State::Damaged(reason) => Err(Error::Damaged { path, reason, name: "PATH".to_owned() }),
            State::Valid | State::Absent => {
                let sha256 = cache::recorded(&path);
                Ok(Ok(PluginFile { sha256, ..PluginFile::unknown(platform, path, Origin::Local) }))
            }
        };
    }
    let pin = pins::for_host(platform, &config.host.0, &config.host.1);
    Ok(match intact(pin, &cache, progress)? {
        Some(path) => Ok(PluginFile::pinned(pin, path)),
        None => Err(format!("the cache: no intact {}", library_path(pin, &cache).display())),
    })
}
