//! The folder to which lowered programs are written.

use super::config::RuntimeConfig;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

/// The folder that the program has set, and `None` within for no folder. The outer `None` stands
/// for the environment's.
static FOLDER: RwLock<Option<Option<PathBuf>>> = RwLock::new(None);

/// Sets the folder of the process; `None` for no files.
pub(crate) fn set_dump_ir_to(folder: Option<PathBuf>) {
    *FOLDER.write().unwrap_or_else(PoisonError::into_inner) = Some(folder);
}

/// Returns the folder in force.
pub(crate) fn dump_ir_to() -> Option<PathBuf> {
    if let Some(folder) = &*FOLDER.read().unwrap_or_else(PoisonError::into_inner) {
        return folder.clone();
    }
    // An invalid variable is an error once a client is created.
    let folder = RuntimeConfig::from_env().ok().and_then(|config| config.dump_ir_to);
    let mut current = FOLDER.write().unwrap_or_else(PoisonError::into_inner);
    current.get_or_insert(folder).clone()
}

/// Writes the text of a program that is about to be compiled, if there is a folder. A failure is
/// logged.
pub(super) fn dump_ir(name: &str, text: &str) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let Some(folder) = dump_ir_to() else { return };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).take(80).collect();
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("oxidax_{}_{number:05}_{plain}.mlir", std::process::id()));
    if let Err(error) = write(&folder, &path, text) {
        let path = path.display();
        tracing::warn!(target: "oxidax::jit", %path, %error, "the program is not written");
    }
}

fn write(folder: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(path, text)
}
