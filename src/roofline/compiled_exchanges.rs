//! Conversion of compiled collectives to exchanges along mesh axes.

use super::count::Exchange;
use crate::core::{Collective, Mesh};
use crate::jit::{CompiledCollective, ExchangedAxes};

/// Returns the bytes to which the time is proportional, from those of the operand on one device.
pub(super) fn payload(kind: Collective, operand: u64, size: usize) -> u64 {
    match kind {
        Collective::AllGather | Collective::AllToAll => operand.saturating_mul(size as u64),
        _ => operand,
    }
}

/// Converts a compiled collective to an exchange along mesh axes.
///
/// If the compiler does not report the number of runs, it is that of a `traced` exchange with the
/// same kind and axes, which may be in a loop.
pub(super) fn convert(
    collective: &CompiledCollective,
    mesh: &Mesh,
    traced: &[Exchange],
) -> Exchange {
    let permutes = collective.kind == Collective::CollectivePermute;
    let ExchangedAxes { axes, follows, size } = collective.exchanged_axes(mesh);
    let pairs = match axes.as_slice() {
        // The position along these axes, of which the last varies fastest.
        [_, ..] if permutes => {
            let index = |ordinal: usize| {
                let coordinates = mesh.coordinates(ordinal);
                axes.iter().fold(0, |at, &axis| at * mesh.axes()[axis].1 + coordinates[axis])
            };
            let mut pairs: Vec<(usize, usize)> =
                collective.pairs.iter().map(|&(from, to)| (index(from), index(to))).collect();
            pairs.sort_unstable();
            pairs.dedup();
            pairs
        }
        _ => Vec::new(),
    };
    let result = collective.bytes as u64;
    let bytes = match collective.kind {
        Collective::ReduceScatter | Collective::AllToAll => result.saturating_mul(size as u64),
        _ => result,
    };
    let names = axes.iter().filter(|_| follows).map(|&axis| mesh.axes()[axis].0.clone());
    let axes: Vec<String> = names.collect();
    let similar = traced.iter().filter(|other| other.kind == collective.kind && other.axes == axes);
    let times = collective.runs.or_else(|| similar.map(|other| other.times).max()).unwrap_or(1);
    Exchange {
        kind: collective.kind,
        axes,
        size,
        bytes,
        times,
        pairs,
        place: collective.place.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collective(kind: Collective, runs: Option<u64>) -> CompiledCollective {
        CompiledCollective {
            kind,
            name: String::new(),
            bytes: 100,
            groups: Vec::new(),
            pairs: Vec::new(),
            runs,
            place: None,
            operation: None,
            origins: Default::default(),
        }
    }

    fn compiled(kind: Collective, groups: &[&[usize]], pairs: &[(usize, usize)]) -> Exchange {
        let mesh = Mesh::without_devices([("data", 2), ("model", 4)]).unwrap();
        let groups = groups.iter().map(|group| group.to_vec()).collect();
        let pairs = pairs.to_vec();
        let collective = CompiledCollective { groups, pairs, ..collective(kind, Some(3)) };
        convert(&collective, &mesh, &[])
    }

    #[test]
    fn missing_run_counts_match_the_program() {
        let mesh = Mesh::without_devices([("data", 2), ("model", 4)]).unwrap();
        let kind = Collective::CollectivePermute;
        let traced = Exchange { times: 7, ..compiled(kind, &[], &[(0, 1), (1, 2)]) };
        let times = |kind, pairs: &[(usize, usize)]| {
            let collective = CompiledCollective { pairs: pairs.to_vec(), ..collective(kind, None) };
            convert(&collective, &mesh, std::slice::from_ref(&traced)).times
        };
        assert_eq!(times(kind, &[(4, 5)]), 7);
        // Another axis and another kind.
        assert_eq!(times(kind, &[(0, 4)]), 1);
        assert_eq!(times(Collective::AllReduce, &[]), 1);
    }

    #[test]
    fn groups_become_axes() {
        let along = |groups: &[&[usize]]| compiled(Collective::AllReduce, groups, &[]);
        assert_eq!(along(&[&[0, 1, 2, 3], &[4, 5, 6, 7]]).axes, ["model"]);
        assert_eq!(along(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]).axes, ["data"]);
        assert_eq!(along(&[]).axes, ["data", "model"]);
        // A group of half an axis does not follow the axis.
        let half = along(&[&[0, 1], &[2, 3]]);
        assert_eq!((half.axes.len(), half.size, half.times), (0, 2, 3));
    }

    #[test]
    fn bytes_count_the_whole_array() {
        let model: &[&[usize]] = &[&[0, 1, 2, 3], &[4, 5, 6, 7]];
        assert_eq!(compiled(Collective::AllGather, model, &[]).bytes, 100);
        assert_eq!(compiled(Collective::ReduceScatter, model, &[]).bytes, 400);
        assert_eq!(payload(Collective::AllGather, 25, 4), 100);
        assert_eq!(payload(Collective::AllReduce, 25, 4), 25);
    }

    #[test]
    fn pairs_become_indices_along_the_axis() {
        let pairs = [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7)];
        let collective = compiled(Collective::CollectivePermute, &[], &pairs);
        assert_eq!(collective.axes, ["model"]);
        assert_eq!(collective.pairs, [(0, 1), (1, 2), (2, 3)]);
    }
}
