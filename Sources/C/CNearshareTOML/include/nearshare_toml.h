// Reads TOML for Swift through C: a document's strings, lists of them, integers and booleans by their full names, parsed by toml++ (a C++ header library).
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum nearshare_toml_kind {
    NEARSHARE_TOML_TEXT,
    NEARSHARE_TOML_INTEGER,
    /// `integer` is 0 or 1.
    NEARSHARE_TOML_FLAG,
    /// `text` has the strings of an array, each with a line feed behind it.
    NEARSHARE_TOML_TEXTS,
    /// A valid TOML type that no setting has.
    NEARSHARE_TOML_OTHER,
};

/// Texts are UTF-8, not terminated, and valid only during the call.
struct nearshare_toml_entry {
    const char *key;
    size_t key_length;
    enum nearshare_toml_kind kind;
    const char *text;
    size_t text_length;
    int64_t integer;
    /// The line of the value, from 1.
    uint32_t line;
};

/// The first syntax error of a document.
struct nearshare_toml_problem {
    /// From 1.
    uint32_t line;
    /// Whether the line is valid by itself, and sets a key or begins a table a second time.
    int is_repetition;
};

/// Calls `take` for each key, sorted, those in tables by their full names with dots, if the whole document is valid.
/// Returns 1, or 0 with the reason in `problem`.
int nearshare_toml_read(
    const char *bytes, size_t count, void *context, void (*take)(void *context, const struct nearshare_toml_entry *entry),
    struct nearshare_toml_problem *problem);

#ifdef __cplusplus
}
#endif
