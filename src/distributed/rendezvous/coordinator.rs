//! The coordinator: a thread of process 0 that serves the rendezvous.

use super::hub::{Hub, Terms};
use super::service::Rendezvous;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// Requests that one process may have open at a time; more wait their turn.
const STREAMS: u32 = 1024;

/// The longest list of headers that is read. Ours have a few hundred bytes.
const HEADERS: u32 = 16 << 10;

/// A coordinator at work.
pub(in crate::distributed) struct Coordinator {
    address: SocketAddr,
    stop: oneshot::Sender<Duration>,
    thread: JoinHandle<()>,
}

impl Coordinator {
    /// Serves connections to a socket.
    pub(in crate::distributed) fn start(listener: TcpListener, terms: Terms) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let hub = Arc::new(Hub::new(terms));
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async move {
                // The one thing here that can fail is to register the socket, which the runtime has room for.
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
                let server = Server::builder()
                    .max_concurrent_streams(STREAMS)
                    .http2_max_header_list_size(HEADERS)
                    .serve_with_incoming(Rendezvous(hub.clone()), incoming);
                let stopping = async {
                    if let Ok(wait) = stopped.await {
                        hub.empty(wait).await;
                    }
                };
                tokio::select! {
                    _ = server => {}
                    () = stopping => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("oxidax-coordinator".into()).spawn(serve)?;
        Ok(Coordinator { address, stop, thread })
    }

    /// Where it listens.
    pub(in crate::distributed) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it once all processes have left, or after so long.
    pub(in crate::distributed) fn stop(self, wait: Duration) {
        // A thread that has ended already needs no signal.
        if self.stop.send(wait).is_ok() {
            drop(self.thread.join());
        }
    }
}
