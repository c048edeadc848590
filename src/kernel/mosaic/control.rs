//! Conditions, loops and calls.

use super::emitter::{Emitter, Item, Op};
use super::text::Val;
use crate::control_flow::{Call, Cond, CustomJvp, CustomVjp, Remat, Scan, WhileLoop};
use crate::core::{DType, Program, RuleError, RuleResult};
use crate::primitives::{ComparisonDirection, OptimizationBarrier};

/// Writes an operation that holds programs.
pub(super) fn emit(emitter: &mut Emitter, op: &Op<'_>) -> RuleResult<Option<Vec<Item>>> {
    let operands: Vec<Item> = op.operands.iter().map(|&item| item.clone()).collect();
    let called = [
        op.get::<Call>().map(|call| &call.program),
        op.get::<Remat>().map(|remat| &remat.program),
        op.get::<CustomJvp>().map(|custom| &custom.function.program),
        op.get::<CustomVjp>().map(|custom| &custom.function.program),
    ];
    let results = if let Some(program) = called.into_iter().flatten().next() {
        // The operands of rules come after those of the function.
        let n_inputs = program.inputs().len();
        emitter.program(program, operands.into_iter().take(n_inputs))?
    } else if op.is::<OptimizationBarrier>() {
        operands
    } else if let Some(cond) = op.get::<Cond>() {
        let index = op.value(0)?;
        let branches: Vec<&Program> = cond.branches.iter().map(|branch| &**branch).collect();
        emitter.branches(index, 0, &branches, &operands[1..])?
    } else if let Some(scan) = op.get::<Scan>() {
        emitter.scan(scan, &operands)?
    } else if let Some(while_loop) = op.get::<WhileLoop>() {
        emitter.while_loop(while_loop, &operands)?
    } else {
        return Ok(None);
    };
    Ok(Some(results))
}

/// The form of an item in the operands and results of a region.
#[derive(Clone, Debug)]
enum Slot {
    /// A state. Its memory is known outside.
    Memory(usize),
    Value {
        dtype: DType,
        shape: Vec<usize>,
        multiple: u64,
    },
}

impl Slot {
    fn of(item: &Item) -> Slot {
        match item {
            Item::Memory(memory) => Slot::Memory(*memory),
            Item::Value(value) => {
                Slot::Value { dtype: value.dtype, shape: value.shape.clone(), multiple: 1 }
            }
        }
    }

    /// Returns the dtype in which a value crosses the boundary. Vectors of booleans cannot.
    fn crossing(dtype: DType, shape: &[usize]) -> DType {
        if dtype == DType::Bool && !shape.is_empty() { DType::I32 } else { dtype }
    }
}

impl Emitter {
    /// Returns the values among items in their crossing form.
    fn pack(&mut self, items: &[Item]) -> Vec<Val> {
        let mut values = Vec::new();
        for item in items {
            if let Item::Value(value) = item {
                let dtype = Slot::crossing(value.dtype, &value.shape);
                values.push(self.convert(value, dtype));
            }
        }
        values
    }

    /// Returns the items of slots, from the names of values in their crossing form.
    fn unpack(&mut self, slots: &[Slot], names: &[String]) -> Vec<Item> {
        let mut names = names.iter();
        let mut item = |slot: &Slot| match slot {
            Slot::Memory(memory) => Item::Memory(*memory),
            Slot::Value { dtype, shape, multiple } => {
                let name = names.next().expect("there is a name for each value").clone();
                let crossing = Slot::crossing(*dtype, shape);
                let (shape, multiple) = (shape.clone(), *multiple);
                let value = Val { name, dtype: crossing, shape, multiple };
                Item::Value(self.convert(&value, *dtype))
            }
        };
        slots.iter().map(&mut item).collect()
    }

    /// Ends a region with `terminator` and these values.
    fn terminate(&mut self, terminator: &str, values: &[Val]) {
        let operands: Vec<(&str, String)> =
            values.iter().map(|value| (value.name.as_str(), value.ty())).collect();
        self.text.op(terminator, &operands, "", &[], &[]);
    }

    /// Writes a choice between the branches from number `first` on.
    fn branches(
        &mut self,
        index: &Val,
        first: usize,
        branches: &[&Program],
        operands: &[Item],
    ) -> RuleResult<Vec<Item>> {
        let (&branch, rest) = branches.split_first().expect("there is a branch");
        if rest.is_empty() {
            return self.program(branch, operands.iter().cloned());
        }
        let number = self.text.fill(crate::core::Scalar::Int(first as i128), index.dtype, &[]);
        let is_first = self.compare(ComparisonDirection::Eq, index, &number);
        let mut regions = Vec::new();
        let mut slots: Vec<Slot> = Vec::new();
        let mut types = Vec::new();
        for is_then in [true, false] {
            let outside = self.text.open(&[]);
            let results = match is_then {
                true => self.program(branch, operands.iter().cloned())?,
                false => self.branches(index, first + 1, rest, operands)?,
            };
            check_memories(&slots, &results)?;
            let values = self.pack(&results);
            types = values.iter().map(Val::ty).collect();
            self.terminate("scf.yield", &values);
            regions.push(self.text.close(outside));
            slots = results.iter().map(Slot::of).collect();
        }
        let operand = [(is_first.name.as_str(), is_first.ty())];
        let names = self.text.op("scf.if", &operand, "", &regions, &types);
        Ok(self.unpack(&slots, &names))
    }

    fn scan(&mut self, scan: &Scan, operands: &[Item]) -> RuleResult<Vec<Item>> {
        let n_inputs = scan.n_consts + scan.n_carry;
        if operands.len() != n_inputs || scan.body.outputs().len() != scan.n_carry {
            return Err(RuleError::unsupported("a loop over slices of arrays in a TPU kernel")
                .help("use `kernel::fori_loop`, and read references at `ds(&i, 1)`"));
        }
        let (consts, carry) = operands.split_at(scan.n_consts);
        if scan.length < 2 {
            let mut carry = carry.to_vec();
            for _ in 0..scan.length {
                carry = self.program(&scan.body, consts.iter().cloned().chain(carry))?;
            }
            return Ok(carry);
        }
        let slots: Vec<Slot> = carry.iter().map(Slot::of).collect();
        let initial = self.pack(carry);
        let types: Vec<String> = initial.iter().map(Val::ty).collect();
        let [zero, length, one] = [0, scan.length as i64, 1].map(|number| self.text.int(number));
        let counter = self.text.fresh();
        let names: Vec<String> = initial.iter().map(|_| self.text.fresh()).collect();
        let mut arguments = vec![(counter, "i32".to_string())];
        arguments.extend(names.iter().cloned().zip(types.iter().cloned()));
        let outside = self.text.open(&arguments);
        let items = self.unpack(&slots, &names);
        let results = self.program(&scan.body, consts.iter().cloned().chain(items))?;
        check_memories(&slots, &results)?;
        let values = self.pack(&results);
        self.terminate("scf.yield", &values);
        let region = self.text.close(outside);
        let bounds = [&zero, &length, &one];
        let operands: Vec<(&str, String)> =
            bounds.into_iter().chain(&initial).map(|x| (x.name.as_str(), x.ty())).collect();
        let names = self.text.op("scf.for", &operands, "", &[region], &types);
        Ok(self.unpack(&slots, &names))
    }

    fn while_loop(&mut self, of: &WhileLoop, operands: &[Item]) -> RuleResult<Vec<Item>> {
        let (cond_consts, rest) = operands.split_at(of.n_cond_consts);
        let (body_consts, carry) = rest.split_at(of.n_body_consts);
        let slots: Vec<Slot> = carry.iter().map(Slot::of).collect();
        let initial = self.pack(carry);
        let types: Vec<String> = initial.iter().map(Val::ty).collect();
        let mut regions = Vec::new();
        for is_condition in [true, false] {
            let names: Vec<String> = initial.iter().map(|_| self.text.fresh()).collect();
            let arguments: Vec<(String, String)> =
                names.iter().cloned().zip(types.iter().cloned()).collect();
            let outside = self.text.open(&arguments);
            let items = self.unpack(&slots, &names);
            if is_condition {
                let inputs = cond_consts.iter().cloned().chain(items.iter().cloned());
                let results = self.program(&of.cond, inputs)?;
                let Some(Item::Value(condition)) = results.first() else {
                    return Err(RuleError::unsupported("the condition of the loop is a reference"));
                };
                let mut values = vec![condition.clone()];
                values.extend(self.pack(&items));
                self.terminate("scf.condition", &values);
            } else {
                let inputs = body_consts.iter().cloned().chain(items);
                let results = self.program(&of.body, inputs)?;
                check_memories(&slots, &results)?;
                let values = self.pack(&results);
                self.terminate("scf.yield", &values);
            }
            regions.push(self.text.close(outside));
        }
        let operands: Vec<(&str, String)> =
            initial.iter().map(|x| (x.name.as_str(), x.ty())).collect();
        let names = self.text.op("scf.while", &operands, "", &regions, &types);
        Ok(self.unpack(&slots, &names))
    }
}

/// Checks that the states of a region's results are those of the same references.
fn check_memories(slots: &[Slot], results: &[Item]) -> RuleResult<()> {
    let differs = |(slot, item): (&Slot, &Item)| match (slot, item) {
        (Slot::Memory(expected), Item::Memory(memory)) => expected != memory,
        (Slot::Value { .. }, Item::Value(_)) => false,
        _ => true,
    };
    if slots.iter().zip(results).any(differs) {
        return Err(RuleError::unsupported("exchanges the states of two references")
            .help("copy their elements with `load` and `store`"));
    }
    Ok(())
}
