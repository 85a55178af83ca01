// Samples of tokens: a source of ids, and the order in which samples are cut from it.
#pragma once

#include "core/base/units.h"
#include "io/data/masked_tokens.h"
#include "io/data/sample_data.h"
#include "io/data/sample_order.h"
#include "io/data/text_tokens.h"
#include "io/data/token_source.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// Gives the label that a loss leaves out; `why` one is needed.
using IgnoredLabel = std::function<std::int32_t(const char* why)>;

// What a model is given of `ids`, which were read from token `first` on and lie at the places from
// `place` on of their sample: of labels, those that nobody is to predict become the ignored one; of
// tokens, a masked sample shows what it does. `masked`: nothing where the next token is predicted.
void hide_ids(const TokenSource& tokens, std::int64_t first, const MaskedSample* masked,
              std::int64_t place, bool are_labels, const IgnoredLabel& ignored,
              std::span<std::int32_t> ids);

class TokenData final : public SampleData {
 public:
  explicit TokenData(std::vector<std::int32_t> ids, std::string name = "tokens");
  TokenData(std::shared_ptr<const TokenSource> tokens, std::string name,
            const OrderSettings& order = {.kind = OrderKind::kPlaces});

  // Text in places (`text_tokens`).
  static TokenData from_path(const std::string& path, Bytes limit = kMostText);

  const TokenSource& tokens() const { return *tokens_; }
  const std::string& name() const override { return name_; }
  std::string_view main_input() const override { return "tokens"; }
  // `tokens` and `labels`, [batch, sequence] i32.
  bool fills(std::string_view input, const TensorType& type) const override;
  void check(const TensorType& main_input, std::int64_t global_batch) const override;
  void fill(const InputPart& part, std::span<std::byte> bytes) const override;
  bool depends_on_batch() const override { return order_.last_batch != LastBatch::kWrap; }
  std::string fingerprint() const override;

  // First token of the sample at a position; nothing where a short batch is filled up. Throws
  // Error(kBadInput) where there are not sequence + 1 tokens.
  std::optional<std::int64_t> sample_start(std::uint64_t seed, std::int64_t position,
                                           std::int64_t sequence,
                                           std::int64_t global_batch = 1) const;

 private:
  void fill_row(const InputPart& part, std::int64_t row, std::span<std::int32_t> ids) const;

  std::shared_ptr<const TokenSource> tokens_;
  std::string name_;
  OrderSettings order_;
};

}  // namespace sextant
