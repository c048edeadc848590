//! Installs the real CPU plugin into the cache that all other tests and programs share.

mod on_cpu {
    use oxidax_plugin::{Config, Stderr, check_library, install, pins};

    #[test]
    fn the_pinned_cpu_plugin_installs_and_is_a_plugin() {
        let config = Config::from_env().unwrap();
        let path = install(&pins::CPU, &config, &mut Stderr::new()).unwrap();
        check_library(&path).unwrap();
        let again = install(&pins::CPU, &config, &mut Stderr::new()).unwrap();
        assert_eq!(path, again);
    }
}
