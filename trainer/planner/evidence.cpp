// SPDX-License-Identifier: MIT
#include "trainer/planner/evidence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <string_view>

namespace dragonn::trainer {
namespace {

/// A model that is larger or smaller than the measured one by more than this factor is another one.
constexpr double kSizeFactor = 4;

/// Keys that change no result but by rounding.
constexpr std::array kNeutral{"comm.dense_algorithm", "comm.hierarchy", "comm.workers_per_node",
                              "compression.codec.indices"};

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

double distance(const Evidence& evidence, const EvidenceQuestion& question) {
  return std::abs(std::log(static_cast<double>(evidence.parameters) / static_cast<double>(question.parameters)));
}

/// Returns whether a row is better evidence for a run than another one of the same settings.
bool is_nearer(const Evidence& a, const Evidence& b, const EvidenceQuestion& question) {
  if (a.most_workers != b.most_workers) return a.most_workers < b.most_workers;
  return distance(a, question) < distance(b, question);
}

}  // namespace

const std::vector<Evidence>& all_evidence() {
  static const std::vector<Evidence> rows{
#define EVIDENCE(model, parameters, optimizer, workers, most, worse, seeds, settings, measured, page) \
  {model, parameters, optimizer, workers, most, worse, seeds, words_of(settings), measured, page},
#include "trainer/planner/evidence.def"
#undef EVIDENCE
  };
  return rows;
}

bool speaks_for(const Evidence& evidence, const EvidenceQuestion& question) {
  return evidence.model == question.model && evidence.optimizer == question.optimizer &&
         question.workers <= evidence.most_workers && distance(evidence, question) <= std::log(kSizeFactor);
}

std::vector<const Evidence*> evidence_for(const EvidenceQuestion& question, std::span<const Evidence> table) {
  std::vector<const Evidence*> rows;
  for (const Evidence& row : table) {
    if (!speaks_for(row, question)) continue;
    const auto same = std::ranges::find(rows, row.settings, [](const Evidence* other) { return other->settings; });
    if (same == rows.end()) {
      rows.push_back(&row);
    } else if (is_nearer(row, **same, question)) {
      *same = &row;
    }
  }
  return rows;
}

const std::vector<std::string>& evidence_resets() {
  static const std::vector<std::string> resets = words_of(
      "update.scheme=synchronous compression.sparsifier=auto compression.quantizer=auto compression.collective=auto"
      " compression.memory=auto compression.momentum_correction.masking=true"
      " compression.momentum_correction.masking_rate=0 compression.transform=auto compression.bucket=auto"
      " compression.include_vectors=auto"
      " compression.codec.indices=auto compression.codec.values=float32 compression.acc_form=raw"
      " compression.select_tensors=all compression.share=equal compression.density_schedule=constant");
  return resets;
}

std::vector<std::string> convergence_changes(const Config& a, const Config& b) {
  std::vector<std::string> changes = config_changes(a, b);
  std::erase_if(changes, [](const std::string& change) {
    return std::ranges::any_of(kNeutral, [&](std::string_view key) {
      return change.starts_with(key) && change.substr(key.size()).starts_with(' ');
    });
  });
  return changes;
}

}  // namespace dragonn::trainer
