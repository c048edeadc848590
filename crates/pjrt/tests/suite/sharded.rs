//! Execution of programs on several devices.

use oxidax_pjrt::{
    Client, CompileOptions, ElementType, ExecuteOptions, HloSharding, LoadedExecutable, PjrtBuffer,
    PjrtProgram,
};

use crate::plugins::{Api, f32_bytes, f32_values, on_each};

const ALL_REDUCE: &str = r#"module @sum { func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = "stablehlo.all_reduce"(%x) <{replica_groups = dense<[[0,1,2,3,4,5,6,7]]> : tensor<1x8xi64>}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %s : tensor<f32> }) : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32> } }"#;

pub(crate) const MATMUL: &str = r#"module @matmul attributes {mhlo.num_partitions = 8 : i32} {
  sdy.mesh @mesh = <["data"=4, "model"=2]>
  func.func public @main(%x: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
                         %w: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>})
      -> (tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
    return %0 : tensor<16x16xf32> } }"#;

fn all_reduce(client: &Client) -> LoadedExecutable {
    let options = CompileOptions { num_replicas: 8, ..CompileOptions::default() };
    client.compile(&PjrtProgram::mlir(ALL_REDUCE).expect("accepted"), &options).expect("compiled")
}

/// Creates one buffer on each device of the program.
fn on_devices(
    executable: &LoadedExecutable,
    dims: &[i64],
    values: impl Fn(usize) -> Vec<f32>,
) -> Vec<PjrtBuffer> {
    let devices = executable.devices();
    let put = |(index, device)| {
        executable
            .client()
            .buffer_from_host(&f32_bytes(&values(index)), ElementType::F32, dims, device)
            .expect("put")
    };
    devices.iter().enumerate().map(put).collect()
}

#[test]
fn replicas_add_up() {
    on_each(|client, _| {
        let executable = all_reduce(client);
        assert_eq!(executable.devices().len(), 8);
        let xs = on_devices(&executable, &[2], |index| vec![index as f32, 1.0]);
        let lists: Vec<_> = xs.iter().map(|x| vec![x]).collect();
        let launched =
            executable.execute_sharded(&lists, &ExecuteOptions::default()).expect("runs");
        assert_eq!((launched.results.len(), launched.events.len()), (8, 8));
        for (results, device) in launched.results.iter().zip(executable.devices()) {
            assert_eq!(results[0].device(), device);
            assert_eq!(f32_values(&results[0]), [28.0, 8.0]);
        }
        for event in launched.events {
            event.wait().expect("finished");
        }
    });
}

#[test]
fn many_launches_in_flight_do_not_hang() {
    on_each(|client, _| {
        let executable = all_reduce(client);
        let start = on_devices(&executable, &[2], |_| vec![1.0, 0.0]);
        let mut lists: Vec<Vec<PjrtBuffer>> = start.into_iter().map(|x| vec![x]).collect();
        for _ in 0..100 {
            let borrowed: Vec<Vec<&PjrtBuffer>> =
                lists.iter().map(|list| list.iter().collect()).collect();
            let launched =
                executable.execute_sharded(&borrowed, &ExecuteOptions::default()).expect("runs");
            drop(launched.events);
            lists = launched.results;
        }
        // 8 to the 100th is a power of two that exceeds the range of f32.
        assert_eq!(f32_values(&lists[0][0]), [f32::INFINITY, 0.0]);
    });
}

#[test]
fn threads_launch_collectives_concurrently() {
    on_each(|client, _| {
        let executable = all_reduce(client);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let executable = &executable;
                scope.spawn(move || {
                    let xs = on_devices(executable, &[2], |_| vec![thread as f32, 1.0]);
                    let lists: Vec<_> = xs.iter().map(|x| vec![x]).collect();
                    for _ in 0..20 {
                        let launched = executable
                            .execute_sharded(&lists, &ExecuteOptions::default())
                            .expect("runs");
                        assert_eq!(f32_values(&launched.results[5][0]), [8.0 * thread as f32, 8.0]);
                    }
                });
            }
        });
    });
}

#[test]
fn partitions_take_and_return_their_shards() {
    on_each(|client, api| {
        let program = PjrtProgram::mlir(MATMUL).expect("accepted");
        let executable = client.compile(&program, &CompileOptions::spmd(8)).expect("compiled");
        let types: Vec<_> = executable.parameters().iter().map(ToString::to_string).collect();
        assert_eq!(types, ["f32[4,16]", "f32[16,8]"], "shares, not whole arrays");
        assert_eq!(executable.results()[0].to_string(), "f32[4,8]");
        assert_eq!(executable.executable().num_partitions().expect("known"), 8);

        // Every element of row i of x is i, and all elements of w are 1, so row i of the product is
        // 16 i.
        let x = on_devices(&executable, &[4, 16], |device| {
            (0..4).flat_map(|row| vec![(device / 2 * 4 + row) as f32; 16]).collect()
        });
        let w = on_devices(&executable, &[16, 8], |_| vec![1.0; 128]);
        let lists: Vec<_> = x.iter().zip(&w).map(|(x, w)| vec![x, w]).collect();
        let launched =
            executable.execute_sharded(&lists, &ExecuteOptions::default()).expect("runs");
        for (device, results) in launched.results.iter().enumerate() {
            let expected: Vec<_> =
                (0..4).flat_map(|row| vec![16.0 * (device / 2 * 4 + row) as f32; 8]).collect();
            assert_eq!(f32_values(&results[0]), expected, "device {device}");
        }

        if api == Api::V81 {
            return; // This version does not report shardings.
        }
        let shardings =
            executable.executable().parameter_shardings().expect("known").expect("there are some");
        let tiled = |tiles: &[i64], devices: &[i64]| HloSharding::Tiled {
            tiles: tiles.to_vec(),
            devices: devices.to_vec(),
            replicated: true,
        };
        assert_eq!(
            shardings,
            [
                tiled(&[4, 1, 2], &[0, 1, 2, 3, 4, 5, 6, 7]),
                tiled(&[1, 2, 4], &[0, 2, 4, 6, 1, 3, 5, 7])
            ]
        );
        let results =
            executable.executable().result_shardings().expect("known").expect("there are some");
        let expected =
            HloSharding::Tiled { tiles: vec![4, 2], devices: (0..8).collect(), replicated: false };
        assert_eq!(results, [expected]);
    });
}

#[test]
fn a_whole_array_instead_of_a_shard_is_refused() {
    on_each(|client, _| {
        let program = PjrtProgram::mlir(MATMUL).expect("accepted");
        let executable = client.compile(&program, &CompileOptions::spmd(8)).expect("compiled");
        let whole = on_devices(&executable, &[16, 16], |_| vec![1.0; 256]);
        let lists: Vec<_> = whole.iter().map(|x| vec![x, x]).collect();
        let error =
            executable.execute_sharded(&lists, &ExecuteOptions::default()).expect_err("refused");
        assert_eq!(
            error.to_string(),
            "execute matmul: argument 0 has the wrong type: expected f32[4,16], got f32[16,16]"
        );
    });
}

#[test]
fn donation_works_on_every_device() {
    on_each(|client, _| {
        let text =
            "func.func @main(%x: tensor<2xf32> {tf.aliasing_output = 0 : i32}) -> tensor<2xf32> {
            %0 = stablehlo.add %x, %x : tensor<2xf32>
            return %0 : tensor<2xf32> }";
        let options = CompileOptions {
            num_replicas: 2,
            device_assignment: Some(vec![vec![5], vec![2]]),
            ..CompileOptions::default()
        };
        let executable = client
            .compile(&PjrtProgram::mlir(text).expect("accepted"), &options)
            .expect("compiled");
        let ids: Vec<_> = executable.devices().iter().map(|device| device.id()).collect();
        assert_eq!(ids, [5, 2]);
        let xs = on_devices(&executable, &[2], |index| vec![index as f32, 1.0]);
        let lists: Vec<_> = xs.iter().map(|x| vec![x]).collect();
        let given = ExecuteOptions { donated: &[0], ..ExecuteOptions::default() };
        let launched = executable.execute_sharded(&lists, &given).expect("runs");
        assert!(xs.iter().all(|x| x.is_deleted()));
        assert_eq!(f32_values(&launched.results[1][0]), [2.0, 2.0]);
    });
}
