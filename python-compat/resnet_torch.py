"""Saves a small PyTorch ResNet and its logits: `fixtures/resnet_torch/`.

`model.safetensors` has torchvision's names. `examples/resnet` reads it with `--weights FILE`, and
its tests compare with `recorded.safetensors`. Weights and statistics are random. The network is
torchvision's (v1.5), with one bottleneck per stage and width 4.

Requires CPython 3.11 with `torch`, `numpy` and `safetensors` of `requirements-gpt2.txt`. CI does
not run this script, because recorded numbers do not change.
"""

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

FOLDER = Path(__file__).resolve().parent / "fixtures" / "resnet_torch"
WIDTH, CLASSES = 4, 5
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class Bottleneck(nn.Module):
    """Convolutions 1x1, 3x3 with the stride, and 1x1, with torchvision's names."""

    def __init__(self, n_in, n, stride):
        super().__init__()
        conv = lambda a, b, k, stride=1: nn.Conv2d(a, b, k, stride, k // 2, bias=False)
        self.conv1, self.bn1 = conv(n_in, n, 1), nn.BatchNorm2d(n)
        self.conv2, self.bn2 = conv(n, n, 3, stride), nn.BatchNorm2d(n)
        self.conv3, self.bn3 = conv(n, 4 * n, 1), nn.BatchNorm2d(4 * n)
        self.downsample = nn.Sequential(conv(n_in, 4 * n, 1, stride), nn.BatchNorm2d(4 * n))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        return torch.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class Net(nn.Module):
    """A ResNet with one bottleneck per stage."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, WIDTH, 7, 2, 3, bias=False), nn.BatchNorm2d(WIDTH)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        n_in = WIDTH
        for stage in range(4):
            n = WIDTH * 2**stage
            setattr(
                self,
                f"layer{stage + 1}",
                nn.Sequential(Bottleneck(n_in, n, 1 if stage == 0 else 2)),
            )
            n_in = 4 * n
        self.fc = nn.Linear(n_in, CLASSES)

    def forward(self, x):
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def main():
    """Writes the fixtures."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Net().eval()
    with torch.no_grad():
        for name, leaf in model.state_dict().items():
            if name.endswith(
                ("running_var", "bn1.weight", "bn2.weight", "bn3.weight", "downsample.1.weight")
            ):
                leaf.uniform_(0.5, 1.5)
            elif name.endswith(("running_mean", "bias")):
                leaf.uniform_(-0.5, 0.5)
        images = torch.randint(0, 256, (2, 48, 40, 3), dtype=torch.uint8)
        x = (images.float() / 255 - torch.tensor(MEAN)) / torch.tensor(DEVIATION)
        logits = model(x.permute(0, 3, 1, 2))
    FOLDER.mkdir(exist_ok=True)
    save_file(
        {name: leaf.contiguous() for name, leaf in model.state_dict().items()},
        FOLDER / "model.safetensors",
    )
    save_file({"images": images, "logits": logits.contiguous()}, FOLDER / "recorded.safetensors")
    print(logits)


if __name__ == "__main__":
    main()
