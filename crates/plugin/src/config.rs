//! Configuration of this crate, read once from the environment.
//!
//! No other code of this crate reads the environment, so a test describes a complete host by
//! filling in a [`Config`].

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::devices;
use crate::error::Error;
use crate::platform::Platform;

/// User settings and search locations.
///
/// | field | environment variable |
/// |-------|----------------------|
/// | `platform` | `OXIDAX_PLATFORM`: `cpu`, `tpu` or `cuda` |
/// | `other_platform` | `OXIDAX_PLATFORM`: another name |
/// | `named_plugins` | `PJRT_NAMES_AND_LIBRARY_PATHS`: `NAME:PATH`, separated by commas |
/// | `plugin_paths` | `OXIDAX_PLUGIN_CPU`, `OXIDAX_PLUGIN_TPU`, `OXIDAX_PLUGIN_CUDA`: a plugin file |
/// | `tpu_library_path` | `TPU_LIBRARY_PATH`: a plugin file for the TPU |
/// | `plugin_library_path` | `PJRT_PLUGIN_LIBRARY_PATH`: plugin files, or folders of them |
/// | `cache` | `OXIDAX_CACHE`, else `XDG_CACHE_HOME`/oxidax, else `HOME`/.cache/oxidax; `off` affects compiled programs only |
/// | `tpu_variables` | `TPU_ACCELERATOR_TYPE`, `TPU_WORKER_ID` and the other variables that describe TPU hosts |
/// | `offline` | `OXIDAX_OFFLINE`: `1` forbids every download |
/// | `search_path` | `PATH` |
/// | `virtual_env` | `VIRTUAL_ENV` |
/// | `home` | `HOME` |
///
/// ```
/// use oxidax_plugin::Config;
/// let mut config = Config::bare();
/// config.cache = Some("/var/cache/oxidax".into());
/// config.offline = true;
/// assert!(config.platform.is_none());
/// ```
#[derive(Debug, Clone)]
pub struct Config {
    /// The platform selected by the user, if any.
    pub platform: Option<Platform>,
    /// The name that `OXIDAX_PLATFORM` contains if it is none of [`Platform::ALL`]. It selects a
    /// plugin that the caller knows by this name.
    pub other_platform: Option<String>,
    /// Plugin files by the names that the user gave them.
    pub named_plugins: BTreeMap<String, PathBuf>,
    /// The plugin files set by the user, by platform.
    pub plugin_paths: BTreeMap<Platform, PathBuf>,
    /// The path of libtpu that other programs on this host use.
    pub tpu_library_path: Option<PathBuf>,
    /// Files and folders in which other programs on this host find PJRT plugins.
    pub plugin_library_path: Vec<PathBuf>,
    /// The cache folder. Its subfolder `plugins` contains the plugins.
    pub cache: Option<PathBuf>,
    /// The TPU variables of the environment, by name: see
    /// [`TpuEnvironment`](crate::devices::TpuEnvironment).
    pub tpu_variables: BTreeMap<String, String>,
    /// True if downloads are forbidden.
    pub offline: bool,
    /// Folders that are searched for `python3`, `pip` and `uv`.
    pub search_path: Vec<PathBuf>,
    /// The active Python virtual environment.
    pub virtual_env: Option<PathBuf>,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// The root of the file system that is searched for devices and Python packages: `/` outside
    /// tests.
    pub root: PathBuf,
    /// Operating system and processor, with the names of [`std::env::consts`] (`linux`, `x86_64`).
    pub host: (String, String),
    /// The package folders that `python3` reported. Python runs at most once per `Config`.
    pub(crate) python_folders: OnceLock<Vec<PathBuf>>,
}

impl Config {
    /// Returns the configuration of an empty host: no variables, no cache, no programs and an empty
    /// file system. The operating system and processor are the real ones.
    pub fn bare() -> Config {
        Config {
            platform: None,
            other_platform: None,
            named_plugins: BTreeMap::new(),
            plugin_paths: BTreeMap::new(),
            tpu_library_path: None,
            plugin_library_path: Vec::new(),
            cache: None,
            tpu_variables: BTreeMap::new(),
            offline: false,
            search_path: Vec::new(),
            virtual_env: None,
            home: None,
            root: PathBuf::from("/nonexistent"),
            host: (env::consts::OS.to_owned(), env::consts::ARCH.to_owned()),
            python_folders: OnceLock::new(),
        }
    }

    /// Reads the environment. No other code of this crate does.
    ///
    /// # Errors
    ///
    /// [`Error::BadVariable`] if `OXIDAX_OFFLINE` or `PJRT_NAMES_AND_LIBRARY_PATHS` has an invalid
    /// value, so that a typing mistake cannot silently use the network or another plugin. A name in
    /// `OXIDAX_PLATFORM` that nobody knows is an error of the search.
    pub fn from_env() -> Result<Config, Error> {
        Config::from_variables(|name| env::var_os(name))
    }

    /// Builds a configuration from a source of variables. [`Config::from_env`] passes the process's
    /// variables. Empty variables count as unset.
    ///
    /// # Errors
    ///
    /// The errors of [`Config::from_env`].
    ///
    /// ```
    /// use oxidax_plugin::{Config, Platform};
    /// let config =
    ///     Config::from_variables(|name| (name == "OXIDAX_PLATFORM").then(|| "tpu".into()))?;
    /// assert_eq!(config.platform, Some(Platform::Tpu));
    /// # Ok::<(), oxidax_plugin::Error>(())
    /// ```
    pub fn from_variables(get: impl Fn(&str) -> Option<OsString>) -> Result<Config, Error> {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let path = |name: &str| get(name).map(PathBuf::from);
        let paths = |name: &str| {
            let list = get(name).unwrap_or_default();
            env::split_paths(&list).filter(|p| !p.as_os_str().is_empty()).collect::<Vec<_>>()
        };

        let platform_name =
            get("OXIDAX_PLATFORM").map(|value| value.to_string_lossy().into_owned());
        let platform = platform_name.as_ref().and_then(|name| name.parse().ok());
        let named_plugins = match get(NAMED_PLUGINS) {
            None => BTreeMap::new(),
            Some(list) => named_plugins(&list)?,
        };
        let offline = match get("OXIDAX_OFFLINE") {
            None => false,
            Some(value) => match value.to_string_lossy().to_lowercase().as_str() {
                "1" | "true" | "yes" => true,
                "0" | "false" | "no" => false,
                other => {
                    return Err(Error::BadVariable {
                        name: "OXIDAX_OFFLINE",
                        value: other.to_owned(),
                        expected: "1 or 0".into(),
                    });
                }
            },
        };
        let home = path("HOME");
        let cache = oxidax_cache::folder(get);
        Ok(Config {
            platform,
            other_platform: platform_name.filter(|_| platform.is_none()),
            named_plugins,
            plugin_paths: Platform::ALL
                .into_iter()
                .filter_map(|platform| Some((platform, path(platform.variable())?)))
                .collect(),
            tpu_library_path: path("TPU_LIBRARY_PATH"),
            plugin_library_path: paths("PJRT_PLUGIN_LIBRARY_PATH"),
            cache,
            tpu_variables: devices::TPU_VARIABLES
                .into_iter()
                .filter_map(|name| {
                    Some((name.to_owned(), get(name)?.to_string_lossy().into_owned()))
                })
                .collect(),
            offline,
            search_path: paths("PATH"),
            virtual_env: path("VIRTUAL_ENV"),
            home,
            root: PathBuf::from("/"),
            ..Config::bare()
        })
    }

    /// Refuses a name in `OXIDAX_PLATFORM` that is none of [`Platform::ALL`].
    ///
    /// # Errors
    ///
    /// [`Error::BadVariable`].
    pub(crate) fn check_platform(&self) -> Result<(), Error> {
        match &self.other_platform {
            None => Ok(()),
            Some(name) => Err(Error::BadVariable {
                name: "OXIDAX_PLATFORM",
                value: name.clone(),
                expected: "cpu, tpu or cuda".into(),
            }),
        }
    }

    /// Returns the first executable file named `name` on the search path.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        self.search_path.iter().map(|folder| folder.join(name)).find(|path| is_executable(path))
    }
}

/// The variable that names plugins, as in JAX.
const NAMED_PLUGINS: &str = "PJRT_NAMES_AND_LIBRARY_PATHS";

/// Parses `NAME:PATH,NAME:PATH`.
fn named_plugins(list: &OsString) -> Result<BTreeMap<String, PathBuf>, Error> {
    let bad = || Error::BadVariable {
        name: NAMED_PLUGINS,
        value: list.to_string_lossy().into_owned(),
        expected: "NAME:PATH, separated by commas, with different names".into(),
    };
    let mut plugins = BTreeMap::new();
    for item in list.to_str().ok_or_else(bad)?.split(',') {
        let (name, path) = item.trim().split_once(':').ok_or_else(bad)?;
        let is_new = plugins.insert(name.to_owned(), PathBuf::from(path)).is_none();
        if name.is_empty() || path.is_empty() || !is_new {
            return Err(bad());
        }
    }
    Ok(plugins)
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Result<Config, Error> {
        Config::from_variables(|name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_cache_folder_is_shared_with_programs() {
        let cache = |variables| with(variables).unwrap().cache;
        assert_eq!(cache(&[("OXIDAX_CACHE", "/a"), ("HOME", "/c")]).unwrap(), Path::new("/a"));
        let off = [("OXIDAX_CACHE", "off"), ("HOME", "/c")];
        assert_eq!(cache(&off).unwrap(), Path::new("/c/.cache/oxidax"), "no word on plugins");
        assert_eq!(cache(&[]), None);
    }

    #[test]
    fn empty_variables_count_as_unset() {
        let config = with(&[("OXIDAX_PLATFORM", ""), ("OXIDAX_PLUGIN_CPU", "")]).unwrap();
        assert_eq!(config.platform, None);
        assert!(config.plugin_paths.is_empty());
    }

    #[test]
    fn a_misspelt_platform_is_an_error_of_the_search() {
        let config = with(&[("OXIDAX_PLATFORM", "gpuu")]).unwrap();
        assert_eq!((config.platform, config.other_platform.as_deref()), (None, Some("gpuu")));
        let request = crate::Request::default();
        let found = crate::find_or_install(&request, &config, &mut crate::Silent);
        let error = found.unwrap_err().to_string();
        assert_eq!(error, "OXIDAX_PLATFORM is `gpuu`, expected cpu, tpu or cuda");
    }

    #[test]
    fn named_plugins_are_pairs() {
        const NAME: &str = "PJRT_NAMES_AND_LIBRARY_PATHS";
        let config = with(&[(NAME, "xpu:/opt/xpu.so, npu:/opt/npu.json")]).unwrap();
        let plugins: Vec<_> = config.named_plugins.iter().collect();
        assert_eq!(plugins[0], (&"npu".to_owned(), &PathBuf::from("/opt/npu.json")));
        assert_eq!(plugins[1], (&"xpu".to_owned(), &PathBuf::from("/opt/xpu.so")));
        for wrong in ["xpu", ":/opt/xpu.so", "xpu:", "a:/x.so,,b:/y.so", "a:/x.so,a:/y.so"] {
            let error = with(&[(NAME, wrong)]).unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains("NAME:PATH"), "{error}");
        }
    }

    #[test]
    fn offline_is_on_off_or_an_error() {
        for (value, offline) in [("1", true), ("TRUE", true), ("0", false), ("no", false)] {
            assert_eq!(with(&[("OXIDAX_OFFLINE", value)]).unwrap().offline, offline);
        }
        let error = with(&[("OXIDAX_OFFLINE", "maybe")]).unwrap_err().to_string();
        assert_eq!(error, "OXIDAX_OFFLINE is `maybe`, expected 1 or 0");
    }

    #[test]
    fn lists_and_plugin_files_are_read() {
        let config = with(&[
            ("OXIDAX_PLUGIN_CUDA", "/x.so"),
            ("PJRT_PLUGIN_LIBRARY_PATH", "/p:/q/r.so"),
            ("PATH", "/bin::/sbin"),
        ])
        .unwrap();
        assert_eq!(config.plugin_paths[&Platform::Cuda], Path::new("/x.so"));
        assert_eq!(config.plugin_library_path, [Path::new("/p"), Path::new("/q/r.so")]);
        assert_eq!(config.search_path, [Path::new("/bin"), Path::new("/sbin")]);
    }
}
