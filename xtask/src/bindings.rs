//! Generates `crates/pjrt-sys/src/bindings.rs` from a PJRT C header.
//!
//! The generated file is committed, so building oxidax does not need this command. To run it:
//!
//! 1. Unpack the headers of a registry package. The committed file comes from the PyPI wheel
//!    `tensorflow-cpu 2.21.0` (PJRT C API 0.90): `pip download --no-deps tensorflow-cpu==2.21.0`,
//!    then `unzip tensorflow_cpu-*.whl 'tensorflow/include/xla/*' -d DIR`.
//! 2. Install libclang 18.1.1, for instance from the PyPI package of that name and version, and
//!    point `LIBCLANG_PATH` at the folder that holds `libclang.so`.
//! 3. `cargo xtask bindings --header DIR/tensorflow/include/xla/pjrt/c/pjrt_c_api.h`
//!
//! PyPI's libclang lacks the compiler's headers (`stddef.h`, `stdbool.h`), so the include folder of
//! the installed `gcc` is passed to it. Comments are removed and `prettyplease` formats the file,
//! so the result does not depend on the machine's paths or `rustfmt`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// The headers whose types end up in the bindings, relative to the include root.
const HEADERS: &[&str] = &[
    "xla/pjrt/c/pjrt_c_api.h",
    "xla/pjrt/c/pjrt_c_api_ffi_extension.h",
    "xla/pjrt/c/pjrt_c_api_layouts_extension.h",
    "xla/pjrt/c/pjrt_c_api_memory_descriptions_extension.h",
    "xla/pjrt/c/pjrt_c_api_phase_compile_extension.h",
    "xla/pjrt/c/pjrt_c_api_profiler_extension.h",
    "xla/pjrt/c/pjrt_c_api_stream_extension.h",
    "xla/ffi/api/c_api.h",
];

/// Regenerates the bindings from the `pjrt_c_api.h` inside an unpacked include tree.
pub(crate) fn run(header: &Path) -> Result<()> {
    let text = generate(header)?;
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/pjrt-sys/src/bindings.rs");
    std::fs::write(&target, text).with_context(|| format!("writing {}", target.display()))
}

fn generate(header: &Path) -> Result<String> {
    let root = include_root(header)?;
    let includes: String = HEADERS.iter().map(|name| format!("#include \"{name}\"\n")).collect();
    let bindings = bindgen::Builder::default()
        .header_contents("pjrt.h", &includes)
        .clang_arg(format!("-I{}", root.display()))
        .clang_arg(format!("-I{}", compiler_include()?.display()))
        .clang_arg("-std=c11")
        .allowlist_type("(PJRT|XLA_FFI|PLUGIN_Profiler)_.*")
        .allowlist_var("PJRT_API_(MAJOR|MINOR|.*_EXTENSION_VERSION)")
        .allowlist_var("XLA_FFI_API_(MAJOR|MINOR)")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .generate_comments(false)
        .derive_default(true)
        .layout_tests(true)
        .use_core()
        .rust_target(rust_target()?)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .formatter(bindgen::Formatter::Prettyplease)
        .generate()
        .context("bindgen could not read the header")?;
    Ok(bindings.to_string())
}

/// The oldest compiler that knows edition 2024; the output must not change with a newer one.
fn rust_target() -> Result<bindgen::RustTarget> {
    bindgen::RustTarget::stable(85, 0).map_err(|error| anyhow::anyhow!("{error}"))
}

/// The folder that `#include "xla/..."` is relative to: four levels above the header.
fn include_root(header: &Path) -> Result<PathBuf> {
    ensure!(header.is_file(), "{} is not a file", header.display());
    ensure!(
        header.ends_with(HEADERS[0]),
        "--header must point at .../{}, got {}",
        HEADERS[0],
        header.display()
    );
    let root = header.ancestors().nth(4).context("the header lies too close to the root folder")?;
    if let Some(missing) = HEADERS.iter().find(|name| !root.join(name).is_file()) {
        bail!("{} lacks {missing}: unpack the wheel's whole include/xla folder", root.display());
    }
    Ok(root.to_owned())
}

/// Returns the folder of the C compiler's headers, such as `stddef.h`.
fn compiler_include() -> Result<PathBuf> {
    let output = Command::new("gcc")
        .arg("-print-file-name=include")
        .output()
        .context("running gcc to find the compiler's own headers")?;
    ensure!(output.status.success(), "gcc -print-file-name=include failed");
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}
