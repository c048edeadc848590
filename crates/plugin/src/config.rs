//! Everything that this crate wants to know about its surroundings, read once.
//!
//! Nothing else in the crate looks at the environment, so a test describes a whole machine by
//! filling in a [`Config`].

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::devices;
use crate::error::Error;
use crate::platform::Platform;

/// The surroundings: what the user set, and where to look.
///
/// | field | environment variable |
/// |-------|----------------------|
/// | `platform` | `OXIDAX_PLATFORM`: `cpu`, `tpu` or `cuda` |
/// | `plugin_paths` | `OXIDAX_PLUGIN_CPU`, `OXIDAX_PLUGIN_TPU`, `OXIDAX_PLUGIN_CUDA`: a plugin file |
/// | `tpu_library_path` | `TPU_LIBRARY_PATH`: a plugin file for the TPU |
/// | `plugin_library_path` | `PJRT_PLUGIN_LIBRARY_PATH`: plugin files, or folders of them |
/// | `cache` | `OXIDAX_CACHE`, else `XDG_CACHE_HOME`/oxidax, else `HOME`/.cache/oxidax; `off` concerns programs alone |
/// | `tpu_variables` | `TPU_ACCELERATOR_TYPE`, `TPU_WORKER_ID` and what else describes TPU hosts |
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
    /// The platform that the user asks for, if any.
    pub platform: Option<Platform>,
    /// A plugin file for each platform that the user named one for.
    pub plugin_paths: BTreeMap<Platform, PathBuf>,
    /// Where other programs of this machine find libtpu.
    pub tpu_library_path: Option<PathBuf>,
    /// Files and folders where other programs of this machine find PJRT plugins.
    pub plugin_library_path: Vec<PathBuf>,
    /// The cache folder. Plugins lie in its subfolder `plugins`.
    pub cache: Option<PathBuf>,
    /// What the environment says about TPUs, by the variables' names: see
    /// [`TpuEnvironment`](crate::devices::TpuEnvironment).
    pub tpu_variables: BTreeMap<String, String>,
    /// Whether downloads are forbidden.
    pub offline: bool,
    /// Folders where `python3`, `pip` and `uv` are looked for.
    pub search_path: Vec<PathBuf>,
    /// The active Python virtual environment.
    pub virtual_env: Option<PathBuf>,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// The root of the file system in which devices and Python packages are looked for: `/`
    /// outside tests.
    pub root: PathBuf,
    /// Operating system and processor, in Rust's words (`linux`, `x86_64`).
    pub host: (String, String),
    /// What `python3` said about its package folders: it is asked at most once per `Config`.
    pub(crate) python_folders: OnceLock<Vec<PathBuf>>,
}

impl Config {
    /// A machine with nothing on it: no variables set, no cache, no programs, an empty file
    /// system. The host is the real one.
    pub fn bare() -> Config {
        Config {
            platform: None,
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

    /// Reads the environment, once and here only.
    ///
    /// # Errors
    ///
    /// [`Error::BadVariable`] if `OXIDAX_PLATFORM` or `OXIDAX_OFFLINE` holds a word that means
    /// nothing: a typing mistake shall not quietly choose another platform or use the network.
    pub fn from_env() -> Result<Config, Error> {
        Config::from_variables(|name| env::var_os(name))
    }

    /// Builds a configuration from any source of variables; [`Config::from_env`] passes the
    /// process's own. Empty variables count as unset.
    ///
    /// # Errors
    ///
    /// As [`Config::from_env`].
    ///
    /// ```
    /// use oxidax_plugin::{Config, Platform};
    /// let config = Config::from_variables(|name| (name == "OXIDAX_PLATFORM").then(|| "tpu".into()))?;
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

        let platform = match get("OXIDAX_PLATFORM") {
            None => None,
            Some(value) => {
                Some(value.to_string_lossy().parse().map_err(|_| Error::BadVariable {
                    name: "OXIDAX_PLATFORM",
                    value: value.to_string_lossy().into_owned(),
                    expected: "cpu, tpu or cuda".into(),
                })?)
            }
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

    /// The first executable file called `name` on the search path.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        self.search_path.iter().map(|folder| folder.join(name)).find(|path| is_executable(path))
    }
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
    fn the_cache_is_where_the_programs_are() {
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
    fn a_misspelt_platform_is_an_error() {
        let error = with(&[("OXIDAX_PLATFORM", "gpuu")]).unwrap_err().to_string();
        assert_eq!(error, "OXIDAX_PLATFORM is `gpuu`, expected cpu, tpu or cuda");
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
