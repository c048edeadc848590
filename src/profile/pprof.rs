//! The file format of pprof: the live arrays by line.
//!
//! Field numbers of `proto/profile.proto` in <https://github.com/google/pprof>.

use super::memory::{MemoryProfile, parts, text_of};
use crate::core::Loc;
use oxidax_proto::{Message, messages};
use rustc_hash::FxHashMap;
use std::time::{SystemTime, UNIX_EPOCH};

messages! {
    struct Profile {
        sample_type: Vec<ValueType> = 1,
        sample: Vec<Sample> = 2,
        location: Vec<Location> = 4,
        function: Vec<Function> = 5,
        string_table: Vec<Vec<u8>> = 6,
        time_nanos: i64 = 9,
        default_sample_type: i64 = 14,
    }

    /// Indices into the table of strings.
    struct ValueType {
        name: i64 = 1,
        unit: i64 = 2,
    }

    struct Sample {
        location_id: Vec<u64> = 1,
        value: Vec<i64> = 2,
        label: Vec<Label> = 3,
    }

    struct Label {
        key: i64 = 1,
        text: i64 = 2,
    }

    struct Location {
        id: u64 = 1,
        line: Vec<Line> = 4,
    }

    struct Line {
        function_id: u64 = 1,
        line: i64 = 2,
        column: i64 = 3,
    }

    struct Function {
        id: u64 = 1,
        name: i64 = 2,
        system_name: i64 = 3,
        filename: i64 = 4,
    }
}

/// The table of strings, which begins with the empty one.
#[derive(Default)]
struct Strings {
    indices: FxHashMap<String, i64>,
    texts: Vec<Vec<u8>>,
}

impl Strings {
    fn index(&mut self, text: &str) -> i64 {
        if let Some(&index) = self.indices.get(text) {
            return index;
        }
        let index = self.texts.len() as i64;
        self.texts.push(text.as_bytes().to_vec());
        self.indices.insert(text.to_owned(), index);
        index
    }
}

/// Encodes a profile.
pub(super) fn encode(memory: &MemoryProfile) -> Vec<u8> {
    let mut strings = Strings::default();
    strings.index("");
    let allocations =
        ValueType { name: strings.index("allocations"), unit: strings.index("count") };
    let space = ValueType { name: strings.index("space"), unit: strings.index("bytes") };
    let (device_key, type_key) = (strings.index("device"), strings.index("type"));
    let default_sample_type = space.name;
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut profile = Profile {
        sample_type: vec![allocations, space],
        time_nanos: i64::try_from(time.as_nanos()).unwrap_or(i64::MAX),
        default_sample_type,
        ..Profile::default()
    };
    // A line is a location and, because the name of its function is not known, a function too.
    let mut locations: FxHashMap<Loc, u64> = FxHashMap::default();
    let mut samples: FxHashMap<(u64, i64, i64), [i64; 2]> = FxHashMap::default();
    let mut order = Vec::new();
    for array in memory.arrays() {
        let loc = array.created_at;
        let next = locations.len() as u64 + 1;
        let id = *locations.entry(loc).or_insert_with(|| {
            let place = loc.get();
            let name = strings.index(&text_of(loc));
            let filename = strings.index(place.map_or("", |place| place.file()));
            profile.function.push(Function { id: next, name, system_name: name, filename });
            let line = Line {
                function_id: next,
                line: place.map_or(0, |place| place.line().into()),
                column: place.map_or(0, |place| place.column().into()),
            };
            profile.location.push(Location { id: next, line: vec![line] });
            next
        });
        let aval = strings.index(&array.aval.to_string());
        for (device, bytes) in parts(array) {
            let key = (id, strings.index(&device.to_string()), aval);
            let [count, total] = samples.entry(key).or_insert_with(|| {
                order.push(key);
                [0, 0]
            });
            *count += 1;
            *total += bytes.cast_signed();
        }
    }
    for key in order {
        let (id, device, aval) = key;
        profile.sample.push(Sample {
            location_id: vec![id],
            value: samples[&key].to_vec(),
            label: vec![
                Label { key: device_key, text: device },
                Label { key: type_key, text: aval },
            ],
        });
    }
    profile.string_table = strings.texts;
    profile.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_profile_has_its_types() {
        let profile = Profile::decode(&encode(&MemoryProfile::default())).expect("it decodes");
        let text = |index: i64| String::from_utf8_lossy(&profile.string_table[index as usize]);
        let types: Vec<_> =
            profile.sample_type.iter().map(|t| (text(t.name), text(t.unit))).collect();
        assert_eq!(
            types,
            [("allocations".into(), "count".into()), ("space".into(), "bytes".into())]
        );
        assert_eq!(text(profile.default_sample_type), "space");
        assert_eq!(profile.string_table[0], b"");
    }
}
