//! Several platforms in one process: the CPU, and a second CPU plugin registered as `other`.

use crate::alone::alone;
use oxidax::config::{self, ProcessConfig};
use oxidax::core::HostArray;
use oxidax::jit::cache;
use oxidax::parallel::{
    PluginOptions, default_backend, default_device, device_count, devices_of, live_arrays,
    local_device_count, register_plugin,
};
use oxidax::prelude::*;
use oxidax_plugin::{Stderr, install, pins};
use std::path::PathBuf;

/// Returns the path of another build of the CPU plugin.
fn second_plugin() -> PathBuf {
    let config = oxidax_plugin::Config::from_env().unwrap();
    install(&pins::CPU_API_0_106, &config, &mut Stderr::new()).unwrap()
}

/// Registers the second plugin as `other`, with two devices.
fn register_other() -> Vec<Device> {
    let options = PluginOptions::new().set("cpu_device_count", 2);
    register_plugin("other", second_plugin(), options).unwrap();
    devices_of("other").unwrap()
}

fn values(x: &Array) -> Vec<f32> {
    x.to_vec().unwrap()
}

mod on_cpu {
    use super::*;

    #[test]
    fn two_platforms_run_in_one_process() {
        alone("platforms::on_cpu::two_platforms_run_in_one_process", || {
            let cpu = devices().unwrap();
            let other = register_other();
            assert_eq!((default_backend().unwrap().as_str(), other.len()), ("cpu", 2));
            assert_eq!((device_count().unwrap(), local_device_count().unwrap()), (1, 1));
            assert_eq!(other[1].to_string(), "other:1");
            assert_eq!((other[1].platform(), other[1].id().0), ("other", 1));
            assert_ne!(other[0], cpu[0]);

            // One program on each, of one function.
            let square = jit(|x: Array| x.matmul(&x) + 1.0);
            let x = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [2, 2]).unwrap();
            let on_other = device_put(&x, &other[1]).unwrap();
            let results = [&x, &on_other].map(|x| square.call(x).unwrap());
            assert_eq!(square.stats().compiles, 2);
            assert_eq!(results[0].device().unwrap(), Some(cpu[0].clone()));
            assert_eq!(results[1].device().unwrap(), Some(other[1].clone()));
            for result in &results {
                assert_eq!(values(result), [8.0, 11.0, 16.0, 23.0]);
            }

            // Moved between them, of every dtype.
            for dtype in DType::all() {
                let x = arange(6).astype(dtype);
                let there = device_put(&x, &other[0]).unwrap();
                let back = device_put(&there, &cpu[0]).unwrap();
                assert_eq!(there.device().unwrap(), Some(other[0].clone()), "{dtype}");
                assert_eq!(back.to_bytes().unwrap(), x.to_bytes().unwrap(), "{dtype}");
            }

            // Eager operations follow their operands; uncommitted ones are moved.
            let sum = &on_other + &x;
            assert_eq!(sum.device().unwrap(), Some(other[1].clone()));
            assert_eq!(values(&(&sum * 2.0)), [4.0, 8.0, 12.0, 16.0]);
            let slope = grad(|x: &Array| (x * x).sum())(&on_other);
            assert_eq!(slope.device().unwrap(), Some(other[1].clone()));
            assert_eq!(values(&slope), [2.0, 4.0, 6.0, 8.0]);
            let captured = jit(|y: Array| &y + &x);
            assert_eq!(values(&captured.call(&on_other).unwrap()), [2.0, 4.0, 6.0, 8.0]);
        });
    }

    #[test]
    fn mixed_platforms_are_an_error_that_names_both() {
        alone("platforms::on_cpu::mixed_platforms_are_an_error_that_names_both", || {
            let other = register_other();
            let here = device_put(&ones([2]), &devices().unwrap()[0]).unwrap();
            let there = device_put(&ones([2]), &other[0]).unwrap();
            let eager = catch(|| &here + &there).unwrap_err().to_string();
            let add = jit(|x: Array, y: Array| x + y);
            let compiled = add.call(&here, &there).unwrap_err().to_string();
            for error in [eager, compiled] {
                assert!(error.contains("cpu:0") && error.contains("other:0"), "{error}");
                assert!(error.contains("`device_put` moves an array"), "{error}");
            }
            let mixed = [devices().unwrap()[0].clone(), other[0].clone()];
            let error = Mesh::new(mixed, [("data", 2)]).unwrap_err().to_string();
            assert!(error.contains("cpu:0 and other:0 (other) are of different"), "{error}");
        });
    }

    #[test]
    fn meshes_of_two_platforms_exchange_arrays() {
        alone("platforms::on_cpu::meshes_of_two_platforms_exchange_arrays", || {
            config::update(ProcessConfig::new().cpu_devices(2)).unwrap();
            let mesh = |devices: Vec<Device>| Mesh::new(devices, [("data", 2)]).unwrap();
            let (here, there) = (mesh(devices().unwrap()), mesh(register_other()));
            assert_ne!(here, there);
            let x = device_put(&arange(8).astype(DType::F32), here.sharding(p!["data"]).unwrap());
            let x = x.unwrap();
            let double = jit(|x: Array| &x * 2.0);
            let rows = there.sharding(p!["data"]).unwrap();
            let y = double.call(device_put(&x, &rows).unwrap()).unwrap();
            assert_eq!(y.sharding(), Some(rows));
            assert_eq!(values(&y), values(&double.call(&x).unwrap()));
            assert_eq!(y.addressable_shards().unwrap()[1].device.to_string(), "other:1");
            let replicated = device_put(&y, here.replicated()).unwrap();
            assert_eq!(values(&replicated)[7], 14.0);
            let back = device_put(&y, &devices().unwrap()[1]).unwrap();
            assert_eq!(back.device().unwrap().unwrap().to_string(), "cpu:1");
        });
    }

    #[test]
    fn host_functions_run_on_both_platforms() {
        alone("platforms::on_cpu::host_functions_run_on_both_platforms", || {
            let other = register_other();
            let (ones, there) = (ones([2]), device_put(&ones([2]), &other[0]).unwrap());
            let f = jit(|x: Array| {
                let halved = |x: &[HostArray]| {
                    let halves: Vec<f32> = x[0].to_vec()?.iter().map(|x: &f32| x / 2.0).collect();
                    Ok(vec![HostArray::from_slice(&halves, [2])?])
                };
                debug::pure_callback(halved, &[x.aval().clone()], [&x]).swap_remove(0)
            });
            for x in [&ones, &there] {
                assert_eq!(values(&f.call(x).unwrap()), [0.5, 0.5]);
            }
        });
    }

    #[test]
    fn the_default_platform_and_device_can_change() {
        alone("platforms::on_cpu::the_default_platform_and_device_can_change", || {
            let x = ones([3]);
            assert_eq!(x.device().unwrap().unwrap().to_string(), "cpu:0");
            let other = register_other();
            config::update(ProcessConfig::new().platform("other")).unwrap();
            assert_eq!(default_backend().unwrap(), "other");
            assert_eq!(devices().unwrap(), other);
            assert_eq!(ones([3]).device().unwrap(), Some(other[0].clone()));
            // An uncommitted array moves to the default device.
            let doubled = jit(|x: Array| &x * 2.0).call(&x).unwrap();
            assert_eq!(doubled.device().unwrap(), Some(other[0].clone()));
            config::update(ProcessConfig::new().default_device(&other[1])).unwrap();
            assert_eq!(default_device().unwrap(), other[1]);
            assert_eq!(config::current().unwrap().default_device, Some(other[1].clone()));
            assert_eq!(sin(ones([3])).device().unwrap(), Some(other[1].clone()));
            let thread = std::thread::spawn(|| ones([3]).device().unwrap());
            assert_eq!(thread.join().unwrap(), Some(other[1].clone()));
            let cpu = &devices_of("cpu").unwrap()[0];
            let on_cpu = with_default_device(cpu, || ones([3])).unwrap();
            assert_eq!(on_cpu.device().unwrap().as_ref(), Some(cpu));
            config::update(ProcessConfig::new().platform(None).default_device(None)).unwrap();
            assert_eq!(default_device().unwrap(), *cpu);
        });
    }

    #[test]
    fn platform_is_set_before_the_first_use() {
        alone("platforms::on_cpu::platform_is_set_before_the_first_use", || {
            let settings =
                ProcessConfig::new().platform("other").default_matmul_precision(Precision::High);
            let unknown = config::update(settings.clone()).unwrap_err().to_string();
            assert!(unknown.contains("no platform `other`; there are cpu, tpu, cuda"), "{unknown}");
            register_plugin("other", second_plugin(), PluginOptions::new()).unwrap();
            config::update(settings).unwrap();
            assert_eq!(ones([3]).device().unwrap().unwrap().to_string(), "other:0");
            let current = config::current().unwrap();
            assert_eq!(current.platform.as_deref(), Some("other"));
            assert_eq!(current.default_matmul_precision, Precision::High);
            // The plugin's own default.
            assert_eq!(device_count().unwrap(), 4);
            let text = || {
                let x = Aval::new(DType::F32, [2, 2]);
                jit(|x: Array| x.matmul(&x)).lower(x).unwrap().as_text("tpu").unwrap()
            };
            assert!(text().contains("HIGH"), "{}", text());
            let fastest = with_matmul_precision(Precision::Default, text);
            assert!(!fastest.contains("HIGH"), "{fastest}");
        });
    }

    #[test]
    fn settings_of_an_existing_client_are_refused() {
        alone("platforms::on_cpu::settings_of_an_existing_client_are_refused", || {
            let other = register_other();
            let again = PluginOptions::new().set("cpu_device_count", 2);
            register_plugin("other", second_plugin(), again).unwrap();
            let late = register_plugin("other", second_plugin(), PluginOptions::new());
            let late = late.unwrap_err().to_string();
            assert!(late.contains("`other` is in use already, so it is too late"), "{late}");
            assert_eq!(ones([1]).device().unwrap(), Some(devices().unwrap()[0].clone()));
            let late = config::update(ProcessConfig::new().cpu_devices(3)).unwrap_err().to_string();
            assert!(late.contains("the CPU has 1 devices already"), "{late}");
            assert_eq!(devices_of("other").unwrap(), other);
            let gone = devices_of("nonexistent").unwrap_err().to_string();
            assert!(gone.contains("there are cpu, tpu, cuda, other"), "{gone}");
        });
    }

    #[test]
    fn wrong_options_are_an_error_of_the_first_use() {
        alone("platforms::on_cpu::wrong_options_are_an_error_of_the_first_use", || {
            let options = PluginOptions::new().set("cpu_device_count", "many");
            let error = register_plugin("other", second_plugin(), options).unwrap_err().to_string();
            assert!(error.contains("`cpu_device_count` of a plugin must be an integer"), "{error}");
            // The process's own plugin, which names the options that it does not know.
            let config = oxidax_plugin::Config::from_env().unwrap();
            let pinned = install(&pins::CPU, &config, &mut Stderr::new()).unwrap();
            let options = PluginOptions::new().set("no_such_option", 1);
            register_plugin("other", &pinned, options).unwrap();
            let error = devices_of("other").unwrap_err().to_string();
            assert!(error.contains("no_such_option"), "{error}");
            // The next attempt works, with two clients of one plugin.
            register_plugin("other", &pinned, PluginOptions::new()).unwrap();
            let there = device_put(&ones([2]), &devices_of("other").unwrap()[3]).unwrap();
            assert_eq!(values(&(&there + 1.0)), [2.0, 2.0]);
        });
    }

    #[test]
    fn caches_keep_platforms_apart() {
        alone("platforms::on_cpu::caches_keep_platforms_apart", || {
            let other = register_other();
            let misses = || cache::stats().operations.misses;
            let x = ones([5]);
            let there = device_put(&x, &other[0]).unwrap();
            let before = misses();
            for _ in 0..3 {
                assert_eq!(values(&(&x + 1.0)), [2.0; 5]);
                assert_eq!(values(&(&there + 1.0)), [2.0; 5]);
            }
            assert_eq!(misses(), before + 2);
            let numbers = [&devices().unwrap()[0], &other[0]].map(|device| {
                with_default_device(device, || (scalar(2.0) * 3.0).device().unwrap()).unwrap()
            });
            assert_eq!(numbers[1], Some(other[0].clone()));
            assert_ne!(numbers[0], numbers[1]);
        });
    }

    #[test]
    fn the_disk_cache_keeps_platforms_apart() {
        alone("platforms::on_cpu::the_disk_cache_keeps_platforms_apart", || {
            let folder = tempfile::tempdir().unwrap();
            let min_compile = std::time::Duration::ZERO;
            let settings = cache::Settings { min_compile, ..cache::Settings::in_folder("unused") };
            config::update(ProcessConfig::new().cache(settings).cache_folder(folder.path()))
                .unwrap();
            assert_eq!(cache::disk().unwrap().min_compile, min_compile);
            let other = register_other();
            let x = ones([7]);
            let there = device_put(&x, &other[0]).unwrap();
            for _ in 0..2 {
                let f = jit(|x: Array| sin(&x) * 3.0);
                let (a, b) = (f.call(&x).unwrap(), f.call(&there).unwrap());
                assert!((values(&a)[0] - values(&b)[0]).abs() < 1e-6);
            }
            let stats = cache::stats().disk;
            assert!(stats.stored >= 2 && stats.hits == 2 && stats.damaged == 0, "{stats:?}");
        });
    }

    #[test]
    fn live_arrays_have_lines_and_sizes() {
        alone("platforms::on_cpu::live_arrays_have_lines_and_sizes", || {
            let untracked = ones([3]);
            let error = live_arrays().unwrap_err().to_string();
            assert!(error.contains("OXIDAX_TRACK_ARRAYS=1"), "{error}");
            config::update(ProcessConfig::new().track_arrays(true)).unwrap();
            assert!(live_arrays().unwrap().is_empty());
            let x = Array::from_slice(&[1.0f32; 256], [16, 16]).unwrap();
            let line = line!() - 1;
            let [array] = live_arrays().unwrap().try_into().unwrap();
            assert_eq!((array.bytes, array.aval.to_string().as_str()), (1024, "f32[16,16]"));
            let location = array.created_at.get().unwrap();
            assert_eq!((location.file(), location.line()), (file!(), line));
            assert!(array.to_string().starts_with("1.0 KiB  f32[16,16]  cpu:0  at "), "{array}");

            let lines = |n: usize| {
                let arrays = live_arrays().unwrap();
                assert_eq!(arrays.len(), n, "{arrays:?}");
                arrays.iter().map(|array| array.created_at.get().unwrap().line()).max().unwrap()
            };
            let y = &x + &untracked.sum();
            let line = line!() - 1;
            assert_eq!(lines(2), line);
            drop(y);
            let step = jit(|x: Array| x * 2.0);
            let x = step.call(x).unwrap();
            let line = line!() - 1;
            // Donated: the result replaces the argument.
            assert_eq!(lines(1), line);
            let x = step.call(x).unwrap();
            assert_eq!(lines(1), line!() - 1);
            drop(x);
            drop(step);
            assert!(live_arrays().unwrap().is_empty());
        });
    }

    #[test]
    fn cpu_devices_report_no_memory_statistics() {
        alone("platforms::on_cpu::cpu_devices_report_no_memory_statistics", || {
            let other = register_other();
            assert_eq!(devices().unwrap()[0].memory_stats().unwrap(), None);
            assert_eq!(other[0].memory_stats().unwrap(), None);
        });
    }

    /// Runs a program with a plugin that only the environment registers, as a library and as JSON.
    #[test]
    fn plugins_are_registered_by_the_environment() {
        const TEST: &str = "platforms::on_cpu::plugins_are_registered_by_the_environment";
        const CHILD: &str = "OXIDAX_TEST_NAMED_PLUGIN";
        if std::env::var_os(CHILD).is_some() {
            assert_eq!(ones([2]).device().unwrap().unwrap().to_string(), "other:0");
            assert_eq!(device_count().unwrap(), 3);
            assert_eq!(values(&(ones([2]) * 2.0)), [2.0, 2.0]);
            assert_eq!(live_arrays().unwrap().len(), 0);
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let description = folder.path().join("other.json");
        let library = second_plugin();
        let text = format!(
            r#"{{"library_path": {:?}, "create_options": {{"cpu_device_count": 3}}}}"#,
            library.display().to_string()
        );
        std::fs::write(&description, text).unwrap();
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(CHILD, "1")
            .env("OXIDAX_PLATFORM", "other")
            .env("OXIDAX_TRACK_ARRAYS", "1")
            .env("PJRT_NAMES_AND_LIBRARY_PATHS", format!("other:{}", description.display()))
            .output()
            .unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|x| String::from_utf8(x).unwrap());
        assert!(output.status.success(), "{out}\n{err}");
    }
}
