// SPDX-License-Identifier: MIT
/// Helpers of the sparse collectives' cases: one exchange with its traffic, the ledger of conservation, and a rank with
/// error feedback.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tests/comm/support.h"

namespace dragonn::comm::test {

using Entries = std::vector<std::pair<std::uint32_t, float>>;
using Indices = std::vector<std::uint32_t>;

/// The entries of acc at ascending indices.
SparseVector entries_at(std::span<const float> acc, const Indices& indices);
/// The k entries of largest magnitude, ties to the lower index, zeros never: by sorting.
SparseVector largest_entries(std::span<const float> acc, std::size_t k);
Indices indices_of(View<const std::uint32_t> indices);

/// One exchange and what this rank moved in it.
struct Outcome {
  SparseReduction reduction;
  Traffic payload;
  Traffic header;
};
Outcome exchange(Communicator& communicator, SparseCollective& collective, const ReduceContext& context,
                 std::span<const float> acc, const SparseVector& selected);

/// Returns acc with the contributed entries zeroed, plus the returned entries; the remainder of a dense sum that was
/// rounded.
std::vector<float> residual_after(std::span<const float> acc, const SparseReduction& out);
/// The exchanged sum as `numel` floats.
std::vector<float> sum_of(const SparseReduction& out, std::size_t numel);

/// Sum over ranks of acc = exchanged sum + sum over ranks of the residuals, at every index. Integers: exact.
void expect_conservation(Communicator& communicator, std::span<const float> acc, const SparseReduction& out);
/// The same to rounding, for lossy codecs: every rank rounds once where it encodes, and once where it adds.
void expect_conservation_to_rounding(Communicator& communicator, std::span<const float> acc,
                                     const SparseReduction& out);
/// The form of a result: indices that ascend, and the same bytes on all ranks; what was applied was contributed.
void expect_well_formed(Communicator& communicator, const SparseReduction& out, std::size_t numel);

/// A collective with settings that are not its defaults.
struct Variant {
  std::string collective;
  Overrides settings = {};
};

/// Selections of one kind, with the traits that describe them.
struct Selection {
  SelectionTraits traits;
  SparseVector (*select)(const Communicator&, std::uint64_t step, std::span<const float> acc, std::size_t k);
};

/// Selections of every kind that a collective may take or refuse.
std::span<const Selection> selections();
bool accepts(const Variant& variant, const SelectionTraits& traits);
/// The codecs with their default settings.
codec::CodecChoice coding_of(const std::string& indices, const std::string& values = codec::kRawValues);

/// Floats whose sums depend on the order of additions.
std::vector<float> rounding_gradient(std::size_t numel, std::uint64_t step, std::size_t rank);
/// Small integers, many of them zero, some tied: sums over tens of steps and ranks are exact.
std::vector<float> integer_gradient(std::size_t numel, std::uint64_t step, std::size_t rank);

/// One rank that exchanges and keeps what was not sent, step after step.
class FeedbackRank {
 public:
  using Select = std::function<SparseVector(std::span<const float> acc, std::size_t k)>;

  FeedbackRank(Communicator& communicator, const std::string& collective, const Overrides& settings, std::size_t numel)
      : communicator_(communicator), collective_(make_collective(collective, numel, settings)), residual_(numel) {}

  /// Computes acc = residual + gradient, exchanges, settles. Checks the form of the result, and conservation if asked
  /// to.
  Outcome step(const ReduceContext& context, std::span<const float> gradient, const Select& select,
               bool conserves = true);
  SparseCollective& collective() { return *collective_; }
  const std::vector<float>& residual() const { return residual_; }

 private:
  Communicator& communicator_;
  std::unique_ptr<SparseCollective> collective_;
  std::vector<float> residual_;
};

}  // namespace dragonn::comm::test
