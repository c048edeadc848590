//! Writes the file format of XProf: an `XSpace` with the threads of the host, and with what the
//! profilers of plugins recorded.
//!
//! XProf knows planes, events and stats by names, which are in
//! `xla/tsl/profiler/utils/xplane_schema.cc` and `tf_op_utils.cc` in
//! <https://github.com/openxla/xla>. What runs within an event with the stat `_r` is a step, and
//! `step_num` is its number (`group_events.cc`). XProf assigns work of devices to the step on whose
//! thread the plugin started it. So events of a plugin on a thread of ours join our line.

use super::plugin_space::PluginSpace;
use super::recorded::{Profile, ThreadEvents};
use super::xplane::{
    EventMetadata, EventMetadataEntry, HOST_PLANE, SOURCE, StatMetadata, StatMetadataEntry,
    StatValue, XEvent, XLine, XPlane, XSpace, XStat,
};
use crate::core::Loc;
use crate::core::spans::{ArgumentValue, EventKind, EventName, ProfileEvent};
use oxidax_proto::{Field, Message};
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// The stat of an event that is a step.
const ROOT: &str = "_r";

/// Writes a profile of the host `host`.
pub(super) fn write(profile: &Profile, host: &str, out: &mut impl Write) -> io::Result<()> {
    // Messages of a million events would take several times the memory of the file. So lines are
    // encoded one event at a time, and appended to the plane: the fields of a message may be
    // encoded one after another.
    let operations = profile.operations_track();
    let mut metadata = Metadata::default();
    let mut joined: Vec<Joined<'_>> = profile.plugins().iter().filter_map(Joined::of).collect();
    let header = XPlane { id: 1, name: HOST_PLANE.to_owned(), ..XPlane::default() };
    let mut plane = header.encode_to_vec();
    let mut last = 0;
    for thread in profile.threads().iter().chain(&operations) {
        last = last.max(thread.number);
        encoded_line(profile, thread, &mut metadata, &mut joined).put(3, &mut plane);
    }
    for joined in &mut joined {
        for line in std::mem::take(&mut joined.lines) {
            last += 1;
            let header = XLine { id: signed(last), events: Vec::new(), ..line.clone() };
            let mut encoded = header.encode_to_vec();
            for event in &line.events {
                joined.event(event, event.offset_ps, &mut metadata).put(4, &mut encoded);
            }
            encoded.put(3, &mut plane);
        }
    }
    metadata.into_plane().put_fields(&mut plane);
    let mut space = Vec::with_capacity(plane.len() + 64);
    plane.put(1, &mut space);
    drop(plane);
    for plugin in profile.plugins() {
        plugin.devices.iter().for_each(|device| device.put(1, &mut space));
        plugin.other.iter().for_each(|other| other.put(1, &mut space));
    }
    XSpace { planes: Vec::new(), hostnames: vec![host.as_bytes().to_vec()] }.put_fields(&mut space);
    out.write_all(&space)
}

/// Returns the bytes of the line of a thread, with what plugins recorded on it.
fn encoded_line<'p>(
    profile: &Profile,
    thread: &'p ThreadEvents,
    metadata: &mut Metadata<'p>,
    joined: &mut [Joined<'p>],
) -> Vec<u8> {
    let header = XLine {
        id: signed(thread.number),
        name: thread.title(),
        timestamp_ns: signed(profile.started_unix_nanos()),
        duration_ps: picoseconds(u64::try_from(profile.duration().as_nanos()).unwrap_or(u64::MAX)),
        ..XLine::default()
    };
    let mut line = header.encode_to_vec();
    // Events of plugins, the last one first.
    let mut others: Vec<XEvent> = Vec::new();
    for joined in joined {
        for other in joined.take_lines(thread) {
            let later = other.timestamp_ns.saturating_sub(header.timestamp_ns);
            let later = later.saturating_mul(1000);
            let events = other.events.iter().map(|event| {
                joined.event(event, event.offset_ps.saturating_add(later).max(0), metadata)
            });
            others.extend(events);
        }
    }
    // XProf nests events in the order of the line: by start, outer before inner.
    let order = |event: &XEvent| (event.offset_ps, i64::MAX - event.duration_ps);
    others.sort_by_key(|event| std::cmp::Reverse(order(event)));
    for event in &thread.events {
        let event = XEvent {
            metadata_id: metadata.event(event),
            offset_ps: picoseconds(event.start_nanos),
            duration_ps: picoseconds(event.duration_nanos),
            stats: metadata.stats(event),
            num_occurrences: 0,
        };
        while let Some(other) = others.pop_if(|other| order(other) < order(&event)) {
            other.put(4, &mut line);
        }
        event.put(4, &mut line);
    }
    others.iter().rev().for_each(|other| other.put(4, &mut line));
    line
}

/// The plane of a plugin's threads, whose events join our plane: there, names have other numbers.
struct Joined<'p> {
    /// The lines that have not joined.
    lines: Vec<&'p XLine>,
    stat_names: FxHashMap<i64, &'p str>,
    metadata: FxHashMap<i64, &'p EventMetadata>,
    /// The numbers of names of events in our plane.
    ids: FxHashMap<i64, i64>,
}

impl<'p> Joined<'p> {
    fn of(space: &'p PluginSpace) -> Option<Joined<'p>> {
        let plane = space.host.as_ref()?;
        let metadata = plane.event_metadata.iter().map(|entry| (entry.key, &entry.value));
        Some(Joined {
            lines: plane.lines.iter().filter(|line| !line.events.is_empty()).collect(),
            stat_names: plane.stat_names(),
            metadata: metadata.collect(),
            ids: FxHashMap::default(),
        })
    }

    /// Returns the lines of a thread.
    fn take_lines(&mut self, thread: &ThreadEvents) -> Vec<&'p XLine> {
        let is_same = |line: &mut &XLine| thread.system_id.is_some_and(|id| id == line.id);
        self.lines.extract_if(.., is_same).collect()
    }

    fn event(&mut self, event: &XEvent, offset_ps: i64, metadata: &mut Metadata<'_>) -> XEvent {
        let metadata_id = match self.ids.get(&event.metadata_id) {
            Some(&id) => id,
            None => {
                let known = self.metadata.get(&event.metadata_id).copied();
                let known = known.cloned().unwrap_or_default();
                let stats = self.stats(&known.stats, metadata);
                let id = metadata.push(EventMetadata { stats, ..known });
                self.ids.insert(event.metadata_id, id);
                id
            }
        };
        let stats = self.stats(&event.stats, metadata);
        XEvent { metadata_id, offset_ps, stats, ..event.clone() }
    }

    fn stats(&self, stats: &[XStat], metadata: &mut Metadata<'_>) -> Vec<XStat> {
        let name = |id: i64| self.stat_names.get(&id).copied().unwrap_or_default();
        let each = stats.iter().map(|stat| XStat {
            metadata_id: metadata.stat_id(name(stat.metadata_id)),
            value: match &stat.value {
                Some(StatValue::Reference(id)) => {
                    Some(metadata.text(name(i64::try_from(*id).unwrap_or(i64::MAX))))
                }
                value => value.clone(),
            },
        });
        each.collect()
    }
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
            self.push(EventMetadata { name, display_name, ..EventMetadata::default() });
        }
        id
    }

    /// Adds the name of an event, and returns its number.
    fn push(&mut self, value: EventMetadata) -> i64 {
        let id = self.event_metadata.len() as i64 + 1;
        self.event_metadata
            .push(EventMetadataEntry { key: id, value: EventMetadata { id, ..value } });
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
        let value = StatMetadata { id, name: name.to_owned(), description: String::new() };
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
    use crate::runtime::PluginRecording;

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

    #[test]
    fn work_of_a_plugin_joins_the_line_of_its_thread() {
        let mut profile = example();
        profile.set_system_id(0, 4711);
        let space = crate::profile::plugin_space::example(profile.started_unix_nanos());
        let profile = profile.with_plugins(vec![PluginRecording { plugin: "libtpu.so", space }]);
        let mut bytes = Vec::new();
        write(&profile, "my-host", &mut bytes).expect("writing to a vector");
        let space = XSpace::decode(&bytes).expect("a message");
        let names: Vec<&str> = space.planes.iter().map(|plane| plane.name.as_str()).collect();
        assert_eq!(names, ["/host:CPU", "/device:TPU:0", "/host:metadata"]);
        let plane = &space.planes[0];
        let stats = plane.stat_names();
        let name = |id: i64| {
            let entry = plane.event_metadata.iter().find(|entry| entry.key == id);
            entry.map_or("", |entry| entry.value.name.as_str())
        };
        let lines = plane.lines.iter().map(|line| {
            let events = line.events.iter().map(|e| (name(e.metadata_id), e.offset_ps));
            (line.id, line.name.as_str(), events.collect::<Vec<_>>())
        });
        let main = vec![
            ("train", 0),
            ("dispatch f", 1_000_000),
            ("TpuExecute", 1_500_000),
            ("MemcpyHToD", 3_000_000),
            ("dispatch f", 8_000_000),
        ];
        let expected = [
            (1, "main", main),
            (2, "thread 2", vec![("IteratorGetNext", 0)]),
            (3, "compiler/4712", vec![("TpuExecute", 5_000)]),
        ];
        assert_eq!(lines.collect::<Vec<_>>(), expected);
        let [stat] = &plane.lines[0].events[2].stats[..] else { panic!("one stat") };
        let Some(StatValue::Reference(text)) = stat.value else { panic!("{stat:?}") };
        assert_eq!((stats[&stat.metadata_id], stats[&(text as i64)]), ("module", "main.5"));
        // The operations of the device are in the table and in the trace for Perfetto too.
        let table = profile.to_string();
        assert!(table.contains("0.003        1  %while.2 = "), "{table}");
        assert!(table.contains("0.001        1  fusion.1  src/main.rs:3"), "{table}");
    }
}
