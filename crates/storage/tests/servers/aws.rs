//! Credentials of Amazon: each source, and servers that are slow, missing or wrong.

use super::cloud::{Answer, Cloud, Request, ok, time_in};
use oxidax_storage::{Error, Storage, StorageSettings};
use std::fs;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn storage(retries: usize, variables: &[(&str, &str)]) -> Storage {
    let settings = StorageSettings::from_variables(variables.iter().copied());
    Storage::new(settings.with_max_retries(retries))
}

/// Returns the identity with which the object is read.
fn read(storage: &Storage) -> Result<String, Error> {
    Ok(String::from_utf8(storage.at("s3://numbers/a")?.read()?).unwrap())
}

fn refused(storage: &Storage, expected: &str) {
    let error = read(storage).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    let error = error.to_string();
    assert!(error.contains("no credentials were found: "), "{error}");
    assert!(error.contains(expected), "{error}\nexpected: {expected}");
    assert!(error.contains("\n  help: set AWS_ACCESS_KEY_ID"), "{error}");
}

fn keys(key: &str, seconds: i64) -> String {
    format!(
        r#"{{"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": "{key}",
            "SecretAccessKey": "s", "Token": "t", "Expiration": "{}"}}"#,
        time_in(seconds)
    )
}

const ROLES: &str = "/latest/meta-data/iam/security-credentials/";

/// An instance whose role has these keys.
fn instance(mut keys: impl FnMut() -> Answer + Send + 'static) -> Cloud {
    Cloud::start(move |request: &Request| match (request.method.as_str(), request.path.as_str()) {
        ("PUT", "/latest/api/token") => {
            assert_eq!(request.header("x-aws-ec2-metadata-token-ttl-seconds"), "21600");
            ok("session")
        }
        ("GET", path) if request.header("x-aws-ec2-metadata-token") != "session" => {
            Answer::Text(401, format!("{path} needs a session"))
        }
        ("GET", ROLES) => ok("trainer"),
        ("GET", path) if path == format!("{ROLES}trainer") => keys(),
        _ => Answer::Text(404, "missing".into()),
    })
}

fn of_instance(cloud: &Cloud, retries: usize) -> Storage {
    let address = cloud.address();
    storage(
        retries,
        &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &address), ("AWS_ENDPOINT_URL_S3", &address)],
    )
}

#[test]
fn instances_give_keys_that_are_kept_until_shortly_before_their_end() {
    let cloud = instance(|| ok(keys("LONG", 3600)));
    let storage = of_instance(&cloud, 0);
    for _ in 0..3 {
        assert_eq!(read(&storage).unwrap(), "LONG t");
    }
    assert_eq!(cloud.count("PUT /latest/api/token"), 1);
    assert_eq!(cloud.count(&format!("GET {ROLES}trainer")), 1);
}

#[test]
fn keys_near_their_end_are_replaced_and_used_if_the_server_fails() {
    let count = Arc::new(AtomicUsize::new(0));
    let served = count.clone();
    let cloud = instance(move || match served.fetch_add(1, Ordering::SeqCst) {
        at @ 0..2 => ok(keys(&format!("KEY{at}"), 60 + at as i64)),
        _ => Answer::Text(500, "broken".into()),
    });
    let storage = of_instance(&cloud, 0);
    // Reading asks for the size first, with the keys that end in a minute.
    assert_eq!(read(&storage).unwrap(), "KEY1 t");
    for _ in 0..3 {
        assert_eq!(read(&storage).unwrap(), "KEY1 t");
    }
    assert_eq!(count.load(Ordering::SeqCst), 3, "a server that fails is not asked at once again");
}

#[test]
fn instances_that_are_slow_missing_or_wrong_are_errors() {
    refused(&of_instance(&instance(|| ok(keys("OLD", -1))), 0), "the credentials have expired");
    refused(
        &of_instance(&instance(|| ok("<html>")), 0),
        "security-credentials/trainer sent no JSON",
    );
    let failed = r#"{"Code": "AssumeRoleUnauthorizedAccess", "Message": "no trust"}"#;
    let expected = "the role trainer: AssumeRoleUnauthorizedAccess no trust";
    refused(&of_instance(&instance(move || ok(failed)), 0), expected);
    let partial = r#"{"Code": "Success", "AccessKeyId": "A"}"#;
    let expected = "the field `SecretAccessKey` is missing";
    refused(&of_instance(&instance(move || ok(partial)), 0), expected);
    let when = r#"{"AccessKeyId": "A", "SecretAccessKey": "s", "Expiration": "soon"}"#;
    refused(&of_instance(&instance(move || ok(when)), 0), "`soon`, which is no time");
    let long = "x".repeat(3 << 20);
    let expected = "the answer is longer than 1048576 bytes";
    refused(&of_instance(&instance(move || ok(long.clone())), 0), expected);

    let no_role = Cloud::start(|request| match request.method.as_str() {
        "PUT" => ok("session"),
        _ => Answer::Text(404, String::new()),
    });
    refused(&of_instance(&no_role, 0), "the instance has no role");
    // Version 1 is used only if it is allowed.
    let old = Cloud::start(|request| match request.path.as_str() {
        ROLES => ok("old"),
        path if path.starts_with(ROLES) => ok(keys("VERSION1", 3600)),
        _ => Answer::Text(403, "no sessions".into()),
    });
    refused(&of_instance(&old, 0), "answered 403: no sessions");
    let address = old.address();
    let variables = [
        ("AWS_METADATA_ENDPOINT", address.as_str()),
        ("AWS_ENDPOINT_URL", &address),
        ("AWS_IMDSV1_FALLBACK", "true"),
    ];
    assert_eq!(read(&storage(0, &variables)).unwrap(), "VERSION1 t");

    let silent = Cloud::start(|_| Answer::Silence);
    let address = silent.address();
    let variables = [
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", address.as_str()),
        ("AWS_METADATA_SERVICE_TIMEOUT", "0.2"),
        ("AWS_METADATA_SERVICE_NUM_ATTEMPTS", "2"),
    ];
    refused(&storage(9, &variables), "/latest/api/token: ");
    assert_eq!(silent.count("PUT /latest/api/token"), 2);
}

#[test]
fn a_request_for_keys_is_repeated() {
    let mut failures = 2;
    let cloud = instance(move || {
        failures -= 1;
        if failures < 0 { ok(keys("LATE", 3600)) } else { Answer::Text(503, "busy".into()) }
    });
    assert_eq!(read(&of_instance(&cloud, 3)).unwrap(), "LATE t");
    assert_eq!(cloud.count(&format!("GET {ROLES}trainer")), 3);
}

#[test]
fn containers_give_keys_for_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "first\n").unwrap();
    let replaced = file.clone();
    let cloud = Cloud::start(move |request| match request.header("authorization") {
        // Near its end at once, so that the next request needs another one.
        "first" => {
            fs::write(&replaced, "second\n").unwrap();
            ok(keys("FIRST", 30))
        }
        "second" => ok(keys("OTHER", 3600)),
        _ => Answer::Text(400, r#"{"code": "TokenRequired"}"#.into()),
    });
    let (address, full) = (cloud.address(), format!("{}/v1/credentials", cloud.address()));
    let of_file = storage(
        0,
        &[
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &full),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file.to_str().unwrap()),
            ("AWS_ENDPOINT_URL", &address),
        ],
    );
    // The first key asks for the size of the object, and the second one reads it.
    assert_eq!(read(&of_file).unwrap(), "OTHER t");
    assert_eq!(cloud.count("GET /v1/credentials"), 2);
    let fresh = storage(
        0,
        &[
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &full),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "second"),
            ("AWS_ENDPOINT_URL", &address),
        ],
    );
    assert_eq!(read(&fresh).unwrap(), "OTHER t");
    let without = storage(0, &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &full)]);
    refused(&without, "answered 400: {\"code\": \"TokenRequired\"}");
    fs::remove_file(&file).unwrap();
    let lost = storage(
        0,
        &[
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &full),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file.to_str().unwrap()),
        ],
    );
    refused(&lost, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: cannot read ");
    let foreign = "http://example.com/keys";
    let foreign = storage(0, &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", foreign)]);
    refused(&foreign, "is neither https nor an address of this host");
}

fn assumed(key: &str, action: &str) -> Answer {
    ok(format!(
        "<{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{action}Result>\
         <Credentials><AccessKeyId>{key}</AccessKeyId><SecretAccessKey>s</SecretAccessKey>\
         <SessionToken>t</SessionToken><Expiration>{}</Expiration></Credentials>\
         </{action}Result></{action}Response>",
        time_in(3600)
    ))
}

#[test]
fn web_identities_assume_roles() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "e.y/J\n").unwrap();
    let cloud = Cloud::start(|request| {
        let has = |field: &str| request.body.split('&').any(|other| other == field);
        assert!(has("Action=AssumeRoleWithWebIdentity") && has("WebIdentityToken=e.y%2FJ"));
        assert_eq!(request.header("authorization"), "");
        if has("RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Ftrain") && has("RoleSessionName=me") {
            return assumed("WEBROLE", "AssumeRoleWithWebIdentity");
        }
        let error = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>Not authorized\
                     </Message></Error></ErrorResponse>";
        Answer::Text(403, error.into())
    });
    let address = cloud.address();
    let of_role = |role: &str| {
        let variables = [
            ("AWS_WEB_IDENTITY_TOKEN_FILE", file.to_str().unwrap()),
            ("AWS_ROLE_ARN", role),
            ("AWS_ROLE_SESSION_NAME", "me"),
            ("AWS_ENDPOINT_URL", &address),
        ];
        storage(0, &variables)
    };
    let storage = of_role("arn:aws:iam::1:role/train");
    assert_eq!(read(&storage).unwrap(), "WEBROLE t");
    assert_eq!(read(&storage).unwrap(), "WEBROLE t");
    assert_eq!(cloud.count("POST"), 1);
    refused(&of_role("other"), "refused the role other: AccessDenied: Not authorized");
    fs::remove_file(&file).unwrap();
    refused(&of_role("arn:aws:iam::1:role/train"), "cannot read the web identity ");
}

#[test]
fn profiles_assume_roles_with_other_profiles() {
    let cloud = Cloud::start(|request| {
        let authorization = request.header("authorization");
        assert!(authorization.contains("/eu-west-1/sts/aws4_request"), "{authorization}");
        let has = |field: &str| request.body.split('&').any(|other| other == field);
        let from = |key: &str| authorization.contains(&format!("Credential={key}/"));
        if from("BASE") && has("ExternalId=42") && has("DurationSeconds=900") {
            return assumed("MIDDLE", "AssumeRole");
        }
        assert!(from("MIDDLE") && request.header("x-amz-security-token") == "t");
        assumed("OUTER", "AssumeRole")
    });
    let home = tempfile::tempdir().unwrap();
    let aws = home.path().join(".aws");
    fs::create_dir(&aws).unwrap();
    let config = format!(
        "[default]\nregion = eu-west-1\n[profile base]\naws_access_key_id = BASE\n\
         aws_secret_access_key = s\n[profile middle]\nrole_arn = arn:middle\nexternal_id = 42\n\
         duration_seconds = 900\nsource_profile = base\nservices = local\n[profile outer]\n\
         role_arn = arn:outer\nsource_profile = middle\nservices = local\nregion = eu-west-1\n\
         [profile a]\nrole_arn = a\nsource_profile = b\n\
         [profile b]\nrole_arn = b\nsource_profile = a\n[services local]\n\
         sts =\n  endpoint_url = {0}\ns3 =\n  endpoint_url = {0}\n[profile mfa]\nrole_arn = x\n\
         source_profile = base\nmfa_serial = y\n[profile lost]\nrole_arn = x\n\
         source_profile = nobody\n[profile empty]\nrole_arn = x\nsource_profile = default\n",
        cloud.address()
    );
    fs::write(aws.join("config"), config).unwrap();
    let home = home.path().to_str().unwrap();
    let of = |profile: &str| {
        storage(0, &[("HOME", home), ("AWS_PROFILE", profile), ("AWS_REGION", "eu-west-1")])
    };
    assert_eq!(read(&of("outer")).unwrap(), "OUTER t");
    assert_eq!(read(&of("middle")).unwrap(), "MIDDLE t");
    refused(&of("a"), "profiles are sources of each other: a → b → a");
    refused(&of("empty"), "the profile `default`, source of `empty`, has no credentials");
    for (profile, expected) in [
        ("mfa", "the profile `mfa` has `mfa_serial`, which is not supported"),
        ("lost", "the profile `nobody` is neither in /"),
    ] {
        let error = read(&of(profile)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn the_first_source_that_is_configured_is_used() {
    let cloud = Cloud::start(|_| ok(keys("AGENT", 3600)));
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("credentials");
    fs::write(&file, "[default]\naws_access_key_id = FILE\naws_secret_access_key = s\n").unwrap();
    let address = cloud.address();
    let agent = [("AWS_CONTAINER_CREDENTIALS_FULL_URI", &*address), ("AWS_ENDPOINT_URL", &address)];
    let file = ("AWS_SHARED_CREDENTIALS_FILE", file.to_str().unwrap());
    let key = [("AWS_ACCESS_KEY_ID", "KEY"), ("AWS_SECRET_ACCESS_KEY", "s")];
    let of = |variables: &[&[(&str, &str)]]| storage(0, &variables.concat());
    assert_eq!(read(&of(&[&agent, &[file], &key])).unwrap(), "KEY ");
    assert_eq!(read(&of(&[&agent, &[file]])).unwrap(), "FILE ");
    assert_eq!(read(&of(&[&agent])).unwrap(), "AGENT t");
    refused(
        &of(&[&agent, &key[..1]]),
        "AWS_ACCESS_KEY_ID is set, and AWS_SECRET_ACCESS_KEY is not",
    );
    assert_eq!(read(&of(&[&agent, &[("AWS_SKIP_SIGNATURE", "true")]])).unwrap(), "anonymous");
}
