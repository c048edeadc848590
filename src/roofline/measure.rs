//! Measurement of the rates of the default device.

use super::specs::{DeviceSpec, Peaks, Wires};
use crate::core::{Array, DType, Error};
use crate::jit::jit;
use crate::primitives::{DotGeneral, add, convert_element_type, dot_general, full, mul};
use std::time::{Duration, Instant};

/// The size of the measured programs.
///
/// [`Effort::default`] takes a few seconds on a laptop. Every rate is the best of several runs,
/// because other work on the machine only slows them down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// The side of the multiplied matrices.
    pub side: usize,
    /// The bytes of the array in main memory, many times the size of the last cache.
    pub far_bytes: usize,
    /// The bytes of the array in caches.
    pub near_bytes: usize,
    /// The number of runs of each program.
    pub runs: usize,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { side: 1536, far_bytes: 256 << 20, near_bytes: 1 << 20, runs: 8 }
    }
}

/// The number of multiplications and additions in the measurement of vector units.
const CHAIN: usize = 64;

impl DeviceSpec {
    /// Measures the default device: matrix products in `bf16`, `f32` and `i8`, sums over arrays in
    /// main memory and in caches, and chains of multiplications and additions.
    ///
    /// The size of its memory and its interconnect are not measured. Use it for CPUs, whose rates
    /// are not published. For accelerators the table is better.
    ///
    /// # Errors
    /// `Plugin`, `Compile` and `Runtime`, as for running a program.
    ///
    /// ```no_run
    /// use oxidax::roofline::{DeviceSpec, Effort};
    /// let here = DeviceSpec::measured(Effort::default())?;
    /// println!("{:.0} GFLOP/s in f32, {:.1} GB/s", here.peak.f32 / 1e9, here.hbm_bandwidth / 1e9);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn measured(effort: Effort) -> Result<DeviceSpec, Error> {
        let [bf16, f32, int8] =
            [DType::BF16, DType::F32, DType::I8].map(|dtype| product_rate(dtype, effort));
        Ok(DeviceSpec {
            name: "here",
            unit: "the default device, all its cores",
            peak: Peaks { bf16: bf16?, fp8: None, int8: Some(int8?), f32: f32? },
            vector_flops: Some(vector_rate(effort)?),
            hbm_bytes: u64::MAX,
            hbm_bandwidth: memory_rate(effort.far_bytes, effort.runs)?,
            host_bandwidth: None,
            vmem_bytes: effort.near_bytes as u64,
            vmem_bandwidth: memory_rate(effort.near_bytes, effort.runs)?,
            mxu: 1,
            wires: Wires::Alone,
            pod_chips: None,
            dcn_bandwidth: 0.0,
            date: "now",
            source: "measured by DeviceSpec::measured",
        })
    }
}

/// Returns the shortest time of several runs, after one that compiles.
fn shortest(runs: usize, mut run: impl FnMut() -> Result<Array, Error>) -> Result<f64, Error> {
    run()?.block_until_ready()?;
    let mut best = Duration::MAX;
    for _ in 0..runs.max(1) {
        let start = Instant::now();
        run()?.block_until_ready()?;
        best = best.min(start.elapsed());
    }
    // Avoids a division by 0 with a coarse clock.
    Ok(best.as_secs_f64().max(1e-9))
}

/// Multiplies matrices, with sums in the dtype in which the device has them.
fn product(a: Array, b: Array) -> Array {
    let sums = match a.dtype() {
        DType::I8 => DType::I32,
        _ => DType::F32,
    };
    let how = DotGeneral {
        lhs_contracting: vec![1],
        rhs_contracting: vec![0],
        preferred_element_type: Some(sums),
        ..DotGeneral::default()
    };
    dot_general(&a, &b, how)
}

/// Adds 1 to each element: reads and writes the array once.
fn plus_one(x: Array) -> Array {
    add(&x, 1.0)
}

/// Multiplies and adds elementwise, [`CHAIN`] times.
fn chain(x: Array) -> Array {
    (0..CHAIN).fold(x.clone(), |y, _| add(mul(&y, 0.5), &x))
}

/// Returns the FLOP/s of products of square matrices.
fn product_rate(dtype: DType, Effort { side, runs, .. }: Effort) -> Result<f64, Error> {
    let product = jit(product);
    let ones = convert_element_type(&full([side, side], 1.0f32), dtype);
    let seconds = shortest(runs, || Ok(product.call(&ones, &ones)?))?;
    Ok(2.0 * (side as f64).powi(3) / seconds)
}

/// Returns the bytes/s, read and written, of an addition to an array.
fn memory_rate(bytes: usize, runs: usize) -> Result<f64, Error> {
    let elements = (bytes / 4).max(1);
    let more = jit(plus_one);
    let x = full([elements], 1.0f32);
    let seconds = shortest(runs, || Ok(more.call(&x)?))?;
    Ok(2.0 * 4.0 * elements as f64 / seconds)
}

/// Returns the FLOP/s of elementwise multiplications and additions.
fn vector_rate(Effort { near_bytes, runs, .. }: Effort) -> Result<f64, Error> {
    let elements = (near_bytes / 4).max(1);
    let chain = jit(chain);
    let x = full([elements], 1.0f32);
    let seconds = shortest(runs, || Ok(chain.call(&x)?))?;
    Ok(2.0 * CHAIN as f64 * elements as f64 / seconds)
}

#[cfg(test)]
mod on_cpu {
    use super::*;
    use crate::core::Aval;
    use crate::roofline::Roofline;
    use crate::transforms::make_program;

    #[test]
    fn rates_divide_the_work_that_the_programs_do() {
        let square = |dtype| Aval::new(dtype, [32, 32]);
        for dtype in [DType::BF16, DType::F32, DType::I8] {
            let program = make_program(product, (square(dtype), square(dtype))).unwrap();
            assert_eq!(Roofline::of(&program).flops(), 2 * 32 * 32 * 32);
        }
        let vector = Aval::new(DType::F32, [1000]);
        let count = |program: fn(Array) -> Array| {
            Roofline::of(&make_program(program, vector.clone()).unwrap())
        };
        assert_eq!(count(plus_one).least_bytes(), 2 * 4 * 1000);
        assert_eq!(count(chain).flops(), 2 * CHAIN as u64 * 1000);
        // One fusion: what it computes does not pass through memory.
        assert_eq!(count(chain).fused_bytes(), 2 * 4 * 1000);
    }

    #[test]
    fn measured_rates_are_finite_and_positive() {
        let effort = Effort { side: 32, far_bytes: 1 << 16, near_bytes: 1 << 12, runs: 2 };
        let here = DeviceSpec::measured(effort).unwrap();
        let rates = [
            here.peak.bf16,
            here.peak.f32,
            here.peak.int8.unwrap(),
            here.hbm_bandwidth,
            here.vmem_bandwidth,
            here.vector_flops.unwrap(),
        ];
        assert!(rates.iter().all(|rate| rate.is_finite() && *rate > 0.0), "{rates:?}");
    }
}
