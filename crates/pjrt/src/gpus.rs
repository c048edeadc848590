//! GPU topologies: compiling for GPUs without having one.
//!
//! XLA describes the GPUs that it supports in text protocol buffers, which are embedded in the CUDA
//! plugin's file. The plugin accepts such a text as the option `target_config` of a topology.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::named_value::NamedValue;
use crate::plugin::Plugin;
use crate::topology::TopologyDescription;

/// Short names, and the GPU's name in XLA's descriptions.
const KNOWN: [(&str, &str); 13] = [
    ("p100", "Tesla P100-SXM2-16GB"),
    ("v100", "Tesla V100-SXM2-16GB"),
    ("a100", "NVIDIA A100-SXM4-80GB"),
    ("a100-40gb", "NVIDIA A100-SXM4-40GB"),
    ("a100-pcie", "NVIDIA A100 80GB PCIe"),
    ("rtx-a6000", "NVIDIA RTX A6000"),
    ("h100", "NVIDIA H100 80GB HBM3"),
    ("h100-pcie", "NVIDIA H100 PCIe"),
    ("h200", "NVIDIA H200 141GB HBM3e"),
    ("b200", "NVIDIA B200"),
    ("b300", "NVIDIA B300"),
    ("gb200", "NVIDIA GB200"),
    ("gb300", "NVIDIA GB300"),
];

impl TopologyDescription {
    /// Returns a topology of `devices` GPUs of one kind in one host, from the CUDA plugin. `kind`
    /// is a short name such as `h100`, `h200`, `a100` or `b200`, or a name in XLA's descriptions
    /// such as `NVIDIA H100 PCIe`. Neither a GPU nor a driver is required.
    ///
    /// Compiling requires `ptxas` and `libdevice` of CUDA. `oxidax plugin install cuda` installs
    /// both where the plugin finds them, and so does `pip` for a plugin in Python's site-packages.
    /// For a CUDA installation elsewhere, set the compiler option `xla_gpu_cuda_data_dir`.
    ///
    /// The first topology takes as long as reading the plugin's file (0.4 GB).
    ///
    /// # Errors
    /// [`Error::Invalid`] for a kind that the plugin does not describe, with a list of the
    /// described kinds, and for fewer than one device; [`Error::Status`].
    ///
    /// # Example
    /// ```no_run
    /// # use oxidax_pjrt::{Plugin, TopologyDescription};
    /// let cuda = Plugin::load("xla_cuda_plugin.so".as_ref())?;
    /// let topology = TopologyDescription::of_gpus(cuda, "h100", 8)?;
    /// println!("{}", topology.devices()?[7].kind); // NVIDIA H100 80GB HBM3
    /// # Ok::<(), oxidax_pjrt::Error>(())
    /// ```
    pub fn of_gpus(plugin: Plugin, kind: &str, devices: usize) -> Result<Self> {
        let invalid = |message: String| Error::invalid("topology of GPUs", message);
        if devices == 0 {
            return Err(invalid(format!("{devices} GPUs of kind {kind}: it takes one at least")));
        }
        let known = KNOWN.iter().find(|(short, _)| short.eq_ignore_ascii_case(kind));
        let wanted = known.map_or(kind, |(_, name)| name);
        let all = descriptions(plugin)
            .map_err(|error| invalid(format!("reading {}: {error}", plugin.path().display())))?;
        let Some((_, description)) = all.iter().find(|(name, _)| name == wanted) else {
            let described: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
            let short = KNOWN.iter().filter(|(_, name)| described.contains(name));
            let short: Vec<&str> = short.map(|(short, _)| *short).collect();
            return Err(invalid(format!(
                "plugin {plugin} describes no GPU `{kind}`; short names of those that it does: {}; all: {}",
                listed(&short),
                listed(&described),
            )));
        };
        let options = [
            // The number of slices, hosts per slice and GPUs per host.
            NamedValue::new("topology", format!("1x1x{devices}")),
            NamedValue::new("target_config", description.clone()),
        ];
        Self::named(plugin, "", &options)
    }
}

/// The field of a description that names the GPU.
const NAME: &[u8] = b"device_description_str: \"";

/// Names and descriptions of GPUs.
type Descriptions = Arc<[(String, String)]>;

/// Returns the GPUs that a plugin describes. The result is cached, because reading the plugin's
/// file takes at least a tenth of a second.
fn descriptions(plugin: Plugin) -> std::io::Result<Descriptions> {
    static READ: Mutex<Vec<(Plugin, Descriptions)>> = Mutex::new(Vec::new());
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = read.iter().find(|(known, _)| *known == plugin) {
        return Ok(Arc::clone(known));
    }
    let found: Descriptions = described_in(&std::fs::read(plugin.path())?).into();
    read.push((plugin, Arc::clone(&found)));
    Ok(found)
}

/// Returns the GPUs that a file describes, by name. Each description is the C string that contains
/// the name.
fn described_in(file: &[u8]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = find(&file[from..], NAME) {
        from += at + NAME.len();
        let name = file[from..].iter().take(100).position(|&byte| byte == b'"');
        let begin = file[..from].iter().rposition(|&byte| byte == 0).map_or(0, |zero| zero + 1);
        let end = file[from..].iter().position(|&byte| byte == 0);
        let text = |part: &[u8]| std::str::from_utf8(part).ok().map(str::to_owned);
        if let (Some(name), Some(end)) = (name, end)
            && let (Some(name), Some(whole)) =
                (text(&file[from..from + name]), text(&file[begin..from + end]))
        {
            found.push((name, whole));
        }
    }
    found.sort();
    found
}

/// Returns the index at which `needle`, which is not empty, begins.
fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    // Most bytes of a library differ from the first byte of the needle.
    let last = hay.len().checked_sub(needle.len())?;
    let mut from = 0;
    while from <= last {
        from += hay[from..=last].iter().position(|byte| *byte == needle[0])?;
        if hay[from..].starts_with(needle) {
            return Some(from);
        }
        from += 1;
    }
    None
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] =
        b"\x7fELF\0\xff\0# one\ncore_count: 1\ndevice_description_str: \"NVIDIA A\"\n\0device\0\
        device_description_str: \"NVIDIA A PCIe\"\0\0";

    #[test]
    fn gpu_description_is_the_string_that_contains_the_name() {
        let whole = "# one\ncore_count: 1\ndevice_description_str: \"NVIDIA A\"\n";
        let short = "device_description_str: \"NVIDIA A PCIe\"";
        let expected = [("NVIDIA A", whole), ("NVIDIA A PCIe", short)];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(described_in(FILE), expected);
        // The file is cut short within the last string, or within the name of the described GPU.
        assert_eq!(described_in(&FILE[..FILE.len() - 2]), expected[..1]);
        assert_eq!(described_in(b"device_description_str: \"NVI"), []);
        assert_eq!(described_in(b"device_descr"), []);
    }
}
