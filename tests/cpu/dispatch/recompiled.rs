//! Functions that are compiled again: limits, logs, events, times, and sets of signatures.

mod on_cpu {
    use super::super::listener::listen;
    use oxidax::jit::{Buckets, CompileLimit, RecompilationCause, disable_rewrites};
    use oxidax::monitoring;
    use oxidax::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    fn sum_of(name: &str) -> Jit<'static, (Array,), Array> {
        jit(|x: Array| x.sum()).name(name)
    }

    #[test]
    fn refused_call_returns_its_arguments_and_evicts_nothing() {
        let double = jit(|x: Array| &x + &x).sealed().cache_size(1);
        double.call(ones([2])).unwrap();
        let failed = double.call(full([3], 4.0_f32)).unwrap_err();
        let returned = failed.args.0.as_ref().unwrap();
        assert_eq!(returned.to_vec::<f32>().unwrap(), [4.0; 3]);
        let stats = double.stats();
        assert_eq!((stats.evictions, stats.compiles, stats.traces), (0, 1, 1));
        assert_eq!(double.call(ones([2])).unwrap().to_vec::<f32>().unwrap(), [2.0; 2]);
        assert_eq!(double.stats().compiles, 1, "the first signature is still compiled");
        // Compiling ahead is allowed.
        let double = double.cache_size(2);
        double.compile_ahead(ones([3])).unwrap();
        assert_eq!(double.call(ones([3])).unwrap().to_vec::<f32>().unwrap(), [2.0; 3]);
        assert!(double.recompilations()[0].is_ahead);
    }

    #[test]
    fn sealed_functions_become_part_of_traces() {
        let double = jit(|x: Array| &x + &x).sealed();
        double.call(ones([2])).unwrap();
        let quadruple = jit(|x: Array| double.apply(double.apply(x)));
        assert_eq!(quadruple.call(ones([3])).unwrap().to_vec::<f32>().unwrap(), [4.0; 3]);
        let refused = oxidax::catch(|| double.apply(ones([3])));
        assert!(matches!(refused, Err(Error::Sealed(_))), "{refused:?}");
    }

    #[test]
    fn specializations_are_counted_once_each() {
        let sum = sum_of("counted").max_specializations(2).cache_size(1);
        // The second signature evicts the first, which is compiled again: it is not a new one.
        for n in [2, 3, 2, 3] {
            sum.call(ones([n])).unwrap();
        }
        assert_eq!(sum.stats().compiles, 4);
        let failed = sum.call(ones([4])).unwrap_err();
        let Error::Sealed(error) = &failed.error else { panic!("{failed}") };
        assert_eq!(error.limit, CompileLimit::MaxSpecializations(2));
        let text = failed.to_string();
        assert!(text.contains("counted: this call needs signature 3 of at most 2"), "{text}");
        assert!(text.contains("raise `max_specializations`"), "{text}");
        // Signatures that are compiled ahead count.
        let sum = sum_of("ahead").max_specializations(2);
        sum.compile_ahead_all([2, 3].map(|n| Aval::new(DType::F32, [n]))).unwrap();
        assert!(sum.call(ones([4])).is_err() && sum.call(ones([3])).is_ok());
    }

    #[test]
    fn sets_of_signatures_are_compiled_once_each() {
        let product = jit(|x: Array, w: Array| x.matmul(&w)).name("product");
        let signature = |n: usize| (Aval::new(DType::F32, [n, 4]), Aval::new(DType::F32, [4, 2]));
        product.call(ones([1, 4]), ones([4, 2])).unwrap();
        let line = line!() + 1;
        product.compile_ahead_all([1, 8, 2, 8, 4].map(signature)).unwrap();
        let stats = product.stats();
        assert_eq!((stats.compiles, stats.traces, stats.signatures), (4, 4, 4));
        assert_eq!((stats.calls, stats.misses, stats.hits), (1, 1, 0));
        for n in [8, 2, 4, 1] {
            product.call(ones([n, 4]), ones([4, 2])).unwrap();
        }
        assert_eq!((product.stats().compiles, product.stats().hits), (4, 4));
        // The reports are in the order of the list.
        let reports = product.recompilations();
        let size = |cause: &RecompilationCause| match cause {
            RecompilationCause::Axis { new, .. } => *new,
            other => panic!("{other}"),
        };
        let sizes: Vec<usize> = reports.iter().map(|report| size(&report.causes[0])).collect();
        assert_eq!(sizes, [8, 2, 4]);
        let of_line = |line| move |at: &std::panic::Location<'_>| at.line() == line;
        assert!(reports.iter().all(|it| it.call_site.get().is_some_and(of_line(line))));
        product.compile_ahead_all([signature(2)]).unwrap();
        product.compile_ahead_all::<(Aval, Aval)>([]).unwrap();
        assert_eq!(product.stats().traces, 4, "nothing is traced again");
    }

    #[test]
    fn sets_are_compiled_with_the_settings_of_this_thread() {
        let sum = sum_of("settings");
        let signatures = || [3, 4, 5].map(|n| Aval::new(DType::F32, [n]));
        disable_rewrites(|| sum.compile_ahead_all(signatures())).unwrap();
        disable_rewrites(|| sum.call(ones([4]))).unwrap();
        assert_eq!(sum.stats().compiles, 3);
        sum.call(ones([4])).unwrap();
        assert_eq!(sum.stats().compiles, 4, "other settings need another program");
    }

    #[test]
    fn failing_signature_of_a_set_is_named() {
        let reshaped = jit(|x: Array| x.reshape([2, 2])).name("reshaped");
        let signatures = [4, 5].map(|n| Aval::new(DType::F32, [n]));
        let error = reshaped.compile_ahead_all(signatures).unwrap_err().to_string();
        assert!(error.starts_with("error[shape]: reshape: "), "{error}");
        assert!(error.contains("recompiled.rs:"), "{error}");
        assert_eq!(reshaped.stats().compiles, 0, "nothing is compiled if one cannot be traced");
    }

    #[test]
    fn storms_are_logged_as_warnings_at_every_doubling() {
        let sum = sum_of("storm");
        let events = listen(|| {
            for n in 1..=10 {
                sum.call(ones([n])).unwrap();
            }
        });
        let compiled: Vec<&String> =
            events.iter().filter(|event| event.contains("function=\"storm\"")).collect();
        assert_eq!(compiled.len(), 9, "{compiled:?}");
        let warnings: Vec<usize> =
            (0..9).filter(|&index| compiled[index].starts_with("WARN ")).collect();
        assert_eq!(warnings, [3, 7], "{compiled:?}");
        let ninth = compiled[8];
        assert!(ninth.contains("reason=\"$[0]: axis 0 has size 10, was 9\""), "{ninth}");
        assert!(ninth.contains("compilations=10") && ninth.contains("remedy=\"pad"), "{ninth}");
    }

    #[test]
    fn memory_of_reports_is_bounded() {
        let sum = sum_of("bounded").cache_size(2);
        for n in 0..70 {
            sum.call(ones([n])).unwrap();
        }
        let reports = sum.recompilations();
        assert_eq!(reports.len(), 64);
        assert_eq!(reports[63].compilations, 70);
        // A signature that is no longer compared is still recognized.
        sum.call(ones([0])).unwrap();
        let causes = sum.recompilations().pop().unwrap().causes;
        assert_eq!(causes, [RecompilationCause::Evicted { limit: 2 }]);
    }

    #[test]
    fn many_differences_are_cut() {
        let sum = jit(|xs: Vec<Array>| xs[0].sum()).name("wide");
        for n in [2, 3] {
            sum.call(vec![ones([n]); 20]).unwrap();
        }
        let report = &sum.recompilations()[0];
        assert_eq!((report.causes.len(), report.omitted), (16, 4));
        assert!(report.reason().ends_with("; and 4 more differences"), "{report}");
    }

    #[test]
    fn phases_are_measured_apart() {
        let f = jit(|x: Array| (0..20).fold(x, |x, _| sin(&x)));
        assert_eq!(f.stats().compile_seconds(), 0.0);
        f.call(ones([4])).unwrap();
        let stats = f.stats();
        for time in [stats.trace_time, stats.lower_time, stats.compile_time] {
            assert!(time > Duration::ZERO, "{stats:?}");
        }
        assert_eq!((stats.load_time, stats.bytes_transferred), (Duration::ZERO, 0));
        f.call(ones([4])).unwrap();
        let warm = f.stats();
        assert_eq!(warm.compile_seconds(), stats.compile_seconds());
        assert_eq!((warm.calls, warm.hits), (2, 1));
    }

    #[test]
    fn compilations_are_events() {
        let seen: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
        let count = |kind: &'static str| {
            let seen = seen.clone();
            move |event: &str, metadata: monitoring::EventMetadata<'_>| {
                let mine = metadata.contains(&("fun_name", "monitored".into()));
                if mine {
                    *seen.lock().unwrap().entry(format!("{kind} {event}")).or_default() += 1;
                }
            }
        };
        let (events, durations, scalars) = (count("event"), count("seconds"), count("scalar"));
        let sum = Arc::new(sum_of("monitored"));
        let again = sum.clone();
        let ids = [
            monitoring::register_event_listener(events),
            // A listener may call the function whose compilation it hears of.
            monitoring::register_event_listener(move |event, metadata| {
                let mine = metadata.contains(&("fun_name", "monitored".into()));
                if mine && event == "/oxidax/jit/recompilation" {
                    again.call(ones([3])).unwrap();
                }
            }),
            monitoring::register_event_listener(|event, metadata| {
                let mine = metadata.contains(&("fun_name", "monitored".into()));
                assert!(!mine || event != "/oxidax/jit/recompilation", "planted panic");
            }),
        ];
        let duration =
            monitoring::register_event_duration_secs_listener(move |event, seconds, metadata| {
                assert!(seconds >= 0.0);
                durations(event, metadata);
            });
        let scalar = monitoring::register_scalar_listener(move |event, _, metadata| {
            scalars(event, metadata);
        });
        for n in [2, 3, 2] {
            sum.call(ones([n])).unwrap();
        }
        for id in ids {
            assert!(monitoring::unregister_event_listener(id));
        }
        assert!(monitoring::unregister_event_duration_listener(duration));
        assert!(monitoring::unregister_scalar_listener(scalar));
        sum.call(ones([5])).unwrap();
        let seen: Vec<(String, usize)> = seen.lock().unwrap().clone().into_iter().collect();
        let expected = [
            ("event /oxidax/jit/recompilation", 1),
            ("scalar /oxidax/jit/programs", 2),
            ("seconds /oxidax/compile/backend_compile_duration", 2),
            ("seconds /oxidax/compile/lower_duration", 2),
            ("seconds /oxidax/compile/trace_duration", 2),
        ];
        assert_eq!(seen, expected.map(|(event, times)| (event.to_string(), times)));
    }

    #[test]
    fn buckets_serve_many_lengths_with_few_programs() {
        let total = jit(|x: Array, mask: Array| where_(mask, x, 0.0).sum_axes([0]));
        let buckets = Buckets::new([4, 8]);
        for n in 1..=8 {
            let x = full([2, n], 1.0_f32).t();
            let (x, mask) = buckets.pad(&x, 0).unwrap();
            let mask = mask.reshape([mask.shape()[0], 1]);
            assert_eq!(total.call(&x, &mask).unwrap().to_vec::<f32>().unwrap(), [n as f32; 2]);
        }
        assert_eq!(total.stats().compiles, 2);
        let error = buckets.pad(&ones([2, 9]), 1).unwrap_err().to_string();
        assert!(error.contains("9 elements do not fit the largest bucket, 8"), "{error}");
        assert!(error.contains("recompiled.rs:"), "{error}");
        assert!(buckets.pad(&ones([2]), 1).unwrap_err().to_string().contains("axis 1"));
        // What is placed stays where it is.
        let device = devices().unwrap()[0].clone();
        let (placed, _) = buckets.pad(&device_put(&ones([3]), &device).unwrap(), 0).unwrap();
        assert_eq!(placed.to_vec::<f32>().unwrap(), [1.0, 1.0, 1.0, 0.0]);
        let kept = jit(|x: Array| x.sum());
        kept.call(device_put(&ones([4]), &device).unwrap()).unwrap();
        kept.call(&placed).unwrap();
        assert_eq!(kept.stats().compiles, 1, "it is committed, as before");
    }
}
