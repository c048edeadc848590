//! Views of arrays in host memory, and arrays of host memory.

mod on_cpu {
    use crate::foreign::f32s;
    use oxidax::prelude::*;

    #[test]
    fn a_view_is_the_memory_of_the_array() {
        let x = arange(6).reshape([2, 3]);
        let elements = x.host_view::<i32>().unwrap();
        assert_eq!(&elements[..], [0, 1, 2, 3, 4, 5]);
        assert_eq!(elements.as_ptr() as usize, x.unsafe_buffer_pointer().unwrap());
        assert_eq!(elements.as_ndarray()[[1, 2]], 5);
        assert_eq!(elements.shape().dims(), [2, 3]);
        let error = x.host_view::<f32>().unwrap_err().to_string();
        assert!(error.contains("asked for f32, the array is i32[2,3]"), "{error}");
    }

    #[test]
    fn a_view_outlives_its_array_and_donation() {
        let x = f32s(&[1.0, 2.0]) * 3.0;
        let elements = x.host_view::<f32>().unwrap();
        let y = jit(|x: Array| x + 1.0).call(x).unwrap();
        assert_eq!(&elements[..], [3.0, 6.0]);
        assert_eq!(y.to_vec::<f32>().unwrap(), [4.0, 7.0]);
        let elements = std::thread::spawn(move || elements.iter().sum::<f32>()).join().unwrap();
        assert_eq!(elements, 9.0);
    }

    #[test]
    fn views_of_scalars_booleans_and_nothing() {
        assert_eq!(&Array::from(2.5).host_view::<f32>().unwrap()[..], [2.5]);
        assert_eq!(&Array::from([true, false]).host_view::<bool>().unwrap()[..], [true, false]);
        let empty = zeros([0, 2]);
        assert!(empty.host_view::<f32>().unwrap().is_empty());
        assert_eq!(empty.host_view::<f32>().unwrap().as_ndarray().shape(), [0, 2]);
    }

    #[test]
    fn a_vector_is_shared_where_it_is_aligned() {
        // Large allocations begin at the same place in a page, so most are not aligned; a vector of
        // a type that is aligned to 64 bytes cannot be an array. Both cases have the elements.
        for size in [1, 1000, 1 << 20] {
            let elements: Vec<f32> = (0..size).map(|n| n as f32).collect();
            let address = elements.as_ptr() as usize;
            let x = Array::from_vec(elements, [size]).unwrap();
            let is_shared = x.unsafe_buffer_pointer().unwrap() == address;
            assert_eq!(is_shared, address.is_multiple_of(64), "{size} elements at {address:#x}");
            assert_eq!(x.host_view::<f32>().unwrap()[size - 1], size as f32 - 1.0);
            let y = jit(|x: Array| x * 2.0).call(x).unwrap();
            assert_eq!(y.host_view::<f32>().unwrap()[size - 1], 2.0 * (size as f32 - 1.0));
        }
        let error = Array::from_vec(vec![1.0f32; 3], [2]).unwrap_err().to_string();
        assert!(error.contains("f32[2] has 2 elements, got 3"), "{error}");
    }

    #[test]
    fn ndarray_arrays_become_arrays() {
        let rows = ndarray::array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
        let x = Array::from_ndarray(rows.clone()).unwrap();
        assert_eq!(x.host_view::<f32>().unwrap().as_ndarray(), rows.view().into_dyn());
        let columns = Array::from_ndarray(rows.t()).unwrap();
        assert_eq!(columns.to_vec::<f32>().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        let part = Array::from_ndarray(rows.slice(ndarray::s![.., 1..])).unwrap();
        assert_eq!(part.to_vec::<f32>().unwrap(), [2.0, 3.0, 5.0, 6.0]);
        let moved = Array::from_ndarray(rows.slice_move(ndarray::s![1.., ..])).unwrap();
        assert_eq!(moved.to_vec::<f32>().unwrap(), [4.0, 5.0, 6.0]);
        let scalar = Array::from_ndarray(ndarray::arr0(7i32)).unwrap();
        assert_eq!(scalar.item::<i32>().unwrap(), 7);
    }

    #[test]
    fn traced_arrays_have_no_memory() {
        let f = jit(|x: Array| {
            x.host_view::<f32>().unwrap();
            x
        });
        let error = f.call(zeros([2])).unwrap_err().to_string();
        assert!(error.contains("a view of its elements of a traced array"), "{error}");
    }
}
