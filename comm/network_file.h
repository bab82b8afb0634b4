// SPDX-License-Identifier: MIT
/// Network files: a network whose nodes and pairs of nodes differ, as JSON (docs/formats.md, "Network files").
#pragma once

#include <filesystem>
#include <string>

#include "comm/node_links.h"

namespace dragonn::comm {

/// Reads a network file. All fields of the result but the names are those of each node, or pair of nodes.
/// @throws DataError that names the file, the object, the key and its value, and says what is valid: for a key that is
/// unknown, missing or out of range, a pair of nodes that is missing or stands twice, or text that is no JSON; and as
/// open_regular_file (core/file.h).
NodeLinks read_network_file(const std::filesystem::path& path);
/// Parses such a file's text. @param name stands for the file in errors.
NodeLinks parse_network_file(const std::string& text, const std::string& name);

/// Returns the text of a network file. @param links with all fields of all nodes, as read_network_file returns them.
/// @param source says where the numbers come from; "": the file does not say it.
std::string network_file_text(const NodeLinks& links, const std::string& source);

}  // namespace dragonn::comm
