//! The profilers of plugins: they record what devices do, while a profile of the host is recorded.

use oxidax_pjrt::{Error, Plugin, Profiler, ProfilerOptions};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The type of the extension in the C header.
const PROFILER: u32 = 1;

/// The recording of a plugin's profiler.
pub(crate) struct PluginRecording {
    /// The plugin's file name.
    pub(crate) plugin: &'static str,
    /// A serialized `tensorflow.profiler.XSpace`.
    pub(crate) space: Vec<u8>,
}

/// The profilers that run.
struct Running {
    options: ProfilerOptions,
    profilers: Vec<Profiler>,
}

/// The profilers that run; `None` while no profile is recorded.
static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

fn running() -> MutexGuard<'static, Option<Running>> {
    // The list is valid at every point at which a thread could panic.
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Loads a plugin. While a profile is recorded, its profiler starts.
pub(super) fn load_plugin(path: &Path) -> oxidax_pjrt::Result<Plugin> {
    let plugin = Plugin::load(path)?;
    if let Some(Running { options, profilers }) = &mut *running()
        && profilers.iter().all(|profiler| profiler.plugin() != plugin)
    {
        profilers.extend(start(plugin, options));
    }
    Ok(plugin)
}

/// Starts the profilers of all plugins that are loaded. Plugins without one, as the CPU plugin, are
/// left out.
pub(crate) fn start_plugin_profilers(options: ProfilerOptions) {
    let mut running = running();
    let plugins = Plugin::loaded().into_iter();
    let profilers = plugins.filter_map(|plugin| start(plugin, &options)).collect();
    *running = Some(Running { options, profilers });
}

/// Returns true for a plugin with a profiler.
pub(super) fn has_profiler(plugin: Plugin) -> bool {
    plugin.extensions().contains(&PROFILER)
}

fn start(plugin: Plugin, options: &ProfilerOptions) -> Option<Profiler> {
    match Profiler::start(plugin, options) {
        Ok(profiler) => Some(profiler),
        Err(Error::Missing { .. }) => None,
        Err(error) => {
            not_recorded(plugin, &error);
            None
        }
    }
}

/// Stops the profilers and returns what they recorded.
pub(crate) fn stop_plugin_profilers() -> Vec<PluginRecording> {
    let running = running().take();
    let profilers = running.map(|running| running.profilers).unwrap_or_default();
    let each = profilers.into_iter().filter_map(|profiler| {
        let plugin = profiler.plugin();
        match profiler.stop() {
            Ok(space) => Some(PluginRecording { plugin: plugin.name(), space }),
            Err(error) => {
                not_recorded(plugin, &error);
                None
            }
        }
    });
    each.collect()
}

fn not_recorded(plugin: Plugin, error: &Error) {
    tracing::warn!(
        target: "oxidax::profile",
        %plugin,
        %error,
        "the profile has no events of this plugin's devices"
    );
}
