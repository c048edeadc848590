//! The coordinator's listening socket.

use super::config::ResolvedConfig;
use super::rendezvous::{Coordinator, Failure, Terms};
use crate::core::Error;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Pause before the next lookup of a host name that is not known yet.
const LOOK_UP_AGAIN: Duration = Duration::from_millis(500);

/// Starts the coordinator on process 0.
pub(super) fn listen(config: &ResolvedConfig, deadline: Instant) -> Result<Coordinator, Error> {
    let addresses = look_up(&config.bind, deadline)?;
    let terms = Terms {
        count: config.count,
        run: config.run.clone(),
        heartbeat_timeout: config.heartbeat_timeout,
        store_limit: config.store_limit,
    };
    let started =
        TcpListener::bind(&addresses[..]).and_then(|listener| Coordinator::start(listener, terms));
    started.map_err(|error| {
        let help = match error.kind() {
            io::ErrorKind::AddrInUse => {
                "another program has this port, or two processes were started as process 0"
            }
            io::ErrorKind::AddrNotAvailable => {
                "process 0 must run on the host with this address; if the other processes use \
                 another address for it, set `coordinator_bind_address`"
            }
            _ => "the coordinator needs an address of this host and a free port",
        };
        let message = format!("process 0 cannot listen at {}: {error}", config.bind);
        Failure::setup(message).of(&[0]).help(help).error("initialize")
    })
}

/// Returns the addresses of a host. Retries, because pods get their name some time after they
/// start.
fn look_up(address: &str, deadline: Instant) -> Result<Vec<SocketAddr>, Error> {
    loop {
        let (answer, answered) = sync_channel(1);
        let asked = address.to_owned();
        // On its own thread, because the system's time-out for lookups can be long.
        let look_up_host = move || {
            drop(answer.send(asked.to_socket_addrs().map(Vec::from_iter)));
        };
        let unknown = |why: String| {
            let message = format!("process 0 cannot find its own address `{address}`: {why}");
            Failure::setup(message).of(&[0]).error("initialize")
        };
        std::thread::Builder::new()
            .name("oxidax-look-up".into())
            .spawn(look_up_host)
            .map_err(|error| unknown(error.to_string()))?;
        let left = deadline.saturating_duration_since(Instant::now());
        let why = match answered.recv_timeout(left) {
            Ok(Ok(addresses)) if !addresses.is_empty() => return Ok(addresses),
            Ok(Ok(_)) => "the name has no addresses".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                "the lookup timed out".to_owned()
            }
        };
        if Instant::now() + LOOK_UP_AGAIN >= deadline {
            return Err(unknown(why));
        }
        std::thread::sleep(LOOK_UP_AGAIN);
    }
}

/// Returns the address at which this host reaches a socket that listens here.
pub(super) fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_respect_the_deadline() {
        let deadline = Instant::now() + Duration::from_secs(60);
        let found = look_up("127.0.0.1:7400", deadline).unwrap();
        assert_eq!(found, ["127.0.0.1:7400".parse().unwrap()]);
        // A name that cannot exist, with no time left for another attempt.
        let error = look_up("no host at all:1", Instant::now() + LOOK_UP_AGAIN / 2).unwrap_err();
        assert!(error.to_string().contains("its own address `no host at all:1`"), "{error}");
    }

    #[test]
    fn unspecified_addresses_become_loopback() {
        let here = |address: &str| reachable(address.parse().unwrap()).to_string();
        assert_eq!(here("0.0.0.0:9"), "127.0.0.1:9");
        assert_eq!(here("10.0.0.1:9"), "10.0.0.1:9");
    }
}
