//! The table of `docs/tpu-plans.md`, and training steps compiled for TPU topologies.

use crate::rows::{Predicted, Row, Rows, merged};
use crate::table;
use oxidax::jit::Collective;
use oxidax::roofline::Exchange;

mod tpu;

#[test]
fn the_page_shows_the_rows() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/");
    let rows = Rows::open(format!("{docs}tpu-plans.jsonl").as_ref()).unwrap();
    let page = std::fs::read_to_string(format!("{docs}tpu-plans.md")).unwrap();
    let expected = table::replace_table(&page, &table::markdown(&rows));
    assert_eq!(page, expected, "`cargo run -p plans -- --page docs/tpu-plans.md` writes it");
}

fn exchange(kind: Collective, bytes: u64, times: u64) -> Exchange {
    let (axes, pairs) = (vec!["data".to_owned()], Vec::new());
    Exchange { kind, axes, size: 2, bytes, times, pairs, place: None }
}

#[test]
fn equal_exchanges_are_recorded_once() {
    use Collective::{AllGather, AllReduce};
    let each = [(AllReduce, 8, 1), (AllGather, 8, 1), (AllReduce, 8, 3), (AllReduce, 9, 1)];
    let each = each.map(|(kind, bytes, times)| exchange(kind, bytes, times));
    let expected = [(AllReduce, 8, 4), (AllGather, 8, 1), (AllReduce, 9, 1)];
    assert_eq!(
        merged(each.iter()),
        expected.map(|(kind, bytes, times)| exchange(kind, bytes, times))
    );
}

#[test]
fn rows_without_exchanges_are_marked_and_compiled_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let mut rows = Rows::open(&path).unwrap();
    let seconds = |seconds| Predicted {
        seconds,
        serial_seconds: 2.0 * seconds,
        bound: "wires".into(),
        mfu: 0.5,
    };
    let prediction = Some(seconds(1e-3));
    let step = "mlp".to_owned();
    let old = Row { step, devices: 8, fits: Some(true), prediction, ..Row::default() };
    rows.add(old.clone()).unwrap();
    assert!(rows.find(&old).is_none());
    assert!(table::markdown(&rows).contains("1.00 to 2.00 (wires) †"));
    let exchanges = Some(vec![exchange(Collective::AllReduce, 8, 4)]);
    rows.add(Row { exchanges, ..old.clone() }).unwrap();
    let known = rows.find(&old).unwrap().clone();
    rows.replace(Row { prediction: Some(seconds(3e-3)), ..known.clone() }).unwrap();
    // Rows can be added afterwards, and the file has all of them.
    rows.add(Row { devices: 1, ..old.clone() }).unwrap();
    let rows = Rows::open(&path).unwrap();
    assert_eq!(rows.newest().len(), 2);
    let newest = rows.newest_of("mlp", "", 8).unwrap();
    assert_eq!(newest.prediction.as_ref().unwrap().seconds, 3e-3);
    assert_eq!(newest.exchanges, known.exchanges);
    assert!(table::markdown(&rows).contains("3.00 to 6.00 (wires) |"));
}
