//! What besides a program decides what the compiler makes of it, and whether that runs here.

use super::config::CompilerVariables;
use oxidax_cache::{KeyBuilder, Store, file_hash, processor};
use oxidax_pjrt::{Client, NamedValue};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Counts up when what is kept, or what goes into keys, changes its meaning.
const VERSION: &str = "1";

/// The plugin, how its client was made, and the compiler's variables as they were then.
pub(super) struct Identity {
    pub(super) plugin: PathBuf,
    /// Of the plugin's file, if somebody has checked it already.
    pub(super) sha256: Option<String>,
    pub(super) options: Vec<NamedValue>,
    pub(super) variables: CompilerVariables,
    /// The beginning of every key, or why there are no keys.
    start: OnceLock<Result<KeyBuilder, String>>,
}

impl Identity {
    pub(super) fn new(
        plugin: &oxidax_plugin::Plugin,
        options: Vec<NamedValue>,
        variables: CompilerVariables,
    ) -> Identity {
        let (plugin, sha256) = (plugin.path.clone(), plugin.sha256.clone());
        Identity { plugin, sha256, options, variables, start: OnceLock::new() }
    }

    /// The beginning of the keys of all programs of a client; hashed once.
    ///
    /// # Errors
    /// Why its programs cannot be kept.
    pub(super) fn key(&self, client: &Client, store: &Store) -> Result<KeyBuilder, String> {
        self.start.get_or_init(|| self.made(client, store)).clone()
    }

    /// SHA-256 of the plugin's file.
    pub(super) fn plugin_hash(&self, store: Option<&Store>) -> Result<String, oxidax_cache::Error> {
        match &self.sha256 {
            Some(known) => Ok(known.clone()),
            None => file_hash(&self.plugin, store),
        }
    }

    fn made(&self, client: &Client, store: &Store) -> Result<KeyBuilder, String> {
        if self.variables.ask_for_files() {
            return Err(
                "XLA_FLAGS asks the compiler to write files, which it does if it compiles".into()
            );
        }
        let sha256 = self.plugin_hash(Some(store)).map_err(|error| error.to_string())?;
        let mut key = KeyBuilder::new();
        key.part("version", VERSION.as_bytes());
        // Neither a version number nor a modification time tells two builds apart as surely as the file does.
        key.part("plugin", sha256.as_bytes());
        key.part("platform", client.platform_name().as_bytes());
        key.part("platform version", client.platform_version().as_bytes());
        key.part("options", format!("{:?}", self.options).as_bytes());
        key.part("variables", format!("{:?}", self.variables).as_bytes());
        let (index, count) = (super::process_index(), super::process_count());
        key.part("process", format!("{index} of {count}").as_bytes());
        for device in client.devices() {
            let (id, process) = (device.id(), device.process_index());
            let facts = device.attributes().unwrap_or_default();
            let text = format!("{id} {process} {} {facts:?}", device.kind());
            key.part("device", text.as_bytes());
        }
        if client.is_cpu() {
            // The program is machine code for this very processor.
            let Some(processor) = processor() else {
                return Err("this system does not tell what its processor is".into());
            };
            key.part("processor", processor.as_bytes());
        }
        Ok(key)
    }
}
