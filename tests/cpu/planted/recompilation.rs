//! Planted causes of recompilation.

mod on_cpu {
    use oxidax::config::with_default_prng_impl;
    use oxidax::core::{Loc, named_scope};
    use oxidax::jit::{
        CompilerOptions, EffortLevel, Recompilation, disable_loop_kernels,
        disable_most_optimizations, disable_outlining, disable_rewrites,
    };
    use oxidax::parallel::with_mesh;
    use oxidax::prelude::*;
    use oxidax::random::KeyImpl;
    use std::collections::BTreeMap;

    fn f32s(dims: &[usize]) -> Array {
        zeros(dims)
    }

    fn i32s(dims: &[usize]) -> Array {
        Array::from_slice(&vec![0; dims.iter().product()], dims.to_vec()).unwrap()
    }

    /// Checks a report: its reason, the function, and the line of the call in this file.
    fn check(again: &Recompilation, function: &str, line: u32, reason: &str) {
        assert_eq!(again.reason(), reason);
        assert_eq!(again.function, function);
        let text = again.to_string();
        let first = format!("`{function}` was compiled again: {reason}\n");
        assert!(text.starts_with(&first), "{text}");
        let at = |loc: Loc| loc.get().map(|at| (at.file(), at.line()));
        assert_eq!(at(again.call_site), Some((file!(), line)), "{text}");
        assert!(text.contains(&format!("   --> {}:{line}:", file!())), "{text}");
        assert!(text.contains("\n  help: "), "{text}");
        assert!(at(again.created).is_some_and(|(file, _)| file == file!()), "{text}");
    }

    /// Checks the error of a sealed function: as [`check`], and that it says how to go on.
    fn check_sealed(error: &Error, function: &str, line: u32, reason: &str) {
        let Error::Sealed(sealed) = error else { panic!("{error}") };
        check(&sealed.refused, function, line, reason);
        let text = error.to_string();
        let first = format!("error[recompile]: {function}: it is sealed, 1 programs were compiled");
        assert!(text.starts_with(&first) && text.contains(reason), "{text}");
        assert!(text.contains(&format!("   --> {}:{line}:", file!())), "{text}");
        assert!(text.contains("\n  help: `compile_ahead` compiles"), "{text}");
    }

    /// Calls a function with two signatures, and checks the report of the second; then the error of
    /// the sealed function.
    macro_rules! planted {
        ($name:literal: $function:expr; $first:tt, then $second:tt: $reason:literal) => {{
            let f = $function.name($name);
            f.call $first.unwrap();
            f.call $second.unwrap();
            let again = f.recompilations();
            assert_eq!(again.len(), 1, "{again:?}");
            check(&again[0], $name, line!(), $reason);
            assert!(again[0].duration > std::time::Duration::ZERO);
            let f = $function.name($name).sealed();
            f.call $first.unwrap();
            let failed = f.call $second.unwrap_err();
            check_sealed(&failed.error, $name, line!(), $reason);
            assert_eq!((f.stats().compiles, f.stats().signatures), (1, 1));
            f.call $first.unwrap();
        }};
    }

    /// Calls a function outside of a scope, then inside: as [`planted`].
    macro_rules! planted_scope {
        ($name:literal: $function:expr; $scope:expr; $reason:literal) => {{
            let f = $function.name($name);
            f.call(f32s(&[2, 2])).unwrap();
            $scope(&|| f.call(f32s(&[2, 2])).map(drop).map_err(Error::from)).unwrap();
            let again = f.recompilations();
            assert_eq!(again.len(), 1, "{again:?}");
            check(&again[0], $name, line!(), $reason);
            let f = $function.name($name).sealed();
            f.call(f32s(&[2, 2])).unwrap();
            let failed = $scope(&|| f.call(f32s(&[2, 2])).map(drop).map_err(Error::from));
            check_sealed(&failed.unwrap_err(), $name, line!(), $reason);
        }};
    }

    #[derive(Tree)]
    struct Batch {
        images: Array,
        labels: Array,
        #[tree(static)]
        classes: usize,
    }

    fn batch(n: usize, width: usize, classes: usize) -> Batch {
        Batch { images: f32s(&[n, width]), labels: i32s(&[n]), classes }
    }

    #[derive(Tree)]
    struct Layer {
        weight: Array,
        bias: Option<Array>,
    }

    fn layer(bias: bool) -> Layer {
        Layer { weight: f32s(&[3, 2]), bias: bias.then(|| f32s(&[2])) }
    }

    #[derive(Tree)]
    enum Loss {
        Squares(Array),
        Absolute(Array),
    }

    fn loss_of_batch(weight: Array, batch: Batch) -> Array {
        batch.images.sum() * weight.sum() + batch.labels.sum()
    }

    #[test]
    fn changed_axes_and_types_are_named() {
        planted!("tuple": jit(|pair: (Array, Array)| pair.0.sum() + pair.1.sum());
            ((f32s(&[32, 8]), f32s(&[4]))), then ((f32s(&[24, 8]), f32s(&[4]))):
            "$[0][0]: axis 0 has size 24, was 32");
        planted!("struct": jit(loss_of_batch);
            (f32s(&[3]), batch(8, 5, 10)), then (f32s(&[3]), batch(8, 6, 10)):
            "$[1].images: axis 1 has size 6, was 5");
        planted!("two leaves": jit(loss_of_batch);
            (f32s(&[3]), batch(8, 5, 10)), then (f32s(&[3]), batch(7, 5, 10)):
            "$[1].images: axis 0 has size 7, was 8; $[1].labels: axis 0 has size 7, was 8");
        planted!("list": jit(|xs: Vec<Array>| xs[0].sum() + xs[1].sum());
            (vec![f32s(&[3]), f32s(&[3])]), then (vec![f32s(&[3]), f32s(&[9])]):
            "$[0][1]: axis 0 has size 9, was 3");
        planted!("option": jit(|x: Option<Array>| x.map(|x| x.sum()));
            (Some(f32s(&[3]))), then (Some(f32s(&[4]))):
            "$[0]: axis 0 has size 4, was 3");
        planted!("map": jit(|xs: BTreeMap<String, Array>| xs["x"].sum());
            (BTreeMap::from([("x".to_string(), f32s(&[3]))])),
            then (BTreeMap::from([("x".to_string(), f32s(&[3, 3]))])):
            "$[0].x: the shape is [3, 3], was [3]");
        planted!("rank": jit(|x: Array| x.sum());
            (f32s(&[6])), then (f32s(&[1, 6])):
            "$[0]: the shape is [1, 6], was [6]");
        planted!("nested": jit(|x: (Layer, Vec<Layer>)| x.0.weight.sum() + x.1[0].weight.sum());
            ((layer(false), vec![layer(false)])),
            then ((layer(false), vec![Layer { weight: f32s(&[3, 4]), bias: None }])):
            "$[0][1][0].weight: axis 1 has size 4, was 2");
        planted!("dtype": jit(loss_of_batch);
            (f32s(&[3]), batch(8, 5, 10)),
            then (f32s(&[3]), Batch { labels: f32s(&[8]), ..batch(8, 5, 10) }):
            "$[1].labels: the dtype is f32, was i32");
        planted!("weak": jit(|x: Array, rate: Array| x * rate);
            (f32s(&[3]), 0.5), then (f32s(&[3]), full([], 0.5_f32)):
            "$[1]: strongly typed, was weakly typed");
        planted!("all at once": jit(|x: Array| x.sum());
            (f32s(&[3, 4])), then (i32s(&[5, 6])):
            "$[0]: axis 0 has size 5, was 3; $[0]: axis 1 has size 6, was 4; \
             $[0]: the dtype is i32, was f32");
    }

    #[test]
    fn changed_statics_and_structures_are_named() {
        planted!("static argument": jit(|x: Array, n: u32| x.powi(n as i32));
            (f32s(&[3]), &2_u32), then (f32s(&[3]), &3_u32):
            "$[1]: the static value is 3, was 2");
        planted!("flag": jit(|x: Array, train: bool| if train { x * 2.0 } else { x });
            (f32s(&[3]), true), then (f32s(&[3]), false):
            "$[1]: the static value is false, was true");
        planted!("text": jit(|x: Array, mode: String| if mode == "sin" { sin(&x) } else { x });
            (f32s(&[3]), "sin".to_string()), then (f32s(&[3]), "cos".to_string()):
            "$[1]: the static value is \"cos\", was \"sin\"");
        planted!("static field": jit(loss_of_batch);
            (f32s(&[3]), batch(8, 5, 10)), then (f32s(&[3]), batch(8, 5, 12)):
            "$[1].classes: the static value is 12, was 10");
        planted!("wrapped": jit(|x: Array, dims: Static<[usize; 2]>| x.reshape(dims.0));
            (f32s(&[6]), Static([2, 3])), then (f32s(&[6]), Static([3, 2])):
            "$[1]: the static value is [3, 2], was [2, 3]");
        planted!("no bias": jit(|layer: Layer| layer.weight.sum());
            (layer(true)), then (layer(false)):
            "$[0].bias: the structure is `None`, was `Some`, removed leaves $[0].bias");
        planted!("new bias": jit(|layers: Vec<Layer>| layers[0].weight.sum());
            (vec![layer(false), layer(false)]), then (vec![layer(false), layer(true)]):
            "$[0][1].bias: the structure is `Some`, was `None`, new leaves $[0][1].bias");
        planted!("longer list": jit(|xs: Vec<Array>| xs[0].sum());
            (vec![f32s(&[3])]), then (vec![f32s(&[3]), f32s(&[3])]):
            "$[0]: the structure is 2 children, was 1 child, new leaves $[0][1]");
        planted!("variant": jit(|loss: Loss| match loss {
                Loss::Squares(x) => x.sum(),
                Loss::Absolute(x) => abs(&x).sum(),
            });
            (Loss::Squares(f32s(&[3]))), then (Loss::Absolute(f32s(&[3]))):
            "$[0]: the structure is `Loss::Absolute`, was `Loss::Squares`");
        planted!("key": jit(|xs: BTreeMap<String, Array>| xs.into_values().next());
            (BTreeMap::from([("old".to_string(), f32s(&[3]))])),
            then (BTreeMap::from([("new".to_string(), f32s(&[3]))])):
            "$[0]: the static value is \"new\", was \"old\"; $[0].new: the structure is an array, \
             was nothing, new leaves $[0].new, removed leaves $[0].old");
        let device = devices().unwrap()[0].clone();
        planted!("placement": jit(|x: Array| x.sum());
            (f32s(&[3])), then (device_put(&f32s(&[3]), &device).unwrap()):
            "$[0]: the placement is cpu:0, was not committed");
    }

    /// A call inside a scope.
    type Call<'a> = &'a dyn Fn() -> Result<(), Error>;

    #[test]
    fn changed_settings_are_named() {
        let square = |x: Array| x.matmul(&x);
        planted_scope!("precision": jit(square);
            |call: Call<'_>| with_matmul_precision(Precision::Highest, call);
            "matmul precision: Highest, was Default");
        let mesh = Mesh::new(devices().unwrap(), [("data", 1)]).unwrap();
        planted_scope!("mesh": jit(square);
            |call: Call<'_>| with_mesh(&mesh, call);
            "mesh: Mesh(data=1) of 1 device, was none");
        planted_scope!("generator": jit(square);
            |call: Call<'_>| with_default_prng_impl(KeyImpl::Rbg, call);
            "default generator of keys: Rbg, was Threefry");
        planted_scope!("optimizations": jit(square);
            |call: Call<'_>| disable_most_optimizations(call);
            "disable_most_optimizations: in force, was not in force");
        planted_scope!("outlining": jit(square);
            |call: Call<'_>| disable_outlining(call);
            "disable_outlining: in force, was not in force");
        planted_scope!("kernels": jit(square);
            |call: Call<'_>| disable_loop_kernels(call);
            "disable_loop_kernels: in force, was not in force");
        planted_scope!("rewrites": jit(square);
            |call: Call<'_>| disable_rewrites(call);
            "disable_rewrites: in force, was not in force");
        planted_scope!("two settings": jit(square);
            |call: Call<'_>| with_matmul_precision(Precision::High, || disable_rewrites(call));
            "matmul precision: High, was Default; disable_rewrites: in force, was not in force");
    }

    #[test]
    fn dropped_signatures_are_named() {
        let f = jit(|x: Array| x.sum()).name("small").cache_size(1);
        for n in [2, 3] {
            f.call(f32s(&[n])).unwrap();
        }
        let line = line!() + 1;
        f.call(f32s(&[2])).unwrap();
        let again = f.recompilations();
        let reason = "this signature was compiled before and dropped, because 1 are kept";
        check(&again[1], "small", line, reason);
        assert!(again[1].to_string().contains("help: raise `cache_size`"), "{}", again[1]);
        let f = f.sealed();
        let line = line!() + 1;
        let failed = f.call(f32s(&[3])).unwrap_err();
        let Error::Sealed(sealed) = &failed.error else { panic!("{failed}") };
        check(&sealed.refused, "small", line, reason);
        f.call(f32s(&[2])).unwrap();
    }

    #[test]
    fn functions_created_in_a_loop_are_named() {
        let mut again = Vec::new();
        let created = line!() + 2;
        for n in 0..3 {
            let create = || jit(|x: Array| sin(&x)).name("inner");
            let f = named_scope(["first", "second", "third"][n], create);
            f.call(f32s(&[2])).unwrap();
            again.extend(f.recompilations());
        }
        assert_eq!(again.len(), 2);
        for (report, times) in again.iter().zip([2, 3]) {
            let (file, reason) = (file!(), report.reason());
            let place = format!("created in a loop at {file}:{created}:29: ");
            assert_eq!(reason, place + &format!("{times} of them compiled this signature"));
            check(report, "inner", created + 2, &reason);
            assert_eq!(report.created.get().map(|at| at.line()), Some(created));
        }
    }

    /// Returns the causes beside the loop of the second function that `create` makes.
    macro_rules! planted_capture {
        ($name:literal: $values:expr, $value:pat => $create:expr; $reason:expr) => {{
            let mut again = Vec::new();
            for $value in $values {
                let f = $create.name($name);
                f.call(f32s(&[2])).unwrap();
                again.extend(f.recompilations());
            }
            assert_eq!(again.len(), 1, "{again:?}");
            let reason = again[0].reason();
            let (head, causes) = reason.split_once("; ").unwrap();
            assert!(head.starts_with("created in a loop at "), "{head}");
            assert!(causes.starts_with($reason), "{causes}");
            check(&again[0], $name, line!(), &reason);
        }};
    }

    #[test]
    fn changed_captures_and_options_are_named() {
        let at = |line: u32| format!("(at {}:{line}:", file!());
        let line = line!() + 1;
        planted_capture!("number": [2.0_f32, 3.0], n => jit(move |x: Array| x * n); &format!(
            "a captured value has changed: fill[value=3.0], was fill[value=2.0] {}", at(line)
        ));
        let line = line!() + 1;
        planted_capture!("exponent": [3, 5], n => jit(move |x: Array| x.powi(n)); &format!(
            "a captured value has changed: integer_pow[exponent=5], was integer_pow[exponent=3] {}", at(line)
        ));
        let line = line!() + 1;
        planted_capture!("choice": [true, false], sine => jit(move |x: Array| match sine {
                true => sin(&x),
                false => cos(&x),
            });
            &format!("a captured value has changed: cos, was sin {}", at(line + 2)));
        planted_capture!("array": [f32s(&[2]), f32s(&[2])], y => jit(move |x: Array| x * &y);
            "captured array 0 is another one: f32[2], was f32[2]");
        planted_capture!("longer array": [f32s(&[2]), f32s(&[1])], y => jit(move |x| x * &y);
            "captured array 0 is another one: f32[1], was f32[2]");
        let line = line!() + 1;
        planted_capture!("loop": [2.0_f32, 3.0], n => jit(move |x: Array| {
                fori_loop(0, 4, |_, x: Array| sin(&x) * n, x)
            });
            &format!("a captured value has changed: fill[value=3.0], was fill[value=2.0] {}",
                at(line + 1)));
        // A closure is another one at each trace, which is not a captured value.
        let mut reports = Vec::new();
        for _ in 0..2 {
            let f = jit(|x: Array| {
                debug_print!("{x}");
                x
            });
            f.call(f32s(&[2])).unwrap();
            reports.extend(f.recompilations());
        }
        let reason = reports[0].reason();
        assert!(reason.starts_with("created in a loop") && !reason.contains(';'), "{reason}");
        let option = |fast: bool| CompilerOptions::from([("xla_cpu_enable_fast_math", fast)]);
        planted_capture!("flag": [false, true], fast
            => jit(|x: Array| sin(&x)).compiler_options(option(fast));
            "compiler option xla_cpu_enable_fast_math: Bool(true), was Bool(false)");
        let effort = |level| CompilerOptions::new().optimization_level(level);
        planted_capture!("level": [EffortLevel::O1, EffortLevel::O2], level
            => jit(|x: Array| cos(&x)).compiler_options(effort(level));
            "optimization_level: O2, was O1");
    }
}
