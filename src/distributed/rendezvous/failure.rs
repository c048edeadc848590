//! Failures of a request or of the whole program, sent beside a gRPC status.

use crate::core::{DistributedErrorKind, Error};
use prost::Message;
use tonic::{Code, Status};

/// A failure between processes, detected by the coordinator or a process.
#[derive(Clone, PartialEq, Message)]
pub(in crate::distributed) struct Failure {
    #[prost(enumeration = "Kind", tag = "1")]
    kind: i32,
    #[prost(string, tag = "2")]
    message: String,
    /// The processes concerned.
    #[prost(uint32, repeated, tag = "3")]
    processes: Vec<u32>,
    #[prost(string, tag = "4")]
    help: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
enum Kind {
    Setup = 0,
    Refused = 1,
    NotFound = 2,
    Timeout = 3,
    Lost = 4,
    Mismatch = 5,
}

impl Failure {
    fn new(kind: Kind, message: impl Into<String>) -> Failure {
        let message = message.into();
        Failure { kind: kind as i32, message, processes: Vec::new(), help: String::new() }
    }

    pub(in crate::distributed) fn setup(message: impl Into<String>) -> Failure {
        Failure::new(Kind::Setup, message)
    }

    pub(in crate::distributed) fn refused(message: impl Into<String>) -> Failure {
        Failure::new(Kind::Refused, message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Failure {
        Failure::new(Kind::NotFound, message)
    }

    pub(super) fn timeout(message: impl Into<String>) -> Failure {
        Failure::new(Kind::Timeout, message)
    }

    pub(super) fn lost(message: impl Into<String>) -> Failure {
        Failure::new(Kind::Lost, message)
    }

    pub(in crate::distributed) fn mismatch(message: impl Into<String>) -> Failure {
        Failure::new(Kind::Mismatch, message)
    }

    /// Adds the processes concerned.
    pub(in crate::distributed) fn of(mut self, processes: &[u32]) -> Failure {
        self.processes = processes.to_vec();
        self
    }

    /// Adds a remedy.
    pub(in crate::distributed) fn help(mut self, help: impl Into<String>) -> Failure {
        self.help = help.into();
        self
    }

    /// Adds another remedy.
    pub(in crate::distributed) fn and_help(mut self, help: &str) -> Failure {
        if !self.help.is_empty() {
            self.help.push_str("; ");
        }
        self.help.push_str(help);
        self
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    pub(in crate::distributed) fn is_lost(&self) -> bool {
        self.kind() == Kind::Lost
    }

    pub(in crate::distributed) fn is_timeout(&self) -> bool {
        self.kind() == Kind::Timeout
    }

    pub(in crate::distributed) fn is_not_found(&self) -> bool {
        self.kind() == Kind::NotFound
    }

    /// Returns true if a connection ended and the cause is not known.
    pub(super) fn is_unexplained(&self) -> bool {
        self.is_lost() && self.processes.is_empty()
    }

    /// Converts the failure to an error that occurred while `doing` something.
    pub(in crate::distributed) fn error(&self, doing: impl Into<String>) -> Error {
        Error::Distributed {
            kind: match self.kind() {
                Kind::Setup => DistributedErrorKind::Setup,
                Kind::Refused => DistributedErrorKind::Refused,
                Kind::NotFound => DistributedErrorKind::NotFound,
                Kind::Timeout => DistributedErrorKind::Timeout,
                Kind::Lost => DistributedErrorKind::Lost,
                Kind::Mismatch => DistributedErrorKind::Mismatch,
            },
            doing: doing.into(),
            message: self.message.clone(),
            processes: self.processes.iter().map(|&index| index as usize).collect(),
            help: (!self.help.is_empty()).then(|| self.help.clone()),
        }
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Status {
        let code = match failure.kind() {
            Kind::Setup | Kind::Mismatch => Code::FailedPrecondition,
            Kind::Refused => Code::InvalidArgument,
            Kind::NotFound => Code::NotFound,
            Kind::Timeout => Code::DeadlineExceeded,
            Kind::Lost => Code::Unavailable,
        };
        Status::with_details(code, failure.message.clone(), failure.encode_to_vec().into())
    }
}

impl From<Status> for Failure {
    /// Decodes the failure of the other side, or describes a status of the transport.
    fn from(status: Status) -> Failure {
        if let (false, Ok(failure)) =
            (status.details().is_empty(), Failure::decode(status.details()))
        {
            return failure;
        }
        // The source names the system call. The message alone is often "transport error".
        let mut message = status.message().to_owned();
        let mut cause = std::error::Error::source(&status);
        while let Some(error) = cause {
            let text = error.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = error.source();
        }
        let code = status.code();
        match code {
            Code::OutOfRange | Code::ResourceExhausted | Code::InvalidArgument => {
                Failure::refused(message)
            }
            Code::DeadlineExceeded => Failure::timeout(message),
            _ => Failure::lost(format!("the connection to the coordinator failed: {message}")),
        }
    }
}

/// Formats a process for messages: `process 2 (host-b:4711)`.
pub(super) fn name(index: u32, host: &str, pid: u32) -> String {
    format!("process {index} ({host}:{pid})")
}

/// Formats several processes, `processes 1, 4 and 5`, or one, `process 3`.
pub(in crate::distributed) fn listed(indices: &[u32]) -> String {
    let numbers: Vec<String> = indices.iter().map(u32::to_string).collect();
    match &numbers[..] {
        [] => "no process".to_owned(),
        [one] => format!("process {one}"),
        [first @ .., last] => format!("processes {} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_survive_encoding() {
        let failure = Failure::timeout("process 3 did not arrive").of(&[3]).help("start it");
        let arrived = Failure::from(Status::from(failure.clone()));
        assert_eq!(arrived, failure);
        let error = arrived.error("barrier `x`");
        assert_eq!(
            error.to_string(),
            "error[distributed]: barrier `x`: process 3 did not arrive\n  help: start it"
        );
        let Error::Distributed { kind, processes, .. } = error else { unreachable!() };
        assert_eq!((kind, &processes[..]), (DistributedErrorKind::Timeout, &[3][..]));
    }

    #[test]
    fn other_statuses_keep_their_message() {
        let foreign = Failure::from(Status::unavailable("no route"));
        assert!(foreign.is_lost() && foreign.message().ends_with("no route"), "{foreign:?}");
    }

    #[test]
    fn process_lists_are_formatted() {
        assert_eq!(listed(&[3]), "process 3");
        assert_eq!(listed(&[1, 2]), "processes 1 and 2");
        assert_eq!(listed(&[0, 4, 5]), "processes 0, 4 and 5");
    }
}
