"""Rotations, interpolation, images and clusters of `jax.scipy`: values, derivatives, batches."""

import numpy as np
from jax.scipy.cluster.vq import vq
from jax.scipy.interpolate import RegularGridInterpolator
from jax.scipy.ndimage import map_coordinates
from jax.scipy.spatial.transform import Rotation, Slerp

from .mapped import plain_and_mapped
from .names import dtype
from .ops_elementwise import inside
from .suite import Suite

KINDS = ("f32", "f64")
TOLERANCE = {
    "f32": {"rtol": 1e-4, "atol": 1e-5},
    "f64": {"rtol": 1e-10, "atol": 1e-12},
    "c64": {"rtol": 1e-4, "atol": 1e-5},
    "c128": {"rtol": 1e-10, "atol": 1e-12},
}


def build(stride: int, quick: bool) -> Suite:
    """Builds the suite with all cases."""
    suite = Suite("scipy_spatial", __doc__.strip(), stride=stride, tolerance=TOLERANCE)
    for kind in KINDS:
        _rotations(suite, kind)
        _euler(suite, kind)
        _slerp(suite, kind)
        _grids(suite, kind)
        _clusters(suite, kind)
    for kind in ("f32", "f64", "c64", "c128", "i32"):
        _images(suite, kind)
    return suite


def _rotations(suite, kind):
    quat, other = inside("quat", (-1, 1), kind, (5, 4)), inside("other", (-1, 1), kind, (4,))
    vector = inside("vector", (-1, 1), kind, (5, 3))
    one = vector[0]
    of = Rotation.from_quat

    def case(op, inputs, run, params=None, wrt=None):
        wrt = list(range(len(inputs))) if wrt is None else wrt
        if kind == "f32" and op not in ("as_rotvec", "mul", "from_matrix", "from_rotvec_small"):
            return
        plain_and_mapped(suite, f"{op}_{kind}", op, inputs, run, params or {}, wrt=wrt)

    case("as_matrix", [quat], lambda q: of(q).as_matrix())
    case("as_rotvec", [quat], lambda q: of(q).as_rotvec())
    case("as_rotvec_degrees", [quat], lambda q: of(q).as_rotvec(degrees=True))
    case("as_mrp", [quat], lambda q: of(q).as_mrp())
    case("as_quat_first", [quat], lambda q: of(q).as_quat(scalar_first=True))
    case("canonical", [quat], lambda q: of(q).as_quat(canonical=True))
    case("magnitude", [quat], lambda q: of(q).magnitude())
    case("inv", [quat], lambda q: of(q).inv().quat)
    case("mul", [quat, other], lambda q, p: (of(q) * of(p)).quat)
    case("apply", [quat, vector], lambda q, v: of(q).apply(v))
    case("apply_one", [quat, one], lambda q, v: of(q).apply(v))
    case("apply_inverse", [other, vector], lambda q, v: of(q).apply(v, inverse=True))
    case("from_rotvec", [vector], lambda v: Rotation.from_rotvec(v).quat)
    case("from_rotvec_degrees", [vector], lambda v: Rotation.from_rotvec(v, degrees=True).quat)
    case("from_mrp", [vector], lambda v: Rotation.from_mrp(v).quat)
    matrices = np.array(Rotation.from_quat(quat).as_matrix())
    # One matrix for each of the four candidates.
    turns = [np.diag(d).astype(quat.dtype) for d in ((1, -1, -1), (-1, 1, -1), (-1, -1, 1))]
    matrices = np.concatenate([matrices, turns, np.eye(3, dtype=quat.dtype)[None]])
    case("from_matrix", [matrices], lambda m: Rotation.from_matrix(m).quat)
    case("mean", [quat], lambda q: of(q).mean().as_matrix())
    weights = inside("weights", (0.5, 1), kind, (5,))
    case("mean_weighted", [quat, weights], lambda q, w: of(q).mean(w).as_matrix())
    case(
        "concatenate",
        [quat, quat[:2]],
        lambda q, p: Rotation.concatenate([of(q), of(p)]).quat,
    )
    case("identity", [vector], lambda v: Rotation.identity(dtype=v.dtype).apply(v))
    small = vector * dtype(kind).type(1e-4)
    case("from_rotvec_small", [small], lambda v: Rotation.from_rotvec(v).quat)
    case("rotvec_small", [small], lambda v: Rotation.from_rotvec(v).as_rotvec())


def _euler(suite, kind):
    angles = inside("angles", (-1, 1), kind, (4, 3))
    quat = inside("euler", (-1, 1), kind, (4, 4))
    for seq in ("x", "Z", "xy", "ZX", "xyz", "XYZ", "zxz", "ZXZ", "yzx", "YXY", "zyx"):
        for degrees in (False, True):
            run = lambda a, seq=seq, degrees=degrees: Rotation.from_euler(seq, a, degrees).quat
            params = {"seq": seq, "degrees": degrees}
            name = f"from_euler_{seq}_{degrees}_{kind}"
            suite.case(name, "from_euler", [angles[:, : len(seq)]], run, params, wrt=[0])
            if kind == "f32" and degrees:
                break
            if len(seq) == 3:
                run = lambda q, seq=seq, degrees=degrees: Rotation.from_quat(q).as_euler(
                    seq, degrees
                )
                name = f"as_euler_{seq}_{degrees}_{kind}"
                suite.case(name, "as_euler", [quat], run, params, wrt=[0])
    locked = np.array([[0.3, np.pi / 2, 0.2], [0.3, -np.pi / 2, 0.2]], angles.dtype)
    symmetric = np.array([[0.3, 0, 0.2], [0.3, np.pi, 0.2]], angles.dtype)
    for seq in ("xyz", "XYZ", "zxz", "ZXZ"):
        start = symmetric if seq[0] == seq[2] else locked
        if kind == "f32":
            continue
        turned = np.array(Rotation.from_euler(seq, start).quat)
        run = lambda q, seq=seq: Rotation.from_quat(q).as_euler(seq)
        tolerance = {"rtol": 1e-6, "atol": 1e-6}
        params = {"seq": seq, "degrees": False}
        name = f"as_euler_locked_{seq}_{kind}"
        suite.case(name, "as_euler", [turned], run, params, tolerance=tolerance)


def _slerp(suite, kind):
    times = np.array([0.0, 1.0, 2.5, 4.0], dtype(kind))
    quat = inside("slerp", (-1, 1), kind, (4, 4))
    at = np.array([0.3, 1.0, 3.7, -0.5, 4.0, 0.1], dtype(kind))
    run = lambda t, q, at: Slerp.init(t, Rotation.from_quat(q))(at).quat
    plain_and_mapped(suite, f"slerp_{kind}", "slerp", [times, quat, at], run, {},
                     wrt=[1, 2], in_axes=[None, 0, None])
    suite.case(f"slerp_one_{kind}", "slerp", [times, quat, at[0]], run, {}, wrt=[0, 1, 2])


def _grids(suite, kind):
    x, y = np.array([0.0, 0.5, 2.0], dtype(kind)), np.array([-1.0, 0.0, 1.0, 3.0], dtype(kind))
    values = inside("grid", (-1, 1), kind, (3, 4, 2))
    points = np.array([[0.2, 0.3], [1.9, 2.9], [0.5, -1.0], [2.5, 0.5], [0.1, -2.0]], dtype(kind))
    for method in ("linear", "nearest"):
        for fill in ("nan", "value", "none"):
            fill_value = {"nan": np.nan, "value": 7.0, "none": None}[fill]
            run = lambda x, y, v, p, method=method, fill_value=fill_value: RegularGridInterpolator(
                (x, y), v, method=method, fill_value=fill_value
            )(p)
            wrt = [2, 3] if method == "linear" and fill != "nan" else [2]
            if fill == "nan":
                wrt = None
            params = {"method": method, "fill": fill}
            plain_and_mapped(
                suite,
                f"grid_{method}_{fill}_{kind}",
                "grid",
                [x, y, values, points],
                run,
                params,
                wrt=wrt,
                in_axes=[None, None, 0, None],
            )
    run = lambda x, v, p: RegularGridInterpolator((x,), v)(p)
    line = values[:, 0, 0].copy()
    inputs = [x, line, np.array([0.1, 1.5, 2.0], dtype(kind))]
    suite.case(f"grid_line_{kind}", "grid_line", inputs, run, {}, wrt=[0, 1, 2])


def _clusters(suite, kind):
    x, codes = inside("obs", (-1, 1), kind, (6, 3)), inside("codes", (-1, 1), kind, (4, 3))
    run = lambda x, c: vq(x, c)[0].astype(np.int32)
    suite.case(f"vq_codes_{kind}", "vq_codes", [x, codes], run)
    run = lambda x, c: vq(x, c)[1]
    plain_and_mapped(suite, f"vq_{kind}", "vq", [x, codes], run, {}, wrt=[0, 1])
    line = [x[:, 0].copy(), codes[:, 0].copy()]
    suite.case(f"vq_line_{kind}", "vq", line, lambda x, c: vq(x, c)[1], {}, wrt=[0, 1])


def _images(suite, kind):
    is_integer = kind == "i32"
    x = np.arange(12, dtype=np.int32).reshape(3, 4) ** 2 if is_integer else None
    x = inside("image", (-1, 1), kind, (3, 4)) if x is None else x
    at_kind = {"c64": "f32", "c128": "f64", "i32": "f64"}.get(kind, kind)
    rows = inside("rows", (-4, 6), at_kind, (2, 5))
    columns = inside("columns", (-5, 8), at_kind, (5,))
    for order in (0, 1):
        for mode in ("constant", "nearest", "wrap", "mirror", "reflect"):
            for cval in (0, 2) if mode == "constant" else (0,):
                run = lambda x, r, c, order=order, mode=mode, cval=cval: map_coordinates(
                    x, [r, c], order, mode, cval
                )
                wrt = None if is_integer else ([0, 1, 2] if order else [0])
                name = f"map_coordinates_{order}_{mode}_{cval}_{kind}"
                params = {"order": order, "mode": mode, "cval": cval}
                if kind in ("f32", "c64") and mode != "reflect":
                    continue
                if mode == "wrap" and not is_integer:
                    plain_and_mapped(suite, name, "map_coordinates", [x, rows, columns], run,
                                     params, wrt=wrt, in_axes=[0, None, 0])
                else:
                    suite.case(name, "map_coordinates", [x, rows, columns], run, params, wrt=wrt)
