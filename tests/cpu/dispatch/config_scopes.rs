//! Policies of `oxidax::config` in scopes: promotion and transfers.

use super::listener::listen;
use oxidax::config::{
    DTypePromotion, RankPromotion, TransferDirection, TransferGuard, with_dtype_promotion,
    with_logged_checkpoint_residuals, with_rank_promotion, with_transfer_guard,
    with_transfer_guard_of,
};
use oxidax::prelude::*;

mod on_cpu {
    use super::*;

    fn raised<R>(f: impl FnOnce() -> R) -> String {
        match catch(|| with_rank_promotion(RankPromotion::Raise, f)) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn operands_of_different_ranks_are_refused() {
        let (matrix, vector) = (ones([2, 3]), ones([3]));
        let message = raised(|| &matrix + &vector);
        let expected = "error[shape]: add: operands of different ranks broadcast: f32[2,3], f32[3]";
        assert!(message.starts_with(expected), "{message}");
        assert!(message.contains(file!()), "{message}");
        assert_eq!(raised(|| &matrix + 1.0), "");
        assert_eq!(raised(|| &matrix + ones([])), "");
        assert_eq!(raised(|| &matrix + vector.expand_dims(0)), "");
        // Broadcasting inside of the library is not the user's.
        let layer = nn::Linear::new(random::key(0), 3, 2);
        assert_eq!(raised(|| layer.forward(&matrix)), "");
        assert_eq!(raised(|| nn::LayerNorm::new(3).forward(&matrix)), "");
        let stats = nn::BatchStats::new(3);
        assert_eq!(raised(|| nn::BatchNorm::new(3).forward_train(&matrix, &stats)), "");
        let cell = nn::GruCell::new(random::key(0), 3, 4);
        assert_eq!(raised(|| cell.forward(&zeros([2, 4]), &matrix)), "");
        assert_eq!((&matrix + &vector).shape().dims(), [2, 3]);
    }

    #[test]
    fn traced_operands_of_different_ranks_are_refused() {
        let sum = jit(|x: Array, y: Array| x + y);
        let call = || sum.call(ones([2, 3]), ones([3]));
        let refused = with_rank_promotion(RankPromotion::Raise, call).unwrap_err().to_string();
        assert!(refused.contains("operands of different ranks broadcast"), "{refused}");
    }

    #[test]
    fn strict_promotion_refuses_different_dtypes() {
        let strict = |f: &dyn Fn() -> Array| {
            catch(|| with_dtype_promotion(DTypePromotion::Strict, f)).map(|y| y.dtype()).ok()
        };
        let (float, integer) = (ones([2]), ones(([2], DType::I32)));
        assert_eq!(strict(&|| &float + &integer), None);
        assert_eq!(strict(&|| &float + &ones(([2], DType::BF16))), None);
        assert_eq!(strict(&|| &integer + 2.5), None);
        assert_eq!(strict(&|| &integer + 2), Some(DType::I32));
        assert_eq!(strict(&|| &float + 2), Some(DType::F32));
        assert_eq!(strict(&|| &float * &float), Some(DType::F32));
        assert_eq!(strict(&|| softmax(&float, -1)), Some(DType::F32));
    }

    #[test]
    fn implicit_transfers_to_the_host_are_refused() {
        let x = ones([1]);
        let guard = |policy, f: &dyn Fn() -> bool| with_transfer_guard(policy, f);
        assert!(guard(TransferGuard::Allow, &|| x.item::<f32>().is_ok()));
        assert!(guard(TransferGuard::Disallow, &|| x.to_host().is_ok()));
        assert!(guard(TransferGuard::Log, &|| x.item::<f32>().is_ok()));
        assert!(!guard(TransferGuard::DisallowExplicit, &|| x.to_host().is_ok()));
        let error = with_transfer_guard(TransferGuard::Disallow, || x.item::<f32>()).unwrap_err();
        let expected = "error[value]: transfer_guard: implicit transfers from a device to the host \
                        are disallowed: f32[1]";
        assert!(error.to_string().starts_with(expected), "{error}");
        let direction = TransferDirection::HostToDevice;
        let read = || x.to_vec::<f32>();
        assert!(with_transfer_guard_of(direction, TransferGuard::Disallow, read).is_ok());
    }

    #[test]
    fn numbers_are_implicit_transfers_to_a_device() {
        let direction = TransferDirection::HostToDevice;
        let x = ones([2]);
        let sum =
            |policy| catch(|| with_transfer_guard_of(direction, policy, || &x + 17.5)).is_ok();
        assert!(sum(TransferGuard::Log));
        assert!(!sum(TransferGuard::Disallow));
        let put = |policy| {
            with_transfer_guard_of(direction, policy, || Array::from_slice(&[1.0f32], [1]))
        };
        assert!(put(TransferGuard::Disallow).is_ok());
        assert!(put(TransferGuard::DisallowExplicit).is_err());
    }

    #[test]
    fn compiled_steps_run_without_transfers() {
        let step = jit(|x: Array| x * 2.0 + 1.0);
        let x = step.call(ones([3])).unwrap();
        let x = with_transfer_guard(TransferGuard::DisallowExplicit, || step.call(x)).unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), [7.0; 3]);
    }

    #[test]
    fn residuals_of_remat_are_logged() {
        let block = remat(|x: &Array| tanh(tanh(x)));
        let slope = |x: &Array| jit(|x: Array| grad(|x: &Array| block(x).sum())(&x)).call(x);
        let x = ones([5]);
        let logged = |f: &dyn Fn()| {
            let lines = listen(f);
            lines.into_iter().filter(|line| line.contains("remat stores")).collect::<Vec<_>>()
        };
        assert!(logged(&|| drop(slope(&x))).is_empty());
        let lines = logged(&|| drop(with_logged_checkpoint_residuals(|| slope(&x))));
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("inputs=\"f32[5]\"") || lines[0].contains("inputs=f32[5]"));
        assert!(lines[0].contains("config_scopes.rs"), "{}", lines[0]);
    }
}
