//! Attention to keys and values in pages.

use crate::ops::support::{assert_close, f64s};
use oxidax::kernels::{PagedAttentionOptions, paged_attention, paged_attention_with, write_pages};
use oxidax::prelude::*;

fn as_f64(x: &Array) -> Vec<f64> {
    f64s(&x.astype(DType::F64))
}

/// A ragged batch: sizes, and operands.
struct Batch {
    /// Sequences, query heads, key heads, features.
    sizes: [usize; 4],
    page: usize,
    lengths: Vec<i32>,
    table: Vec<i32>,
    query: Array,
    keys: Array,
    values: Array,
}

impl Batch {
    fn new(sizes: [usize; 4], page: usize, pages: usize, lengths: &[i32], dtype: DType) -> Batch {
        let [b, n, kh, h] = sizes;
        let n_pages = b * pages + 3;
        let normal = |key, shape: &[usize]| random::normal(random::key(key), shape).astype(dtype);
        Batch {
            sizes,
            page,
            lengths: lengths.to_vec(),
            table: (0..b * pages).map(|index| ((index * 7 + 2) % n_pages) as i32).collect(),
            query: normal(0, &[b, n, h]),
            keys: normal(1, &[kh, n_pages, page, h]),
            values: normal(2, &[kh, n_pages, page, h]),
        }
    }

    fn operands(&self) -> [Array; 5] {
        let b = self.sizes[0];
        let lengths = Array::from_slice(&self.lengths, [b]).unwrap();
        let table = Array::from_slice(&self.table, [b, self.table.len() / b]).unwrap();
        [self.query.clone(), self.keys.clone(), self.values.clone(), lengths, table]
    }

    fn attention(&self, options: &PagedAttentionOptions) -> Array {
        let with_options = options.clone();
        let run = jit(move |q: &Array, k: &Array, v: &Array, lengths: &Array, table: &Array| {
            paged_attention_with(q, k, v, lengths, table, &with_options)
        });
        let [q, k, v, lengths, table] = &self.operands();
        run.call(q, k, v, lengths, table).unwrap()
    }

    /// Computes the attention in `f64`, by loops.
    fn by_loops(&self, options: &PagedAttentionOptions) -> Vec<f64> {
        let [b, n, kh, h] = self.sizes;
        let [q, k, v] = [&self.query, &self.keys, &self.values].map(as_f64);
        let (n_pages, per_sequence) = (self.keys.shape()[1], self.table.len() / b);
        let mut means = vec![0.0; b * n * h];
        for (sequence, &length) in self.lengths.iter().enumerate() {
            let length = length as usize;
            let first = options.window.map_or(0, |window| length.saturating_sub(window));
            for head in 0..n {
                let row = |key: usize| {
                    let page = self.table[sequence * per_sequence + key / self.page] as usize;
                    let of_head = head / (n / kh) * n_pages;
                    ((of_head + page) * self.page + key % self.page) * h
                };
                let at = (sequence * n + head) * h;
                let score = |key: usize| {
                    let dot: f64 = (0..h).map(|i| q[at + i] * k[row(key) + i]).sum();
                    let scaled = dot * options.scale.unwrap_or(1.0 / (h as f64).sqrt());
                    options.soft_cap.map_or(scaled, |cap| cap * (scaled / cap).tanh())
                };
                let weights: Vec<f64> = (first..length).map(|key| score(key).exp()).collect();
                let total: f64 = weights.iter().sum();
                for (key, weight) in (first..length).zip(&weights) {
                    for i in 0..h {
                        means[at + i] += weight / total * v[row(key) + i];
                    }
                }
            }
        }
        means
    }

    fn check(&self, options: &PagedAttentionOptions, tolerance: f64) {
        assert_close(&as_f64(&self.attention(options)), &self.by_loops(options), tolerance);
    }
}

/// Options without, and with every property.
fn all_options(interpret: bool) -> [PagedAttentionOptions; 4] {
    let options = PagedAttentionOptions { interpret, ..PagedAttentionOptions::default() };
    [
        options.clone(),
        PagedAttentionOptions { window: Some(5), ..options.clone() },
        PagedAttentionOptions {
            pages_per_block: Some(1),
            window: Some(17),
            soft_cap: Some(2.0),
            ..options.clone()
        },
        PagedAttentionOptions { pages_per_block: Some(3), scale: Some(0.7), ..options },
    ]
}

mod on_cpu {
    use super::*;

    #[test]
    fn equals_sums_over_the_keys_of_each_sequence() {
        let batch = |dtype| Batch::new([4, 6, 2, 24], 8, 5, &[0, 1, 40, 17], dtype);
        for options in [all_options(false), all_options(true)].concat() {
            batch(DType::F32).check(&options, 1e-5);
        }
        for interpret in [false, true] {
            batch(DType::BF16).check(&all_options(interpret)[3], 2e-2);
        }
    }

    #[test]
    fn equals_sums_without_shared_key_heads() {
        let batch = Batch::new([3, 4, 4, 16], 16, 7, &[16, 33, 112], DType::F32);
        for interpret in [false, true] {
            batch.check(&all_options(interpret)[1], 1e-5);
        }
    }

    #[test]
    fn attends_to_keys_that_were_written() {
        // All other memory holds NaN.
        let (b, kh, h, page) = (3, 2, 4, 4);
        let table = Array::from_slice(&[5i32, 2, 7, 0, 8, 1, 3, 6, 4], [3, 3]).unwrap();
        let mut pages = [full([kh, 9, page, h], f32::NAN), full([kh, 9, page, h], f32::NAN)];
        let new = [5, 6].map(|key| random::normal(random::key(key), [b, 10, kh, h]));
        // Four positions, then one at a time. The last sequence has none.
        for (start, end) in [(0, 4), (4, 5), (5, 6), (6, 10)] {
            let parts = [0, 1].map(|of| new[of].index(i![.., start..end]));
            let second = if start < 6 { start } else { -1 };
            let lengths = array![start, second, -1];
            let (k, v) = write_pages(&pages[0], &pages[1], &parts[0], &parts[1], &lengths, &table);
            pages = [k, v];
        }
        let query = random::normal(random::key(7), [b, 4, h]);
        let options = AttentionOptions {
            key_lengths: Some(array![10i32, 6, 10]),
            ..AttentionOptions::default()
        };
        let expected =
            dot_product_attention_with(&query.reshape([b, 1, 4, h]), &new[0], &new[1], &options);
        for interpret in [false, true] {
            let options = PagedAttentionOptions { interpret, ..PagedAttentionOptions::default() };
            let lengths = array![10i32, 6, 0];
            let means =
                paged_attention_with(&query, &pages[0], &pages[1], &lengths, &table, &options);
            let written = as_f64(&means.index(i![..2]));
            assert_close(&written, &as_f64(&expected.index(i![..2, 0])), 1e-5);
            assert_eq!(means.index(i![2]).abs().max().item::<f32>().unwrap(), 0.0);
        }
    }

    #[test]
    fn positions_after_the_last_page_are_dropped() {
        let pages = zeros([1, 2, 2, 1]);
        let table = Array::from_slice(&[1i32, 0], [1, 2]).unwrap();
        let new = Array::from_slice(&[1.0f32, 2.0, 3.0], [1, 3, 1, 1]).unwrap();
        let (keys, _) = write_pages(&pages, &pages, &new, &new, &array![2i32], &table);
        assert_eq!(keys.to_vec::<f32>().unwrap(), [1.0, 2.0, 0.0, 0.0]);
    }

    #[test]
    fn entries_of_pages_that_are_not_used_do_not_matter() {
        let mut batch = Batch::new([2, 4, 2, 8], 4, 6, &[9, 5], DType::F32);
        let options = PagedAttentionOptions::default();
        let expected = as_f64(&batch.attention(&options));
        batch.table[3..6].fill(-1);
        batch.table[8..].fill(1_000_000);
        assert_eq!(as_f64(&batch.attention(&options)), expected);
    }

    #[test]
    fn maps_over_queries() {
        let batch = Batch::new([2, 4, 2, 8], 4, 6, &[9, 5], DType::F32);
        let [query, keys, values, lengths, table] = batch.operands();
        let attention = |q: Array, k: Array, v: Array, lengths: Array, table: Array| {
            paged_attention(&q, &k, &v, &lengths, &table)
        };
        let queries = stack([&query, &(&query * 2.0)], 0);
        let mapped = vmap(attention)
            .in_axes((0, None, None, None, None))
            .apply(&queries, &keys, &values, &lengths, &table);
        let second = paged_attention(&(&query * 2.0), &keys, &values, &lengths, &table);
        assert_close(&as_f64(&mapped.index(i![1])), &as_f64(&second), 1e-6);
    }
}

fn refused(dtypes: [DType; 2], page_shape: [usize; 4], lengths: usize) -> String {
    let query = Aval::new(dtypes[0], [2, 4, 8]);
    let pages = Aval::new(dtypes[1], page_shape);
    let (lengths, table) = (Aval::new(DType::I32, [lengths]), Aval::new(DType::I32, [2, 5]));
    let attention = |q: Array, k: Array, v: Array, lengths: Array, table: Array| {
        paged_attention(&q, &k, &v, &lengths, &table)
    };
    let error = eval_shape(attention, (query, pages.clone(), pages, lengths, table)).unwrap_err();
    error.to_string().lines().next().unwrap().to_string()
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let f32s = [DType::F32; 2];
    assert_eq!(
        refused(f32s, [3, 9, 16, 8], 2),
        "error[shape]: paged_attention: 4 query heads are not a multiple of 3 key heads"
    );
    assert_eq!(
        refused(f32s, [2, 9, 16, 4], 2),
        "error[shape]: paged_attention: a query [2,4,8] does not fit keys [2,9,16,4], values \
         [2,9,16,4], lengths [2] and page table [2,5]"
    );
    assert_eq!(
        refused([DType::F32, DType::BF16], [2, 9, 16, 8], 2),
        "error[dtype]: paged_attention: takes a query and pages of one dtype, a float of at most \
         32 bits, got f32, bf16 and bf16"
    );
}

#[test]
fn a_derivative_is_refused_by_name() {
    let avals = (
        Aval::new(DType::F32, [2, 4, 8]),
        Aval::new(DType::F32, [2, 9, 16, 8]),
        Aval::new(DType::I32, [2]),
        Aval::new(DType::I32, [2, 5]),
    );
    let gradient = |q: Array, pages: Array, lengths: Array, table: Array| {
        grad(move |q: &Array| paged_attention(q, &pages, &pages, &lengths, &table).sum())(&q)
    };
    let error = eval_shape(gradient, avals).unwrap_err().to_string();
    assert!(error.contains("the kernel `paged_attention` has no derivative"), "{error}");
}
