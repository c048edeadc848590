//! Adafactor: mean squares stored as one row and one column per matrix.

use super::adam::{absolute_square, zero_square_slot};
use super::clip::clip_by_block_rms;
use super::leaves::Leaf;
use super::mask::Mask;
use super::optimizer::{Optimizer, chain};
use super::rms::scale_by_param_block_rms;
use super::schedule::Schedule;
use super::sgd::{
    AddDecayedWeightsOptions, add_decayed_weights_with, scale, scale_by_learning_rate,
};
use super::slots::{Slots, Step, Transformation};
use super::wrappers::{EmaOptions, ema_with};
use crate::core::{Array, DType, Shape};
use crate::ops::axes;
use crate::primitives::{convert_element_type, pow, rsqrt, zeros};

/// Options of [`adafactor_with`].
///
/// ```
/// use oxidax::optim::AdafactorOptions;
/// use oxidax::prelude::*;
/// let options = AdafactorOptions { momentum: Some(0.9), ..AdafactorOptions::default() };
/// let optimizer = optim::adafactor_with(1e-3, options);
/// ```
#[derive(Clone, Debug)]
pub struct AdafactorOptions {
    /// The options of the scaling.
    pub factored_rms: FactoredRmsOptions,
    /// Multiplies steps by the root mean square of the parameter. True by default.
    pub multiply_by_parameter_scale: bool,
    /// The largest root mean square of a step. 1 by default.
    pub clipping_threshold: Option<f64>,
    /// The decay of the momentum of steps. Without momentum by default.
    pub momentum: Option<f64>,
    /// The dtype of the momentum. `f32` by default.
    pub dtype_momentum: DType,
    /// The part of a parameter that a step subtracts, not times the learning rate. None by default.
    pub weight_decay_rate: Option<f64>,
    /// The leaves that decay. All trained leaves by default.
    pub weight_decay_mask: Mask,
}

impl Default for AdafactorOptions {
    fn default() -> AdafactorOptions {
        AdafactorOptions {
            factored_rms: FactoredRmsOptions::default(),
            multiply_by_parameter_scale: true,
            clipping_threshold: Some(1.0),
            momentum: None,
            dtype_momentum: DType::F32,
            weight_decay_rate: None,
            weight_decay_mask: Mask::all(),
        }
    }
}

/// Options of [`scale_by_factored_rms_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FactoredRmsOptions {
    /// Stores mean squares as rows and columns for large enough leaves. True by default.
    pub factored: bool,
    /// The least size of the second longest axis of a leaf that is factored. 128 by default.
    pub min_dim_size_to_factor: usize,
    /// The exponent of the decay of mean squares, `1 - t^(-decay_rate)`. 0.8 by default.
    pub decay_rate: f64,
    /// The number of steps by which `t` is behind the count, for fine-tuning. 0 by default.
    #[doc(alias = "decay_offset")]
    pub step_offset: i32,
    /// A constant added to squares. 1e-30 by default.
    pub eps: f64,
}

impl Default for FactoredRmsOptions {
    fn default() -> FactoredRmsOptions {
        FactoredRmsOptions {
            factored: true,
            min_dim_size_to_factor: 128,
            decay_rate: 0.8,
            step_offset: 0,
            eps: 1e-30,
        }
    }
}

/// Creates Adafactor, which stores the mean squares of a matrix as one number per row and column.
///
/// The learning rate is relative to the root mean square of the parameter.
///
/// # Reference
/// Shazeer, Stern: Adafactor: adaptive learning rates with sublinear memory cost (2018), algorithms
/// 4 and 5.
pub fn adafactor(learning_rate: impl Into<Schedule>) -> Optimizer {
    adafactor_with(learning_rate, AdafactorOptions::default())
}

/// Creates Adafactor with options.
pub fn adafactor_with(learning_rate: impl Into<Schedule>, options: AdafactorOptions) -> Optimizer {
    let ema = EmaOptions { debias: false, accumulator_dtype: Some(options.dtype_momentum) };
    let mask = options.weight_decay_mask;
    let links = [
        Some(scale_by_factored_rms_with(options.factored_rms)),
        options.clipping_threshold.map(clip_by_block_rms),
        Some(scale(learning_rate)),
        options.multiply_by_parameter_scale.then(|| scale_by_param_block_rms(1e-3)),
        options.momentum.map(|decay| ema_with(decay, ema)),
        options
            .weight_decay_rate
            .map(|rate| add_decayed_weights_with(rate, AddDecayedWeightsOptions { mask })),
        Some(scale_by_learning_rate(1.0)),
    ];
    chain(links.into_iter().flatten())
}

/// Divides updates by Adafactor's root mean square.
pub fn scale_by_factored_rms() -> Optimizer {
    scale_by_factored_rms_with(FactoredRmsOptions::default())
}

/// Divides updates by Adafactor's root mean square, with options.
pub fn scale_by_factored_rms_with(options: FactoredRmsOptions) -> Optimizer {
    Optimizer::one(ScaleByFactoredRms(options))
}

#[derive(Debug)]
struct ScaleByFactoredRms(FactoredRmsOptions);

impl ScaleByFactoredRms {
    /// Returns the two longest axes of a leaf that is factored: the shorter, then the longer.
    fn axes(&self, leaf: &Leaf) -> Option<[usize; 2]> {
        let dims = leaf.parameter.shape().dims();
        let mut order: Vec<usize> = (0..dims.len()).collect();
        order.sort_by_key(|&axis| dims[axis]);
        match order[..] {
            [.., short, long]
                if self.0.factored && dims[short] >= self.0.min_dim_size_to_factor =>
            {
                Some([short, long])
            }
            _ => None,
        }
    }

    /// Returns the shape of the leaf without one of the two axes.
    fn without(&self, leaf: &Leaf, which: usize) -> Shape {
        let axis = self.axes(leaf).expect("a factored leaf")[which];
        let mut dims = leaf.parameter.shape().to_vec();
        dims.remove(axis);
        Shape::from(dims)
    }
}

impl Transformation for ScaleByFactoredRms {
    fn init(&self, leaves: &[Leaf], slots: &mut Slots<'_>) {
        let factored = || leaves.iter().filter(|leaf| self.axes(leaf).is_some());
        let unfactored = leaves.iter().filter(|leaf| self.axes(leaf).is_none());
        let dtype = |leaf: &Leaf| leaf.parameter.dtype().real();
        slots.create("v_row", factored(), |leaf| zeros((self.without(leaf, 1), dtype(leaf))));
        slots.create("v_col", factored(), |leaf| zeros((self.without(leaf, 0), dtype(leaf))));
        slots.create("v", unfactored, |leaf| zero_square_slot(leaf, None));
    }

    fn update(&self, step: &Step<'_>, leaves: &mut [Leaf], slots: &mut Slots<'_>) {
        let factored = || leaves.iter().filter(|leaf| self.axes(leaf).is_some());
        let mut rows = slots.take_shaped("v_row", factored(), |leaf| self.without(leaf, 1));
        let mut columns = slots.take_shaped("v_col", factored(), |leaf| self.without(leaf, 0));
        let unfactored = leaves.iter().filter(|leaf| self.axes(leaf).is_none());
        let mut squares = slots.take_shaped("v", unfactored, |leaf| leaf.parameter.shape().clone());
        let count = match self.0.step_offset {
            0 => step.count.clone(),
            offset => &step.count - offset,
        };
        let count = convert_element_type(&count, DType::F32);
        let decay = 1.0 - &pow(&count, -self.0.decay_rate);
        let mix = |mean: &Array, square: &Array| {
            let next = mean * &decay + square * (1.0 - &decay);
            convert_element_type(&next, mean.dtype())
        };
        let (mut n_factored, mut n_unfactored) = (0, 0);
        for leaf in leaves {
            let square = absolute_square(&leaf.update) + self.0.eps;
            leaf.update = match self.axes(leaf) {
                Some([short, long]) => {
                    let row = &mut rows[n_factored];
                    let column = &mut columns[n_factored];
                    n_factored += 1;
                    *row = mix(row, &square.mean_axes(long as isize));
                    *column = mix(column, &square.mean_axes(short as isize));
                    // The position of the shorter axis in the rows, which lack the longer axis.
                    let row_axis = if short > long { short - 1 } else { short };
                    let mean = row.mean_axes(axes(row_axis as isize).keepdims());
                    let by_row = rsqrt(&(&*row / mean)).expand_dims(long as isize);
                    let by_column = rsqrt(&*column).expand_dims(short as isize);
                    &leaf.update * by_row * by_column
                }
                None => {
                    let mean = &mut squares[n_unfactored];
                    n_unfactored += 1;
                    *mean = mix(mean, &square);
                    &leaf.update * rsqrt(&*mean)
                }
            };
        }
        slots.put(rows);
        slots.put(columns);
        slots.put(squares);
    }
}
