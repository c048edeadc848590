//! Callbacks, prints and checks on several devices.

use super::{counting, mesh, values};
use oxidax::core::HostArray;
use oxidax::debug::CallbackOptions;
use oxidax::prelude::*;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// A log written by callbacks.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, x: &Array) {
        let log = self.0.clone();
        debug::callback(move |x| log.lock().unwrap().push(x[0].to_string()), [x]);
    }

    /// Returns the sorted entries: devices have no order.
    fn take(&self) -> Vec<String> {
        effects_barrier().unwrap();
        let mut entries = std::mem::take(&mut *self.0.lock().unwrap());
        entries.sort();
        entries
    }
}

/// Doubles on the host, and fails for negative numbers.
fn doubled(x: &Array) -> Array {
    let on_host = |x: &[HostArray]| {
        let elements = x[0].to_vec::<f32>()?;
        if elements.iter().any(|x| *x < 0.0) {
            return Err("a negative number".into());
        }
        let twice: Vec<f32> = elements.iter().map(|x| 2.0 * x).collect();
        Ok(vec![HostArray::from_slice(&twice, x[0].shape())?])
    };
    debug::pure_callback(on_host, &[x.aval().clone()], [x]).swap_remove(0)
}

#[test]
fn each_device_of_a_map_calls_with_its_shards() {
    let (mesh, log, x) = (mesh([("i", 4), ("j", 2)]), Log::default(), counting(&[4]));
    let noted = log.clone();
    let f = move |x: Array| {
        noted.note(&x);
        doubled(&x)
    };
    let mapped = shard_map(f, &mesh).in_specs(p!["i"]).out_specs(p!["i"]);
    assert_eq!(values(&mapped.apply(&x)), [0.0, 2.0, 4.0, 6.0]);
    // Two devices have each shard.
    assert_eq!(log.take(), ["[0.]", "[0.]", "[1.]", "[1.]", "[2.]", "[2.]", "[3.]", "[3.]"]);
}

#[test]
fn pmap_calls_once_per_device_and_vmap_inside_once_per_example() {
    let (log, x) = (Log::default(), counting(&[2, 3]));
    let noted = log.clone();
    let mapped = pmap(move |row: Array| {
        vmap(|x: Array| {
            noted.note(&x);
            doubled(&x)
        })
        .apply(&row)
    });
    assert_eq!(values(&mapped.call(&x).unwrap()), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    assert_eq!(log.take(), ["0.", "1.", "2.", "3.", "4.", "5."]);
}

#[test]
fn effects_outside_of_maps_happen_once_with_whole_arrays() {
    let rows = mesh([("i", 4), ("j", 2)]).sharding(p!["i"]).unwrap();
    let x = device_put(&counting(&[8]), &rows).unwrap();
    let log = Log::default();
    let noted = log.clone();
    let f = jit(move |x: Array| {
        let log = noted.clone();
        noted.note(&x.sum());
        let seen = noted.0.clone();
        debug::callback(move |_| seen.lock().unwrap().push("called".to_owned()), ());
        let step = move |i: Array, y: Array| {
            log.note(&(&y.sum() + i.astype(DType::F32)));
            &y * 2.0
        };
        fori_loop(0, 2, step, &x + 1.0)
    });
    let y = f.call(&x).unwrap();
    assert_eq!(values(&y)[7], 32.0);
    // The sum, twice in the loop, and the call without arrays.
    assert_eq!(log.take(), ["28.", "36.", "73.", "called"]);
}

#[test]
fn checks_of_sharded_arrays_fail_the_call() {
    let rows = mesh([("i", 8)]).sharding(p!["i"]).unwrap();
    let x = device_put(&counting(&[8]), &rows).unwrap();
    let f = jit(|x: Array| {
        debug::check(x.less(6.0), "{x} is too large", [("x", &x)]);
        x.sum()
    });
    let error = f.call(&x).unwrap_err().to_string();
    assert!(error.contains("is too large") && error.contains("callbacks.rs"), "{error}");
    assert_eq!(f.call(&(x - 2.0)).unwrap().to_vec::<f32>().unwrap(), [12.0]);
    let classes = device_put(&counting(&[8]).astype(DType::I32), &rows).unwrap();
    let g = jit(|labels: Array| {
        debug::check_labels(&labels, 7);
        labels.sum()
    });
    let error = g.call(&classes).unwrap_err().to_string();
    assert!(error.contains('7'), "{error}");
}

/// The lines of prints.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Notes a line in program order.
fn note_in_order(log: &Log, label: &'static str, x: &Array) {
    let log = log.0.clone();
    let write = move |x: &[HostArray]| log.lock().unwrap().push(format!("{label} {}", x[0]));
    debug::callback_with(write, [x], CallbackOptions { ordered: true });
}

/// Returns a callback with a result that counts its calls.
fn ticket(log: &Log, like: &Aval, x: &Array, ordered: bool) -> Array {
    let log = log.0.clone();
    let next = move |x: &[HostArray]| {
        let mut log = log.lock().unwrap();
        log.push(format!("ticket for {}", x[0]));
        let number = log.len() as f32;
        let elements: Vec<f32> = x[0].to_vec::<f32>()?.iter().map(|x| x + number).collect();
        Ok(vec![HostArray::from_slice(&elements, x[0].shape())?])
    };
    let options = CallbackOptions { ordered };
    debug::io_callback_with(next, std::slice::from_ref(like), [x], options).swap_remove(0)
}

impl Log {
    /// Returns the entries in the order of the calls.
    fn take_in_order(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[test]
fn ordered_effects_outside_of_maps_keep_program_order() {
    let rows = mesh([("i", 4), ("j", 2)]).sharding(p!["i"]).unwrap();
    let x = device_put(&counting(&[8]), &rows).unwrap();
    let log = Log::default();
    let noted = log.clone();
    let f = jit(move |x: Array| {
        // The values are computed in the opposite order.
        let last = tanh(&x).sum() * 0.0;
        let middle = &last + x.sum();
        note_in_order(&noted, "first", &(&middle + 1.0));
        note_in_order(&noted, "whole", &x);
        note_in_order(&noted, "middle", &middle);
        let log = noted.clone();
        let step = move |i: Array, y: Array| {
            note_in_order(&log, "step", &i);
            let big = gt(y.sum(), 60.0);
            let (yes, no) = (log.clone(), log.clone());
            cond(
                &big,
                move |y: Array| {
                    note_in_order(&yes, "big", &y.sum());
                    &y * 2.0
                },
                move |y: Array| {
                    note_in_order(&no, "small", &y.sum());
                    &y * 2.0
                },
                &y,
            )
        };
        let y = fori_loop(0, 3, step, &x + 1.0);
        let log = noted.clone();
        let below = move |y: &Array| {
            note_in_order(&log, "asked", &y.sum());
            lt(y.sum(), 1000.0)
        };
        let y = while_loop(below, |y: Array| &y * 4.0, &y);
        note_in_order(&noted, "last", &last);
        y
    });
    let expected = [
        "first 29.",
        "whole [0. 1. 2. 3. 4. 5. 6. 7.]",
        "middle 28.",
        "step 0",
        "small 36.",
        "step 1",
        "big 72.",
        "step 2",
        "big 144.",
        "asked 288.",
        "asked 1152.",
        "last 0.",
    ];
    for _ in 0..3 {
        assert_eq!(values(&f.call(&x).unwrap())[7], 8.0 * 32.0);
        assert_eq!(log.take_in_order(), expected);
    }
}

#[test]
fn ordered_prints_of_sharded_arrays_run() {
    let rows = mesh([("i", 8)]).sharding(p!["i"]).unwrap();
    let x = device_put(&counting(&[8]), &rows).unwrap();
    let lines = Lines::default();
    debug::set_output(lines.clone());
    let f = jit(|x: Array| {
        debug::print_with("line 1: {}", [&x], CallbackOptions { ordered: true });
        debug::print_with("line 2: no arrays", (), CallbackOptions { ordered: true });
        let total = x.sum();
        debug_print!(ordered; "line 3: {total}");
        x + 1.0
    });
    assert_eq!(values(&f.call(&x).unwrap())[7], 8.0);
    let written = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    let numbered: Vec<&str> = written.lines().filter(|line| line.starts_with("line ")).collect();
    assert_eq!(numbered, ["line 1: [0. 1. 2. 3. 4. 5. 6. 7.]", "line 2: no arrays", "line 3: 28."]);
}

#[test]
fn results_of_the_first_device_reach_all() {
    let (mesh, log) = (mesh([("i", 4), ("j", 2)]), Log::default());
    let rows = mesh.sharding(p!["i"]).unwrap();
    let x = device_put(&counting(&[8]), &rows).unwrap();
    for ordered in [false, true] {
        let (noted, rows) = (log.clone(), rows.clone());
        let f = jit(move |x: Array| {
            let y = ticket(&noted, x.aval(), &x, ordered);
            let z = ticket(&noted, x.aval(), &y, ordered);
            let log = noted.clone();
            let step = move |_: Array, z: Array| ticket(&log, z.aval(), &z, ordered);
            (with_sharding_constraint(&y, &rows), fori_loop(0, 2, step, z))
        });
        for _ in 0..2 {
            let (y, z) = f.call(&x).unwrap();
            assert_eq!(values(&y), values(&(counting(&[8]) + 1.0)));
            assert_eq!(values(&z), values(&(counting(&[8]) + 10.0)));
            for shard in z.addressable_shards().unwrap() {
                let first = shard.data.to_vec::<f32>().unwrap()[0];
                assert!(first >= 10.0, "{first}");
            }
            assert_eq!(
                log.take_in_order(),
                [
                    "ticket for [0. 1. 2. 3. 4. 5. 6. 7.]",
                    "ticket for [1. 2. 3. 4. 5. 6. 7. 8.]",
                    "ticket for [ 3.  4.  5.  6.  7.  8.  9. 10.]",
                    "ticket for [ 6.  7.  8.  9. 10. 11. 12. 13.]",
                ]
            );
        }
    }
}

#[test]
fn results_of_every_dtype_arrive_bit_by_bit() {
    let rows = mesh([("i", 8)]).sharding(p!["i"]).unwrap();
    let numbers = [-0.0f32, 1.5, f32::NAN, f32::NEG_INFINITY, -3.0, 0.0, 1e-30, 2.0];
    let x = device_put(&Array::from_slice(&numbers, [8]).unwrap(), &rows).unwrap();
    for dtype in DType::all().filter(|dtype| dtype.bits() >= 8) {
        let f = jit(move |x: Array| {
            let y = convert_element_type(&x, dtype);
            let same = |x: &[HostArray]| Ok(vec![x[0].clone(), x[0].clone()]);
            let mut outputs = debug::io_callback(same, &[y.aval().clone(), y.aval().clone()], [&y]);
            (y, outputs.swap_remove(1))
        });
        let (y, found) = f.call(&x).unwrap();
        assert_eq!(found.to_bytes().unwrap(), y.to_bytes().unwrap(), "{dtype}");
    }
    let empty = device_put(&zeros([8, 0]), &rows).unwrap();
    let f = jit(|x: Array| {
        debug::io_callback(|x| Ok(vec![x[0].clone()]), &[x.aval().clone()], [&x]).swap_remove(0)
    });
    assert_eq!(f.call(&empty).unwrap().shape().dims(), [8, 0]);
}

#[test]
fn a_failed_callback_with_results_fails_the_call_alone() {
    let rows = mesh([("i", 8)]).sharding(p!["i"]).unwrap();
    let x = device_put(&counting(&[8]), &rows).unwrap();
    let log = Log::default();
    for ordered in [false, true] {
        let noted = log.clone();
        let f = jit(move |x: Array| {
            let log = noted.clone();
            let half = |x: &[HostArray]| match x[0].to_vec::<f32>()?[0] {
                first if first < 0.0 => Err(format!("{first} is negative").into()),
                first if first > 90.0 => Ok(Vec::new()),
                _ => Ok(vec![x[0].clone()]),
            };
            let options = CallbackOptions { ordered };
            let y = debug::io_callback_with(half, &[x.aval().clone()], [&x], options);
            if ordered {
                note_in_order(&log, "then", &x.sum());
            }
            y[0].sum()
        });
        let error = f.call(&(&x - 1.0)).unwrap_err().to_string();
        assert!(error.contains("io_callback: the closure failed: -1 is negative"), "{error}");
        assert!(error.contains("callbacks.rs"), "{error}");
        let error = f.call(&(&x + 99.0)).unwrap_err().to_string();
        assert!(error.contains("result 0, f32[8], is missing"), "{error}");
        // The next call is not affected.
        assert_eq!(f.call(&x).unwrap().item::<f32>().unwrap(), 28.0);
        let expected: &[&str] = if ordered { &["then 20.", "then 820.", "then 28."] } else { &[] };
        assert_eq!(log.take_in_order(), expected);
    }
}

#[test]
fn a_failure_on_one_device_does_not_stop_the_others() {
    let mesh = mesh([("i", 8)]);
    // The devices wait for each other in the sum.
    let checked = |x: Array| {
        debug::check(x.less(7.0), "{x} is too large", [("x", &x)]);
        psum(&x, "i")
    };
    let mapped = shard_map(checked, &mesh).in_specs(p!["i"]).out_specs(p![]);
    let f = jit(move |x: Array| mapped.apply(&x));
    let error = f.call(counting(&[8])).unwrap_err().to_string();
    assert!(error.contains("error[value]: check: [7.] is too large"), "{error}");
    assert!(error.contains("callbacks.rs"), "{error}");
    assert_eq!(values(&f.call(&(counting(&[8]) - 1.0)).unwrap()), [20.0]);
    let failing = |x: Array| psum(&doubled(&x), "i");
    let mapped = shard_map(failing, &mesh).in_specs(p!["i"]).out_specs(p![]);
    let f = jit(move |x: Array| mapped.apply(&x));
    let error = f.call(&(counting(&[8]) - 1.0)).unwrap_err().to_string();
    assert!(error.contains("pure_callback: the closure failed: a negative number"), "{error}");
    assert_eq!(values(&f.call(counting(&[8])).unwrap()), [56.0]);
}

#[test]
fn devices_of_a_map_have_no_order() {
    let mesh = mesh([("i", 4), ("j", 2)]);
    let refused = |f: fn(Array) -> Array, axes: &[&str]| {
        let mapped = shard_map(f, &mesh).in_specs(p!["i"]).out_specs(p!["i"]);
        let mapped = mapped.axis_names(axes);
        jit(move |x: Array| mapped.apply(&x)).call(counting(&[4])).unwrap_err().to_string()
    };
    let ordered = |x: Array| {
        debug::print_with("{}", [&x], CallbackOptions { ordered: true });
        x
    };
    let error = refused(ordered, &["i", "j"]);
    assert!(error.contains("devices have no common order"), "{error}");
}

#[test]
fn automatic_checks_run_on_every_device() {
    let mesh = mesh([("i", 8)]);
    let inverse = shard_map(|x: Array| psum(&(1.0 / x), "i"), &mesh);
    let inverse = inverse.in_specs(p!["i"]).out_specs(p![]);
    let checked = debug::checkify(|x: &Array| inverse.apply(x), debug::CheckSet::AUTOMATIC);
    let checked = jit(move |x: Array| checked(&x));
    assert_eq!(values(&checked.call(&(counting(&[8]) + 1.0)).unwrap()).len(), 1);
    let error = checked.call(counting(&[8])).unwrap_err().to_string();
    assert!(error.starts_with("error[value]: div: divides by zero"), "{error}");
    assert!(error.contains("callbacks.rs"), "{error}");
    // Shardings in types stay as they are.
    let mesh = mesh.explicit();
    let x = device_put(&counting(&[8]), mesh.sharding(p!["i"]).unwrap()).unwrap();
    let pick = |x: &Array| x.at(&[array![3, 9].into()]).add(1.0) / (x + 1.0);
    let checked = debug::checkify(pick, debug::CheckSet::ALL);
    let error = jit(move |x: Array| checked(&x)).call(&x).unwrap_err().to_string();
    assert!(error.starts_with("error[value]: scatter: index out of bounds"), "{error}");
    let checked = debug::checkify(|x: &Array| 1.0 / (x + 1.0), debug::CheckSet::ALL);
    let y = jit(move |x: Array| checked(&x)).call(&x).unwrap();
    assert_eq!(y.aval().to_string(), "f32[8@i]");
}
