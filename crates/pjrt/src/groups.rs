//! Device groups of collectives, in the three encodings that XLA programs use. Field numbers follow
//! `xla_data.proto` and the output of libtpu 0.0.51.

use oxidax_proto::messages;

messages! {
    /// `MeshAxesReplicaGroupListProto`: groups of devices that differ only in their coordinates
    /// along some axes of a grid.
    pub(crate) struct MeshAxes {
        mesh: Option<Grid> = 1,
        axes: Vec<AxisRef> = 2,
    }

    /// `MeshProto`.
    struct Grid {
        axes: Vec<GridAxis> = 1,
        device_ids: Vec<i64> = 2,
    }

    /// `MeshProto.MeshAxis`.
    struct GridAxis {
        name: String = 1,
        size: i64 = 2,
    }

    /// `AxisRefProto`.
    struct AxisRef {
        mesh_axis_index: i64 = 1,
        sub_axis: Option<SubAxis> = 2,
    }

    /// `AxisRefProto.SubAxis`: an axis viewed as `[pre_size, size, rest]`, with the middle part
    /// selected.
    struct SubAxis {
        pre_size: i64 = 1,
        size: i64 = 2,
    }

    /// `ReplicaGroup`.
    pub(crate) struct Group {
        pub(crate) replica_ids: Vec<i64> = 1,
    }

    /// `CollectiveDeviceListProto`.
    pub(crate) struct DeviceList {
        pub(crate) replica_groups: Vec<Group> = 1,
        pub(crate) iota: Option<IotaGroups> = 2,
    }

    /// `IotaReplicaGroupListProto`: the numbers from 0, reshaped, transposed, and split into
    /// groups.
    pub(crate) struct IotaGroups {
        num_replica_groups: i64 = 1,
        num_devices_per_group: i64 = 2,
        reshape_dims: Vec<i64> = 3,
        transpose_perm: Vec<i32> = 4,
    }
}

impl MeshAxes {
    /// Converts to explicit lists of device ids; `None` if the numbers are inconsistent.
    pub(crate) fn groups(&self) -> Option<Vec<Vec<usize>>> {
        let grid = self.mesh.as_ref()?;
        // Each axis is one axis, or three if only a part of it is selected.
        let (mut sizes, mut starts) = (Vec::new(), Vec::new());
        for (at, axis) in grid.axes.iter().enumerate() {
            let size = usize::try_from(axis.size).ok().filter(|&size| size > 0)?;
            starts.push(sizes.len());
            let part =
                self.axes.iter().find(|axis| usize::try_from(axis.mesh_axis_index) == Ok(at));
            match part.and_then(|axis| axis.sub_axis.as_ref()) {
                None => sizes.push(size),
                Some(part) => {
                    let [pre, own] = [part.pre_size, part.size].map(|n| usize::try_from(n).ok());
                    let (pre, own) = (pre.filter(|&n| n > 0)?, own.filter(|&n| n > 0)?);
                    sizes.extend([pre, own, size / pre.checked_mul(own)?]);
                }
            }
        }
        let mut meant = Vec::new();
        for axis in &self.axes {
            let start = starts.get(usize::try_from(axis.mesh_axis_index).ok()?)?;
            meant.push(start + usize::from(axis.sub_axis.is_some()));
        }
        let others = (0..sizes.len()).filter(|axis| !meant.contains(axis));
        let order: Vec<i32> = others
            .chain(meant.iter().copied())
            .map(|axis| i32::try_from(axis).ok())
            .collect::<Option<_>>()?;
        let each = meant.iter().map(|&axis| sizes[axis] as i64).product();
        let dims = sizes.iter().map(|&size| size as i64).collect();
        let iota = IotaGroups {
            num_replica_groups: 0,
            num_devices_per_group: each,
            reshape_dims: dims,
            transpose_perm: order,
        };
        let id = |place: usize| {
            grid.device_ids.get(place).map_or(place, |&id| usize::try_from(id).unwrap_or_default())
        };
        let named = iota.groups().into_iter().map(|group| group.into_iter().map(id).collect());
        Some(named.collect())
    }
}

/// Converts replica groups to explicit lists of ids.
pub(crate) fn explicit(groups: &[Group]) -> Vec<Vec<usize>> {
    let index = |&id: &i64| usize::try_from(id).unwrap_or_default();
    groups.iter().map(|group| group.replica_ids.iter().map(index).collect()).collect()
}

impl IotaGroups {
    /// Converts to explicit lists of device ids; empty if the numbers are inconsistent.
    pub(crate) fn groups(&self) -> Vec<Vec<usize>> {
        let sizes: Option<Vec<usize>> =
            self.reshape_dims.iter().map(|&size| usize::try_from(size).ok()).collect();
        let Some(sizes) = sizes else { return Vec::new() };
        let identity: Vec<usize> = (0..sizes.len()).collect();
        let given = self.transpose_perm.iter().filter_map(|&axis| usize::try_from(axis).ok());
        let order: Vec<usize> =
            if self.transpose_perm.is_empty() { identity } else { given.collect() };
        let total = sizes.iter().try_fold(1_usize, |n, &size| n.checked_mul(size));
        let each = usize::try_from(self.num_devices_per_group).unwrap_or(0);
        let fits = order.len() == sizes.len() && order.iter().all(|&axis| axis < sizes.len());
        let Some(total) = total.filter(|&n| fits && each > 0 && n <= MOST_DEVICES) else {
            return Vec::new();
        };
        let strides: Vec<usize> =
            (0..sizes.len()).map(|axis| sizes[axis + 1..].iter().product()).collect();
        let number = |mut at: usize| {
            let mut number = 0;
            for &axis in order.iter().rev() {
                number += at % sizes[axis] * strides[axis];
                at /= sizes[axis];
            }
            number
        };
        let numbers: Vec<usize> = (0..total).map(number).collect();
        numbers.chunks(each).map(<[usize]>::to_vec).collect()
    }
}

/// Exceeds the number of devices of any machine. The limit prevents damaged bytes from requesting
/// more memory than is available.
const MOST_DEVICES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iota_groups_are_transposed() {
        let iota = |groups: i64, each: i64, dims: &[i64], perm: &[i32]| IotaGroups {
            num_replica_groups: groups,
            num_devices_per_group: each,
            reshape_dims: dims.into(),
            transpose_perm: perm.into(),
        };
        assert_eq!(iota(2, 2, &[4], &[]).groups(), [[0, 1], [2, 3]]);
        assert_eq!(iota(2, 2, &[2, 2], &[1, 0]).groups(), [[0, 2], [1, 3]]);
        let strided = iota(4, 2, &[2, 2, 2], &[0, 2, 1]).groups();
        assert_eq!(strided, [[0, 2], [1, 3], [4, 6], [5, 7]]);
        assert!(iota(2, 2, &[2, -2], &[]).groups().is_empty());
        assert!(iota(2, 0, &[4], &[]).groups().is_empty());
        assert!(iota(2, 2, &[1 << 40], &[]).groups().is_empty());
    }

    #[test]
    fn groups_along_axes_of_a_grid() {
        let axis = |name: &str, size| GridAxis { name: name.into(), size };
        let along = |axes: &[(i64, Option<(i64, i64)>)], device_ids: &[i64]| {
            let grid =
                Grid { axes: vec![axis("a", 2), axis("b", 4)], device_ids: device_ids.into() };
            let part = |(pre_size, size)| SubAxis { pre_size, size };
            let axes = axes
                .iter()
                .map(|&(at, sub)| AxisRef { mesh_axis_index: at, sub_axis: sub.map(part) })
                .collect();
            MeshAxes { mesh: Some(grid), axes }.groups().unwrap()
        };
        assert_eq!(along(&[(1, None)], &[]), [[0, 1, 2, 3], [4, 5, 6, 7]]);
        assert_eq!(along(&[(0, None)], &[]), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!(along(&[(1, Some((2, 2)))], &[]), [[0, 1], [2, 3], [4, 5], [6, 7]]);
        assert_eq!(along(&[(1, Some((1, 2)))], &[])[0], [0, 2]);
        let turned = along(&[(1, None)], &[7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(turned[0], [7, 6, 5, 4]);
    }
}
