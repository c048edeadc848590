//! Files written by NumPy, TensorFlow and safetensors (`python-compat/data_files.py`), and small
//! ones written here.

use crate::data::support::{examples, gzipped, messages, tfrecord_bytes};
use expect_test::expect;
use oxidax::DType;
use oxidax::data::{
    self, CsvOptions, File, HostArray, ImageFolder, Npy, Rows, Source, Stream, TfExample,
    TfFeature, TfRecords, TokenWidth, Tokens,
};
use serde::Deserialize;
use std::path::PathBuf;

fn file(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cpu/data/files")).join(name)
}

fn memory(name: &str, bytes: &[u8]) -> File {
    File::in_memory(name, bytes)
}

/// Returns an error's text without the folder of the test files.
fn short(error: oxidax::Error) -> String {
    error.to_string().replace(&file("").display().to_string(), "")
}

#[test]
fn npy_files_of_numpy() {
    let read = |name: &str| data::npy(file(name)).unwrap();
    let array = read("f32.npy");
    assert_eq!(array.aval().to_string(), "f32[3,4]");
    assert_eq!(array.to_vec::<f32>().unwrap(), (0..12).map(|n| n as f32).collect::<Vec<_>>());
    let array = read("fortran.npy");
    assert_eq!(array.aval().to_string(), "i32[2,3,4]");
    assert_eq!(array.to_vec::<i32>().unwrap(), (0..24).collect::<Vec<_>>());
    assert_eq!(read("big_endian.npy").to_vec::<i64>().unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!(read("big_complex.npy").to_string(), "[0.+0.j 1.+2.j]");
    assert_eq!(read("version2.npy").to_vec::<u16>().unwrap(), [0, 1, 2, 3]);
    assert_eq!(read("version3.npy").to_vec::<f64>().unwrap(), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(read("scalar.npy").item::<half::f16>().unwrap().to_f32(), 1.5);
    assert_eq!(read("bool.npy").to_vec::<bool>().unwrap(), [true, false, true]);
    assert_eq!(read("empty.npy").aval().to_string(), "f32[0,3]");
    let error = short(data::npy(file("text.npy")).unwrap_err());
    expect!["error[io]: text.npy: at byte 10: arrays cannot have the dtype `<U2`; store text in a JSONL file"]
        .assert_eq(&error);
}

#[test]
fn rows_of_npy_files_are_read_at_random() {
    for (name, rows) in
        [("f32.npy", 3), ("big_endian.npy", 5), ("version3.npy", 2), ("empty.npy", 0)]
    {
        let whole = data::npy(file(name)).unwrap();
        let source = Npy::open(file(name)).unwrap();
        assert_eq!(source.len(), rows);
        if rows > 0 {
            let stacked: Vec<HostArray> =
                source.stream().batch(rows).collect::<Result<_, _>>().unwrap();
            assert_eq!(stacked, [whole]);
        }
    }
    let error = short(Npy::open(file("scalar.npy")).unwrap_err());
    assert_eq!(error, "error[io]: scalar.npy: at byte 128: an array without axes has no rows");
    let error = short(Npy::open(file("fortran.npy")).unwrap_err());
    assert!(error.contains("stored in Fortran order"), "{error}");
}

#[test]
fn damaged_npy_files_are_refused_with_the_byte() {
    let good = std::fs::read(file("f32.npy")).unwrap();
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        let whole = data::npy(memory("x.npy", &bytes)).unwrap_err().to_string();
        let by_rows = Npy::open(memory("x.npy", &bytes)).unwrap_err().to_string();
        assert_eq!(whole, by_rows);
        whole
    };
    let errors = [
        refused(&|bytes| bytes[0] = b'P'),
        refused(&|bytes| bytes[6] = 4),
        refused(&|bytes| bytes.truncate(20)),
        refused(&|bytes| bytes.truncate(150)),
        refused(&|bytes| bytes.push(0)),
        refused(&|bytes| bytes[15] = 0xff),
        refused(&|bytes| {
            let at = bytes.windows(4).position(|text| text == b"(3, ").unwrap();
            bytes[at + 1] = b'9';
        }),
    ];
    expect![[r#"
        error[io]: x.npy: at byte 0: an npy file begins with \x93NUMPY, this one with [50, 4e, 55, 4d, 50, 59]
        error[io]: x.npy: at byte 6: unknown version 4 of the format; supported are 1 to 3
        error[io]: x.npy: at byte 20: the header should reach byte 128
        error[io]: x.npy: at byte 150: 22 bytes of elements, the header says 48 for f32[3, 4]
        error[io]: x.npy: at byte 177: 49 bytes of elements, the header says 48 for f32[3, 4]
        error[io]: x.npy: at byte 15: the header is not UTF-8
        error[io]: x.npy: at byte 176: 48 bytes of elements, the header says 144 for f32[9, 4]"#]]
    .assert_eq(&errors.join("\n"));
}

#[test]
fn archives_and_safetensors_are_read_by_name() {
    let records = [
        data::npz(file("stored.npz")).unwrap(),
        data::npz(file("deflated.npz")).unwrap(),
        data::safetensors(file("two.safetensors")).unwrap(),
    ];
    for record in records {
        assert_eq!(record.fields().keys().collect::<Vec<_>>(), ["x", "y"]);
        let x = record.get("x").unwrap();
        assert_eq!(x.aval().to_string(), "f32[2,3]");
        assert_eq!(x.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let rows = Rows::new(record).unwrap();
        assert_eq!(rows.get(1).unwrap().get("y").unwrap().item::<i64>().unwrap(), 1);
    }
    let error = data::npz(memory("x.npz", b"nothing like it")).unwrap_err().to_string();
    assert!(error.starts_with("error[io]: x.npz: not an npz file: "), "{error}");
    let error = data::safetensors(memory("x", &[0xff; 16])).unwrap_err().to_string();
    assert!(
        error.starts_with("error[io]: x: at byte 0: the header declares 18446744073709551615"),
        "{error}"
    );
    let bytes = std::fs::read(file("two.safetensors")).unwrap();
    let of_two = |a: [u8; 2], b: [u8; 2]| {
        let array =
            |at: [u8; 2]| serde_json::json!({"dtype": "U8", "shape": [2], "data_offsets": at});
        let header = serde_json::json!({"a": array(a), "b": array(b)}).to_string();
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 3]].concat()
    };
    let refused = |bytes: &[u8]| data::safetensors(memory("x", bytes)).unwrap_err().to_string();
    let errors = [
        refused(&bytes[..bytes.len() - 1]),
        refused(&[&bytes[..], &[0]].concat()),
        refused(&String::from_utf8_lossy(&bytes).replace("[2,3]", "[3,3]").into_bytes()),
        refused(&of_two([0, 2], [1, 3])),
        refused(&of_two([0, 2], [3, 5])),
        refused(&of_two([2, 0], [0, 2])),
    ];
    expect![[r#"
        error[io]: x: the file ends at byte 159: array `x` should take 24 bytes from byte 136
        error[io]: x: 41 bytes of elements, the header says 40
        error[io]: x: at byte 8: the header: invalid shape, data type, or offset for tensor
        error[io]: x: at byte 8: the header: invalid offset for tensor `b`
        error[io]: x: at byte 8: the header: invalid offset for tensor `b`
        error[io]: x: at byte 8: the header: invalid offset for tensor `a`"#]]
    .assert_eq(&errors.join("\n"));
}

#[test]
fn examples_of_tensorflow() {
    for name in ["examples.tfrecord", "examples.tfrecord.gz"] {
        let parsed = data::tfrecord(file(name)).map(|bytes| TfExample::parse(&bytes));
        let parsed: Vec<TfExample> = parsed.collect::<Result<_, _>>().unwrap();
        assert_eq!(parsed.len(), 3);
        let third = &parsed[2];
        let raw = third.array("raw", DType::U16, [2, 2]).unwrap();
        assert_eq!(raw.to_vec::<u16>().unwrap(), [0, 1, 2, 3]);
        assert_eq!(*third.feature("floats").unwrap(), TfFeature::Float(vec![0.5, 2.0]));
        assert_eq!(*third.feature("ints").unwrap(), TfFeature::Int64(vec![2, -1]));
        let words = TfFeature::Bytes(vec![b"a".to_vec(), b"bc".to_vec()]);
        assert_eq!(*third.feature("words").unwrap(), words);
        assert_eq!(third.features().len(), 4);
    }
    let source = TfRecords::open(file("examples.tfrecord")).unwrap();
    let by_index: Vec<Vec<u8>> = source.stream().collect::<Result<_, _>>().unwrap();
    let in_order: Vec<Vec<u8>> =
        data::tfrecord(file("examples.tfrecord")).collect::<Result<_, _>>().unwrap();
    assert_eq!(by_index, in_order);
    let error = short(TfRecords::open(file("examples.tfrecord.gz")).unwrap_err());
    assert!(error.starts_with("error[io]: examples.tfrecord.gz: the file is gzipped"), "{error}");
}

#[test]
fn written_records_equal_tensorflows() {
    // Protocol buffer and file equal those of TensorFlow byte for byte.
    let bytes: Vec<u8> = (0u16..4).flat_map(u16::to_le_bytes).collect();
    let example = |number: i64| {
        TfExample::from([
            ("raw", TfFeature::Bytes(vec![bytes.clone()])),
            ("words", TfFeature::Bytes(vec![b"a".to_vec(), b"bc".to_vec()])),
            ("floats", TfFeature::Float(vec![0.5, number as f32])),
            ("ints", TfFeature::Int64(vec![number, -1])),
        ])
    };
    let records: Vec<Vec<u8>> = (0..3).map(|number| example(number).encode()).collect();
    assert_eq!(tfrecord_bytes(&records), std::fs::read(file("examples.tfrecord")).unwrap());
}

#[test]
fn length_that_looks_like_gzip_is_not_decompressed() {
    // 0x088b1f bytes: the file begins like a gzip file.
    let records = [vec![7; 0x08_8b1f], vec![1]];
    let bytes = tfrecord_bytes(&records);
    assert_eq!(bytes[..3], [0x1f, 0x8b, 0x08]);
    let read: Vec<Vec<u8>> = data::tfrecord(memory("x", &bytes)).collect::<Result<_, _>>().unwrap();
    assert_eq!(read, records);
    assert_eq!(TfRecords::open(memory("x", &bytes)).unwrap().len(), 2);
}

#[derive(Deserialize, Debug, PartialEq)]
struct Person {
    name: String,
    age: u8,
    height: Option<f32>,
}

#[test]
fn rows_of_separated_values() {
    let text = "age,name,height\n7,\"A, B\",1.25\r\n8,\"two\nlines \"\"quoted\"\"\",\n";
    for bytes in [text.as_bytes().to_vec(), gzipped(text.as_bytes())] {
        let people: Vec<Person> =
            data::csv(memory("x.csv", &bytes)).collect::<Result<_, _>>().unwrap();
        let person = |name: &str, age, height| Person { name: name.into(), age, height };
        let expected = [person("A, B", 7, Some(1.25)), person("two\nlines \"quoted\"", 8, None)];
        assert_eq!(people, expected);
    }
    assert!(messages(&mut data::csv::<Person>(memory("x", b""))).is_empty());
}

#[test]
fn bad_rows_are_named_and_reading_continues() {
    let text = b"age,name,height\n7,a,1\n300,b,2\n1,c\n2,d,\xff\n3,e,4\n";
    let people: Stream<Person> = data::csv(memory("x.csv", text));
    let found = messages(&mut { people });
    expect![[r#"
        Person { name: "a", age: 7, height: Some(1.0) }
        error[io]: x.csv: at byte 22: column `age` is `300`: number too large to fit in target type
        error[io]: x.csv: at byte 30: the row has 2 fields, the header 3
        error[io]: x.csv: at byte 34: column `height` is `�`: invalid utf-8 sequence of 1 bytes from index 0
        Person { name: "e", age: 3, height: Some(4.0) }"#]]
    .assert_eq(&found.join("\n"));
    let options = CsvOptions { header: false, delimiter: b';' };
    let mut numbers: Stream<(i32, i32)> = data::csv_with(memory("x", b"1;2\n3;x\n"), options);
    expect![[r#"
        (1, 2)
        error[io]: x: at byte 4: column 1 is `x`: invalid digit found in string"#]]
    .assert_eq(&messages(&mut numbers).join("\n"));
}

#[test]
fn csv_reading_resumes_inside_a_file() {
    let mut text = String::from("n,text\n");
    (0..50).for_each(|n| text.push_str(&format!("{n},\"line\n{n}\"\n")));
    for bytes in [text.as_bytes().to_vec(), gzipped(text.as_bytes())] {
        let build = || data::csv::<(u32, String)>(memory("x.csv", &bytes));
        let whole = messages(&mut build());
        for stop in [0, 1, 23, 50] {
            let mut stream = build();
            let head: Vec<String> =
                stream.by_ref().take(stop).map(|row| format!("{:?}", row.unwrap())).collect();
            let mut tail = build().resume(&stream.position()).unwrap();
            assert_eq!([head, messages(&mut tail)].concat(), whole);
        }
    }
}

#[test]
fn lines_of_json() {
    let text = b"{\"age\": 1, \"name\": \"a\"}\n\n  \n{\"age\": \"x\"}\n[\n\
                 {\"age\": 2, \"name\": \"b\", \"height\": 1.5}";
    let expected = expect![[r#"
        Person { name: "a", age: 1, height: None }
        error[io]: x.jsonl: at byte 38: invalid type: string "x", expected u8
        error[io]: x.jsonl: at byte 41: EOF while parsing a list
        Person { name: "b", age: 2, height: Some(1.5) }"#]];
    for bytes in [text.to_vec(), gzipped(text)] {
        let mut people: Stream<Person> = data::jsonl(memory("x.jsonl", &bytes));
        expected.assert_eq(&messages(&mut people).join("\n"));
    }
}

#[test]
fn windows_of_tokens() {
    let bytes: Vec<u8> = (0u32..10).flat_map(u32::to_le_bytes).collect();
    let open = |bytes: &[u8], length| Tokens::open(memory("t.bin", bytes), TokenWidth::U32, length);
    let lens = [1, 2, 3, 9, 10].map(|length| open(&bytes, length).unwrap().len());
    assert_eq!(lens, [9, 4, 3, 1, 0]);
    let crops = open(&bytes, 3).unwrap().stride(1);
    assert_eq!(crops.len(), 7);
    assert_eq!(crops.get(6).unwrap().1.to_vec::<i32>().unwrap(), [7, 8, 9]);
    let error = open(&bytes[1..], 3).unwrap_err().to_string();
    assert_eq!(
        error,
        "error[io]: t.bin: at byte 39: 39 bytes are not a multiple of 4, the size of a token"
    );
    let mut large = bytes.clone();
    large[19] = 0xff;
    let error = open(&large, 3).unwrap().get(1).unwrap_err().to_string();
    expect!["error[io]: t.bin: at byte 16: token 4278190084 exceeds 2147483647; is it a u16 file?"]
        .assert_eq(&error);
}

#[test]
fn folders_of_images() {
    let folder = tempfile::tempdir().unwrap();
    for (class, from, name) in [
        ("wide", "halves.png", "b.PNG"),
        ("wide", "halves.jpg", "a.jpeg"),
        ("flat", "grey.png", "c.png"),
    ] {
        let class = folder.path().join(class);
        std::fs::create_dir_all(&class).unwrap();
        std::fs::copy(file(from), class.join(name)).unwrap();
        std::fs::write(class.join("notes.txt"), "no image").unwrap();
    }
    let images = ImageFolder::open(folder.path()).unwrap();
    assert_eq!((images.classes(), images.len()), (&["flat".to_owned(), "wide".to_owned()][..], 3));
    let decoded = images
        .stream()
        .parallel_map(2, |file| Ok((data::decode_image(&file.bytes, 8, 16)?, file.label()?)));
    let decoded: Vec<(HostArray, HostArray)> = decoded.collect::<Result<_, _>>().unwrap();
    let labels: Vec<i32> = decoded.iter().map(|(_, label)| label.item().unwrap()).collect();
    assert_eq!(labels, [0, 1, 1]);
    assert_eq!(decoded[0].0.to_vec::<u8>().unwrap(), vec![7; 8 * 16 * 3]);
    let pixel = |image: &HostArray, row: usize, column: usize| {
        image.to_vec::<u8>().unwrap()[(row * 16 + column) * 3..][..3].to_vec()
    };
    let (jpeg, png) = (&decoded[1].0, &decoded[2].0);
    assert_eq!((pixel(png, 0, 0), pixel(png, 7, 15)), (vec![255, 0, 0], vec![0, 0, 255]));
    for (row, column) in [(0, 0), (7, 15)] {
        let exact = pixel(png, row, column);
        let near = |(a, b): (&u8, &u8)| a.abs_diff(*b) <= 4;
        assert!(pixel(jpeg, row, column).iter().zip(&exact).all(near));
    }
    let error = ImageFolder::open(folder.path().join("wide")).unwrap_err().to_string();
    assert!(error.contains("in any of its 0 sub-folders"), "{error}");
}

#[test]
fn images_with_excessive_declared_sizes_are_refused() {
    let mut bytes = std::fs::read(file("halves.png")).unwrap();
    // Width and height follow the signature and the first chunk's head, then its checksum.
    bytes[16..24].copy_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff]);
    let crc = png_crc(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&crc.to_be_bytes());
    let error = data::decode_image(&bytes, 8, 8).unwrap_err().to_string();
    assert!(error.contains("declare an image of 65535 by 65535 pixels"), "{error}");
}

fn png_crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[test]
fn every_file_format_resumes() {
    let records: Vec<Vec<u8>> = examples(30).iter().map(TfExample::encode).collect();
    let plain = tfrecord_bytes(&records);
    for bytes in [gzipped(&plain), plain] {
        let build = || data::tfrecord(memory("x", &bytes));
        let mut stream = build();
        let head = stream.by_ref().take(11).count();
        let tail: Vec<Vec<u8>> =
            build().resume(&stream.position()).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!((head, &tail[..]), (11, &records[11..]));
    }
}
