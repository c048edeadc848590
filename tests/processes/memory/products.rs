//! Memory that is exhausted inside a matrix product. XLA's library of products on CPUs, YNNPACK,
//! then fails with a message without a word of memory.

use oxidax::prelude::*;
use rustix::process::{Resource, Rlimit, setrlimit};

mod on_cpu {
    use super::*;
    use std::process::Command;

    /// Names the memory of a child process in KiB, beyond that before the product.
    const HEADROOM: &str = "OXIDAX_TEST_HEADROOM";
    const MARK: &str = "@@ ";

    /// Returns the size of this process's address space in bytes.
    fn address_space() -> u64 {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096
    }

    #[test]
    #[ignore = "the body of the child processes"]
    fn multiply() {
        let Ok(headroom) = std::env::var(HEADROOM) else { return };
        let product = jit(|a: &Array, b: &Array| a.matmul(b));
        // Starts the threads of the plugin.
        let small = ones([64, 64]);
        product.call(&small, &small).unwrap().block_until_ready().unwrap();
        let (a, b) = (ones([256, 4096]), ones([4096, 4096]));
        let compiled = product.lower(&a, &b).unwrap().compile().unwrap();
        let is_of_library = compiled.as_text().unwrap().contains("ynn");
        println!("\n{MARK}library: {is_of_library}");
        a.block_until_ready().unwrap();
        b.block_until_ready().unwrap();
        let limit = Some(address_space() + headroom.parse::<u64>().unwrap() * 1024);
        setrlimit(Resource::As, Rlimit { current: limit, maximum: limit }).unwrap();
        let computed = compiled.call(&a, &b).map_err(|failed| failed.error);
        let outcome = computed.and_then(|y| y.block_until_ready().map(|_| "computed".to_owned()));
        let outcome = outcome.unwrap_or_else(|error| error.to_string());
        // The library prints to the same line.
        println!("\n{MARK}{}", outcome.replace('\n', &format!("\n{MARK}")));
    }

    /// Computes the product in a process with this much memory, and returns whether the library
    /// computes it, and the outcome.
    fn outcome(headroom: u64) -> (bool, String) {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "memory::products::on_cpu::multiply", "--ignored", "--nocapture"])
            .env(HEADROOM, headroom.to_string())
            // Memory that was freed is returned, so that the process cannot use it again.
            .env("OXIDAX_CPU_MALLOC", "system")
            .env("MALLOC_ARENA_MAX", "1")
            .env("MALLOC_MMAP_THRESHOLD_", "65536")
            .env("MALLOC_TRIM_THRESHOLD_", "65536")
            .output()
            .unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|x| String::from_utf8(x).unwrap());
        assert!(output.status.success(), "with {headroom} KiB: {out}\n{err}");
        let said: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix(MARK)).collect();
        let (first, rest) = said.split_first().expect("the child prints");
        (*first == "library: true", rest.join("\n"))
    }

    #[test]
    fn memory_exhausted_inside_a_product_is_explained() {
        // The result takes 4 MiB. The library copies parts of an operand, on each thread.
        let [too_little, enough] = [64, 256 << 10].map(outcome);
        assert_eq!(enough.1, "computed");
        let limits = [8, 9, 10, 11, 12, 13, 14, 16, 20, 24, 32];
        let inside: Vec<String> = limits.map(|mib| outcome(mib << 10).1).into();
        let of_library: Vec<&String> =
            inside.iter().filter(|text| text.contains("YNNPACK")).collect();
        assert_eq!(enough.0, !of_library.is_empty(), "{inside:?}");
        for text in of_library.into_iter().chain([&too_little.1]) {
            let parts = [
                "error[runtime]: waiting for an array: ",
                "the array is f32[256,4096], 4.0 MiB; ",
                "RESOURCE_EXHAUSTED",
                "--> tests/processes/memory/products.rs:",
                "help: the device is out of memory: use a smaller batch",
            ];
            for part in parts {
                assert!(text.contains(part), "`{part}` is missing in {text}");
            }
            assert!(text.to_lowercase().contains("out of memory"), "{text}");
        }
        assert!(inside.iter().all(|text| text == "computed" || text.contains("out of memory")));
    }
}
