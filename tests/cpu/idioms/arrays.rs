//! Idioms of arrays, one test for each line of the table. Operators that Rust cannot accept are in
//! `crates/macros/tests/fail`: `array_in_brackets`, `arrays_compared_by_operators`, and others.

use super::{array, close, values};
use oxidax::core::HostArray;
use oxidax::prelude::*;

fn text(x: &Array) -> String {
    format!("{} {x}", x.aval()).replace('\n', "")
}

/// `tanh(x @ w + b)`, `exp(-x)`, `sigmoid(a + b)`.
#[test]
fn functions_accept_owned_arrays_references_and_numbers() {
    let (x, w) = (array![0.5, -1.0], eye(2));
    let b = 0.25;
    close(&tanh(x.matmul(&w) + b), &[0.75f32.tanh(), (-0.75f32).tanh()]);
    close(&exp(-&x), &[(-0.5f32).exp(), 1.0f32.exp()]);
    close(&sigmoid(&x + &x), &[1.0 / (1.0 + (-1.0f32).exp()), 1.0 / (1.0 + 2.0f32.exp())]);
    close(&softmax(&x * 0.0, -1), &[0.5, 0.5]);
    assert_eq!(sqrt(4.0).item::<f32>().unwrap(), 2.0);
    assert_eq!(sqrt(4.0).aval().to_string(), "~f32[]");
}

/// `x.relu()`, `x.log_softmax(-1)`, `x.one_hot(n)`, `x.norm()`, `x.stop_gradient()`.
#[test]
fn functions_have_methods() {
    let x = array![0.5, -1.0];
    close(&x.relu(), &[0.5, 0.0]);
    close(&x.log_softmax(-1).exp().sum(), &[1.0]);
    close(&x.norm(), &[1.25f32.sqrt()]);
    close(&array(&[1.0, 0.0]).one_hot(2), &[0.0, 1.0, 1.0, 0.0]);
    close(&grad(|x: &Array| (x.stop_gradient() * x).sum())(&x), &[0.5, -1.0]);
    assert_eq!(x.isfinite().to_vec::<bool>().unwrap(), [true, true]);
    close(&x.sigmoid().logsumexp(0).exp(), &[0.622_459_3f32.exp() + 0.268_941_43f32.exp()]);
}

/// `x.sum(0)`, `x.max(-1)`, `x.mean(axes)`, `keepdims=True`.
#[test]
fn reductions_take_axes_under_another_name() {
    let x = array![[1.0, 2.0], [3.0, 6.0]];
    close(&x.sum_axes(0), &[4.0, 8.0]);
    close(&x.max_axes(-1), &[2.0, 6.0]);
    close(&x.mean_axes([0, 1]), &[3.0]);
    assert_eq!(x.mean_axes(axes(-1).keepdims()).shape().dims(), [2, 1]);
}

/// `jnp.array([1.0, 2.0])`, `jnp.array([[1, 2], [3, 4]])`, `jnp.array([x, y])`.
#[test]
fn arrays_are_written_as_lists() {
    assert_eq!(text(&array![1.0, 2.0]), "f32[2] [1. 2.]");
    assert_eq!(text(&array![[1.0, 2.0], [3.0, -4.5]]), "f32[2,2] [[ 1.   2. ] [ 3.  -4.5]]");
    assert_eq!(text(&array![1.0 / 4.0, 0.5 * 3.0]), "f32[2] [0.25 1.5 ]");
    assert_eq!(text(&array![[[1.0], [2.0]]]), "f32[1,2,1] [[[1.]  [2.]]]");
    assert_eq!(text(&array![[1, 2], [3, 4]]), "i32[2,2] [[1 2] [3 4]]");
    assert_eq!(array![true, false].to_vec::<bool>().unwrap(), [true, false]);
    assert_eq!(array![1u8, 2].dtype(), DType::U8);
    assert_eq!(text(&array![3usize, 4]), "i32[2] [3 4]");
    assert_eq!(array![half::bf16::ONE].dtype(), DType::BF16);
    // Values keep their width, whatever stands beside them.
    let (narrow, wide) = (0.5f32, 0.1f64);
    assert_eq!(array![narrow, 1.0].dtype(), DType::F32);
    assert_eq!(array![1.0, wide].to_vec::<f64>().unwrap(), [1.0, 0.1]);
    assert_eq!(array![[wide], [wide]].aval().to_string(), "f64[2,1]");
    let rows = [[1.0f32, 2.0], [3.0, 4.0]];
    close(&array![rows[1], rows[0]], &[3.0, 4.0, 1.0, 2.0]);
}

/// `jnp.array([x, y])` of arrays stacks them, also in traced code.
#[test]
fn arrays_are_stacked_by_literals() {
    let polar = |r: &Array, angle: &Array| array![r * cos(angle), r * sin(angle)];
    close(&jit(polar).call(scalar(2.0), scalar(0.0)).unwrap(), &[2.0, 0.0]);
    let (x, y) = (array![1.0, 2.0], array![3.0, 4.0]);
    let nested = array![[&x, &y], [&y, &x]];
    assert_eq!(nested.shape().dims(), [2, 2, 2]);
    close(&nested.index(i![1]), &[3.0, 4.0, 1.0, 2.0]);
    close(&stack((x.sum(), 0.5), 0), &[3.0, 0.5]);
}

/// `jnp.array(rows)`, `jnp.array(0.3)`, `jnp.asarray(on_host)`.
#[test]
fn numbers_vectors_and_host_arrays_convert() {
    assert_eq!(text(&Array::from([1.0, 2.0])), "f32[2] [1. 2.]");
    assert_eq!(text(&Array::from([[1, 2], [3, 4]])), "i32[2,2] [[1 2] [3 4]]");
    assert_eq!(text(&Array::from(vec![vec![1.5], vec![2.5]])), "f32[2,1] [[1.5] [2.5]]");
    let values = [1u8, 2, 3];
    assert_eq!(text(&Array::from(&values[1..])), "u8[2] [2 3]");
    assert_eq!(text(&Array::from(0.3)), "f32[] 0.3");
    let x: Array = [true, false].into();
    assert_eq!(x.dtype(), DType::Bool);
    assert_eq!(Array::from(Vec::<f32>::new()).shape().dims(), [0]);

    let on_host: HostArray = array![[1, 2], [3, 4]].to_host().unwrap();
    assert_eq!(text(&Array::from(&on_host)), "i32[2,2] [[1 2] [3 4]]");
    assert_eq!(Array::from(on_host).dtype(), DType::I32);

    let ragged = oxidax::catch(|| Array::from(vec![vec![1, 2], vec![3]])).unwrap_err().to_string();
    let line = "error[value]: array: rows differ: row 0 has shape [2], row 1 has [1]";
    assert_eq!(ragged.lines().next(), Some(line));
}

/// `x += y`, `sum(arrays)`.
#[test]
fn arrays_are_assigned_to_and_summed() {
    let mut x = array![1.0, 2.0];
    x += &array![1.0, 1.0];
    x *= 2.0;
    x -= array![1.0, 0.0];
    x /= 2.0f32;
    close(&x, &[1.5, 3.0]);
    let total: Array = (0..3).map(|n| &x * n).sum();
    close(&total, &[4.5, 9.0]);
    close(&[x.clone(), x].iter().product::<Array>(), &[2.25, 9.0]);
    assert_eq!(std::iter::empty::<Array>().sum::<Array>().item::<f32>().unwrap(), 0.0);
}

/// `jnp.where(x > y, …)`, `x == y`.
#[test]
fn comparisons_are_methods_and_functions() {
    let (x, y) = (array![1.0, 5.0], array![2.0, 4.0]);
    close(&where_(x.greater(&y), &x, &y), &[2.0, 5.0]);
    close(&where_(gt(&x, &y), &x, 0.0), &[0.0, 5.0]);
    assert_eq!(x.equal(5.0).to_vec::<bool>().unwrap(), [false, true]);
}

/// `x[0]`, `x[i, :]`, `x[:, ::2]`, `x[::-1]`, and ranges in variables.
#[test]
fn indices_are_numbers_ranges_and_steps() {
    let x = arange(12).astype(DType::F32).reshape([3, 4]);
    let i = 1;
    close(&x.index(i![0]), &[0.0, 1.0, 2.0, 3.0]);
    close(&x.index(i![i, ..]), &[4.0, 5.0, 6.0, 7.0]);
    close(&x.index(i![0, ::2]), &[0.0, 2.0]);
    close(&x.index(i![0, 1::2]), &[1.0, 3.0]);
    close(&x.index(i![::-1, 0]), &[8.0, 4.0, 0.0]);
    close(&x.index(i![0, (0..4).step_by(3)]), &[0.0, 3.0]);
    close(&x.index(i![0, (1..).step_by(2)]), &[1.0, 3.0]);
    close(&x.index(i![0, (0..10).step_by(2)]), &[0.0, 2.0]);
    close(&x.index(i![0, (0..3).rev()]), &[2.0, 1.0, 0.0]);
    close(&x.index(i![0, (1..3).rev()]), &[2.0, 1.0]);
    close(&x.index(i![0, (2..2).step_by(2)]), &[]);
    let step = 2;
    close(&x.index(i![0, strided(1.., step)]), &[1.0, 3.0]);
    let (columns, last) = (1usize..3, x.shape()[1] - 1);
    close(&x.index(i![0, columns.clone()]), &[1.0, 2.0]);
    close(&x.index(i![0, columns.step_by(1)]), &[1.0, 2.0]);
    close(&x.index(i![0, last]), &[3.0]);
    let (signed, open, end, closed, whole) = (-2isize..-1, 2i32.., ..2usize, 1i32..=2, ..);
    close(&x.index(i![0, signed]), &[2.0]);
    close(&x.index(i![0, open]), &[2.0, 3.0]);
    close(&x.index(i![0, end]), &[0.0, 1.0]);
    close(&x.index(i![0, closed]), &[1.0, 2.0]);
    close(&x.index(i![whole, 0]), &[0.0, 4.0, 8.0]);
}

/// `x[mask]`, `x[:, mask]`, `x[mask, 0]`.
#[test]
fn concrete_masks_select_elements() {
    let x = array![[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]];
    close(&x.index(i![x.greater(0.0)]), &[1.0, 3.0, 5.0]);
    let columns = array![true, false, true];
    assert_eq!(x.index(i![.., &columns]).shape().dims(), [2, 2]);
    close(&x.index(i![..., &columns]), &[1.0, 3.0, -4.0, -6.0]);
    close(&x.index(i![&array![false, true], 1]), &[5.0]);
    close(&x.index(i![x.greater(9.0)]), &[]);
    // A captured mask is concrete, also inside a transform.
    close(&grad(|x: &Array| x.index(i![.., &columns]).sum())(&x), &[1.0, 0.0, 1.0, 1.0, 0.0, 1.0]);

    let first_line = |error: Error| error.to_string().lines().next().unwrap_or("").to_string();
    let short = oxidax::catch(|| x.index(i![&columns])).unwrap_err();
    assert_eq!(
        first_line(short),
        "error[shape]: index: mask bool[3] does not have the sizes of f32[2,3] from axis 0 on"
    );
    let traced = jit(|x: &Array| x.index(i![x.greater(0.0)])).call(&x).unwrap_err().to_string();
    assert!(traced.contains("nonzero(&mask, size, fill)"), "{traced}");
    assert!(traced.contains("where_(mask, x, 0.0)"), "{traced}");
}

/// `x.at[mask].set(0)`, `x.at[mask].add(y)`, `x.at[mask].apply(f)`.
#[test]
fn masks_select_elements_to_update() {
    let x = array![[1.0, -2.0], [-3.0, 4.0]];
    let clipped = |x: &Array| x.at(i![x.less(0.0)]).set(0.0);
    close(&clipped(&x), &[1.0, 0.0, 0.0, 4.0]);
    close(&jit(clipped).call(&x).unwrap(), &[1.0, 0.0, 0.0, 4.0]);
    close(&vmap(|row: Array| row.at(i![row.less(0.0)]).mul(-1.0)).apply(&x), &[1.0, 2.0, 3.0, 4.0]);
    close(&grad(|x: &Array| clipped(x).square().sum())(&x), &[2.0, 0.0, 0.0, 8.0]);
    let rows = array![false, true];
    let raised = jit(|x: &Array, rows: &Array| x.at(i![rows]).add(&array![10.0, 20.0]));
    close(&raised.call(&x, &rows).unwrap(), &[1.0, -2.0, 7.0, 24.0]);
    close(&x.at(i![.., &rows]).max(0.0), &[1.0, 0.0, -3.0, 4.0]);
    // Values with an axis for the selected elements need a concrete mask.
    close(&x.at(i![x.less(0.0)]).set(&array![7.0, 8.0]), &[1.0, 7.0, 8.0, 4.0]);
    close(&x.at(i![x.greater(0.0)]).apply(|x| x.log()), &[0.0, -2.0, -3.0, 4f32.ln()]);
    let logs = jit(|x: &Array| x.at(i![x.greater(0.0)]).apply(|x| x.square()));
    close(&logs.call(&x).unwrap(), &[1.0, -2.0, -3.0, 16.0]);
    close(
        &jit(|x: &Array| x.at(i![x.less(0.0)]).div(2.0)).call(&x).unwrap(),
        &[1.0, -1.0, -1.5, 4.0],
    );
}

/// `x.at[i].get()`, `multiply`, `divide`, `apply`.
#[test]
fn indexed_elements_are_updated_by_any_function() {
    let x = array![1.0, 2.0, 3.0];
    close(&x.at(i![1..]).div(2.0), &[1.0, 1.0, 1.5]);
    close(&x.at(i![0]).get(), &[1.0]);
    close(&x.at(i![1]).pow(3), &[1.0, 8.0, 3.0]);
    close(&x.at(i![..2]).apply(|x| x.exp()), &[1.0f32.exp(), 2.0f32.exp(), 3.0]);
    assert_eq!(array![7, 9].at(i![0]).div(2).to_vec::<i32>().unwrap(), [3, 9]);
}

/// `x.reshape((2, -1))`, `x.reshape(-1)`, `x.reshape(x.shape[:2] + (-1,))`.
#[test]
fn shapes_are_tuples_lists_and_concatenations() {
    let x = arange(24).astype(DType::F32);
    let shape = |x: Array| x.shape().to_vec();
    assert_eq!(shape(x.reshape((2, -1))), [2, 12]);
    assert_eq!(shape(x.reshape((1, 2, 12usize))), [1, 2, 12]);
    assert_eq!(shape(x.reshape(vec![2isize, 3, -1])), [2, 3, 4]);
    let y = x.reshape([2, 3, 4]);
    assert_eq!(shape(y.reshape(-1)), [24]);
    assert_eq!(shape(y.reshape((&y.shape()[..2], 2, -1))), [2, 3, 2, 2]);
    assert_eq!(shape(y.reshape((-1, &y.shape()[1..]))), [2, 3, 4]);
    assert_eq!(shape(x.reshape(y.shape())), [2, 3, 4]);
    let chained: Vec<usize> = y.shape().iter().copied().chain([1]).collect();
    assert_eq!(shape(y.reshape(&chained)), [2, 3, 4, 1]);
}

/// `x.T`, `x.transpose()`, `x.transpose(1, 0, 2)`, `x.shape[0]`, `n, d = x.shape`.
#[test]
fn axes_are_reversed_and_sizes_destructured() {
    let x = zeros([2, 3, 4]);
    assert_eq!(x.transpose().shape().dims(), [4, 3, 2]);
    assert_eq!(x.t().shape().dims(), [4, 3, 2]);
    assert_eq!(x.transpose_axes([1, 0, 2]).shape().dims(), [3, 2, 4]);
    assert_eq!((x.shape()[0], x.shape()[2]), (2, 4));
    let [n, d, _] = x.dims();
    assert_eq!((n, d), (2, 3));
}

/// `jnp.stack([x, y])`, `jnp.concatenate(xs)`, `jnp.einsum(spec, x, y)` of owned and borrowed.
#[test]
fn lists_of_arrays_have_one_form() {
    let (x, y) = (array![1.0, 2.0], array![3.0, 4.0]);
    let owned = vec![x.clone(), y.clone()];
    let borrowed = [&x, &y];
    let expected = [1.0, 2.0, 3.0, 4.0];
    for stacked in [
        stack([&x, &y], 0),
        stack([&x, &y], 0),
        stack(&owned, 0),
        stack(&owned[..], 0),
        stack(borrowed, 0),
        stack(owned.iter(), 0),
        stack(owned.iter().map(|x| x * 1.0), 0),
        stack((&x, y.clone()), 0),
        stack(owned.clone(), 0),
        concatenate([x.clone(), y.clone()], 0),
        concatenate([&x, &y], 0),
        concatenate((&x, 1.0 * &y), 0),
        hstack(&owned),
        vstack(&owned),
        vstack(vstack(&owned)),
        block([[&x, &y]]),
        block([(&x, y.clone())]),
        block(([&x], (3.0, 4.0))),
        concatenate(broadcast_arrays((&x, &y)), 0),
    ] {
        close(&stacked, &expected);
    }
    close(&column_stack(&owned), &[1.0, 3.0, 2.0, 4.0]);
    close(&einsum("i,i->", [&x, &y]), &[11.0]);
    close(&einsum("i,i->", owned.clone()), &[11.0]);
    close(&einsum("i,i->", (&x, y.clone())), &[11.0]);
    let grid = meshgrid([x.clone(), y.clone()]);
    close(&grid[1], &[3.0, 3.0, 4.0, 4.0]);
    close(&optimization_barrier((&x, 2.0)).1, &[2.0]);
    let m = x.reshape((1, -1));
    close(&linalg::multi_dot((&m, m.t(), &m)), &[5.0, 10.0]);
    close(&select_first([x.greater(1.0)], [&y], 0.0), &[0.0, 4.0]);
    close(&select_first((x.less(1.5), x.greater(1.5)), (-1.0, &y), 0.0), &[-1.0, 4.0]);
    close(&select_n(x.greater(1.5), (&x, &y)), &[1.0, 4.0]);
    assert_eq!(result_type((&x, 2, array![1i8])), DType::F32);
    let message = |x: &Array| {
        debug::check(x.less(9.0).all(), "{} is below {}", (x, 9.0));
        x * 1.0
    };
    close(&jit(message).call(&x).unwrap(), &[1.0, 2.0]);
}

/// `jnp.pad(x, [(0, 1), (2, 3)], constant_values=0)`.
#[test]
fn padding_is_a_list_of_pairs() {
    let x = ones([2, 2]);
    assert_eq!(pad(&x, [(0, 1), (2, 3)]).shape().dims(), [3, 7]);
    let seven = PadOptions { mode: PadMode::Constant(7.0.into()) };
    close(&pad_with(array![1.0], [(1, 0)], seven), &[7.0, 1.0]);
}

/// `lax.dynamic_slice(x, [s, 0], (1, 2))` of arrays and numbers.
#[test]
fn start_indices_are_arrays_and_numbers() {
    let x = arange(6).astype(DType::F32).reshape((3, 2));
    let row = jit(|x: &Array, s: &Array| dynamic_slice(x, (s, 0), [1, 2]));
    close(&row.call(&x, array![1].reshape(())).unwrap(), &[2.0, 3.0]);
    close(&dynamic_slice(&x, [-1, 0], [1, 2]), &[4.0, 5.0]);
    let s = scalar(2);
    close(&dynamic_slice(&x, [&s, &s], [1, 1]), &[5.0]);
    let updated = dynamic_update_slice(&x, &array![[9.0]], (&s, 1));
    close(&updated, &[0.0, 1.0, 2.0, 3.0, 4.0, 9.0]);
}

/// `jnp.float32(0.3)`.
#[test]
fn strong_scalars_are_converted_numbers() {
    assert_eq!(Array::from(0.3).aval().to_string(), "f32[]");
    assert_eq!(full([], 0.3f32).aval().to_string(), "f32[]");
    assert_eq!(scalar(0.3).aval().to_string(), "~f32[]");
}

/// `for row in x`, `sum(f(row) for row in x)`.
#[test]
fn rows_are_iterated_over() {
    let x = array![[1.0, 2.0], [3.0, 4.0]];
    let mut sums = Vec::new();
    for row in &x {
        sums.push(row.sum().item::<f32>().unwrap());
    }
    assert_eq!(sums, [3.0, 7.0]);
    close(&x.rows().map(|row| row.square()).sum::<Array>(), &[10.0, 20.0]);
    assert_eq!(
        (x.rows().len(), x.rows().next_back().map(|row| values(&row))),
        (2, Some(vec![3.0, 4.0]))
    );
    close(&stack(x.rows().rev(), 0), &[3.0, 4.0, 1.0, 2.0]);
    close(&(0..3).map(|n| &x * n).sum::<Array>(), &[3.0, 6.0, 9.0, 12.0]);
    assert!(oxidax::catch(|| scalar(1.0).rows().len()).is_err());
}

/// `x.astype(jnp.bfloat16)`.
#[test]
fn dtypes_are_values() {
    assert_eq!(array![1.0].astype(DType::BF16).dtype(), DType::BF16);
}

/// `jnp.matmul(x, y, preferred_element_type=…)`, `jnp.einsum(…, preferred_element_type=…)`.
#[test]
fn products_are_summed_in_a_preferred_dtype() {
    let x = full([1, 512], 1.0f32).astype(DType::BF16);
    let y = full([512, 1], 1.0 + 1.0 / 128.0).astype(DType::BF16);
    let wide = MatmulOptions { preferred_element_type: Some(DType::F32), ..Default::default() };
    let exact = 512.0 + 4.0;
    for product in [
        matmul_with(&x, &y, wide),
        einsum_with("ik,kj->ij", [&x, &y], wide),
        einsum_with("bik,bkj->bij", (x.expand_dims(0), y.expand_dims(0)), wide),
        matmul_with(&x.expand_dims(0), &y.expand_dims(0), wide),
        matmul_with(&x.expand_dims(0), &y, wide),
        matmul_with(&x, &y.expand_dims(0), wide),
    ] {
        assert_eq!(product.dtype(), DType::F32);
        close(&product, &[exact]);
    }
    assert_eq!(einsum_with("ik->i", [&x], wide).dtype(), DType::F32);
    let chain = einsum_with("ik,kj,jl->il", (&x, &y, array![[half::bf16::ONE]]), wide);
    close(&chain, &[exact]);
    let integers = MatmulOptions { preferred_element_type: Some(DType::I32), ..wide };
    let bytes = full([300], 1).astype(DType::I8);
    assert_eq!(matmul_with(&bytes, &bytes, integers).item::<i32>().unwrap(), 300);
    let program = make_program(
        move |x: Array, y: Array| matmul_with(&x, &y, wide),
        (x.aval().clone(), y.aval().clone()),
    );
    // The operands are not converted before they are multiplied.
    assert_eq!(program.unwrap().eqns().len(), 1);
}

/// `jax.ops.segment_sum(data, ids, num_segments)`, `segment_max`, `segment_min`, `segment_prod`.
#[test]
fn segments_are_reduced() {
    let data = array![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]];
    let ids = array![2, 0, 2, 0];
    close(&segment_sum(&data, &ids, 3), &[10.0, 12.0, 0.0, 0.0, 6.0, 8.0]);
    close(&segment_prod(&data, &ids, 3), &[21.0, 32.0, 1.0, 1.0, 5.0, 12.0]);
    let (low, high) = (f32::NEG_INFINITY, f32::INFINITY);
    assert_eq!(values(&segment_max(&data, &ids, 3)), [7.0, 8.0, low, low, 5.0, 6.0]);
    assert_eq!(values(&segment_min(&data, &ids, 3)), [3.0, 4.0, high, high, 1.0, 2.0]);
    // Ids outside of the segments are dropped, negative ones too.
    close(&segment_sum(&array![1.0, 2.0, 4.0], &array![-1, 1, 2], 2), &[0.0, 2.0]);
    close(&segment_sum(&array![1.0, 2.0], &array![255u8, 1], 2), &[0.0, 2.0]);
    assert_eq!(
        segment_max(&array![3, 5], &array![0, 0], 2).to_vec::<i32>().unwrap(),
        [5, i32::MIN]
    );
    // The cotangent of a segment goes to its rows.
    let loss = |data: &Array| (segment_sum(data, &ids, 3) * array![[1.0], [2.0], [3.0]]).sum();
    close(&grad(loss)(&data), &[3.0, 3.0, 1.0, 1.0, 3.0, 3.0, 1.0, 1.0]);
    let batched = vmap(|x: Array| segment_sum(&x, &array![0, 0], 1)).apply(data.reshape((4, 2)));
    close(&batched, &[3.0, 7.0, 11.0, 15.0]);
}

/// Layers from given weights: `nnx.Linear` with `kernel` and `bias` set.
#[test]
fn layers_are_built_from_weights() {
    let (w, b) = (array![[1.0, 2.0], [3.0, 4.0]], array![0.5, -0.5]);
    let linear = nn::Linear::with_weight(w.clone()).with_bias(b.clone());
    close(&linear.forward(&array![1.0, 1.0]), &[4.5, 5.5]);
    let literal = nn::Linear { weight: w.clone(), bias: None };
    close(&literal.forward(&array![1.0, 0.0]), &[1.0, 2.0]);
    let kernel = w.reshape((1, 2, 2));
    let conv = nn::Conv::with_weight(kernel.clone()).with_bias(b.clone());
    close(&conv.forward(&array![[[1.0, 1.0]]]), &[4.5, 5.5]);
    let up = nn::ConvTranspose::with_weight(kernel).with_bias(b.clone());
    assert_eq!(up.forward(&array![[[1.0, 1.0]]]).shape().dims(), [1, 1, 2]);
    close(&nn::Embedding::with_weight(w.clone()).forward(&array![1]), &[3.0, 4.0]);
    let x = array![[-1.0, 1.0]];
    close(
        &nn::LayerNorm::with_scale(array![2.0, 2.0]).with_bias(b.clone()).forward(&x),
        &[-1.499_999, 1.499_999],
    );
    close(&nn::RmsNorm::with_scale(array![2.0, 3.0]).forward(&x), &[-1.999_999, 2.999_998_5]);
    let groups = nn::GroupNorm::with_scale(array![1.0, 1.0], 1).with_bias(b);
    close(&groups.forward(&x), &[-0.499_999_5, 0.499_999_5]);
    let [q, k, v, o] = [&w, &w, &w, &w].map(|w| nn::Linear::with_weight(w.clone()));
    let attention = nn::MultiHeadAttention::with_projections(2, q, k, v, o);
    assert_eq!((attention.n_heads, attention.n_kv_heads), (2, 2));

    let wrong = oxidax::catch(|| nn::Linear::with_weight(w).with_bias(array![1.0])).unwrap_err();
    let line = "error[shape]: Linear: `bias` needs shape [2] for f32[2,2], got f32[1]";
    assert_eq!(wrong.to_string().lines().next(), Some(line));
}
