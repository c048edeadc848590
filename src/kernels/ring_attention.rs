//! Attention over sequences that are split between devices: [`ring_attention`].

use super::attention::{
    FlashAttentionOptions, Geometry, Inputs, Layout, attend, backward, excluded, to_key_layout,
    to_query_layout,
};
use crate::control_flow::{cond, custom_vjp, fori_loop};
use crate::core::{Array, AxisNames, DType, Loc, axis_size};
use crate::ops::{axis_index, ppermute, stack};
use crate::primitives::{div, exp, full_like, log, maximum, reduce_sum, rem, zeros, zeros_like};

/// Returns attention over a sequence that is split along an axis of a mesh,
/// [`ring_attention_with`] without options: every query attends to all keys.
#[track_caller]
pub fn ring_attention(
    query: &Array,
    key: &Array,
    value: &Array,
    axis_name: impl Into<AxisNames>,
) -> Array {
    let options = FlashAttentionOptions::default();
    ring_attention_with(query, key, value, axis_name, &options)
}

/// Returns attention over a sequence that is split along an axis of a mesh, for functions inside of
/// [`shard_map`](crate::parallel::shard_map()). Queries are this device's shard `[b, t, n, h]`,
/// keys `[b, s, k, h]` and values `[b, s, k, v]`, of sequences that are `d · t` and `d · s` long on
/// `d` devices. The result is this device's shard `[b, t, n, v]`.
///
/// Every device keeps its queries, and passes keys and values to the next device `d - 1` times.
/// Each time it runs the kernel of [`flash_attention_with`](super::flash_attention_with) on the
/// keys that it has, and combines the result with earlier ones. Causal masks and windows apply to
/// positions in the whole sequence; keys that they exclude for all queries of a device are passed
/// on without computing. Segments are those of the shards. Dropout draws the bits that one device
/// would draw for the whole sequence.
///
/// The backward pass is a second ring, in which the gradients of keys and values travel with them.
/// A device stores its shards, the result and one number for each query.
///
/// Throws as [`flash_attention_with`](super::flash_attention_with) does, and `Op` (value) if the
/// axis is not in scope.
///
/// ```
/// # oxidax::parallel::set_cpu_devices(8)?;
/// use oxidax::kernels::{FlashAttentionOptions, ring_attention_with};
/// use oxidax::prelude::*;
/// let mesh = Mesh::new(devices()?, [("sequence", 8)])?;
/// let attend = |q: Array, k: Array, v: Array| {
///     let options = FlashAttentionOptions { is_causal: true, ..FlashAttentionOptions::default() };
///     ring_attention_with(&q, &k, &v, "sequence", &options)
/// };
/// let attend = shard_map(attend, &mesh)
///     .in_specs(p![None, "sequence"])
///     .out_specs(p![None, "sequence"]);
/// let x = random::normal(random::key(0), [1, 64, 2, 16]);
/// let y = jit(move |x: Array| attend.apply(&x, &x, &x)).call(&x)?;
/// assert_eq!(y.aval().to_string(), "f32[1,64,2,16]");
/// # Ok::<(), oxidax::Error>(())
/// ```
///
/// # Reference
/// Liu et al., "Ring attention with blockwise transformers for near-infinite context" (2023).
#[track_caller]
pub fn ring_attention_with(
    query: &Array,
    key: &Array,
    value: &Array,
    axis_name: impl Into<AxisNames>,
    options: &FlashAttentionOptions,
) -> Array {
    let axis = axis_name.into();
    Loc::caller().scope(|| {
        let layout = Layout::of("ring_attention", [query, key, value], options);
        let n_devices = axis_size(axis.clone());
        let geometry = layout.geometry(options, n_devices).for_shards();
        let seed = options.seed().unwrap_or_else(|| zeros(([2], DType::I32)));
        let inputs = Inputs {
            q: to_query_layout(query, &layout),
            k: to_key_layout(key),
            v: to_key_layout(value),
            segments: options.segments(),
            scalars: Some(seed),
        };
        let ring = Ring { geometry, axis, n_devices };
        layout.to_user_layout(&ring.differentiable(&inputs).astype(query.dtype()))
    })
}

/// The devices, and the kernels' geometry on one of them.
#[derive(Clone, Debug)]
struct Ring {
    geometry: Geometry,
    axis: AxisNames,
    n_devices: usize,
}

/// The arrays that travel: keys, values, and the segment ids of keys.
type Travelling = (Array, Array, Option<Array>);

impl Ring {
    /// Returns the results in the layout of the kernels, with their derivative. The scalars of
    /// `inputs` are the seed.
    #[track_caller]
    fn differentiable(&self, inputs: &Inputs) -> Array {
        let (of_value, of_forward, of_backward) = (self.clone(), self.clone(), self.clone());
        let attention = custom_vjp(
            move |inputs: &Inputs| of_value.forward(inputs).0,
            move |inputs: &Inputs| {
                let (out, lse) = of_forward.forward(inputs);
                (out.clone(), (inputs.clone(), out, lse))
            },
            move |(inputs, out, lse): &(Inputs, Array, Array), ct: &Array| {
                of_backward.backward(inputs, out, lse, ct)
            },
        );
        attention(inputs)
    }

    /// Sends arrays to the next device.
    fn pass_on<T: crate::tree::Tree>(&self, arrays: &T) -> T {
        let pairs: Vec<(usize, usize)> =
            (0..self.n_devices).map(|device| (device, (device + 1) % self.n_devices)).collect();
        ppermute(arrays, self.axis.clone(), &pairs)
    }

    /// Returns the global positions of the first query and, after `step` exchanges, of the first
    /// key.
    fn starts(&self, step: &Array) -> [Array; 2] {
        let n = self.n_devices as i32;
        let device = axis_index(self.axis.clone());
        let owner = rem(&device - step + n, n);
        let [t, s] = self.geometry.lengths().map(|length| length as i32);
        [device * t, owner * s]
    }

    /// Returns the operands of the kernels after `step` exchanges.
    fn inputs_at(&self, inputs: &Inputs, starts: &[Array; 2], kv: &Travelling) -> Inputs {
        let seed = inputs.scalars.as_ref().expect("the ring has a seed");
        let word = |index: usize| seed.index(crate::i![index]);
        let (k, v, of_keys) = kv.clone();
        let segments = inputs.segments.as_ref().zip(of_keys);
        Inputs {
            q: inputs.q.clone(),
            k,
            v,
            segments: segments.map(|([of_queries, _], of_keys)| [of_queries.clone(), of_keys]),
            scalars: Some(stack([&starts[0], &starts[1], &word(0), &word(1)], 0)),
        }
    }

    fn own(inputs: &Inputs) -> Travelling {
        let of_keys = inputs.segments.as_ref().map(|[_, of_keys]| of_keys.clone());
        (inputs.k.clone(), inputs.v.clone(), of_keys)
    }

    /// Returns the results `[heads, group, hv, t]` and the logarithms of the denominators
    /// `[heads, group, 1, t]`, over all keys.
    fn forward(&self, inputs: &Inputs) -> (Array, Array) {
        let own = Ring::own(inputs);
        let first = full_like(&axis_index(self.axis.clone()), 0);
        let (out, lse) =
            attend(&self.geometry, &self.inputs_at(inputs, &self.starts(&first), &own));
        let step = |step: Array, (out, lse, kv): (Array, Array, Travelling)| {
            let kv = self.pass_on(&kv);
            let starts = self.starts(&step);
            let inputs = self.inputs_at(inputs, &starts, &kv);
            let computed = |inputs: Inputs| attend(&self.geometry, &inputs);
            let (more_out, more_lse) = match self.geometry.is_active(&starts) {
                None => computed(inputs),
                Some(is_active) => {
                    let nothing = (zeros_like(&out), full_like(&lse, excluded(lse.dtype())));
                    cond(&is_active, computed, move |_: Inputs| nothing.clone(), inputs)
                }
            };
            let (out, lse) = combined([&out, &more_out], [&lse, &more_lse]);
            (out, lse, kv)
        };
        let (out, lse, _) = fori_loop(1, self.n_devices as i64, step, (out, lse, own));
        (out, lse)
    }

    /// Returns the cotangents of the inputs.
    fn backward(&self, inputs: &Inputs, out: &Array, lse: &Array, ct: &Array) -> Inputs {
        let geometry = self.geometry.clone();
        let delta = reduce_sum(&(out * ct), &[2]).reshape(lse.shape().dims().to_vec());
        let narrow = ct.astype(inputs.q.dtype());
        let wide = |x: &Array| zeros_like(&x.astype(geometry.wide()));
        let zeros = [wide(&inputs.q), wide(&inputs.k), wide(&inputs.v)];
        let step = |step: Array, (of_q, kv, of_kv): (Array, Travelling, (Array, Array))| {
            let starts = self.starts(&step);
            let inputs = self.inputs_at(inputs, &starts, &kv);
            let computed = |inputs: Inputs| backward(&geometry, &inputs, &narrow, [lse, &delta]);
            let [q, k, v] = match self.geometry.is_active(&starts) {
                None => computed(inputs),
                Some(is_active) => {
                    let nothing = |_: Inputs| zeros.clone();
                    cond(&is_active, computed, nothing, inputs)
                }
            };
            let of_kv = (of_kv.0 + k, of_kv.1 + v);
            let (kv, of_kv) = self.pass_on(&(kv, of_kv));
            (of_q + q, kv, of_kv)
        };
        let [q, k, v] = zeros.clone();
        // After as many exchanges as there are devices, everything is back at its owner.
        let start = (q, Ring::own(inputs), (k, v));
        let (q, _, (k, v)) = fori_loop(0, self.n_devices as i64, step, start);
        let narrow = |x: Array| x.astype(inputs.q.dtype());
        Inputs { q: narrow(q), k: narrow(k), v: narrow(v), ..inputs.clone() }
    }
}

/// Returns the results and logarithms of the denominators of two sets of keys together.
fn combined(outs: [&Array; 2], lses: [&Array; 2]) -> (Array, Array) {
    let max = maximum(lses[0], lses[1]);
    let [a, b] = lses.map(|lse| exp(lse - &max));
    let sum = &a + &b;
    let out = div(outs[0] * a + outs[1] * b, &sum);
    (out, max + log(&sum))
}
