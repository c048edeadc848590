//! Turns traced JAX functions into readable Rust.
//!
//! `python-compat/port.py` traces a Python function with JAX and writes a file. [`port`] reads the
//! file and returns the source of a Rust module: a function for each Python function, structs for
//! dicts and dataclasses, comments with the Python lines, and a test that compares the results with
//! those of JAX. The `oxidax port` command is built on it.
//!
//! A file is untrusted: wrong bytes give a [`PortError`].

#![forbid(unsafe_code)]

mod error;
mod file;
mod fold;
mod format;
mod index_patterns;
mod ir;
mod library;
mod load;
mod names;
mod patterns;
mod types;
mod write;

pub use error::PortError;
pub use format::rustfmt;

use file::File;
use load::Loader;

/// Options of [`port`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// The folder of the safetensors file below the package's, with a slash at its end. `data/` by
    /// default.
    pub data_folder: String,
    /// The tolerance of the test, absolute and relative. 1e-5 by default.
    pub tolerance: f64,
}

impl Default for Options {
    fn default() -> Options {
        Options { data_folder: "data/".into(), tolerance: 1e-5 }
    }
}

/// A ported function.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ported {
    /// The name of the Python function, as a Rust name.
    pub name: String,
    /// The source of the module. [`rustfmt`] formats it.
    pub source: String,
    /// The name of the safetensors file that its test reads.
    pub tensors: String,
}

/// Turns a file of `port.py` into a Rust module.
///
/// # Errors
/// [`PortError::File`] for a damaged file, [`PortError::Version`] for one of another version, and
/// [`PortError::Unsupported`] for an operation that has no translation yet.
///
/// ```
/// let error = oxidax_port::port(b"{}", &oxidax_port::Options::default()).unwrap_err();
/// assert!(error.to_string().contains("oxidax-port"));
/// ```
pub fn port(bytes: &[u8], options: &Options) -> Result<Ported, PortError> {
    let file = File::parse(bytes)?;
    let mut loader = Loader::new(&file);
    let body = loader.top()?;
    let source = write::program(&file, loader.avals, &body, options)?;
    Ok(Ported { name: names::snake(&file.name), source, tensors: file.tensors.clone() })
}
