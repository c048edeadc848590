//! [`capture`] and [`capture_all`]: ask servers for profiles, and write them to a folder.

use super::message::{
    PERFETTO, PROFILE, ProfileOptions, ProfileRequest, ProfileResponse, ToolData, XPLANE,
};
use super::service::LONGEST;
use crate::core::{Error, Loc, OpErrorKind};
use crate::profile::folder::RunFolder;
use crate::profile::session::error;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

/// Time for connecting to a server.
const CONNECT: Duration = Duration::from_secs(10);

/// Time beyond that of the profile in which its files must arrive.
const SENDING: Duration = Duration::from_secs(120);

/// Time from the request to the start of a profile, so that several servers start together.
const LEAD: Duration = Duration::from_millis(250);

/// Asks a [`ProfilerServer`](super::ProfilerServer) for a profile of `duration`, and writes it to
/// `dir/plugins/profile/TIME`, whose path it returns. `oxidax profile capture` calls this.
///
/// The server can be one of JAX, TensorFlow or PyTorch/XLA too, as far as it sends its files
/// instead of writing them.
///
/// # Errors
/// `Op` (runtime) if the server does not answer, is recording another profile, or has no events;
/// or if the folder cannot be written. `Op` (value) if `duration` is zero or over 600 s.
#[doc(alias = "xp.trace")]
#[track_caller]
pub fn capture(
    address: impl AsRef<str>,
    duration: Duration,
    dir: impl AsRef<Path>,
) -> Result<PathBuf, Error> {
    capture_from("capture", &[address.as_ref()], duration, dir.as_ref())
}

/// Asks the servers of several processes for profiles of the same time, and writes them to one
/// folder, which XProf shows as one profile with several hosts.
///
/// The processes start to record at the same time as far as the clocks of their hosts agree. Files
/// are named after the addresses: `HOST_PORT.xplane.pb`.
///
/// # Errors
/// As [`capture`]. If some servers answer and others don't, the files of those that do are written,
/// and the error names the folder and each of the others.
#[track_caller]
pub fn capture_all<A: AsRef<str>>(
    addresses: &[A],
    duration: Duration,
    dir: impl AsRef<Path>,
) -> Result<PathBuf, Error> {
    let addresses: Vec<&str> = addresses.iter().map(AsRef::as_ref).collect();
    capture_from("capture_all", &addresses, duration, dir.as_ref())
}

#[track_caller]
fn capture_from(
    name: &'static str,
    addresses: &[&str],
    duration: Duration,
    dir: &Path,
) -> Result<PathBuf, Error> {
    let loc = Loc::caller();
    let fail = |kind, message: String, help: &str| Err(error(name, kind, message, loc, help));
    if addresses.is_empty() {
        let help = "name the address of each process, such as `localhost:9012`";
        return fail(OpErrorKind::Value, "there are no addresses".to_owned(), help);
    }
    if duration.is_zero() || duration > LONGEST {
        let message = format!("the duration is {:.3} s", duration.as_secs_f64());
        let help = format!("ask for at most {} s; one or two show some steps", LONGEST.as_secs());
        return fail(OpErrorKind::Value, message, &help);
    }
    // Before the profile, so that a wrong path costs no time.
    let folder = RunFolder::create(name, dir)?;
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(source) => {
            let message = format!("cannot start to wait for answers: {source}");
            return fail(OpErrorKind::Runtime, message, "close files or end other processes");
        }
    };
    let request = request(duration);
    let answers: Vec<Result<Vec<ToolData>, String>> = runtime.block_on(async {
        let asked: Vec<_> = addresses
            .iter()
            .map(|address| tokio::spawn(ask((*address).to_owned(), request.clone(), duration)))
            .collect();
        let mut answers = Vec::new();
        for answer in asked {
            answers.push(answer.await.unwrap_or_else(|error| Err(error.to_string())));
        }
        answers
    });
    let mut failed = Vec::new();
    let mut written = false;
    for (address, answer) in addresses.iter().zip(answers) {
        match answer {
            Ok(files) => {
                for ToolData { name, data } in files {
                    folder.write_bytes(&format!("{}.{name}", file_name(address)), &data)?;
                }
                written = true;
            }
            Err(why) => failed.push(format!("{address}: {why}")),
        }
    }
    if failed.is_empty() {
        return Ok(folder.into_path());
    }
    let mut message = failed.join("; ");
    if written {
        message += &format!(" (the other profiles are in {})", folder.into_path().display());
    } else {
        folder.remove();
    }
    let help = "call `profile::start_server` in the program, and name its host and port; one \
                profile is recorded at a time";
    fail(OpErrorKind::Runtime, message, help)
}

fn request(duration: Duration) -> ProfileRequest {
    let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + LEAD;
    let nanos = u64::try_from(start.as_nanos()).unwrap_or(0);
    let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1);
    ProfileRequest {
        duration_ms,
        tools: vec![XPLANE.to_owned(), PERFETTO.to_owned()],
        options: Some(ProfileOptions { start_timestamp_ns: nanos, duration_ms }),
        session_id: format!("oxidax {nanos}"),
    }
}

/// Asks one server. Errors are texts for people.
async fn ask(
    address: String,
    request: ProfileRequest,
    duration: Duration,
) -> Result<Vec<ToolData>, String> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|error| format!("no address of the form HOST:PORT ({error})"))?
        .connect_timeout(CONNECT);
    let channel = endpoint.connect().await.map_err(|error| causes(&error))?;
    let answer = tokio::time::timeout(duration + SENDING, call(channel, request)).await;
    let answer = match answer {
        Ok(Ok(answer)) => answer,
        Ok(Err(status)) => return Err(status.message().lines().collect::<Vec<_>>().join(" ")),
        Err(_) => return Err("the profile did not arrive in time".to_owned()),
    };
    if answer.empty_trace {
        return Err("nothing was recorded in this time".to_owned());
    }
    if answer.tool_data.is_empty() {
        return Err("the server sends no files".to_owned());
    }
    // The names come from the network and become those of files.
    if let Some(file) = answer.tool_data.iter().find(|file| !is_file_name(&file.name)) {
        return Err(format!("the server sends a file with the name {:?}", file.name));
    }
    Ok(answer.tool_data)
}

async fn call(channel: Channel, request: ProfileRequest) -> Result<ProfileResponse, Status> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(usize::MAX);
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<ProfileRequest, ProfileResponse>::default();
    let path = PathAndQuery::from_static(PROFILE);
    Ok(grpc.unary(Request::new(request), path, codec).await?.into_inner())
}

/// Joins an error and its causes, outermost first.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text += &format!(": {inner_text}");
        }
        cause = inner.source();
    }
    text
}

/// Returns the beginning of a file's name for an address.
fn file_name(address: &str) -> String {
    address.chars().map(|c| if c.is_alphanumeric() || "-.".contains(c) { c } else { '_' }).collect()
}

fn is_file_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() < 200
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_stay_in_their_folder() {
        assert_eq!(file_name("10.0.0.2:9012"), "10.0.0.2_9012");
        assert_eq!(file_name("[::1]:9012"), "___1__9012");
        assert_eq!(file_name("../x:1"), ".._x_1");
        assert!(is_file_name("xplane.pb"));
        for name in ["", "../x", "a/b", "a\\b", "a\0"] {
            assert!(!is_file_name(name), "{name:?}");
        }
    }
}
