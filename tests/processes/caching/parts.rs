//! The scenarios of child processes. Capitalized names report results, which are equal for loaded
//! and compiled programs.

use oxidax::prelude::*;

use crate::caching::listener::listen;
use crate::caching::scene::{PART, report};

/// Not a test itself: runs the scenario that the environment names.
#[test]
fn run_scenario() {
    let Ok(part) = std::env::var(PART) else { return };
    let logged = listen(|| match part.as_str() {
        "step" => step(),
        "ahead" => ahead(),
        "eight" => eight(),
        "callback" => callback(),
        "rule" => rule(),
        "lines" => lines(),
        "settings" => settings(),
        "limits" => limits(),
        other => panic!("there is no scenario {other}"),
    });
    let warnings: Vec<_> = logged
        .iter()
        .filter(|line| line.starts_with("WARN ") && line.contains("compile"))
        .collect();
    report("warnings", warnings);
    let disk = oxidax::jit::cache::stats().disk;
    report("hits", disk.hits);
    report("misses", disk.misses);
    report("stored", disk.stored);
    report("damaged", disk.damaged);
    report("times", disk.hits > 0 && disk.bytes_read > 0 && disk.load_time.as_nanos() > 0);
    report("written", disk.bytes_written > 0);
}

fn numbers(n: usize) -> Array {
    let numbers: Vec<f32> = (0..n).map(|i| i as f32 * 0.1).collect();
    Array::from_slice(&numbers, [n]).unwrap()
}

fn shown(x: &Array) -> Vec<f32> {
    x.to_vec::<f32>().unwrap()
}

/// A step on weights and a batch; the weights are donated.
type Step = Jit<'static, (Array, Array), (Array, Array)>;

fn a_step() -> Step {
    let step = jit(|w: Array, x: Array| {
        let loss = |w: &Array| (sin(&(w * &x)) * &x).sum();
        let (loss, gradient) = value_and_grad(loss)(&w);
        (&w - gradient * 0.1, loss)
    });
    step.name("step")
}

/// A step that donates its weights.
fn step() {
    let step = a_step();
    let (mut w, x) = (numbers(64), numbers(64));
    let mut losses = Vec::new();
    for _ in 0..3 {
        let loss;
        (w, loss) = step.call(w, &x).unwrap();
        losses.push(loss.item::<f32>().unwrap());
    }
    report("Losses", losses);
    report("Weights", shown(&w));
    let stats = step.stats();
    report("Donated", (stats.not_donated, stats.compiles, stats.hits, stats.misses));
    report("loaded", stats.loaded);
    report("timed", [stats.load_time, stats.compile_time].map(|time| !time.is_zero()));
}

/// The report of a program compiled ahead of time.
fn ahead() {
    let (w, x) = (numbers(64), numbers(64));
    let compiled = a_step().lower(w.aval().clone(), x.aval().clone()).unwrap().compile().unwrap();
    report("Memory", compiled.report().memory_analysis().unwrap());
    report("Aliased", compiled.report().memory_analysis().unwrap().aliased);
    // Not every plugin reports costs.
    report("Costs", compiled.report().cost_analysis().map_err(|_| "not reported"));
    report("Optimized", !compiled.report().optimized_hlo().unwrap().is_empty());
    report("Collectives", compiled.report().collectives().unwrap().to_string());
    let held = w.clone();
    report("Loss", compiled.call(w, &x).unwrap().1.item::<f32>().unwrap());
    report("Kept", (compiled.not_donated(), shown(&held)[1]));
    let (w, _) = compiled.call(held, &x).unwrap();
    report("Given", (compiled.not_donated(), shown(&w)[1]));
    report("loaded", compiled.is_from_disk());
}

/// A program on eight devices, with one sharding chosen by the compiler.
fn eight() {
    oxidax::parallel::set_cpu_devices(8).unwrap();
    let mesh = Mesh::new(devices().unwrap(), [("data", 4), ("model", 2)]).unwrap();
    let rows = mesh.sharding(p!["data"]).unwrap();
    let columns = mesh.sharding(p![None, "model"]).unwrap();
    let layer = jit(|w: Array, x: Array| {
        let y = x.matmul(&w);
        (y.clone(), y.mean())
    });
    let layer = layer.name("layer").in_shardings((&columns, &rows));
    let w = numbers(32).reshape([4, 8]);
    let x = numbers(64).reshape([16, 4]);
    let (y, mean) = layer.call(&w, &x).unwrap();
    report("Sharding", y.sharding().map(|sharding| sharding.to_string()));
    // The same program is allowed outside of `no_collectives`, and refused inside.
    let sums = jit(|x: Array| x.sum_axes([0])).in_shardings(&rows).name("sums");
    report("Sums", shown(&sums.call(&x).unwrap()));
    let sums = jit(|x: Array| no_collectives(|| x.sum_axes([0]))).in_shardings(&rows).name("sums");
    report("Refused", sums.call(&x).unwrap_err().error.to_string().replace('\n', " "));
    report(
        "Shards",
        y.addressable_shards().unwrap().iter().map(|s| s.index.clone()).collect::<Vec<_>>(),
    );
    report("Values", (shown(&y), mean.item::<f32>().unwrap()));
    let lowered = layer.lower(w.aval().clone(), x.aval().clone()).unwrap();
    let compiled = lowered.compile().unwrap();
    report("Collectives", compiled.report().collectives().unwrap().to_string());
    report("Memory", compiled.report().memory_analysis().unwrap());
    report("loaded", layer.stats().loaded);
}

/// A program with a callback.
fn callback() {
    let print = jit(|x: Array| {
        debug::callback(|_| {}, [&x]);
        &x * 2.0
    });
    report("Values", shown(&print.call(numbers(3)).unwrap()));
    report("loaded", print.stats().loaded);
}

/// A function whose derivative is a closure, which the compiled program does not call.
fn rule() {
    let f = jit(|x: Array| {
        let twice = custom_jvp(|x: &Array| x * 2.0, |x: &Array, dx: &Array| (x * 2.0, dx * 2.0));
        twice(&x)
    });
    report("Values", shown(&f.name("rule").call(numbers(3)).unwrap()));
}

/// Two copies of one function on different lines.
fn lines() {
    let x = numbers(3);
    let first = jit(|x: Array| cos(&x) * &x).name("f");
    let second = jit(|x: Array| cos(&x) * &x).name("f");
    report("Equal", shown(&first.call(&x).unwrap()) == shown(&second.call(&x).unwrap()));
    report("second", second.stats().loaded);
    // The name appears in profiles, so it is part of the program.
    let third = jit(|x: Array| cos(&x) * &x).name("g");
    third.call(&x).unwrap();
    report("third", third.stats().loaded);
}

/// Settings changed while the process runs.
fn settings() {
    use oxidax::jit::cache::{Settings, disk, set_disk, stats};
    let own = disk().unwrap();
    set_disk(Settings::off()).unwrap();
    called(4);
    report("off", (stats().disk.misses, stats().disk.stored));
    set_disk(Settings { min_compile: std::time::Duration::from_secs(3600), ..own.clone() })
        .unwrap();
    called(5);
    report("fast", (stats().disk.misses > 0, stats().disk.stored));
    set_disk(Settings { min_bytes: 1 << 30, max_bytes: 2 << 30, ..own.clone() }).unwrap();
    called(6);
    report("small", stats().disk.stored);
    set_disk(own.clone()).unwrap();
    called(7);
    report("own", stats().disk.stored > 0);
    let folder = own.folder.clone().unwrap();
    std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    report("refused", set_disk(own).unwrap_err().to_string());
}

/// Caches in memory with small limits.
fn limits() {
    use oxidax::jit::cache::{set_limits, stats};
    set_limits(2, 1);
    let before = stats();
    let xs: Vec<Array> = (1..=3).map(numbers).collect();
    for _ in 0..2 {
        xs.iter().for_each(|x| drop(sin(x)));
        drop(sin(&xs[2]));
    }
    let after = stats();
    let (a, b) = (before.operations, after.operations);
    report("operations", (b.limit, b.entries, b.hits - a.hits, b.misses - a.misses));
    for x in [&xs[0], &xs[0], &xs[1], &xs[0]] {
        vmap(|x: Array| &x * &x).apply(x);
    }
    let (a, b) = (after.programs, stats().programs);
    report(
        "programs",
        (b.limit, b.entries, b.hits - a.hits, b.misses - a.misses, b.evictions - a.evictions),
    );
}

/// Calls the step on arrays of `n` elements, of which the first is donated.
fn called(n: usize) {
    let y = numbers(n);
    a_step().call(numbers(n), &y).unwrap();
}
