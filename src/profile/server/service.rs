//! The request handlers of a [`ProfilerServer`](super::ProfilerServer).

use super::message::{
    MONITOR, MonitorRequest, MonitorResponse, PERFETTO, PROFILE, ProfileRequest, ProfileResponse,
    TERMINATE, TerminateRequest, TerminateResponse, ToolData, XPLANE,
};
use crate::core::Error;
use crate::profile::folder::{host, time_name};
use crate::profile::{Profile, ProfileOptions, ProfileSession, perfetto, xspace};
use prost::Message;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// Longest profile, because its events stay in memory until it ends.
pub(super) const LONGEST: Duration = Duration::from_secs(600);

/// Longest wait for the start of a profile, which several servers begin at the same time.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// Time that [`MONITOR`] observes if the request names none.
const MONITORED: Duration = Duration::from_secs(1);

/// Largest accepted request in bytes. XProf's take some hundred.
const REQUEST: usize = 64 << 10;

/// The profiles that are being recorded, by the id that can terminate them. Each has a number,
/// because ids can be equal.
#[derive(Default)]
struct Running {
    next: u64,
    profiles: HashMap<u64, (String, Arc<Notify>)>,
}

/// A connection's access to the profiler.
#[derive(Clone, Default)]
pub(super) struct Profiler(Arc<Mutex<Running>>);

/// A profile in [`Running`] until it is dropped, also when its request is cancelled.
struct Terminable {
    profiler: Profiler,
    number: u64,
    terminated: Arc<Notify>,
}

impl Drop for Terminable {
    fn drop(&mut self) {
        self.profiler.running().profiles.remove(&self.number);
    }
}

impl Service<http::Request<Body>> for Profiler {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let profiler = self.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                PROFILE => answer(|asked| profiler.clone().profile(asked), request).await,
                TERMINATE => answer(|asked| profiler.clone().terminate(asked), request).await,
                MONITOR => answer(monitor, request).await,
                path => Status::unimplemented(format!("oxidax does not answer {path}")).into_http(),
            })
        })
    }
}

/// Adapts a handler to tonic.
struct Handler<F>(F);

impl<F, A, B, Answer> UnaryService<A> for Handler<F>
where
    F: Fn(A) -> Answer,
    Answer: Future<Output = Result<B, Status>> + Send + 'static,
{
    type Response = B;
    type Future = BoxFuture<Response<B>, Status>;

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let answer = (self.0)(request.into_inner());
        Box::pin(async move { Ok(Response::new(answer.await?)) })
    }
}

async fn answer<F, A, B, Answer>(handle: F, request: http::Request<Body>) -> http::Response<Body>
where
    F: Fn(A) -> Answer + Send,
    A: Message + Default + 'static,
    B: Message + 'static,
    Answer: Future<Output = Result<B, Status>> + Send + 'static,
{
    let codec = ProstCodec::<B, A>::default();
    let mut grpc = Grpc::new(codec).max_decoding_message_size(REQUEST);
    grpc.unary(Handler(handle), request).await
}

impl Profiler {
    fn running(&self) -> MutexGuard<'_, Running> {
        // Each change is complete before a panic could occur.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, id: String) -> Terminable {
        let terminated = Arc::new(Notify::new());
        let mut running = self.running();
        let number = running.next;
        running.next += 1;
        running.profiles.insert(number, (id, terminated.clone()));
        Terminable { profiler: self.clone(), number, terminated }
    }

    /// Records a profile for the time that the request names, or until it is terminated.
    async fn profile(self, asked: ProfileRequest) -> Result<ProfileResponse, Status> {
        let options = asked.options.unwrap_or_default();
        let milliseconds = [options.duration_ms, asked.duration_ms].into_iter().find(|&n| n != 0);
        let duration = milliseconds.map_or(LONGEST, Duration::from_millis);
        if duration > LONGEST {
            let (longest, asked) = (LONGEST.as_secs(), duration.as_secs());
            let message = format!("a profile has at most {longest} s, {asked} s were asked for");
            return Err(Status::invalid_argument(message));
        }
        let profile = self.begin(asked.session_id);
        tokio::time::sleep(delay(options.start_timestamp_ns)?).await;
        let session = start()?;
        tokio::select! {
            () = tokio::time::sleep(duration) => {}
            () = profile.terminated.notified() => {}
        }
        let tools = asked.tools;
        let files = tokio::task::spawn_blocking(move || files(&session.stop(), &tools));
        // The task does not panic, and is not cancelled.
        files.await.map_err(|error| Status::internal(error.to_string()))
    }

    /// Ends the profiles with an id before their time.
    async fn terminate(self, asked: TerminateRequest) -> Result<TerminateResponse, Status> {
        let running = self.running();
        for (id, terminated) in running.profiles.values() {
            if *id == asked.session_id {
                terminated.notify_one();
            }
        }
        Ok(TerminateResponse {})
    }
}

/// Records a profile and returns its table.
async fn monitor(asked: MonitorRequest) -> Result<MonitorResponse, Status> {
    let duration = match asked.duration_ms {
        0 => MONITORED,
        milliseconds => Duration::from_millis(milliseconds).min(LONGEST),
    };
    let session = start()?;
    tokio::time::sleep(duration).await;
    let profile = session.stop();
    let time = if asked.timestamp {
        format!("{} UTC\n", time_name(profile.started()))
    } else {
        String::new()
    };
    Ok(MonitorResponse { data: format!("{time}{profile}\n") })
}

fn start() -> Result<ProfileSession, Status> {
    // XProf tries again after this status.
    let refused = |error: Error| Status::already_exists(error.to_string());
    ProfileSession::start_for("start_server", ProfileOptions::default()).map_err(refused)
}

/// Returns the time from now to a time stamp in nanoseconds; zero if it has passed.
fn delay(start_timestamp_ns: u64) -> Result<Duration, Status> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let delay = Duration::from_nanos(start_timestamp_ns).saturating_sub(now);
    if delay > LONGEST_DELAY {
        let seconds = delay.as_secs();
        let message = format!("the start is {seconds} s in the future; are the clocks set?");
        return Err(Status::invalid_argument(message));
    }
    Ok(delay)
}

/// Writes the files of a profile.
fn files(profile: &Profile, tools: &[String]) -> ProfileResponse {
    let file = |name: &str, write: &dyn Fn(&mut Vec<u8>) -> io::Result<()>| {
        let mut data = Vec::new();
        // Writing to memory does not fail.
        write(&mut data).ok().map(|()| ToolData { name: name.to_owned(), data: data.into() })
    };
    let mut tool_data = Vec::new();
    tool_data.extend(file(XPLANE, &|out| xspace::write(profile, &host(), out)));
    if tools.iter().any(|tool| tool == PERFETTO) {
        tool_data.extend(file(PERFETTO, &|out| perfetto::write(profile, out)));
    }
    ProfileResponse { tool_data, empty_trace: profile.events().next().is_none() }
}

#[cfg(test)]
mod tests {
    use super::super::message::ProfileOptions;
    use super::*;
    use crate::profile::TraceAnnotation;

    #[test]
    fn profiles_end_when_they_are_terminated() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let profiler = Profiler::default();
        let asked = |id: &str| ProfileRequest { session_id: id.to_owned(), ..Default::default() };
        let answer = runtime.block_on(async {
            // Without a duration, so it would take ten minutes.
            let profile = tokio::spawn(profiler.clone().profile(asked("a")));
            let terminate = async {
                loop {
                    tokio::task::yield_now().await;
                    TraceAnnotation::new("terminated work").scope(|| ());
                    let id = TerminateRequest { session_id: "a".to_owned() };
                    profiler.clone().terminate(id).await.expect("an answer");
                }
            };
            tokio::select! {
                answer = profile => answer.expect("no panic").expect("a profile"),
                () = terminate => unreachable!("it does not end"),
            }
        });
        assert!(answer.tool_data.iter().all(|file| file.name == XPLANE));
        assert!(profiler.running().profiles.is_empty());
    }

    #[test]
    fn impossible_times_are_refused() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let refused = |request: ProfileRequest| {
            let answer = runtime.block_on(Profiler::default().profile(request));
            answer.expect_err("a refusal").message().to_owned()
        };
        let long = ProfileRequest { duration_ms: 3_600_000, ..Default::default() };
        assert_eq!(refused(long), "a profile has at most 600 s, 3600 s were asked for");
        let options = ProfileOptions { start_timestamp_ns: u64::MAX, duration_ms: 1 };
        let late = ProfileRequest { options: Some(options), ..Default::default() };
        assert!(refused(late).contains("in the future; are the clocks set?"));
    }
}
