//! The `credential_process` of a profile, a command that prints credentials as JSON.

use super::aws::parse;
use super::{Fetch, Fetched};
use async_trait::async_trait;
use object_store::aws::AwsCredential;
use std::process::Command;

/// Runs the command again before its credentials expire.
#[derive(Debug)]
pub(super) struct CredentialProcess {
    pub(super) command: String,
}

#[async_trait]
impl Fetch for CredentialProcess {
    type Credential = AwsCredential;

    async fn fetch(&self) -> Result<Fetched<AwsCredential>, String> {
        let command = self.command.clone();
        let printed = tokio::task::spawn_blocking(move || run(&command)).await;
        let printed = printed.map_err(|error| error.to_string()).and_then(|printed| printed);
        printed.map_err(|error| format!("credential_process `{}`: {error}", self.command))
    }
}

fn run(command: &str) -> Result<Fetched<AwsCredential>, String> {
    let output = Command::new("sh").args(["-c", command]).output();
    let output = output.map_err(|error| format!("cannot start it: {error}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("it ended with {}: {}", output.status, text.trim()));
    }
    let value: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("it printed no JSON: {error}"))?;
    if value["Version"] != 1 {
        return Err("the field `Version` is not 1".into());
    }
    parse(&value, "SessionToken")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]
mod tests {
    use super::*;

    #[test]
    fn processes_print_credentials_or_fail_with_their_reason() {
        let json = r#"{"Version": 1, "AccessKeyId": "A", "SecretAccessKey": "s""#;
        let fetched = run(&format!("echo '{json}}}'")).unwrap();
        assert_eq!((fetched.credential.key_id.as_str(), fetched.credential.token), ("A", None));
        assert_eq!(fetched.expires, None);
        let expires = r#", "Expiration": "2100-01-01T00:00:00Z""#;
        assert!(run(&format!("echo '{json}{expires}}}'")).unwrap().expires.is_some());
        for (command, expected) in [
            ("echo oops >&2; exit 3", "it ended with exit status: 3: oops"),
            ("echo x", "it printed no JSON: "),
            ("echo '{}'", "the field `Version` is not 1"),
            (r#"echo '{"Version": 1}'"#, "the field `AccessKeyId` is missing"),
        ] {
            let error = run(command).err().unwrap();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
