// SPDX-License-Identifier: MIT
/// PutBack: the ways in which the collective gtopk handles values that do not reach the sum.
#pragma once

namespace dragonn::comm {

/// The rank that gets back the values that do not reach the sum.
///
/// A merge drops partial sums, also of indices that reach the result through another branch of the tree. The paper
/// returns a value to its worker if its index is not in the result at all, and so loses those (kPaper). With kMerger
/// the rank that dropped a partial sum keeps it in its own residual, and every worker gives away all that it selected.
/// kExact sums the selected values at the result's indices once more, so that the paper's rule is right. kNaive ranks
/// the sum of all selections, which every worker computes.
enum class PutBack { kMerger, kExact, kNaive, kPaper };

}  // namespace dragonn::comm
