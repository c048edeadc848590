//! Cluster detection: the number of processes, this process, and the coordinator, from environment
//! variables, the pod's hosts file, and the metadata server of Cloud TPU.

mod cloud_tpu;
mod http;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod local_rank;
mod metadata;
#[cfg(test)]
mod metadata_tests;
mod open_mpi;

use crate::core::{DistributedErrorKind, Error};
use metadata::{MetadataServer, QueryLimits};
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
    /// The devices of this process, if several processes share the host. By default all.
    pub(super) local_device_ids: Option<Vec<u32>>,
    /// Identifies this run of the program.
    pub(super) run: String,
    /// The settings to add if the environment is incomplete.
    pub(super) hint: &'static str,
}

/// The name of a Kubernetes cluster.
pub(super) const KUBERNETES: &str = "Kubernetes";

/// The coordinator's port on Kubernetes, equal to JAX's.
const KUBERNETES_PORT: u16 = 55527;

/// SLURM jobs use the last 4096 ports, chosen by the job's number, so that jobs on one node rarely
/// collide.
const SLURM_PORTS: u64 = 4096;

/// Facts of this machine that detection uses beside the environment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine<'a> {
    /// True if the host has TPU chips.
    pub(super) has_tpu: bool,
    /// The text of `/etc/hosts`.
    pub(super) hosts: &'a str,
}

/// The launcher of the processes, for
/// [`cluster_detection_method`](super::ClusterConfig::cluster_detection_method).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClusterDetection {
    /// The first that is found: Cloud TPU, Open MPI, SLURM, Kubernetes.
    #[default]
    Automatic,
    /// None: only `ClusterConfig` and oxidax's own variables count.
    Deactivate,
    /// A Cloud TPU VM or GKE, also by the metadata server.
    CloudTpu,
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// SLURM's `srun`.
    Slurm,
    /// An indexed job of Kubernetes.
    Kubernetes,
}

impl ClusterDetection {
    fn includes(self, other: ClusterDetection) -> bool {
        self == other || self == ClusterDetection::Automatic
    }
}

/// Detects a cluster from the environment. oxidax's own variables override those of Cloud TPU, Open
/// MPI, SLURM and Kubernetes individually.
pub(super) fn detect(
    method: ClusterDetection,
    variables: &Variables,
    machine: Machine<'_>,
) -> Result<DetectedCluster, Error> {
    type Find<'a> = &'a dyn Fn() -> Result<Option<DetectedCluster>, Error>;
    let launchers: [(ClusterDetection, Find<'_>); 4] = [
        (ClusterDetection::CloudTpu, &|| cloud_tpu::from_variables(variables)),
        (ClusterDetection::OpenMpi, &|| open_mpi::from_variables(variables)),
        (ClusterDetection::Slurm, &|| slurm(variables)),
        (ClusterDetection::Kubernetes, &|| kubernetes(variables, machine.hosts)),
    ];
    let mut found = DetectedCluster::default();
    for (launcher, find) in launchers {
        if method.includes(launcher)
            && let Some(cluster) = find()?
        {
            found = cluster;
            break;
        }
    }
    override_with_own(&mut found, variables)?;
    Ok(found)
}

/// Asks the metadata server for the cluster of a Cloud TPU VM, if this machine can be one: it has
/// TPU chips, or the environment names the server. oxidax's own variables override the answers.
pub(super) fn detect_by_metadata(
    method: ClusterDetection,
    variables: &Variables,
    machine: Machine<'_>,
) -> Result<Option<DetectedCluster>, Error> {
    if !method.includes(ClusterDetection::CloudTpu) {
        return Ok(None);
    }
    // libtpu's variable for machines without such a server.
    let skips = variables.get("TPU_SKIP_MDS_QUERY").is_some_and(|text| {
        matches!(text.to_lowercase().as_str(), "1" | "true" | "t" | "yes" | "y")
    });
    let named = variables.get("GCE_METADATA_HOST");
    if skips || (named.is_none() && !machine.has_tpu) {
        return Ok(None);
    }
    let host = named.map_or(metadata::DEFAULT_HOST, String::as_str);
    let server = MetadataServer::new(host, QueryLimits::default());
    let Some(mut found) = cloud_tpu::from_metadata(&server, variables)? else { return Ok(None) };
    override_with_own(&mut found, variables)?;
    Ok(Some(found))
}

fn override_with_own(found: &mut DetectedCluster, variables: &Variables) -> Result<(), Error> {
    if let Some(address) = variables.get("OXIDAX_COORDINATOR") {
        found.coordinator = Some(address.clone());
    }
    if variables.contains_key("OXIDAX_PROCESSES") {
        found.count = Some(number(variables, "OXIDAX_PROCESSES")?);
    }
    if variables.contains_key("OXIDAX_PROCESS_ID") {
        found.index = Some(number(variables, "OXIDAX_PROCESS_ID")?);
    }
    if let Some(text) = variables.get("OXIDAX_LOCAL_DEVICE_IDS") {
        let ids: Result<Vec<u32>, _> = text.split(',').map(|id| id.trim().parse()).collect();
        let expected = "devices' numbers, separated by commas";
        let ids = ids.map_err(|_| wrong("OXIDAX_LOCAL_DEVICE_IDS", text, expected))?;
        found.local_device_ids = Some(ids);
    }
    Ok(())
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
        local_device_ids: local_rank::slurm(variables)?,
        run: format!("slurm job {job} step {step}"),
        hint: "",
    }))
}

/// A pod of an indexed job, alone or in a JobSet. It is called `JOB-INDEX`, and reaches the pod of
/// index 0 through a headless service, whose name `hosts` contains if the pod has a `subdomain`.
fn kubernetes(variables: &Variables, hosts: &str) -> Result<Option<DetectedCluster>, Error> {
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
    let service = service.or_else(|| domain_of(host, hosts));
    Ok(Some(DetectedCluster {
        cluster: KUBERNETES,
        coordinator: service.map(|service| format!("{job}-0.{service}:{KUBERNETES_PORT}")),
        count: None,
        index: Some(index),
        local_device_ids: None,
        run: String::new(),
        hint: "set OXIDAX_PROCESSES to the job's `completions` if the Kubernetes API cannot be asked; \
               the coordinator's address needs a headless service, named in the \
               pod's `subdomain` or in OXIDAX_SERVICE",
    }))
}

/// Asks the Kubernetes API for the number of pods of this pod's job.
///
/// # Errors
/// The reason why there is no answer.
#[cfg(feature = "kubernetes")]
pub(super) fn count_of_kubernetes(variables: &Variables) -> Result<usize, String> {
    const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
    let get = |name: &str| variables.get(name).map_or("", String::as_str);
    let (host, index) = (get("HOSTNAME"), get("JOB_COMPLETION_INDEX"));
    let job = host.strip_suffix(&format!("-{index}")).unwrap_or(host);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    kubernetes::parallelism(variables, std::path::Path::new(ACCOUNT), job, deadline)
}

#[cfg(not(feature = "kubernetes"))]
pub(super) fn count_of_kubernetes(_: &Variables) -> Result<usize, String> {
    Err("the feature `kubernetes`, with which it is asked, is not enabled".to_owned())
}

/// Returns the domain of `host` in a hosts file. Kubernetes writes the line `10.0.0.5
/// job-3.pods.default.svc.cluster.local job-3` for a pod with a subdomain.
fn domain_of<'a>(host: &str, hosts: &'a str) -> Option<&'a str> {
    hosts.lines().find_map(|line| {
        let line = line.split('#').next()?;
        line.split_whitespace().skip(1).find_map(|name| {
            let domain = name.strip_prefix(host)?.strip_prefix('.')?;
            (!domain.is_empty()).then_some(domain)
        })
    })
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

    const ALONE: Machine<'_> = Machine { has_tpu: false, hosts: "127.0.0.1 localhost" };

    fn variables(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    fn found(pairs: &[(&str, &str)]) -> (String, Option<usize>, Option<usize>) {
        let found = detect(ClusterDetection::Automatic, &variables(pairs), ALONE).unwrap();
        (found.coordinator.unwrap_or_default(), found.count, found.index)
    }

    fn refused(pairs: &[(&str, &str)]) -> String {
        detect(ClusterDetection::Automatic, &variables(pairs), ALONE).unwrap_err().to_string()
    }

    #[test]
    fn nothing_is_detected_without_variables() {
        assert_eq!(
            detect(ClusterDetection::Automatic, &Variables::new(), ALONE).unwrap(),
            DetectedCluster::default()
        );
        // A batch script's node has a list, but no task.
        assert_eq!(found(&[("SLURM_JOB_NODELIST", "n1")]), (String::new(), None, None));
    }

    #[test]
    fn one_slice_of_a_cloud_tpu() {
        let slice = [("TPU_WORKER_HOSTNAMES", "t-0, t-1,t-2,t-3"), ("TPU_WORKER_ID", "2")];
        assert_eq!(found(&slice), ("t-0:8476".into(), Some(4), Some(2)));
        let addresses = [slice[0], slice[1], ("TPU_PROCESS_ADDRESSES", "10.0.0.5:8471,b:8471,c:1")];
        assert_eq!(found(&addresses), ("10.0.0.5:8476".into(), Some(3), Some(2)));
        let alone = [("TPU_WORKER_HOSTNAMES", "localhost"), ("TPU_WORKER_ID", "0")];
        assert_eq!(found(&alone), ("localhost:8476".into(), Some(1), Some(0)));
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
        assert_eq!(found(&slices), ("s0-w0:8476".into(), Some(6), Some(5)));
        let said = refused(&[&slices[..2], &slices[3..]].concat());
        assert!(said.contains("MEGASCALE_COORDINATOR_ADDRESS is not set"), "{said}");
        let said = refused(&[&slices[..4], &[("MEGASCALE_SLICE_ID", "3")]].concat());
        assert!(said.contains("MEGASCALE_SLICE_ID is `3`; it must be below 3"), "{said}");
    }

    #[test]
    fn worker_ids_must_be_on_the_list() {
        let said = refused(&[("TPU_WORKER_HOSTNAMES", "a,b"), ("TPU_WORKER_ID", "2")]);
        assert!(said.contains("TPU_WORKER_ID is `2`; it must be below 2"), "{said}");
        let said = refused(&[
            ("TPU_WORKER_HOSTNAMES", "a,b"),
            ("TPU_WORKER_ID", "1"),
            ("MEGASCALE_COORDINATOR_ADDRESS", "a"),
            ("MEGASCALE_NUM_SLICES", "9223372036854775807"),
            ("MEGASCALE_SLICE_ID", "4"),
        ]);
        assert!(said.contains("MEGASCALE_NUM_SLICES is `9223372036854775807`"), "{said}");
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
        assert_eq!(
            detect(ClusterDetection::Automatic, &variables(&step), ALONE).unwrap().run,
            "slurm job 4097 step 0"
        );
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
        let own = "train-gpt-0.pods:55527";
        assert_eq!(found(&pod), (own.into(), Some(4), Some(3)));
        let bare = detect(ClusterDetection::Automatic, &variables(&pod[..3]), ALONE).unwrap();
        assert_eq!((bare.coordinator, bare.count, bare.index), (None, None, Some(3)));
        assert!(bare.hint.contains("OXIDAX_SERVICE"));
        let said = refused(&[pod[0], pod[1], ("HOSTNAME", "train-gpt-x7k2p")]);
        assert!(said.contains("ends in `-3`"), "{said}");
        // The pod's own line in the hosts file contains its service.
        let file = "127.0.0.1 localhost\n# train-gpt-3.no\n10.4.0.9\ttrain-gpt-3.set.ns.svc.cluster.local\ttrain-gpt-3\n";
        let machine = Machine { has_tpu: false, hosts: file };
        let named = detect(ClusterDetection::Automatic, &variables(&pod[..3]), machine).unwrap();
        assert_eq!(
            named.coordinator.as_deref(),
            Some("train-gpt-0.set.ns.svc.cluster.local:55527")
        );
        assert_eq!(
            detect(ClusterDetection::Automatic, &variables(&pod), machine)
                .unwrap()
                .coordinator
                .unwrap(),
            own
        );
        assert_eq!(domain_of("a-1", "1.2.3.4 a-10.b a-1 a-1."), None);
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
    fn a_method_ignores_other_launchers() {
        let both = variables(&[
            ("SLURM_PROCID", "1"),
            ("SLURM_JOB_NODELIST", "n[1-2]"),
            ("SLURM_JOB_ID", "7"),
            ("SLURM_NTASKS", "2"),
            ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
            ("JOB_COMPLETION_INDEX", "3"),
            ("HOSTNAME", "job-3"),
        ]);
        let index = |method| detect(method, &both, ALONE).unwrap().index;
        assert_eq!(index(ClusterDetection::Automatic), Some(1));
        assert_eq!(index(ClusterDetection::Slurm), Some(1));
        assert_eq!(index(ClusterDetection::Kubernetes), Some(3));
        assert_eq!(index(ClusterDetection::OpenMpi), None);
        assert_eq!(index(ClusterDetection::Deactivate), None);
        let machine = Machine { has_tpu: true, hosts: "" };
        let asked = detect_by_metadata(ClusterDetection::Slurm, &both, machine).unwrap();
        assert_eq!(asked, None);
    }
}
