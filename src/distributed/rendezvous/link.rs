//! A process's connection to the coordinator.

use super::failure::Failure;
use super::joining::{Identity, Joined, attend, join};
use super::message::{
    Caller, Chunk, DELETE, Empty, GET, KeyRequest, Keys, LIST, MAX_MESSAGE, MEET, MeetRequest, PUT,
    ProcessEvent, ProcessMessage, PutRequest, parts,
};
use prost::Message;
use prost::bytes::Bytes;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::tokio_stream::{self, Stream};
use tonic::transport::Channel;
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

/// Additional time to wait for the coordinator's reply.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// Time to wait for the reason of a closed connection, and for the coordinator to accept a goodbye.
const REASON: Duration = Duration::from_secs(3);

/// A connection to the coordinator of a complete program. Any thread can send requests.
pub(in crate::distributed) struct Link {
    caller: Caller,
    roster: Vec<String>,
    requests: Handle,
    channel: Channel,
    up: mpsc::Sender<ProcessMessage>,
    lost: watch::Receiver<Option<Failure>>,
    leaving: Arc<AtomicBool>,
    /// Ends the thread when dropped.
    _thread: oneshot::Sender<()>,
}

impl Link {
    /// Joins the coordinator at `target` (`host:port`) and waits for all processes.
    ///
    /// `on_lost` is called once, with the reason why the program cannot continue.
    pub(in crate::distributed) fn join(
        target: &str,
        identity: &Identity,
        wait: Duration,
        on_lost: impl FnOnce(&Failure) + Send + 'static,
    ) -> Result<Link, Failure> {
        let started = |error| Failure::setup(format!("no thread for the link: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(started)?;
        let requests = runtime.handle().clone();
        let (thread, ended) = oneshot::channel::<()>();
        let serve = move || {
            // Dropping the link closes the channel, which ends the thread.
            drop(runtime.block_on(ended));
        };
        let named = std::thread::Builder::new().name("oxidax-link".into());
        named.spawn(serve).map_err(started)?;

        let caller = Caller { index: identity.index, incarnation: identity.incarnation };
        let joining = join(target.to_owned(), identity.clone(), wait);
        let Joined { roster, channel, up, down, coordinator, silence } = run(&requests, joining)?;
        let (say_lost, lost) = watch::channel(None);
        let leaving = Arc::new(AtomicBool::new(false));
        let (acknowledged, is_leaving) = (up.clone(), leaving.clone());
        requests.spawn(async move {
            let failure = attend(down, &coordinator, silence).await;
            say_lost.send_replace(Some(failure.clone()));
            // Best effort: the coordinator may be gone.
            drop(acknowledged.try_send(ProcessEvent::LossReceived(Empty {}).into()));
            if !is_leaving.load(Ordering::Relaxed) {
                on_lost(&failure);
            }
        });
        Ok(Link { caller, roster, requests, channel, up, lost, leaving, _thread: thread })
    }

    /// Returns the names of all processes.
    pub(in crate::distributed) fn roster(&self) -> &[String] {
        &self.roster
    }

    /// Leaves regularly. Later losses of others no longer matter to this process.
    pub(in crate::distributed) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
        let (up, mut lost) = (self.up.clone(), self.lost.clone());
        let leaving = async move {
            let said = async {
                if up.send(ProcessEvent::Leave(Empty {}).into()).await.is_ok() {
                    // The coordinator ends the stream after recording the goodbye.
                    drop(lost.wait_for(Option::is_some).await);
                }
            };
            // A stopped coordinator does not accept the goodbye.
            drop(timeout(REASON, said).await);
            Ok(())
        };
        // The last message, without a reply.
        drop(run(&self.requests, leaving));
    }

    /// Waits for the processes `members` (all if empty), and returns the contribution of each.
    pub(in crate::distributed) fn meet(
        &self,
        name: &str,
        members: &[u32],
        wait: Duration,
        brought: Bytes,
    ) -> Result<BTreeMap<u32, Vec<u8>>, Failure> {
        let arrival = MeetRequest {
            caller: Some(self.caller),
            name: name.to_owned(),
            members: members.to_vec(),
            wait_ms: milliseconds(wait),
            total: brought.len() as u64,
            part: Bytes::new(),
        };
        let request =
            in_chunks(brought, arrival, |part| MeetRequest { part, ..MeetRequest::default() });
        let channel = self.channel.clone();
        self.call(wait, async move {
            let mut answers = stream::<_, Chunk>(channel, MEET, request).await?;
            let mut all = BTreeMap::<u32, Vec<u8>>::new();
            while let Some(Chunk { index, part }) = answers.message().await? {
                all.entry(index).or_default().extend_from_slice(&part);
            }
            Ok(all)
        })
    }

    pub(in crate::distributed) fn put(
        &self,
        key: &[u8],
        value: Bytes,
        wait: Duration,
    ) -> Result<(), Failure> {
        let request = PutRequest {
            caller: Some(self.caller),
            key: key.to_vec(),
            total: value.len() as u64,
            part: Bytes::new(),
        };
        let request =
            in_chunks(value, request, |part| PutRequest { part, ..PutRequest::default() });
        let channel = self.channel.clone();
        self.call(wait, async move {
            stream::<_, Empty>(channel, PUT, request).await?.message().await?;
            Ok(())
        })
    }

    /// Returns the value of a key, waiting for another process to store it.
    pub(in crate::distributed) fn get(
        &self,
        key: &[u8],
        wait: Duration,
    ) -> Result<Vec<u8>, Failure> {
        let (wanted, channel) = (self.wanted(key, wait), self.channel.clone());
        self.call(wait, async move {
            let mut answers = stream::<_, Chunk>(channel, GET, wanted).await?;
            let mut value = Vec::new();
            while let Some(Chunk { part, .. }) = answers.message().await? {
                value.extend_from_slice(&part);
            }
            Ok(value)
        })
    }

    /// Removes a key. Returns true if it had a value.
    pub(in crate::distributed) fn delete(
        &self,
        key: &[u8],
        wait: Duration,
    ) -> Result<bool, Failure> {
        Ok(!self.keys(DELETE, key, wait)?.is_empty())
    }

    /// Returns the keys with a prefix.
    pub(in crate::distributed) fn list(
        &self,
        prefix: &[u8],
        wait: Duration,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        self.keys(LIST, prefix, wait)
    }

    fn keys(
        &self,
        path: &'static str,
        key: &[u8],
        wait: Duration,
    ) -> Result<Vec<Vec<u8>>, Failure> {
        let (wanted, channel) = (self.wanted(key, wait), self.channel.clone());
        self.call(wait, async move {
            let mut answers = stream::<_, Keys>(channel, path, wanted).await?;
            let mut all = Vec::new();
            while let Some(Keys { mut keys }) = answers.message().await? {
                all.append(&mut keys);
            }
            Ok(all)
        })
    }

    fn wanted(
        &self,
        key: &[u8],
        wait: Duration,
    ) -> impl Stream<Item = KeyRequest> + Send + 'static {
        let (caller, key) = (Some(self.caller), key.to_vec());
        tokio_stream::once(KeyRequest { caller, key, wait_ms: milliseconds(wait) })
    }

    /// Waits for a reply, up to the agreed time plus a margin, or until a process is lost.
    fn call<T: Send + 'static>(
        &self,
        wait: Duration,
        request: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        let mut lost = self.lost.clone();
        run(&self.requests, async move {
            let found = async |lost: &mut watch::Receiver<Option<Failure>>| {
                let found = lost.wait_for(Option::is_some).await;
                found.ok().and_then(|failure| failure.clone())
            };
            let late =
                || Failure::timeout(format!("the coordinator did not answer within {wait:.0?}"));
            let answer = tokio::select! {
                biased;
                Some(failure) = found(&mut lost) => Err(failure),
                answer = timeout(wait + GRACE, request) => answer.unwrap_or_else(|_| Err(late())),
            };
            match answer {
                // The other stream reports in a moment why a connection ended.
                Err(failure) if failure.is_unexplained() => {
                    let reason = timeout(REASON, found(&mut lost)).await;
                    Err(reason.ok().flatten().unwrap_or(failure))
                }
                answer => answer,
            }
        })
    }
}

/// Runs a future with its own time-out on the link's thread and waits for it.
fn run<T: Send + 'static>(
    requests: &Handle,
    request: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let (answer, answered) = sync_channel(1);
    requests.spawn(async move {
        // The receiver is gone if the requesting thread has ended.
        drop(answer.send(request.await));
    });
    answered.recv().unwrap_or_else(|_| Err(Failure::lost("the link's thread is gone")))
}

pub(super) fn milliseconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
}

/// Splits a byte string into messages: `head` makes the first, the others hold only a part.
fn in_chunks<A: Send + 'static>(
    whole: Bytes,
    head: A,
    with: impl Fn(Bytes) -> A + Send + 'static,
) -> impl Stream<Item = A> + Send + 'static {
    let rest = parts(whole).map(with);
    tokio_stream::iter(std::iter::once(head).chain(rest))
}

/// Sends a stream of requests and returns the stream of replies.
pub(super) async fn stream<A, B>(
    channel: Channel,
    path: &'static str,
    request: impl Stream<Item = A> + Send + 'static,
) -> Result<Streaming<B>, Failure>
where
    A: Message + 'static,
    B: Message + Default + 'static,
{
    let mut grpc = Grpc::new(channel).max_decoding_message_size(MAX_MESSAGE);
    let ready = grpc.ready().await;
    ready.map_err(|error| Failure::from(tonic::Status::from_error(Box::new(error))))?;
    let codec = ProstCodec::<A, B>::default();
    let path = PathAndQuery::from_static(path);
    Ok(grpc.streaming(Request::new(request), path, codec).await?.into_inner())
}
