//! Matrices assembled from blocks.

use crate::core::{Array, Loc, RuleError, trace};
use crate::primitives::{ArrayList, SequenceForm, TupleForm, concatenate, reshape};

/// Rows of blocks: a sequence of lists of arrays, `[[&a, &b], [&c, &d]]`, or a tuple of them, whose
/// lengths may differ, `([&a, &b], [&c])`. `Form` is always inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of rows of arrays",
    note = "write `[[&a, &b], [&c, &d]]`, or for rows of different lengths `([&a, &b], [&c])`"
)]
pub trait BlockRows<Form> {
    /// Returns the arrays of each row.
    #[track_caller]
    fn into_array_rows(self) -> Vec<Vec<Array>>;
}

impl<F, I> BlockRows<(SequenceForm, F)> for I
where
    I: IntoIterator,
    I::Item: ArrayList<F>,
{
    #[track_caller]
    fn into_array_rows(self) -> Vec<Vec<Array>> {
        let mut rows = Vec::new();
        for row in self {
            rows.push(row.into_arrays());
        }
        rows
    }
}

macro_rules! tuples {
    ($($($row:ident $form:ident $index:tt),*;)*) => {$(
        impl<$($form, $row: ArrayList<$form>),*> BlockRows<(TupleForm, $($form),*)>
            for ($($row,)*)
        {
            #[track_caller]
            fn into_array_rows(self) -> Vec<Vec<Array>> {
                vec![$(self.$index.into_arrays()),*]
            }
        }
    )*};
}

tuples!(
    A F 0, B G 1;
    A F 0, B G 1, C H 2;
    A F 0, B G 1, C H 2, D I 3;
);

/// Assembles a matrix from blocks: each row is joined along the last axis, then the rows along the
/// second to last. Blocks of rank below 2 count as rows. Throws `Op` if there are no blocks or
/// sizes do not fit.
///
/// ```
/// use oxidax::prelude::*;
/// let (a, b) = (Aval::new(DType::F32, [2, 2]), Aval::new(DType::F32, [2, 3]));
/// let m = eval_shape(|a: Array, b: Array| block([[&a, &b], [&a, &b]]), (a, b))?;
/// assert_eq!(m.aval().to_string(), "f32[4,5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn block<F>(rows: impl BlockRows<F>) -> Array {
    block_all(&rows.into_array_rows())
}

#[track_caller]
fn block_all(rows: &[Vec<Array>]) -> Array {
    Loc::caller().scope(|| {
        if rows.is_empty() || rows.iter().any(|row| row.is_empty()) {
            let counts: Vec<usize> = rows.iter().map(|row| row.len()).collect();
            let message = format!("takes rows of at least one array, got rows of {counts:?}");
            trace::throw_operands("block", RuleError::value(message), &[]);
        }
        let rank = rows.iter().flat_map(|row| row.iter()).map(|x| x.rank()).fold(2, usize::max);
        let mut joined = Vec::new();
        for row in rows {
            let mut blocks = Vec::new();
            for x in row {
                let mut shape = vec![1; rank - x.rank()];
                shape.extend_from_slice(x.shape());
                blocks.push(reshape(x, shape));
            }
            joined.push(concatenate(blocks, -1));
        }
        concatenate(joined, -2)
    })
}
