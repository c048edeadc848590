//! Credentials: found, missing and wrong.

use super::start::{self, http};
use oxidax_storage::{Storage, StorageSettings};
use std::fs;
use std::io::ErrorKind;

fn s3(variables: &[(&str, &str)]) -> Storage {
    let settings = StorageSettings::from_variables(variables.iter().copied());
    Storage::new(settings.with_max_retries(0))
}

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn keys_are_read_from_profiles_and_processes() {
    let server = start::s3();
    let home = tempfile::tempdir().unwrap();
    let aws = home.path().join(".aws");
    fs::create_dir(&aws).unwrap();
    let config = format!(
        "[default]\nendpoint_url = http://{0}\n[profile process]\nendpoint_url = http://{0}\n\
         credential_process = echo '{{\"Version\": 1, \"AccessKeyId\": \"FROMPROCESS\", \
         \"SecretAccessKey\": \"s\"}}'\n[profile broken]\nendpoint_url = http://{0}\n\
         credential_process = echo nothing >&2; exit 7\n[profile login]\nsso_session = x\n",
        server.host
    );
    fs::write(aws.join("config"), config).unwrap();
    let keys = "[default]\naws_access_key_id = FROMFILE\naws_secret_access_key = s\n";
    fs::write(aws.join("credentials"), keys).unwrap();
    let home = home.path().to_str().unwrap();
    for profile in ["default", "process"] {
        let storage = s3(&[("HOME", home), ("AWS_PROFILE", profile)]);
        let object = storage.at(format!("s3://numbers/{profile}")).unwrap();
        object.write(b"1").unwrap();
        assert_eq!(object.read().unwrap(), b"1");
    }
    let broken = s3(&[("HOME", home), ("AWS_PROFILE", "broken")]);
    let error = broken.at("s3://numbers/a").unwrap().read().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    let error = error.to_string();
    assert!(error.contains("it ended with exit status: 7: nothing"), "{error}");
    let login = s3(&[("HOME", home), ("AWS_PROFILE", "login")]);
    let error = login.at("s3://numbers/a").unwrap_err().to_string();
    assert!(error.contains("`sso_session`, which is not supported"), "{error}");
    assert!(error.contains("credential_process = aws configure export-credentials"), "{error}");
}

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn missing_credentials_are_errors_with_a_remedy() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let closed = format!("http://{closed}");
    let off = s3(&[("AWS_EC2_METADATA_DISABLED", "true")]);
    let off = off.at("s3://numbers/a").unwrap_err();
    let metadata = s3(&[("AWS_METADATA_ENDPOINT", &closed), ("AWS_ENDPOINT_URL", &closed)]);
    let metadata = metadata.at("s3://numbers/a").unwrap().read().unwrap_err();
    for error in [off, metadata] {
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        let error = error.to_string();
        assert!(error.contains("no credentials were found"), "{error}");
        assert!(error.contains("\n  help: set AWS_ACCESS_KEY_ID"), "{error}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "{}").unwrap();
    let path = file.path().to_str().unwrap();
    let settings = StorageSettings::from_variables([("GOOGLE_APPLICATION_CREDENTIALS", path)]);
    let error = Storage::new(settings).at("gs://numbers/a").unwrap_err().to_string();
    assert!(error.contains("help: run `gcloud auth application-default login`"), "{error}");
}

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn wrong_credentials_are_refused() {
    let server = start::s3();
    // From now on the server checks every key.
    assert_eq!(http(&server.host, "POST", "/moto-api/reset-auth", "0").0, 200);
    let endpoint = format!("http://{}", server.host);
    let storage = s3(&[
        ("AWS_ENDPOINT_URL", &endpoint),
        ("AWS_ACCESS_KEY_ID", "AKIAWRONG"),
        ("AWS_SECRET_ACCESS_KEY", "wrong"),
    ]);
    let error = storage.at("s3://numbers").unwrap().list().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    let error = error.to_string();
    assert!(
        error.contains("InvalidAccessKeyId") && error.contains("\n  help: set AWS_"),
        "{error}"
    );
}
