// ICU's data package, empty. Foundation, which only the database library uses, contains 34 MB of locale data that nothing here
// reads; a static link takes this package in their place (docs/decisions/without-locale-data.md).
#include <stdint.h>

// The layout is that of ICU's common data format, "ToCP" version 1: a header, and a table of contents with no entries.
struct empty_package {
    uint16_t header_byte_count;
    uint8_t magic[2];
    uint16_t info_byte_count;
    uint16_t reserved;
    uint8_t is_big_endian;
    uint8_t character_family;
    uint8_t uchar_byte_count;
    uint8_t padding;
    uint8_t format[4];
    uint8_t format_version[4];
    uint8_t data_version[4];
    uint8_t alignment[8];
    uint32_t entry_count;
    uint32_t end[3];
};

_Static_assert(sizeof(struct empty_package) == 48, "the header has 32 bytes");

__attribute__((aligned(16), visibility("default"))) const struct empty_package icudt76_dat = {
    .header_byte_count = 32,
    .magic = {0xda, 0x27},
    .info_byte_count = 20,
    .uchar_byte_count = 2,
    .format = {'T', 'o', 'C', 'P'},
    .format_version = {1, 0, 0, 0},
};
