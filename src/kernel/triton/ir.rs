//! A writer of Triton IR text: typed values, and the operations that other files are built from.

use crate::core::{DType, Loc, RuleError, RuleResult, Scalar};
use std::fmt::Write as _;

/// A value in a program: a tensor, or a scalar if its shape has no axis.
///
/// Triton's tensors have powers of two as sizes. `shape` is the shape in the kernel's body, and the
/// tensor is padded to the next powers of two. The elements beyond `shape` are undefined unless
/// `zero_padding` is true.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    pub(super) zero_padding: bool,
    /// The output or scratch memory whose state it is.
    pub(super) output: Option<usize>,
}

impl Tensor {
    pub(super) fn ty(&self) -> String {
        type_of(self.dtype, &self.shape)
    }

    pub(super) fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the sizes of the tensor.
    pub(super) fn padded(&self) -> Vec<usize> {
        padded(&self.shape)
    }

    /// Returns the value without the properties that only hold where it was computed.
    pub(super) fn renamed(&self, name: String) -> Tensor {
        Tensor { name, zero_padding: false, ..self.clone() }
    }
}

/// Returns the shape of the tensor that holds an array.
pub(super) fn padded(shape: &[usize]) -> Vec<usize> {
    shape.iter().map(|size| size.next_power_of_two()).collect()
}

/// Returns the name of an element type. Integers have no sign.
pub(super) fn element(dtype: DType) -> &'static str {
    match dtype {
        DType::U8 => "i8",
        DType::U16 => "i16",
        DType::U32 => "i32",
        DType::U64 => "i64",
        _ => dtype.stablehlo(),
    }
}

/// Returns the element type in memory: a boolean is a byte.
pub(super) fn stored_element(dtype: DType) -> &'static str {
    if dtype.is_bool() { "i8" } else { element(dtype) }
}

pub(super) fn tensor_type(element: &str, shape: &[usize]) -> String {
    if shape.is_empty() {
        return element.to_string();
    }
    let sizes: String = padded(shape).iter().map(|size| format!("{size}x")).collect();
    format!("tensor<{sizes}{element}>")
}

pub(super) fn type_of(dtype: DType, shape: &[usize]) -> String {
    tensor_type(element(dtype), shape)
}

/// Refuses dtypes that Triton IR does not have, or that the emitter does not convert.
pub(in crate::kernel) fn check_dtype(dtype: DType) -> RuleResult<()> {
    use DType::{BF16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    match dtype {
        Bool | I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64 | BF16 | F16 | F32 | F64 => Ok(()),
        _ => Err(RuleError::dtype(format!("kernels for GPUs have no values of {dtype}"))
            .help("convert the array to bf16, f16 or f32 outside of the kernel")),
    }
}

/// The text of a function, and facts about it.
#[derive(Debug, Default)]
pub(super) struct Writer {
    pub(super) text: String,
    n_values: usize,
    pub(super) loc: Loc,
    /// The elements of the largest tensor, its shape and the location of its operation.
    pub(super) largest: (usize, Vec<usize>, Loc),
}

impl Writer {
    /// Returns an unused name.
    pub(super) fn name(&mut self) -> String {
        self.n_values += 1;
        format!("%{}", self.n_values)
    }

    /// Returns the location of the current operation, as an attribute after it.
    pub(super) fn location(&self) -> String {
        match self.loc.get() {
            Some(at) => format!(" loc({:?}:{}:{})", at.file(), at.line(), at.column()),
            None => String::new(),
        }
    }

    /// Writes a line.
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Writes an operation without a result.
    pub(super) fn effect(&mut self, operation: &str) {
        let location = self.location();
        self.line(&format!("{operation}{location}"));
    }

    /// Writes an operation. Returns the name of its result.
    pub(super) fn raw(&mut self, operation: &str) -> String {
        let name = self.name();
        let location = self.location();
        writeln!(self.text, "{name} = {operation}{location}").expect("strings take any text");
        name
    }

    /// Writes an operation with a result of this type.
    pub(super) fn op(&mut self, operation: &str, dtype: DType, shape: &[usize]) -> Tensor {
        let name = self.raw(operation);
        self.value(name, dtype, shape)
    }

    pub(super) fn value(&mut self, name: String, dtype: DType, shape: &[usize]) -> Tensor {
        let n_elements = padded(shape).iter().product();
        if n_elements > self.largest.0 {
            self.largest = (n_elements, shape.to_vec(), self.loc);
        }
        Tensor { name, dtype, shape: shape.to_vec(), zero_padding: false, output: None }
    }

    /// Writes a constant.
    pub(super) fn fill(&mut self, value: Scalar, dtype: DType, shape: &[usize]) -> Tensor {
        let mut text = value.stablehlo(dtype);
        if dtype.is_unsigned() {
            // Integers have no sign: the largest numbers are written as negative ones.
            let (_, high) = dtype.int_range();
            let number = text.parse::<i128>().expect("an integer prints its digits");
            if number > high / 2 {
                text = (number - high - 1).to_string();
            }
        }
        let ty = type_of(dtype, shape);
        let text = match (shape.is_empty(), dtype.is_bool()) {
            (true, true) => format!("arith.constant {text}"),
            (true, false) => format!("arith.constant {text} : {ty}"),
            (false, _) => format!("arith.constant dense<{text}> : {ty}"),
        };
        let mut filled = self.op(&text, dtype, shape);
        filled.zero_padding = value.as_f64() == 0.0;
        filled
    }

    /// Writes an integer constant.
    pub(super) fn int(&mut self, value: i128, dtype: DType, shape: &[usize]) -> Tensor {
        self.fill(Scalar::Int(value), dtype, shape)
    }

    pub(super) fn float(&mut self, value: f64, like: &Tensor) -> Tensor {
        self.fill(Scalar::Float(value), like.dtype, &like.shape)
    }

    /// Writes an operation on one value of its type.
    pub(super) fn unary(&mut self, operation: &str, x: &Tensor) -> Tensor {
        self.op(&format!("{operation} {} : {}", x.name, x.ty()), x.dtype, &x.shape)
    }

    /// Writes an operation on two values of its type.
    pub(super) fn binary(&mut self, operation: &str, x: &Tensor, y: &Tensor) -> Tensor {
        let text = format!("{operation} {}, {} : {}", x.name, y.name, x.ty());
        self.op(&text, x.dtype, &x.shape)
    }

    /// Writes a comparison, for example `cmpi slt`.
    pub(super) fn compare(&mut self, operation: &str, x: &Tensor, y: &Tensor) -> Tensor {
        let text = format!("arith.{operation}, {}, {} : {}", x.name, y.name, x.ty());
        self.op(&text, DType::Bool, &x.shape)
    }

    /// Selects elements. A scalar mask broadcasts.
    pub(super) fn select(&mut self, mask: &Tensor, x: &Tensor, y: &Tensor) -> Tensor {
        let mask_ty = if x.rank() > 0 { format!("{}, ", mask.ty()) } else { String::new() };
        let mask = match mask.rank() {
            0 if x.rank() > 0 => self.splat(mask, &x.shape),
            _ => mask.clone(),
        };
        let mask_ty = if mask_ty.is_empty() { mask_ty } else { format!("{}, ", mask.ty()) };
        let text =
            format!("arith.select {}, {}, {} : {mask_ty}{}", mask.name, x.name, y.name, x.ty());
        self.op(&text, x.dtype, &x.shape)
    }

    /// Converts a value with an operation of the `arith` dialect.
    pub(super) fn cast(&mut self, operation: &str, x: &Tensor, dtype: DType) -> Tensor {
        let to = type_of(dtype, &x.shape);
        let text = format!("{operation} {} : {} to {to}", x.name, x.ty());
        let mut y = self.op(&text, dtype, &x.shape);
        y.zero_padding = x.zero_padding;
        y
    }

    /// Broadcasts a scalar.
    pub(super) fn splat(&mut self, x: &Tensor, shape: &[usize]) -> Tensor {
        if shape.is_empty() {
            return x.clone();
        }
        let text = format!("tt.splat {} : {} -> {}", x.name, x.ty(), type_of(x.dtype, shape));
        self.op(&text, x.dtype, shape)
    }

    /// Broadcasts axes of size 1.
    pub(super) fn broadcast(&mut self, x: &Tensor, shape: &[usize]) -> Tensor {
        if x.shape == shape {
            return x.clone();
        }
        if x.rank() == 0 {
            return self.splat(x, shape);
        }
        if x.padded() == padded(shape) {
            return Tensor { shape: shape.to_vec(), zero_padding: false, ..x.clone() };
        }
        let to = type_of(x.dtype, shape);
        self.op(&format!("tt.broadcast {} : {} -> {to}", x.name, x.ty()), x.dtype, shape)
    }

    /// Inserts an axis of size 1.
    pub(super) fn expand(&mut self, x: &Tensor, axis: usize) -> Tensor {
        let mut shape = x.shape.clone();
        shape.insert(axis, 1);
        if x.rank() == 0 {
            return self.splat(x, &shape);
        }
        let to = type_of(x.dtype, &shape);
        let text =
            format!("tt.expand_dims {} {{axis = {axis} : i32}} : {} -> {to}", x.name, x.ty());
        let mut y = self.op(&text, x.dtype, &shape);
        y.zero_padding = x.zero_padding;
        y
    }

    /// Changes the shape of a tensor whose sizes are powers of two.
    pub(super) fn reshape_padded(&mut self, x: &Tensor, shape: &[usize]) -> Tensor {
        if x.shape == shape {
            return x.clone();
        }
        if x.rank() == 0 {
            return self.splat(x, shape);
        }
        if shape.is_empty() {
            // The only element is the sum of a tensor of one element.
            let mut x = x.clone();
            while x.rank() > 0 {
                x = self.reduce_with(&x, 0, "arith.addf", "arith.addi");
            }
            return x;
        }
        let to = type_of(x.dtype, shape);
        let mut y = self.op(&format!("tt.reshape {} : {} -> {to}", x.name, x.ty()), x.dtype, shape);
        y.zero_padding = x.zero_padding;
        y
    }

    pub(super) fn transpose(&mut self, x: &Tensor, permutation: &[usize]) -> Tensor {
        if permutation.iter().copied().eq(0..x.rank()) {
            return x.clone();
        }
        let shape: Vec<usize> = permutation.iter().map(|&axis| x.shape[axis]).collect();
        let order: Vec<String> = permutation.iter().map(usize::to_string).collect();
        let to = type_of(x.dtype, &shape);
        let order = order.join(", ");
        let text =
            format!("tt.trans {} {{order = array<i32: {order}>}} : {} -> {to}", x.name, x.ty());
        let mut y = self.op(&text, x.dtype, &shape);
        y.zero_padding = x.zero_padding;
        y
    }

    /// Returns the index of each element along an axis, `i32`.
    pub(super) fn iota(&mut self, axis: usize, shape: &[usize]) -> Tensor {
        let size = shape[axis];
        let line = match size.next_power_of_two() {
            1 => self.int(0, DType::I32, &[1]),
            end => {
                let ty = type_of(DType::I32, &[size]);
                let range = format!("tt.make_range {{end = {end} : i32, start = 0 : i32}} : {ty}");
                self.op(&range, DType::I32, &[size])
            }
        };
        let mut along = line;
        for before in 0..axis {
            along = self.expand(&along, before);
        }
        for after in axis + 1..shape.len() {
            along = self.expand(&along, after);
        }
        self.broadcast(&along, shape)
    }

    /// Combines the elements along an axis by an operation for floats and one for integers. The
    /// elements of the padding take part.
    pub(super) fn reduce_with(
        &mut self,
        x: &Tensor,
        axis: usize,
        float: &str,
        integer: &str,
    ) -> Tensor {
        let scalar = element(x.dtype);
        let operation = if x.dtype.is_float() { float } else { integer };
        let mut shape = x.shape.clone();
        shape.remove(axis);
        let (name, a, b, c) = (self.name(), self.name(), self.name(), self.name());
        let location = self.location();
        self.line(&format!("{name} = \"tt.reduce\"({}) <{{axis = {axis} : i32}}> ({{", x.name));
        self.line(&format!("^bb0({a}: {scalar}, {b}: {scalar}):"));
        match operation {
            "first" => self.line(&format!("tt.reduce.return {a} : {scalar}")),
            _ => {
                self.line(&format!("{c} = {operation} {a}, {b} : {scalar}"));
                self.line(&format!("tt.reduce.return {c} : {scalar}"));
            }
        }
        let to = type_of(x.dtype, &shape);
        self.line(&format!("}}) : ({}) -> {to}{location}", x.ty()));
        self.value(name, x.dtype, &shape)
    }

    /// Returns a mask of the elements that belong to the user's array along `axes`, or `None` if
    /// the tensor has no others there.
    pub(super) fn inside(&mut self, shape: &[usize], axes: &[usize]) -> Option<Tensor> {
        let mut mask: Option<Tensor> = None;
        for &axis in axes {
            if shape[axis].is_power_of_two() {
                continue;
            }
            let index = self.iota(axis, shape);
            let size = self.int(shape[axis] as i128, DType::I32, shape);
            let below = self.compare("cmpi slt", &index, &size);
            mask = Some(match mask {
                Some(mask) => self.binary("arith.andi", &mask, &below),
                None => below,
            });
        }
        mask
    }

    /// Replaces the elements beyond the user's array along `axes` by a number.
    pub(super) fn with_padding(&mut self, x: &Tensor, axes: &[usize], value: Scalar) -> Tensor {
        if x.zero_padding && value.as_f64() == 0.0 {
            return x.clone();
        }
        let Some(mask) = self.inside(&x.shape, axes) else { return x.clone() };
        let other = self.fill(value, x.dtype, &x.shape);
        self.select(&mask, x, &other)
    }
}
