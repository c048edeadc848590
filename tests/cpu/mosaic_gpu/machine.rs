//! An evaluator of the text of Mosaic GPU. It runs the programs of the grid one after the other,
//! and the threads of a program together, one operation at a time.
//!
//! It panics at accesses beyond an array, at elements that one thread writes and another one
//! accesses without a barrier between, and at barriers and exchanges that not all threads reach.

use super::operations::{constant, element};
use std::collections::HashMap;

/// An operation of the text.
#[derive(Debug)]
struct Op {
    result: String,
    name: String,
    operands: Vec<String>,
    attributes: String,
    regions: Vec<Region>,
    types: Vec<String>,
    result_type: String,
}

#[derive(Debug, Default)]
struct Region {
    arguments: Vec<String>,
    ops: Vec<Op>,
}

/// The names in a text, each with its `%`.
fn names(text: &str) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "%_#".contains(c);
    let words = text.split(|c| !is_name(c)).filter(|word| word.starts_with('%'));
    words.map(str::to_string).collect()
}

fn items(text: &str) -> Vec<String> {
    text.split(", ").filter(|item| !item.is_empty()).map(str::to_string).collect()
}

fn parse_region(lines: &mut std::iter::Peekable<std::str::Lines<'_>>) -> Region {
    let mut region = Region::default();
    if let Some(arguments) = lines.peek().and_then(|line| line.strip_prefix("^bb0(")) {
        region.arguments = names(arguments);
        lines.next();
    }
    while lines.peek().is_some_and(|line| !line.starts_with('}')) {
        region.ops.push(parse_op(lines));
    }
    region
}

fn parse_op(lines: &mut std::iter::Peekable<std::str::Lines<'_>>) -> Op {
    let line = lines.next().expect("a line");
    let (result, right) = match line.starts_with('%') {
        true => line.split_once(" = ").unwrap(),
        false => ("", line),
    };
    let (name, rest) = right.strip_prefix("\"stable_mosaic_gpu.").unwrap().split_once('"').unwrap();
    let (operands, mut rest) = rest.split_once(')').unwrap();
    let (mut regions, mut last) = (Vec::new(), rest);
    while last.ends_with('{') {
        regions.push(parse_region(lines));
        last = lines.next().expect("the end of a region");
        rest = last;
    }
    let (attributes, types) = rest.rsplit_once(" : (").expect("an operation has types");
    let types = types.split(" loc(").next().unwrap();
    let (types, result_type) = types.rsplit_once(" -> ").unwrap();
    Op {
        result: result.split(':').next().unwrap().to_string(),
        name: name.to_string(),
        operands: names(operands),
        attributes: attributes.to_string(),
        regions,
        types: items(types.trim_end_matches(')')),
        result_type: result_type.to_string(),
    }
}

/// The last accesses of an element: the barrier before, and the thread.
#[derive(Clone, Copy, Default)]
struct Accesses {
    write: Option<(usize, usize)>,
    read: Option<(usize, usize)>,
}

/// The bits of a pointer above the offset: the number of the array.
const ARRAY: u32 = 40;
/// The number of shared memory.
const SHARED: usize = 1 << 10;
/// The number of the list of pointers.
const LIST: usize = 1 << 11;

/// Runs programs of a kernel on the bytes of arrays.
pub struct Machine {
    arrays: Vec<Vec<u8>>,
    shared: Vec<u8>,
    values: HashMap<String, Vec<u64>>,
    n_threads: usize,
    n_barriers: usize,
    accesses: HashMap<u64, Accesses>,
    pub n_programs: usize,
}

impl Machine {
    /// Runs all programs of a module. `arrays` are those of operands and results.
    pub fn run(text: &str, arrays: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let mut lines = text.lines().peekable();
        lines.next().filter(|line| line.contains("version = 9")).expect("a module");
        let function = parse_op(&mut lines);
        let mut machine = Machine {
            arrays,
            shared: Vec::new(),
            values: HashMap::new(),
            n_threads: 1,
            n_barriers: 0,
            accesses: HashMap::new(),
            n_programs: 0,
        };
        machine.values.insert("%spec".to_string(), vec![0]);
        machine.values.insert("%arrays".to_string(), vec![(LIST as u64) << ARRAY]);
        machine.block(&function.regions[0].ops, &[true]);
        machine.arrays
    }

    fn get(&self, name: &str, thread: usize) -> u64 {
        let value = self.values.get(name).unwrap_or_else(|| panic!("{name} is defined"));
        value[if value.len() == 1 { 0 } else { thread }]
    }

    /// Runs operations. Returns the names of the values that the last one yields.
    fn block<'a>(&mut self, ops: &'a [Op], active: &[bool]) -> &'a [String] {
        for op in ops {
            if op.name == "scf.yield" {
                return &op.operands;
            }
            self.op(op, active);
        }
        &[]
    }

    fn op(&mut self, op: &Op, active: &[bool]) {
        let threads = || (0..active.len()).filter(|&thread| active[thread]);
        match op.name.as_str() {
            "gpu.launch" => return self.launch(op),
            "scf.for" => return self.run_for(op, active),
            "scf.if" => return self.run_if(op, active),
            "gpu.barrier" => {
                assert!(active.iter().all(|&is_active| is_active), "a barrier of some threads");
                self.n_barriers += 1;
                return;
            }
            "llvm.store" => {
                for thread in threads() {
                    let (bits, pointer) =
                        (self.get(&op.operands[0], thread), self.get(&op.operands[1], thread));
                    self.store(pointer, bits, bytes(&op.types[0]), thread);
                }
                return;
            }
            "gpu.terminator" | "func.return" => return,
            _ => {}
        }
        let mut result = vec![0; active.len()];
        for thread in threads() {
            let x: Vec<u64> = op.operands.iter().map(|name| self.get(name, thread)).collect();
            result[thread] = match op.name.as_str() {
                "arith.constant" => {
                    let value = op.attributes.split_once("value = ").unwrap().1;
                    constant(value.trim_end_matches('}'))
                }
                "builtin.unrealized_conversion_cast" | "llvm.inttoptr" => x[0],
                "gpu.dynamic_shared_memory" => (SHARED as u64) << ARRAY,
                "memref.extract_aligned_pointer_as_index" => x[0],
                "llvm.getelementptr" => {
                    let size = bytes(attribute(&op.attributes, "elem_type = "));
                    x[0].wrapping_add(
                        super::operations::signed(x[1], &op.types[1]) as u64 * size as u64,
                    )
                }
                "llvm.load" => self.load(x[0], bytes(&op.result_type), thread),
                "gpu.shuffle" => {
                    let partner = thread ^ x[1] as usize;
                    assert!(active[partner], "an exchange with a thread elsewhere");
                    self.get(&op.operands[0], partner)
                }
                // Indices have 64 bits.
                "arith.index_cast" if op.result_type == "i64" => x[0],
                name => {
                    let types: Vec<&str> = op.types.iter().map(String::as_str).collect();
                    let predicate = match name.starts_with("arith.cmp") {
                        true => attribute(&op.attributes, "predicate = ").parse().unwrap(),
                        false => 0,
                    };
                    element(name, &x, predicate, (&types, &op.result_type))
                }
            };
        }
        let name =
            if op.name == "gpu.shuffle" { format!("{}#0", op.result) } else { op.result.clone() };
        self.values.insert(name, result);
    }

    fn launch(&mut self, op: &Op) {
        let size = |number: usize| self.get(&op.operands[number], 0) as usize;
        let (n_programs, n_threads, n_bytes) = (size(1), size(4), size(7));
        self.n_programs = n_programs;
        for program in 0..n_programs {
            let arguments = &op.regions[0].arguments;
            self.values.insert(arguments[0].clone(), vec![program as u64]);
            self.values.insert(arguments[3].clone(), (0..n_threads as u64).collect());
            // NaN and large indices.
            self.shared = vec![0x7F; n_bytes];
            self.n_threads = n_threads;
            self.accesses.clear();
            self.block(&op.regions[0].ops, &vec![true; n_threads]);
        }
    }

    fn run_for(&mut self, op: &Op, active: &[bool]) {
        let bound = |of: &Self, number: usize| -> Vec<i64> {
            let value = |thread| of.get(&op.operands[number], thread) as i64;
            (0..active.len()).map(value).collect()
        };
        let (mut index, end, step) = (bound(self, 0), bound(self, 1), bound(self, 2));
        let body = &op.regions[0];
        let carry = op.operands.get(3);
        let mut carried: Option<Vec<u64>> =
            carry.map(|carry| (0..active.len()).map(|thread| self.get(carry, thread)).collect());
        loop {
            let inside: Vec<bool> =
                (0..active.len()).map(|t| active[t] && index[t] < end[t]).collect();
            if !inside.iter().any(|&is_inside| is_inside) {
                break;
            }
            let bits = index.iter().map(|&index| index as u64).collect();
            self.values.insert(body.arguments[0].clone(), bits);
            if let Some(carried) = &carried {
                self.values.insert(body.arguments[1].clone(), carried.clone());
            }
            let next = self.block(&body.ops, &inside);
            for thread in (0..active.len()).filter(|&thread| inside[thread]) {
                if let (Some(carried), [next]) = (&mut carried, next) {
                    carried[thread] = self.get(next, thread);
                }
                index[thread] += step[thread];
            }
        }
        if let Some(carried) = carried {
            self.values.insert(op.result.clone(), carried);
        }
    }

    fn run_if(&mut self, op: &Op, active: &[bool]) {
        let mut result = vec![0; active.len()];
        for (region, is_yes) in op.regions.iter().zip([true, false]) {
            let holds = |thread: usize| (self.get(&op.operands[0], thread) == 1) == is_yes;
            let inside: Vec<bool> =
                (0..active.len()).map(|thread| active[thread] && holds(thread)).collect();
            if !inside.iter().any(|&is_inside| is_inside) {
                continue;
            }
            if let [name] = self.block(&region.ops, &inside) {
                for thread in (0..active.len()).filter(|&thread| inside[thread]) {
                    result[thread] = self.get(name, thread);
                }
            }
        }
        self.values.insert(op.result.clone(), result);
    }

    fn load(&mut self, pointer: u64, size: usize, thread: usize) -> u64 {
        let (array, offset) =
            ((pointer >> ARRAY) as usize, (pointer & ((1 << ARRAY) - 1)) as usize);
        if array == LIST {
            return (offset as u64 / 8) << ARRAY;
        }
        let accesses = self.accesses.entry(pointer).or_default();
        let here = (self.n_barriers, thread);
        if let Some((barrier, writer)) = accesses.write {
            assert!(barrier < here.0 || writer == thread, "{writer} writes what {thread} reads");
        }
        // Of several readers, one other than this thread is kept.
        accesses.read = match accesses.read {
            Some(before) if before.0 == here.0 && before.1 != thread => Some(before),
            _ => Some(here),
        };
        let memory = if array == SHARED { &self.shared } else { &self.arrays[array] };
        let bytes = &memory[offset..offset + size];
        let mut bits = [0; 8];
        bits[..size].copy_from_slice(bytes);
        u64::from_le_bytes(bits)
    }

    fn store(&mut self, pointer: u64, bits: u64, size: usize, thread: usize) {
        let (array, offset) =
            ((pointer >> ARRAY) as usize, (pointer & ((1 << ARRAY) - 1)) as usize);
        let accesses = self.accesses.entry(pointer).or_default();
        for (what, before) in [("writes", accesses.write), ("reads", accesses.read)] {
            if let Some((barrier, other)) = before {
                let is_safe = barrier < self.n_barriers || other == thread;
                assert!(is_safe, "{other} {what} what {thread} writes");
            }
        }
        accesses.write = Some((self.n_barriers, thread));
        let memory = if array == SHARED { &mut self.shared } else { &mut self.arrays[array] };
        memory[offset..offset + size].copy_from_slice(&bits.to_le_bytes()[..size]);
    }
}

/// Returns the text after a name in attributes, up to the next one.
fn attribute<'a>(text: &'a str, name: &str) -> &'a str {
    text.split_once(name).unwrap().1.split([',', ' ', '}']).next().unwrap()
}

/// Returns the bytes of an element of a type.
fn bytes(ty: &str) -> usize {
    match ty {
        "i8" => 1,
        "i16" | "bf16" | "f16" => 2,
        "i32" | "f32" => 4,
        _ => 8,
    }
}
