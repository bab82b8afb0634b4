// SPDX-License-Identifier: MIT
/// Plug-in: a shared object with components of one's own, for `dragonn-train --plugin FILE`.
///
/// A plug-in registers its components as files of this project do (core/registry.h), and has DRAGONN_PLUGIN once. It
/// takes dragonn's functions from the program that loads it, so it is linked with none of dragonn's libraries.
/// dragonn_add_plugin() of the CMake package builds one (docs/extending.md).
#pragma once

#include <version>

#include "core/plugin_headers.h"

#define DRAGONN_PLUGIN_TEXT_OF(value) #value
#define DRAGONN_PLUGIN_TEXT(value) DRAGONN_PLUGIN_TEXT_OF(value)

#if defined(__clang__)
#define DRAGONN_PLUGIN_COMPILER "Clang " DRAGONN_PLUGIN_TEXT(__clang_major__)
#else
#define DRAGONN_PLUGIN_COMPILER "GCC " DRAGONN_PLUGIN_TEXT(__GNUC__)
#endif

#if defined(_LIBCPP_VERSION)
#define DRAGONN_PLUGIN_LIBRARY "libc++ ABI " DRAGONN_PLUGIN_TEXT(_LIBCPP_ABI_VERSION)
#elif defined(_GLIBCXX_DEBUG)
#define DRAGONN_PLUGIN_LIBRARY "libstdc++ in debug mode, CXX11_ABI " DRAGONN_PLUGIN_TEXT(_GLIBCXX_USE_CXX11_ABI)
#else
#define DRAGONN_PLUGIN_LIBRARY "libstdc++ CXX11_ABI " DRAGONN_PLUGIN_TEXT(_GLIBCXX_USE_CXX11_ABI)
#endif

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DRAGONN_PLUGIN_SANITIZER "AddressSanitizer"
#elif __has_feature(thread_sanitizer)
#define DRAGONN_PLUGIN_SANITIZER "ThreadSanitizer"
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(DRAGONN_PLUGIN_SANITIZER)
#define DRAGONN_PLUGIN_SANITIZER "AddressSanitizer"
#elif defined(__SANITIZE_THREAD__) && !defined(DRAGONN_PLUGIN_SANITIZER)
#define DRAGONN_PLUGIN_SANITIZER "ThreadSanitizer"
#elif !defined(DRAGONN_PLUGIN_SANITIZER)
#define DRAGONN_PLUGIN_SANITIZER "no sanitizer"
#endif

/// States everything that a plug-in and its program must agree on, in parts with "; " between them. With the same
/// headers, compiler and standard library, types have one layout in both.
#define DRAGONN_PLUGIN_ABI                                                                           \
  "dragonn " DRAGONN_PLUGIN_VERSION "; headers " DRAGONN_PLUGIN_HEADERS "; " DRAGONN_PLUGIN_COMPILER \
  "; " DRAGONN_PLUGIN_LIBRARY "; " DRAGONN_PLUGIN_SANITIZER

/// Makes a shared object a plug-in: exports what it was built for. It stands once in a plug-in, outside of all
/// namespaces.
#define DRAGONN_PLUGIN                                                           \
  extern "C" {                                                                   \
  extern __attribute__((visibility("default"))) const char dragonn_plugin_abi[]; \
  const char dragonn_plugin_abi[] = DRAGONN_PLUGIN_ABI;                          \
  }                                                                              \
  static_assert(true)
