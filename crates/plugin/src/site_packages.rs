//! Finds plugins in the Python packages of this host.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::config::Config;
use crate::pins;
use crate::platform::Platform;

/// Python code that prints its package folders, one per line.
const QUESTION: &str = "import site, sysconfig; print(sysconfig.get_path('purelib'), \
sysconfig.get_path('platlib'), site.getusersitepackages(), sep='\\n')";

/// Returns the first plugin for `platform` in the site-packages folders of this host.
///
/// The virtual environment and the well-known folders are searched first. `python3` runs only if
/// they contain no plugin, and at most once per [`Config`].
pub(crate) fn find(platform: Platform, config: &Config) -> Option<PathBuf> {
    let known = well_known(config);
    let in_known = known.iter().find_map(|folder| plugin_in(folder, platform));
    in_known.or_else(|| {
        let asked = config.python_folders.get_or_init(|| ask_python(config));
        asked.iter().find_map(|folder| plugin_in(folder, platform))
    })
}

/// Returns the plugin for `platform` in a site-packages folder.
fn plugin_in(folder: &Path, platform: Platform) -> Option<PathBuf> {
    let present = |relative: &str| Some(folder.join(relative)).filter(|path| path.is_file());
    match platform {
        // Results on the CPU are guaranteed to be bitwise equal on all hosts, so only the pinned
        // build is accepted. Its size distinguishes it from other versions of the same package.
        Platform::Cpu => present(pins::CPU.member)
            .filter(|path| path.metadata().is_ok_and(|m| m.len() == pins::CPU.library_size)),
        Platform::Tpu => present("libtpu/libtpu.so"),
        // `xla_cuda13` before `xla_cuda12`.
        Platform::Cuda => {
            let plugins = folder.join("jax_plugins");
            let mut names: Vec<String> =
                children(&plugins).filter(|name| name.starts_with("xla_cuda")).collect();
            names.sort_by_key(|name| (name.len(), name.clone()));
            let mut newest_first = names.into_iter().rev();
            newest_first.find_map(|name| present(&format!("jax_plugins/{name}/xla_cuda_plugin.so")))
        }
    }
}

/// Returns the folders that are found without Python: the virtual environment's, the user's and the
/// system's.
fn well_known(config: &Config) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut below = |prefix: &Path, leaf: &str| {
        let lib = prefix.join("lib");
        let mut pythons: Vec<String> =
            children(&lib).filter(|name| name.starts_with("python3")).collect();
        // Longer names are later versions: python3.9 sorts before python3.13.
        pythons.sort_by_key(|name| (name.len(), name.clone()));
        folders.extend(pythons.iter().rev().map(|python| lib.join(python).join(leaf)));
    };
    if let Some(environment) = &config.virtual_env {
        below(environment, "site-packages");
    }
    if let Some(home) = &config.home {
        below(&home.join(".local"), "site-packages");
    }
    for leaf in ["site-packages", "dist-packages"] {
        below(&config.root.join("usr/local"), leaf);
        below(&config.root.join("usr"), leaf);
    }
    folders
}

/// Returns the folders that `python3` on the search path prints, or none if it is missing or fails.
fn ask_python(config: &Config) -> Vec<PathBuf> {
    let Some(python) = config.program("python3") else { return Vec::new() };
    let output = Command::new(python)
        // Isolated mode: neither the current folder nor PYTHON variables can inject code.
        .args(["-I", "-c", QUESTION])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect()
        }
        _ => Vec::new(),
    }
}

fn children(folder: &Path) -> impl Iterator<Item = String> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
}
