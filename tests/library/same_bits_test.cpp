// SPDX-License-Identifier: MIT
/// The library gives the bits of the trainer's exchange, for every method, alone and as two processes over TCP.
#include <array>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "comm/local/local.h"
#include "core/file.h"
#include "core/parameter.h"
#include "core/rng.h"
#include "exchange/gradient_exchange.h"
#include "library/dragonn.h"
#include "optim/optimizer.h"
#include "tests/core/temporary_folder.h"
#include "tests/library/create.h"
#include "trainer/config/config.h"
#include "trainer/config/exchange_config.h"
#include "trainer/update/schemes/step.h"

namespace dragonn::test {
namespace {

constexpr int kSteps = 4;
constexpr std::size_t kMatrix = 40 * 25, kBias = 40, kSecond = 12 * 40;
constexpr std::size_t kElements = kMatrix + kBias + kSecond;
using Gradient = std::vector<float>;

std::string config_of(const std::string& method) {
  return fmt::format("[optimizer]\nmomentum = 0.5\n[compression]\nmethod = \"{}\"\ndensity = 0.05\n", method);
}

Gradient gradient_of(int rank, int step) {
  Gradient gradient(kElements);
  Rng stream(17, static_cast<std::uint64_t>(100 * rank + step));
  for (float& value : gradient) value = stream.uniform() - 0.5f;
  return gradient;
}

/// Copies between the caller's order and that of the arena.
template <class Copy>
void for_each(const ParameterArena& arena, const Copy& copy) {
  std::size_t place = 0;
  for (const Parameter& parameter : arena.parameters()) {
    copy(place, parameter.offset, parameter.size);
    place += parameter.size;
  }
}

/// Returns the means of all steps, as the trainer computes them: what one update with the learning rate 1 subtracts.
std::vector<Gradient> by_trainer(const std::string& config, comm::Communicator& communicator) {
  const trainer::RunSpec spec = trainer::parse_exchange_config(config, "config");
  ParameterArena arena;
  arena.declare("first", {40, 25}, ParameterRole::kWeight);
  arena.declare("bias", {40}, ParameterRole::kBias);
  arena.declare("second", {12, 40}, ParameterRole::kWeight);
  arena.allocate();
  exchange::GradientExchange exchange(spec.rules, arena, communicator);
  const auto& sgd = Registry<optim::OptimizerEntry>::instance().at("sgd");
  Settings settings(sgd.settings);
  settings.set("momentum", 0.0);
  settings.set("weight_decay", 0.0);
  const auto optimizer = sgd.make(settings, arena);
  StepTimers timers;
  std::vector<Gradient> means;
  for (int step = 0; step < kSteps; ++step) {
    const Gradient gradient = gradient_of(communicator.rank(), step);
    for_each(arena, [&](std::size_t from, std::size_t to, std::size_t size) {
      std::copy_n(gradient.data() + from, size, arena.gradients().data() + to);
    });
    const auto sums =
        exchange.run({.step = static_cast<std::uint64_t>(step), .density = spec.compression.selects() ? 0.05 : 1.0},
                     arena.gradients(), timers);
    exchange.commit(timers);
    std::ranges::fill(arena.values().host(), 0.0f);
    optimizer->begin_step(1.0, static_cast<std::uint64_t>(step));
    trainer::apply_sums(sums, 1.0f, *optimizer);
    Gradient& mean = means.emplace_back(kElements);
    for_each(arena, [&](std::size_t to, std::size_t from, std::size_t size) {
      for (std::size_t i = 0; i < size; ++i) mean[to + i] = -arena.values().data()[from + i];
    });
  }
  return means;
}

std::vector<Gradient> by_trainer(const std::string& config, int rank, int size) {
  std::vector<std::vector<Gradient>> means(static_cast<std::size_t>(size));
  comm::run_local(size, {}, [&](comm::Communicator& communicator) {
    means[static_cast<std::size_t>(communicator.rank())] = by_trainer(config, communicator);
  });
  return means[static_cast<std::size_t>(rank)];
}

/// Returns the same by the library; empty after an error. A density schedule of the method's is replaced by its end.
std::vector<Gradient> by_library(const std::string& config, int rank) {
  const std::array<std::uint64_t, 2> first{40, 25}, second{12, 40};
  const std::uint64_t bias = kBias;
  const std::array<dragonn_tensor, 3> tensors{
      {{"first", first.data(), 2}, {"bias", &bias, 1}, {"second", second.data(), 2}}};
  dragonn_exchange_handle* const handle = create_handle(tensors, config);
  if (handle == nullptr) return {};
  std::vector<Gradient> means;
  for (int step = 0; step < kSteps; ++step) {
    means.push_back(gradient_of(rank, step));
    if (dragonn_exchange(handle, means.back().data(), kElements) != DRAGONN_OK) means.clear();
  }
  return dragonn_destroy(handle) == DRAGONN_OK ? means : std::vector<Gradient>();
}

/// Runs the library as one of two processes.
std::vector<Gradient> as_process(const std::string& config, int rank, const std::string& rendezvous) {
  ::setenv("RANK", std::to_string(rank).c_str(), 1);
  ::setenv("WORLD_SIZE", "2", 1);
  return by_library(fmt::format("{}[comm]\nbackend = \"tcp\"\nrendezvous = \"file:{}\"\n", config, rendezvous), rank);
}

TEST_SUITE("library") {
  TEST_CASE("one process has the bits of the trainer's exchange with every method") {
    for (const std::string& method : trainer::method_names()) {
      INFO(method);
      const std::vector<Gradient> means = by_library(config_of(method), 0);
      INFO(dragonn_last_error());
      CHECK(means == by_trainer(config_of(method), 0, 1));
    }
  }

  TEST_CASE("two processes have the bits of the trainer's exchange with every method") {
    const TemporaryFolder folder;
    const std::string rendezvous = (folder.path() / "rendezvous").string();
    // The child is made before this process has threads.
    const ::pid_t child = ::fork();
    REQUIRE(child >= 0);
    bool all_same = true;
    for (const std::string& method : trainer::method_names()) {
      const int rank = child == 0 ? 1 : 0;
      const std::vector<Gradient> means = as_process(config_of(method), rank, rendezvous);
      const bool same = means == by_trainer(config_of(method), rank, 2);
      all_same = all_same && same;
      if (child == 0) continue;
      INFO(method, ": ", dragonn_last_error());
      CHECK(same);
    }
    if (child == 0) ::_exit(all_same ? 0 : 1);
    ::unsetenv("RANK");
    ::unsetenv("WORLD_SIZE");
    int status = 1;
    CHECK(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}

}  // namespace
}  // namespace dragonn::test
