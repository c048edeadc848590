//! Loads weights into trees of arrays (feature `arrays`).

use crate::dtype::WeightDType;
use crate::error::Error as WeightsError;
use crate::fit::ExpectedTensor;
use crate::weights::Weights;
use oxidax::core::DType;
use oxidax::prelude::*;
use std::collections::BTreeMap;

/// The name of the only leaf of a tree that is a bare array.
const SINGLE_LEAF: &str = "array";

fn leaf_name(path: &str) -> &str {
    if path.is_empty() { SINGLE_LEAF } else { path }
}

/// Returns the dtype of oxidax with the name of a stored type.
fn dtype_of(dtype: WeightDType) -> Option<DType> {
    DType::all().into_iter().find(|candidate| candidate.to_string() == dtype.name())
}

/// Returns the tensors that a tree has: a name and a type for each leaf.
///
/// # Errors
/// `Checkpoint` if a leaf has a dtype that no format stores.
///
/// ```
/// use oxidax::prelude::*;
/// let template = eval_shape(|| nn::Linear::new(random::key(0), 3, 2), ())?;
/// let expected = oxidax_weights::expected_tensors(&template)?;
/// assert_eq!(expected["weight"].to_string(), "f32[3,2]");
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn expected_tensors<T: Tree>(template: &T) -> Result<BTreeMap<String, ExpectedTensor>, Error> {
    let leaves = tree::paths(template).into_iter().zip(tree::leaves(template));
    let expected = leaves.map(|(path, leaf)| {
        let name = leaf_name(&path).to_owned();
        let dtype = WeightDType::from_name(&leaf.dtype().to_string()).ok_or_else(|| {
            let message = format!("leaf `{name}`: no format stores {}", leaf.dtype());
            refused("weights", message)
        })?;
        Ok((name, ExpectedTensor { dtype, shape: leaf.shape().to_vec() }))
    });
    expected.collect()
}

fn refused(location: &str, message: impl Into<String>) -> Error {
    Error::Checkpoint { path: location.into(), message: message.into() }
}

impl Weights {
    /// Loads the tensors into a tree like `template`. Names are leaf paths, such as
    /// `h.layers[3].ln_1.scale`; [rules](crate::Rules) make them. A leaf is sharded like that of
    /// the template, whose elements are not used.
    ///
    /// # Errors
    /// `Checkpoint` listing all missing, surplus and misshaped leaves, or naming a damaged tensor.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// use oxidax_weights::{Rules, Weights};
    /// let template = eval_shape(|| nn::Linear::new(random::key(0), 3, 2), ())?;
    /// let rules = Rules::new().rename("fc.*", "*").transpose("weight", [1, 0]);
    /// let weights = Weights::open("linear.pt").and_then(|weights| rules.apply(&weights));
    /// let linear = weights.expect("the file has a linear layer").load(&template)?;
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn load<T: Tree>(&self, template: &T) -> Result<T, Error> {
        let failed = |error: WeightsError| refused(self.location(), error.message());
        self.check(&expected_tensors(template)?).map_err(failed)?;
        let mut leaves = Vec::new();
        for (path, leaf) in tree::paths(template).iter().zip(tree::leaves(template)) {
            let array = self.array(leaf_name(path))?;
            leaves.push(match leaf.sharding() {
                Some(sharding) => device_put(&array, sharding)?,
                None => array,
            });
        }
        Ok(tree::unflatten(template, leaves))
    }

    /// Reads a tensor as an array on the default device. Quantized tensors become `f32`.
    ///
    /// # Errors
    /// `Checkpoint` if there is no tensor of this name, or it is damaged.
    pub fn array(&self, name: &str) -> Result<Array, Error> {
        let refused = |message: &str| refused(self.location(), format!("`{name}`: {message}"));
        let tensor = self.get(name).ok_or_else(|| refused("there is no tensor of this name"))?;
        let dtype = match tensor.dtype() {
            WeightDType::Ggml(_) => WeightDType::F32,
            other => other,
        };
        let bytes = match tensor.dtype() {
            WeightDType::Ggml(_) => tensor.read_as(WeightDType::F32),
            _ => tensor.read(),
        };
        let bytes = bytes.map_err(|error| refused(error.message()))?;
        if dtype == WeightDType::Bool && bytes.iter().any(|&byte| byte > 1) {
            return Err(refused("an element is not a bool"));
        }
        let dtype =
            dtype_of(dtype).ok_or_else(|| refused(&format!("oxidax does not have {dtype}")))?;
        Array::from_bytes(&bytes, dtype, tensor.shape())
    }
}
