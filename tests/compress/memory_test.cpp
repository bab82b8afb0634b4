// SPDX-License-Identifier: MIT
#include <cmath>

#include <doctest/doctest.h>

#include "kernels/gradient/select.h"
#include "tests/compress/support.h"

using namespace dragonn;
using namespace dragonn::compress;
using namespace dragonn::compress::test;

namespace {

using Vector = std::vector<float>;

void check_close(View<const float> seen, const Vector& expected) {
  REQUIRE(seen.size() == expected.size());
  // The vectors of the specification are decimal: equal to a rounding or two.
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(seen.host()[i] == doctest::Approx(expected[i]).epsilon(1e-6));
  }
}

/// One worker with top-1: selects, sends what it selected, and returns it.
class Worker {
 public:
  explicit Worker(std::unique_ptr<Memory> memory, std::size_t numel)
      : memory_(std::move(memory)), topk_(make_sparsifier("topk", numel)), numel_(numel) {}

  Entries step(const Vector& gradient, float scale = 1.0f) {
    SelectContext context = context_for(numel_, 1.0);
    context.k = 1;
    select_step(*topk_, *memory_, context, gradient, selected_, scale);
    accumulated_ = values(memory_->accumulated());
    memory_->settle({.contributed = selected_.indices.view()});
    return entries(selected_);
  }
  const Vector& accumulated() const { return accumulated_; }
  Memory& memory() { return *memory_; }

 private:
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Sparsifier> topk_;
  std::size_t numel_;
  SparseVector selected_;
  Vector accumulated_;
};

/// Returns a field of the state, as a checkpoint would save it.
Vector saved(const Memory& memory, const std::string& field) {
  Archive archive;
  memory.save(archive, "");
  return archive.get_vector<float>(field);
}

/// Returns u of a momentum correction.
Vector momentum_of(const Memory& memory) {
  return saved(memory, "momentum");
}

/// Returns what the optimizer takes for a sum of entries.
Vector taken(Memory& memory, const Entries& sum) {
  Vector dense(memory.accumulated().size());
  for (const auto& [index, value] : sum) dense[index] = value;
  SparseVector entries;
  kernels::select_threshold(view(dense), 0, entries);
  return values(memory.to_gradient({}, &entries));
}

void check_sent(const Entries& sent, std::uint32_t index, float value) {
  REQUIRE(sent.size() == 1);
  CHECK(sent[0].first == index);
  CHECK(sent[0].second == doctest::Approx(value).epsilon(1e-6));
}

}  // namespace

TEST_SUITE("compress") {
  TEST_CASE("residual keeps what is not sent and adds what comes back") {
    const auto memory = make_memory("residual", 4);
    memory->compensate({}, view({1, 2, 3, 4}), 1.0f);
    SparseVector returned;
    kernels::select_threshold(view({0, 0, 0, 7}), 1, returned);
    const std::vector<std::uint32_t> contributed{1, 3};
    memory->settle({.contributed = std::span<const std::uint32_t>(contributed), .returned = &returned});
    CHECK(values(memory->residual()) == Vector{1, 0, 3, 7});
    CHECK(memory->residual_norm() == std::sqrt(59.0));
    memory->compensate({}, view({1, 1, 1, 1}), 2.0f);
    CHECK(values(memory->accumulated()) == Vector{3, 2, 5, 9});
    memory->settle({.contributed_all = true});
    CHECK(values(memory->residual()) == Vector{0, 0, 0, 0});
  }

  TEST_CASE("residual with a decay shrinks what it kept") {
    const auto memory = make_memory("residual", 2, {{"decay", 0.5}});
    memory->compensate({}, view({4, -8}), 1.0f);
    memory->settle({});
    memory->compensate({}, view({1, 1}), 1.0f);
    CHECK(values(memory->accumulated()) == Vector{3, -3});
  }

  TEST_CASE("memory none forgets what is not sent, scaled or not") {
    const auto memory = make_memory("none", 2);
    memory->compensate({}, view({1, 2}), 1.0f);
    memory->settle({});
    const Vector gradient{3, 4};
    memory->compensate({}, view(gradient), 1.0f);
    CHECK(values(memory->accumulated()) == gradient);
    memory->compensate({}, view(gradient), 0.5f);
    CHECK(values(memory->accumulated()) == Vector{1.5f, 2});
    CHECK(memory->residual().empty());
    CHECK(memory->residual_norm() == 0);
  }

  TEST_CASE("momentum correction, heavy ball: sends {1: 2}, then {0: 2.9} with u masked") {
    Worker worker(make_memory("momentum_correction", 2, {}, 0.9f), 2);
    check_sent(worker.step({1, 2}), 1, 2);
    check_close(view(momentum_of(worker.memory())), {1, 0});
    check_sent(worker.step({1, 1}), 0, 2.9f);
    check_close(View<const float>(std::span<const float>(worker.accumulated())), {2.9f, 1});
    check_close(view(momentum_of(worker.memory())), {0, 1});  // u was [1.9, 1] until 0 was sent
  }

  TEST_CASE("momentum correction without masking keeps the momentum of what was sent") {
    Worker worker(make_memory("momentum_correction", 2, {{"masking", false}}, 0.9f), 2);
    worker.step({1, 2});
    worker.step({1, 1});
    check_close(View<const float>(std::span<const float>(worker.accumulated())), {2.9f, 2.8f});
    check_close(view(momentum_of(worker.memory())), {1.9f, 2.8f});
  }

  TEST_CASE("momentum correction masks while the rate is at least masking_rate of the base rate") {
    const auto momentum_after = [](double masking_rate, double rate_share) {
      const auto memory = make_memory("momentum_correction", 2, {{"masking_rate", masking_rate}}, 0.9f);
      memory->compensate({}, view({1, 2}), 1.0f);
      const std::vector<std::uint32_t> contributed{1};
      memory->settle({.contributed = std::span<const std::uint32_t>(contributed), .rate_share = rate_share});
      CHECK(values(memory->residual()) == Vector{1, 0});
      return momentum_of(*memory);
    };
    CHECK(momentum_after(0.25, 1) == Vector{1, 0});
    CHECK(momentum_after(0.25, 0.25) == Vector{1, 0});
    CHECK(momentum_after(0.25, 0.2) == Vector{1, 2});
    CHECK(momentum_after(0, 0) == Vector{1, 0});
  }

  TEST_CASE("momentum correction, Nesterov: sends {1: 3.8}, then holds v = [4.61, 1.9]") {
    Worker worker(make_memory("momentum_correction", 2, {}, 0.9f, true), 2);
    check_sent(worker.step({1, 2}), 1, 3.8f);
    check_sent(worker.step({1, 1}), 0, 4.61f);
    check_close(View<const float>(std::span<const float>(worker.accumulated())), {4.61f, 1.9f});
    check_close(view(momentum_of(worker.memory())), {0, 0.9f});  // u was [1.71, .9] until 0 was sent
  }

  TEST_CASE("momentum correction with everything sent densely is momentum SGD, and its momentum outlives the phase") {
    for (const bool nesterov : {false, true}) {
      const auto memory = make_memory("momentum_correction", 3, {}, 0.5f, nesterov);
      Vector buffer(3, 0.0f);
      for (int step = 0; step < 5; ++step) {
        const Vector gradient{1.0f + static_cast<float>(step), -2, 4};
        memory->compensate({}, view(gradient), 1.0f);
        for (std::size_t i = 0; i < 3; ++i) {
          buffer[i] = 0.5f * buffer[i] + gradient[i];
          const float moved = nesterov ? gradient[i] + 0.5f * buffer[i] : buffer[i];
          CHECK(memory->accumulated().host()[i] == moved);
        }
        memory->settle({.contributed_all = true});
        CHECK(memory->residual_norm() == 0);
      }
    }
  }

  TEST_CASE("ef21 sends {1: 2}, then {0: 3}, and the optimizer takes the estimate [3, 2]") {
    Worker worker(make_memory("ef21", 2), 2);
    Entries sent = worker.step({1, 2});
    check_sent(sent, 1, 2);
    CHECK(taken(worker.memory(), sent) == Vector{0, 2});
    CHECK(values(worker.memory().residual()) == Vector{1, 0});
    sent = worker.step({3, 1});  // differs from [0, 2] by [3, -1]
    check_sent(sent, 0, 3);
    CHECK(worker.accumulated() == Vector{3, -1});
    CHECK(taken(worker.memory(), sent) == Vector{3, 2});
    CHECK(saved(worker.memory(), "estimate") == Vector{3, 2});
  }

  TEST_CASE("ef21_sgdm sends the momentum's difference, heavy ball and Nesterov") {
    Worker worker(make_memory("ef21_sgdm", 2, {}, 0.5f), 2);
    check_sent(worker.step({1, 2}), 1, 2);
    check_sent(worker.step({1, 2}), 0, 1.5f);  // u = [1.5, 3] differs from [0, 2] by [1.5, 1]
    CHECK(momentum_of(worker.memory()) == Vector{1.5f, 3});
    CHECK(saved(worker.memory(), "estimate") == Vector{1.5f, 2});
    Worker nesterov(make_memory("ef21_sgdm", 2, {}, 0.5f, true), 2);
    check_sent(nesterov.step({1, 2}), 1, 3);  // g + u / 2
  }

  TEST_CASE("econtrol feeds back a share of its error") {
    Worker worker(make_memory("econtrol", 2, {{"eta", 0.5}}), 2);
    check_sent(worker.step({1, 2}), 1, 2);  // h = [0, 2], e = [1, 0]
    check_sent(worker.step({2, 5}), 1, 3);  // .5 e + g - h = [2.5, 3]: h = [0, 5], e = [3, 0]
    const Entries sent = worker.step({2, 4});
    check_sent(sent, 0, 3.5f);  // [3.5, -1]: h = [3.5, 5], e = [3 + 2 - 3.5, 0 - 1]
    CHECK(saved(worker.memory(), "estimate") == Vector{3.5f, 5});
    const Vector left = values(worker.memory().residual()), error = saved(worker.memory(), "error");
    CHECK(0.5f * error[0] + left[0] == 1.5f);
    CHECK(0.5f * error[1] + left[1] == -1);
  }

  TEST_CASE("low_pass takes a share of each new error, and with all of it has the bits of residual") {
    Worker worker(make_memory("low_pass", 2, {{"beta", 0.25}}), 2);
    check_sent(worker.step({4, 8}), 1, 8);    // m = .25 [4, 0]
    check_sent(worker.step({4, 8}), 1, 8);    // m = .75 [1, 0] + .25 [5, 0] = [2, 0]
    check_sent(worker.step({8, -1}), 0, 10);  // m = .75 [2, 0] + .25 [0, -1]
    worker.step({0, 0});
    CHECK(worker.accumulated() == Vector{1.5f, -0.25f});
    Worker whole(make_memory("low_pass", 3, {{"beta", 1.0}}), 3), residual(make_memory("residual", 3), 3);
    for (const Vector& gradient : {Vector{0.1f, 0.7f, -0.3f}, {0.3f, -0.2f, 0.9f}, {-1.1f, 0.4f, 0.6f}}) {
      CHECK(whole.step(gradient) == residual.step(gradient));
      CHECK(whole.accumulated() == residual.accumulated());
    }
  }

  TEST_CASE("an estimate follows what left: less what came back, all of a dense sum but its remainder") {
    for (const char* name : {"ef21", "ef21_sgdm", "econtrol"}) {
      CAPTURE(name);
      const auto memory = make_memory(name, 4);
      memory->compensate({}, view({1, 2, 3, 4}), 1.0f);
      SparseVector returned;
      kernels::select_threshold(view({0, 0, 0, 0.5f}), 0, returned);
      const std::vector<std::uint32_t> contributed{1, 3};
      memory->settle({.contributed = std::span<const std::uint32_t>(contributed), .returned = &returned});
      CHECK(saved(*memory, "estimate") == Vector{0, 2, 0, 3.5f});
      CHECK(values(memory->residual()) == Vector{1, 0, 3, 0.5f});
      const auto dense = make_memory(name, 4);
      dense->compensate({}, view({1, 2, 3, 4}), 1.0f);
      const Vector remainder{0.25f, 0, 0, -1};
      dense->settle({.contributed_all = true, .remainder = view(remainder)});
      CHECK(saved(*dense, "estimate") == Vector{0.75f, 2, 3, 5});
      CHECK(values(dense->residual()) == remainder);
    }
  }

  TEST_CASE("an exchange that is given up: ef21 forgets the gradient, econtrol owes all of it") {
    const auto ef21 = make_memory("ef21", 2);
    ef21->compensate({}, view({5, 6}), 1.0f);
    ef21->abandon();
    ef21->compensate({}, view({1, 2}), 1.0f);
    CHECK(values(ef21->accumulated()) == Vector{1, 2});
    Worker worker(make_memory("econtrol", 2, {{"eta", 1.0}}), 2);
    worker.step({1, 2});  // h = [0, 2], e = [1, 0]
    worker.memory().compensate({}, view({4, 4}), 1.0f);
    worker.memory().abandon();  // e = [5, 4]
    worker.memory().compensate({}, view({0, 0}), 1.0f);
    CHECK(values(worker.memory().accumulated()) == Vector{5, 2});
  }

  TEST_CASE("raw and lr-folded accumulators part when the learning rate changes") {
    const Vector gradient{1, 2};
    const float rates[] = {0.1f, 0.01f};
    for (const bool folded : {false, true}) {
      Worker worker(make_memory("residual", 2), 2);
      Vector x{0, 0};
      for (const float rate : rates) {
        const Entries sent = worker.step(gradient, folded ? rate : 1.0f);
        for (const auto& [index, value] : sent) x[index] -= folded ? value : rate * value;
      }
      check_close(view(x), folded ? Vector{-.11f, -.2f} : Vector{-.02f, -.2f});
      check_close(worker.memory().residual(), folded ? Vector{0, .02f} : Vector{0, 2});
      check_close(view(worker.accumulated()), folded ? Vector{.11f, .02f} : Vector{2, 2});
    }
  }

  TEST_CASE("a memory restored from an archive goes on as the one that was saved") {
    for (const std::string& name : Registry<MemoryEntry>::instance().names()) {
      Worker first(make_memory(name, 3), 3);
      first.step({1, 2, 3});
      first.step({5, 2, -4});
      Archive archive;
      first.memory().save(archive, "bucket0/");
      Worker second(make_memory(name, 3), 3);
      second.memory().load(archive, "bucket0/");
      for (int step = 0; step < 3; ++step) {
        CHECK(first.step({1, -1, 2}) == second.step({1, -1, 2}));
        CHECK(first.accumulated() == second.accumulated());
        CHECK(taken(first.memory(), {{0, 1.0f}}) == taken(second.memory(), {{0, 1.0f}}));
      }
    }
  }

  TEST_CASE("a memory refuses the state of another size") {
    Archive archive;
    make_memory("residual", 3)->save(archive, "");
    CHECK_THROWS_AS(make_memory("residual", 4)->load(archive, ""), DataError);
  }
}
