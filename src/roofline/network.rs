//! The time of exchanges over the interconnect.

use super::count::Exchange;
use super::specs::{DeviceSpec, Wires};
use crate::core::Collective;
use serde::Serialize;

/// The interconnect of a mesh axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Route {
    /// This many grid axes that are rings, over which the mesh axis is folded.
    Rings(usize),
    /// A grid axis whose ends are not connected.
    Line,
    /// A switch that connects all devices.
    Switch,
    /// The network of the data centre, between slices and hosts.
    DataCentre,
}

/// The interconnect of each axis of a mesh.
///
/// [`Network::of`] assigns each mesh axis to one grid axis: a ring where hardware connects the ends
/// of axes of that size, otherwise a line. [`Network::along`] changes the assignment:
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
struct Path {
    gather: f64,
    exchange: f64,
    hops: f64,
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
        Network { wires: spec.wires, dcn_bandwidth: spec.dcn_bandwidth, axes }
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
            self.axes.iter().find(|(name, ..)| name == axis).map(|&(_, size, route)| (size, route))
        });
        let mut along: Vec<(usize, Route)> = along.filter(|(size, _)| *size > 1).collect();
        if along.is_empty() {
            // A compiled exchange that does not follow mesh axes: neighbours on a line.
            let switched = matches!(self.wires, Wires::Switch { .. });
            along.push((exchange.size, if switched { Route::Switch } else { Route::Line }));
        }
        let bytes = exchange.bytes as f64;
        if exchange.kind == Collective::CollectivePermute {
            return self.permutation(&along, &exchange.pairs, bytes);
        }
        let (far, near): (Vec<_>, Vec<_>) =
            along.into_iter().partition(|(_, route)| *route == Route::DataCentre);
        let near_size: usize = near.iter().map(|(size, _)| size).product();
        let wires = self.collective(exchange.kind, &near, bytes);
        // Data from the data centre is gathered over the wires, data to it is scattered first.
        let data_centre = self.collective(exchange.kind, &far, bytes / near_size as f64);
        CommunicationTime { wires, data_centre }
    }

    /// Returns the seconds of an exchange along axes that all use wires, or all use the data
    /// centre.
    fn collective(&self, kind: Collective, along: &[(usize, Route)], bytes: f64) -> f64 {
        if along.is_empty() {
            return 0.0;
        }
        let ways: Vec<Path> = along.iter().map(|&(size, route)| self.way(size, route)).collect();
        let hops: f64 = ways.iter().map(|way| way.hops).sum();
        let latency = hops * self.hop();
        let gather = (bytes / ways.iter().map(|way| way.gather).sum::<f64>()).max(latency);
        match kind {
            // A reduce-scatter and an all-gather.
            Collective::AllReduce => 2.0 * gather,
            Collective::AllToAll => {
                (bytes / ways.iter().map(|way| way.exchange).sum::<f64>()).max(latency)
            }
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
            (Route::Line | Route::Switch, Wires::Torus { link, .. }) => {
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

    /// Returns the time of the busiest link, with shortest routes along one axis. Without pairs it
    /// is that of neighbours.
    fn permutation(
        &self,
        along: &[(usize, Route)],
        pairs: &[(usize, usize)],
        bytes: f64,
    ) -> CommunicationTime {
        if along.iter().any(|(_, route)| *route == Route::DataCentre) {
            return CommunicationTime {
                data_centre: bytes / self.dcn_bandwidth,
                ..CommunicationTime::default()
            };
        }
        let (Wires::Torus { link, hop, .. }, &[(size, route)]) = (self.wires, along) else {
            let rate = match self.wires {
                Wires::Torus { link, .. } => link,
                Wires::Switch { bandwidth, .. } => bandwidth,
                Wires::Alone => self.dcn_bandwidth,
            };
            return CommunicationTime {
                wires: (bytes / rate).max(self.hop()),
                ..CommunicationTime::default()
            };
        };
        let (mut load, mut furthest) = (vec![[0_usize; 2]; size], usize::from(pairs.is_empty()));
        let closed = matches!(route, Route::Rings(_));
        for &(from, to) in pairs.iter().filter(|(from, to)| from.max(to) < &size) {
            let up = (to + size - from) % size;
            let upwards = if closed { 2 * up <= size } else { to >= from };
            let hops = if upwards { up } else { size - up };
            furthest = furthest.max(if from == to { 0 } else { hops });
            for step in 0..hops {
                match upwards {
                    true => load[(from + step) % size][0] += 1,
                    false => load[(from + size - step) % size][1] += 1,
                }
            }
        }
        let busiest =
            load.iter().flatten().copied().max().unwrap_or(0).max(usize::from(pairs.is_empty()));
        let seconds = (busiest as f64 * bytes / link).max(furthest as f64 * hop);
        CommunicationTime { wires: seconds, ..CommunicationTime::default() }
    }
}
