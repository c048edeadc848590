"""Input of `names.py` that the sources do not contain: other names, uncounted names and refusals.

`tests/pure/tidy/names.rs` checks that the paths in oxidax exist. `std::` is Rust's standard
library.
"""

# Counterparts whose name differs from JAX's, or that are not a function of the same name.
OTHER = {
    "jax.numpy": {
        "absolute": "abs", "amax": "Array::max_axes", "amin": "Array::min_axes",
        "around": "round_with", "array": "Array::from_slice", "array_repr": "std::fmt::Debug",
        "array_str": "std::fmt::Display", "asarray": "Array::from_slice",
        "bitwise_count": "population_count", "bitwise_invert": "bitwise_not",
        "bitwise_left_shift": "shift_left", "bitwise_right_shift": "shift_right",
        "concat": "concatenate", "copy": "std::clone::Clone", "degrees": "rad2deg", "divide": "div",
        "dtype": "DType", "e": "std::f64::consts::E", "empty": "zeros", "empty_like": "zeros_like",
        "equal": "eq", "euler_gamma": "std::f64::consts::EULER_GAMMA", "fmod": "rem",
        "frombuffer": "Array::from_bytes", "greater": "gt", "i0": "special::i0",
        "greater_equal": "ge", "identity": "eye", "index_exp": "i", "inf": "std::f64::INFINITY",
        "invert": "bitwise_not", "iscomplexobj": "DType::is_complex", "isrealobj": "DType::is_real",
        "isscalar": "Array::rank", "issubdtype": "isdtype", "left_shift": "shift_left",
        "less": "lt", "less_equal": "le", "load": "checkpoint::load", "mgrid": "indices",
        "mod": "remainder", "multiply": "mul", "nan": "std::f64::NAN", "ndarray": "Array",
        "ndim": "Array::rank", "negative": "neg", "newaxis": "NewAxis", "not_equal": "ne",
        "ogrid": "ix_", "permute_dims": "transpose", "pi": "std::f64::consts::PI", "pow": "power",
        "radians": "deg2rad", "ravel": "Array::flatten", "right_shift": "shift_right",
        "rint": "round", "s_": "i", "save": "checkpoint::save", "savez": "checkpoint::save",
        "select": "select_first", "shape": "Array::shape", "size": "Array::size", "subtract": "sub",
        "true_divide": "div", "unique_values": "unique", "where": "where_", "conjugate": "conj",
        "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh",
        "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh", "bfloat16": "DType::BF16",
        "bool": "DType::Bool", "bool_": "DType::Bool", "cdouble": "DType::C128",
        "complex128": "DType::C128", "complex64": "DType::C64", "complex_": "DType::C128",
        "csingle": "DType::C64", "double": "DType::F64", "float16": "DType::F16",
        "float32": "DType::F32", "float64": "DType::F64", "float_": "DType::F64",
        "float4_e2m1fn": "DType::F4E2M1FN", "float8_e3m4": "DType::F8E3M4",
        "float8_e4m3": "DType::F8E4M3", "float8_e4m3b11fnuz": "DType::F8E4M3B11FNUZ",
        "float8_e4m3fn": "DType::F8E4M3FN", "float8_e4m3fnuz": "DType::F8E4M3FNUZ",
        "float8_e5m2": "DType::F8E5M2", "float8_e5m2fnuz": "DType::F8E5M2FNUZ",
        "float8_e8m0fnu": "DType::F8E8M0FNU", "int16": "DType::I16", "int2": "DType::I2",
        "int32": "DType::I32", "int4": "DType::I4", "int64": "DType::I64", "int8": "DType::I8",
        "int_": "DType::I64", "single": "DType::F32", "uint": "DType::U64", "uint16": "DType::U16",
        "uint2": "DType::U2", "uint32": "DType::U32", "uint4": "DType::U4", "uint64": "DType::U64",
        "uint8": "DType::U8", "complexfloating": "DTypeKind::ComplexFloating",
        "floating": "DTypeKind::RealFloating", "inexact": "DTypeKind::Inexact",
        "integer": "DTypeKind::Integral", "number": "DTypeKind::Numeric",
        "signedinteger": "DTypeKind::SignedInteger",
        "unsignedinteger": "DTypeKind::UnsignedInteger", "vstack": "vstack", "round": "round_with",
        "acos": "acos", "max": "Array::max_axes", "min": "Array::min_axes",
        "sum": "Array::sum_axes", "prod": "Array::prod_axes", "mean": "Array::mean_axes",
        "var": "Array::var_axes", "std": "Array::std_axes", "all": "Array::all_axes",
        "any": "Array::any_axes", "count_nonzero": "Array::count_nonzero_axes",
        "argmax": "Array::argmax_axis", "argmin": "Array::argmin_axis",
        "nancumsum": "Array::nancumsum_axis", "nancumprod": "Array::nancumprod_axis",
        "cumsum": "Array::cumsum_axis", "cumprod": "Array::cumprod_axis", "isfinite": "isfinite",
        "squeeze": "Array::squeeze_axes", "astype": "Array::astype",
    },
    "jax.lax": {
        "clz": "count_leading_zeros", "pad": "lax_pad", "max": "maximum", "min": "minimum",
        "dtype": "Array::dtype", "scatter_add": "scatter", "scatter_max": "scatter",
        "scatter_min": "scatter", "scatter_mul": "scatter", "batch_matmul": "matmul",
        "dynamic_update_index_in_dim": "dynamic_update_slice_in_dim",
        "broadcast": "broadcast_in_dim", "broadcast_like": "broadcast_to",
        "broadcast_to_rank": "broadcast_in_dim", "index_in_dim": "dynamic_index_in_dim",
        "index_take": "take", "empty": "zeros", "collapse": "Array::reshape",
        "ConvDimensionNumbers": "ConvDimensionNumbers", "DotDimensionNumbers": "DotGeneral",
        "PrecisionLike": "Precision", "ConvGeneralDilatedDimensionNumbers": "ConvDimensionNumbers",
        "RaggedDotDimensionNumbers": "RaggedDot", "shape_as_value": "Array::shape",
        "scatter_sub": "scatter", "scatter_apply": "scatter",
    },
    "jax.nn": {
        "hard_swish": "hard_silu", "swish": "silu", "identity": "std::convert::identity",
        "one_hot": "one_hot",
    },
    "jax.random": {
        "PRNGKey": "random::key", "clone": "std::clone::Clone", "key_data": "Key::data",
        "key_impl": "Key", "key_dtype": "Key", "wrap_key_data": "Key::from_data",
    },
    "jax.scipy.special": {
        "erfinv": "erf_inv", "expit": "sigmoid", "gammaln": "lgamma", "i0e": "bessel_i0e",
        "i1e": "bessel_i1e", "gammainc": "igamma", "gammaincc": "igammac",
    },
    "jax.profiler": {
        "ProfileData": "profile::Profile", "ProfileEvent": "profile::ProfileEvent",
        "annotate_function": "profile::TraceAnnotation::scope",
    },
    "jax.scipy.stats": {"gaussian_kde": "stats::GaussianKde"},
    "jax.numpy.linalg": {
        "cross": "cross", "diagonal": "diagonal_with", "matmul": "matmul",
        "matrix_transpose": "matrix_transpose", "outer": "outer", "tensordot": "tensordot",
        "trace": "trace_with", "vecdot": "vecdot",
    },
}  # fmt: skip

# Names that do not count: Python-specific, deprecated, or for particular devices.
LEFT_OUT = {
    "jax.numpy": {
        "objects of Python": (
            "ComplexWarning c_ r_ character flexible generic object_ frompyfunc ufunc iterable "
            "fromiter fromstring fromfile get_printoptions printoptions set_printoptions"
        ),
        "particular devices": "from_dlpack",
    },
    "jax.lax": {
        "objects of Python": (
            "dce_sink composite padtype_to_pads conv_dimension_numbers conv_general_permutations "
            "conv_general_shape_tuple conv_shape_tuple conv_transpose_shape_tuple "
            "reduce_window_shape_tuple stage"
        ),
        "deprecated": "rng_uniform",
        "particular devices": (
            "AccuracyMode Tolerance DotAlgorithm DotAlgorithmPreset RoundingMethod precv psend "
            "pcast pbroadcast create_token after_all scaled_dot platform_dependent"
        ),
    },
    "jax.random": {"objects of Python": "random_gamma_p"},
    "jax.nn": {
        "particular devices": "get_scaled_dot_general_config scaled_dot_general scaled_matmul",
    },
}  # fmt: skip

# Names that oxidax will not provide, with the reasons.
REFUSED = {
    "jax.numpy": {
        "trim_zeros": "its result's shape depends on the elements; slice instead",
        "einsum_path": "`einsum` finds the order of contraction itself",
        "float6_e2m3fn": "the CPU plugin aborts on a constant of this dtype",
        "float6_e3m2fn": "the CPU plugin aborts on a constant of this dtype",
        "int1": "StableHLO's smallest integers have two bits",
        "uint1": "StableHLO's smallest integers have two bits",
    },
}
