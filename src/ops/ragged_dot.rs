//! Products with an axis that consists of groups of different sizes.

use crate::core::{Array, DType, Loc, RuleError, RuleResult, trace};
use crate::ensure_shape;
use crate::primitives::{
    DotGeneral, Precision, add, bitwise_and, broadcast_in_dim, broadcasted_iota, concatenate,
    convert_element_type, cumsum, dot_general, dynamic_slice, ge, lt, reshape, select, sub, zeros,
    zeros_like,
};

/// Dimension numbers of [`ragged_dot_general`]: a [`DotGeneral`], and the ragged axis, which
/// consists of groups.
///
/// The role of the ragged axis in `dot` determines the operation:
///
/// | ragged axis | operands | result |
/// |-|-|-|
/// | free        | `[b…, m…, k…]`, `[g, b…, k…, n…]` | `[b…, m…, n…]`: each row is multiplied by the matrix of its group |
/// | contracting | `[b…, m…, k…]`, `[b…, k…, n…]` | `[g, b…, m…, n…]`: each group is summed separately |
/// | batch       | `[b…, m…, k…]`, `[b…, k…, n…]` | `[b…, m…, n…]`: the product without groups |
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[doc(alias = "RaggedDotDimensionNumbers")]
pub struct RaggedDot {
    /// The product. The group axis of `rhs` is not one of its contracting and batch axes.
    pub dot: DotGeneral,
    /// The ragged axis of `lhs`.
    pub lhs_ragged: usize,
    /// The axis of `rhs` with an entry for each group if the ragged axis is free, else `None`.
    pub rhs_group: Option<usize>,
}

/// Role of the ragged axis.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Free,
    Contracting,
    Batch,
}

impl RaggedDot {
    fn mode(&self) -> Mode {
        if self.dot.lhs_contracting.contains(&self.lhs_ragged) {
            Mode::Contracting
        } else if self.dot.lhs_batch.contains(&self.lhs_ragged) {
            Mode::Batch
        } else {
            Mode::Free
        }
    }

    /// Returns the axes of `lhs` along which `group_sizes` may vary: the batch axes, and axes
    /// before the ragged axis that have the same role.
    fn outer(&self, rank: usize) -> Vec<usize> {
        let DotGeneral { lhs_contracting, lhs_batch, .. } = &self.dot;
        let before = |axes: Vec<usize>| -> Vec<usize> {
            axes.into_iter().take_while(|&axis| axis != self.lhs_ragged).collect()
        };
        let rest = match self.mode() {
            Mode::Batch => return before(lhs_batch.clone()),
            Mode::Contracting => before(lhs_contracting.clone()),
            Mode::Free => before(
                (0..rank)
                    .filter(|axis| !lhs_contracting.contains(axis) && !lhs_batch.contains(axis))
                    .collect(),
            ),
        };
        lhs_batch.iter().copied().chain(rest).collect()
    }

    fn check(&self, lhs: &Array, rhs: &Array, group_sizes: &Array) -> RuleResult<()> {
        crate::ensure_dtype!(
            group_sizes.dtype().is_integer(),
            "group_sizes must be integers, got {}",
            group_sizes.dtype()
        );
        let (rank, ragged) = (lhs.rank(), self.lhs_ragged);
        ensure_shape!(ragged < rank, "lhs has no axis {ragged} to be ragged: its rank is {rank}");
        ensure_shape!(group_sizes.rank() > 0, "group_sizes needs an axis of groups, got a scalar");
        let used = self.dot.lhs_contracting.iter().chain(&self.dot.lhs_batch);
        if let Some(axis) = used.copied().find(|&axis| axis >= rank) {
            return Err(RuleError::shape(format!("lhs has no axis {axis}: its rank is {rank}")));
        }
        let groups = group_sizes.shape()[group_sizes.rank() - 1];
        if group_sizes.rank() > 1 {
            let mut expected: Vec<usize> =
                self.outer(rank).iter().map(|&axis| lhs.shape()[axis]).collect();
            expected.push(groups);
            ensure_shape!(
                *group_sizes.shape().dims() == expected[..],
                "group_sizes must have the shape [{groups}] or {expected:?}, got {}",
                group_sizes.shape()
            );
        }
        match (self.mode(), self.rhs_group) {
            (Mode::Free, Some(axis)) => {
                ensure_shape!(
                    axis < rhs.rank(),
                    "rhs has no axis {axis}: its rank is {}",
                    rhs.rank()
                );
                ensure_shape!(
                    !self.dot.rhs_contracting.contains(&axis)
                        && !self.dot.rhs_batch.contains(&axis),
                    "rhs axis {axis} cannot be the group axis: the product contracts or batches it"
                );
                let size = rhs.shape()[axis];
                ensure_shape!(
                    size == groups,
                    "rhs axis {axis} has {size} entries for {groups} groups"
                );
                Ok(())
            }
            (Mode::Free, None) => Err(RuleError::shape(format!(
                "the ragged axis {ragged} is free, so rhs needs a group axis: set rhs_group"
            ))),
            (_, Some(axis)) => Err(RuleError::shape(format!(
                "the ragged axis {ragged} is contracting or batch, so rhs has no group axis, got {axis}"
            ))),
            (_, None) => Ok(()),
        }
    }
}

/// Repeats `x` for each group along a new first axis, with zeros where the index along `ragged` is
/// in another group. `sizes` is `[…, g]`; its leading axes are the axes `outer` of `x`. The first
/// group begins at index `first`, or 0.
fn spread(
    x: &Array,
    sizes: &Array,
    ragged: usize,
    outer: &[usize],
    first: Option<&Array>,
) -> Array {
    let ends = cumsum(sizes, -1);
    let ends = first.map_or(ends.clone(), |first| add(&ends, first));
    let starts = sub(&ends, sizes);
    let last = sizes.rank() - 1;
    let groups = sizes.shape()[last];
    let shape = x.shape().insert(0, groups);
    // Groups become the first axis, and the outer axes follow in the order of `x`, as a broadcast
    // requires.
    let broadcast = |bound: &Array| {
        let mut order: Vec<usize> = (0..last).collect();
        order.sort_by_key(|&axis| outer[axis]);
        let to: Vec<usize> =
            std::iter::once(0).chain(order.iter().map(|&axis| outer[axis] + 1)).collect();
        let order: Vec<usize> = std::iter::once(last).chain(order).collect();
        broadcast_in_dim(&crate::primitives::transpose(bound, &order), shape.clone(), &to)
    };
    let position = broadcasted_iota(sizes.dtype(), shape.clone(), ragged + 1);
    let inside = bitwise_and(ge(&position, broadcast(&starts)), lt(&position, broadcast(&ends)));
    let axes: Vec<usize> = (1..=x.rank()).collect();
    let repeated = broadcast_in_dim(x, shape.clone(), &axes);
    select(&inside, &repeated, &zeros_like(&repeated))
}

/// Returns a product in which an axis of `lhs` consists of consecutive groups. `group_sizes`,
/// `int[…, g]`, holds their lengths; its leading axes are axes along which the groups vary.
/// Elements after the last group count as zeros.
///
/// See [`RaggedDot`] for the operation, and [`ragged_dot`] for the usual case. `lhs` is repeated
/// for each group first, so that time and memory grow with the number of groups.
///
/// Throws `Op` (shape, dtype) if operands do not fit.
///
/// Reference, for an application: Gale et al., "MegaBlocks: efficient sparse training with
/// mixture-of-experts" (2022).
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::primitives::DotGeneral;
/// // The sum of outer products of the rows in each group.
/// let dot =
///     DotGeneral { lhs_contracting: vec![0], rhs_contracting: vec![0], ..Default::default() };
/// let numbers = RaggedDot { dot, lhs_ragged: 0, rhs_group: None };
/// let (x, y) = (Aval::new(DType::F32, [8, 3]), Aval::new(DType::F32, [8, 2]));
/// let sizes = Aval::new(DType::I32, [4]);
/// let z = eval_shape(
///     move |x: Array, y: Array, sizes: Array| ragged_dot_general(&x, &y, &sizes, &numbers),
///     (x, y, sizes),
/// )?;
/// assert_eq!(z.aval().to_string(), "f32[4,3,2]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn ragged_dot_general(
    lhs: &Array,
    rhs: &Array,
    group_sizes: &Array,
    numbers: &RaggedDot,
) -> Array {
    if let Err(error) = numbers.check(lhs, rhs, group_sizes) {
        trace::throw_operands("ragged_dot_general", error, &[lhs, rhs, group_sizes]);
    }
    Loc::caller().scope(|| compute(lhs, rhs, group_sizes, numbers, None))
}

/// Computes the product of checked operands. The first group begins at index `first` of the ragged
/// axis, or 0.
fn compute(
    lhs: &Array,
    rhs: &Array,
    group_sizes: &Array,
    numbers: &RaggedDot,
    first: Option<&Array>,
) -> Array {
    let outer = numbers.outer(lhs.rank());
    // A single list of sizes applies along every outer axis.
    let (sizes, outer) = match group_sizes.rank() {
        1 => (group_sizes.clone(), Vec::new()),
        _ => (group_sizes.clone(), outer),
    };
    let sizes =
        if sizes.dtype().bits() < 32 { convert_element_type(&sizes, DType::I32) } else { sizes };
    let shifted = |axes: &[usize]| axes.iter().map(|axis| axis + 1).collect::<Vec<_>>();
    let dot = &numbers.dot;
    match numbers.mode() {
        Mode::Batch => dot_general(lhs, rhs, dot.clone()),
        Mode::Free => {
            let group = numbers.rhs_group.expect("checked: a free ragged axis comes with one");
            let mut by_group = DotGeneral {
                lhs_contracting: shifted(&dot.lhs_contracting),
                lhs_batch: shifted(&dot.lhs_batch),
                ..dot.clone()
            };
            by_group.lhs_contracting.push(0);
            by_group.rhs_contracting.push(group);
            dot_general(&spread(lhs, &sizes, numbers.lhs_ragged, &outer, first), rhs, by_group)
        }
        Mode::Contracting => {
            // The axes of rhs that correspond to the ragged and outer axes of lhs.
            let pairs = |axis: usize| {
                let contracted = dot.lhs_contracting.iter().zip(&dot.rhs_contracting);
                let mut all = contracted.chain(dot.lhs_batch.iter().zip(&dot.rhs_batch));
                all.find(|(of_lhs, _)| **of_lhs == axis).map(|(_, of_rhs)| *of_rhs)
            };
            let partner = |axis: usize| match pairs(axis) {
                Some(axis) if axis < rhs.rank() => Ok(axis),
                _ => Err(RuleError::shape(format!(
                    "rhs has no axis that corresponds to lhs axis {axis}"
                ))),
            };
            let axes = partner(numbers.lhs_ragged).and_then(|ragged| {
                let outer =
                    outer.iter().map(|&axis| partner(axis)).collect::<RuleResult<Vec<_>>>()?;
                let (l, r) = (lhs.shape()[numbers.lhs_ragged], rhs.shape()[ragged]);
                ensure_shape!(
                    l == r,
                    "contracting sizes differ: lhs axis {} is {l}, rhs axis {ragged} is {r}",
                    numbers.lhs_ragged
                );
                Ok((ragged, outer))
            });
            let (rhs_ragged, rhs_outer) = match axes {
                Ok(axes) => axes,
                Err(error) => trace::throw_operands("ragged_dot_general", error, &[lhs, rhs]),
            };
            let with_group = |batch: &[usize]| [vec![0], shifted(batch)].concat();
            let by_group = DotGeneral {
                lhs_contracting: shifted(&dot.lhs_contracting),
                rhs_contracting: shifted(&dot.rhs_contracting),
                lhs_batch: with_group(&dot.lhs_batch),
                rhs_batch: with_group(&dot.rhs_batch),
                ..dot.clone()
            };
            let lhs = spread(lhs, &sizes, numbers.lhs_ragged, &outer, first);
            let rhs = spread(rhs, &sizes, rhs_ragged, &rhs_outer, first);
            dot_general(&lhs, &rhs, by_group)
        }
    }
}

/// Multiplies each row of `lhs`, `[m, k]`, by the matrix of its group in `rhs`, `[g, k, n]`.
/// `group_sizes`, `int[g]`, holds the number of consecutive rows of each group. The result is `[m,
/// n]`; rows after the last group are zeros. Layers of experts use it with rows sorted by expert.
///
/// [`ragged_dot_with`] has other precisions and dtypes, [`ragged_dot_general`] other layouts.
/// Throws `Op` in the same cases.
///
/// ```
/// use oxidax::prelude::*;
/// let (rows, experts) = (Aval::new(DType::F32, [8, 3]), Aval::new(DType::F32, [4, 3, 2]));
/// let sizes = Aval::new(DType::I32, [4]);
/// let y = eval_shape(
///     |x: Array, w: Array, sizes: Array| ragged_dot(&x, &w, &sizes),
///     (rows, experts, sizes),
/// )?;
/// assert_eq!(y.aval().to_string(), "f32[8,2]");
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn ragged_dot(lhs: &Array, rhs: &Array, group_sizes: &Array) -> Array {
    ragged_dot_with(lhs, rhs, group_sizes, RaggedDotOptions::default())
}

/// Options of [`ragged_dot_with`].
#[derive(Debug, Clone, Copy, Default)]
pub struct RaggedDotOptions<'a> {
    /// The precision of the products.
    pub precision: Precision,
    /// The dtype of sums and result. The default is the dtype that the operands promote to.
    pub preferred_element_type: Option<DType>,
    /// The group to which the first matrix of `rhs` belongs: an integer of shape `[]` or `[1]`. The
    /// default is 0. `rhs` may then hold fewer matrices than there are groups, for example those of
    /// one device. Rows of the other groups are zeros in the result.
    pub group_offset: Option<&'a Array>,
}

/// Multiplies each row by the matrix of its group, as [`ragged_dot`], with another dtype of the
/// sums, another precision, or matrices of some groups.
///
/// ```
/// use oxidax::prelude::*;
/// let (x, sizes) = (array![[1.0], [2.0], [3.0], [4.0]], array![1, 2, 1]);
/// // The matrices of the groups 1 and 2.
/// let w = array![[[10.0]], [[100.0]]];
/// let options = RaggedDotOptions { group_offset: Some(&array![1]), ..Default::default() };
/// let y = ragged_dot_with(&x, &w, &sizes, options);
/// assert_eq!(y.to_vec::<f32>()?, [0.0, 20.0, 30.0, 400.0]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn ragged_dot_with(
    lhs: &Array,
    rhs: &Array,
    group_sizes: &Array,
    options: RaggedDotOptions<'_>,
) -> Array {
    let dot = DotGeneral {
        lhs_contracting: vec![1],
        rhs_contracting: vec![1],
        precision: [options.precision; 2],
        preferred_element_type: options.preferred_element_type,
        ..DotGeneral::default()
    };
    let numbers = RaggedDot { dot, lhs_ragged: 0, rhs_group: Some(0) };
    let Some(offset) = options.group_offset else {
        return ragged_dot_general(lhs, rhs, group_sizes, &numbers);
    };
    if let Err(error) = check_offset(rhs, group_sizes, offset) {
        trace::throw_operands("ragged_dot", error, &[lhs, rhs, group_sizes, offset]);
    }
    Loc::caller().scope(|| {
        let sizes = convert_element_type(group_sizes, DType::I32);
        let offset = reshape(&convert_element_type(offset, DType::I32), []);
        let is_before = lt(broadcasted_iota(DType::I32, sizes.shape().clone(), 0), &offset);
        let first_row = select(&is_before, &sizes, &zeros_like(&sizes)).sum();
        // Empty groups behind the others keep the slice of every offset within bounds.
        let n = rhs.shape()[0];
        let padded = concatenate([&sizes, &zeros(([n], DType::I32))], 0);
        let own = dynamic_slice(&padded, [&offset], [n]);
        if let Err(error) = numbers.check(lhs, rhs, &own) {
            trace::throw_operands("ragged_dot", error, &[lhs, rhs, group_sizes]);
        }
        compute(lhs, rhs, &own, &numbers, Some(&first_row))
    })
}

/// Checks that `offset` is an integer, and that there are as many groups as matrices.
fn check_offset(rhs: &Array, group_sizes: &Array, offset: &Array) -> RuleResult<()> {
    crate::ensure_dtype!(
        offset.dtype().is_integer() && group_sizes.dtype().is_integer(),
        "group_sizes and group_offset must be integers, got {} and {}",
        group_sizes.dtype(),
        offset.dtype()
    );
    ensure_shape!(
        offset.size() == 1 && offset.rank() < 2,
        "group_offset must have the shape [] or [1], got {}",
        offset.shape()
    );
    ensure_shape!(
        group_sizes.rank() == 1 && rhs.rank() == 3 && rhs.shape()[0] <= group_sizes.size(),
        "with a group_offset, takes group_sizes [groups] and rhs [at most groups, k, n], got {} \
         and {}",
        group_sizes.shape(),
        rhs.shape()
    );
    Ok(())
}
