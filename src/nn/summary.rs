//! A table of a model's leaves.

use crate::core::{DType, Shape};
use crate::tree::{self, Tree};
use std::fmt;

/// The leaves of a model, as listed by [`summary`]. Prints as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The leaves, in tree order.
    pub rows: Vec<SummaryRow>,
}

/// One leaf of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryRow {
    /// The path, such as `blocks[3].attn.query.weight`.
    pub path: String,
    /// The shape.
    pub shape: Shape,
    /// The dtype.
    pub dtype: DType,
}

impl SummaryRow {
    /// Returns the number of elements.
    pub fn parameters(&self) -> usize {
        self.shape.size()
    }

    /// Returns the size in bytes, without padding.
    pub fn bytes(&self) -> usize {
        (self.parameters() * self.dtype.bits()).div_ceil(8)
    }
}

/// Lists the leaves of a model with path, shape, dtype, parameters and bytes, and the totals.
///
/// The model may be abstract, as returned by `eval_shape`. [`tabulate`](super::tabulate()) lists
/// layers with their inputs, outputs and work.
///
/// ```
/// use oxidax::prelude::*;
/// let model = eval_shape(
///     |key: random::Key| nn::Mlp::new(key, &[784, 128, 10]),
///     random::Key::of_type(),
/// )?;
/// let table = nn::summary(&model);
/// assert_eq!(table.parameters(), 101_770);
/// assert_eq!(
///     table.to_string(),
///     "\
/// leaf              shape      dtype  parameters    bytes
/// layers[0].weight  [784,128]  f32       100,352  401,408
/// layers[0].bias    [128]      f32           128      512
/// layers[1].weight  [128,10]   f32         1,280    5,120
/// layers[1].bias    [10]       f32            10       40
/// total                                  101,770  407,080
/// "
/// );
/// # Ok::<(), oxidax::Error>(())
/// ```
pub fn summary<T: Tree>(model: &T) -> Summary {
    let mut rows = Vec::new();
    for (path, leaf) in tree::paths(model).into_iter().zip(tree::leaves(model)) {
        rows.push(SummaryRow { path, shape: leaf.shape().clone(), dtype: leaf.dtype() });
    }
    Summary { rows }
}

impl Summary {
    /// Returns the number of parameters of the model.
    pub fn parameters(&self) -> usize {
        self.rows.iter().map(SummaryRow::parameters).sum()
    }

    /// Returns the size of the model in bytes.
    pub fn bytes(&self) -> usize {
        self.rows.iter().map(SummaryRow::bytes).sum()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = ["leaf", "shape", "dtype", "parameters", "bytes"];
        let mut table = vec![header.map(str::to_owned)];
        table.extend(self.rows.iter().map(|row| {
            let (parameters, bytes) = (grouped(row.parameters()), grouped(row.bytes()));
            [row.path.clone(), row.shape.to_string(), row.dtype.to_string(), parameters, bytes]
        }));
        let (parameters, bytes) = (grouped(self.parameters()), grouped(self.bytes()));
        table.push(["total".into(), String::new(), String::new(), parameters, bytes]);
        write_table(f, &table)
    }
}

/// Writes rows of three texts and two numbers, in columns of one width.
pub(super) fn write_table(f: &mut fmt::Formatter<'_>, table: &[[String; 5]]) -> fmt::Result {
    let width = |column: usize| {
        table.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(width);
    for [first, second, third, count, last] in table {
        writeln!(f, "{first:a$}  {second:b$}  {third:c$}  {count:>d$}  {last:>e$}")?;
    }
    Ok(())
}

/// Formats a count with its digits grouped by three.
pub(super) fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn grouped_separates_every_three_digits() {
        let texts = [0, 999, 1000, 1_234_567].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "1,234,567"]);
    }
}
