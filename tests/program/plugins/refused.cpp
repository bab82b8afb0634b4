// SPDX-License-Identifier: MIT
/// Plug-ins of a test that are refused, one for each REFUSED_* that the build defines. Those that a program must refuse
/// before anything of theirs runs end the process when something does.
#include <cstdlib>
#include <dragonn/compress/sparsifier.h>
#include <dragonn/core/plugin.h>

#if defined(REFUSED_ABI)
extern "C" {
extern __attribute__((visibility("default"))) const char dragonn_plugin_abi[];
const char dragonn_plugin_abi[] = "dragonn 0.0.1; headers 0123456789abcdef; GCC 1; libstdc++ CXX11_ABI 1; no sanitizer";
}
#elif !defined(REFUSED_SYMBOL)
DRAGONN_PLUGIN;
#endif

namespace {

#if defined(REFUSED_ABI) || defined(REFUSED_SYMBOL)
[[maybe_unused]] const int runs = (std::abort(), 0);
#endif

#if defined(REFUSED_NAME)
using Entry = dragonn::compress::SparsifierEntry;
Entry entry() {
  Entry entry;
  entry.name = REFUSED_NAME;
  return entry;
}
const dragonn::Registration<Entry> registration{entry()};
#endif

}  // namespace

#if defined(REFUSED_UNDEFINED)
void never_defined_function();
void call_it() {
  never_defined_function();
}
#endif
