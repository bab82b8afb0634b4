// SPDX-License-Identifier: MIT
/// Job: the config, the data and the folder of a run.
#pragma once

#include <filesystem>
#include <string>

#include "data/dataset.h"
#include "trainer/config/config.h"

namespace dragonn::trainer {

/// The paths of a run's files.
struct RunFolder {
  std::filesystem::path path;
  std::filesystem::path config() const { return path / "config.toml"; }
  std::filesystem::path metrics() const { return path / "metrics.jsonl"; }
  std::filesystem::path summary() const { return path / "summary.json"; }
  std::filesystem::path log() const { return path / "log.txt"; }
  std::filesystem::path profile() const { return path / "profile.json"; }
  std::filesystem::path checkpoints() const { return path / "checkpoints"; }
  std::filesystem::path trace() const { return path / "trace.json"; }
  std::filesystem::path gradients() const { return path / "gradients"; }
};

/// The data that all ranks of a run have before they are connected.
struct Job {
  RunSpec config;
  data::DatasetSplits data;
  RunFolder folder;
  std::string resume;  ///< "", "auto", a checkpoint folder or a run folder
};

}  // namespace dragonn::trainer
