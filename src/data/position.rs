//! Positions of a stream: saving and resuming.

use crate::core::{Error, Loc};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;

/// The position of a [`Stream`](super::Stream) between two items: a few numbers per stage. Store it
/// beside the model in any format that serde writes.
///
/// An equal pipeline resumes from it with exactly the remaining items. Settings that do not affect
/// the items (`prefetch`, the depth of `to_device`, the workers of `parallel_map`) may differ.
///
/// ```
/// use oxidax::data::{Position, Source, Synthetic};
/// let numbers = || Synthetic::new(10, |index| Ok(index)).shuffled(7).stream();
/// let mut stream = numbers();
/// let head: Vec<usize> = stream.by_ref().take(4).collect::<Result<_, _>>()?;
/// let stored = serde_json::to_string(&stream.position()).unwrap();
/// assert_eq!(stored, r#"[["index",[10,3477641074,0,4]]]"#);
///
/// let position: Position = serde_json::from_str(&stored).unwrap();
/// let tail: Vec<usize> = numbers().resume(&position)?.collect::<Result<_, _>>()?;
/// assert_eq!([head, tail].concat(), numbers().collect::<Result<Vec<_>, _>>()?);
/// # Ok::<(), oxidax::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[doc(alias = "get_state")]
pub struct Position {
    /// Counts of each stage, from the last stage to the first.
    stages: Vec<(Cow<'static, str>, SmallVec<[u64; 4]>)>,
}

impl Position {
    /// Adds the counts of a stage.
    pub(super) fn push(&mut self, stage: &'static str, counts: &[u64]) {
        self.stages.push((Cow::Borrowed(stage), SmallVec::from_slice(counts)));
    }

    pub(super) fn extend(&mut self, other: &Position) {
        self.stages.extend_from_slice(&other.stages);
    }

    pub(super) fn cursor(&self) -> Cursor<'_> {
        Cursor { position: self, at: 0 }
    }
}

/// Reads a position stage by stage.
pub(super) struct Cursor<'a> {
    position: &'a Position,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Returns the counts of the next stage. Its first numbers are `settings`, which must be
    /// unchanged.
    pub(super) fn take<const N: usize>(
        &mut self,
        stage: &str,
        settings: &[(&str, u64)],
    ) -> Result<[u64; N], Error> {
        let counts = self.take_all(stage, settings)?;
        counts.try_into().map_err(|_| {
            refused(format!("stage `{stage}` has {} counts, expected {N}", counts.len()))
        })
    }

    /// Returns the counts of a stage whose number of counts varies.
    pub(super) fn take_all(
        &mut self,
        stage: &str,
        settings: &[(&str, u64)],
    ) -> Result<&'a [u64], Error> {
        let Some((found, counts)) = self.position.stages.get(self.at) else {
            return Err(refused(format!(
                "the position ends after {} stages, where this pipeline has `{stage}`",
                self.at
            )));
        };
        if found != stage {
            return Err(refused(format!(
                "stage {} of the position is `{found}`, of this pipeline `{stage}`",
                self.at
            )));
        }
        for (at, (what, expected)) in settings.iter().enumerate() {
            match counts.get(at) {
                Some(found) if found == expected => {}
                found => {
                    let found = found.map_or("none".to_owned(), u64::to_string);
                    return Err(refused(format!(
                        "the {what} of `{stage}` was {found}, in this pipeline it is {expected}"
                    )));
                }
            }
        }
        self.at += 1;
        Ok(&counts[settings.len()..])
    }

    /// Returns an error if stages are left.
    pub(super) fn finish(&self) -> Result<(), Error> {
        match self.position.stages.get(self.at) {
            None => Ok(()),
            Some((stage, _)) => Err(refused(format!(
                "the position has another stage, `{stage}`, before the start of this pipeline"
            ))),
        }
    }
}

/// Returns the error for a position that does not match the pipeline.
pub(super) fn refused(message: impl fmt::Display) -> Error {
    let help = "build the pipeline as it was when the position was saved";
    Error::Data {
        doing: "resume".into(),
        place: None,
        message: message.to_string(),
        loc: Loc::UNKNOWN,
        help: Some(help.into()),
    }
}

/// Returns a different seed for each epoch. The first epoch uses the seed itself.
pub(super) fn epoch_seed(seed: u64, epoch: u64) -> u64 {
    match epoch {
        0 => seed,
        _ => mix_bits(seed ^ mix_bits(epoch)),
    }
}

/// Mixes the bits of a number with the finalizer of SplitMix64.
///
/// # Reference
/// G. Steele, D. Lea, C. Flood: Fast splittable pseudorandom number generators, 2014.
pub(super) fn mix_bits(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Upstream positions from which a stage can read its buffered items again.
///
/// A stage that shuffles reads ahead. Every `spacing` items it records the upstream position, and
/// drops the record when no item read since then is buffered.
pub(super) struct Anchors {
    spacing: u64,
    notes: std::collections::VecDeque<Note>,
}

struct Note {
    /// Items read before this position.
    read: u64,
    /// Items and errors read before this position.
    pulled: u64,
    position: Position,
    /// Items after this position, and before the next one, that are buffered.
    buffered: u64,
}

impl Anchors {
    pub(super) fn new(spacing: u64) -> Anchors {
        Anchors { spacing: spacing.max(1), notes: std::collections::VecDeque::new() }
    }

    pub(super) fn clear(&mut self) {
        self.notes.clear();
    }

    /// Records the upstream position if one is due. Call it before item number `read` is read,
    /// after `pulled` items and errors.
    pub(super) fn before(&mut self, read: u64, pulled: u64, position: impl FnOnce(&mut Position)) {
        let due = self.notes.back().is_none_or(|note| read - note.read >= self.spacing);
        if due {
            let mut at = Position::default();
            position(&mut at);
            self.notes.push_back(Note { read, pulled, position: at, buffered: 0 });
            self.forget();
        }
    }

    /// Marks item number `ordinal`, the last one read, as buffered.
    pub(super) fn buffered(&mut self, ordinal: u64) {
        if let Some(note) = self.notes.back_mut() {
            debug_assert!(note.read <= ordinal, "an item is read after its note");
            note.buffered += 1;
        }
    }

    /// Marks item number `ordinal` as no longer buffered.
    pub(super) fn released(&mut self, ordinal: u64) {
        let after = self.notes.partition_point(|note| note.read <= ordinal);
        if let Some(note) = after.checked_sub(1).and_then(|at| self.notes.get_mut(at)) {
            note.buffered -= 1;
        }
        self.forget();
    }

    /// Drops positions before the oldest needed one. The last stays for the items read next.
    fn forget(&mut self) {
        while self.notes.len() > 1 && self.notes.front().is_some_and(|note| note.buffered == 0) {
            self.notes.pop_front();
        }
    }

    /// Returns the oldest needed position: the items read before it, the items and errors pulled
    /// before it, and the position. Returns `None` if nothing has been read.
    pub(super) fn oldest(&self) -> Option<(u64, u64, &Position)> {
        self.notes.front().map(|note| (note.read, note.pulled, &note.position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn position() -> Position {
        let mut position = Position::default();
        position.push("shuffle", &[100, 7, 3]);
        position.push("index", &[10, 0, 4]);
        position
    }

    #[test]
    fn positions_of_other_pipelines_are_refused() {
        let position = position();
        let mut cursor = position.cursor();
        let error = cursor.take::<1>("batch", &[]).unwrap_err().to_string();
        expect![[r#"
            error[data]: resume: stage 0 of the position is `shuffle`, of this pipeline `batch`
              help: build the pipeline as it was when the position was saved"#]]
        .assert_eq(&error);
        let error = cursor.take::<1>("shuffle", &[("capacity", 100), ("seed", 8)]);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("the seed of `shuffle` was 7, in this pipeline it is 8"), "{error}");
        assert_eq!(cursor.take("shuffle", &[("capacity", 100), ("seed", 7)]).unwrap(), [3]);
        assert!(cursor.finish().unwrap_err().to_string().contains("has another stage, `index`"));
        assert!(cursor.take::<9>("index", &[]).unwrap_err().to_string().contains("has 3 counts"));
        let error = cursor.take::<0>("index", &[]).unwrap_err().to_string();
        assert!(error.contains("the position ends after 2 stages"), "{error}");
    }

    #[test]
    fn anchors_are_kept_while_their_items_are_buffered() {
        let mut anchors = Anchors::new(2);
        for read in 0..6 {
            anchors.before(read, read, |at| at.push("at", &[read]));
            anchors.buffered(read);
        }
        let oldest = |anchors: &Anchors| anchors.oldest().unwrap().0;
        assert_eq!(oldest(&anchors), 0);
        anchors.released(3);
        anchors.released(0);
        assert_eq!(oldest(&anchors), 0);
        anchors.released(1);
        assert_eq!(oldest(&anchors), 2);
        anchors.released(2);
        assert_eq!(oldest(&anchors), 4);
        anchors.released(4);
        anchors.released(5);
        assert_eq!(oldest(&anchors), 4);
    }
}
