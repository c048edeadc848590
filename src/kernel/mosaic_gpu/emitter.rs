//! The state of the emitter, and loops over elements.

use super::indices::Index;
use super::text::{Element, Open, Predicate, Writer};
use super::types::{GLOBAL, SHARED, element_type, stored_bytes, stored_type};
use super::value::{Memory, Rule, Value};
use super::{SHARED_LIMIT, arithmetic};
use crate::core::{Aval, DType, Loc, RuleError, RuleResult, Scalar};
use crate::kernel::kernel_call::KernelCall;
use crate::kernel::spec::BlockDim;
use std::collections::HashMap;

/// A window in main memory, at the block of the current program.
pub(super) struct MemoryWindow {
    /// The pointer of the array.
    pub(super) pointer: String,
    pub(super) array: Aval,
    pub(super) block: Vec<BlockDim>,
    /// The index of the first element of the block along each axis.
    pub(super) starts: Vec<Index>,
}

/// The state of the emitter.
pub(super) struct Emitter<'a> {
    pub(super) kernel: &'a KernelCall,
    pub(super) text: Writer,
    /// The windows of prefetched operands, inputs and outputs.
    pub(super) windows: Vec<MemoryWindow>,
    /// The first bytes of scratch memories in shared memory.
    pub(super) scratch: Vec<usize>,
    /// The bytes of shared memory in use, and the most that were in use.
    pub(super) shared: (usize, usize),
    pub(super) n_threads: usize,
    pub(super) n_values: usize,
    pub(super) loc: Loc,
    /// The location of the operation that was refused.
    pub(super) refused_at: Loc,
    /// Elements that the open regions have computed, by value and index, innermost last.
    pub(super) computed: Vec<HashMap<(usize, Vec<Index>), Element>>,
}

/// The number of the thread in its program.
pub(super) const THREAD: &str = "%thread";
/// The pointer of the program's shared memory.
pub(super) const SHARED_POINTER: &str = "%shared";
/// The threads of a warp, which exchange elements without memory.
pub(super) const WARP: usize = 32;

impl<'a> Emitter<'a> {
    /// Begins a region.
    pub(super) fn open(&mut self, arguments: &[(&str, &str)]) -> Open {
        self.computed.push(HashMap::new());
        self.text.open(arguments)
    }

    /// Ends a region. Returns its text.
    pub(super) fn close(&mut self, open: Open) -> String {
        self.computed.pop();
        self.text.close(open)
    }

    /// Takes shared memory for elements. Returns the first byte.
    pub(super) fn allocate(&mut self, n_elements: usize, dtype: DType) -> RuleResult<usize> {
        let start = self.shared.0.next_multiple_of(16);
        let end = n_elements.checked_mul(stored_bytes(dtype)).and_then(|n| n.checked_add(start));
        let Some(end) = end.filter(|&end| end <= SHARED_LIMIT) else {
            return Err(RuleError::shape(format!(
                "scratch memory, results of reductions and copies of blocks take more than \
                 {SHARED_LIMIT} bytes of shared memory, the most on an A100: {n_elements} elements \
                 of {dtype} do not fit beside {start} bytes"
            ))
            .help("choose smaller blocks, for GPUs alone with `Kernel::on_gpu`"));
        };
        self.shared = (end, self.shared.1.max(end));
        Ok(start)
    }

    /// Waits for all threads of the program.
    pub(super) fn barrier(&mut self) {
        self.text.op("gpu.barrier", &[], "", &[], (&[], "()"));
    }

    /// Writes a loop from `first` to `end` in steps, which carries an element if there is one.
    /// Returns the last one.
    pub(super) fn for_loop(
        &mut self,
        (first, end, step): (&Index, &Index, usize),
        carry: Option<Element>,
        body: impl FnOnce(&mut Self, Index, Option<Element>) -> RuleResult<Option<Element>>,
    ) -> RuleResult<Option<Element>> {
        let bounds = [
            self.text.name_of(first),
            self.text.name_of(end),
            self.text.name_of(&Index::Number(step as i64)),
        ];
        let (index, inner) = (self.text.fresh(), self.text.fresh());
        let ty = carry.as_ref().map_or("", |carry| element_type(carry.dtype));
        let mut arguments = vec![(index.as_str(), "i32")];
        let mut operands: Vec<&str> = bounds.iter().map(String::as_str).collect();
        let mut types = vec!["i32"; 3];
        if let Some(carry) = &carry {
            arguments.push((&inner, ty));
            operands.push(&carry.name);
            types.push(ty);
        }
        let open = self.open(&arguments);
        let inside = carry.as_ref().map(|carry| Element { name: inner.clone(), ..carry.clone() });
        let next = body(self, Index::Name(index.clone()), inside)?;
        self.yield_(next.as_ref());
        let region = self.close(open);
        let result = if carry.is_some() { ty } else { "()" };
        let name = self.text.op("scf.for", &operands, "", &[region], (&types, result));
        Ok(carry.map(|carry| Element { name, ..carry }))
    }

    fn yield_(&mut self, value: Option<&Element>) {
        match value {
            Some(value) => {
                let ty = element_type(value.dtype);
                self.text.op("scf.yield", &[&value.name], "", &[], (&[ty], "()"));
            }
            None => {
                self.text.op("scf.yield", &[], "", &[], (&[], "()"));
            }
        }
    }

    /// Runs code where a condition holds.
    pub(super) fn where_true(
        &mut self,
        condition: &Element,
        body: impl FnOnce(&mut Self) -> RuleResult<()>,
    ) -> RuleResult<()> {
        let open = self.open(&[]);
        body(self)?;
        self.yield_(None);
        let yes = self.close(open);
        let regions = [yes, "{\n}".to_string()];
        self.text.op("scf.if", &[&condition.name], "", &regions, (&["i1"], "()"));
        Ok(())
    }

    /// Computes an element of a dtype in one of two ways.
    pub(super) fn either(
        &mut self,
        condition: &Element,
        dtype: DType,
        yes: impl FnOnce(&mut Self) -> RuleResult<Element>,
        no: impl FnOnce(&mut Self) -> RuleResult<Element>,
    ) -> RuleResult<Element> {
        let open = self.open(&[]);
        let value = yes(self)?;
        self.yield_(Some(&value));
        let yes = self.close(open);
        let open = self.open(&[]);
        let value = no(self)?;
        self.yield_(Some(&value));
        let no = self.close(open);
        let ty = element_type(dtype);
        let name = self.text.op("scf.if", &[&condition.name], "", &[yes, no], (&["i1"], ty));
        Ok(Element { name, dtype })
    }

    /// Runs code for each of `count` elements, which the threads share.
    pub(super) fn for_elements(
        &mut self,
        count: usize,
        body: impl FnOnce(&mut Self, Index) -> RuleResult<()>,
    ) -> RuleResult<()> {
        let thread = Index::Name(THREAD.to_string());
        let end = Index::Number(count as i64);
        match count.cmp(&self.n_threads) {
            std::cmp::Ordering::Equal => body(self, thread),
            std::cmp::Ordering::Less => {
                let is_inside = self.text.compare_indices(Predicate::Less, &thread, &end);
                self.where_true(&is_inside, |of| body(of, thread))
            }
            std::cmp::Ordering::Greater => {
                let step = self.n_threads;
                self.for_loop((&thread, &end, step), None, |of, index, _| {
                    body(of, index)?;
                    Ok(None)
                })?;
                Ok(())
            }
        }
    }

    /// Returns the pointer of an element of shared memory, by its position.
    fn shared_pointer(&mut self, start: usize, position: &Index, dtype: DType) -> String {
        let offset = self.text.name_of(&Index::Number(start as i64));
        let base = self.text.pointer(SHARED_POINTER, SHARED, (&offset, "i32"), "i8");
        let position = self.text.name_of(position);
        self.text.pointer(&base, SHARED, (&position, "i32"), stored_type(dtype))
    }

    fn load_pointer(&mut self, pointer: &str, space: &str, dtype: DType) -> Element {
        let ty = stored_type(dtype);
        let name = self.text.op("llvm.load", &[pointer], "ordering = 0 : i64", &[], (&[space], ty));
        match dtype.is_bool() {
            true => arithmetic::convert(&mut self.text, &Element { name, dtype: DType::I8 }, dtype),
            false => Element { name, dtype },
        }
    }

    fn store_pointer(&mut self, value: &Element, pointer: &str, space: &str) {
        let value = match value.dtype.is_bool() {
            true => arithmetic::convert(&mut self.text, value, DType::U8),
            false => value.clone(),
        };
        let types = [element_type(value.dtype), space];
        self.text.op(
            "llvm.store",
            &[&value.name, pointer],
            "ordering = 0 : i64",
            &[],
            (&types, "()"),
        );
    }

    pub(super) fn load_shared(&mut self, start: usize, position: &Index, dtype: DType) -> Element {
        let pointer = self.shared_pointer(start, position, dtype);
        self.load_pointer(&pointer, SHARED, dtype)
    }

    pub(super) fn store_shared(&mut self, value: &Element, start: usize, position: &Index) {
        let pointer = self.shared_pointer(start, position, value.dtype);
        self.store_pointer(value, &pointer, SHARED);
    }

    /// Returns the pointer of an element of a window, and the condition that it is in the array.
    fn window_pointer(&mut self, number: usize, index: &[Index]) -> (String, Option<Element>) {
        let window = &self.windows[number];
        let (array, block) = (window.array.clone(), window.block.clone());
        let (starts, pointer) = (window.starts.clone(), window.pointer.clone());
        let mut inside: Option<Element> = None;
        let mut along = index.iter();
        let mut positions = Vec::with_capacity(block.len());
        for (axis, dim) in block.iter().enumerate() {
            let position = match dim {
                BlockDim::Squeezed => starts[axis].clone(),
                _ => {
                    let index = along.next().expect("an index for each axis of a reference");
                    self.text.plus(&starts[axis], index)
                }
            };
            let size = array.shape[axis];
            if !size.is_multiple_of(dim.size().max(1)) {
                let end = Index::Number(size as i64);
                let below = self.text.compare_indices(Predicate::Less, &position, &end);
                inside = Some(match inside {
                    Some(inside) => self.text.binary("arith.andi", &inside, &below),
                    None => below,
                });
            }
            positions.push(position);
        }
        let element = stored_type(array.dtype);
        let pointer = if array.size() <= i32::MAX as usize {
            let position = self.text.ravel(&positions, &array.shape);
            let position = self.text.name_of(&position);
            self.text.pointer(&pointer, GLOBAL, (&position, "i32"), element)
        } else {
            let mut total = self.text.int(0, DType::I64);
            for (position, &size) in positions.iter().zip(array.shape.iter()) {
                let position = self.text.name_of(position);
                let name = self.text.cast("arith.extsi", &position, ("i32", "i64"));
                let size = self.text.int(size as i128, DType::I64);
                let scaled = self.text.binary("arith.muli", &total, &size);
                let position = Element { name, dtype: DType::I64 };
                total = self.text.binary("arith.addi", &scaled, &position);
            }
            self.text.pointer(&pointer, GLOBAL, (&total.name, "i64"), element)
        };
        (pointer, inside)
    }

    fn load_window(&mut self, number: usize, index: &[Index]) -> RuleResult<Element> {
        let dtype = self.windows[number].array.dtype;
        let (pointer, inside) = self.window_pointer(number, index);
        match inside {
            None => Ok(self.load_pointer(&pointer, GLOBAL, dtype)),
            Some(inside) => self.either(
                &inside,
                dtype,
                |of| Ok(of.load_pointer(&pointer, GLOBAL, dtype)),
                |of| Ok(of.text.fill(Scalar::Int(0), dtype)),
            ),
        }
    }

    /// Reads an element of memory. `shape` is the shape of the memory.
    pub(super) fn load(
        &mut self,
        memory: Memory,
        index: &[Index],
        (dtype, shape): (DType, &[usize]),
    ) -> RuleResult<Element> {
        let start = match memory {
            Memory::Window(number) => return self.load_window(number, index),
            Memory::Scratch(number) => self.scratch[number],
            Memory::Shared(start) => start,
        };
        let position = self.text.ravel(index, shape);
        Ok(self.load_shared(start, &position, dtype))
    }

    /// Writes an element of memory, unless it is beyond the array.
    pub(super) fn store(
        &mut self,
        value: &Element,
        memory: Memory,
        index: &[Index],
        shape: &[usize],
    ) -> RuleResult<()> {
        let start = match memory {
            Memory::Window(number) => {
                let (pointer, inside) = self.window_pointer(number, index);
                return match inside {
                    None => {
                        self.store_pointer(value, &pointer, GLOBAL);
                        Ok(())
                    }
                    Some(inside) => self.where_true(&inside, |of| {
                        of.store_pointer(value, &pointer, GLOBAL);
                        Ok(())
                    }),
                };
            }
            Memory::Scratch(number) => self.scratch[number],
            Memory::Shared(start) => start,
        };
        let position = self.text.ravel(index, shape);
        self.store_shared(value, start, &position);
        Ok(())
    }

    /// Copies a value to shared memory, from which its elements are read from now on.
    pub(super) fn staged(&mut self, value: &Value) -> RuleResult<Value> {
        let start = self.allocate(value.n_elements(), value.dtype)?;
        self.for_elements(value.n_elements(), |of, position| {
            let index = of.text.unravel(&position, &value.shape);
            let element = of.element(value, &index)?;
            of.store_shared(&element, start, &position);
            Ok(())
        })?;
        self.barrier();
        let rule = Rule::Memory(Memory::Shared(start));
        Ok(self.value(value.dtype, &value.shape.clone(), rule))
    }
}
