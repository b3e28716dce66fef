#include "nearshare_toml.h"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <cstdio>
#include <string>

namespace {

using Take = void (*)(void *, const struct nearshare_toml_entry *);

/// Tables in tables are told by their full names, joined by dots.
void read_table(const toml::table &table, const std::string &prefix, void *context, Take take) {
    for (const auto &[key, node] : table) {
        const std::string name = prefix + std::string(key.str());
        // An empty table is told as well: its name may be wrong.
        if (const auto *inner = node.as_table(); inner && !inner->empty()) {
            read_table(*inner, name + ".", context, take);
            continue;
        }
        nearshare_toml_entry entry = {};
        entry.key = name.data();
        entry.key_length = name.length();
        entry.kind = NEARSHARE_TOML_OTHER;
        entry.line = static_cast<uint32_t>(node.source().begin.line);
        if (const auto *text = node.as_string()) {
            entry.kind = NEARSHARE_TOML_TEXT;
            entry.text = text->get().data();
            entry.text_length = text->get().size();
        } else if (const auto *integer = node.as_integer()) {
            entry.kind = NEARSHARE_TOML_INTEGER;
            entry.integer = integer->get();
        } else if (const auto *flag = node.as_boolean()) {
            entry.kind = NEARSHARE_TOML_FLAG;
            entry.integer = flag->get();
        }
        std::string texts;
        if (const auto *list = node.as_array(); list && list->is_homogeneous(toml::node_type::string)) {
            for (const auto &element : *list) {
                texts += element.value_or(std::string()) + "\n";
            }
            entry.kind = NEARSHARE_TOML_TEXTS;
            entry.text = texts.data();
            entry.text_length = texts.size();
        }
        take(context, &entry);
    }
}

}  // namespace

int nearshare_toml_read(
    const char *bytes, size_t count, void *context, void (*take)(void *, const struct nearshare_toml_entry *), char *problem,
    size_t problem_size) {
    const auto parsed = toml::parse(std::string_view(bytes, count));
    if (!parsed) {
        const auto &error = parsed.error();
        const auto reason = error.description();
        std::snprintf(
            problem, problem_size, "line %u: %.*s", static_cast<unsigned>(error.source().begin.line),
            static_cast<int>(reason.size()), reason.data());
        return 0;
    }
    read_table(parsed.table(), "", context, take);
    return 1;
}
