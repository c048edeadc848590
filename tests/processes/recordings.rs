//! Recordings that the environment and the process's settings turn on.

mod on_cpu {
    use crate::alone::{alone, alone_with};
    use oxidax::config::{self, ProcessConfig};
    use oxidax::prelude::*;
    use oxidax::replay::{RecordOptions, Recording};

    /// Calls a function that fails on another thread, and returns the error.
    fn failure() -> String {
        let step = jit(|x: Array| log(&x)).name("step");
        let call = || debug::nan_check(|| step.call(full([2], -1.0f32))).unwrap_err().to_string();
        std::thread::scope(|scope| scope.spawn(call).join().unwrap())
    }

    #[test]
    fn the_environment_names_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let test = "recordings::on_cpu::the_environment_names_the_folder";
        alone_with(test, &[("OXIDAX_RECORD_FAILURES", path)], || {
            let folder = std::env::var("OXIDAX_RECORD_FAILURES").unwrap();
            let current = config::current().unwrap().record_failures;
            assert_eq!(current, Some(RecordOptions::new(&folder)));
            let file = format!("{folder}/step-1.failure");
            assert!(failure().contains(&format!("oxidax replay {file}")));
            let found = Recording::open(file).unwrap().replay().unwrap().found.unwrap();
            assert_eq!((found.operation.as_str(), found.results[0].nan), ("log", 2));
            // The program has the last word.
            config::update(ProcessConfig::new().record_failures(None)).unwrap();
            assert!(!failure().contains("oxidax replay"));
            assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1);
        });
    }

    #[test]
    fn the_process_has_a_setting() {
        alone("recordings::on_cpu::the_process_has_a_setting", || {
            let folder = tempfile::tempdir().unwrap();
            assert!(!failure().contains("oxidax replay"));
            let options = RecordOptions::new(folder.path()).limit(1);
            config::update(ProcessConfig::new().record_failures(options)).unwrap();
            assert!(failure().contains("oxidax replay"));
            assert!(failure().contains("has 1 recordings, and the limit is 1"));
        });
    }
}
