//! Collective operations with arrays on the CPU plugin.

use crate::distributed::parts::config;
use crate::distributed::scene::{Actor, address, say};
use oxidax::distributed::{
    self, ProcessReduction, assert_equal, broadcast_one_to_all, process_allgather,
    process_allreduce,
};
use oxidax::prelude::*;

/// A part: all collective operations on arrays.
pub(crate) fn arrays() -> Result<(), Error> {
    distributed::initialize(config())?;
    let (me, count) = (distributed::process_index(), distributed::process_count());
    let own = me as f32;
    let scalar = Array::from_slice(&[own], [])?;
    let row = Array::from_slice(&[own, own + 0.5], [2])?;
    let flags = Array::from_slice(&[me == 0, me == 1, true], [3])?;

    let (scalars, (rows, flags)) =
        process_allgather(&(scalar.clone(), (row.clone(), flags)), Tiling::Untiled)?;
    let numbers: Vec<f32> = (0..count).map(|index| index as f32).collect();
    assert_eq!(scalars.shape().dims(), [count]);
    assert_eq!(scalars.to_vec::<f32>()?, numbers);
    let pairs: Vec<f32> = numbers.iter().flat_map(|number| [*number, number + 0.5]).collect();
    assert_eq!(rows.shape().dims(), [count, 2]);
    assert_eq!(rows.to_vec::<f32>()?, pairs);
    let seen: Vec<bool> = (0..count).flat_map(|index| [index == 0, index == 1, true]).collect();
    assert_eq!(flags.to_vec::<bool>()?, seen);

    let (scalars, rows) = process_allgather(&(scalar, row.clone()), Tiling::Tiled)?;
    assert_eq!((scalars.shape().dims(), rows.shape().dims()), (&[count][..], &[2 * count][..]));
    assert_eq!(rows.to_vec::<f32>()?, pairs);

    // Longer than a message.
    let long: Vec<i32> = (0..700_000).map(|at| at + me as i32).collect();
    let all = process_allgather(&Array::from_slice(&long, [700, 1000])?, Tiling::Untiled)?;
    assert_eq!(all.shape().dims(), [count, 700, 1000]);
    let all = all.to_vec::<i32>()?;
    assert!(all.iter().zip(0..).all(|(x, at)| *x == at % 700_000 + at / 700_000));

    let last = count - 1;
    let given = broadcast_one_to_all(&vec![row.clone(), row.clone() * 2.0], last)?;
    assert_eq!(given[1].to_vec::<f32>()?, [2.0 * last as f32, 2.0 * last as f32 + 1.0]);
    assert!(broadcast_one_to_all(&row, count).is_err());
    assert_equal(&given, "what was broadcast")?;

    // The plugin knows the process number, and a step compiles and runs as usual.
    let doubled = jit(|x: Array| &x + &x).call(row.clone())?;
    assert_eq!(doubled.to_vec::<f32>()?, [2.0 * own, 2.0 * own + 1.0]);

    say(&assert_equal(&[given[0].clone(), row.clone()], "weights").unwrap_err().to_string());
    let odd = zeros([me + 1]);
    let unlike = process_allgather(&odd, Tiling::Untiled).unwrap_err().to_string();
    say(unlike.lines().next().unwrap());
    distributed::shutdown()
}

const REDUCTIONS: [ProcessReduction; 5] = [
    ProcessReduction::Sum,
    ProcessReduction::Mean,
    ProcessReduction::Min,
    ProcessReduction::Max,
    ProcessReduction::Product,
];

/// A part: reductions over processes.
pub(crate) fn reductions() -> Result<(), Error> {
    distributed::initialize(config())?;
    let (me, count) = (distributed::process_index(), distributed::process_count());
    assert_eq!(count, 3);
    let own = me as f32;
    let loss = Array::from_slice(&[own - 1.0, 2.5 * own + 1.0], [2])?;
    let examples = Array::from_slice(&[me as i32 - 7], [])?;
    let expected: [(&[f32], f32); 5] = [
        (&[0.0, 10.5], -18.0),
        (&[0.0, 3.5], -6.0),
        (&[-1.0, 1.0], -7.0),
        (&[1.0, 6.0], -5.0),
        (&[0.0, 21.0], -210.0),
    ];
    for (reduction, (losses, number)) in REDUCTIONS.into_iter().zip(expected) {
        let (loss, examples) = process_allreduce(&(loss.clone(), examples.clone()), reduction)?;
        assert_eq!(loss.to_vec::<f32>()?, losses, "{reduction:?}");
        let dtype = if reduction == ProcessReduction::Mean { DType::F32 } else { DType::I32 };
        assert_eq!(examples.dtype(), dtype);
        assert_eq!(examples.astype(DType::F32).item::<f32>()?, number, "{reduction:?}");
    }

    // NaN of one process reaches all.
    let one = Array::from_slice(&[if me == 1 { f32::NAN } else { own }], [])?;
    for reduction in REDUCTIONS {
        assert!(process_allreduce(&one, reduction)?.item::<f32>()?.is_nan(), "{reduction:?}");
    }
    let flags = Array::from_slice(&[me == 1, false, true], [3])?;
    let any = process_allreduce(&flags, ProcessReduction::Max)?;
    assert_eq!(any.to_vec::<bool>()?, [true, false, true]);
    let all = process_allreduce(&flags, ProcessReduction::Min)?;
    assert_eq!(all.to_vec::<bool>()?, [false, false, true]);
    let voters = process_allreduce(&flags, ProcessReduction::Sum)?;
    assert_eq!(voters.to_vec::<i32>()?, [1, 0, 3]);

    // Every dtype, against the reduction of the stacked values.
    let values = |process: usize| Array::from_slice(&[1.0f32, 0.0, [1.0, 0.0, 1.0][process]], [3]);
    for dtype in DTYPES {
        let here = values(me)?.astype(dtype);
        let rows: Vec<Array> = (0..count)
            .map(|process| Ok(values(process)?.astype(dtype)))
            .collect::<Result<_, Error>>()?;
        let rows = stack(&rows, 0);
        for reduction in REDUCTIONS {
            let reduced = process_allreduce(&here, reduction)?;
            let expected = match reduction {
                ProcessReduction::Mean => rows.mean_axes(0),
                ProcessReduction::Min => rows.min_axes(0),
                ProcessReduction::Max => rows.max_axes(0),
                ProcessReduction::Product => rows.prod_axes(0),
                _ => rows.sum_axes(0),
            };
            assert_eq!(reduced.dtype(), expected.dtype(), "{dtype} {reduction:?}");
            assert_eq!(reduced.to_bytes()?, expected.to_bytes()?, "{dtype} {reduction:?}");
        }
    }

    // Processes that reduce in different ways are told.
    let reduction = if me == 0 { ProcessReduction::Sum } else { ProcessReduction::Max };
    let unlike = process_allreduce(&one, reduction).unwrap_err().to_string();
    say(unlike.lines().next().unwrap());
    distributed::shutdown()
}

const DTYPES: [DType; 28] = [
    DType::Bool,
    DType::I2,
    DType::I4,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U2,
    DType::U4,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::F4E2M1FN,
    DType::F8E3M4,
    DType::F8E4M3,
    DType::F8E4M3B11FNUZ,
    DType::F8E4M3FN,
    DType::F8E4M3FNUZ,
    DType::F8E5M2,
    DType::F8E5M2FNUZ,
    DType::F8E8M0FNU,
    DType::BF16,
    DType::F16,
    DType::F32,
    DType::F64,
    DType::C64,
    DType::C128,
];

/// A part: joining after a device was used.
pub(crate) fn too_late() -> Result<(), Error> {
    let x = Array::from_slice(&[1.0f32], [1])?;
    drop(x);
    distributed::initialize(config())
}

#[test]
fn two_and_four_processes_gather_broadcast_and_compare() {
    for count in [2, 4] {
        let actors = Actor::all("arrays", &address(), count);
        for (index, said) in actors.into_iter().map(Actor::rest).enumerate() {
            let lines: Vec<&str> = said.lines().collect();
            assert_eq!(lines[0], "error[distributed]: assert_equal: weights", "{said}");
            assert_eq!(lines[1], "  $[1] f32[2]:", "{said}");
            assert!(
                lines[2].starts_with("    [0.") && lines[2].ends_with("in process 0"),
                "{said}"
            );
            let unlike = lines[lines.len() - 2];
            let other = if index == 0 { 1 } else { 0 };
            let expected =
                format!("process_allgather: `$` is f32[{}] here, and process {other} (", index + 1);
            assert!(unlike.contains(&expected), "{said}");
            assert_eq!(lines.last(), Some(&"done"), "{said}");
        }
    }
}

#[test]
fn three_processes_reduce_trees_of_every_dtype() {
    let said: Vec<String> =
        Actor::all("reductions", &address(), 3).into_iter().map(Actor::rest).collect();
    assert!(
        said[0].contains("process_allreduce (sum): process 1 (")
            && said[0].contains("is at process_allreduce (max) instead"),
        "{said:?}"
    );
    assert!(said.iter().all(|said| said.ends_with("\ndone")), "{said:?}");
}

#[test]
fn joining_after_a_device_was_used_is_refused() {
    let said = Actor::start("too late", &address(), 1, 0).rest();
    assert!(said.contains("initialize: a device was used before"), "{said}");
    assert!(said.contains("before the first array is made"), "{said}");
}

#[test]
fn single_process_does_not_wait() {
    let x = Array::from_slice(&[1.0f32, 2.0], [2]).unwrap();
    let stacked = process_allgather(&x, Tiling::Untiled).unwrap();
    assert_eq!(stacked.shape().dims(), [1, 2]);
    let tiled = process_allgather(&x, Tiling::Tiled).unwrap();
    assert_eq!((tiled.shape().dims(), tiled.to_vec::<f32>().unwrap()), (&[2][..], vec![1.0, 2.0]));
    let same = broadcast_one_to_all(&x, 0).unwrap();
    assert_eq!(same.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    assert!(broadcast_one_to_all(&x, 1).is_err());
    for reduction in REDUCTIONS {
        let alone = process_allreduce(&x, reduction).unwrap();
        assert_eq!(alone.to_vec::<f32>().unwrap(), [1.0, 2.0], "{reduction:?}");
    }
    assert_equal(&x, "").unwrap();
    distributed::barrier("b").unwrap();
    distributed::barrier_with("b", among(&[0], std::time::Duration::ZERO)).unwrap();
    assert!(distributed::put("k", b"").is_err());
}

fn among(processes: &[usize], timeout: std::time::Duration) -> distributed::BarrierOptions {
    let (processes, timeout) = (Some(processes.to_vec()), Some(timeout));
    distributed::BarrierOptions { processes, timeout }
}
