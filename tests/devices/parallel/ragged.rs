//! `ragged_all_to_all`, compared with a reference that is computed on the host. There are no
//! fixtures, because JAX 0.10.2 does not compile it for CPUs.

use super::{close, counting, mesh, values};
use oxidax::prelude::*;

/// Number of columns of every row.
const COLUMNS: usize = 2;

/// Slices between eight devices, and the arrays that describe them.
struct Traffic {
    groups: Vec<Vec<usize>>,
    per_receiver: usize,
    /// Rows of every operand, and of every output.
    rows: [usize; 2],
    /// For each device: input offsets, send sizes, output offsets, receive sizes.
    indices: [Vec<Vec<i32>>; 4],
}

impl Traffic {
    /// Creates slices of the sizes that `size` returns for sender and slice. They are separated by
    /// gaps, and arrive in another order than they are sent.
    fn new(
        groups: &[&[usize]],
        per_receiver: usize,
        size: impl Fn(usize, usize) -> i32,
    ) -> Traffic {
        let groups: Vec<Vec<usize>> = groups.iter().map(|group| group.to_vec()).collect();
        let slices = groups[0].len() * per_receiver;
        let mut indices = [(); 4].map(|()| vec![vec![0; slices]; 8]);
        let mut rows = [1, 1];
        for (sender, slice) in (0..8).flat_map(|sender| (0..slices).map(move |at| (sender, at))) {
            indices[1][sender][slice] = size(sender, slice);
        }
        let [offsets, sizes, ..] = &mut indices;
        for (offsets, sizes) in offsets.iter_mut().zip(sizes) {
            let mut next = 0;
            for (slice, (offset, size)) in offsets.iter_mut().zip(sizes).enumerate() {
                *offset = next;
                next += *size + (slice % 3 == 1) as i32;
            }
            rows[0] = rows[0].max(next as usize + 1);
        }
        for group in &groups {
            for (to, &receiver) in group.iter().enumerate() {
                let mut next = 1;
                for (from, &sender) in group.iter().enumerate().rev() {
                    for part in 0..per_receiver {
                        let sent = to * per_receiver + part;
                        let size = indices[1][sender][sent];
                        indices[2][sender][sent] = next;
                        indices[3][receiver][from * per_receiver + part] = size;
                        next += size;
                    }
                }
                rows[1] = rows[1].max(next as usize + 1);
            }
        }
        Traffic { groups, per_receiver, rows, indices }
    }

    /// Returns the source of each row of each result: sender and row, if it is received.
    fn sources(&self) -> Vec<Vec<Option<(usize, usize)>>> {
        let mut sources = vec![vec![None; self.rows[1]]; 8];
        for group in &self.groups {
            for &sender in group {
                for slice in 0..self.indices[0][sender].len() {
                    let receiver = group[slice / self.per_receiver];
                    let [from, size, to] = [0, 1, 2]
                        .map(|which| usize::try_from(self.indices[which][sender][slice]).unwrap());
                    for row in 0..size {
                        sources[receiver][to + row] = Some((sender, from + row));
                    }
                }
            }
        }
        sources
    }

    /// Returns operands and outputs, `[8, rows, COLUMNS]`.
    fn data(&self) -> [Array; 2] {
        let [sent, written] = self.rows.map(|rows| counting(&[8, rows, COLUMNS]));
        [sin(&sent), cos(&written)]
    }

    /// Returns the four arrays of offsets and sizes, `[8, slices]`.
    fn arrays(&self, dtype: DType) -> [Array; 4] {
        self.indices.each_ref().map(|rows| {
            let flat: Vec<i32> = rows.iter().flatten().copied().collect();
            convert_element_type(&Array::from_slice(&flat, [8, rows[0].len()]).unwrap(), dtype)
        })
    }

    /// Returns the results for these operands and outputs.
    fn expected(&self, operand: &[f32], output: &[f32]) -> Vec<f32> {
        let mut result = output.to_vec();
        for (at, source) in self.sources().into_iter().flatten().enumerate() {
            if let Some((sender, row)) = source {
                let from = (sender * self.rows[0] + row) * COLUMNS;
                let to = at * COLUMNS;
                result[to..to + COLUMNS].copy_from_slice(&operand[from..from + COLUMNS]);
            }
        }
        result
    }
}

type Six = (Array, Array, Array, Array, Array, Array);

fn six([operand, output]: [Array; 2], [from, sizes, to, received]: [Array; 4]) -> Six {
    (operand, output, from, sizes, to, received)
}

fn exchanged(axes: AxisNames) -> impl Fn(Six) -> Array + Copy + Send + Sync + 'static
where
    AxisNames: 'static,
{
    let axes: &'static AxisNames = Box::leak(Box::new(axes));
    move |(operand, output, from, sizes, to, received)| {
        ragged_all_to_all(&operand, &output, &from, &sizes, &to, &received, axes.clone())
    }
}

/// Applies `f`, a function of the arrays of one device, on eight devices along the mesh axes.
fn on_devices(
    f: impl Fn(Six) -> Array + Copy + Send + Sync + 'static,
    mesh: &Mesh,
    spec: PartitionSpec,
    operands: Six,
) -> Array {
    let one = move |(a, b, c, d, e, g): Six| {
        let own = |x: Array| reshape(&x, x.shape().remove(0));
        let y = f((own(a), own(b), own(c), own(d), own(e), own(g)));
        reshape(&y, y.shape().insert(0, 1))
    };
    shard_map(one, mesh).in_specs(spec.clone()).out_specs(spec).apply(operands)
}

fn uneven(sender: usize, slice: usize) -> i32 {
    ((5 * sender + 3 * slice) % 4) as i32
}

fn everyone() -> [&'static [usize]; 1] {
    [&[0, 1, 2, 3, 4, 5, 6, 7]]
}

#[test]
fn slices_of_different_sizes_arrive() {
    let traffic = Traffic::new(&everyone(), 2, uneven);
    let data = traffic.data();
    let expected = traffic.expected(&values(&data[0]), &values(&data[1]));
    assert_ne!(expected, values(&data[1]));
    let operands = six(data, traffic.arrays(DType::I32));
    let f = exchanged("i".into());
    let sharded = on_devices(f, &mesh([("i", 8)]), p!["i"], operands.clone());
    assert_eq!(values(&sharded), expected);
    let mapped = pmap(f).axis_name("i").call(operands.clone()).unwrap();
    assert_eq!(values(&mapped), expected);
    assert_eq!(values(&vmap(f).axis_name("i").apply(operands.clone())), expected);
    // Two axes count as one, of which the last varies fastest.
    let both = exchanged(["a", "b"].into());
    let mesh = mesh([("a", 4), ("b", 2)]);
    assert_eq!(values(&on_devices(both, &mesh, p![["a", "b"]], operands)), expected);
}

#[test]
fn slices_stay_in_their_groups() {
    let groups: [&[usize]; 2] = [&[0, 5, 2, 7], &[1, 6, 3, 4]];
    let traffic = Traffic::new(&groups, 3, uneven);
    let data = traffic.data();
    let expected = traffic.expected(&values(&data[0]), &values(&data[1]));
    let operands = six(data, traffic.arrays(DType::I32));
    let lists = groups.map(<[usize]>::to_vec);
    let f = exchanged(AxisNames::from("i").axis_index_groups(lists.clone()));
    let sharded = on_devices(f, &mesh([("i", 8)]), p!["i"], operands.clone());
    assert_eq!(values(&sharded), expected);
    assert_eq!(values(&vmap(f).axis_name("i").apply(operands.clone())), expected);
    let both = exchanged(AxisNames::from(["a", "b"]).axis_index_groups(lists));
    let mesh = mesh([("a", 4), ("b", 2)]);
    assert_eq!(values(&on_devices(both, &mesh, p![["a", "b"]], operands)), expected);
    // Groups of one device copy their own slices.
    let alone: Vec<Vec<usize>> = (0..8).map(|device| vec![device]).collect();
    let slices: Vec<&[usize]> = alone.iter().map(Vec::as_slice).collect();
    let traffic = Traffic::new(&slices, 2, uneven);
    let data = traffic.data();
    let expected = traffic.expected(&values(&data[0]), &values(&data[1]));
    let f = exchanged(AxisNames::from("i").axis_index_groups(alone));
    let operands = six(data, traffic.arrays(DType::I32));
    assert_eq!(values(&on_devices(f, &super::mesh([("i", 8)]), p!["i"], operands)), expected);
}

#[test]
fn every_dtype_arrives() {
    let (mesh, traffic) = (mesh([("i", 8)]), Traffic::new(&everyone(), 1, uneven));
    let bits = |rows: usize, factor: i32| {
        let numbers = iota(DType::I32, 8 * rows * COLUMNS);
        reshape(&((numbers * factor) % 5).less(2).astype(DType::I32), [8, rows, COLUMNS])
    };
    let [operand, output] = [bits(traffic.rows[0], 3), bits(traffic.rows[1], 7)];
    let [sent, written] = [&operand, &output].map(|x| values(&x.astype(DType::F32)));
    let expected = traffic.expected(&sent, &written);
    let expected = Array::from_slice(&expected, output.shape()).unwrap();
    let f = exchanged("i".into());
    for dtype in DType::all() {
        let of_dtype = |x: &Array| convert_element_type(x, dtype);
        let indices = match dtype.is_integer() && dtype.bits() >= 8 {
            true => traffic.arrays(dtype),
            false => traffic.arrays(DType::I32),
        };
        let operands = six([of_dtype(&operand), of_dtype(&output)], indices);
        let received = on_devices(f, &mesh, p!["i"], operands);
        assert_eq!(received.dtype(), dtype);
        let bytes = |x: &Array| x.to_bytes().unwrap_or_else(|error| panic!("{dtype}: {error}"));
        assert_eq!(bytes(&received), bytes(&of_dtype(&expected)), "{dtype}");
    }
}

#[test]
fn empty_slices_change_nothing() {
    let mesh = mesh([("i", 8)]);
    let traffic = Traffic::new(&everyone(), 2, |_, _| 0);
    let data = traffic.data();
    let f = exchanged("i".into());
    let kept = on_devices(f, &mesh, p!["i"], six(data.clone(), traffic.arrays(DType::I32)));
    assert_eq!(values(&kept), values(&data[1]));
    // Nothing to send at all.
    let none = zeros([8, 0, COLUMNS]);
    let operands = six([none, data[1].clone()], traffic.arrays(DType::I32));
    assert_eq!(values(&on_devices(f, &mesh, p!["i"], operands)), values(&data[1]));
    // Slices from and to one device only.
    let traffic = Traffic::new(&everyone(), 1, |from, to| 3 * ((from == 6) & (to == 1)) as i32);
    let data = traffic.data();
    let expected = traffic.expected(&values(&data[0]), &values(&data[1]));
    let operands = six(data, traffic.arrays(DType::I32));
    assert_eq!(values(&on_devices(f, &mesh, p!["i"], operands)), expected);
}

#[test]
fn gradients_flow_back_along_the_slices() {
    for (groups, per_receiver) in
        [(vec![everyone()[0]], 2), (vec![&[0, 5, 2, 7][..], &[1, 6, 3, 4]], 1)]
    {
        let traffic = Traffic::new(&groups, per_receiver, uneven);
        let [operand, output] = traffic.data();
        let indices = traffic.arrays(DType::I32);
        let weights = sin(counting(&[8, traffic.rows[1], COLUMNS]) * 0.3);
        let lists: Vec<Vec<usize>> = groups.iter().map(|group| group.to_vec()).collect();
        let axes = match lists.len() {
            1 => AxisNames::from("i"),
            _ => AxisNames::from("i").axis_index_groups(lists),
        };
        let f = exchanged(axes);
        let weights_ = weights.clone();
        let on_mesh = {
            let (mesh, indices) = (mesh([("i", 8)]), indices.clone());
            move |x: &Array, y: &Array| {
                let operands = six([x.clone(), y.clone()], indices.clone());
                on_devices(f, &mesh, p!["i"], operands)
            }
        };
        let loss = |result: Array| (&result * &result * &weights_).sum();
        let slopes =
            grad(|(x, y): &(Array, Array)| loss(on_mesh(x, y)))(&(operand.clone(), output.clone()));
        let batched = grad(|(x, y): &(Array, Array)| {
            loss(vmap(f).axis_name("i").apply(six([x.clone(), y.clone()], indices.clone())))
        })(&(operand.clone(), output.clone()));
        // By hand: each row of the result belongs to one row of an operand or an output.
        let result = traffic.expected(&values(&operand), &values(&output));
        let cts: Vec<f32> =
            result.iter().zip(values(&weights)).map(|(x, weight)| 2.0 * x * weight).collect();
        let mut to_operand = vec![0.0; operand.size()];
        let mut to_output = cts.clone();
        for (at, source) in traffic.sources().into_iter().flatten().enumerate() {
            if let Some((sender, row)) = source {
                let (from, to) = (at * COLUMNS, (sender * traffic.rows[0] + row) * COLUMNS);
                to_operand[to..to + COLUMNS].copy_from_slice(&cts[from..from + COLUMNS]);
                to_output[from..from + COLUMNS].fill(0.0);
            }
        }
        for (found, expected) in [
            (&slopes.0, &to_operand),
            (&slopes.1, &to_output),
            (&batched.0, &to_operand),
            (&batched.1, &to_output),
        ] {
            close(found, &Array::from_slice(expected, found.shape()).unwrap(), 1e-5);
        }
        // Forward mode, with one tangent at a time.
        let (_, by_operand) = jvp(|x: &Array| on_mesh(x, &output), &operand, &operand);
        let (_, by_output) = jvp(|y: &Array| on_mesh(&operand, y), &output, &output);
        let sum = by_operand + by_output;
        close(&sum, &Array::from_slice(&result, output.shape()).unwrap(), 1e-5);
    }
}

#[test]
fn examples_on_each_device_are_exchanged_together() {
    let mesh = mesh([("i", 8)]);
    let all: Vec<Traffic> = (0..3)
        .map(|example| Traffic::new(&everyone(), 1, move |p, k| uneven(p + example, k + 1)))
        .collect();
    let rows = [0, 1].map(|which| all.iter().map(|one| one.rows[which]).max().unwrap());
    let all: Vec<Traffic> = all.into_iter().map(|one| Traffic { rows, ..one }).collect();
    let each: Vec<[Array; 2]> = all.iter().map(Traffic::data).collect();
    let results = all.iter().zip(&each).map(|(one, [x, y])| {
        Array::from_slice(&one.expected(&values(x), &values(y)), y.shape()).unwrap()
    });
    let expected = stack(results.collect::<Vec<_>>(), 1);
    let joined = |part: &dyn Fn(usize) -> Array| stack([part(0), part(1), part(2)], 1);
    let data = [0, 1].map(|which| joined(&|example| each[example][which].clone()));
    let indices =
        [0, 1, 2, 3].map(|which| joined(&|example| all[example].arrays(DType::I32)[which].clone()));
    let f = exchanged("i".into());
    let batched = move |operands: Six| vmap(f).apply(operands);
    let found = on_devices(batched, &mesh, p!["i"], six(data.clone(), indices));
    assert_eq!(values(&found), values(&expected));
    // The same slices for all examples.
    let shared = all[1].arrays(DType::U8);
    let apart = [None, Some(1), Some(1)];
    let batched = move |(x, y, from, sizes, to, received): Six| {
        let one = move |x: Array, y: Array| {
            f((x, y, from.clone(), sizes.clone(), to.clone(), received.clone()))
        };
        vmap(one).apply(x, y)
    };
    let found = on_devices(batched, &mesh, p!["i"], six(data, shared));
    let results: Vec<Array> = each
        .iter()
        .map(|[x, y]| {
            Array::from_slice(&all[1].expected(&values(x), &values(y)), y.shape()).unwrap()
        })
        .collect();
    assert_eq!(values(&found), values(&stack(results, apart[1].unwrap())));
}

#[test]
fn arrays_that_do_not_fit_are_refused() {
    let mesh = mesh([("i", 8)]);
    let message = |shapes: [&[usize]; 6], dtypes: [DType; 6]| {
        let operands: Vec<Array> =
            shapes.iter().zip(dtypes).map(|(shape, dtype)| zeros((*shape, dtype))).collect();
        let all =
            |xs: Vec<Array>| ragged_all_to_all(&xs[0], &xs[1], &xs[2], &xs[3], &xs[4], &xs[5], "i");
        let mapped = shard_map(all, &mesh).in_specs(p![]).out_specs(p!["i"]);
        let error = catch(|| mapped.apply(operands)).unwrap_err().to_string();
        assert!(error.contains("ragged_all_to_all") && error.contains("ragged.rs"), "{error}");
        error
    };
    use DType::{F32, I32};
    let dtypes = [F32, F32, I32, I32, I32, I32];
    let k: &[usize] = &[8];
    let error = message([&[5, 2], &[4, 3], k, k, k, k], dtypes);
    assert!(
        error.contains("error[shape]") && error.contains("[2], and rows of output [3]"),
        "{error}"
    );
    let error = message([&[5, 2], &[4, 2], k, k, k, k], [F32, DType::BF16, I32, I32, I32, I32]);
    assert!(error.contains("error[dtype]") && error.contains("f32 and bf16"), "{error}");
    let error = message([&[5], &[4], k, k, k, k], [F32, F32, I32, F32, I32, I32]);
    assert!(error.contains("send_sizes must be integers, got f32[8]"), "{error}");
    let error = message([&[5], &[4], k, k, &[4, 2], k], dtypes);
    assert!(error.contains("output_offsets must have one axis, got i32[4,2]"), "{error}");
    let error = message([&[5], &[4], k, k, k, &[16]], dtypes);
    assert!(error.contains("recv_sizes has 16 elements, and input_offsets has 8"), "{error}");
    let odd: &[usize] = &[12];
    let error = message([&[5], &[4], odd, odd, odd, odd], dtypes);
    assert!(error.contains("12 slices") && error.contains("each of the 8 along `i`"), "{error}");
    let none: &[usize] = &[0];
    let error = message([&[5], &[4], none, none, none, none], dtypes);
    assert!(error.contains("0 slices"), "{error}");
    let error = message([&[], &[4], k, k, k, k], dtypes);
    assert!(error.contains("operand needs a leading axis of rows, got f32[]"), "{error}");
    let x = counting(&[8]);
    let outside = catch(|| ragged_all_to_all(&x, &x, &x, &x, &x, &x, "i")).unwrap_err();
    assert!(outside.to_string().contains("no named axis is in scope"), "{outside}");
}
