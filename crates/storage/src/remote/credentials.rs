//! Providers of credentials.

use async_trait::async_trait;
use object_store::aws::AwsCredential;
use object_store::client::CredentialProvider;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A provider whose failures are errors of credentials, so that their remedy is printed.
#[derive(Debug)]
pub(super) struct Required<C>(pub(super) Arc<dyn CredentialProvider<Credential = C>>);

#[async_trait]
impl<C: std::fmt::Debug + Send + Sync> CredentialProvider for Required<C> {
    type Credential = C;

    async fn get_credential(&self) -> object_store::Result<Arc<C>> {
        self.0.get_credential().await.map_err(|error| missing("no credentials were found", error))
    }
}

fn missing(what: &str, error: impl std::fmt::Display) -> object_store::Error {
    object_store::Error::Unauthenticated {
        path: String::new(),
        source: format!("{what}: {error}").into(),
    }
}

/// Runs the `credential_process` of a profile, a command that prints credentials as JSON.
pub(super) struct CredentialProcess {
    command: String,
    /// The last credentials, and when the command printed them.
    last: Mutex<Option<(Instant, Arc<AwsCredential>)>>,
}

/// The command runs again after this time. It prints credentials that are valid for longer.
const MAX_AGE: Duration = Duration::from_secs(60);

impl CredentialProcess {
    pub(super) fn new(command: &str) -> CredentialProcess {
        CredentialProcess { command: command.to_owned(), last: Mutex::new(None) }
    }
}

impl std::fmt::Debug for CredentialProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CredentialProcess({})", self.command)
    }
}

#[async_trait]
impl CredentialProvider for CredentialProcess {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let last = || self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((time, credential)) = &*last()
            && time.elapsed() < MAX_AGE
        {
            return Ok(credential.clone());
        }
        let command = self.command.clone();
        let printed = tokio::task::spawn_blocking(move || run(&command)).await;
        let printed = printed.map_err(|error| error.to_string()).and_then(|printed| printed);
        let credential = printed
            .map_err(|error| missing(&format!("credential_process `{}`", self.command), error))?;
        let credential = Arc::new(credential);
        *last() = Some((Instant::now(), credential.clone()));
        Ok(credential)
    }
}

fn run(command: &str) -> Result<AwsCredential, String> {
    let output = Command::new("sh").args(["-c", command]).output();
    let output = output.map_err(|error| format!("cannot start it: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("it ended with {}: {}", output.status, text.trim()));
    }
    parse(&output.stdout)
}

/// Parses version 1 of the format. Its fields are never printed.
fn parse(text: &[u8]) -> Result<AwsCredential, String> {
    let value: serde_json::Value =
        serde_json::from_slice(text).map_err(|error| format!("it printed no JSON: {error}"))?;
    if value["Version"] != 1 {
        return Err("the field `Version` is not 1".into());
    }
    let field = |name: &str| value[name].as_str().map(str::to_owned);
    let needed = |name: &str| field(name).ok_or(format!("the field `{name}` is missing"));
    Ok(AwsCredential {
        key_id: needed("AccessKeyId")?,
        secret_key: needed("SecretAccessKey")?,
        token: field("SessionToken"),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]
mod tests {
    use super::*;

    #[test]
    fn processes_print_credentials_or_fail_with_their_reason() {
        let json = r#"{"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "s"}"#;
        let credential = run(&format!("echo '{json}'")).unwrap();
        assert_eq!((credential.key_id.as_str(), credential.token), ("A", None));
        for (command, expected) in [
            ("echo oops >&2; exit 3", "it ended with exit status: 3: oops"),
            ("echo x", "it printed no JSON: "),
            ("echo '{}'", "the field `Version` is not 1"),
            (r#"echo '{"Version": 1}'"#, "the field `AccessKeyId` is missing"),
        ] {
            let error = run(command).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
