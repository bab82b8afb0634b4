// SPDX-License-Identifier: MIT
#include "comm/sparse/sized_lists.h"

namespace dragonn::comm {
namespace {

class SizedLists final : public ListTransport {
 public:
  explicit SizedLists(Communicator& communicator)
      : ListTransport(communicator), messages_(make_message_lists(communicator, codec::make_list_codec({}))) {}

 protected:
  void gather_lists(VerbBatch batch) override {
    auto& gather = std::get<GatherListsVerb>(*batch.front());
    if (!gather.has_values) return messages_->execute(batch);
    bounds_.assign(1, 0);
    for (const std::uint64_t slots : gather.slots) bounds_.push_back(bounds_.back() + slots);
    constexpr std::size_t kEntry = SparseVector::kEntryBytes;
    resize_with_slack(untouched_, bounds_.back() * kEntry);
    send_sizes(GatherPartsVerb{.whole = untouched_.view(),
                               .bounds = bounds_,
                               .element = kEntry,
                               .equal = gather.equal,
                               .route = gather.route});
    for (std::size_t from = 0; from < ranks(); ++from)
      gather.lists[from] = {View<const std::uint32_t>(nullptr, gather.slots[from]),
                            View<const float>(nullptr, gather.slots[from])};
    gather.lists[rank()] = gather.mine;
  }
  void gather_parts(VerbBatch batch) override { send_sizes(*batch.front()); }
  void allreduce(VerbBatch batch) override {
    auto sum = std::get<AllreduceVerb>(*batch.front());
    sum.source = {};
    send_sizes(sum);
  }
  void broadcast_indices(VerbBatch batch) override { messages_->execute(batch); }
  void broadcast_lists(VerbBatch batch) override { messages_->execute(batch); }
  void swap_lists(VerbBatch batch) override { messages_->execute(batch); }

 private:
  void send_sizes(ListVerb verb) {
    const ScopedSizeOnly scope(communicator(), true);
    ListVerb* const only = &verb;
    messages_->execute({&only, 1});
  }

  std::unique_ptr<ListTransport> messages_;
  std::vector<std::uint64_t> bounds_;  // of the ranks' lists, in entries
  Buffer<std::byte> untouched_;        // their places
};

}  // namespace

std::unique_ptr<ListTransport> make_sized_lists(Communicator& communicator) {
  return std::make_unique<SizedLists>(communicator);
}

}  // namespace dragonn::comm
