//! Packing of sequences into rows of one length.

use crate::core::{Array, Aval, DType, Error, HostArray, Loc, RuleError, throw_operands};
use crate::data::collate::{Collate, element};
use crate::data::instruments::{Meter, Work};
use crate::data::origin::{Item, Next, catch_errors};
use crate::data::position::{Anchors, Cursor, Position, refused};
use crate::data::stages::ToDevice;
use crate::data::stream::{BoxedStage, Stage, Stream};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Number of items between recorded upstream positions.
const SPACING: u64 = 64;
const NAME: &str = "pack";

/// Choice of the row that receives a sequence, among the open rows with enough space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PackStrategy {
    /// The row that was opened first.
    #[default]
    FirstFit,
    /// The row with the least space left. It wastes less, and keeps nearly full rows open longer.
    BestFit,
}

/// Handling of a sequence that is longer than a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TooLong {
    /// It becomes an error, which names the record.
    #[default]
    Error,
    /// Its tokens after the row's length are dropped.
    Truncate,
    /// It is split into pieces of the row's length and a rest. Each piece is a segment, and its
    /// positions start at 0.
    Split,
}

/// Options of [`Stream::pack_with`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PackOptions {
    /// Choice of the row for a sequence.
    pub strategy: PackStrategy,
    /// Handling of sequences that are longer than a row.
    pub too_long: TooLong,
    /// The number of rows that are filled at a time. If a sequence fits into none of them, the
    /// oldest is yielded. More rows waste less space and mix the order more.
    pub open_rows: usize,
    /// The token after the last sequence of a row.
    pub padding: f64,
}

impl Default for PackOptions {
    /// First fit, an error for sequences that are too long, 16 open rows, padding with 0.
    fn default() -> PackOptions {
        PackOptions {
            strategy: PackStrategy::default(),
            too_long: TooLong::default(),
            open_rows: 16,
            padding: 0.0,
        }
    }
}

/// A row of packed sequences, a batch of rows, or (as `Packed<Array>`) such a batch on the device.
///
/// A row has shape `[length]`, a batch `[rows, length]`. Attention must be masked where segment ids
/// differ: `segment_ids[i] == segment_ids[j]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed<A = HostArray> {
    /// The tokens of the sequences, one after the other, then padding. Their dtype is that of the
    /// sequences.
    pub tokens: A,
    /// The number of each token's sequence in its row, from 1, as `i32`. 0 for padding.
    pub segment_ids: A,
    /// The position of each token in its sequence, from 0, as `i32`. 0 for padding.
    pub positions: A,
}

impl Collate for Packed {
    type Batch = Packed;
    fn collate(rows: Vec<Packed>) -> Result<Packed, Error> {
        let (mut tokens, mut segment_ids, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            tokens.push(row.tokens);
            segment_ids.push(row.segment_ids);
            positions.push(row.positions);
        }
        Ok(Packed {
            tokens: HostArray::collate(tokens)?,
            segment_ids: HostArray::collate(segment_ids)?,
            positions: HostArray::collate(positions)?,
        })
    }
}

impl ToDevice for Packed {
    type Device = Packed<Array>;
    fn to_device(self) -> Result<Packed<Array>, Error> {
        Ok(Packed {
            tokens: self.tokens.to_device()?,
            segment_ids: self.segment_ids.to_device()?,
            positions: self.positions.to_device()?,
        })
    }
}

impl Stream<HostArray> {
    /// Packs sequences of tokens into rows of `length` tokens, by first fit with 16 open rows. A
    /// sequence that is longer than a row is an error. See [`Stream::pack_with`].
    ///
    /// Throws `Op` (value) if `length` is 0 or exceeds `i32::MAX`.
    ///
    /// ```
    /// use oxidax::data::{HostArray, Stream};
    /// let texts = [vec![7, 7, 7], vec![8, 8, 8], vec![9]]
    ///     .map(|ids| HostArray::from_slice(&ids, [ids.len()]));
    /// let mut rows = Stream::new(texts).pack(4);
    /// let row = rows.next().unwrap()?;
    /// assert_eq!(row.tokens.to_vec::<i32>()?, [7, 7, 7, 9]);
    /// assert_eq!(row.segment_ids.to_vec::<i32>()?, [1, 1, 1, 2]);
    /// assert_eq!(row.positions.to_vec::<i32>()?, [0, 1, 2, 0]);
    /// let row = rows.next().unwrap()?;
    /// assert_eq!(row.tokens.to_vec::<i32>()?, [8, 8, 8, 0]);
    /// assert_eq!(row.segment_ids.to_vec::<i32>()?, [1, 1, 1, 0]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    #[track_caller]
    pub fn pack(self, length: usize) -> Stream<Packed> {
        self.pack_with(length, PackOptions::default())
    }

    /// Packs sequences of tokens, arrays of shape `[n]`, into rows of `length` tokens with segment
    /// ids and positions, so that little padding is computed.
    ///
    /// No token is lost or repeated, except those that [`TooLong::Truncate`] drops. Sequences
    /// without tokens disappear. A full row is yielded at once, and open rows at the end of the
    /// stream. An array of another rank, or of another dtype than the sequences in open rows, is an
    /// error. A position stores the numbers of the sequences in open rows, and [`Stream::resume`]
    /// reads them again from the oldest on.
    ///
    /// Throws `Op` (value) if `length` is 0 or exceeds `i32::MAX`, or `open_rows` is 0.
    ///
    /// ```
    /// use oxidax::data::{HostArray, PackOptions, PackStrategy, Stream, TooLong};
    /// let texts = [5, 1, 3, 11].map(|n| HostArray::from_slice(&vec![n as i32; n], [n]));
    /// let (strategy, too_long) = (PackStrategy::BestFit, TooLong::Split);
    /// let options = PackOptions { strategy, too_long, ..PackOptions::default() };
    /// let rows: Vec<Vec<i32>> = Stream::new(texts)
    ///     .pack_with(6, options)
    ///     .map(|row| row.tokens.to_vec())
    ///     .collect::<Result<_, _>>()?;
    /// assert_eq!(rows[..2], [vec![5, 5, 5, 5, 5, 1], vec![11; 6]]);
    /// assert_eq!(rows[2..], [[3, 3, 3, 0, 0, 0], [11, 11, 11, 11, 11, 0]]);
    /// # Ok::<(), oxidax::Error>(())
    /// ```
    ///
    /// # Reference
    /// M. Krell, M. Kosec, S. Perez, A. Fitzgibbon: Efficient sequence packing without
    /// cross-contamination, 2021, section 3.
    #[doc(alias = "FirstFitPackIterDataset")]
    #[doc(alias = "pack_dataset")]
    #[track_caller]
    pub fn pack_with(self, length: usize, options: PackOptions) -> Stream<Packed> {
        if length == 0 || i32::try_from(length).is_err() {
            let message = format!("needs a length from 1 to {}, got {length}", i32::MAX);
            throw_operands(NAME, RuleError::value(message), &[]);
        }
        if options.open_rows == 0 {
            throw_operands(NAME, RuleError::value("needs at least 1 open row, got 0"), &[]);
        }
        self.through(|upstream, instruments| Pack {
            upstream,
            length,
            options,
            ready: VecDeque::new(),
            open: Vec::new(),
            read: 0,
            pulled: 0,
            ended: false,
            anchors: Anchors::new(SPACING),
            meter: instruments.stage(NAME, Work::Batch, 1),
        })
    }
}

/// A part of a sequence that is one segment of a row.
struct Piece {
    /// The sequence's number.
    number: u64,
    /// The piece's index in the sequence: 0 unless it was split.
    index: usize,
    sequence: Arc<Item<HostArray>>,
}

impl Piece {
    /// Returns the tokens of the sequence that belong to the piece, in a row of `length` tokens.
    fn range(&self, length: usize) -> std::ops::Range<usize> {
        let start = self.index * length;
        start..self.sequence.value.shape()[0].min(start + length)
    }
}

/// The pieces of a row, and their number of tokens.
#[derive(Default)]
struct Row {
    pieces: Vec<Piece>,
    used: usize,
}

struct Pack {
    upstream: BoxedStage<HostArray>,
    length: usize,
    options: PackOptions,
    /// Rows to be yielded.
    ready: VecDeque<Row>,
    /// Rows with space, in the order in which they were opened.
    open: Vec<Row>,
    /// Sequences read.
    read: u64,
    /// Sequences and errors.
    pulled: u64,
    ended: bool,
    anchors: Anchors,
    meter: Arc<Meter>,
}

impl Pack {
    fn pull(&mut self) -> Option<Result<(u64, Item<HostArray>), Error>> {
        let upstream = &self.upstream;
        self.anchors.before(self.read, self.pulled, |at| upstream.position(at));
        let item = self.upstream.next()?;
        self.pulled += 1;
        Some(item.map(|item| {
            self.read += 1;
            (self.read - 1, item)
        }))
    }

    /// Returns the dtype of the buffered sequences.
    fn dtype(&self) -> Option<DType> {
        let row = self.open.first().or(self.ready.front())?;
        row.pieces.first().map(|piece| piece.sequence.value.dtype())
    }

    /// Checks a sequence, and returns the number of its pieces.
    fn pieces(&self, item: &Item<HostArray>) -> Result<usize, Error> {
        catch_errors(NAME, item.origin.as_ref(), || {
            let aval = item.value.aval();
            if aval.shape.len() != 1 {
                let message = format!("needs sequences of shape [n], got {aval}");
                return Err(Error::data(NAME, message));
            }
            if let Some(dtype) = self.dtype()
                && dtype != aval.dtype
            {
                let message = format!("the sequences before are {dtype}, this one is {aval}");
                return Err(Error::data(NAME, message));
            }
            let tokens = aval.shape[0];
            match self.options.too_long {
                _ if tokens <= self.length => Ok(tokens.min(1)),
                TooLong::Truncate => Ok(1),
                TooLong::Split => Ok(tokens.div_ceil(self.length)),
                TooLong::Error => Err(Error::Data {
                    doing: NAME.into(),
                    place: None,
                    message: format!(
                        "a sequence of {tokens} tokens does not fit into a row of {}",
                        self.length
                    ),
                    loc: Loc::UNKNOWN,
                    help: Some("`TooLong::Split` or `TooLong::Truncate` accepts it".into()),
                }),
            }
        })
    }

    /// Adds a piece to a row. Full rows become ready.
    fn place(&mut self, piece: Piece) {
        let tokens = piece.range(self.length).len();
        let space = |row: &Row| self.length - row.used;
        let fitting = self.open.iter().enumerate().filter(|(_, row)| space(row) >= tokens);
        let chosen = match self.options.strategy {
            PackStrategy::FirstFit => fitting.map(|(at, _)| at).next(),
            PackStrategy::BestFit => fitting.min_by_key(|(_, row)| space(row)).map(|(at, _)| at),
        };
        let at = chosen.unwrap_or_else(|| {
            // A full row is never open, so it needs no slot.
            if tokens < self.length && self.open.len() == self.options.open_rows {
                let oldest = self.open.remove(0);
                self.ready.push_back(oldest);
            }
            self.open.push(Row::default());
            self.open.len() - 1
        });
        let row = &mut self.open[at];
        row.used += tokens;
        row.pieces.push(piece);
        if row.used == self.length {
            let full = self.open.remove(at);
            self.ready.push_back(full);
        }
    }

    fn give(&mut self, row: Row) -> Result<Item<Packed>, Error> {
        for piece in &row.pieces {
            self.anchors.released(piece.number);
        }
        let origin = row.pieces.first().and_then(|piece| piece.sequence.origin.clone());
        let (length, padding) = (self.length, self.options.padding);
        let made = || catch_errors(NAME, origin.as_ref(), || assembled(&row, length, padding));
        let value = self.meter.time(made)?;
        Ok(Item { value, origin })
    }

    fn settings(&self) -> [(&'static str, u64); 4] {
        [
            ("length", self.length as u64),
            ("number of open rows", self.options.open_rows as u64),
            ("strategy (0: first fit, 1: best fit)", self.options.strategy as u64),
            ("handling of long sequences (0: error, 1: truncate, 2: split)", {
                self.options.too_long as u64
            }),
        ]
    }

    fn begin(&mut self) {
        self.ready.clear();
        self.open.clear();
        self.anchors.clear();
        (self.read, self.pulled, self.ended) = (0, 0, false);
    }
}

/// Writes the tokens, segment ids and positions of a row.
fn assembled(row: &Row, length: usize, padding: f64) -> Result<Packed, Error> {
    let dtype = row.pieces[0].sequence.value.dtype();
    let width = dtype.host_bytes();
    let mut tokens = Vec::with_capacity(length * width);
    let (mut segment_ids, mut positions) = (Vec::with_capacity(length), Vec::with_capacity(length));
    for (segment, piece) in (1i32..).zip(&row.pieces) {
        let range = piece.range(length);
        let bytes = piece.sequence.value.as_bytes();
        tokens.extend_from_slice(&bytes[range.start * width..range.end * width]);
        segment_ids.resize(segment_ids.len() + range.len(), segment);
        positions.extend((0..).take(range.len()));
    }
    if row.used < length {
        let element = element(padding, dtype)?;
        tokens.extend(element.iter().cycle().take((length - row.used) * width));
        segment_ids.resize(length, 0);
        positions.resize(length, 0);
    }
    let aval = Aval::new(dtype, [length]);
    Ok(Packed {
        tokens: HostArray::from_bytes(tokens, aval)?,
        segment_ids: HostArray::from_slice::<i32>(&segment_ids, [length])?,
        positions: HostArray::from_slice::<i32>(&positions, [length])?,
    })
}

impl Stage<Packed> for Pack {
    fn next(&mut self) -> Next<Packed> {
        loop {
            if let Some(row) = self.ready.pop_front() {
                return Some(self.give(row));
            }
            if self.ended {
                return None;
            }
            match self.pull() {
                Some(Ok((number, item))) => {
                    let count = match self.pieces(&item) {
                        Ok(count) => count,
                        Err(error) => return Some(Err(error)),
                    };
                    let sequence = Arc::new(item);
                    for index in 0..count {
                        self.anchors.buffered(number);
                        self.place(Piece { number, index, sequence: sequence.clone() });
                    }
                }
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    self.ended = true;
                    self.ready.extend(self.open.drain(..));
                }
            }
        }
    }

    fn position(&self, position: &mut Position) {
        let mut counts: Vec<u64> = self.settings().map(|(_, setting)| setting).to_vec();
        let (read, pulled, anchor) = match self.anchors.oldest() {
            Some((read, pulled, anchor)) => (read, pulled, Some(anchor)),
            None => (self.read, self.pulled, None),
        };
        counts.extend([self.ended.into(), self.read, read, self.pulled - pulled]);
        counts.push(self.ready.len() as u64);
        for row in self.ready.iter().chain(&self.open) {
            counts.push(row.pieces.len() as u64);
            for piece in &row.pieces {
                counts.extend([piece.number, piece.index as u64]);
            }
        }
        position.push(NAME, &counts);
        match anchor {
            Some(anchor) => position.extend(anchor),
            None => self.upstream.position(position),
        }
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let counts = cursor.take_all(NAME, &self.settings())?;
        let [ended, read, from, again, ready, rows @ ..] = counts else {
            return Err(refused(format!("stage `{NAME}` has only {} counts", counts.len())));
        };
        let rows = rows_of(rows)
            .ok_or_else(|| refused(format!("the rows {rows:?} of `{NAME}` are inconsistent")))?;
        let mut buffered: HashMap<u64, usize> = HashMap::new();
        for (number, _) in rows.iter().flatten() {
            *buffered.entry(*number).or_default() += 1;
        }
        self.begin();
        self.upstream.seek(cursor)?;
        self.read = *from;
        let mut sequences = HashMap::new();
        for _ in 0..*again {
            match self.pull() {
                Some(Ok((number, item))) => {
                    for _ in 0..buffered.get(&number).copied().unwrap_or(0) {
                        self.anchors.buffered(number);
                    }
                    if buffered.contains_key(&number) {
                        sequences.insert(number, Arc::new(item));
                    }
                }
                // This error was returned before.
                Some(Err(_)) => {}
                None => break,
            }
        }
        let changed = || {
            let found = sequences.len();
            refused(format!(
                "the data has changed: {read} sequences had been read and {} are in open rows, now \
                 {} are read and {found} found",
                buffered.len(),
                self.read
            ))
        };
        if self.read != *read || sequences.len() != buffered.len() {
            return Err(changed());
        }
        for (at, pieces) in rows.into_iter().enumerate() {
            let mut row = Row::default();
            for (number, index) in pieces {
                let sequence = sequences.get(&number).ok_or_else(changed)?.clone();
                let piece = Piece { number, index, sequence };
                let shape = piece.sequence.value.shape();
                let fits = shape.len() == 1
                    && index.checked_mul(self.length).is_some_and(|start| start < shape[0]);
                if !fits {
                    return Err(changed());
                }
                row.used += piece.range(self.length).len();
                row.pieces.push(piece);
            }
            if row.used > self.length || row.pieces.is_empty() {
                return Err(changed());
            }
            if (at as u64) < *ready {
                self.ready.push_back(row);
            } else {
                self.open.push(row);
            }
        }
        self.ended = *ended != 0;
        Ok(())
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        self.begin();
        self.upstream.restart(epoch)
    }
}

/// Reads the sequence numbers and piece indices of rows. Returns `None` if a row is cut short.
fn rows_of(mut counts: &[u64]) -> Option<Vec<Vec<(u64, usize)>>> {
    let mut rows = Vec::new();
    while let [pieces, rest @ ..] = counts {
        let (row, rest) = rest.split_at_checked(usize::try_from(*pieces).ok()?.checked_mul(2)?)?;
        let row = row.chunks_exact(2).map(|pair| Some((pair[0], usize::try_from(pair[1]).ok()?)));
        rows.push(row.collect::<Option<Vec<_>>>()?);
        counts = rest;
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lengths: &[usize]) -> Stream<HostArray> {
        let texts: Vec<_> = lengths
            .iter()
            .enumerate()
            .map(|(number, &n)| HostArray::from_slice(&vec![number as u16 + 1; n], [n]))
            .collect();
        Stream::new(texts)
    }

    fn rows(lengths: &[usize], length: usize, options: PackOptions) -> Vec<Vec<u16>> {
        let rows = texts(lengths).pack_with(length, options);
        rows.map(|row| row.tokens.to_vec()).collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn strategies_choose_different_rows() {
        let options = |strategy| PackOptions { strategy, ..PackOptions::default() };
        // Rows of 5 with 3 and 4 used: a sequence of 1 goes to the first, or to the fullest.
        let lengths = [3, 4, 1, 2];
        let first = rows(&lengths, 5, options(PackStrategy::FirstFit));
        assert_eq!(first, [[1, 1, 1, 3, 0], [2, 2, 2, 2, 0], [4, 4, 0, 0, 0]]);
        let best = rows(&lengths, 5, options(PackStrategy::BestFit));
        assert_eq!(best, [[2, 2, 2, 2, 3], [1, 1, 1, 4, 4]]);
    }

    #[test]
    fn oldest_row_is_yielded_if_no_row_has_space() {
        let options = PackOptions { open_rows: 1, padding: 9.0, ..PackOptions::default() };
        assert_eq!(rows(&[3, 3, 1], 4, options), [[1, 1, 1, 9], [2, 2, 2, 3]]);
    }

    #[test]
    fn long_sequences_follow_the_option() {
        let options = |too_long| PackOptions { too_long, ..PackOptions::default() };
        assert_eq!(rows(&[5, 1], 3, options(TooLong::Truncate)), [[1, 1, 1], [2, 0, 0]]);
        assert_eq!(rows(&[5, 1], 3, options(TooLong::Split)), [[1, 1, 1], [1, 1, 2]]);
        assert_eq!(rows(&[6, 0, 1], 3, options(TooLong::Split)), [[1; 3], [1; 3], [3, 0, 0]]);
        let mut stream = texts(&[5, 1]).pack(3);
        let error = stream.next().unwrap().unwrap_err().to_string();
        let (message, rest) = error.split_once("\n   --> src/data/stages/pack.rs:").unwrap();
        let expected = "error[data]: pack: a sequence of 5 tokens does not fit into a row of 3";
        assert_eq!(message, expected);
        let help = "\n  help: `TooLong::Split` or `TooLong::Truncate` accepts it";
        assert!(rest.ends_with(help), "{error}");
        assert!(stream.next().unwrap().is_ok());
        assert!(stream.next().is_none());
    }

    #[test]
    fn wrong_arrays_and_options_are_refused() {
        let matrix = HostArray::from_slice(&[1i32], [1, 1]);
        let floats = HostArray::from_slice(&[1f32], [1]);
        let ids = HostArray::from_slice(&[1i32], [1]);
        let items: Vec<_> = Stream::new([ids, matrix, floats]).pack(4).collect();
        let errors = items.iter().filter_map(|item| item.as_ref().err().map(Error::to_string));
        let first_lines: Vec<String> =
            errors.map(|error| error.lines().next().unwrap().to_owned()).collect();
        assert_eq!(
            first_lines,
            [
                "error[data]: pack: needs sequences of shape [n], got i32[1,1]",
                "error[data]: pack: the sequences before are i32, this one is f32[1]",
            ]
        );
        assert_eq!(items.len(), 3);
        let error = crate::catch(|| texts(&[1]).pack(0)).unwrap_err().to_string();
        assert!(error.starts_with("error[value]: pack: needs a length from 1"), "{error}");
    }
}
