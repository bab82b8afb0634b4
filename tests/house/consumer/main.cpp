// SPDX-License-Identifier: MIT
#include <cstdio>
#include <dragonn/compress/sparsifier.h>

int main() {
  for (const auto& name : dragonn::Registry<dragonn::compress::SparsifierEntry>::instance().names())
    std::puts(name.c_str());
}
