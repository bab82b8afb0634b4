// SPDX-License-Identifier: MIT
#include "comm/network_file.h"

#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "core/error.h"
#include "core/file.h"
#include "core/json_object.h"

namespace dragonn::comm {
namespace {

constexpr std::size_t kVersion = 1;
constexpr std::size_t kMaxBytes = std::size_t{64} << 20;  // of some 700 nodes

struct NodeRow {
  std::string name;
  int workers = 1;
  double up_gbps = 0, down_gbps = 0;
  double inside_latency_us = 1, inside_gbps = 100;  // between workers that a node of one does not have
};

struct PairRow {
  std::size_t from = 0, to = 0;
  double latency_us = 0, gbps = 0;
};

void visit_node(JsonObject file, NodeRow& row) {
  file.allow_only({"name", "workers", "up_gbps", "down_gbps", "inside_latency_us", "inside_gbps"});
  if (file.has("name", !row.name.empty())) file.field("name", row.name);
  file.field("workers", row.workers);
  file.field("up_gbps", row.up_gbps, JsonObject::kAbove0);
  file.field("down_gbps", row.down_gbps, JsonObject::kAbove0);
  const bool shares = row.workers > 1;
  if (shares || file.has("inside_latency_us", shares)) file.field("inside_latency_us", row.inside_latency_us);
  if (shares || file.has("inside_gbps", shares)) file.field("inside_gbps", row.inside_gbps, JsonObject::kAbove0);
}

void visit_pair(JsonObject& file, PairRow& row) {
  file.allow_only({"from", "to", "latency_us", "gbps"});
  file.field("from", row.from, 0);
  file.field("to", row.to, 0);
  file.field("latency_us", row.latency_us);
  file.field("gbps", row.gbps, JsonObject::kAbove0);
}

/// Checks the nodes of a pair that is read, and that it is the first of them.
void check_pair(const JsonObject& file, const PairRow& row, std::size_t nodes, std::vector<bool>& is_known) {
  const std::string valid = nodes == 1 ? "no pair, as there is one node" : fmt::format("node in [0, {}]", nodes - 1);
  if (row.from >= nodes) file.fail("from", valid);
  if (row.to >= nodes) file.fail("to", valid);
  if (row.to == row.from)
    file.fail("to", "another node than from; inside_latency_us and inside_gbps of a node say what is inside it");
  const std::size_t place = row.from * nodes + row.to;
  if (is_known[place]) file.fail("to", fmt::format("each ordered pair once; an earlier one is of {}, too", row.from));
  is_known[place] = true;
}

void visit_nodes(JsonObject& file, std::vector<NodeRow>& nodes) {
  file.list("nodes", nodes, visit_node);
  if (nodes.empty()) file.fail("nodes", "at least one node");
}

}  // namespace

NodeLinks parse_network_file(const std::string& text, const std::string& name) {
  JsonText json(text, name);
  JsonObject file = json.object();
  file.version(kVersion);
  file.allow_only({"version", "source", "nodes", "pairs"});
  std::string source;
  if (file.has("source")) file.field("source", source);
  NodeLinks links;
  std::vector<NodeRow> rows;
  visit_nodes(file, rows);
  for (const NodeRow& row : rows) {
    links.workers.push_back(row.workers);
    links.inside.push_back(NetworkModel::from_units(row.inside_latency_us, row.inside_gbps));
    links.up.push_back(NetworkModel::from_units(0, row.up_gbps).bytes_per_second);
    links.down.push_back(NetworkModel::from_units(0, row.down_gbps).bytes_per_second);
    links.names.push_back(row.name);
  }
  const std::size_t nodes = rows.size();
  links.pairs.resize(nodes * nodes);
  std::vector<bool> is_known(nodes * nodes);
  std::vector<PairRow> pairs;
  file.list("pairs", pairs, [&](JsonObject object, PairRow& row) {
    visit_pair(object, row);
    check_pair(object, row, nodes, is_known);
    links.pairs[row.from * nodes + row.to] = NetworkModel::from_units(row.latency_us, row.gbps);
  });
  for (std::size_t place = 0; place < is_known.size(); ++place) {
    const std::size_t from = place / nodes, to = place % nodes;
    if (from == to || is_known[place]) continue;
    throw DataError(
        fmt::format("{}: pairs: there is none with from = {} and to = {}: expected all {} ordered pairs of "
                    "{} nodes",
                    name, from, to, nodes * (nodes - 1), nodes));
  }
  return links;
}

NodeLinks read_network_file(const std::filesystem::path& path) {
  return parse_network_file(read_text_file(path, kMaxBytes), path.string());
}

std::string network_file_text(const NodeLinks& links, const std::string& source) {
  const auto gbps = [](double bytes_per_second) { return NetworkModel{0, bytes_per_second}.gbps(); };
  const std::size_t count = links.workers.size();
  std::vector<NodeRow> nodes;
  std::vector<PairRow> pairs;
  for (std::size_t from = 0; from < count; ++from) {
    nodes.push_back({links.names.empty() ? "" : links.names[from], links.workers[from], gbps(links.up[from]),
                     gbps(links.down[from]), links.inside[from].latency_us(), links.inside[from].gbps()});
    for (std::size_t to = 0; to < count; ++to) {
      const NetworkModel& pair = links.pairs[from * count + to];
      if (to != from) pairs.push_back({from, to, pair.latency_us(), pair.gbps()});
    }
  }
  JsonText json;
  JsonObject file = json.object();
  file.version(kVersion);
  if (!source.empty()) file.write("source", source);
  visit_nodes(file, nodes);
  file.list("pairs", pairs, [](JsonObject object, PairRow& row) { visit_pair(object, row); });
  return json.text(1) + "\n";
}

}  // namespace dragonn::comm
