//! Records of named arrays.

use super::collate::{BatchPadding, Collate, CollatePadded};
use crate::core::{Error, HostArray};
use std::collections::BTreeMap;

/// Host arrays by name: a row of an npz or safetensors file, or the result of a closure.
///
/// ```
/// use oxidax::data::{Collate, HostArray, Record};
/// let record = |label: i32| -> Result<Record, oxidax::Error> {
///     Ok(Record::new()
///         .with("image", HostArray::from_slice(&[0.0f32; 4], [2, 2])?)
///         .with("label", HostArray::from_slice(&[label], [])?))
/// };
/// let batch = Record::collate(vec![record(3)?, record(8)?])?;
/// assert_eq!(batch.get("image")?.shape().dims(), [2, 2, 2]);
/// assert_eq!(batch.get("label")?.to_vec::<i32>()?, [3, 8]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    fields: BTreeMap<String, HostArray>,
}

impl Record {
    /// Creates a record without fields.
    pub fn new() -> Record {
        Record::default()
    }

    /// Adds a field, or replaces the field of this name.
    pub fn with(mut self, name: impl Into<String>, array: HostArray) -> Record {
        self.fields.insert(name.into(), array);
        self
    }

    /// Returns a field.
    ///
    /// # Errors
    /// `Data` if there is no field of this name. The message lists the names.
    pub fn get(&self, name: &str) -> Result<&HostArray, Error> {
        self.fields.get(name).ok_or_else(|| missing(name, self.fields.keys()))
    }

    /// Returns the fields, sorted by name.
    pub fn fields(&self) -> &BTreeMap<String, HostArray> {
        &self.fields
    }

    /// Returns the fields by value.
    pub fn into_fields(self) -> BTreeMap<String, HostArray> {
        self.fields
    }

    /// Applies `put` to each field of the examples, which must have the same fields.
    fn together(
        examples: Vec<Record>,
        put: impl Fn(&str, Vec<HostArray>) -> Result<HostArray, Error>,
    ) -> Result<Record, Error> {
        let count = examples.len();
        let mut columns: BTreeMap<String, Vec<HostArray>> = BTreeMap::new();
        for (number, example) in examples.into_iter().enumerate() {
            let found = example.fields.len();
            for (name, array) in example.fields {
                match columns.get_mut(&name) {
                    Some(column) => column.push(array),
                    None if number == 0 => {
                        columns.insert(name, vec![array]);
                    }
                    None => {
                        let message =
                            format!("example {number} has a field `{name}`, example 0 has none");
                        return Err(Error::data("batch", message));
                    }
                }
            }
            if found < columns.len() {
                let lacks = columns.iter().find(|(_, column)| column.len() == number);
                let name = lacks.map_or("", |(name, _)| name);
                let message = format!("example 0 has a field `{name}`, example {number} has none");
                return Err(Error::data("batch", message));
            }
        }
        debug_assert!(columns.values().all(|column| column.len() == count), "columns are full");
        let mut fields = BTreeMap::new();
        for (name, column) in columns {
            let batch = put(&name, column).map_err(|error| match error {
                Error::Data { doing, place, message, loc, help } => {
                    let message = format!("field `{name}`: {message}");
                    Error::Data { doing, place, message, loc, help }
                }
                other => other,
            })?;
            fields.insert(name, batch);
        }
        Ok(Record { fields })
    }
}

/// Returns the error for a missing name.
pub(super) fn missing<'a>(name: &str, names: impl Iterator<Item = &'a String>) -> Error {
    let mut names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(20);
    names.truncate(20);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    let existing = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Error::data("record", format!("there is no field `{name}`; the fields are {existing}"))
}

impl FromIterator<(String, HostArray)> for Record {
    fn from_iter<I: IntoIterator<Item = (String, HostArray)>>(fields: I) -> Record {
        Record { fields: fields.into_iter().collect() }
    }
}

impl Collate for Record {
    type Batch = Record;
    fn collate(examples: Vec<Record>) -> Result<Record, Error> {
        Record::together(examples, |_, column| HostArray::collate(column))
    }
}

impl CollatePadded for Record {
    fn pad(examples: Vec<Record>, padding: &BatchPadding) -> Result<Record, Error> {
        Record::together(examples, |name, column| HostArray::pad(column, &padding.of_field(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn record(ids: &[i32], label: i32) -> Record {
        Record::new()
            .with("ids", HostArray::from_slice(ids, [ids.len()]).unwrap())
            .with("labels", HostArray::from_slice(&[label, label], [2]).unwrap())
    }

    #[test]
    fn padding_can_differ_by_field() {
        let padding = BatchPadding::with(0.0).field("labels", -100.0).length(3);
        let batch = Record::pad(vec![record(&[1], 7), record(&[2, 3], 8)], &padding).unwrap();
        let field = |name| batch.get(name).unwrap().to_vec::<i32>().unwrap();
        assert_eq!(field("ids"), [1, 0, 0, 2, 3, 0]);
        assert_eq!(field("labels"), [7, 7, -100, 8, 8, -100]);
    }

    #[test]
    fn errors_name_the_mismatched_field() {
        let error = Record::collate(vec![record(&[1], 7), record(&[2, 3], 8)]).unwrap_err();
        expect![[r#"
            error[data]: batch: field `ids`: example 0 is i32[1], example 1 is i32[2]
              help: `pad_batch` batches examples of different lengths"#]]
        .assert_eq(&error.to_string());
        let error = Record::collate(vec![record(&[1], 7), Record::new()]).unwrap_err().to_string();
        assert_eq!(error, "error[data]: batch: example 0 has a field `ids`, example 1 has none");
        let error = Record::collate(vec![Record::new(), record(&[1], 7)]).unwrap_err().to_string();
        assert_eq!(error, "error[data]: batch: example 1 has a field `ids`, example 0 has none");
        let error = record(&[1], 7).get("id").unwrap_err().to_string();
        expect!["error[data]: record: there is no field `id`; the fields are `ids`, `labels`"]
            .assert_eq(&error);
    }
}
