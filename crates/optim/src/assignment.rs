//! Assignment problems: matching rows and columns of a matrix at the least cost.

use oxidax::prelude::*;

/// Returns the assignment of rows to columns with the least sum of costs, as two index vectors:
/// the rows and their columns, `i32[min(n, m)]` each, with the rows in increasing order.
///
/// `cost_matrix: float[n, m]`. If there are more rows than columns, some rows are not assigned, and
/// vice versa. The loops run on the device, so it works under `jit` and `vmap`. Indices have no
/// derivatives; index the costs with them to differentiate a matching loss.
///
/// Throws `Op` unless the costs are a matrix.
///
/// ```
/// use oxidax::prelude::*;
/// let costs = array![[4f32, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]];
/// let (rows, columns) = oxidax_optim::assignment::hungarian_algorithm(&costs);
/// assert_eq!(rows.to_vec::<i32>()?, [0, 1, 2]);
/// assert_eq!(columns.to_vec::<i32>()?, [1, 0, 2]);
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Kuhn: The Hungarian method for the assignment problem (1955). Jonker, Volgenant: A shortest
/// augmenting path algorithm for dense and sparse linear assignment problems (1987).
#[doc(alias = "base_hungarian_algorithm")]
#[track_caller]
pub fn hungarian_algorithm(cost_matrix: &Array) -> (Array, Array) {
    let [n, m] = cost_matrix.dims();
    let costs = cost_matrix.astype(DType::F32);
    if n == 0 || m == 0 {
        return (zeros(([0], DType::I32)), zeros(([0], DType::I32)));
    }
    if n <= m {
        return (arange(n as i64).astype(DType::I32), columns_of_rows(&costs));
    }
    let rows = columns_of_rows(&transpose(&costs, &[1, 0]));
    let order = argsort(&rows, 0);
    (take(&rows, &order, 0), order.astype(DType::I32))
}

/// The potentials, and the row of each column, both with an extra column 0; row 0 is none.
#[derive(Tree, Clone)]
struct Matching {
    u: Array,
    v: Array,
    row_of: Array,
}

/// A shortest augmenting path.
#[derive(Tree, Clone)]
struct Search {
    u: Array,
    v: Array,
    is_used: Array,
    least: Array,
    way: Array,
    column: Array,
}

/// Returns the column of each row of a matrix with at least as many columns as rows.
fn columns_of_rows(costs: &Array) -> Array {
    let [n, m] = costs.dims();
    // Row 0 and column 0 stand for none.
    let costs = pad(costs, [(1, 0), (1, 0)]);
    let index = arange(m as i64 + 1).astype(DType::I32);
    let first =
        Matching { u: zeros([n + 1]), v: zeros([m + 1]), row_of: zeros(([m + 1], DType::I32)) };
    let insert = |step: Array, matching: Matching| {
        let row = step.astype(DType::I32) + 1;
        let is_first = eq(&index, 0);
        let row_of = where_(&is_first, &row, &matching.row_of);
        let row_at = |column: &Array| take_one(&row_of, column);
        let search = Search {
            u: matching.u,
            v: matching.v,
            is_used: full([m + 1], false),
            least: full([m + 1], f32::INFINITY),
            way: zeros(([m + 1], DType::I32)),
            column: zeros(([], DType::I32)),
        };
        let extend = |search: &Search| {
            let is_used = bitwise_or(&search.is_used, eq(&index, &search.column));
            let row = row_at(&search.column);
            let of_row = take_row(&costs, &row) - take_one(&search.u, &row) - &search.v;
            let is_shorter = bitwise_and(bitwise_not(&is_used), lt(&of_row, &search.least));
            let least = where_(&is_shorter, &of_row, &search.least);
            let way = where_(&is_shorter, &search.column, &search.way);
            let open = where_(&is_used, f32::INFINITY, &least);
            let column = argmin(&open, 0).astype(DType::I32);
            let delta = take_one(&open, &column);
            // The rows of used columns and these columns move by the distance.
            let moved = where_(&is_used, &delta, 0.0);
            let u = search.u.at(i![&row_of]).add(&moved);
            Search {
                u,
                v: &search.v - &moved,
                least: where_(&is_used, &least, &least - &delta),
                is_used,
                way,
                column,
            }
        };
        let end = while_loop(|search: &Search| ne(row_at(&search.column), 0), extend, search);
        let flip = |(row_of, column): &(Array, Array)| {
            let before = take_one(&end.way, column);
            let row = take_one(row_of, &before);
            (where_(eq(&index, column), &row, row_of), before)
        };
        let (row_of, _) = while_loop(
            |(_, column): &(Array, Array)| ne(column, 0),
            flip,
            (row_of.clone(), end.column.clone()),
        );
        Matching { u: end.u, v: end.v, row_of }
    };
    let last = fori_loop(0, n as i32, insert, first);
    // Invert: the column of each row, from 1.
    let columns = zeros(([n + 1], DType::I32));
    let columns = columns.at(i![&last.row_of]).max(&index);
    slice_in_dim(&columns, 1, n as isize + 1, 1, 0) - 1
}

fn take_one(x: &Array, index: &Array) -> Array {
    let options = DynamicIndexOptions { keepdims: false };
    dynamic_index_in_dim_with(x, index, 0, options)
}

fn take_row(x: &Array, index: &Array) -> Array {
    take_one(x, index)
}
