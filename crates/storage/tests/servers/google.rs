//! Credentials of Google: each source, and servers that are slow, missing or wrong.

use super::cloud::{Answer, Cloud, Request, ok, time_in};
use super::start;
use oxidax_storage::{Error, Storage, StorageSettings};
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::process::{Command, Stdio};

fn storage(cloud: &Cloud, variables: &[(&str, &str)]) -> Storage {
    let base = [("GOOGLE_BASE_URL".to_owned(), cloud.address())];
    let more = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    Storage::new(StorageSettings::from_variables(base.into_iter().chain(more)).with_max_retries(0))
}

/// Returns the identity with which the object is read.
fn read(storage: &Storage) -> Result<String, Error> {
    Ok(String::from_utf8(storage.at("gs://numbers/a")?.read()?).unwrap())
}

fn refused(storage: &Storage, expected: &str) {
    let error = read(storage).unwrap_err().to_string();
    assert!(error.contains("no credentials were found: "), "{error}");
    assert!(error.contains(expected), "{error}\nexpected: {expected}");
    assert!(error.contains("\n  help: run `gcloud auth application-default login`"), "{error}");
}

fn token(name: &str, seconds: u32) -> String {
    format!(r#"{{"access_token": "{name}", "expires_in": {seconds}, "token_type": "Bearer"}}"#)
}

const TOKEN: &str = "/computeMetadata/v1/instance/service-accounts/default/token";

fn metadata(mut answer: impl FnMut() -> Answer + Send + 'static) -> Cloud {
    Cloud::start(move |request: &Request| {
        assert_eq!((request.path.as_str(), request.header("metadata-flavor")), (TOKEN, "Google"));
        answer()
    })
}

fn of_metadata(cloud: &Cloud) -> Storage {
    let timeout = ("GCE_METADATA_TIMEOUT", "0.5");
    storage(cloud, &[("GCE_METADATA_HOST", cloud.host.as_str()), timeout])
}

#[test]
fn metadata_servers_give_tokens_that_are_replaced_near_their_end() {
    let cloud = metadata(|| Answer::Metadata(200, token("long", 3600)));
    let storage = of_metadata(&cloud);
    for _ in 0..3 {
        assert_eq!(read(&storage).unwrap(), "Bearer long");
    }
    assert_eq!(cloud.count(&format!("GET {TOKEN}")), 1);
    let mut served = 0;
    let cloud = metadata(move || {
        served += 1;
        match served {
            1..3 => Answer::Metadata(200, token(&format!("short{served}"), 60 * served)),
            _ => Answer::Metadata(503, "later".into()),
        }
    });
    let storage = of_metadata(&cloud);
    for _ in 0..3 {
        assert_eq!(read(&storage).unwrap(), "Bearer short2");
    }
    assert_eq!(cloud.count(&format!("GET {TOKEN}")), 3);
}

#[test]
fn metadata_servers_that_are_slow_missing_or_wrong_are_errors() {
    let none = metadata(|| Answer::Metadata(404, String::new()));
    refused(&of_metadata(&none), "has no service account");
    let router = metadata(|| ok("<html>Log in</html>"));
    refused(&of_metadata(&router), "is not Google's metadata server");
    let wrong = metadata(|| Answer::Metadata(200, "{}".into()));
    refused(&of_metadata(&wrong), "the answer has no `access_token`");
    let html = metadata(|| Answer::Metadata(200, "<html>".into()));
    refused(&of_metadata(&html), "sent no JSON");
    let ended = metadata(|| Answer::Metadata(200, token("ended", 0)));
    refused(&of_metadata(&ended), "the credentials have expired");
    let silent = metadata(|| Answer::Silence);
    refused(&of_metadata(&silent), &format!("{}{TOKEN}: ", silent.address()));
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let missing = [("GCE_METADATA_HOST", closed.to_string())];
    let missing = storage(&silent, &[(missing[0].0, &missing[0].1)]);
    refused(&missing, &format!("http://{closed}{TOKEN}: "));
    assert_eq!(read(&missing).unwrap_err().kind(), ErrorKind::PermissionDenied);
    let off = storage(&silent, &[("NO_GCE_CHECK", "true")]);
    refused(&off, "NO_GCE_CHECK is true");
}

const USER: &str = r#"{"type": "authorized_user", "client_id": "id.apps", "client_secret": "c/s",
    "refresh_token": "1//r", "account": "", "universe_domain": "googleapis.com"}"#;

#[test]
fn users_exchange_their_refresh_token() {
    let cloud = Cloud::start(|request| {
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/token"));
        assert_eq!(request.header("content-type"), "application/x-www-form-urlencoded");
        let (start, token_part) = request.body.rsplit_once('&').unwrap();
        let known = "grant_type=refresh_token&client_id=id.apps&client_secret=c%2Fs";
        assert_eq!(start, known);
        match token_part {
            "refresh_token=1%2F%2Fr" => ok(token("user", 3599)),
            _ => Answer::Text(
                400,
                r#"{"error": "invalid_grant", "error_description": "Token has been revoked."}"#
                    .into(),
            ),
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("application_default_credentials.json");
    fs::write(&path, USER).unwrap();
    let host = format!("{}/token", cloud.address());
    let config = ("CLOUDSDK_CONFIG", folder.path().to_str().unwrap());
    let host = ("CLOUDSDK_AUTH_TOKEN_HOST", host.as_str());
    let of_gcloud = storage(&cloud, &[config, host]);
    assert_eq!(read(&of_gcloud).unwrap(), "Bearer user");
    assert_eq!(read(&of_gcloud).unwrap(), "Bearer user");
    assert_eq!(cloud.count("POST"), 1);
    // A file that the user names precedes that of gcloud.
    let named = folder.path().join("named.json");
    fs::write(&named, USER.replace("1//r", "1//old")).unwrap();
    let named = ("GOOGLE_APPLICATION_CREDENTIALS", named.to_str().unwrap());
    refused(&storage(&cloud, &[config, host, named]), "invalid_grant");
    for (text, expected) in [
        (USER.replace("\"refresh_token\"", "\"other\""), "the field `refresh_token` is missing"),
        ("{".into(), "wrong JSON"),
        ("{}".into(), "the field `type` is missing"),
        (r#"{"type": "service_account"}"#.into(), "the field `private_key` is missing"),
        (r#"{"type": "external_account"}"#.into(), "`external_account` is not supported"),
    ] {
        fs::write(named.1, text).unwrap();
        refused(&storage(&cloud, &[config, host, named]), expected);
    }
    fs::remove_file(named.1).unwrap();
    refused(&storage(&cloud, &[config, host, named]), "cannot read it");
}

#[test]
fn users_impersonate_service_accounts() {
    let cloud = Cloud::start(|request| {
        if request.path == "/token" {
            return ok(token("user", 3599));
        }
        assert_eq!(request.path, "/v1/projects/-/serviceAccounts/a:generateAccessToken");
        assert_eq!(request.header("authorization"), "Bearer user");
        assert!(request.body.contains("\"lifetime\":\"3600s\""), "{}", request.body);
        assert!(request.body.contains("\"delegates\":[\"b\"]"), "{}", request.body);
        let end = time_in(3600);
        ok(format!(r#"{{"accessToken": "account", "expireTime": "{end}"}}"#))
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        r#"{{"type": "impersonated_service_account", "delegates": ["b"],
            "service_account_impersonation_url":
                "{}/v1/projects/-/serviceAccounts/a:generateAccessToken",
            "source_credentials": {USER}}}"#,
        cloud.address()
    );
    fs::write(file.path(), text).unwrap();
    let host = format!("{}/token", cloud.address());
    let storage = storage(
        &cloud,
        &[
            ("GOOGLE_APPLICATION_CREDENTIALS", file.path().to_str().unwrap()),
            ("CLOUDSDK_AUTH_TOKEN_HOST", &host),
        ],
    );
    assert_eq!(read(&storage).unwrap(), "Bearer account");
    assert_eq!((cloud.count("POST /token"), cloud.count("POST /v1")), (1, 1));
}

/// Prints a new key, then reads a token that it signed and prints its claims.
const SIGNER: &str = r#"
import base64, json, sys, time
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
kinds = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
print(json.dumps(key.private_bytes(*kinds, serialization.NoEncryption()).decode()), flush=True)
token = sys.stdin.readline().strip()
message, _, signature = token.rpartition('.')
decode = lambda text: base64.urlsafe_b64decode(text + '=' * (-len(text) % 4))
check = padding.PKCS1v15(), hashes.SHA256()
key.public_key().verify(decode(signature), message.encode(), *check)
header, claims = (json.loads(decode(part)) for part in message.split('.'))
assert abs(claims['iat'] - time.time()) < 600 and claims['exp'] == claims['iat'] + 3600, claims
print(header['alg'], header['kid'], claims['iss'], claims['sub'], claims['scope'])
"#;

#[test]
#[ignore = "needs the servers that `cargo xtask stores` installs"]
fn service_accounts_sign_their_tokens() {
    let python = start::program("python");
    let mut signer = Command::new(python);
    let signer = signer.args(["-c", SIGNER]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut signer = signer.spawn().unwrap();
    let mut lines = std::io::BufReader::new(signer.stdout.take().unwrap());
    let mut key = String::new();
    std::io::BufRead::read_line(&mut lines, &mut key).unwrap();
    let cloud = Cloud::start(|request| panic!("no request is needed: {}", request.path));
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!(
        r#"{{"type": "service_account", "project_id": "p", "private_key_id": "k1",
            "private_key": {key}, "client_email": "train@p.iam"}}"#
    );
    fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap();
    let identity = read(&storage(&cloud, &[("GOOGLE_APPLICATION_CREDENTIALS", path)])).unwrap();
    let token = identity.strip_prefix("Bearer ").unwrap();
    writeln!(signer.stdin.take().unwrap(), "{token}").unwrap();
    let mut claims = String::new();
    std::io::BufRead::read_line(&mut lines, &mut claims).unwrap();
    assert!(signer.wait().unwrap().success());
    let scope = "https://www.googleapis.com/auth/cloud-platform";
    assert_eq!(claims.trim(), format!("RS256 k1 train@p.iam train@p.iam {scope}"));
}
