//! Examination of a step with the compiler and the roofline.

use super::advice::advice;
use super::memory::{Kinds, memory_uses};
use super::predict::{roofline, spec};
use super::report::{Line, Report};
use crate::core::Error;
use crate::jit::Lowered;
use crate::parallel::Topology;
use crate::passes;
use crate::roofline::{DeviceSpec, Network, OpCost, Roofline, SourceLine};
use crate::tree::{Args, Tree};
use std::collections::BTreeMap;
use std::time::Instant;

/// The number of source lines in a report.
const LINES: usize = 5;

/// Compiles a step for a topology, without its devices, and reports memory, time and advice.
///
/// The kinds of arguments (parameters, optimizer state, inputs) are [guessed](Kinds). For a step
/// that does not fit, the report says by how much.
///
/// # Errors
/// Errors of [`Lowered::compile_for`] except [`Error::TooLarge`].
pub fn examine<A: Args, O: Tree>(
    lowered: &Lowered<A, O>,
    topology: &Topology,
) -> Result<Report, Error> {
    examine_with(lowered, topology, &Kinds::guessed())
}

/// Examines a step as [`examine`], with the kinds of arguments.
///
/// # Errors
/// As [`examine`].
pub fn examine_with<A: Args, O: Tree>(
    lowered: &Lowered<A, O>,
    topology: &Topology,
    kinds: &Kinds,
) -> Result<Report, Error> {
    let (arguments, mesh) = (lowered.arguments(), lowered.mesh());
    let kinds = kinds.of(&arguments);
    let devices = mesh.map_or(1, |mesh| mesh.devices().len());
    let spec = spec(topology);
    let started = Instant::now();
    let compiled = match lowered.compile_for(topology) {
        Ok(planned) => Ok(planned),
        Err(Error::TooLarge { message, needed, .. }) => Err((message, needed)),
        Err(other) => return Err(other),
    };
    let compile_seconds = started.elapsed().as_secs_f64();
    let analysis = compiled.as_ref().ok().map(|it| it.report().memory_analysis()).transpose()?;
    let collectives = match (&compiled, mesh) {
        (Ok(planned), Some(_)) => Some(planned.report().collectives()?),
        _ => None,
    };
    let movements = match (&compiled, &spec, &collectives) {
        (Ok(planned), Some(spec), Some(found)) => planned.explain_found(found, spec)?.collectives,
        (Ok(planned), None, Some(_)) => planned.explain()?.collectives,
        _ => Vec::new(),
    };
    let peak = passes::peak(lowered.program());
    let memory = memory_uses(&arguments, &kinds, analysis.as_ref(), &peak, devices);
    let costs = roofline(lowered.program(), &arguments, mesh, collectives.as_ref());
    let placed = mesh.map(|mesh| topology.mesh_of(mesh)).transpose()?;
    let prediction = spec.map(|spec| match &placed {
        Some(mesh) => costs.over(&spec, &Network::of_mesh(&spec, mesh)),
        None => costs.on(&spec),
    });
    let predicted = spec.map(|spec| match &placed {
        Some(_) if compiled.is_ok() => {
            costs.line_profile_explained(lowered.name(), &spec, &movements)
        }
        Some(mesh) => {
            costs.line_profile_over(lowered.name(), &spec, &Network::of_mesh(&spec, mesh))
        }
        None => costs.line_profile(lowered.name(), &spec),
    });
    let predicted = predicted.map(|profile| profile.with_memory(&peak));
    let (needed, too_large) = match (compiled, &analysis) {
        (Err((message, needed)), _) => (needed, Some(message)),
        (Ok(_), analysis) => (analysis.map_or(0, |analysis| analysis.total()), None),
    };
    let available = topology.memory();
    let mut report = Report {
        step: lowered.name().to_string(),
        topology: topology.name().to_string(),
        device: topology.kind().to_string(),
        mesh: mesh.map(ToString::to_string),
        devices,
        fits: too_large.is_none() && available.is_none_or(|available| needed <= available),
        needed,
        host_needed: analysis.map_or(0, |analysis| analysis.host_total()),
        available,
        memory,
        too_large,
        compile_seconds,
        flops: costs.flops(),
        lines: lines(&costs, spec.as_ref()),
        movements,
        collectives: collectives.map(|collectives| collectives.to_string()),
        prediction,
        predicted,
        advice: Vec::new(),
        fitted: None,
    };
    report.advice = advice(&report, &costs, spec.as_ref(), &arguments, &kinds);
    Ok(report)
}

/// Returns the most expensive source lines.
fn lines(costs: &Roofline, spec: Option<&DeviceSpec>) -> Vec<Line> {
    let weight = |operation: &OpCost| match spec {
        Some(spec) => operation.on(spec).seconds(),
        None => operation.flops as f64,
    };
    let mut by_line: BTreeMap<Option<&SourceLine>, Vec<&OpCost>> = BTreeMap::new();
    for operation in &costs.operations {
        by_line.entry(operation.place.as_ref()).or_default().push(operation);
    }
    let all: f64 = costs.operations.iter().map(weight).sum();
    let mut lines: Vec<Line> = by_line
        .into_iter()
        .map(|(place, operations)| {
            let sum: f64 = operations.iter().map(|operation| weight(operation)).sum();
            let largest = operations.iter().max_by(|a, b| weight(a).total_cmp(&weight(b)));
            Line {
                place: place.cloned(),
                text: place.and_then(text_of),
                seconds: spec.map(|_| sum),
                share: if all > 0.0 { sum / all } else { 0.0 },
                flops: operations.iter().map(|operation| operation.flops).sum(),
                bytes: operations.iter().map(|operation| operation.fused_bytes).sum(),
                operation: largest.map_or_else(String::new, |op| {
                    format!("{} of {} to {}", op.name, op.operands, op.results)
                }),
            }
        })
        .collect();
    lines.sort_by(|a, b| b.share.total_cmp(&a.share));
    lines.truncate(LINES);
    lines
}

/// Returns the text of a line, if its file can be read.
fn text_of(place: &SourceLine) -> Option<String> {
    let text = std::fs::read_to_string(&place.file).ok()?;
    let line = text.lines().nth(usize::try_from(place.line).ok()?.checked_sub(1)?)?;
    Some(line.trim().to_string())
}
