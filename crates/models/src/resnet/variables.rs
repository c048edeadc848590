//! Parameters with running statistics, and torchvision's weights: safetensors with its names and
//! kernels `[out, in, height, width]`.

use super::{ResNet, ResNetConfig, ResNetStats};
use oxidax::prelude::*;
use std::path::Path;

/// A network with its running statistics: the `variables` of Flax, the `state_dict` of PyTorch.
#[doc(alias("variables", "state_dict"))]
#[derive(Tree, Clone, Debug)]
pub struct ResNetVariables {
    /// The parameters.
    pub model: ResNet,
    /// The running statistics.
    pub stats: ResNetStats,
}

/// The origin of the head that [`ResNetVariables::load_pretrained`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSource {
    /// The head was loaded: the file has the template's number of classes.
    File,
    /// The head is the template's.
    Template {
        /// Number of classes in the file.
        stored_classes: usize,
    },
}

impl ResNetVariables {
    /// Initializes a network in `f32`, with mean 0 and variance 1.
    ///
    /// ```
    /// use oxidax::prelude::*;
    /// use oxidax_models::resnet::{ResNetConfig, ResNetVariables};
    /// let config = ResNetConfig::resnet18(10);
    /// let new = move |key| ResNetVariables::new(key, &config);
    /// let network = eval_shape(new, random::Key::of_type())?;
    /// assert_eq!(network.model.head.weight.aval().to_string(), "f32[512,10]");
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn new(key: random::Key, config: &ResNetConfig) -> ResNetVariables {
        let model = ResNet::new(key, config);
        ResNetVariables { stats: model.stats(), model }
    }

    /// Loads a safetensors file with torchvision's names, such as `layer1.0.conv1.weight` and
    /// `bn1.running_mean`. Leaves are `f32`: narrower weights are widened.
    ///
    /// PyTorch's `.pth` files are pickles, which execute code when loaded, and are not accepted.
    /// Convert them with `safetensors.torch.save_file(model.state_dict(), path)`.
    ///
    /// # Errors
    /// `Io` if the file cannot be read. `Checkpoint` if it has other names, another depth or
    /// another number of classes; the error names the leaves.
    ///
    /// ```no_run
    /// use oxidax_models::resnet::{ResNetConfig, ResNetVariables};
    /// let config = ResNetConfig::resnet50(1000);
    /// let network = ResNetVariables::load("resnet50.safetensors", &config)?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn load(path: impl AsRef<Path>, config: &ResNetConfig) -> Result<ResNetVariables, Error> {
        let (path, config) = (path.as_ref(), *config);
        let new = move |key: random::Key| ResNetVariables::new(key, &config);
        let template = eval_shape(new, random::Key::of_type())?;
        let reader = open(path)?;
        stored_classes(path, &reader)?;
        reader.load(&template)
    }

    /// Loads weights into a network that may have another number of classes, for fine-tuning. Then
    /// everything but the head is loaded, and the head stays the template's.
    ///
    /// # Errors
    /// `Io` if the file cannot be read. `Checkpoint` if it has other names or another depth; the
    /// error names the leaves.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// use oxidax_models::resnet::{HeadSource, ResNetConfig, ResNetVariables};
    /// let config = ResNetConfig::resnet50(10);
    /// let fresh = ResNetVariables::new(random::key(0), &config);
    /// let (network, head) = ResNetVariables::load_pretrained("resnet50.safetensors", &fresh)?;
    /// if let HeadSource::Template { stored_classes } = head {
    ///     println!("the head for {stored_classes} classes is replaced by a fresh one");
    /// }
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn load_pretrained(
        path: impl AsRef<Path>,
        template: &ResNetVariables,
    ) -> Result<(ResNetVariables, HeadSource), Error> {
        let path = path.as_ref();
        let reader = open(path)?;
        let stored_classes = stored_classes(path, &reader)?;
        let [_, classes] = template.model.head.weight.dims();
        if stored_classes == classes {
            return Ok((reader.load(template)?, HeadSource::File));
        }
        let reader =
            reader.rename("model.head.*", "other.*").ignore(["other.*"]).keep(["model.head.*"]);
        Ok((reader.load(template)?, HeadSource::Template { stored_classes }))
    }
}

/// Returns the number of classes in a file.
fn stored_classes(path: &Path, reader: &checkpoint::Reader) -> Result<usize, Error> {
    let refused = |message: String| Error::Checkpoint { path: path.to_path_buf(), message };
    let types = reader.types()?;
    let head = types.get("model.head.bias").ok_or_else(|| {
        refused("no `fc.bias`; the file does not have torchvision's names".to_owned())
    })?;
    if head.rank() != 1 {
        return Err(refused(format!("`fc.bias` is {head}, expected one axis")));
    }
    Ok(head.shape[0])
}

/// Opens a file under the paths of [`ResNetVariables`]: `layer1.0.conv2.weight` becomes
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
