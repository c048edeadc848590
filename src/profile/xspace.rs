//! The file format of XProf: an `XSpace` with the threads of the host.
//!
//! Field numbers of `tsl/profiler/protobuf/xplane.proto` in <https://github.com/openxla/xla>. XProf
//! knows planes, events and stats by names, which are in `xla/tsl/profiler/utils/xplane_schema.cc`
//! and `tf_op_utils.cc` there. What runs within an event with the stat `_r` is a step, and
//! `step_num` is its number (`group_events.cc`).

use super::recorded::{Profile, ThreadEvents};
use crate::core::Loc;
use crate::core::spans::{ArgumentValue, EventKind, EventName, ProfileEvent};
use oxidax_proto::{Field, Message, messages};
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// The plane of the threads of a host.
const HOST_PLANE: &str = "/host:CPU";
/// The stat of an event that is a step.
const ROOT: &str = "_r";
/// The stat with the line of the program.
const SOURCE: &str = "source";

messages! {
    struct XSpace {
        planes: Vec<XPlane> = 1,
        hostnames: Vec<Vec<u8>> = 4,
    }

    struct XPlane {
        id: i64 = 1,
        name: String = 2,
        lines: Vec<XLine> = 3,
        event_metadata: Vec<EventMetadataEntry> = 4,
        stat_metadata: Vec<StatMetadataEntry> = 5,
    }

    struct XLine {
        id: i64 = 1,
        name: String = 2,
        timestamp_ns: i64 = 3,
        events: Vec<XEvent> = 4,
        duration_ps: i64 = 9,
    }

    struct XEvent {
        metadata_id: i64 = 1,
        offset_ps: i64 = 2,
        duration_ps: i64 = 3,
        stats: Vec<XStat> = 4,
    }

    struct XStat {
        metadata_id: i64 = 1,
        ; value: Option<StatValue>
    }

    /// A reference is the id of stat metadata, whose name is the text.
    oneof enum StatValue {
        Double(f64) = 2,
        Uint64(u64) = 3,
        Int64(i64) = 4,
        Reference(u64) = 7,
    }

    struct EventMetadataEntry {
        key: i64 = 1,
        value: EventMetadata = 2,
    }

    struct EventMetadata {
        id: i64 = 1,
        name: String = 2,
        display_name: String = 4,
    }

    struct StatMetadataEntry {
        key: i64 = 1,
        value: StatMetadata = 2,
    }

    struct StatMetadata {
        id: i64 = 1,
        name: String = 2,
    }
}

/// Writes a profile of the host `host`.
pub(super) fn write(profile: &Profile, host: &str, out: &mut impl Write) -> io::Result<()> {
    // Messages of a million events would take several times the memory of the file. So lines are
    // encoded one event at a time, and appended to the plane: the fields of a message may be
    // encoded one after another.
    let operations = profile.operations_track();
    let mut metadata = Metadata::default();
    let header = XPlane { id: 1, name: HOST_PLANE.to_owned(), ..XPlane::default() };
    let mut plane = header.encode_to_vec();
    for thread in profile.threads().iter().chain(&operations) {
        encoded_line(profile, thread, &mut metadata).put(3, &mut plane);
    }
    metadata.into_plane().put_fields(&mut plane);
    let mut space = Vec::with_capacity(plane.len() + 64);
    plane.put(1, &mut space);
    drop(plane);
    XSpace { planes: Vec::new(), hostnames: vec![host.as_bytes().to_vec()] }.put_fields(&mut space);
    out.write_all(&space)
}

/// Returns the bytes of the line of a thread.
fn encoded_line<'p>(
    profile: &Profile,
    thread: &'p ThreadEvents,
    metadata: &mut Metadata<'p>,
) -> Vec<u8> {
    let header = XLine {
        id: signed(thread.number),
        name: thread.title(),
        timestamp_ns: signed(profile.started_unix_nanos()),
        duration_ps: picoseconds(u64::try_from(profile.duration().as_nanos()).unwrap_or(u64::MAX)),
        events: Vec::new(),
    };
    let mut line = header.encode_to_vec();
    for event in &thread.events {
        let event = XEvent {
            metadata_id: metadata.event(event),
            offset_ps: picoseconds(event.start_nanos),
            duration_ps: picoseconds(event.duration_nanos),
            stats: metadata.stats(event),
        };
        event.put(4, &mut line);
    }
    line
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn picoseconds(nanos: u64) -> i64 {
    signed(nanos.saturating_mul(1000))
}

/// The names of events and stats, each with the number by which lines refer to it.
#[derive(Default)]
struct Metadata<'p> {
    events: FxHashMap<(EventKind, &'p EventName), i64>,
    event_metadata: Vec<EventMetadataEntry>,
    stats: FxHashMap<String, i64>,
    stat_metadata: Vec<StatMetadataEntry>,
    lines: FxHashMap<Loc, i64>,
}

impl<'p> Metadata<'p> {
    fn event(&mut self, event: &'p ProfileEvent) -> i64 {
        let next = self.event_metadata.len() as i64 + 1;
        let id = *self.events.entry((event.kind, &event.name)).or_insert(next);
        if id == next {
            let title = event.title();
            let (name, display_name) = match known_name(event.kind) {
                Some(name) => (name.to_owned(), title),
                None => (title, String::new()),
            };
            let value = EventMetadata { id, name, display_name };
            self.event_metadata.push(EventMetadataEntry { key: id, value });
        }
        id
    }

    fn stats(&mut self, event: &ProfileEvent) -> Vec<XStat> {
        let mut stats = Vec::new();
        if event.kind == EventKind::Step {
            stats.push(self.stat(ROOT, StatValue::Int64(1)));
        }
        for (name, value) in &event.arguments {
            let value = match value {
                ArgumentValue::Int(value) => StatValue::Int64(*value),
                // XProf reads its own stats, such as `step_num`, as signed numbers.
                ArgumentValue::Count(value) => {
                    i64::try_from(*value).map_or(StatValue::Uint64(*value), StatValue::Int64)
                }
                ArgumentValue::Float(value) => StatValue::Double(*value),
                ArgumentValue::Bool(value) => StatValue::Int64((*value).into()),
                ArgumentValue::Text(text) => self.text(text.as_str()),
            };
            stats.push(self.stat(name, value));
        }
        if event.loc != Loc::UNKNOWN {
            let line = match self.lines.get(&event.loc) {
                Some(&line) => line,
                None => {
                    let line = self.stat_id(&event.loc.to_string());
                    self.lines.insert(event.loc, line);
                    line
                }
            };
            stats.push(self.stat(SOURCE, StatValue::Reference(line.unsigned_abs())));
        }
        stats
    }

    fn stat(&mut self, name: &str, value: StatValue) -> XStat {
        XStat { metadata_id: self.stat_id(name), value: Some(value) }
    }

    fn text(&mut self, text: &str) -> StatValue {
        StatValue::Reference(self.stat_id(text).unsigned_abs())
    }

    fn stat_id(&mut self, name: &str) -> i64 {
        if let Some(&id) = self.stats.get(name) {
            return id;
        }
        let id = self.stat_metadata.len() as i64 + 1;
        self.stats.insert(name.to_owned(), id);
        let value = StatMetadata { id, name: name.to_owned() };
        self.stat_metadata.push(StatMetadataEntry { key: id, value });
        id
    }

    fn into_plane(self) -> XPlane {
        XPlane {
            event_metadata: self.event_metadata,
            stat_metadata: self.stat_metadata,
            ..XPlane::default()
        }
    }
}

/// Returns the name by which XProf divides the time of a step into kinds of work.
fn known_name(kind: EventKind) -> Option<&'static str> {
    match kind {
        EventKind::DataWait => Some("IteratorGetNext"),
        EventKind::ToDevice => Some("MemcpyHToD"),
        EventKind::ToHost => Some("MemcpyDToH"),
        EventKind::Copy => Some("MemcpyDToD"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::recorded::example;

    #[test]
    fn space_has_all_events_of_all_threads() {
        let profile = example();
        let mut bytes = Vec::new();
        write(&profile, "my-host", &mut bytes).expect("writing to a vector");
        let space = XSpace::decode(&bytes).expect("a message");
        assert_eq!(space.hostnames, [b"my-host"]);
        let [plane] = &space.planes[..] else { panic!("one plane: {:?}", space.planes) };
        assert_eq!((plane.id, plane.name.as_str()), (1, "/host:CPU"));
        let stat_name = |id: i64| {
            let entry = plane.stat_metadata.iter().find(|entry| entry.key == id);
            entry.map_or("", |entry| entry.value.name.as_str())
        };
        let event_name = |id: i64| {
            let entry = plane.event_metadata.iter().find(|entry| entry.key == id);
            let value = &entry.expect("metadata").value;
            (value.name.as_str(), value.display_name.as_str())
        };
        let value_of = |stat: &XStat| match &stat.value {
            Some(StatValue::Reference(id)) => stat_name(*id as i64).to_owned(),
            Some(StatValue::Int64(value)) => value.to_string(),
            other => format!("{other:?}"),
        };
        let mut found = Vec::new();
        for line in &plane.lines {
            assert_eq!(line.timestamp_ns, 1_500_000_000);
            for event in &line.events {
                let stats = event.stats.iter();
                let stats = stats.map(|s| format!("{}={}", stat_name(s.metadata_id), value_of(s)));
                found.push((
                    line.name.as_str(),
                    event_name(event.metadata_id),
                    (event.offset_ps, event.duration_ps),
                    stats.collect::<Vec<_>>().join(" "),
                ));
            }
        }
        let here = format!("source={}", profile.threads()[0].events[1].loc);
        let expected = [
            ("main", ("train", ""), (0, 9_000_000), "_r=1 step_num=7".to_owned()),
            ("main", ("dispatch f", ""), (1_000_000, 2_000_000), here.clone()),
            ("main", ("MemcpyHToD", "to_device"), (3_000_000, 4_000_000), "bytes=64".to_owned()),
            ("main", ("dispatch f", ""), (8_000_000, 500_000), format!("cold=1 note=twice {here}")),
            ("thread 2", ("IteratorGetNext", "data_wait"), (0, 1_000), String::new()),
        ];
        assert_eq!(found, expected);
    }
}
