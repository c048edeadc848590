//! The file format of Perfetto: a `Trace` with one track per thread.
//!
//! Field numbers of `protos/perfetto/trace` in <https://github.com/google/perfetto>:
//! `trace_packet.proto`, `clock_snapshot.proto`, `interned_data/interned_data.proto`, and in
//! `track_event` the files of the messages. Each thread is a sequence of packets: names are sent
//! once, and events refer to them by numbers.

use super::recorded::Profile;
use crate::core::Loc;
use crate::core::spans::{ArgumentValue, EventKind, EventName, ProfileEvent};
use oxidax_proto::{Field, messages};
use rustc_hash::FxHashMap;
use std::io::{self, Write};

messages! {
    pub(super) struct TracePacket {
        pub(super) timestamp: u64 = 8,
        pub(super) sequence_id: u32 = 10,
        pub(super) interned_data: Option<InternedData> = 12,
        pub(super) sequence_flags: u32 = 13,
        ; pub(super) data: Option<PacketData>
    }

    pub(super) oneof enum PacketData {
        ClockSnapshot(ClockSnapshot) = 6,
        TrackEvent(TrackEvent) = 11,
        TrackDescriptor(TrackDescriptor) = 60,
    }

    pub(super) struct ClockSnapshot {
        pub(super) clocks: Vec<Clock> = 1,
        pub(super) primary_trace_clock: i32 = 2,
    }

    pub(super) struct Clock {
        pub(super) clock_id: u32 = 1,
        pub(super) timestamp: u64 = 2,
    }

    pub(super) struct TrackDescriptor {
        pub(super) uuid: u64 = 1,
        pub(super) process: Option<ProcessDescriptor> = 3,
        pub(super) thread: Option<ThreadDescriptor> = 4,
        pub(super) parent_uuid: u64 = 5,
    }

    pub(super) struct ProcessDescriptor {
        pub(super) pid: i32 = 1,
        pub(super) process_name: String = 6,
    }

    pub(super) struct ThreadDescriptor {
        pub(super) pid: i32 = 1,
        pub(super) tid: i32 = 2,
        pub(super) thread_name: String = 5,
    }

    pub(super) struct TrackEvent {
        /// Repeated in the format; an event has one.
        pub(super) category_iid: u64 = 3,
        pub(super) debug_annotations: Vec<DebugAnnotation> = 4,
        pub(super) kind: i32 = 9,
        pub(super) name_iid: u64 = 10,
        pub(super) track_uuid: u64 = 11,
        pub(super) source_location_iid: u64 = 34,
    }

    pub(super) struct DebugAnnotation {
        pub(super) name_iid: u64 = 1,
        ; pub(super) value: Option<AnnotationValue>
    }

    pub(super) oneof enum AnnotationValue {
        Bool(bool) = 2,
        Uint(u64) = 3,
        Int(i64) = 4,
        Double(f64) = 5,
        Text(String) = 6,
    }

    pub(super) struct InternedData {
        pub(super) event_categories: Vec<InternedName> = 1,
        pub(super) event_names: Vec<InternedName> = 2,
        pub(super) debug_annotation_names: Vec<InternedName> = 3,
        pub(super) source_locations: Vec<SourceLocation> = 4,
    }

    pub(super) struct InternedName {
        pub(super) iid: u64 = 1,
        pub(super) name: String = 2,
    }

    pub(super) struct SourceLocation {
        pub(super) iid: u64 = 1,
        pub(super) file_name: String = 2,
        pub(super) line_number: u32 = 4,
    }
}

/// The name of the file.
pub(super) const FILE: &str = "perfetto_trace.pb";
/// `TrackEvent.Type`.
pub(super) const SLICE_BEGIN: i32 = 1;
pub(super) const SLICE_END: i32 = 2;
/// `TracePacket.SequenceFlags`: numbers of names start again, and packets depend on them.
pub(super) const STATE_CLEARED: u32 = 1;
const NEEDS_STATE: u32 = 2;
/// `BuiltinClock`: the time since 1970, and the default clock of packets.
const REALTIME: u32 = 1;
const BOOTTIME: u32 = 6;
/// The track of the process. Those of threads follow.
const PROCESS_TRACK: u64 = 1;

/// Writes a profile. Time 0 is the start of the recording.
pub(super) fn write(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let pid = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
    let clock = |clock_id, timestamp| Clock { clock_id, timestamp };
    let clocks = vec![clock(BOOTTIME, 0), clock(REALTIME, profile.started_unix_nanos())];
    let snapshot = ClockSnapshot { clocks, primary_trace_clock: BOOTTIME as i32 };
    let process = ProcessDescriptor { pid, process_name: process_name() };
    let process = TrackDescriptor {
        uuid: PROCESS_TRACK,
        process: Some(process),
        ..TrackDescriptor::default()
    };
    for data in [PacketData::ClockSnapshot(snapshot), PacketData::TrackDescriptor(process)] {
        put(&TracePacket { sequence_id: 1, data: Some(data), ..TracePacket::default() }, out)?;
    }
    let operations = profile.operations_track();
    let mut last = 0;
    for thread in profile.threads().iter().chain(&operations) {
        last = last.max(thread.number);
        Sequence::new(thread.number, pid).write(thread.title(), &thread.events, out)?;
    }
    for (number, device) in (last + 1..).zip(profile.devices()) {
        Sequence::new(number, pid).write(device.title(), &device.events, out)?;
    }
    Ok(())
}

fn put(packet: &TracePacket, out: &mut impl Write) -> io::Result<()> {
    let mut bytes = Vec::new();
    packet.put(1, &mut bytes);
    out.write_all(&bytes)
}

/// Returns the name of the program.
fn process_name() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_deref().and_then(std::path::Path::file_stem);
    name.map_or_else(|| "oxidax".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// The packets of one thread or line of a device, and the numbers of the names that they have sent.
struct Sequence<'p> {
    id: u32,
    track: u64,
    pid: i32,
    tid: i32,
    started: bool,
    categories: FxHashMap<EventKind, u64>,
    names: FxHashMap<(EventKind, &'p EventName), u64>,
    arguments: FxHashMap<&'static str, u64>,
    lines: FxHashMap<Loc, u64>,
}

/// Returns the number of a key, and true if it is new.
fn intern<K: std::hash::Hash + Eq>(map: &mut FxHashMap<K, u64>, key: K) -> (u64, bool) {
    let next = map.len() as u64 + 1;
    let iid = *map.entry(key).or_insert(next);
    (iid, iid == next)
}

impl<'p> Sequence<'p> {
    fn new(number: u64, pid: i32) -> Sequence<'p> {
        Sequence {
            id: u32::try_from(number).unwrap_or(u32::MAX).saturating_add(1),
            track: PROCESS_TRACK + number,
            pid,
            tid: i32::try_from(number).unwrap_or(i32::MAX),
            started: false,
            categories: FxHashMap::default(),
            names: FxHashMap::default(),
            arguments: FxHashMap::default(),
            lines: FxHashMap::default(),
        }
    }

    fn write(
        mut self,
        thread_name: String,
        events: &'p [ProfileEvent],
        out: &mut impl Write,
    ) -> io::Result<()> {
        let descriptor = ThreadDescriptor { pid: self.pid, tid: self.tid, thread_name };
        let track = TrackDescriptor {
            uuid: self.track,
            parent_uuid: PROCESS_TRACK,
            thread: Some(descriptor),
            ..TrackDescriptor::default()
        };
        put(&self.packet(0, PacketData::TrackDescriptor(track), InternedData::default()), out)?;
        // The ends of the slices that are open, outermost first.
        let mut open: Vec<u64> = Vec::new();
        for event in events {
            self.end_before(event.start_nanos, &mut open, out)?;
            // Slices of a track nest. A guard that outlives the one around it is cut there.
            let end = open.last().map_or(event.end_nanos(), |&end| end.min(event.end_nanos()));
            let packet = self.begin(event);
            put(&packet, out)?;
            open.push(end);
        }
        self.end_before(u64::MAX, &mut open, out)
    }

    /// Ends the slices that end before `time`.
    fn end_before(
        &mut self,
        time: u64,
        open: &mut Vec<u64>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        while let Some(end) = open.pop_if(|end| *end <= time) {
            let track_uuid = self.track;
            let event = TrackEvent { kind: SLICE_END, track_uuid, ..TrackEvent::default() };
            let packet = self.packet(end, PacketData::TrackEvent(event), InternedData::default());
            put(&packet, out)?;
        }
        Ok(())
    }

    fn packet(&mut self, timestamp: u64, data: PacketData, names: InternedData) -> TracePacket {
        let first = if self.started { 0 } else { STATE_CLEARED };
        self.started = true;
        TracePacket {
            timestamp,
            sequence_id: self.id,
            interned_data: (names != InternedData::default()).then_some(names),
            sequence_flags: first | NEEDS_STATE,
            data: Some(data),
        }
    }

    fn begin(&mut self, event: &'p ProfileEvent) -> TracePacket {
        let mut new = InternedData::default();
        let (category_iid, is_new) = intern(&mut self.categories, event.kind);
        if is_new {
            let name = event.kind.name().to_owned();
            new.event_categories.push(InternedName { iid: category_iid, name });
        }
        let (name_iid, is_new) = intern(&mut self.names, (event.kind, &event.name));
        if is_new {
            new.event_names.push(InternedName { iid: name_iid, name: event.title() });
        }
        let mut source_location_iid = 0;
        if let Some(location) = event.loc.get() {
            let (iid, is_new) = intern(&mut self.lines, event.loc);
            source_location_iid = iid;
            if is_new {
                let file_name = location.file().to_owned();
                let line_number = location.line();
                new.source_locations.push(SourceLocation { iid, file_name, line_number });
            }
        }
        let mut debug_annotations = Vec::with_capacity(event.arguments.len());
        for (name, value) in &event.arguments {
            let (name_iid, is_new) = intern(&mut self.arguments, *name);
            if is_new {
                let name = (*name).to_owned();
                new.debug_annotation_names.push(InternedName { iid: name_iid, name });
            }
            debug_annotations.push(DebugAnnotation { name_iid, value: Some(annotation(value)) });
        }
        let track_event = TrackEvent {
            category_iid,
            debug_annotations,
            kind: SLICE_BEGIN,
            name_iid,
            track_uuid: self.track,
            source_location_iid,
        };
        self.packet(event.start_nanos, PacketData::TrackEvent(track_event), new)
    }
}

fn annotation(value: &ArgumentValue) -> AnnotationValue {
    match value {
        ArgumentValue::Int(value) => AnnotationValue::Int(*value),
        ArgumentValue::Count(value) => AnnotationValue::Uint(*value),
        ArgumentValue::Float(value) => AnnotationValue::Double(*value),
        ArgumentValue::Bool(value) => AnnotationValue::Bool(*value),
        ArgumentValue::Text(text) => AnnotationValue::Text(text.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::recorded::example;
    use oxidax_proto::Message;

    messages! {
        struct Trace {
            packets: Vec<TracePacket> = 1,
        }
    }

    /// Replays the packets of a trace as lines of text.
    fn replay(bytes: &[u8]) -> Vec<String> {
        let trace = Trace::decode(bytes).expect("a message");
        let mut names: FxHashMap<(u32, &str, u64), String> = FxHashMap::default();
        let mut lines = Vec::new();
        for packet in trace.packets {
            let sequence = packet.sequence_id;
            let new = packet.interned_data.unwrap_or_default();
            let kinds = [
                ("category", new.event_categories),
                ("name", new.event_names),
                ("argument", new.debug_annotation_names),
            ];
            for (kind, interned) in kinds {
                for InternedName { iid, name } in interned {
                    assert!(names.insert((sequence, kind, iid), name).is_none());
                }
            }
            for SourceLocation { iid, file_name, line_number } in new.source_locations {
                names.insert((sequence, "line", iid), format!("{file_name}:{line_number}"));
            }
            let name = |kind, iid| names.get(&(sequence, kind, iid)).cloned().unwrap_or_default();
            let time = packet.timestamp;
            lines.push(match packet.data {
                Some(PacketData::ClockSnapshot(clocks)) => {
                    format!("1970 + {} ns", clocks.clocks[1].timestamp)
                }
                Some(PacketData::TrackDescriptor(track)) => match track.thread {
                    Some(thread) => format!("track {}: {}", track.uuid, thread.thread_name),
                    None => format!("track {}: process", track.uuid),
                },
                Some(PacketData::TrackEvent(event)) if event.kind == SLICE_END => {
                    format!("{time} end on {}", event.track_uuid)
                }
                Some(PacketData::TrackEvent(event)) => {
                    let arguments = event.debug_annotations.iter();
                    let arguments = arguments
                        .map(|a| format!("{} {:?}", name("argument", a.name_iid), a.value));
                    format!(
                        "{time} {}: {} on {} {} {}",
                        name("category", event.category_iid),
                        name("name", event.name_iid),
                        event.track_uuid,
                        name("line", event.source_location_iid),
                        arguments.collect::<Vec<_>>().join(", "),
                    )
                    .trim()
                    .to_owned()
                }
                None => String::new(),
            });
        }
        lines
    }

    #[test]
    fn slices_of_all_threads_nest() {
        let profile = example();
        let mut bytes = Vec::new();
        write(&profile, &mut bytes).expect("writing to a vector");
        let here = profile.threads()[0].events[1].loc.get().expect("a line");
        let here = format!("{}:{}", here.file(), here.line());
        let expected = [
            "1970 + 1500000000 ns".to_owned(),
            "track 1: process".to_owned(),
            "track 2: main".to_owned(),
            "0 step: train on 2  step_num Some(Uint(7))".to_owned(),
            format!("1000 dispatch: dispatch f on 2 {here}"),
            "3000 end on 2".to_owned(),
            "3000 to_device: to_device on 2  bytes Some(Uint(64))".to_owned(),
            "7000 end on 2".to_owned(),
            format!(
                "8000 dispatch: dispatch f on 2 {here} cold Some(Bool(true)), note \
                 Some(Text(\"twice\"))"
            ),
            "8500 end on 2".to_owned(),
            "9000 end on 2".to_owned(),
            "track 3: thread 2".to_owned(),
            "0 data_wait: data_wait on 3".to_owned(),
            "1 end on 3".to_owned(),
        ];
        assert_eq!(replay(&bytes), expected);
    }

    #[test]
    fn lines_of_devices_follow_the_threads() {
        let profile = example();
        let space = crate::profile::plugin_space::example(profile.started_unix_nanos());
        let recording = crate::runtime::PluginRecording { plugin: "libtpu.so", space };
        let mut bytes = Vec::new();
        write(&profile.with_plugins(vec![recording]), &mut bytes).expect("writing to a vector");
        let lines = replay(&bytes);
        let device = lines.iter().position(|line| line == "track 4: TPU:0 XLA Ops");
        let expected = [
            "2000 operation: %while.2 = (s32[]) while(…) on 4",
            "3000 operation: fusion.1 on 4  source Some(Text(\"src/main.rs:3\")), flops \
             Some(Double(256.0)), op_name Some(Text(\"f/encoder/tanh\"))",
            "3500 end on 4",
            "5000 end on 4",
        ];
        assert_eq!(lines[device.expect("a track") + 1..], expected);
    }
}
