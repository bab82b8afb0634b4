# SPDX-License-Identifier: MIT
"""Models of layers/models/ in PyTorch, with the same parameters under the same names.

build() takes what `dragonn-bench step` says of a model, in its rows and in the model.json of a dump: name, settings,
sample, classes. Layouts are PyTorch's: images NCHW, convolution weights OIHW (here: NHWC and HWIO, to_pytorch() turns
them). Linear weights are [outputs, inputs] in both, with inputs flattened in NHWC order.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

ACTIVATIONS = {"relu": F.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "gelu": F.gelu}
INITIAL_DEVIATION = 0.02  # of the tables of transformers


class Named(nn.Module):
    """A module whose parts get the names that they have here, dots included."""

    def __init__(self):
        super().__init__()
        # By name: weights whose last axis is an image flattened in NHWC order, with the image's pixels and channels.
        self.flattened = {}

    def put(self, path, module):
        """Adds the module as `path`. A part of that name that holds other modules alone is made as needed."""
        *parents, name = path.split(".")
        place = self
        for parent in parents:
            if parent not in place._modules:
                place.add_module(parent, nn.Module())
            place = place._modules[parent]
        place.add_module(name, module)
        return module


def embedding(count, width, deviation):
    """A table whose first values are as small as dragonn's.

    With PyTorch's own, whose deviation is 1, the logits of a model that uses the table for its output, too, are so large
    that gradients are denormal numbers, and a step takes five times as long.
    """
    table = nn.Embedding(count, width)
    nn.init.normal_(table.weight, std=deviation)
    return table


class Images(Named):
    """A model of images, one class a sample."""

    def loss(self, images, labels):
        """The mean loss, and the logits."""
        logits = self(images)
        return F.cross_entropy(logits, labels), logits


class Mlp(Images):
    def __init__(self, settings, sample, classes):
        super().__init__()
        self.activation = ACTIVATIONS[settings["activation"]]
        self.dropout = settings["dropout"]
        units = [math.prod(sample), *settings["hidden"]]
        self.names = [f"hidden{layer}" for layer in range(len(units) - 1)]
        for name, inputs, outputs in zip(self.names, units, units[1:]):
            self.add_module(name, nn.Linear(inputs, outputs))
        self.output = nn.Linear(units[-1], classes)
        if len(sample) == 3:
            self.flattened[f"{[*self.names, 'output'][0]}.weight"] = (sample[0] * sample[1], sample[2])

    def forward(self, x):
        if x.dim() == 4:
            x = x.permute(0, 2, 3, 1)
        x = x.flatten(1)
        for name in self.names:
            x = F.dropout(self.activation(getattr(self, name)(x)), self.dropout, self.training)
        return self.output(x)


def scaled(channels, settings):
    """Channels times the setting `width`, rounded half away from zero."""
    return max(1, math.floor(channels * settings["width"] + 0.5))


def flattened(x):
    """Pixels as features, in NHWC order."""
    return x.permute(0, 2, 3, 1).flatten(1)


class Vgg(Images):
    DEPTHS = {"vgg11": (1, 1, 2, 2, 2), "vgg13": (2, 2, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}

    def __init__(self, name, settings, sample, classes):
        super().__init__()
        height, width, inputs = sample
        self.original, self.dropout, self.stages = settings["form"] == "imagenet", settings["dropout"], []
        for number, depth in enumerate(self.DEPTHS[name], 1):
            outputs = scaled(min(512, 32 * 2**number), settings)
            stage = nn.Module()
            for layer in range(1, depth + 1):
                stage.add_module(f"conv{layer}", nn.Conv2d(inputs, outputs, 3, padding=1))
                stage.add_module(f"bn{layer}", nn.Identity() if self.original else nn.BatchNorm2d(outputs))
                inputs = outputs
            self.add_module(f"stage{number}", stage)
            self.stages.append((stage, depth))
        if self.original:
            units, pixels = scaled(4096, settings), math.ceil(height / 32) * math.ceil(width / 32)
            self.flattened["linear1.weight"] = (pixels, inputs)
            self.linear1 = nn.Linear(inputs * pixels, units)
            self.linear2 = nn.Linear(units, units)
            inputs = units
        self.output = nn.Linear(inputs, classes)

    def forward(self, x):
        for stage, depth in self.stages:
            for layer in range(1, depth + 1):
                x = F.relu(getattr(stage, f"bn{layer}")(getattr(stage, f"conv{layer}")(x)))
            x = F.max_pool2d(x, 2, ceil_mode=True)
        if not self.original:
            return self.output(x.mean((2, 3)))
        x = flattened(x)
        for linear in (self.linear1, self.linear2):
            x = F.dropout(F.relu(linear(x)), self.dropout, self.training)
        return self.output(x)


class AlexNet(Images):
    WINDOWS = [(64, 11, 4, 2), (192, 5, 1, 2), (384, 3, 1, 1), (256, 3, 1, 1), (256, 3, 1, 1)]

    def __init__(self, settings, sample, classes):
        super().__init__()
        sides, inputs = list(sample[:2]), sample[2]
        self.dropout, self.layers = settings["dropout"], []
        for number, (channels, side, stride, padding) in enumerate(self.WINDOWS, 1):
            outputs = scaled(channels, settings)
            layers = [self.put(f"conv{number}", nn.Conv2d(inputs, outputs, side, stride, padding)), nn.ReLU()]
            sides = [(extent + 2 * padding - side) // stride + 1 for extent in sides]
            if number <= 2 and settings["local_response"]:
                layers.append(nn.LocalResponseNorm(5, 5e-4, 0.75, 2))
            if number in (1, 2, 5):
                layers.append(nn.MaxPool2d(3, 2))
                sides = [(extent - 3) // 2 + 1 for extent in sides]
            self.layers += layers
            inputs = outputs
        units = scaled(4096, settings)
        self.flattened["linear1.weight"] = (math.prod(sides), inputs)
        self.linear1 = nn.Linear(inputs * math.prod(sides), units)
        self.linear2 = nn.Linear(units, units)
        self.output = nn.Linear(units, classes)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        x = flattened(x)
        for linear in (self.linear1, self.linear2):
            x = F.relu(linear(F.dropout(x, self.dropout, self.training)))
        return self.output(x)


class Filters(Images):
    """A network of filters: convolution, batch norm and ReLU. A filter is (channels, height, width, stride, padded)."""

    def __init__(self, settings, bias, epsilon):
        super().__init__()
        self.settings, self.bias, self.epsilon, self.branches = settings, bias, epsilon, {}

    def add_filter(self, name, inputs, channels, height=1, width=1, stride=1, padded=True):
        """Returns the filter's layers, and its number of output channels."""
        outputs = scaled(channels, self.settings)
        padding = (height // 2, width // 2) if padded else 0
        conv = self.put(f"{name}.conv", nn.Conv2d(inputs, outputs, (height, width), stride, padding, bias=self.bias))
        return [conv, self.put(f"{name}.bn", nn.BatchNorm2d(outputs, self.epsilon)), nn.ReLU()], outputs

    def add_branch(self, name, inputs, *filters):
        """Adds filters one after the other, which run() finds by this name. Returns the number of output channels."""
        self.branches[name] = []
        for number, shape in enumerate(filters, 1):
            layers, inputs = self.add_filter(f"{name}.{number}", inputs, *shape)
            self.branches[name] += layers
        return inputs

    def run(self, name, x):
        for layer in self.branches[name]:
            x = layer(x)
        return x


class GoogLeNet(Filters):
    MODULES = {
        "a3": (64, 96, 128, 16, 32, 32),
        "b3": (128, 128, 192, 32, 96, 64),
        "a4": (192, 96, 208, 16, 48, 64),
        "b4": (160, 112, 224, 24, 64, 64),
        "c4": (128, 128, 256, 24, 64, 64),
        "d4": (112, 144, 288, 32, 64, 64),
        "e4": (256, 160, 320, 32, 128, 128),
        "a5": (256, 160, 320, 32, 128, 128),
        "b5": (384, 192, 384, 48, 128, 128),
    }

    def __init__(self, settings, sample, classes):
        super().__init__(settings, True, 1e-5)
        self.dropout = settings["dropout"]
        self.branches["stem"], inputs = self.add_filter("stem", sample[2], 192, 3, 3)
        for name, (one, three_in, three, five_in, five, pooled) in self.MODULES.items():
            inputs = (
                self.add_branch(f"{name}.branch1", inputs, (one,))
                + self.add_branch(f"{name}.branch2", inputs, (three_in,), (three, 3, 3))
                + self.add_branch(f"{name}.branch3", inputs, (five_in,), (five, 3, 3), (five, 3, 3))
                + self.add_branch(f"{name}.branch4", inputs, (pooled,))
            )
        self.output = nn.Linear(inputs, classes)

    def forward(self, x):
        x = self.run("stem", x)
        for name in self.MODULES:
            if name in ("a4", "a5"):
                x = F.max_pool2d(x, 3, 2, 1)
            branches = [self.run(f"{name}.branch{number}", x) for number in (1, 2, 3)]
            x = torch.cat([*branches, self.run(f"{name}.branch4", F.max_pool2d(x, 3, 1, 1))], 1)
        return self.output(F.dropout(x.mean((2, 3)), self.dropout, self.training))


class Excitation:
    """Scales the channels of an image by what two linear layers make of their means."""

    def __init__(self, model, name, channels):
        self.first = model.put(f"{name}.linear1", nn.Linear(channels, max(1, channels // 16)))
        self.second = model.put(f"{name}.linear2", nn.Linear(max(1, channels // 16), channels))

    def __call__(self, x):
        return x * torch.sigmoid(self.second(F.relu(self.first(x.mean((2, 3))))))[:, :, None, None]


class PreactivationBlock:
    """Batch norm and ReLU in front of each convolution."""

    def __init__(self, model, name, inputs, unscaled, stride):
        outputs = scaled(unscaled, model.settings)
        self.bn1 = model.put(f"{name}.bn1", nn.BatchNorm2d(inputs))
        self.conv1 = model.put(f"{name}.conv1", nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False))
        self.bn2 = model.put(f"{name}.bn2", nn.BatchNorm2d(outputs))
        self.conv2 = model.put(f"{name}.conv2", nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False))
        self.excitation, self.shortcut = Excitation(model, f"{name}.excitation", outputs), None
        if stride > 1 or inputs != outputs:
            self.shortcut = model.put(f"{name}.shortcut", nn.Conv2d(inputs, outputs, 1, stride, bias=False))

    def __call__(self, x):
        activated = F.relu(self.bn1(x))
        inner = self.excitation(self.conv2(F.relu(self.bn2(self.conv1(activated)))))
        return inner + (x if self.shortcut is None else self.shortcut(activated))


class ExcitedBlock:
    """Two filters; the shortcut has a convolution and batch norm if the shape changes."""

    def __init__(self, model, name, inputs, unscaled, stride):
        self.model, self.name = model, name
        outputs = model.add_branch(name, inputs, (unscaled, 3, 3, stride), (unscaled, 3, 3))
        self.excitation, self.shortcut = Excitation(model, f"{name}.excitation", outputs), nn.Identity()
        if stride > 1 or inputs != outputs:
            conv = model.put(f"{name}.shortcut.conv", nn.Conv2d(inputs, outputs, 1, stride))
            self.shortcut = nn.Sequential(conv, model.put(f"{name}.shortcut.bn", nn.BatchNorm2d(outputs)))

    def __call__(self, x):
        return F.relu(self.excitation(self.model.run(self.name, x)) + self.shortcut(x))


class SeNet(Filters):
    def __init__(self, settings, sample, classes):
        self.preactivation = settings["form"] == "preactivation"
        super().__init__(settings, not self.preactivation, 1e-5)
        self.branches["stem"], inputs = self.add_filter("stem", sample[2], 64, 3, 3)
        self.blocks = []
        for stage in range(1, 5):
            for block in range(2):
                name, stride, outputs = f"stage{stage}.block{block}", 2 if stage > 1 and block == 0 else 1, 32 * 2**stage
                if stage == 4 and not self.preactivation:
                    outputs = 516
                block_of = PreactivationBlock if self.preactivation else ExcitedBlock
                self.blocks.append(block_of(self, name, inputs, outputs, stride))
                inputs = scaled(outputs, settings)
        self.output = nn.Linear(inputs, classes)

    def forward(self, x):
        x = self.run("stem", x)
        for block in self.blocks:
            x = block(x)
        return self.output(x.mean((2, 3)))


class InceptionV4(Filters):
    MODULES_A, MODULES_B, MODULES_C = ([f"{kind}{number}" for number in range(1, count + 1)] for kind, count in
                                       (("a", 4), ("b", 7), ("c", 3)))

    def __init__(self, settings, sample, classes):
        self.small = small = settings["stem"] == "cifar"
        super().__init__(settings, False, 1e-5 if small else 1e-3)
        self.dropout, self.stride = settings["dropout"], 1 if small else 2
        add, stride = self.add_branch, self.stride
        inputs = add("stem1", sample[2], (32, 3, 3, stride, False), (32, 3, 3, 1, small), (64, 3, 3))
        inputs += add("stem2.branch", inputs, (96, 3, 3, stride, small))
        inputs = add("stem3.branch1", inputs, (64,), (96, 3, 3, 1, small)) + add(
            "stem3.branch2", inputs, (64,), (64, 1, 7), (64, 7, 1), (96, 3, 3, 1, small)
        )
        inputs += add("stem4.branch", inputs, (192, 3, 3, stride, small))
        for name in self.MODULES_A:
            inputs = self.add_module_of(name, inputs, 96, ((64,), (96, 3, 3)), ((64,), (96, 3, 3), (96, 3, 3)), 96)
        one = add("reduction_a.branch1", inputs, (384, 3, 3, 2, False))
        inputs += one + add("reduction_a.branch2", inputs, (192,), (224, 3, 3), (256, 3, 3, 2, False))
        for name in self.MODULES_B:
            far = ((192,), (192, 7, 1), (224, 1, 7), (224, 7, 1), (256, 1, 7))
            inputs = self.add_module_of(name, inputs, 384, ((192,), (224, 1, 7), (256, 7, 1)), far, 128)
        one = add("reduction_b.branch1", inputs, (192,), (192, 3, 3, 2, small))
        inputs += one + add("reduction_b.branch2", inputs, (256,), (256, 1, 7), (320, 7, 1), (320, 3, 3, 2, small))
        for name in self.MODULES_C:
            near, far = self.add_fork(f"{name}.branch2", inputs, (384,)), self.add_fork(
                f"{name}.branch3", inputs, (384,), (448, 3, 1), (512, 1, 3)
            )
            one, pooled = add(f"{name}.branch1", inputs, (256,)), add(f"{name}.branch4", inputs, (256,))
            inputs = one + near + far + pooled
        self.output = nn.Linear(inputs, classes)

    def add_module_of(self, name, inputs, one, near, far, pooled):
        branches = ((one,),), near, far, ((pooled,),)
        return sum(self.add_branch(f"{name}.branch{number}", inputs, *filters) for number, filters in enumerate(branches, 1))

    def add_fork(self, name, inputs, *filters):
        inner = self.add_branch(name, inputs, *filters)
        return self.add_branch(f"{name}.row", inner, (256, 1, 3)) + self.add_branch(f"{name}.column", inner, (256, 3, 1))

    def pool(self, x, stride, padded):
        return F.max_pool2d(x, 3, stride, 1 if padded else 0)

    def run_module(self, name, x):
        mean = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        parts = [self.run(f"{name}.branch1", x)]
        for branch in (f"{name}.branch2", f"{name}.branch3"):
            inner = self.run(branch, x)
            forks = [f"{branch}.{end}" for end in ("row", "column") if f"{branch}.{end}" in self.branches]
            parts += [self.run(fork, inner) for fork in forks] or [inner]
        return torch.cat([*parts, self.run(f"{name}.branch4", mean)], 1)

    def reduce(self, name, x, padded):
        branches = [self.run(f"{name}.branch{number}", x) for number in (1, 2)]
        return torch.cat([*branches, self.pool(x, 2, padded)], 1)

    def forward(self, x):
        x = self.run("stem1", x)
        x = torch.cat([self.pool(x, self.stride, self.small), self.run("stem2.branch", x)], 1)
        x = torch.cat([self.run("stem3.branch1", x), self.run("stem3.branch2", x)], 1)
        x = torch.cat([self.run("stem4.branch", x), self.pool(x, self.stride, self.small)], 1)
        for name in self.MODULES_A:
            x = self.run_module(name, x)
        x = self.reduce("reduction_a", x, False)
        for name in self.MODULES_B:
            x = self.run_module(name, x)
        x = self.reduce("reduction_b", x, self.small)
        for name in self.MODULES_C:
            x = self.run_module(name, x)
        return self.output(F.dropout(x.mean((2, 3)), self.dropout, self.training))


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
    """stages: blocks of each; outputs: channels of each."""

    def __init__(self, channels, classes, stem, pool, stages, outputs, block, pad):
        super().__init__()
        self.stem = nn.Module()
        self.stem.conv = nn.Conv2d(channels, *stem, bias=False)
        self.stem.bn = nn.BatchNorm2d(stem[0])
        self.pool = pool
        inputs, self.blocks = stem[0], []
        for number, (depth, width) in enumerate(zip(stages, outputs), 1):
            stage = nn.Module()
            for index in range(depth):
                added = block(inputs, width, 2 if number > 1 and index == 0 else 1, pad)
                stage.add_module(f"block{index}", added)
                self.blocks.append(added)
                inputs = width
            self.add_module(f"stage{number}", stage)
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
        self.embedding = embedding(classes, width, settings["initial_bound"] / math.sqrt(3))
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


def sequence_loss(logits, labels):
    """Softmax cross-entropy over time: the mean over the steps whose label is not -1. logits: [batch, steps, classes]."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1)


class FeedForward:
    """Two linear layers with GELU between them, on the last axis."""

    def __init__(self, model, name, width, units):
        self.first = model.put(f"{name}.linear1", nn.Linear(width, units))
        self.second = model.put(f"{name}.linear2", nn.Linear(units, width))

    def __call__(self, x):
        return self.second(F.gelu(self.first(x)))


class TransformerBlock:
    """Attention and a feed-forward part, each with a residual connection; layer norm in front of them or behind the sums."""

    def __init__(self, model, name, width, heads, dropout, norm_first):
        self.model, self.heads, self.dropout, self.norm_first = model, heads, dropout, norm_first
        self.qkv = model.put(f"{name}.attention.qkv", nn.Linear(width, 3 * width))
        self.output = model.put(f"{name}.attention.output", nn.Linear(width, width))
        self.norms = [model.put(f"{name}.part{part}.norm", nn.LayerNorm(width)) for part in (1, 2)]
        self.feed_forward = FeedForward(model, f"{name}.feed_forward", width, 4 * width)

    def attend(self, x):
        # Queries, keys and values, each of all heads one behind the other.
        batch, steps, width = x.shape
        parts = self.qkv(x).view(batch, steps, 3, self.heads, width // self.heads)
        queries, keys, values = parts.permute(2, 0, 3, 1, 4)
        heads = F.scaled_dot_product_attention(queries, keys, values)
        return self.output(heads.transpose(1, 2).reshape(batch, steps, width))

    def __call__(self, x):
        for norm, part in zip(self.norms, (self.attend, self.feed_forward)):
            added = F.dropout(part(norm(x) if self.norm_first else x), self.dropout, self.model.training)
            x = x + added if self.norm_first else norm(x + added)
        return x


class Bert(Named):
    """Tokens and labels are [batch, steps]; nothing is padding."""

    def __init__(self, settings, classes):
        super().__init__()
        width, self.dropout = settings["hidden"], settings["dropout"]
        self.embedding = embedding(classes, width, INITIAL_DEVIATION)
        self.position = embedding(settings["max_steps"], width, INITIAL_DEVIATION)
        self.put("embedding.norm", nn.LayerNorm(width))
        self.blocks = [
            TransformerBlock(self, f"layer{layer}", width, settings["heads"], self.dropout, False)
            for layer in range(settings["layers"])
        ]
        self.head = nn.Module()
        self.head.linear, self.head.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.output = nn.Linear(width, classes)
        if settings["tied"]:
            self.output.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens) + self.position.weight[: tokens.shape[1]]
        x = F.dropout(self.embedding.norm(x), self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        return self.output(self.head.norm(F.gelu(self.head.linear(x))))

    def loss(self, tokens, labels):
        """The mean loss, and the logits."""
        logits = self(tokens)
        return sequence_loss(logits, labels), logits


class Patches(Images):
    """Patches of an image as steps; a last patch that overhangs the image sees zeros there."""

    def __init__(self, settings, sample, classes):
        super().__init__()
        height, width, channels = sample
        self.side, self.width = settings["patch"], settings["hidden"]
        self.steps = math.ceil(height / self.side) * math.ceil(width / self.side)
        self.patches = nn.Conv2d(channels, self.width, self.side, self.side)
        self.norm = nn.LayerNorm(self.width)
        self.output = nn.Linear(self.width, classes)

    def forward(self, x):
        below, right = -x.shape[2] % self.side, -x.shape[3] % self.side
        x = self.patches(F.pad(x, (0, right, 0, below))).flatten(2).transpose(1, 2)
        return self.output(self.norm(self.mix(x)).mean(1))


class Vit(Patches):
    def __init__(self, settings, sample, classes):
        super().__init__(settings, sample, classes)
        self.dropout = settings["dropout"]
        self.position = embedding(self.steps, self.width, INITIAL_DEVIATION)
        self.blocks = [
            TransformerBlock(self, f"layer{layer}", self.width, settings["heads"], self.dropout, True)
            for layer in range(settings["layers"])
        ]

    def mix(self, x):
        x = F.dropout(x + self.position.weight, self.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        return x


class MlpMixer(Patches):
    def __init__(self, settings, sample, classes):
        super().__init__(settings, sample, classes)
        self.blocks = [self.make_block(f"layer{layer}", settings) for layer in range(settings["layers"])]

    def make_block(self, name, settings):
        norms = [self.put(f"{name}.norm{part}", nn.LayerNorm(self.width)) for part in (1, 2)]
        over_steps = FeedForward(self, f"{name}.tokens", self.steps, settings["token_units"])
        over_channels = FeedForward(self, f"{name}.channels", self.width, settings["channel_units"])
        return (*norms, over_steps, over_channels)

    def mix(self, x):
        for norm1, norm2, over_steps, over_channels in self.blocks:
            x = x + over_steps(norm1(x).transpose(1, 2)).transpose(1, 2)
            x = x + over_channels(norm2(x))
        return x


class XmlLinear(nn.Module):
    """Features [batch, features]; one label a sample, of any number that it might have."""

    def __init__(self, sample, classes):
        super().__init__()
        self.output = nn.Linear(sample[0], classes, bias=False)

    def loss(self, features, labels):
        """The loss, summed over the classes and averaged over the samples, and the logits."""
        logits = self.output(features)
        targets = F.one_hot(labels, logits.shape[1]).to(logits.dtype)
        return F.binary_cross_entropy_with_logits(logits, targets, reduction="sum") / len(logits), logits


class LstmSpeech(Named):
    """Frames [batch, steps, features], all of them valid; one label a sample."""

    def __init__(self, settings, sample, classes):
        super().__init__()
        channels, hidden = settings["channels"], settings["hidden"]
        self.conv1 = nn.Conv2d(1, channels, (11, 41), (2, 2), (5, 20))
        self.conv2 = nn.Conv2d(channels, channels, (11, 21), (1, 2), (5, 10))
        self.put("conv1.bn", nn.BatchNorm2d(channels))
        self.put("conv2.bn", nn.BatchNorm2d(channels))
        features = math.ceil(math.ceil(sample[1] / 2) / 2)
        self.flattened = {f"layer0.weight_ih{direction}": (features, channels) for direction in ("", "_reverse")}
        inputs, self.layers = features * channels, []
        for layer in range(settings["layers"]):
            cell = {"lstm": nn.LSTM, "gru": nn.GRU}[settings["cell"]]
            recurrent = cell(inputs, hidden, batch_first=True, bidirectional=settings["bidirectional"])
            self.put(f"layer{layer}", recurrent)
            norm = self.put(f"layer{layer}.bn", nn.BatchNorm1d(inputs)) if layer > 0 else None
            self.layers.append((norm, recurrent))
            inputs = hidden
        self.ahead = settings["lookahead"]
        if self.ahead:
            self.put("lookahead", embedding(self.ahead + 1, hidden, 1 / math.sqrt(3 * (self.ahead + 1))))
        self.output = nn.Linear(hidden, classes, bias=False)
        self.put("output.bn", nn.BatchNorm1d(hidden))

    @staticmethod
    def normalize(norm, x):
        return norm(x.transpose(1, 2)).transpose(1, 2)

    def look_ahead(self, x):
        """Step t becomes the sum over j of weight[j] * step t + j, feature by feature; there are zeros behind the last."""
        steps = x.shape[1]
        padded = F.pad(x, (0, 0, 0, self.ahead))
        return sum(weight * padded[:, j : j + steps] for j, weight in enumerate(self.lookahead.weight))

    def forward(self, frames):
        x = frames.unsqueeze(1)
        for convolution in (self.conv1, self.conv2):
            x = F.hardtanh(convolution.bn(convolution(x)), 0, 20)
        x = x.permute(0, 2, 3, 1).flatten(2)
        for norm, recurrent in self.layers:
            x = recurrent(x if norm is None else self.normalize(norm, x))[0]
            if recurrent.bidirectional:
                x = x[..., : recurrent.hidden_size] + x[..., recurrent.hidden_size :]
        if self.ahead:
            x = F.hardtanh(self.look_ahead(x), 0, 20)
        return self.output(self.normalize(self.output.bn, x))

    def loss(self, frames, labels):
        """The mean CTC loss over the samples (0 is the blank), and the logits."""
        logits = self(frames)
        batch, steps, _ = logits.shape
        lengths = torch.full((batch,), steps), torch.ones(batch, dtype=torch.long)
        by_time = logits.transpose(0, 1).log_softmax(2)
        return F.ctc_loss(by_time, labels.view(batch, 1), *lengths, reduction="sum") / batch, logits


SMALL_STEM, LARGE_STEM = (3, 1, 1), (7, 2, 3)


# Blocks of each stage, channels of a block's output over those inside, and the block.
FOUR_STAGES = {
    18: ((2, 2, 2, 2), 1, basic_block),
    50: ((3, 4, 6, 3), 4, bottleneck_block),
    101: ((3, 4, 23, 3), 4, bottleneck_block),
    152: ((3, 8, 36, 3), 4, bottleneck_block),
}


def make_resnet(depth, settings, channels, classes):
    if depth in FOUR_STAGES:
        large = settings["stem"] == "imagenet"
        stages, expansion, block = FOUR_STAGES[depth]
        outputs = [expansion * scaled(64 * 2**stage, settings) for stage in range(4)]
        stem = (scaled(64, settings), *(LARGE_STEM if large else SMALL_STEM))
        return ResNet(channels, classes, stem, large, stages, outputs, block, False)
    pad = settings["shortcut"] == "pad"
    return ResNet(channels, classes, (16, *SMALL_STEM), False, 3 * ((depth - 2) // 6,), (16, 32, 64), basic_block, pad)


RESNETS = [f"resnet{depth}" for depth in (18, 20, 32, 44, 50, 56, 101, 110, 152)]
IMAGE_MODELS = {"alexnet": AlexNet, "googlenet": GoogLeNet, "inception_v4": InceptionV4, "senet18": SeNet}
TOKEN_MODELS = ["lstm_lm", "bert"]
KNOWN = ["mlp", *Vgg.DEPTHS, *RESNETS, *IMAGE_MODELS, "vit", "mlp_mixer", *TOKEN_MODELS, "lstm_speech", "xml_linear"]


def build(description):
    """A model by the keys model, settings, sample and classes. Raises ValueError for a model that is not here."""
    name, settings = description["model"], description["settings"]
    sample, classes = description["sample"], description["classes"]
    if name == "mlp":
        return Mlp(settings, sample, classes)
    if name in Vgg.DEPTHS:
        return Vgg(name, settings, sample, classes)
    if name in RESNETS:
        return make_resnet(int(name.removeprefix("resnet")), settings, sample[2], classes)
    if name in IMAGE_MODELS:
        return IMAGE_MODELS[name](settings, sample, classes)
    if name in TOKEN_MODELS:
        return {"lstm_lm": LstmLm, "bert": Bert}[name](settings, classes)
    if name == "xml_linear":
        return XmlLinear(sample, classes)
    if name in ("vit", "mlp_mixer", "lstm_speech"):
        return {"vit": Vit, "mlp_mixer": MlpMixer, "lstm_speech": LstmSpeech}[name](settings, sample, classes)
    raise ValueError(f"model {name}: known here are {', '.join(KNOWN)}")


def named_parameters(model):
    """Parameters by the names that they have here. PyTorch's recurrent layers number theirs."""
    return {name.replace("_l0", ""): parameter for name, parameter in model.named_parameters()}


def load_weights(model, tensors):
    """Fills a model with the tensors, by name, of a file that `dragonn-train --export` wrote.

    Such files have the channels of a flattened image before its pixels, as PyTorch flattens; the models here flatten as
    dragonn does. Raises ValueError if a name or a shape differs.
    """
    own = dict(named_parameters(model))
    own.update((name, value) for name, value in model.named_buffers() if "running_" in name)
    if own.keys() != tensors.keys():
        raise ValueError(f"tensors {sorted(own.keys() ^ tensors.keys())} are in one of model and file alone")
    with torch.no_grad():
        for name, target in own.items():
            value = tensors[name]
            if name in getattr(model, "flattened", {}):
                pixels, channels = model.flattened[name]
                value = value.unflatten(1, (channels, pixels)).transpose(1, 2).flatten(1)
            if value.shape != target.shape:
                raise ValueError(f"tensor {name}: {list(value.shape)}, and in PyTorch {list(target.shape)}")
            target.copy_(value)


def to_pytorch(value):
    """HWIO to OIHW; anything else as it is."""
    return value.permute(3, 2, 0, 1) if value.dim() == 4 else value
