//! Arrays assembled from nested lists of blocks.

use crate::core::{Array, Loc, RuleError, trace};
use crate::primitives::{ArrayList, SequenceForm, TupleForm, concatenate, reshape};

/// A nested list of arrays of any depth, for [`block`].
///
/// ```
/// use oxidax::prelude::*;
/// let x = array![1.0, 2.0];
/// assert_eq!(block(NestedBlocks::row([&x, &x])).shape().dims(), [4]);
/// ```
#[derive(Clone, Debug)]
pub enum NestedBlocks {
    /// A list of blocks, joined along the last axis.
    Row(Vec<Array>),
    /// Lists of equal depth. Rows are joined along the second to last axis, lists of rows along the
    /// axis before it, and so on.
    List(Vec<NestedBlocks>),
}

impl NestedBlocks {
    /// Creates one level: a list of arrays, which [`block`] joins along the last axis.
    #[track_caller]
    pub fn row<F>(row: impl ArrayList<F>) -> NestedBlocks {
        NestedBlocks::Row(row.into_arrays())
    }

    /// Creates a list of lists of rows, three levels, or one level more than its elements have.
    #[track_caller]
    pub fn layers<F, I>(layers: I) -> NestedBlocks
    where
        I: IntoIterator,
        I::Item: BlockRows<F>,
    {
        let mut lists = Vec::new();
        for layer in layers {
            lists.push(layer.into_blocks());
        }
        NestedBlocks::List(lists)
    }

    /// Returns the number of levels, 1 for a row, or `None` if lists of different depths are mixed.
    fn depth(&self) -> Option<usize> {
        let NestedBlocks::List(lists) = self else { return Some(1) };
        let mut depths = lists.iter().map(NestedBlocks::depth);
        let first = depths.next().unwrap_or(Some(1))?;
        depths.all(|depth| depth == Some(first)).then_some(first + 1)
    }

    /// Returns the largest rank of the arrays.
    fn rank(&self) -> usize {
        match self {
            NestedBlocks::Row(row) => row.iter().map(|x| x.rank()).max().unwrap_or(0),
            NestedBlocks::List(lists) => lists.iter().map(NestedBlocks::rank).max().unwrap_or(0),
        }
    }

    /// Joins the blocks. Blocks of a lower rank get axes of size 1 in front.
    #[track_caller]
    fn joined(&self, rank: usize) -> Array {
        let mut parts = Vec::new();
        match self {
            NestedBlocks::Row(row) => {
                for x in row {
                    let mut shape = vec![1; rank - x.rank()];
                    shape.extend_from_slice(x.shape());
                    parts.push(reshape(x, shape));
                }
            }
            NestedBlocks::List(lists) => {
                for list in lists {
                    parts.push(list.joined(rank));
                }
            }
        }
        if parts.is_empty() {
            let error = RuleError::value("takes lists of at least one array, and one is empty");
            trace::throw_operands("block", error, &[]);
        }
        let axis = self.depth().unwrap_or(1) as isize;
        concatenate(parts, -axis)
    }
}

/// Rows of blocks: a sequence of lists of arrays, `[[&a, &b], [&c, &d]]`, or a tuple of them, whose
/// lengths may differ, `([&a, &b], [&c])`. [`NestedBlocks`] has other depths. `Form` is always
/// inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of rows of arrays",
    note = "write `[[&a, &b], [&c, &d]]`, or for rows of different lengths `([&a, &b], [&c])`"
)]
pub trait BlockRows<Form> {
    /// Returns the nested list.
    #[track_caller]
    fn into_blocks(self) -> NestedBlocks;
}

impl<F, I> BlockRows<(SequenceForm, F)> for I
where
    I: IntoIterator,
    I::Item: ArrayList<F>,
{
    #[track_caller]
    fn into_blocks(self) -> NestedBlocks {
        let mut rows = Vec::new();
        for row in self {
            rows.push(NestedBlocks::row(row));
        }
        NestedBlocks::List(rows)
    }
}

macro_rules! tuples {
    ($($($row:ident $form:ident $index:tt),*;)*) => {$(
        impl<$($form, $row: ArrayList<$form>),*> BlockRows<(TupleForm, $($form),*)>
            for ($($row,)*)
        {
            #[track_caller]
            fn into_blocks(self) -> NestedBlocks {
                NestedBlocks::List(vec![$(NestedBlocks::row(self.$index)),*])
            }
        }
    )*};
}

tuples!(
    A F 0, B G 1;
    A F 0, B G 1, C H 2;
    A F 0, B G 1, C H 2, D I 3;
);

impl BlockRows<NestedBlocks> for NestedBlocks {
    #[track_caller]
    fn into_blocks(self) -> NestedBlocks {
        self
    }
}

/// Assembles an array from blocks, as `numpy.block`: each row is joined along the last axis, then
/// the rows along the second to last. [`NestedBlocks`] of more levels are joined along the axes
/// before them. Blocks with fewer axes than there are levels get axes of size 1 in front.
///
/// Throws `Op` if a list is empty, lists of different depths are mixed, or sizes do not fit.
///
/// ```
/// use oxidax::prelude::*;
/// let (a, b) = (Aval::new(DType::F32, [2, 2]), Aval::new(DType::F32, [2, 3]));
/// let m = eval_shape(|a: Array, b: Array| block([[&a, &b], [&a, &b]]), (a, b))?;
/// assert_eq!(m.aval().to_string(), "f32[4,5]");
/// let x = ones([1, 2, 2]);
/// let layers = NestedBlocks::layers([[[&x, &x]], [[&x, &x]], [[&x, &x]]]);
/// assert_eq!(block(layers).shape().dims(), [3, 2, 4]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn block<F>(rows: impl BlockRows<F>) -> Array {
    block_all(&rows.into_blocks())
}

#[track_caller]
fn block_all(blocks: &NestedBlocks) -> Array {
    let loc = Loc::caller();
    let Some(depth) = blocks.depth() else {
        let error = RuleError::value("lists of different depths are mixed")
            .help("nest all arrays equally deep");
        trace::throw_operands("block", error, &[]);
    };
    loc.scope(|| blocks.joined(blocks.rank().max(depth)))
}
