// The `main` of every test program; compiled once, because the implementation is the slow part of
// doctest. A test may be some files of a program. It fails if its filter leaves no case, not even
// one that skips itself, as after a file got another name; and it says how many of its cases skip
// themselves, for doctest counts those of the other files as skipped too.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

namespace {

// File names of `--source-file=*/a.cpp,*/b.cpp`; empty without it.
std::vector<std::string> named_files;
bool passed_by_none = false;
int skip_themselves = 0;

void read_named_files(int argc, char** argv) {
  constexpr std::string_view kOption = "--source-file=";
  for (int i = 1; i < argc; ++i) {
    std::string_view text = argv[i];
    if (text.substr(0, kOption.size()) != kOption) continue;
    text.remove_prefix(kOption.size());
    while (!text.empty()) {
      const std::string_view pattern = text.substr(0, text.find(','));
      named_files.emplace_back(
          pattern.substr(std::min(pattern.size(), pattern.find_first_not_of('*'))));
      text.remove_prefix(std::min(text.size(), pattern.size() + 1));
    }
  }
}

bool is_named(std::string_view file) {
  return named_files.empty() ||
         std::any_of(named_files.begin(), named_files.end(), [&](std::string_view name) {
           return file.size() >= name.size() && file.substr(file.size() - name.size()) == name;
         });
}

// Sees what the reporter sees and says nothing.
struct FilterWatch : doctest::IReporter {
  explicit FilterWatch(const doctest::ContextOptions&) {}
  void test_run_end(const doctest::TestRunStats& stats) override {
    passed_by_none = stats.numTestCasesPassingFilters == 0 && skip_themselves == 0;
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData& test) override {
    skip_themselves += test.m_skip && is_named(test.m_file.c_str()) ? 1 : 0;
  }
};

REGISTER_LISTENER("filter_watch", 1, FilterWatch);

}  // namespace

int main(int argc, char** argv) {
  read_named_files(argc, argv);
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (!named_files.empty()) std::cout << "of the files named: " << skip_themselves << " skipped\n";
  if (!passed_by_none) return result;
  std::cerr << "no test case passes the filters\n";
  return 1;
}
