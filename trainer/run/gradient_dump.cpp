// SPDX-License-Identifier: MIT
#include "trainer/run/gradient_dump.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "comm/agreement.h"
#include "core/npy.h"

namespace dragonn::trainer {

GradientDump::GradientDump(std::filesystem::path folder, std::vector<std::int64_t> steps, std::size_t numel)
    : folder_(std::move(folder)), steps_(std::move(steps)), accumulated_(steps_.empty() ? 0 : numel) {}

bool GradientDump::is_named(std::uint64_t step) const {
  return std::ranges::find(steps_, static_cast<std::int64_t>(step)) != steps_.end();
}

View<float> GradientDump::target(std::uint64_t step) {
  return is_named(step) ? accumulated_.view() : View<float>();
}

void GradientDump::write(comm::Communicator& communicator, std::uint64_t step) {
  if (!is_named(step)) return;
  const comm::ScopedPhase phase(communicator.traffic(), comm::Phase::kMetrics);
  comm::all_ranks_or_none(communicator, [&] {
    std::error_code code;
    std::filesystem::create_directories(folder_, code);
    if (code) throw SystemError(fmt::format("cannot create {}: {}", folder_.string(), code.message()));
    const auto path = folder_ / fmt::format("step-{:08}-rank-{:04}.npy", step, communicator.rank());
    write_npy<float>(path, Shape{static_cast<std::int64_t>(accumulated_.size())}, accumulated_.host());
  });
}

}  // namespace dragonn::trainer
