"""Which standard or third-party header a header must include itself for the names that it uses.

`missing_includes(text)` goes by text alone: names in comments do not count, an alternative is enough.
"""

import re

# One name, one or more headers that declare it; any of them will do.
HEADERS = {
    "algorithm": "merge all_of any_of equal fill find find_if lower_bound max max_element min minmax next_permutation none_of rotate"
                 " replace reverse sort stable_sort upper_bound clamp copy count count_if transform unique",
    "array": "array",
    "atomic": "atomic memory_order_acquire memory_order_relaxed memory_order_release",
    "bit": "bit_cast bit_ceil bit_width endian popcount has_single_bit countr_zero countl_zero",
    "chrono": "chrono",
    "cmath": "abs ceil exp floor isfinite isinf isnan llround log log2 pow sqrt",
    "compare": "strong_ordering weak_ordering partial_ordering",
    "concepts": "integral floating_point same_as convertible_to invocable constructible_from default_initializable equality_comparable",
    "condition_variable": "condition_variable",
    "cstddef": "byte size_t ptrdiff_t nullptr_t",
    "cstdint": "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t uintptr_t intptr_t",
    "csignal": "signal raise",
    "cstdio": "FILE fopen fclose fread freopen fflush fwrite",
    "cstdlib": "getenv",
    "cstring": "memcpy memcmp memset memmove",
    "deque": "deque",
    "exception": "exception exception_ptr current_exception rethrow_exception",
    "filesystem": "filesystem",
    "fstream": "ifstream ofstream",
    "functional": "equal_to function less greater hash reference_wrapper",
    "future": "future promise",
    "initializer_list": "initializer_list",
    "ios": "ios",
    "iosfwd": "ostream istream",
    "istream": "istream",
    "iterator": "back_inserter input_iterator forward_iterator_tag",
    "limits": "numeric_limits",
    "list": "list",
    "map": "map multimap erase_if",
    "memory": "unique_ptr shared_ptr weak_ptr make_unique make_shared",
    "mutex": "mutex timed_mutex unique_lock lock_guard scoped_lock once_flag call_once",
    "numeric": "accumulate iota gcd lcm reduce",
    "optional": "optional nullopt make_optional",
    "ostream": "ostream",
    "queue": "queue priority_queue",
    "random": "mt19937 mt19937_64 uniform_int_distribution uniform_real_distribution",
    "set": "set multiset erase_if",
    "span": "span as_bytes as_writable_bytes",
    "sstream": "ostringstream istringstream stringstream",
    "stdexcept": "runtime_error logic_error invalid_argument out_of_range",
    "string": "string to_string stoi stol getline",
    "string_view": "string_view",
    "thread": "thread jthread this_thread",
    "tuple": "tuple tie make_tuple apply tuple_size_v",
    "type_traits": "is_same_v is_trivially_copyable_v is_trivially_default_constructible_v is_integral_v is_floating_point_v is_enum_v is_const_v"
                   " conditional_t decay_t remove_cvref_t enable_if_t underlying_type_t invoke_result_t remove_const_t",
    "unordered_map": "unordered_map unordered_multimap",
    "unordered_set": "unordered_set",
    "utility": "pair move forward exchange swap make_pair index_sequence make_index_sequence in_place as_const declval",
    "variant": "variant get_if visit monostate holds_alternative",
    "vector": "vector erase_if",
}
THIRD_PARTY = {"fmt": ("fmt/core.h", "fmt/format.h"), "nlohmann": ("nlohmann/json_fwd.hpp", "nlohmann/json.hpp")}

HEADERS_OF = {}
for _header, _names in HEADERS.items():
    for _name in _names.split():
        HEADERS_OF.setdefault(_name, []).append(_header)

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"", re.DOTALL)
INCLUDE = re.compile(r"^#include <([^>]+)>", re.MULTILINE)
NAME = re.compile(r"(?<![\w:])(?:::)?std::([a-z]\w*)")


def missing_includes(text):
    """[(name, headers of which one is wanted)], and headers None for a name that HEADERS lacks."""
    included = set(INCLUDE.findall(text))
    code = COMMENT.sub("", text)
    missing = []
    for name in sorted(set(NAME.findall(code))):
        headers = HEADERS_OF.get(name)
        if headers is None or not included.intersection(headers):
            missing.append(("std::" + name, headers))
    for namespace, headers in THIRD_PARTY.items():
        if re.search(rf"(?<![\w:])(?:::)?{namespace}::", code) and not included.intersection(headers):
            missing.append((namespace + "::", list(headers)))
    return missing
