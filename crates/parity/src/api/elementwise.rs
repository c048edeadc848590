//! Elementwise functions and activation functions.

use oxidax::prelude::*;

fn pair((a, b): (Array, Array)) -> Vec<Array> {
    vec![a, b]
}

pub(super) fn apply(op: &str, x: &[Array]) -> Option<Vec<Array>> {
    let result = match op {
        "log2" => log2(&x[0]),
        "log10" => log10(&x[0]),
        "logaddexp2" => logaddexp2(&x[0], &x[1]),
        "deg2rad" => deg2rad(&x[0]),
        "rad2deg" => rad2deg(&x[0]),
        "hypot" | "hypot_edges" => hypot(&x[0], &x[1]),
        "sinc" | "sinc_zero" | "sinc_near_zero" => sinc(&x[0]),
        "unwrap" => unwrap(&x[0], -1),
        "unwrap_period" => unwrap_with(&x[0], 0, UnwrapOptions { period: 3.0, discont: None }),
        "signbit" | "signbit_int" => signbit(&x[0]),
        "copysign" => copysign(&x[0], &x[1]),
        "trunc" => trunc(&x[0]),
        "modf" => return Some(pair(modf(&x[0]))),
        "fabs_int" => fabs(&x[0]),
        "positive" => positive(&x[0]),
        "reciprocal" | "reciprocal_int" => reciprocal(&x[0]),
        "float_power" => float_power(&x[0], &x[1]),
        "round_2" => round_with(&x[0], RoundOptions { decimals: 2 }),
        "frexp" | "frexp_plain" => return Some(pair(frexp(&x[0]))),
        "ldexp" => ldexp(&x[0], &x[1]),
        "spacing" => spacing(&x[0]),
        "fmax" | "fmax_nan" => fmax(&x[0], &x[1]),
        "fmin" | "fmin_nan" => fmin(&x[0], &x[1]),
        "heaviside" => heaviside(&x[0], &x[1]),
        "divmod" | "divmod_int" => return Some(pair(divmod(&x[0], &x[1]))),
        "gcd" => gcd(&x[0], &x[1]),
        "lcm" => lcm(&x[0], &x[1]),
        "logical_and" => logical_and(&x[0], &x[1]),
        "logical_or" => logical_or(&x[0], &x[1]),
        "logical_xor" => logical_xor(&x[0], &x[1]),
        "logical_not" => logical_not(&x[0]),
        "isclose" => isclose(&x[0], &x[1]),
        "isclose_nan" => {
            let options = CloseOptions { rtol: 0.1, equal_nan: true, ..CloseOptions::default() };
            isclose_with(&x[0], &x[1], options)
        }
        "allclose" => allclose(&x[0], &x[1]),
        "array_equal" => array_equal(&x[0], &x[1]),
        "array_equiv" => array_equiv(&x[0], &x[1]),
        "isreal" => isreal(&x[0]),
        "iscomplex" => iscomplex(&x[0]),
        "isposinf" => isposinf(&x[0]),
        "isneginf" => isneginf(&x[0]),
        "packbits" => packbits(&x[0], -1, BitOrder::Big),
        "packbits_little" => packbits(&x[0], 0, BitOrder::Little),
        "unpackbits" => unpackbits(&x[0], -1, BitOrder::Big),
        "unpackbits_little" => unpackbits(&x[0], 0, BitOrder::Little),
        "celu" => celu(&x[0], 1.5),
        "hard_sigmoid" => hard_sigmoid(&x[0]),
        "hard_silu" => hard_silu(&x[0]),
        "mish" => mish(&x[0]),
        "squareplus" => squareplus(&x[0], 4.0),
        "sparse_plus" => sparse_plus(&x[0]),
        "sparse_sigmoid" => sparse_sigmoid(&x[0]),
        "log1mexp" => log1mexp(&x[0]),
        "logmeanexp" => logmeanexp(&x[0], -1),
        "logmeanexp_all" => logmeanexp(&x[0], Axes::all()),
        _ => return None,
    };
    Some(vec![result])
}
