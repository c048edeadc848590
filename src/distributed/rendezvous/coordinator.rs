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

/// Concurrent requests per connection. Further requests wait.
const STREAMS: u32 = 1024;

/// Largest accepted header list in bytes. Ours take a few hundred.
const HEADERS: u32 = 16 << 10;

/// A running coordinator.
pub(in crate::distributed) struct Coordinator {
    address: SocketAddr,
    stop: oneshot::Sender<Duration>,
    thread: JoinHandle<()>,
}

impl Coordinator {
    /// Starts serving connections to a socket.
    pub(in crate::distributed) fn start(listener: TcpListener, terms: Terms) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let hub = Arc::new(Hub::new(terms));
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async move {
                // Only the registration of the socket can fail, and the runtime has room for it.
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

    /// Returns the address of the socket.
    pub(in crate::distributed) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops after all processes have left, or after `wait`.
    pub(in crate::distributed) fn stop(self, wait: Duration) {
        // A thread that has ended needs no signal.
        if self.stop.send(wait).is_ok() {
            drop(self.thread.join());
        }
    }
}
