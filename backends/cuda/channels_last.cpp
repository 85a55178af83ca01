// All images that could lie channels-last are taken to; then those go that an operator wants
// row-major, and with them those that must lie as they do, until nothing changes.
#include "backends/cuda/channels_last.h"

#include "actor/calls/operands.h"
#include "core/operators/layers/windows.h"
#include "core/operators/reductions/reduced_dims.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace sextant {
namespace {

constexpr std::size_t kImageRank = 4;
constexpr std::int64_t kPack = 8;          // elements of 16 bits in 16 bytes
constexpr std::int64_t kFewestPixels = 4;  // of all samples

// One operand of an actor.
struct Seen {
  const Register* reg = nullptr;
  bool is_state = false;

  const Shape& shape() const { return reg->local.shape; }
  bool is_image() const { return shape().rank() == kImageRank; }
};

struct SeenActor {
  const Actor* actor = nullptr;
  std::vector<Seen> in, out;
};

bool is_one_of(std::string_view kind, std::initializer_list<std::string_view> kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

bool is_convolution(std::string_view kind) {
  return is_one_of(kind, {"conv", "conv_grad_input", "conv_grad_weight"});
}
// Which operand of a convolution is the weight or its gradient: inputs first.
std::size_t weight_of_convolution(std::string_view kind) {
  return kind == "conv_grad_weight" ? 2 : 1;
}

// Statistics and weights per channel.
bool is_per_channel(std::string_view kind, const Attributes& attributes) {
  const ReducedDims dims(kind, attributes, kImageRank);
  const ReducedDims all_but_channels = ReducedDims::all_but(kind, {1}, kImageRank);
  if (dims.reduced() != all_but_channels.reduced()) return false;
  return !attributes.contains("weight_dims") ||
         ReducedDims::all_but(kind, attributes.integers("weight_dims"), kImageRank).reduced() ==
             all_but_channels.reduced();
}

// Whether kernels of the operator take images in either order, all of them in one.
bool takes_images(std::string_view kind, const Attributes& attributes, std::size_t num_inputs) {
  if (is_one_of(kind, {"add", "relu", "relu_grad", "max_pool", "max_pool_grad"})) return true;
  // What is left per channel of a norm.
  if (is_one_of(kind, {"scale", "add_scalar", "rsqrt"})) return true;
  if (kind == "normalize") return num_inputs == 5 && is_per_channel(kind, attributes);
  if (kind == "normalize_grad_weight") return num_inputs == 4 && is_per_channel(kind, attributes);
  if (kind == "normalize_grad_input")
    return num_inputs == 7 && attributes.contains("sums") &&
           attributes.text("sums") == "of_weights" && is_per_channel(kind, attributes);
  return false;
}

bool takes_images(const Actor& actor) {
  if (actor.members.empty()) {
    // Of an image something smaller, or the other way round.
    if (is_one_of(actor.kind, {"reduce_mean", "reduce_squares", "expand"}))
      return !actor.attributes.boolean_or("keep_dims", false);
    if (is_one_of(actor.kind, {"scale", "add_scalar", "rsqrt"})) return false;
    return takes_images(actor.kind, actor.attributes, actor.in.size());
  }
  return std::all_of(actor.members.begin(), actor.members.end(), [](const ActorMember& member) {
    if (is_one_of(member.kind, {"reduce_mean", "reduce_squares"}))
      return is_per_channel(member.kind, member.attributes);
    return takes_images(member.kind, member.attributes, member.in.size());
  });
}

bool is_pool(const Actor& actor) { return is_one_of(actor.kind, {"max_pool", "max_pool_grad"}); }

// Windows whose taps a byte counts, of which shared memory holds a few rows.
bool has_small_windows(const SeenActor& pool) {
  constexpr std::int64_t kMostTaps = 64, kMostColumns = 512;
  std::int64_t taps = 1;
  for (const std::int64_t extent : pool.actor->attributes.integers("kernel")) taps *= extent;
  const auto is_narrow = [](const Seen& image) { return image.shape()[3] <= kMostColumns; };
  return taps <= kMostTaps && std::all_of(pool.in.begin(), pool.in.end(), is_narrow) &&
         std::all_of(pool.out.begin(), pool.out.end(), is_narrow);
}

// All windows of all of x: cuDNN knows no other convolution.
bool has_all_windows(const Actor& actor, const Shape& x, const Shape& w, const Shape& y) {
  const Windows windows(actor.kind, actor.attributes, spatial_extents(w));
  for (std::size_t dim = 0; dim < windows.rank(); ++dim)
    if (y[kFirstSpatialDim + dim] != windows.count(dim, x[kFirstSpatialDim + dim])) return false;
  return true;
}

class Choice {
 public:
  Choice(const PhysicalGraph& graph, ProgramId program) : graph_(graph) {
    see(program);
    for (const SeenActor& seen : actors_)
      for (const auto* operands : {&seen.in, &seen.out})
        for (const Seen& operand : *operands)
          if (could_be(operand)) chosen_.insert(operand.reg);
    for (bool changes = true; changes;) {
      changes = false;
      for (const SeenActor& seen : actors_) changes = drop_of(seen) || changes;
    }
  }
  std::set<const Register*> chosen() && { return std::move(chosen_); }

 private:
  void see(ProgramId id) {
    const OperandResolver resolver(graph_, id);
    const RankProgram& program = graph_.programs[id];
    for (const InstanceId i : program.instances.keys()) {
      const Block& block = graph_.block_of(program.instances[i]);
      for (std::size_t a = 0; a < block.actors.size(); ++a) {
        SeenActor& seen = actors_.emplace_back();
        seen.actor = &block.actors[a];
        resolver.for_each_operand(
            i, static_cast<std::int32_t>(a),
            [&](InstanceId owner, std::int32_t reg, std::int64_t, bool writes) {
              const Block& of = graph_.block_of(program.instances[owner]);
              const Register& info = of.registers[static_cast<std::size_t>(reg)];
              const Frame& frame = of.frames[static_cast<std::size_t>(info.frame)];
              (writes ? seen.out : seen.in).push_back({&info, frame.initially_full});
            });
      }
    }
  }

  // Images of 16 bits whose channels fill packs, all of each image: which of the images a rank has
  // is the same in either order.
  bool could_be(const Seen& operand) const {
    const TensorType& type = operand.reg->local;
    if (!operand.is_image() || operand.is_state) return false;
    if (type.dtype != DType::kBF16 && type.dtype != DType::kF16) return false;
    const Shape& shape = type.shape;
    const Shape& global = graph_.layouts[operand.reg->layout].global.shape;
    const auto is_whole = [&](std::size_t dim) { return shape[dim] == global[dim]; };
    return is_whole(1) && is_whole(2) && is_whole(3) && shape[1] > 0 && shape[1] % kPack == 0 &&
           shape[0] * shape[2] * shape[3] >= kFewestPixels;
  }

  bool drop(const Seen& operand) { return chosen_.erase(operand.reg) > 0; }

  bool drop_of(const SeenActor& seen) {
    std::vector<Seen> all = seen.in;
    all.insert(all.end(), seen.out.begin(), seen.out.end());
    if (is_convolution(seen.actor->kind)) return drop_of_convolution(*seen.actor, all);
    const bool is_taken = takes_images(*seen.actor) && have_image_rank(all) &&
                          (!is_pool(*seen.actor) || has_small_windows(seen));
    std::erase_if(all, [](const Seen& operand) { return !operand.is_image(); });
    if (all.empty()) return false;
    const bool is_between =
        is_one_of(seen.actor->kind, {"reduce_mean", "reduce_squares", "expand"});
    const bool are_alike = is_taken && (!is_between || all.size() == 1) &&
                           std::all_of(all.begin(), all.end(), [&](const Seen& operand) {
                             return chosen_.contains(operand.reg) &&
                                    (is_pool(*seen.actor) || operand.shape() == all[0].shape());
                           });
    if (are_alike) return false;
    bool dropped = false;
    for (const Seen& operand : all) dropped = drop(operand) || dropped;
    return dropped;
  }

  // None has more dims than an image: what dims an attribute names is clear then.
  static bool have_image_rank(const std::vector<Seen>& operands) {
    return std::all_of(operands.begin(), operands.end(),
                       [](const Seen& operand) { return operand.shape().rank() <= kImageRank; });
  }

  bool drop_of_convolution(const Actor& actor, const std::vector<Seen>& all) {
    const std::size_t weight = weight_of_convolution(actor.kind);
    const bool makes_x = actor.kind == "conv_grad_input";
    const Shape &x = all[makes_x ? 2 : 0].shape(), &w = all[weight].shape(),
                &y = all[makes_x ? 0 : 3 - weight].shape();
    bool dropped = drop(all[weight]);
    if (x.rank() == kImageRank && !has_all_windows(actor, x, w, y))
      for (const Seen& operand : all) dropped = drop(operand) || dropped;
    return dropped;
  }

  const PhysicalGraph& graph_;
  std::vector<SeenActor> actors_;
  std::set<const Register*> chosen_;
};

bool has_convolutions(const PhysicalGraph& graph) {
  return std::any_of(graph.blocks.begin(), graph.blocks.end(), [](const Block& block) {
    return std::any_of(block.actors.begin(), block.actors.end(),
                       [](const Actor& actor) { return is_convolution(actor.kind); });
  });
}

}  // namespace

#ifdef SEXTANT_HAS_CUDNN
ChannelsLast::ChannelsLast(const PhysicalGraph& graph, ProgramId program) {
  if (has_convolutions(graph)) registers_ = Choice(graph, program).chosen();
}
#else
ChannelsLast::ChannelsLast(const PhysicalGraph& /*graph*/, ProgramId /*program*/) {}
#endif

}  // namespace sextant
