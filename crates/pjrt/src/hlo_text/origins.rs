//! The operations of the source that an instruction was made for, and its neighbours.

use super::proto::{Computation, Instruction, Module};
use super::sources::{SourceLocation, Sources};
use std::collections::{HashMap, HashSet};

/// Number of instructions between one and a neighbour with a line.
const MAX_STEPS: usize = 8;

/// An operation of the source, as the compiler recorded it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SourceOperation {
    /// Its name with the named scopes around it: `encoder/dot_general`.
    pub name: String,
    /// The line that it was written on.
    pub source: SourceLocation,
}

/// A neighbour of an instruction: the source of a value that it reads, or a use of its result.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Neighbour {
    /// An operation of the source, with the parameters of the program that it reads directly.
    Operation(SourceOperation, Vec<usize>),
    /// A parameter of the program.
    Parameter(usize),
    /// A result of the program.
    Result(usize),
}

/// The origin of an instruction that the compiler may have inserted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origins {
    /// The operation for which the compiler made it.
    pub operation: Option<SourceOperation>,
    /// The nearest known sources of the values that it reads.
    pub operands: Vec<Neighbour>,
    /// The nearest known uses of its results.
    pub users: Vec<Neighbour>,
    /// True if it stands for a part of an asynchronous operation that started in another
    /// computation: compilers for TPUs write it in each fusion that overlaps with it.
    pub continues: bool,
}

/// The instructions of a computation as a graph.
struct Graph<'a> {
    module: &'a Module,
    computation: &'a Computation,
    sources: &'a Sources<'a>,
    index_of: HashMap<i64, usize>,
    users: Vec<Vec<usize>>,
}

/// Returns the name of an instruction, and the origins of those that `is_wanted` accepts by their
/// opcode, in the compiler's order.
pub(super) fn origins(module: &Module, is_wanted: impl Fn(&str) -> bool) -> Vec<(String, Origins)> {
    let sources = Sources::new(module);
    let callers = callers(module);
    let started = started_channels(module);
    let mut found = Vec::new();
    for computation in &module.computations {
        let wanted = |instruction: &&Instruction| is_wanted(&instruction.opcode);
        if !computation.instructions.iter().any(|instruction| wanted(&instruction)) {
            continue;
        }
        let graph = Graph::new(module, computation, &sources);
        for (index, instruction) in computation.instructions.iter().enumerate() {
            if wanted(&instruction) {
                let mut origins = graph.origins(index);
                graph.add_callers(&callers, instruction, &mut origins);
                let channel = instruction.channel_id;
                origins.continues = started.contains(&channel) && !starts_collective(computation);
                found.push((instruction.name.clone(), origins));
            }
        }
    }
    found
}

/// Returns the computation and index of the fusion or call that is the only one of a computation.
fn callers(module: &Module) -> HashMap<i64, Option<(&Computation, usize)>> {
    let mut callers: HashMap<i64, Option<(&Computation, usize)>> = HashMap::new();
    for computation in &module.computations {
        for (index, instruction) in computation.instructions.iter().enumerate() {
            let is_call = matches!(instruction.opcode.as_str(), "fusion" | "call" | "async-start");
            for &called in &instruction.called_computation_ids {
                let caller = callers.entry(called).and_modify(|caller| *caller = None);
                caller.or_insert(is_call.then_some((computation, index)));
            }
        }
    }
    callers
}

/// Returns true for a computation that starts an asynchronous collective of TPUs.
fn starts_collective(computation: &Computation) -> bool {
    let mut instructions = computation.instructions.iter();
    instructions.any(|instruction| instruction.custom_call_target == "AsyncCollectiveStart")
}

/// Returns the channels of the collectives in computations that start them.
fn started_channels(module: &Module) -> HashSet<i64> {
    let starting = module.computations.iter().filter(|computation| starts_collective(computation));
    let instructions = starting.flat_map(|computation| &computation.instructions);
    instructions.map(|it| it.channel_id).filter(|&channel| channel != 0).collect()
}

/// Returns the parameter whose name the compiler gave an instruction that moves it: `Arg_2.1`.
fn named_parameter(instruction: &Instruction) -> Option<usize> {
    let name = &instruction.metadata.as_ref()?.op_name;
    let number = name.strip_prefix("Arg_")?;
    number.split('.').next()?.parse().ok()
}

impl<'a> Graph<'a> {
    /// Adds the neighbours of the fusion that an instruction is in, as far as it has none.
    fn add_callers(
        &self,
        callers: &HashMap<i64, Option<(&'a Computation, usize)>>,
        instruction: &Instruction,
        origins: &mut Origins,
    ) {
        if let Some(parameter) = named_parameter(instruction)
            && !origins.operands.contains(&Neighbour::Parameter(parameter))
        {
            origins.operands.push(Neighbour::Parameter(parameter));
        }
        let mut called = self.computation.id;
        for _ in 0..MAX_STEPS {
            let Some(&Some((computation, index))) = callers.get(&called) else { return };
            let outer = Graph::new(self.module, computation, self.sources).origins(index);
            if origins.operands.is_empty() {
                origins.operands = outer.operands;
            }
            if origins.users.is_empty() {
                origins.users = outer.users;
            }
            called = computation.id;
        }
    }

    fn new(module: &'a Module, computation: &'a Computation, sources: &'a Sources<'a>) -> Self {
        let instructions = &computation.instructions;
        let index_of: HashMap<i64, usize> =
            instructions.iter().enumerate().map(|(index, other)| (other.id, index)).collect();
        let mut graph = Graph {
            module,
            computation,
            sources,
            index_of,
            users: vec![Vec::new(); instructions.len()],
        };
        for index in 0..instructions.len() {
            for operand in graph.operands(index) {
                graph.users[operand].push(index);
            }
        }
        graph
    }

    fn instruction(&self, index: usize) -> &'a Instruction {
        &self.computation.instructions[index]
    }

    fn operands(&self, index: usize) -> Vec<usize> {
        let ids = self.instruction(index).operand_ids.iter();
        ids.filter_map(|id| self.index_of.get(id).copied()).collect()
    }

    /// Returns the operation that an instruction was written for.
    fn operation(&self, index: usize) -> Option<SourceOperation> {
        let instruction = self.instruction(index);
        let source = self.sources.of(instruction)?;
        let name = instruction.metadata.as_ref().map(|it| it.op_name.clone()).unwrap_or_default();
        Some(SourceOperation { name, source })
    }

    /// Returns true if an instruction has the operation `own`, or none.
    fn is_part_of(&self, index: usize, own: &Option<SourceOperation>) -> bool {
        let operation = self.operation(index);
        operation.is_none() || operation == *own
    }

    fn is_entry(&self) -> bool {
        self.computation.id == self.module.entry_computation_id
    }

    /// Returns the number of a parameter of the program.
    fn parameter(&self, index: usize) -> Option<usize> {
        let instruction = self.instruction(index);
        let is_parameter = instruction.opcode == "parameter" && self.is_entry();
        is_parameter.then(|| usize::try_from(instruction.parameter_number).ok()).flatten()
    }

    fn origins(&self, index: usize) -> Origins {
        let operation = self.operation(index);
        let (mut operands, mut users) = (Vec::new(), Vec::new());
        self.walk(index, &operation, &|at| self.operands(at), &mut |at| match self.parameter(at) {
            Some(parameter) => operands.push(Neighbour::Parameter(parameter)),
            None => operands.extend(self.neighbour(at)),
        });
        self.results(index, &mut users);
        self.walk(index, &operation, &|at| self.users[at].clone(), &mut |at| {
            users.extend(self.neighbour(at));
            if self.is_part_of(at, &operation) {
                self.results(at, &mut users);
            }
        });
        Origins { operation, operands, users, continues: false }
    }

    fn neighbour(&self, index: usize) -> Option<Neighbour> {
        let operation = self.operation(index)?;
        let read = self.operands(index).into_iter().flat_map(|at| self.parameter_behind(at));
        Some(Neighbour::Operation(operation, read.collect()))
    }

    /// Returns the parameter that a value is, or is a copy of.
    fn parameter_behind(&self, mut index: usize) -> Option<usize> {
        for _ in 0..MAX_STEPS {
            if let Some(parameter) = self.parameter(index) {
                return Some(parameter);
            }
            match self.operands(index).as_slice() {
                &[only] if self.operation(index).is_none() => index = only,
                _ => return None,
            }
        }
        None
    }

    /// Appends the results of the program that an instruction is.
    fn results(&self, index: usize, found: &mut Vec<Neighbour>) {
        if !self.is_entry() {
            return;
        }
        let root = self.index_of.get(&self.computation.root_id).copied();
        let Some(root) = root else { return };
        if self.instruction(root).opcode == "tuple" {
            let outputs = self.operands(root).into_iter().enumerate();
            let outputs = outputs.filter(|(_, value)| *value == index);
            found.extend(outputs.map(|(output, _)| Neighbour::Result(output)));
        } else if root == index {
            found.push(Neighbour::Result(0));
        }
    }

    /// Calls `visit` with the instructions around one, each once, in the direction of `next`. The
    /// walk ends at those with another line than `own`, and at parameters.
    fn walk(
        &self,
        start: usize,
        own: &Option<SourceOperation>,
        next: &dyn Fn(usize) -> Vec<usize>,
        visit: &mut dyn FnMut(usize),
    ) {
        let mut visited: HashSet<usize> = HashSet::from([start]);
        let mut frontier = next(start);
        for _ in 0..MAX_STEPS {
            let mut further = Vec::new();
            for at in std::mem::take(&mut frontier) {
                if !visited.insert(at) || self.instruction(at).opcode == "constant" {
                    continue;
                }
                visit(at);
                if self.is_part_of(at, own) {
                    further.extend(next(at));
                }
            }
            frontier = further;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::proto::Metadata;
    use super::*;

    fn instruction(
        id: i64,
        opcode: &str,
        operands: &[i64],
        at: Option<(&str, i32)>,
    ) -> Instruction {
        let metadata = at.map(|(name, source_line)| Metadata {
            op_name: name.into(),
            source_file: "a.rs".into(),
            source_line,
            ..Metadata::default()
        });
        Instruction {
            name: format!("{opcode}.{id}"),
            opcode: opcode.into(),
            id,
            operand_ids: operands.into(),
            metadata,
            parameter_number: if opcode == "parameter" { id } else { 0 },
            ..Instruction::default()
        }
    }

    #[test]
    fn neighbours_with_lines_are_found_behind_those_without() {
        let instructions = vec![
            instruction(0, "parameter", &[], None),
            instruction(1, "parameter", &[], None),
            instruction(2, "dot", &[0, 1], Some(("dot_general", 3))),
            instruction(3, "all-reduce", &[2], Some(("dot_general", 3))),
            instruction(4, "bitcast", &[3], None),
            instruction(5, "sine", &[4], Some(("sin", 5))),
            instruction(6, "copy", &[1], None),
            instruction(7, "all-gather", &[6], None),
            instruction(8, "tuple", &[5, 7], None),
        ];
        let computation = Computation { instructions, id: 1, root_id: 8, ..Computation::default() };
        let module = Module {
            computations: vec![computation],
            entry_computation_id: 1,
            ..Module::default()
        };
        let at = |name: &str, line: u32| SourceOperation {
            name: name.into(),
            source: SourceLocation { file: "a.rs".into(), line },
        };
        let found = origins(&module, |opcode| opcode.starts_with("all-"));
        let [(reduce, reduced), (gather, gathered)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((reduce.as_str(), gather.as_str()), ("all-reduce.3", "all-gather.7"));
        assert_eq!(reduced.operation, Some(at("dot_general", 3)));
        let dot = Neighbour::Operation(at("dot_general", 3), vec![0, 1]);
        let parameters = [Neighbour::Parameter(0), Neighbour::Parameter(1)];
        assert_eq!(reduced.operands, [vec![dot], parameters.to_vec()].concat());
        assert_eq!(reduced.users, [Neighbour::Operation(at("sin", 5), Vec::new())]);
        assert_eq!((&gathered.operation, &gathered.operands[..]), (&None, &parameters[1..]));
        assert_eq!(gathered.users, [Neighbour::Result(1)]);
    }

    #[test]
    fn collectives_in_fusions_have_the_neighbours_of_the_fusion() {
        let gather = |id: i64, channel_id: i64| Instruction {
            channel_id,
            metadata: Some(Metadata { op_name: "Arg_7.1".into(), ..Metadata::default() }),
            ..instruction(id, "all-gather", &[], None)
        };
        let start = Instruction {
            custom_call_target: "AsyncCollectiveStart".into(),
            ..instruction(2, "custom-call", &[1], None)
        };
        let fusion = |id: i64, operands: &[i64], called: i64| Instruction {
            called_computation_ids: vec![called],
            ..instruction(id, "fusion", operands, None)
        };
        let of = |id: i64, instructions: Vec<Instruction>| Computation {
            instructions,
            id,
            root_id: -1,
            ..Computation::default()
        };
        let scatter = of(3, vec![instruction(1, "all-reduce", &[], None)]);
        let entry = of(
            4,
            vec![
                fusion(1, &[], 1),
                fusion(2, &[], 2),
                instruction(3, "dot", &[], Some(("dot_general", 3))),
                fusion(4, &[3], 3),
                instruction(5, "sine", &[4], Some(("sin", 5))),
            ],
        );
        let module = Module {
            computations: vec![
                of(1, vec![gather(1, 8), start]),
                of(2, vec![gather(3, 8)]),
                scatter,
                entry,
            ],
            entry_computation_id: 4,
            ..Module::default()
        };
        let found = origins(&module, |opcode| opcode.starts_with("all-"));
        let continues: Vec<bool> = found.iter().map(|(_, origins)| origins.continues).collect();
        assert_eq!(continues, [false, true, false]);
        assert_eq!(found[0].1.operands, [Neighbour::Parameter(7)]);
        let at = |name: &str, line: u32| {
            let source = SourceLocation { file: "a.rs".into(), line };
            vec![Neighbour::Operation(SourceOperation { name: name.into(), source }, Vec::new())]
        };
        let reduced = &found[2].1;
        assert_eq!((&reduced.operands, &reduced.users), (&at("dot_general", 3), &at("sin", 5)));
    }
}
