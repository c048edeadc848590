//! Functions that are compiled again because a `Jit` is created again: in a loop.

use super::call_key::CallKey;
use crate::core::{Array, Buffer, Kind, Loc, Program, RecompilationCause};
use rustc_hash::{FxHashMap, FxHasher};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::panic::Location;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Number of lines that are remembered.
const LINES: usize = 256;
/// Number of signatures per line that are remembered.
const SIGNATURES: usize = 4;
/// Number of operations per program that are compared.
const OPERATIONS: usize = 512;
/// Number of letters that are kept of a parameter.
const LETTERS: usize = 40;

/// The place that creates a `Jit`.
#[derive(Clone, Copy)]
pub(super) struct Creation {
    /// The line of `jit`.
    pub(super) loc: Loc,
    /// The type of the function: a generic function creates `Jit`s of several at one line.
    function: &'static str,
    /// A number for each `Jit` of the process.
    jit: u64,
}

impl Creation {
    /// Returns the creation of a `Jit` of `F` at a line.
    pub(super) fn of<F>(loc: Loc) -> Creation {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let jit = NEXT.fetch_add(1, Ordering::Relaxed);
        Creation { loc, function: std::any::type_name::<F>(), jit }
    }
}

/// An operation of a program, for comparison.
struct Operation {
    hash: u64,
    loc: Loc,
    name: &'static str,
    /// The parameters, as `field=value`.
    fields: Vec<String>,
}

impl Operation {
    /// Writes the operation with the parameters that differ from those of `other`.
    fn text(&self, other: Option<&Operation>) -> String {
        let other = other.filter(|other| other.name == self.name);
        let is_new = |field: &&String| other.is_none_or(|other| !other.fields.contains(field));
        let fields: Vec<&str> = self.fields.iter().filter(is_new).map(String::as_str).collect();
        match fields.is_empty() {
            true => self.name.to_string(),
            false => format!("{}[{}]", self.name, fields.join(" ")),
        }
    }
}

/// The operations of a program, with those of the programs that its operations hold.
#[derive(Default)]
struct Operations {
    /// The first of them.
    list: Vec<Operation>,
    /// The hash of all.
    hasher: FxHasher,
}

impl Operations {
    fn collect(&mut self, program: &Program) {
        for eqn in program.eqns() {
            let mut hasher = FxHasher::default();
            let holder = eqn.primitive.as_higher_order();
            let fields = match self.list.len() < OPERATIONS {
                true => fields(&eqn.primitive.params()),
                false => Vec::new(),
            };
            // Closures differ at each trace: of an operation that holds one, only the name counts.
            if eqn.primitive.is_opaque() {
                eqn.primitive.name().hash(&mut hasher);
            } else if holder.is_some() {
                (eqn.primitive.name(), &fields).hash(&mut hasher);
            } else {
                eqn.primitive.dyn_hash(&mut hasher);
            }
            let (hash, loc, name) = (hasher.finish(), eqn.loc, eqn.primitive.name());
            (hash, &eqn.operands).hash(&mut self.hasher);
            if self.list.len() < OPERATIONS {
                self.list.push(Operation { hash, loc, name, fields });
            }
            for (_, inner) in holder.map(|holder| holder.programs()).unwrap_or_default() {
                self.collect(inner);
            }
        }
        program.outputs().hash(&mut self.hasher);
    }
}

/// Returns parameters as `field=value`, with long values cut.
fn fields(params: &serde_json::Value) -> Vec<String> {
    let serde_json::Value::Object(fields) = params else { return Vec::new() };
    let cut = |mut text: String| {
        if let Some((end, _)) = text.char_indices().nth(LETTERS) {
            text.truncate(end);
            text.push('…');
        }
        text
    };
    fields.iter().map(|(field, value)| cut(format!("{field}={value}"))).collect()
}

/// The parts of a compilation that another `Jit` of the same line may do differently.
pub(super) struct Captured {
    operations: Vec<Operation>,
    program: u64,
    arrays: Vec<(String, Option<Weak<dyn Buffer>>)>,
    /// The options of the `Jit`, by name.
    options: Vec<(String, String)>,
}

impl Captured {
    pub(super) fn new(
        program: &Program,
        captures: &[Array],
        options: Vec<(String, String)>,
    ) -> Captured {
        let mut operations = Operations::default();
        operations.collect(program);
        let arrays = captures.iter().map(|array| {
            let buffer = match &array.kind {
                Kind::Concrete(buffer) => Some(Arc::downgrade(buffer)),
                Kind::Traced { .. } => None,
            };
            (array.aval().to_string(), buffer)
        });
        let arrays = arrays.collect();
        Captured {
            program: operations.hasher.finish(),
            operations: operations.list,
            arrays,
            options,
        }
    }

    /// Returns the differences to the compilation of an earlier `Jit`.
    fn changes_since(&self, earlier: &Captured) -> Vec<RecompilationCause> {
        let mut causes = Vec::new();
        let value = |options: &[(String, String)], name: &str| {
            let option = options.iter().find(|(other, _)| other == name);
            option.map_or_else(|| "not set".to_string(), |(_, value)| value.clone())
        };
        let names = earlier.options.iter().chain(&self.options).map(|(name, _)| name);
        let mut compared: Vec<&String> = Vec::new();
        for name in names {
            let (old, new) = (value(&earlier.options, name), value(&self.options, name));
            if old != new && !compared.contains(&name) {
                causes.push(RecompilationCause::Setting { name: name.clone(), old, new });
                compared.push(name);
            }
        }
        for index in 0..self.arrays.len().max(earlier.arrays.len()) {
            let (old, new) = (earlier.arrays.get(index), self.arrays.get(index));
            let is_same = match (old, new) {
                (Some((a, Some(old))), Some((b, Some(new)))) => {
                    a == b && ptr::addr_eq(old.as_ptr(), new.as_ptr())
                }
                _ => false,
            };
            if !is_same {
                let [old, new] = [old, new].map(|array| array.map(|(aval, _)| aval.clone()));
                causes.push(RecompilationCause::CapturedArray { index, old, new });
            }
        }
        let types = |captured: &Captured| -> Vec<String> {
            captured.arrays.iter().map(|(aval, _)| aval.clone()).collect()
        };
        // With arrays of other types, the operations differ for that reason.
        if self.program != earlier.program && types(self) == types(earlier) {
            causes.push(self.changed_operation(earlier));
        }
        causes
    }

    /// Returns the first operation that differs.
    fn changed_operation(&self, earlier: &Captured) -> RecompilationCause {
        let count = self.operations.len().max(earlier.operations.len());
        let pairs = (0..count).map(|at| (earlier.operations.get(at), self.operations.get(at)));
        let differs = |(old, new): &(Option<&Operation>, Option<&Operation>)| {
            old.map(|old| old.hash) != new.map(|new| new.hash)
        };
        let (old, new) = pairs.into_iter().find(differs).unwrap_or((None, None));
        let at = new.or(old).map_or(Loc::UNKNOWN, |operation| operation.loc);
        let texts = (old.map(|it| it.text(new)), new.map(|it| it.text(old)));
        RecompilationCause::CapturedValue { at, old: texts.0, new: texts.1 }
    }
}

/// A signature that `Jit`s of one line compiled.
struct Compiled {
    key: CallKey,
    captured: Captured,
    /// The `Jit` that compiled it last.
    jit: u64,
    /// The line of the call that compiled it last.
    loc: Loc,
    /// The number of `Jit`s that compiled it.
    times: u64,
}

/// The signatures of one line.
#[derive(Default)]
struct Line {
    compiled: VecDeque<Compiled>,
    last_use: u64,
}

/// The lines that created `Jit`s which compiled.
#[derive(Default)]
struct Lines {
    lines: FxHashMap<(&'static Location<'static>, &'static str), Line>,
    clock: u64,
}

static CREATED: Mutex<Option<Lines>> = Mutex::new(None);

/// A signature that another `Jit` of the same line had compiled.
pub(super) struct CreatedAgain {
    pub(super) causes: Vec<RecompilationCause>,
    /// The line of the call that compiled it before.
    pub(super) earlier: Loc,
    /// The number of `Jit`s that compiled it.
    pub(super) times: u64,
}

/// Remembers that a `Jit` compiled a signature. Returns the reason if another `Jit` of the same
/// line had compiled it.
pub(super) fn note(
    creation: Creation,
    key: &CallKey,
    captured: Captured,
    loc: Loc,
) -> Option<CreatedAgain> {
    // The named scope around it does not matter.
    let site = (creation.loc.get()?, creation.function);
    let mut created = CREATED.lock().unwrap_or_else(PoisonError::into_inner);
    created.get_or_insert_default().note(site, creation, key, captured, loc)
}

impl Lines {
    fn note(
        &mut self,
        site: (&'static Location<'static>, &'static str),
        creation: Creation,
        key: &CallKey,
        captured: Captured,
        loc: Loc,
    ) -> Option<CreatedAgain> {
        if self.lines.len() >= LINES && !self.lines.contains_key(&site) {
            let oldest = self.lines.iter().min_by_key(|(_, line)| line.last_use);
            let oldest = oldest.map(|(site, _)| *site);
            oldest.map(|oldest| self.lines.remove(&oldest));
        }
        self.clock += 1;
        let line = self.lines.entry(site).or_default();
        line.last_use = self.clock;
        let position = line.compiled.iter().position(|compiled| compiled.key.equals(key));
        let earlier = position.and_then(|position| line.compiled.remove(position));
        let is_other = earlier.as_ref().is_some_and(|earlier| earlier.jit != creation.jit);
        let times = earlier.as_ref().map_or(1, |earlier| earlier.times + u64::from(is_other));
        let again = earlier.filter(|_| is_other).map(|earlier| {
            let created = creation.loc;
            let mut causes = vec![RecompilationCause::CreatedAgain { created, times }];
            causes.extend(captured.changes_since(&earlier.captured));
            CreatedAgain { causes, earlier: earlier.loc, times }
        });
        if line.compiled.len() >= SIGNATURES {
            line.compiled.pop_front();
        }
        let key = key.clone();
        line.compiled.push_back(Compiled { key, captured, jit: creation.jit, loc, times });
        again
    }
}
