//! Counts by hand, and the worked examples of "How to Scale Your Model"
//! (jax-ml.github.io/scaling-book).

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::{Bound, DeviceSpec, Network, Roofline, Route};
use crate::core::{Array, Aval, Collective, DType, Mesh, Program};
use crate::roofline::count::Exchange;
use oxidax::prelude::*;
use oxidax::tree::Function;

fn spec(name: &str) -> DeviceSpec {
    DeviceSpec::named(name).unwrap()
}

fn bf16<const N: usize>(shape: [usize; N]) -> Aval {
    Aval::new(DType::BF16, shape)
}

fn f32s<const N: usize>(shape: [usize; N]) -> Aval {
    Aval::new(DType::F32, shape)
}

fn near(got: f64, expected: f64, part: f64) {
    assert!((got - expected).abs() <= part * expected.abs(), "{got:e} instead of {expected:e}");
}

fn product(lhs: Aval, rhs: Aval) -> Program {
    make_program(|a: Array, b: Array| a.matmul(&b), (lhs, rhs)).unwrap()
}

mod counts {
    use super::*;

    #[test]
    fn scan_costs_the_sum_of_its_steps() {
        let step = |h: Array, w: Array| (tanh(h.matmul(&w)), ());
        let looped = make_program(
            move |ws: Array, x: Array| scan(step, x, &ws).0,
            (f32s([10, 64, 64]), f32s([8, 64])),
        );
        let looped = Roofline::of(&looped.unwrap());
        assert_eq!(looped.flops(), 10 * 2 * 8 * 64 * 64);
        assert_eq!(looped.transcendentals(), 10 * 8 * 64);
        assert!(looped.unknown_loops.is_empty());
        let product = looped.operations.iter().find(|op| op.product.is_some()).unwrap();
        assert_eq!(product.times, 10);
    }

    #[test]
    fn nested_loops_multiply() {
        let inner = |x: Array| fori_loop(0, 5, |_: Array, y: Array| &y * &y, x);
        let outer = move |x: Array| fori_loop(0, 3, move |_: Array, y: Array| inner(y), x);
        let roofline = Roofline::of(&make_program(outer, f32s([100])).unwrap());
        let products: u64 =
            roofline.operations.iter().filter(|op| op.name == "mul").map(|op| op.flops).sum();
        assert_eq!(products, 15 * 100);
    }

    #[test]
    fn loop_with_constant_bounds() {
        let count = |limit: i32, by: i32| {
            let program = make_program(
                move |x: Array| {
                    let go_on = move |(i, _): (Array, Array)| lt(&i, limit);
                    let step = move |(i, x): (Array, Array)| (&i + by, &x * &x);
                    while_loop(go_on, step, (full([], 0i32), x)).1
                },
                f32s([100]),
            );
            let roofline = Roofline::of(&program.unwrap());
            let mul = roofline.operations.iter().find(|op| op.name == "mul").unwrap().times;
            (mul, roofline.unknown_loops.len())
        };
        assert_eq!(count(10, 1), (10, 0));
        assert_eq!(count(10, 3), (4, 0));
        assert_eq!(count(0, 1), (0, 0));
        // The number of iterations is unknown.
        assert_eq!(count(10, 0), (1, 1));
    }

    #[test]
    fn loops_of_unknown_length_are_reported_unless_a_length_is_assumed() {
        let program = make_program(
            |x: Array| {
                let go_on = |x: Array| lt(x.sum(), 1000.0);
                while_loop(go_on, |x: Array| &x * 2.0, x)
            },
            f32s([100]),
        );
        let program = program.unwrap();
        let once = Roofline::of(&program);
        assert_eq!(once.unknown_loops.len(), 1);
        assert!(once.unknown_loops[0].place.as_ref().unwrap().file.ends_with("tests.rs"));
        assert!(once.to_string().contains("is not known: counted as 1"));
        let often = Roofline::assuming(&program, 7);
        assert_eq!(often.flops(), 7 * once.flops());
    }

    #[test]
    fn cond_costs_its_most_expensive_branch() {
        let program = make_program(
            |p: Array, x: Array| cond(&p, |x: Array| x.matmul(&x), |x: Array| &x + 1.0, x),
            (Aval::new(DType::Bool, []), f32s([16, 16])),
        );
        // One more to convert the predicate to a number.
        assert_eq!(Roofline::of(&program.unwrap()).flops(), 2 * 16 * 16 * 16 + 1);
    }

    #[test]
    fn unused_values_cost_nothing() {
        let program = make_program(
            |x: Array| {
                let _ = x.matmul(&x);
                &x + &x
            },
            f32s([16, 16]),
        );
        assert_eq!(Roofline::of(&program.unwrap()).flops(), 256);
    }

    #[test]
    fn lines_point_to_user_code() {
        let here = line!();
        let model = |a: Array, b: Array| {
            let c = a.matmul(&b);
            jit(|c: Array| tanh(&c)).apply(&c)
        };
        let program = make_program(model, (f32s([8, 16]), f32s([16, 32])));
        let roofline = Roofline::of(&program.unwrap());
        let found = roofline.lines();
        assert_eq!(found[0].place.as_ref().unwrap().line, here + 2);
        assert_eq!(found[0].flops, 2 * 8 * 16 * 32);
        assert_eq!(found[1].place.as_ref().unwrap().line, here + 3);
        assert_eq!(found[1].transcendentals, 8 * 32);
    }

    #[test]
    fn only_taps_inside_the_input_count() {
        let padded = |x: Array, k: Array| conv(&x, &k, &[1, 1], Padding::Same);
        let shapes = (f32s([8, 64, 32, 32]), f32s([128, 64, 3, 3]));
        let program = make_program(padded, shapes).unwrap();
        // 32 positions of 3 taps along an axis; the first and the last position have 2.
        let expected = 94 * 94 * 64 * 128 * 8 * 2;
        assert_eq!(Roofline::of(&program).flops(), expected);
    }

    #[test]
    fn operations_inside_shard_map_count_for_every_device() {
        let mesh = Mesh::without_devices([("data", 4), ("model", 2)]).unwrap();
        let summed = shard_map(|x: Array| psum(&x.matmul(&x.t()), "data"), &mesh);
        let summed = summed.in_specs(p!["data"]).out_specs(p![]);
        let program = make_program(move |x: Array| summed.apply(&x), f32s([32, 64])).unwrap();
        let roofline = Roofline::of(&program);
        let product = roofline.operations.iter().find(|op| op.product.is_some()).unwrap();
        assert_eq!((product.devices, product.flops), (8, 8 * 2 * 8 * 8 * 64));
        let [sum] = &roofline.exchanges[..] else { panic!("{:?}", roofline.exchanges) };
        assert_eq!((sum.kind, sum.size, sum.bytes), (Collective::AllReduce, 4, 8 * 8 * 4));
        assert_eq!(roofline.on(&spec("v5e")).devices, 8);
    }

    #[test]
    fn fused_bytes_exclude_values_inside_a_fusion() {
        // Read x and y, write z.
        let chain = make_program(
            |x: Array, y: Array| tanh(&(&x + &y)) * &x,
            (f32s([1024, 1024]), f32s([1024, 1024])),
        );
        let chain = Roofline::of(&chain.unwrap());
        assert_eq!(chain.fused_bytes(), 3 << 22);
        assert_eq!(chain.bytes(), 8 << 22);
        assert_eq!(chain.least_bytes(), 3 << 22);
        // A product followed by bias and activation is one fusion.
        let layer = make_program(
            |x: Array, w: Array, b: Array| relu(&(x.matmul(&w) + b)),
            (bf16([1024, 1024]), bf16([1024, 1024]), bf16([1024])),
        );
        assert_eq!(Roofline::of(&layer.unwrap()).fused_bytes(), (3 << 21) + 2048);
        // Operations before and after a product are separate fusions.
        let around = make_program(
            |x: Array, w: Array| {
                let h = tanh(&x);
                h.matmul(&w) + h
            },
            (f32s([1024, 1024]), f32s([1024, 1024])),
        );
        assert_eq!(Roofline::of(&around.unwrap()).fused_bytes(), 5 << 22);
    }

    #[test]
    fn a_lookup_reads_rows_and_no_table() {
        let program = make_program(
            |table: Array, rows: Array| table.take(&rows, 0),
            (f32s([50_000, 512]), Aval::new(DType::I32, [256])),
        );
        let roofline = Roofline::of(&program.unwrap());
        assert!(roofline.fused_bytes() < 3 * 256 * 512 * 4, "{}", roofline.fused_bytes());
        assert!(roofline.least_bytes() > 50_000 * 512 * 4);
    }

    #[test]
    fn it_serializes() {
        let roofline = Roofline::of(&product(bf16([8, 16]), bf16([16, 8])));
        let text = serde_json::to_string(&roofline).unwrap();
        assert!(
            text.contains("\"name\":\"dot_general\"") && text.contains("\"dtype\":\"bf16\""),
            "{text}"
        );
        let prediction = serde_json::to_value(roofline.on(&spec("v5e"))).unwrap();
        assert_eq!(prediction["bound"], "memory");
        assert_eq!(prediction["device"]["name"], "v5e");
    }
}

/// Chapter 1, "All About Rooflines".
mod chapter_1 {
    use super::*;

    #[test]
    fn a_product_of_more_than_240_rows_is_bound_by_arithmetic() {
        near(spec("v5e").critical_intensity(), 240.0, 0.01);
        let bound = |rows| {
            let roofline = Roofline::of(&product(bf16([rows, 65_536]), bf16([65_536, 65_536])));
            roofline.on(&spec("v5e")).bound
        };
        assert_eq!(bound(230), Bound::Memory);
        assert_eq!(bound(250), Bound::Products);
    }

    #[test]
    fn a_dot_product_does_half_a_flop_per_byte() {
        let dot =
            make_program(|x: Array, y: Array| x.matmul(&y), (bf16([1 << 20]), bf16([1 << 20])));
        near(Roofline::of(&dot.unwrap()).intensity(), 0.5, 1e-3);
    }

    #[test]
    fn two_chips_that_share_a_contraction_need_d_above_8755() {
        // From the section on networks: 4.5e10 B/s each way. Each device computes [B, D/2] times
        // [D/2, F] and sends partial sums.
        let bound_by_products = |d: usize| {
            let mesh = Mesh::without_devices([("x", 2)]).unwrap();
            let layer = shard_map(|x: Array, w: Array| psum(&x.matmul(&w), "x"), &mesh);
            let layer = layer.in_specs((p![None, "x"], p!["x"])).out_specs(p![]);
            let (x, w) = (bf16([1024, d]), bf16([d, 65_536]));
            let program = make_program(move |x: Array, w: Array| layer.apply(&x, &w), (x, w));
            let times = Roofline::of(&program.unwrap()).on(&spec("v5e")).times;
            times.products > times.wires
        };
        assert!(!bound_by_products(8750) && bound_by_products(8760));
    }

    #[test]
    fn h100s_need_about_298_rows() {
        let bound = |rows| {
            let roofline = Roofline::of(&product(bf16([rows, 65_536]), bf16([65_536, 65_536])));
            roofline.on(&spec("h100")).bound
        };
        assert_eq!(bound(290), Bound::Memory);
        assert_eq!(bound(306), Bound::Products);
    }
}

/// Chapter 2, "How to Think About TPUs".
mod chapter_2 {
    use super::*;

    #[test]
    fn question_1_reading_200_billion_parameters_takes_10_ms() {
        let mesh = Mesh::without_devices([("x", 32)]).unwrap();
        let (row, columns) = (mesh.replicated(), mesh.sharding(p![None, "x"]).unwrap());
        let layer = jit(|x: Array, w: Array| x.matmul(&w)).in_shardings((&row, &columns));
        // One matrix of 2e11 parameters instead of those of all layers.
        let lowered = layer.lower(bf16([1, 400_000]), bf16([400_000, 500_000])).unwrap();
        let roofline = Roofline::with_arguments(lowered.program(), &lowered.arguments());
        let prediction = roofline.on(&spec("v4"));
        assert_eq!(prediction.bound, Bound::Memory);
        // The book has 1.23e12 B/s.
        near(prediction.times.memory, 10e-3 * 1.23 / 1.2, 0.03);
    }

    #[test]
    fn question_4_int8_needs_271_rows_from_hbm_and_11_from_vmem() {
        let times = |rows: usize| {
            let [x, w] = [[rows, 4096], [4096, 16_384]].map(|shape| Aval::new(DType::I8, shape));
            let program = make_program(|x: Array, w: Array| x.matmul(&w), (x, w)).unwrap();
            let prediction = Roofline::of(&program).on(&spec("v5e"));
            (prediction.bound, prediction.bound_by_products_from_vmem)
        };
        // The book has 271, with 8.1e11 B/s and rounded.
        assert_eq!(times(250), (Bound::Memory, true));
        assert_eq!(times(280), (Bound::Products, true));
        assert!(!times(10).1 && times(13).1);
    }

    #[test]
    fn question_6_a_matrix_of_16_gb_is_read_in_19_ms() {
        let times = Roofline::of(&product(bf16([8, 131_072]), bf16([131_072, 131_072])))
            .on(&spec("v5e"))
            .times;
        // The matrix of the book is int8: half the bytes.
        near(times.memory / 2.0, 19e-3 * 17.18 / 16.0, 0.05);
        near(times.products, 1.3e-3, 0.1);
    }
}

/// Chapter 3, "Sharded Matrices and How to Multiply Them".
mod chapter_3 {
    use super::*;

    fn cube(name: &str, sizes: [usize; 3]) -> Network {
        let mesh: Vec<(String, usize)> =
            ["x", "y", "z"].iter().zip(sizes).map(|(axis, size)| ((*axis).into(), size)).collect();
        Network::of(&spec(name), &mesh)
    }

    #[test]
    fn pop_quiz_2_a_gather_on_a_line_of_4() {
        let network = cube("v5e", [8, 4, 1]);
        let bytes = 2048.0 * 8192.0 * 2.0;
        near(network.seconds(Collective::AllGather, bytes, &["y"]), 560e-6, 0.01);
        // A ring would take 377 us.
        let ring = network.clone().along("y", Route::Rings(1));
        near(ring.seconds(Collective::AllGather, bytes, &["y"]), 377e-6, 0.02);
        // Three hops of 1 us.
        let small = 256.0 * 256.0 * 2.0;
        near(network.seconds(Collective::AllGather, small, &["y"]), 3e-6, 1e-9);
    }

    #[test]
    fn question_2_gathers_and_sums_on_a_cube() {
        let network = cube("v4", [4, 4, 4]);
        let whole = 2.0 * 1024.0 * 4096.0;
        near(network.seconds(Collective::AllGather, whole / 4.0, &["x"]), 23e-6, 0.02);
        near(network.seconds(Collective::AllGather, whole, &["x", "y"]), 46e-6, 0.02);
        // The book counts the whole array here.
        near(network.seconds(Collective::AllReduce, whole, &["z"]), 190e-6, 0.02);
    }

    #[test]
    fn question_3_a_small_gather_takes_two_hops() {
        near(cube("v4", [4, 4, 4]).seconds(Collective::AllGather, 256.0, &["x"]), 2e-6, 1e-9);
    }

    #[test]
    fn question_10_an_exchange_takes_a_quarter_of_a_gather_on_a_ring() {
        let network = cube("v5p", [16, 4, 4]);
        let [gather, exchange] = [Collective::AllGather, Collective::AllToAll]
            .map(|kind| network.seconds(kind, 1e9, &["x"]));
        near(gather / exchange, 4.0, 1e-9);
    }

    #[test]
    fn a_scattered_sum_takes_as_long_as_a_gather() {
        let network = cube("v5p", [16, 4, 4]);
        let times = [Collective::ReduceScatter, Collective::AllGather, Collective::AllReduce]
            .map(|kind| network.seconds(kind, 1e9, &["x"]));
        assert_eq!(times[0], times[1]);
        assert_eq!(times[0] + times[1], times[2]);
    }

    #[test]
    fn a_permutation_takes_its_busiest_link() {
        let shift = |size: usize, by: usize, ring: bool| {
            let route = if ring { Route::Rings(1) } else { Route::Line };
            let network = cube("v5p", [size, 1, 1]).along("x", route);
            let pairs = (0..size).map(|from| (from, (from + by) % size)).collect();
            let (kind, axes) = (Collective::CollectivePermute, vec!["x".into()]);
            let bytes = 90_000_000_000;
            let exchange = Exchange { kind, axes, size, bytes, times: 1, pairs, place: None };
            network.time(&exchange).wires
        };
        // Hops take 1 us each.
        near(shift(8, 1, true), 1.0 + 1e-6, 1e-9);
        near(shift(8, 3, true), 3.0 + 3e-6, 1e-9);
        near(shift(8, 7, true), 1.0 + 1e-6, 1e-9);
        // On a line, data that leaves one end returns to the other over links that are otherwise
        // unused.
        near(shift(8, 1, false), 1.0 + 7e-6, 1e-9);
    }
}

/// Chapters 5 and 6, on training.
mod chapters_5_and_6 {
    use super::*;

    #[test]
    fn data_parallelism_on_v5p_needs_2550_tokens_a_chip() {
        let v5p = spec("v5p");
        // Both directions of an axis.
        near(v5p.peak.bf16 / 1.8e11, 2550.0, 1e-3);
        let mesh = [("x".to_string(), 16)];
        let network = Network::of(&v5p, &mesh);
        near(1e12 / network.seconds(Collective::AllGather, 1e12, &["x"]), 1.8e11, 1e-9);
    }

    #[test]
    fn llama_3_70b_takes_44_days_on_a_pod_at_40_percent() {
        let v5p = spec("v5p");
        let mesh = Mesh::without_devices([("x", v5p.pod_chips.unwrap())]).unwrap();
        let rows = mesh.sharding(p!["x"]).unwrap();
        // One matrix of 7e10 parameters instead of those of all layers: its products with the
        // values, with the gradients, and of both.
        let loss = |(w, x): (Array, Array)| tanh(x.matmul(&w)).sum();
        let step = jit(move |w: Array, x: Array| value_and_grad(loss).apply(((w, x),)));
        let step = step.in_shardings((&mesh.replicated(), &rows));
        let tokens = 8960 * 512;
        let lowered = step.lower(f32s([250_000, 280_000]), f32s([tokens, 250_000])).unwrap();
        let roofline = Roofline::with_arguments(lowered.program(), &lowered.arguments());
        let steps = 15e12 / tokens as f64;
        let seconds = steps * roofline.on(&v5p).times.products / 0.4;
        near(seconds, 3.8e6, 0.02);
        near(seconds / 86_400.0, 44.0, 0.02);
    }

    #[test]
    fn between_slices_a_sum_goes_over_the_data_centre() {
        let v5p = spec("v5p");
        let mesh = [("slice".to_string(), 2), ("data".to_string(), 16)];
        let network = Network::of(&v5p, &mesh).along("slice", Route::DataCentre);
        let axes = vec!["slice".to_string(), "data".to_string()];
        let kind = Collective::AllReduce;
        let bytes = 16_000_000_000;
        let exchange =
            Exchange { kind, axes, size: 32, bytes, times: 1, pairs: vec![], place: None };
        let time = network.time(&exchange);
        near(time.wires, 2.0 * 16e9 / 1.8e11, 1e-9);
        // Each device sends and receives half of its sixteenth twice.
        near(time.data_centre, 2.0 * 1e9 * 0.5 / 6.25e9, 1e-9);
    }
}

mod table {
    use super::*;

    #[test]
    fn names_find_devices_and_devices_are_plausible() {
        for (name, found) in [
            ("TPU v5 lite", "v5e"),
            ("TPU v5", "v5p"),
            ("TPU7x", "7x"),
            ("NVIDIA H200", "h200"),
            ("TPU v6 lite", "v6e"),
        ] {
            assert_eq!(spec(name).name, found);
        }
        assert!(DeviceSpec::named("v9").is_none());
        assert_eq!(DeviceSpec::of_topology("v5e:4x4").unwrap().name, "v5e");
        assert_eq!(DeviceSpec::of_topology("v4:2x2x1").unwrap().name, "v4");
        for spec in DeviceSpec::ALL {
            let critical = spec.critical_intensity();
            assert!((100.0..700.0).contains(&critical), "{}: {critical}", spec.name);
            assert!(spec.critical_intensity_from_vmem() < critical, "{}", spec.name);
            assert!(!spec.source.is_empty() && spec.date.len() == 7, "{}", spec.name);
        }
    }

    #[test]
    fn peaks_follow_from_clocks() {
        // Four tiles of 128 by 128 at 1.5 GHz, with a product and a sum per element. The 1.05 GHz
        // often quoted for v5e is the clock of v4, which has eight tiles.
        near(spec("v5e").peak.bf16, 4.0 * 2.0 * 128.0 * 128.0 * 1.5e9, 0.01);
        near(spec("v4").peak.bf16, 8.0 * 2.0 * 128.0 * 128.0 * 1.05e9, 0.01);
        near(spec("v5p").peak.bf16, 8.0 * 2.0 * 128.0 * 128.0 * 1.75e9, 0.01);
    }

    #[test]
    fn rings_exist_at_published_sizes() {
        assert!(spec("v5e").wires.is_ring(16) && !spec("v5e").wires.is_ring(8));
        assert!(spec("v5p").wires.is_ring(4) && spec("v5p").wires.is_ring(12));
        assert!(!spec("v5p").wires.is_ring(2) && !spec("h100").wires.is_ring(8));
    }
}
