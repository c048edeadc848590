//! Detection of Cloud TPU workers with a local metadata server, which answers as documented, or
//! fails in the ways that a network and other servers do.

use super::cloud_tpu::from_metadata;
use super::metadata::{MetadataServer, QueryLimits};
use super::{ClusterDetection, DetectedCluster, Machine, Variables, detect_by_metadata};
use crate::core::Error;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A server that answers each request with the bytes that a function returns for its path.
struct Server {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// `None` keeps the connection open without an answer.
    fn start(answer: impl Fn(&str) -> Option<Vec<u8>> + Send + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream: TcpStream = stream.unwrap();
                let mut request = String::new();
                let mut lines = BufReader::new(stream.try_clone().unwrap());
                while lines.read_line(&mut request).unwrap_or(0) > 2 {}
                let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
                log.lock().unwrap().push(request);
                match answer(&path) {
                    Some(bytes) => drop(stream.write_all(&bytes)),
                    // Until the client gives up.
                    None => drop(stream.read_to_end(&mut Vec::new())),
                }
            }
        });
        Server { address, requests }
    }

    /// Serves attributes as Google's server does.
    fn with(attributes: &[(&str, &str)]) -> Server {
        let attributes: BTreeMap<String, String> =
            attributes.iter().map(|(name, value)| (path(name), (*value).to_owned())).collect();
        Server::start(move |path| {
            Some(match attributes.get(path) {
                Some(value) => response("200 OK", value.as_bytes()),
                None => response("404 Not Found", b"<!DOCTYPE html><title>Error 404</title>"),
            })
        })
    }

    fn detect(&self, variables: &Variables) -> Result<Option<DetectedCluster>, Error> {
        from_metadata(&MetadataServer::new(&self.address, PATIENT), variables)
    }

    fn refused(&self, limits: QueryLimits) -> String {
        let server = MetadataServer::new(&self.address, limits);
        let said = from_metadata(&server, &Variables::new()).unwrap_err().to_string();
        assert!(said.starts_with("error[distributed]: initialize: the metadata server "), "{said}");
        assert!(said.contains("TPU_SKIP_MDS_QUERY"), "{said}");
        said
    }
}

const PATIENT: QueryLimits = QueryLimits {
    request: Duration::from_secs(60),
    total: Duration::from_secs(60),
    attempts: 5,
    pause: Duration::from_millis(1),
};

/// For servers that never answer.
const HASTY: QueryLimits = QueryLimits {
    request: Duration::from_millis(100),
    total: Duration::from_millis(300),
    attempts: 2,
    pause: Duration::from_millis(1),
};

/// For servers that cannot be reached, which is known at once: a busy machine may take its time.
const TWICE: QueryLimits = QueryLimits { attempts: 2, ..PATIENT };

fn path(name: &str) -> String {
    format!("/computeMetadata/v1/instance/attributes/{name}")
}

fn response(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nMetadata-Flavor: Google\r\nContent-Type: application/text\r\n\
         Server: Metadata Server for VM\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn variables(pairs: &[(&str, &str)]) -> Variables {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

const SLICE: [(&str, &str); 4] = [
    ("accelerator-type", "v5litepod-16"),
    ("agent-worker-number", "2"),
    (
        "worker-network-endpoints",
        "unknown:8470:10.128.0.7,unknown:8470:10.128.0.8,unknown:8470:10.128.0.9,\
         unknown:8470:10.128.0.10",
    ),
    (
        "tpu-env",
        "ACCELERATOR_TYPE: 'v5litepod-16'\nCHIPS_PER_HOST_BOUNDS: '2,2,1'\nHOST_BOUNDS: '2,2,1'\n\
         NODE_ID: 'train'\nTPU_RUNTIME_METRICS_PORTS: '8431,8432'\nWORKER_ID: '2'\nZONE: 'z'\n",
    ),
];

fn found(cluster: &DetectedCluster) -> (&str, Option<usize>, Option<usize>) {
    (cluster.coordinator.as_deref().unwrap_or_default(), cluster.count, cluster.index)
}

#[test]
fn workers_of_one_slice() {
    let server = Server::with(&SLICE);
    let cluster = server.detect(&Variables::new()).unwrap().unwrap();
    assert_eq!(found(&cluster), ("10.128.0.7:8476", Some(4), Some(2)));
    for request in server.requests.lock().unwrap().iter() {
        assert!(request.starts_with("GET /computeMetadata/v1/instance/attributes/"), "{request}");
        assert!(request.contains("\r\nMetadata-Flavor: Google\r\n"), "{request}");
        assert!(request.contains(&format!("\r\nHost: {}\r\n", server.address)), "{request}");
    }
}

#[test]
fn workers_of_several_slices() {
    let environment = "MEGASCALE_COORDINATOR_ADDRESS: '10.0.0.1:8081'\n\
                       MEGASCALE_NUM_SLICES: '3'\nMEGASCALE_SLICE_ID: '1'\n";
    let server = Server::with(&[SLICE[1], SLICE[2], ("tpu-env", environment)]);
    let cluster = server.detect(&Variables::new()).unwrap().unwrap();
    assert_eq!(found(&cluster), ("10.0.0.1:8476", Some(12), Some(6)));
    let own = variables(&[("MEGASCALE_SLICE_ID", "2")]);
    let cluster = server.detect(&own).unwrap().unwrap();
    assert_eq!(found(&cluster), ("10.0.0.1:8476", Some(12), Some(10)));
    let said = server.detect(&variables(&[("MEGASCALE_NUM_SLICES", "-1")])).unwrap_err();
    assert!(said.to_string().contains("MEGASCALE_NUM_SLICES is `-1`"), "{said}");
}

#[test]
fn worker_number_is_also_in_the_environment() {
    let server = Server::with(&SLICE[2..]);
    let cluster = server.detect(&Variables::new()).unwrap().unwrap();
    assert_eq!(found(&cluster), ("10.128.0.7:8476", Some(4), Some(2)));
}

#[test]
fn other_machines_are_not_workers() {
    assert_eq!(Server::with(&[]).detect(&Variables::new()).unwrap(), None);
    let zone = [("tpu-env", "ZONE: 'z'")];
    assert_eq!(Server::with(&zone).detect(&Variables::new()).unwrap(), None);
}

#[test]
fn impossible_values_are_refused() {
    let worker = "agent-worker-number";
    let list = "worker-network-endpoints";
    for (attributes, expected) in [
        (vec![(worker, "-1"), (list, "a")], "`agent-worker-number` = `-1`; it must be a number"),
        (vec![(worker, "99999999999999999999"), (list, "a")], "it must be a number"),
        (vec![(worker, "<html>")], "`<html>`; it must be a number"),
        (vec![(worker, "4"), (list, "a,b")], "must be below 2, the number of endpoints"),
        (vec![(worker, "0")], "`worker-network-endpoints` = ``; it must be a list"),
        (vec![(worker, "0"), (list, " , ")], "it must be a list"),
        (vec![(worker, "0"), (list, "<!DOCTYPE html>")], "it must be a list"),
        (vec![(worker, "0"), (list, "w:0:")], "it must be a list"),
        (vec![(worker, "0"), (list, "\u{0}\u{1b}[2J")], "it must be a list"),
    ] {
        let said = Server::with(&attributes).refused(PATIENT);
        assert!(said.contains(expected), "{said}");
    }
    let absurd = "MEGASCALE_COORDINATOR_ADDRESS: 'h'\nMEGASCALE_NUM_SLICES: '4294967296'\n\
                  MEGASCALE_SLICE_ID: '0'";
    let server = Server::with(&[(worker, "0"), (list, "a"), ("tpu-env", absurd)]);
    let said = server.detect(&Variables::new()).unwrap_err().to_string();
    assert!(said.contains("MEGASCALE_NUM_SLICES is `4294967296`"), "{said}");
}

#[test]
fn other_servers_are_recognized() {
    let page = b"<html>Log in to the guest network</html>";
    for (answer, expected) in [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n0".to_vec(), "`Metadata-Flavor` is none"),
        (
            b"HTTP/1.1 200 OK\r\nMetadata-Flavor: Amazon\r\nContent-Length: 1\r\n\r\n0".to_vec(),
            "`Metadata-Flavor` is Amazon",
        ),
        (b"HTTP/1.0 404 Not Found\r\n\r\n".to_vec(), "`Metadata-Flavor` is none (status 404)"),
        (
            [&b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\n\r\n"[..], page].concat(),
            "not Google's metadata server",
        ),
        (response("403 Forbidden", page), "it answered with status 403"),
        (response("200 OK", &[0xFF, 0xFE]), "the value is not UTF-8"),
    ] {
        let server = Server::start(move |_| Some(answer.clone()));
        let said = server.refused(PATIENT);
        assert!(said.contains(expected), "{said}");
        assert_eq!(server.requests.lock().unwrap().len(), 1, "final answers are not repeated");
    }
}

#[test]
fn broken_responses_are_repeated_and_then_reported() {
    let flavor = "HTTP/1.1 200 OK\r\nMetadata-Flavor: Google\r\n";
    let long = "x".repeat(40_000);
    let endless = format!("{flavor}\r\n{}", "x".repeat(3 << 20));
    for (answer, expected) in [
        (String::new(), "ends in the middle of a line"),
        ("SSH-2.0-OpenSSH_9.6\r\n".to_owned(), "not HTTP/1: it begins with \"SSH-2.0"),
        ("HTTP/1.1 abc\r\n\r\n".to_owned(), "not HTTP/1"),
        ("HTTP/1.1 70000 Odd\r\n\r\n".to_owned(), "not HTTP/1"),
        (format!("{flavor}Content-Le"), "ends in the middle of a line"),
        (format!("{flavor}Content-Length: 9\r\n\r\nabc"), "ends after 3 of 9 bytes"),
        (format!("{flavor}Content-Length: -1\r\n\r\n"), "or no length"),
        (format!("{flavor}Content-Length: 99999999999999999999\r\n\r\n"), "or no length"),
        (format!("{flavor}Content-Length: 2000000\r\n\r\n"), "more than 1048576 bytes"),
        (format!("{flavor}X: {long}\r\n\r\n"), "more than 16384 bytes"),
        (format!("{flavor}{}", "X: y\r\n".repeat(5000)), "header has more than 16384 bytes"),
        (endless, "more than 1048576 bytes"),
        (format!("{flavor}Transfer-Encoding: gzip\r\n\r\n"), "encoded as `gzip`"),
        (format!("{flavor}Transfer-Encoding: chunked\r\n\r\nzz\r\n"), "`zz` is not the size"),
        (
            format!("{flavor}Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n"),
            "more than 1048576 bytes",
        ),
        (format!("{flavor}Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n"), "longer than its size"),
        (
            String::from_utf8(response("503 Service Unavailable", b"")).unwrap(),
            "it answered with status 503",
        ),
    ] {
        let server = Server::start(move |_| Some(answer.clone().into_bytes()));
        let said = server.refused(PATIENT);
        assert!(said.contains(expected), "expected {expected}: {said}");
        assert_eq!(server.requests.lock().unwrap().len(), 5);
    }
}

#[test]
fn a_server_that_recovers_is_asked_again() {
    let failures = Mutex::new(3);
    let server = Server::start(move |asked| {
        let mut failures = failures.lock().unwrap();
        if *failures > 0 {
            *failures -= 1;
            return Some(match *failures {
                0 => Vec::new(),
                _ => response("503 Service Unavailable", b"wait"),
            });
        }
        let value = SLICE.iter().find(|(name, _)| path(name) == asked).unwrap().1;
        // In chunks, as a proxy may send it.
        let (first, second) = value.as_bytes().split_at(1);
        let mut answer = b"HTTP/1.1 200 OK\r\nmetadata-flavor: Google\r\n\
                           transfer-encoding: Chunked\r\n\r\n"
            .to_vec();
        for part in [first, second, &[]] {
            answer.extend(format!("{:x};x=y\r\n", part.len()).bytes());
            answer.extend_from_slice(part);
            answer.extend(b"\r\n");
        }
        Some(answer)
    });
    let cluster = server.detect(&Variables::new()).unwrap().unwrap();
    assert_eq!(found(&cluster), ("10.128.0.7:8476", Some(4), Some(2)));
}

#[test]
fn silent_and_missing_servers_are_reported() {
    let said = Server::start(|_| None).refused(HASTY);
    assert!(said.contains("it did not answer in time"), "{said}");
    // Nobody listens at the port of a dropped listener.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let gone = Server { address, requests: Arc::default() };
    let said = gone.refused(TWICE);
    assert!(said.contains("did not answer `tpu-env`: no connection to 127.0.0.1:"), "{said}");
    let nowhere = Server { address: "no host at all".to_owned(), requests: Arc::default() };
    let said = nowhere.refused(TWICE);
    assert!(said.contains("`no host at all:80`"), "{said}");
}

#[test]
fn only_possible_workers_are_asked() {
    let server = Server::with(&SLICE);
    let alone = Machine { has_tpu: false, hosts: "" };
    let with_tpu = Machine { has_tpu: true, hosts: "" };
    let host = ("GCE_METADATA_HOST", server.address.as_str());
    assert_eq!(
        detect_by_metadata(ClusterDetection::Automatic, &Variables::new(), alone).unwrap(),
        None
    );
    let skips = variables(&[host, ("TPU_SKIP_MDS_QUERY", "True")]);
    assert_eq!(detect_by_metadata(ClusterDetection::Automatic, &skips, with_tpu).unwrap(), None);
    assert!(server.requests.lock().unwrap().is_empty());
    let own = variables(&[host, ("OXIDAX_COORDINATOR", "h:1")]);
    for machine in [alone, with_tpu] {
        let cluster =
            detect_by_metadata(ClusterDetection::Automatic, &own, machine).unwrap().unwrap();
        assert_eq!(found(&cluster), ("h:1", Some(4), Some(2)));
    }
}
