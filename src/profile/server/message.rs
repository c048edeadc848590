//! Messages of the profiling service that XProf and TensorBoard call.
//!
//! Field numbers of `profiler_service.proto` and `profiler_options.proto` in
//! <https://github.com/openxla/xla>, without the fields that neither side here reads.

use prost::Message;
use prost::bytes::Bytes;

pub(super) const PROFILE: &str = "/tensorflow.ProfilerService/Profile";
pub(super) const TERMINATE: &str = "/tensorflow.ProfilerService/Terminate";
pub(super) const MONITOR: &str = "/tensorflow.ProfilerService/Monitor";

/// The tool whose data is an `XSpace`.
pub(super) const XPLANE: &str = "xplane.pb";
/// The tool whose data is a Perfetto trace; only ours asks for it.
pub(super) const PERFETTO: &str = "perfetto_trace.pb";

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfileRequest {
    /// The duration, unless `options` has one.
    #[prost(uint64, tag = "1")]
    pub(super) duration_ms: u64,
    #[prost(string, repeated, tag = "3")]
    pub(super) tools: Vec<String>,
    #[prost(message, optional, tag = "4")]
    pub(super) options: Option<ProfileOptions>,
    /// Names the profile for [`TerminateRequest`].
    #[prost(string, tag = "6")]
    pub(super) session_id: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ProfileOptions {
    /// Nanoseconds from 1970 to the start; 0 for now.
    #[prost(uint64, tag = "8")]
    pub(super) start_timestamp_ns: u64,
    /// 0 until it is terminated.
    #[prost(uint64, tag = "9")]
    pub(super) duration_ms: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProfileResponse {
    #[prost(message, repeated, tag = "6")]
    pub(super) tool_data: Vec<ToolData>,
    /// True if there are no events.
    #[prost(bool, tag = "7")]
    pub(super) empty_trace: bool,
}

/// A file of a profile. The client saves it under its name for the server, a dot, and this name.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ToolData {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) data: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TerminateRequest {
    #[prost(string, tag = "1")]
    pub(super) session_id: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct TerminateResponse {}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct MonitorRequest {
    #[prost(uint64, tag = "1")]
    pub(super) duration_ms: u64,
    /// True to begin the text with the time.
    #[prost(bool, tag = "3")]
    pub(super) timestamp: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MonitorResponse {
    /// Text for a terminal.
    #[prost(string, tag = "1")]
    pub(super) data: String,
}
