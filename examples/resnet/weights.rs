//! Loads torchvision's weights: safetensors with its names and kernels `[out, in, height, width]`.

use super::model::{Config, ResNet, Stats};
use anyhow::{Context, ensure};
use oxidax::prelude::*;
use std::path::Path;

/// A model with its running statistics.
#[derive(Tree, Clone, Debug)]
pub struct Weights {
    pub model: ResNet,
    pub stats: Stats,
}

impl Weights {
    pub fn new(key: random::Key, config: &Config) -> Weights {
        let model = ResNet::new(key, config);
        Weights { stats: model.stats(), model }
    }
}

/// Opens a file under the paths of [`Weights`]: `layer1.0.conv2.weight` becomes
/// `model.trunk.stages[0][0].main[1].conv.weight`.
fn open(path: &Path) -> Result<checkpoint::Reader, Error> {
    let mut reader = checkpoint::open(path)?
        .rename("conv1.*", "stem.conv.*")
        .rename("bn1.*", "stem.norm.*")
        .rename("fc.*", "model.head.*");
    for stage in 0..4 {
        let (stored, ours) = (format!("layer{}", stage + 1), format!("stages[{stage}]"));
        reader = reader
            .rename(&format!("{stored}.*.downsample.0.*"), &format!("{ours}[*].shortcut.conv.*"))
            .rename(&format!("{stored}.*.downsample.1.*"), &format!("{ours}[*].shortcut.norm.*"));
        for (at, number) in (1..=3).enumerate() {
            let main = format!("{ours}[*].main[{at}]");
            reader = reader
                .rename(&format!("{stored}.*.conv{number}.*"), &format!("{main}.conv.*"))
                .rename(&format!("{stored}.*.bn{number}.*"), &format!("{main}.norm.*"));
        }
    }
    Ok(reader
        .rename("*.norm.running_mean", "stats.*.mean")
        .rename("*.norm.running_var", "stats.*.var")
        .rename("*.norm.weight", "model.trunk.*.norm.scale")
        .rename("*.norm.bias", "model.trunk.*.norm.bias")
        .rename("*.conv.weight", "model.trunk.*.conv.weight")
        .transpose("*.conv.weight", [2, 3, 1, 0])
        .transpose("model.head.weight", [1, 0])
        .convert(["*"])
        // The number of batches behind the statistics.
        .ignore(["*.num_batches_tracked"]))
}

/// Loads weights in `f32`. If the file has another number of classes than the template, the head
/// stays the template's, and the second result is the file's number of classes.
pub fn load(path: &Path, template: &Weights) -> anyhow::Result<(Weights, Option<usize>)> {
    let reader = open(path)?;
    let types = reader.types()?;
    let head = types.get("model.head.bias").with_context(|| {
        format!("{}: no `fc.bias`; the file does not have torchvision's names", path.display())
    })?;
    ensure!(head.rank() == 1, "{}: `fc.bias` is {head}, expected one axis", path.display());
    let stored = head.shape[0];
    let [_, classes] = template.model.head.weight.dims();
    if stored == classes {
        return Ok((reader.load(template)?, None));
    }
    let reader =
        reader.rename("model.head.*", "other.*").ignore(["other.*"]).keep(["model.head.*"]);
    Ok((reader.load(template)?, Some(stored)))
}
