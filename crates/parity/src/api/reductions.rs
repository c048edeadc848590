//! Reductions with a mask and with an initial value.

use oxidax::prelude::*;

pub(super) fn apply(op: &str, operands: &[Array]) -> Option<Vec<Array>> {
    let x = operands.first()?;
    // Without a mask every element counts.
    let over = |along: Axes| match operands.get(1) {
        Some(mask) => along.where_(mask),
        None => along.into(),
    };
    let [rows, columns] = [|| axes(1), || axes(0)];
    let kept = || columns().keepdims();
    Some(vec![match op {
        "sum_where" | "sum_where_nan" => x.sum_axes(over(rows())),
        "sum_where_initial" => x.sum_axes(over(kept()).initial(2.5)),
        "sum_where_column" => x.sum_axes(over(axes([0, 1]))),
        "sum_where_int" => x.sum_axes(over(rows()).initial(7)),
        "prod_where" => x.prod_axes(over(rows()).initial(-2.0)),
        "max_where" => x.max_axes(over(rows()).initial(-0.5)),
        "min_where" => x.min_axes(over(kept()).initial(5.0)),
        "max_where_int" => x.max_axes(over(rows()).initial(-100)),
        "max_initial" | "max_initial_empty" => x.max_axes(over(rows()).initial(0.25)),
        "sum_initial" => x.sum_axes(Axes::all().initial(-1)),
        "mean_where" | "mean_where_nan" => x.mean_axes(over(rows())),
        "mean_where_some" => x.mean_axes(over(kept())),
        "mean_where_int" => x.mean_axes(over(columns())),
        "var_where" => x.var_axes(over(Axes::all()).ddof(1)),
        "var_where_rows" => x.var_axes(over(rows().keepdims())),
        "std_where" => x.std_axes(over(columns())),
        "any_where" => gt(x, 0.5).any_axes(over(rows())),
        "all_where" => gt(x, -0.5).all_axes(over(rows())),
        _ => return None,
    }])
}
