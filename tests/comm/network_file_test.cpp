// SPDX-License-Identifier: MIT
// Network files: what is read from them, what they refuse, and that what is written is read as it was.
#include "comm/network_file.h"

#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "comm/node_links.h"
#include "core/error.h"

namespace dragonn::comm::test {
namespace {

const std::string kNode = R"({"workers": 1, "up_gbps": 0.1, "down_gbps": 0.2})";

std::string file_of(const std::string& nodes, const std::string& pairs) {
  return fmt::format(R"({{"version": 1, "nodes": [{}], "pairs": [{}]}})", nodes, pairs);
}

/// Two nodes, and one pair in place of that from 0 to 1.
std::string with_pair(const std::string& pair) {
  return file_of(kNode + ", " + kNode, pair + R"(, {"from": 1, "to": 0, "latency_us": 70, "gbps": 0.05})");
}

std::string error_of(const std::string& text) {
  try {
    parse_network_file(text, "net.json");
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_SUITE("comm") {
  TEST_CASE("network file: nodes and ordered pairs are read, in units of bytes and seconds") {
    const std::string text =
        file_of(kNode + R"(, {"name": "b", "workers": 2, "up_gbps": 8, "down_gbps": 4, "inside_latency_us": 3, )"
                        R"("inside_gbps": 80})",
                R"({"from": 1, "to": 0, "latency_us": 70, "gbps": 0.05}, )"
                R"({"from": 0, "to": 1, "latency_us": 50, "gbps": 16})");
    const NodeLinks links = parse_network_file(text, "net.json");
    CHECK(links.workers == std::vector{1, 2});
    CHECK(links.names == std::vector<std::string>{"", "b"});
    CHECK(links.up == std::vector{1.25e7, 1e9});
    CHECK(links.down == std::vector{2.5e7, 5e8});
    CHECK(links.inside[1].latency_us() == doctest::Approx(3));
    CHECK(links.inside[1].bytes_per_second == 1e10);
    CHECK(links.pairs[1].bytes_per_second == 2e9);
    CHECK(links.pairs[2].latency_us() == doctest::Approx(70));
    CHECK_FALSE(links.is_plain());
    CHECK(path_between(links, 0, 1).bytes_per_second == 1.25e7);  // of the sender
    CHECK(path_between(links, 1, 0).bytes_per_second == 6.25e6);  // of the pair
    CHECK(slowest_path(links).bytes_per_second == 6.25e6);
    CHECK(slowest_path(links).latency_us() == doctest::Approx(70));
    CHECK(describe(links) == "2 nodes with 1, 2 workers, 0.05 to 0.1 Gbit/s and 50 to 70 us latency between them");
  }

  TEST_CASE("network file: what is written is read as it was") {
    const NodeLinks links{.workers = {2, 1},
                          .inside = {{.latency_seconds = 2e-6, .bytes_per_second = 1e9}, {}},
                          .up = {1e6, 3e6},
                          .down = {2e6, 5e6},
                          .pairs = {{}, {1e-4, 7e5}, {3e-4, 9e5}, {}},
                          .names = {"first", "second"}};
    const NodeLinks read = parse_network_file(network_file_text(links, "a test"), "net.json");
    CHECK(read.workers == links.workers);
    CHECK(read.names == links.names);
    for (std::size_t node = 0; node < 2; ++node) {
      CHECK(read.up[node] == doctest::Approx(links.up[node]).epsilon(1e-12));
      CHECK(read.down[node] == doctest::Approx(links.down[node]).epsilon(1e-12));
    }
    CHECK(read.inside[0].bytes_per_second == doctest::Approx(1e9).epsilon(1e-12));
    for (const std::size_t place : {1, 2}) {
      CHECK(read.pairs[place].latency_seconds == doctest::Approx(links.pairs[place].latency_seconds).epsilon(1e-12));
      CHECK(read.pairs[place].bytes_per_second == doctest::Approx(links.pairs[place].bytes_per_second).epsilon(1e-12));
    }
  }

  TEST_CASE("network file: a node alone has no pairs") {
    const NodeLinks links = parse_network_file(
        file_of(R"({"workers": 4, "up_gbps": 1, "down_gbps": 1, "inside_latency_us": 2, "inside_gbps": 40})", ""),
        "net.json");
    CHECK(slowest_path(links).bytes_per_second == 5e9);
    CHECK(describe(links) == "1 node with 4 workers, 40 Gbit/s and 2 us latency inside it");
  }

  TEST_CASE("network file: an error names the file, the place, the key and what is valid") {
    CHECK(error_of(file_of("", "")) == "net.json: nodes is an array: expected at least one node");
    CHECK(error_of(R"({"version": 2})") == "net.json: version = 2: expected 1");
    CHECK(error_of(file_of(kNode + ", " + kNode, R"({"from": 1, "to": 0, "latency_us": 70, "gbps": 0.05})")) ==
          "net.json: pairs: there is none with from = 0 and to = 1: expected all 2 ordered pairs of 2 nodes");
    CHECK(error_of(with_pair(R"({"from": 0, "to": 2, "latency_us": 1, "gbps": 1})")) ==
          "net.json: pairs 0: to = 2: expected node in [0, 1]");
    CHECK(error_of(with_pair(R"({"from": -1, "to": 1, "latency_us": 1, "gbps": 1})")) ==
          "net.json: pairs 0: from = -1: expected integer in [0, 4294967295]");
    CHECK(error_of(with_pair(R"({"from": 1, "to": 1, "latency_us": 1, "gbps": 1})")) ==
          "net.json: pairs 0: to = 1: expected another node than from; inside_latency_us and inside_gbps of a node say "
          "what is "
          "inside it");
    CHECK(error_of(with_pair(R"({"from": 1, "to": 0, "latency_us": 1, "gbps": 1})")) ==
          "net.json: pairs 1: to = 0: expected each ordered pair once; an earlier one is of 1, too");
    CHECK(error_of(with_pair(R"({"from": 0, "to": 1, "latency_us": 1, "gbps": 0})")) ==
          "net.json: pairs 0: gbps = 0: expected number above 0");
    CHECK(error_of(with_pair(R"({"from": 0, "to": 1, "gbps": 1})")) ==
          "net.json: pairs 0: latency_us is missing: expected number of at least 0");
    CHECK(error_of(with_pair(R"({"from": 0, "to": 1, "latency_us": 1, "gbps": 1, "gpbs": 1})"))
              .starts_with("net.json: pairs 0: unknown key 'gpbs'; did you mean 'gbps'?"));
    CHECK(error_of(file_of(R"({"workers": 2, "up_gbps": 1, "down_gbps": 1})", "")) ==
          "net.json: nodes 0: inside_latency_us is missing: expected number of at least 0");
    CHECK(error_of(file_of(R"({"workers": 0, "up_gbps": 1, "down_gbps": 1})", ""))
              .starts_with("net.json: nodes 0: workers = 0: expected integer in [1, "));
    CHECK(error_of("[]") == "net.json: expected an object");
    CHECK(error_of("{").starts_with("net.json: no JSON: "));
    CHECK_THROWS_AS(read_network_file("no-such-folder/net.json"), MissingFileError);
  }
}

}  // namespace dragonn::comm::test
