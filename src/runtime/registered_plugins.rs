//! Plugins that the program or the user registered under a name.

use crate::core::{Error, is_platform_name};
use oxidax_pjrt::{NamedValue, PjrtValue};
use oxidax_plugin::{Config, check_library};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The value of an option of a plugin's client. Plugins document theirs; the type must be the one
/// that the plugin expects.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PluginOption {
    /// Text.
    String(String),
    /// An integer.
    Int64(i64),
    /// A list of integers.
    Int64List(Vec<i64>),
    /// A single-precision number.
    Float(f32),
    /// True or false.
    Bool(bool),
}

macro_rules! plugin_option_from {
    ($($from:ty => $variant:ident),*) => {$(
        impl From<$from> for PluginOption {
            fn from(value: $from) -> PluginOption {
                PluginOption::$variant(value.into())
            }
        }
    )*};
}

plugin_option_from!(
    &str => String, String => String, i64 => Int64, i32 => Int64, Vec<i64> => Int64List,
    f32 => Float, bool => Bool
);

/// Options of a plugin's client, by name.
///
/// ```
/// use oxidax::parallel::PluginOptions;
/// let options = PluginOptions::new().set("cpu_device_count", 2).set("asynchronous", true);
/// assert_ne!(options, PluginOptions::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginOptions(BTreeMap<String, PluginOption>);

impl PluginOptions {
    /// Returns no options.
    pub fn new() -> PluginOptions {
        PluginOptions::default()
    }

    /// Sets an option. A later value replaces an earlier one.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<PluginOption>) -> PluginOptions {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// Returns `defaults` and these options, which replace those of the same name.
    pub(super) fn over(&self, mut defaults: Vec<NamedValue>) -> Vec<NamedValue> {
        defaults.retain(|default| !self.0.contains_key(&default.name));
        defaults.extend(self.0.iter().map(|(name, value)| {
            NamedValue::new(
                name.as_str(),
                match value.clone() {
                    PluginOption::String(text) => PjrtValue::String(text),
                    PluginOption::Int64(number) => PjrtValue::Int64(number),
                    PluginOption::Int64List(list) => PjrtValue::Int64List(list),
                    PluginOption::Float(number) => PjrtValue::Float(number),
                    PluginOption::Bool(flag) => PjrtValue::Bool(flag),
                },
            )
        }));
        defaults
    }

    /// Reads the values of a JSON object. Lists contain integers.
    fn from_json(values: serde_json::Map<String, serde_json::Value>) -> Result<Self, String> {
        use serde_json::Value;
        let mut options = PluginOptions::new();
        for (name, value) in values {
            let option = match &value {
                Value::String(text) => PluginOption::String(text.clone()),
                Value::Bool(flag) => PluginOption::Bool(*flag),
                Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                    (Some(number), _) => PluginOption::Int64(number),
                    (None, Some(number)) if number.is_finite() && !number_is_integer(&value) => {
                        PluginOption::Float(number as f32)
                    }
                    _ => return Err(format!("its option `{name}` is {value}, beyond 64 bits")),
                },
                Value::Array(list) => {
                    let list: Option<Vec<i64>> = list.iter().map(Value::as_i64).collect();
                    PluginOption::Int64List(list.ok_or_else(|| {
                        format!("its option `{name}` is {value}, not a list of integers")
                    })?)
                }
                Value::Null | Value::Object(_) => {
                    return Err(format!(
                        "its option `{name}` is {value}; options are strings, integers, lists of \
                         integers, floats and booleans"
                    ));
                }
            };
            options.0.insert(name, option);
        }
        Ok(options)
    }
}

/// Options whose types are known. Some plugins abort the process at a value of another type.
const KNOWN_TYPES: &[(&str, &str)] = &[
    ("allocator", "a string"),
    ("asynchronous", "true or false"),
    ("cpu_device_count", "an integer"),
    ("memory_fraction", "a float"),
    ("node_id", "an integer"),
    ("num_nodes", "an integer"),
    ("partition_index", "an integer"),
    ("preallocate", "true or false"),
    ("process_id", "an integer"),
    ("visible_devices", "a list of integers"),
];

impl PluginOption {
    /// Describes the type of the value.
    fn type_name(&self) -> &'static str {
        match self {
            PluginOption::String(_) => "a string",
            PluginOption::Int64(_) => "an integer",
            PluginOption::Int64List(_) => "a list of integers",
            PluginOption::Float(_) => "a float",
            PluginOption::Bool(_) => "true or false",
        }
    }
}

impl RegisteredPlugin {
    /// Refuses values that no plugin accepts.
    fn check(self) -> Result<RegisteredPlugin, Error> {
        for (name, value) in &self.options.0 {
            let known = KNOWN_TYPES.iter().find(|(known, _)| known == name);
            if let Some((_, expected)) = known.filter(|(_, known)| *known != value.type_name()) {
                let found = value.type_name();
                return Err(Error::Plugin(format!(
                    "the option `{name}` of a plugin must be {expected}; {value:?} is {found}"
                )));
            }
            if let ("cpu_device_count", PluginOption::Int64(count)) = (name.as_str(), value)
                && !(1..=1024).contains(count)
            {
                return Err(Error::Plugin(format!(
                    "{count} CPU devices: it must be from 1 to 1024"
                )));
            }
        }
        Ok(self)
    }
}

fn number_is_integer(value: &serde_json::Value) -> bool {
    value.is_i64() || value.is_u64()
}

/// A registered plugin.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RegisteredPlugin {
    /// The library.
    pub(super) path: PathBuf,
    /// Options of its client.
    pub(super) options: PluginOptions,
}

/// The plugins that the program registered, by name.
static REGISTERED: Mutex<BTreeMap<String, RegisteredPlugin>> = Mutex::new(BTreeMap::new());

fn registered() -> MutexGuard<'static, BTreeMap<String, RegisteredPlugin>> {
    // A panic cannot leave a partial change: each is one insertion.
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers a plugin. `is_in_use` is true if a client of this name exists already.
///
/// # Errors
/// `Plugin` if the name is invalid, the file is not a plugin for this machine, or a client of this
/// name exists with other options or another file.
pub(super) fn register(
    name: &str,
    library: &Path,
    options: PluginOptions,
    is_in_use: bool,
) -> Result<(), Error> {
    check_name(name)?;
    check_library(library)
        .map_err(|error| Error::Plugin(format!("the plugin `{name}`: {error}")))?;
    let plugin = RegisteredPlugin { path: library.to_owned(), options }.check()?;
    let mut registered = registered();
    let is_equal = registered.get(name) == Some(&plugin);
    if is_in_use && !is_equal {
        return Err(Error::Plugin(format!(
            "the platform `{name}` is in use already, so it is too late to register {} for it\n  \
             help: register plugins before the first use of the platform",
            library.display()
        )));
    }
    registered.insert(name.to_owned(), plugin);
    Ok(())
}

fn check_name(name: &str) -> Result<(), Error> {
    const RESERVED: [&str; 3] = ["absent", "device", "gpu"];
    if is_platform_name(name) && !RESERVED.contains(&name) {
        return Ok(());
    }
    Err(Error::Plugin(format!(
        "`{name}` cannot be the name of a platform: it must have 1 to 32 lower-case letters, \
         digits, `_` and `-`, and be none of {}",
        RESERVED.join(", ")
    )))
}

/// Returns the plugin registered under this name, by the program or else by the environment.
///
/// # Errors
/// `Plugin` if the environment names an unreadable description.
pub(super) fn find(name: &str, config: &Config) -> Result<Option<RegisteredPlugin>, Error> {
    if let Some(plugin) = registered().get(name) {
        return Ok(Some(plugin.clone()));
    }
    let Some(path) = config.named_plugins.get(name) else { return Ok(None) };
    check_name(name)?;
    from_environment(path)?.check().map(Some)
}

/// Returns the names of all registered plugins.
pub(super) fn names(config: &Config) -> Vec<String> {
    let mut names: Vec<String> = registered().keys().cloned().collect();
    names.extend(config.named_plugins.keys().cloned());
    names.sort_unstable();
    names.dedup();
    names
}

/// Reads an entry of the environment: a library, or a JSON file with `library_path` and
/// `create_options`.
fn from_environment(path: &Path) -> Result<RegisteredPlugin, Error> {
    if path.extension().is_none_or(|extension| extension != "json") {
        return Ok(RegisteredPlugin { path: path.to_owned(), options: PluginOptions::new() });
    }
    let text = std::fs::read(path).map_err(|source| Error::io(path, source))?;
    parse_description(&text).map_err(|problem| {
        Error::Plugin(format!("{} does not describe a plugin: {problem}", path.display()))
    })
}

fn parse_description(text: &[u8]) -> Result<RegisteredPlugin, String> {
    #[derive(serde::Deserialize)]
    struct Description {
        library_path: PathBuf,
        #[serde(default)]
        create_options: serde_json::Map<String, serde_json::Value>,
    }
    let description: Description =
        serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let options = PluginOptions::from_json(description.create_options)?;
    Ok(RegisteredPlugin { path: description.library_path, options })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    #[test]
    fn options_of_all_types_reach_the_plugin() {
        let options = PluginOptions::new()
            .set("text", "a")
            .set("number", 1)
            .set("list", vec![1i64, 2])
            .set("share", 0.5f32)
            .set("flag", true);
        let defaults = vec![NamedValue::new("number", 7), NamedValue::new("kept", 8)];
        let all = options.over(defaults);
        let value = |name: &str| all.iter().find(|v| v.name == name).unwrap().value.clone();
        assert_eq!(all.len(), 6);
        assert_eq!(value("text"), PjrtValue::String("a".into()));
        assert_eq!(value("number"), PjrtValue::Int64(1));
        assert_eq!(value("kept"), PjrtValue::Int64(8));
        assert_eq!(value("list"), PjrtValue::Int64List(vec![1, 2]));
        assert_eq!(value("share"), PjrtValue::Float(0.5));
        assert_eq!(value("flag"), PjrtValue::Bool(true));
    }

    #[test]
    fn descriptions_are_json() {
        let text = br#"{"library_path": "/opt/x.so",
            "create_options": {"a": 1, "b": [2, 3], "c": 0.5, "d": "e", "f": false}}"#;
        let plugin = parse_description(text).unwrap();
        let expected = PluginOptions::new()
            .set("a", 1)
            .set("b", vec![2i64, 3])
            .set("c", 0.5f32)
            .set("d", "e")
            .set("f", false);
        assert_eq!(plugin, RegisteredPlugin { path: "/opt/x.so".into(), options: expected });
        for (wrong, problem) in [
            (r#"{"create_options": {}}"#, "library_path"),
            (r#"{"library_path": "x", "create_options": {"a": null}}"#, "`a` is null"),
            (r#"{"library_path": "x", "create_options": {"a": [0.5]}}"#, "not a list of integers"),
            (
                r#"{"library_path": "x", "create_options": {"a": 18446744073709551615}}"#,
                "beyond 64 bits",
            ),
        ] {
            let error = parse_description(wrong.as_bytes()).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn types_of_known_options_are_checked() {
        let check = |options: PluginOptions| {
            let plugin = RegisteredPlugin { path: PathBuf::new(), options };
            plugin.check().map(drop).map_err(|error| error.to_string())
        };
        check(PluginOptions::new().set("memory_fraction", 0.5f32).set("own", "x")).unwrap();
        let error = check(PluginOptions::new().set("cpu_device_count", "many")).unwrap_err();
        assert!(error.contains("must be an integer; String(\"many\") is a string"), "{error}");
        let error = check(PluginOptions::new().set("cpu_device_count", 0)).unwrap_err();
        assert!(error.contains("from 1 to 1024"), "{error}");
    }

    #[test]
    fn names_and_files_are_checked() {
        let refused = |name: &str| {
            register(name, Path::new("Cargo.toml"), PluginOptions::new(), false)
                .unwrap_err()
                .to_string()
        };
        for name in ["", "Other", "a b", "gpu", "device", "absent"] {
            assert!(refused(name).contains("cannot be the name of a platform"), "{name}");
        }
        assert!(refused("other").contains("not a shared library"), "{}", refused("other"));
    }
}
