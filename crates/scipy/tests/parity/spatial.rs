//! Rotations, grids, images and clusters.

use crate::{check, mapped};
use oxidax::prelude::*;
use oxidax_scipy::cluster::vq;
use oxidax_scipy::interpolate::{GridMethod, RegularGridInterpolator, RegularGridOptions};
use oxidax_scipy::ndimage::*;
use oxidax_scipy::spatial::*;
use serde_json::Value;

fn unit(params: &Value) -> AngleUnit {
    if params["degrees"] == true { AngleUnit::Degrees } else { AngleUnit::Radians }
}

fn of_one(op: &str, params: &Value, x: &Array) -> Array {
    let of = || Rotation::from_quat(x);
    let last = QuaternionOrder::ScalarLast;
    match op {
        "as_matrix" => of().as_matrix(),
        "as_rotvec" => of().as_rotvec(AngleUnit::Radians),
        "as_rotvec_degrees" => of().as_rotvec(AngleUnit::Degrees),
        "as_mrp" => of().as_mrp(),
        "as_quat_first" => of().as_quat(QuaternionOrder::ScalarFirst),
        "canonical" => of().canonical().as_quat(last),
        "magnitude" => of().magnitude(),
        "inv" => of().inv().quat,
        "mean" => of().mean().as_matrix(),
        "identity" => Rotation::identity_of(None, x.dtype()).apply(x),
        "from_rotvec" | "from_rotvec_small" => {
            Rotation::from_rotvec(x, AngleUnit::Radians).as_quat(last)
        }
        "from_rotvec_degrees" => Rotation::from_rotvec(x, AngleUnit::Degrees).quat,
        "rotvec_small" => {
            Rotation::from_rotvec(x, AngleUnit::Radians).as_rotvec(AngleUnit::Radians)
        }
        "from_mrp" => Rotation::from_mrp(x).quat,
        "from_matrix" => Rotation::from_matrix(x).quat,
        "from_euler" => Rotation::from_euler(params["seq"].as_str().unwrap(), x, unit(params)).quat,
        "as_euler" => of().as_euler(params["seq"].as_str().unwrap(), unit(params)),
        other => panic!("no function of one operand is called {other}"),
    }
}

fn of_two(op: &str, x: &Array, y: &Array) -> Array {
    let of = || Rotation::from_quat(x);
    match op {
        "mul" => (of() * Rotation::from_quat(y)).quat,
        "apply" | "apply_one" => of().apply(y),
        "apply_inverse" => of().apply_inverse(y),
        "mean_weighted" => of().mean_weighted(y).as_matrix(),
        "concatenate" => Rotation::concatenate([&of(), &Rotation::from_quat(y)]).quat,
        "vq" | "vq_line" => vq(x, y).1,
        "vq_codes" => vq(x, y).0,
        other => panic!("no function of two operands is called {other}"),
    }
}

fn image(params: &Value, x: &Array, rows: &Array, columns: &Array) -> Array {
    let mode = match params["mode"].as_str().unwrap() {
        "nearest" => ImageBoundary::Nearest,
        "wrap" => ImageBoundary::Wrap,
        "mirror" => ImageBoundary::Mirror,
        "reflect" => ImageBoundary::Reflect,
        _ => ImageBoundary::Constant,
    };
    let order = if params["order"] == 0 { SplineOrder::Nearest } else { SplineOrder::Linear };
    let cval = Scalar::from(params["cval"].as_i64().unwrap());
    map_coordinates_with(x, [rows, columns], order, MapCoordinatesOptions { mode, cval })
}

pub(super) fn plain(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    vec![match (op, operands) {
        (_, [x]) => of_one(op, params, x),
        (_, [x, y]) => of_two(op, x, y),
        ("slerp", [times, quat, at]) => {
            Slerp::new(times, &Rotation::from_quat(quat)).apply(at).quat
        }
        ("map_coordinates", [x, rows, columns]) => image(params, x, rows, columns),
        ("grid_line", [x, values, points]) => {
            RegularGridInterpolator::new([x], values).apply(points)
        }
        ("grid", [x, y, values, points]) => {
            let nearest = params["method"] == "nearest";
            let options = RegularGridOptions::default();
            let options = RegularGridOptions {
                method: if nearest { GridMethod::Nearest } else { GridMethod::Linear },
                fill_value: match params["fill"].as_str().unwrap() {
                    "value" => Some(scalar(7.0)),
                    "none" => None,
                    _ => options.fill_value,
                },
                ..options
            };
            RegularGridInterpolator::with_options([x, y], values, options).apply(points)
        }
        _ => panic!("no function of {} operands is called {op}", operands.len()),
    }]
}

mod on_cpu {
    use super::*;

    #[test]
    fn rotations_and_grids() {
        check("scipy_spatial", |op, params, operands| mapped(plain, op, params, operands));
    }

    #[test]
    fn rotations_by_zero_have_derivatives() {
        let there_and_back = |v: &Array| {
            Rotation::from_rotvec(v, AngleUnit::Radians).as_rotvec(AngleUnit::Radians).sum()
        };
        let slope = grad(there_and_back)(&zeros([3]));
        assert_eq!(slope.to_vec::<f32>().unwrap(), [1.0; 3]);
    }

    #[test]
    fn random_rotations_are_uniform() {
        let rotations = Rotation::random(random::key(3), Some(4000));
        let mean = rotations.as_matrix().mean_axes(0);
        assert!(abs(&mean).max().item::<f32>().unwrap() < 0.05);
        let lengths = rotations.quat.square().sum_axes(-1);
        assert!(allclose(&lengths, 1.0).item::<bool>().unwrap());
    }

    #[test]
    fn rotations_are_trees_in_compiled_functions() {
        let turn = jit(|r: Rotation, v: Array| (r.inv().apply(&v), r));
        let rotation = Rotation::from_euler("xyz", &array![0.1, 0.2, 0.3], AngleUnit::Radians);
        let (turned, same) = turn.call(rotation.clone(), array![1.0, 2.0, 3.0]).unwrap();
        assert!(allclose(rotation.apply(&turned), array![1.0, 2.0, 3.0]).item::<bool>().unwrap());
        assert!(array_equal(&same.quat, &rotation.quat).item::<bool>().unwrap());
    }

    #[test]
    fn errors_name_the_numbers() {
        fn fails<R: std::fmt::Debug>(f: impl Fn() -> R) -> String {
            oxidax::catch(f).unwrap_err().to_string()
        }
        let error = fails(|| Rotation::from_euler("xx", &ones([2]), AngleUnit::Radians));
        assert!(error.contains("`xx`"), "{error}");
        let error = fails(|| Rotation::from_quat(&ones([3])));
        assert!(error.contains("[…, 4], got [3]"), "{error}");
        let one = Rotation::identity(None);
        assert!(fails(|| one.len()).contains("single"));
        let error = fails(|| map_coordinates(&ones([2, 2]), [ones([3])], SplineOrder::Linear));
        assert!(error.contains("1 arrays of coordinates"), "{error}");
        let grid = RegularGridInterpolator::with_options(
            [array![0.0, 1.0]],
            &array![0.0, 2.0],
            RegularGridOptions { bounds_error: true, ..Default::default() },
        );
        assert_eq!(grid.apply(&array![0.5]).to_vec::<f32>().unwrap(), [1.0]);
        let error = fails(|| grid.apply(&array![0.5, 1.5]));
        assert!(error.contains("1 points are outside"), "{error}");
        let error = fails(|| vq(&ones([3, 2]), &ones([3, 4])));
        assert!(error.contains("[3,2]") && error.contains("[3,4]"), "{error}");
    }
}
