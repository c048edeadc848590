//! Cluster detection from environment variables: the number of processes, this process, and the
//! coordinator.

use crate::core::{DistributedErrorKind, Error};
use std::collections::BTreeMap;

/// The environment variables that are used.
pub(super) type Variables = BTreeMap<String, String>;

/// The settings of a cluster. Missing ones must be set in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DetectedCluster {
    /// The cluster's name for messages. Empty if none was detected.
    pub(super) cluster: &'static str,
    pub(super) coordinator: Option<String>,
    pub(super) count: Option<usize>,
    pub(super) index: Option<usize>,
    /// Identifies this run of the program.
    pub(super) run: String,
    /// The settings to add if the environment is incomplete.
    pub(super) hint: &'static str,
}

/// The coordinator's port on Cloud TPU and Kubernetes, equal to JAX's because firewalls may allow
/// it.
const TPU_PORT: u16 = 8482;
const KUBERNETES_PORT: u16 = 55527;

/// SLURM jobs use the last 4096 ports, chosen by the job's number, so that jobs on one node rarely
/// collide.
const SLURM_PORTS: u64 = 4096;

/// Detects a cluster. oxidax's own variables override those of Cloud TPU, SLURM and Kubernetes
/// individually.
pub(super) fn detect(variables: &Variables) -> Result<DetectedCluster, Error> {
    let mut found = if let Some(found) = cloud_tpu(variables)? {
        found
    } else if let Some(found) = slurm(variables)? {
        found
    } else {
        kubernetes(variables)?.unwrap_or_default()
    };
    if let Some(address) = variables.get("OXIDAX_COORDINATOR") {
        found.coordinator = Some(address.clone());
    }
    if variables.contains_key("OXIDAX_PROCESSES") {
        found.count = Some(number(variables, "OXIDAX_PROCESSES")?);
    }
    if variables.contains_key("OXIDAX_PROCESS_ID") {
        found.index = Some(number(variables, "OXIDAX_PROCESS_ID")?);
    }
    Ok(found)
}

/// A Cloud TPU VM. The workers of a slice are numbered, and so are slices if there are several.
fn cloud_tpu(variables: &Variables) -> Result<Option<DetectedCluster>, Error> {
    let workers =
        variables.get("TPU_PROCESS_ADDRESSES").or_else(|| variables.get("TPU_WORKER_HOSTNAMES"));
    let (Some(workers), true) = (workers, variables.contains_key("TPU_WORKER_ID")) else {
        return Ok(None);
    };
    let workers: Vec<&str> =
        workers.split(',').map(str::trim).filter(|worker| !worker.is_empty()).collect();
    let Some(first) = workers.first() else {
        return Err(wrong("TPU_WORKER_HOSTNAMES", "", "the workers' names, with commas between"));
    };
    let worker = number(variables, "TPU_WORKER_ID")?;
    if worker >= workers.len() {
        let expected = format!("below {}, the number of workers", workers.len());
        return Err(wrong("TPU_WORKER_ID", &worker.to_string(), &expected));
    }
    let (mut slices, mut slice, mut head) = (1, 0, *first);
    if variables.contains_key("MEGASCALE_NUM_SLICES") {
        slices = number(variables, "MEGASCALE_NUM_SLICES")?;
        slice = number(variables, "MEGASCALE_SLICE_ID")?;
        if slice >= slices {
            let expected = format!("below {slices}, the number of slices");
            return Err(wrong("MEGASCALE_SLICE_ID", &slice.to_string(), &expected));
        }
    }
    match variables.get("MEGASCALE_COORDINATOR_ADDRESS") {
        Some(address) => head = address,
        None if slices > 1 => {
            let expected = "the address of slice 0's worker 0, as there are several slices";
            return Err(wrong("MEGASCALE_COORDINATOR_ADDRESS", "", expected));
        }
        None => {}
    }
    Ok(Some(DetectedCluster {
        cluster: "Cloud TPU",
        coordinator: Some(format!("{}:{TPU_PORT}", without_port(head))),
        count: Some(workers.len() * slices),
        index: Some(slice * workers.len() + worker),
        ..DetectedCluster::default()
    }))
}

/// A SLURM step. Tasks are numbered, and task 0 runs on the first node of the list.
fn slurm(variables: &Variables) -> Result<Option<DetectedCluster>, Error> {
    let nodes =
        variables.get("SLURM_STEP_NODELIST").or_else(|| variables.get("SLURM_JOB_NODELIST"));
    let (Some(nodes), true) = (nodes, variables.contains_key("SLURM_PROCID")) else {
        return Ok(None);
    };
    let Some(node) = first_node(nodes) else {
        let expected = "a list of nodes like `gpu[01-04,07],login1`";
        return Err(wrong("SLURM_JOB_NODELIST", nodes, expected));
    };
    let job = number(variables, "SLURM_JOB_ID")? as u64;
    let port = u64::from(u16::MAX) + 1 - SLURM_PORTS + job % SLURM_PORTS;
    let step = variables.get("SLURM_STEP_ID").map_or("batch", String::as_str);
    Ok(Some(DetectedCluster {
        cluster: "SLURM",
        coordinator: Some(format!("{node}:{port}")),
        count: Some(number(variables, "SLURM_NTASKS")?),
        index: Some(number(variables, "SLURM_PROCID")?),
        run: format!("slurm job {job} step {step}"),
        hint: "",
    }))
}

/// A pod of an indexed job. It is called `JOB-INDEX`, and reaches the pod of index 0 through a
/// headless service.
fn kubernetes(variables: &Variables) -> Result<Option<DetectedCluster>, Error> {
    if !variables.contains_key("KUBERNETES_SERVICE_HOST")
        || !variables.contains_key("JOB_COMPLETION_INDEX")
    {
        return Ok(None);
    }
    let index = number(variables, "JOB_COMPLETION_INDEX")?;
    let host = variables.get("HOSTNAME").map_or("", String::as_str);
    let Some(job) = host.strip_suffix(&format!("-{index}")) else {
        let expected = format!("the pod's name in an indexed job, which ends in `-{index}`");
        return Err(wrong("HOSTNAME", host, &expected));
    };
    let service = variables.get("OXIDAX_SERVICE").map(String::as_str);
    Ok(Some(DetectedCluster {
        cluster: "Kubernetes",
        coordinator: service.map(|service| format!("{job}-0.{service}:{KUBERNETES_PORT}")),
        count: None,
        index: Some(index),
        run: String::new(),
        hint: "a pod knows neither the number of pods nor their service: set OXIDAX_PROCESSES to the \
               job's `completions`, and OXIDAX_SERVICE to the headless service in `subdomain`",
    }))
}

/// Returns the first host of a list like `rack[1-2]node[01-04],login`.
fn first_node(nodes: &str) -> Option<String> {
    let mut name = String::new();
    let mut rest = nodes.trim();
    loop {
        let end = rest.find(['[', ',']).unwrap_or(rest.len());
        name.push_str(&rest[..end]);
        match rest[end..].strip_prefix('[') {
            None => break,
            Some(bracket) => {
                let (numbers, after) = bracket.split_once(']')?;
                let first = numbers.split([',', '-']).next()?;
                if first.is_empty() || !first.bytes().all(|digit| digit.is_ascii_digit()) {
                    return None;
                }
                name.push_str(first);
                rest = after;
            }
        }
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    (!name.is_empty() && name.chars().all(fits)).then_some(name)
}

/// Removes the port from a host: `[::1]:8471` and `host:8471`.
fn without_port(address: &str) -> &str {
    match address.rsplit_once(':') {
        // Several colons without brackets are an IPv6 address without a port.
        Some((host, _)) if host.ends_with(']') || !host.contains(':') => host,
        _ => address,
    }
}

fn number(variables: &Variables, name: &str) -> Result<usize, Error> {
    let text = variables.get(name).map_or("", String::as_str);
    text.trim().parse().map_err(|_| wrong(name, text, "a number"))
}

fn wrong(name: &str, text: &str, expected: &str) -> Error {
    let message = match text {
        "" => format!("{name} is not set; it must be {expected}"),
        text => format!("{name} is `{text}`; it must be {expected}"),
    };
    Error::Distributed {
        kind: DistributedErrorKind::Setup,
        doing: "initialize".to_owned(),
        message,
        processes: Vec::new(),
        help: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn found(pairs: &[(&str, &str)]) -> (String, Option<usize>, Option<usize>) {
        let found = detect(&variables(pairs)).unwrap();
        (found.coordinator.unwrap_or_default(), found.count, found.index)
    }

    fn refused(pairs: &[(&str, &str)]) -> String {
        detect(&variables(pairs)).unwrap_err().to_string()
    }

    #[test]
    fn nothing_is_detected_without_variables() {
        assert_eq!(detect(&Variables::new()).unwrap(), DetectedCluster::default());
        // A batch script's node has a list, but no task.
        assert_eq!(found(&[("SLURM_JOB_NODELIST", "n1")]), (String::new(), None, None));
    }

    #[test]
    fn one_slice_of_a_cloud_tpu() {
        let slice = [("TPU_WORKER_HOSTNAMES", "t-0, t-1,t-2,t-3"), ("TPU_WORKER_ID", "2")];
        assert_eq!(found(&slice), ("t-0:8482".into(), Some(4), Some(2)));
        let addresses = [slice[0], slice[1], ("TPU_PROCESS_ADDRESSES", "10.0.0.5:8471,b:8471,c:1")];
        assert_eq!(found(&addresses), ("10.0.0.5:8482".into(), Some(3), Some(2)));
        let alone = [("TPU_WORKER_HOSTNAMES", "localhost"), ("TPU_WORKER_ID", "0")];
        assert_eq!(found(&alone), ("localhost:8482".into(), Some(1), Some(0)));
    }

    #[test]
    fn processes_of_several_slices_are_numbered() {
        let slices = [
            ("TPU_WORKER_HOSTNAMES", "w-0,w-1"),
            ("TPU_WORKER_ID", "1"),
            ("MEGASCALE_COORDINATOR_ADDRESS", "s0-w0:8081"),
            ("MEGASCALE_NUM_SLICES", "3"),
            ("MEGASCALE_SLICE_ID", "2"),
        ];
        assert_eq!(found(&slices), ("s0-w0:8482".into(), Some(6), Some(5)));
        let said = refused(&[&slices[..2], &slices[3..]].concat());
        assert!(said.contains("MEGASCALE_COORDINATOR_ADDRESS is not set"), "{said}");
        let said = refused(&[&slices[..4], &[("MEGASCALE_SLICE_ID", "3")]].concat());
        assert!(said.contains("MEGASCALE_SLICE_ID is `3`; it must be below 3"), "{said}");
    }

    #[test]
    fn worker_ids_must_be_on_the_list() {
        let said = refused(&[("TPU_WORKER_HOSTNAMES", "a,b"), ("TPU_WORKER_ID", "2")]);
        assert!(said.contains("TPU_WORKER_ID is `2`; it must be below 2"), "{said}");
        let said = refused(&[("TPU_WORKER_HOSTNAMES", ","), ("TPU_WORKER_ID", "0")]);
        assert!(said.contains("TPU_WORKER_HOSTNAMES is not set"), "{said}");
    }

    #[test]
    fn a_step_of_slurm() {
        let step = [
            ("SLURM_JOB_ID", "4097"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_NTASKS", "8"),
            ("SLURM_PROCID", "5"),
            ("SLURM_JOB_NODELIST", "gpu[007-009,012],login"),
        ];
        assert_eq!(found(&step), ("gpu007:61441".into(), Some(8), Some(5)));
        let of_step = [&step[..], &[("SLURM_STEP_NODELIST", "gpu012")]].concat();
        assert_eq!(found(&of_step).0, "gpu012:61441");
        assert_eq!(detect(&variables(&step)).unwrap().run, "slurm job 4097 step 0");
        let said = refused(&step[1..]);
        assert!(said.contains("SLURM_JOB_ID is not set; it must be a number"), "{said}");
        let said = refused(&[&step[..4], &[("SLURM_JOB_NODELIST", "gpu[a-b]")]].concat());
        assert!(said.contains("`gpu[a-b]`"), "{said}");
    }

    #[test]
    fn first_nodes_of_lists() {
        for (list, first) in [
            ("node001", Some("node001")),
            ("node001,host2", Some("node001")),
            ("node[001-015],host2", Some("node001")),
            ("node[001,007-015],host2", Some("node001")),
            ("rack[2-3]node[05-06].example.org,a", Some("rack2node05.example.org")),
            ("n[1]", Some("n1")),
            ("", None),
            (",n", None),
            ("n[", None),
            ("n[]", None),
            ("n[1-2", None),
            ("n[x]", None),
            ("a b", None),
        ] {
            assert_eq!(first_node(list).as_deref(), first, "{list}");
        }
    }

    #[test]
    fn a_pod_of_an_indexed_job() {
        let pod = [
            ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
            ("JOB_COMPLETION_INDEX", "3"),
            ("HOSTNAME", "train-gpt-3"),
            ("OXIDAX_SERVICE", "pods"),
            ("OXIDAX_PROCESSES", "4"),
        ];
        assert_eq!(found(&pod), ("train-gpt-0.pods:55527".into(), Some(4), Some(3)));
        let bare = detect(&variables(&pod[..3])).unwrap();
        assert_eq!((bare.coordinator, bare.count, bare.index), (None, None, Some(3)));
        assert!(bare.hint.contains("OXIDAX_SERVICE"));
        let said = refused(&[pod[0], pod[1], ("HOSTNAME", "train-gpt-x7k2p")]);
        assert!(said.contains("ends in `-3`"), "{said}");
        // A pod of another kind.
        assert_eq!(found(&[pod[0], ("HOSTNAME", "web-1")]), (String::new(), None, None));
    }

    #[test]
    fn own_variables_override_individually() {
        let own = [
            ("OXIDAX_COORDINATOR", "10.1.2.3:4000"),
            ("OXIDAX_PROCESSES", "2"),
            ("OXIDAX_PROCESS_ID", "1"),
        ];
        assert_eq!(found(&own), ("10.1.2.3:4000".into(), Some(2), Some(1)));
        let slice = [("TPU_WORKER_HOSTNAMES", "a,b"), ("TPU_WORKER_ID", "1"), own[0]];
        assert_eq!(found(&slice), ("10.1.2.3:4000".into(), Some(2), Some(1)));
        let said = refused(&[("OXIDAX_PROCESS_ID", "one")]);
        assert!(said.contains("OXIDAX_PROCESS_ID is `one`; it must be a number"), "{said}");
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
