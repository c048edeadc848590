//! Custom calls from compiled programs to Rust functions.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use oxidax_pjrt::ffi::{self, Attribute, AttributeScalar};
use oxidax_pjrt::{Client, ElementType, Error, ExecuteOptions, LoadedExecutable};

use crate::plugins::{Api, client, compile, f32_buffer, f32_values, on_each};

fn call(name: &str, attributes: &str) -> String {
    format!(
        "module @m {{ func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
           %0 = stablehlo.custom_call @{name}(%x) {{api_version = 4 : i32, backend_config = {{{attributes}}}}}
             : (tensor<4xf32>) -> tensor<4xf32>
           return %0 : tensor<4xf32> }} }}"
    )
}

fn run(client: &Client, executable: &LoadedExecutable) -> Result<Vec<f32>, Error> {
    let x = f32_buffer(client, &[4], &[1.0, 2.0, 3.0, 4.0]);
    let results = executable.execute(&[&x], &ExecuteOptions::default())?;
    results[0].wait()?;
    Ok(f32_values(&results[0]))
}

#[test]
fn a_handler_reads_arguments_and_writes_results() {
    on_each(|client, api| {
        let factor = api.minor() as f32;
        ffi::register(client, "test.scale", move |frame| {
            assert_eq!((frame.argument_count(), frame.result_count()), (1, 1));
            let device = frame.device_ordinal();
            assert!(device.is_none_or(|device| device == 0), "{device:?}");
            let (arguments, mut results) = frame.buffers()?;
            assert_eq!(arguments[0].element_type(), ElementType::F32);
            assert_eq!(arguments[0].dims(), [4]);
            assert_eq!(results[0].dims(), [4]);
            let (from, _) = arguments[0].bytes().as_chunks::<4>();
            let (to, _) = results[0].bytes_mut().as_chunks_mut::<4>();
            for (to, from) in to.iter_mut().zip(from) {
                *to = (factor * f32::from_ne_bytes(*from)).to_ne_bytes();
            }
            Ok(())
        })
        .expect("registered");
        let executable = compile(client, &call("test.scale", ""));
        let expected = [1.0, 2.0, 3.0, 4.0].map(|x| x * factor);
        assert_eq!(run(client, &executable).expect("runs"), expected);

        let again = ffi::register(client, "test.scale", |_| Ok(())).expect_err("taken");
        assert!(again.to_string().contains("test.scale is registered for Host"), "{again}");
    });
}

#[test]
fn attributes_arrive_with_their_types() {
    static SEEN: Mutex<Vec<(String, Attribute)>> = Mutex::new(Vec::new());
    on_each(|client, api| {
        ffi::register(client, "test.attributes", |frame| {
            *SEEN.lock().expect("not poisoned") = frame.attributes();
            assert_eq!(frame.attribute("n").and_then(|n| n.as_int()), Some(7));
            assert_eq!(frame.attribute("no such"), None);
            Ok(())
        })
        .expect("registered");
        let text = call(
            "test.attributes",
            "n = 7 : i64, f = 2.5 : f32, s = \"hey\", b = true, a = array<i32: 5, -6>, d = {z = -1 : i8}",
        );
        run(client, &compile(client, &text)).expect("runs");
        let scalar = |value| Attribute::Scalar(value);
        let named = |name: &str, value: Attribute| (name.to_owned(), value);
        let expected = [
            named("a", Attribute::Array(vec![AttributeScalar::Int(5), AttributeScalar::Int(-6)])),
            named("b", scalar(AttributeScalar::Bool(true))),
            named("d", Attribute::Dictionary(vec![named("z", scalar(AttributeScalar::Int(-1)))])),
            named("f", scalar(AttributeScalar::Float(2.5))),
            named("n", scalar(AttributeScalar::Int(7))),
            named("s", Attribute::String("hey".to_owned())),
        ];
        assert_eq!(*SEEN.lock().expect("not poisoned"), expected, "{api:?}");
    });
}

#[test]
fn errors_and_panics_become_errors_of_the_execution() {
    on_each(|client, _| {
        ffi::register(client, "test.fail", |frame| {
            frame.argument(9).map(|_| ()).or(Err("not today\0really".to_owned()))
        })
        .expect("registered");
        ffi::register(client, "test.panic", |_| panic!("handler {}", "down")).expect("registered");
        let failed = run(client, &compile(client, &call("test.fail", ""))).expect_err("fails");
        assert!(failed.to_string().contains("not today really"), "{failed}");
        let executable = compile(client, &call("test.panic", ""));
        for _ in 0..2 {
            let panicked = run(client, &executable).expect_err("fails");
            assert!(
                panicked.to_string().contains("the handler panicked: handler down"),
                "{panicked}"
            );
        }
    });
}

#[test]
fn a_handler_cannot_run_programs() {
    on_each(|client, _| {
        let inner = compile(
            client,
            "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }",
        );
        let x = f32_buffer(client, &[4], &[0.0; 4]);
        ffi::register(client, "test.nested", move |_| {
            inner
                .execute(&[&x], &ExecuteOptions::default())
                .map(|_| ())
                .map_err(|error| error.to_string())
        })
        .expect("registered");
        let error = run(client, &compile(client, &call("test.nested", ""))).expect_err("refused");
        assert!(error.to_string().contains("may not run programs"), "{error}");
        // Outside a handler, programs still run.
        run(client, &compile(client, &call("test.scale.none", "").replace("stablehlo.custom_call @test.scale.none(%x) {api_version = 4 : i32, backend_config = {}}\n             : (tensor<4xf32>) -> tensor<4xf32>", "stablehlo.add %x, %x : tensor<4xf32>"))).expect("runs");
    });
}

#[test]
fn results_that_share_memory_are_taken_one_by_one() {
    on_each(|client, _| {
        ffi::register(client, "test.in_place", |frame| {
            let together = frame.buffers().map(|_| ()).expect_err("they overlap");
            assert!(together.contains("shares memory"), "{together}");
            let mut result = frame.result(0)?;
            for number in result.bytes_mut().as_chunks_mut::<4>().0 {
                *number = (f32::from_ne_bytes(*number) + 1.0).to_ne_bytes();
            }
            frame.result(1).map(|_| ()).expect_err("there is one result");
            Ok(())
        })
        .expect("registered");
        let text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
            %0 = stablehlo.custom_call @test.in_place(%x) {api_version = 4 : i32, output_operand_aliases = [
              #stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]}
              : (tensor<4xf32>) -> tensor<4xf32>
            return %0 : tensor<4xf32> }";
        assert_eq!(run(client, &compile(client, text)).expect("runs"), [2.0, 3.0, 4.0, 5.0]);
    });
}

#[test]
fn tokens_keep_calls_in_order() {
    static SEEN: Mutex<Vec<i64>> = Mutex::new(Vec::new());
    on_each(|client, _| {
        SEEN.lock().expect("not poisoned").clear();
        ffi::register(client, "test.log", |frame| {
            let n = frame.attribute("n").and_then(|n| n.as_int()).ok_or("no n")?;
            SEEN.lock().expect("not poisoned").push(n);
            Ok(())
        })
        .expect("registered");
        let mut text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
            %t0 = stablehlo.create_token : !stablehlo.token\n"
            .to_owned();
        for n in 0..20 {
            text += &format!(
                "%t{} = stablehlo.custom_call @test.log(%t{n}, %x) {{api_version = 4 : i32, has_side_effect = true,
                   backend_config = {{n = {n} : i64}}}} : (!stablehlo.token, tensor<4xf32>) -> !stablehlo.token\n",
                n + 1
            );
        }
        text += "return %x : tensor<4xf32> }";
        run(client, &compile(client, &text)).expect("runs");
        assert_eq!(*SEEN.lock().expect("not poisoned"), (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn a_token_parameter_takes_an_empty_pred() {
    let client = client(Api::V115);
    let text = "func.func @main(%t: !stablehlo.token, %x: tensor<f32>) -> (!stablehlo.token, tensor<f32>) {
        return %t, %x : !stablehlo.token, tensor<f32> }";
    let executable = compile(client, text);
    assert_eq!(executable.parameters()[0].element_type(), ElementType::Token);
    let device = &client.addressable_devices()[0];
    let token = client.buffer_from_host(&[], ElementType::Pred, &[0], device).expect("put");
    let x = f32_buffer(client, &[], &[3.0]);
    let results = executable.execute(&[&token, &x], &ExecuteOptions::default()).expect("runs");
    assert_eq!(results[0].element_type(), ElementType::Token);
    assert_eq!(f32_values(&results[1]), [3.0]);
    results[0].to_vec().expect("a token has no bytes, and is ready");
    let results =
        executable.execute(&[&results[0], &x], &ExecuteOptions::default()).expect("runs again");
    assert_eq!(f32_values(&results[1]), [3.0]);
    assert!(executable.execute(&[&x, &x], &ExecuteOptions::default()).is_err());
}

#[test]
fn an_unregistered_name_is_a_compile_error() {
    on_each(|client, _| {
        let program = oxidax_pjrt::PjrtProgram::mlir(call("test.nobody", "")).expect("accepted");
        let error = client.compile(&program, &oxidax_pjrt::CompileOptions::default());
        let outcome = error.and_then(|executable| run(client, &executable));
        assert!(outcome.expect_err("nobody is there").to_string().contains("test.nobody"));
    });
}

#[test]
fn handlers_run_on_many_threads() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let client = client(Api::V115);
    ffi::register(client, "test.count", |_| {
        CALLS.fetch_add(1, Ordering::SeqCst);
        Ok(())
    })
    .expect("registered");
    let executable = compile(client, &call("test.count", ""));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50).for_each(|_| drop(run(client, &executable).expect("runs"))));
        }
    });
    assert_eq!(CALLS.load(Ordering::SeqCst), 200);
}
