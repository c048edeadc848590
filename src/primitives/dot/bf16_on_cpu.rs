//! The dtypes in which targets multiply, and products in `bf16` on CPUs with instructions for them.

use super::{DotGeneral, are_last, category};
use crate::core::{DType, LowerCtx, LoweringTarget};
use crate::primitives::rules::element_dtype;
use crate::stablehlo::Value;

/// Returns the dtype that operands are converted to before they are multiplied, `None` if the
/// target accepts them as they are, and the dtype of the product. `along_rows`: whether the sums
/// run along the last axes of `lhs`.
///
/// XLA leaves `bf16` products on CPUs to a library, including products that the library then
/// rejects and that are computed one by one: all of them without `bf16` instructions, and with
/// these where sums run along columns of `lhs`. That made a training step ten times slower.
/// Products in `f32` are summed and rounded alike.
pub(in crate::primitives) fn multiplied(
    target: LoweringTarget<'_>,
    along_rows: bool,
    lhs: DType,
    rhs: DType,
    result: DType,
) -> (Option<DType>, DType) {
    let platform = target.platform();
    let widens_bf16 = platform == "cpu" && !(along_rows && target.has_bf16_products());
    let widened = widens_bf16 && (lhs == DType::BF16 || rhs == DType::BF16);
    // No plugin multiplies two-bit integers, and the CPU plugin multiplies four-bit integers of one
    // dtype only.
    let product = match result {
        DType::BF16 if widened => DType::F32,
        DType::I2 => DType::I8,
        DType::U2 => DType::U8,
        other => other,
    };
    let (both_f8, tpu) =
        (lhs.bits() == 8 && rhs.bits() == 8 && lhs.is_float() && rhs.is_float(), platform == "tpu");
    let mixed = lhs != rhs && !both_f8 && !(tpu && lhs.is_float());
    let narrow = lhs.bits().min(rhs.bits()) < 8 && lhs != product;
    let other_category =
        category(lhs) != category(product) || lhs.is_unsigned() != product.is_unsigned();
    (if mixed || narrow || other_category || widened { Some(product) } else { None }, product)
}

impl DotGeneral {
    /// Returns true if XLA's library for products, which kernels cannot call, multiplies these
    /// operands on this target if the sums run along the rows of `lhs`.
    pub(super) fn is_for_library(ctx: &LowerCtx<'_>, operands: &[Value]) -> bool {
        let bf16 = operands.iter().all(|operand| element_dtype(operand) == DType::BF16);
        let library = ctx.platform() == "cpu" && ctx.target().has_bf16_products();
        bf16 && library && !ctx.is_in_kernel()
    }

    /// Returns true if the product must be kept from a transposition of its result. XLA replaces
    /// both by a product of the exchanged operands, after it has decided that the library
    /// multiplies them. The library then declines sums along the columns of `lhs`, and the elements
    /// are computed one by one, which takes hundreds of times as long.
    pub(super) fn must_not_be_swapped(&self, ctx: &LowerCtx<'_>, operands: &[Value]) -> bool {
        let rhs_rank = operands[1].ty().dims().len();
        Self::is_for_library(ctx, operands) && !are_last(&self.rhs_contracting, rhs_rank)
    }
}

#[cfg(test)]
mod tests {
    use super::super::dot_general;
    use super::*;
    use crate::core::trace::{Mode, Tracing};
    use crate::core::{Array, Aval};
    use expect_test::expect;

    #[test]
    fn cpu_without_bf16_products_multiplies_in_f32() {
        use DType::{BF16, F8E5M2, F16, F32, F64};
        let cpu = LoweringTarget::from("cpu");
        let on_cpu = |lhs, rhs, result| multiplied(cpu, true, lhs, rhs, result);
        assert_eq!(on_cpu(BF16, BF16, BF16), (Some(F32), F32));
        assert_eq!(on_cpu(BF16, BF16, F32), (Some(F32), F32));
        assert_eq!(on_cpu(BF16, BF16, F64), (Some(F64), F64));
        assert_eq!(on_cpu(F8E5M2, BF16, BF16), (Some(F32), F32));
        assert_eq!(on_cpu(F16, F16, F16), (None, F16));
        assert_eq!(multiplied(cpu.with_bf16_products(true), true, BF16, BF16, BF16), (None, BF16));
        assert_eq!(
            multiplied(cpu.with_bf16_products(true), false, BF16, BF16, BF16),
            (Some(F32), F32)
        );
        assert_eq!(multiplied("tpu".into(), false, BF16, BF16, BF16), (None, BF16));
    }

    /// Returns the operations of a product of two `bf16` matrices of sizes 8 × 4 and 8 × 2 on a CPU
    /// with instructions for it, without the type of each.
    fn lowered(product: impl Fn(&Array, &Array) -> Array) -> String {
        let tracing = Tracing::begin(Mode::All, Some("test".into()));
        let operand = |dims: [usize; 2]| tracing.input(Aval::new(DType::BF16, dims));
        let product = product(&operand([8, 4]), &operand([8, 2]));
        let (program, _) = tracing.finish(&[product]);
        let mut ctx = LowerCtx::new(LoweringTarget::from("cpu").with_bf16_products(true));
        ctx.function(&program, "main").unwrap();
        let text = ctx.finish("m");
        let operations = text.lines().filter(|line| line.contains(" = \""));
        operations
            .map(|line| {
                line.trim().rsplit_once(" : (").map_or(line, |parts| parts.0).to_owned() + "\n"
            })
            .collect()
    }

    #[test]
    fn sums_along_columns_are_sums_along_rows_of_a_transposed_operand() {
        let how =
            DotGeneral { lhs_contracting: vec![0], rhs_contracting: vec![0], ..Default::default() };
        expect![[r#"
            %5 = "func.call"(%0) <{callee = @transpose_1_0_0}> {mhlo.frontend_attributes = {inlineable = "false"}}
            %6 = "stablehlo.dot_general"(%5, %1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}>
            %7 = "stablehlo.optimization_barrier"(%6)
            %3 = "stablehlo.transpose"(%2) <{permutation = array<i64: 1, 0>}>
            %4 = "stablehlo.custom_call"(%3) <{call_target_name = "LayoutConstraint", operand_layouts = [dense<[1, 0]> : tensor<2xindex>], result_layouts = [dense<[1, 0]> : tensor<2xindex>]}>
        "#]].assert_eq(&lowered(|x, y| dot_general(x, y, how.clone())));
    }

    #[test]
    fn products_are_kept_from_transpositions_of_their_result() {
        let how =
            DotGeneral { lhs_contracting: vec![1], rhs_contracting: vec![1], ..Default::default() };
        let with_rows = lowered(|x, _| dot_general(x, x, how.clone()));
        assert!(!with_rows.contains("optimization_barrier"), "{with_rows}");
        let columns = DotGeneral { rhs_contracting: vec![0], ..how.clone() };
        let with_columns = lowered(|x, _| dot_general(x, &x.t(), columns.clone()));
        assert!(with_columns.contains("optimization_barrier"), "{with_columns}");
    }
}
