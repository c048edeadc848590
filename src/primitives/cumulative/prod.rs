//! Running products.

use super::loops::{Along, lower_loop, lower_tree, narrow_carry};
use super::{LinearRecurrence, RunningTotalOptions, axis_of, predecessors, total_type};
use crate::core::{
    Array, Aval, BatchAxis, Batched, Cost, DType, Exemplar, JvpResult, LowerCtx, Primitive,
    Registered, RuleResult, Sample, Tangent, bind1,
};
use crate::primitives::arithmetic::mul;
use crate::primitives::rules::{batched, move_axis};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// Running product along an axis.
///
/// | | |
/// |-|-|
/// | operand    | `x: {int, float, complex}[…]` |
/// | result     | same shape and dtype as `x`; each element is the product of those up to it, or from it on if `reverse`; integers wrap |
/// | lowering   | a [`stablehlo.while`](https://openxla.org/stablehlo/spec#while) along the axis on CPU, elsewhere a tree of multiplications |
/// | derivative | `dyᵢ = xᵢ·dyᵢ₋₁ + yᵢ₋₁·dxᵢ`, a [`LinearRecurrence`]; right where elements are zero |
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cumprod {
    /// The axis of the running total.
    pub axis: usize,
    /// Runs from the end of the axis.
    pub reverse: bool,
}

impl Primitive for Cumprod {
    fn name(&self) -> &'static str {
        Self::NAME
    }
    fn abstract_eval(&self, operands: &[Aval]) -> RuleResult<Vec<Aval>> {
        total_type(operands, self.axis)
    }
    fn jvp(&self, primals: &[Array], tangents: &[Tangent]) -> JvpResult {
        let x = &primals[0];
        let y = bind1(self.clone(), [x]);
        let dy = tangents[0].map(y.aval(), |dx| {
            let before = predecessors(&y, self.axis, self.reverse, 1.0);
            let recurrence = LinearRecurrence { axis: self.axis, reverse: self.reverse };
            bind1(recurrence, [x, &mul(before, dx)])
        });
        Ok((vec![y], vec![dy]))
    }
    fn batch(
        &self,
        operands: &[Array],
        axes: &[Option<usize>],
        _: &BatchAxis,
    ) -> RuleResult<Batched> {
        let x = move_axis(&operands[0], axes[0].unwrap_or(0), 0);
        Ok(batched(bind1(Cumprod { axis: self.axis + 1, ..self.clone() }, [&x]), 0))
    }
    fn lower(
        &self,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        results: &[Aval],
    ) -> RuleResult<Vec<Value>> {
        if results[0].size() == 0 {
            return Ok(operands.to_vec());
        }
        let along = Along { axis: self.axis, reverse: self.reverse };
        if ctx.platform() != "cpu" {
            return lower_tree(ctx, "cumprod", operands, along, &|a, b| vec![mul(&a[0], &b[0])]);
        }
        let carry = narrow_carry(results[0].dtype);
        Ok(vec![lower_loop(ctx, operands, along, carry, |ctx, total, x| {
            ctx.op("multiply", &[total.clone(), x[0].clone()])
        })])
    }
    fn cost(&self, operands: &[Aval], results: &[Aval]) -> Cost {
        let flops = results[0].size() as u64;
        Cost { flops, ..Cost::whole(operands, results) }
    }
}

/// Returns the running product of `x` along `axis`, in the dtype of `x`. Negative axes count from
/// the back. See [`Cumprod`] for its rules.
///
/// ```
/// use oxidax::prelude::*;
/// let y = eval_shape(|x: Array| cumprod(&x, 0), Aval::new(DType::I32, [5]))?;
/// assert_eq!(y.aval().to_string(), "i32[5]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn cumprod(x: &Array, axis: isize) -> Array {
    cumprod_with(x, axis, RunningTotalOptions::default())
}

/// Returns the running total of [`cumprod`], with options.
#[track_caller]
pub fn cumprod_with(x: &Array, axis: isize, options: RunningTotalOptions) -> Array {
    let RunningTotalOptions { reverse } = options;
    bind1(Cumprod { axis: axis_of("cumprod", x, axis), reverse }, [x])
}

impl Registered for Cumprod {
    const NAME: &'static str = "cumprod";
    fn exemplars() -> Vec<Exemplar> {
        let along = |axis, reverse, x: Sample| Exemplar::new(Cumprod { axis, reverse }, [x]);
        let floats = |dtype, shape: &[usize]| Sample::uniform(dtype, shape, -2.0, 2.0);
        let edges = [2.0, f64::INFINITY, -1.0, 0.0, 3.0, f64::NAN, -0.0, 5.0];
        let mut all = vec![
            along(1, false, floats(DType::F32, &[2, 5])),
            along(0, true, floats(DType::F64, &[4, 3])),
            along(1, true, floats(DType::F64, &[2, 3, 2])),
            along(0, false, floats(DType::C64, &[3])),
            // The derivative is exact at one or more zeros.
            along(0, false, Sample::listed(DType::F64, [5], &[2.0, 0.0, 3.0, 0.0, 5.0])),
            along(0, false, floats(DType::BF16, &[1])),
            along(1, false, floats(DType::F32, &[3, 0])),
            along(0, false, floats(DType::F32, &[0, 2])),
            // Infinities have no finite differences.
            along(1, false, Sample::listed(DType::F32, [4, 2], &edges)).without_derivative(),
            along(0, false, Sample::listed(DType::I8, [3], &[127.0, 3.0, -128.0])),
            along(0, false, Sample::listed(DType::U16, [3], &[65535.0, 2.0, 7.0])),
        ];
        for dtype in [DType::I4, DType::U4, DType::I64, DType::U64, DType::F16, DType::F8E4M3FN] {
            all.push(along(0, false, Sample::uniform(dtype, [4], 0.0, 3.0)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primitives::snapshot::error_of;
    use expect_test::expect;

    #[test]
    fn rejects_invalid_operands() {
        let along = Cumprod { axis: 2, reverse: false };
        expect![[r#"
            error[shape]: cumprod: axis 2 must be less than the rank 2 of f32[5,2]
              operand: f32[5,2]"#]]
        .assert_eq(&error_of(along, [Aval::new(DType::F32, [5, 2])]));
    }
}
