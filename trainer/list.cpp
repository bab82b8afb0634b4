// SPDX-License-Identifier: MIT
#include "trainer/list.h"

#include <fmt/format.h>

#include "comm/sparse/sparse_collective.h"
#include "compress/density_schedule.h"
#include "compress/memory.h"
#include "compress/quantizer.h"
#include "compress/sparsifier.h"
#include "data/dataset.h"
#include "layers/network.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "trainer/methods.h"

namespace dragonn::trainer {
namespace {

template <class Entry>
void append(std::string& text) {
  const auto& registry = Registry<Entry>::instance();
  for (const std::string& name : registry.names()) {
    text += fmt::format("{} {}: {}\n", Entry::kKind, name, registry.at(name).summary);
  }
}

}  // namespace

std::string list_components() {
  std::string text;
  append<layers::ModelEntry>(text);
  append<data::DatasetEntry>(text);
  append<optim::OptimizerEntry>(text);
  append<optim::ScheduleEntry>(text);
  for (const std::string& name : method_names())
    text += fmt::format("method {}: {}\n", name, find_method(name).summary);
  append<compress::SparsifierEntry>(text);
  append<compress::QuantizerEntry>(text);
  append<compress::MemoryEntry>(text);
  append<compress::DensityScheduleEntry>(text);
  append<comm::SparseCollectiveEntry>(text);
  return text;
}

}  // namespace dragonn::trainer
