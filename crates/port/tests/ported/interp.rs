//! `interp` of
//! `../../../../tmp/jv/0.10.2/lib/python3.11/site-packages/jax/_src/numpy/lax_numpy.py:2652`,
//! traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;
use oxidax::primitives::{GatherDimensionNumbers, GatherScatterMode};

/// One-dimensional linear interpolation.
pub fn interp(x: &Array, xp: &Array, fp: &Array) -> Array {
    let ((_, state_1), _) = scan(
        |(state_0, state_1): (Array, Array), (): ()| {
            let ratio = oxidax::core::bind1(
                oxidax::primitives::Div,
                [&(&state_1 - &state_0), &full(([], DType::U32), 2)],
            );
            let sum = &state_0 + &ratio;
            let part = gather(
                xp,
                &sum.expand_dims(-1),
                &GatherDimensionNumbers {
                    offset_dims: vec![1],
                    collapsed_slice_dims: vec![],
                    start_index_map: vec![0],
                    operand_batching_dims: vec![],
                    start_indices_batching_dims: vec![],
                },
                &[1],
                GatherScatterMode::Clip,
            );
            let shaped = part.squeeze_axes([-1]);
            let selected = where_(shaped.isnan(), f64::NAN, where_(eq(&shaped, 0.0), 0.0, &shaped));
            let value = lt(where_(x.isnan(), f64::NAN, where_(eq(x, 0.0), 0.0, x)), &selected);
            ((where_(&value, &state_0, &sum), where_(&value, &sum, &state_1)), ())
        },
        (zeros(([7], DType::U32)), full(([7], DType::U32), 5)),
        3usize,
    );
    let value = state_1.astype(DType::I32).clip(1, 4);
    let part = gather(
        fp,
        &where_(lt(&value, 0), &value + 5, &value).expand_dims(-1),
        &GatherDimensionNumbers {
            offset_dims: vec![],
            collapsed_slice_dims: vec![0],
            start_index_map: vec![0],
            operand_batching_dims: vec![],
            start_indices_batching_dims: vec![],
        },
        &[1],
        GatherScatterMode::PromiseInBounds,
    );
    let difference = &value - 1;
    let part2 = gather(
        fp,
        &where_(lt(&difference, 0), &difference + 5, &difference).expand_dims(-1),
        &GatherDimensionNumbers {
            offset_dims: vec![],
            collapsed_slice_dims: vec![0],
            start_index_map: vec![0],
            operand_batching_dims: vec![],
            start_indices_batching_dims: vec![],
        },
        &[1],
        GatherScatterMode::PromiseInBounds,
    );
    let part3 = gather(
        xp,
        &where_(lt(&value, 0), &value + 5, &value).expand_dims(-1),
        &GatherDimensionNumbers {
            offset_dims: vec![],
            collapsed_slice_dims: vec![0],
            start_index_map: vec![0],
            operand_batching_dims: vec![],
            start_indices_batching_dims: vec![],
        },
        &[1],
        GatherScatterMode::PromiseInBounds,
    );
    let difference2 = &value - 1;
    let part4 = gather(
        xp,
        &where_(lt(&difference2, 0), &difference2 + 5, &difference2).expand_dims(-1),
        &GatherDimensionNumbers {
            offset_dims: vec![],
            collapsed_slice_dims: vec![0],
            start_index_map: vec![0],
            operand_batching_dims: vec![],
            start_indices_batching_dims: vec![],
        },
        &[1],
        GatherScatterMode::PromiseInBounds,
    );
    let difference2 = &part3 - &part4;
    let difference3 = &value - 1;
    let part3 = gather(
        xp,
        &where_(lt(&difference3, 0), &difference3 + 5, &difference3).expand_dims(-1),
        &GatherDimensionNumbers {
            offset_dims: vec![],
            collapsed_slice_dims: vec![0],
            start_index_map: vec![0],
            operand_batching_dims: vec![],
            start_indices_batching_dims: vec![],
        },
        &[1],
        GatherScatterMode::PromiseInBounds,
    );
    let mask = le(difference2.abs(), 1.4210855e-14);
    let difference4 = &value - 1;
    let part4 = gather(
        fp,
        &where_(lt(&difference4, 0), &difference4 + 5, &difference4).expand_dims(-1),
        &GatherDimensionNumbers {
            offset_dims: vec![],
            collapsed_slice_dims: vec![0],
            start_index_map: vec![0],
            operand_batching_dims: vec![],
            start_indices_batching_dims: vec![],
        },
        &[1],
        GatherScatterMode::PromiseInBounds,
    );
    let difference5 = &value - 1;
    let part5 = gather(
        fp,
        &where_(lt(&difference5, 0), &difference5 + 5, &difference5).expand_dims(-1),
        &GatherDimensionNumbers {
            offset_dims: vec![],
            collapsed_slice_dims: vec![0],
            start_index_map: vec![0],
            operand_batching_dims: vec![],
            start_indices_batching_dims: vec![],
        },
        &[1],
        GatherScatterMode::PromiseInBounds,
    );
    let sum = &part5 + (x - &part3) / where_(&mask, 1, &difference2) * (&part - &part2);
    let selected = where_(
        lt(x, xp.index(i![..1]).reshape(())),
        fp.index(i![..1]).reshape(()),
        where_(&mask, &part4, &sum),
    );
    let selected2 =
        where_(gt(x, xp.index(i![4..]).reshape(())), fp.index(i![4..]).reshape(()), &selected);
    selected2
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn interp_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/interp.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let x = array("in.0");
        let xp = array("in.1");
        let fp = array("in.2");
        let found = jit(interp).call(&x, &xp, &fp).expect("the function compiles");
        let found = tree::leaves(&found);
        assert_eq!(found.len(), 1);
        for (index, found) in found.iter().enumerate() {
            let expected = array(&format!("out.{index}"));
            assert_eq!(found.shape(), expected.shape(), "result {index}");
            assert_eq!(found.dtype(), expected.dtype(), "result {index}");
            let close = CloseOptions { rtol: TOLERANCE, atol: TOLERANCE, equal_nan: true };
            let (found, expected) = (found.astype(DType::F64), expected.astype(DType::F64));
            let agrees = allclose_with(&found, &expected, close).item::<bool>();
            assert!(agrees.expect("one value"), "result {index}: {found} is not {expected}");
        }
    }
}
