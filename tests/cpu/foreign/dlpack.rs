//! Arrays that are shared by DLPack.

mod on_cpu {
    use crate::foreign::f32s;
    use oxidax::dlpack::{
        DlpackDevice, DlpackOptions, from_dlpack, from_dlpack_with, is_supported_dtype, to_dlpack,
        to_dlpack_with,
    };
    use oxidax::prelude::*;

    #[test]
    fn every_dtype_comes_back_in_the_same_memory() {
        for dtype in DType::all() {
            let x = arange(4).reshape([2, 2]).astype(dtype);
            if !is_supported_dtype(dtype) {
                let error = to_dlpack(&x).unwrap_err().to_string();
                assert!(error.contains("has no type in DLPack"), "{error}");
                continue;
            }
            let tensor = to_dlpack(&x).unwrap();
            assert_eq!(tensor.device(), DlpackDevice::Cpu);
            assert_eq!(tensor.array_type().dims(), [2, 2]);
            assert_eq!(tensor.strides(), [2, 1]);
            let y = from_dlpack(tensor).unwrap();
            assert_eq!(y.aval(), x.aval());
            assert_eq!(y.to_bytes().unwrap(), x.to_bytes().unwrap(), "{dtype}");
            let addresses = [&x, &y].map(|x| x.unsafe_buffer_pointer().unwrap());
            assert_eq!(addresses[0], addresses[1], "{dtype}");
        }
    }

    #[test]
    fn scalars_and_empty_arrays_come_back() {
        for x in [Array::from(1.5), zeros([0, 3])] {
            let y = from_dlpack(to_dlpack(&x).unwrap()).unwrap();
            assert_eq!(y.aval().to_string(), x.aval().to_string());
            assert_eq!(y.to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
        }
    }

    #[test]
    fn elements_outlive_the_array() {
        let x = f32s(&[1.0, 2.0, 3.0]) * 2.0;
        let tensor = to_dlpack(&x).unwrap();
        drop(x);
        let y = from_dlpack(tensor).unwrap();
        // The memory is not written to by a program that the array is donated to.
        let tensor = to_dlpack(&y).unwrap();
        let z = jit(|y: Array| y + 1.0).call(y).unwrap();
        assert_eq!(z.to_vec::<f32>().unwrap(), [3.0, 5.0, 7.0]);
        assert_eq!(from_dlpack(tensor).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
    }

    #[test]
    fn copies_are_made_as_requested() {
        let x = f32s(&[1.0, 2.0]);
        let at = |x: &Array| x.unsafe_buffer_pointer().unwrap();
        let copy = DlpackOptions { copy: Some(true), ..DlpackOptions::default() };
        let tensor = to_dlpack_with(&x, copy.clone()).unwrap();
        assert!(tensor.is_copied());
        assert_ne!(tensor.address(), at(&x));
        let y = from_dlpack_with(to_dlpack(&x).unwrap(), copy).unwrap();
        assert_ne!(at(&y), at(&x));
        assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 2.0]);
        let share = DlpackOptions { copy: Some(false), ..DlpackOptions::default() };
        let y = from_dlpack_with(to_dlpack(&x).unwrap(), share).unwrap();
        assert_eq!(at(&y), at(&x));
    }

    #[test]
    fn donated_and_traced_arrays_are_errors() {
        let x = f32s(&[1.0, 2.0]);
        let kept = x.clone();
        jit(|x: Array| x + 1.0).call(x).unwrap();
        // A clone keeps the elements, so that they are not donated.
        assert!(to_dlpack(&kept).is_ok());
        let error = jit(|x: Array| {
            to_dlpack(&x).unwrap();
            x
        });
        let error = error.call(kept).unwrap_err().to_string();
        assert!(error.contains("its memory of a traced array"), "{error}");
    }
}
