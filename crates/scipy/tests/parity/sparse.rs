//! Sparse arrays.

use crate::{check, mapped, size, sizes};
use oxidax::prelude::*;
use oxidax::primitives::{ConvGeneralDilated, DotGeneral, GatherDimensionNumbers, Padding};
use oxidax_scipy::sparse::{
    self, Bcoo, Bcsr, Coo, Csc, Csr, FromDenseOptions, RandomBcooOptions, SparseArray,
    SparseEyeOptions, bcoo_dot_general_sampled, random_bcoo_with, sparsify,
};
use serde_json::Value;

fn of(data: &Array, indices: &Array, params: &Value) -> Bcoo {
    Bcoo::new(data, indices, sizes(&params["shape"]).unwrap())
}

fn list(params: &Value, name: &str) -> Vec<usize> {
    sizes(&params[name]).unwrap()
}

fn dims(params: &Value) -> DotGeneral {
    let dims = &params["dims"];
    let list = |group: usize, operand: usize| sizes(&dims[group][operand]).unwrap();
    DotGeneral {
        lhs_contracting: list(0, 0),
        rhs_contracting: list(0, 1),
        lhs_batch: list(1, 0),
        rhs_batch: list(1, 1),
        ..DotGeneral::default()
    }
}

fn from_dense(params: &Value) -> FromDenseOptions {
    FromDenseOptions {
        nse: size(&params["nse"]),
        n_batch: size(&params["n_batch"]).unwrap_or(0),
        n_dense: size(&params["n_dense"]).unwrap_or(0),
        ..FromDenseOptions::default()
    }
}

fn reshaped(m: &Bcoo, op: &str, params: &Value) -> Bcoo {
    match op {
        "todense" => m.clone(),
        "sort_indices" => m.sort_indices(),
        "update_layout" => {
            m.update_layout(size(&params["n_batch"]).unwrap(), size(&params["n_dense"]).unwrap())
        }
        "transpose" => m.transpose(&list(params, "permutation")),
        "reshape" => m.reshape(list(params, "new")),
        "broadcast_in_dim" => m.broadcast_in_dim(list(params, "new"), &list(params, "dims")),
        "slice" => {
            m.slice(&list(params, "start"), &list(params, "limit"), &list(params, "strides"))
        }
        "dynamic_slice" => {
            let starts = crate::numbers(&params["start"]).unwrap();
            let starts: Vec<Array> = starts
                .iter()
                .zip(m.shape().iter())
                .map(|(&start, &size)| if start < 0 { start + size as isize } else { start })
                .map(|start| scalar(start as i64))
                .collect();
            m.dynamic_slice(&starts, &list(params, "sizes"))
        }
        "rev" => m.rev(&list(params, "axes")),
        "reduce_sum" => m.reduce_sum(&list(params, "axes")),
        "concatenate" => Bcoo::concatenate([m, &(m * 2.0), m], size(&params["axis"]).unwrap()),
        "squeeze" => m.reshape(list(params, "to")).squeeze(&list(params, "axes")),
        "index" => m.index(i![1.., ::2]),
        "index_reversed" => m.index(i![.., -1, None, ::-1]),
        other => panic!("no function of one sparse array is called {other}"),
    }
}

fn formatted(params: &Value, x: &Array) -> (Vec<Array>, Bcoo) {
    let nse = size(&params["nse"]);
    match params["format"].as_str().unwrap() {
        "coo" => {
            let m = Coo::fromdense(x, nse);
            (vec![m.data.clone(), m.row.clone(), m.col.clone()], m.to_bcoo())
        }
        "csr" => {
            let m = Csr::fromdense(x, nse);
            (vec![m.data.clone(), m.indices.clone(), m.indptr.clone()], m.to_bcoo())
        }
        _ => {
            let m = Csc::fromdense(x, nse);
            (vec![m.data.clone(), m.indices.clone(), m.indptr.clone()], m.to_bcoo())
        }
    }
}

fn of_one(op: &str, params: &Value, x: &Array) -> Vec<Array> {
    match op {
        "fromdense" => vec![Bcoo::fromdense_with(x, from_dense(params)).data],
        "fromdense_indices" => vec![Bcoo::fromdense_with(x, from_dense(params)).indices],
        "parts" => formatted(params, x).0,
        "bcsr_parts" => {
            let m = Bcsr::fromdense_with(x, from_dense(params));
            vec![m.data, m.indices, m.indptr]
        }
        "bcsr_todense" => vec![Bcsr::fromdense_with(x, from_dense(params)).todense()],
        other => panic!("no function of one array is called {other}"),
    }
}

fn of_two(op: &str, params: &Value, x: &Array, y: &Array) -> Array {
    let nse = || size(&params["nse"]);
    let matrix = || formatted(params, x).1;
    match op {
        "conv" => {
            let padding = match &params["padding"] {
                Value::String(name) if name == "SAME" => Padding::Same,
                Value::String(_) => Padding::Valid,
                _ => Padding::Explicit(vec![(2, 1)]),
            };
            let options = ConvGeneralDilated { padding, ..ConvGeneralDilated::default() };
            let of = |x: &Array| {
                let nse = Some(x.size());
                Bcoo::fromdense_with(x, FromDenseOptions { nse, ..FromDenseOptions::default() })
            };
            of(x).conv_general_dilated(&of(y), &options).todense()
        }
        "matvec" => match params["format"].as_str().unwrap() {
            "coo" => Coo::fromdense(x, nse()).matvec(y),
            "csr" => Csr::fromdense(x, nse()).matvec(y),
            _ => Csc::fromdense(x, nse()).matvec(y),
        },
        "matmat" => match params["format"].as_str().unwrap() {
            "coo" => Coo::fromdense(x, nse()).matmat(y),
            "csr" => Csr::fromdense(x, nse()).matmat(y),
            _ => Csc::fromdense(x, nse()).matmat(y),
        },
        "matvec_transposed" => Coo::from_bcoo(&matrix()).matvec_transposed(y),
        "matmat_transposed" => Csr::from_bcoo(&matrix()).matmat_transposed(y),
        "bcsr_dot" => Bcsr::fromdense_with(x, from_dense(params)).dot_general(y, &dims(params)),
        "sum_duplicates" => of(x, y, params).sum_duplicates_to(nse().unwrap()).todense(),
        _ => reshaped(&of(x, y, params), op, params).todense(),
    }
}

fn of_three(op: &str, params: &Value, x: &Array, y: &Array, z: &Array) -> Array {
    let f = |m: &Bcoo| sin(m.matmul(y));
    match op {
        "extract" => of(y, z, params).extract(x).todense(),
        "dot_general" => of(x, z, params).dot_general(y, &dims(params)),
        "rmatmul" => of(x, z, params).rmatmul(y),
        "matmul" => of(x, z, params).matmul(y),
        "multiply_dense" => (&of(x, z, params) * y).todense(),
        "sampled" => bcoo_dot_general_sampled(x, y, z, &dims(params)),
        "grad" => sparse::grad(|m: &Bcoo| f(m).sum())(&of(x, z, params)).data,
        "jacfwd" => sparse::jacfwd(f)(&of(x, z, params)).todense(),
        "jacrev" => sparse::jacrev(f)(&of(x, z, params)).todense(),
        "sparsify" => {
            let g = sparsify(|x: Vec<Array>| {
                let (m, v) = (&x[0], &x[1]);
                let turned = sin(m.t() * 2.0).index(i![1..]).sum_axes(0);
                vec![(turned * v.index(i![..4])).sum() + m.matmul(v).sum()]
            });
            g(&[of(x, z, params).into(), y.into()])[0].todense()
        }
        other => panic!("no function of three operands is called {other}"),
    }
}

fn plain(op: &str, params: &Value, operands: &[Array]) -> Vec<Array> {
    vec![match operands {
        [] => {
            let m = size(&params["m"]);
            let k = params["k"].as_i64().unwrap() as isize;
            let options = SparseEyeOptions { m, k, ..SparseEyeOptions::default() };
            sparse::eye_with(size(&params["n"]).unwrap(), options).todense()
        }
        [x] => return of_one(op, params, x),
        [x, y] if op == "sum_duplicates_parts" => {
            let m = of(x, y, params).sum_duplicates_to(size(&params["nse"]).unwrap());
            return vec![m.data, m.indices];
        }
        [x, y] => of_two(op, params, x, y),
        [x, y, z] => of_three(op, params, x, y, z),
        [x, y, at_x, at_y] => {
            let (x, y) = (of(x, at_x, params), of(y, at_y, params));
            match op {
                "multiply_sparse" => (&x * &y).todense(),
                "add_sparse" => (&x + &y).todense(),
                "spdot" => x.spdot_general(&y, &dims(params)).todense(),
                other => panic!("no function of two sparse arrays is called {other}"),
            }
        }
        _ => panic!("{} operands", operands.len()),
    }]
}

mod on_cpu {
    use super::*;

    #[test]
    fn sparse_arrays() {
        check("scipy_sparse", |op, params, operands| mapped(plain, op, params, operands));
    }

    #[test]
    fn sparse_arrays_are_trees_in_compiled_functions() {
        let m = Bcoo::fromdense(&array![[0.0, 2.0], [1.0, 0.0]]);
        let double = jit(|m: Bcoo| &m * 2.0);
        let twice = double.call(m.clone()).unwrap();
        assert_eq!(twice.todense().to_vec::<f32>().unwrap(), [0.0, 4.0, 2.0, 0.0]);
        let both = tree::stack(&[m.clone(), twice]);
        assert_eq!(both.shape().dims(), [2, 2, 2]);
        let sums = vmap(|m: Bcoo| m.matmul(&ones([2])).sum()).apply(&both);
        assert_eq!(sums.to_vec::<f32>().unwrap(), [3.0, 6.0]);
    }

    #[test]
    fn entries_are_counted_for_concrete_arrays() {
        let m = Bcoo::fromdense(&array![[0, 2, 2], [1, 0, 0]]);
        assert_eq!((m.nse(), m.n_sparse()), (3, 2));
        let more = Bcoo::concatenate([&m, &m], 0).reduce_sum(&[0]).sum_duplicates();
        assert_eq!(more.nse(), 3);
        assert_eq!(more.data.to_vec::<i32>().unwrap(), [2, 4, 4]);
        let counted = jit(|x: Array| Bcoo::fromdense(&x).data);
        let error = counted.call(ones([2])).unwrap_err().to_string();
        assert!(error.contains("state the number of entries"), "{error}");
    }

    #[test]
    fn random_arrays_have_different_sorted_indices() {
        let options = RandomBcooOptions {
            nse: Some(6),
            n_batch: 1,
            sorted_indices: true,
            ..RandomBcooOptions::default()
        };
        let m = random_bcoo_with(random::key(1), [3, 4, 5], options);
        assert_eq!(m.sum_duplicates().nse(), 6);
        let flat = m.indices.index(i![.., .., 0]) * 5 + m.indices.index(i![.., .., 1]);
        assert!(gt(diff(&flat, 1), 0).all().item::<bool>().unwrap());
    }

    #[test]
    fn arrays_without_entries_are_zero() {
        let none = sparse::empty([3, 2]);
        assert_eq!(none.todense().to_vec::<f32>().unwrap(), [0.0; 6]);
        assert_eq!(none.matmul(&ones([2])).to_vec::<f32>().unwrap(), [0.0; 3]);
        assert_eq!(none.sum_duplicates().nse(), 0);
        assert_eq!(none.t().shape().dims(), [2, 3]);
    }

    fn same(x: &Array, y: &Array) -> bool {
        x.shape() == y.shape() && allclose(x, y).item::<bool>().unwrap()
    }

    #[test]
    fn rows_are_transposed_joined_and_broadcast() {
        let x = array![[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]];
        let m = Bcsr::fromdense(&x);
        assert!(same(&m.t().todense(), &x.t()));
        assert!(same(&m.transpose(&[1, 0]).todense(), &x.t()));
        for axis in [0, 1] {
            let joined = Bcsr::concatenate([&m, &m], axis);
            assert!(same(&joined.todense(), &concatenate([&x, &x], axis as isize)));
        }
        let wide = m.broadcast_in_dim([4, 2, 3], &[1, 2]);
        assert_eq!((wide.n_batch(), wide.n_dense()), (1, 0));
        assert!(same(&wide.todense(), &broadcast_to(&x, [4, 2, 3])));
        let deep = m.broadcast_in_dim([2, 3, 2], &[0, 1]);
        assert_eq!((deep.n_batch(), deep.n_dense()), (0, 1));
        assert!(same(&deep.todense(), &broadcast_to(&x.expand_dims(-1), [2, 3, 2])));
        let other = array![[5.0, 6.0, 7.0], [8.0, 9.0, 10.0]];
        assert_eq!(m.extract(&other).data.to_vec::<f32>().unwrap(), [6.0, 8.0, 10.0]);
        let twice = Bcsr::from_bcoo(&(&m.to_bcoo() + &m.to_bcoo()));
        assert_eq!((twice.nse(), twice.sum_duplicates().nse()), (6, 3));
        assert!(same(&twice.sum_duplicates().todense(), &(&x * 2.0)));
    }

    #[test]
    fn a_slice_is_gathered_at_traced_indices() {
        let x = arange(12.0).reshape([3, 4]);
        let m = Bcoo::fromdense(&x);
        let row = jit(|m: Bcoo, at: Array| {
            let numbers = GatherDimensionNumbers {
                collapsed_slice_dims: vec![0],
                start_index_map: vec![0],
                offset_dims: vec![0],
                ..GatherDimensionNumbers::default()
            };
            m.gather(&at, &numbers, &[1, 4]).todense()
        });
        let found = row.call(m, array![2]).unwrap();
        assert_eq!(found.to_vec::<f32>().unwrap(), [8.0, 9.0, 10.0, 11.0]);
    }

    #[test]
    fn gradients_have_values_and_aux() {
        let m = Bcoo::fromdense(&array![[0.0, 2.0], [1.0, 0.0]]);
        let f = |(m, v): &(Bcoo, Array)| m.matmul(v).sum();
        let (value, (slope, of_v)) = sparse::value_and_grad(f)(&(m.clone(), array![3.0, 5.0]));
        assert_eq!(value.item::<f32>().unwrap(), 13.0);
        assert_eq!(slope.data.to_vec::<f32>().unwrap(), [5.0, 3.0]);
        assert_eq!(of_v.to_vec::<f32>().unwrap(), [1.0, 2.0]);
        let with_aux = |m: &Bcoo| (m.data.square().sum(), m.data.sum());
        let (slope, aux) = sparse::grad_aux(with_aux)(&m);
        assert_eq!(slope.data.to_vec::<f32>().unwrap(), [4.0, 2.0]);
        assert_eq!(aux.item::<f32>().unwrap(), 3.0);
        let ((value, _), _) = sparse::value_and_grad_aux(with_aux)(&m);
        assert_eq!(value.item::<f32>().unwrap(), 5.0);
        let rows = sparse::jacrev(|m: &Bcsr| m.matmul(&ones([2])))(&Bcsr::from_bcoo(&m));
        assert_eq!(rows.todense().sum().item::<f32>().unwrap(), 2.0);
    }

    #[test]
    fn errors_name_the_numbers() {
        fn fails<R: std::fmt::Debug>(f: impl Fn() -> R) -> String {
            oxidax::catch(f).unwrap_err().to_string()
        }
        let m = sparse::eye(3);
        let error = fails(|| m.matmul(&ones([4])));
        assert!(error.contains("is 3") && error.contains("is 4"), "{error}");
        let error = fails(|| m.reshape([2, 4]));
        assert!(error.contains("[3,3]") && error.contains("[2,4]"), "{error}");
        let error = fails(|| Bcoo::new(&ones([3]), &zeros(([2, 2], DType::I32)), [4, 4]));
        assert!(error.contains("[3] and [2,2]"), "{error}");
        let error = fails(|| m.update_layout(1, 0).transpose(&[1, 0]));
        assert!(error.contains("update_layout"), "{error}");
        let error = fails(|| m.index(i![3]));
        assert!(error.contains("index 3 is out of range"), "{error}");
        let error = fails(|| sparsify(|x: Vec<Array>| vec![cos(&x[0])])(&[(&m).into()]));
        assert!(error.contains("`cos` does not take sparse operands"), "{error}");
    }
}
