//! The table of `docs/tpu-plans.md`, and training steps compiled for TPU topologies.

use crate::rows::Rows;
use crate::table;

mod tpu;

#[test]
fn the_page_shows_the_rows() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/");
    let rows = Rows::open(format!("{docs}tpu-plans.jsonl").as_ref()).unwrap();
    let page = std::fs::read_to_string(format!("{docs}tpu-plans.md")).unwrap();
    let expected = table::replace_table(&page, &table::markdown(&rows));
    assert_eq!(page, expected, "`cargo run -p plans -- --page docs/tpu-plans.md` writes it");
}
