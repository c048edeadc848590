//! Weighted mixtures of several streams.

use crate::core::{Error, RuleError, throw_operands};
use crate::data::instruments::Instruments;
use crate::data::origin::Next;
use crate::data::position::{Cursor, Position, epoch_seed, mix_bits, refused};
use crate::data::stream::{BoxedStage, Stage, Stream};

const NAME: &str = "mix";

/// The end of a [`mix`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[doc(alias = "stop_on_empty_dataset")]
pub enum MixEnd {
    /// The mixture ends when a stream that was drawn has no item left. Until then the shares equal
    /// the weights.
    #[default]
    FirstExhausted,
    /// A stream that has ended leaves the mixture. The mixture ends after the last.
    AllExhausted,
    /// A stream that has ended starts its next epoch. The mixture has no end, unless a stream has
    /// an epoch without items: that stream leaves the mixture.
    Repeat,
}

/// Options of [`mix`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MixOptions {
    /// The seed of the draws.
    pub seed: u64,
    /// The end of the mixture.
    pub end: MixEnd,
}

/// Draws each item from one of several streams, at random in proportion to their weights.
///
/// The order depends on the seed only. Errors count as items. A position stores the number of draws
/// and the position of each stream, so a mixture resumes with exactly the remaining items.
///
/// Throws `Op` (value) if there is no stream, or a weight is negative, infinite or NaN, or all are
/// 0.
///
/// ```
/// use oxidax::data::{self, MixEnd, MixOptions, Source, Synthetic};
/// let web = || Synthetic::new(700, |n| Ok(("web", n))).shuffled(1).stream();
/// let code = || Synthetic::new(100, |n| Ok(("code", n))).shuffled(2).stream();
/// let options = MixOptions { seed: 7, end: MixEnd::Repeat };
/// let mixed = data::mix([(web(), 0.75), (code(), 0.25)], options).take(10_000);
/// let items = mixed.collect::<Result<Vec<_>, _>>()?;
/// let code_items = items.iter().filter(|(name, _)| *name == "code").count();
/// assert!((2400..2600).contains(&code_items));
/// # Ok::<(), oxidax::Error>(())
/// ```
#[doc(alias = "sample_from_datasets")]
#[doc(alias = "MapDataset.mix")]
#[track_caller]
pub fn mix<T: Send + 'static>(
    streams: impl IntoIterator<Item = (Stream<T>, f64)>,
    options: MixOptions,
) -> Stream<T> {
    let mut instruments = Instruments::default();
    let (mut parts, mut weights) = (Vec::new(), Vec::new());
    for (stream, weight) in streams {
        let (upstream, clocks) = stream.into_parts();
        instruments.join(clocks);
        parts.push(Part { upstream, weight, round: 0, items: 0, ended: false });
        weights.push(weight);
    }
    let valid = weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0);
    let total: f64 = weights.iter().sum();
    if !valid || total <= 0.0 || !total.is_finite() {
        let message = format!("needs weights of at least 0 with a positive sum, got {weights:?}");
        throw_operands(NAME, RuleError::value(message), &[]);
    }
    Stream::of(Mix { parts, options, epoch: 0, draws: 0, ended: false }, instruments)
}

struct Part<T> {
    upstream: BoxedStage<T>,
    weight: f64,
    /// Epochs completed, with [`MixEnd::Repeat`].
    round: u64,
    /// Items of this epoch, without errors.
    items: u64,
    ended: bool,
}

struct Mix<T> {
    parts: Vec<Part<T>>,
    options: MixOptions,
    epoch: u64,
    draws: u64,
    ended: bool,
}

impl<T> Mix<T> {
    /// Returns the stream of a draw, or `None` if all have ended.
    fn drawn(&self, draw: u64) -> Option<usize> {
        let weight = |part: &Part<T>| if part.ended { 0.0 } else { part.weight };
        let total: f64 = self.parts.iter().map(weight).sum();
        let bits = mix_bits(epoch_seed(self.options.seed, self.epoch) ^ mix_bits(draw));
        // 53 bits, the precision of an `f64`.
        let mut left = (bits >> 11) as f64 / (1u64 << 53) as f64 * total;
        let drawable = self.parts.iter().enumerate().filter(|(_, part)| weight(part) > 0.0);
        let mut last = None;
        for (at, part) in drawable {
            last = Some(at);
            left -= part.weight;
            if left < 0.0 {
                break;
            }
        }
        last
    }

    fn settings(&self) -> [(&'static str, u64); 3] {
        [
            ("number of streams", self.parts.len() as u64),
            ("seed", self.options.seed),
            ("end (0: first exhausted, 1: all exhausted, 2: repeat)", self.options.end as u64),
        ]
    }
}

impl<T: Send> Stage<T> for Mix<T> {
    fn next(&mut self) -> Next<T> {
        while !self.ended {
            let Some(at) = self.drawn(self.draws) else {
                self.ended = true;
                break;
            };
            let part = &mut self.parts[at];
            match part.upstream.next() {
                Some(item) => {
                    self.draws += 1;
                    part.items += u64::from(item.is_ok());
                    return Some(item);
                }
                None => match self.options.end {
                    MixEnd::FirstExhausted => self.ended = true,
                    MixEnd::AllExhausted => part.ended = true,
                    MixEnd::Repeat if part.items == 0 => part.ended = true,
                    MixEnd::Repeat => {
                        part.round += 1;
                        part.items = 0;
                        let restarted =
                            part.upstream.restart(self.epoch.saturating_add(part.round));
                        if let Err(error) = restarted {
                            self.ended = true;
                            return Some(Err(error));
                        }
                    }
                },
            }
        }
        None
    }

    fn position(&self, position: &mut Position) {
        let mut counts: Vec<u64> = self.settings().map(|(_, setting)| setting).to_vec();
        counts.extend([self.epoch, self.draws, self.ended.into()]);
        for part in &self.parts {
            counts.extend([part.weight.to_bits(), part.round, part.items, part.ended.into()]);
        }
        position.push(NAME, &counts);
        for part in &self.parts {
            part.upstream.position(position);
        }
    }

    fn seek(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let counts = cursor.take_all(NAME, &self.settings())?;
        let [epoch, draws, ended, parts @ ..] = counts else {
            return Err(refused(format!("stage `{NAME}` has only {} counts", counts.len())));
        };
        let (parts, rest) = parts.as_chunks::<4>();
        if parts.len() != self.parts.len() || !rest.is_empty() {
            return Err(refused(format!("the counts {counts:?} of `{NAME}` are inconsistent")));
        }
        for (at, (part, [weight, round, items, ended])) in
            self.parts.iter_mut().zip(parts).enumerate()
        {
            let weight = f64::from_bits(*weight);
            if weight.to_bits() != part.weight.to_bits() {
                return Err(refused(format!(
                    "the weight of stream {at} of `{NAME}` was {weight}, in this pipeline it is {}",
                    part.weight
                )));
            }
            (part.round, part.items, part.ended) = (*round, *items, *ended != 0);
            part.upstream.seek(cursor)?;
        }
        (self.epoch, self.draws, self.ended) = (*epoch, *draws, *ended != 0);
        Ok(())
    }

    fn restart(&mut self, epoch: u64) -> Result<(), Error> {
        for part in &mut self.parts {
            part.upstream.restart(epoch)?;
            (part.round, part.items, part.ended) = (0, 0, false);
        }
        (self.epoch, self.draws, self.ended) = (epoch, 0, false);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(from: u64, to: u64) -> Stream<u64> {
        Stream::from_generator(move |epoch| (from..to).map(move |n| Ok(n + 1000 * epoch)))
    }

    fn mixed(end: MixEnd, weights: [f64; 2]) -> Stream<u64> {
        let streams = [numbers(0, 20), numbers(100, 110)];
        mix(streams.into_iter().zip(weights), MixOptions { seed: 3, end })
    }

    #[test]
    fn all_items_appear_once_in_the_order_of_their_stream() {
        let items: Vec<u64> =
            mixed(MixEnd::AllExhausted, [1.0, 2.0]).collect::<Result<_, _>>().unwrap();
        let of = |first: bool| items.iter().copied().filter(move |n| (*n < 100) == first);
        assert_eq!(of(true).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
        assert_eq!(of(false).collect::<Vec<_>>(), (100..110).collect::<Vec<_>>());
        assert_ne!(items[..20], (0..20).collect::<Vec<_>>()[..]);
    }

    #[test]
    fn mixture_ends_with_its_first_stream() {
        let items: Vec<u64> =
            mixed(MixEnd::FirstExhausted, [1.0, 1.0]).collect::<Result<_, _>>().unwrap();
        let small = items.iter().filter(|n| **n >= 100).count();
        assert!(small == 10 || items.len() - small == 20, "{items:?}");
        assert!(items.len() < 30, "{items:?}");
    }

    #[test]
    fn repeated_streams_have_new_epochs() {
        let items: Vec<u64> =
            mixed(MixEnd::Repeat, [1.0, 1.0]).take(200).collect::<Result<_, _>>().unwrap();
        let small: Vec<u64> = items.iter().copied().filter(|n| n % 1000 >= 100).collect();
        let expected = (0..).flat_map(|epoch| (100..110).map(move |n| n + 1000 * epoch));
        assert_eq!(small, expected.take(small.len()).collect::<Vec<_>>());
        assert!(small.len() > 80 && small.len() < 120, "{}", small.len());
    }

    #[test]
    fn empty_streams_do_not_hang_a_mixture() {
        let empty = || numbers(0, 0);
        for end in [MixEnd::FirstExhausted, MixEnd::AllExhausted, MixEnd::Repeat] {
            let options = MixOptions { seed: 0, end };
            assert_eq!(mix([(empty(), 1.0), (empty(), 0.0)], options).count(), 0);
        }
        let options = MixOptions { seed: 0, end: MixEnd::Repeat };
        assert_eq!(mix([(empty(), 1.0), (numbers(0, 3), 1e-3)], options).take(7).count(), 7);
    }

    #[test]
    fn wrong_weights_are_refused() {
        for weights in [[0.0, 0.0], [1.0, -1.0], [f64::NAN, 1.0], [f64::INFINITY, 1.0]] {
            let error = crate::catch(|| mixed(MixEnd::Repeat, weights)).unwrap_err().to_string();
            assert!(error.starts_with("error[value]: mix: needs weights of at least 0"), "{error}");
        }
        let mut stream = mixed(MixEnd::Repeat, [1.0, 2.0]);
        stream.next();
        let other = mixed(MixEnd::Repeat, [1.0, 3.0]).resume(&stream.position());
        let error = other.unwrap_err().to_string();
        assert!(error.contains("the weight of stream 1 of `mix` was 2"), "{error}");
    }
}
