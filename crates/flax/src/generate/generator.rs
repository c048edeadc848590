//! The loop of text generation.

use super::sampling::{SamplingOptions, sample_logits};
use oxidax::core::{Loc, OpError, OpErrorKind, RuleError, throw_operands};
use oxidax::jit::JitStats;
use oxidax::prelude::*;
use oxidax::random::{self, Key};

/// A model that continues texts of tokens with a cache of what it has read.
///
/// The methods are traced, so they work on arrays whose values are not known.
///
/// ```
/// use oxidax::nn::{Embedding, KvCache, MultiHeadAttention};
/// use oxidax::prelude::*;
/// use oxidax_flax::generate::{Decoder, Generator, SamplingOptions};
///
/// #[derive(Tree, Clone)]
/// struct Model {
///     embedding: Embedding,
///     attention: MultiHeadAttention,
/// }
///
/// impl Decoder for Model {
///     type Cache = KvCache;
///
///     fn init_cache(&self, batch: usize, length: usize) -> KvCache {
///         self.attention.cache(batch, length, DType::F32)
///     }
///
///     fn decode(&self, tokens: &Array, count: &Array, cache: &KvCache) -> (Array, KvCache) {
///         let x = self.embedding.forward(tokens);
///         let (y, next) = self.attention.decode(&x, cache);
///         // The logits of the last token that is not padding, and the position after it.
///         let last = dynamic_index_in_dim(&(x + y), &(count - 1), 1).squeeze_axes([1]);
///         (self.embedding.attend(&last), KvCache { position: &cache.position + count, ..next })
///     }
/// }
///
/// let [k_embedding, k_attention] = random::key(0).split();
/// let model = Model {
///     embedding: Embedding::new(k_embedding, 50, 16),
///     attention: MultiHeadAttention::new(k_attention, 16, 4),
/// };
/// let generator = Generator::new(SamplingOptions::greedy());
/// let texts = generator.generate(&model, &[&[1u32, 2, 3][..], &[4]], 5, random::key(0))?;
/// assert_eq!(texts[1].len(), 5);
/// let alone = generator.generate(&model, &[&[4u32]], 5, random::key(0))?;
/// assert_eq!(alone[0], texts[1]);
/// # Ok::<(), oxidax::Error>(())
/// ```
pub trait Decoder: Tree + Clone {
    /// The cache.
    type Cache: Tree + Clone;

    /// Returns the cache of `batch` texts before the first token, with room for `length` tokens.
    #[track_caller]
    fn init_cache(&self, batch: usize, length: usize) -> Self::Cache;

    /// Reads the first `count`, `i32[]`, of tokens `i32[b, t]` that follow those in the cache.
    /// Returns logits `[b, vocabulary]` for the token after them, and the cache.
    ///
    /// Tokens after the first `count` are padding: later calls overwrite what the cache holds of
    /// them. `t` may be larger than the room that is left for them, never larger than `length`.
    #[track_caller]
    fn decode(&self, tokens: &Array, count: &Array, cache: &Self::Cache) -> (Array, Self::Cache);

    /// Returns the largest number of tokens of a text, if there is one. `None` by default.
    fn max_length(&self) -> Option<usize> {
        None
    }

    /// Returns the number of tokens in the vocabulary, if it is known. Prompts are checked against
    /// it. `None` by default.
    fn vocabulary_size(&self) -> Option<usize> {
        None
    }
}

/// Options of a [`Generator`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerateOptions {
    /// Tokens that end a text. They are not part of the result. None by default.
    pub stop_tokens: Vec<u32>,
    /// The smallest length to which prompts are padded. Lengths are powers of two from here on. 32
    /// by default.
    pub smallest_bucket: usize,
}

impl Default for GenerateOptions {
    fn default() -> GenerateOptions {
        GenerateOptions { stop_tokens: Vec::new(), smallest_bucket: 32 }
    }
}

/// Model, prompts `i32[b, t]`, their lengths `i32[]` or `i32[b]`, the number of new tokens `i32[]`,
/// the key, and the length of the cache.
type Arguments<D> = (D, Array, Array, Array, Key, Static<usize>);

/// Continues prompts with a [`Decoder`], in one compiled program that reads the prompt and
/// generates all tokens.
///
/// Prompts and caches are padded to lengths that are powers of two. A program is compiled for each
/// pair of lengths and number of prompts, and kept for later calls.
pub struct Generator<D: Decoder + 'static> {
    program: Jit<'static, Arguments<D>, (Array, Array)>,
    options: GenerateOptions,
}

impl<D: Decoder + Send + Sync + 'static> Generator<D> {
    /// Creates a generator that chooses tokens by [`sample_logits`].
    pub fn new(sampling: SamplingOptions) -> Generator<D> {
        Generator::with_options(sampling, GenerateOptions::default())
    }

    /// Creates a generator with stop tokens and other lengths.
    ///
    /// ```no_run
    /// use oxidax_flax::generate::{Decoder, GenerateOptions, Generator, SamplingOptions};
    /// # fn generator<D: Decoder + Send + Sync + 'static>() {
    /// let sampling = SamplingOptions { temperature: 0.8, top_k: Some(50), ..Default::default() };
    /// let options = GenerateOptions { stop_tokens: vec![50256], ..Default::default() };
    /// let generator = Generator::<D>::with_options(sampling, options);
    /// # }
    /// ```
    pub fn with_options(sampling: SamplingOptions, options: GenerateOptions) -> Generator<D> {
        let choose = move |logits: &Array, key: Key| sample_logits(logits, key, &sampling);
        Generator::with_sampler(choose, options)
    }

    /// Creates a generator that chooses tokens, `i32[b]`, from logits, `[b, vocabulary]`, by a
    /// function.
    pub fn with_sampler(
        choose: impl Fn(&Array, Key) -> Array + Send + Sync + 'static,
        options: GenerateOptions,
    ) -> Generator<D> {
        Generator::with_functions(D::clone, choose, options)
    }

    /// Creates a generator that applies `prepare` to the model once for all tokens, such as a
    /// conversion of its dtypes, and chooses tokens by `choose`.
    pub fn with_functions(
        prepare: impl Fn(&D) -> D + Send + Sync + 'static,
        choose: impl Fn(&Array, Key) -> Array + Send + Sync + 'static,
        options: GenerateOptions,
    ) -> Generator<D> {
        let stops: Vec<i64> = options.stop_tokens.iter().map(|&token| token.into()).collect();
        let generate = move |model: D,
                             prompts: Array,
                             lengths: Array,
                             n: Array,
                             key: Key,
                             length: Static<usize>| {
            generate(&prepare(&model), &prompts, &lengths, &n, &key, length.0, &choose, &stops)
        };
        Generator { program: jit(generate).name("generate"), options }
    }

    /// Returns up to `n` tokens that follow each prompt. A text ends before its first stop token.
    ///
    /// The choice of token `i` uses `fold_in(key, i)`.
    ///
    /// # Errors
    /// `Op` (value) if a prompt is empty or has a token that the model does not have, or a prompt
    /// and `n` tokens are longer than the model allows. Errors of compilation and execution.
    #[track_caller]
    pub fn generate<P: AsRef<[u32]>>(
        &self,
        model: &D,
        prompts: &[P],
        n: usize,
        key: Key,
    ) -> Result<Vec<Vec<u32>>, Error> {
        let lengths: Vec<usize> = prompts.iter().map(|prompt| prompt.as_ref().len()).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        check(model, prompts, longest + n).map_err(|problem| argument_error(&problem))?;
        if n == 0 || prompts.is_empty() {
            return Ok(vec![Vec::new(); prompts.len()]);
        }
        let bucket = |length: usize| {
            let length = length.max(self.options.smallest_bucket).next_power_of_two();
            model.max_length().map_or(length, |limit| length.min(limit))
        };
        let (padded, length) = (bucket(longest), bucket(longest + n));
        let mut tokens = vec![0i32; prompts.len() * padded];
        for (row, prompt) in tokens.chunks_exact_mut(padded).zip(prompts) {
            for (slot, &token) in row.iter_mut().zip(prompt.as_ref()) {
                *slot = token as i32;
            }
        }
        let tokens = Array::from_slice(&tokens, [prompts.len(), padded])?;
        // Prompts of one length share their position in the cache.
        let lengths: Vec<i32> = lengths.iter().map(|&length| length as i32).collect();
        let counts = match lengths.iter().all(|&length| length == lengths[0]) {
            true => Array::from_slice(&lengths[..1], [])?,
            false => Array::from_slice(&lengths, [lengths.len()])?,
        };
        let limit = Array::from_slice(&[n as i32], [])?;
        let called = self.program.call(model, tokens, counts, limit, key, Static(length))?;
        let (tokens, count) = called;
        let (tokens, count) = (tokens.to_vec::<i32>()?, count.item::<i32>()? as usize);
        let text = |row: &[i32]| {
            let tokens = row[..count.min(n)].iter().map(|&token| token as u32);
            tokens.take_while(|token| !self.options.stop_tokens.contains(token)).collect()
        };
        Ok(tokens.chunks_exact(length).map(text).collect())
    }

    /// Returns the numbers of calls and compilations so far, and the compile time.
    pub fn stats(&self) -> JitStats {
        self.program.stats()
    }
}

/// Returns the problem with the prompts, if any.
fn check<D: Decoder, P: AsRef<[u32]>>(
    model: &D,
    prompts: &[P],
    longest: usize,
) -> Result<(), String> {
    if prompts.iter().any(|prompt| prompt.as_ref().is_empty()) {
        return Err("a prompt is empty, it needs at least one token".to_owned());
    }
    let mut tokens = prompts.iter().flat_map(|prompt| prompt.as_ref());
    if let Some(size) = model.vocabulary_size()
        && let Some(token) = tokens.find(|&&token| token as usize >= size)
    {
        return Err(format!("token {token} of a prompt; the model has {size} tokens"));
    }
    if let Some(limit) = model.max_length().filter(|&limit| longest > limit) {
        return Err(format!(
            "prompt and new tokens are {longest}; the model reads {limit} at most"
        ));
    }
    Ok(())
}

#[track_caller]
fn argument_error(problem: &str) -> Error {
    Error::Op(Box::new(OpError {
        kind: OpErrorKind::Value,
        primitive: "generate".to_owned(),
        message: problem.to_owned(),
        operands: Vec::new(),
        note: None,
        loc: Loc::caller(),
        path: Vec::new(),
        help: None,
    }))
}

/// Returns the new tokens, `i32[b, length]`, and their number, `i32[]`.
#[allow(clippy::too_many_arguments, reason = "the arguments of the program, and what it captures")]
fn generate<D: Decoder>(
    model: &D,
    prompts: &Array,
    lengths: &Array,
    n: &Array,
    key: &Key,
    length: usize,
    choose: &dyn Fn(&Array, Key) -> Array,
    stops: &[i64],
) -> (Array, Array) {
    let [b, _] = prompts.dims();
    let is_ragged = lengths.rank() == 1;
    let one = ones(([], DType::I32));
    let (logits, cache) = if is_ragged {
        let read = |prompt: Array, count: Array| {
            let (logits, cache) =
                model.decode(&prompt.expand_dims(0), &count, &model.init_cache(1, length));
            (logits.squeeze_axes([0]), cache)
        };
        vmap(read).apply(prompts, lengths)
    } else {
        model.decode(prompts, lengths, &model.init_cache(b, length))
    };
    if logits.rank() != 2 || logits.shape()[0] != b {
        let message = format!(
            "`Decoder::decode` returns logits {}, it must return [{b}, vocabulary]: those of the \
             token at `count - 1`",
            logits.aval()
        );
        throw_operands("generate", RuleError::shape(message), &[&logits]);
    }
    let step = |token: &Array, cache: &D::Cache| {
        if !is_ragged {
            return model.decode(&token.expand_dims(-1), &one, cache);
        }
        let read = |token: Array, cache: D::Cache| {
            let (logits, cache) = model.decode(&token.reshape([1usize, 1]), &one, &cache);
            (logits.squeeze_axes([0]), cache)
        };
        vmap(read).apply(token, cache)
    };
    let next = |logits: &Array, at: &Array| {
        choose(logits, random::fold_in(key.clone(), at)).astype(DType::I32)
    };
    let is_stop = |token: &Array| {
        let mut found = full([b], false);
        for &stop in stops {
            found = found | eq(token, stop);
        }
        found
    };
    let write = |texts: &Array, token: &Array, at: &Array| {
        dynamic_update_slice_in_dim(texts, &token.expand_dims(-1), at, 1)
    };
    let zero = zeros(([], DType::I32));
    let token = next(&logits, &zero);
    let texts = write(&zeros(([b, length], DType::I32)), &token, &zero);
    let done = is_stop(&token);
    type State<C> = (Array, Array, Array, Array, C);
    let runs = |(count, _, done, _, _): State<D::Cache>| lt(&count, n) & !done.all();
    let body = |(count, token, done, texts, cache): State<D::Cache>| {
        let (logits, cache) = step(&token, &cache);
        let token = next(&logits, &count);
        let texts = write(&texts, &token, &count);
        let done = done | is_stop(&token);
        (&count + &one, token, done, texts, cache)
    };
    let (count, _, _, texts, _) = while_loop(runs, body, (one.clone(), token, done, texts, cache));
    (texts, count)
}
