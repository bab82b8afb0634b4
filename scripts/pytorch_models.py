# SPDX-License-Identifier: MIT
"""Models of layers/models/ in PyTorch, with the same parameters under the same names.

build() takes what `dragonn-bench step` says of a model, in its rows and in the model.json of a dump: name, settings,
sample, classes. Layouts are PyTorch's: images NCHW, convolution weights OIHW (here: NHWC and HWIO, to_pytorch() turns
them). Linear weights are [outputs, inputs] in both, with inputs flattened in NHWC order.
"""
import functools
import math

import torch
from torch import nn
from torch.nn import functional as F

ACTIVATIONS = {"relu": F.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "gelu": F.gelu}
CELLS = {"lstm": nn.LSTM, "gru": nn.GRU}
INITIAL_DEVIATION = 0.02  # of the tables of transformers


class Named(nn.Module):
    """A model whose parts get the names that they have here, dots included."""

    def __init__(self, settings):
        super().__init__()
        self.settings = settings
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

    def drop(self, x):
        return F.dropout(x, self.settings["dropout"], self.training)


def embedding(count, width, deviation):
    """A table whose first values are as small as dragonn's: with PyTorch's own, logits of a model that uses the table for its
    output, too, are so large that gradients are denormal numbers, and a step takes five times as long."""
    table = nn.Embedding(count, width)
    nn.init.normal_(table.weight, std=deviation)
    return table


def run(layers, x):
    for layer in layers:
        x = layer(x)
    return x


class Images(Named):
    """A model of images, one class a sample. If it says nothing else: `layers`, the mean over the pixels, `output`.

    A filter is a convolution, batch norm and ReLU: (channels, height, width, stride, padded).
    """

    def __init__(self, settings, bias=True, epsilon=1e-5):
        super().__init__(settings)
        self.bias, self.epsilon, self.layers, self.branches = bias, epsilon, [], {}

    def scaled(self, channels):
        """Channels times the setting `width`, rounded half away from zero."""
        return max(1, math.floor(channels * self.settings["width"] + 0.5))

    def add_filter(self, name, inputs, channels, height=1, width=1, stride=1, padded=True):
        """Returns the filter's layers, and its number of output channels."""
        outputs, padding = self.scaled(channels), (height // 2, width // 2) if padded else 0
        return [*self.convolution(name, inputs, outputs, (height, width), stride, padding, bias=self.bias), nn.ReLU()], outputs

    def convolution(self, name, inputs, outputs, side, stride=1, padding=0, number="", bias=False):
        """Adds a convolution and its batch norm, and returns them."""
        conv = self.put(f"{name}.conv{number}", nn.Conv2d(inputs, outputs, side, stride, padding, bias=bias))
        return [conv, self.put(f"{name}.bn{number}", nn.BatchNorm2d(outputs, self.epsilon))]

    def add_branch(self, name, inputs, *filters):
        """Adds filters one after the other. Returns the number of output channels."""
        self.branches[name] = []
        for number, shape in enumerate(filters, 1):
            layers, inputs = self.add_filter(f"{name}.{number}", inputs, *shape)
            self.branches[name] += layers
        return inputs

    def add_branches(self, name, inputs, *branches):
        """Adds branches beside each other. Returns the number of channels of all of them."""
        return sum(self.add_branch(f"{name}.branch{number}", inputs, *filters) for number, filters in enumerate(branches, 1))

    def branch(self, name, x):
        return run(self.branches[name], x)

    def add_linears(self, pixels, channels):
        """Adds two linear layers behind flattened images. Returns the number of their units."""
        units = self.scaled(4096)
        self.flattened["linear1.weight"] = (pixels, channels)
        self.linear1, self.linear2 = nn.Linear(channels * pixels, units), nn.Linear(units, units)
        return units

    def forward(self, x):
        return self.output(run(self.layers, x).mean((2, 3)))

    def loss(self, images, labels):
        """The mean loss, and the logits."""
        logits = self(images)
        return F.cross_entropy(logits, labels), logits


class Mlp(Images):
    def __init__(self, _, settings, sample, classes):
        super().__init__(settings)
        units = [math.prod(sample), *settings["hidden"]]
        self.layers = [self.put(f"hidden{layer}", nn.Linear(*sizes)) for layer, sizes in enumerate(zip(units, units[1:]))]
        self.output = nn.Linear(units[-1], classes)
        if len(sample) == 3:
            self.flattened["hidden0.weight" if self.layers else "output.weight"] = (sample[0] * sample[1], sample[2])

    def forward(self, x):
        x = flattened(x) if x.dim() == 4 else x.flatten(1)
        for layer in self.layers:
            x = self.drop(ACTIVATIONS[self.settings["activation"]](layer(x)))
        return self.output(x)


def flattened(x):
    """Pixels as features, in NHWC order."""
    return x.permute(0, 2, 3, 1).flatten(1)


class Vgg(Images):
    DEPTHS = {"vgg11": (1, 1, 2, 2, 2), "vgg13": (2, 2, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}

    def __init__(self, name, settings, sample, classes):
        super().__init__(settings)
        height, width, inputs = sample
        self.original = settings["form"] == "imagenet"
        for stage, depth in enumerate(self.DEPTHS[name], 1):
            for layer in range(1, depth + 1):
                outputs = self.scaled(min(512, 32 * 2**stage))
                self.layers.append(self.put(f"stage{stage}.conv{layer}", nn.Conv2d(inputs, outputs, 3, padding=1)))
                if not self.original:
                    self.layers.append(self.put(f"stage{stage}.bn{layer}", nn.BatchNorm2d(outputs)))
                self.layers.append(nn.ReLU())
                inputs = outputs
            self.layers.append(nn.MaxPool2d(2, ceil_mode=True))
        if self.original:
            inputs = self.add_linears(math.ceil(height / 32) * math.ceil(width / 32), inputs)
        self.output = nn.Linear(inputs, classes)

    def forward(self, x):
        if not self.original:
            return super().forward(x)
        x = flattened(run(self.layers, x))
        for linear in (self.linear1, self.linear2):
            x = self.drop(F.relu(linear(x)))
        return self.output(x)


class AlexNet(Images):
    WINDOWS = [(64, 11, 4, 2), (192, 5, 1, 2), (384, 3, 1, 1), (256, 3, 1, 1), (256, 3, 1, 1)]

    def __init__(self, _, settings, sample, classes):
        super().__init__(settings)
        sides, inputs = list(sample[:2]), sample[2]
        for number, (channels, side, stride, padding) in enumerate(self.WINDOWS, 1):
            outputs = self.scaled(channels)
            self.layers += [self.put(f"conv{number}", nn.Conv2d(inputs, outputs, side, stride, padding)), nn.ReLU()]
            sides = [(extent + 2 * padding - side) // stride + 1 for extent in sides]
            if number <= 2 and settings["local_response"]:
                self.layers.append(nn.LocalResponseNorm(5, 5e-4, 0.75, 2))
            if number in (1, 2, 5):
                self.layers.append(nn.MaxPool2d(3, 2))
                sides = [(extent - 3) // 2 + 1 for extent in sides]
            inputs = outputs
        self.output = nn.Linear(self.add_linears(math.prod(sides), inputs), classes)

    def forward(self, x):
        x = flattened(run(self.layers, x))
        for linear in (self.linear1, self.linear2):
            x = F.relu(linear(self.drop(x)))
        return self.output(x)


class GoogLeNet(Images):
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

    def __init__(self, _, settings, sample, classes):
        super().__init__(settings)
        self.layers, inputs = self.add_filter("stem", sample[2], 192, 3, 3)
        for name, (one, three_in, three, five_in, five, pooled) in self.MODULES.items():
            inputs = self.add_branches(name, inputs, [(one,)], [(three_in,), (three, 3, 3)],
                                       [(five_in,), (five, 3, 3), (five, 3, 3)], [(pooled,)])
        self.output = nn.Linear(inputs, classes)

    def forward(self, x):
        x = run(self.layers, x)
        for name in self.MODULES:
            if name in ("a4", "a5"):
                x = F.max_pool2d(x, 3, 2, 1)
            pooled = F.max_pool2d(x, 3, 1, 1)
            x = torch.cat([self.branch(f"{name}.branch{number}", pooled if number == 4 else x) for number in (1, 2, 3, 4)], 1)
        return self.output(self.drop(x.mean((2, 3))))


class FeedForward:
    """Two linear layers with an activation between them, on the last axis."""

    def __init__(self, model, name, width, units, activation=F.gelu):
        self.first = model.put(f"{name}.linear1", nn.Linear(width, units))
        self.second = model.put(f"{name}.linear2", nn.Linear(units, width))
        self.activation = activation

    def __call__(self, x):
        return self.second(self.activation(self.first(x)))


class Excitation(FeedForward):
    """Scales the channels of an image by what two linear layers make of their means."""

    def __init__(self, model, name, channels):
        super().__init__(model, name, channels, max(1, channels // 16), F.relu)

    def __call__(self, x):
        return x * torch.sigmoid(super().__call__(x.mean((2, 3))))[:, :, None, None]


class Residual:
    """Layers beside a shortcut; ReLU behind the sum."""

    def __init__(self, inner, shortcut):
        self.inner, self.shortcut = inner, shortcut

    def __call__(self, x):
        return F.relu(run(self.inner, x) + run(self.shortcut, x))


class PreactivationBlock:
    """Batch norm and ReLU in front of each convolution."""

    def __init__(self, model, name, inputs, unscaled, stride):
        outputs = model.scaled(unscaled)
        self.bn1 = model.put(f"{name}.bn1", nn.BatchNorm2d(inputs))
        conv1 = model.put(f"{name}.conv1", nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False))
        bn2 = model.put(f"{name}.bn2", nn.BatchNorm2d(outputs))
        conv2 = model.put(f"{name}.conv2", nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False))
        self.inner, self.shortcut = [conv1, bn2, nn.ReLU(), conv2, Excitation(model, f"{name}.excitation", outputs)], None
        if stride > 1 or inputs != outputs:
            self.shortcut = model.put(f"{name}.shortcut", nn.Conv2d(inputs, outputs, 1, stride, bias=False))

    def __call__(self, x):
        activated = F.relu(self.bn1(x))
        return run(self.inner, activated) + (x if self.shortcut is None else self.shortcut(activated))


def excited_block(model, name, inputs, unscaled, stride):
    outputs = model.add_branch(name, inputs, (unscaled, 3, 3, stride), (unscaled, 3, 3))
    inner, changes = [*model.branches[name], Excitation(model, f"{name}.excitation", outputs)], stride > 1 or inputs != outputs
    return Residual(inner, model.convolution(f"{name}.shortcut", inputs, outputs, 1, stride, bias=True) if changes else [])


class SeNet(Images):
    def __init__(self, _, settings, sample, classes):
        preactivation = settings["form"] == "preactivation"
        super().__init__(settings, bias=not preactivation)
        self.layers, inputs = self.add_filter("stem", sample[2], 64, 3, 3)
        for stage in range(1, 5):
            outputs = 516 if stage == 4 and not preactivation else 32 * 2**stage
            for block in range(2):
                block_of = PreactivationBlock if preactivation else excited_block
                stride = 2 if stage > 1 and block == 0 else 1
                self.layers.append(block_of(self, f"stage{stage}.block{block}", inputs, outputs, stride))
                inputs = self.scaled(outputs)
        self.output = nn.Linear(inputs, classes)


class InceptionV4(Images):
    def __init__(self, _, settings, sample, classes):
        self.small = small = settings["stem"] == "cifar"
        super().__init__(settings, bias=False, epsilon=1e-5 if small else 1e-3)
        self.stride = stride = 1 if small else 2
        add = self.add_branch
        inputs = add("stem1", sample[2], (32, 3, 3, stride, False), (32, 3, 3, 1, small), (64, 3, 3))
        inputs += add("stem2.branch", inputs, (96, 3, 3, stride, small))
        inputs = self.add_branches("stem3", inputs, [(64,), (96, 3, 3, 1, small)],
                                   [(64,), (64, 1, 7), (64, 7, 1), (96, 3, 3, 1, small)])
        inputs += add("stem4.branch", inputs, (192, 3, 3, stride, small))
        for name in ("a1", "a2", "a3", "a4"):
            inputs = self.add_branches(name, inputs, [(96,)], [(64,), (96, 3, 3)], [(64,), (96, 3, 3), (96, 3, 3)], [(96,)])
        inputs += self.add_branches("reduction_a", inputs, [(384, 3, 3, 2, False)], [(192,), (224, 3, 3), (256, 3, 3, 2, False)])
        for number in range(1, 8):
            inputs = self.add_branches(f"b{number}", inputs, [(384,)], [(192,), (224, 1, 7), (256, 7, 1)],
                                       [(192,), (192, 7, 1), (224, 1, 7), (224, 7, 1), (256, 1, 7)], [(128,)])
        inputs += self.add_branches("reduction_b", inputs, [(192,), (192, 3, 3, 2, small)],
                                    [(256,), (256, 1, 7), (320, 7, 1), (320, 3, 3, 2, small)])
        for name in ("c1", "c2", "c3"):
            self.add_branches(name, inputs, [(256,)], [(384,)], [(384,), (448, 3, 1), (512, 1, 3)], [(256,)])
            for branch, inner in ((f"{name}.branch2", self.scaled(384)), (f"{name}.branch3", self.scaled(512))):
                add(f"{branch}.row", inner, (256, 1, 3))
                add(f"{branch}.column", inner, (256, 3, 1))
            inputs = 6 * self.scaled(256)
        self.output = nn.Linear(inputs, classes)

    def run_modules(self, kind, count, x):
        for name in (f"{kind}{number}" for number in range(1, count + 1)):
            mean = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
            parts = [self.branch(f"{name}.branch1", x)]
            for branch in (f"{name}.branch2", f"{name}.branch3"):
                inner = self.branch(branch, x)
                forks = [f"{branch}.{end}" for end in ("row", "column") if f"{branch}.{end}" in self.branches]
                parts += [self.branch(fork, inner) for fork in forks] or [inner]
            x = torch.cat([*parts, self.branch(f"{name}.branch4", mean)], 1)
        return x

    def reduce(self, name, x, padded):
        return torch.cat([*(self.branch(f"{name}.branch{number}", x) for number in (1, 2)), F.max_pool2d(x, 3, 2, int(padded))], 1)

    def forward(self, x):
        x = self.branch("stem1", x)
        x = torch.cat([F.max_pool2d(x, 3, self.stride, int(self.small)), self.branch("stem2.branch", x)], 1)
        x = torch.cat([self.branch("stem3.branch1", x), self.branch("stem3.branch2", x)], 1)
        x = torch.cat([self.branch("stem4.branch", x), F.max_pool2d(x, 3, self.stride, int(self.small))], 1)
        x = self.reduce("reduction_a", self.run_modules("a", 4, x), False)
        x = self.reduce("reduction_b", self.run_modules("b", 7, x), self.small)
        return self.output(self.drop(self.run_modules("c", 3, x).mean((2, 3))))


def subsampled(stride, added, x):
    """A shortcut without parameters: every stride-th pixel, and so many channels of zeros around its channels."""
    return F.pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, added // 2, added - added // 2))


def residual_block(model, name, inputs, convolutions, pads):
    """convolutions: (outputs, side of the kernel, stride) of each; pads: the shortcut has no parameters."""
    inner, shortcut, channels, stride = [], [], inputs, max(stride for _, _, stride in convolutions)
    for number, (outputs, side, step) in enumerate(convolutions, 1):
        inner += [*model.convolution(name, channels, outputs, side, step, side // 2, number), nn.ReLU()]
        channels = outputs
    if pads:
        shortcut = [functools.partial(subsampled, stride, channels - inputs)]
    elif stride > 1 or channels != inputs:
        shortcut = model.convolution(f"{name}.shortcut", inputs, channels, 1, stride)
    return Residual(inner[:-1], shortcut)


class ResNet(Images):
    STAGES = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}  # blocks of each
    DEPTHS = [18, 20, 32, 44, 50, 56, 101, 110, 152]  # those without stages above have three for small images

    def __init__(self, name, settings, sample, classes):
        super().__init__(settings)
        depth = int(name.removeprefix("resnet"))
        four, bottleneck = depth in self.STAGES, depth in self.STAGES and depth > 18
        large, pads = four and settings["stem"] == "imagenet", not four and settings["shortcut"] == "pad"
        inputs = self.scaled(64) if four else 16
        widths = [(4 if bottleneck else 1) * self.scaled(64 * 2**stage) for stage in range(4)] if four else [16, 32, 64]
        self.layers = [*self.convolution("stem", sample[2], inputs, *((7, 2, 3) if large else (3, 1, 1))), nn.ReLU()]
        self.layers += [nn.MaxPool2d(3, 2, 1)] if large else []
        for number, (blocks, width) in enumerate(zip(self.STAGES.get(depth, 3 * [(depth - 2) // 6]), widths), 1):
            for index in range(blocks):
                stride = 2 if number > 1 and index == 0 else 1
                convolutions = [(width, 3, stride), (width, 3, 1)]
                if bottleneck:
                    convolutions = [(width // 4, 1, 1), (width // 4, 3, stride), (width, 1, 1)]
                self.layers.append(residual_block(self, f"stage{number}.block{index}", inputs, convolutions, pads))
                inputs = width
        self.output = nn.Linear(inputs, classes)


class LstmLm(Named):
    """Time goes first inside, which is PyTorch's quicker way; tokens and labels are [batch, steps]."""

    def __init__(self, _, settings, _sample, classes):
        super().__init__(settings)
        hidden = settings["hidden"]
        width = settings["embedding"] or hidden
        self.embedding = embedding(classes, width, settings["initial_bound"] / math.sqrt(3))
        self.layers = [self.put(f"layer{layer}", CELLS[settings["cell"]](hidden if layer else width, hidden))
                       for layer in range(settings["layers"])]
        self.output = nn.Linear(hidden, classes)
        if settings["tied"]:
            self.output.weight = self.embedding.weight

    def loss(self, tokens, labels, states=None):
        """The mean loss, the logits [batch, steps, classes], and the states that the next window begins with."""
        x, carried = self.drop(self.embedding(tokens.t())), []
        for layer, state in zip(self.layers, states or [None] * len(self.layers)):
            x, state = layer(x, state)
            x = self.drop(x)
            carried.append(state)
        logits = self.output(x)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.view(tokens.shape).t().reshape(-1))
        return loss, logits.transpose(0, 1), carried


class TransformerBlock:
    """Attention and a feed-forward part, each with a residual connection; layer norm in front of them or behind the sums."""

    def __init__(self, model, name, norm_first, causal, activation):
        self.model, self.norm_first, self.causal, width = model, norm_first, causal, model.settings["hidden"]
        self.qkv = model.put(f"{name}.attention.qkv", nn.Linear(width, 3 * width))
        self.output = model.put(f"{name}.attention.output", nn.Linear(width, width))
        self.norms = [model.put(f"{name}.part{part}.norm", nn.LayerNorm(width)) for part in (1, 2)]
        self.feed_forward = FeedForward(model, f"{name}.feed_forward", width, 4 * width, activation)

    def attend(self, x):
        # Queries, keys and values, each of all heads one behind the other.
        (batch, steps, width), heads = x.shape, self.model.settings["heads"]
        queries, keys, values = self.qkv(x).view(batch, steps, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(queries, keys, values, is_causal=self.causal)
        return self.output(attended.transpose(1, 2).reshape(batch, steps, width))

    def __call__(self, x):
        for norm, part in zip(self.norms, (self.attend, self.feed_forward)):
            added = self.model.drop(part(norm(x) if self.norm_first else x))
            x = x + added if self.norm_first else norm(x + added)
        return x


def transformer_blocks(model, norm_first, causal=False, activation=F.gelu):
    layers = range(model.settings["layers"])
    return [TransformerBlock(model, f"layer{layer}", norm_first, causal, activation) for layer in layers]


class Bert(Named):
    """Tokens and labels are [batch, steps]; nothing is padding."""

    def __init__(self, _, settings, _sample, classes):
        super().__init__(settings)
        width = settings["hidden"]
        self.embedding = embedding(classes, width, INITIAL_DEVIATION)
        self.position = embedding(settings["max_steps"], width, INITIAL_DEVIATION)
        self.put("embedding.norm", nn.LayerNorm(width))
        self.blocks = transformer_blocks(self, False)
        self.put("head.linear", nn.Linear(width, width))
        self.put("head.norm", nn.LayerNorm(width))
        self.output = nn.Linear(width, classes)
        if settings["tied"]:
            self.output.weight = self.embedding.weight

    def loss(self, tokens, labels):
        """The mean over the steps whose label is not -1, and the logits [batch, steps, classes]."""
        x = self.embedding(tokens) + self.position.weight[: tokens.shape[1]]
        x = run(self.blocks, self.drop(self.embedding.norm(x)))
        logits = self.output(self.head.norm(F.gelu(self.head.linear(x))))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1), logits


class Gpt2(Named):
    """Tokens and labels are [batch, steps]. The tables have a multiple of 64 rows, of which those behind the classes only pad:
    logits have such columns, and the loss leaves them out."""

    def __init__(self, _, settings, _sample, classes):
        super().__init__(settings)
        width, rows, self.classes = settings["hidden"], 64 * math.ceil(classes / 64), classes
        self.embedding = embedding(rows, width, INITIAL_DEVIATION)
        self.position = embedding(settings["positions"], width, INITIAL_DEVIATION / 2)
        self.blocks = transformer_blocks(self, True, True, functools.partial(F.gelu, approximate="tanh"))
        self.norm, self.output = nn.LayerNorm(width), nn.Linear(width, rows, bias=False)
        if settings["tied"]:
            self.output.weight = self.embedding.weight

    def loss(self, tokens, labels):
        """The mean over the steps whose label is not -1, and the logits [batch, steps, rows]."""
        x = self.embedding(tokens) + self.position.weight[: tokens.shape[1]]
        logits = self.output(self.norm(run(self.blocks, self.drop(x))))
        return F.cross_entropy(logits[..., : self.classes].flatten(0, 1), labels.flatten(), ignore_index=-1), logits


class Patches(Images):
    """Patches of an image as steps; a last patch that overhangs the image sees zeros there."""

    def __init__(self, _, settings, sample, classes):
        super().__init__(settings)
        height, width, channels = sample
        self.side, self.width = settings["patch"], settings["hidden"]
        self.steps = math.ceil(height / self.side) * math.ceil(width / self.side)
        self.patches = nn.Conv2d(channels, self.width, self.side, self.side)
        self.norm, self.output = nn.LayerNorm(self.width), nn.Linear(self.width, classes)

    def forward(self, x):
        below, right = -x.shape[2] % self.side, -x.shape[3] % self.side
        x = self.patches(F.pad(x, (0, right, 0, below))).flatten(2).transpose(1, 2)
        return self.output(self.norm(self.mix(x)).mean(1))


class Vit(Patches):
    def __init__(self, name, settings, sample, classes):
        super().__init__(name, settings, sample, classes)
        self.position = embedding(self.steps, self.width, INITIAL_DEVIATION)
        self.blocks = transformer_blocks(self, True)

    def mix(self, x):
        return run(self.blocks, self.drop(x + self.position.weight))


class MlpMixer(Patches):
    def __init__(self, name, settings, sample, classes):
        super().__init__(name, settings, sample, classes)
        self.blocks = [(*(self.put(f"{layer}.norm{part}", nn.LayerNorm(self.width)) for part in (1, 2)),
                        FeedForward(self, f"{layer}.tokens", self.steps, settings["token_units"]),
                        FeedForward(self, f"{layer}.channels", self.width, settings["channel_units"]))
                       for layer in (f"layer{number}" for number in range(settings["layers"]))]

    def mix(self, x):
        for norm1, norm2, over_steps, over_channels in self.blocks:
            x = x + over_steps(norm1(x).transpose(1, 2)).transpose(1, 2)
            x = x + over_channels(norm2(x))
        return x


class XmlLinear(nn.Module):
    """Features [batch, features]; one label a sample, of any number that it might have."""

    def __init__(self, _, _settings, sample, classes):
        super().__init__()
        self.output = nn.Linear(sample[0], classes, bias=False)

    def loss(self, features, labels):
        """The loss, summed over the classes and averaged over the samples, and the logits."""
        logits = self.output(features)
        targets = F.one_hot(labels, logits.shape[1]).to(logits.dtype)
        return F.binary_cross_entropy_with_logits(logits, targets, reduction="sum") / len(logits), logits


class LstmSpeech(Named):
    """Frames [batch, steps, features], all of them valid; one label a sample."""

    def __init__(self, _, settings, sample, classes):
        super().__init__(settings)
        channels, hidden = settings["channels"], settings["hidden"]
        self.conv1 = nn.Conv2d(1, channels, (11, 41), (2, 2), (5, 20))
        self.conv2 = nn.Conv2d(channels, channels, (11, 21), (1, 2), (5, 10))
        self.put("conv1.bn", nn.BatchNorm2d(channels))
        self.put("conv2.bn", nn.BatchNorm2d(channels))
        features = math.ceil(math.ceil(sample[1] / 2) / 2)
        self.flattened = {f"layer0.weight_ih{direction}": (features, channels) for direction in ("", "_reverse")}
        inputs, self.layers = features * channels, []
        for layer in range(settings["layers"]):
            recurrent = self.put(f"layer{layer}", CELLS[settings["cell"]](
                inputs, hidden, batch_first=True, bidirectional=settings["bidirectional"]))
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

    def loss(self, frames, labels):
        """The mean CTC loss over the samples (0 is the blank), and the logits."""
        x = frames.unsqueeze(1)
        for convolution in (self.conv1, self.conv2):
            x = F.hardtanh(convolution.bn(convolution(x)), 0, 20)
        x = x.permute(0, 2, 3, 1).flatten(2)
        for norm, recurrent in self.layers:
            x = recurrent(x if norm is None else self.normalize(norm, x))[0]
            if recurrent.bidirectional:
                x = x[..., : recurrent.hidden_size] + x[..., recurrent.hidden_size :]
        if self.ahead:
            # Step t becomes the sum over j of weight[j] * step t + j, feature by feature; there are zeros behind the last.
            padded = F.pad(x, (0, 0, 0, self.ahead))
            x = sum(weight * padded[:, j : j + x.shape[1]] for j, weight in enumerate(self.lookahead.weight))
            x = F.hardtanh(x, 0, 20)
        logits = self.output(self.normalize(self.output.bn, x))
        batch, steps, _ = logits.shape
        lengths = torch.full((batch,), steps), torch.ones(batch, dtype=torch.long)
        by_time = logits.transpose(0, 1).log_softmax(2)
        return F.ctc_loss(by_time, labels.view(batch, 1), *lengths, reduction="sum") / batch, logits


TOKEN_MODELS = ["lstm_lm", "bert", "gpt2"]
MODELS = {
    "mlp": Mlp, **dict.fromkeys(Vgg.DEPTHS, Vgg), **{f"resnet{depth}": ResNet for depth in ResNet.DEPTHS}, "alexnet": AlexNet,
    "googlenet": GoogLeNet, "inception_v4": InceptionV4, "senet18": SeNet, "vit": Vit, "mlp_mixer": MlpMixer, "lstm_lm": LstmLm,
    "bert": Bert, "gpt2": Gpt2, "lstm_speech": LstmSpeech, "xml_linear": XmlLinear,
}


def build(description):
    """A model by the keys model, settings, sample and classes. Raises ValueError for a model that is not here."""
    name = description["model"]
    if name not in MODELS:
        raise ValueError(f"model {name}: known here are {', '.join(MODELS)}")
    return MODELS[name](name, description["settings"], description["sample"], description["classes"])


def named_parameters(model):
    """Parameters by the names that they have here. PyTorch's recurrent layers number theirs."""
    return {name.replace("_l0", ""): parameter for name, parameter in model.named_parameters()}


def load_weights(model, tensors):
    """Fills a model with the tensors, by name, of a file that `dragonn-train --export` wrote. Such files have the channels of a
    flattened image before its pixels, as PyTorch flattens; the models here flatten as dragonn does. Raises ValueError if a name
    or a shape differs."""
    own = named_parameters(model) | {name: value for name, value in model.named_buffers() if "running_" in name}
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
