//! Clients of buckets from settings.

use super::client::{Client, Remedies};
use super::connector::Connector;
use super::credentials::{CredentialProcess, Required};
use super::profile::Profile;
use crate::config::StorageSettings;
use crate::error::Problem;
use crate::location::Scheme;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use std::io;
use std::sync::Arc;
use std::time::Duration;

const S3: Remedies = Remedies {
    bucket: "`aws s3 ls` lists your buckets; AWS_ENDPOINT_URL selects another server",
    credentials: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE to a profile of \
                  ~/.aws/config; `aws sts get-caller-identity` checks them; AWS_SKIP_SIGNATURE=true \
                  reads public buckets",
    server: "check the network, AWS_REGION, and AWS_ENDPOINT_URL for another server than Amazon's",
};

const GS: Remedies = Remedies {
    bucket: "`gcloud storage ls` lists your buckets",
    credentials: "run `gcloud auth application-default login`, or set \
                  GOOGLE_APPLICATION_CREDENTIALS to a file with credentials; \
                  GOOGLE_SKIP_SIGNATURE=true reads public buckets",
    server: "check the network, and STORAGE_EMULATOR_HOST for an emulator",
};

impl Client {
    /// Creates a client. Credentials are fetched with the first request.
    pub(crate) fn connect(
        settings: &StorageSettings,
        scheme: Scheme,
        bucket: &str,
    ) -> Result<Client, Problem> {
        let address = format!("{}://{bucket}", scheme.name());
        let (store, remedies): (Arc<dyn ObjectStore>, _) = match scheme {
            Scheme::S3 => (Arc::new(s3(settings, bucket)?), S3),
            Scheme::Gs => (Arc::new(gs(settings, bucket)?), GS),
        };
        Ok(Client::new(address, store, settings.part_size, remedies))
    }
}

/// Pauses grow from 0.1 s to 15 s.
fn retries(settings: &StorageSettings) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: settings.max_retries,
        retry_timeout: settings.retry_timeout,
    }
}

/// A host without a metadata server must not wait minutes for it.
fn retries_of_credentials(settings: &StorageSettings) -> RetryConfig {
    RetryConfig {
        max_retries: settings.max_retries.min(3),
        retry_timeout: settings.retry_timeout.min(Duration::from_secs(20)),
        ..retries(settings)
    }
}

fn refused(error: &object_store::Error, help: &'static str) -> Problem {
    Problem::new(io::ErrorKind::InvalidInput, error.to_string()).help(help)
}

fn s3(settings: &StorageSettings, bucket: &str) -> Result<object_store::aws::AmazonS3, Problem> {
    let profile = Profile::read(settings)?;
    let mut builder = AmazonS3Builder::new();
    for (name, value) in settings.variables().filter(|(name, _)| name.starts_with("AWS_")) {
        if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    let has = |builder: &AmazonS3Builder, key| builder.get_config_value(&key).is_some();
    if !has(&builder, AmazonS3ConfigKey::Region)
        && let Some(region) = profile.get("region")
    {
        builder = builder.with_region(region);
    }
    // The endpoint for S3 alone precedes the one for all services, which precedes the profile's.
    let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]
        .into_iter()
        .find_map(|name| settings.variable(name))
        .or_else(|| profile.endpoint());
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(endpoint);
        if endpoint.starts_with("http://") {
            builder = builder.with_allow_http(true);
        }
    }
    let has_keys = has(&builder, AmazonS3ConfigKey::AccessKeyId)
        || has(&builder, AmazonS3ConfigKey::SecretAccessKey)
        || has(&builder, AmazonS3ConfigKey::WebIdentityTokenFile);
    if !has_keys {
        builder = with_profile(builder, settings, &profile)?;
    }
    builder =
        builder.with_bucket_name(bucket).with_http_connector(Connector { is_emulator: false });
    let credentials = builder.clone().with_retry(retries_of_credentials(settings)).build();
    let credentials = credentials.map_err(|error| refused(&error, S3.credentials))?;
    let credentials = Arc::new(Required(credentials.credentials().clone()));
    let builder = builder.with_credentials(credentials).with_retry(retries(settings));
    builder.build().map_err(|error| refused(&error, S3.server))
}

/// Adds the credentials of the profile, if it has some.
fn with_profile(
    builder: AmazonS3Builder,
    settings: &StorageSettings,
    profile: &Profile,
) -> Result<AmazonS3Builder, Problem> {
    if let Some((key, secret, token)) = profile.keys() {
        let builder = builder.with_access_key_id(key).with_secret_access_key(secret);
        return Ok(match token {
            Some(token) => builder.with_token(token),
            None => builder,
        });
    }
    if let (Some(file), Some(role)) =
        (profile.get("web_identity_token_file"), profile.get("role_arn"))
    {
        let builder = builder
            .with_config(AmazonS3ConfigKey::WebIdentityTokenFile, file)
            .with_config(AmazonS3ConfigKey::RoleArn, role);
        return Ok(match profile.get("role_session_name") {
            Some(name) => builder.with_config(AmazonS3ConfigKey::RoleSessionName, name),
            None => builder,
        });
    }
    if let Some(command) = profile.get("credential_process") {
        return Ok(builder.with_credentials(Arc::new(CredentialProcess::new(command))));
    }
    let unsupported = ["sso_session", "sso_start_url", "source_profile", "credential_source"];
    if let Some(property) = unsupported.into_iter().find(|name| profile.get(name).is_some()) {
        let name = &profile.name;
        let message = format!("the profile `{name}` has `{property}`, which is not supported");
        return Err(Problem::new(io::ErrorKind::Unsupported, message).help(format!(
            "let the AWS command line fetch the credentials: add a profile with \
             `credential_process = aws configure export-credentials --profile {name}` and set \
             AWS_PROFILE to it"
        )));
    }
    let is_container =
        settings.variables().any(|(name, _)| name.starts_with("AWS_CONTAINER_CREDENTIALS_"));
    let is_true = |name| settings.variable(name).is_some_and(|on| on.eq_ignore_ascii_case("true"));
    if is_true("AWS_EC2_METADATA_DISABLED") && !is_container && !is_true("AWS_SKIP_SIGNATURE") {
        let message = "no credentials were found, and AWS_EC2_METADATA_DISABLED is true";
        return Err(Problem::new(io::ErrorKind::PermissionDenied, message).help(S3.credentials));
    }
    Ok(builder)
}

fn gs(
    settings: &StorageSettings,
    bucket: &str,
) -> Result<object_store::gcp::GoogleCloudStorage, Problem> {
    let mut builder = GoogleCloudStorageBuilder::new();
    let variables = || settings.variables().filter(|(name, _)| name.starts_with("GOOGLE_"));
    for (name, value) in variables() {
        if let Ok(key) = name.to_ascii_lowercase().parse::<GoogleConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    let emulator = settings.variable("STORAGE_EMULATOR_HOST");
    if let Some(host) = emulator {
        // Google's tools accept an address without a scheme.
        let scheme = if host.contains("://") { "" } else { "http://" };
        let address = format!("{scheme}{}", host.trim_end_matches('/'));
        let options = ClientOptions::new().with_allow_http(true);
        builder = GoogleCloudStorageBuilder::new()
            .with_base_url(&address)
            .with_client_options(options)
            .with_skip_signature(true)
            // No file with credentials is read for an emulator.
            .with_bearer_token("emulator");
    } else if settings.variable("GOOGLE_APPLICATION_CREDENTIALS").is_none() {
        // The file of `gcloud auth application-default login`.
        let folder = settings.path_or_home("CLOUDSDK_CONFIG", ".config/gcloud");
        let file = folder.map(|folder| folder.join("application_default_credentials.json"));
        if let Some(file) = file.filter(|file| file.exists()) {
            builder = builder.with_application_credentials(file.to_string_lossy());
        }
    }
    let connector = Connector { is_emulator: emulator.is_some() };
    builder = builder.with_bucket_name(bucket).with_http_connector(connector);
    let credentials = builder.clone().with_retry(retries_of_credentials(settings)).build();
    let credentials = credentials.map_err(|error| refused(&error, GS.credentials))?;
    let credentials = Arc::new(Required(credentials.credentials().clone()));
    let builder = builder.with_credentials(credentials).with_retry(retries(settings));
    builder.build().map_err(|error| refused(&error, GS.server))
}
