//! Execution of programs on one device.

use oxidax_pjrt::{
    CompileOptions, ElementType, Error, ExecutableSignature, ExecuteOptions, PjrtProgram,
};

use crate::plugins::{ALL, client, compile, f32_buffer, f32_values, on_each};

pub(crate) const ADD: &str =
    "module @add { func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.add %x, %y : tensor<2xf32>
    return %0 : tensor<2xf32> } }";

pub(crate) const DONATE: &str = "module @inc {
    func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2xf32> {
      %0 = stablehlo.add %x, %x : tensor<2xf32>
      return %0 : tensor<2xf32> } }";

#[test]
fn a_program_runs() {
    on_each(|client, _| {
        let executable = compile(client, ADD);
        assert_eq!(executable.name(), "add");
        assert_eq!(
            format!("{executable:?}"),
            "LoadedExecutable(add: (f32[2], f32[2]) -> (f32[2]))"
        );
        let x = f32_buffer(client, &[2], &[1.0, 2.0]);
        let y = f32_buffer(client, &[2], &[10.0, 20.0]);
        let results = executable.execute(&[&x, &y], &ExecuteOptions::default()).expect("runs");
        assert_eq!(f32_values(&results[0]), [11.0, 22.0]);
        let (results, event) = executable
            .execute_with_event(&[&results[0], &y], &ExecuteOptions::default())
            .expect("runs");
        event.wait().expect("finished");
        assert!(event.is_ready().expect("known"));
        assert!(event.error().expect("known").is_none());
        assert_eq!(f32_values(&results[0]), [21.0, 42.0]);
    });
}

#[test]
fn arguments_are_checked() {
    on_each(|client, api| {
        let executable = compile(client, ADD);
        let x = f32_buffer(client, &[2], &[1.0, 2.0]);
        let refusal = |arguments: &[&_]| {
            executable
                .execute(arguments, &ExecuteOptions::default())
                .expect_err("refused")
                .to_string()
        };
        assert_eq!(refusal(&[&x]), "execute: add: it takes 2 arguments, got 1");

        let matrix = f32_buffer(client, &[2, 1], &[1.0, 2.0]);
        assert_eq!(
            refusal(&[&x, &matrix]),
            "execute add: argument 1 has the wrong type: expected f32[2], got f32[2,1]"
        );
        let device = &client.addressable_devices()[0];
        let ints = client.buffer_from_host(&[0; 8], ElementType::S32, &[2], device).expect("put");
        assert!(
            refusal(&[&ints, &x])
                .ends_with("argument 0 has the wrong type: expected f32[2], got s32[2]")
        );

        let elsewhere = x.copy_to_device(&client.device(1).expect("exists")).expect("copied");
        assert_eq!(
            refusal(&[&x, &elsewhere]),
            "execute: add: argument 1 (f32[2]) is on cpu:1, the program runs on cpu:0"
        );
        let foreign = ALL.into_iter().find(|&other| other != api).expect("there are three");
        let foreign = f32_buffer(crate::plugins::client(foreign), &[2], &[1.0, 2.0]);
        assert!(refusal(&[&x, &foreign]).ends_with("argument 1 belongs to another client"));
        let gone = f32_buffer(client, &[2], &[1.0, 2.0]);
        gone.delete().expect("deleted");
        assert!(refusal(&[&gone, &x]).ends_with("argument 0 (f32[2]) was deleted or donated"));
        let wild = ExecuteOptions { non_donatable: &[2], ..ExecuteOptions::default() };
        assert!(executable.execute(&[&x, &x], &wild).is_err());
        let wild = ExecuteOptions { donated: &[2], ..ExecuteOptions::default() };
        assert!(executable.execute(&[&x, &x], &wild).is_err());
        // After all these errors the program still runs.
        executable.execute(&[&x, &x], &ExecuteOptions::default()).expect("runs");
    });
}

#[test]
fn donated_arguments_are_deleted_unless_kept() {
    on_each(|client, _| {
        let executable = compile(client, DONATE);
        let x = f32_buffer(client, &[2], &[1.0, 2.0]);
        let address = x.host_view().expect("CPU").as_ptr();
        let kept = ExecuteOptions { non_donatable: &[0], ..ExecuteOptions::default() };
        let doubled = executable.execute(&[&x], &kept).expect("runs");
        assert!(!x.is_deleted());
        assert_eq!((f32_values(&x), f32_values(&doubled[0])), (vec![1.0, 2.0], vec![2.0, 4.0]));

        let given = ExecuteOptions { donated: &[0], ..ExecuteOptions::default() };
        let doubled = executable.execute(&[&x], &given).expect("runs");
        assert!(x.is_deleted());
        assert_eq!(doubled[0].host_view().expect("CPU").as_ptr(), address, "not in place");
        assert!(
            executable.execute(&[&x], &kept).expect_err("gone").to_string().contains("donated")
        );
        assert!(x.to_vec().is_err());

        // A donation that the caller did not announce is detected when the buffer is used.
        let y = f32_buffer(client, &[2], &[1.0, 2.0]);
        executable.execute(&[&y], &ExecuteOptions::default()).expect("runs");
        assert!(y.is_deleted());
        assert!(y.to_vec().is_err());
        let z = f32_buffer(client, &[2], &[1.0, 2.0]);
        executable.execute(&[&z], &ExecuteOptions::default()).expect("runs");
        assert!(executable.execute(&[&z], &ExecuteOptions::default()).is_err());
        assert!(z.ready_event().is_err() || z.wait().is_err());
    });
}

#[test]
fn a_view_keeps_a_donated_buffer() {
    on_each(|client, _| {
        let executable = compile(client, DONATE);
        let x = f32_buffer(client, &[2], &[1.0, 2.0]);
        let view = x.host_view().expect("CPU");
        let before = view.to_vec();
        let result = executable.execute(&[&x], &ExecuteOptions::default()).expect("runs on a copy");
        assert_eq!(f32_values(&result[0]), [2.0, 4.0]);
        assert_eq!(*view, before);
        drop(view);
    });
}

#[test]
fn compile_errors_contain_the_plugins_message() {
    on_each(|client, api| {
        let compile = |text: &str| {
            let program = PjrtProgram::mlir(text).expect("accepted");
            client
                .compile(&program, &CompileOptions::default())
                .map(|_| ())
                .expect_err("must not compile")
        };
        let error = compile("func.func @main() { return %x }");
        let Error::Status { message, plugin, .. } = &error else { panic!("{error}") };
        assert!(!message.is_empty());
        assert_eq!(plugin.plugin().api_version().minor, api.minor());
        assert!(error.to_string().starts_with("PJRT_Client_Compile: "), "{error}");
        assert!(compile("").code().is_some());
        assert!(compile("func.func @other() { return }").code().is_some());
    });
}

#[test]
fn compile_options_are_checked_before_the_plugin_sees_them() {
    on_each(|client, _| {
        let program = PjrtProgram::mlir(ADD).expect("accepted");
        let refusal = |options: &CompileOptions| {
            client.compile(&program, options).map(|_| ()).expect_err("refused").to_string()
        };
        let zero = CompileOptions { num_partitions: 0, ..CompileOptions::default() };
        assert!(refusal(&zero).contains("num_partitions must be between 1"));
        assert!(refusal(&CompileOptions::on_device(99)).contains("no device has id 99"));
        let many = CompileOptions { num_replicas: 9, ..CompileOptions::default() };
        assert!(refusal(&many).contains("need 9 devices, the client has 8"));
        let unknown = CompileOptions::default().with_override("xla_no_such_flag", true);
        assert!(refusal(&unknown).contains("xla_no_such_flag"));
        let known = CompileOptions::default().with_override("xla_backend_optimization_level", 0);
        client.compile(&program, &known).expect("a known flag");
    });
}

#[test]
fn a_program_runs_on_the_device_that_it_was_compiled_for() {
    on_each(|client, _| {
        let program = PjrtProgram::mlir(ADD).expect("accepted");
        let executable = client.compile(&program, &CompileOptions::on_device(6)).expect("compiled");
        let device = client.device(6).expect("exists");
        assert_eq!(executable.devices(), std::slice::from_ref(&device));
        let x = f32_buffer(client, &[2], &[1.0, 2.0]).copy_to_device(&device).expect("copied");
        let result = executable.execute(&[&x, &x], &ExecuteOptions::default()).expect("runs");
        assert_eq!(result[0].device(), device);
        assert_eq!(f32_values(&result[0]), [2.0, 4.0]);
    });
}

#[test]
fn a_portable_program_runs_on_any_device() {
    on_each(|client, _| {
        let program = PjrtProgram::mlir(ADD).expect("accepted");
        let executable = client.compile(&program, &CompileOptions::portable()).expect("compiled");
        assert!(executable.is_portable());
        let x = f32_buffer(client, &[2], &[1.0, 2.0]);
        for id in [0, 5] {
            let device = client.device(id).expect("exists");
            let x = x.copy_to_device(&device).expect("copied");
            let result = executable.execute_on(&device, &[&x, &x], &ExecuteOptions::default());
            let result = result.expect("runs");
            assert_eq!(result[0].device(), device);
            assert_eq!(f32_values(&result[0]), [2.0, 4.0]);
        }
        let error =
            executable.execute(&[&x, &x], &ExecuteOptions::default()).expect_err("no device");
        assert!(error.to_string().contains("use execute_on"), "{error}");
        let fixed = compile(client, ADD);
        let device = &client.addressable_devices()[0];
        assert!(fixed.execute_on(device, &[&x, &x], &ExecuteOptions::default()).is_err());
    });
}

#[test]
fn the_compiled_program_knows_its_parameters() {
    on_each(|client, _| {
        // An alias is not read from the text, so the types are read from the compiled program.
        let text = "!t = tensor<2x3xbf16>
            func.func @main(%x: !t, %y: tensor<i1>) -> (tensor<i1>, !t) { return %y, %x : tensor<i1>, !t }";
        let executable = compile(client, text);
        let types: Vec<_> = executable.parameters().iter().map(ToString::to_string).collect();
        assert_eq!(types, ["bf16[2,3]", "pred[]"]);
        let types: Vec<_> = executable.results().iter().map(ToString::to_string).collect();
        assert_eq!(types, ["pred[]", "bf16[2,3]"]);

        let known = ExecutableSignature { parameters: executable.parameters().to_vec() };
        let program = PjrtProgram::mlir(text).expect("accepted");
        let again = client.compile_with_signature(&program, &CompileOptions::default(), known);
        assert_eq!(again.expect("compiled").parameters(), executable.parameters());
    });
}

#[test]
fn errors_of_the_computation_reach_the_reader() {
    on_each(|client, _| {
        let text = "func.func @main() -> tensor<1099511627776xf32> {
            %0 = stablehlo.constant dense<1.0> : tensor<1099511627776xf32>
            return %0 : tensor<1099511627776xf32> }";
        let executable = compile(client, text);
        let outcome = executable
            .execute(&[], &ExecuteOptions::default())
            .and_then(|results| results[0].wait());
        let error = outcome.expect_err("4 TiB do not fit");
        assert!(error.code().is_some(), "{error}");
    });
}

#[test]
fn handles_outlive_each_other_in_any_order() {
    for api in ALL {
        let client = oxidax_pjrt::Client::new(client(api).plugin(), &[]).expect("a client");
        let executable = compile(&client, ADD);
        let x = f32_buffer(&client, &[2], &[1.0, 2.0]);
        drop(client);
        let result = executable.execute(&[&x, &x], &ExecuteOptions::default()).expect("runs");
        let ready = result[0].ready_event().expect("an event");
        drop(executable);
        drop(x);
        assert_eq!(f32_values(&result[0]), [2.0, 4.0]);
        drop(result);
        ready.wait().expect("was ready long ago");
    }
}

#[test]
fn many_threads_share_an_executable() {
    on_each(|client, _| {
        let executable = compile(client, ADD);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (executable, client) = (&executable, &client);
                scope.spawn(move || {
                    let x = f32_buffer(client, &[2], &[thread as f32, 1.0]);
                    for _ in 0..200 {
                        let sum = executable
                            .execute(&[&x, &x], &ExecuteOptions::default())
                            .expect("runs");
                        assert_eq!(f32_values(&sum[0]), [2.0 * thread as f32, 2.0]);
                    }
                });
            }
        });
    });
}
