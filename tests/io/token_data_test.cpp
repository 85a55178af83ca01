// Samples and their sharding: what the loader promises in io/README.md.
#include "io/data/token_data.h"

#include "core/base/error.h"
#include "io/open_data.h"
#include "io/training_host.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace sextant::token_data_test {
namespace {

namespace fs = std::filesystem;

// A folder of its own that goes away.
struct TemporaryFolder {
  fs::path path;
  TemporaryFolder() : path(fs::temp_directory_path() / fs::path("sextant_token_data_test")) {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~TemporaryFolder() { fs::remove_all(path); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << text;
  }
};

// One stage of `words` over [dp]; an `input` actor whose output is [batch, sequence] i32.
PhysicalGraph input_graph(std::int64_t parts, const NdSbp& words, std::int64_t batch,
                          std::int64_t sequence, const std::string& name, std::int64_t limit) {
  PhysicalGraph graph;
  Placement placement{{{"dp", parts}}, {}};
  for (std::int64_t i = 0; i < parts; ++i) placement.ranks.push_back(Rank(static_cast<int>(i)));
  graph.placements = {placement};
  graph.layouts = {{{Shape{batch, sequence}, DType::kI32}, words, PlacementId(0)}};
  Block block;
  Actor actor;
  actor.kind = "input";
  actor.name = name;
  actor.queue = QueueRole::kHost;
  actor.attributes.set("limit", limit);
  actor.out = {0};
  block.actors = {actor};
  Register reg;
  reg.layout = LayoutId(0);
  reg.local = {Shape{batch, sequence}, DType::kI32};
  block.registers = {reg};
  block.frames = {Frame{}};
  graph.blocks = {block};
  RankProgram program;
  program.placement = PlacementId(0);
  Instance instance;
  instance.block = BlockId(0);
  instance.acts_per_step = 3;
  program.instances = {instance};
  graph.programs = {program};
  for (std::int64_t i = 0; i < parts; ++i)
    graph.ranks.push_back({ProgramId(0), static_cast<std::int32_t>(i), {}});
  return graph;
}

constexpr std::int32_t kUntouched = -7;

std::vector<std::int32_t> load(TrainingHost& host, const PhysicalGraph& graph, int rank,
                               std::int64_t step, std::int64_t act, std::int64_t kept_steps = 0) {
  const std::int64_t elements = shard_of(graph, LayoutId(0), Rank(rank)).local_shape().elements();
  std::vector<std::int32_t> ids(static_cast<std::size_t>(elements), kUntouched);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(ids));
  const std::vector<std::span<std::byte>> outputs = {bytes};
  HostAct host_act;
  host_act.rank = Rank(rank);
  host_act.graph = &graph;
  host_act.instance = &graph.programs[ProgramId(0)].instances[InstanceId(0)];
  host_act.actor = &graph.blocks[BlockId(0)].actors[0];
  host_act.step = step;
  host_act.act = act;
  host_act.outputs = outputs;
  host_act.kept_steps = kept_steps;
  host.act(host_act);
  return ids;
}

TokenData counting(std::int32_t count) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  return TokenData(ids);
}

}  // namespace

TEST_CASE("labels are the tokens one place later") {
  const TokenData data = counting(1000);
  TrainingHost host(data, 7);
  const auto tokens = load(host, input_graph(1, {Sbp::broadcast()}, 2, 5, "tokens", 1000), 0, 4, 2);
  const auto labels = load(host, input_graph(1, {Sbp::broadcast()}, 2, 5, "labels", 1000), 0, 4, 2);
  REQUIRE(tokens.size() == 10);
  for (std::size_t i = 0; i < tokens.size(); ++i) CHECK(labels[i] == tokens[i] + 1);
}

TEST_CASE(
    "any split of the batch joins to the batch of one device, uneven and empty parts included") {
  const TokenData data = counting(500);
  TrainingHost host(data, 3);
  for (const std::int64_t batch : {1, 2, 5, 6}) {
    const auto whole =
        load(host, input_graph(1, {Sbp::broadcast()}, batch, 7, "tokens", 500), 0, 1, 2);
    for (std::int64_t parts = 1; parts <= 4; ++parts) {
      const PhysicalGraph graph = input_graph(parts, {Sbp::split(0)}, batch, 7, "tokens", 500);
      std::vector<std::int32_t> joined;
      for (int rank = 0; rank < parts; ++rank)
        for (const std::int32_t id : load(host, graph, rank, 1, 2)) joined.push_back(id);
      CHECK(joined == whole);
    }
  }
}

TEST_CASE("the global batch of a step does not depend on the size of micro-batches") {
  // Two micro-batches of 3 samples or six of 1: sample indices 6 * step + 0 .. 5 either way.
  const TokenData data = counting(400);
  TrainingHost host(data, 3);
  PhysicalGraph large = input_graph(1, {Sbp::broadcast()}, 3, 4, "tokens", 400);
  large.programs[ProgramId(0)].instances[InstanceId(0)].acts_per_step = 2;
  PhysicalGraph small = input_graph(1, {Sbp::broadcast()}, 1, 4, "tokens", 400);
  small.programs[ProgramId(0)].instances[InstanceId(0)].acts_per_step = 6;
  std::vector<std::int32_t> a, b;
  for (std::int64_t act = 0; act < 2; ++act)
    for (const std::int32_t id : load(host, large, 0, 5, act)) a.push_back(id);
  for (std::int64_t act = 0; act < 6; ++act)
    for (const std::int32_t id : load(host, small, 0, 5, act)) b.push_back(id);
  CHECK(a == b);
}

// Behind 4 steps of 6 samples, with 3 in a step from then on: step 4 begins with sample 24.
TEST_CASE("data go on behind the samples that were read, also with another global batch") {
  const TokenData data = counting(400);
  TrainingHost whole(data, 3), resumed(data, 3);
  resumed.start_at(4, 24);
  PhysicalGraph three = input_graph(1, {Sbp::broadcast()}, 3, 4, "tokens", 400);
  three.programs[ProgramId(0)].instances[InstanceId(0)].acts_per_step = 1;
  for (std::int64_t step = 0; step < 3; ++step)
    CHECK(load(resumed, three, 0, 4 + step, 0) == load(whole, three, 0, 8 + step, 0));
  CHECK(load(resumed, three, 0, 4, 0) != load(whole, three, 0, 4, 0));
}

TEST_CASE("an id outside the vocabulary is refused with sample and place") {
  const TokenData data(std::vector<std::int32_t>{0, 3, 10, 9, 9});
  TrainingHost host(data, 0);
  const PhysicalGraph graph = input_graph(1, {Sbp::broadcast()}, 1, 4, "tokens", 10);
  // Four tokens from five leave one place to start: the sample is 0, 3, 10, 9.
  CHECK_THROWS_WITH_AS(load(host, graph, 0, 0, 0),
                       "tokens: sample 0, place 2: id 10 is outside the vocabulary 0 to 9", Error);
}

TEST_CASE("the ignored label passes the range check and others below zero do not") {
  PhysicalGraph graph = input_graph(1, {Sbp::broadcast()}, 1, 2, "labels", 10);
  graph.blocks[BlockId(0)].actors[0].attributes.set("ignore_index", std::int64_t{-100});
  const TokenData ignored(std::vector<std::int32_t>{1, -100, 2});
  TrainingHost host(ignored, 0);
  CHECK(load(host, graph, 0, 0, 0) == std::vector<std::int32_t>{-100, 2});
  const TokenData negative(std::vector<std::int32_t>{1, -1, 2});
  TrainingHost refusing(negative, 0);
  CHECK_THROWS_AS(load(refusing, graph, 0, 0, 0), Error);
}

TEST_CASE("G23: labels 4 and -1 of a vocabulary of 4 are refused with row and value, -100 is not") {
  // Both ranks of a split vocabulary read the labels whole, so both refuse, before they compute.
  PhysicalGraph graph = input_graph(2, {Sbp::broadcast()}, 1, 3, "labels", 4);
  graph.blocks[BlockId(0)].actors[0].attributes.set("ignore_index", std::int64_t{-100});
  const auto labels_of = [&](std::int32_t label, int rank) {
    const TokenData data(std::vector<std::int32_t>{0, 3, label, 2});
    TrainingHost host(data, 0);
    return load(host, graph, rank, 0, 0);
  };
  for (const int rank : {0, 1}) {
    CHECK_THROWS_WITH_AS(labels_of(4, rank),
                         "labels: sample 0, place 1: id 4 is outside the vocabulary 0 to 3", Error);
    CHECK_THROWS_WITH_AS(labels_of(-1, rank),
                         "labels: sample 0, place 1: id -1 is outside the vocabulary 0 to 3",
                         Error);
    CHECK(labels_of(-100, rank) == std::vector<std::int32_t>{3, -100, 2});
  }
}

TEST_CASE("synthetic data joins to the same samples however it is split, and stays in range") {
  for (const char* name : {"ids", "labels"}) {
    TrainingHost host(11);
    const auto whole = load(host, input_graph(1, {Sbp::broadcast()}, 6, 3, name, 5), 0, 2, 1);
    for (const std::int32_t id : whole) CHECK((id >= 0 && id < 5));
    CHECK(std::set<std::int32_t>(whole.begin(), whole.end()).size() > 2);
    for (const std::int64_t parts : {2, 4}) {
      const PhysicalGraph graph = input_graph(parts, {Sbp::split(0)}, 6, 3, name, 5);
      std::vector<std::int32_t> joined;
      for (int rank = 0; rank < parts; ++rank)
        for (const std::int32_t id : load(host, graph, rank, 2, 1)) joined.push_back(id);
      CHECK(joined == whole);
    }
    // Two micro-batches of 3 samples are one of 6.
    PhysicalGraph small = input_graph(1, {Sbp::broadcast()}, 3, 3, name, 5);
    small.programs[ProgramId(0)].instances[InstanceId(0)].acts_per_step = 2;
    PhysicalGraph large = input_graph(1, {Sbp::broadcast()}, 6, 3, name, 5);
    large.programs[ProgramId(0)].instances[InstanceId(0)].acts_per_step = 1;
    std::vector<std::int32_t> both = load(host, small, 0, 4, 0);
    for (const std::int32_t id : load(host, small, 0, 4, 1)) both.push_back(id);
    CHECK(both == load(host, large, 0, 4, 0));
  }
}

TEST_CASE("every step reads the same synthetic batch, whose micro-batches differ") {
  TrainingHost host(11);
  const PhysicalGraph graph = input_graph(1, {Sbp::broadcast()}, 6, 3, "ids", 50);
  const auto first = load(host, graph, 0, 0, 0), second = load(host, graph, 0, 0, 1);
  CHECK(first != second);
  for (const std::int64_t step : {1, 7}) {
    CHECK(load(host, graph, 0, step, 0) == first);
    CHECK(load(host, graph, 0, step, 1) == second);
  }
  // Equal inputs of other names, and other ranges of one name, are others.
  CHECK(load(host, input_graph(1, {Sbp::broadcast()}, 6, 3, "others", 50), 0, 0, 0) != first);
  CHECK(load(host, input_graph(1, {Sbp::broadcast()}, 6, 3, "ids", 60), 0, 0, 0) != first);
}

TEST_CASE("synthetic data beyond the room for it is drawn anew, the same in every step") {
  const PhysicalGraph graph = input_graph(1, {Sbp::broadcast()}, 6, 3, "ids", 50);
  const Bytes micro_batch(6 * 3 * 4);
  TrainingHost roomy(11), tight(11, micro_batch), none(11, Bytes(0));
  for (const std::int64_t step : {0, 1, 5})
    for (const std::int64_t act : {0, 1}) {
      const auto expected = load(roomy, graph, 0, step, act);
      CHECK(load(tight, graph, 0, step, act) == expected);
      CHECK(load(none, graph, 0, step, act) == expected);
    }
  CHECK(roomy.kept_data() == 2 * micro_batch);
  CHECK(tight.kept_data() == micro_batch);
  CHECK(none.kept_data() == Bytes(0));
}

TEST_CASE("the bytes of synthetic data are those of a global batch") {
  PhysicalGraph graph = input_graph(2, {Sbp::split(0)}, 6, 3, "deep_ids", 50);
  for (RankProgram& program : graph.programs) program.instances[InstanceId(0)].acts_per_step = 4;
  CHECK(synthetic_bytes(graph, nullptr) == Bytes(4 * 6 * 3 * 4));
  const TokenData data = counting(50);
  CHECK(synthetic_bytes(input_graph(1, {Sbp::broadcast()}, 6, 3, "tokens", 50), &data) == Bytes(0));
}

TEST_CASE("synthetic data that the device keeps is written once") {
  // Two steps have buffers of their own: steps 0 and 1 fill them, later ones find them filled.
  TrainingHost host(11);
  const PhysicalGraph graph = input_graph(1, {Sbp::broadcast()}, 2, 3, "ids", 50);
  for (const std::int64_t step : {0, 1})
    CHECK(load(host, graph, 0, step, 0, 2) == load(host, graph, 0, step, 0));
  for (const std::int64_t step : {2, 3})
    CHECK(load(host, graph, 0, step, 0, 2) == std::vector<std::int32_t>(6, kUntouched));
  // A text goes on: its next samples are written.
  const TokenData data = counting(100);
  TrainingHost reader(data, 3);
  const PhysicalGraph tokens = input_graph(1, {Sbp::broadcast()}, 2, 3, "tokens", 100);
  CHECK(load(reader, tokens, 0, 2, 0, 2) == load(reader, tokens, 0, 2, 0));
}

TEST_CASE("token data fills what it has, and other inputs are named as synthetic") {
  const TokenData data = counting(100);
  const PhysicalGraph tokens = input_graph(1, {Sbp::broadcast()}, 2, 5, "tokens", 100);
  const PhysicalGraph other = input_graph(1, {Sbp::broadcast()}, 2, 5, "deep_ids", 100);
  CHECK(synthetic_inputs(tokens, &data).empty());
  CHECK(synthetic_inputs(tokens, nullptr) == std::vector<std::string>{"tokens"});
  CHECK(synthetic_inputs(other, &data) == std::vector<std::string>{"deep_ids"});
  TrainingHost with_data(data, 3), without(3);
  CHECK(load(with_data, other, 0, 0, 0) == load(without, other, 0, 0, 0));
  CHECK(load(with_data, tokens, 0, 0, 0) != load(without, tokens, 0, 0, 0));
}

TEST_CASE("too little text for one sample is refused with both numbers") {
  const TokenData data = counting(4);
  CHECK_THROWS_WITH_AS(data.sample_start(0, 0, 4),
                       "tokens: 4 tokens, but a sample of sequence length 4 needs 5", Error);
  CHECK(data.sample_start(0, 0, 3) == 0);
}

// 11 tokens are two samples of 5; a global batch of 3 is filled up with one that has no label.
TEST_CASE("a short batch is filled up with ignored labels, which no rank has more batches for") {
  std::vector<std::int32_t> ids(11);
  std::iota(ids.begin(), ids.end(), 1);
  const TokenData data(std::make_shared<TokenList>(ids), "data",
                       parse_order("file last_batch=pad"));
  TrainingHost host(data, 3);
  PhysicalGraph labels = input_graph(3, {Sbp::split(0)}, 3, 5, "labels", 20);
  for (RankProgram& program : labels.programs) program.instances[InstanceId(0)].acts_per_step = 1;
  CHECK_THROWS_WITH_AS(load(host, labels, 2, 0, 0),
                       "data: a short batch is filled up, but the model's input 'labels' has no "
                       "label that is ignored",
                       Error);
  labels.blocks[BlockId(0)].actors[0].attributes.set("ignore_index", std::int64_t{-100});
  PhysicalGraph tokens = input_graph(3, {Sbp::split(0)}, 3, 5, "tokens", 20);
  for (RankProgram& program : tokens.programs) program.instances[InstanceId(0)].acts_per_step = 1;
  using Ids = std::vector<std::int32_t>;
  for (const std::int64_t step : {0, 1, 7}) {
    CHECK(load(host, labels, 0, step, 0) == Ids{2, 3, 4, 5, 6});
    CHECK(load(host, labels, 1, step, 0) == Ids{7, 8, 9, 10, 11});
    CHECK(load(host, labels, 2, step, 0) == Ids(5, -100));
    CHECK(load(host, tokens, 2, step, 0) == Ids(5, 0));
  }
}

TEST_CASE("a masked token is read, and as a label it is the ignored one") {
  const TokenData data(jsonl_tokens("{\"prompt\": \"ab\", \"completion\": \"cd\"}", "x"), "x",
                       parse_order("file"));
  TrainingHost host(data, 3);
  PhysicalGraph labels = input_graph(1, {Sbp::broadcast()}, 1, 4, "labels", 256);
  labels.blocks[BlockId(0)].actors[0].attributes.set("ignore_index", std::int64_t{-100});
  const PhysicalGraph tokens = input_graph(1, {Sbp::broadcast()}, 1, 4, "tokens", 256);
  CHECK(load(host, tokens, 0, 0, 0) == std::vector<std::int32_t>{'a', 'b', 'c', 'd'});
  CHECK(load(host, labels, 0, 0, 0) == std::vector<std::int32_t>{-100, 'c', 'd', 0});
}

TEST_CASE("a folder is read in path order without hidden, build and binary files") {
  const TemporaryFolder folder;
  folder.write("b.txt", "B");
  folder.write("a/z.txt", "A");
  folder.write(".git/x", "hidden");
  folder.write("build-x/y", "built");
  folder.write("c.bin", std::string("\0\1", 2));
  const TokenData data = TokenData::from_path(folder.path.string());
  std::vector<std::int32_t> ids(static_cast<std::size_t>(data.tokens().size()));
  data.tokens().read(0, ids);
  CHECK(ids == std::vector<std::int32_t>{'A', 'B'});
}

TEST_CASE("a folder of several kinds of files is refused, one of JSON lines is read as such") {
  TemporaryFolder folder;
  folder.write("mixed/a.bin", std::string(64, 'a'));
  folder.write("mixed/README.md", "words");
  folder.write("lines/a.jsonl", R"({"prompt": "ab", "completion": "cd"})"
                                "\n");
  folder.write("lines/b.jsonl", R"({"text": "ef"})"
                                "\n");
  fs::create_symlink(folder.path / "ring", folder.path / "ring");
  const auto open = [&](const std::string& name) {
    return open_tokens({.path = (folder.path / name).string(), .format = "", .order = ""});
  };
  CHECK_THROWS_WITH_AS(open("mixed"), doctest::Contains("README.md"), Error);
  CHECK_THROWS_AS(open("ring"), Error);
  CHECK_THROWS_AS(open(std::string(300, 'a')), Error);
  const auto lines = open("lines");
  CHECK(lines->tokens().size() == 8);  // each document has its end
  CHECK(lines->tokens().is_masked(1));
  CHECK_FALSE(lines->tokens().is_masked(2));
}

// Bytes of the file that this process has in its memory.
std::int64_t touched_bytes(const std::string& path) {
  std::ifstream maps("/proc/self/smaps");
  std::int64_t kilobytes = 0;
  bool is_here = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" kB") == std::string::npos && line.find('-') != std::string::npos)
      is_here = line.ends_with(path);
    if (is_here && line.starts_with("Rss:")) kilobytes += std::stoll(line.substr(4));
  }
  return 1024 * kilobytes;
}

TEST_CASE("a text is read where its samples are") {
  if (!fs::exists("/proc/self/smaps")) return;
  constexpr std::size_t kSize = std::size_t{64} << 20;  // mostly a hole
  TemporaryFolder folder;
  folder.write("text", std::string(10'000, 'a'));
  const std::string path = (folder.path / "text").string();
  fs::resize_file(path, kSize);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(kSize / 2 - 1) << "xby";
  }
  const auto tokens = text_tokens(path);
  CHECK(tokens->size() == static_cast<std::int64_t>(kSize));
  std::vector<std::int32_t> ids(3);
  tokens->read(kSize / 2 - 1, ids);
  CHECK(ids == std::vector<std::int32_t>{'x', 'b', 'y'});
  CHECK(touched_bytes(path) > 0);
  // The kernel maps what it has around a page that is touched: up to 2 MiB.
  CHECK(touched_bytes(path) <= std::int64_t{8} << 20);
}

TEST_CASE("a zero byte far behind the begin is an id like any other") {
  TemporaryFolder folder;
  folder.write("near", std::string("a") + std::string(1, '\0'));
  folder.write("far", std::string(9000, 'a') + std::string(1, '\0') + "b");
  const auto tokens = text_tokens(folder.path.string());
  CHECK(tokens->size() == 9002);
  std::vector<std::int32_t> ids(2);
  tokens->read(9000, ids);
  CHECK(ids == std::vector<std::int32_t>{0, 'b'});
}

TEST_CASE("a path that does not exist and a folder without text are refused by name") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(TokenData::from_path((folder.path / "none").string()), Error);
  CHECK_THROWS_AS(TokenData::from_path(folder.path.string()), Error);
}

}  // namespace sextant::token_data_test
