//! Repeated parts together with effects, branches, donation, `remat` and serialization.

use super::{Layer, ROWS, WIDTH, input, input_type, layers, loss, run, times};
use oxidax::debug::{self, CallbackOptions};
use oxidax::jit::disable_outlining;
use oxidax::prelude::*;

/// Returns the number of calls of functions that are not inlined.
fn calls(text: &str) -> usize {
    text.matches("inlineable = \"false\"").count()
}

#[test]
fn functions_of_the_user_keep_their_names() {
    // The names of inner functions have the form of a part's name.
    let f = jit(|layers: Vec<Layer>, x: Array| {
        let part = jit(|x: Array| tanh(&x)).name("part");
        let x = part.apply(&x);
        part.apply(run(&layers, &x)).sum()
    });
    let lowered = f.lower(eval_shape(layers, 4).unwrap(), input_type()).unwrap();
    let text = lowered.as_text("cpu").unwrap();
    let mut names: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("func.func"))
        .filter_map(|line| line.split('@').nth(1)?.split('(').next())
        .collect();
    names.sort_unstable();
    let n = names.len();
    assert!(n >= 3, "{text}");
    names.dedup();
    assert_eq!(names.len(), n, "{names:?}");
    let parts = lowered.repeated_parts("cpu").unwrap();
    assert!(names.contains(&parts[0].name.as_str()), "{names:?} {parts:?}");
}

#[test]
fn layers_that_are_functions_share_one() {
    let f = jit(|layers: Vec<Layer>, x: Array| {
        let layer = jit(|layer: Layer, x: Array| layer.forward(&x)).name("layer");
        layers.into_iter().fold(x, |x, weights| layer.apply(weights, x))
    });
    let lowered = f.lower(eval_shape(layers, 6).unwrap(), input_type()).unwrap();
    assert_eq!(times(&lowered.repeated_parts("cpu").unwrap()), [6]);
    assert_eq!(calls(&lowered.as_text("cpu").unwrap()), 6);
}

#[test]
fn refused_operation_in_a_layer_is_located() {
    let f = jit(|layers: Vec<Layer>, x: Array| {
        layers.iter().fold(x, |x, layer| {
            let huge = broadcast_to(&x, [1 << 24, ROWS, WIDTH]); // refused here
            layer.forward(&x) + huge.index(i![0])
        })
    });
    let lowered = f.lower(eval_shape(layers, 6).unwrap(), input_type()).unwrap();
    let refusal = || lowered.as_text("cpu").unwrap_err().to_string();
    let message = refusal();
    let line =
        include_str!("features.rs").lines().position(|line| line.ends_with("// refused here"));
    let expected = format!("features.rs:{}", line.unwrap() + 1);
    assert!(message.contains(&expected), "{message}");
    assert_eq!(message, disable_outlining(refusal));
}

mod on_cpu {
    use super::super::assert_close;
    use super::*;
    use oxidax::core::HostArray;
    use std::sync::{Arc, Mutex};

    /// A list that host functions write.
    type Log = Arc<Mutex<Vec<String>>>;

    fn recorder(log: &Log, name: &'static str) -> impl Fn(&[HostArray]) + Send + Sync + 'static {
        let log = log.clone();
        move |_| log.lock().unwrap().push(name.to_string())
    }

    /// Returns the entries of a log after all callbacks have run, and empties it.
    fn take(log: &Log) -> Vec<String> {
        oxidax::jit::effects_barrier().unwrap();
        std::mem::take(&mut *log.lock().unwrap())
    }

    #[test]
    fn ordered_callbacks_between_layers_keep_their_order() {
        let log = Log::default();
        let (start, middle, end) =
            (recorder(&log, "start"), recorder(&log, "middle"), recorder(&log, "end"));
        let functions = [
            Arc::new(start) as Arc<dyn Fn(&[HostArray]) + Send + Sync>,
            Arc::new(middle),
            Arc::new(end),
        ];
        let f = jit(move |first: Vec<Layer>, second: Vec<Layer>, x: Array| {
            let show = |index: usize, x: &Array| {
                let function = functions[index].clone();
                let options = CallbackOptions { ordered: true };
                debug::callback_with(move |x| function(x), [x], options);
            };
            show(0, &x);
            let x = run(&first, &x);
            // This one needs the first layers, and the last one does not.
            show(1, &x);
            let y = run(&second, &x);
            show(2, &zeros([1]));
            y
        });
        let lowered = f.lower(layers(4), layers(5), input()).unwrap();
        let parts = lowered.repeated_parts("cpu").unwrap();
        assert_eq!(parts.iter().map(|part| part.times).sum::<usize>(), 9, "{parts:?}");
        let call = || f.call(layers(4), layers(5), input()).unwrap();
        let outlined = call();
        assert_eq!(take(&log), ["start", "middle", "end"]);
        let plain = disable_outlining(call);
        assert_eq!(take(&log), ["start", "middle", "end"]);
        assert_close(&outlined, &plain, 2e-6);
    }

    #[test]
    fn callbacks_of_each_layer_run_once_per_layer() {
        let log = Log::default();
        let record = Arc::new(recorder(&log, "layer"));
        let f = jit(move |layers: Vec<Layer>, x: Array| {
            layers.iter().fold(x, |x, layer| {
                let record = record.clone();
                debug::callback(move |x| record(x), [&x.index(i![0, 0])]);
                layer.forward(&layer.forward(&x))
            })
        });
        f.call(layers(5), input()).unwrap();
        assert_eq!(take(&log).len(), 5);
    }

    #[test]
    fn host_functions_of_layers_are_not_merged() {
        let f = jit(|layers: Vec<Layer>, x: Array| {
            let layers = layers.iter().enumerate();
            layers.fold(x, |x, (index, layer)| {
                // Each layer has its own closure, with its own number.
                let add = move |arrays: &[HostArray]| {
                    let values = arrays[0].to_vec::<f32>()?;
                    let values: Vec<f32> = values.iter().map(|x| x + index as f32).collect();
                    Ok(vec![HostArray::from_slice(&values, [ROWS, WIDTH])?])
                };
                let results = [Aval::new(DType::F32, [ROWS, WIDTH])];
                layer.forward(&debug::pure_callback(add, &results, [&x]).swap_remove(0))
            })
        });
        let call = || f.call(layers(4), input()).unwrap();
        assert_close(&call(), &disable_outlining(call), 2e-6);
    }

    #[test]
    fn layers_in_a_branch_share_a_function() {
        let f = jit(|layers: Vec<Layer>, x: Array| {
            let branch = |x: &Array| (run(&layers, x) * 2.0).sum();
            cond(x.sum().greater(0.0), branch, |x: &Array| run(&layers, &-x).sum(), &x)
        });
        let lowered = f.lower(layers(4), input()).unwrap();
        assert_eq!(times(&lowered.repeated_parts("cpu").unwrap()), [4, 4]);
        for sign in [1.0, -1.0] {
            let x = abs(input()) * sign;
            let call = || f.call(layers(4), &x).unwrap();
            assert_close(&call(), &disable_outlining(call), 2e-6);
        }
    }

    /// A step that returns its model in place of the old one.
    fn step(model: Vec<Layer>, x: Array) -> (Vec<Layer>, Array) {
        let (loss, slope) = value_and_grad(|model: &Vec<Layer>| loss(model, &x))(&model);
        (tree::zip_map(&model, &slope, |leaf, slope| leaf - slope * 0.1), loss)
    }

    #[test]
    fn models_are_donated_as_without_functions() {
        let step = jit(step);
        let train = || {
            let compiled = step.lower(layers(6), input()).unwrap().compile().unwrap();
            let memory = compiled.report().memory_analysis().unwrap();
            let mut model = layers(6);
            for _ in 0..3 {
                (model, _) = step.call(model, input()).unwrap();
            }
            assert_eq!(step.stats().not_donated, 0);
            (model, memory)
        };
        let ((outlined, memory), (plain, plain_memory)) = (train(), disable_outlining(train));
        assert_close(&outlined, &plain, 2e-6);
        assert!(memory.aliased > 0);
        assert_eq!(memory.aliased, plain_memory.aliased);
        let (outlined, plain) = (memory.temporaries, plain_memory.temporaries);
        assert!(outlined <= plain + plain / 4, "{outlined} and {plain} bytes");
    }

    #[test]
    fn remat_of_layers_reduces_memory_as_without_functions() {
        let temporaries = |is_remat: bool| {
            let f = jit(move |layers: Vec<Layer>, x: Array| {
                let loss = |(layers, x): &(Vec<Layer>, Array)| {
                    let step = |x: Array, layer: &Layer| match is_remat {
                        true => remat(|layer: &Layer, x: &Array| layer.forward(x))(layer, &x),
                        false => layer.forward(&x),
                    };
                    let y = layers.iter().fold(x.clone(), step);
                    (&y * &y).mean()
                };
                grad(loss)(&(layers, x))
            });
            let lowered = f.lower(layers(12), ones([512, WIDTH])).unwrap();
            let n = lowered.repeated_parts("cpu").unwrap().len();
            (n, lowered.compile().unwrap().report().memory_analysis().unwrap().temporaries)
        };
        let (parts, outlined) = temporaries(true);
        assert_eq!(parts, 2);
        let (parts, plain) = disable_outlining(|| temporaries(true));
        assert_eq!(parts, 0);
        let (_, stored) = temporaries(false);
        println!("remat: {outlined} outlined, {plain} separate; without remat: {stored}");
        assert!(outlined <= plain + plain / 10, "{outlined} and {plain} bytes");
        assert!(2 * outlined < stored, "{outlined} and {stored} bytes");
    }

    #[test]
    fn serialized_function_returns_the_same_bits() {
        let lowered = jit(step).lower(layers(5), input()).unwrap();
        assert!(calls(&lowered.as_text("cpu").unwrap()) > 0);
        let compiled = lowered.compile().unwrap();
        let bytes = compiled.serialize().unwrap();
        let (arguments, results) = ((layers(5), input()), (layers(5), zeros([])));
        let again: Compiled<(Vec<Layer>, Array), (Vec<Layer>, Array)> =
            Compiled::deserialize(&bytes, arguments, results).unwrap();
        let (expected, found) =
            (compiled.call(layers(5), input()).unwrap(), again.call(layers(5), input()).unwrap());
        assert_close(&found, &expected, 0.0);
    }

    #[test]
    fn shardings_over_one_device_do_not_change_results() {
        let mesh = Mesh::new([devices().unwrap()[0].clone()], [("data", 1)]).unwrap();
        let rows = mesh.sharding(p!["data"]).unwrap();
        let f = jit(move |layers: Vec<Layer>, x: Array| {
            layers.iter().fold(x, |x, layer| with_sharding_constraint(&layer.forward(&x), &rows))
        });
        let call = || f.call(layers(5), input()).unwrap();
        assert_close(&call(), &disable_outlining(call), 2e-6);
    }
}
