//! Options of array functions compared with JAX: values, derivatives, and both under `vmap`. An
//! operation's name stands for one call with its options.

#[cfg(test)]
use crate::fixtures::Suite;
use crate::fixtures::by_example;
use oxidax::image::{ResizeMethod, ResizeOptions, resize_with, scale_and_translate};
use oxidax::linalg::{
    self, CholeskyOptions, EighOptions, MatrixNorm, MatrixRankOptions, NormOptions, PinvOptions,
    TensorsolveOptions, Triangle,
};
use oxidax::prelude::*;
use oxidax::primitives::{ConvTransposeOptions, DotAlgorithmPreset, GatherScatterMode};
use serde_json::Value;

fn wide() -> MatmulOptions<'static> {
    MatmulOptions { preferred_element_type: Some(DType::F32), ..Default::default() }
}

fn by(preset: DotAlgorithmPreset) -> MatmulOptions<'static> {
    MatmulOptions { algorithm: Some(preset.into()), ..Default::default() }
}

fn products(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let convolved = VectorConvolutionOptions {
        preferred_element_type: Some(DType::F32),
        ..VectorConvolutionOptions::default()
    };
    Some(vec![match op {
        "dot_wide" | "dot_scalar_wide" => dot_with(&x[0], &x[1], wide()),
        "inner_wide" => inner_with(&x[0], &x[1], wide()),
        "vdot_wide" => vdot_with(&x[0], &x[1], wide()),
        "vecdot_wide" => vecdot_with(&x[0], &x[1], -1, wide()),
        "tensordot_wide" => tensordot_with(&x[0], &x[1], ([0, 1], [1, 0]), wide()),
        "einsum_wide" => einsum_with("ij,jk->ki", [&x[0], &x[1]], wide()),
        "matmul_bf16_x3" => matmul_with(&x[0], &x[1], by(DotAlgorithmPreset::BF16_BF16_F32_X3)),
        "matmul_bf16" => matmul_with(&x[0], &x[1], by(DotAlgorithmPreset::BF16_BF16_F32)),
        "convolve_wide" => convolve_with(&x[0], &x[1], ConvolveMode::Same, convolved),
        "correlate_wide" => correlate_with(&x[0], &x[1], ConvolveMode::Full, convolved),
        "cross_axes" => cross_with(&x[0], &x[1], CrossOptions { axisa: 0, axisb: 1, axisc: 0 }),
        "conv_transpose_consistent" => {
            let options = ConvTransposeOptions {
                strides: vec![2],
                padding: Padding::Explicit(vec![(1, 1)]),
                use_consistent_padding: true,
                preferred_element_type: Some(DType::F32),
                ..Default::default()
            };
            conv_transpose(&x[0], &x[1], &options)
        }
        _ => return None,
    }])
}

fn in_mode(mode: GatherScatterMode) -> IndexOptions {
    IndexOptions { mode: Some(mode), ..IndexOptions::default() }
}

fn indices(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    use GatherScatterMode::{Clip, FillOrDrop, PromiseInBounds};
    let filled =
        |value: f64| IndexOptions { fill_value: Some(value.into()), ..in_mode(FillOrDrop) };
    let unwrapped =
        |mode| IndexOptions { wrap_negative_indices: false, unique_indices: true, ..in_mode(mode) };
    let take_in = |mode| TakeOptions { mode, ..TakeOptions::default() };
    Some(vec![match op {
        "get_fill" => x[0].at_with(i![&x[1]], in_mode(FillOrDrop)).get(),
        "get_fill_value" => x[0].at_with(i![&x[1]], filled(7.0)).get(),
        "get_clip" => x[0].at_with(i![&x[1]], in_mode(Clip)).get(),
        "get_clip_unwrapped" => {
            let options = IndexOptions { unique_indices: false, ..unwrapped(Clip) };
            x[0].at_with(i![&x[1]], options).get()
        }
        "get_static_fill" => x[0].at_with(i![9], filled(1.0)).get(),
        "set_clip" => {
            let options = IndexOptions { unique_indices: true, ..in_mode(Clip) };
            x[0].at_with(i![&x[1]], options).set(&x[2])
        }
        "set_unwrapped" => x[0].at_with(i![&x[1]], unwrapped(FillOrDrop)).set(&x[2]),
        "add_strided_clip" => x[0].at_with(i![&x[1], ::2], in_mode(Clip)).add(&x[2]),
        "subtract" => x[0].at(i![&x[1]]).sub(&x[2]),
        "add_promised" => {
            let options = IndexOptions {
                unique_indices: true,
                indices_are_sorted: true,
                ..in_mode(PromiseInBounds)
            };
            x[0].at_with(i![&x[1]], options).add(&x[2])
        }
        "take_clip" => take_with(&x[0], &x[1], 0, take_in(TakeMode::Clip)),
        "take_wrap" => take_with(&x[0], &x[1], 1, take_in(TakeMode::Wrap)),
        "take_fill_value" => {
            let options = TakeOptions { fill_value: Some(2.0.into()), ..Default::default() };
            take_with(&x[0], &x[1], 0, options)
        }
        "take_flat" => take(&x[0], &x[1], None),
        "take_along_clip" => take_along_axis_with(&x[0], &x[1], 1, in_mode(Clip)),
        "take_along_fill" => take_along_axis_with(&x[0], &x[1], 1, filled(0.5)),
        "take_along_flat" => take_along_axis(&x[0], &x[1], None),
        _ => return None,
    }])
}

fn shapes(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let total = |n| RepeatOptions { total_repeat_length: Some(n) };
    Some(vec![match op {
        "repeat_total" => repeat_with(&x[0], &x[1], 0, total(5)),
        "repeat_longer" => repeat_with(&x[0], &x[1], 0, total(6)),
        "repeat_shorter" => repeat_with(&x[0], &x[1], 1, total(3)),
        "repeat_counts" => repeat(&x[0], [1, 0, 2], None),
        "repeat_flat" => repeat(&x[0], 2, None),
        "roll_axes" => roll(&x[0], [1, -2], [0, 1]),
        "roll_flat" => roll(&x[0], 5, Axes::all()),
        "roll_traced" => roll(&x[0], &x[1], [0, 1]),
        "moveaxis_list" => moveaxis(&x[0], [0, 1], [-1, 0]),
        "append_flat" => append(&x[0], &x[1], None),
        "delete_flat" => delete(&x[0], [2], None),
        "insert_flat" => insert(&x[0], [1], &x[1], None),
        "reshape_f" => {
            x[0].reshape_with([3, 2], ReshapeOptions { order: ElementOrder::ColumnMajor })
        }
        "sort_flat" => sort(&x[0], None),
        "argsort_flat" => argsort(&x[0], None),
        "diff_n" => diff_with(&x[0], -1, DiffOptions { n: 2, ..Default::default() }),
        "diff_ends" => {
            let options =
                DiffOptions { prepend: Some(x[1].like()), append: Some(0.5.like()), n: 1 };
            diff_with(&x[0], 1, options)
        }
        "ediff1d_ends" => {
            let options = Ediff1dOptions { to_begin: Some(&x[1]), to_end: Some(&x[2]) };
            ediff1d_with(&x[0], options)
        }
        "vander_increasing" => vander_with(&x[0], 3, VanderOptions { increasing: true }),
        "meshgrid_sparse" => {
            let options = MeshgridOptions { sparse: true, ..Default::default() };
            return Some(meshgrid_with([&x[0], &x[1]], options));
        }
        "linspace_axis" => {
            let options = LinspaceOptions { axis: 1, ..Default::default() };
            linspace_with(&x[0], &x[1], 4, options)
        }
        "linspace_int" => {
            let options = LinspaceOptions { dtype: Some(DType::I32), ..Default::default() };
            linspace_with(0, 10, 4, options)
        }
        "linspace_step" => {
            let options = LinspaceOptions { endpoint: false, ..Default::default() };
            let (numbers, step) = linspace_and_step(&x[0], &x[1], 4, options);
            return Some(vec![numbers, step]);
        }
        "geomspace_open" => {
            let options = GeomspaceOptions { endpoint: false, axis: 1, dtype: None };
            geomspace_with(&x[0], &x[1], 4, options)
        }
        "indices_sparse" => return Some(sparse_indices([2, 3], IndicesOptions::default())),
        "like_dtype" => {
            let options = LikeOptions { dtype: Some(DType::I8), shape: Some([2].into()) };
            full_like_with(&x[0], 3, options)
        }
        "isin_invert" => isin_with(&x[0], &x[1], IsinOptions { invert: true }),
        "intersect_indices" => {
            let (values, i, j) = intersect1d_indices(&x[0], &x[1], 2, 0);
            return Some(vec![values, i, j]);
        }
        "searchsorted_sorter" => {
            let order = argsort(&x[0], 0);
            let options = SearchsortedOptions { sorter: Some(&order), ..Default::default() };
            searchsorted_with(&x[0], &x[1], options)
        }
        "clip_upper" => {
            clip_with(&x[0], ClipOptions { max: Some(0.5.like()), ..Default::default() })
        }
        "where_mask" => where_(&x[1], &x[0], 0),
        _ => return None,
    }])
}

fn reductions(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let f32 = |axis: isize| axes(axis).dtype(DType::F32);
    Some(vec![match op {
        "sum_f32" => x[0].sum_axes(f32(1)),
        "sum_u8" => x[0].sum_axes(axes(1).dtype(DType::U8)),
        "sum_kept" => x[0].sum_axes(axes(1).dtype(x[0].dtype())),
        "prod_f32" => x[0].prod_axes(f32(0)),
        "mean_f32" => x[0].mean_axes(f32(0)),
        "var_f32" => x[0].var_axes(f32(0)),
        "std_f32" => x[0].std_axes(f32(0).ddof(1)),
        "cumsum_f32" => {
            let options = CumulativeOptions { dtype: Some(DType::F32), ..Default::default() };
            cumulative_sum_with(&x[0], 1, options)
        }
        "cumprod_i8" => {
            let options = CumulativeOptions { dtype: Some(DType::I8), ..Default::default() };
            cumulative_prod_with(&x[0], 0, options)
        }
        "argmax_kept" => x[0].argmax_axis(axes(1).keepdims()),
        "argmin_all_kept" => x[0].argmin_axis(Axes::all().keepdims()),
        "nanargmax_kept" => nanargmax(&x[0], axes(1).keepdims()),
        "nansum_where" => nansum(&x[0], axes(0).where_(&x[1])),
        "nanmean_where" => nanmean(&x[0], axes(0).where_(&x[1])),
        "nan_to_num_values" => {
            let options = NanToNumOptions {
                nan: 2.0.like(),
                posinf: Some(5.0.like()),
                neginf: Some((-6.0).like()),
            };
            nan_to_num_with(&x[0], options)
        }
        "angle_deg" => angle_with(&x[0], AngleOptions { deg: true }),
        "average_returned" => {
            let (mean, total) = average_returned(&x[0], &x[1], 1);
            return Some(vec![mean, total]);
        }
        "gradient_axes" => return Some(gradient_axes(&x[0], Axes::all())),
        "cov_y" => cov_with(&x[0], &CovOptions { y: Some(x[1].clone()), ..Default::default() }),
        "cov_columns" => cov_with(&x[0], &CovOptions { rowvar: false, ..Default::default() }),
        "corrcoef_y" => {
            corrcoef_with(&x[0], &CovOptions { y: Some(x[1].clone()), ..Default::default() })
        }
        "histogram2d_density" => {
            let options = HistogramOptions { weights: Some(&x[2]), density: true };
            let (counts, a, b) = histogram2d_with(&x[0], &x[1], 2, 3, options);
            return Some(vec![counts, a, b]);
        }
        _ => return None,
    }])
}

fn positive_definite(x: &Array) -> Array {
    x.matmul(&x.mt()) + eye((3, x.dtype())) * 2.0
}

fn linear(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let norm = |order: MatrixNorm| linalg::matrix_norm(&x[0], order);
    let triangle =
        |triangle| EighOptions { triangle, symmetrize_input: false, ..Default::default() };
    let doubled = || &x[0] + x[0].mt();
    Some(vec![match op {
        "norm_nuc" => norm(MatrixNorm::Nuclear),
        "norm_2" => norm(MatrixNorm::Spectral),
        "norm_-2" => norm(MatrixNorm::NegSpectral),
        "norm_-1" => norm(MatrixNorm::NegL1),
        "norm_-inf" => norm(MatrixNorm::NegInf),
        "norm_axis" => {
            linalg::norm_with(&x[0], NormOptions { axes: axes(0).keepdims(), ..Default::default() })
        }
        "norm_axes" => linalg::norm_with(
            &x[0],
            NormOptions { order: MatrixNorm::L1.into(), axes: axes([2, 0]).keepdims() },
        ),
        "cond_1" => linalg::cond_with(&positive_definite(&x[0]), MatrixNorm::L1),
        "cond_-2" => linalg::cond_with(&positive_definite(&x[0]), MatrixNorm::NegSpectral),
        "eigvalsh_lower" => linalg::eigvalsh_with(&x[0], triangle(Triangle::Lower)),
        "eigvalsh_upper" => linalg::eigvalsh_with(&x[0], triangle(Triangle::Upper)),
        "cholesky_upper" => {
            let options = CholeskyOptions { upper: true, ..Default::default() };
            linalg::cholesky_with(&positive_definite(&x[0]), options)
        }
        "cholesky_lower" => {
            let options = CholeskyOptions { symmetrize_input: false, ..Default::default() };
            linalg::cholesky_with(&x[0], options)
        }
        "svd_hermitian" => linalg::svd_hermitian(&doubled()).s,
        "pinv_hermitian" => {
            linalg::pinv_with(&doubled(), PinvOptions { hermitian: true, ..Default::default() })
        }
        "rank_hermitian" => linalg::matrix_rank_with(
            &doubled(),
            MatrixRankOptions { hermitian: true, ..Default::default() },
        ),
        "tensorsolve_axes" => {
            linalg::tensorsolve_with(&x[0], &x[1], &TensorsolveOptions { axes: vec![0] })
        }
        _ => return None,
    }])
}

fn method(name: &str) -> ResizeMethod {
    match name {
        "linear" => ResizeMethod::Linear,
        "cubic" => ResizeMethod::Cubic,
        "cubic-pytorch" => ResizeMethod::CubicPytorch,
        "lanczos3" => ResizeMethod::Lanczos3,
        "lanczos5" => ResizeMethod::Lanczos5,
        "area" => ResizeMethod::Area,
        "nearest" => ResizeMethod::Nearest,
        other => panic!("no method is named {other}"),
    }
}

fn images(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    if let Some(name) = op.strip_prefix("scale_") {
        return Some(vec![scale_and_translate(&x[0], [6, 4], [0, 1], &x[1], &x[2], method(name))]);
    }
    let (case, name) = op.strip_prefix("resize_")?.split_once('_')?;
    let (shape, antialias): (&[usize], bool) = match case {
        "up" => (&[7, 5], true),
        "down" => (&[4, 3], true),
        "sharp" => (&[4, 6], false),
        _ => (&[2, 6, 1], true),
    };
    let options = ResizeOptions { antialias, ..Default::default() };
    Some(vec![resize_with(&x[0], shape, method(name), options)])
}

fn masks(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let where_ = x.get(1);
    let masked = SoftmaxOptions { where_ };
    Some(vec![match op {
        "softmax_where" => softmax_with(&x[0], -1, masked),
        "log_softmax_where" => log_softmax_with(&x[0], -1, masked),
        "logsumexp_where" => {
            logsumexp_with(&x[0], 0, LogsumexpOptions { where_, ..Default::default() })
        }
        "logsumexp_sign" => {
            let options = LogsumexpOptions { b: Some(&x[1]), ..Default::default() };
            let (size, sign) = logsumexp_signed(&x[0], 1, options);
            return Some(vec![size, sign]);
        }
        "logmeanexp_where" => logmeanexp_with(&x[0], -1, masked),
        "standardize_given" => {
            let options = StandardizeOptions {
                mean: Some(x[1].like()),
                variance: Some(x[2].like()),
                ..Default::default()
            };
            standardize_with(&x[0], -1, options)
        }
        "standardize_where" => {
            standardize_with(&x[0], -1, StandardizeOptions { where_, ..Default::default() })
        }
        _ => return None,
    }])
}

fn padded(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let of = |statistic, stat_length| PadMode::Statistic { statistic, stat_length };
    if op == "pad_function" {
        // The sum of a row with the axis before it, and the number of added elements behind it.
        let sums = |row: &Array, (before, after): (usize, usize), axis: usize| {
            let position = arange(row.size() as i32);
            let sum = row.sum() + axis as f64;
            let row = where_(lt(&position, before as i32), sum, row);
            where_(ge(&position, (row.size() - after) as i32), after as f64, &row)
        };
        return Some(vec![pad_by(&x[0], &[(2, 3), (0, 1)], sums)]);
    }
    let (widths, mode) = match op.strip_prefix("pad_")? {
        "mean" => (vec![(2, 3), (0, 1)], of(PadStatistic::Mean, None)),
        "mean_2" => (vec![(2, 3), (0, 1)], of(PadStatistic::Mean, Some(2))),
        "maximum_2" => (vec![(2, 3), (0, 1)], of(PadStatistic::Maximum, Some(2))),
        "minimum" => (vec![(2, 3), (0, 1)], of(PadStatistic::Minimum, None)),
        "median" => (vec![(2, 3), (0, 1)], of(PadStatistic::Median, None)),
        "ramp" => (vec![(2, 3), (0, 1)], PadMode::LinearRamp(1.5.into())),
        "reflect_odd" => (vec![(5, 6)], PadMode::ReflectOdd),
        "symmetric_odd" => (vec![(5, 6)], PadMode::SymmetricOdd),
        "mean_int" => (vec![(2, 2)], of(PadStatistic::Mean, None)),
        "empty" => (vec![(2, 3), (0, 1)], PadMode::Empty),
        "ramp_int" => (vec![(4, 4)], PadMode::LinearRamp(0.into())),
        _ => return None,
    };
    Some(vec![pad_with(&x[0], widths, PadOptions { mode })])
}

fn scaled(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    Some(vec![match op {
        "scaled_matmul" => scaled_matmul(&x[0], &x[1], &x[2], &x[3]),
        "ragged_dot_wide" => {
            let options =
                RaggedDotOptions { preferred_element_type: Some(DType::F32), ..Default::default() };
            ragged_dot_with(&x[0], &x[1], &x[2], options)
        }
        "polyfit_w" => {
            let options = PolyfitOptions { w: Some(&x[2]), ..Default::default() };
            polyfit_with(&x[0], &x[1], 2, options)
        }
        _ => return None,
    }])
}

fn plain(op: &str, x: &[Array]) -> Vec<Array> {
    let families = [products, indices, shapes, reductions, linear, images, masks, padded, scaled];
    let found = families.iter().find_map(|apply| apply(op, x));
    found.unwrap_or_else(|| panic!("no call is named {op}"))
}

/// Applies a call to one example or, over the leading axes, to a batch.
pub(crate) fn apply(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    by_example(params, operands, |operands| plain(op, operands))
}

#[cfg(test)]
mod on_cpu {
    use super::*;

    recorded_families!("options": arrays, calls);

    #[test]
    fn keys_of_xlas_generator_are_those_of_jax() {
        use oxidax::random::{self, Key, KeyImpl, KeyOptions};
        let words = |key: &Key| key.data().to_vec::<u32>().unwrap();
        let key = |implementation| random::key_with(42, KeyOptions { implementation });
        let (rbg, unsafe_rbg) = (key(KeyImpl::Rbg), key(KeyImpl::UnsafeRbg));
        // Values of jax.random 0.10.2 with `impl="rbg"` and `impl="unsafe_rbg"` on a CPU.
        for key in [&rbg, &unsafe_rbg] {
            assert_eq!(words(key), [0, 42, 0, 42]);
            let bits = random::bits(key.clone(), [3]).to_vec::<u32>().unwrap();
            assert_eq!(bits, [2620864722, 2991908441, 282133475]);
            let bytes = random::bits(key.clone(), ([3], DType::U8)).to_vec::<u8>().unwrap();
            assert_eq!(bytes, [210, 89, 227]);
            let uniform = random::uniform(key.clone(), [3], 0.0..1.0).to_vec::<f32>().unwrap();
            assert_eq!(uniform, [0.610_217_6, 0.696_607_95, 0.065_689_206]);
        }
        assert_eq!(
            words(&random::split(rbg.clone(), 2)),
            [
                1832780943, 270669613, 1832780943, 270669613, 64467757, 2916123636, 64467757,
                2916123636
            ]
        );
        assert_eq!(
            words(&random::split(unsafe_rbg.clone(), 2)),
            [
                2620864722, 2991908441, 282133475, 2589630650, 4105776319, 298289174, 864345282,
                274752888
            ]
        );
        let folded = |key: &Key| words(&random::fold_in(key.clone(), 7));
        assert_eq!(folded(&rbg), [2547012911, 1371500959, 2547012911, 1371500959]);
        assert_eq!(folded(&unsafe_rbg), [2104303640, 250182049, 1106406590, 1983638428]);
        let order = |key: &Key| random::permutation(key.clone(), 5).to_vec::<i32>().unwrap();
        assert_eq!((order(&rbg), order(&unsafe_rbg)), (vec![2, 1, 3, 4, 0], vec![4, 3, 0, 2, 1]));
        let dice = |key: &Key| random::randint(key.clone(), [3], 0..100).to_vec::<i32>().unwrap();
        assert_eq!((dice(&rbg), dice(&unsafe_rbg)), (vec![1, 20, 35], vec![39, 91, 59]));
        let gamma = |key: &Key| random::gamma(key.clone(), [2], 2.0).to_vec::<f32>().unwrap();
        for (ours, theirs) in
            [(gamma(&rbg), [0.562_835, 2.062_191]), (gamma(&unsafe_rbg), [0.209_462, 3.189_745_2])]
        {
            assert!(
                ours.iter().zip(theirs).all(|(x, y): (&f32, f32)| (x - y).abs() < 1e-5),
                "{ours:?}"
            );
        }
        // A jitted function compiles for each generator.
        let draw = jit(|key: Key| random::bits(random::fold_in(key, 7), [1]));
        let [a, b] =
            [&rbg, &unsafe_rbg].map(|key| draw.call(key).unwrap().to_vec::<u32>().unwrap());
        assert_ne!(a, b);
        let keys = random::split(rbg, 3);
        let mapped = vmap(|key: Key| random::bits(key, [2])).apply(keys.clone());
        let alone: Vec<u32> =
            keys.iter().flat_map(|key| random::bits(key, [2]).to_vec::<u32>().unwrap()).collect();
        assert_eq!(mapped.to_vec::<u32>().unwrap(), alone);
        assert_eq!(alone, [1826589366, 4083436224, 4032995965, 691517416, 3001746292, 1410656114]);
    }
}
