//! The algorithm of a product: the dtypes that are multiplied and summed.

use crate::core::{Aval, DType, LowerCtx, Primitive, RuleError, RuleResult};
use crate::stablehlo::Value;
use serde::{Deserialize, Serialize};

/// A number format that a matrix unit multiplies or sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DotPrecisionType {
    /// 8 bits of exponent and 10 of mantissa; the operands are `f32`.
    Tf32,
    /// The format of a dtype.
    Of(DType),
}

impl DotPrecisionType {
    fn stablehlo(self) -> &'static str {
        match self {
            DotPrecisionType::Tf32 => "tf32",
            DotPrecisionType::Of(dtype) => dtype.stablehlo(),
        }
    }

    /// Returns the dtype of an operand of `n_components` numbers of this format.
    fn storage(self, n_components: u32) -> DType {
        match self {
            DotPrecisionType::Of(dtype) if n_components == 1 => dtype,
            _ => DType::F32,
        }
    }
}

/// The algorithm of a product, stated exactly where [`Precision`](crate::core::Precision) leaves a
/// choice to the compiler. The fields are those of StableHLO's `dot_algorithm`.
///
/// Operands are converted to the formats of the algorithm, and the sums to the dtype of the result.
/// A target that does not have the algorithm is an error. [`DotAlgorithmPreset`] names the usual
/// ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DotAlgorithm {
    /// The format of the factors of `lhs`.
    pub lhs_precision_type: DotPrecisionType,
    /// The format of the factors of `rhs`.
    pub rhs_precision_type: DotPrecisionType,
    /// The format of the sums.
    pub accumulation_type: DotPrecisionType,
    /// The number of summands that each element of `lhs` is split into.
    pub lhs_component_count: u32,
    /// The number of summands that each element of `rhs` is split into.
    pub rhs_component_count: u32,
    /// The number of products of these summands that are computed.
    pub num_primitive_operations: u32,
    /// Allows sums in a narrower format, as some GPUs do for `f8` operands.
    pub allow_imprecise_accumulation: bool,
}

/// Usual algorithms of products: the formats of both operands, and of the sums.
#[allow(non_camel_case_types, reason = "the names of JAX and XLA")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DotAlgorithmPreset {
    /// `f16` factors and sums.
    F16_F16_F16,
    /// `f16` factors, `f32` sums.
    F16_F16_F32,
    /// `bf16` factors and sums.
    BF16_BF16_BF16,
    /// `bf16` factors, `f32` sums.
    BF16_BF16_F32,
    /// `f32` operands as two `bf16` summands each; three products, `f32` sums.
    BF16_BF16_F32_X3,
    /// `f32` operands as three `bf16` summands each; six products, `f32` sums.
    BF16_BF16_F32_X6,
    /// `f32` operands as three `bf16` summands each; nine products, `f32` sums.
    BF16_BF16_F32_X9,
    /// TF32 factors, `f32` sums.
    TF32_TF32_F32,
    /// `f32` operands as two TF32 summands each; three products, `f32` sums.
    TF32_TF32_F32_X3,
    /// `f32` factors and sums.
    F32_F32_F32,
    /// `f64` factors and sums.
    F64_F64_F64,
}

impl From<DotAlgorithmPreset> for DotAlgorithm {
    fn from(preset: DotAlgorithmPreset) -> DotAlgorithm {
        use DotAlgorithmPreset as Preset;
        use DotPrecisionType::{Of, Tf32};
        let (factors, sums, components, products) = match preset {
            Preset::F16_F16_F16 => (Of(DType::F16), DType::F16, 1, 1),
            Preset::F16_F16_F32 => (Of(DType::F16), DType::F32, 1, 1),
            Preset::BF16_BF16_BF16 => (Of(DType::BF16), DType::BF16, 1, 1),
            Preset::BF16_BF16_F32 => (Of(DType::BF16), DType::F32, 1, 1),
            Preset::BF16_BF16_F32_X3 => (Of(DType::BF16), DType::F32, 2, 3),
            Preset::BF16_BF16_F32_X6 => (Of(DType::BF16), DType::F32, 3, 6),
            Preset::BF16_BF16_F32_X9 => (Of(DType::BF16), DType::F32, 3, 9),
            Preset::TF32_TF32_F32 => (Tf32, DType::F32, 1, 1),
            Preset::TF32_TF32_F32_X3 => (Tf32, DType::F32, 2, 3),
            Preset::F32_F32_F32 => (Of(DType::F32), DType::F32, 1, 1),
            Preset::F64_F64_F64 => (Of(DType::F64), DType::F64, 1, 1),
        };
        DotAlgorithm {
            lhs_precision_type: factors,
            rhs_precision_type: factors,
            accumulation_type: Of(sums),
            lhs_component_count: components,
            rhs_component_count: components,
            num_primitive_operations: products,
            allow_imprecise_accumulation: false,
        }
    }
}

impl DotAlgorithm {
    /// Returns the dtypes of the operands.
    pub(super) fn operands(&self) -> [DType; 2] {
        [
            self.lhs_precision_type.storage(self.lhs_component_count),
            self.rhs_precision_type.storage(self.rhs_component_count),
        ]
    }

    /// Returns the dtype of the sums.
    pub(super) fn sums(&self) -> DType {
        self.accumulation_type.storage(1)
    }

    /// Returns an error for algorithms that XLA's CPU compiler would silently replace.
    pub(super) fn check(&self, ctx: &LowerCtx<'_>) -> RuleResult<()> {
        use DotAlgorithmPreset as Preset;
        let on_cpu = [
            Preset::F16_F16_F16,
            Preset::F32_F32_F32,
            Preset::F64_F64_F64,
            Preset::BF16_BF16_F32,
            Preset::BF16_BF16_F32_X3,
            Preset::BF16_BF16_F32_X6,
            Preset::BF16_BF16_F32_X9,
        ];
        if ctx.platform() == "cpu" && !on_cpu.iter().any(|&preset| *self == preset.into()) {
            let message = format!("CPUs do not have the algorithm {}", self.stablehlo());
            return Err(RuleError::unsupported(message).help(
                "CPUs have the presets F16_F16_F16, F32_F32_F32, F64_F64_F64, BF16_BF16_F32 and \
                 BF16_BF16_F32_X3, _X6, _X9",
            ));
        }
        Ok(())
    }

    /// Returns the attribute of StableHLO.
    pub(super) fn stablehlo(&self) -> String {
        format!(
            "#stablehlo.dot_algorithm<lhs_precision_type = {}, rhs_precision_type = {}, \
             accumulation_type = {}, lhs_component_count = {}, rhs_component_count = {}, \
             num_primitive_operations = {}, allow_imprecise_accumulation = {}>",
            self.lhs_precision_type.stablehlo(),
            self.rhs_precision_type.stablehlo(),
            self.accumulation_type.stablehlo(),
            self.lhs_component_count,
            self.rhs_component_count,
            self.num_primitive_operations,
            self.allow_imprecise_accumulation,
        )
    }
}

impl super::DotGeneral {
    /// Writes the product by its algorithm: operands are converted to its formats.
    pub(super) fn lower_by_algorithm(
        &self,
        algorithm: &DotAlgorithm,
        ctx: &mut LowerCtx<'_>,
        operands: &[Value],
        result: &Aval,
    ) -> RuleResult<Vec<Value>> {
        algorithm.check(ctx)?;
        let convert = |ctx: &mut LowerCtx<'_>, x: &Value, dtype: DType| {
            let ty = x.ty().with_element(dtype.stablehlo());
            if *x.ty() == ty {
                x.clone()
            } else {
                ctx.op_as("convert", std::slice::from_ref(x), "", &ty)
            }
        };
        let mut factors = Vec::with_capacity(2);
        for (operand, dtype) in operands.iter().zip(algorithm.operands()) {
            factors.push(convert(ctx, operand, dtype));
        }
        let sums = algorithm.sums();
        let product = if ctx.platform() == "cpu" {
            // XLA ignores algorithms on CPUs, whose products are exact.
            let plain = super::DotGeneral {
                algorithm: None,
                preferred_element_type: Some(sums),
                ..self.clone()
            };
            plain.lower(ctx, &factors, &[Aval::new(sums, &result.shape)])?.swap_remove(0)
        } else {
            let attributes = format!(
                "{}, precision_config = [#stablehlo<precision DEFAULT>, \
                 #stablehlo<precision DEFAULT>], algorithm = {}",
                self.dimension_attribute(),
                algorithm.stablehlo()
            );
            let ty = result.stablehlo().with_element(sums.stablehlo());
            ctx.op_as("dot_general", &factors, &attributes, &ty)
        };
        Ok(vec![convert(ctx, &product, result.dtype)])
    }
}
