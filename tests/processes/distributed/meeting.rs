//! Processes that join and synchronize.

use crate::distributed::scene::{Actor, address};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

#[test]
fn two_and_four_processes_join_and_leave() {
    for count in [2, 4] {
        let actors = Actor::all("meet", &address(), count);
        let pids: Vec<u32> = actors.iter().map(Actor::pid).collect();
        for (index, actor) in actors.into_iter().enumerate() {
            let said = actor.rest();
            let lines: Vec<&str> = said.lines().collect();
            assert_eq!(
                (lines[0], lines[2]),
                (format!("{index} of {count}").as_str(), "done"),
                "{said}"
            );
            for (other, pid) in pids.iter().enumerate() {
                assert!(lines[1].contains(&format!("process {other} (")), "{said}");
                assert!(lines[1].contains(&format!(":{pid})")), "{said}");
            }
        }
    }
}

#[test]
fn last_process_may_start_much_later() {
    let address = address();
    // Nor does the coordinator start first.
    let mut actors = vec![Actor::start("late barrier", &address, 3, 2)];
    std::thread::sleep(std::time::Duration::from_millis(300));
    actors.push(Actor::start("late barrier", &address, 3, 0));
    std::thread::sleep(std::time::Duration::from_millis(300));
    actors.push(Actor::start("late barrier", &address, 3, 1));
    for actor in &mut actors {
        actor.expect("joined");
    }
    actors.iter_mut().for_each(Actor::go);
    for actor in actors {
        assert_eq!(actor.rest(), "done");
    }
}

#[test]
fn keys_are_shared() {
    for count in [2, 4] {
        for actor in Actor::all("keys", &address(), count) {
            let said = actor.rest();
            assert_eq!(
                said,
                "error[distributed]: get `nobody's`: no process put a value within 50ms\ndone"
            );
        }
    }
}

#[test]
fn two_hundred_barriers_while_the_processor_is_busy() {
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::black_box((0..10_000u64).map(std::hint::black_box).sum::<u64>());
                }
            });
        }
        let said: Vec<String> =
            Actor::all("barriers", &address(), 4).into_iter().map(Actor::rest).collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(said, ["done"; 4]);
    });
}

#[test]
fn rounds_without_arrays_need_no_plugin() {
    for actor in Actor::all("swap", &address(), 4) {
        assert_eq!(actor.rest(), "done");
    }
}

#[test]
fn large_values_are_split_and_limited() {
    for actor in Actor::all("large", &address(), 2) {
        let said = actor.rest();
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].contains("put `too large`: the value takes 67108"), "{said}");
        assert!(lines[0].contains("of the coordinator's 67108864"), "{said}");
        assert!(lines[1].contains("raise `store_limit`"), "{said}");
        assert!(lines[2].contains("a key has at most 65536 bytes, this one 70005"), "{said}");
        assert_eq!(lines[3..], ["done"], "{said}");
    }
}

#[test]
fn invalid_protocols_are_harmless() {
    let address = address();
    let mut actors = Actor::all("late barrier", &address, 2);
    for actor in &mut actors {
        actor.expect("joined");
    }
    let mut noise = 0x9E37_79B9_7F4A_7C15u64;
    let mut held = Vec::new();
    for round in 0..60 {
        let mut stream = TcpStream::connect(&address).unwrap();
        let mut bytes: Vec<u8> = match round % 3 {
            // Invalid HTTP/2 after the greeting, another protocol, and random bytes.
            0 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            1 => b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
            _ => Vec::new(),
        };
        bytes.extend((0..2000).map(|_| {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            noise as u8
        }));
        // The coordinator may close the connection before everything is written.
        drop(stream.write_all(&bytes));
        if round % 2 == 0 {
            held.push(stream);
        }
    }
    actors.iter_mut().for_each(Actor::go);
    for actor in actors {
        assert_eq!(actor.rest(), "done");
    }
    drop(held);
}

/// Serves the metadata of worker `worker` of a Cloud TPU slice whose workers have the address
/// `head`, and returns the server's address.
fn metadata_server(head: &str, worker: usize, workers: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let endpoints = vec![format!("unknown:8470:{head}"); workers].join(",");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = String::new();
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            while lines.read_line(&mut request).unwrap() > 2 {}
            let is_known = request.contains("\r\nMetadata-Flavor: Google\r\n");
            let path = request.split(' ').nth(1).unwrap();
            let (status, body) = match path.rsplit_once('/').unwrap() {
                _ if !is_known => ("403 Forbidden", String::new()),
                ("/computeMetadata/v1/instance/attributes", "agent-worker-number") => {
                    ("200 OK", worker.to_string())
                }
                ("/computeMetadata/v1/instance/attributes", "worker-network-endpoints") => {
                    ("200 OK", endpoints.clone())
                }
                _ => ("404 Not Found", "<title>Error 404</title>".to_owned()),
            };
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\nMetadata-Flavor: Google\r\nContent-Length: {length}\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

#[cfg(target_os = "linux")]
#[test]
fn workers_of_a_cloud_tpu_join_through_their_metadata() {
    // The port is fixed, so the coordinator gets a loopback address of its own.
    let head = "127.84.76.1";
    let start = |worker| {
        let server = metadata_server(head, worker, 2);
        Actor::start_in("meet", &[("GCE_METADATA_HOST", server.as_str())])
    };
    for (index, actor) in [start(0), start(1)].into_iter().enumerate() {
        let said = actor.rest();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], format!("{index} of 2"), "{said}");
        assert!(lines[1].contains("process 0 (") && lines[1].contains("process 1 ("), "{said}");
        assert_eq!(lines[2], "done", "{said}");
    }
    // Without a second worker, the error names it and the port.
    let server = metadata_server("127.84.76.2", 0, 2);
    let said = Actor::start_in("join", &[("GCE_METADATA_HOST", server.as_str())]).rest();
    assert!(said.contains("process 1 of 2 never joined"), "{said}");
    assert!(said.contains("firewall must let the other hosts reach TCP port 8476"), "{said}");
}
