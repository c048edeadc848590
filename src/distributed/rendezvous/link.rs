//! A process's link to the coordinator.

use super::failure::Failure;
use super::joining::{Identity, Joined, attend, join};
use super::message::{
    Arrival, Caller, DELETE, GET, Keys, LIST, MAX_MESSAGE, MEET, Nothing, PUT, Part, Piece, Say,
    Up, Wanted, parts,
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

/// How much longer than agreed the coordinator's answer is waited for.
pub(super) const GRACE: Duration = Duration::from_secs(10);

/// How long to wait for the reason why a connection ended, and for the coordinator to take a goodbye.
const REASON: Duration = Duration::from_secs(3);

/// A link to the coordinator, of all processes that have joined. Its requests may come from any thread.
pub(in crate::distributed) struct Link {
    caller: Caller,
    roster: Vec<String>,
    requests: Handle,
    channel: Channel,
    up: mpsc::Sender<Up>,
    lost: watch::Receiver<Option<Failure>>,
    leaving: Arc<AtomicBool>,
    /// Ends the thread when it is dropped.
    _thread: oneshot::Sender<()>,
}

impl Link {
    /// Joins the others at the coordinator `target` (`host:port`) and waits until all are there.
    ///
    /// `on_lost` is told, once, why the program cannot go on.
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
            // It ends when the link is dropped, which is no message but tells as much.
            drop(runtime.block_on(ended));
        };
        let named = std::thread::Builder::new().name("oxidax-link".into());
        named.spawn(serve).map_err(started)?;

        let caller = Caller { index: identity.index, incarnation: identity.incarnation };
        let joining = join(target.to_owned(), identity.clone(), wait);
        let Joined { roster, channel, up, down, coordinator, silence } = run(&requests, joining)?;
        let (say_lost, lost) = watch::channel(None);
        let leaving = Arc::new(AtomicBool::new(false));
        let (heard, is_leaving) = (up.clone(), leaving.clone());
        requests.spawn(async move {
            let failure = attend(down, &coordinator, silence).await;
            say_lost.send_replace(Some(failure.clone()));
            // If there is no coordinator to tell, nobody has to know.
            drop(heard.try_send(Say::Heard(Nothing {}).into()));
            if !is_leaving.load(Ordering::Relaxed) {
                on_lost(&failure);
            }
        });
        Ok(Link { caller, roster, requests, channel, up, lost, leaving, _thread: thread })
    }

    /// All processes by name.
    pub(in crate::distributed) fn roster(&self) -> &[String] {
        &self.roster
    }

    /// Says goodbye. What happens to the others is no concern of this process any more.
    pub(in crate::distributed) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
        let (up, mut lost) = (self.up.clone(), self.lost.clone());
        let leaving = async move {
            let said = async {
                if up.send(Say::Leave(Nothing {}).into()).await.is_ok() {
                    // The coordinator ends the stream once it has noted it.
                    drop(lost.wait_for(Option::is_some).await);
                }
            };
            // One that is stopped does not even take the goodbye.
            drop(timeout(REASON, said).await);
            Ok(())
        };
        // It is the last that is said, and nobody answers.
        drop(run(&self.requests, leaving));
    }

    /// Waits for the processes `members` (all, if there are none), and gives what each of them brought.
    pub(in crate::distributed) fn meet(
        &self,
        name: &str,
        members: &[u32],
        wait: Duration,
        brought: Bytes,
    ) -> Result<BTreeMap<u32, Vec<u8>>, Failure> {
        let arrival = Arrival {
            caller: Some(self.caller),
            name: name.to_owned(),
            members: members.to_vec(),
            wait_ms: milliseconds(wait),
            total: brought.len() as u64,
            part: Bytes::new(),
        };
        let request = in_parts(brought, arrival, |part| Arrival { part, ..Arrival::default() });
        let channel = self.channel.clone();
        self.call(wait, async move {
            let mut answers = stream::<_, Part>(channel, MEET, request).await?;
            let mut all = BTreeMap::<u32, Vec<u8>>::new();
            while let Some(Part { index, part }) = answers.message().await? {
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
        let piece = Piece {
            caller: Some(self.caller),
            key: key.to_vec(),
            total: value.len() as u64,
            part: Bytes::new(),
        };
        let request = in_parts(value, piece, |part| Piece { part, ..Piece::default() });
        let channel = self.channel.clone();
        self.call(wait, async move {
            stream::<_, Nothing>(channel, PUT, request).await?.message().await?;
            Ok(())
        })
    }

    /// The value of a key, for which another process may still have to put one.
    pub(in crate::distributed) fn get(
        &self,
        key: &[u8],
        wait: Duration,
    ) -> Result<Vec<u8>, Failure> {
        let (wanted, channel) = (self.wanted(key, wait), self.channel.clone());
        self.call(wait, async move {
            let mut answers = stream::<_, Part>(channel, GET, wanted).await?;
            let mut value = Vec::new();
            while let Some(Part { part, .. }) = answers.message().await? {
                value.extend_from_slice(&part);
            }
            Ok(value)
        })
    }

    /// Removes a key; whether there was a value.
    pub(in crate::distributed) fn delete(
        &self,
        key: &[u8],
        wait: Duration,
    ) -> Result<bool, Failure> {
        Ok(!self.keys(DELETE, key, wait)?.is_empty())
    }

    /// The keys that begin so.
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

    fn wanted(&self, key: &[u8], wait: Duration) -> impl Stream<Item = Wanted> + Send + 'static {
        let (caller, key) = (Some(self.caller), key.to_vec());
        tokio_stream::once(Wanted { caller, key, wait_ms: milliseconds(wait) })
    }

    /// Waits for an answer, at most a little longer than was agreed with the coordinator, and not when somebody is lost.
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
                // A connection that ended: why, the other stream says in a moment.
                Err(failure) if failure.is_unexplained() => {
                    let reason = timeout(REASON, found(&mut lost)).await;
                    Err(reason.ok().flatten().unwrap_or(failure))
                }
                answer => answer,
            }
        })
    }
}

/// Runs something on the link's thread and waits for it. What runs there bounds its own time.
fn run<T: Send + 'static>(
    requests: &Handle,
    request: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    let (answer, answered) = sync_channel(1);
    requests.spawn(async move {
        // Nobody waits for it if the thread that asked is gone.
        drop(answer.send(request.await));
    });
    answered.recv().unwrap_or_else(|_| Err(Failure::lost("the link's thread is gone")))
}

pub(super) fn milliseconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
}

/// A byte string in parts: `head` goes before, the rest hold a part alone.
fn in_parts<A: Send + 'static>(
    whole: Bytes,
    head: A,
    with: impl Fn(Bytes) -> A + Send + 'static,
) -> impl Stream<Item = A> + Send + 'static {
    let rest = parts(whole).map(with);
    tokio_stream::iter(std::iter::once(head).chain(rest))
}

/// Sends a stream and gives the one that answers.
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
