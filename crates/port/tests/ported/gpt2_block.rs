//! `gpt2_block` of `port_models.py:81`, traced with JAX 0.10.2 and written by `oxidax port`.

use oxidax::prelude::*;

/// A dict with the keys `b`, `w`.
#[derive(Clone, Debug, Tree)]
pub struct Proj {
    pub b: Array,
    pub w: Array,
}

/// A dict with the keys `proj`, `qkv`.
#[derive(Clone, Debug, Tree)]
pub struct Attn {
    pub proj: Proj,
    pub qkv: Proj,
}

/// A dict with the keys `bias`, `scale`.
#[derive(Clone, Debug, Tree)]
pub struct Ln {
    pub bias: Array,
    pub scale: Array,
}

/// A dict with the keys `fc`, `proj`.
#[derive(Clone, Debug, Tree)]
pub struct Mlp {
    pub fc: Proj,
    pub proj: Proj,
}

/// A dict with the keys `attn`, `ln_1`, `ln_2`, `mlp`.
#[derive(Clone, Debug, Tree)]
pub struct Params {
    pub attn: Attn,
    pub ln_1: Ln,
    pub ln_2: Ln,
    pub mlp: Mlp,
}

/// One transformer block of GPT-2, with weights in nested dicts.
pub fn gpt2_block(params: &Params, x: &Array) -> Array {
    // port_models.py:83: x = x + self_attention(params["attn"], layer_norm(params["ln_1"], x), n_h…
    let x = x + self_attention(&params.attn, &layer_norm(&params.ln_1, x));
    // port_models.py:84: h = layer_norm(params["ln_2"], x)
    let h = layer_norm(&params.ln_2, &x);
    // port_models.py:85: h = jax.nn.gelu(linear(params["mlp"]["fc"], h))
    let h = linear(&params.mlp.fc, &h).gelu();
    // port_models.py:86: return x + linear(params["mlp"]["proj"], h)
    &x + linear(&params.mlp.proj, &h)
}

/// Normalizes the last axis.
fn layer_norm(p: &Ln, x: &Array) -> Array {
    // port_models.py:63: mean = jnp.mean(x, axis=-1, keepdims=True)
    // port_models.py:64: variance = jnp.var(x, axis=-1, keepdims=True)
    // port_models.py:65: return (x - mean) / jnp.sqrt(variance + eps) * p["scale"] + p["bias"]
    nn::LayerNorm { scale: Some(p.scale.clone()), bias: Some(p.bias.clone()), epsilon: 1e-5.into() }
        .forward(x)
}

/// `linear` of the Python program.
fn linear(p: &Proj, x: &Array) -> Array {
    // port_models.py:18: return x @ p["w"] + p["b"]
    x.matmul(&p.w) + &p.b
}

/// Causal self-attention with `n_head` heads.
fn self_attention(p: &Attn, x: &Array) -> Array {
    // port_models.py:71: q, k, v = jnp.split(linear(p["qkv"], x), 3, axis=-1)
    let [q, k, v] = split(&linear(&p.qkv, x), 3, -1).try_into().expect("3 parts");
    // port_models.py:72: q, k, v = (y.reshape(b, t, n_head, c // n_head) for y in (q, k, v))
    let q = q.reshape([2, 6, 2, 4]);
    let k = k.reshape([2, 6, 2, 4]);
    let v = v.reshape([2, 6, 2, 4]);
    // port_models.py:73: scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(c // n_head)
    // port_models.py:74: mask = jnp.tril(jnp.ones((t, t), dtype=bool))
    // port_models.py:75: scores = jnp.where(mask, scores, -1e10)
    // port_models.py:76: weights = jax.nn.softmax(scores, axis=-1)
    // port_models.py:77: out = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
    let out = dot_product_attention_with(
        &q,
        &k,
        &v,
        &AttentionOptions { is_causal: true, ..Default::default() },
    );
    // port_models.py:78: return linear(p["proj"], out.reshape(b, t, c))
    linear(&p.proj, &out.reshape([2, 6, 8]))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The largest difference from JAX's results, absolute or relative.
    const TOLERANCE: f64 = 1e-5;

    #[test]
    fn gpt2_block_agrees_with_jax() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/gpt2_block.safetensors");
        let arrays = checkpoint::arrays(path).expect("the file of port.py");
        let array = |name: &str| arrays[name].clone();
        let params = Params {
            attn: Attn {
                proj: Proj { b: array("in.0"), w: array("in.1") },
                qkv: Proj { b: array("in.2"), w: array("in.3") },
            },
            ln_1: Ln { bias: array("in.4"), scale: array("in.5") },
            ln_2: Ln { bias: array("in.6"), scale: array("in.7") },
            mlp: Mlp {
                fc: Proj { b: array("in.8"), w: array("in.9") },
                proj: Proj { b: array("in.10"), w: array("in.11") },
            },
        };
        let x = array("in.12");
        let found = jit(gpt2_block).call(&params, &x).expect("the function compiles");
        let found = tree::leaves(&found);
        assert_eq!(found.len(), 1);
        for (index, found) in found.iter().enumerate() {
            let expected = array(&format!("out.{index}"));
            assert_eq!(found.shape(), expected.shape(), "result {index}");
            assert_eq!(found.dtype(), expected.dtype(), "result {index}");
            let close = CloseOptions { rtol: TOLERANCE, atol: TOLERANCE, equal_nan: true };
            let (found, expected) = (found.astype(DType::F64), expected.astype(DType::F64));
            let agrees = allclose_with(&found, &expected, close).item::<bool>();
            assert!(agrees.expect("one value"), "result {index}: {found} is not {expected}");
        }
    }
}
