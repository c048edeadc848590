//! The examples of the gallery: how each is run, and which line of its output is its result.

/// The folder that `examples/fashion_mnist.sh` fills and prints.
pub(super) const FASHION_MNIST: &str = "{fashion_mnist}";

/// One program.
pub(super) struct Example {
    /// The package of `examples`, and the binary of that package; or `oxidax`, and its example.
    pub(super) package: &'static str,
    pub(super) binary: &'static str,
    pub(super) result: Result,
    /// The file name of its picture, and what the picture shows.
    pub(super) picture: Option<(&'static str, &'static str)>,
}

/// The origin of an example's time and figure.
pub(super) enum Result {
    /// `cargo xtask gallery` runs the program.
    Measured {
        /// Arguments, relative to the root of the repository. `{out}` is a folder for outputs,
        /// `{images}` the folder of pictures, `{fashion_mnist}` that of the data set.
        arguments: &'static str,
        /// The beginning of the line of the output that is shown. The last such line counts.
        line: &'static str,
        /// An output that becomes the picture, if the program has no option for its name.
        drawn: Option<&'static str>,
    },
    /// Data, plugins or hours are needed that the command does not have.
    Published {
        arguments: &'static str,
        time: &'static str,
        figure: &'static str,
        /// A page from the root of the repository.
        source: &'static str,
    },
}

const fn research(
    binary: &'static str,
    arguments: &'static str,
    line: &'static str,
    picture: (&'static str, &'static str),
) -> Example {
    let result = Result::Measured { arguments, line, drawn: None };
    Example { package: "research", binary, result, picture: Some(picture) }
}

pub(super) const EXAMPLES: &[Example] = &[
    Example {
        package: "mlp",
        binary: "mlp",
        result: Result::Measured {
            arguments: "--checkpoint {out}/mlp.safetensors --chart {images}/mlp.svg",
            line: "test accuracy",
            drawn: None,
        },
        picture: Some(("mlp.svg", "Loss of each step on the digits")),
    },
    Example {
        package: "gpt2",
        binary: "gpt2",
        result: Result::Measured {
            arguments: "train --steps 200 --out {out}/gpt2 --run {out}/gpt2-run",
            line: "held out",
            drawn: Some("gpt2-run/loss.svg"),
        },
        picture: Some(("gpt2.svg", "Losses in nats per character, and the learning rate")),
    },
    Example {
        package: "resnet",
        binary: "resnet",
        result: Result::Measured {
            arguments: "--data {fashion_mnist} \
                        --out {out}/resnet --test-images 1000 --steps 120 --batch 32 \
                        --learning-rate 0.02 --zero-init --no-augment --chart {images}/resnet.svg",
            line: "test accuracy",
            drawn: None,
        },
        picture: Some(("resnet.svg", "Loss of each step on Fashion-MNIST")),
    },
    Example {
        package: "diffusion",
        binary: "diffusion",
        result: Result::Measured {
            arguments: "--out {images}/digits.svg --chart {images}/diffusion.svg",
            line: "recognized",
            drawn: None,
        },
        picture: Some(("diffusion.svg", "Mean loss of each hundred steps")),
    },
    Example {
        package: "bert",
        binary: "bert",
        result: Result::Published {
            arguments: "--weights target/minilm \"A cat sits.\" \"A feline rests.\"",
            time: "seconds, after a download of 84 MB",
            figure: "22 vectors equal those of `transformers` within 1e-5",
            source: "examples/bert/README.md",
        },
        picture: None,
    },
    research(
        "neural_ode",
        "--chart {images}/neural_ode.svg",
        "new paths",
        ("neural_ode.svg", "Mean squared error of the trajectories, by step"),
    ),
    research(
        "maml",
        "--chart {images}/maml.svg",
        "last 50 steps",
        ("maml.svg", "Loss on new sine waves after one step of adaptation"),
    ),
    research(
        "hmc",
        "--chart {images}/hmc.svg",
        "accepted",
        ("hmc.svg", "Mean effect of the schools in one chain, by sample"),
    ),
    research(
        "ppo",
        "--chart {images}/ppo.svg",
        "last 10",
        ("ppo.svg", "Steps for which the pole stays up, by update"),
    ),
    research(
        "graph_net",
        "--chart {images}/graph_net.svg",
        "error",
        ("graph_net.svg", "Mean squared error of the forces, by step"),
    ),
    research(
        "kalman",
        "--chart {images}/kalman.svg",
        "frequency",
        ("kalman.svg", "Negative log likelihood per measurement, by step"),
    ),
    research(
        "implicit_layer",
        "--chart {images}/implicit_layer.svg",
        "unseen",
        ("implicit_layer.svg", "Mean squared error of the denoised signals, by step"),
    ),
    research(
        "pinn",
        "--chart {images}/pinn.svg",
        "loss",
        ("pinn.svg", "Squared residual of Burgers' equation, by step"),
    ),
    research(
        "blockwise_attention",
        "--chart {images}/blockwise_attention.svg",
        "accuracy",
        ("blockwise_attention.svg", "Cross entropy of each step"),
    ),
    research(
        "own_optimizer",
        "--chart {images}/own_optimizer.svg",
        "accuracy",
        ("own_optimizer.svg", "Cross entropy of each step"),
    ),
    Example {
        package: "parallel",
        binary: "parallel",
        result: Result::Measured {
            arguments: "tensor --steps 20",
            line: "difference",
            drawn: None,
        },
        picture: None,
    },
    Example {
        package: "kernels",
        binary: "kernels",
        result: Result::Measured { arguments: "", line: "difference", drawn: None },
        picture: None,
    },
    Example {
        package: "exercises",
        binary: "exercises",
        result: Result::Published {
            arguments: "devices",
            time: "10 s",
            figure: "1024 images: compiled in 0.13 s, first call 53 ms, later calls 26 ms",
            source: "examples/exercises/README.md",
        },
        picture: None,
    },
    Example {
        package: "plans",
        binary: "plans",
        result: Result::Published {
            arguments: "",
            time: "91 minutes, with libtpu",
            figure: "memory and predicted times of steps on five generations of TPUs",
            source: "docs/tpu-plans.md",
        },
        picture: None,
    },
    Example {
        package: "oxidax",
        binary: "doctor",
        result: Result::Published {
            arguments: "--topology v5e:2x2 --mesh data=4 --batch 4096",
            time: "31 s, with libtpu",
            figure: "fits: 1.19 GiB of 15.75 GiB; a step takes 7.02 ms at best",
            source: "docs/ahead-of-time.md",
        },
        picture: None,
    },
];
