//! [`ExplainedCollective`]: a collective of a compiled program, with its line and its cause.

use super::common_cause::{common_cause, unique};
use crate::core::{Collective, Error, Loc, Mesh, OpError, OpErrorKind, Program, SourceLine, units};
use crate::passes::{self, Movement, Plan};
use crate::runtime::{
    Collectives, CompiledCollective, CompilerReport, ExchangedAxes, NamedLine, over_axes,
};
use serde::Serialize;
use std::fmt;

/// A collective of a compiled program: what it exchanges, for which line of the user, and why.
///
/// [`Compiled::collectives`](super::Compiled::collectives) lists them, and with the feature
/// `roofline` `Compiled::explain` adds their predicted times.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ExplainedCollective {
    /// The kind of collective.
    pub kind: Collective,
    /// The compiler's name for it: `all-reduce.3`.
    pub name: String,
    /// The line of the operation that needs it. `None` if the compiler did not record it.
    pub place: Option<SourceLine>,
    /// The operation that needs it: `dot_general`.
    pub operation: Option<String>,
    /// The [named scopes](crate::core::named_scope) around that operation, joined by `/`. Empty if
    /// there are none.
    pub scope: String,
    /// The bytes of its result on one device, for one run.
    pub bytes: u64,
    /// The mesh axes along which devices exchange data. Empty if the groups of devices do not
    /// follow the axes.
    pub axes: Vec<String>,
    /// The number of devices that exchange data with each other.
    pub group_size: usize,
    /// The number of runs in a call; `None` in a loop whose trip count the compiler does not
    /// report.
    pub runs: Option<u64>,
    /// True if the user wrote it, as `psum` inside `shard_map`; false if the compiler inserted it.
    pub is_written: bool,
    /// The reason: the operands, their shardings, and what the operation needs. `None` if the
    /// program does not tell.
    pub cause: Option<String>,
}

impl ExplainedCollective {
    /// Returns the bytes that each device sends in one run, if the devices form a ring.
    pub fn bytes_sent(&self) -> u64 {
        let (n, bytes) = (self.group_size.max(1) as u64, self.bytes);
        let others = |bytes: u64| (u128::from(bytes) * u128::from(n - 1) / u128::from(n)) as u64;
        match self.kind {
            Collective::AllReduce => others(bytes).saturating_mul(2),
            Collective::ReduceScatter => bytes.saturating_mul(n - 1),
            Collective::CollectivePermute | Collective::CollectiveBroadcast => bytes,
            _ => others(bytes),
        }
    }

    /// Returns the kind, size and axes: ``all-reduce of 1.0 KiB over `model` (2 devices)``.
    pub(crate) fn summary(&self) -> String {
        let runs = match self.runs {
            Some(1) => String::new(),
            Some(runs) => format!(", {runs} times"),
            None => ", an unknown number of times".to_string(),
        };
        let over = over_axes(&self.axes, self.group_size);
        format!("{} of {} {over}{runs}", self.kind, units::size(self.bytes))
    }
}

impl ExplainedCollective {
    /// Returns the kind, bytes, axes and line.
    pub(crate) fn headline(&self) -> String {
        let mut text = self.summary();
        match &self.place {
            Some(place) => text += &format!(" at {place}"),
            None => text += " of no line",
        }
        if !self.scope.is_empty() {
            text += &format!(" in {}", self.scope);
        }
        text
    }
}

impl fmt::Display for ExplainedCollective {
    /// Writes the kind, bytes, axes, line and cause.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headline())?;
        match &self.cause {
            Some(cause) => write!(f, ", because {cause}"),
            None => Ok(()),
        }
    }
}

/// The shardings of a compiled program, and the names of its inputs and outputs.
#[derive(Clone, Debug, Default)]
pub(super) struct CallNames {
    pub(super) plan: Plan,
    /// The paths of the arguments. Inputs after them are captured arrays.
    pub(super) arguments: Vec<String>,
    /// The paths of the results.
    pub(super) results: Vec<String>,
}

/// A collective and the equation that explains it.
pub(super) struct Explained {
    pub(super) collective: ExplainedCollective,
    /// The location of that equation. Unknown if the program does not explain the collective.
    pub(super) loc: Loc,
    /// True if the operation is inside `no_collectives`.
    pub(super) is_refused: bool,
}

/// Explains the collectives of a compiled program by the shardings of the traced one.
pub(super) fn explained(
    program: Option<&Program>,
    names: &CallNames,
    collectives: &Collectives,
) -> Vec<Explained> {
    let Some(mesh) = names.plan.mesh() else { return Vec::new() };
    let mut inputs: Vec<String> = names.arguments.iter().map(|path| format!("`{path}`")).collect();
    let n_inputs = program.map_or(0, |program| program.inputs().len());
    let captured = n_inputs.saturating_sub(inputs.len());
    inputs.extend((0..captured).map(|index| format!("captured array {index}")));
    let movements = program.map_or_else(Vec::new, |program| {
        passes::movements(program, &names.plan, &inputs, &names.results)
    });
    let each = collectives.each().iter().filter(|found| !found.origins.continues());
    each.map(|found| explain(found, mesh, &movements)).collect()
}

/// Checks that a compiled program has no collective inside `no_collectives`, or none at all if the
/// whole function refuses them.
///
/// # Errors
/// `Op` (collective); `Runtime` if the plugin does not provide the optimized program.
pub(super) fn check_collectives(
    report: &CompilerReport,
    program: &Program,
    names: &CallNames,
    whole: bool,
) -> Result<(), Error> {
    let mut refused = explained(Some(program), names, &report.collectives()?);
    refused.retain(|found| whole || found.is_refused);
    let bytes = |found: &Explained| {
        let runs = found.collective.runs.unwrap_or(1);
        found.collective.bytes_sent().saturating_mul(runs)
    };
    // The first of equal ones, in the compiler's order.
    let Some(largest) = refused.iter().rev().max_by_key(|found| bytes(found)) else {
        return Ok(());
    };
    let ExplainedCollective { operation, place, cause, is_written, .. } = &largest.collective;
    let mut message = largest.collective.summary();
    if let (None, Some(place)) = (largest.loc.get(), place) {
        message += &format!(" at {place}");
    }
    message += " inside `no_collectives`";
    let mut notes: Vec<String> = cause.iter().map(|cause| format!("because {cause}")).collect();
    if refused.len() > 1 {
        let others = refused.len() - 1;
        let all: u64 = refused.iter().map(bytes).fold(0, u64::saturating_add);
        let plural = if others == 1 { "" } else { "s" };
        let sent = units::size(all);
        notes.push(format!(
            "{others} more collective{plural} inside; each device sends {sent} in a call"
        ));
    }
    let help = if *is_written {
        "move it out of `no_collectives`"
    } else {
        "reshard the operand before `no_collectives`, or choose shardings with which each device \
         has what it needs; `Compiled::explain` lists all collectives"
    };
    Err(Error::Op(Box::new(OpError {
        kind: OpErrorKind::Collective,
        primitive: operation.clone().unwrap_or_else(|| report.name().to_string()),
        message,
        operands: Vec::new(),
        note: Some(notes.join("\n  ")).filter(|note| !note.is_empty()),
        loc: largest.loc,
        path: vec![format!("jit({})", report.name())],
        help: Some(help.to_string()),
    })))
}

fn explain(found: &CompiledCollective, mesh: &Mesh, movements: &[Movement]) -> Explained {
    let ExchangedAxes { axes, follows, size } = found.exchanged_axes(mesh);
    let axes: Vec<String> = axes.iter().map(|&axis| mesh.axes()[axis].0.clone()).collect();
    let own = found.origins.own();
    // One for each of several collectives that the compiler combined.
    let parts: Vec<Option<NamedLine<'_>>> = match own {
        Some(line) => combined(line, found).into_iter().map(Some).collect(),
        None => vec![None],
    };
    let best: Vec<Vec<&Movement>> =
        parts.iter().map(|&part| best_movements(movements, found, part, &axes)).collect();
    let causes = unique(best.iter().filter_map(|best| common_cause(best)));
    let all: Vec<&Movement> = best.iter().flatten().copied().collect();
    // The largest one, and of equal ones the first.
    let firsts = best.iter().rev().filter_map(|best| best.first().copied());
    let shown = firsts.max_by_key(|movement| movement.bytes);
    let (place, operation, scope) = match shown {
        Some(movement) => {
            (SourceLine::of(movement.loc), movement.operation, movement.loc.scope_path())
        }
        None => {
            let near = own.or_else(|| found.origins.sources().map(|(line, _)| line).next());
            let (scope, operation) = near.map_or(("", ""), |(_, _, name)| split_name(name));
            let place = near.map(|(file, line, _)| SourceLine { file: file.into(), line });
            (place, operation, scope)
        }
    };
    let refuses = |name: &str| Loc::is_refusing_path(split_name(name).0);
    let unexplained = parts.iter().zip(&best).filter(|(_, best)| best.is_empty());
    let is_unexplained_inside =
        unexplained.filter_map(|(part, _)| part.as_ref()).any(|(_, _, name)| refuses(name));
    // `jit` moves results, after the operation.
    let is_inside =
        |movement: &&Movement| movement.result.is_none() && movement.loc.refuses_collectives();
    Explained {
        is_refused: is_unexplained_inside || all.iter().any(is_inside),
        loc: shown.map_or(Loc::UNKNOWN, |movement| movement.loc),
        collective: ExplainedCollective {
            kind: found.kind,
            name: found.name.clone(),
            place,
            operation: Some(operation.to_string()).filter(|name| !name.is_empty()),
            scope: scope.to_string(),
            bytes: found.bytes as u64,
            axes: if follows { axes } else { Vec::new() },
            group_size: size,
            runs: found.runs,
            is_written: !all.is_empty() && all.iter().all(|movement| movement.is_written()),
            cause: Some(listed(&causes)).filter(|causes| !causes.is_empty()),
        },
    }
}

/// Returns the operations of a collective that the compiler combined of several: it joins their
/// names as `(a:b)` and keeps the line of one. The line of another is that of an operation of this
/// name whose result is exchanged.
fn combined<'a>(line: NamedLine<'a>, found: &'a CompiledCollective) -> Vec<NamedLine<'a>> {
    let names = line.2.strip_prefix('(').and_then(|names| names.strip_suffix(')'));
    let Some(names) = names.filter(|names| names.contains(':')) else { return vec![line] };
    let names: Vec<&str> = names.split(':').collect();
    let nodes = found.origins.users().chain(found.origins.sources());
    let nodes = nodes.map(|(node, _)| node).filter(|(_, _, name)| names.contains(name));
    let parts = unique(nodes);
    let is_missing = |name: &&&str| !parts.iter().any(|(_, _, other)| other == *name);
    let missing = names.iter().filter(is_missing).map(|name| (line.0, line.1, *name));
    let missing: Vec<NamedLine<'_>> = missing.collect();
    unique(parts.into_iter().chain(missing))
}

/// Number of causes of one collective that are listed.
const CAUSES: usize = 3;

/// Joins the causes of a collective that the compiler combined.
fn listed(causes: &[String]) -> String {
    let shown = &causes[..causes.len().min(CAUSES)];
    let others = causes.len() - shown.len();
    let shown = shown.join("; ");
    if others == 0 { shown } else { format!("{shown}; and {others} more causes") }
}

/// Returns the movements that explain a collective best, for one of its operations.
fn best_movements<'a>(
    movements: &'a [Movement],
    found: &CompiledCollective,
    own: Option<NamedLine<'_>>,
    axes: &[String],
) -> Vec<&'a Movement> {
    let scored = movements.iter().filter_map(|movement| {
        let score = score(movement, found, own, axes)?;
        Some((score, movement))
    });
    let scored: Vec<(u32, &Movement)> = scored.collect();
    let best = scored.iter().map(|(score, _)| *score).max();
    let best = scored.into_iter().filter(|(score, _)| Some(*score) == best);
    best.map(|(_, movement)| movement).collect()
}

/// Splits the name of an operation into its scopes and the operation.
fn split_name(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

/// Returns how well a movement explains a collective along these axes that belongs to the operation
/// `own`; `None` if it does not.
fn score(
    movement: &Movement,
    found: &CompiledCollective,
    own: Option<NamedLine<'_>>,
    axes: &[String],
) -> Option<u32> {
    let affinity = movement.affinity(found.kind)?;
    let shared = axes.iter().filter(|axis| movement.axes.contains(axis)).count();
    if shared == 0 {
        return None;
    }
    let origins = &found.origins;
    let moved = |index: &usize| movement.inputs.contains(index);
    let is_parameter = origins.parameters().any(|index| moved(&index));
    let near = |line: NamedLine<'_>| nearness(movement.loc, movement.operation, line);
    let place = match movement.result {
        Some(index) => {
            let is_result = origins.results().any(|result| result == index);
            is_result.then_some(9)?
        }
        None => {
            // A value that is moved after it was computed has the line that computes it. The
            // compiler may also move the operands of what computes it.
            let source = match movement.source.filter(|_| movement.moves_operand()) {
                Some((loc, operation)) => {
                    let near = |line: NamedLine<'_>| nearness(loc, operation, line);
                    let users = origins.users().map(|(line, _)| near(line)).max();
                    (2 * own.map_or(0, near)).max(users.unwrap_or(0))
                }
                None => 0,
            };
            let users = origins.users().map(|(line, _)| near(line)).max().unwrap_or(0);
            // Without a line, the parameter or result that is moved is the only trace.
            let is_output = || origins.results().any(|result| movement.output == Some(result));
            let unlined =
                own.is_none() && (is_parameter || movement.moves_operand() && is_output());
            let unlined = if unlined { 4 } else { 0 };
            (2 * own.map_or(0, near)).max(source).max(users).max(unlined)
        }
    };
    if place == 0 {
        return None;
    }
    let inputs = match origins.sources().any(|(_, read)| read.iter().any(moved)) {
        _ if is_parameter => 3,
        true => 2,
        false => 0,
    };
    let is_same =
        shared == axes.len() && (shared == movement.axes.len() || movement.result.is_some());
    let is_size = is_same && movement.bytes == Some(found.bytes as u64);
    let points = |is_met: bool, points: u32| if is_met { points } else { 0 };
    Some(4 * place + affinity + inputs + points(is_same, 4) + points(is_size, 2))
}

/// Returns how well an operation fits a line of the compiled program: 0 for another
/// line, up to 4 for the same operation in the same scope.
fn nearness(loc: Loc, operation: &str, (file, line, name): NamedLine<'_>) -> u32 {
    let Some(position) = loc.get() else { return 0 };
    if position.line() != line || position.file() != file {
        return 0;
    }
    let (scope, other) = split_name(name);
    let own = loc.scope_path();
    // The compiler puts the names of calls before the scopes.
    let in_scope = scope == own || (!own.is_empty() && scope.ends_with(own));
    1 + if operation == other { 2 } else { 0 } + u32::from(in_scope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_send_what_other_devices_need() {
        let collective = |kind| ExplainedCollective {
            kind,
            name: String::new(),
            place: None,
            operation: None,
            scope: String::new(),
            bytes: 800,
            axes: vec!["data".into()],
            group_size: 8,
            runs: Some(1),
            is_written: false,
            cause: None,
        };
        use Collective::{AllGather, AllReduce, AllToAll, CollectivePermute, ReduceScatter};
        let sent = [AllGather, AllReduce, AllToAll, CollectivePermute, ReduceScatter]
            .map(|kind| collective(kind).bytes_sent());
        assert_eq!(sent, [700, 1400, 700, 800, 5600]);
        let text = collective(AllReduce).to_string();
        assert_eq!(text, "all-reduce of 800 B over `data` (8 devices) of no line");
    }
}
