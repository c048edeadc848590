//! The Python source that `oxidax verify` runs: the package `oxidax_compat` and the recorder of
//! fixtures, as they were when the command was built.

use std::io;
use std::path::Path;

macro_rules! sources {
    ($($path:literal),* $(,)?) => {
        &[$((
            $path,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/python/", $path)),
        )),*]
    };
}

/// Path and text of every file. `python` is a folder of links to `python-compat`.
const SOURCES: &[(&str, &str)] = sources![
    "oxidax_compat/__init__.py",
    "oxidax_compat/__main__.py",
    "oxidax_compat/checkpoints.py",
    "oxidax_compat/conversion.py",
    "oxidax_compat/dtypes.py",
    "oxidax_compat/exported.py",
    "oxidax_compat/fixtures.py",
    "oxidax_compat/functions.py",
    "oxidax_compat/programs.py",
    "oxidax_compat/recorder_modules.py",
    "oxidax_compat/safetensors.py",
    "oxidax_compat/trees.py",
    "oxidax_compat/verification.py",
    "recorder/__init__.py",
    "recorder/api_choosing.py",
    "recorder/api_elementwise.py",
    "recorder/api_integrals.py",
    "recorder/api_reductions.py",
    "recorder/api_shapes.py",
    "recorder/api_special.py",
    "recorder/api_statistics.py",
    "recorder/api_suite.py",
    "recorder/api_table.py",
    "recorder/autodiff_derivatives.py",
    "recorder/autodiff_programs.py",
    "recorder/autodiff_rules.py",
    "recorder/autodiff_suite.py",
    "recorder/collective_functions.py",
    "recorder/collectives_suite.py",
    "recorder/control_flow_functions.py",
    "recorder/control_flow_suite.py",
    "recorder/fashion_suite.py",
    "recorder/flax_functions_suite.py",
    "recorder/flax_layers_suite.py",
    "recorder/flax_options_suite.py",
    "recorder/gpt2_suite.py",
    "recorder/implicit_functions.py",
    "recorder/lax_convolution.py",
    "recorder/lax_options_suite.py",
    "recorder/lax_products.py",
    "recorder/lax_running.py",
    "recorder/lax_suite.py",
    "recorder/lax_window.py",
    "recorder/layers_sequences.py",
    "recorder/layers_suite.py",
    "recorder/linalg_suite.py",
    "recorder/mapped.py",
    "recorder/mlp_suite.py",
    "recorder/names.py",
    "recorder/nn_suite.py",
    "recorder/numpy_arrays.py",
    "recorder/numpy_indexing.py",
    "recorder/numpy_suite.py",
    "recorder/ops_elementwise.py",
    "recorder/ops_index.py",
    "recorder/ops_reduce.py",
    "recorder/ops_shape.py",
    "recorder/ops_suite.py",
    "recorder/optax_functions_suite.py",
    "recorder/optax_steps.py",
    "recorder/optax_transforms.py",
    "recorder/optim_suite.py",
    "recorder/options_arrays.py",
    "recorder/options_calls.py",
    "recorder/options_suite.py",
    "recorder/parallel_collectives.py",
    "recorder/parallel_composed.py",
    "recorder/parallel_gradients.py",
    "recorder/parallel_models.py",
    "recorder/parallel_pmapped.py",
    "recorder/parallel_sharded.py",
    "recorder/parallel_sharded_steps.py",
    "recorder/parallel_suite.py",
    "recorder/parallel_table.py",
    "recorder/promotion_suite.py",
    "recorder/random_suite.py",
    "recorder/refs_suite.py",
    "recorder/remaining_arrays.py",
    "recorder/remaining_lax.py",
    "recorder/remaining_suite.py",
    "recorder/research_suite.py",
    "recorder/resnet_suite.py",
    "recorder/samplers_suite.py",
    "recorder/scipy_formats_suite.py",
    "recorder/scipy_functions_suite.py",
    "recorder/scipy_halves_suite.py",
    "recorder/scipy_linalg_suite.py",
    "recorder/scipy_matrices_suite.py",
    "recorder/scipy_signal_suite.py",
    "recorder/scipy_solvers_suite.py",
    "recorder/scipy_sparse_suite.py",
    "recorder/scipy_spatial_suite.py",
    "recorder/special_suite.py",
    "recorder/suite.py",
    "recorder/training.py",
    "recorder/transforms_suite.py",
    "recorder/trees_suite.py",
];

/// Writes the files below a folder, which Python then searches for modules.
pub(super) fn write(folder: &Path) -> io::Result<()> {
    for (path, text) in SOURCES {
        let file = folder.join(path);
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(file, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_file_of_the_package_is_embedded() {
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
        let mut expected = BTreeSet::new();
        for folder in ["oxidax_compat", "recorder"] {
            for entry in std::fs::read_dir(python.join(folder)).expect("the folder is linked") {
                let name = entry.expect("it can be read").file_name();
                let name = name.to_string_lossy().into_owned();
                if name.ends_with(".py") {
                    expected.insert(format!("{folder}/{name}"));
                }
            }
        }
        let embedded: BTreeSet<String> = SOURCES.iter().map(|(path, _)| (*path).into()).collect();
        assert_eq!(embedded, expected);
    }
}
