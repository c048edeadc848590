//! The addresses of blocks.
//!
//! Regions come from the system, and blocks are cut from them, from the smallest idle range that
//! fits. Freed neighbours merge. Before a region would make the pool larger than the most memory
//! that was in use at one time plus [`SLACK`], idle memory is returned to the system. That bounds
//! the pool for every sequence of sizes, except for fragments smaller than a huge page.

use std::collections::{BTreeMap, BTreeSet};

use super::mapping::Region;

/// Addresses and lengths of blocks are multiples of this many bytes, the largest size of a page.
pub(super) const GRAIN: usize = 1 << 16;

/// Regions are multiples of this many bytes, the size of a huge page on x86-64, and aligned to it.
pub(super) const HUGE_PAGE: usize = 1 << 21;

/// The smallest region. Small blocks share one.
const LEAST_REGION: usize = 1 << 25;

/// The memory that the pool may hold beyond the most that was in use at one time.
const SLACK: usize = LEAST_REGION;

/// The smallest released block whose memory the system may reclaim.
const LEAST_RECLAIMED: usize = 1 << 25;

/// The memory that [`Blocks`] take from and return to. Tests replace the system's.
pub(super) trait Source {
    /// Maps `bytes`, a multiple of [`HUGE_PAGE`]. Returns the address, a multiple of it too.
    fn map(&mut self, bytes: usize) -> Option<usize>;
    /// Returns a range of mapped memory to the system. Both numbers are multiples of
    /// [`HUGE_PAGE`].
    fn unmap(&mut self, range: Region);
    /// Lets the system reclaim a range while memory is short. Its contents become undefined.
    fn make_reclaimable(&mut self, range: Region);
}

/// Blocks in use, and idle ranges by address and by length.
pub(super) struct Blocks<S> {
    source: S,
    /// Lengths of blocks in use, by address.
    used: BTreeMap<usize, usize>,
    /// Lengths of idle ranges, by address. No two of them touch.
    idle: BTreeMap<usize, usize>,
    /// The idle ranges as (length, address).
    idle_by_length: BTreeSet<(usize, usize)>,
    in_use: usize,
    held: usize,
    peak: usize,
}

impl<S> Blocks<S> {
    pub(super) const fn new(source: S) -> Blocks<S> {
        Blocks {
            source,
            used: BTreeMap::new(),
            idle: BTreeMap::new(),
            idle_by_length: BTreeSet::new(),
            in_use: 0,
            held: 0,
            peak: 0,
        }
    }

    /// Returns the bytes of blocks in use.
    pub(super) fn in_use(&self) -> usize {
        self.in_use
    }

    /// Returns the bytes that are mapped.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Returns the most bytes that were in use at one time.
    pub(super) fn peak(&self) -> usize {
        self.peak
    }
}

impl<S: Source> Blocks<S> {
    /// Returns the address of a block of at least `bytes`, a multiple of [`GRAIN`]. `None` if the
    /// system has no memory.
    pub(super) fn allocate(&mut self, bytes: usize) -> Option<usize> {
        let length = bytes.max(1).checked_next_multiple_of(GRAIN)?;
        let (address, available) = match self.idle_by_length.range((length, 0)..).next() {
            Some(&(available, address)) => {
                self.remove_idle(address, available);
                (address, available)
            }
            None => self.grow(length)?,
        };
        if available > length {
            self.insert_idle(address + length, available - length);
        }
        self.used.insert(address, length);
        self.in_use += length;
        self.peak = self.peak.max(self.in_use);
        Some(address)
    }

    /// Takes back a block. Returns false if the address is not that of a block in use.
    pub(super) fn release(&mut self, address: usize) -> bool {
        let Some(length) = self.used.remove(&address) else { return false };
        self.in_use -= length;
        if length >= LEAST_RECLAIMED
            && let Some(range) = whole_huge_pages(address, length)
        {
            self.source.make_reclaimable(range);
        }
        self.insert_idle(address, length);
        true
    }

    /// Returns the length of a block in use.
    pub(super) fn length(&self, address: usize) -> Option<usize> {
        self.used.get(&address).copied()
    }

    /// Returns idle memory to the system until the pool holds at most `target` bytes, or nothing
    /// idle is left that can be returned.
    pub(super) fn shrink(&mut self, target: usize) {
        let mut smaller = (usize::MAX, usize::MAX);
        while self.held > target {
            let Some(&(length, address)) = self.idle_by_length.range(..smaller).next_back() else {
                return;
            };
            smaller = (length, address);
            // Only whole huge pages are returned, so that none is split.
            let Some(range) = whole_huge_pages(address, length) else { continue };
            let end = range.start + range.length;
            let excess = (self.held - target).next_multiple_of(HUGE_PAGE);
            let start = range.start.max(end.saturating_sub(excess));
            self.remove_idle(address, length);
            self.source.unmap(Region { start, length: end - start });
            self.held -= end - start;
            if start > address {
                self.insert_idle(address, start - address);
            }
            if address + length > end {
                self.insert_idle(end, address + length - end);
            }
        }
    }

    /// Takes a region with room for `length` bytes from the system.
    fn grow(&mut self, length: usize) -> Option<(usize, usize)> {
        let region = length.max(LEAST_REGION).checked_next_multiple_of(HUGE_PAGE)?;
        let bound = self.peak.max(self.in_use + length) + SLACK;
        self.shrink(bound.saturating_sub(region));
        let address = match self.source.map(region) {
            Some(address) => address,
            None => {
                self.shrink(0);
                self.source.map(region)?
            }
        };
        self.held += region;
        // The region may continue an idle range before or after it.
        self.insert_idle(address, region);
        let (&start, &available) = self.idle.range(..=address).next_back()?;
        self.remove_idle(start, available);
        Some((start, available))
    }

    fn remove_idle(&mut self, address: usize, length: usize) {
        self.idle.remove(&address);
        self.idle_by_length.remove(&(length, address));
    }

    /// Adds an idle range and merges it with the idle ranges that touch it.
    fn insert_idle(&mut self, mut address: usize, mut length: usize) {
        if let Some((&before, &before_length)) = self.idle.range(..address).next_back()
            && before + before_length == address
        {
            self.remove_idle(before, before_length);
            address = before;
            length += before_length;
        }
        if let Some(&after_length) = self.idle.get(&(address + length)) {
            self.remove_idle(address + length, after_length);
            length += after_length;
        }
        self.idle.insert(address, length);
        self.idle_by_length.insert((length, address));
    }
}

/// Returns the part of a range that consists of whole huge pages, if there is one.
fn whole_huge_pages(address: usize, length: usize) -> Option<Region> {
    let start = address.next_multiple_of(HUGE_PAGE);
    let end = (address + length) / HUGE_PAGE * HUGE_PAGE;
    (start < end).then(|| Region { start, length: end - start })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system with a limit that checks what it is asked for.
    #[derive(Default)]
    struct Fake {
        mapped: BTreeMap<usize, usize>,
        limit: usize,
        next: usize,
        maps: usize,
    }

    impl Fake {
        fn bytes(&self) -> usize {
            self.mapped.values().sum()
        }
    }

    impl Source for Fake {
        fn map(&mut self, bytes: usize) -> Option<usize> {
            assert!(bytes.is_multiple_of(HUGE_PAGE));
            if self.bytes() + bytes > self.limit {
                return None;
            }
            self.maps += 1;
            // Every second region touches the one before it.
            self.next += if self.maps.is_multiple_of(2) { HUGE_PAGE } else { 0 };
            let address = self.next.max(HUGE_PAGE);
            self.next = address + bytes;
            for page in (address..address + bytes).step_by(HUGE_PAGE) {
                self.mapped.insert(page, HUGE_PAGE);
            }
            Some(address)
        }

        fn unmap(&mut self, range: Region) {
            for page in (range.start..range.start + range.length).step_by(HUGE_PAGE) {
                self.mapped.remove(&page).expect("mapped pages only");
            }
        }

        fn make_reclaimable(&mut self, range: Region) {
            for page in (range.start..range.start + range.length).step_by(HUGE_PAGE) {
                assert!(self.mapped.contains_key(&page), "{page:x} is not mapped");
            }
        }
    }

    fn pool(limit: usize) -> Blocks<Fake> {
        Blocks::new(Fake { limit, ..Fake::default() })
    }

    /// Checks that blocks and idle ranges tile the mapped pages.
    fn check(blocks: &Blocks<Fake>) {
        let mut ranges: Vec<(usize, usize)> = blocks
            .used
            .iter()
            .chain(&blocks.idle)
            .map(|(&start, &length)| (start, length))
            .collect();
        ranges.sort_unstable();
        for pair in ranges.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?} overlap");
        }
        assert_eq!(ranges.iter().map(|range| range.1).sum::<usize>(), blocks.held);
        assert_eq!(blocks.source.bytes(), blocks.held);
        for (start, length) in ranges {
            let first = start / HUGE_PAGE * HUGE_PAGE;
            for page in (first..start + length).step_by(HUGE_PAGE) {
                assert!(blocks.source.mapped.contains_key(&page), "{page:x} is in use, unmapped");
            }
        }
        assert_eq!(blocks.used.values().sum::<usize>(), blocks.in_use);
        assert_eq!(blocks.idle.len(), blocks.idle_by_length.len());
        let fragments = 2 * HUGE_PAGE * (blocks.used.len() + 1);
        assert!(blocks.held <= blocks.peak + SLACK + HUGE_PAGE + fragments);
    }

    #[test]
    fn random_sequences_tile_memory_and_stay_within_the_peak() {
        let mut state = 1u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let mut blocks = pool(1 << 40);
        let mut live: Vec<usize> = Vec::new();
        for step in 0..4000 {
            // Grows and shrinks in waves, with sizes from one grain to 100 MiB.
            let grows = random(100) < if step / 500 % 2 == 0 { 60 } else { 40 };
            if live.is_empty() || (grows && live.len() < 40) {
                let most = 1 << (17 + random(10));
                let size = (1 << 16) + random(most);
                live.push(blocks.allocate(size).expect("memory"));
            } else {
                let address = live.swap_remove(random(live.len()));
                assert!(blocks.release(address));
                assert!(!blocks.release(address), "released twice");
            }
            check(&blocks);
        }
        live.drain(..).for_each(|address| assert!(blocks.release(address)));
        blocks.shrink(0);
        check(&blocks);
        assert_eq!((blocks.held, blocks.in_use), (0, 0));
    }

    #[test]
    fn equal_steps_map_nothing_new() {
        let mut blocks = pool(1 << 40);
        let mut step = || {
            let addresses: Vec<usize> = [500 << 20, 3 << 20, 77 << 20, 1 << 20]
                .map(|size| blocks.allocate(size).expect("memory"))
                .to_vec();
            addresses.into_iter().for_each(|address| assert!(blocks.release(address)));
            blocks.source.maps
        };
        let first = step();
        assert!(first > 0);
        assert!((0..100).all(|_| step() == first));
    }

    #[test]
    fn idle_memory_is_returned_before_the_system_runs_out() {
        let mut blocks = pool(100 << 20);
        let small = blocks.allocate(60 << 20).expect("memory");
        assert!(blocks.release(small));
        let large = blocks.allocate(90 << 20).expect("idle memory is returned first");
        assert_eq!(blocks.allocate(60 << 20), None);
        assert!(blocks.release(large));
        assert_eq!(blocks.allocate(usize::MAX), None);
        check(&blocks);
    }
}
