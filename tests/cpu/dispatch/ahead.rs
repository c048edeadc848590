//! Functions compiled ahead of time, with `lower(…)?.compile()` or `compile_ahead`.

use expect_test::expect;
use oxidax::jit::{CompilerOptions, EffortLevel};
use oxidax::prelude::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Tree, Clone)]
struct Line {
    slope: Array,
    offset: Option<Array>,
}

fn line(line: Line, x: Array) -> Array {
    let y = &line.slope * &x;
    line.offset.map_or(y.clone(), |offset| &y + &offset)
}

fn line_types() -> Line {
    let array = || Array::of_type(Aval::new(DType::F32, [2]));
    Line { slope: array(), offset: Some(array()) }
}

#[test]
fn lowered_prints_without_a_device() {
    let lowered = jit(line).name("line").lower(line_types(), Aval::new(DType::F32, [2])).unwrap();
    assert_eq!(lowered.program().eqns().len(), 2);
    let printed = format!("{lowered:?}");
    assert!(printed.starts_with("Lowered(line: { lambda ;"), "{printed}");
}

mod on_cpu {
    use super::*;

    fn f32s(elements: &[f32]) -> Array {
        Array::from_slice(elements, [elements.len()]).unwrap()
    }

    fn compile(function: &Jit<'_, (Line, Array), Array>) -> Compiled<(Line, Array), Array> {
        function.lower(line_types(), Aval::new(DType::F32, [2])).unwrap().compile().unwrap()
    }

    fn compiled() -> Compiled<(Line, Array), Array> {
        compile(&jit(line).name("line"))
    }

    fn model() -> Line {
        Line { slope: f32s(&[2.0, 3.0]), offset: Some(f32s(&[1.0, 1.0])) }
    }

    #[test]
    fn compiled_is_independent_of_its_jit() {
        let function = jit(line).name("line");
        let compiled = compile(&function);
        let (model, x) = (model(), f32s(&[10.0, 20.0]));
        assert_eq!(compiled.call(&model, &x).unwrap().to_vec::<f32>().unwrap(), [21.0, 61.0]);
        assert_eq!(compiled.call(model, x).unwrap().to_vec::<f32>().unwrap(), [21.0, 61.0]);
        let stats = function.stats();
        assert_eq!((stats.traces, stats.compiles, stats.calls), (1, 0, 0));
        assert_eq!(compiled.not_donated(), 0);
        assert_eq!(format!("{compiled:?}"), "Compiled(line)");
    }

    #[test]
    fn calls_find_what_was_compiled_ahead() {
        let function = jit(line).name("line");
        function.compile_ahead(line_types(), Aval::new(DType::F32, [2])).unwrap();
        let (types, x) = (line_types(), f32s(&[1.0, 1.0]));
        function.compile_ahead(&types, &x).unwrap();
        let (model, x) = (model(), f32s(&[10.0, 20.0]));
        assert_eq!(function.call(&model, &x).unwrap().to_vec::<f32>().unwrap(), [21.0, 61.0]);
        let stats = function.stats();
        assert_eq!((stats.traces, stats.compiles, stats.calls), (1, 1, 1));
        assert_eq!((stats.hits, stats.misses), (1, 0));
        // Another type is another program.
        function.compile_ahead(line_types(), Aval::new(DType::F32, [])).unwrap();
        assert_eq!(function.stats().compiles, 2);
        disable_jit(|| function.compile_ahead(line_types(), Aval::new(DType::F64, [2]))).unwrap();
        assert_eq!((function.stats().compiles, function.stats().misses), (2, 0));
    }

    #[test]
    fn call_waits_for_a_compilation_on_another_thread() {
        let (traced, barrier) = (AtomicUsize::new(0), Barrier::new(2));
        let slow = jit(|x: Array| {
            if traced.fetch_add(1, Ordering::Relaxed) == 0 {
                // The other thread calls while this one compiles.
                barrier.wait();
            }
            (0..20).fold(x, |x, _| sin(&x) + 1.0)
        });
        std::thread::scope(|scope| {
            let ahead = scope.spawn(|| slow.compile_ahead(Aval::new(DType::F32, [3])));
            barrier.wait();
            assert_eq!(slow.call(ones([3])).unwrap().shape().dims(), [3]);
            ahead.join().unwrap().unwrap();
        });
        assert_eq!((slow.stats().traces, slow.stats().compiles), (1, 1));
    }

    #[test]
    fn failure_ahead_names_the_line_and_is_not_kept() {
        let wrong = jit(|x: Array| x.matmul(&ones([4])));
        let error = wrong.compile_ahead(Aval::new(DType::F32, [3])).unwrap_err().to_string();
        assert!(error.contains("ahead.rs") && error.contains("f32[3]"), "{error}");
        assert_eq!(wrong.stats().signatures, 0);
        wrong.compile_ahead(Aval::new(DType::F32, [4])).unwrap();
        assert_eq!(wrong.call(ones([4])).unwrap().item::<f32>().unwrap(), 4.0);
    }

    #[test]
    fn compiled_donates_and_counts_not_donated() {
        let compiled = compiled();
        let (model, x) = (model(), f32s(&[1.0, 1.0]));
        let held = model.slope.clone();
        let y = compiled.call(model, &x).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), [3.0, 4.0]);
        assert_eq!(held.to_vec::<f32>().unwrap(), [2.0, 3.0]);
        assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 1.0]);
        assert_eq!(compiled.not_donated(), 1);
    }

    #[test]
    fn compiled_keeps_captures() {
        let w = f32s(&[5.0, 6.0]);
        let compiled = jit(move |x: Array| &x * &w).lower(Aval::new(DType::F32, [2])).unwrap();
        let compiled = compiled.compile().unwrap();
        assert_eq!(compiled.call(f32s(&[1.0, 2.0])).unwrap().to_vec::<f32>().unwrap(), [5.0, 12.0]);
    }

    #[test]
    fn mismatched_arguments_are_returned() {
        let compiled = compiled();
        let failed = compiled.call(model(), f32s(&[1.0, 2.0, 3.0])).unwrap_err();
        let (line, x) = *failed.args;
        assert_eq!(x.unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!(line.unwrap().slope.to_vec::<f32>().unwrap(), [2.0, 3.0]);
        let message = failed.error.to_string();
        let location_line = message.lines().find(|line| line.contains("-->")).unwrap();
        assert!(location_line.contains("tests/cpu/dispatch/ahead.rs:"), "{location_line}");
        expect![[r#"
            error[tree]: $: `line` was compiled for other arguments: $[1]: f32[2] -> f32[3]
              help: call the `Jit` itself, which compiles once per signature"#]]
        .assert_eq(&message.replace(&format!("{location_line}\n"), ""));
        let bare = Line { offset: None, ..model() };
        let error = compiled.call(bare, f32s(&[1.0, 2.0])).unwrap_err().error.to_string();
        let first = error.lines().next().unwrap();
        expect![
            "error[tree]: $: `line` was compiled for other arguments: $[0].offset: `Some` -> `None`"
        ]
        .assert_eq(first);
        assert_eq!(
            compiled.call(model(), f32s(&[0.0, 0.0])).unwrap().size(),
            2,
            "the next call works"
        );
    }

    #[test]
    fn compiled_cannot_be_traced() {
        let compiled = compiled();
        let model = model();
        let error = make_program(
            move |x: Array| {
                compiled
                    .call(&model, x)
                    .map_err(|failed| oxidax::core::throw(failed.error))
                    .unwrap()
            },
            Aval::new(DType::F32, [2]),
        );
        let message = error.unwrap_err().to_string();
        let first = message.lines().next().unwrap();
        expect!["error[tracer]: `line` is compiled already, so it cannot become part of a trace"]
            .assert_eq(first);
        assert!(message.contains("with `apply`"), "{message}");
    }

    #[test]
    fn array_without_elements_is_refused() {
        let compiled = compiled();
        let x = Array::of_type(Aval::new(DType::F32, [2]));
        let error = compiled.call(model(), x).unwrap_err().error;
        assert!(error.to_string().contains("stands for a type"), "{error}");
    }

    #[test]
    fn nan_check_locates_the_operation() {
        let root = jit(|x: Array| sqrt(&x) + 1.0).lower(Aval::new(DType::F32, [1])).unwrap();
        let root = root.compile().unwrap();
        let failed = debug::nan_check(|| root.call(f32s(&[-1.0]))).unwrap_err();
        assert!(failed.error.to_string().contains("sqrt"), "{}", failed.error);
        assert_eq!(failed.args.0.unwrap().to_vec::<f32>().unwrap(), [-1.0], "nothing was donated");
        assert!(root.call(f32s(&[-1.0])).unwrap().to_vec::<f32>().unwrap()[0].is_nan());
    }

    #[test]
    fn report_outlives_the_compiled_function() {
        let report = compiled().report();
        assert_eq!(report.memory_analysis().unwrap().arguments, 3 * 8);
    }

    #[test]
    fn report_has_memory_cost_and_hlo() {
        let compiled = compiled();
        let memory = compiled.report().memory_analysis().unwrap();
        assert_eq!((memory.arguments, memory.results), (3 * 8, 8));
        assert!(!compiled.report().optimized_hlo().unwrap().is_empty());
        // Not every plugin reports costs. One that does counts two operations on each of two
        // elements.
        match compiled.report().cost_analysis() {
            Ok(costs) => assert_eq!(costs.get("flops"), Some(&4.0), "{costs:?}"),
            Err(error) => assert!(error.to_string().contains("UNIMPLEMENTED"), "{error}"),
        }
    }

    #[test]
    fn optimized_text_shows_fusions_with_their_lines() {
        let f = jit(|x: Array| {
            let y = tanh(&x);
            exp(&(y * 2.0))
        });
        let compiled = f.name("curve").lower(Aval::new(DType::F32, [64])).unwrap().compile();
        let compiled = compiled.unwrap();
        let text = compiled.as_text().unwrap();
        assert!(text.starts_with("HloModule curve"), "{text}");
        assert!(text.contains("ENTRY %") && text.contains("ROOT %"), "{text}");
        let fusions = compiled.report().fusions().unwrap();
        let [fusion] = fusions.as_slice() else { panic!("{fusions:?}") };
        assert!(
            ["tanh", "exponential"]
                .iter()
                .all(|name| { fusion.operations.iter().any(|operation| operation == name) }),
            "{fusion}"
        );
        let first = fusion.sources.iter().map(|source| source.line).min().unwrap();
        let last = fusion.sources.iter().map(|source| source.line).max().unwrap();
        assert_eq!(last - first, 1, "{fusion}");
        assert!(fusion.sources[0].file.ends_with("dispatch/ahead.rs"), "{fusion}");
        let line = format!("  // {}", fusion.sources[0]);
        assert!(text.contains(&line), "{text}");
    }

    #[test]
    fn compiler_options_reach_the_compiler() {
        let lowered = jit(|x: Array| sin(&x)).lower(Aval::new(DType::F32, [4])).unwrap();
        let efforts = CompilerOptions::new()
            .exec_time_optimization_effort(-0.5)
            .memory_fitting_effort(0.5)
            .optimization_level(EffortLevel::O1)
            .memory_fitting_level(EffortLevel::O2);
        let quick = lowered.compile_with(efforts).unwrap();
        assert_eq!(quick.call(zeros([4])).unwrap().to_vec::<f32>().unwrap(), [0.0; 4]);
        // The program is written to the folder that an option names.
        let folder = tempfile::tempdir().unwrap();
        let dump = [("xla_dump_to", folder.path().to_str().unwrap())];
        lowered.compile_with(dump).unwrap();
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_some());
        // Unknown names, wrong types and numbers out of range are errors.
        let failed = |options: CompilerOptions| lowered.compile_with(options).unwrap_err();
        let error = failed([("xla_no_such_flag", true)].into()).to_string();
        assert!(error.contains("refuses the compiler option `xla_no_such_flag`"), "{error}");
        let error = failed([("xla_cpu_enable_fast_math", "maybe")].into()).to_string();
        assert!(error.contains("`xla_cpu_enable_fast_math` = String(\"maybe\")"), "{error}");
        let error = failed(CompilerOptions::new().exec_time_optimization_effort(2.0)).to_string();
        assert!(error.contains("must be between -1 and 1, got 2"), "{error}");
    }

    #[test]
    fn compiler_options_of_jit_hold_for_its_calls() {
        let f = jit(|x: Array| sin(&x)).compiler_options([("xla_no_such_flag", 1)]);
        let error = f.call(zeros([4])).unwrap_err().to_string();
        assert!(error.contains("xla_no_such_flag"), "{error}");
        let g = jit(|x: Array| sin(&x)).compiler_options([("xla_cpu_enable_fast_math", true)]);
        assert_eq!(g.call(zeros([4])).unwrap().to_vec::<f32>().unwrap(), [0.0; 4]);
        // Inside another trace they would be ignored.
        let outer = jit(|x: Array| g.apply(&x) + 1.0);
        let error = outer.call(zeros([4])).unwrap_err().to_string();
        assert!(error.contains("has compiler options inside another trace"), "{error}");
        assert!(error.contains("set them on the outermost `jit`"), "{error}");
    }
}
