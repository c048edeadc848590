//! Cloud TPU: the workers of one slice or several, from environment variables (GKE and users) or
//! from the metadata server (virtual machines).

use super::metadata::MetadataServer;
use super::{DetectedCluster, Variables, number, wrong};
use crate::core::{DistributedErrorKind, Error};
use std::collections::BTreeMap;

/// The coordinator's port. The firewall rule that Google adds to the network of a slice opens TCP
/// ports 8470, 8471, 8474, 8476 and 11211 (JAX issue 35905). The first two serve libtpu, and 8476
/// is the coordinator's port of JAX up to 0.8.0. Later versions of JAX use 8482, which is closed.
pub(super) const PORT: u16 = 8476;

const COORDINATOR: &str = "MEGASCALE_COORDINATOR_ADDRESS";
const SLICES: &str = "MEGASCALE_NUM_SLICES";
const SLICE: &str = "MEGASCALE_SLICE_ID";

/// Detects a worker by its variables. The workers of a slice are numbered, and so are slices if
/// there are several.
pub(super) fn from_variables(variables: &Variables) -> Result<Option<DetectedCluster>, Error> {
    let (list, workers) = match variables.get_key_value("TPU_PROCESS_ADDRESSES") {
        Some(found) => found,
        None => match variables.get_key_value("TPU_WORKER_HOSTNAMES") {
            Some(found) => found,
            None => return Ok(None),
        },
    };
    if !variables.contains_key("TPU_WORKER_ID") {
        return Ok(None);
    }
    let workers: Vec<&str> =
        workers.split(',').map(str::trim).filter(|worker| !worker.is_empty()).collect();
    if workers.is_empty() {
        return Err(wrong(list, "", "the workers' names, with commas between"));
    }
    let worker = number(variables, "TPU_WORKER_ID")?;
    if worker >= workers.len() {
        let expected = format!("below {}, the number of workers", workers.len());
        return Err(wrong("TPU_WORKER_ID", &worker.to_string(), &expected));
    }
    let head = without_port(workers[0]).to_owned();
    Slice { workers: workers.len(), worker, head }.cluster(variables).map(Some)
}

/// Detects a worker by asking the metadata server. `variables` override the settings of several
/// slices. Returns `None` on a machine that is not a TPU worker.
///
/// # Errors
/// `Distributed` (setup) if the server cannot be reached, or its values make no sense.
pub(super) fn from_metadata(
    server: &MetadataServer,
    variables: &Variables,
) -> Result<Option<DetectedCluster>, Error> {
    let attribute = |name: &str| {
        server.attribute(name).map_err(|failure| {
            let message =
                format!("the metadata server {} did not answer `{name}`: {failure}", server.host);
            setup(message)
        })
    };
    let environment = environment(&attribute("tpu-env")?.unwrap_or_default());
    let worker = match attribute("agent-worker-number")? {
        Some(worker) => worker,
        None => match environment.get("WORKER_ID") {
            Some(worker) => worker.clone(),
            None => return Ok(None),
        },
    };
    let refuse = |name: &str, value: &str, expected: &str| {
        let shown: String = value.trim().chars().take(60).collect();
        let host = &server.host;
        setup(format!("the metadata server {host} has `{name}` = `{shown}`; it must be {expected}"))
    };
    let parsed = worker.trim().parse::<u32>();
    let index = parsed.map_err(|_| refuse("agent-worker-number", &worker, "a number"))? as usize;
    let list = "worker-network-endpoints";
    let endpoints = attribute(list)?.unwrap_or_default();
    let workers: Vec<&str> =
        endpoints.split(',').map(str::trim).filter(|worker| !worker.is_empty()).collect();
    let hosts: Option<Vec<String>> = workers.iter().map(|worker| endpoint_host(worker)).collect();
    let Some(head) = hosts.as_ref().and_then(|hosts| hosts.first()) else {
        let expected = "a list like `name:id:10.0.0.2,name:id:10.0.0.3`";
        return Err(refuse(list, &endpoints, expected));
    };
    if index >= workers.len() {
        let expected = format!("below {}, the number of endpoints", workers.len());
        return Err(refuse("agent-worker-number", &worker, &expected));
    }
    // Values of the environment override those of the machine, as in JAX.
    let mut settings = variables.clone();
    for name in [COORDINATOR, SLICES, SLICE] {
        if let (Some(value), false) = (environment.get(name), settings.contains_key(name)) {
            settings.insert(name.to_owned(), value.clone());
        }
    }
    let accelerator = attribute("accelerator-type")?
        .or_else(|| environment.get("ACCELERATOR_TYPE").cloned())
        .unwrap_or_default();
    tracing::debug!(%accelerator, workers = workers.len(), worker = index, "Cloud TPU worker");
    Slice { workers: workers.len(), worker: index, head: head.clone() }.cluster(&settings).map(Some)
}

/// This worker and its slice.
struct Slice {
    workers: usize,
    worker: usize,
    /// The host of worker 0.
    head: String,
}

impl Slice {
    /// Numbers this process among those of all slices.
    fn cluster(&self, settings: &Variables) -> Result<DetectedCluster, Error> {
        let (mut slices, mut slice, mut head) = (1, 0, self.head.as_str());
        if settings.contains_key(SLICES) {
            slices = number(settings, SLICES)?;
            slice = number(settings, SLICE)?;
            if slice >= slices {
                let expected = format!("below {slices}, the number of slices");
                return Err(wrong(SLICE, &slice.to_string(), &expected));
            }
        }
        match settings.get(COORDINATOR) {
            // Its port, if there is one, is the one of libtpu's own coordinator.
            Some(address) => head = without_port(address.trim()),
            None if slices > 1 => {
                let expected = "the address of slice 0's worker 0, as there are several slices";
                return Err(wrong(COORDINATOR, "", expected));
            }
            None => {}
        }
        let Some(count) = self.workers.checked_mul(slices).filter(|n| u32::try_from(*n).is_ok())
        else {
            let workers = self.workers;
            let expected = format!("a number of slices, with {workers} workers in each");
            return Err(wrong(SLICES, &slices.to_string(), &expected));
        };
        Ok(DetectedCluster {
            cluster: "Cloud TPU",
            coordinator: Some(format!("{head}:{PORT}")),
            count: Some(count),
            index: Some(slice * self.workers + self.worker),
            ..DetectedCluster::default()
        })
    }
}

/// Parses the lines `NAME: 'value'` of the attribute `tpu-env`.
fn environment(text: &str) -> BTreeMap<String, String> {
    let pair = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        let quoted = ['\'', '"']
            .into_iter()
            .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
        let value = quoted.unwrap_or(value);
        (!value.is_empty()).then(|| (name.trim().to_owned(), value.to_owned()))
    };
    text.lines().filter_map(pair).collect()
}

/// Returns the host of an endpoint `name:id:host`, or of one that is only a host.
fn endpoint_host(endpoint: &str) -> Option<String> {
    let host = endpoint.splitn(3, ':').nth(2).unwrap_or(endpoint);
    // Several colons are an IPv6 address.
    let is_bare_v6 = host.contains(':') && !host.starts_with('[');
    let host = if is_bare_v6 { format!("[{host}]") } else { host.to_owned() };
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    (!host.is_empty() && host.chars().all(fits)).then_some(host)
}

/// Removes the port from a host: `[::1]:8471` and `host:8471`.
pub(super) fn without_port(address: &str) -> &str {
    match address.rsplit_once(':') {
        // Several colons without brackets are an IPv6 address without a port.
        Some((host, _)) if host.ends_with(']') || !host.contains(':') => host,
        _ => address,
    }
}

fn setup(message: String) -> Error {
    Error::Distributed {
        kind: DistributedErrorKind::Setup,
        doing: "initialize".to_owned(),
        message,
        processes: Vec::new(),
        help: Some(
            "set OXIDAX_COORDINATOR, OXIDAX_PROCESSES and OXIDAX_PROCESS_ID, which need no \
             metadata, or TPU_SKIP_MDS_QUERY=1 on a machine outside Google Cloud"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_environment_are_parsed() {
        let parsed = environment("A: 'x'\nB: \"y z\"\nURL: 'http://h:1/'\n\nC:\nD: ''\nE: plain");
        let expected = [("A", "x"), ("B", "y z"), ("E", "plain"), ("URL", "http://h:1/")];
        let parsed: Vec<(&str, &str)> =
            parsed.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(parsed, expected);
    }

    #[test]
    fn hosts_of_endpoints() {
        for (endpoint, host) in [
            ("unknown:8470:10.164.0.7", Some("10.164.0.7")),
            ("t1v-n-0:id:t1v-n-0", Some("t1v-n-0")),
            ("w:0:fd20::7", Some("[fd20::7]")),
            ("t1v-n-0", Some("t1v-n-0")),
            ("10.0.0.3", Some("10.0.0.3")),
            ("w:0:", None),
            ("<html>", None),
            ("a b", None),
        ] {
            assert_eq!(endpoint_host(endpoint).as_deref(), host, "{endpoint}");
        }
    }

    #[test]
    fn ports_are_removed_from_hosts() {
        for (address, host) in [
            ("host", "host"),
            ("host:80", "host"),
            ("10.0.0.1:80", "10.0.0.1"),
            ("[::1]:80", "[::1]"),
            ("fe80::1", "fe80::1"),
        ] {
            assert_eq!(without_port(address), host);
        }
    }
}
