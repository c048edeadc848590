//! Clients of buckets from settings.

use super::client::{Client, Remedies};
use super::connector::Connector;
use super::credentials::{GoogleCredentials, aws, google};
use super::profile::Profile;
use crate::config::StorageSettings;
use crate::error::Problem;
use crate::location::Scheme;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use std::io;
use std::sync::Arc;

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
    builder =
        builder.with_bucket_name(bucket).with_http_connector(Connector { is_emulator: false });
    let is_anonymous =
        settings.variable("AWS_SKIP_SIGNATURE").is_some_and(|on| on.eq_ignore_ascii_case("true"));
    if !is_anonymous {
        let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let credentials = aws(settings, &profile, &region);
        builder = builder
            .with_credentials(credentials.map_err(|problem| problem.or_help(S3.credentials))?);
    }
    let builder = builder.with_retry(retries(settings));
    builder.build().map_err(|error| refused(&error, S3.server))
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
    } else if !names_credentials(settings) {
        let found = google(settings).map_err(|error| refused(&error, GS.server))?;
        builder = match found.map_err(|problem| problem.or_help(GS.credentials))? {
            GoogleCredentials::ServiceAccount(path) => builder.with_service_account_path(path),
            GoogleCredentials::Provider(provider) => builder.with_credentials(provider),
        };
    }
    let is_plain = |address: &str| address.starts_with("http://");
    if emulator.is_none() && settings.variable("GOOGLE_BASE_URL").is_some_and(is_plain) {
        builder = builder.with_client_options(ClientOptions::new().with_allow_http(true));
    }
    let connector = Connector { is_emulator: emulator.is_some() };
    let builder = builder.with_bucket_name(bucket).with_http_connector(connector);
    let built = builder.with_retry(retries(settings)).build();
    built.map_err(|error| refused(&error, GS.credentials))
}

/// Returns true if a variable of the crate `object_store` selects the credentials.
fn names_credentials(settings: &StorageSettings) -> bool {
    let named = |(name, value): (&str, &str)| match name.strip_prefix("GOOGLE_") {
        Some("SERVICE_ACCOUNT" | "SERVICE_ACCOUNT_PATH" | "SERVICE_ACCOUNT_KEY") => true,
        Some("BEARER_TOKEN") => true,
        Some("SKIP_SIGNATURE") => value.eq_ignore_ascii_case("true"),
        _ => false,
    };
    settings.variables().any(named)
}
