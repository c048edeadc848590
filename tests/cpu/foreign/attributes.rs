//! Attributes of all dtypes reach a handler.

mod on_cpu {
    use crate::foreign::{error_of, f32s, register};
    use half::{bf16, f16};
    use num_complex::{Complex32, Complex64};
    use oxidax::debug::HostError;
    use oxidax::ffi::{
        self, FfiAttribute, FfiAttributes, FfiCallOptions, FfiFrame, FfiHandler, FfiScalar,
    };
    use oxidax::prelude::*;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static SEEN: Mutex<Option<FfiAttributes>> = Mutex::new(None);

    #[test]
    fn attributes_arrive_with_their_values() {
        register("test.attributes", |frame| {
            *SEEN.lock().unwrap() = Some(frame.attributes().clone());
            frame.outputs()[0].as_mut_slice::<f32>()?.fill(0.0);
            Ok(())
        });
        let f8 = FfiScalar::from_bytes(DType::F8E4M3FN, &[0x38]).unwrap();
        let attributes = FfiAttributes::new()
            .with("bool", true)
            .with("i8", -8i8)
            .with("i16", -16i16)
            .with("i32", -32i32)
            .with("i64", i64::MIN)
            .with("u8", 8u8)
            .with("u16", 16u16)
            .with("u32", 32u32)
            .with("u64", u64::MAX)
            .with("f16", f16::from_f32(1.5))
            .with("bf16", bf16::from_f32(-2.5))
            .with("f32", 0.1f32)
            .with("f64", 0.1f64)
            .with("nan", f32::NAN)
            .with("infinity", f64::NEG_INFINITY)
            .with("c64", Complex32::new(1.0, -2.0))
            .with("c128", Complex64::new(0.1, f64::INFINITY))
            .with("f8", f8)
            .with("text", "a \"quoted\" \\ line\nÜ")
            .with("i32s", vec![1i32, -2, 3])
            .with("u16s", vec![1u16, 65535])
            .with("f64s", vec![0.1f64, f64::NAN])
            .with("bools", vec![true, false])
            .with("bf16s", [bf16::from_f32(0.5)])
            .with("c64s", vec![Complex32::new(0.0, 1.0)])
            .with("none", Vec::<f32>::new())
            .with("inner", FfiAttributes::new().with("deep", FfiAttributes::new().with("x", 1u8)));
        let x = f32s(&[1.0]);
        let options = FfiCallOptions { attributes, ..FfiCallOptions::default() };
        ffi::ffi_call_with("test.attributes", x.aval(), [&x], options).to_vec::<f32>().unwrap();
        let seen = SEEN.lock().unwrap().take().unwrap();
        assert_eq!(seen.get::<bool>("bool"), Ok(true));
        assert_eq!(seen.get::<i8>("i8"), Ok(-8));
        assert_eq!(seen.get::<i16>("i16"), Ok(-16));
        assert_eq!(seen.get::<i32>("i32"), Ok(-32));
        assert_eq!(seen.get::<i64>("i64"), Ok(i64::MIN));
        assert_eq!(seen.get::<u8>("u8"), Ok(8));
        assert_eq!(seen.get::<u16>("u16"), Ok(16));
        assert_eq!(seen.get::<u32>("u32"), Ok(32));
        assert_eq!(seen.get::<u64>("u64"), Ok(u64::MAX));
        assert_eq!(seen.get::<f16>("f16"), Ok(f16::from_f32(1.5)));
        assert_eq!(seen.get::<bf16>("bf16"), Ok(bf16::from_f32(-2.5)));
        assert_eq!(seen.get::<f32>("f32"), Ok(0.1));
        assert_eq!(seen.get::<f64>("f64"), Ok(0.1));
        assert!(seen.get::<f32>("nan").unwrap().is_nan());
        assert_eq!(seen.get::<f64>("infinity"), Ok(f64::NEG_INFINITY));
        assert_eq!(seen.get::<Complex32>("c64"), Ok(Complex32::new(1.0, -2.0)));
        assert_eq!(seen.get::<Complex64>("c128"), Ok(Complex64::new(0.1, f64::INFINITY)));
        assert_eq!(seen.attribute("f8"), Some(&FfiAttribute::Scalar(f8)));
        assert_eq!(seen.get::<String>("text"), Ok("a \"quoted\" \\ line\nÜ".to_owned()));
        assert_eq!(seen.get::<Vec<i32>>("i32s"), Ok(vec![1, -2, 3]));
        assert_eq!(seen.get::<Vec<u16>>("u16s"), Ok(vec![1, 65535]));
        let f64s = seen.get::<Vec<f64>>("f64s").unwrap();
        assert!(f64s[0] == 0.1 && f64s[1].is_nan());
        assert_eq!(seen.get::<Vec<bool>>("bools"), Ok(vec![true, false]));
        assert_eq!(seen.get::<Vec<bf16>>("bf16s"), Ok(vec![bf16::from_f32(0.5)]));
        assert_eq!(seen.get::<Vec<Complex32>>("c64s"), Ok(vec![Complex32::new(0.0, 1.0)]));
        assert_eq!(seen.get::<Vec<f32>>("none"), Ok(Vec::new()));
        let inner: FfiAttributes = seen.get("inner").unwrap();
        assert_eq!(inner.get::<FfiAttributes>("deep").unwrap().get::<u8>("x"), Ok(1));
        assert_eq!(seen.len(), 27, "the handler does not see attributes of this crate");
        // Conversions that lose something are errors.
        assert!(seen.get::<i8>("i64").unwrap_err().contains("which is not i8"));
        assert!(seen.get::<f32>("text").is_err());
        assert!(seen.get::<f32>("f64").is_err());
    }

    /// Counts how often it makes a state.
    struct Power(&'static AtomicUsize);

    impl FfiHandler for Power {
        type State = f32;
        fn instantiate(&self, attributes: &FfiAttributes) -> Result<f32, HostError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let exponent: f32 = attributes.get("exponent")?;
            if exponent < 0.0 { Err("the exponent is negative".into()) } else { Ok(exponent) }
        }
        fn execute(&self, exponent: &f32, frame: &mut FfiFrame<'_>) -> Result<(), HostError> {
            let ([x], [y]) = frame.slices::<f32, 1, 1>()?;
            y.iter_mut().zip(x).for_each(|(y, x)| *y = x.powf(*exponent));
            Ok(())
        }
    }

    #[test]
    fn a_state_is_made_once_for_each_set_of_attributes() {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        ffi::register_ffi_handler("test.power", Power(&MADE)).unwrap();
        let power = |exponent: f32| {
            move |x: Array| {
                let attributes = FfiAttributes::new().with("exponent", exponent);
                let options = FfiCallOptions { attributes, ..FfiCallOptions::default() };
                ffi::ffi_call_with("test.power", x.aval(), [&x], options)
            }
        };
        let (square, cube) = (jit(power(2.0)), jit(power(3.0)));
        for _ in 0..3 {
            assert_eq!(square.call(f32s(&[3.0])).unwrap().to_vec::<f32>().unwrap(), [9.0]);
            assert_eq!(cube.call(f32s(&[2.0])).unwrap().to_vec::<f32>().unwrap(), [8.0]);
        }
        assert_eq!(MADE.load(Ordering::Relaxed), 2);
        let text = error_of(jit(power(-1.0)).call(f32s(&[2.0])));
        assert!(text.contains("`test.power` failed: the exponent is negative"), "{text}");
    }
}
