//! Tests from safe code of inputs that end the process or fail silently in plugins.
//!
//! The notes on plugin behavior for bad input list each of these cases. The remaining cases are in
//! `buffers` (unknown element types, other clients' devices), `execution` (wrong types, handles in
//! any order, deleted buffers) and `custom_calls` (nested runs, panics).

use oxidax_pjrt::{Client, CompileOptions, ElementType, Error, ExecuteOptions, PjrtProgram};

use crate::plugins::{Api, client, compile, f32_buffer, on_each, plugin};

#[test]
fn zero_counts_never_reach_the_compiler() {
    on_each(|client, _| {
        let program = PjrtProgram::mlir("func.func @main() { return }").expect("accepted");
        for options in [
            CompileOptions { num_replicas: 0, ..CompileOptions::default() },
            CompileOptions { num_partitions: 0, ..CompileOptions::default() },
            CompileOptions {
                num_replicas: usize::MAX,
                num_partitions: 2,
                ..CompileOptions::default()
            },
        ] {
            assert!(matches!(client.compile(&program, &options), Err(Error::Invalid { .. })));
        }
    });
}

#[test]
fn programs_that_crash_compilers_are_refused() {
    let cycle = "func.func @main() { call @f() : () -> () return }
        func.func private @f() { call @f() : () -> () return }";
    assert!(PjrtProgram::mlir(cycle).is_err());
    assert!(PjrtProgram::mlir("func.func @main(%x: tensor<?xf32>) { return }").is_err());
    assert!(PjrtProgram::mlir("func.func @main(%x: tensor<4xf32>) { %0:2 = stablehlo.custom_call @TopK(%x) : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) return }").is_err());
}

#[test]
fn bytes_that_are_not_a_program_are_errors() {
    on_each(|client, _| {
        for bytes in [&b"\0\0\0"[..], b"ML\xefR", b"HloModule m"] {
            assert!(PjrtProgram::hlo(bytes).is_err());
            assert!(client.load(bytes, None, None).is_err());
        }
        assert!(client.load(&[], None, None).is_err());
        let long = vec![0x5a; 100_000];
        assert!(client.load(&long, None, None).is_err());
    });
}

#[test]
fn a_wrong_count_of_devices_is_refused() {
    on_each(|client, _| {
        let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
        let executable = compile(client, text);
        let x = f32_buffer(client, &[], &[1.0]);
        let error = executable.execute_sharded(&[vec![&x], vec![&x]], &ExecuteOptions::default());
        assert!(
            error
                .expect_err("one device")
                .to_string()
                .ends_with("it runs on 1 devices, got 2 lists")
        );
        let replicas = CompileOptions { num_replicas: 2, ..CompileOptions::default() };
        let two = client
            .compile(&PjrtProgram::mlir(text).expect("accepted"), &replicas)
            .expect("compiled");
        assert!(
            two.execute(&[&x], &ExecuteOptions::default())
                .expect_err("two devices")
                .to_string()
                .contains("execute_sharded")
        );
        // The second list's argument is on the first device.
        let misplaced = two.execute_sharded(&[vec![&x], vec![&x]], &ExecuteOptions::default());
        assert!(
            misplaced
                .expect_err("misplaced")
                .to_string()
                .contains("is on cpu:0, the program runs on cpu:1")
        );
    });
}

#[test]
fn empty_arrays_and_no_arguments_are_fine() {
    on_each(|client, _| {
        let executable = compile(
            client,
            "func.func @main(%x: tensor<0x3xf32>) -> tensor<0x3xf32> {
                %0 = stablehlo.add %x, %x : tensor<0x3xf32>
                return %0 : tensor<0x3xf32> }",
        );
        let x = f32_buffer(client, &[0, 3], &[]);
        let results = executable.execute(&[&x], &ExecuteOptions::default()).expect("runs");
        assert_eq!(results[0].to_vec().expect("read"), []);
        assert!(results[0].host_view().expect("an empty view").is_empty());
        let none = compile(client, "func.func @main() { return }");
        assert!(none.execute(&[], &ExecuteOptions::default()).expect("runs").is_empty());
    });
}

#[test]
fn donating_one_buffer_twice_is_an_error() {
    on_each(|client, _| {
        let executable = compile(
            client,
            "func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<2xf32>) -> tensor<2xf32> {
               %0 = stablehlo.add %x, %y : tensor<2xf32>
               return %0 : tensor<2xf32> }",
        );
        let x = f32_buffer(client, &[2], &[1.0, 2.0]);
        let error = executable.execute(&[&x, &x], &ExecuteOptions::default()).expect_err("refused");
        assert!(error.code().is_some(), "{error}");
    });
}

#[test]
fn a_deleted_buffer_under_a_view_stays_readable() {
    on_each(|client, _| {
        let x = f32_buffer(client, &[2], &[1.0, 2.0]);
        let view = x.host_view().expect("CPU");
        let before = view.to_vec();
        std::thread::scope(|scope| {
            // Some plugins release the memory only after the view is dropped, and `delete` then
            // waits for it.
            let deleting = scope.spawn(|| x.delete());
            assert_eq!(*view, before);
            drop(view);
            deleting.join().expect("no panic").expect("deleted");
        });
        assert!(x.is_deleted());
    });
}

/// `XLA_FLAGS` is read once per process, so this test runs itself in a separate process for each
/// case.
#[test]
fn unknown_xla_flags_do_not_abort() {
    const CASE: &str = "OXIDAX_TEST_XLA_FLAGS_CASE";
    if std::env::var_os(CASE).is_some() {
        let outcome = Client::new(plugin(Api::V115), &[]);
        let client = match outcome {
            Ok(client) => client,
            Err(error) => return eprintln!("refused: {error}"),
        };
        compile(&client, "func.func @main() { return }");
        return eprintln!("compiled");
    }
    let run = |flags: &str| {
        let name = "refusals::unknown_xla_flags_do_not_abort";
        let output = std::process::Command::new(std::env::current_exe().expect("known"))
            .args(["--exact", name, "--nocapture"])
            .env(CASE, "1")
            .env("XLA_FLAGS", flags)
            .output()
            .expect("runs");
        assert!(output.status.success(), "{flags}: {output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let refused = run("--xla_no_such_flag=1 --xla_cpu_enable_fast_math=false");
    assert!(refused.contains("XLA_FLAGS holds --xla_no_such_flag, which plugin"), "{refused}");
    assert!(run("-xla_cpu_enable_fast_math=false").contains("holds -xla_cpu_enable_fast_math,"));
    assert!(run("--xla_cpu_enable_fast_math=false").contains("compiled"));
    assert!(run("/nowhere/flags").contains("cannot be read"));
}

#[test]
fn element_types_that_a_plugin_is_too_old_for_are_refused() {
    let old = client(Api::V81);
    let device = &old.addressable_devices()[0];
    let error = old.uninitialized_buffer(ElementType::F6E2M3FN, &[4], device).expect_err("too new");
    assert!(
        error.to_string().contains("plugin xla_cpu_pjrt.so (API 0.81) does not know f6e2m3fn"),
        "{error}"
    );
}
