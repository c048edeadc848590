"""Runs the models of `benches/models.rs` in PyTorch, with the same initial numbers.

    python3.11 -m venv python-compat/.venv-torch
    python-compat/.venv-torch/bin/pip install -r python-compat/requirements-torch.txt
    OXIDAX_BENCH_TORCH=python-compat/.venv-torch/bin/python cargo bench --bench models

With `--serve`, answers requests as `models_serving.serve` describes. `--compile` passes the models
through `torch.compile`, which needs a C++ compiler. The layers and optimizers are PyTorch's own;
optimizers are the fused ones where a CPU has them.
"""

import math
import os
import sys

# Waiting threads sleep. By default they spin, and a step takes ten times as long on a busy machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# First calls must compile.
os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import models_serving
from models_serving import COMPARED, serve

COMPILED = "--compile" in sys.argv


def draw_numbers(*shape):
    """Returns numbers between -1 and 1 of a shape."""
    return torch.from_numpy(models_serving.draw_numbers(math.prod(shape)).reshape(shape))


def draw_integers(end, *shape):
    """Returns integers below `end` of a shape."""
    integers = models_serving.draw_integers(math.prod(shape), end)
    return torch.from_numpy(integers.astype(np.int64).reshape(shape))


def draw_weights(*shape):
    """Returns numbers with variance `1 / fan_in`, as `numbers::leaf` does."""
    return draw_numbers(*shape) * float(np.float32(math.sqrt(3 * shape[-1] / math.prod(shape))))


@torch.no_grad()
def fill(model):
    """Sets weights to the numbers of the other sides, biases to zero and scales to one.

    The other sides store linear maps as `[in, out]` and kernels as `[height, width, in, out]`.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight.copy_(draw_weights(module.in_features, module.out_features).T)
        elif isinstance(module, nn.Conv2d):
            shape = (*module.kernel_size, module.in_channels, module.out_channels)
            module.weight.copy_(draw_weights(*shape).permute(3, 2, 0, 1))
        elif isinstance(module, nn.Embedding):
            module.weight.copy_(draw_weights(*module.weight.shape))
        else:
            continue
        if getattr(module, "bias", None) is not None:
            module.bias.zero_()
    return model


def compiled(function):
    """Returns the function, compiled if `--compile` is given."""
    return torch.compile(function) if COMPILED else function


def training_loop(loss, optimizer, prepare=lambda: None):
    """Returns a function that makes a step and returns its loss.

    `prepare` runs between the gradients and the optimizer.
    """

    def call():
        optimizer.zero_grad()
        value = loss()
        value.backward()
        prepare()
        optimizer.step()
        return [value.item()]

    return call


def mlp(_sizes, _bf16):
    """Builds the model of `support/mlp.rs`."""
    sizes, batch = [784, 1024, 1024, 10], 128
    layers = [nn.Linear(*pair) for pair in zip(sizes, sizes[1:])]
    gelu = nn.GELU(approximate="tanh")
    model = fill(nn.Sequential(layers[0], gelu, layers[1], gelu, layers[2]))
    pixels = (torch.arange(batch * sizes[0]) % 255).float() / 255
    images, labels = pixels.reshape(batch, -1), torch.arange(batch) % 10
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, weight_decay=1e-4, fused=True)
    loss = compiled(lambda: F.cross_entropy(model(images), labels))
    return model, training_loop(loss, optimizer)


class Attention(nn.Module):
    """Causal attention with the projections of GPT-2, and a cache of keys and values."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, cache=None, position=None, mask=None):
        b, t, width = x.shape
        parts = self.c_attn(x).split(width, -1)
        query, keys, values = (p.reshape(b, t, self.heads, -1).transpose(1, 2) for p in parts)
        if cache is not None:
            cache[0].index_copy_(2, position, keys)
            cache[1].index_copy_(2, position, values)
            keys, values = cache
        attended = F.scaled_dot_product_attention(
            query, keys, values, attn_mask=mask, is_causal=cache is None
        )
        return self.c_proj(attended.transpose(1, 2).reshape(b, t, width))


class Block(nn.Module):
    """A transformer block of GPT-2."""

    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, 1e-5), nn.LayerNorm(width, 1e-5)
        self.attn = Attention(width, heads)
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, *cache):
        x = x + self.attn(self.ln_1(x), *cache)
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """GPT-2, whose head is the token embedding."""

    def __init__(self, sizes):
        super().__init__()
        width, heads = sizes["width"], sizes["heads"]
        self.wte = nn.Embedding(sizes["vocabulary"], width)
        self.wpe = nn.Embedding(sizes["positions"], width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(sizes["layers"]))
        self.ln_f = nn.LayerNorm(width, 1e-5)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)

    def decode(self, tokens, position, caches, mask):
        """Returns the most likely token after `tokens`, whose positions are `position`."""
        x = self.wte(tokens) + self.wpe(position)
        for block, cache in zip(self.h, caches):
            x = block(x, cache, position, mask[position])
        return F.linear(self.ln_f(x[:, -1:]), self.wte.weight).argmax(-1)


def gpt2(sizes, bf16):
    """Builds the model of `examples/gpt2` with its training recipe."""
    model = fill(Gpt2(sizes))
    text = draw_integers(sizes["vocabulary"], sizes["batch"], sizes["context"] + 1)
    tokens, targets = text[:, :-1].contiguous(), text[:, 1:].reshape(-1)

    def loss():
        if bf16:
            halves = {name: leaf.bfloat16() for name, leaf in model.named_parameters()}
            logits = torch.func.functional_call(model, halves, (tokens,)).float()
        else:
            logits = model(tokens)
        return F.cross_entropy(logits.flatten(0, 1), targets)

    parameters = list(model.parameters())
    groups = [
        {"params": [leaf for leaf in parameters if leaf.ndim >= 2], "weight_decay": 0.1},
        {"params": [leaf for leaf in parameters if leaf.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, 1e-3, betas=(0.9, 0.99), fused=True)
    peak, end, warmup, steps = 1e-3, 1e-4, 100, 2000

    def rate(step):
        if step < warmup:
            return (step + 1) / (warmup + 1)
        angle = math.pi * (step - warmup) / (steps - warmup)
        return (end + (peak - end) * (1 + math.cos(angle)) / 2) / peak

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    is_first = True

    def prepare():
        nonlocal is_first
        if not is_first:
            schedule.step()
        is_first = False
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)

    return model, training_loop(compiled(loss), optimizer, prepare)


def decode(sizes, _bf16):
    """Builds the greedy decoding of `support/models/gpt2.rs`, with a cache of a fixed size."""
    model = fill(Gpt2(sizes)).eval()
    prompt, count, width = sizes["prompt"], sizes["tokens"], sizes["width"]
    length, heads = prompt + count, sizes["heads"]
    tokens = draw_integers(sizes["vocabulary"], 1, prompt)
    mask = torch.tril(torch.ones(length, length, dtype=torch.bool))
    shape = (sizes["layers"], 2, 1, heads, length, width // heads)
    step = compiled(model.decode)

    def call():
        with torch.no_grad():
            caches = [tuple(pair) for pair in torch.zeros(shape)]
            token, chosen = model.decode(tokens, torch.arange(prompt), caches, mask), []
            for position in range(prompt, length):
                chosen.append(token)
                # The other sides also read the last token.
                token = step(token, torch.tensor([position]), caches, mask)
            return torch.cat(chosen, 1).flatten()[:COMPARED].tolist()

    return model, call


def conv_norm(n_in, n_out, window, stride=1):
    """Returns a convolution followed by batch normalization."""
    conv = nn.Conv2d(n_in, n_out, window, stride, window // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(n_out))


class Bottleneck(nn.Module):
    """Convolutions 1x1, 3x3 and 1x1 with a shortcut."""

    def __init__(self, n_in, features, stride):
        super().__init__()
        self.convs = nn.ModuleList(
            [
                conv_norm(n_in, features, 1),
                conv_norm(features, features, 3, stride),
                conv_norm(features, 4 * features, 1),
            ]
        )
        is_changed = stride != 1 or n_in != 4 * features
        self.shortcut = conv_norm(n_in, 4 * features, 1, stride) if is_changed else nn.Identity()

    def forward(self, x):
        y = self.convs[2](F.relu(self.convs[1](F.relu(self.convs[0](x)))))
        return F.relu(y + self.shortcut(x))


def resnet50(sizes, _bf16):
    """Builds the model of `support/models/resnet.rs`, in channels-last format."""
    batch, side = sizes["batch"], sizes["side"]
    layers = [conv_norm(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    n_in = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            layers.append(Bottleneck(n_in, 64 << stage, 2 if stage > 0 and block == 0 else 1))
            n_in = 4 * (64 << stage)
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, 1000)]
    model = fill(nn.Sequential(*layers)).to(memory_format=torch.channels_last)
    images = draw_numbers(batch, side, side, 3).permute(0, 3, 1, 2)
    labels = draw_integers(1000, batch)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, fused=True)
    loss = compiled(lambda: F.cross_entropy(model(images), labels))
    return model, training_loop(loss, optimizer)


class Encoder(nn.Module):
    """A layer of BERT."""

    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.projections = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.widen, self.narrow = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width, 1e-12) for _ in range(2))

    def forward(self, x, mask):
        b, t, width = x.shape
        *parts, out = self.projections
        query, keys, values = (
            part(x).reshape(b, t, self.heads, -1).transpose(1, 2) for part in parts
        )
        attended = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        x = self.norms[0](x + out(attended.transpose(1, 2).reshape(b, t, width)))
        return self.norms[1](x + self.narrow(F.gelu(self.widen(x))))


class Bert(nn.Module):
    """Sentence embeddings: the mean of the token vectors, normalized to length 1."""

    def __init__(self, sizes):
        super().__init__()
        width = sizes["width"]
        counts = sizes["vocabulary"], sizes["positions"], 2
        self.tables = nn.ModuleList(nn.Embedding(n, width) for n in counts)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.layers = nn.ModuleList(
            Encoder(width, sizes["heads"], sizes["inner"]) for _ in range(sizes["layers"])
        )

    def forward(self, tokens, mask):
        words, positions, kinds = self.tables
        x = self.norm(words(tokens) + positions.weight[: tokens.shape[1]] + kinds.weight[0])
        for layer in self.layers:
            x = layer(x, mask[:, None, None, :])
        weights = mask[:, :, None].float()
        return F.normalize((x * weights).sum(1) / weights.sum(1), dim=-1)


def bert(sizes, _bf16):
    """Builds the model of `support/models/bert.rs`."""
    batch, context = sizes["batch"], sizes["context"]
    tokens = draw_integers(sizes["vocabulary"], batch, context)
    lengths = torch.tensor([context - row * (context // 2) // batch for row in range(batch)])
    mask = torch.arange(context)[None, :] < lengths[:, None]
    model = fill(Bert(sizes)).eval()
    embed = compiled(model)

    def call():
        with torch.inference_mode():
            return embed(tokens, mask).flatten()[:COMPARED].tolist()

    return model, call


MODELS = {"mlp": mlp, "gpt2": gpt2, "decode": decode, "resnet50": resnet50, "bert": bert}


def counted(model):
    """Returns a function that returns the number of parameters of a model and its call."""

    def start(*settings):
        module, call = model(*settings)
        return sum(leaf.numel() for leaf in module.parameters()), call

    return start


if __name__ == "__main__":
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    serve(torch.__version__, {name: counted(model) for name, model in MODELS.items()})
