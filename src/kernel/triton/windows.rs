//! Windows of a kernel in memory: pointers of their elements, loads and stores.

use super::emitter::{Emitter, MemoryWindow};
use super::ir::{Tensor, padded, stored_element, tensor_type, type_of};
use crate::core::{DType, Scalar};
use crate::kernel::ref_ops::{AxisPart, AxisStart, RefPart};
use crate::kernel::spec::BlockDim;

/// The pointers of a part of a window.
struct Pointers {
    name: String,
    ty: String,
    shape: Vec<usize>,
    /// Marks the elements that are in the array.
    mask: Option<Tensor>,
}

/// Returns the distance between neighbours along each axis of an array in row-major order.
fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

impl Emitter<'_> {
    /// Returns the sum of a start and a number; `None` is 0.
    fn plus(&mut self, x: Option<Tensor>, y: Option<Tensor>) -> Option<Tensor> {
        match (x, y) {
            (Some(x), Some(y)) => Some(self.ir.binary("arith.addi", &x, &y)),
            (x, y) => x.or(y),
        }
    }

    fn times(&mut self, x: &Tensor, factor: usize) -> Tensor {
        if factor == 1 {
            return x.clone();
        }
        let factor = self.ir.int(factor as i128, x.dtype, &x.shape);
        self.ir.binary("arith.muli", x, &factor)
    }

    /// Converts an index to the dtype of offsets.
    fn offset(&mut self, x: &Tensor, dtype: DType) -> Tensor {
        match (x.dtype == dtype, dtype) {
            (true, _) => x.clone(),
            (false, DType::I64) => self.ir.cast("arith.extsi", x, dtype),
            _ => self.ir.cast("arith.trunci", x, dtype),
        }
    }

    /// Limits an index to the range from 0 to `last`, as slices do on other platforms.
    pub(super) fn limited(&mut self, x: &Tensor, last: usize) -> Tensor {
        let (zero, last) = (self.ir.int(0, x.dtype, &[]), self.ir.int(last as i128, x.dtype, &[]));
        let x = self.ir.binary("arith.maxsi", x, &zero);
        self.ir.binary("arith.minsi", &x, &last)
    }

    fn and(&mut self, x: Option<Tensor>, y: Tensor) -> Option<Tensor> {
        Some(match x {
            Some(x) => self.ir.binary("arith.andi", &x, &y),
            None => y,
        })
    }

    /// Returns the pointers of a part. `starts` are the dynamic starts of the part.
    fn pointers(&mut self, of: &MemoryWindow, part: &RefPart, starts: &[Tensor]) -> Pointers {
        let sizes = of.array.shape.to_vec();
        let n_elements: usize = sizes.iter().product();
        let wide = if n_elements > i32::MAX as usize { DType::I64 } else { DType::I32 };
        let (strides, shape) = (strides(&sizes), part.shape().to_vec());
        let (mut parts, mut starts) = (part.axes.iter(), starts.iter());
        let (mut base, mut offsets, mut mask) = (None, None, None);
        let mut result_axis = 0;
        for (axis, &block) in of.block.iter().enumerate() {
            let block_start = of.starts[axis].as_ref().map(|start| self.offset(start, wide));
            let (size, is_ragged) = (sizes[axis], !sizes[axis].is_multiple_of(block.size().max(1)));
            let whole = AxisPart::At(AxisStart::Static(0));
            let axis_part = match block {
                BlockDim::Squeezed => &whole,
                BlockDim::Size(_) => parts.next().expect("a part has each axis of the block"),
            };
            let start = match axis_part.start() {
                AxisStart::Static(0) => None,
                AxisStart::Static(start) => Some(self.ir.int(start as i128, wide, &[])),
                AxisStart::Dynamic => {
                    let start = starts.next().expect("there is an operand for a dynamic start");
                    let start = self.offset(start, wide);
                    let last = block.size().saturating_sub(axis_part.extent());
                    Some(self.limited(&start, last))
                }
            };
            let first = self.plus(block_start, start);
            if let Some(first) = &first {
                let offset = self.times(first, strides[axis]);
                base = self.plus(base, Some(offset));
            }
            let AxisPart::Slice { size: count, stride, .. } = *axis_part else {
                if is_ragged {
                    let first = first.unwrap_or_else(|| self.ir.int(0, wide, &[]));
                    let size = self.ir.int(size as i128, wide, &[]);
                    let below = self.ir.compare("cmpi slt", &first, &size);
                    let below = self.ir.splat(&below, &shape);
                    mask = self.and(mask, below);
                }
                continue;
            };
            let index = self.ir.iota(result_axis, &shape);
            let index = self.offset(&index, wide);
            let index = self.times(&index, stride);
            if is_ragged {
                let size = self.ir.int(size as i128, wide, &[]);
                let left = match &first {
                    Some(first) => self.ir.binary("arith.subi", &size, first),
                    None => size,
                };
                let left = self.ir.splat(&left, &shape);
                let below = self.ir.compare("cmpi slt", &index, &left);
                mask = self.and(mask, below);
            }
            if !count.is_power_of_two() {
                let end = self.ir.int((count * stride) as i128, wide, &shape);
                let below = self.ir.compare("cmpi slt", &index, &end);
                mask = self.and(mask, below);
            }
            let offset = self.times(&index, strides[axis]);
            offsets = self.plus(offsets, Some(offset));
            result_axis += 1;
        }
        let pointer = format!("!tt.ptr<{}>", stored_element(of.array.dtype));
        let mut name = of.pointer.clone();
        if let Some(base) = base {
            name =
                self.ir.raw(&format!("tt.addptr {name}, {} : {pointer}, {}", base.name, base.ty()));
        }
        let ty = tensor_type(&pointer, &shape);
        if !shape.is_empty() {
            name = self.ir.raw(&format!("tt.splat {name} : {pointer} -> {ty}"));
        }
        if let Some(offsets) = offsets {
            let text = format!("tt.addptr {name}, {} : {ty}, {}", offsets.name, offsets.ty());
            name = self.ir.raw(&text);
        }
        Pointers { name, ty, shape, mask }
    }

    /// Loads a part of a window. `masked` has the user's mask and the value of other elements.
    pub(super) fn load(
        &mut self,
        of: &MemoryWindow,
        part: &RefPart,
        starts: &[Tensor],
        masked: Option<(&Tensor, &Tensor)>,
    ) -> Tensor {
        let pointers = self.pointers(of, part, starts);
        let (shape, dtype) = (pointers.shape.clone(), of.array.dtype);
        let mut mask = pointers.mask;
        if let Some((user, _)) = masked {
            mask = self.and(mask, user.clone());
        }
        let stored = if dtype.is_bool() { DType::I8 } else { dtype };
        let other = masked.map(|(_, other)| match other.dtype.is_bool() {
            true => self.ir.cast("arith.extui", other, DType::I8),
            false => other.clone(),
        });
        let is_zero = other.is_none();
        let operands = match mask {
            Some(mask) => {
                let other = other.unwrap_or_else(|| self.ir.fill(Scalar::Int(0), stored, &shape));
                format!("{}, {}, {}", pointers.name, mask.name, other.name)
            }
            None => pointers.name,
        };
        let mut loaded =
            self.ir.op(&format!("tt.load {operands} : {}", pointers.ty), stored, &shape);
        loaded.zero_padding = is_zero;
        if dtype.is_bool() {
            let zero = self.ir.int(0, DType::I8, &shape);
            loaded = self.ir.compare("cmpi ne", &loaded, &zero);
        }
        loaded
    }

    /// Stores a part of a window.
    pub(super) fn store(
        &mut self,
        of: &MemoryWindow,
        part: &RefPart,
        starts: &[Tensor],
        value: &Tensor,
        user_mask: Option<&Tensor>,
    ) {
        let pointers = self.pointers(of, part, starts);
        let mut mask = pointers.mask;
        if let Some(user) = user_mask {
            mask = self.and(mask, user.clone());
        }
        let value = match of.array.dtype.is_bool() {
            true => self.ir.cast("arith.extui", value, DType::I8),
            false => value.clone(),
        };
        debug_assert_eq!(
            value.ty(),
            type_of(value.dtype, &pointers.shape),
            "{:?}",
            padded(&pointers.shape)
        );
        let operands = match mask {
            Some(mask) => format!("{}, {}, {}", pointers.name, value.name, mask.name),
            None => format!("{}, {}", pointers.name, value.name),
        };
        self.ir.effect(&format!("tt.store {operands} : {}", pointers.ty));
    }
}
