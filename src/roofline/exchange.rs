//! Exchanges as the compiler wrote them: which axes of the mesh they go along.

use super::count::Exchange;
use crate::core::{Collective, Mesh};
use crate::jit::CompiledCollective;

/// The bytes that an exchange's time is proportional to, from those of the operand on one device.
pub(super) fn payload(kind: Collective, operand: u64, size: usize) -> u64 {
    match kind {
        Collective::AllGather | Collective::AllToAll => operand.saturating_mul(size as u64),
        _ => operand,
    }
}

/// What a compiled one exchanges, along which axes. Where the compiler does not say how often, it is as often as what the
/// program says itself of such an exchange (`said`), which may stand in a loop.
pub(super) fn read(found: &CompiledCollective, mesh: &Mesh, said: &[Exchange]) -> Exchange {
    let n = mesh.devices().len();
    let all: Vec<usize> = (0..n).collect();
    let group = found.groups.first().filter(|group| !group.is_empty()).unwrap_or(&all);
    let differing = |places: &[usize]| -> Vec<usize> {
        let along: Vec<Vec<usize>> = places
            .iter()
            .filter(|&&place| place < n)
            .map(|&place| mesh.coordinates(place))
            .collect();
        (0..mesh.axes().len())
            .filter(|&axis| along.iter().any(|at| at[axis] != along[0][axis]))
            .collect()
    };
    let axes = match found.kind {
        Collective::CollectivePermute => {
            let mut axes: Vec<usize> =
                found.pairs.iter().flat_map(|&(from, to)| differing(&[from, to])).collect();
            axes.sort_unstable();
            axes.dedup();
            axes
        }
        _ => differing(group),
    };
    let count: usize = axes.iter().map(|&axis| mesh.axes()[axis].1).product();
    let permutes = found.kind == Collective::CollectivePermute;
    let fits = permutes || count == group.len();
    let size = if permutes { count } else { group.len() };
    let pairs = match axes.as_slice() {
        [axis] if permutes => {
            let at = |place: usize| mesh.coordinates(place)[*axis];
            let mut pairs: Vec<(usize, usize)> =
                found.pairs.iter().map(|&(from, to)| (at(from), at(to))).collect();
            pairs.sort_unstable();
            pairs.dedup();
            pairs
        }
        _ => Vec::new(),
    };
    let result = found.bytes as u64;
    let bytes = match found.kind {
        Collective::ReduceScatter | Collective::AllToAll => result.saturating_mul(size as u64),
        _ => result,
    };
    let names = axes.iter().filter(|_| fits).map(|&axis| mesh.axes()[axis].0.clone());
    let axes: Vec<String> = names.collect();
    let alike = said.iter().filter(|one| one.kind == found.kind && one.axes == axes);
    let times = found.runs.or_else(|| alike.map(|one| one.times).max()).unwrap_or(1);
    Exchange { kind: found.kind, axes, size, bytes, times, pairs, place: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(kind: Collective, groups: &[&[usize]], pairs: &[(usize, usize)]) -> Exchange {
        let mesh = Mesh::without_devices([("data", 2), ("model", 4)]).unwrap();
        let groups = groups.iter().map(|group| group.to_vec()).collect();
        let (name, pairs) = (String::new(), pairs.to_vec());
        let found = CompiledCollective { kind, name, bytes: 100, groups, pairs, runs: Some(3) };
        read(&found, &mesh, &[])
    }

    #[test]
    fn the_program_says_how_often_where_the_compiler_does_not() {
        let mesh = Mesh::without_devices([("data", 2), ("model", 4)]).unwrap();
        let kind = Collective::CollectivePermute;
        let said = Exchange { times: 7, ..compiled(kind, &[], &[(0, 1), (1, 2)]) };
        let times = |kind, pairs: &[(usize, usize)]| {
            let (name, groups, pairs) = (String::new(), Vec::new(), pairs.to_vec());
            let found = CompiledCollective { kind, name, bytes: 100, groups, pairs, runs: None };
            read(&found, &mesh, std::slice::from_ref(&said)).times
        };
        assert_eq!(times(kind, &[(4, 5)]), 7);
        // Along another axis, and of another kind.
        assert_eq!(times(kind, &[(0, 4)]), 1);
        assert_eq!(times(Collective::AllReduce, &[]), 1);
    }

    #[test]
    fn groups_are_axes() {
        let along = |groups: &[&[usize]]| compiled(Collective::AllReduce, groups, &[]);
        assert_eq!(along(&[&[0, 1, 2, 3], &[4, 5, 6, 7]]).axes, ["model"]);
        assert_eq!(along(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]).axes, ["data"]);
        assert_eq!(along(&[]).axes, ["data", "model"]);
        // Half an axis is none.
        let half = along(&[&[0, 1], &[2, 3]]);
        assert_eq!((half.axes.len(), half.size, half.times), (0, 2, 3));
    }

    #[test]
    fn bytes_are_those_of_the_whole() {
        let model: &[&[usize]] = &[&[0, 1, 2, 3], &[4, 5, 6, 7]];
        assert_eq!(compiled(Collective::AllGather, model, &[]).bytes, 100);
        assert_eq!(compiled(Collective::ReduceScatter, model, &[]).bytes, 400);
        assert_eq!(payload(Collective::AllGather, 25, 4), 100);
        assert_eq!(payload(Collective::AllReduce, 25, 4), 25);
    }

    #[test]
    fn pairs_are_places_along_the_axis() {
        let pairs = [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7)];
        let found = compiled(Collective::CollectivePermute, &[], &pairs);
        assert_eq!(found.axes, ["model"]);
        assert_eq!(found.pairs, [(0, 1), (1, 2), (2, 3)]);
    }
}
