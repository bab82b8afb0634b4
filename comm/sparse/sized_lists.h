// SPDX-License-Identifier: MIT
/// Sized lists: exchanges whose traffic and virtual time count, and nothing else, for simulated clusters that are too
/// large for real messages.
#pragma once

#include <cstddef>
#include <memory>

#include "comm/sparse/list_operations.h"
#include "comm/sparse/list_transport.h"

namespace dragonn::comm {

/// Makes a transport that sends data as large as the bucket, or as the lists of all ranks together, as sizes only
/// (ScopedSizeOnly). Of gathered lists with values a rank has its own; the others have a size and no content. For one
/// bucket, whose lists are raw; only the backend `local` has such messages.
std::unique_ptr<ListTransport> make_sized_lists(Communicator& communicator);

/// Makes the operations for a collective over such a transport (SparseCollective::set_operations). Of lists without
/// content a concatenation has its size, a sum is empty, and the k largest are as many as they would be, with the right
/// threshold: collective. Nothing is contributed.
std::unique_ptr<ListOperations> make_sized_operations(Communicator& communicator, std::size_t numel);

}  // namespace dragonn::comm
