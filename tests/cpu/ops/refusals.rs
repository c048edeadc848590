//! Errors of composite functions: the message has the function's name, the numbers and the
//! caller's line.

use oxidax::prelude::*;
use oxidax::primitives::DotGeneral;

#[track_caller]
fn assert_rejected(f: fn(&Array) -> Array, phrases: &[&str]) {
    let error = eval_shape(move |x: Array| f(&x), Aval::new(DType::F32, [3, 4])).unwrap_err();
    let text = error.to_string();
    for phrase in phrases.iter().chain(&["refusals.rs"]) {
        assert!(text.contains(phrase), "no `{phrase}` in\n{text}");
    }
}

#[test]
fn invalid_shapes_are_rejected() {
    assert_rejected(|x| vander(x, 3), &["vander: takes a vector, got rank 2"]);
    assert_rejected(|x| block(([x], ())), &["block: takes lists of at least one array"]);
    assert_rejected(
        |x| insert(x, [1], &arange(5), 1),
        &["insert: values i32[5] do not broadcast", "[3,1]"],
    );
    assert_rejected(
        |x| cross(x, x, -1),
        &["cross: takes vectors of 2 or 3 components, got 4 and 4"],
    );
    assert_rejected(|x| average(x, &arange(3), 1), &["average: weights [3]", "[3,4]"]);
    assert_rejected(
        |x| gradient_with(x, 1, GradientOptions { spacing: arange(3).like() }),
        &["gradient: 3 coordinates for 4 samples"],
    );
    assert_rejected(|x| fill_diagonal(&x.index(i![0]), 1.0), &["fill_diagonal", "[4]"]);
    assert_rejected(|x| quantile(x, zeros([1, 1]), 0), &["quantile", "got rank 2"]);
    assert_rejected(|x| searchsorted(x, 1.0), &["searchsorted: takes a sorted vector, got rank 2"]);
    assert_rejected(
        |x| put_along_axis(x, &arange(3), 0.0, 0),
        &["put_along_axis", "rank 2", "got 1"],
    );
    assert_rejected(
        |x| array_split(x, 0, 0).swap_remove(0),
        &["array_split: takes at least one section"],
    );
    assert_rejected(|x| linalg::solve(x, x), &["solve: ", "square", "f32[3,4]"]);
    assert_rejected(
        |x| linalg::solve(&matmul(x, &x.t()), &x.t()),
        &["solve: the right-hand side of 3 equations must have 3 rows, got f32[4,3]"],
    );
    assert_rejected(
        |x| linalg::solve_triangular(&matmul(x, &x.t()), &x.sum()),
        &["solve_triangular: the right-hand side of 3 equations must have 3 rows, got f32[]"],
    );
    assert_rejected(
        |x| linalg::cho_solve(&matmul(x, &x.t()), &x.sum()),
        &["cho_solve: the right-hand side of 3 equations must have 3 rows, got f32[]"],
    );
}

#[test]
fn out_of_range_values_are_rejected() {
    assert_rejected(
        |x| delete(x, [4], 1),
        &["delete: index 4 is out of range for an axis of size 4"],
    );
    assert_rejected(|x| partition(x, -5, 1), &["partition: index -5", "size 4"]);
    assert_rejected(|x| histogram(x, 0).0, &["histogram_bin_edges: takes at least one bin"]);
    assert_rejected(
        |x| {
            let options = InterpOptions { period: Some(0.0), ..Default::default() };
            interp_with(x, &arange(3), &arange(3), options)
        },
        &["interp", "positive, got 0"],
    );
    assert_rejected(
        |x| rot90(x, 1, [1, -1]),
        &["rot90: takes two different axes, got axis 1 twice"],
    );
    assert_rejected(
        |x| vectorize("(n)->", |xs| xs.to_vec())(&[x]).swap_remove(0),
        &["vectorize: cannot read the signature `(n)->`"],
    );
    assert_rejected(
        |x| vectorize("(n),(n)->()", |xs| vec![xs[0].sum()])(&[x]).swap_remove(0),
        &["vectorize: the signature names 2 operands, got 1"],
    );
}

#[test]
fn invalid_dtypes_are_rejected() {
    assert_rejected(|x| ldexp(x, x), &["ldexp: exponents must be integers, got f32[3,4]"]);
    assert_rejected(
        |x| packbits(x, 0, BitOrder::Big),
        &["packbits: needs booleans or integers, got f32"],
    );
    assert_rejected(|x| bincount(x, 4), &["bincount: counts integers, got f32"]);
    assert_rejected(
        |x| unravel_index(x, &[3]).swap_remove(0),
        &["indices must be integers, got f32[3,4]"],
    );
    assert_rejected(|x| hypot(x.astype(DType::C64), 1.0), &["hypot: needs real operands, got c64"]);
    assert_rejected(
        |x| {
            let (q, k) = (x.reshape([1, 3, 2, 2]), x.reshape([1, 3, 2, 2]).astype(DType::BF16));
            dot_product_attention(&q, &k, &k)
        },
        &["dot_product_attention", "must have one dtype, got f32, bf16 and bf16"],
    );
}

#[test]
fn attention_rejects_ungroupable_heads() {
    assert_rejected(
        |x| {
            let (q, k) = (x.reshape([1, 2, 3, 2]), x.reshape([1, 3, 2, 2]));
            dot_product_attention(&q, &k, &k)
        },
        &["3 query heads are not a multiple of 2 key heads"],
    );
}

#[test]
fn reductions_reject_invalid_options() {
    fn first(x: &Array) -> Reduction {
        axes(1).where_(&gt(x, 0.0))
    }
    assert_rejected(
        |x| x.max_axes(first(x)),
        &["max: a masked max needs an initial value", "initial(…)"],
    );
    assert_rejected(
        |x| x.mean_axes(axes(1).initial(1.0)),
        &["mean: does not take an initial value", "`sum_axes`, `prod_axes`"],
    );
    assert_rejected(
        |x| x.any_axes(first(&x.t())),
        &["any: where_ takes booleans that broadcast to [3,4], got bool[4,3]"],
    );
    assert_rejected(
        |x| x.sum_axes(axes(0).where_(x)),
        &["sum: where_ takes booleans", "got f32[3,4]"],
    );
    assert_rejected(
        |x| x.prod_axes(axes(0).initial(zeros([2]))),
        &["prod: initial must be a scalar, got f32[2]"],
    );
}

#[test]
fn ragged_dot_rejects_invalid_operands() {
    assert_rejected(
        |x| ragged_dot(x, &zeros([3, 4, 2]), &zeros(([2], DType::I32))),
        &["ragged_dot_general: rhs axis 0 has 3 entries for 2 groups"],
    );
    assert_rejected(
        |x| ragged_dot(x, &zeros([2, 4, 2]), x),
        &["group_sizes must be integers, got f32"],
    );
    assert_rejected(
        |x| {
            let dot = DotGeneral {
                lhs_contracting: vec![0],
                rhs_contracting: vec![0],
                ..DotGeneral::default()
            };
            let how = RaggedDot { dot, lhs_ragged: 0, rhs_group: Some(1) };
            ragged_dot_general(x, x, &zeros(([2], DType::I32)), &how)
        },
        &["contracting or batch, so rhs has no group axis, got 1"],
    );
}

#[test]
fn numbers_beyond_the_dtype_are_rejected() {
    let message = |f: fn(&Array) -> Array| {
        eval_shape(|x: Array| f(&x), Aval::new(DType::I32, [2])).unwrap_err().to_string()
    };
    for text in [
        message(|x| x + (1i64 << 40)),
        message(|x| lt(x, 1i64 << 40).astype(DType::I32)),
        message(|_| full([2], 1i64 << 40)),
        message(|x| x.at(i![0]).set(1i64 << 40)),
    ] {
        assert!(text.contains("number: 1099511627776 does not fit in i32"), "{text}");
        assert!(text.contains("refusals.rs"), "{text}");
        assert!(text.contains("`full(([], DType::I64), 1099511627776i64)`"), "{text}");
    }
    let wide = |x: Array| (x.astype(DType::I64) + (1i64 << 40), x + u32::MAX);
    assert!(eval_shape(wide, Aval::new(DType::I32, [2])).is_ok());
}
