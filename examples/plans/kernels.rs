//! The kernels of `oxidax::kernels`, compiled for absent chips, beside the same functions without
//! kernels.

use super::table::replace_table;
use anyhow::Context as _;
use oxidax::kernels::{
    self, FlashAttentionOptions, Quantization, QuantizedWeight, flash_attention_with,
};
use oxidax::prelude::*;
use oxidax::roofline::{DeviceSpec, Roofline};
use std::collections::BTreeMap;
use std::path::Path;

/// One device of each chip that the plugins know.
const CHIPS: [&str; 8] =
    ["v4:2x2x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1", "a100", "h100", "b200"];

const HEADINGS: [&str; 8] = [
    "kernel",
    "chip",
    "code, kB",
    "without, kB",
    "temporaries, MB",
    "without, MB",
    "predicted, ms",
    "without, ms",
];

type Function = fn(&[Array]) -> Vec<Array>;

/// A function with a kernel, and the same function without one.
struct Case {
    name: &'static str,
    types: fn() -> Vec<Aval>,
    kernel: Function,
    plain: Function,
}

fn bf16(shape: impl Into<Shape>) -> Aval {
    Aval::new(DType::BF16, shape)
}

fn i32(shape: impl Into<Shape>) -> Aval {
    Aval::new(DType::I32, shape)
}

/// Attention of four heads of 128 features over 8,192 tokens.
fn attention_types() -> Vec<Aval> {
    vec![bf16([1, 8192, 4, 128]); 3]
}

fn causal() -> FlashAttentionOptions {
    FlashAttentionOptions { is_causal: true, ..FlashAttentionOptions::default() }
}

fn plain_attention(x: &[Array]) -> Array {
    let implementation = nn::AttentionImplementation::Plain;
    let options = AttentionOptions { is_causal: true, implementation, ..Default::default() };
    dot_product_attention_with(&x[0], &x[1], &x[2], &options)
}

/// Returns the gradients of the sum of `f`, by all arguments.
fn gradients(f: impl Fn(&[Array]) -> Array, x: &[Array]) -> Vec<Array> {
    grad(|x: &Vec<Array>| f(x).astype(DType::F32).sum())(&x.to_vec())
}

/// The head of GPT-2: 2,048 tokens of 768 features, 50,257 classes.
fn head_types() -> Vec<Aval> {
    vec![bf16([2048, 768]), bf16([50257, 768]), i32([2048])]
}

fn fused_loss(x: &[Array]) -> Array {
    kernels::linear_cross_entropy(&x[0], &x[1], &x[2]).mean()
}

fn plain_loss(x: &[Array]) -> Array {
    let logits = x[0].matmul(&x[1].t()).astype(DType::F32);
    nn::softmax_cross_entropy_with_integer_labels(&logits, &x[2]).mean()
}

fn loss_gradients(loss: fn(&[Array]) -> Array, x: &[Array]) -> Vec<Array> {
    let labels = x[2].clone();
    let floats = x[..2].to_vec();
    grad(move |x: &Vec<Array>| loss(&[x[0].clone(), x[1].clone(), labels.clone()]))(&floats)
}

fn norm_types() -> Vec<Aval> {
    vec![bf16([8192, 4096]), bf16([4096])]
}

fn plain_rms_norm(x: &[Array]) -> Array {
    let wide = x[0].astype(DType::F32);
    let mean = (&wide * &wide).mean_axes(-1).expand_dims(-1);
    (wide * rsqrt(&(mean + 1e-6)) * x[1].astype(DType::F32)).astype(DType::BF16)
}

fn plain_swiglu(x: &[Array]) -> Array {
    let gate = x[0].astype(DType::F32);
    (&gate * logistic(&gate) * x[1].astype(DType::F32)).astype(DType::BF16)
}

fn experts() -> Vec<Aval> {
    vec![bf16([8192, 1024]), bf16([8, 1024, 4096]), i32([8])]
}

/// One token of each of 16 sequences, of up to 4,096 tokens in pages of 64.
fn pages() -> Vec<Aval> {
    let pages = bf16([8, 1024, 64, 128]);
    vec![bf16([16, 32, 128]), pages.clone(), pages, i32([16]), i32([16, 64])]
}

fn plain_paged(x: &[Array]) -> Array {
    // Gathers the pages of each sequence, [b, s, k, h].
    let gathered = |pages: &Array| {
        let pages = moveaxis(pages, 0, 2).index(i![&x[4]]);
        pages.reshape([16, 64 * 64, 8, 128])
    };
    let positions = broadcasted_iota(DType::I32, [16, 1, 1, 64 * 64], 3);
    let mask = lt(&positions, x[3].reshape([16, 1, 1, 1]));
    let implementation = nn::AttentionImplementation::Plain;
    let options = AttentionOptions { mask: Some(mask), implementation, ..Default::default() };
    let query = x[0].expand_dims(1);
    let (keys, values) = (gathered(&x[1]), gathered(&x[2]));
    dot_product_attention_with(&query, &keys, &values, &options)
}

fn quantized(x: &[Array], quantization: Quantization) -> Vec<Array> {
    let weight = QuantizedWeight::quantize(&x[1].astype(DType::F32), quantization);
    vec![kernels::quantized_matmul(&x[0], &weight)]
}

const CASES: &[Case] = &[
    Case {
        name: "flash attention",
        types: attention_types,
        kernel: |x| vec![flash_attention_with(&x[0], &x[1], &x[2], &causal())],
        plain: |x| vec![plain_attention(x)],
    },
    Case {
        name: "flash attention, gradients",
        types: attention_types,
        kernel: |x| gradients(|x| flash_attention_with(&x[0], &x[1], &x[2], &causal()), x),
        plain: |x| gradients(plain_attention, x),
    },
    Case {
        name: "linear and cross entropy",
        types: head_types,
        kernel: |x| vec![fused_loss(x)],
        plain: |x| vec![plain_loss(x)],
    },
    Case {
        name: "linear and cross entropy, gradients",
        types: head_types,
        kernel: |x| loss_gradients(fused_loss, x),
        plain: |x| loss_gradients(plain_loss, x),
    },
    Case {
        name: "RMS norm",
        types: norm_types,
        kernel: |x| vec![kernels::rms_norm(&x[0], &x[1])],
        plain: |x| vec![plain_rms_norm(x)],
    },
    Case {
        name: "RMS norm, gradients",
        types: norm_types,
        kernel: |x| gradients(|x| kernels::rms_norm(&x[0], &x[1]), x),
        plain: |x| gradients(plain_rms_norm, x),
    },
    Case {
        name: "SwiGLU",
        types: || vec![bf16([8192, 4096]); 2],
        kernel: |x| vec![kernels::silu_and_mul(&x[0], &x[1])],
        plain: |x| vec![plain_swiglu(x)],
    },
    Case {
        name: "grouped matrix product",
        types: experts,
        kernel: |x| vec![kernels::grouped_matmul(&x[0], &x[1], &x[2])],
        plain: |x| vec![ragged_dot(&x[0], &x[1], &x[2])],
    },
    Case {
        name: "product with int8 weights",
        types: || vec![bf16([256, 4096]), bf16([4096, 4096])],
        kernel: |x| quantized(x, Quantization::Int8 { group_size: None }),
        plain: |x| vec![x[0].matmul(&x[1])],
    },
    Case {
        name: "product with int4 weights",
        types: || vec![bf16([256, 4096]), bf16([4096, 4096])],
        kernel: |x| quantized(x, Quantization::Int4 { group_size: 128 }),
        plain: |x| vec![x[0].matmul(&x[1])],
    },
    Case {
        name: "paged attention",
        types: pages,
        kernel: |x| vec![kernels::paged_attention(&x[0], &x[1], &x[2], &x[3], &x[4])],
        plain: |x| vec![plain_paged(x)],
    },
];

/// The results of compiling a function.
struct Compiled {
    code: u64,
    temporaries: u64,
    /// Seconds of the roofline; `None` without the data of the chip.
    seconds: Option<f64>,
}

fn compile(case: &Case, function: Function, topology: &Topology) -> anyhow::Result<Compiled> {
    let types: Vec<Array> = (case.types)().into_iter().map(Array::of_type).collect();
    let lowered = jit(move |x: Vec<Array>| function(&x)).name(case.name).lower(types)?;
    let spec = DeviceSpec::of_topology(topology.name());
    let seconds = spec.map(|spec| Roofline::of(lowered.program()).on(&spec).seconds);
    let memory = lowered.compile_for(topology)?.report().memory_analysis()?;
    Ok(Compiled { code: memory.code, temporaries: memory.temporaries, seconds })
}

/// Compiles all kernels for the chips of `on`, all of them if it is empty, and prints the rows.
/// With a page, replaces its table.
pub fn run(only: &[String], on: &[String], page: Option<&Path>) -> anyhow::Result<()> {
    let mut table = vec![
        format!("| {} |", HEADINGS.join(" | ")),
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |".to_string(),
    ];
    let mut topologies = BTreeMap::new();
    for case in CASES {
        if !only.is_empty() && !only.iter().any(|word| case.name.contains(word)) {
            continue;
        }
        for chip in CHIPS {
            let name = super::generation_of(chip);
            if !on.is_empty() && !on.iter().any(|wanted| wanted == name) {
                continue;
            }
            if !topologies.contains_key(chip) {
                topologies.insert(chip, Topology::named(chip)?);
            }
            let row = row(case, name, &topologies[chip]);
            println!("{row}");
            table.push(row);
        }
    }
    let Some(page) = page else { return Ok(()) };
    let text = std::fs::read_to_string(page).with_context(|| format!("{}", page.display()))?;
    let text = replace_table(&text, &table.join("\n"));
    std::fs::write(page, text).with_context(|| format!("{}", page.display()))
}

fn row(case: &Case, chip: &str, topology: &Topology) -> String {
    let [kernel, plain] =
        [case.kernel, case.plain].map(|function| compile(case, function, topology));
    let cell = |one: &anyhow::Result<Compiled>, read: fn(&Compiled) -> Option<f64>| match one {
        Ok(compiled) => read(compiled).map_or_else(|| "–".to_string(), |x| format!("{x:.2}")),
        Err(_) => "does not compile".to_string(),
    };
    for (form, outcome) in [("kernel", &kernel), ("plain function", &plain)] {
        if let Err(error) = outcome {
            eprintln!("{}, {form}, on {chip}: {error}", case.name);
        }
    }
    let columns: [fn(&Compiled) -> Option<f64>; 3] = [
        // The CUDA plugin does not report it.
        |one| (one.code > 0).then_some(one.code as f64 / 1e3),
        |one| Some(one.temporaries as f64 / 1e6),
        |one| one.seconds.map(|seconds| seconds * 1e3),
    ];
    let cells: Vec<String> =
        columns.iter().flat_map(|&read| [cell(&kernel, read), cell(&plain, read)]).collect();
    format!("| {} | {chip} | {} |", case.name, cells.join(" | "))
}
