//! Discrete Fourier transforms.

use super::composite::lower_by;
use super::rules::{arity, batched, linear_jvp, move_axis, one_cotangent};
use super::{
    bitwise_or, broadcasted_iota, complex, conj, convert_element_type, div, eq, ge, imag, mul,
    real, resize_axis, where_, zeros_of,
};
use crate::core::{
    Analysis, Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Operand,
    Primitive, Registered, RuleResult, Sample, Shape, Tangent, bind1,
};
use crate::stablehlo::{Value, i64_array};
use crate::{ensure, ensure_dtype, ensure_shape};
use serde::{Deserialize, Serialize};

/// The kind of Fourier transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FftType {
    /// Complex to complex, with `exp(−2πi jk/n)`.
    Fft,
    /// Complex to complex, with `exp(2πi jk/n) / n`.
    Ifft,
    /// Real to the half of the complex spectrum that determines the other half.
    Rfft,
    /// Half of a complex spectrum to real.
    Irfft,
}

impl FftType {
    fn stablehlo(self) -> &'static str {
        match self {
            FftType::Fft => "FFT",
            FftType::Ifft => "IFFT",
            FftType::Rfft => "RFFT",
            FftType::Irfft => "IRFFT",
        }
    }
}

/// Discrete Fourier transform over the last one, two or three axes.
///
/// | | |
/// |-|-|
/// | operand    | `x: {c64, c128}[…, n₁ … nᵣ]`; real for `Rfft`; the last axis `nᵣ/2 + 1` for `Irfft` |
/// | result     | complex of the same shape; the last axis `nᵣ/2 + 1` for `Rfft`; real for `Irfft` |
/// | lowering   | [`stablehlo.fft`](https://openxla.org/stablehlo/spec#fft) |
/// | derivative | linear |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fft {
    /// The kind of Fourier transform.
    pub fft_type: FftType,
    /// The sizes `n₁ … nᵣ` of the axes of the signal.
    pub fft_lengths: Vec<usize>,
}

impl Fft {
    /// Returns the sizes of the axes of the spectrum that `Rfft` returns and `Irfft` takes.
    fn halved(&self) -> Vec<usize> {
        let mut lengths = self.fft_lengths.clone();
        if let Some(last) = lengths.last_mut() {
            *last = *last / 2 + 1;
        }
        lengths
    }

    fn of(&self, fft_type: FftType) -> Fft {
        Fft { fft_type, fft_lengths: self.fft_lengths.clone() }
    }

    /// Returns the multiplicity of each element of the half spectrum: one at the two frequencies
    /// that are their own mirror image, else two.
    fn weights(&self, like: &Array) -> Array {
        let n = self.fft_lengths.last().copied().unwrap_or(1);
        let rank = like.rank();
        let frequency = broadcasted_iota(DType::I32, like.shape().clone(), rank - 1);
        let own = bitwise_or(eq(&frequency, 0), ge(&(&frequency * 2), n as i32));
        convert_element_type(&where_(&own, 1, 2), like.dtype())
    }
}

impl Primitive for Fft {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        let [x] = arity(operands)?;
        let rank = self.fft_lengths.len();
        ensure!((1..=3).contains(&rank), "transforms one to three axes, got {rank}");
        ensure_shape!(x.rank() >= rank, "needs {rank} axes, got {}", x.rank());
        let (from, to) = match self.fft_type {
            FftType::Fft | FftType::Ifft => (self.fft_lengths.clone(), self.fft_lengths.clone()),
            FftType::Rfft => (self.fft_lengths.clone(), self.halved()),
            FftType::Irfft => (self.halved(), self.fft_lengths.clone()),
        };
        let (batch, last) = x.shape.split_at(x.rank() - rank);
        ensure_shape!(last == from, "the last axes are to be {from:?}, got {last:?}");
        let dtype = match self.fft_type {
            FftType::Rfft => {
                ensure_dtype!(
                    matches!(x.dtype, DType::F32 | DType::F64),
                    "needs f32 or f64, got {}",
                    x.dtype
                );
                x.dtype.complex().unwrap_or(DType::C64)
            }
            other => {
                ensure_dtype!(x.dtype.is_complex(), "needs c64 or c128, got {}", x.dtype);
                if other == FftType::Irfft { x.dtype.real() } else { x.dtype }
            }
        };
        let shape: Shape = batch.iter().copied().chain(to).collect();
        Ok(vec![Aval { weak: x.weak, ..Aval::new(dtype, shape) }])
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        linear_jvp(self, primals, tangents)
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(batched(bind1(self.clone(), [&x]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        if results[0].size() == 0 || operands[0].ty().dims().contains(&0) {
            return lower_by(ctx, operands, |_| vec![zeros_of(&results[0])]);
        }
        let attributes = format!(
            "fft_length = {}, fft_type = #stablehlo<fft_type {}>",
            i64_array(&self.fft_lengths),
            self.fft_type.stablehlo()
        );
        Ok(vec![ctx.op_as("fft", operands, &attributes, &results[0].stablehlo())])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let n: usize = self.fft_lengths.iter().product();
        let levels = u64::from(n.max(1).ilog2());
        let size = operands[0].size().max(results[0].size()) as u64;
        Cost { flops: 5 * size * levels, ..Cost::whole(operands, results) }
    }
    fn transpose(&self, cts: &[Tangent], operands: &[Operand]) -> RuleResult<Vec<Option<Tangent>>> {
        let ct = one_cotangent(cts)?;
        let pulled = match self.fft_type {
            // The matrices of these transforms are symmetric.
            FftType::Fft | FftType::Ifft => bind1(self.clone(), [ct]),
            FftType::Rfft => {
                // The other half of the spectrum has no cotangent.
                let last = ct.rank() - 1;
                let whole = resize_axis(ct, last, operands[0].aval().shape[last]);
                real(bind1(self.of(FftType::Fft), [&whole]))
            }
            FftType::Irfft => {
                let spectrum = conj(bind1(self.of(FftType::Rfft), [ct]));
                let n: usize = self.fft_lengths.iter().product();
                let weights = self.weights(&real(&spectrum));
                let weights = div(&weights, n as f64);
                complex(mul(real(&spectrum), &weights), mul(imag(&spectrum), &weights))
            }
        };
        Ok(vec![Some(pulled.into())])
    }
    fn analysis(&self) -> Option<&dyn Analysis> {
        Some(self)
    }
}

impl Analysis for Fft {
    fn kernel_obstacle(&self) -> Option<&'static str> {
        Some("calls a library")
    }
}

/// Transforms the last axes of `x`. See [`Fft`] for its rules. [`fft::fft`](crate::ops::fft::fft)
/// and related functions take any axes, lengths and norms.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::FftType;
/// let y = eval_shape(|x: Array| fft(&x, FftType::Rfft, &[8]), Aval::new(DType::F32, [3, 8]))?;
/// assert_eq!(y.aval().to_string(), "c64[3,5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn fft(x: &Array, fft_type: FftType, fft_lengths: &[usize]) -> Array {
    bind1(Fft { fft_type, fft_lengths: fft_lengths.to_vec() }, [x])
}

impl Registered for Fft {
    const NAME: &'static str = "fft";
    fn exemplars() -> Vec<Exemplar> {
        let exemplar = |fft_type, lengths: &[usize], dtype, shape: &[usize]| {
            let fft = Fft { fft_type, fft_lengths: lengths.to_vec() };
            Exemplar::new(fft, [Sample::uniform(dtype, shape, -1.0, 1.0)])
        };
        use FftType::{Fft as Forward, Ifft, Irfft, Rfft};
        let (f32, f64, c64, c128) = (DType::F32, DType::F64, DType::C64, DType::C128);
        vec![
            exemplar(Forward, &[5], c64, &[2, 5]),
            exemplar(Ifft, &[2, 3], c64, &[2, 3]),
            exemplar(Rfft, &[6], f32, &[6]),
            exemplar(Rfft, &[5], f64, &[2, 5]),
            exemplar(Rfft, &[2, 4], f32, &[2, 4]),
            exemplar(Irfft, &[6], c64, &[2, 4]),
            exemplar(Irfft, &[5], c128, &[3]),
            exemplar(Irfft, &[2, 2, 3], c64, &[2, 2, 2]),
            exemplar(Forward, &[1], c64, &[0, 1]),
            exemplar(Rfft, &[1], f32, &[1]),
        ]
    }
}
