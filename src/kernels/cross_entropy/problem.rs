//! Sizes, options and blocks.

use super::{HeadLayout, LinearCrossEntropyOptions, check_smoothing};
use crate::core::RuleError;
use crate::kernel::{BlockSpec, Kernel, KernelTarget, Ref, RefIndex};
use crate::kernels::parts::powers_of_two;
use crate::kernels::scoped::{ScopedBlocks, combinations};
use crate::primitives::{broadcasted_iota, lt};
use crate::{Array, DType};
use std::ops::Range;

/// The number of rows and classes of a block on TPUs and GPUs.
const BLOCK: usize = 128;
/// The rows and classes of a block that a table in scope chooses from.
const CANDIDATE_ROWS: [usize; 3] = [64, 128, 256];
const CANDIDATE_CLASSES: [usize; 4] = [64, 128, 256, 512];
/// The number of rows of a block on GPUs.
const GPU_ROWS: usize = 64;
/// The features that a GPU multiplies at a time, in bits.
const GPU_FEATURE_BITS: usize = 64 * 16;
/// The number of logits of a block on CPUs: 16 MiB in `f32`.
const CPU_LOGITS: usize = 1 << 22;

/// Sizes and options of one application.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) rows: usize,
    pub(super) features: usize,
    pub(super) vocabulary: usize,
    pub(super) dtype: DType,
    pub(super) layout: HeadLayout,
    pub(super) has_bias: bool,
    pub(super) ignore_index: Option<i32>,
    pub(super) smoothing: f64,
    pub(super) z_loss: f64,
    pub(super) soft_cap: Option<f64>,
    /// Rows and classes of a block.
    pub(super) block: (usize, usize),
    /// True if CPUs and GPUs use the same blocks.
    pub(super) has_fixed_blocks: bool,
    /// The features that are multiplied at a time in a loop; on a TPU, which has no such loop, the
    /// parts are written one after the other.
    pub(super) looped_features: Option<usize>,
}

/// The classes or rows of a block: the first one, the number of them, and whether some are outside
/// of the array.
#[derive(Clone)]
pub(super) struct Span {
    pub(super) start: Array,
    pub(super) size: usize,
    /// The size of the array's axis, if the last block reaches beyond it.
    pub(super) end: Option<usize>,
}

impl Span {
    /// Returns the indices of a block along `axis` of `shape`.
    pub(super) fn indices(&self, shape: [usize; 2], axis: usize) -> Array {
        broadcasted_iota(DType::I32, shape, axis) + &self.start
    }

    /// Marks the indices within the array, if some are outside.
    pub(super) fn mask(&self, shape: [usize; 2], axis: usize) -> Option<Array> {
        self.end.map(|end| lt(self.indices(shape, axis), end as i32))
    }
}

impl Problem {
    pub(super) fn new(
        x: &Array,
        w: &Array,
        labels: &Array,
        options: &LinearCrossEntropyOptions,
    ) -> Result<Problem, RuleError> {
        let dtype = x.dtype();
        if ![DType::BF16, DType::F16, DType::F32].contains(&dtype) || w.dtype() != dtype {
            let message = format!("x and w must be of one dtype, got {} and {}", dtype, w.dtype());
            return Err(RuleError::dtype(message).help("convert both to `bf16`, `f16` or `f32`"));
        }
        if !labels.dtype().is_integer() {
            let message = format!("labels must be classes, integers, got {}", labels.aval());
            return Err(RuleError::dtype(message).help("convert them with `astype(DType::I32)`"));
        }
        let Some((&features, leading)) = x.shape().dims().split_last() else {
            return Err(RuleError::shape("x must have an axis of features, got a scalar"));
        };
        if labels.shape().dims() != leading {
            let message = format!("x {} takes labels of shape {leading:?}", x.aval());
            return Err(RuleError::shape(format!("{message}, got {}", labels.aval())));
        }
        let vocabulary = match (options.layout, w.shape().dims()) {
            (HeadLayout::VocabularyFirst, &[vocabulary, d])
            | (HeadLayout::FeaturesFirst, &[d, vocabulary])
                if d == features =>
            {
                vocabulary
            }
            (layout, _) => {
                let message = format!(
                    "x {} has {features} features, which w {} with layout {layout:?} does not take",
                    x.aval(),
                    w.aval()
                );
                return Err(RuleError::shape(message).help(
                    "w is `[vocabulary, features]` by default; set `layout` to \
                     `HeadLayout::FeaturesFirst` for `[features, vocabulary]`",
                ));
            }
        };
        if vocabulary == 0 || features == 0 {
            let message = format!("w {} is empty", w.aval());
            return Err(RuleError::shape(message));
        }
        if let Some(bias) = &options.bias
            && (bias.shape().dims() != [vocabulary] || bias.dtype() != dtype)
        {
            let message = format!("the bias must be {dtype}[{vocabulary}], got {}", bias.aval());
            return Err(RuleError::shape(message));
        }
        check_smoothing(options.label_smoothing)?;
        if let Some(bound) = options.soft_cap.filter(|&bound| bound.is_nan() || bound <= 0.0) {
            return Err(RuleError::value(format!("soft_cap must be positive, got {bound}")));
        }
        if let Some((0, _) | (_, 0)) = options.block_sizes {
            return Err(RuleError::value("block_sizes must be positive"));
        }
        let rows = leading.iter().product();
        let (block_rows, classes) = options.block_sizes.unwrap_or((BLOCK, BLOCK));
        Ok(Problem {
            rows,
            features,
            vocabulary,
            dtype,
            layout: options.layout,
            has_bias: options.bias.is_some(),
            ignore_index: options.ignore_index,
            smoothing: options.label_smoothing,
            z_loss: options.z_loss,
            soft_cap: options.soft_cap,
            block: (block_rows.min(rows.max(1)), classes.min(vocabulary)),
            has_fixed_blocks: options.block_sizes.is_some(),
            looped_features: None,
        })
    }

    /// Returns the sizes of a kernel for GPUs: a program has about 160 KiB of shared memory for the
    /// operands of products, several times because of pipelining.
    pub(super) fn on_gpu(&self) -> Problem {
        let (rows, classes) = (GPU_ROWS.min(self.rows.max(1)), BLOCK.min(self.vocabulary));
        let looped_features = Some(GPU_FEATURE_BITS / self.dtype.bits());
        Problem { block: (rows, classes), looped_features, ..self.clone() }
    }

    /// Returns the sizes for TPUs and for GPUs of the kernel `name` that is called with these
    /// operands: those of the table in scope if the user chose none.
    #[track_caller]
    pub(super) fn on_accelerators(
        &self,
        name: &str,
        operands: &[&Array],
        kernel: fn(&Problem) -> Kernel,
    ) -> [Problem; 2] {
        if self.has_fixed_blocks {
            return [self.clone(), self.clone()];
        }
        let of_blocks = |of_device: Problem, blocks: &[usize]| {
            let block = (blocks[0].min(self.rows), blocks[1].min(self.vocabulary));
            Problem { block, ..of_device }
        };
        let candidates =
            combinations([(self.rows, &CANDIDATE_ROWS), (self.vocabulary, &CANDIDATE_CLASSES)]);
        let build = |target, blocks: &[usize]| {
            let of_device = match target {
                KernelTarget::Tpu => self.clone(),
                KernelTarget::Gpu => self.on_gpu(),
            };
            kernel(&of_blocks(of_device, blocks))
        };
        let ScopedBlocks { tpu, gpu } = ScopedBlocks::of(name, operands, &candidates, build);
        let chosen = |of_device: Problem, blocks: Option<Vec<usize>>| match blocks {
            Some(blocks) => of_blocks(of_device, &blocks),
            None => of_device,
        };
        [chosen(self.clone(), tpu), chosen(self.on_gpu(), gpu)]
    }

    /// Returns the number of blocks of rows, and of classes.
    pub(super) fn n_blocks(&self) -> (usize, usize) {
        (self.rows.div_ceil(self.block.0), self.vocabulary.div_ceil(self.block.1))
    }

    /// Returns the number of classes of a block on CPUs, where a block has all rows.
    pub(super) fn cpu_classes(&self) -> usize {
        (CPU_LOGITS / self.rows).clamp(256, 8192).min(self.vocabulary)
    }

    /// Returns the shape of `w`, or of a block of it.
    pub(super) fn w_shape(&self, classes: usize) -> [usize; 2] {
        self.of_layout(classes, self.features)
    }

    /// Orders what belongs to classes and to features as the axes of `w`.
    fn of_layout<T>(&self, of_classes: T, of_features: T) -> [T; 2] {
        match self.layout {
            HeadLayout::VocabularyFirst => [of_classes, of_features],
            HeadLayout::FeaturesFirst => [of_features, of_classes],
        }
    }

    /// Returns the axis of `w` that belongs to classes.
    pub(super) fn class_axis(&self) -> usize {
        self.of_layout(0, 1)[0]
    }

    /// Returns the index of a part of `w`.
    pub(super) fn w_index(
        &self,
        classes: impl Into<RefIndex>,
        features: impl Into<RefIndex>,
    ) -> [RefIndex; 2] {
        self.of_layout(classes.into(), features.into())
    }

    /// Returns the blocks of `x`, `axis` being the grid axis of rows.
    pub(super) fn x_spec(&self, axis: usize) -> BlockSpec {
        BlockSpec::new([self.block.0, self.features], move |ids: [Array; 2]| (ids[axis].clone(), 0))
    }

    /// Returns the blocks of an array `[1, rows]`.
    pub(super) fn row_spec(&self, axis: usize) -> BlockSpec {
        BlockSpec::new([1, self.block.0], move |ids: [Array; 2]| (0, ids[axis].clone()))
    }

    /// Returns the blocks of `w`, `axis` being the grid axis of classes.
    pub(super) fn w_spec(&self, axis: usize) -> BlockSpec {
        let shape = self.w_shape(self.block.1);
        match self.layout {
            HeadLayout::VocabularyFirst => {
                BlockSpec::new(shape, move |ids: [Array; 2]| (ids[axis].clone(), 0))
            }
            HeadLayout::FeaturesFirst => {
                BlockSpec::new(shape, move |ids: [Array; 2]| (0, ids[axis].clone()))
            }
        }
    }

    /// Returns the blocks of an array `[vocabulary, 1]`.
    pub(super) fn bias_spec(&self, axis: usize) -> BlockSpec {
        BlockSpec::new([self.block.1, 1], move |ids: [Array; 2]| (ids[axis].clone(), 0))
    }

    /// Returns the classes of block `index`.
    pub(super) fn classes(&self, index: Array) -> Span {
        let size = self.block.1;
        let end = (!self.vocabulary.is_multiple_of(size)).then_some(self.vocabulary);
        Span { start: index * size as i32, size, end }
    }

    /// Returns the rows of block `index`.
    pub(super) fn row_span(&self, index: Array) -> Span {
        let size = self.block.0;
        let end = (!self.rows.is_multiple_of(size)).then_some(self.rows);
        Span { start: index * size as i32, size, end }
    }

    /// Returns the parts in which features are loaded and multiplied.
    pub(super) fn feature_parts(&self) -> Vec<Range<usize>> {
        let largest = (self.features / 16).max(BLOCK);
        powers_of_two(self.features, largest.next_power_of_two())
    }

    /// Loads a part of a block of `w`. Classes outside of the array are 0.
    pub(super) fn load_w(&self, w: &Ref, part: (RefIndex, usize), classes: &Span) -> Array {
        let (features, count) = part;
        let part = w.at(self.w_index(.., features));
        let shape = self.of_layout(classes.size, count);
        match classes.mask(shape, self.class_axis()) {
            Some(mask) => part.load_masked(&mask, 0.0),
            None => part.load(),
        }
    }

    /// Loads a part of a block of `x`. Rows outside of the array are 0.
    pub(super) fn load_x(&self, x: &Ref, part: (RefIndex, usize), rows: &Span) -> Array {
        let (features, count) = part;
        let part = x.at((.., features));
        match rows.mask([rows.size, count], 0) {
            Some(mask) => part.load_masked(&mask, 0.0),
            None => part.load(),
        }
    }
}
