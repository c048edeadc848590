//! [`start_server`] and [`capture`]: profiles of a program that runs, from outside.

mod capture;
mod message;
mod service;

pub use capture::{capture, capture_all};

use super::session::error;
use crate::core::{Error, Loc, OpErrorKind};
use service::Profiler;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::thread::JoinHandle;
use tokio::sync::oneshot;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// Largest accepted header list in bytes. XProf's take a few hundred.
const HEADERS: u32 = 16 << 10;

/// Serves profiles of this process to XProf, TensorBoard and `oxidax profile capture`, until it is
/// dropped.
///
/// [`start_server`] starts one.
#[must_use = "dropping the server stops it"]
pub struct ProfilerServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts to serve profiles of this process on a port of this host. Port 0 takes a free one.
///
/// XProf's "Capture profile" button and [`capture`] name `localhost:9012`. A profile of some
/// seconds is recorded for each request and sent to the client; the server writes no file. Between
/// requests its thread waits.
///
/// It listens at `127.0.0.1` only, since gRPC here is not encrypted and asks for no password. To
/// reach it from another host, forward the port (`ssh -L 9012:localhost:9012 HOST`), or call
/// [`ProfilerServer::bind`] in a network that you trust.
///
/// ```
/// use oxidax::prelude::*;
/// use oxidax::profile;
/// use std::time::Duration;
/// let server = profile::start_server(0)?;
/// let address = server.address().to_string();
/// let dir = tempfile::tempdir()?;
/// let folder = dir.path().to_owned();
/// // Usually another process: `oxidax profile capture localhost:9012`.
/// let capture = std::thread::spawn(move || {
///     profile::capture(&address, Duration::from_millis(200), folder)
/// });
/// let step = jit(|w: Array| &w * 0.9);
/// let mut w = ones([3]);
/// while !capture.is_finished() {
///     w = step.call(w)?;
/// }
/// let run = capture.join().expect("no panic")?;
/// assert!(run.starts_with(dir.path()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `Op` (runtime) if another program has the port.
#[track_caller]
pub fn start_server(port: u16) -> Result<ProfilerServer, Error> {
    start("start_server", (Ipv4Addr::LOCALHOST, port))
}

impl ProfilerServer {
    /// Starts to serve at an address of this host, such as `"0.0.0.0:9012"` for all of its
    /// networks. Every host that reaches the address can read file names and lines of the program.
    ///
    /// # Errors
    /// As [`start_server`], and if the address is not one of this host.
    #[track_caller]
    pub fn bind(address: impl ToSocketAddrs) -> Result<ProfilerServer, Error> {
        start("ProfilerServer::bind", address)
    }

    /// Returns the address, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[track_caller]
fn start(name: &str, address: impl ToSocketAddrs) -> Result<ProfilerServer, Error> {
    let loc = Loc::caller();
    TcpListener::bind(address).and_then(serve).map_err(|source| {
        let help = match source.kind() {
            io::ErrorKind::AddrInUse => "another program has this port; 0 takes a free one",
            io::ErrorKind::PermissionDenied => "ports below 1024 need a privileged user",
            _ => "the server needs an address of this host and a free port",
        };
        error(name, OpErrorKind::Runtime, format!("cannot listen: {source}"), loc, help)
    })
}

fn serve(listener: TcpListener) -> io::Result<ProfilerServer> {
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serve = move || {
        runtime.block_on(async move {
            // Only the registration of the socket can fail, and the runtime has room for it.
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let server = Server::builder()
                .http2_max_header_list_size(HEADERS)
                .serve_with_incoming(Profiler::default(), incoming);
            tokio::select! {
                _ = server => {}
                _ = stopped => {}
            }
        });
    };
    let thread = std::thread::Builder::new().name("oxidax profiler".into()).spawn(serve)?;
    Ok(ProfilerServer { address, stop: Some(stop), thread: Some(thread) })
}

impl Drop for ProfilerServer {
    /// Stops the server. A profile that it is recording is discarded.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed.
            drop(thread.join());
        }
    }
}

impl fmt::Debug for ProfilerServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProfilerServer").field("address", &self.address).finish_non_exhaustive()
    }
}
