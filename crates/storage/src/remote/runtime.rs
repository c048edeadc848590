//! The one runtime that sends the requests of all clients.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

const THREADS: usize = 4;

/// Operations that run at a time; more wait.
static OPERATIONS: Semaphore = Semaphore::const_new(64);

tokio::task_local! {
    /// Requests that the current operation has sent.
    static REQUESTS: Requests;
}

/// The number of requests and the status of the last response, shared by the tasks of one
/// operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU32,
    /// 0 if the last request had no response.
    status: AtomicU16,
}

impl Requests {
    pub(super) fn count(&self) -> u32 {
        self.0.requests.load(Ordering::Relaxed)
    }

    /// Returns the HTTP status of the last response, or `None` if the last request had none.
    pub(super) fn status(&self) -> Option<u16> {
        Some(self.0.status.load(Ordering::Relaxed)).filter(|&status| status != 0)
    }
}

/// Counts a request of the current operation.
pub(super) fn record_request() {
    // Requests outside an operation are not counted.
    let record = |requests: &Requests| {
        requests.0.requests.fetch_add(1, Ordering::Relaxed);
        requests.0.status.store(0, Ordering::Relaxed);
    };
    REQUESTS.try_with(record).ok();
}

/// Records the status of a response of the current operation.
pub(super) fn record_status(status: u16) {
    REQUESTS.try_with(|requests| requests.0.status.store(status, Ordering::Relaxed)).ok();
}

fn runtime() -> io::Result<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime, (io::ErrorKind, String)>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).max_blocking_threads(THREADS).enable_all();
        let runtime = builder.thread_name("oxidax-storage").build();
        runtime.map_err(|error| (error.kind(), format!("cannot start threads: {error}")))
    });
    runtime.as_ref().map_err(|(kind, message)| io::Error::new(*kind, message.clone()))
}

/// Starts an operation. Its result is passed to `then` on a thread of the runtime.
pub(super) fn start<T: Send + 'static>(
    requests: Requests,
    operation: impl Future<Output = T> + Send + 'static,
    then: impl FnOnce(T) + Send + 'static,
) -> io::Result<()> {
    let bounded = async move {
        // The semaphore is never closed.
        let permit = OPERATIONS.acquire().await.ok();
        let result = operation.await;
        drop(permit);
        then(result);
    };
    drop(runtime()?.spawn(REQUESTS.scope(requests, bounded)));
    Ok(())
}
