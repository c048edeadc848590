//! Policies for promotion, transfers and checks, set by variables.

use crate::alone::alone_with;
use oxidax::config::{self, ProcessConfig, RankPromotion, TransferGuard};
use oxidax::prelude::*;
use oxidax::random::KeyImpl;

mod on_cpu {
    use super::*;

    #[test]
    fn variables_set_policies() {
        let test = "options::on_cpu::variables_set_policies";
        let variables = [
            ("OXIDAX_RANK_PROMOTION", "raise"),
            ("OXIDAX_TRANSFER_GUARD", "log"),
            ("OXIDAX_TRANSFER_GUARD_DEVICE_TO_HOST", "disallow"),
            ("OXIDAX_DEBUG_NANS", "1"),
        ];
        alone_with(test, &variables, || {
            let current = config::current().unwrap();
            assert_eq!(current.rank_promotion, RankPromotion::Raise);
            assert_eq!(current.transfer_guard_device_to_device, TransferGuard::Log);
            assert!(catch(|| ones([2, 3]) + ones([3])).is_err());
            assert!(ones([1]).item::<f32>().is_err());
            let error = catch(|| log(-1.0 * ones([]))).unwrap_err().to_string();
            assert!(error.contains("made a NaN"), "{error}");
            let allowed = ProcessConfig::new()
                .rank_promotion(RankPromotion::Allow)
                .transfer_guard(TransferGuard::Allow)
                .debug_nans(false);
            config::update(allowed).unwrap();
            assert!(catch(|| ones([2, 3]) + ones([3])).is_ok());
            assert!(log(-1.0 * ones([])).item::<f32>().unwrap().is_nan());
        });
    }

    #[test]
    fn jit_is_disabled_by_a_variable() {
        let test = "options::on_cpu::jit_is_disabled_by_a_variable";
        alone_with(test, &[("OXIDAX_DISABLE_JIT", "1")], || {
            let double = jit(|x: Array| {
                // Outside of a trace the elements are known.
                assert!(!x.is_traced());
                x * 2.0
            });
            assert_eq!(double.call(ones([1])).unwrap().item::<f32>().unwrap(), 2.0);
        });
    }

    #[test]
    fn a_variable_sets_the_generator_of_keys() {
        let test = "options::on_cpu::a_variable_sets_the_generator_of_keys";
        alone_with(test, &[("OXIDAX_DEFAULT_PRNG_IMPL", "unsafe_rbg")], || {
            assert_eq!(random::key(1).implementation(), KeyImpl::UnsafeRbg);
            let threefry = ProcessConfig::new().default_prng_impl(KeyImpl::Threefry);
            config::update(threefry).unwrap();
            assert_eq!(random::key(1).implementation(), KeyImpl::Threefry);
        });
    }

    #[test]
    fn an_invalid_policy_is_an_error() {
        let test = "options::on_cpu::an_invalid_policy_is_an_error";
        alone_with(test, &[("OXIDAX_RANK_PROMOTION", "never")], || {
            let error = Array::from_slice(&[1.0f32], [1]).unwrap_err().to_string();
            let expected = "OXIDAX_RANK_PROMOTION is `never`; it must be allow or warn or raise";
            assert!(error.contains(expected), "{error}");
        });
    }
}
