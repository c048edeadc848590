//! The time of exchanges over the interconnect.

use super::count::Exchange;
use super::grid::Grid;
use super::specs::{DeviceSpec, Wires};
use crate::core::{Collective, Mesh};
use serde::Serialize;

/// The interconnect of a mesh axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Route {
    /// This many grid axes that are rings, over which the mesh axis is folded.
    Rings(usize),
    /// A grid axis whose ends are not connected. Also devices that fill no box of the grid, of
    /// which each is assumed to have one link to the next.
    Line,
    /// A box of the grid, over which the mesh axis is folded, by the devices' coordinates.
    Grid {
        /// The number of its axes that are rings.
        rings: usize,
        /// The number of its axes whose ends are not connected.
        lines: usize,
    },
    /// A switch that connects all devices.
    Switch,
    /// The network of the data centre, between slices and hosts.
    DataCentre,
}

/// The interconnect of each axis of a mesh.
///
/// [`Network::of_mesh`] uses the coordinates of devices. Without devices, [`Network::of`] assigns
/// each mesh axis to one grid axis: a ring where hardware connects the ends of axes of that size,
/// otherwise a line. [`Network::along`] changes the assignment:
///
/// ```
/// use oxidax::core::Collective;
/// use oxidax::roofline::{DeviceSpec, Network, Route};
/// let v5p = DeviceSpec::named("v5p").expect("it is in the table");
/// let mesh = [("slices".to_string(), 2), ("data".to_string(), 16), ("model".to_string(), 8)];
/// let network = Network::of(&v5p, &mesh).along("slices", Route::DataCentre);
/// // A gather of 1 GB along 8 devices: both directions of a ring, 90 GB/s each.
/// let seconds = network.seconds(Collective::AllGather, 1e9, &["model"]);
/// assert_eq!((seconds * 1e3).round(), 6.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Network {
    wires: Wires,
    dcn_bandwidth: f64,
    axes: Vec<(String, usize, Route)>,
    grid: Option<Grid>,
}

/// The time of exchanges over each kind of interconnect, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CommunicationTime {
    /// Over ICI or NVLink.
    pub wires: f64,
    /// Over the network of the data centre.
    pub data_centre: f64,
}

impl CommunicationTime {
    /// Returns the sum of both.
    pub fn seconds(self) -> f64 {
        self.wires + self.data_centre
    }
}

/// Rates of a mesh axis: bytes/s of a gather and of an all-to-all, and the number of hops.
pub(super) struct Path {
    pub(super) gather: f64,
    pub(super) exchange: f64,
    pub(super) hops: f64,
}

impl Network {
    /// Assigns each axis of a mesh to one axis of the grid of the device.
    pub fn of(spec: &DeviceSpec, mesh: &[(String, usize)]) -> Network {
        let route = |size: usize| match spec.wires {
            Wires::Torus { .. } if spec.wires.is_ring(size) => Route::Rings(1),
            Wires::Torus { .. } => Route::Line,
            Wires::Switch { devices, .. } if size <= devices => Route::Switch,
            Wires::Switch { .. } | Wires::Alone => Route::DataCentre,
        };
        let axes = mesh.iter().map(|(name, size)| (name.clone(), *size, route(*size))).collect();
        Network { wires: spec.wires, dcn_bandwidth: spec.dcn_bandwidth, axes, grid: None }
    }

    /// Returns the interconnect of a mesh by the coordinates of its devices in their TPU slices,
    /// or that of [`Network::of`] if they have none.
    ///
    /// A mesh axis may be folded over several axes of the grid. Collectives over several mesh axes
    /// use the links of all of them. On a slice of v5e of 2 by 4 chips, a gather over all eight
    /// uses two links of each chip, and on a v4 of 2 by 2 by 2 three. Axes between slices use the
    /// network of the data centre.
    ///
    /// ```no_run
    /// use oxidax::prelude::*;
    /// use oxidax::roofline::{DeviceSpec, Network, Route};
    /// let slice = Topology::named("v5e:2x4")?;
    /// let v5e = DeviceSpec::of_topology(slice.name()).expect("it is in the table");
    /// let network = Network::of_mesh(&v5e, &slice.mesh([("data", 8)])?);
    /// println!("{:?}", network.axes()[0].2); // Grid { rings: 0, lines: 2 }
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    pub fn of_mesh(spec: &DeviceSpec, mesh: &Mesh) -> Network {
        let mut network = Network::of(spec, mesh.axes());
        network.grid = Grid::of(spec.wires, mesh);
        if let Some(grid) = &network.grid {
            for ((_, _, route), by_coordinates) in network.axes.iter_mut().zip(&grid.routes) {
                *route = *by_coordinates;
            }
        }
        network
    }

    /// Sets the route of a mesh axis. A name that the mesh does not have is ignored.
    #[must_use]
    pub fn along(mut self, axis: &str, route: Route) -> Network {
        for (name, _, old) in &mut self.axes {
            if name == axis {
                *old = route;
            }
        }
        self
    }

    /// Returns the axes: name, size and route.
    pub fn axes(&self) -> &[(String, usize, Route)] {
        &self.axes
    }

    /// Returns the seconds of an exchange of `bytes`, as in [`Exchange::bytes`], along mesh axes.
    pub fn seconds(&self, kind: Collective, bytes: f64, axes: &[&str]) -> f64 {
        let axes = axes.iter().map(|&axis| axis.to_owned()).collect();
        let known = |axis: &String| self.axes.iter().find(|(name, ..)| name == axis);
        let size = |axes: &Vec<String>| axes.iter().filter_map(known).map(|(_, n, _)| n).product();
        let size = size(&axes);
        let exchange = Exchange {
            kind,
            axes,
            size,
            bytes: bytes as u64,
            times: 1,
            pairs: Vec::new(),
            place: None,
        };
        self.time(&exchange).seconds()
    }

    /// Returns the time of one run of an exchange.
    pub fn time(&self, exchange: &Exchange) -> CommunicationTime {
        if exchange.size < 2 {
            return CommunicationTime::default();
        }
        let along = exchange.axes.iter().filter_map(|axis| {
            self.axes.iter().position(|(name, size, _)| name == axis && *size > 1)
        });
        let along: Vec<usize> = along.collect();
        let bytes = exchange.bytes as f64;
        if exchange.kind == Collective::CollectivePermute {
            return self.permutation(&along, exchange, bytes);
        }
        if along.is_empty() {
            // A compiled exchange that does not follow mesh axes: neighbours on a line.
            let way = self.way(exchange.size, self.route_of_neighbours());
            let wires = self.collective(exchange.kind, &[way], bytes);
            return CommunicationTime { wires, data_centre: 0.0 };
        }
        let (far, near): (Vec<usize>, Vec<usize>) =
            along.into_iter().partition(|&axis| self.axes[axis].2 == Route::DataCentre);
        let near_size: usize = near.iter().map(|&axis| self.axes[axis].1).product();
        let wires = self.collective(exchange.kind, &self.paths(&near), bytes);
        // Data from the data centre is gathered over the wires, data to it is scattered first.
        let far = self.paths(&far);
        let data_centre = self.collective(exchange.kind, &far, bytes / near_size as f64);
        CommunicationTime { wires, data_centre }
    }

    fn route_of_neighbours(&self) -> Route {
        match self.wires {
            Wires::Switch { .. } => Route::Switch,
            _ => Route::Line,
        }
    }

    /// Returns the grid if the routes of these axes follow from coordinates.
    fn grid_of(&self, axes: &[usize]) -> Option<(&Grid, f64)> {
        let Wires::Torus { link, .. } = self.wires else { return None };
        let grid = self.grid.as_ref()?;
        let by_coordinates = |&axis: &usize| {
            let route = self.axes[axis].2;
            route != Route::DataCentre && route == grid.routes[axis]
        };
        (!axes.is_empty() && axes.iter().all(by_coordinates)).then_some((grid, link))
    }

    /// Returns the paths of mesh axes: one for all of them on the grid, otherwise one for each.
    fn paths(&self, axes: &[usize]) -> Vec<Path> {
        if let Some((grid, link)) = self.grid_of(axes) {
            return vec![grid.path(axes, link)];
        }
        let path = |&axis: &usize| match self.grid_of(&[axis]) {
            Some((grid, link)) => grid.path(&[axis], link),
            None => self.way(self.axes[axis].1, self.axes[axis].2),
        };
        axes.iter().map(path).collect()
    }

    /// Returns the seconds of an exchange along paths that all use wires, or all use the data
    /// centre.
    fn collective(&self, kind: Collective, paths: &[Path], bytes: f64) -> f64 {
        if paths.is_empty() {
            return 0.0;
        }
        let latency = paths.iter().map(|path| path.hops).sum::<f64>() * self.hop();
        let rate = |of: fn(&Path) -> f64| paths.iter().map(of).sum::<f64>();
        let gather = (bytes / rate(|path| path.gather)).max(latency);
        match kind {
            // A reduce-scatter and an all-gather.
            Collective::AllReduce => 2.0 * gather,
            Collective::AllToAll => (bytes / rate(|path| path.exchange)).max(latency),
            _ => gather,
        }
    }

    fn way(&self, size: usize, route: Route) -> Path {
        let n = size as f64;
        let others = (n - 1.0) / n;
        match (route, self.wires) {
            (Route::Rings(folds), Wires::Torus { link, .. }) => {
                let folds = folds.max(1) as f64;
                let side = n.powf(1.0 / folds);
                let gather = 2.0 * link * folds;
                Path { gather, exchange: 4.0 * gather, hops: (side / 2.0).ceil() * folds }
            }
            (Route::Grid { rings, lines }, Wires::Torus { link, .. }) if rings + lines > 0 => {
                let axes = (rings + lines) as f64;
                let side = n.powf(1.0 / axes);
                let gather = link * (2 * rings + lines) as f64;
                Path {
                    gather: if lines > 0 { gather / others } else { gather },
                    exchange: 4.0 * link * n / side * if lines > 0 { 1.0 } else { 2.0 },
                    hops: (side / 2.0).ceil() * rings as f64 + (side - 1.0) * lines as f64,
                }
            }
            (Route::Line | Route::Switch | Route::Grid { .. }, Wires::Torus { link, .. }) => {
                // The middle link carries a quarter of the array in each direction.
                Path { gather: link / others, exchange: 4.0 * link, hops: n - 1.0 }
            }
            (Route::DataCentre, _) | (_, Wires::Alone) => {
                let rate = self.dcn_bandwidth / others;
                Path { gather: rate, exchange: rate * n, hops: 0.0 }
            }
            (_, Wires::Switch { bandwidth, .. }) => {
                let rate = bandwidth / others;
                Path { gather: rate, exchange: rate * n, hops: 1.0 }
            }
        }
    }

    fn hop(&self) -> f64 {
        match self.wires {
            Wires::Torus { hop, .. } | Wires::Switch { hop, .. } => hop,
            Wires::Alone => 0.0,
        }
    }

    /// Returns the time of a permutation: that of the busiest link with shortest routes, and that
    /// of the hops of the longest route. Without pairs it is that of neighbours.
    fn permutation(&self, along: &[usize], exchange: &Exchange, bytes: f64) -> CommunicationTime {
        if along.iter().any(|&axis| self.axes[axis].2 == Route::DataCentre) {
            let data_centre = bytes / self.dcn_bandwidth;
            return CommunicationTime { wires: 0.0, data_centre };
        }
        let pairs = &exchange.pairs;
        let (rate, busiest, hops) = match (self.wires, self.grid_of(along), along) {
            (Wires::Torus { link, .. }, ..) if pairs.is_empty() => (link, 1.0, 1),
            (_, Some((grid, link)), _) => {
                let (busiest, hops) = grid.permutation(along, pairs);
                (link, busiest, hops)
            }
            (Wires::Torus { link, .. }, None, &[axis]) => {
                let (_, size, route) = self.axes[axis];
                let (busiest, hops) = busiest_of_axis(size, route, pairs);
                (link, busiest as f64, hops)
            }
            (Wires::Torus { link, .. }, ..) => (link, 1.0, 1),
            (Wires::Switch { bandwidth, .. }, ..) => (bandwidth, 1.0, 1),
            (Wires::Alone, ..) => (self.dcn_bandwidth, 1.0, 0),
        };
        let wires = busiest * bytes / rate + hops as f64 * self.hop();
        CommunicationTime { wires, data_centre: 0.0 }
    }
}

/// Returns the messages over the busiest link of a ring or line, and the hops of the longest route.
fn busiest_of_axis(size: usize, route: Route, pairs: &[(usize, usize)]) -> (usize, usize) {
    let (mut load, mut furthest) = (vec![[0_usize; 2]; size], 0);
    let closed = matches!(route, Route::Rings(_) | Route::Grid { lines: 0, .. });
    for &(from, to) in pairs.iter().filter(|(from, to)| from != to && from.max(to) < &size) {
        let up = (to + size - from) % size;
        let upwards = if closed { 2 * up <= size } else { to > from };
        let hops = if upwards { up } else { size - up };
        furthest = furthest.max(hops);
        for step in 0..hops {
            match upwards {
                true => load[(from + step) % size][0] += 1,
                false => load[(from + size - step) % size][1] += 1,
            }
        }
    }
    (load.iter().flatten().copied().max().unwrap_or(0), furthest)
}
