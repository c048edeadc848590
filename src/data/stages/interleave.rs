//! Several streams as one.

use crate::core::{Error, RuleError, throw_operands};
use crate::data::instruments::Instruments;
use crate::data::origin::Next;
use crate::data::position::{Cursor, Position, refused};
use crate::data::stream::{BoxedStage, Stage, Stream};

/// How [`interleave`] takes turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Interleave {
    /// How many streams are read at a time; when one ends, the next takes its place.
    pub cycle_length: usize,
    /// How many items are taken of one before it is the next one's turn.
    pub block_length: usize,
}

/// The items of several streams by turns: of files, usually, of which only those are open whose turn it is.
///
/// Errors count as items. With a `cycle_length` of 1 the streams come one after the other.
///
/// Throws `Op` (value) if a length is 0.
///
/// ```
/// use oxidax::data::{self, Interleave, Stream};
/// let streams = [0, 10, 20].map(|start| Stream::new((start..start + 3).map(Ok)));
/// let turns = data::interleave(streams, Interleave { cycle_length: 2, block_length: 1 });
/// assert_eq!(turns.collect::<Result<Vec<_>, _>>()?, [0, 10, 1, 11, 2, 12, 20, 21, 22]);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[track_caller]
pub fn interleave<T: Send + 'static>(
    streams: impl IntoIterator<Item = Stream<T>>,
    turns: Interleave,
) -> Stream<T> {
    let Interleave { cycle_length, block_length } = turns;
    if cycle_length == 0 || block_length == 0 {
        let message = format!("{turns:?}: both lengths are at least 1");
        throw_operands("interleave", RuleError::value(message), &[]);
    }
    let mut instruments = Instruments::default();
    let mut streams_above = Vec::new();
    for stream in streams {
        let (stage, clocks) = stream.into_parts();
        instruments.join(clocks);
        streams_above.push(stage);
    }
    Stream::of(
        ByTurns {
            slots: vec![None; cycle_length.min(streams_above.len())],
            streams: streams_above,
            cycle_length,
            block_length,
            epoch: 0,
            begun: 0,
            slot: 0,
            taken: 0,
        },
        instruments,
    )
}

struct ByTurns<T> {
    streams: Vec<BoxedStage<T>>,
    cycle_length: usize,
    block_length: usize,
    epoch: u64,
    /// Which streams are being read.
    slots: Vec<Option<usize>>,
    /// How many have been begun.
    begun: usize,
    /// Whose turn it is, and how many items it has given in this turn.
    slot: usize,
    taken: usize,
}

const NAME: &str = "interleave";

impl<T> ByTurns<T> {
    fn turn(&mut self) {
        self.slot = (self.slot + 1) % self.slots.len();
        self.taken = 0;
    }

    /// The stream whose turn it is, if any is left.
    fn current(&mut self) -> Option<usize> {
        for _ in 0..self.slots.len() {
            if self.slots[self.slot].is_none() && self.begun < self.streams.len() {
                self.slots[self.slot] = Some(self.begun);
                self.begun += 1;
            }
            if let Some(stream) = self.slots[self.slot] {
                return Some(stream);
            }
            self.turn();
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

impl<T: Send> Stage<T> for ByTurns<T> {
    fn next(&mut self) -> Next<T> {
        while let Some(stream) = self.current() {
            match self.streams[stream].next() {
                Some(item) => {
                    self.taken += 1;
                    if self.taken == self.block_length {
                        self.turn();
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

    fn position(&self, at: &mut Position) {
        let mut counts: Vec<u64> = self.settings().map(|(_, setting)| setting).to_vec();
        counts.extend([self.epoch, self.begun as u64, self.slot as u64, self.taken as u64]);
        // 0 is for a slot that is empty.
        counts.extend(self.slots.iter().map(|slot| slot.map_or(0, |stream| stream as u64 + 1)));
        at.push(NAME, &counts);
        for stream in self.slots.iter().flatten() {
            self.streams[*stream].position(at);
        }
    }

    fn seek(&mut self, at: &mut Cursor<'_>) -> Result<(), Error> {
        let counts = at.take_all(NAME, &self.settings())?;
        let count = self.streams.len() as u64;
        let [epoch, begun, slot, taken, slots @ ..] = counts else {
            return Err(refused(format!("stage `{NAME}` has only {} counts", counts.len())));
        };
        let fits = slots.len() == self.slots.len()
            && slots.iter().all(|&stream| stream <= *begun)
            && *begun <= count
            && (*slot as usize) < self.slots.len().max(1);
        if !fits {
            return Err(refused(format!("the counts {counts:?} of `{NAME}` do not fit together")));
        }
        for stream in &mut self.streams {
            stream.restart(*epoch)?;
        }
        (self.epoch, self.begun) = (*epoch, *begun as usize);
        (self.slot, self.taken) = (*slot as usize, *taken as usize);
        self.slots = slots.iter().map(|&stream| (stream as usize).checked_sub(1)).collect();
        for stream in self.slots.iter().flatten() {
            self.streams[*stream].seek(at)?;
        }
        Ok(())
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.epoch = epoch;
        self.slots.fill(None);
        (self.begun, self.slot, self.taken) = (0, 0, 0);
        self.streams.iter_mut().try_for_each(|stream| stream.restart(epoch))
    }
}
