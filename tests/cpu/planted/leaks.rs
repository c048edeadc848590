//! Planted leaks of device memory. The growth between two points of the loop names the line that
//! created the arrays, and no other line of this file.

use oxidax::config::{self, ProcessConfig};
use oxidax::prelude::*;
use oxidax::profile::{self, LineGrowth, MemoryGrowth};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The number of steps between the two points.
const STEPS: i64 = 10;

/// Runs one test at a time, with arrays tracked.
fn tracked() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    config::update(ProcessConfig::new().track_arrays(true)).unwrap();
    guard
}

/// Runs a first step, and returns the growth during ten more. The caller is [`tracked`].
fn growth(mut step: impl FnMut(i64)) -> MemoryGrowth {
    step(0);
    let before = profile::memory().unwrap();
    (1..=STEPS).for_each(&mut step);
    profile::memory().unwrap().since(&before)
}

/// Returns the lines of this file that have grown. Other tests of the process create arrays too.
fn grown(growth: &MemoryGrowth) -> Vec<LineGrowth> {
    let is_own = |line: &&LineGrowth| {
        let file = line.created_at.get().map_or("", |at| at.file());
        line.arrays > 0 && file.ends_with("leaks.rs")
    };
    growth.lines().iter().filter(is_own).cloned().collect()
}

/// Checks that one line of this file has grown: `line`, by one array of `aval` in each step.
#[track_caller]
fn assert_leaks(growth: &MemoryGrowth, line: u32, aval: &str, bytes: i64) {
    let lines = grown(growth);
    let [leak] = &lines[..] else { panic!("expected one line: {growth}") };
    assert_eq!(leak.created_at.get().map(|at| at.line()), Some(line), "{growth}");
    assert_eq!((leak.arrays, leak.bytes), (STEPS, STEPS * bytes), "{growth}");
    assert_eq!(leak.types, format!("{STEPS} × {aval}"), "{growth}");
    let row = format!("leaks.rs:{line}:");
    let text = growth.to_string();
    assert!(text.lines().any(|text| text.contains(&row) && text.contains(aval)), "{text}");
}

mod on_cpu {
    use super::*;

    #[test]
    fn a_loop_that_keeps_nothing_does_not_grow() {
        let _guard = tracked();
        let step = jit(|w: Array, x: Array| (&w - &(&x * 0.1), (&w * &x).sum()));
        let (mut w, x) = (zeros([64]), ones([64]));
        let growth = growth(|_| {
            let loss;
            (w, loss) = step.call(w.clone(), &x).unwrap();
            assert!(loss.item::<f32>().unwrap().is_finite());
        });
        assert!(grown(&growth).is_empty(), "{growth}");
    }

    #[test]
    fn losses_pushed_to_a_vector() {
        let _guard = tracked();
        let at = line!() + 6;
        let step = jit(|w: Array| (&w * 0.9, (&w * &w).sum()));
        let mut w = ones([64]);
        let mut losses = Vec::new();
        let growth = growth(|_| {
            let loss;
            (w, loss) = step.call(w.clone()).unwrap();
            losses.push(loss);
        });
        assert_leaks(&growth, at, "f32[]", 4);
        assert_eq!(losses.len(), 11);
    }

    #[test]
    fn a_history_that_keeps_device_arrays() {
        let _guard = tracked();
        struct History {
            rows: Vec<(i64, Array)>,
        }
        let mut history = History { rows: Vec::new() };
        let x = ones([32, 8]);
        let at = line!() + 2;
        let growth = growth(|step| {
            let mean = x.mean_axes(0);
            history.rows.push((step, mean));
        });
        assert_leaks(&growth, at, "f32[8]", 32);
        assert_eq!(history.rows.last().unwrap().0, STEPS);
    }

    #[test]
    fn arrays_captured_by_closures() {
        let _guard = tracked();
        let mut callbacks: Vec<Box<dyn Fn() -> f32>> = Vec::new();
        let at = line!() + 2;
        let growth = growth(|step| {
            let rate = full([16], step as f32);
            callbacks.push(Box::new(move || rate.sum().item().unwrap()));
        });
        assert_leaks(&growth, at, "f32[16]", 64);
        assert_eq!(callbacks[2](), 32.0);
    }

    #[test]
    fn a_clone_that_blocks_donation() {
        let _guard = tracked();
        let step = jit(|w: Array| &w * 0.5);
        let mut w = ones([128]);
        let mut best = Vec::new();
        let at = line!() + 3;
        let growth = growth(|_| {
            best.push(w.clone()); // `w` is moved, and its memory cannot be reused
            w = step.call(w.clone()).unwrap();
        });
        assert_leaks(&growth, at, "f32[128]", 512);
        assert!(step.stats().not_donated > 0);
        drop(best);
    }

    #[test]
    fn a_cache_without_a_limit() {
        let _guard = tracked();
        let mut masks: HashMap<i64, Array> = HashMap::new();
        let at = line!() + 2;
        let growth = growth(|length| {
            let make = || tril(&ones([8, 8]), 0);
            masks.entry(length).or_insert_with(make);
        });
        let lines = grown(&growth);
        assert_eq!(lines.len(), 1, "{growth}");
        assert_eq!(lines[0].created_at.get().map(|place| place.line()), Some(at), "{growth}");
        assert_eq!((lines[0].arrays, lines[0].before, lines[0].after), (STEPS, 1, 11), "{growth}");
        drop(masks);
    }

    #[test]
    fn optimizer_states_that_are_kept() {
        let _guard = tracked();
        #[derive(Tree)]
        struct State {
            momentum: Array,
            count: Array,
        }
        let step = jit(|state: State, g: Array| State {
            momentum: &state.momentum * 0.9 + g,
            count: state.count + 1,
        });
        let mut state = State { momentum: zeros([32]), count: zeros([]).astype(DType::I32) };
        let g = ones([32]);
        let mut snapshots = Vec::new();
        let at = line!() + 2;
        let growth = growth(|_| {
            let next = step.call(&state, &g).unwrap();
            snapshots.push(std::mem::replace(&mut state, next));
        });
        let lines = grown(&growth);
        let [leak] = &lines[..] else { panic!("{growth}") };
        assert_eq!(leak.created_at.get().map(|place| place.line()), Some(at), "{growth}");
        assert_eq!((leak.arrays, leak.bytes), (2 * STEPS, STEPS * (128 + 4)), "{growth}");
        assert!(leak.types.contains("10 × f32[32]"), "{growth}");
        assert!(leak.types.contains("10 × i32[]"), "{growth}");
        drop(snapshots);
    }

    #[test]
    fn batches_that_nobody_takes() {
        let _guard = tracked();
        let mut queue = Vec::new();
        let at = line!() + 3;
        let growth = growth(|step| {
            let host = vec![step as f32; 20];
            let batch = Array::from_slice(&host, [4, 5]).unwrap();
            queue.push(batch);
        });
        assert_leaks(&growth, at, "f32[4,5]", 80);
        drop(queue);
    }

    #[test]
    fn a_list_of_the_whole_process() {
        let _guard = tracked();
        static ACTIVATIONS: OnceLock<Mutex<Vec<Array>>> = OnceLock::new();
        fn remember(x: &Array) {
            let list = ACTIVATIONS.get_or_init(Mutex::default);
            list.lock().unwrap().push(tanh(x)); // this line
        }
        let at = line!() - 2;
        let x = ones([24]);
        let growth = growth(|_| remember(&x));
        assert_leaks(&growth, at, "f32[24]", 96);
        ACTIVATIONS.get().unwrap().lock().unwrap().clear();
    }

    #[test]
    fn a_cycle_of_references() {
        let _guard = tracked();
        struct Node {
            value: Array,
            itself: RefCell<Option<Rc<Node>>>,
        }
        let mut first = None;
        let at = line!() + 2;
        let growth = growth(|step| {
            let value = full([40], step as f32);
            let node = Rc::new(Node { value, itself: RefCell::new(None) });
            *node.itself.borrow_mut() = Some(node.clone());
            first.get_or_insert(node);
        });
        assert_leaks(&growth, at, "f32[40]", 160);
        assert_eq!(first.unwrap().value.shape(), &Shape::from([40]));
    }

    #[test]
    fn functions_compiled_in_a_loop_keep_their_captures() {
        let _guard = tracked();
        let mut functions = Vec::new();
        let at = line!() + 2;
        let growth = growth(|step| {
            let scale = full([12], step as f32);
            let f = jit(move |x: Array| x * &scale);
            assert_eq!(f.call(ones([12])).unwrap().shape().size(), 12);
            functions.push(f);
        });
        assert_leaks(&growth, at, "f32[12]", 48);
        drop(functions);
    }

    #[test]
    fn the_profile_is_a_table_and_a_file() {
        let _guard = tracked();
        let at = line!() + 1;
        let kept: Vec<Array> = (0..3).map(|_| ones([1 << 14])).collect();
        let memory = profile::memory().unwrap();
        let line = memory.by_line().into_iter().find(|line| {
            let place = line.created_at.get();
            place.is_some_and(|place| place.file().ends_with("leaks.rs") && place.line() == at)
        });
        let line = line.unwrap();
        assert_eq!((line.bytes, line.arrays.len()), (3 << 16, 3));
        let text = memory.to_string();
        let row = text.lines().find(|row| row.contains(&format!("leaks.rs:{at}:"))).unwrap();
        assert!(row.contains("192.0 KiB") && row.contains("3 × f32[16384]"), "{row}");
        let (device, bytes) = memory.by_device()[0];
        assert_eq!((device.to_string(), bytes), ("cpu:0".to_string(), memory.bytes()));

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory.pb");
        memory.save(&file).unwrap();
        let bytes = std::fs::read(file).unwrap();
        let contains = |word: &str| bytes.windows(word.len()).any(|part| part == word.as_bytes());
        for word in ["space", "allocations", "cpu:0", "f32[16384]", "leaks.rs"] {
            assert!(contains(word), "{word}");
        }
        drop(kept);
    }
}
