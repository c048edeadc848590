//! Exemplars of `shard_map` for the law tests.

use super::{ShardMap, ShardMapping};
use crate::core::{Aval, DType, Device, Exemplar, Mesh, Sample, Varying, bind1};
use crate::p;
use crate::primitives::PSum;
use crate::transforms::staging::trace_rules;
use std::sync::Arc;

/// Maps over one device, which exists on every platform. `tests/devices/parallel` covers several.
pub(in crate::control_flow) fn exemplars() -> Vec<Exemplar> {
    let device = Device::new(0, 0, "device", "", true);
    let mesh = Mesh::new([device], [("i", 1)]).expect("one device is a mesh");
    [
        (DType::F32, true, [&[2, 3][..], &[3]]),
        (DType::F64, true, [&[2, 3], &[3]]),
        (DType::F64, false, [&[2, 3], &[3]]),
        (DType::F64, true, [&[0, 1], &[]]),
    ]
    .map(|(dtype, tracked, [rows, all])| {
        let varying = if tracked { Varying::over(["i"]) } else { Varying::NONE };
        let shards = Aval::new(dtype, rows).with_varying(varying);
        let whole = Aval::new(dtype, all);
        let program = trace_rules([shards, whole], |inputs| {
            let product = &inputs[0] * &crate::primitives::sin(&inputs[1]);
            let sum = bind1(PSum::over(vec!["i".into()]), [&product]);
            vec![product, sum]
        });
        let mapping = ShardMapping {
            name: "f".into(),
            mesh: mesh.clone(),
            axes: vec!["i".into()],
            in_specs: vec![p!["i"], p![]],
            out_specs: vec![p!["i"], p![]],
            tracked,
        };
        let mapped = ShardMap { mapping, program: Arc::new(program) };
        let sample = |shape: &[usize]| Sample::uniform(dtype, shape, -2.0, 2.0);
        Exemplar::new(mapped, [sample(rows), sample(all)])
    })
    .into()
}
