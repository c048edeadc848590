//! Artifacts that are parsed from text and written.
#![allow(clippy::unwrap_used, reason = "in a test, unwrapping is the assertion")]

use oxidax_vhlo::{PortableArtifact, VhloVersion};
use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

/// Returns the recorded texts: those of StableHLO's own reader, which `python-compat` compares.
fn texts() -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|found| found == "mlir"));
    let mut texts: Vec<_> = paths
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    texts.sort();
    texts
}

/// Numbers the values of a text in the order in which it has them.
fn numbered(text: &str) -> String {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let next = numbers.len();
        let number = *numbers.entry(&part[..end]).or_insert(next);
        out += &format!("%{number}{}", &part[end..]);
    }
    out
}

/// Returns the parts of each line in order.
fn sorted_parts(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().map(|line| {
        let mut parts: Vec<&str> = line.split([' ', ',', '{', '}']).collect();
        parts.sort_unstable();
        parts
    });
    lines.collect()
}

#[test]
fn written_artifacts_are_those_of_the_text() {
    let texts = texts();
    assert_eq!(texts.len(), 23 + 56);
    for (name, text) in texts {
        let artifact = PortableArtifact::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        let expected = numbered(&artifact.to_text().unwrap());
        match name.contains("0.4.31") {
            // These files have no properties: an operation's attributes are in another order.
            true => assert_eq!(sorted_parts(&expected), sorted_parts(&numbered(&text)), "{name}"),
            false => assert_eq!(expected, numbered(&text), "{name}"),
        }
        let bytes = artifact.to_bytes().unwrap_or_else(|error| panic!("{name}: {error}"));
        let copy = PortableArtifact::read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(copy.producer(), artifact.producer());
        assert_eq!(numbered(&copy.to_text().unwrap()), expected, "{name}");
        let latest = PortableArtifact::parse_for(&text, VhloVersion::LATEST).unwrap();
        let latest = PortableArtifact::read(&latest.to_bytes().unwrap()).unwrap();
        assert_eq!(numbered(&latest.to_text().unwrap()), expected, "{name}");
    }
}

/// Writes the artifacts to `target/tmp/written-artifacts`, for
/// `python-compat/portable_artifacts.py`, which compares them with StableHLO's own reader.
#[test]
#[ignore = "writes files for a script"]
fn write_artifacts() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("written-artifacts");
    fs::create_dir_all(&folder).unwrap();
    for (name, text) in texts() {
        let artifact = PortableArtifact::parse(&text).unwrap();
        fs::write(folder.join(format!("{name}.bc")), artifact.to_bytes().unwrap()).unwrap();
    }
}

#[test]
fn a_version_without_a_part_is_refused() {
    let text = |body: &str| format!("module {{\n  {body}\n}}\n");
    let fixed = |body: &str, version| PortableArtifact::parse_for(&text(body), version);
    let exponential = r#"func.func @f(%0: tensor<f32>) {
  %1 = "stablehlo.exponential"(%0) : (tensor<f32>) -> tensor<f32>
  "func.return"() : () -> ()
}"#;
    for (minor, name) in [(8, "exponential_v1"), (9, "exponential_v2")] {
        let bytes = fixed(exponential, VhloVersion::new(1, minor, 0)).unwrap().to_bytes().unwrap();
        assert!(bytes.windows(name.len()).any(|window| window == name.as_bytes()), "1.{minor}");
    }
    let f4 = "func.func private @f(tensor<2xf4E2M1FN>)";
    let error = fixed(f4, VhloVersion::new(1, 7, 0)).unwrap_err();
    assert_eq!(error.message, "the type `f4E2M1FN` needs StableHLO 1.8.0, and 1.7.0 is written");
    let error = fixed(f4, VhloVersion::new(0, 9, 0)).unwrap_err();
    assert_eq!(error.message, "StableHLO 0.9.0 cannot be written: versions 1.4.0 to 1.17.0 can be");
    assert_eq!(PortableArtifact::parse(&text(f4)).unwrap().producer(), "StableHLO_v1.8.0");
}

#[test]
fn errors_name_the_line() {
    let text = |line: &str| {
        format!(
            "module {{\n  func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {{\n    {line}\n    \
             \"func.return\"(%a) : (tensor<4xf32>) -> ()\n  }}\n}}\n"
        )
    };
    let cases = [
        (r#""stablehlo.add"(%b) : () -> ()"#, "there is no value `%b`"),
        (
            r#""stablehlo.add"(%a) : (tensor<f32>) -> tensor<f32>"#,
            "the types of the operands of `stablehlo.add` are others",
        ),
        (
            r#"%1:2 = "stablehlo.add"(%a) : (tensor<4xf32>) -> tensor<4xf32>"#,
            "`stablehlo.add` has 1 results, and other names",
        ),
        (r#""stablehlo.iota"() : () -> tensor<4xf32>"#, "`stablehlo.iota` needs `iota_dimension`"),
        (
            r#""stablehlo.frobnicate"() : () -> ()"#,
            "`stablehlo.frobnicate` is not an operation that is written",
        ),
        (
            r#""stablehlo.constant"() {value = dense<[1, 2]> : tensor<3xi32>} : () -> ()"#,
            "2 elements for an array of 3",
        ),
        (
            r#""stablehlo.constant"() {value = dense<300> : tensor<3xui8>} : () -> ()"#,
            "`300` is not an element of `ui8`",
        ),
        (
            r#""stablehlo.constant"() {value = dense<"0x00"> : tensor<3xi32>} : () -> ()"#,
            "1 bytes for 3 elements of 4 bytes",
        ),
        (r#""stablehlo.abs"(%a) : (tensor<4xf33>) -> ()"#, "`f33` is not a type"),
    ];
    for (line, message) in cases {
        let error = PortableArtifact::parse(&text(line)).unwrap_err();
        assert_eq!((error.line, &error.message[..]), (3, message), "{line}");
    }
}

/// A stream of pseudorandom numbers: xorshift.
fn next(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    usize::try_from(*state >> 8).unwrap()
}

#[test]
fn damaged_texts_are_errors_or_other_modules() {
    let texts: Vec<_> = texts().into_iter().filter(|(_, text)| text.len() < 6_000).collect();
    assert!(texts.len() > 20);
    let (mut refused, mut accepted, mut state) = (0, 0, 0x9e37_79b9_7f4a_7c15);
    for _ in 0..4_000 {
        let (_, text) = &texts[next(&mut state) % texts.len()];
        let mut bytes = text.clone().into_bytes();
        for _ in 0..1 + next(&mut state) % 3 {
            let at = next(&mut state) % bytes.len();
            match next(&mut state) % 4 {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = b"<>{}()[]\"%#@:,=-019x "[next(&mut state) % 21],
                2 => drop(bytes.drain(at..(at + next(&mut state) % 40).min(bytes.len()))),
                _ => bytes[at] = next(&mut state).to_le_bytes()[0],
            }
            bytes.push(b' ');
        }
        let text = String::from_utf8_lossy(&bytes);
        match PortableArtifact::parse(&text) {
            Ok(artifact) => {
                // Types that MLIR does not encode are the only reason.
                if let Ok(bytes) = artifact.to_bytes() {
                    PortableArtifact::read(&bytes).unwrap_or_else(|e| panic!("{e}\n{text}"));
                }
                accepted += 1;
            }
            Err(error) => {
                assert!(error.line <= text.lines().count() + 1, "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 1_000 && accepted > 100, "{refused} refused, {accepted} accepted");
}

#[test]
fn one_element_stands_for_none() {
    let constant = |value: &str| {
        let text = format!(
            "module {{\n  func.func @\"f\"() -> (tensor<0x3xf32>) {{\n    \
             %0 = \"stablehlo.constant\"() {{value = dense<{value}> : tensor<0x3xf32>}} : () -> (tensor<0x3xf32>)\n    \
             \"func.return\"(%0) : (tensor<0x3xf32>) -> ()\n  }}\n}}\n"
        );
        PortableArtifact::parse(&text).unwrap().to_bytes().unwrap()
    };
    assert_eq!(constant("0x3F800000"), constant(""));
}

#[test]
fn deep_and_huge_texts_are_refused() {
    let value = |text: String| format!("module attributes {{a = {text}}} {{}}");
    let deep = |open: &str| value(open.repeat(100_000));
    let texts = [
        deep("["),
        deep("{a = "),
        deep("tuple<"),
        deep("("),
        value(format!("dense<{}> : tensor<1xi32>", "[".repeat(100_000))),
        value("dense<1> : tensor<99999999999999999999xi32>".to_owned()),
        "module { func.func @f() { %0:9999999999999 = \"stablehlo.add\"() : () -> () } }"
            .to_owned(),
    ];
    for text in texts {
        PortableArtifact::parse(&text).unwrap_err();
    }
    let regions = "\"stablehlo.case\"() ({ ".repeat(100_000);
    PortableArtifact::parse(&format!("module {{ func.func @f() {{ {regions}")).unwrap_err();
}

#[test]
fn operations_of_chlo_have_builtin_types() {
    let text = r#"module @"f" {
  func.func public @"main"(%0: tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>) {
    %1 = "chlo.erf"(%0) : (tensor<4xf32>) -> (tensor<4xf32>)
    %2, %3 = "chlo.top_k"(%1) {k = 2 : i64} : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
    "func.return"(%2, %3) : (tensor<2xf32>, tensor<2xi32>) -> ()
  }
}
"#;
    let artifact = PortableArtifact::parse(text).unwrap();
    assert_eq!(artifact.producer(), "StableHLO_v1.11.0");
    let bytes = artifact.to_bytes().unwrap();
    let copy = PortableArtifact::read(&bytes).unwrap();
    assert_eq!(numbered(&copy.to_text().unwrap()), numbered(text));
}
