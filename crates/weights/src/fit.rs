//! Comparison of weights with the tensors that a model expects, and the table of a dry run.

use crate::dtype::WeightDType;
use crate::error::{Error, Result};
use crate::rules::list;
use crate::tensor::StoredTensor;
use crate::weights::Weights;
use std::collections::BTreeMap;
use std::fmt;

/// The type that a tensor should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedTensor {
    /// The element type.
    pub dtype: WeightDType,
    /// The axis sizes.
    pub shape: Vec<usize>,
}

impl ExpectedTensor {
    /// Returns a type.
    pub fn new(dtype: WeightDType, shape: &[usize]) -> ExpectedTensor {
        ExpectedTensor { dtype, shape: shape.to_vec() }
    }

    fn fits(&self, tensor: &StoredTensor) -> bool {
        self.dtype == tensor.dtype() && self.shape == tensor.shape()
    }
}

impl fmt::Display for ExpectedTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.shape.iter().map(ToString::to_string).collect();
        write!(f, "{}[{}]", self.dtype, sizes.join(","))
    }
}

impl Weights {
    /// Compares the tensors with the ones that a model expects.
    ///
    /// # Errors
    /// One error that lists the missing, surplus and misshaped tensors.
    ///
    /// ```
    /// use oxidax_weights::{ExpectedTensor, StoredTensor, WeightDType, Weights};
    /// let tensor = StoredTensor::from_bytes(WeightDType::F32, &[2], vec![0; 8])?;
    /// let weights = Weights::from_tensors([("bias", tensor)])?;
    /// let expected = [("scale".to_owned(), ExpectedTensor::new(WeightDType::F32, &[2]))];
    /// let error = weights.check(&expected.into()).unwrap_err();
    /// assert!(error.to_string().contains("`scale` (f32[2]) is missing"));
    /// assert!(error.to_string().contains("`bias` (f32[2]) is surplus"));
    /// # Ok::<(), oxidax_weights::Error>(())
    /// ```
    pub fn check(&self, expected: &BTreeMap<String, ExpectedTensor>) -> Result<()> {
        let mut problems = Vec::new();
        let (mut is_missing, mut is_surplus, mut is_reversed, mut is_dtype) =
            (false, false, false, false);
        for (name, wanted) in expected {
            match self.get(name) {
                None => {
                    is_missing = true;
                    problems.push(format!("`{name}` ({wanted}) is missing"));
                }
                Some(found) if !wanted.fits(found) => {
                    let reversed = found.shape().iter().rev().eq(wanted.shape.iter());
                    is_reversed |= reversed && found.shape() != wanted.shape;
                    is_dtype |= found.shape() == wanted.shape;
                    problems.push(format!("`{name}` is {found}, expected {wanted}{}", from(found)));
                }
                Some(_) => {}
            }
        }
        for (name, found) in self.tensors().iter().filter(|pair| !expected.contains_key(pair.0)) {
            is_surplus = true;
            problems.push(format!("`{name}` ({found}) is surplus{}", from(found)));
        }
        if problems.is_empty() {
            return Ok(());
        }
        let help = [
            (is_missing && is_surplus, "`rename` maps names"),
            (is_surplus, "`drop` drops tensors that the model does not have"),
            (is_reversed, "`transpose` with 1,0 turns [out, in] into [in, out]"),
            (is_dtype, "`cast` converts floats"),
        ];
        let help: Vec<&str> = help.iter().filter(|pair| pair.0).map(|pair| pair.1).collect();
        let mut message = list("the tensors do not fit the model:", &problems);
        if !help.is_empty() {
            message.push_str(&format!("\n  help: rules: {}", help.join("; ")));
        }
        Err(Error::new(message).at(self.location()))
    }

    /// Returns a table for a dry run: each tensor with its type, the stored tensor and the steps
    /// from which it comes, and the difference from the model, if `expected` is not empty.
    ///
    /// ```
    /// use oxidax_weights::{Rules, StoredTensor, WeightDType, Weights};
    /// let tensor = StoredTensor::from_bytes(WeightDType::F32, &[2, 1], vec![0; 8])?;
    /// let weights = Weights::from_tensors([("fc.weight", tensor)])?;
    /// let rules = Rules::new().rename("fc.*", "up.*").transpose("*.weight", [1, 0]);
    /// let expected = "\
    /// tensor     type      from
    /// up.weight  f32[1,2]  fc.weight, transpose 1,0
    /// ";
    /// assert_eq!(rules.apply(&weights)?.table(&Default::default()), expected);
    /// # Ok::<(), oxidax_weights::Error>(())
    /// ```
    pub fn table(&self, expected: &BTreeMap<String, ExpectedTensor>) -> String {
        let heading = ["tensor", "type", "from", ""].map(str::to_owned);
        let mut rows = vec![heading];
        for (name, tensor) in self.tensors() {
            let state = match expected.get(name) {
                _ if expected.is_empty() => String::new(),
                None => "surplus".into(),
                Some(wanted) if wanted.fits(tensor) => "fits".into(),
                Some(wanted) => format!("expected {wanted}"),
            };
            let origin = tensor.origin().unwrap_or(name).to_owned();
            rows.push([name.clone(), tensor.to_string(), origin, state]);
        }
        for (name, wanted) in expected.iter().filter(|pair| self.get(pair.0).is_none()) {
            rows.push([name.clone(), wanted.to_string(), "-".into(), "missing".into()]);
        }
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
        let widths = [0, 1, 2].map(|column| width(column).unwrap_or_default());
        let line = |[name, kind, origin, state]: &[String; 4]| {
            let [a, b, c] = widths;
            let text = format!("{name:a$}  {kind:b$}  {origin:c$}  {state}");
            format!("{}\n", text.trim_end())
        };
        rows.iter().map(line).collect()
    }
}

/// Returns the stored name of a tensor that rules have changed.
fn from(tensor: &StoredTensor) -> String {
    tensor.origin().map(|origin| format!(", from `{origin}`")).unwrap_or_default()
}
