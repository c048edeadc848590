//! Options of the CUDA client.

use crate::core::Error;
use oxidax_pjrt::{NamedValue, PjrtValue};
use std::sync::OnceLock;

/// Allocator of GPU memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CudaAllocator {
    /// Best fit with coalescing, in XLA's pool: the plugin's default.
    Bfc,
    /// The driver's asynchronous pool (`cudaMallocAsync`), shared with other libraries of the
    /// process.
    CudaAsync,
    /// One driver call per buffer: slow, with the least memory use.
    Platform,
}

impl CudaAllocator {
    const ALL: [CudaAllocator; 3] =
        [CudaAllocator::Bfc, CudaAllocator::CudaAsync, CudaAllocator::Platform];

    /// Returns the name used by PJRT and `OXIDAX_CUDA_ALLOCATOR`.
    fn name(self) -> &'static str {
        match self {
            CudaAllocator::Bfc => "bfc",
            CudaAllocator::CudaAsync => "cuda_async",
            CudaAllocator::Platform => "platform",
        }
    }
}

/// Options of the CUDA client. By default it uses all GPUs and allocates memory as needed.
///
/// | field | environment variable | default |
/// |---|---|---|
/// | `preallocate` | `OXIDAX_CUDA_PREALLOCATE`: `1` or `0` | `false` |
/// | `memory_fraction` | `OXIDAX_CUDA_MEMORY_FRACTION`: above 0, at most 1 | the plugin's, 0.75 in XLA |
/// | `allocator` | `OXIDAX_CUDA_ALLOCATOR`: `bfc`, `cuda_async` or `platform` | the plugin's, `bfc` |
/// | `visible_devices` | `OXIDAX_CUDA_VISIBLE_DEVICES`: as in `0,1` | all |
///
/// ```
/// use oxidax::parallel::CudaOptions;
/// let options = CudaOptions { memory_fraction: Some(0.5), ..CudaOptions::default() };
/// assert!(!options.preallocate);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CudaOptions {
    /// Allocates this process's share of each GPU's memory when the client is created. The first
    /// steps are faster, and other processes cannot use the unused part.
    pub preallocate: bool,
    /// The largest share of each GPU's memory for this process, above 0 and at most 1.
    pub memory_fraction: Option<f32>,
    /// The allocator.
    pub allocator: Option<CudaAllocator>,
    /// The GPUs to use, by the driver's numbers.
    pub visible_devices: Option<Vec<u32>>,
}

/// The options set with `set_cuda_options`.
static OPTIONS: OnceLock<CudaOptions> = OnceLock::new();

impl CudaOptions {
    /// Reads options from variables, by their names without `OXIDAX_CUDA_`.
    pub(super) fn from_variables(
        get: impl Fn(&str) -> Option<String>,
    ) -> Result<CudaOptions, Error> {
        let get = |name: &str| {
            let text = get(name)?.trim().to_owned();
            (!text.is_empty()).then_some(text)
        };
        let bad = |name: &str, text: &str, expected: &str| {
            Error::Plugin(format!("OXIDAX_CUDA_{name} is `{text}`; it must be {expected}"))
        };
        let mut options = CudaOptions::default();
        if let Some(text) = get("PREALLOCATE") {
            options.preallocate = match text.to_lowercase().as_str() {
                "1" | "true" | "yes" => true,
                "0" | "false" | "no" => false,
                _ => return Err(bad("PREALLOCATE", &text, "1 or 0")),
            };
        }
        if let Some(text) = get("MEMORY_FRACTION") {
            let fraction = text.parse().ok().filter(is_fraction);
            let expected = "a number above 0 and at most 1";
            options.memory_fraction =
                Some(fraction.ok_or_else(|| bad("MEMORY_FRACTION", &text, expected))?);
        }
        if let Some(text) = get("ALLOCATOR") {
            let allocator = CudaAllocator::ALL.into_iter().find(|one| one.name() == text);
            let expected = "bfc, cuda_async or platform";
            options.allocator = Some(allocator.ok_or_else(|| bad("ALLOCATOR", &text, expected))?);
        }
        if let Some(text) = get("VISIBLE_DEVICES") {
            let numbers: Result<Vec<u32>, _> =
                text.split(',').map(|number| number.trim().parse()).collect();
            let expected = "GPUs' numbers, separated by commas";
            options.visible_devices =
                Some(numbers.map_err(|_| bad("VISIBLE_DEVICES", &text, expected))?);
        }
        Ok(options)
    }

    /// Converts the options to the plugin's.
    pub(super) fn to_plugin(&self) -> Vec<NamedValue> {
        let mut values = vec![NamedValue::new("preallocate", self.preallocate)];
        values.extend(self.memory_fraction.map(|share| NamedValue::new("memory_fraction", share)));
        values.extend(self.allocator.map(|kind| NamedValue::new("allocator", kind.name())));
        values.extend(self.visible_devices.as_ref().map(|devices| {
            let list = devices.iter().copied().map(i64::from).collect();
            NamedValue::new("visible_devices", PjrtValue::Int64List(list))
        }));
        values
    }
}

fn is_fraction(fraction: &f32) -> bool {
    *fraction > 0.0 && *fraction <= 1.0
}

/// Returns the options set by the program, or else those of the environment.
pub(super) fn options_or(environment: CudaOptions) -> CudaOptions {
    OPTIONS.get().cloned().unwrap_or(environment)
}

/// Sets the options of the client, which must not have been created yet.
pub(super) fn set_options(options: CudaOptions) -> Result<(), Error> {
    if let Some(fraction) = options.memory_fraction.filter(|fraction| !is_fraction(fraction)) {
        let message = format!("a memory fraction of {fraction}: it must be above 0 and at most 1");
        return Err(Error::Plugin(message));
    }
    if options.visible_devices.as_ref().is_some_and(Vec::is_empty) {
        return Err(Error::Plugin("no visible GPU: name one, or leave them out for all".into()));
    }
    let set = OPTIONS.get_or_init(|| options.clone());
    if *set == options {
        return Ok(());
    }
    Err(Error::Plugin(format!("other CUDA options were set before: {set:?}, now {options:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, value: &str) -> Result<Vec<String>, String> {
        let options =
            CudaOptions::from_variables(|variable| (variable == name).then(|| value.into()));
        let options = options.map_err(|error| error.to_string())?;
        Ok(options.to_plugin().iter().map(|v| format!("{}={:?}", v.name, v.value)).collect())
    }

    #[test]
    fn options_become_plugin_values() {
        assert_eq!(read("", "").unwrap(), ["preallocate=Bool(false)"]);
        assert_eq!(read("PREALLOCATE", "1").unwrap(), ["preallocate=Bool(true)"]);
        let second = |name, value| read(name, value).unwrap().remove(1);
        assert_eq!(second("MEMORY_FRACTION", "0.5"), "memory_fraction=Float(0.5)");
        assert_eq!(second("ALLOCATOR", "cuda_async"), "allocator=String(\"cuda_async\")");
        assert_eq!(second("VISIBLE_DEVICES", "1, 3"), "visible_devices=Int64List([1, 3])");
    }

    #[test]
    fn invalid_options_are_named() {
        for (name, value, expected) in [
            ("PREALLOCATE", "maybe", "OXIDAX_CUDA_PREALLOCATE is `maybe`; it must be 1 or 0"),
            ("MEMORY_FRACTION", "0", "OXIDAX_CUDA_MEMORY_FRACTION is `0`; it must be a number"),
            ("MEMORY_FRACTION", "NaN", "OXIDAX_CUDA_MEMORY_FRACTION is `NaN`"),
            (
                "ALLOCATOR",
                "malloc",
                "OXIDAX_CUDA_ALLOCATOR is `malloc`; it must be bfc, cuda_async",
            ),
            ("VISIBLE_DEVICES", "all", "OXIDAX_CUDA_VISIBLE_DEVICES is `all`; it must be GPUs'"),
        ] {
            let error = read(name, value).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        for options in [
            CudaOptions { memory_fraction: Some(1.5), ..CudaOptions::default() },
            CudaOptions { visible_devices: Some(Vec::new()), ..CudaOptions::default() },
        ] {
            assert!(set_options(options).is_err());
        }
    }
}
