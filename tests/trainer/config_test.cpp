// SPDX-License-Identifier: MIT
#include "trainer/config/config.h"

#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/error.h"
#include "tests/support/text.h"
#include "trainer/config/config_keys.h"
#include "trainer/config/toml_config.h"

namespace {

using dragonn::test::contains;

using namespace dragonn;
using namespace dragonn::trainer;

constexpr const char* kBase = R"(seed = 7
[model]
name = "mlp"
[data]
name = "synthetic_images"
[optimizer]
momentum = 0.9
)";

RunSpec parse(const std::string& more = "", const std::vector<std::string>& overrides = {}) {
  return parse_config(kBase + more, "test.toml", overrides);
}

/// The message of the ConfigError that parsing throws, or "".
std::string error_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_config(text, "test.toml", overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_SUITE("trainer") {
  TEST_CASE("keys that are absent have their defaults, integers are numbers") {
    const RunSpec config = parse("learning_rate = 1\n");
    CHECK(config.seed == 7);
    CHECK(config.optimizer.name == "sgd");
    CHECK(config.optimizer.learning_rate == 1.0);
    CHECK(config.optimizer.settings.number("momentum") == 0.9);
    CHECK(config.schedule.name == "constant");
    CHECK(config.compression.is_dense());
    CHECK(config.compression.sparsifier.name == "none");
    CHECK(config.compression.collective.name == "dense");
    CHECK(config.compression.memory.name == "none");
    CHECK_FALSE(config.rules.buckets.compress);
  }

  TEST_CASE("an error says file, line, column, key, value and what would be valid") {
    const std::string range = error_of(std::string(kBase) + "[compression]\n  density = 1.5\n");
    CHECK(range == "test.toml:9:3: compression.density = 1.5: expected number in (0, 1]");
    const std::string type = error_of(std::string(kBase) + "[train]\nepochs = \"ten\"\n");
    CHECK(type == "test.toml:9:1: train.epochs = \"ten\": expected integer of at least 1");
    const std::string name = error_of("[model]\nname = \"resnet21\"\n[data]\nname = \"synthetic_images\"\n");
    CHECK(contains(name, "test.toml:2:1: model.name = \"resnet21\": expected string, one of "));
    CHECK(contains(name, "; did you mean 'resnet2"));
    CHECK(contains(error_of(std::string(kBase) + "weight_decay = -1.0\n"), "test.toml:8:1: optimizer.weight_decay"));
    CHECK(contains(error_of("[model\nname = 1\n"), "test.toml:1:"));
    std::string deep = "a";
    for (int i = 0; i < 300'000; ++i) deep += ".a";  // tables in tables, which would overflow the stack
    CHECK(error_of("seed = 1\n" + deep + " = 1\n") == "test.toml:2: a line with 300000 dots: expected at most 500");
    CHECK(contains(error_of(kBase, {"seed={" + deep + "=1}"}), "--set:1: a line with 300000 dots"));
    CHECK(contains(error_of(std::string(kBase) + "[train]\nepochs = 1979-05-27\n"), "expected a boolean, integer"));
  }

  TEST_CASE("a number is finite, whatever its range") {
    for (const char* number : {"inf", "-inf", "nan"}) {
      CAPTURE(number);
      CHECK(contains(error_of(kBase, {fmt::format("optimizer.learning_rate={}", number)}), "expected number of at"));
      CHECK(contains(error_of(kBase, {fmt::format("optimizer.momentum={}", number)}), "expected number"));
      CHECK(contains(error_of(kBase, {fmt::format("compression.bucket={}", number)}), "or number above 0"));
      CHECK(contains(error_of(kBase, {"schedule.name=milestones", fmt::format("schedule.gamma={}", number)}),
                     "expected number"));
    }
  }

  TEST_CASE("the update scheme is synchronous, and an unknown one is refused with those that there are") {
    CHECK(parse().update.scheme.name == "synchronous");
    ParameterArena arena;
    const Config config = parse();
    CHECK(config.update.scheme.entry().make(config.update.scheme.settings, arena)->is_synchronized());
    const auto names = Registry<UpdateSchemeEntry>::instance().names();
    CHECK(
        contains(error_of(std::string(kBase) + "[update]\nscheme = \"synchronos\"\n"),
                 fmt::format("update.scheme = \"synchronos\": expected string, one of {}; did you mean 'synchronous'?",
                             fmt::join(names, " | "))));
    CHECK(contains(error_of(kBase, {"update.every=2"}), "unknown key"));
  }

  TEST_CASE("an unknown key or table is refused, and the nearest valid name is proposed") {
    const std::string key = error_of(std::string(kBase) + "[train]\nepoch = 3\n");
    CHECK(
        contains(key, "test.toml:9:1: train.epoch = 3: unknown key; did you mean 'train.epochs'? valid in [train]: "));
    CHECK(contains(error_of(std::string(kBase) + "[trian]\n"), "unknown table [trian]; did you mean 'train'?"));
    CHECK(contains(error_of(std::string("learning_rate = 0.1\n") + kBase), "did you mean 'optimizer.learning_rate'?"));
    CHECK(error_of(std::string(kBase) + "[compression.dcg]\n") ==
          "test.toml:8:14: unknown table [compression.dcg]; did you mean 'compression.dgc'?");
    CHECK(error_of(kBase, {"dataset.name=mnist"}) ==
          "--set dataset.name=mnist: unknown table [dataset]; did you mean 'data'?");
    CHECK(contains(error_of(kBase, {"models.width=2"}), "unknown table [models]; did you mean 'model'?"));
    CHECK(contains(error_of(kBase, {"optim.name=sgd"}), "unknown table [optim]; did you mean 'optimizer'?"));
    CHECK(contains(error_of(kBase, {"dgc.sample_ratio=1"}), "unknown table [dgc]; did you mean 'compression.dgc'?"));
    CHECK(error_of(kBase, {"xyzzyq.a=1"}) ==
          "--set xyzzyq.a=1: unknown table [xyzzyq]; valid: model, data, train, optimizer, schedule, update, "
          "compression, comm, "
          "network, checkpoint, logging");
    CHECK(contains(error_of(std::string(kBase) + "[compression.topk]\nsample = 3\n"), "unknown key"));
    CHECK(contains(error_of(kBase, {"train=3"}), "--set train=3: train is a table of keys: epochs"));
  }

  TEST_CASE("words of other programs, and parts of a name, are understood in a hint") {
    const auto hint_of = [](const std::string& assignment) { return error_of(kBase, {assignment}); };
    CHECK(contains(hint_of("optimizer.lr=0.1"), "did you mean 'optimizer.learning_rate'?"));
    CHECK(contains(hint_of("train.lr=0.1"), "did you mean 'optimizer.learning_rate'?"));
    CHECK(contains(hint_of("train.bs=8"), "did you mean 'train.batch_size'?"));
    CHECK(contains(hint_of("train.batch=8"), "did you mean 'train.batch_size'?"));
    CHECK(contains(hint_of("optimizer.wd=0"), "did you mean 'optimizer.weight_decay'?"));
    CHECK(contains(hint_of("train.smoothing=0"), "did you mean 'train.label_smoothing'?"));
    CHECK(contains(hint_of("device=gpu"), "did you mean 'cuda'?"));
    CHECK(likely_key("epochs") == "train.epochs");
    CHECK(likely_key("max_step") == "train.max_steps");
    CHECK_FALSE(likely_key("xyzzy_quux").has_value());
  }

  TEST_CASE("a sparsifier without a memory loses what it does not send, and a warning says so") {
    const auto warnings = [](const std::vector<std::string>& overrides) {
      return config_warnings(parse("", overrides));
    };
    REQUIRE(warnings({"compression.method=topk", "compression.memory=none"}).size() == 1);
    CHECK(contains(warnings({"compression.method=topk", "compression.memory=none"}).front(), "are lost"));
    CHECK(warnings({"compression.method=topk"}).empty());
    CHECK(warnings({"compression.method=topk", "compression.memory=none", "compression.density=1"}).empty());
    CHECK(warnings({"compression.method=qsgd"}).empty());
    CHECK(warnings({}).empty());
    CHECK(warnings({"compression.method=randomk", "compression.memory=none", "compression.randomk.rescale=true"})
              .empty());
  }

  TEST_CASE("a model and a data set must be named") {
    CHECK(
        contains(error_of("[data]\nname = \"synthetic_images\"\n"), "model.name is missing: expected string, one of"));
    CHECK(contains(error_of("[model]\nname = \"mlp\"\n"), "data.name is missing"));
    CHECK(contains(error_of("[model]\nname = \"mlp\"\n[data]\nname = \"cifar10\"\n"), "data.path is missing"));
  }

  TEST_CASE("a missing file is an error of the config") {
    CHECK_THROWS_WITH_AS(load_config("no/such/file.toml"), "no such file: no/such/file.toml", ConfigError);
  }

  TEST_CASE("overrides take a TOML value or else a string, and the last one wins") {
    const RunSpec config =
        parse("", {"train.epochs=5", "optimizer.learning_rate=1e-2", "schedule.name=milestones",
                   "schedule.milestones=[2, 4]", "data.path=a b", "train.epochs=6", "compression.bucket=4"});
    CHECK(config.train.epochs == 6);
    CHECK(config.optimizer.learning_rate == 0.01);
    CHECK(config.schedule.settings.integers("milestones") == std::vector<std::int64_t>{2, 4});
    CHECK(config.data.path == "a b");
    CHECK(config.rules.buckets.grouping == exchange::BucketRules::Grouping::kBytes);
    CHECK(config.rules.buckets.bytes == std::size_t{4} << 20);
    CHECK(parse("", {"optimizer.learning_rate=.02"}).optimizer.learning_rate == 0.02);
    CHECK(parse("", {"optimizer.learning_rate=1."}).optimizer.learning_rate == 1);
    CHECK(parse("", {"data.path=2024"}).data.path == "2024");
    CHECK(parse("", {"data.path=.5"}).data.path == ".5");
    CHECK(parse("", {"data.path=$HOME/~x"}).data.path == "$HOME/~x");
  }

  TEST_CASE("an error in an override names the override") {
    CHECK(error_of(kBase, {"train.epochs=0"}) == "--set train.epochs=0: expected integer of at least 1");
    CHECK(
        contains(error_of(kBase, {"train.epoch=1"}), "--set train.epoch=1: unknown key; did you mean 'train.epochs'?"));
    CHECK(contains(error_of(kBase, {"train.epochs"}), "--set train.epochs: expected key=value"));
    CHECK(contains(error_of(kBase, {"compression.method=topkk"}), "did you mean 'topk'?"));
    CHECK(error_of(kBase, {"compression.density=2"}) == "--set compression.density=2: expected number in (0, 1]");
    CHECK(error_of(kBase, {"compression.density=.5."}) == "--set compression.density=.5.: expected number in (0, 1]");
    CHECK(contains(error_of(kBase, {"compression.bucket=-1"}),
                   "expected string, one of auto | tensor | model; or number"));
  }

  TEST_CASE("a method sets sparsifier, collective and memory, and each can be set apart") {
    const Config topk = parse("[compression]\nmethod = \"topk\"\n");
    CHECK(topk.compression.sparsifier.name == "topk");
    CHECK(topk.compression.collective.name == "allgather");
    CHECK(topk.compression.memory.name == "residual");
    CHECK(parse("[compression]\nmethod = \"dgc\"\n").compression.memory.name == "momentum_correction");
    CHECK(parse("[compression]\nmethod = \"dgc\"\n", {"optimizer.momentum=0"}).compression.memory.name == "residual");
    const Config apart = parse("[compression]\nmethod = \"dgc\"\nsparsifier = \"topk\"\nmemory = \"none\"\n");
    CHECK(apart.compression.sparsifier.name == "topk");
    CHECK(apart.compression.memory.name == "none");
  }

  TEST_CASE("a method that is defined on the whole model gets it as one bucket, unless the config says otherwise") {
    using Grouping = exchange::BucketRules::Grouping;
    const auto bucket = [](const std::string& lines, const std::vector<std::string>& overrides = {}) {
      return parse(lines, overrides).rules.buckets;
    };
    for (const char* method : {"gtopk", "oktopk", "exdyna"}) {
      CAPTURE(method);
      const std::string lines = fmt::format("[compression]\nmethod = \"{}\"\n", method);
      CHECK(bucket(lines).grouping == Grouping::kModel);
      CHECK(bucket(lines).include_vectors);
      CHECK(bucket(lines + "bucket = \"auto\"\n").grouping == Grouping::kModel);
      CHECK(bucket(lines + "bucket = \"tensor\"\n").grouping == Grouping::kTensor);
      CHECK_FALSE(bucket(lines + "bucket = \"tensor\"\n").include_vectors);
      CHECK(bucket(lines + "bucket = 4\n").bytes == std::size_t{4} << 20);
      const std::vector<std::string> chosen{fmt::format("compression.method={}", method)};
      CHECK(bucket("[compression]\nmethod = \"dragonn\"\nbucket = \"tensor\"\n", chosen).grouping == Grouping::kTensor);
      CHECK(bucket("[compression]\nmethod = \"dragonn\"\n", chosen).grouping == Grouping::kModel);
      CHECK(contains(to_toml(parse(lines)), "bucket = \"model\""));
    }
    for (const char* method : {"dense", "topk", "dragonn", "signsgd", "dsa"}) {
      CAPTURE(method);
      CHECK(bucket(fmt::format("[compression]\nmethod = \"{}\"\n", method)).grouping == Grouping::kTensor);
    }
  }

  TEST_CASE("select_tensors is all, cost_model or a number of elements") {
    CHECK(parse().compression.select_tensors.is(SelectTensors::kAll));
    CHECK(parse("[compression]\nselect_tensors = \"cost_model\"\n")
              .compression.select_tensors.is(SelectTensors::kCostModel));
    const RunSpec sized = parse("", {"compression.method=topk", "compression.select_tensors=1000"});
    CHECK_FALSE(sized.compression.select_tensors.is(SelectTensors::kAll));
    CHECK(sized.rules.buckets.minimum_size == 1000);
    CHECK(parse_config(to_toml(sized), "printed").rules.buckets.minimum_size == 1000);
    for (const char* bad : {"some", "-1", "1.5", "true"}) {
      CAPTURE(bad);
      CHECK(contains(error_of(kBase, {fmt::format("compression.select_tensors={}", bad)}),
                     "expected string, one of all | cost_model; or integer of at least 0"));
    }
  }

  TEST_CASE("the cost model knows sparsifiers, not quantizers") {
    CHECK(contains(error_of(kBase, {"compression.method=signsgd", "compression.select_tensors=cost_model"}),
                   "compression.select_tensors = \"cost_model\" does not go with quantizer = \"signsgd\""));
    CHECK(error_of(kBase, {"compression.method=signsgd", "compression.select_tensors=100"}).empty());
  }

  TEST_CASE("the modelled network is a preset, a latency and a bandwidth, or both") {
    CHECK_FALSE(parse().network.modelled().has_value());
    const auto network = [](const std::vector<std::string>& overrides) { return parse("", overrides).network; };
    const auto preset = network({"network.model=alpha-beta", "network.preset=1gbe"}).modelled();
    CHECK(preset->latency_seconds == 0.436e-3);
    CHECK(preset->bytes_per_second == 1 / 9e-9);
    const auto own = network({"network.model=alpha-beta", "network.latency_us=20", "network.gbps=25"}).modelled();
    CHECK(own->latency_seconds == 20e-6);
    CHECK(own->bytes_per_second == 3.125e9);
    const auto both = network({"network.model=alpha-beta", "network.preset=10gbe", "network.latency_us=0"}).modelled();
    CHECK(both->latency_seconds == 0);
    CHECK(both->bytes_per_second == 1.25e9);
  }

  TEST_CASE("a network that is half described, or of no use, is refused") {
    const auto refuse = [](const std::vector<std::string>& overrides) { return error_of(kBase, overrides); };
    CHECK(contains(refuse({"network.model=alpha-beta"}),
                   "lacks network.latency_us: expected network.latency_us and network.gbps, or network.preset = 1gbe"));
    CHECK(contains(refuse({"network.model=alpha-beta", "network.latency_us=3"}), "lacks network.gbps"));
    CHECK(contains(refuse({"network.preset=1gbe"}), "network.preset is of no use with network.model = \"none\""));
    CHECK(contains(refuse({"network.gbps=1"}), "network.gbps is of no use"));
    CHECK(contains(refuse({"network.file=net.json"}), "network.file is of no use"));
    CHECK(contains(
        refuse({"network.model=alpha-beta", "network.file=net.json", "network.up_gbps=[1.0]"}),
        "network.up_gbps does not go with network.file = \"net.json\", which says it: expected one of the two"));
    CHECK(contains(refuse({"network.model=alpha-beta", "network.file=no-such-folder/net.json"}),
                   "network.file: no such file: no-such-folder/net.json"));
    CHECK(contains(refuse({"network.model=alpha-beta", "network.gbps=0"}),
                   "expected string, one of auto; or number in (0, 1000000]"));
    CHECK(contains(refuse({"network.preset=1gb"}), "did you mean '1gbe'?"));
  }

  TEST_CASE("every registered sparsifier is a method") {
    for (const std::string& name : method_names()) {
      CAPTURE(name);
      const Config config = parse("", {"compression.method=" + name});
      CHECK(config.compression.is_dense() == (name == "dense"));
      CHECK(config.compression.sparsifier.name == find_method(name).sparsifier);
    }
  }

  TEST_CASE("--set compression.method replaces what the file says because of its own method") {
    const std::string file = "[compression]\nmethod = \"dragonn\"\nsparsifier = \"dragonn\"\nmemory = \"residual\"\n";
    const Config topk = parse(file, {"compression.method=topk"});
    CHECK(topk.compression.sparsifier.name == "topk");
    CHECK(topk.compression.memory.name == "residual");
    const Config dense = parse(file, {"compression.method=dense"});
    CHECK(dense.compression.sparsifier.name == "none");
    CHECK(dense.compression.memory.name == "none");
    const Config back = parse_config(to_toml(dense), "resolved", std::vector<std::string>{"compression.method=topk"});
    CHECK(back.compression.sparsifier.name == "topk");
    CHECK(back.compression.memory.name == "residual");
  }

  TEST_CASE("a key works by its old name, and the config says what it is called now") {
    using Notes = std::vector<std::string>;
    const Config old = parse("[compression]\nmethod = \"dragonn\"\n[compression.dragonn]\nmemory = 3\n");
    CHECK(old.compression.sparsifier.settings.number("slots") == 3);
    CHECK(old.notes == Notes{"test.toml:11:1: compression.dragonn.memory is called compression.dragonn.slots now"});
    CHECK(parse_config(to_toml(old), "resolved").notes.empty());
    const Config set = parse("", {"compression.method=qsgd", "compression.qsgd.bucket=64"});
    CHECK(set.compression.quantizer.settings.integer("group") == 64);
    CHECK(set.notes ==
          Notes{"--set compression.qsgd.bucket=64: compression.qsgd.bucket is called compression.qsgd.group now"});
    // The newer of two settings counts, whatever they call the key.
    const Config both =
        parse("[compression.dragonn]\nmemory = 3\n", {"compression.method=dragonn", "compression.dragonn.slots=5"});
    CHECK(both.compression.sparsifier.settings.number("slots") == 5);
    CHECK(both.notes.empty());
    CHECK_THROWS_WITH_AS(
        parse("[compression.dragonn]\nmemory = 3\nslots = 3\n"),
        "test.toml:9:1: compression.dragonn.memory is called compression.dragonn.slots now, which is set "
        "as well: expected one of them",
        ConfigError);
  }

  TEST_CASE("--set says which keys of the file it drops with a method or a component, and only those") {
    using Notes = std::vector<std::string>;
    const std::string file =
        "[compression]\nmethod = \"dragonn\"\nsparsifier = \"topk\"\ncollective = \"gtopk\"\nmemory = \"residual\"\n";
    CHECK(parse(file).notes.empty());
    CHECK(parse(file, {"compression.method=dragonn"}).notes.empty());
    CHECK(parse(file, {"compression.method=dense"}).notes ==
          Notes{"--set compression.method=dense drops what the config says for \"dragonn\": compression.sparsifier = "
                "\"topk\", compression.collective = \"gtopk\", compression.memory = \"residual\""});
    // Another sparsifying method keeps what is not the old method's own.
    const Config dgc = parse(file, {"compression.method=dgc"});
    CHECK(dgc.notes.empty());
    CHECK(dgc.compression.collective.name == "gtopk");
    // A collective stays with a method that has the old method's by itself.
    const std::string dsa = "[compression]\nmethod = \"topk\"\ncollective = \"dsa\"\n";
    CHECK(parse(dsa, {"compression.method=dgc"}).compression.collective.name == "dsa");
    CHECK(parse(dsa, {"compression.method=randomk"}).compression.collective.name == "allgather");
    const Config oktopk = parse(dsa, {"compression.method=oktopk"});
    CHECK(oktopk.compression.collective.name == "oktopk");
    CHECK(oktopk.notes == Notes{"--set compression.method=oktopk drops what the config says for \"topk\": "
                                "compression.collective = \"dsa\""});
    CHECK(parse(dsa, {"compression.method=oktopk", "compression.collective=dsa"}).compression.collective.name == "dsa");
    // A codec stays with what can be sent in it.
    const auto values = [](const std::string& codec, const std::vector<std::string>& overrides) {
      return parse("[compression]\nmethod = \"topk\"\ncodec.values = \"" + codec + "\"\n", overrides)
          .compression.codec.values.name;
    };
    CHECK(values("int4", {"compression.method=gtopk"}) == "int4");
    CHECK(values("int4", {"compression.method=exdyna"}) == "float32");
    CHECK(values("int4", {"compression.method=exdyna", "compression.collective=allgather"}) == "int4");
    CHECK(values("int4", {"compression.method=dense"}) == "float32");
    CHECK(values("bfloat16", {"compression.method=dense"}) == "bfloat16");
    CHECK(values("bfloat16", {"compression.method=qsgd"}) == "float32");
    CHECK_THROWS_AS(values("int4", {"compression.method=exdyna", "compression.codec.values=int4"}), ConfigError);
    CHECK(parse("[compression]\nmethod = \"gtopk\"\ncollective = \"gtopk\"\n", {"compression.method=dgc"}).notes ==
          Notes{"--set compression.method=dgc drops what the config says for \"gtopk\": compression.collective = "
                "\"gtopk\""});
    CHECK(parse("[compression]\nmethod = \"topk\"\nsparsifier = \"auto\"\nquantizer = \"none\"\n",
                {"compression.method=dense"})
              .notes.empty());
    CHECK(parse("", {"optimizer.name=adam"}).notes ==
          Notes{"--set optimizer.name=adam drops what the config says for \"sgd\": optimizer.momentum = 0.9"});
  }

  TEST_CASE("--set of another component drops the file's settings of the old one, and only those") {
    const Config adam = parse("", {"optimizer.name=adam"});
    CHECK(adam.optimizer.name == "adam");
    CHECK(contains(error_of(std::string(kBase) + "momentun = 0.5\n", {"optimizer.name=adam"}), "unknown key"));
    CHECK(contains(error_of("[model]\nname = \"mlp\"\n[data]\nname = \"synthetic_images\"\n[optimizer]\n"
                            "name = \"adam\"\nmomentum = 0.9\n"),
                   "optimizer.momentum = 0.9: unknown key"));
  }

  TEST_CASE("[compression.<name>] reaches the part of that name, used or not") {
    const std::string tables = "[compression.dgc]\nsample_ratio = 0.5\n";
    const Config used = parse("[compression]\nmethod = \"dgc\"\n" + tables);
    CHECK(used.compression.sparsifier.settings.number("sample_ratio") == 0.5);
    CHECK_NOTHROW(parse("[compression]\nmethod = \"topk\"\n" + tables));
    CHECK(contains(error_of(std::string(kBase) + "[compression.dgc]\nsample_ratio = -1\n"),
                   "compression.dgc.sample_ratio = -1: expected number"));
  }

  TEST_CASE("parts that do not fit together are refused") {
    const auto refuse = [](const std::vector<std::string>& overrides) { return error_of(kBase, overrides); };
    CHECK(
        contains(refuse({"compression.method=topk", "optimizer.name=adam", "compression.memory=momentum_correction"}),
                 "needs an optimizer with momentum, and optimizer.name = \"adam\" has none: expected econtrol | ef21 | "
                 "low_pass | none | residual"));
    CHECK(contains(refuse({"compression.method=topk", "optimizer.name=adam", "compression.memory=ef21_sgdm"}),
                   "needs an optimizer with momentum"));
    CHECK(contains(refuse({"compression.method=gtopk", "compression.gtopk.put_back=paper", "compression.memory=ef21"}),
                   "collective 'gtopk', which with these settings loses some values, does not go with memory 'ef21'"));
    CHECK(contains(refuse({"compression.method=topk", "optimizer.name=adam", "compression.acc_form=folded"}),
                   "needs plain SGD"));
    CHECK(contains(refuse({"compression.method=topk", "compression.acc_form=folded", "compression.memory=residual"}),
                   "needs optimizer.momentum = 0"));
    CHECK(refuse({"compression.method=dgc", "compression.acc_form=folded"}).empty());
    CHECK(contains(refuse({"compression.method=dense", "compression.sparsifier=topk"}), "or the method \"topk\""));
    CHECK(contains(refuse({"compression.method=topk", "compression.sparsifier=none"}), "or method = \"dense\""));
  }

  TEST_CASE("the printed config has every key and gives the same config") {
    for (const std::string& method : method_names()) {
      CAPTURE(method);
      const Config config = parse("[compression]\nbucket = 0.5\n[schedule]\nname = \"milestones\"\n",
                                  {"compression.method=" + method, "data.path=a \"quoted\" \\ path"});
      const std::string text = to_toml(config);
      const Config again = parse_config(text, "printed");
      CHECK(to_toml(again) == text);
      CHECK(config_hash(again) == config_hash(config));
      for (const ConfigKey& key : config_schema().keys) CHECK(contains(text, "\n" + key.spec.name + " = "));
    }
  }

  TEST_CASE("without a file there are the defaults, with every component's settings in comments") {
    const Config config = default_config();
    const std::string text = to_toml(config);
    for (const ConfigKey& key : config_schema().keys) CHECK(contains(text, key.spec.name + " = "));
    CHECK(contains(text, "\n# name = \"\"\n"));   // of the model: it has no default
    CHECK(contains(text, "\nmomentum = 0.9\n"));  // of the default optimizer
    const std::string others = other_settings(config);
    for (const ComponentSlot& slot : config_schema().components) {
      for (const auto& [name, specs] : slot.registered) {
        if (name == slot.in(config).name) continue;
        for (const SettingSpec& spec : *specs) {
          CAPTURE(fmt::format("{}.{}", name, spec.name));
          CHECK(contains(others, fmt::format("#   {} = {}\n", spec.name, dragonn::to_toml(spec.default_value))));
        }
      }
    }
    const Config whole = parse();
    CHECK(to_toml(parse_config(to_toml(whole) + other_settings(whole), "printed")) == to_toml(whole));
    const std::vector<std::string> dgc{"compression.method=dgc"};
    CHECK(contains(to_toml(default_config(dgc)), "[compression.dgc]"));
    CHECK_THROWS_AS(default_config(std::vector<std::string>{"train.epochs=0"}), ConfigError);
  }

  TEST_CASE("changes between two configs are named key by key") {
    CHECK(config_changes(parse(), parse()).empty());
    CHECK(config_changes(parse(), parse("", {"train.epochs=3", "data.path=elsewhere"})) ==
          std::vector<std::string>{"train.epochs 30 -> 3"});
    CHECK(config_changes(parse(), parse("", {"seed=8"})) == std::vector<std::string>{"seed 7 -> 8"});
    const std::vector<std::string> optimizer = config_changes(parse(), parse("", {"optimizer.name=adam"}));
    CHECK(std::ranges::count(optimizer, "optimizer.name \"sgd\" -> \"adam\"") == 1);
    CHECK(std::ranges::count(optimizer, "optimizer.momentum 0.9 -> absent") == 1);
  }

  TEST_CASE("the hash covers what changes results and nothing else") {
    const std::string hash = config_hash(parse());
    CHECK(hash.size() == 16);
    for (const char* same : {"data.path=elsewhere", "comm.workers=4", "comm.timeout_s=1", "logging.every_steps=1",
                             "checkpoint.keep=9", "train.max_steps=3"}) {
      CAPTURE(same);
      CHECK(config_hash(parse("", {same})) == hash);
    }
    for (const char* other : {"seed=8", "train.batch_size=31", "optimizer.momentum=0.8", "compression.density=0.02",
                              "compression.method=topk"}) {
      CAPTURE(other);
      CHECK(config_hash(parse("", {other})) != hash);
    }
  }

  TEST_CASE("no component declares a key that its table has already") {
    const ConfigSchema schema = config_schema();
    for (const ComponentSlot& slot : schema.components) {
      if (slot.is_part()) continue;
      for (const auto& [name, specs] : slot.registered) {
        for (const SettingSpec& spec : *specs) {
          CAPTURE(fmt::format("{}.{}", slot.table, spec.name));
          CHECK(std::ranges::none_of(schema.keys, [&](const ConfigKey& key) {
            return key.table == slot.table && key.spec.name == spec.name;
          }));
        }
      }
    }
  }

  TEST_CASE("every default passes its own check") {
    const Config config = parse();
    for (const ConfigKey& key : config_schema().keys) {
      CAPTURE(key.path());
      CHECK_FALSE(key.spec.help.empty());
      if (!key.required) CHECK_NOTHROW(key.convert(key.spec.default_value));
      CHECK_NOTHROW(key.convert(key.get(config)));
    }
  }
}
