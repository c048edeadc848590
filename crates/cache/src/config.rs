//! Cache settings from the environment.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;

const DAY: f64 = 86_400.0;

/// The folder and the limits of the program cache.
///
/// | field | environment variable | default |
/// |-------|----------------------|---------|
/// | `folder` | `OXIDAX_CACHE`: a folder, whose subfolder `programs` is used; `off` or `0` disables the cache | [`folder`] |
/// | `max_bytes` | `OXIDAX_CACHE_MAX_BYTES`: `3000000`, `500M`, `4G`; 0 disables the cache | 4 GiB |
/// | `max_age` | `OXIDAX_CACHE_MAX_DAYS`: days | 30 days |
/// | `min_compile` | `OXIDAX_CACHE_MIN_SECONDS`: seconds | 0.05 s |
/// | `min_bytes` | `OXIDAX_CACHE_MIN_BYTES`: as above | 0 |
///
/// ```
/// use oxidax_cache::Settings;
/// let settings = Settings { max_bytes: 1 << 30, ..Settings::in_folder("/var/cache/mine") };
/// assert!(settings.is_on());
/// assert!(!Settings::off().is_on());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The folder for entries, which need not exist. `None` disables the cache.
    pub folder: Option<PathBuf>,
    /// Maximum total size in bytes. The least recently used entries are deleted. 0 disables the
    /// cache.
    pub max_bytes: u64,
    /// Entries unused for longer are deleted when another one is stored.
    pub max_age: Duration,
    /// Programs that compile faster are not stored.
    pub min_compile: Duration,
    /// Programs with fewer bytes are not stored.
    pub min_bytes: u64,
}

impl Settings {
    /// Returns the default limits with a folder.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Settings {
        Settings {
            folder: Some(folder.into()),
            max_bytes: 4 << 30,
            max_age: Duration::from_secs(30 * 86_400),
            min_compile: Duration::from_millis(50),
            min_bytes: 0,
        }
    }

    /// Returns settings that disable the cache.
    pub fn off() -> Settings {
        Settings { folder: None, ..Settings::in_folder("") }
    }

    /// Returns true if programs are stored.
    pub fn is_on(&self) -> bool {
        self.folder.is_some() && self.max_bytes > 0
    }

    /// Reads the environment. No other code of this crate does.
    ///
    /// # Errors
    /// [`Error::BadVariable`] if a limit is not a number, so that a typing mistake cannot fill a
    /// disk, or if `OXIDAX_CACHE` is an address such as `gs://bucket`.
    pub fn from_env() -> Result<Settings, Error> {
        Settings::from_variables(|name| env::var_os(name))
    }

    /// Reads settings from a source of variables. Empty ones count as unset.
    ///
    /// # Errors
    /// The errors of [`Settings::from_env`].
    ///
    /// ```
    /// use oxidax_cache::Settings;
    /// let settings = Settings::from_variables(|name| match name {
    ///     "HOME" => Some("/home/ada".into()),
    ///     "OXIDAX_CACHE_MAX_BYTES" => Some("500M".into()),
    ///     _ => None,
    /// })?;
    /// assert_eq!(settings.folder.as_deref(), Some("/home/ada/.cache/oxidax/programs".as_ref()));
    /// assert_eq!(settings.max_bytes, 500 << 20);
    /// # Ok::<(), oxidax_cache::Error>(())
    /// ```
    pub fn from_variables(get: impl Fn(&str) -> Option<OsString>) -> Result<Settings, Error> {
        read_variable(&get, "OXIDAX_CACHE", "a local folder, `off` or `0`", |text| {
            (!is_address(text)).then_some(())
        })?;
        let off = get("OXIDAX_CACHE").is_some_and(|value| says_off(&value));
        let defaults = Settings::off();
        let seconds = |name, unit: f64, expected, default: Duration| -> Result<Duration, Error> {
            let read =
                |text: &str| Duration::try_from_secs_f64(text.parse::<f64>().ok()? * unit).ok();
            read_variable(&get, name, expected, read).map(|read| read.unwrap_or(default))
        };
        let bytes = |name, default: u64| -> Result<u64, Error> {
            let expected = "a number of bytes, such as 3000000, 500M or 4G";
            read_variable(&get, name, expected, read_bytes).map(|read| read.unwrap_or(default))
        };
        Ok(Settings {
            folder: folder(&get).filter(|_| !off).map(|root| root.join("programs")),
            max_bytes: bytes("OXIDAX_CACHE_MAX_BYTES", defaults.max_bytes)?,
            max_age: seconds("OXIDAX_CACHE_MAX_DAYS", DAY, "a number of days", defaults.max_age)?,
            min_compile: seconds(
                "OXIDAX_CACHE_MIN_SECONDS",
                1.0,
                "a number of seconds, such as 0.5",
                defaults.min_compile,
            )?,
            min_bytes: bytes("OXIDAX_CACHE_MIN_BYTES", defaults.min_bytes)?,
        })
    }
}

/// Returns the cache folder: `OXIDAX_CACHE`, else `XDG_CACHE_HOME`/oxidax, else
/// `HOME`/.cache/oxidax. With `OXIDAX_CACHE=off`, plugins use the default folder.
///
/// An address such as `gs://bucket` is not a folder: entries are machine code, which is trusted
/// because only their owner can write the folder, and object stores have no such owners.
pub fn folder(get: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // A relative XDG_CACHE_HOME is invalid by its specification and must be ignored.
    let xdg = path("XDG_CACHE_HOME").filter(|p| p.is_absolute());
    path("OXIDAX_CACHE")
        .filter(|path| !says_off(path.as_os_str()) && !is_address(&path.to_string_lossy()))
        .or_else(|| xdg.map(|p| p.join("oxidax")))
        .or_else(|| path("HOME").map(|h| h.join(".cache/oxidax")))
}

fn is_address(text: &str) -> bool {
    text.contains("://")
}

fn says_off(value: &std::ffi::OsStr) -> bool {
    ["off", "0"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

fn read_variable<T>(
    get: impl Fn(&str) -> Option<OsString>,
    name: &'static str,
    expected: &'static str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, Error> {
    let Some(value) = get(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let value = value.to_string_lossy().into_owned();
    match read(value.trim()) {
        Some(read) => Ok(Some(read)),
        None => Err(Error::BadVariable { name, value, expected }),
    }
}

/// Parses `3000000`, `64K`, `500M` or `4G` in powers of 1024; a `B` or `iB` after the letter is
/// allowed.
fn read_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]
mod tests {
    use super::*;
    use std::path::Path;

    fn with(variables: &[(&str, &str)]) -> Result<Settings, Error> {
        Settings::from_variables(|name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_more_specific_variable_sets_the_folder() {
        let all = [("OXIDAX_CACHE", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")];
        let folder = |variables| with(variables).unwrap().folder.unwrap();
        assert_eq!(folder(&all), Path::new("/a/programs"));
        assert_eq!(folder(&all[1..]), Path::new("/b/oxidax/programs"));
        assert_eq!(folder(&all[2..]), Path::new("/c/.cache/oxidax/programs"));
        assert_eq!(with(&[]).unwrap().folder, None);
    }

    #[test]
    fn off_affects_programs_and_not_plugins() {
        for word in ["off", "OFF", "0"] {
            let variables = [("OXIDAX_CACHE", word), ("HOME", "/c")];
            assert!(!with(&variables).unwrap().is_on());
            let get = |name: &str| {
                variables.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value))
            };
            assert_eq!(super::folder(get).unwrap(), Path::new("/c/.cache/oxidax"));
        }
    }

    #[test]
    fn addresses_are_not_cache_folders() {
        let variables = [("OXIDAX_CACHE", "gs://bucket/cache"), ("HOME", "/c")];
        let error = with(&variables).unwrap_err().to_string();
        let expected = "OXIDAX_CACHE is `gs://bucket/cache`, expected a local folder, `off` or `0`";
        assert!(error.starts_with(expected), "{error}");
        let get = |name: &str| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value))
        };
        assert_eq!(super::folder(get).unwrap(), Path::new("/c/.cache/oxidax"));
    }

    #[test]
    fn limits_are_parsed_or_refused() {
        let settings = with(&[
            ("HOME", "/c"),
            ("OXIDAX_CACHE_MAX_BYTES", "4G"),
            ("OXIDAX_CACHE_MAX_DAYS", "0.5"),
            ("OXIDAX_CACHE_MIN_SECONDS", "2.5"),
            ("OXIDAX_CACHE_MIN_BYTES", "64 KiB"),
        ]);
        let settings = settings.unwrap();
        assert_eq!((settings.max_bytes, settings.min_bytes), (4 << 30, 64 << 10));
        assert_eq!(settings.max_age, Duration::from_secs(43_200));
        assert_eq!(settings.min_compile, Duration::from_millis(2500));
        assert!(!with(&[("HOME", "/c"), ("OXIDAX_CACHE_MAX_BYTES", "0")]).unwrap().is_on());
        for (name, wrong) in [
            ("OXIDAX_CACHE_MAX_BYTES", "many"),
            ("OXIDAX_CACHE_MAX_BYTES", "-1"),
            ("OXIDAX_CACHE_MAX_BYTES", "99999999999999T"),
            ("OXIDAX_CACHE_MAX_DAYS", "-3"),
            ("OXIDAX_CACHE_MIN_SECONDS", "nan"),
        ] {
            let error = with(&[(name, wrong)]).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{name} is `{wrong}`, expected a number")),
                "{error}"
            );
        }
    }
}
