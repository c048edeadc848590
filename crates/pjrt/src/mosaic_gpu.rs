//! Files that the CUDA plugin needs to compile kernels of Mosaic GPU.
//!
//! The plugin finds a library by an environment variable, and ends the process if it does not find
//! NVIDIA's library of functions. It assembles all kernels of a process for the architecture of the
//! first one, so that a later one for another architecture fails, or has the wrong code. All of
//! this is checked first. Measured with `jax-cuda13-pjrt` 0.12.0.1.

use crate::environment;
use crate::error::{Error, Result};
use crate::named_value::{NamedValue, PjrtValue};
use crate::plugin::Plugin;
use crate::program::PjrtProgram;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The variable with the path of the runtime library, which the plugin reads when it compiles.
const VARIABLE: &str = "MOSAIC_GPU_RUNTIME_LIB_PATH";
const RUNTIME: &str = "libmosaic_gpu_runtime.so";
const LIBDEVICE: &str = "nvvm/libdevice/libdevice.10.bc";
/// The target of a call of such a kernel.
const TARGET: &[u8] = b"mosaic_gpu_v2";

/// Compiles a program. If it calls kernels of Mosaic GPU, the plugin finds the runtime library that
/// is stored in a folder beside its own, as in the cache and in Python's site-packages.
///
/// # Errors
/// [`Error::Invalid`] if such a program's runtime library or NVIDIA's library of functions is
/// missing, or if the process has compiled such a kernel for another architecture; those of
/// `compile`. `attributes` returns the attributes of a device.
pub(crate) fn with_runtime<T>(
    plugin: Plugin,
    program: &PjrtProgram,
    attributes: impl FnOnce() -> Result<Vec<NamedValue>>,
    compile: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let is_kernel = |code: &[u8]| code.windows(TARGET.len()).any(|window| window == TARGET);
    let is_cuda = plugin.path().to_string_lossy().contains("cuda");
    if !is_cuda || !is_kernel(program.code()) {
        return compile();
    }
    let runtime = runtime(plugin.path())?;
    static ARCHITECTURE: Mutex<Option<String>> = Mutex::new(None);
    // Held while the plugin compiles: the environment is exchanged by one thread at a time.
    let mut first = ARCHITECTURE.lock().unwrap_or_else(PoisonError::into_inner);
    check_architecture(&mut first, architecture(&attributes()?))?;
    environment::lend(&[(VARIABLE, runtime.to_string_lossy().into_owned())], compile)
}

/// Returns the compute capability among the attributes of a GPU.
fn architecture(attributes: &[NamedValue]) -> Option<String> {
    let capability = attributes.iter().find(|attribute| attribute.name == "compute_capability");
    capability.and_then(|attribute| match &attribute.value {
        PjrtValue::String(text) => Some(text.clone()),
        _ => None,
    })
}

/// Keeps the first architecture, and refuses others.
fn check_architecture(first: &mut Option<String>, architecture: Option<String>) -> Result<()> {
    let Some(architecture) = architecture else { return Ok(()) };
    let first = first.get_or_insert_with(|| architecture.clone());
    if *first == architecture {
        return Ok(());
    }
    let message = format!(
        "a kernel of Mosaic GPU for compute capability {architecture}, in a process that has \
         compiled one for {first}: the plugin compiles all of them for the first; compile this \
         program in another process"
    );
    Err(Error::invalid("compile", message))
}

/// Returns the runtime library for a plugin's file.
fn runtime(plugin: &Path) -> Result<PathBuf> {
    let folders = || plugin.ancestors().skip(2).take(2);
    let named = environment::variable(VARIABLE).map(PathBuf::from);
    let beside = folders().map(|folder| folder.join("jax_cuda13_plugin").join(RUNTIME));
    let Some(runtime) = named.into_iter().chain(beside).find(|file| file.is_file()) else {
        return Err(missing(RUNTIME));
    };
    let inside = plugin.parent().map(|folder| folder.join("cuda"));
    let toolkits = folders().map(|folder| folder.join("nvidia/cu13"));
    let system = ["./cuda_sdk_lib", "/usr/local/cuda"].map(PathBuf::from);
    match inside.into_iter().chain(toolkits).chain(system).any(|of| of.join(LIBDEVICE).is_file()) {
        true => Ok(runtime),
        false => Err(missing(LIBDEVICE)),
    }
}

fn missing(file: &str) -> Error {
    let message = format!(
        "the program has a kernel of Mosaic GPU, and `{file}` is not beside the plugin: run \
         `oxidax plugin install cuda`, or `pip install jax-cuda13-plugin[with-cuda]` for a plugin \
         in site-packages"
    );
    Error::invalid("compile", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_compiles_for_one_architecture() {
        let mut first = None;
        let mut check = |name: &str| check_architecture(&mut first, Some(name.to_string()));
        check("9.0").and_then(|()| check("9.0")).expect("the same one");
        let error = check("8.0").expect_err("another one").to_string();
        assert!(error.contains("8.0") && error.contains("compiled one for 9.0"), "{error}");
        assert!(error.contains("in another process"), "{error}");
        let attributes = [NamedValue::new("compute_capability", "9.0")];
        assert_eq!(architecture(&attributes).as_deref(), Some("9.0"));
    }

    #[test]
    fn a_missing_runtime_is_an_error_with_its_remedy() {
        let folder = std::env::temp_dir().join(format!("oxidax-mosaic-{}", std::process::id()));
        let plugin = folder.join("jax-cuda13-pjrt-0/xla_cuda_plugin.so");
        let write = |file: &str| {
            let file = folder.join(file);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            std::fs::write(file, "").expect("a file");
        };
        if environment::variable(VARIABLE).is_none() {
            let error = runtime(&plugin).expect_err("no library").to_string();
            assert!(error.contains(RUNTIME) && error.contains("plugin install cuda"), "{error}");
        }
        write("jax_cuda13_plugin/libmosaic_gpu_runtime.so");
        write("nvidia/cu13/nvvm/libdevice/libdevice.10.bc");
        let found = runtime(&plugin).expect("both are there");
        assert!(found.ends_with(RUNTIME), "{}", found.display());
        std::fs::remove_dir_all(&folder).expect("the folder is removed");
    }
}
