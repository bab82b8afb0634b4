// SPDX-License-Identifier: MIT
/// Plug-in of a test: a component of every kind, each a copy of one of the program's under another name. Copying works
/// only if plug-in and program have the same registries.
#include <dragonn/codec/indices/index_codec.h>
#include <dragonn/codec/values/value_codec.h>
#include <dragonn/comm/sparse/sparse_collective.h>
#include <dragonn/compress/density_schedule.h>
#include <dragonn/compress/memory.h>
#include <dragonn/compress/sparsifier.h>
#include <dragonn/data/dataset.h>
#include <dragonn/layers/network.h>
#include <dragonn/optim/optimizer.h>
#include <dragonn/optim/schedule.h>
#include <string>

namespace {

using namespace dragonn;

template <class Entry>
Entry copy_of(const char* name) {
  Entry entry = Registry<Entry>::instance().at(name);
  entry.name = std::string("own_") + name;
  return entry;
}

const Registration<compress::SparsifierEntry> sparsifier{copy_of<compress::SparsifierEntry>("topk")};
const Registration<compress::MemoryEntry> memory{copy_of<compress::MemoryEntry>("residual")};
const Registration<compress::DensityScheduleEntry> density{copy_of<compress::DensityScheduleEntry>("constant")};
const Registration<comm::SparseCollectiveEntry> collective{copy_of<comm::SparseCollectiveEntry>("allgather")};
const Registration<codec::QuantizerEntry> quantizer{copy_of<codec::QuantizerEntry>("signsgd")};
const Registration<codec::IndexCodecEntry> indices{copy_of<codec::IndexCodecEntry>("rice")};
const Registration<codec::ValueCodecEntry> values{copy_of<codec::ValueCodecEntry>("int8")};
const Registration<layers::ModelEntry> model{copy_of<layers::ModelEntry>("mlp")};
const Registration<data::DatasetEntry> dataset{copy_of<data::DatasetEntry>("synthetic_images")};
const Registration<optim::OptimizerEntry> optimizer{copy_of<optim::OptimizerEntry>("sgd")};
const Registration<optim::ScheduleEntry> schedule{copy_of<optim::ScheduleEntry>("constant")};

}  // namespace
