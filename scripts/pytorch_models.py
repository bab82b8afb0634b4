# SPDX-License-Identifier: MIT
"""Models of layers/models/ in PyTorch, with the same parameters under the same names.

build() takes what `dragonn-bench step` says of a model, in its rows and in the model.json of a dump: name, settings,
sample, classes. Layouts are PyTorch's: images NCHW, convolution weights OIHW (here: NHWC and HWIO, to_pytorch() turns
them). Linear weights are [outputs, inputs] in both, with inputs flattened in NHWC order.
"""
import torch
from torch import nn
from torch.nn import functional as F

ACTIVATIONS = {"relu": F.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "gelu": F.gelu}


class Images(nn.Module):
    """A model of images, one class a sample."""

    def loss(self, images, labels):
        """The mean loss, and the logits."""
        logits = self(images)
        return F.cross_entropy(logits, labels), logits


class Mlp(Images):
    def __init__(self, settings, sample, classes):
        super().__init__()
        height, width, channels = sample if len(sample) == 3 else (1, 1, *sample)
        self.activation = ACTIVATIONS[settings["activation"]]
        self.dropout = settings["dropout"]
        units = [height * width * channels, *settings["hidden"]]
        self.names = [f"hidden{layer}" for layer in range(len(units) - 1)]
        for name, inputs, outputs in zip(self.names, units, units[1:]):
            self.add_module(name, nn.Linear(inputs, outputs))
        self.output = nn.Linear(units[-1], classes)

    def forward(self, x):
        x = x.permute(0, 2, 3, 1).flatten(1)
        for name in self.names:
            x = F.dropout(self.activation(getattr(self, name)(x)), self.dropout, self.training)
        return self.output(x)


class Vgg(Images):
    DEPTHS = {"vgg11": (1, 1, 2, 2, 2), "vgg13": (2, 2, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}

    def __init__(self, name, channels, classes):
        super().__init__()
        inputs, outputs = channels, 64
        self.stages = []
        for number, depth in enumerate(self.DEPTHS[name], 1):
            stage = nn.Module()
            for layer in range(1, depth + 1):
                stage.add_module(f"conv{layer}", nn.Conv2d(inputs, outputs, 3, padding=1))
                stage.add_module(f"bn{layer}", nn.BatchNorm2d(outputs))
                inputs = outputs
            self.add_module(f"stage{number}", stage)
            self.stages.append((stage, depth))
            outputs = min(512, 2 * outputs)
        self.output = nn.Linear(inputs, classes)

    def forward(self, x):
        for stage, depth in self.stages:
            for layer in range(1, depth + 1):
                x = F.relu(getattr(stage, f"bn{layer}")(getattr(stage, f"conv{layer}")(x)))
            x = F.max_pool2d(x, 2, ceil_mode=True)
        return self.output(x.mean((2, 3)))


class Block(nn.Module):
    """A residual block. convolutions: (outputs, side of the kernel, stride) of each; pad: the shortcut without parameters."""

    def __init__(self, inputs, convolutions, pad):
        super().__init__()
        outputs, stride = convolutions[-1][0], max(convolution[2] for convolution in convolutions)
        self.depth, self.pad, self.stride, self.added = len(convolutions), pad, stride, outputs - inputs
        channels = inputs
        for number, (width, side, step) in enumerate(convolutions, 1):
            self.add_module(f"conv{number}", nn.Conv2d(channels, width, side, step, side // 2, bias=False))
            self.add_module(f"bn{number}", nn.BatchNorm2d(width))
            channels = width
        self.shortcut = None
        if not pad and (stride > 1 or self.added):
            self.shortcut = nn.Module()
            self.shortcut.conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut.bn = nn.BatchNorm2d(outputs)

    def forward(self, x):
        inner = x
        for number in range(1, self.depth + 1):
            inner = getattr(self, f"bn{number}")(getattr(self, f"conv{number}")(inner))
            if number < self.depth:
                inner = F.relu(inner)
        if self.shortcut is not None:
            x = self.shortcut.bn(self.shortcut.conv(x))
        elif self.stride > 1 or self.added:
            before = self.added // 2
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, before, self.added - before))
        return F.relu(inner + x)


def basic_block(inputs, outputs, stride, pad):
    return Block(inputs, [(outputs, 3, stride), (outputs, 3, 1)], pad)


def bottleneck_block(inputs, outputs, stride, pad):
    return Block(inputs, [(outputs // 4, 1, 1), (outputs // 4, 3, stride), (outputs, 1, 1)], pad)


class ResNet(Images):
    """stages: blocks of each; outputs: channels of the first stage, doubled by each other one."""

    def __init__(self, channels, classes, stem, pool, stages, outputs, block, pad):
        super().__init__()
        self.stem = nn.Module()
        self.stem.conv = nn.Conv2d(channels, *stem, bias=False)
        self.stem.bn = nn.BatchNorm2d(stem[0])
        self.pool = pool
        inputs, self.blocks = stem[0], []
        for number, depth in enumerate(stages, 1):
            stage = nn.Module()
            for index in range(depth):
                added = block(inputs, outputs, 2 if number > 1 and index == 0 else 1, pad)
                stage.add_module(f"block{index}", added)
                self.blocks.append(added)
                inputs = outputs
            self.add_module(f"stage{number}", stage)
            outputs *= 2
        self.output = nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.relu(self.stem.bn(self.stem.conv(x)))
        if self.pool:
            x = F.max_pool2d(x, 3, 2, 1)
        for block in self.blocks:
            x = block(x)
        return self.output(x.mean((2, 3)))


class LstmLm(nn.Module):
    """Time goes first inside, which is PyTorch's quicker way; tokens and labels are [batch, steps]."""

    def __init__(self, settings, classes):
        super().__init__()
        hidden = settings["hidden"]
        width = settings["embedding"] or hidden
        self.embedding = nn.Embedding(classes, width)
        self.dropout = settings["dropout"]
        self.layers = []
        for layer in range(settings["layers"]):
            cell = {"lstm": nn.LSTM, "gru": nn.GRU}[settings["cell"]](width if layer == 0 else hidden, hidden)
            self.add_module(f"layer{layer}", cell)
            self.layers.append(cell)
        self.output = nn.Linear(hidden, classes)
        if settings["tied"]:
            self.output.weight = self.embedding.weight

    def forward(self, tokens, states=None):
        """Logits [batch, steps, classes], and the states that the next window begins with."""
        x = F.dropout(self.embedding(tokens.t()), self.dropout, self.training)
        carried = []
        for layer, state in zip(self.layers, states or [None] * len(self.layers)):
            x, state = layer(x, state)
            x = F.dropout(x, self.dropout, self.training)
            carried.append(state)
        return self.output(x).transpose(0, 1), carried

    def loss(self, tokens, labels, states=None):
        """The mean loss, the logits and the states."""
        logits, carried = self(tokens, states)
        by_time = logits.transpose(0, 1).flatten(0, 1)
        return F.cross_entropy(by_time, labels.view(tokens.shape).t().reshape(-1)), logits, carried


SMALL_STEM, LARGE_STEM = (3, 1, 1), (7, 2, 3)


def make_resnet(depth, settings, channels, classes):
    if depth in (18, 50):
        large = settings["stem"] == "imagenet"
        stages, outputs, block = {18: ((2, 2, 2, 2), 64, basic_block), 50: ((3, 4, 6, 3), 256, bottleneck_block)}[depth]
        return ResNet(channels, classes, (64, *(LARGE_STEM if large else SMALL_STEM)), large, stages, outputs, block, False)
    pad = settings["shortcut"] == "pad"
    return ResNet(channels, classes, (16, *SMALL_STEM), False, 3 * ((depth - 2) // 6,), 16, basic_block, pad)


RESNETS = [f"resnet{depth}" for depth in (18, 20, 32, 44, 50, 56, 110)]
KNOWN = ["mlp", *Vgg.DEPTHS, *RESNETS, "lstm_lm"]


def build(description):
    """A model by the keys model, settings, sample and classes. Raises ValueError for a model that is not here."""
    name, settings = description["model"], description["settings"]
    sample, classes = description["sample"], description["classes"]
    if name == "mlp":
        return Mlp(settings, sample, classes)
    if name in Vgg.DEPTHS:
        return Vgg(name, sample[2], classes)
    if name in RESNETS:
        return make_resnet(int(name.removeprefix("resnet")), settings, sample[2], classes)
    if name == "lstm_lm":
        return LstmLm(settings, classes)
    raise ValueError(f"model {name}: known here are {', '.join(KNOWN)}")


def named_parameters(model):
    """Parameters by the names that they have here. PyTorch's recurrent layers number theirs."""
    return {name.removesuffix("_l0"): parameter for name, parameter in model.named_parameters()}


def to_pytorch(value):
    """HWIO to OIHW; anything else as it is."""
    return value.permute(3, 2, 0, 1) if value.dim() == 4 else value
