#include "nearshare_toml.h"

// toml++ asserts what it reports as an error afterwards: "[." as the beginning of a table would end the program, or with NDEBUG be
// undefined.
#undef NDEBUG
#define TOML_ASSERT(expression) static_cast<void>(0)
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <string>
#include <string_view>

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
    const char *bytes, size_t count, void *context, void (*take)(void *, const struct nearshare_toml_entry *),
    struct nearshare_toml_problem *problem) {
    const auto parsed = toml::parse(std::string_view(bytes, count));
    if (!parsed) {
        const auto &error = parsed.error();
        problem->line = static_cast<uint32_t>(error.source().begin.line);
        problem->is_repetition = error.description().find("redefine") != std::string_view::npos;
        return 0;
    }
    read_table(parsed.table(), "", context, take);
    return 1;
}
