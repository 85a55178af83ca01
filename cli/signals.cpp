// The handler and what it notes.
#include "cli/signals.h"

#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace sextant {
namespace {

// The one place for a signal's number: handlers cannot be handed state.
volatile std::sig_atomic_t signal_number = 0, num_signals = 0, are_noted = 0;

// As errors are written (cli/console.cpp), which a handler may not call.
constexpr std::string_view kDocument = R"({
  "schema": "sextant.error.v1",
  "ok": false,
  "code": "interrupted",
  "message": "interrupted",
  "hints": []
}
)";
volatile std::sig_atomic_t owes_document = 0;

void write_all(int file, std::string_view text) {
  const auto ignored = ::write(file, text.data(), text.size());
  static_cast<void>(ignored);
}

// The path of a file that is being written, while it is; empty otherwise.
constexpr std::size_t kLongestPath = 4096;
char unfinished[kLongestPath];
volatile std::sig_atomic_t has_unfinished = 0;

[[noreturn]] void end_now(int number) {
  if (has_unfinished != 0) ::unlink(unfinished);
  if (owes_document != 0) write_all(STDOUT_FILENO, kDocument);
  write_all(STDERR_FILENO, "\ninterrupted\n");
  std::_Exit(128 + number);
}

extern "C" void note_signal(int number) {
  constexpr int kNow = 3;
  num_signals = num_signals + 1;
  if (are_noted == 0 || num_signals >= kNow) end_now(number);
  if (signal_number == 0) signal_number = number;
}

}  // namespace

void watch_signals() {
  std::signal(SIGINT, note_signal);
  std::signal(SIGTERM, note_signal);
}

void owe_document() { owes_document = 1; }
void document_is_written() { owes_document = 0; }

NotedSignals::NotedSignals() { are_noted = are_noted + 1; }
NotedSignals::~NotedSignals() { are_noted = are_noted - 1; }

RemovedBySignal::RemovedBySignal(const std::string& path) {
  if (has_unfinished != 0 || path.size() >= kLongestPath) return;
  path.copy(unfinished, path.size());
  unfinished[path.size()] = '\0';
  is_noted_ = true;
  has_unfinished = 1;
}

RemovedBySignal::~RemovedBySignal() {
  if (is_noted_) has_unfinished = 0;
}

bool was_interrupted() { return signal_number != 0; }

int interrupting_signal() { return signal_number; }

void ignore_signals() {
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
}

void end_interrupted() {
  std::fflush(stdout);
  end_now(signal_number);
}

}  // namespace sextant
