//! Interleaving several streams.

use crate::core::{Error, RuleError, throw_operands};
use crate::data::instruments::Instruments;
use crate::data::origin::Next;
use crate::data::position::{Cursor, Position, refused};
use crate::data::stream::{BoxedStage, Stage, Stream};

/// The order in which [`interleave`] reads streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InterleaveOptions {
    /// The number of streams that are read alternately. When one ends, the next takes its slot.
    pub cycle_length: usize,
    /// The number of items that are read from one stream before the next one's turn.
    pub block_length: usize,
}

/// Interleaves the items of several streams, usually of files. Only the files of the current cycle
/// are open.
///
/// Errors count as items. With a `cycle_length` of 1 the streams are concatenated.
///
/// Throws `Op` (value) if a length is 0.
///
/// ```
/// use oxidax::data::{self, InterleaveOptions, Stream};
/// let streams = [0, 10, 20].map(|start| Stream::new((start..start + 3).map(Ok)));
/// let turns = data::interleave(streams, InterleaveOptions { cycle_length: 2, block_length: 1 });
/// assert_eq!(turns.collect::<Result<Vec<_>, _>>()?, [0, 10, 1, 11, 2, 12, 20, 21, 22]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn interleave<T: Send + 'static>(
    streams: impl IntoIterator<Item = Stream<T>>,
    turns: InterleaveOptions,
) -> Stream<T> {
    let InterleaveOptions { cycle_length, block_length } = turns;
    if cycle_length == 0 || block_length == 0 {
        let message = format!("needs lengths of at least 1, got {turns:?}");
        throw_operands("interleave", RuleError::value(message), &[]);
    }
    let mut instruments = Instruments::default();
    let mut streams_upstream = Vec::new();
    for stream in streams {
        let (stage, clocks) = stream.into_parts();
        instruments.join(clocks);
        streams_upstream.push(stage);
    }
    Stream::of(
        Interleaved {
            slots: vec![None; cycle_length.min(streams_upstream.len())],
            streams: streams_upstream,
            cycle_length,
            block_length,
            epoch: 0,
            started: 0,
            slot: 0,
            taken: 0,
        },
        instruments,
    )
}

struct Interleaved<T> {
    streams: Vec<BoxedStage<T>>,
    cycle_length: usize,
    block_length: usize,
    epoch: u64,
    /// The stream in each slot.
    slots: Vec<Option<usize>>,
    /// Streams started so far.
    started: usize,
    /// The current slot, and the items read from it in this turn.
    slot: usize,
    taken: usize,
}

const NAME: &str = "interleave";

impl<T> Interleaved<T> {
    fn next_slot(&mut self) {
        self.slot = (self.slot + 1) % self.slots.len();
        self.taken = 0;
    }

    /// Returns the stream of the current turn, if any is left.
    fn current(&mut self) -> Option<usize> {
        for _ in 0..self.slots.len() {
            if self.slots[self.slot].is_none() && self.started < self.streams.len() {
                self.slots[self.slot] = Some(self.started);
                self.started += 1;
            }
            if let Some(stream) = self.slots[self.slot] {
                return Some(stream);
            }
            self.next_slot();
        }
        None
    }

    fn settings(&self) -> [(&'static str, u64); 3] {
        [
            ("number of streams", self.streams.len() as u64),
            ("cycle length", self.cycle_length as u64),
            ("block length", self.block_length as u64),
        ]
    }
}

impl<T: Send> Stage<T> for Interleaved<T> {
    fn next(&mut self) -> Next<T> {
        while let Some(stream) = self.current() {
            match self.streams[stream].next() {
                Some(item) => {
                    self.taken += 1;
                    if self.taken == self.block_length {
                        self.next_slot();
                    }
                    return Some(item);
                }
                None => {
                    self.slots[self.slot] = None;
                    self.taken = 0;
                }
            }
        }
        None
    }

    fn position(&self, position: &mut Position) {
        let mut counts: Vec<u64> = self.settings().map(|(_, setting)| setting).to_vec();
        counts.extend([self.epoch, self.started as u64, self.slot as u64, self.taken as u64]);
        // 0 stands for an empty slot.
        counts.extend(self.slots.iter().map(|slot| slot.map_or(0, |stream| stream as u64 + 1)));
        position.push(NAME, &counts);
        for stream in self.slots.iter().flatten() {
            self.streams[*stream].position(position);
        }
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let counts = cursor.take_all(NAME, &self.settings())?;
        let count = self.streams.len() as u64;
        let [epoch, started, slot, taken, slots @ ..] = counts else {
            return Err(refused(format!("stage `{NAME}` has only {} counts", counts.len())));
        };
        let fits = slots.len() == self.slots.len()
            && slots.iter().all(|&stream| stream <= *started)
            && *started <= count
            && (*slot as usize) < self.slots.len().max(1);
        if !fits {
            return Err(refused(format!("the counts {counts:?} of `{NAME}` are inconsistent")));
        }
        for stream in &mut self.streams {
            stream.restart(*epoch)?;
        }
        (self.epoch, self.started) = (*epoch, *started as usize);
        (self.slot, self.taken) = (*slot as usize, *taken as usize);
        self.slots = slots.iter().map(|&stream| (stream as usize).checked_sub(1)).collect();
        for stream in self.slots.iter().flatten() {
            self.streams[*stream].seek(cursor)?;
        }
        Ok(())
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.epoch = epoch;
        self.slots.fill(None);
        (self.started, self.slot, self.taken) = (0, 0, 0);
        self.streams.iter_mut().try_for_each(|stream| stream.restart(epoch))
    }
}
