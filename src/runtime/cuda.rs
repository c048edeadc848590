//! What a CUDA client is told about memory and devices.

use crate::core::Error;
use oxidax_pjrt::{NamedValue, Value};
use std::sync::OnceLock;

/// How GPUs hand out memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CudaAllocator {
    /// Best fit with coalescing, in XLA's own pool: the plugin's default.
    Bfc,
    /// The driver's asynchronous pool (`cudaMallocAsync`), which other libraries of the process may share.
    CudaAsync,
    /// A call of the driver for each buffer: slow, and the least memory.
    Platform,
}

impl CudaAllocator {
    const ALL: [CudaAllocator; 3] =
        [CudaAllocator::Bfc, CudaAllocator::CudaAsync, CudaAllocator::Platform];

    /// As PJRT and `OXIDAX_CUDA_ALLOCATOR` spell it.
    fn name(self) -> &'static str {
        match self {
            CudaAllocator::Bfc => "bfc",
            CudaAllocator::CudaAsync => "cuda_async",
            CudaAllocator::Platform => "platform",
        }
    }
}

/// Settings of the CUDA client. The default takes memory as it is needed, from all GPUs of the host.
///
/// | field | environment variable | unless set |
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
    /// Whether each GPU's share of memory is taken when the client is made. Faster in the first steps, and nothing else
    /// on the GPU can use what is left over.
    pub preallocate: bool,
    /// The share of each GPU's memory that this process takes at most, above 0 and at most 1.
    pub memory_fraction: Option<f32>,
    /// How memory is handed out.
    pub allocator: Option<CudaAllocator>,
    /// Which of the host's GPUs to use, by the driver's numbers.
    pub visible_devices: Option<Vec<u32>>,
}

/// What the program itself asked for.
static ASKED: OnceLock<CudaOptions> = OnceLock::new();

impl CudaOptions {
    /// Reads settings from variables, given by the part of their names behind `OXIDAX_CUDA_`.
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
            let fraction = text.parse().ok().filter(is_share);
            let expected = "a number above 0 and at most 1";
            options.memory_fraction =
                Some(fraction.ok_or_else(|| bad("MEMORY_FRACTION", &text, expected))?);
        }
        if let Some(text) = get("ALLOCATOR") {
            let found = CudaAllocator::ALL.into_iter().find(|known| known.name() == text);
            let expected = "bfc, cuda_async or platform";
            options.allocator = Some(found.ok_or_else(|| bad("ALLOCATOR", &text, expected))?);
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

    /// As the plugin takes them.
    pub(super) fn to_plugin(&self) -> Vec<NamedValue> {
        let mut values = vec![NamedValue::new("preallocate", self.preallocate)];
        values.extend(self.memory_fraction.map(|share| NamedValue::new("memory_fraction", share)));
        values.extend(self.allocator.map(|known| NamedValue::new("allocator", known.name())));
        values.extend(self.visible_devices.as_ref().map(|devices| {
            let list = devices.iter().copied().map(i64::from).collect();
            NamedValue::new("visible_devices", Value::Int64List(list))
        }));
        values
    }
}

fn is_share(fraction: &f32) -> bool {
    *fraction > 0.0 && *fraction <= 1.0
}

/// What the program asked for, else what the environment says.
pub(super) fn asked_or(environment: CudaOptions) -> CudaOptions {
    ASKED.get().cloned().unwrap_or(environment)
}

/// Sets what the client will be made with; the caller makes sure that there is none yet.
pub(super) fn ask(options: CudaOptions) -> Result<(), Error> {
    if let Some(fraction) = options.memory_fraction.filter(|fraction| !is_share(fraction)) {
        let message = format!("a memory fraction of {fraction}: it must be above 0 and at most 1");
        return Err(Error::Plugin(message));
    }
    if options.visible_devices.as_ref().is_some_and(Vec::is_empty) {
        return Err(Error::Plugin("no visible GPU: name one, or leave them out for all".into()));
    }
    let set = ASKED.get_or_init(|| options.clone());
    if *set == options {
        return Ok(());
    }
    Err(Error::Plugin(format!("other CUDA options were set before: {set:?}, now {options:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, value: &str) -> Result<Vec<String>, String> {
        let options = CudaOptions::from_variables(|asked| (asked == name).then(|| value.into()));
        let options = options.map_err(|error| error.to_string())?;
        Ok(options.to_plugin().iter().map(|v| format!("{}={:?}", v.name, v.value)).collect())
    }

    #[test]
    fn memory_is_taken_as_needed_unless_asked_otherwise() {
        assert_eq!(read("", "").unwrap(), ["preallocate=Bool(false)"]);
        assert_eq!(read("PREALLOCATE", "1").unwrap(), ["preallocate=Bool(true)"]);
        let second = |name, value| read(name, value).unwrap().remove(1);
        assert_eq!(second("MEMORY_FRACTION", "0.5"), "memory_fraction=Float(0.5)");
        assert_eq!(second("ALLOCATOR", "cuda_async"), "allocator=String(\"cuda_async\")");
        assert_eq!(second("VISIBLE_DEVICES", "1, 3"), "visible_devices=Int64List([1, 3])");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
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
            assert!(ask(options).is_err());
        }
    }
}
