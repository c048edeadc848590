//! Training on several devices: how the model lies on a mesh.

use super::model::Gpt2;
use super::train::{Recipe, Step};
use anyhow::{Context, bail, ensure};
use oxidax::core::AxisSpec;
use oxidax::parallel::TreeSharding;
use oxidax::prelude::*;
use std::path::{Path, PathBuf};

/// Where a training run goes, if not on one device.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Spread {
    /// Train on a mesh of these axes, as in `data=2,model=4`: the batch is cut along `data`, layers along `model`.
    #[arg(long)]
    mesh: Option<String>,
    /// Cut parameters and optimizer state along `data` too, and put each layer together where it is used.
    #[arg(long, requires = "mesh")]
    fsdp: bool,
    /// A file that says how leaves are cut, one pattern a line and what cuts each axis of the leaf, or `-`:
    /// `*c_fc.weight - model`.
    #[arg(long, requires = "mesh")]
    shardings: Option<PathBuf>,
}

/// How the arguments of a step lie.
pub(crate) struct Placed {
    mesh: Mesh,
    pub(crate) model: TreeSharding,
    pub(crate) state: TreeSharding,
    batch: PartitionSpec,
    /// How the model lies while it computes, if that is otherwise.
    gathered: Option<TreeSharding>,
}

impl Spread {
    /// What the command line asks for; nothing without a mesh.
    pub(crate) fn place(
        &self,
        model: &Gpt2,
        state: &optim::State,
    ) -> anyhow::Result<Option<Placed>> {
        let Some(axes) = &self.mesh else { return Ok(None) };
        let mesh = mesh(axes)?;
        let layers = match &self.shardings {
            Some(path) => read(path)?,
            None if mesh.size("model").is_some() => by_layers(),
            None => PartitionRules::default(),
        };
        let computing = layers.shardings(model, &mesh)?;
        let rules = match self.fsdp {
            true => along_data(model, &layers, &mesh)?,
            false => layers,
        };
        Ok(Some(Placed {
            model: rules.shardings(model, &mesh)?,
            state: rules.shardings(state, &mesh)?,
            batch: if mesh.size("data").is_some() { p!["data"] } else { p![] },
            gathered: self.fsdp.then_some(computing),
            mesh,
        }))
    }
}

impl Placed {
    /// The recipe's step, between arguments that lie so.
    pub(crate) fn step(&self, recipe: &Recipe) -> anyhow::Result<Step> {
        let batch = self.mesh.sharding(self.batch.clone())?;
        let step = match self.gathered.clone() {
            None => recipe.step(),
            Some(whole) => {
                recipe.step_with(move |model| with_sharding_constraint(model, whole.clone()))
            }
        };
        let kept = None::<NamedSharding>;
        Ok(step.in_shardings((&self.model, &self.state, &batch, kept)).out_shardings((
            &self.model,
            &self.state,
            self.mesh.replicated(),
        )))
    }
}

/// The mesh of `data=2,model=4`, on as many of the devices.
fn mesh(text: &str) -> anyhow::Result<Mesh> {
    let axis = |part: &str| -> anyhow::Result<(String, usize)> {
        let (name, size) =
            part.split_once('=').with_context(|| format!("`{part}` is no `axis=size`"))?;
        let size = size.parse().with_context(|| format!("the size of `{name}`"))?;
        Ok((name.to_owned(), size))
    };
    let axes: Vec<(String, usize)> = text.split(',').map(axis).collect::<Result<_, _>>()?;
    let (wanted, all) = (axes.iter().map(|(_, size)| size).product::<usize>(), devices()?);
    ensure!(
        wanted <= all.len(),
        "the mesh {text} takes {wanted} devices, there are {}; `OXIDAX_CPU_DEVICES={wanted}` shows as many on a CPU",
        all.len()
    );
    let axes: Vec<(&str, usize)> = axes.iter().map(|(name, size)| (name.as_str(), *size)).collect();
    Ok(Mesh::new(&all[..wanted], axes)?)
}

/// Of each two layers the first by columns, the second by rows. Queries, keys and values lie side by side in GPT-2's files,
/// so the compiler has to exchange parts of them; `examples/parallel` keeps them apart.
fn by_layers() -> PartitionRules {
    let mut rules = Vec::new();
    for (pair, (first, second)) in [("attn", ("c_attn", "c_proj")), ("mlp", ("c_fc", "c_proj"))] {
        // In a stack the layers come first.
        rules.push((format!("*h.stack.{pair}.{first}.weight"), p![None, None, "model"]));
        rules.push((format!("*h.stack.{pair}.{first}.bias"), p![None, "model"]));
        rules.push((format!("*h.stack.{pair}.{second}.weight"), p![None, "model"]));
        rules.push((format!("*{pair}.{first}.weight"), p![None, "model"]));
        rules.push((format!("*{pair}.{first}.bias"), p!["model"]));
        rules.push((format!("*{pair}.{second}.weight"), p!["model"]));
    }
    PartitionRules::new(rules)
}

/// The same, each leaf cut along `data` besides: its longest axis that is whole and can be.
fn along_data(
    model: &Gpt2,
    layers: &PartitionRules,
    mesh: &Mesh,
) -> anyhow::Result<PartitionRules> {
    let parts = mesh.size("data").context("`--fsdp` cuts along `data`, which the mesh has not")?;
    let leaves = tree::paths(model).into_iter().zip(tree::leaves(model));
    Ok(PartitionRules::new(leaves.map(|(path, leaf)| {
        let (shape, mut spec) = (leaf.shape(), layers.spec(&path).cloned().unwrap_or_default());
        spec.0.resize(shape.rank(), AxisSpec::default());
        let is_free = |&at: &usize| spec.0[at].0.is_empty() && shape[at].is_multiple_of(parts);
        if let Some(at) = (0..shape.rank()).filter(is_free).max_by_key(|&at| shape[at]) {
            spec.0[at] = "data".into();
        }
        (format!("*{path}"), spec)
    })))
}

/// The rules of a file.
fn read(path: &Path) -> anyhow::Result<PartitionRules> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    let mut rules = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split_whitespace();
        let Some(pattern) = words.next() else { bail!("`{line}` has no pattern") };
        let axes = words.map(|word| match word {
            "-" => AxisSpec::default(),
            names => AxisSpec(names.split('+').map(String::from).collect()),
        });
        rules.push((pattern.to_owned(), PartitionSpec(axes.collect())));
    }
    Ok(PartitionRules::new(rules))
}
