//! Reports of the doctor on training steps for TPUs.

use oxidax::doctor::{Fit, Kind, Kinds, Topic, examine, examine_with, fit};
use oxidax::jit::Lowered;
use oxidax::prelude::*;

type Step = Lowered<(Array, optim::State, Array), (Array, optim::State, Array)>;

/// Two layers of three products with a weight of `f32[256,256]`. On a mesh the batch is sharded by
/// rows.
fn step(batch: usize, policy: Policy, mesh: Option<&Mesh>) -> Step {
    let optimizer = optim::adam(1e-3);
    let weight = Array::of_type(Aval::new(DType::F32, [256, 256]));
    let state = eval_shape(|w: Array| optim::adam(1e-3).init(&w), &weight).unwrap();
    let step = move |w: Array, state: optim::State, x: Array| {
        let layer = |(w, h): &(Array, Array)| (0..3).fold(h.clone(), |h, _| tanh(h.matmul(w)));
        let layer =
            remat_with(layer, RematOptions { policy: policy.clone(), ..RematOptions::default() });
        let loss = |w: &Array| (0..2).fold(x.clone(), |h, _| layer(&(w.clone(), h))).mean();
        let (loss, gradients) = value_and_grad(loss)(&w);
        let (updates, state) = optimizer.update(&gradients, &state, &w);
        (optim::apply_updates(&w, &updates), state, loss)
    };
    let step = jit(step).name("train_step");
    let step = match mesh {
        None => step,
        Some(mesh) => {
            let (whole, rows) = (mesh.replicated(), mesh.sharding(p!["data"]).unwrap());
            step.in_shardings((&whole, &whole, &rows)).out_shardings(&whole)
        }
    };
    let x = Array::of_type(Aval::new(DType::F32, [batch, 256]));
    step.lower(weight, state, x).unwrap()
}

const KIB: u64 = 1 << 10;

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn step_on_one_chip() {
    let topology = Topology::named("v5e:1x1").unwrap();
    let kinds = Kinds::guessed().with("$[1]*", Kind::Optimizer);
    let report = examine_with(&step(4096, Policy::Everything, None), &topology, &kinds).unwrap();
    assert!(report.fits && report.devices == 1 && report.mesh.is_none());
    let bytes = |kind| report.memory.iter().find(|share| share.kind == kind).map(|it| it.bytes);
    assert_eq!(bytes(Kind::Parameters), Some(256 * KIB));
    // Two moments and a step counter.
    assert_eq!(bytes(Kind::Optimizer).map(|bytes| bytes / KIB), Some(512));
    assert_eq!(bytes(Kind::Inputs), Some(4096 * KIB));
    assert_eq!(report.memory.iter().map(|share| share.bytes).sum::<u64>(), report.needed);
    // Six products forward and twice as many backward, without the gradient of the batch.
    let product = 2 * 4096 * 256 * 256;
    assert_eq!(report.flops / product, 17, "{}", report.flops);
    let prediction = report.prediction.as_ref().unwrap();
    assert!(prediction.seconds > 0.0 && prediction.mfu > 0.0 && prediction.mfu <= 1.0);
    let place = report.lines[0].place.as_ref().unwrap();
    assert!(place.file.ends_with("doctor.rs"), "{place:?}");
    assert!(report.lines[0].text.as_ref().unwrap().contains("h.matmul(w)"));
    assert!(report.advice.iter().any(|advice| advice.topic == Topic::Float32));
    let page = report.to_string();
    assert!(page.starts_with("train_step for v5e:1x1 (TPU v5 lite), one device\nfits: "), "{page}");
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(json["fits"], true);
    assert_eq!(json["memory"][0]["kind"], "parameters");
    let page = report.to_html();
    for expected in [
        "predicted for TPU v5 lite</span>",
        "<dt>Step, at best</dt>",
        "<td>parameters</td><td class=\"number\" data-v=\"262144\">256 KiB</td>",
        "The operations of one execution, one after the other.",
        "The program has no collectives.",
        "Arrays in memory at the peak",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn step_on_a_mesh() {
    let topology = Topology::named("v5e:2x2").unwrap();
    let mesh = topology.mesh([("data", 4)]).unwrap();
    let report = examine(&step(4096, Policy::Everything, Some(&mesh)), &topology).unwrap();
    assert_eq!((report.devices, report.mesh.as_deref()), (4, Some("Mesh(data=4)")));
    assert!(report.collectives.as_ref().unwrap().contains("all-reduce"), "{report}");
    assert!(!report.prediction.as_ref().unwrap().exchanges.is_empty(), "{report}");
    assert!(report.to_html().contains("<td>all-reduce</td><td>data</td>"));
    let replicated = report.advice.iter().find(|advice| advice.topic == Topic::Replicated);
    assert!(replicated.unwrap().message.contains("are replicated on 4 devices"), "{report}");
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn too_large_step() {
    let topology = Topology::named("v5e:1x1").unwrap();
    let report = examine(&step(1 << 22, Policy::Everything, None), &topology).unwrap();
    assert!(!report.fits && report.needed > report.available.unwrap());
    assert!(report.too_large.as_ref().unwrap().contains("too many"), "{report}");
    assert!(report.memory.iter().any(|share| share.kind == Kind::Activations));
    assert!(report.advice.iter().any(|advice| advice.topic == Topic::Memory), "{report}");
}

#[test]
#[ignore = "needs libtpu: `cargo xtask tpu` runs it"]
fn fit_finds_batch_and_policy() {
    let topology = Topology::named("v5e:1x1").unwrap();
    let batches = vec![1 << 12, 1 << 21];
    let policies = vec![Policy::Everything, Policy::Nothing];
    let lowered = |batch: usize, policy: &Policy| Ok(step(batch, policy.clone(), None));
    let among = Fit { policies, batches, ..Fit::default() };
    let found = fit(&topology, &among, lowered).unwrap();
    assert!(found.best.fits && found.best.needed <= topology.memory().unwrap());
    // Rematerialization leaves memory for a larger batch.
    let largest = |policy: &Policy| {
        let fitting = found.trials.iter().filter(|trial| trial.fits && trial.policy == *policy);
        fitting.map(|trial| trial.batch).max()
    };
    assert!(largest(&Policy::Nothing) > largest(&Policy::Everything), "{found}");
    let policies = vec![Policy::Nothing];
    let tight = Fit { budget: Some(KIB), batches: vec![1 << 12], policies };
    let tight = fit(&topology, &tight, lowered).unwrap_err().to_string();
    assert!(tight.contains("fit: no batch and no policy"), "{tight}");
}
