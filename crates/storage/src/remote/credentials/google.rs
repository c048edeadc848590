//! Google's application default credentials.
//!
//! Reference: <https://cloud.google.com/docs/authentication/application-default-credentials> and
//! <https://cloud.google.com/compute/docs/metadata/overview>.

use super::http::{Answer, Http, form, request};
use super::timestamp;
use super::{Fetch, Fetched, Refreshing};
use crate::config::StorageSettings;
use crate::error::Problem;
use async_trait::async_trait;
use object_store::client::{CredentialProvider, HttpRequest};
use object_store::gcp::GcpCredential;
use serde_json::{Value, json};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A metadata server keeps a token until four minutes before its end.
const MARGIN: Duration = Duration::from_secs(225);

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// The source of Google's credentials.
pub(in super::super) enum GoogleCredentials {
    /// The key of a service account, in the file at this path.
    ServiceAccount(String),
    Provider(Arc<dyn CredentialProvider<Credential = GcpCredential>>),
}

/// Returns the credentials of the file that `GOOGLE_APPLICATION_CREDENTIALS` names, else of the
/// file of `gcloud auth application-default login`, else of the metadata server.
pub(in super::super) fn google(
    settings: &StorageSettings,
) -> Result<Result<GoogleCredentials, Problem>, object_store::Error> {
    let named = settings.variable("GOOGLE_APPLICATION_CREDENTIALS").map(Into::into);
    // The file of `gcloud` may be missing; one that the user named may not.
    let path = named.or_else(|| {
        let folder = settings.path_or_home("CLOUDSDK_CONFIG", ".config/gcloud")?;
        Some(folder.join("application_default_credentials.json")).filter(|file| file.exists())
    });
    if let Some(path) = path {
        let http = Http::new(Duration::from_secs(20), settings.max_retries.min(3) + 1)?;
        return Ok(from_file(settings, &path, http));
    }
    let is_off =
        settings.variable("NO_GCE_CHECK").is_some_and(|on| on.eq_ignore_ascii_case("true"));
    if is_off {
        let message = "no credentials were found: there is no file with credentials, and \
                       NO_GCE_CHECK is true";
        return Ok(Err(Problem::new(io::ErrorKind::PermissionDenied, message)));
    }
    let seconds = settings.variable("GCE_METADATA_TIMEOUT").and_then(|text| text.parse().ok());
    let timeout = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let timeout = timeout.unwrap_or(Duration::from_secs(3));
    let named = settings.variable("GCE_METADATA_HOST").or(settings.variable("GCE_METADATA_ROOT"));
    let hosts = match named {
        Some(host) => vec![host.to_owned()],
        None => {
            let ip = settings.variable("GCE_METADATA_IP").unwrap_or("169.254.169.254");
            vec!["metadata.google.internal".to_owned(), ip.to_owned()]
        }
    };
    let http = Http::new(timeout, settings.max_retries.min(2) + 1)?;
    Ok(Ok(provider(Metadata { http, hosts })))
}

fn provider(source: impl Fetch<Credential = GcpCredential> + 'static) -> GoogleCredentials {
    GoogleCredentials::Provider(Arc::new(Refreshing::new(source, MARGIN)))
}

fn from_file(
    settings: &StorageSettings,
    path: &Path,
    http: Http,
) -> Result<GoogleCredentials, Problem> {
    let refused = |kind, what: String| {
        Err(Problem::new(kind, format!("no credentials were found: {}: {what}", path.display())))
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return refused(error.kind(), format!("cannot read it: {error}")),
    };
    let file: Value = match serde_json::from_str(&text) {
        Ok(file) => file,
        Err(error) => return refused(io::ErrorKind::InvalidData, format!("wrong JSON: {error}")),
    };
    let user = |value: &Value| AuthorizedUser::parse(settings, value, http.clone());
    let wrong = |field: &str| format!("the field `{field}` is missing");
    match file["type"].as_str() {
        Some("service_account") => {
            let needed = ["private_key", "private_key_id", "client_email"];
            match needed.into_iter().find(|field| !file[*field].is_string()) {
                Some(field) => refused(io::ErrorKind::InvalidData, wrong(field)),
                None => Ok(GoogleCredentials::ServiceAccount(path.to_string_lossy().into_owned())),
            }
        }
        Some("authorized_user") => match user(&file) {
            Ok(user) => Ok(provider(user)),
            Err(field) => refused(io::ErrorKind::InvalidData, wrong(&field)),
        },
        Some("impersonated_service_account") => {
            let source = &file["source_credentials"];
            if source["type"] != "authorized_user" {
                let what =
                    format!("`source_credentials` of type {} are not supported", source["type"]);
                return refused(io::ErrorKind::Unsupported, what);
            }
            let Some(address) = file["service_account_impersonation_url"].as_str() else {
                let what = wrong("service_account_impersonation_url");
                return refused(io::ErrorKind::InvalidData, what);
            };
            match user(source) {
                Ok(user) => Ok(provider(Impersonated {
                    user: Refreshing::new(user, MARGIN),
                    address: address.to_owned(),
                    delegates: file["delegates"].clone(),
                    http,
                })),
                Err(field) => refused(io::ErrorKind::InvalidData, wrong(&field)),
            }
        }
        Some(other) => {
            refused(io::ErrorKind::Unsupported, format!("the type `{other}` is not supported"))
        }
        None => refused(io::ErrorKind::InvalidData, wrong("type")),
    }
}

/// Reads a token and its life in seconds.
fn token(answer: Answer, request: &HttpRequest) -> Result<Fetched<GcpCredential>, String> {
    let value = answer.ok(request)?.json(request)?;
    let bearer = value["access_token"].as_str().ok_or("the answer has no `access_token`")?;
    let seconds = value["expires_in"].as_u64().ok_or("the answer has no `expires_in`")?;
    let expires = SystemTime::now().checked_add(Duration::from_secs(seconds));
    Ok(Fetched { credential: GcpCredential { bearer: bearer.to_owned() }, expires })
}

/// The service account of a virtual machine, a pod or a job.
#[derive(Debug)]
struct Metadata {
    http: Http,
    /// The servers in order: by name, and by address where names are not resolved.
    hosts: Vec<String>,
}

#[async_trait]
impl Fetch for Metadata {
    type Credential = GcpCredential;

    async fn fetch(&self) -> Result<Fetched<GcpCredential>, String> {
        let mut problem = String::new();
        for host in &self.hosts {
            match self.fetch_from(host).await {
                Ok(fetched) => return Ok(fetched),
                // The first problem is that of the server by name.
                Err(error) if problem.is_empty() => problem = error,
                Err(_) => {}
            }
        }
        Err(problem)
    }
}

impl Metadata {
    async fn fetch_from(&self, host: &str) -> Result<Fetched<GcpCredential>, String> {
        let path = "computeMetadata/v1/instance/service-accounts/default/token";
        let address = format!("http://{host}/{path}");
        let request = request("GET", &address, &[("metadata-flavor", "Google")])?;
        let answer = self.http.send(&request).await?;
        if answer.status == 404 {
            return Err(format!("{host} has no service account"));
        }
        if !answer.is_google_metadata {
            return Err(format!(
                "{host} is not Google's metadata server: its answer has no header \
                 `Metadata-Flavor: Google`"
            ));
        }
        token(answer, &request)
    }
}

/// A user who has logged in with `gcloud auth application-default login`.
struct AuthorizedUser {
    http: Http,
    client_id: String,
    client_secret: String,
    refresh_token: String,
    /// The server that exchanges the refresh token.
    address: String,
}

impl AuthorizedUser {
    /// Returns the name of a missing field as an error.
    fn parse(
        settings: &StorageSettings,
        file: &Value,
        http: Http,
    ) -> Result<AuthorizedUser, String> {
        let field = |name: &str| file[name].as_str().map(str::to_owned).ok_or(name.to_owned());
        let address = settings.variable("CLOUDSDK_AUTH_TOKEN_HOST");
        Ok(AuthorizedUser {
            http,
            client_id: field("client_id")?,
            client_secret: field("client_secret")?,
            refresh_token: field("refresh_token")?,
            address: address.unwrap_or("https://oauth2.googleapis.com/token").to_owned(),
        })
    }
}

impl fmt::Debug for AuthorizedUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuthorizedUser({})", self.address)
    }
}

#[async_trait]
impl Fetch for AuthorizedUser {
    type Credential = GcpCredential;

    async fn fetch(&self) -> Result<Fetched<GcpCredential>, String> {
        let fields = [
            ("grant_type", "refresh_token"),
            ("client_id", &self.client_id),
            ("client_secret", &self.client_secret),
            ("refresh_token", &self.refresh_token),
        ];
        let request = form(&self.address, &fields)?;
        token(self.http.send(&request).await?, &request)
    }
}

/// A service account that a user impersonates.
#[derive(Debug)]
struct Impersonated {
    user: Refreshing<AuthorizedUser>,
    address: String,
    delegates: Value,
    http: Http,
}

#[async_trait]
impl Fetch for Impersonated {
    type Credential = GcpCredential;

    async fn fetch(&self) -> Result<Fetched<GcpCredential>, String> {
        let user = self.user.get_credential().await.map_err(|error| error.to_string())?;
        let bearer = format!("Bearer {}", user.bearer);
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let mut request = request("POST", &self.address, &headers)?;
        let mut body = json!({ "scope": [SCOPE], "lifetime": "3600s" });
        if self.delegates.is_array() {
            body["delegates"] = self.delegates.clone();
        }
        *request.body_mut() = body.to_string().into_bytes().into();
        let value = self.http.send(&request).await?.ok(&request)?.json(&request)?;
        let bearer = value["accessToken"].as_str().ok_or("the answer has no `accessToken`")?;
        let end = value["expireTime"].as_str().and_then(timestamp::parse);
        let end = end.ok_or("the answer has no `expireTime`")?;
        Ok(Fetched { credential: GcpCredential { bearer: bearer.to_owned() }, expires: Some(end) })
    }
}
