// Token ids in order, wherever they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sextant {

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::int64_t size() const = 0;  // tokens
  // Fills `ids` with the tokens from `first` on; all of them are in the source. Throws
  // Error(kBadInput) naming file and token where a file has a number that no id is.
  virtual void read(std::int64_t first, std::span<std::int32_t> ids) const = 0;
  // Whether the loss leaves this token out where it is to be predicted.
  virtual bool is_masked(std::int64_t /*token*/) const { return false; }
  // Of what it holds, so that runs can be compared.
  virtual std::string fingerprint() const = 0;
};

// Ids in memory; any number is taken.
class TokenList final : public TokenSource {
 public:
  // `masked`: one per id, or none.
  explicit TokenList(std::vector<std::int32_t> ids, std::vector<bool> masked = {});
  std::int64_t size() const override { return static_cast<std::int64_t>(ids_.size()); }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override;
  bool is_masked(std::int64_t token) const override;
  std::string fingerprint() const override;

 private:
  std::vector<std::int32_t> ids_;
  std::vector<bool> masked_;
};

// Sources one behind the other.
class JoinedTokens final : public TokenSource {
 public:
  explicit JoinedTokens(std::vector<std::unique_ptr<TokenSource>> parts);
  std::int64_t size() const override { return begins_.back(); }
  void read(std::int64_t first, std::span<std::int32_t> ids) const override;
  bool is_masked(std::int64_t token) const override;
  std::string fingerprint() const override;

 private:
  std::size_t part_of(std::int64_t token) const;

  std::vector<std::unique_ptr<TokenSource>> parts_;
  std::vector<std::int64_t> begins_;  // of each part, and the end
};

}  // namespace sextant
