//! [`CacheKeyPrefix`]: the part of a disk cache key that is common to all programs of a client.

use super::config::CompilerVariables;
use oxidax_cache::{CacheKeyBuilder, Store, file_hash, processor};
use oxidax_pjrt::{Client, NamedValue};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Version of the entries and of their keys; incremented when the meaning of either changes.
const VERSION: &str = "1";

/// The plugin, its client's options and the compiler's environment variables.
pub(super) struct CacheKeyPrefix {
    pub(super) plugin: PathBuf,
    /// Digest of the plugin's file, if it has been verified already.
    pub(super) sha256: Option<String>,
    pub(super) options: Vec<NamedValue>,
    pub(super) variables: CompilerVariables,
    /// The hashed prefix, or the reason why programs cannot be cached.
    prefix: OnceLock<Result<CacheKeyBuilder, String>>,
}

impl CacheKeyPrefix {
    pub(super) fn new(
        plugin: &oxidax_plugin::PluginFile,
        options: Vec<NamedValue>,
        variables: CompilerVariables,
    ) -> CacheKeyPrefix {
        let (plugin, sha256) = (plugin.path.clone(), plugin.sha256.clone());
        CacheKeyPrefix { plugin, sha256, options, variables, prefix: OnceLock::new() }
    }

    /// Returns the hashed prefix; computed once.
    ///
    /// # Errors
    /// The reason why programs cannot be cached.
    pub(super) fn builder(
        &self,
        client: &Client,
        store: &Store,
    ) -> Result<CacheKeyBuilder, String> {
        self.prefix.get_or_init(|| self.hash(client, store)).clone()
    }

    /// Returns the SHA-256 digest of the plugin's file.
    pub(super) fn plugin_hash(&self, store: Option<&Store>) -> Result<String, oxidax_cache::Error> {
        match &self.sha256 {
            Some(sha256) => Ok(sha256.clone()),
            None => file_hash(&self.plugin, store),
        }
    }

    fn hash(&self, client: &Client, store: &Store) -> Result<CacheKeyBuilder, String> {
        if self.variables.request_dumps() {
            return Err("XLA_FLAGS requests dumps, which only a compilation writes".into());
        }
        let sha256 = self.plugin_hash(Some(store)).map_err(|error| error.to_string())?;
        let mut key = CacheKeyBuilder::new();
        key.part("version", VERSION.as_bytes());
        // Version numbers and modification times do not always distinguish two builds; the digest
        // of the file does.
        key.part("plugin", sha256.as_bytes());
        key.part("platform", client.platform_name().as_bytes());
        key.part("platform version", client.platform_version().as_bytes());
        key.part("options", format!("{:?}", self.options).as_bytes());
        key.part("variables", format!("{:?}", self.variables).as_bytes());
        for device in client.devices() {
            let (id, process) = (device.id(), device.process_index());
            let facts = device.attributes().unwrap_or_default();
            let text = format!("{id} {process} {} {facts:?}", device.kind());
            key.part("device", text.as_bytes());
        }
        if client.is_cpu() {
            // The program is machine code for this processor.
            let Some(processor) = processor() else {
                return Err("the system does not report its processor".into());
            };
            key.part("processor", processor.as_bytes());
        }
        Ok(key)
    }
}
