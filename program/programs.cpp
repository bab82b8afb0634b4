// SPDX-License-Identifier: MIT
/// The subcommands that are programs of their own.
#include "program/subcommand.h"

namespace dragonn::program {
namespace {

const Registration<SubcommandEntry> train{{{"train", "Train a network (dragonn-train)"}}};
const Registration<SubcommandEntry> bench{{{"bench", "Measure parts of dragonn on this machine (dragonn-bench)"}}};
const Registration<SubcommandEntry> compare{{{"compare", "Compare training runs (dragonn-compare)"}}};

}  // namespace
}  // namespace dragonn::program
