//! The chain of Amazon's tools: the first source that is configured is used.
//!
//! Reference: <https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html>.

use super::http::{Http, request};
use super::process::CredentialProcess;
use super::roles::{Caller, Role};
use super::timestamp;
use super::{Fetch, Fetched, Refreshing};
use crate::config::StorageSettings;
use crate::error::Problem;
use crate::remote::profile::Profile;
use async_trait::async_trait;
use object_store::StaticCredentialProvider;
use object_store::aws::AwsCredential;
use object_store::client::CredentialProvider;
use serde_json::Value;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A source of keys.
pub(in super::super) type AwsProvider = Arc<dyn CredentialProvider<Credential = AwsCredential>>;

/// An instance has new keys at least five minutes before the old ones end.
const MARGIN: Duration = Duration::from_secs(240);

fn provider(source: impl Fetch<Credential = AwsCredential> + 'static) -> AwsProvider {
    Arc::new(Refreshing::new(source, MARGIN))
}

/// Returns the first source that is configured: the environment, the profile, the container, else
/// the instance.
pub(in super::super) fn aws(
    settings: &StorageSettings,
    profile: &Profile,
    region: &str,
) -> Result<AwsProvider, Problem> {
    let key = settings.variable("AWS_ACCESS_KEY_ID");
    let secret = settings.variable("AWS_SECRET_ACCESS_KEY");
    let token = settings.variable("AWS_SESSION_TOKEN").or(settings.variable("AWS_SECURITY_TOKEN"));
    match (key, secret) {
        (Some(key), Some(secret)) => return Ok(fixed((key, secret, token))),
        (None, None) => {}
        (key, _) => {
            let (set, missing) = match key {
                Some(_) => ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
                None => ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"),
            };
            return Err(none(format!("{set} is set, and {missing} is not")));
        }
    }
    let chain = Chain { settings, region };
    if let (Some(file), Some(role)) =
        (settings.variable("AWS_WEB_IDENTITY_TOKEN_FILE"), settings.variable("AWS_ROLE_ARN"))
        && !chain.assumes_role(profile)
    {
        let session = settings.variable("AWS_ROLE_SESSION_NAME");
        return chain.role(profile, role, session, Caller::WebIdentity(file.to_owned()));
    }
    if let Some(provider) = chain.of_profile(profile, &mut Vec::new())? {
        return Ok(provider);
    }
    if let Some(provider) = chain.container()? {
        return Ok(provider);
    }
    chain.instance(profile)
}

fn none(what: impl fmt::Display) -> Problem {
    let message = format!("no credentials were found: {what}");
    Problem::new(io::ErrorKind::PermissionDenied, message)
}

fn client(error: &object_store::Error) -> Problem {
    Problem::new(io::ErrorKind::Other, error.to_string())
}

fn fixed((key, secret, token): (&str, &str, Option<&str>)) -> AwsProvider {
    Arc::new(StaticCredentialProvider::new(AwsCredential {
        key_id: key.to_owned(),
        secret_key: secret.to_owned(),
        token: token.map(str::to_owned),
    }))
}

struct Chain<'a> {
    settings: &'a StorageSettings,
    region: &'a str,
}

impl Chain<'_> {
    fn tries(&self) -> usize {
        self.settings.max_retries.min(3) + 1
    }

    /// Returns true if the profile assumes a role with other credentials.
    fn assumes_role(&self, profile: &Profile) -> bool {
        let has = |name: &str| profile.get(name).is_some();
        has("role_arn") && (has("source_profile") || has("credential_source"))
    }

    /// Returns the source that a profile describes. `visited` are the profiles that refer to it.
    fn of_profile(
        &self,
        profile: &Profile,
        visited: &mut Vec<String>,
    ) -> Result<Option<AwsProvider>, Problem> {
        let name = profile.name.clone();
        // A profile that names itself as its source has keys of its own.
        let is_own_source = visited.last() == Some(&name);
        if let Some(role) = profile.get("role_arn")
            && self.assumes_role(profile)
            && !is_own_source
        {
            if profile.get("mfa_serial").is_some() {
                return Err(unsupported(&name, "mfa_serial"));
            }
            if visited.contains(&name) {
                let path = visited.join(" → ");
                return Err(none(format!("profiles are sources of each other: {path} → {name}")));
            }
            visited.push(name.clone());
            let base = self.base_of(profile, visited)?;
            let session = profile.get("role_session_name");
            return self.role(profile, role, session, Caller::Keys(base)).map(Some);
        }
        if let (Some(file), Some(role)) =
            (profile.get("web_identity_token_file"), profile.get("role_arn"))
        {
            let session = profile.get("role_session_name");
            let caller = Caller::WebIdentity(file.to_owned());
            return self.role(profile, role, session, caller).map(Some);
        }
        if let Some(keys) = profile.keys() {
            return Ok(Some(fixed(keys)));
        }
        if let Some(command) = profile.get("credential_process") {
            return Ok(Some(provider(CredentialProcess { command: command.to_owned() })));
        }
        let properties = ["sso_session", "sso_start_url", "login_session"];
        match properties.into_iter().find(|name| profile.get(name).is_some()) {
            Some(property) => Err(unsupported(&name, property)),
            None => Ok(None),
        }
    }

    /// Returns the credentials with which a profile assumes its role.
    fn base_of(
        &self,
        profile: &Profile,
        visited: &mut Vec<String>,
    ) -> Result<AwsProvider, Problem> {
        let name = &profile.name;
        if let Some(source) = profile.get("source_profile") {
            let base = Profile::named(self.settings, Some(source))?;
            let found = self.of_profile(&base, visited)?;
            let what = format!("the profile `{source}`, source of `{name}`, has no credentials");
            return found.ok_or_else(|| none(what));
        }
        match profile.get("credential_source") {
            Some("Ec2InstanceMetadata") => self.instance(profile),
            Some("EcsContainer") => self.container()?.ok_or_else(|| {
                none(format!("the profile `{name}` needs the variables of a container"))
            }),
            // Keys of the environment would have been used before the profile.
            Some("Environment") => {
                Err(none(format!("the profile `{name}` needs keys in the environment")))
            }
            other => {
                let other = other.unwrap_or_default();
                Err(none(format!("the profile `{name}` has the wrong `credential_source` {other}")))
            }
        }
    }

    fn role(
        &self,
        profile: &Profile,
        arn: &str,
        session: Option<&str>,
        caller: Caller,
    ) -> Result<AwsProvider, Problem> {
        let address = self.settings.variable("AWS_ENDPOINT_URL_STS");
        let address = address
            .or_else(|| self.settings.variable("AWS_ENDPOINT_URL"))
            .or_else(|| profile.service_endpoint("sts"));
        let domain = if self.region.starts_with("cn-") { "com.cn" } else { "com" };
        let default = format!("https://sts.{}.amazonaws.{domain}", self.region);
        let http = Http::new(Duration::from_secs(20), self.tries());
        Ok(provider(Role {
            http: http.map_err(|error| client(&error))?,
            address: address.map_or(default, str::to_owned),
            region: self.region.to_owned(),
            arn: arn.to_owned(),
            session: session.unwrap_or("oxidax").to_owned(),
            external_id: profile.get("external_id").map(str::to_owned),
            seconds: profile.get("duration_seconds").map(str::to_owned),
            caller,
        }))
    }

    /// Returns the credentials of a task of ECS or a pod of EKS.
    fn container(&self) -> Result<Option<AwsProvider>, Problem> {
        let get = |name: &str| self.settings.variable(name);
        let address = match (
            get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
            get("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        ) {
            (Some(path), _) => format!("http://169.254.170.2{path}"),
            (None, Some(address)) => address.to_owned(),
            (None, None) => return Ok(None),
        };
        check_container(&address)?;
        let file = get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(str::to_owned);
        let token = get("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(str::to_owned);
        let http = Http::new(self.metadata_timeout(Duration::from_secs(2)), self.tries());
        let http = http.map_err(|error| client(&error))?;
        Ok(Some(provider(Container { http, address, file, token })))
    }

    /// Returns the credentials of the role of a virtual machine.
    fn instance(&self, profile: &Profile) -> Result<AwsProvider, Problem> {
        let get = |name: &str| self.settings.variable(name);
        let is_true = |name: &str| get(name).is_some_and(|on| on.eq_ignore_ascii_case("true"));
        if is_true("AWS_EC2_METADATA_DISABLED") {
            return Err(none("AWS_EC2_METADATA_DISABLED is true, and nothing else is configured"));
        }
        let mode = get("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE")
            .or_else(|| profile.get("ec2_metadata_service_endpoint_mode"));
        let default = match mode {
            Some(mode) if mode.eq_ignore_ascii_case("ipv6") => "http://[fd00:ec2::254]",
            _ => "http://169.254.169.254",
        };
        let address = get("AWS_EC2_METADATA_SERVICE_ENDPOINT")
            .or_else(|| get("AWS_METADATA_ENDPOINT"))
            .or_else(|| profile.get("ec2_metadata_service_endpoint"));
        let tries = get("AWS_METADATA_SERVICE_NUM_ATTEMPTS").and_then(|text| text.parse().ok());
        let tries = tries.unwrap_or(self.tries());
        let http = Http::new(self.metadata_timeout(Duration::from_secs(1)), tries);
        Ok(provider(Instance {
            http: http.map_err(|error| client(&error))?,
            address: address.unwrap_or(default).trim_end_matches('/').to_owned(),
            allows_v1: is_true("AWS_IMDSV1_FALLBACK"),
        }))
    }

    fn metadata_timeout(&self, default: Duration) -> Duration {
        let seconds = self.settings.variable("AWS_METADATA_SERVICE_TIMEOUT");
        let seconds = seconds.and_then(|text| text.parse().ok());
        seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(default)
    }
}

fn unsupported(profile: &str, property: &str) -> Problem {
    let message = format!("the profile `{profile}` has `{property}`, which is not supported");
    Problem::new(io::ErrorKind::Unsupported, message).help(format!(
        "let the AWS command line fetch the credentials: add a profile with \
         `credential_process = aws configure export-credentials --profile {profile}` and set \
         AWS_PROFILE to it"
    ))
}

/// Refuses to send a token to another host without encryption, as Amazon's tools do.
fn check_container(address: &str) -> Result<(), Problem> {
    let request = request("GET", address, &[]).map_err(none)?;
    let host = request.uri().host().unwrap_or_default().trim_matches(['[', ']']);
    let agents = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23", "localhost"];
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if request.uri().scheme_str() == Some("https") || agents.contains(&host) || is_loopback {
        return Ok(());
    }
    Err(none(format!(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI is `{address}`, which is neither https nor an address \
         of this host"
    )))
}

/// Reads keys and their end. Their values are never printed.
pub(super) fn parse(value: &Value, token: &str) -> Result<Fetched<AwsCredential>, String> {
    let field = |name: &str| value[name].as_str().map(str::to_owned);
    let needed = |name: &str| field(name).ok_or(format!("the field `{name}` is missing"));
    let expires = match field("Expiration") {
        Some(text) => {
            let time = timestamp::parse(&text);
            Some(time.ok_or(format!("the field `Expiration` is `{text}`, which is no time"))?)
        }
        None => None,
    };
    let credential = AwsCredential {
        key_id: needed("AccessKeyId")?,
        secret_key: needed("SecretAccessKey")?,
        token: field(token),
    };
    Ok(Fetched { credential, expires })
}

/// The agent of a container.
struct Container {
    http: Http,
    address: String,
    /// The file with the token, which the agent replaces.
    file: Option<String>,
    token: Option<String>,
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Container({})", self.address)
    }
}

#[async_trait]
impl Fetch for Container {
    type Credential = AwsCredential;

    async fn fetch(&self) -> Result<Fetched<AwsCredential>, String> {
        let read = |file: &String| {
            let text = std::fs::read_to_string(file);
            text.map_err(|error| {
                format!("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: cannot read {file}: {error}")
            })
        };
        let file = self.file.as_ref().map(read).transpose()?;
        let token = file.as_deref().or(self.token.as_deref()).map(str::trim);
        let headers = token.map(|token| ("authorization", token));
        let request = request("GET", &self.address, headers.as_slice())?;
        let answer = self.http.send(&request).await?.ok(&request)?;
        parse(&answer.json(&request)?, "Token")
    }
}

/// The metadata server of a virtual machine, version 2.
#[derive(Debug)]
struct Instance {
    http: Http,
    address: String,
    allows_v1: bool,
}

#[async_trait]
impl Fetch for Instance {
    type Credential = AwsCredential;

    async fn fetch(&self) -> Result<Fetched<AwsCredential>, String> {
        let address = format!("{}/latest/api/token", self.address);
        let life = [("x-aws-ec2-metadata-token-ttl-seconds", "21600")];
        let put = request("PUT", &address, &life)?;
        let answer = self.http.send(&put).await?;
        let session = match answer.status {
            403..=405 if self.allows_v1 => None,
            _ => Some(answer.ok(&put)?.body),
        };
        let header = session.as_deref().map(|token| ("x-aws-ec2-metadata-token", token.trim()));
        let folder = format!("{}/latest/meta-data/iam/security-credentials/", self.address);
        let roles = request("GET", &folder, header.as_slice())?;
        let answer = self.http.send(&roles).await?;
        if answer.status == 404 {
            return Err(format!("{}: the instance has no role", self.address));
        }
        let answer = answer.ok(&roles)?;
        let role = answer.body.lines().next().unwrap_or_default().trim();
        if role.is_empty() {
            return Err(format!("{}: the instance has no role", self.address));
        }
        let keys = request("GET", &format!("{folder}{role}"), header.as_slice())?;
        let value = self.http.send(&keys).await?.ok(&keys)?.json(&keys)?;
        match value["Code"].as_str() {
            None | Some("Success") => parse(&value, "Token"),
            Some(code) => {
                let message = value["Message"].as_str().unwrap_or_default();
                Err(format!("{}: the role {role}: {code} {message}", self.address))
            }
        }
    }
}
